//! What /proc says about a process.

use std::fs;
use std::path::Path;
use std::time::Duration;

/// The scheduler's own accounting of a task, exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchedStat {
    /// Time on a CPU.
    pub on_cpu: Duration,
    /// Time in the run queue.
    pub run_delay: Duration,
}

/// `/proc/PID/schedstat`; `None` when the process is gone.
pub fn schedstat(pid: u32) -> Option<SchedStat> {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
    Some(SchedStat {
        on_cpu: Duration::from_nanos(numbers.next()?.ok()?),
        run_delay: Duration::from_nanos(numbers.next()?.ok()?),
    })
}

/// State letter and tracing process (0 = none) of a process; `None` when it is gone.
pub fn state_and_tracer(pid: u32) -> Option<(char, u32)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .map(|value| value.trim().to_string())
    };
    Some((
        field("State:")?.chars().next()?,
        field("TracerPid:")?.parse().ok()?,
    ))
}

/// Processes whose parent is `pid`.
pub fn children(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    fs::read_to_string(path)
        .unwrap_or_default()
        .split_ascii_whitespace()
        .filter_map(|child| child.parse().ok())
        .collect()
}

/// Processes that work in a directory or below it: every process of a server whose data directory is there.
pub fn processes_in(directory: &Path) -> Vec<u32> {
    let processes = fs::read_dir("/proc").expect("/proc is mounted");
    processes
        .flatten()
        .filter(|process| {
            fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(directory))
        })
        .filter_map(|process| process.file_name().to_str()?.parse().ok())
        .collect()
}
