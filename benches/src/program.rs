//! A program that runs beside the benchmark: starting it, reading its messages, ending it, and what it used.

use std::io::{self, BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::stop::{NOTICED_WITHIN, Stop};

/// How long a program may take to print what is waited for, and to end when told to.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running program. Killed when dropped before its end.
#[derive(Debug)]
pub(crate) struct Program {
    name: String,
    pid: libc::pid_t,
    reaped: bool,
    lines: Receiver<String>,
    said: Vec<String>,
}

/// What a program used from its start to its end, from wait4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Usage {
    /// CPU in user mode.
    pub(crate) user: Duration,
    /// CPU in the kernel.
    pub(crate) system: Duration,
    /// Largest resident set.
    pub(crate) max_rss_bytes: u64,
}

/// Makes a program run in its own process group (Ctrl-C is ours to handle), and be interrupted when we die.
pub(crate) fn tie(command: &mut Command) {
    // SAFETY: getpid reads and cannot fail.
    let owner = unsafe { libc::getpid() };
    command.process_group(0);
    // SAFETY: between fork and exec the closure only calls prctl and getppid, both async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGINT as libc::c_ulong) != 0 {
                return Err(io::Error::last_os_error());
            }
            // The owner may have died before the setting was made.
            if libc::getppid() != owner {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        });
    }
}

impl Program {
    /// Starts a program and reads its standard error. The calling thread has to live as long as the program.
    ///
    /// # Errors
    /// It cannot be run.
    pub(crate) fn start(mut command: Command) -> Result<Program> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {name}"))?;
        let (sender, lines) = channel();
        if let Some(stderr) = child.stderr.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        // Not kept as a `Child`: only wait4 returns what was used, and a `Child` would not know of it.
        Ok(Program {
            name,
            pid: child.id().cast_signed(),
            reaped: false,
            lines,
            said: Vec::new(),
        })
    }

    /// Process id.
    pub(crate) fn pid(&self) -> u32 {
        self.pid.cast_unsigned()
    }

    /// Waits for the next line that `wanted` accepts.
    ///
    /// # Errors
    /// It does not come, with what the program said instead; or a signal came.
    pub(crate) fn wait_for_line<T>(&mut self, stop: &Stop, wanted: impl Fn(&str) -> Option<T>) -> Result<T> {
        let give_up = Instant::now() + PATIENCE;
        loop {
            stop.check()?;
            match self.lines.recv_timeout(NOTICED_WITHIN) {
                Ok(line) => {
                    if let Some(found) = wanted(&line) {
                        return Ok(found);
                    }
                    self.said.push(line);
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() < give_up => {}
                Err(RecvTimeoutError::Timeout) => {
                    bail!(
                        "{} does not say what it should:\n{}",
                        self.name,
                        self.said.join("\n")
                    )
                }
                Err(RecvTimeoutError::Disconnected) => {
                    bail!("{} has ended:\n{}", self.name, self.said.join("\n"))
                }
            }
        }
    }

    /// Waits until it has ended by itself.
    ///
    /// # Errors
    /// It failed, with what it said; or a signal came.
    pub(crate) fn finish(mut self, stop: &Stop) -> Result<()> {
        loop {
            stop.check()?;
            if let Some((status, _)) = self.reap(libc::WNOHANG)? {
                return self.expect(status.success(), status);
            }
            std::thread::sleep(NOTICED_WITHIN);
        }
    }

    /// Ends it with a signal, waits for its end and returns what it used.
    ///
    /// # Errors
    /// It does not end, or it failed, with what it said.
    pub(crate) fn end(mut self, signal: libc::c_int) -> Result<Usage> {
        self.signal(signal);
        let give_up = Instant::now() + PATIENCE;
        while Instant::now() < give_up {
            if let Some((status, usage)) = self.reap(libc::WNOHANG)? {
                self.expect(status.success() || status.signal() == Some(signal), status)?;
                return Ok(usage);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        bail!("{} does not end", self.name)
    }

    fn expect(&mut self, as_expected: bool, status: ExitStatus) -> Result<()> {
        if !as_expected {
            // Up to the end of its standard error.
            self.said.extend(self.lines.iter());
            bail!("{} failed ({status}):\n{}", self.name, self.said.join("\n"));
        }
        Ok(())
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: kill has no memory effects; the child is not reaped yet, so the pid is no other process's.
        unsafe { libc::kill(self.pid, signal) };
    }

    fn reap(&mut self, options: libc::c_int) -> Result<Option<(ExitStatus, Usage)>> {
        let mut status = 0;
        // SAFETY: all-zero bytes are a valid `rusage`, a struct of integers.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the pointers are to live locals; the pid is our child, and not reaped yet, so it cannot be another's.
        match unsafe { libc::wait4(self.pid, &mut status, options, &mut usage) } {
            0 => Ok(None),
            -1 => Err(io::Error::last_os_error()).with_context(|| format!("cannot wait for {}", self.name)),
            _ => {
                self.reaped = true;
                let usage = Usage {
                    user: duration(usage.ru_utime),
                    system: duration(usage.ru_stime),
                    max_rss_bytes: usage.ru_maxrss.cast_unsigned() * 1024,
                };
                Ok(Some((ExitStatus::from_raw(status), usage)))
            }
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if !self.reaped {
            self.signal(libc::SIGKILL);
            // Drop could not report a failure.
            let _ = self.reap(0);
        }
    }
}

fn duration(time: libc::timeval) -> Duration {
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_usec as u32 * 1_000)
}
