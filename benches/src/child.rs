//! Runs a program to be measured to its end on one CPU, and says what it used.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// The dbtime that was built with this program.
pub(crate) fn dbtime() -> Result<PathBuf> {
    let dbtime = std::env::current_exe()?.with_file_name("dbtime");
    ensure!(dbtime.is_file(), "{} is not built", dbtime.display());
    Ok(dbtime)
}

/// Runs a command on one CPU. Returns its CPU time, user and kernel (on a machine with other work, elapsed time includes that), and its
/// largest resident set in bytes. Its output goes into a temporary file, because some programs stop early if it goes nowhere.
pub(crate) fn run(command: &Command, cpu: usize) -> Result<(Duration, u64)> {
    let child = Command::new("taskset")
        .args(["--cpu-list", &cpu.to_string()])
        .arg(command.get_program())
        .args(command.get_args())
        .stdout(tempfile::tempfile()?)
        .stderr(Stdio::null())
        .spawn()
        .context("taskset")?;
    let pid = libc::pid_t::try_from(child.id())?;
    let mut status = 0;
    // SAFETY: rusage is plain integers, for which zero is a value; the call fills it and waits for a child of our own.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        ensure!(
            libc::wait4(pid, &raw mut status, 0, &raw mut usage) == pid,
            "the program is gone"
        );
        usage
    };
    let status = ExitStatus::from_raw(status);
    ensure!(status.success(), "{command:?}: {status}");
    let of = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec.unsigned_abs()) + Duration::from_micros(time.tv_usec.unsigned_abs())
    };
    Ok((
        of(usage.ru_utime) + of(usage.ru_stime),
        usage.ru_maxrss.unsigned_abs() * 1024,
    ))
}

/// The middle value.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
