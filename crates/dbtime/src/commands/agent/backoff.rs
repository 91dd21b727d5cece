//! How long something that fails is left alone: twice as long each time, up to a limit.

use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(300);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    pause: Duration,
    until: Option<Instant>,
    failing_since: Option<Instant>,
}

impl Backoff {
    /// True if another attempt may be made.
    pub(super) fn is_over(&self) -> bool {
        self.until.is_none_or(|moment| Instant::now() >= moment)
    }

    /// How long every attempt has failed; none: the last one worked, or there was none.
    pub(super) fn failing_for(&self) -> Option<Duration> {
        self.failing_since.map(|since| since.elapsed())
    }

    /// An attempt has failed. Returns the pause until the next one.
    pub(super) fn failed(&mut self) -> Duration {
        self.pause = (self.pause * 2).clamp(FIRST, LONGEST);
        let now = Instant::now();
        self.until = Some(now + self.pause);
        self.failing_since.get_or_insert(now);
        self.pause
    }

    /// An attempt has worked: the next failure is the first.
    pub(super) fn worked(&mut self) {
        self.pause = Duration::ZERO;
        self.failing_since = None;
    }
}
