//! A process of `dbtime` that works for the agent. What it says is said again under its name; it ends when the agent does, however
//! that ends.

use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child as Process, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpid, getppid, kill_process, set_parent_process_death_signal};

use crate::output::say;

/// Characters of a line that is said again.
const LONGEST_LINE: u64 = 4_096;

/// See the module.
#[derive(Debug)]
pub(super) struct Child {
    process: Process,
    since: Instant,
}

impl Child {
    /// Starts it. Must be called by the thread that lives as long as the agent: the kernel ends the child with its thread.
    ///
    /// # Errors
    /// There can be no further process.
    pub(super) fn start(name: &str, arguments: &[&std::ffi::OsStr]) -> io::Result<Child> {
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0("dbtime")
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
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
        if let Some(errors) = process.stderr.take() {
            let name = name.to_string();
            std::thread::Builder::new()
                .name("dbtime-log".to_string())
                .spawn(move || say_again(&name, errors))?;
        }
        Ok(Child {
            process,
            since: Instant::now(),
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

    /// How it has ended, if it has.
    ///
    /// # Errors
    /// The kernel does not know it.
    pub(super) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.process.try_wait()
    }

    /// Asks it to end in good order.
    pub(super) fn ask_to_end(&self) {
        if let Some(pid) = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw) {
            // It may have ended just now.
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Waits until it has ended; after this time it is made to.
    pub(super) fn wait(mut self, patience: Duration) {
        let until = Instant::now() + patience;
        while matches!(self.process.try_wait(), Ok(None)) {
            if Instant::now() >= until {
                let _ = self.process.kill();
                let _ = self.process.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Each line with a name before it.
fn say_again(name: &str, errors: impl Read) {
    let mut errors = BufReader::new(errors);
    let mut line = Vec::new();
    loop {
        line.clear();
        match errors.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => say(format_args!(
                "{name}: {}",
                String::from_utf8_lossy(line.trim_ascii_end())
            )),
        }
    }
}
