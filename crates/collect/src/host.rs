//! What the host says of itself, and what this process has used of it.

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

/// CPUs of the host that are online, whichever of them this process may use: those are what sessions run on. 0 = not known.
fn cpus() -> u32 {
    online_cpus().map_or(0, |cpus| cpus.len() as u32)
}

/// Their numbers.
///
/// # Errors
/// The kernel does not tell.
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

/// CPU time of the host that belongs to no task, where it is known, and all of it; in clock ticks (/proc/stat).
pub(crate) fn stolen_time() -> (u64, u64) {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks: Vec<u64> = text
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .flat_map(str::parse)
        .collect();
    // user nice system idle iowait irq softirq steal guest guest_nice; the last two are part of the first two.
    (ticks.iter().skip(5).take(3).sum(), ticks.iter().take(8).sum())
}

/// Why samples of running sessions are fewer than this rate, when the kernel allows fewer.
pub(crate) fn too_few_samples(rate_hz: u32) -> Option<String> {
    let text = fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate").ok()?;
    let most: u32 = text.trim().parse().ok()?;
    (rate_hz > most).then(|| {
        format!(
            "the kernel allows {most} timer samples a second per CPU (kernel.perf_event_max_sample_rate): fewer than asked for"
        )
    })
}

/// Largest resident set of this process, bytes. `getrusage` has another: the kernel lets a program begin with the largest set of
/// the one that started it.
pub(crate) fn max_rss_bytes() -> u64 {
    process::memory_bytes(std::process::id(), "VmHWM")
}

pub(crate) fn process_cpu_ns() -> u64 {
    // SAFETY: rusage is plain integers, for which zero is a value; the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}
