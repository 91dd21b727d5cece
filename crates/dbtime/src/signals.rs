//! Ctrl-C, and what is like it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Exit status of a program that was ended at once.
const EXIT_STATUS: i32 = 1;

/// What the second Ctrl-C does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Second {
    /// It ends the program at once.
    Ends,
    /// Nothing: what has to be cleaned up would stay.
    Ignored,
}

/// Set by the first Ctrl-C (or TERM, HUP), which ends the work in good order. A hangup that was to be ignored when the program
/// was started (`nohup`) still is.
///
/// # Errors
/// The operating system takes no handler.
pub fn stop_on_signals(second: Second) -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if signal == SIGHUP && is_ignored(signal)? {
            continue;
        }
        if second == Second::Ends {
            signal_hook::flag::register_conditional_shutdown(signal, EXIT_STATUS, Arc::clone(&stop))?;
        }
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Whether nothing happens when a signal comes.
fn is_ignored(signal: libc::c_int) -> io::Result<bool> {
    // SAFETY: sigaction is plain data, for which zero is a value; the call only fills it.
    let (answered, action) = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        (
            libc::sigaction(signal, std::ptr::null(), &mut action) == 0,
            action,
        )
    };
    match answered {
        true => Ok(action.sa_sigaction == libc::SIG_IGN),
        false => Err(io::Error::last_os_error()),
    }
}
