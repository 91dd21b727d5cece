//! Who used the CPUs, from /proc: the whole host, one process, one thread, and the benchmark with all it started.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

/// CPU of the host since it was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostCpu {
    /// Neither idle nor waiting for I/O.
    pub(crate) busy: Duration,
    /// Taken by the hypervisor.
    pub(crate) stolen: Duration,
}

/// Reads the first line of `/proc/stat`.
///
/// # Errors
/// It cannot be read.
pub(crate) fn host() -> Result<HostCpu> {
    let text = fs::read_to_string("/proc/stat").context("/proc/stat")?;
    parse_host(&text).context("/proc/stat has no line 'cpu'")
}

fn parse_host(text: &str) -> Option<HostCpu> {
    let numbers = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = numbers
        .split_ascii_whitespace()
        .map_while(|n| n.parse().ok())
        .collect();
    // user nice system idle iowait irq softirq steal; guest time is part of user.
    let [user, nice, system, _idle, _iowait, irq, softirq, steal, ..] = ticks[..] else {
        return None;
    };
    Some(HostCpu {
        busy: from_ticks(user + nice + system + irq + softirq),
        stolen: from_ticks(steal),
    })
}

/// User and system time of a process, from `/proc/PID/stat`; `None` when it is gone.
pub(crate) fn of_process(pid: u32) -> Option<Duration> {
    let stat = ProcessStat::read(&format!("/proc/{pid}/stat"))?;
    Some(from_ticks(stat.own_ticks))
}

/// Time on a CPU of the threads of a process that have this name, from the scheduler; `None` when there is none.
pub(crate) fn of_threads(pid: u32, name: &str) -> Option<Duration> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    tasks
        .map(|task| task.path())
        .filter(|task| fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim_end() == name))
        .filter_map(|task| on_cpu(&task))
        .reduce(|sum, thread| sum + thread)
}

fn on_cpu(task: &Path) -> Option<Duration> {
    let text = fs::read_to_string(task.join("schedstat")).ok()?;
    let on_cpu_ns = text.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(on_cpu_ns))
}

/// CPU of this process and of all it started, directly or not, including those that have ended.
///
/// # Errors
/// /proc cannot be read.
pub(crate) fn of_ours() -> Result<Duration> {
    let processes: HashMap<u32, ProcessStat> = fs::read_dir("/proc")
        .context("/proc")?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, ProcessStat::read(&format!("/proc/{pid}/stat"))?)))
        .collect();
    let is_ours = |mut pid: u32| {
        let own = std::process::id();
        while pid != own {
            match processes.get(&pid) {
                Some(stat) => pid = stat.parent,
                None => return false,
            }
        }
        true
    };
    let ticks = processes
        .iter()
        .filter(|&(&pid, _)| is_ours(pid))
        .map(|(_, stat)| stat.own_ticks + stat.reaped_ticks)
        .sum();
    Ok(from_ticks(ticks))
}

/// A part of `/proc/PID/stat`.
#[derive(Debug, PartialEq, Eq)]
struct ProcessStat {
    parent: u32,
    own_ticks: u64,
    /// Of children that have ended and were waited for.
    reaped_ticks: u64,
}

impl ProcessStat {
    fn read(path: &str) -> Option<ProcessStat> {
        ProcessStat::parse(&fs::read_to_string(path).ok()?)
    }

    fn parse(text: &str) -> Option<ProcessStat> {
        // The name in parentheses may hold anything, parentheses and blanks too.
        let (_, fields) = text.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        // proc(5) counts from 1, and the state is field 3.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(ProcessStat {
            parent: field(4)?.try_into().ok()?,
            own_ticks: field(14)? + field(15)?,
            reaped_ticks: field(16)? + field(17)?,
        })
    }
}

fn from_ticks(ticks: u64) -> Duration {
    // SAFETY: sysconf has no memory effects.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.cast_unsigned();
    Duration::from_secs_f64(ticks as f64 / per_second as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_iowait_and_guest_are_not_counted_as_busy() {
        let cpu = parse_host("cpu  100 20 300 9000 50 4 6 70 11 12\ncpu0 1 2 3\n").expect("it is one");
        assert_eq!(cpu.busy, from_ticks(430));
        assert_eq!(cpu.stolen, from_ticks(70));
        assert_eq!(parse_host("intr 5\n"), None);
    }

    #[test]
    fn a_process_may_have_any_name() {
        let text = "77 (a) b (c) S 12 77 77 0 -1 4194560 1 2 3 4 50 7 300 20 0 0 1 0 99 0";
        let stat = ProcessStat::parse(text).expect("it is one");
        assert_eq!(
            stat,
            ProcessStat {
                parent: 12,
                own_ticks: 57,
                reaped_ticks: 320
            }
        );
    }

    #[test]
    fn what_an_ended_child_used_is_still_counted() {
        let before = of_ours().expect("/proc is mounted");
        let status = std::process::Command::new("sh")
            .args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"])
            .status();
        assert!(status.is_ok_and(|status| status.success()));
        assert!(of_ours().expect("/proc is mounted") > before);
    }
}
