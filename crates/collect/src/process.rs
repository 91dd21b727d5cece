//! What /proc says of one process. Every file can vanish at any moment: the answer is then none.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
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

/// A field of /proc/PID/stat, by its place in proc(5), from 3 on.
pub(crate) fn stat_field(stat: &[u8], place: usize) -> Option<&str> {
    // The name in parentheses may hold anything; what follows the last one is numbers.
    let end = stat.iter().rposition(|&b| b == b')')?;
    let rest = std::str::from_utf8(&stat[end + 1..]).ok()?;
    rest.split_whitespace().nth(place - 3)
}

/// When the process began, to a hundredth of a second.
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

/// First 4 KB of a file that the process may have made itself: it must be a plain file, not a device or a FIFO that
/// would answer for ever or never.
pub(crate) fn read_small(path: &Path) -> io::Result<String> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a plain file"));
    }
    let mut text = String::new();
    file.take(4096).read_to_string(&mut text)?;
    Ok(text)
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

/// The process title: its arguments joined by spaces, whatever bytes they are.
pub(crate) fn title(pid: u32) -> Option<String> {
    let bytes = fs::read(path(pid, "cmdline")).ok()?;
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
