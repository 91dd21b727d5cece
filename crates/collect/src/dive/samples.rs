//! Tracepoints do not show what happens between them: while they are traced, a timer on the task's own CPU time samples its
//! kernel stack. Times on the clock of the trace tell which samples were inside of a call.

use std::collections::HashMap;
use std::fmt;
use std::iter;

use dbtime_model::Frame;

use crate::CollectError;
use crate::bpf::{CallSample, CallSamples};
use crate::symbols::Symbolizer;

/// CPU time from one sample to the next: about twenty in a read of a large block from the page cache. It has no
/// simple ratio to that of ticks, so that samples and ticks do not stay in step.
const PERIOD_NS: u64 = 97_000;
/// Maximum number of samples kept: about twelve seconds in the kernel. Each has a line of some hundred bytes.
const MOST: usize = 1 << 17;
/// Module of the kernel itself.
const KERNEL: &str = "[kernel]";
/// A function without a name, as perf writes it.
const UNKNOWN: &str = "[unknown]";

/// The samples of one task.
pub(super) struct Samples {
    program: CallSamples,
    /// Addresses, leaf first, with their rank in the order in which they were first seen.
    stacks: HashMap<Box<[u64]>, usize>,
    /// When each was taken, and the number of its stack.
    kept: Vec<(u64, usize)>,
    left_out: u64,
    without_stack: u64,
}

impl fmt::Debug for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Samples")
            .field("kept", &self.kept.len())
            .finish_non_exhaustive()
    }
}

impl Samples {
    /// Begins to sample the task.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn begin(task: u32) -> Result<Samples, CollectError> {
        Ok(Samples {
            program: CallSamples::attach(task, PERIOD_NS)?,
            stacks: HashMap::new(),
            kept: Vec::new(),
            left_out: 0,
            without_stack: 0,
        })
    }

    /// Address of the timer in the kernel.
    pub(super) fn timer_address(&self) -> u64 {
        self.program.timer_address()
    }

    /// Fetches the samples that have arrived.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn step(&mut self) -> Result<(), CollectError> {
        for CallSample { time_ns, frames } in self.program.take()? {
            if frames.is_empty() {
                self.without_stack += 1;
            } else if self.kept.len() >= MOST {
                self.left_out += 1;
            } else {
                let next = self.stacks.len();
                let stack = *self.stacks.entry(frames).or_insert(next);
                self.kept.push((time_ns, stack));
            }
        }
        Ok(())
    }

    /// Stops the timer: the next step fetches the rest.
    pub(super) fn end(&mut self) {
        self.program.detach();
    }

    /// The note for the start of a dive.
    pub(super) fn note(&self) -> String {
        format!(
            "the kernel stack is sampled every {} us of the task's own CPU time, which costs some of it",
            PERIOD_NS / 1_000
        )
    }

    /// The note for the end of a dive.
    pub(super) fn notes(&self) -> Option<String> {
        let missing = self.missing();
        (missing > 0).then(|| {
            format!(
                "{missing} timer samples are missing: {} of them had no stack, there was no room for the others",
                self.without_stack
            )
        })
    }

    /// Lines for the file: first `sampling: period_ns=NANOSECONDS missing=COUNT`, then all samples, in chronological order,
    /// as `sample: pid=TID at=SECONDS stack=ROOT;…;LEAF`.
    pub(super) fn lines(&self, pid: u32) -> impl Iterator<Item = String> {
        let names = self.names();
        let sampling = format!("sampling: period_ns={PERIOD_NS} missing={}", self.missing());
        let samples = self.kept.iter().map(move |&(time_ns, stack)| {
            format!(
                "sample: pid={pid} at={}.{:09} stack={}",
                time_ns / 1_000_000_000,
                time_ns % 1_000_000_000,
                names[stack]
            )
        });
        iter::once(sampling).chain(samples)
    }

    fn missing(&self) -> u64 {
        self.program.lost() + self.left_out + self.without_stack
    }

    /// The functions of all stacks, by number.
    fn names(&self) -> Vec<String> {
        let mut symbols = Symbolizer::of_kernel();
        let mut ids = vec![None; self.stacks.len()];
        for (addresses, number) in &self.stacks {
            ids[*number] = Some(symbols.kernel_stack(addresses));
        }
        let stacks = symbols.take_new_stacks().into_iter();
        let texts: HashMap<_, String> = stacks
            .map(|row| {
                let frames: Vec<String> = row.frames.iter().map(name).collect();
                (Some(row.id), frames.join(";"))
            })
            .collect();
        ids.iter()
            .map(|id| texts.get(id).cloned().unwrap_or_default())
            .collect()
    }
}

/// A function as ftrace writes it: `NAME`, or `NAME [MODULE]`.
fn name(frame: &Frame) -> String {
    match (frame.symbol.as_str(), frame.module.as_str()) {
        ("", KERNEL) => UNKNOWN.to_string(),
        ("", module) => format!("{UNKNOWN} {module}"),
        (symbol, KERNEL) => symbol.to_string(),
        (symbol, module) => format!("{symbol} {module}"),
    }
}
