//! Kernel timers that interrupt whatever runs on a CPU, or one task (perf_event, cpu-clock).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use perf_event_open_sys::bindings::{
    PERF_COUNT_SW_CPU_CLOCK, PERF_FLAG_FD_CLOEXEC, PERF_TYPE_SOFTWARE, perf_event_attr,
};

use crate::clock::monotonic_ns;

/// Rates are drawn from this fraction below the wanted one to as much above it.
const SPREAD: f64 = 0.1;
/// A drawn rate lasts about this long: from half of it to one and a half times.
const LASTS_NS: u64 = 1_000_000_000;

/// The timers of all CPUs. At a fixed rate they could run in step with a session: if it alternates between two functions, 5 ms each, 100
/// samples a second would all be in the one, and 99 in long runs of the one and then of the other. So each timer has a rate of its own,
/// redrawn about once a second; on average it is the wanted one.
pub(crate) struct CpuClocks {
    rate_hz: u32,
    clocks: Vec<CpuClock>,
    random: fastrand::Rng,
}

struct CpuClock {
    timer: OwnedFd,
    until_ns: u64,
}

impl CpuClocks {
    pub(super) fn new(rate_hz: u32) -> CpuClocks {
        CpuClocks {
            rate_hz,
            clocks: Vec::new(),
            random: fastrand::Rng::new(),
        }
    }

    /// A timer for this CPU, to attach a program to.
    ///
    /// # Errors
    /// The CPU is offline (ENODEV, ENXIO), or the kernel refuses.
    pub(super) fn open(&mut self, cpu: i32) -> io::Result<OwnedFd> {
        let timer = open(
            &mut timer(draw_period_ns(self.rate_hz, &mut self.random)),
            -1,
            cpu,
        )?;
        self.clocks.push(CpuClock {
            timer: timer.try_clone()?,
            until_ns: monotonic_ns() + self.random.u64(0..LASTS_NS),
        });
        Ok(timer)
    }

    /// Redraws the rates that are due (`now`: CLOCK_MONOTONIC, ns), at the cost of one interrupt on each of these CPUs.
    pub(crate) fn draw(&mut self, now: u64) {
        for clock in &mut self.clocks {
            if now < clock.until_ns {
                continue;
            }
            let period_ns = draw_period_ns(self.rate_hz, &mut self.random);
            clock.until_ns = now + LASTS_NS / 2 + self.random.u64(0..LASTS_NS);
            // SAFETY: the descriptor is a perf event's; the number is read through its address, which is what the kernel wants here
            // (perf_event_open(2)). It fails if the CPU has gone offline, and then there is nothing to draw.
            unsafe {
                perf_event_open_sys::ioctls::PERIOD(
                    clock.timer.as_raw_fd(),
                    std::ptr::from_ref(&period_ns) as u64,
                );
            }
        }
    }
}

fn draw_period_ns(rate_hz: u32, random: &mut fastrand::Rng) -> u64 {
    let factor = 1.0 + SPREAD * (2.0 * random.f64() - 1.0);
    (1e9 / (f64::from(rate_hz) * factor)) as u64
}

/// A timer that fires in kernel mode whenever a task has used this much CPU time, wherever it runs.
///
/// # Errors
/// The task has ended, or the kernel refuses.
pub(super) fn task_clock(task: u32, period_ns: u64) -> io::Result<OwnedFd> {
    let task = i32::try_from(task).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    let mut attr = timer(period_ns);
    attr.set_exclude_user(1);
    attr.set_exclude_hv(1);
    open(&mut attr, task, -1)
}

fn timer(period_ns: u64) -> perf_event_attr {
    let mut attr = perf_event_attr {
        size: size_of::<perf_event_attr>() as u32,
        type_: PERF_TYPE_SOFTWARE,
        config: u64::from(PERF_COUNT_SW_CPU_CLOCK),
        ..perf_event_attr::default()
    };
    // A period, not a frequency: the kernel does not adapt it.
    attr.__bindgen_anon_1.sample_period = period_ns;
    attr
}

/// Opens an event of a task or of a CPU, as perf_event_open(2).
///
/// # Errors
/// As reported by the kernel.
pub(super) fn open(attr: &mut perf_event_attr, task: i32, cpu: i32) -> io::Result<OwnedFd> {
    let cloexec = libc::c_ulong::from(PERF_FLAG_FD_CLOEXEC);
    // SAFETY: the attribute is initialised and lives through the call.
    let fd = unsafe { perf_event_open_sys::perf_event_open(attr, task, cpu, -1, cloexec) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_spread_evenly_about_the_wanted_one() {
        let mut random = fastrand::Rng::new();
        let rates: Vec<f64> = (0..10_000)
            .map(|_| 1e9 / draw_period_ns(99, &mut random) as f64)
            .collect();
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        // The standard error is 0.06.
        assert!((mean - 99.0).abs() < 0.3, "{mean}");
        assert!(rates.iter().all(|rate| (89.0..=109.0).contains(rate)));
        assert!(rates.iter().any(|rate| *rate < 91.0) && rates.iter().any(|rate| *rate > 107.0));
    }
}
