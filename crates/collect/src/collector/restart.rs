//! A server that runs in place of one that ended: everything about it is new, perhaps its version and its files.

use std::time::{Duration, Instant};

use super::Collector;
use crate::CollectError;
use crate::alike::Alike;
use crate::clock::monotonic_ns;
use crate::database::Restart;

/// How long it may take to say where it listens.
const SAYS_WHERE_WITHIN: Duration = Duration::from_secs(10);

/// A server that has to be queried for its statistics and is not yet.
pub(super) struct ToAsk {
    since: Instant,
    /// It did not say in time where it listens: what it counts is not known, until it is restarted.
    is_given_up: bool,
    /// See [`crate::database::Database::ask_anew`].
    goes_on: bool,
}

impl Collector {
    /// Takes up the sessions of the server that runs now.
    pub(super) fn follow_restart(&mut self, restart: Restart) -> Result<(), CollectError> {
        if let Some(counter) = &mut self.lock_counter {
            counter.stop(restart.text.clone());
        }
        self.note(restart.text);
        // Numbers have the meaning of the server that they come from: those of the old one get their names now.
        self.take_latencies(monotonic_ns())?;
        self.end_sessions(u64::MAX)?;
        self.end_others()?;
        self.quality.samples += self.pool.finish(&mut self.rows, &self.held_locks);
        self.finish_locks();
        self.rows.sessions.append(&mut self.alike.take_rows(u64::MAX));
        self.alike = Alike::default();
        self.held_locks.forget_addresses();
        if restart.has_other_files {
            self.name_no_more();
        }
        let described = self.database.describe();
        self.versions.see(self.now_us(), &described);
        if let Some(parent) = self.database.parent() {
            self.symbolizer.set_parent(parent);
            if let Some(unwinding) = &mut self.unwinding {
                unwinding.set_parent(parent);
            }
        }
        if let Some(latencies) = &mut self.latencies {
            latencies.set_server(self.database.at_files(), restart.has_other_files);
        }
        self.gone = None;
        self.checkpointer_has_ended = false;
        self.to_ask = self.statistics.is_some().then(|| ToAsk {
            since: Instant::now(),
            is_given_up: false,
            // If the one before it was never queried, that one must have continued, too.
            goes_on: !restart.has_other_files && self.to_ask.as_ref().is_none_or(|to_ask| to_ask.goes_on),
        });
        if self.to_ask.is_some() {
            self.database
                .settle_who_tells_statements(Some(self.options.texts));
        }
        self.take_up_database()
    }

    /// Has its statistics queried, once it says where it listens.
    pub(super) fn ask_anew(&mut self) {
        let (Some(to_ask), Some(statistics), Some(connect)) =
            (&mut self.to_ask, &self.statistics, &self.options.connect)
        else {
            return;
        };
        if to_ask.is_given_up {
            return;
        }
        match self.database.ask_anew(statistics, connect, to_ask.goes_on) {
            Ok(()) => self.to_ask = None,
            Err(_) if to_ask.since.elapsed() < SAYS_WHERE_WITHIN => {}
            Err(why) => {
                to_ask.is_given_up = true;
                self.database.settle_who_tells_statements(None);
                self.take_reasons();
                self.note(format!(
                    "the server's own statistics are no longer recorded: {why}"
                ));
            }
        }
    }
}
