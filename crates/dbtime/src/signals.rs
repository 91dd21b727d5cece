//! Ctrl-C, and signals like it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Exit status of a program that was ended at once.
const EXIT_STATUS: i32 = 1;

/// What is said then.
const ENDED_AT_ONCE: &[u8] = b"\ndbtime: stopped before it had finished: what was not yet written is lost\n";
/// A second signal that comes sooner is the same Ctrl-C: passed on by a wrapper, or from a key held down. An orderly stop normally takes
/// less than this.
const SAME_CTRL_C_MS: u64 = 3_000;

/// What the second Ctrl-C does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Second {
    /// Ends the program at once, with a message, if it comes three seconds after the first or later.
    Ends,
    /// Nothing: what has to be cleaned up would be left behind.
    Ignored,
}

/// Returns a flag that the first Ctrl-C (or TERM, HUP) sets, to end the work in good order. A hangup that was ignored when the program was
/// started (`nohup`) still is.
///
/// # Errors
/// A signal handler cannot be installed.
pub fn stop_on_signals(second: Second) -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let first_ms = Arc::new(AtomicU64::new(0));
    let begun = Instant::now();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if signal == SIGHUP && is_ignored(signal)? {
            continue;
        }
        if second == Second::Ends {
            let (stop, first_ms) = (Arc::clone(&stop), Arc::clone(&first_ms));
            // SAFETY: what it calls is allowed in a signal handler (signal-safety(7)): atomics, clock_gettime, write and _exit.
            unsafe {
                signal_hook::low_level::register(signal, move || end_if_late(&stop, &first_ms, begun))?;
            }
        }
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Runs in the signal handler, before it sets `stop`.
fn end_if_late(stop: &AtomicBool, first_ms: &AtomicU64, begun: Instant) {
    let now_ms = begun.elapsed().as_millis() as u64;
    if !stop.load(Ordering::SeqCst) {
        first_ms.store(now_ms, Ordering::SeqCst);
    } else if now_ms.saturating_sub(first_ms.load(Ordering::SeqCst)) >= SAME_CTRL_C_MS {
        // SAFETY: the bytes are those of a constant.
        unsafe {
            libc::write(
                libc::STDERR_FILENO,
                ENDED_AT_ONCE.as_ptr().cast(),
                ENDED_AT_ONCE.len(),
            )
        };
        signal_hook::low_level::exit(EXIT_STATUS);
    }
}

/// Whether the signal is ignored (SIG_IGN).
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
