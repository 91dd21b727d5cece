//! When a recording is to end. Files crafted to take long to read would delay it, each by seconds: once it is to end, all that
//! is still to be read gets a short time in total.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time for reading names once the end was requested, or has come.
const LAST_NAMES: Duration = Duration::from_secs(2);

/// Says when a recording is to end. Clones share their state.
#[derive(Debug, Clone, Default)]
pub struct Ending {
    stop: Arc<AtomicBool>,
    times: Arc<Mutex<Times>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Times {
    /// When it ends, if that is known.
    at: Option<Instant>,
    /// Set once it is to end.
    reading_until: Option<Instant>,
}

impl Ending {
    /// The recording ends when this is set.
    pub fn when(stop: &Arc<AtomicBool>) -> Ending {
        Ending {
            stop: Arc::clone(stop),
            ..Ending::default()
        }
    }

    /// The recording ends at this time too.
    pub fn set_time(&self, at: Instant) {
        self.times().at = Some(at);
    }

    /// True once the time for reading names is over, for all files.
    pub(crate) fn is_over(&self) -> bool {
        let now = Instant::now();
        let mut times = self.times();
        if let Some(until) = times.reading_until {
            return now >= until;
        }
        if self.stop.load(Ordering::Relaxed) || times.at.is_some_and(|at| now >= at) {
            times.reading_until = Some(now + LAST_NAMES);
        }
        false
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_read_has_one_moment_once_the_end_was_asked_for() {
        let stop = Arc::new(AtomicBool::new(false));
        let ending = Ending::when(&stop);
        let copy = ending.clone();
        assert!(!ending.is_over() && ending.times().reading_until.is_none());
        stop.store(true, Ordering::Relaxed);
        let begin = Instant::now();
        while !copy.is_over() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(begin.elapsed() >= LAST_NAMES);
        // What is read later gets no time of its own.
        assert!(ending.is_over());
        let ending = Ending::default();
        ending.set_time(Instant::now());
        assert!(!ending.is_over() && ending.times().reading_until.is_some());
    }
}
