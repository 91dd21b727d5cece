//! What the host says about itself, and what this process has used.

use std::fs;
use std::path::Path;

use dbtime_model::recording::HostMeta;

use crate::{CollectError, process};

/// The host, as recordings describe it.
pub fn description() -> HostMeta {
    let read = |path| fs::read_to_string(path).unwrap_or_default().trim().to_string();
    HostMeta {
        name: read("/proc/sys/kernel/hostname"),
        kernel: read("/proc/sys/kernel/osrelease"),
        arch: std::env::consts::ARCH.to_string(),
        cpus: cpus(),
    }
}

/// Number of online CPUs of the host, not only of those that this process may use: sessions run on all of them. 0 = not known.
fn cpus() -> u32 {
    online_cpus().map_or(0, |cpus| cpus.len() as u32)
}

/// Numbers of the online CPUs.
///
/// # Errors
/// The kernel does not say.
pub(crate) fn online_cpus() -> Result<Vec<i32>, CollectError> {
    let path = Path::new("/sys/devices/system/cpu/online");
    let text = fs::read_to_string(path).map_err(|e| CollectError::io(path, e))?;
    let mut cpus = Vec::new();
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        if let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) {
            cpus.extend(first..=last);
        }
    }
    Ok(cpus)
}

/// What the host's CPUs did since it booted, as far as it is known; nanoseconds (/proc/stat).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CpuTimes {
    /// CPUs that are online now.
    pub(crate) cpus: u64,
    /// Idle, with or without tasks that wait for I/O.
    pub(crate) idle_ns: u64,
    /// Interrupts.
    pub(crate) interrupts_ns: u64,
    /// The hypervisor used the CPU for others.
    pub(crate) stolen_ns: u64,
    /// All time, including that of tasks.
    pub(crate) all_ns: u64,
}

impl CpuTimes {
    /// Until now; zeros if the kernel does not say.
    pub(crate) fn now() -> CpuTimes {
        CpuTimes::of(&fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    fn of(stat: &str) -> CpuTimes {
        /// `USER_HZ`, the unit of /proc: the same on all machines of today.
        const TICK_NS: u64 = 10_000_000;
        let mut cpus = stat.lines().take_while(|line| line.starts_with("cpu"));
        let ticks: Vec<u64> = cpus
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .skip(1)
            .flat_map(str::parse)
            .collect();
        // user nice system idle iowait irq softirq steal guest guest_nice; the last two are part of the first two.
        let of = |places: std::ops::Range<usize>| -> u64 {
            TICK_NS * ticks.get(places).unwrap_or_default().iter().sum::<u64>()
        };
        CpuTimes {
            cpus: cpus.count() as u64,
            idle_ns: of(3..5),
            interrupts_ns: of(5..7),
            stolen_ns: of(7..8),
            all_ns: of(0..8),
        }
    }

    /// What was added since `before`.
    pub(crate) fn since(self, before: CpuTimes) -> CpuTimes {
        CpuTimes {
            cpus: self.cpus,
            // "iowait" can shrink (proc_stat(5)).
            idle_ns: self.idle_ns.saturating_sub(before.idle_ns),
            interrupts_ns: self.interrupts_ns.saturating_sub(before.interrupts_ns),
            stolen_ns: self.stolen_ns.saturating_sub(before.stolen_ns),
            all_ns: self.all_ns.saturating_sub(before.all_ns),
        }
    }
}

/// Why running sessions are sampled at less than this rate, if the kernel does not allow it.
pub(crate) fn too_few_samples(rate_hz: u32) -> Option<String> {
    let text = fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate").ok()?;
    let most: u32 = text.trim().parse().ok()?;
    (rate_hz > most).then(|| {
        format!(
            "the kernel allows {most} timer samples a second per CPU (kernel.perf_event_max_sample_rate): fewer than asked for"
        )
    })
}

/// Peak resident set of this process, bytes. `getrusage` would give another: the kernel lets a program start with the peak of
/// the one that started it.
pub(crate) fn max_rss_bytes() -> u64 {
    process::memory_bytes(std::process::id(), "VmHWM")
}

pub(crate) fn process_cpu_ns() -> u64 {
    // SAFETY: rusage is plain integers, for which zero is valid; the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}

#[cfg(test)]
mod tests {
    use super::CpuTimes;

    #[test]
    fn times_of_cpus_are_read_by_their_places() {
        let times = CpuTimes::of(
            "cpu  10 20 30 400 50 6 7 8 9 1\ncpu0 5 10 15 200 25 3 3 4 4 0\ncpu3 5 10 15 200 25 3 4 4 5 1\nintr 1 2\n",
        );
        let ms = |ticks: u64| ticks * 10_000_000;
        let expected = CpuTimes {
            cpus: 2,
            idle_ns: ms(450),
            interrupts_ns: ms(13),
            stolen_ns: ms(8),
            all_ns: ms(531),
        };
        assert_eq!(times, expected);
        // Very old kernels, and something that is no such file.
        assert_eq!(CpuTimes::of("cpu 1 2 3 4\n").all_ns, 0);
        assert_eq!(CpuTimes::of(""), CpuTimes::default());
    }
}
