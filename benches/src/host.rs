//! The machine that measures: what it is, and whether it had anything else to do.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::processor;
use crate::stop::Stop;

/// How long the host is watched before the start.
const WATCHED: Duration = Duration::from_secs(2);
/// Share of all CPUs above which a host is not idle: a quiet system stays below 2 % by itself. The load average is only
/// reported: it stays high for minutes after a build.
const IDLE_BUSY_SHARE: f64 = 0.05;

/// What the machine is. Its name is left out: results are published.
#[derive(Debug)]
pub(crate) struct Machine {
    /// Model of the CPU, and whether it is a virtual one.
    pub(crate) cpu: String,
    /// CPUs that can be used.
    pub(crate) cpus: usize,
    /// Memory.
    pub(crate) memory_bytes: u64,
    /// Kernel release.
    pub(crate) kernel: String,
    /// Distribution.
    pub(crate) system: String,
}

/// What the host did before the benchmark began.
#[derive(Debug)]
pub(crate) struct Before {
    /// Load averages of 1, 5 and 15 minutes.
    pub(crate) load: String,
    /// Share of all CPUs that was used or stolen, 0 to 1.
    pub(crate) busy_share: f64,
    /// Very little: results are meaningful.
    pub(crate) idle: bool,
}

impl Machine {
    /// Reads what /proc and the distribution say.
    pub(crate) fn read() -> Machine {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = read("/proc/cpuinfo");
        let field = |text: &str, name: &str| {
            let value = text
                .lines()
                .find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix([':', '=']))
                .unwrap_or("unknown");
            value.trim().trim_matches('"').to_string()
        };
        let is_virtual = field(&cpuinfo, "flags")
            .split(' ')
            .any(|flag| flag == "hypervisor");
        let memory = field(&read("/proc/meminfo"), "MemTotal");
        let memory_kib = memory.split(' ').next().and_then(|n| n.parse::<u64>().ok());
        Machine {
            cpu: format!(
                "{}{}",
                field(&cpuinfo, "model name"),
                if is_virtual { ", virtual machine" } else { "" }
            ),
            cpus: cpus(),
            memory_bytes: memory_kib.unwrap_or_default() * 1024,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_string(),
            system: field(&read("/etc/os-release"), "PRETTY_NAME"),
        }
    }
}

impl Before {
    /// Watches the host for two seconds.
    ///
    /// # Errors
    /// /proc cannot be read, or a signal came.
    pub(crate) fn watch(stop: &Stop) -> Result<Before> {
        let text = fs::read_to_string("/proc/loadavg").context("/proc/loadavg")?;
        let load: Vec<&str> = text.split(' ').take(3).collect();
        let start = processor::host()?;
        stop.sleep(WATCHED)?;
        let end = processor::host()?;
        let used = (end.busy - start.busy) + (end.stolen - start.stolen);
        let busy_share = used.as_secs_f64() / WATCHED.as_secs_f64() / cpus() as f64;
        Ok(Before {
            load: load.join(" "),
            busy_share,
            idle: busy_share <= IDLE_BUSY_SHARE,
        })
    }
}

/// CPUs that can be used.
pub(crate) fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
