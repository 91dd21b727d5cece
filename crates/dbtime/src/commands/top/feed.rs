//! Seconds that can be queried, wherever they come from.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dbtime_model::recording::Meta;
use dbtime_report::{MoreTables, Recent, Source};

use super::replay::Replay;

pub(super) const SECOND_US: i64 = 1_000_000;
/// How long after the end of a second its rows have usually arrived.
const LATE_US: i64 = 250_000;
/// After this many seconds without rows, time goes on: there is nothing to record, or the recorder gets no CPU.
const SILENT_S: i64 = 2;

/// What the recording and the showing side share.
#[derive(Debug)]
pub(super) struct Shared {
    recent: Mutex<Recent>,
    /// The recording's current message.
    told: Mutex<Option<String>>,
    /// Messages to show once.
    said: Mutex<VecDeque<String>>,
    /// A recording is wanted.
    pub(super) wants_recording: AtomicBool,
    /// A recording is being made.
    pub(super) is_recording: AtomicBool,
}

impl Shared {
    pub(super) fn new(recent: Recent) -> Shared {
        Shared {
            recent: Mutex::new(recent),
            told: Mutex::new(None),
            said: Mutex::default(),
            wants_recording: AtomicBool::new(false),
            is_recording: AtomicBool::new(false),
        }
    }

    /// Queues a message to show once.
    pub(super) fn say(&self, text: String) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.push_back(text);
    }

    pub(super) fn recent(&self) -> MutexGuard<'_, Recent> {
        // Rows are added completely or not at all.
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn told(&self) -> MutexGuard<'_, Option<String>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where rows come from.
#[derive(Debug)]
pub(super) enum Feed {
    /// A running server.
    Live(Arc<Shared>),
    /// A recording.
    Replay(Box<Replay>),
}

impl Feed {
    pub(super) fn is_live(&self) -> bool {
        matches!(self, Feed::Live(_))
    }

    /// The recording's description so far.
    pub(super) fn meta(&self) -> Meta {
        match self {
            Feed::Live(shared) => shared.recent().meta().clone(),
            Feed::Replay(replay) => replay.meta().clone(),
        }
    }

    /// Time that a row covers, microseconds: moments are multiples of it.
    pub(super) fn step_us(&self) -> i64 {
        match self {
            Feed::Live(_) => SECOND_US,
            Feed::Replay(replay) => replay.step_us(),
        }
    }

    /// The begin of the first second and the end of the last complete one, at this moment (microseconds since the Unix epoch).
    pub(super) fn bounds(&self, now_us: i64) -> Option<(i64, i64)> {
        match self {
            Feed::Live(shared) => {
                let recent = shared.recent();
                let (oldest, newest) = (recent.oldest_us()?, recent.newest_us()?);
                Some((
                    oldest,
                    live_end(newest, now_us).max(oldest.saturating_add(SECOND_US)),
                ))
            }
            Feed::Replay(replay) => Some(replay.bounds()),
        }
    }

    /// The rows from one moment to another.
    pub(super) fn source(&mut self, from_us: i64, to_us: i64, more: MoreTables) -> Source {
        match self {
            Feed::Live(shared) => shared.recent().source(from_us, to_us, more),
            Feed::Replay(replay) => replay.source(from_us, to_us, more),
        }
    }

    /// How often rows have arrived.
    pub(super) fn additions(&self) -> u64 {
        match self {
            Feed::Live(shared) => shared.recent().additions(),
            Feed::Replay(_) => 0,
        }
    }

    /// The first second (microseconds since the Unix epoch) for which rows have arrived since there were `additions`.
    pub(super) fn changed_since(&self, additions: u64) -> Option<i64> {
        match self {
            Feed::Live(shared) => shared.recent().changed_since(additions),
            Feed::Replay(_) => None,
        }
    }

    /// Starts recording what is seen, or stops it. Returns the message if that is impossible.
    pub(super) fn record(&self) -> Option<String> {
        match self {
            Feed::Live(shared) => {
                shared.wants_recording.fetch_xor(true, Ordering::Relaxed);
                None
            }
            Feed::Replay(_) => Some("this is a recording already: 'dbtime report' reads it".to_string()),
        }
    }

    /// Whether a recording is being made of what is seen.
    pub(super) fn is_recording(&self) -> bool {
        match self {
            Feed::Live(shared) => shared.is_recording.load(Ordering::Relaxed),
            Feed::Replay(_) => false,
        }
    }

    /// The next of the messages to show once.
    pub(super) fn said(&self) -> Option<String> {
        match self {
            Feed::Live(shared) => {
                let mut said = shared.said.lock().unwrap_or_else(PoisonError::into_inner);
                said.pop_front()
            }
            Feed::Replay(_) => None,
        }
    }

    /// The recording's current message.
    pub(super) fn told(&self) -> Option<String> {
        match self {
            Feed::Live(shared) => shared.told().clone(),
            Feed::Replay(replay) => replay.told().map(str::to_string),
        }
    }
}

/// The end of the last second whose rows have arrived: `newest` is the begin of the last one that has any.
fn live_end(newest: i64, now_us: i64) -> i64 {
    let whole = |us: i64| us.div_euclid(SECOND_US) * SECOND_US;
    let over = whole(now_us - LATE_US);
    (newest + SECOND_US).clamp(over - SILENT_S * SECOND_US, over)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_shown_when_its_rows_are_there_and_time_goes_on_without_rows() {
        let at = |newest: f64, now: f64| {
            let us = |s: f64| (s * 1e6) as i64;
            live_end(us(newest), us(now)) / SECOND_US
        };
        // Its first rows have arrived, others may follow.
        assert_eq!(at(9.0, 10.1), 9);
        assert_eq!(at(9.0, 10.3), 10);
        assert_eq!(at(8.0, 10.3), 9);
        // No session has rows.
        assert_eq!(at(3.0, 20.5), 18);
        // A row of a second that is not over says nothing about the rest of it.
        assert_eq!(at(10.0, 10.3), 10);
    }
}
