//! A process that gives the terminal back when this one is killed, and so cannot do it itself.
//!
//! It waits for the end of a pipe, which comes however this process ends. Who gives the terminal back writes into the pipe before.

use std::fs;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::OnceLock;

use dbtime_collect::give_up_all_privileges;
use rustix::termios::{OptionalActions, OutputModes, Termios, tcgetattr, tcsetattr};

use super::terminal::write_given_back;

/// What the kernel calls it: whoever kills dbtime by its name leaves it alone.
const NAME: &str = "top-terminal";
/// The end of the pipe that is written to.
static PIPE: OnceLock<PipeWriter> = OnceLock::new();

/// Begins to watch over the terminal. To be called before there are other threads.
///
/// # Errors
/// There is no room for a pipe or a process.
pub(super) fn begin() -> io::Result<()> {
    let before = tcgetattr(io::stdout())?;
    let (read, write) = io::pipe()?;
    // SAFETY: there is no other thread, whose locks the child would find taken for ever.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            drop(write);
            watch(read, before);
            // SAFETY: what is done at the end of a process is for the other one to do.
            unsafe { libc::_exit(0) }
        }
        _ => {
            // It is begun once.
            let _ = PIPE.set(write);
            Ok(())
        }
    }
}

/// The terminal has been given back: there is nothing left to do.
pub(super) fn is_given_back() {
    if let Some(mut pipe) = PIPE.get() {
        // Nobody is left to be told that this did not work.
        let _ = pipe.write(&[0]);
    }
}

fn watch(mut pipe: PipeReader, before: Termios) {
    // A group of its own: what kills the job of a shell leaves it alone. From there it may change modes with this signal ignored only.
    // SAFETY: plain calls on this process, which has one thread.
    unsafe {
        libc::setpgid(0, 0);
        for signal in [libc::SIGTTOU, libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
    // Names are for who looks; it needs no privileges for what is open already.
    let _ = fs::write("/proc/self/comm", NAME);
    let _ = give_up_all_privileges();
    let is_over = pipe.read(&mut [0]).is_ok_and(|count| count > 0);
    let mut out = io::stdout();
    // A shell that was quicker has modes of its own: none of them leaves output as it is.
    let is_raw = |modes: Termios| !modes.output_modes.contains(OutputModes::OPOST);
    if !is_over && tcgetattr(&out).is_ok_and(is_raw) {
        write_given_back(&mut out);
        let _ = out.flush();
        let _ = tcsetattr(&out, OptionalActions::Now, &before);
    }
}
