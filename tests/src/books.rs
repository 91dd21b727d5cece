//! What a recorder uses of its host, by the kernel's accounting.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::children;

/// All of it at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Books {
    /// Peak resident set of the recorder plus that of the process that reads names, bytes.
    pub memory: u64,
    /// Open files of both.
    pub files: usize,
    /// Kernel memory of its maps and programs, bytes.
    pub maps: u64,
    /// Size of the recording on disk, bytes.
    pub disk: u64,
    /// Files of the recording.
    pub segments: usize,
    /// CPU time of both so far.
    pub cpu: Duration,
}

impl Books {
    /// Of a running recorder, and what it has written.
    ///
    /// # Panics
    /// When it is not running.
    #[track_caller]
    pub fn of(pid: u32, recording: &Path) -> Books {
        let processes = || [vec![pid], children(pid)].concat().into_iter();
        let (disk, segments) = size(recording);
        Books {
            memory: processes().map(peak_memory).sum(),
            files: processes().map(open_files).sum(),
            maps: map_memory(pid),
            disk,
            segments,
            cpu: processes().map(cpu).sum(),
        }
    }
}

fn peak_memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.strip_suffix(" kB"));
    peak.and_then(|kilobytes| kilobytes.trim().parse::<u64>().ok())
        .map_or(0, |kilobytes| kilobytes << 10)
}

fn open_files(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// Each map and program counts once, however often it is open.
fn map_memory(pid: u32) -> u64 {
    let entries = fs::read_dir(format!("/proc/{pid}/fdinfo")).expect("it lives");
    let mut memory = BTreeMap::new();
    for entry in entries.flatten() {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        let field = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name));
            value.and_then(|value| value.trim().parse::<u64>().ok())
        };
        if let Some(bytes) = field("memlock:") {
            memory.insert((field("map_id:"), field("prog_id:")), bytes);
        }
    }
    memory.values().sum()
}

fn cpu(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name of the process may hold anything, spaces and brackets too.
    let fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ');
    let ticks: u64 = fields
        .skip(11)
        .take(2)
        .filter_map(|ticks| ticks.parse::<u64>().ok())
        .sum();
    // SAFETY: a plain call.
    let a_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    Duration::from_secs_f64(ticks as f64 / a_second as f64)
}

/// Bytes and files below a folder; what is removed meanwhile is not counted.
fn size(folder: &Path) -> (u64, usize) {
    let mut all = (0, 0);
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        let (bytes, files) = match metadata.is_dir() {
            true => size(&entry.path()),
            false => (metadata.len(), 1),
        };
        all = (all.0 + bytes, all.1 + files);
    }
    all
}
