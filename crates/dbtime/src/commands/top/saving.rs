//! What is seen, as an ordinary recording: what is in memory, and what comes from then on.
//!
//! A slow disk does not stop the display: see [`Sink`].

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use dbtime_model::output::{Directory, caller_of_sudo};
use dbtime_model::recording::{Cost, Meta, Note, Quality};
use dbtime_model::{Described, Rows};
use dbtime_report::Recent;

use super::feed::{SECOND_US, Shared};
use crate::record::{Finishing, Outcome, Output, Part, Progress, Sink};

/// The most that a killed dbtime loses.
const SEGMENT: Duration = Duration::from_secs(5);

/// The recorder's counters, second by second: they cover its whole run, a recording only its own time.
#[derive(Debug, Default)]
pub(super) struct Standings(VecDeque<(i64, Quality, Cost)>);

impl Standings {
    /// Adds the current counters, and forgets those from before everything that is kept.
    pub(super) fn add(&mut self, meta: &Meta, oldest_us: Option<i64>) {
        if self
            .0
            .back()
            .is_none_or(|(us, ..)| meta.end_us >= us.saturating_add(SECOND_US))
        {
            self.0
                .push_back((meta.end_us, meta.quality.clone(), meta.cost.clone()));
        }
        let is_past = |(us, ..): &(i64, Quality, Cost)| oldest_us.is_some_and(|oldest| *us <= oldest);
        while self.0.get(1).is_some_and(is_past) {
            self.0.pop_front();
        }
    }

    /// The counters at that moment.
    fn at(&self, us: i64) -> (Quality, Cost) {
        let before = self.0.iter().rev().find(|(at, ..)| *at <= us);
        before.map_or_else(Default::default, |(_, quality, cost)| {
            (quality.clone(), cost.clone())
        })
    }
}

/// See the module.
pub(super) struct Saving {
    sink: Sink,
    shared: Arc<Shared>,
    start_us: i64,
    notes: Vec<Note>,
    before: (Quality, Cost),
    pending: Rows,
    /// Its end, once it has been asked to end.
    until_us: Option<i64>,
    described: Described,
    next: Instant,
}

impl Saving {
    /// Begins with everything in memory, in the directory where dbtime was started. `meta`: the current state.
    ///
    /// # Errors
    /// Nothing can be created there.
    pub(super) fn begin(meta: &Meta, standings: &Standings, shared: &Arc<Shared>) -> anyhow::Result<Saving> {
        let here = std::env::current_dir().context("the directory in which dbtime was started")?;
        let directory = Directory::open(&here).with_context(|| here.display().to_string())?;
        let (rows, oldest, latencies_since) = {
            let recent = shared.recent();
            let oldest = recent.oldest_us();
            let rows = recent.rows();
            (rows, oldest, recent.latencies_since_us())
        };
        let start_us = oldest.map_or(meta.start_us, |oldest| oldest.max(meta.start_us));
        let notes = match latencies_since.filter(|since| *since > start_us) {
            Some(time_us) => vec![Note {
                time_us,
                text: "there were too many earlier latencies to keep until recording began".to_string(),
            }],
            None => Vec::new(),
        };
        let begun = Meta {
            start_us,
            ..meta.clone()
        };
        let sink = Sink::begin(Output::In(Arc::new(directory)), caller_of_sudo(), true, begun)?;
        let path = sink.path();
        let seconds = meta.end_us.saturating_sub(start_us) / SECOND_US;
        shared.say(said(&path, seconds));
        Ok(Saving {
            sink,
            shared: Arc::clone(shared),
            start_us,
            notes,
            before: standings.at(start_us),
            described: Described::default(),
            pending: rows,
            until_us: None,
            next: Instant::now(),
        })
    }

    /// Takes rows as they come.
    pub(super) fn add(&mut self, rows: &Rows) {
        let mut rows = rows.clone();
        // Only a part of the second before the first one is there.
        let first = self.start_us.div_euclid(SECOND_US) * SECOND_US;
        let mut later = rows.split_off_times(first);
        later.sessions = rows.sessions;
        later.stacks = rows.stacks;
        later.statements = rows.statements;
        later.comments = rows.comments;
        self.pending.append(later);
    }

    /// Passes on what has arrived, if it is time. False if recording has failed.
    pub(super) fn go_on(&mut self, meta: impl FnOnce() -> Meta, recent: &Recent) -> bool {
        // A request to end it may have been withdrawn.
        self.until_us = None;
        let mut tell = telling(&self.shared);
        self.sink.tell(&mut tell);
        if Instant::now() >= self.next {
            self.next = Instant::now() + SEGMENT;
            let part = self.part(meta(), recent);
            self.sink.take(part, &mut tell);
        }
        self.sink.is_writing()
    }

    /// Its end: the end of the current second, because times of parts of it are not known.
    pub(super) fn until_us(&mut self, now_us: i64) -> i64 {
        let next = now_us
            .div_euclid(SECOND_US)
            .saturating_add(1)
            .saturating_mul(SECOND_US);
        *self.until_us.get_or_insert(next)
    }

    /// What is waiting, with its descriptions.
    fn part(&mut self, meta: Meta, recent: &Recent) -> Part {
        let mut rows = std::mem::take(&mut self.pending);
        if let Some(until_us) = self.until_us {
            rows.split_off_times(until_us);
        }
        self.described.add(rows.describes());
        let mut missing = rows.refers_to();
        missing.subtract(&self.described);
        let found = recent.descriptions_of(&missing);
        self.described.add(found.describes());
        rows.append(found);
        let mut notes = meta.notes;
        notes.retain(|note| note.time_us >= self.start_us);
        notes.extend(self.notes.iter().cloned());
        Part {
            now_us: meta.end_us,
            meta: Meta {
                start_us: self.start_us,
                end_us: self.until_us.map_or(meta.end_us, |until| until.min(meta.end_us)),
                quality: meta.quality.since(&self.before.0),
                cost: meta.cost.since(&self.before.1),
                notes,
                ..meta
            },
            rows,
        }
    }

    /// Ends it with what is waiting.
    pub(super) fn end(mut self, meta: Meta, recent: &Recent) -> Ending {
        let last = self.part(meta, recent);
        Ending {
            last: self.sink.end(last),
            shared: self.shared,
        }
    }
}

/// A recording whose last rows are on their way to the disk.
pub(super) struct Ending {
    last: Finishing,
    shared: Arc<Shared>,
}

impl Ending {
    /// True when all is written, or nothing can be written any more.
    pub(super) fn is_over(&self) -> bool {
        self.last.is_over()
    }

    /// Waits until all of it is on the disk.
    ///
    /// # Errors
    /// Some of it could not be written.
    pub(super) fn finish(self) -> anyhow::Result<Outcome> {
        self.last.finish(&mut telling(&self.shared))
    }
}

/// Shows notes on the screen.
fn telling(shared: &Arc<Shared>) -> impl FnMut(Progress<'_>) + use<> {
    let shared = Arc::clone(shared);
    move |progress| {
        if let Progress::Note(text) = progress {
            shared.say(text.to_string());
        }
    }
}

fn said(path: &std::path::Path, seconds: i64) -> String {
    let (name, place) = (path.file_name(), path.parent());
    let name = name.map(PathBuf::from).unwrap_or_default();
    let place = place.map(PathBuf::from).unwrap_or_default();
    format!(
        "recording {} (r stops it) in {}: the last {seconds} s and what follows",
        name.display(),
        place.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_before_a_recording_is_not_told_of_it() {
        let at = |second: i64, lost| Meta {
            end_us: second * SECOND_US,
            quality: Quality {
                lost,
                ..Quality::default()
            },
            ..Meta::default()
        };
        let mut standings = Standings::default();
        for second in 0..100 {
            standings.add(
                &at(second, second.unsigned_abs() * 10),
                Some((second - 30) * SECOND_US),
            );
        }
        assert_eq!(standings.at(80 * SECOND_US).0.lost, 800);
        assert_eq!(standings.at(80 * SECOND_US + 500_000).0.lost, 800);
        assert!(standings.0.len() < 40, "{}", standings.0.len());
        // Nothing had happened before the first known second.
        assert_eq!(standings.at(-1).0.lost, 0);
    }
}
