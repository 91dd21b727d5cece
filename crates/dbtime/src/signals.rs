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

/// Set by the first Ctrl-C (or TERM, HUP), which ends the work in good order.
///
/// # Errors
/// The operating system takes no handler.
pub fn stop_on_signals(second: Second) -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if second == Second::Ends {
            signal_hook::flag::register_conditional_shutdown(signal, EXIT_STATUS, Arc::clone(&stop))?;
        }
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}
