//! How long the BPF programs run, by the kernel's own count.
//!
//! Counting costs each run about ten nanoseconds, so it is on for a tenth of a second now and then.

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use dbtime_model::recording::ProgramCost;
use libbpf_rs::{ProgramMut, libbpf_sys};

/// Time until the first measurement, between two, and length of one.
const FIRST_AFTER_NS: u64 = 300_000_000;
const EVERY_NS: u64 = 10_000_000_000;
const LOOK_NS: u64 = 100_000_000;

/// The programs that are measured, and the measurement in progress.
pub(crate) struct RunTimes {
    programs: Vec<(String, OwnedFd)>,
    next: u64,
    /// While this is open the kernel counts.
    looking: Option<OwnedFd>,
}

impl RunTimes {
    pub(crate) fn new(now: u64) -> RunTimes {
        RunTimes {
            programs: Vec::new(),
            next: now + FIRST_AFTER_NS,
            looking: None,
        }
    }

    /// Measures this program too.
    pub(crate) fn watch(&mut self, name: &str, program: &ProgramMut<'_>) -> std::io::Result<()> {
        let fd = program.as_fd().try_clone_to_owned()?;
        self.programs.push((name.to_string(), fd));
        Ok(())
    }

    /// Begins or ends a measurement when it is due. Kernels before 5.8 do not support it: there the counts stay 0.
    pub(crate) fn step(&mut self, now: u64) {
        if now < self.next || self.programs.is_empty() {
            return;
        }
        self.next = match self.looking.take() {
            Some(_) => now + EVERY_NS,
            None => {
                // SAFETY: a plain system call; the descriptor it returns is ours.
                let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
                if fd >= 0 {
                    // SAFETY: the kernel has just made this descriptor for us.
                    self.looking = Some(unsafe { OwnedFd::from_raw_fd(fd) });
                }
                now + LOOK_NS
            }
        };
    }

    /// What was counted so far, for every program that ran during a measurement.
    pub(crate) fn costs(&self) -> Vec<ProgramCost> {
        let counted = self.programs.iter().filter_map(|(name, fd)| {
            let mut info = libbpf_sys::bpf_prog_info::default();
            let mut size = size_of_val(&info) as u32;
            // SAFETY: `info` has room for `size` bytes; it names no other memory that the kernel would write to.
            let result = unsafe { libbpf_sys::bpf_prog_get_info_by_fd(fd.as_raw_fd(), &mut info, &mut size) };
            (result == 0 && info.run_cnt > 0).then(|| ProgramCost {
                name: name.clone(),
                runs: info.run_cnt,
                ns: info.run_time_ns,
            })
        });
        counted.collect()
    }
}
