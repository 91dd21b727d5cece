//! A process that restores the terminal if this one is killed and cannot do so itself.
//!
//! It waits for the end of a pipe, which comes however this process ends. If this process restores the terminal, it writes into the pipe.

use std::fs;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::OnceLock;

use dbtime_collect::give_up_all_privileges;
use rustix::termios::{OptionalActions, OutputModes, Termios, tcgetattr, tcsetattr};

use super::terminal::write_given_back;

/// Its name in the kernel: killing dbtime by name does not hit it.
const NAME: &str = "top-terminal";
/// The write end of the pipe.
static PIPE: OnceLock<PipeWriter> = OnceLock::new();

/// Starts the guard. To be called before there are other threads.
///
/// # Errors
/// A pipe or a process cannot be created.
pub(super) fn begin() -> io::Result<()> {
    let before = tcgetattr(io::stdout())?;
    let (read, write) = io::pipe()?;
    // SAFETY: there is no other thread, whose locks would stay taken in the child for ever.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            drop(write);
            watch(read, before);
            // SAFETY: cleaning up at exit is left to the other process.
            unsafe { libc::_exit(0) }
        }
        _ => {
            // This is called once.
            let _ = PIPE.set(write);
            Ok(())
        }
    }
}

/// The terminal has been restored: there is nothing left to do.
pub(super) fn is_given_back() {
    if let Some(mut pipe) = PIPE.get() {
        // There is nobody left to report a failure to.
        let _ = pipe.write(&[0]);
    }
}

fn watch(mut pipe: PipeReader, before: Termios) {
    // In its own process group, so that killing a shell's job does not hit it. From there it may change modes only with SIGTTOU ignored.
    // SAFETY: plain calls on this process, which has one thread.
    unsafe {
        libc::setpgid(0, 0);
        for signal in [libc::SIGTTOU, libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
    // The name is informative only; no privileges are needed for what is already open.
    let _ = fs::write("/proc/self/comm", NAME);
    let _ = give_up_all_privileges();
    let is_over = pipe.read(&mut [0]).is_ok_and(|count| count > 0);
    let mut out = io::stdout();
    // If a shell was quicker, it has set its own modes, and none of them leaves output unprocessed.
    let is_raw = |modes: Termios| !modes.output_modes.contains(OutputModes::OPOST);
    if !is_over && tcgetattr(&out).is_ok_and(is_raw) {
        write_given_back(&mut out);
        let _ = out.flush();
        let _ = tcsetattr(&out, OptionalActions::Now, &before);
    }
}
