//! CPU per read: in the kernel by call (exact), in the sessions that read (user), and by place in the kernel (sampled).

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use dbtime_model::{Frame, LatencyRow, NO_STACK, SessionId, StackId, State, Wait};

use super::reads::ReadSource;
use crate::dimensions::Dimensions;
use crate::histogram::Histogram;
use crate::kernel_layers::{KernelLayer, kernel_layer};
use crate::scan::Activity;
use crate::sums::{FidelityMix, Sums};

/// CPU of reads. Times in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadCpu {
    /// Kernel CPU of calls by bytes returned and source, largest first; exact.
    pub calls: Vec<CallCpu>,
    /// Combinations of size and source that are not listed.
    pub calls_not_shown: usize,
    /// Recorded sessions that read.
    pub sessions: usize,
    /// Their reads.
    pub reads: u128,
    /// User CPU of these sessions, whatever they did.
    pub user_ns: u128,
    /// How it was obtained; none when there is none.
    pub user_fidelity: Option<FidelityMix>,
    /// Where in the kernel reads spent CPU, largest first; sampled.
    pub layers: Vec<LayerTime>,
    /// Sum of the layers.
    pub layers_ns: u128,
    /// Samples behind it.
    pub samples: u128,
    /// Kernel CPU in waits for reads without a recorded stack; in none of the layers.
    pub without_stack_ns: u128,
}

/// Kernel CPU of calls of one size and source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallCpu {
    /// Bytes that the calls returned.
    pub bytes: u64,
    /// Where the data came from.
    pub source: ReadSource,
    /// Calls and their CPU.
    pub cpu: Histogram,
}

impl ReadCpu {
    /// Time in nanoseconds per read of the recorded sessions; none without reads.
    pub fn per_read(&self, ns: u128) -> Option<u128> {
        ns.checked_div(self.reads)
    }
}

/// CPU in one layer of the kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerTime {
    /// The layer.
    pub layer: KernelLayer,
    /// Time.
    pub ns: u128,
    /// Samples.
    pub samples: u128,
    /// The functions that identified the layer, and their time, largest first.
    pub functions: Vec<(String, u128)>,
}

/// Adds up latencies, then the activity of the sessions in them.
#[derive(Default)]
pub(super) struct ReadCpuBuilder {
    calls: HashMap<(u64, ReadSource), Histogram>,
    sessions: HashSet<SessionId>,
    reads: u128,
    waits: HashSet<String>,
    user: Sums,
    kernel: HashMap<(StackId, bool), (u128, u128)>,
}

impl ReadCpuBuilder {
    /// A read call.
    pub(super) fn add_read(&mut self, row: &LatencyRow) {
        if row.session != SessionId::RECORDER {
            self.sessions.insert(row.session);
            self.reads += u128::from(row.count);
        }
        if !self.waits.contains(&*row.name) {
            self.waits.insert(row.name.to_string());
        }
    }

    /// CPU of read calls.
    pub(super) fn add_cpu(&mut self, row: &LatencyRow) {
        self.calls
            .entry((row.bytes, ReadSource::of(row)))
            .or_default()
            .add(row.from_ns, row.to_ns, row.count, row.sum_ns, row.max_ns);
    }

    /// Activity, once all reads are known.
    pub(super) fn add_activity(&mut self, activity: &Activity<'_>) {
        let row = activity.row;
        if !self.sessions.contains(&row.session) {
            return;
        }
        match row.state {
            State::User => self.user.take(activity),
            State::Kernel if self.waits.contains(&activity.wait.to_string()) => {
                let outside_waits = *activity.wait == Wait::none();
                let sums = self.kernel.entry((row.kernel_stack, outside_waits)).or_default();
                sums.0 += u128::from(row.ns);
                sums.1 += u128::from(row.samples);
            }
            _ => {}
        }
    }

    pub(super) fn finish(self, top: usize, dimensions: &Dimensions) -> ReadCpu {
        let mut calls: Vec<CallCpu> = self
            .calls
            .into_iter()
            .map(|((bytes, source), cpu)| CallCpu { bytes, source, cpu })
            .collect();
        calls.sort_unstable_by_key(|call| (Reverse(call.cpu.sum_ns()), call.bytes, call.source));
        let calls_not_shown = calls.split_off(top.min(calls.len())).len();

        let mut layers: HashMap<KernelLayer, (u128, u128, HashMap<String, u128>)> = HashMap::new();
        let mut without_stack_ns = 0;
        for ((stack, outside_waits), (ns, samples)) in self.kernel {
            let frames = match dimensions.stack(stack) {
                Some(frames) if stack != NO_STACK => frames,
                // Outside of waits it may not have been a read at all.
                _ if outside_waits => continue,
                _ => {
                    without_stack_ns += ns;
                    continue;
                }
            };
            if outside_waits && !frames.iter().any(|frame| is_read_call(frame)) {
                continue;
            }
            let (layer, by) = kernel_layer(frames);
            let sums = layers.entry(layer).or_default();
            sums.0 += ns;
            sums.1 += samples;
            if let Some(frame) = by.or(frames.last().map(|frame| -> &Frame { frame })) {
                *sums.2.entry(frame.label()).or_default() += ns;
            }
        }
        let mut layers: Vec<LayerTime> = layers
            .into_iter()
            .map(|(layer, (ns, samples, functions))| {
                let mut functions: Vec<(String, u128)> = functions.into_iter().collect();
                functions.sort_unstable_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
                LayerTime {
                    layer,
                    ns,
                    samples,
                    functions,
                }
            })
            .collect();
        layers.sort_unstable_by_key(|layer| (Reverse(layer.ns), layer.layer));
        ReadCpu {
            calls,
            calls_not_shown,
            sessions: self.sessions.len(),
            reads: self.reads,
            user_ns: self.user.total_ns(),
            user_fidelity: self.user.fidelity(),
            layers_ns: layers.iter().map(|layer| layer.ns).sum(),
            samples: layers.iter().map(|layer| layer.samples).sum(),
            layers,
            without_stack_ns,
        }
    }
}

/// Whether it is one of the functions that every read call goes through.
fn is_read_call(frame: &Frame) -> bool {
    matches!(
        frame.symbol.as_str(),
        "vfs_read" | "vfs_readv" | "do_iter_read" | "ksys_read" | "ksys_pread64" | "do_readv" | "do_preadv"
    )
}
