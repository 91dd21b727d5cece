//! The server's first process: starting, watching and stopping it, and cleaning up after one that died.

use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How to end the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// Sessions are ended, a checkpoint is written.
    Fast,
    /// Every process ends at once; the next start recovers.
    Immediate,
    /// `kill -9` of the postmaster: its children have to notice by themselves.
    Kill,
}

/// CPU time that the server and all its processes used, from `wait4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// User time.
    pub user: Duration,
    /// System time.
    pub system: Duration,
}

/// How a postmaster ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) usage: Usage,
}

/// A postmaster that is our own child. Dropping it ends it, whatever it takes.
#[derive(Debug)]
pub(super) struct Postmaster {
    pid: libc::pid_t,
    reaped: bool,
}

impl Postmaster {
    pub(super) fn spawn(command: &mut Command) -> io::Result<Postmaster> {
        // Not kept as a `Child`: only wait4 returns the resources used, and a `Child` would not know of it.
        let pid = command.spawn()?.id();
        Ok(Postmaster {
            pid: pid.cast_signed(),
            reaped: false,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid.cast_unsigned()
    }

    /// How it ended, if it has.
    pub(super) fn try_wait(&mut self) -> Result<Option<Ended>> {
        let mut status = 0;
        // SAFETY: all-zero bytes are a valid `rusage`, a struct of integers.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the pointers are to live locals; the pid is our child, and not reaped yet, so it cannot be another's.
        match unsafe { libc::wait4(self.pid, &mut status, libc::WNOHANG, &mut usage) } {
            0 => Ok(None),
            -1 => Err(io::Error::last_os_error())
                .with_context(|| format!("cannot wait for process {}", self.pid)),
            _ => {
                self.reaped = true;
                Ok(Some(Ended {
                    status: ExitStatus::from_raw(status),
                    usage: Usage {
                        user: duration(usage.ru_utime),
                        system: duration(usage.ru_stime),
                    },
                }))
            }
        }
    }

    /// Ends it, escalating if it does not react.
    pub(super) fn stop(mut self, how: Shutdown) -> Result<Usage> {
        self.end(how)
    }

    fn end(&mut self, how: Shutdown) -> Result<Usage> {
        let steps = [
            (Shutdown::Fast, libc::SIGINT, Duration::from_secs(10)),
            (Shutdown::Immediate, libc::SIGQUIT, Duration::from_secs(8)),
            (Shutdown::Kill, libc::SIGKILL, Duration::from_secs(8)),
        ];
        for (_, signal, patience) in steps.into_iter().skip_while(|(step, ..)| *step != how) {
            // SAFETY: kill has no memory effects; the pid is our child that nobody else reaps.
            unsafe { libc::kill(self.pid, signal) };
            let give_up = Instant::now() + patience;
            while Instant::now() < give_up {
                if let Some(ended) = self.try_wait()? {
                    return Ok(ended.usage);
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        bail!("process {} does not end, even after SIGKILL", self.pid)
    }
}

impl Drop for Postmaster {
    fn drop(&mut self) {
        if !self.reaped {
            // Nothing more can be done about one that survives this, and drop could not report it.
            let _ = self.end(Shutdown::Fast);
        }
    }
}

/// What `postmaster.pid` of this data directory says about its state (`starting`, `ready`, …), if it was
/// written by this process.
pub(super) fn status(data_dir: &Path, pid: u32) -> Option<String> {
    let text = fs::read_to_string(data_dir.join("postmaster.pid")).ok()?;
    let mut lines = text.lines();
    if lines.next()? != pid.to_string() {
        return None;
    }
    lines.nth(6).map(|line| line.trim().to_string())
}

/// Ends the children that a killed postmaster left behind, and removes the shared memory it left.
pub(super) fn clear_away(data_dir: &Path) {
    let give_up = Instant::now() + Duration::from_secs(5);
    while Instant::now() < give_up {
        let orphans = processes_in(data_dir);
        if orphans.is_empty() {
            break;
        }
        for pid in orphans {
            // SAFETY: kill has no memory effects; the process works inside our own directory.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    // A server that ended by itself has removed the file and the segment.
    if let Some(segment) = shared_memory(data_dir) {
        // SAFETY: IPC_RMID takes no pointer; the id was written by the server of our own directory.
        unsafe { libc::shmctl(segment, libc::IPC_RMID, std::ptr::null_mut()) };
    }
}

/// Every server process has the data directory as its working directory.
fn processes_in(data_dir: &Path) -> Vec<libc::pid_t> {
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == data_dir))
        .collect()
}

/// Id of the System V shared memory segment that a dead server left behind.
fn shared_memory(data_dir: &Path) -> Option<libc::c_int> {
    let text = fs::read_to_string(data_dir.join("postmaster.pid")).ok()?;
    let mut key_and_id = text.lines().nth(6)?.split_ascii_whitespace();
    key_and_id.nth(1)?.parse().ok()
}

fn duration(time: libc::timeval) -> Duration {
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_usec as u32 * 1_000)
}
