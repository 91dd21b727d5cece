//! A process of `dbtime` that works for the agent. What it says is said again under its name; it ends when the agent does, however
//! that ends.
//!
//! The agent has one thread. The kernel tells a child that its parent has died once for each thread that the parent had, and the second
//! signal would end a recorder before it has written what it knows.

use std::ffi::OsStr;
use std::io::{self, ErrorKind, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child as Process, ChildStderr, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, getpid, getppid, kill_process, set_parent_process_death_signal};

use crate::output::say;

/// Bytes of a line that is said again; a longer one is cut into several.
const LONGEST_LINE: usize = 4_096;

/// See the module.
#[derive(Debug)]
pub(super) struct Child {
    name: String,
    process: Process,
    since: Instant,
    errors: Option<ChildStderr>,
    /// The begin of a line that has no end yet.
    line: Vec<u8>,
}

impl Child {
    /// Starts it. `name`: what stands before its lines.
    ///
    /// # Errors
    /// There can be no further process.
    pub(super) fn start(name: &str, arguments: &[&OsStr]) -> io::Result<Child> {
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0("dbtime")
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // Ctrl-C is for the agent, which asks them to end.
            .process_group(0);
        let agent = getpid();
        // SAFETY: between fork and exec only two system calls are made, which allocate nothing and take no lock.
        unsafe {
            command.pre_exec(move || {
                set_parent_process_death_signal(Some(Signal::TERM))?;
                // It may have ended before that.
                match getppid() == Some(agent) {
                    true => Ok(()),
                    false => Err(io::Error::from_raw_os_error(libc::ESRCH)),
                }
            });
        }
        let mut process = command.spawn()?;
        let errors = process.stderr.take();
        if let Some(errors) = &errors {
            fcntl_setfl(errors, fcntl_getfl(errors)? | OFlags::NONBLOCK)?;
        }
        Ok(Child {
            name: name.to_string(),
            process,
            since: Instant::now(),
            errors,
            line: Vec::new(),
        })
    }

    /// Its process.
    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// How long it has been there.
    pub(super) fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Ends it when it has been there for longer than this, in good order or, after another minute, not.
    pub(super) fn limit(&mut self, most: Duration) {
        const PATIENCE: Duration = Duration::from_secs(60);
        if self.age() >= most + PATIENCE {
            // It may have ended just now.
            let _ = self.process.kill();
        } else if self.age() >= most {
            self.ask_to_end();
        }
    }

    /// Says what it has said, and how it has ended, if it has.
    ///
    /// # Errors
    /// The kernel does not know it.
    pub(super) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        let ended = self.process.try_wait();
        self.say_again();
        ended
    }

    /// Asks it to end in good order.
    pub(super) fn ask_to_end(&self) {
        if let Some(pid) = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw) {
            // It may have ended just now.
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Waits until it has ended; at this moment it is made to.
    pub(super) fn wait(mut self, until: Instant) {
        while matches!(self.ended(), Ok(None)) {
            if Instant::now() >= until {
                let _ = self.process.kill();
                let _ = self.process.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn say_again(&mut self) {
        let Some(errors) = &mut self.errors else {
            return;
        };
        let mut part = [0; LONGEST_LINE];
        loop {
            let read = match errors.read(&mut part) {
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                // There is nothing for now.
                Err(_) => break,
                Ok(0) => {
                    self.errors = None;
                    break;
                }
                Ok(read) => read,
            };
            for &byte in &part[..read] {
                if byte == b'\n' || self.line.len() == LONGEST_LINE {
                    say_line(&self.name, &mut self.line);
                }
                if byte != b'\n' {
                    self.line.push(byte);
                }
            }
        }
        if self.errors.is_none() && !self.line.is_empty() {
            say_line(&self.name, &mut self.line);
        }
    }
}

fn say_line(name: &str, line: &mut Vec<u8>) {
    say(format_args!("{name}: {}", String::from_utf8_lossy(line)));
    line.clear();
}
