//! What is looked up now and then, besides what the kernel sends: who holds a lock, transactions, latencies, what the server counts.

use std::collections::HashMap;
use std::time::Instant;

use arcstr::literal;
use dbtime_model::{CounterRow, SessionId, counter};

use super::{Collector, NoRoomFor};
use crate::CollectError;
use crate::causes::Causes;
use crate::clock::monotonic_ns;
use crate::database::Database;
use crate::latencies::Latencies;
use crate::postgres::activity::Shown;
use crate::postgres::statistics::{ServerStatistics, Told};
use crate::seconds::middle;
use crate::session::LiveSession;
use crate::statements::POOLED;

impl Collector {
    /// Who ends a wait is known when it ends; until then the database's own list says who holds the lock.
    pub(super) fn look_who_holds_locks(&mut self, now: u64) {
        if let Some(causes) = &mut self.causes {
            for (pid, holders) in self.database.blockers(&causes.waiting_for_locks()) {
                causes.held(pid, now, &holders);
            }
        }
    }

    /// A session that sends WAL to a standby waits for it as if it had nothing to do: the other end of its connection shows who it is.
    pub(super) fn look_who_has_the_log(&mut self) {
        let Some(causes) = &mut self.causes else {
            return;
        };
        let may_come = !self.options.standbys.is_empty();
        for (&pid, session) in &self.sessions {
            let looks = session.end.is_none() && !session.is_client() && !causes.knows_standby(pid, may_come);
            if looks && let Some(standby) = self.database.standby(pid) {
                causes.sends_to(pid, standby, &self.database.standbys());
            }
            // One that sleeps for long is sampled only once.
            if session.end.is_none() {
                look_how_far_standby_is(causes, &*self.database, pid);
            }
        }
    }

    pub(super) fn take_latencies(&mut self, now: u64) -> Result<(), CollectError> {
        match (&mut self.latencies, self.engine.programs()) {
            (Some(latencies), Some(programs)) => latencies.take(
                programs,
                self.probes.as_mut(),
                &*self.names,
                self.clock,
                now,
                &mut self.rows,
            )?,
            _ => return Ok(()),
        }
        if self.rows.latency.iter().any(|row| row.statement == POOLED) {
            self.see_statement(0, POOLED);
        }
        let left_out = self.latencies.as_ref().map_or(0, Latencies::files_left_out);
        if left_out > 0 && self.noted.insert(NoRoomFor::Files) {
            self.note(format!(
                "the data directory has more files than there is room for: {left_out} or more have no name"
            ));
        }
        Ok(())
    }

    /// Counts transactions of client sessions since the last time. Idle ones, of which there may be hundreds, are not read.
    pub(super) fn count_transactions(&mut self, now: u64, of_all: bool) {
        let sessions = self.sessions.values_mut();
        let clients = sessions.filter_map(|session| {
            let is_due = session.may_have_made_transactions() || of_all;
            (is_due && session.is_client()).then_some(session.pid)
        });
        let clients: Vec<u32> = clients.collect();
        let middle_ns = middle(self.counted_transactions_ns, now);
        self.counted_transactions_ns = now;
        // From now on they are counted with all others.
        self.uncounted.clear();
        self.count_transactions_of(&clients, middle_ns);
    }

    /// Begins to count those of sessions that have just been named, without waiting for the next second.
    pub(super) fn begin_to_count(&mut self, now: u64) {
        if self.uncounted.is_empty() {
            return;
        }
        let mut uncounted = std::mem::take(&mut self.uncounted);
        self.count_transactions_of(&uncounted, now);
        // When its counter becomes its own is not known: try again.
        uncounted.retain(|pid| {
            let session = self.sessions.get(pid);
            session.is_some_and(|session| !session.counts_transactions && session.is_client())
        });
        self.uncounted = uncounted;
    }

    fn count_transactions_of(&mut self, clients: &[u32], at: u64) {
        let Some((source, growth)) = self.database.transactions(clients) else {
            return;
        };
        let address = self.database.transaction_counter();
        for (pid, grown) in growth {
            let Some(session) = self.sessions.get_mut(&pid) else {
                continue;
            };
            // A first row of 0 says that the session is counted.
            let is_first = !std::mem::replace(&mut session.counts_transactions, true);
            if let (true, Some(address), Some(programs)) = (is_first, address, self.engine.programs()) {
                programs.read_at_end(pid, address);
            }
            if grown > 0 || is_first {
                self.rows
                    .counters
                    .push(transactions_row(session, self.clock.second_us(at), source, grown));
            }
        }
    }

    /// Counts what a session that has ended did after it was last read.
    pub(super) fn count_last_transactions(&mut self, session: &LiveSession) {
        let number = self
            .engine
            .programs()
            .and_then(|programs| programs.number_at_end(session.pid));
        let (Some(number), Some(end_ns)) = (number, session.end_ns()) else {
            return;
        };
        if let Some((source, grown @ 1..)) = self.database.last_transactions(session.pid, number) {
            let time = self.clock.second_us(end_ns);
            self.rows
                .counters
                .push(transactions_row(session, time, source, grown));
        }
    }

    /// Takes what the server has answered since the last time.
    pub(super) fn take_told(&mut self) {
        let told: Vec<Told> = self.statistics.iter().flat_map(ServerStatistics::take).collect();
        self.take_statistics(told);
    }

    /// Takes what the server reports that its sessions execute. Texts are those of recorded sessions.
    fn take_shown(&mut self, asked_ns: u64, sessions: Vec<Shown>) {
        let mut said = HashMap::with_capacity(sessions.len());
        for session in sessions {
            if session.said.works() && self.sessions.contains_key(&session.pid) {
                let text = || session.text;
                self.statements
                    .see(session.said.statement, Instant::now(), &mut self.rows, text);
            }
            said.insert(session.pid, session.said);
        }
        self.joined.learn(asked_ns, said);
        if let Some(text) = self.statements.say_once() {
            self.note(text.to_string());
        }
    }

    /// The application name that the server reports for a session, if the session itself does not have it. A session that was described
    /// without one is not described again.
    pub(super) fn application_told(&self, session: &LiveSession) -> Option<String> {
        let said = self.joined.at(session.pid, 0, monotonic_ns());
        let said = said.filter(|_| session.is_application_unknown())?;
        Some(said.application)
    }

    /// Takes what the server counts, for itself and for recorded sessions.
    pub(super) fn take_statistics(&mut self, told: Vec<Told>) {
        for told in told {
            let (from, to, grown) = match told {
                Told::Grown(from, to, grown) => (from, to, grown),
                Told::Shown(asked, sessions) => {
                    self.take_shown(asked, sessions);
                    continue;
                }
                Told::Note(text) => {
                    self.note(text);
                    continue;
                }
            };
            let time = self.clock.second_us(middle(from, to));
            for growth in grown {
                let session = match growth.pid {
                    None => Some(SessionId::RECORDER),
                    Some(pid) => self.sessions.get(&pid).map(|session| session.id),
                };
                self.rows.counters.extend(session.map(|session| CounterRow {
                    time,
                    session,
                    statement: growth.statement,
                    source: literal!(counter::SERVER_STATISTICS),
                    name: growth.name.into(),
                    value: growth.value,
                    ..CounterRow::default()
                }));
            }
        }
    }
}

/// Notes up to where the standby that a session sends WAL to has reported flushing it.
pub(super) fn look_how_far_standby_is(causes: &mut Causes, database: &dyn Database, pid: u32) {
    if causes.sends_log(pid)
        && let Some(position) = database.standby_flushed(pid)
    {
        causes.standby_flushed(pid, monotonic_ns(), position);
    }
}

fn transactions_row(session: &LiveSession, time: i64, source: &str, grown: u32) -> CounterRow {
    CounterRow {
        time,
        session: session.id,
        source: source.into(),
        name: literal!(counter::TRANSACTIONS),
        value: grown.into(),
        ..CounterRow::default()
    }
}
