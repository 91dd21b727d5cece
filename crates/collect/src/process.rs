//! What /proc says about one process. Any file can vanish at any moment: the answer is then None.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// Path of a file of the process.
pub(crate) fn path(pid: u32, file: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{file}"))
}

/// Pids of all processes that can be seen.
pub(crate) fn all() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Parent of the process.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    stat_field(&fs::read(path(pid, "stat")).ok()?, 4)?.parse().ok()
}

/// Child processes.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    match fs::read_to_string(path(pid, &format!("task/{pid}/children"))) {
        Ok(text) => text
            .split_ascii_whitespace()
            .filter_map(|child| child.parse().ok())
            .collect(),
        // Kernels without CONFIG_PROC_CHILDREN.
        Err(_) => all()
            .into_iter()
            .filter(|&child| parent(child) == Some(pid))
            .collect(),
    }
}

/// Start of the process, in clock ticks since boot: distinguishes it from a later one with the same pid.
pub(crate) fn start_ticks(pid: u32) -> Option<u64> {
    stat_field(&fs::read(path(pid, "stat")).ok()?, 22)?.parse().ok()
}

/// A field of /proc/PID/stat, by its place in proc(5), from 3 on.
pub(crate) fn stat_field(stat: &[u8], place: usize) -> Option<&str> {
    // The name in parentheses may hold anything; what follows the last one is numbers.
    let end = stat.iter().rposition(|&b| b == b')')?;
    let rest = std::str::from_utf8(&stat[end + 1..]).ok()?;
    rest.split_whitespace().nth(place - 3)
}

/// Start of the process, to a hundredth of a second.
pub(crate) fn started(pid: u32) -> Option<SystemTime> {
    let ticks: u64 = stat_field(&fs::read(path(pid, "stat")).ok()?, 22)?.parse().ok()?;
    let text = fs::read_to_string("/proc/stat").ok()?;
    let boot: u64 = text
        .lines()
        .find_map(|line| line.strip_prefix("btime "))?
        .trim()
        .parse()
        .ok()?;
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs(boot) + Duration::from_millis(ticks * 10))
}

/// Name of the process's first thread, whatever bytes it is.
pub(crate) fn name(pid: u32) -> Option<String> {
    let name = fs::read(path(pid, "comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end_matches('\n').to_string())
}

/// Users that a file of the process can belong to: its real, effective, saved and file system user, as this process numbers
/// them.
pub(crate) fn users(pid: u32) -> Vec<u32> {
    let status = fs::read_to_string(path(pid, "status")).unwrap_or_default();
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    users
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|user| user.parse().ok())
        .collect()
}

/// An amount of memory in /proc/PID/status, such as `VmRSS` or `VmHWM`, in bytes; 0 where it cannot be read.
pub(crate) fn memory_bytes(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(path(pid, "status")).unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// Executable as it was when it was started; the name is kept when the file is deleted.
pub(crate) fn executable(pid: u32) -> Option<PathBuf> {
    let link = fs::read_link(path(pid, "exe")).ok()?;
    let bytes = link.as_os_str().as_bytes();
    match bytes.strip_suffix(b" (deleted)") {
        Some(name) => Some(PathBuf::from(std::ffi::OsStr::from_bytes(name))),
        None => Some(link),
    }
}

/// Bytes of a title that are kept: a process may have megabytes of arguments.
const MAX_TITLE: u64 = 4096;

/// The process title: its arguments joined by spaces, whatever bytes they are, cut off after [`MAX_TITLE`].
pub(crate) fn title(pid: u32) -> Option<String> {
    let mut bytes = Vec::new();
    let cmdline = File::open(path(pid, "cmdline")).ok()?;
    cmdline.take(MAX_TITLE).read_to_end(&mut bytes).ok()?;
    let end = bytes
        .iter()
        .rposition(|&b| b != 0 && b != b' ')
        .map_or(0, |last| last + 1);
    let joined: Vec<u8> = bytes[..end]
        .iter()
        .map(|&b| if b == 0 { b' ' } else { b })
        .collect();
    Some(String::from_utf8_lossy(&joined).into_owned())
}

/// Pid of the process in its own, innermost pid namespace: what its server writes into postmaster.pid.
pub(crate) fn innermost_pid(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(path(pid, "status")).ok()?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?
        .split_whitespace()
        .next_back()?
        .parse()
        .ok()
}
