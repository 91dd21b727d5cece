//! A `dbtime` process that works for the agent. Its messages are repeated under its name; it ends when the agent does, however that ends.
//!
//! The agent has one thread. The kernel sends a child the parent-death signal once for each thread of the parent, and the second one would
//! end a recorder before it has written what it knows.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child as Process, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpid, getppid, kill_process, set_parent_process_death_signal};

use super::lines::Lines;
use crate::output::say;

/// See the module.
#[derive(Debug)]
pub(super) struct Child {
    name: String,
    process: Process,
    since: Instant,
    errors: Lines<ChildStderr>,
    output: Lines<ChildStdout>,
}

impl Child {
    /// Starts it. `name`: prefix of its lines.
    ///
    /// # Errors
    /// No further process can be created.
    pub(super) fn start(name: &str, arguments: &[&OsStr]) -> io::Result<Child> {
        Child::start_with(name, arguments, Stdio::null())
    }

    /// The same, with its output read ([`Child::take_output`]).
    ///
    /// # Errors
    /// No further process can be created.
    pub(super) fn start_to_read(name: &str, arguments: &[&OsStr]) -> io::Result<Child> {
        Child::start_with(name, arguments, Stdio::piped())
    }

    fn start_with(name: &str, arguments: &[&OsStr], stdout: Stdio) -> io::Result<Child> {
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0("dbtime")
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(stdout)
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
        Ok(Child {
            name: name.to_string(),
            errors: Lines::of(process.stderr.take())?,
            output: Lines::of(process.stdout.take())?,
            process,
            since: Instant::now(),
        })
    }

    /// Its process id.
    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// How long it has been running.
    pub(super) fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Ends it if it has been running for longer than this: in good order or, after another minute, with SIGKILL.
    pub(super) fn limit(&mut self, most: Duration) {
        const PATIENCE: Duration = Duration::from_secs(60);
        if self.age() >= most + PATIENCE {
            // It may have ended just now.
            let _ = self.process.kill();
        } else if self.age() >= most {
            self.ask_to_end();
        }
    }

    /// Repeats its messages, and returns how it ended, if it has.
    ///
    /// # Errors
    /// The kernel does not know it.
    pub(super) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        let ended = self.process.try_wait();
        self.say_again();
        ended
    }

    /// Takes the lines of its standard output, which are meant for us.
    pub(super) fn take_output(&mut self, each: impl FnMut(&[u8])) {
        self.output.take(each);
    }

    /// Asks it to end in good order.
    pub(super) fn ask_to_end(&self) {
        if let Some(pid) = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw) {
            // It may have ended just now.
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Waits until it has ended; kills it at `until`.
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
        let name = &self.name;
        self.errors
            .take(|line| say(format_args!("{name}: {}", String::from_utf8_lossy(line))));
    }
}
