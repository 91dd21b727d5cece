//! Loads and attaches `bpf/call_functions.bpf.c`: entry and return of some functions inside a call of one task.

use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{KprobeMultiOpts, KprobeOpts, Link, MapHandle};

use super::call_functions_skeleton::CallFunctionsSkelBuilder;
use super::call_functions_skeleton::types::{bss, dbt_function_row, dbt_row_kind};
use super::fentry;
use super::kernel_functions::KernelFunctions;
use super::messages::refusals;
use super::plain::{Plain, globals, read};
use super::ring::Ring;
use crate::CollectError;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FunctionStep {
    /// The function with this number was entered.
    Entry(u32),
    /// It returned.
    Return(u32),
    /// The task left the CPU to this one, in this raw state.
    LeftCpu { next: u32, state: u32 },
    /// It came back after this one.
    BackOnCpu { previous: u32 },
}

/// What happened, when and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FunctionRow {
    /// CLOCK_MONOTONIC.
    pub(crate) time_ns: u64,
    pub(crate) cpu: u32,
    pub(crate) step: FunctionStep,
}

/// How the programs are called.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Probing<'a> {
    /// By the functions themselves.
    Fentry(&'a KernelFunctions),
    /// By one probe at all of them.
    KprobeMulti,
    /// By a probe at each.
    Kprobes,
}

impl fmt::Display for Probing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Probing::Fentry(_) => "fentry/fexit",
            Probing::KprobeMulti => "kprobe.multi",
            Probing::Kprobes => "kprobes",
        })
    }
}

/// Keeps a program attached until it is dropped.
enum Attached {
    ByLibbpf(#[expect(dead_code, reason = "it ends when it is dropped")] Link),
    ToFunction(#[expect(dead_code, reason = "it ends when it is dropped")] OwnedFd),
}

/// The attached programs; dropping them detaches them.
pub(crate) struct CallFunctions {
    rows: Ring<FunctionRow>,
    bss: MapHandle,
    _attached: Vec<Attached>,
}

impl CallFunctions {
    /// Traces these functions of one task from now on, while it is inside the first one. Returns the numbers of those that cannot be
    /// traced, if the kernel takes them one by one.
    ///
    /// # Errors
    /// The kernel refuses, for example because it has no such function.
    pub(crate) fn attach(
        task: u32,
        functions: &[String],
        probing: Probing<'_>,
    ) -> Result<(CallFunctions, Vec<usize>), CollectError> {
        let failed = refusals("probes of functions");
        let mut storage = MaybeUninit::uninit();
        let mut open = CallFunctionsSkelBuilder::default()
            .open(&mut storage)
            .map_err(|e| failed("open", e))?;
        if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
            constants.task_id = task;
        }
        let (is_fentry, is_multi, is_single) = match probing {
            Probing::Fentry(_) => (true, false, false),
            Probing::KprobeMulti => (false, true, false),
            Probing::Kprobes => (false, false, true),
        };
        let programs = [
            (&mut open.progs.on_call, is_fentry),
            (&mut open.progs.on_exit, is_fentry),
            (&mut open.progs.on_entry, is_multi),
            (&mut open.progs.on_return, is_multi),
            (&mut open.progs.on_single_entry, is_single),
            (&mut open.progs.on_single_return, is_single),
        ];
        for (program, is_wanted) in programs {
            program.set_autoload(is_wanted);
        }
        if is_fentry {
            for program in [&mut open.progs.on_call, &mut open.progs.on_exit] {
                let entry = functions.first().cloned();
                program
                    .set_attach_target(0, entry)
                    .map_err(|e| failed("fentry", e))?;
            }
        }
        let skel = open.load().map_err(|e| failed("load", e))?;
        let rows = Ring::of("functions", &skel.maps.rows, row).map_err(|e| failed("ring buffer", e))?;
        let on_switch = skel.progs.on_switch.attach_trace();
        let mut attached = vec![Attached::ByLibbpf(
            on_switch.map_err(|e| failed("sched_switch", e))?,
        )];
        let mut refused = Vec::new();
        // Returns first, and the call itself last: what is seen to begin is seen to end.
        if is_multi {
            for (program, is_return) in [(&skel.progs.on_return, true), (&skel.progs.on_entry, false)] {
                let options = KprobeMultiOpts {
                    symbols: functions.to_vec(),
                    cookies: (0..functions.len() as u64).collect(),
                    retprobe: is_return,
                    ..KprobeMultiOpts::default()
                };
                let link = program.attach_kprobe_multi_with_opts(options);
                attached.push(Attached::ByLibbpf(link.map_err(|e| failed("kprobe.multi", e))?));
            }
        } else {
            for (number, function) in functions.iter().enumerate().rev() {
                let attach = |is_return| match probing {
                    Probing::Fentry(types) => {
                        let progs = &skel.progs;
                        let program = if is_return { &progs.on_exit } else { &progs.on_call };
                        let there = types.get(function).ok_or(io::ErrorKind::NotFound)?;
                        fentry::attach(program, types, there, number as u64).map(Attached::ToFunction)
                    }
                    _ => {
                        let progs = &skel.progs;
                        let program = if is_return {
                            &progs.on_single_return
                        } else {
                            &progs.on_single_entry
                        };
                        let options = KprobeOpts {
                            cookie: number as u64,
                            ..KprobeOpts::default()
                        };
                        let link = program.attach_kprobe_with_opts(is_return, function, options);
                        link.map(Attached::ByLibbpf).map_err(io::Error::other)
                    }
                };
                match attach(true).and_then(|exit| Ok([exit, attach(false)?])) {
                    Ok(both) => attached.extend(both),
                    Err(e) if number == 0 => {
                        return Err(failed(&format!("{probing} of {function}"), e.into()));
                    }
                    Err(_) => refused.push(number),
                }
            }
        }
        let attached = CallFunctions {
            rows,
            bss: MapHandle::try_from(&skel.maps.bss).map_err(|e| failed("maps", e))?,
            _attached: attached,
        };
        Ok((attached, refused))
    }

    /// Takes what has happened since the last call, in order.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn take(&mut self) -> Result<Vec<FunctionRow>, CollectError> {
        self.rows.take()
    }

    /// How many programs are attached.
    pub(crate) fn count(&self) -> usize {
        self._attached.len()
    }

    /// Steps that were lost for lack of room.
    pub(crate) fn lost(&self) -> u64 {
        globals::<bss>(&self.bss).map_or(0, |bss| bss.rows_lost)
    }
}

impl Plain for bss {}
impl Plain for dbt_function_row {}

fn row(bytes: &[u8]) -> Option<FunctionRow> {
    let dbt_function_row {
        time_ns,
        what,
        state,
        cpu,
        kind,
    } = read(bytes)?;
    let step = match dbt_row_kind(kind) {
        dbt_row_kind::ROW_ENTRY => FunctionStep::Entry(what),
        dbt_row_kind::ROW_RETURN => FunctionStep::Return(what),
        dbt_row_kind::ROW_LEFT_CPU => FunctionStep::LeftCpu { next: what, state },
        dbt_row_kind::ROW_BACK_ON_CPU => FunctionStep::BackOnCpu { previous: what },
        _ => return None,
    };
    Some(FunctionRow { time_ns, cpu, step })
}
