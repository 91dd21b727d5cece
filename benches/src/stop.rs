//! Ctrl-C ends the benchmark in good order: everything that waits checks it, and cleaning up is left to drops.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// How soon a signal is noticed.
pub(crate) const NOTICED_WITHIN: Duration = Duration::from_millis(50);

/// Set by Ctrl-C, TERM and HUP.
#[derive(Debug, Clone)]
pub(crate) struct Stop(Arc<AtomicBool>);

/// The error of everything that was waiting when the signal came.
#[derive(Debug)]
pub(crate) struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stopped by a signal; servers and temporary files are cleared away")
    }
}

impl std::error::Error for Stopped {}

impl Stop {
    /// Catches the signals from now on.
    ///
    /// # Errors
    /// A handler cannot be installed.
    pub(crate) fn on_signals() -> Result<Stop> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&flag))?;
        }
        Ok(Stop(flag))
    }

    /// Fails once a signal has come.
    ///
    /// # Errors
    /// [`Stopped`].
    pub(crate) fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) {
            return Err(Stopped.into());
        }
        Ok(())
    }

    /// Sleeps.
    ///
    /// # Errors
    /// [`Stopped`] before the time was over.
    pub(crate) fn sleep(&self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        loop {
            self.check()?;
            match end.saturating_duration_since(Instant::now()) {
                Duration::ZERO => return Ok(()),
                left => std::thread::sleep(left.min(NOTICED_WITHIN)),
            }
        }
    }
}
