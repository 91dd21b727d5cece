//! Child processes that end with their owner, whatever happens.

use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How long a child may take to end in good order before it is killed.
const END: Duration = Duration::from_secs(10);

/// How often to check whether to stop waiting.
const LOOK: Duration = Duration::from_millis(5);

/// A child process. Dropping it asks it to end, as Ctrl-C does, waits, and kills it if necessary.
#[derive(Debug)]
pub(super) struct Kept {
    pub child: Child,
    lines: Receiver<String>,
    last: String,
}

impl Kept {
    /// Starts a program in its own process group, so that Ctrl-C reaches only the owner.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn start(command: &mut Command) -> io::Result<Kept> {
        command.process_group(0).stderr(Stdio::piped());
        // SAFETY: between fork and exec, only prctl is called, which is safe there.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
                Ok(())
            });
        }
        let mut child = command.spawn()?;
        let (to, lines) = mpsc::channel();
        if let Some(stderr) = child.stderr.take() {
            std::thread::spawn(move || {
                // Read to the end, or the child would block on a full pipe.
                let mut reader = BufReader::new(stderr);
                let mut line = Vec::new();
                while reader.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                    let _ = to.send(String::from_utf8_lossy(&line).trim_end().to_string());
                    line.clear();
                }
            });
        }
        Ok(Kept {
            child,
            lines,
            last: String::new(),
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line on standard error.
    ///
    /// # Errors
    /// The child ended first, with the last line it wrote; the line did not come in time; or waiting was to stop.
    pub(super) fn wait_for_line(
        &mut self,
        within: Duration,
        stop: &AtomicBool,
        is_it: impl Fn(&str) -> bool,
    ) -> Result<(), String> {
        let end = Instant::now() + within;
        loop {
            match self.lines.recv_timeout(LOOK) {
                Ok(line) if is_it(&line) => return Ok(()),
                Ok(line) => self.last = line,
                Err(RecvTimeoutError::Timeout) => {
                    if stop.load(Ordering::Relaxed) {
                        return Err("stopped".to_string());
                    }
                    if Instant::now() > end {
                        return Err(format!("it was not ready after {} s", within.as_secs()));
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(match self.last.as_str() {
                        "" => "it exited without a message".to_string(),
                        said => said.to_string(),
                    });
                }
            }
        }
    }

    /// Waits until a condition holds; the error is the last line that the child wrote.
    pub(super) fn wait_until(
        &mut self,
        within: Duration,
        stop: &AtomicBool,
        is_so: impl Fn(u32) -> bool,
    ) -> Result<(), String> {
        let end = Instant::now() + within;
        while !is_so(self.pid()) {
            if let Ok(Some(status)) = self.child.try_wait() {
                // Its messages come through a separate thread.
                while let Ok(line) = self.lines.recv_timeout(Duration::from_millis(200)) {
                    if !line.is_empty() {
                        self.last = line;
                    }
                }
                return Err(match self.last.as_str() {
                    "" => format!("it exited without a message, {status}"),
                    said => said.to_string(),
                });
            }
            if stop.load(Ordering::Relaxed) || Instant::now() > end {
                return Err(format!("it was not ready after {} s", within.as_secs()));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

impl Kept {
    /// Asks it to end, and returns what it wrote since.
    pub(super) fn end(mut self) -> Vec<String> {
        self.ask_to_end();
        // The reading thread ends with the stream.
        self.lines.iter().collect()
    }

    fn ask_to_end(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // SAFETY: a plain call; the child has not been waited for, so the pid is still its own.
            unsafe { libc::kill(self.child.id() as libc::pid_t, libc::SIGINT) };
            let end = Instant::now() + END;
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
                std::thread::sleep(LOOK);
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.ask_to_end();
    }
}

/// Reads a line; the end of the stream is an error.
pub(super) fn line(from: &mut BufReader<impl Read>) -> io::Result<String> {
    let mut line = String::new();
    match from.read_line(&mut line)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(line),
    }
}
