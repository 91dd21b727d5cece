//! How long something that fails is left alone: twice as long each time, up to a limit.

use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(300);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    pause: Duration,
    until: Option<Instant>,
}

impl Backoff {
    /// True when it may be tried.
    pub(super) fn is_over(&self) -> bool {
        self.until.is_none_or(|moment| Instant::now() >= moment)
    }

    /// It has failed. Returns for how long it is left alone now.
    pub(super) fn failed(&mut self) -> Duration {
        self.pause = (self.pause * 2).clamp(FIRST, LONGEST);
        self.until = Some(Instant::now() + self.pause);
        self.pause
    }

    /// It has worked: the next failure is the first.
    pub(super) fn worked(&mut self) {
        self.pause = Duration::ZERO;
    }
}
