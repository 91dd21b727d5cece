//! Adds up what samples met, and turns it into rows once it is known how many samples there were and how long they took.

use std::collections::BTreeMap;

use arcstr::ArcStr;
use dbtime_model::counter::{self, latch_samples};
use dbtime_model::{
    CounterRow, HeldLockRow, NO_STACK, Rows, SessionId, SessionRow, State, StatementRow, Wait,
};

use super::record::{Held, Sid, Taken};
use crate::Import;
use crate::latch_mode::{LatchMode, place};
use crate::names::Names;
use crate::oracle_session::described;
use crate::oracle_trace::statement_id;
use crate::samples::Table;

/// Most rows kept until the end of the file.
const MAX_ROWS: usize = 1_000_000;

/// Most lines waiting for the end of their stretch of a second: the script writes 210,000 in all.
const MAX_WAITING: usize = 1_000_000;

/// Most sessions, and latches of each, that are kept apart.
const MAX_SESSIONS: usize = 100_000;
const MAX_HELD: usize = 1_000_000;

/// Only stretches of at least this length show how often samples were taken.
const LONG_US: i64 = 500_000;
/// Sampling is uneven if one stretch has this many times the samples per second of another.
const UNEVEN: f64 = 2.0;

const SECOND_US: i64 = 1_000_000;

/// What a row stands for. Names are numbers; 0 in `code`, `label` and `sql_id` is the empty name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    second: i64,
    session: u32,
    address: u64,
    lock: u32,
    mode: LatchMode,
    code: u32,
    label: u32,
    sql_id: u32,
    class: u32,
    event: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    samples: u64,
    gets: u64,
}

/// A line of the stretch that has not ended yet.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    time_us: i64,
    gets: u64,
    key: Key,
}

#[derive(Debug)]
struct Session {
    sid: Sid,
    row: Option<SessionRow>,
}

/// What could not be determined.
#[derive(Debug, Default)]
struct NotKnown {
    without_room: u64,
    without_stretch: u64,
    missing: u64,
    gaps: u64,
    gaps_us: i64,
    /// Samples that the last line but one says there were.
    of_samples: Option<u64>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Holds {
    names: Names,
    sessions: Vec<Session>,
    sids: Table<Sid, u32>,
    waiting: Vec<Waiting>,
    rows: Vec<(Key, Sum)>,
    numbers: Table<Key, usize>,
    /// How often a latch had been taken when a session was last seen to hold it.
    last_gets: Table<(u32, u64), u64>,
    children: Table<u64, u32>,
    /// Samples, and microseconds, by second.
    taken: BTreeMap<i64, (u64, i64)>,
    samples: u64,
    elapsed_us: i64,
    begin_us: Option<i64>,
    end_us: Option<i64>,
    rates: Option<(f64, f64)>,
    not_known: NotKnown,
}

impl Holds {
    /// A sample met a holder.
    pub(super) fn held(&mut self, held: &Held<'_>) {
        match self.key(held) {
            Some(key) if self.waiting.len() < MAX_WAITING => self.waiting.push(Waiting {
                time_us: held.time_us,
                gets: held.gets,
                key,
            }),
            _ => self.not_known.without_room += 1,
        }
    }

    fn key(&mut self, held: &Held<'_>) -> Option<Key> {
        // The first name, so that its number is 0.
        self.names.number(b"")?;
        Some(Key {
            second: held.time_us.div_euclid(SECOND_US).checked_mul(SECOND_US)?,
            session: self.session_number(held.sid)?,
            address: held.address,
            lock: self.names.number(&held.lock)?,
            mode: held.mode,
            code: self.names.number(&held.code)?,
            label: self.names.number(&held.label)?,
            sql_id: self.names.number(&held.sql_id)?,
            class: self.names.number(&held.class)?,
            event: self.names.number(&held.event)?,
        })
    }

    fn session_number(&mut self, sid: Sid) -> Option<u32> {
        if let Some(number) = self.sids.get(&sid) {
            return Some(*number);
        }
        let number = u32::try_from(self.sessions.len())
            .ok()
            .filter(|_| self.sessions.len() < MAX_SESSIONS)?;
        self.sids.insert(sid, number);
        self.sessions.push(Session { sid, row: None });
        Some(number)
    }

    /// A stretch of samples ends: now it is known how many holders it had.
    pub(super) fn taken(&mut self, taken: &Taken) {
        let mut counted = 0;
        for waiting in std::mem::take(&mut self.waiting) {
            match (taken.begin_us..taken.end_us).contains(&waiting.time_us) {
                true => {
                    counted += 1;
                    self.count(&waiting);
                }
                // The line that ended its stretch is damaged.
                false => self.not_known.without_stretch += 1,
            }
        }
        self.not_known.missing += taken.lines.saturating_sub(counted);
        let us = taken.end_us.saturating_sub(taken.begin_us);
        self.samples = self.samples.saturating_add(taken.samples);
        self.elapsed_us = self.elapsed_us.saturating_add(us);
        let second = taken.begin_us.div_euclid(SECOND_US).saturating_mul(SECOND_US);
        let of_second = self.taken.entry(second).or_default();
        of_second.0 = of_second.0.saturating_add(taken.samples);
        of_second.1 = of_second.1.saturating_add(us);
        if let Some(end_us) = self.end_us
            && taken.begin_us > end_us
        {
            self.not_known.gaps += 1;
            self.not_known.gaps_us = self.not_known.gaps_us.saturating_add(taken.begin_us - end_us);
        }
        self.begin_us = Some(self.begin_us.map_or(taken.begin_us, |us| us.min(taken.begin_us)));
        self.end_us = self.end_us.max(Some(taken.end_us));
        if us >= LONG_US {
            let rate = taken.samples as f64 * SECOND_US as f64 / us as f64;
            let (least, most) = self.rates.unwrap_or((rate, rate));
            self.rates = Some((least.min(rate), most.max(rate)));
        }
    }

    fn count(&mut self, waiting: &Waiting) {
        let key = waiting.key;
        let held = (key.session, key.address);
        let is_new = self.last_gets.get(&held) != Some(&waiting.gets);
        if is_new && self.last_gets.len() >= MAX_HELD && !self.last_gets.contains_key(&held) {
            self.not_known.without_room += 1;
            return;
        }
        let at = match self.numbers.get(&key) {
            Some(at) => *at,
            None if self.rows.len() >= MAX_ROWS => {
                self.not_known.without_room += 1;
                return;
            }
            None => {
                self.numbers.insert(key, self.rows.len());
                self.rows.push((key, Sum::default()));
                self.rows.len() - 1
            }
        };
        self.last_gets.insert(held, waiting.gets);
        let sum = &mut self.rows[at].1;
        sum.samples += 1;
        sum.gets += u64::from(is_new);
    }

    /// Which of the latches of its name the one at this address is.
    pub(super) fn child(&mut self, address: u64, number: u32) {
        if self.children.len() < MAX_HELD {
            self.children.insert(address, number);
        }
    }

    /// What V$SESSION says about a session; sessions that held nothing are ignored.
    pub(super) fn session(&mut self, sid: Sid, is_background: bool, user: &str, program: &str) {
        if let Some(number) = self.sids.get(&sid) {
            let row = described(&number_of(sid), is_background, user, program);
            self.sessions[*number as usize].row = Some(row);
        }
    }

    /// What the script counted itself.
    pub(super) fn sampled(&mut self, samples: u64) {
        self.not_known.of_samples = Some(samples);
    }

    /// The file has ended: rows, and what is not known.
    pub(super) fn finish(mut self, path: &str, is_whole: bool, into: &mut Import) {
        self.not_known.without_stretch += self.waiting.len() as u64;
        self.tell(path, is_whole, into);
        let (Some(begin_us), Some(end_us)) = (self.begin_us, self.end_us) else {
            return;
        };
        into.begins(begin_us);
        into.ends(end_us);
        into.has_held_locks();
        let ns = u64::try_from(self.elapsed_us).unwrap_or(0).saturating_mul(1000);
        let hz = u128::from(self.samples) * 1_000_000_000 / u128::from(ns.max(1));
        into.rate(u32::try_from(hz).unwrap_or(u32::MAX));
        for (second, (samples, us)) in &self.taken {
            for (name, value) in [
                (
                    latch_samples::SAMPLES,
                    i64::try_from(*samples).unwrap_or(i64::MAX),
                ),
                (latch_samples::NS, us.saturating_mul(1000)),
            ] {
                into.counter(CounterRow {
                    time: *second,
                    session: SessionId::RECORDER,
                    source: counter::LATCH_SAMPLES.into(),
                    name: name.into(),
                    value,
                    ..CounterRow::default()
                });
            }
        }
        self.rows(path, begin_us, ns, into);
    }

    fn rows(self, path: &str, begin_us: i64, elapsed_ns: u64, into: &mut Import) {
        let mut ids = Vec::with_capacity(self.sessions.len());
        for session in &self.sessions {
            let number = number_of(session.sid);
            let row = session.row.clone();
            let row = row.unwrap_or_else(|| SessionRow {
                backend_type: dbtime_model::BackendType::UNKNOWN.into(),
                ..described(&number, false, "", "")
            });
            let row = SessionRow {
                started: begin_us,
                ..row
            };
            ids.push(into.session(&format!("{path}\0{number}"), row));
        }
        // All samples stand for the same time. What one row loses by rounding goes to the next one, so that sums are right.
        let until = |samples: u128| samples * u128::from(elapsed_ns) / u128::from(self.samples.max(1));
        let mut before = 0u128;
        for (key, sum) in &self.rows {
            let after = before + u128::from(sum.samples);
            let ns = until(after) - until(before);
            before = after;
            let name = |number: u32| self.names.get(number);
            let wait = match (name(key.event), self.sessions[key.session as usize].sid) {
                ("", (_, None)) => Wait::not_recorded(),
                ("", _) => Wait::none(),
                (event, _) => Wait::event(name(key.class), event, false),
            };
            let statement = match name(key.sql_id) {
                "" => 0,
                sql_id => {
                    let id = statement_id(sql_id.as_bytes());
                    into.statement(StatementRow {
                        id,
                        sql_id: sql_id.to_string(),
                        ..StatementRow::default()
                    });
                    id
                }
            };
            let user_stack = place(name(key.code), name(key.label), into);
            let row = HeldLockRow {
                time: key.second,
                session: ids[key.session as usize],
                statement,
                lock: name(key.lock).into(),
                number: self.children.get(&key.address).copied(),
                address: key.address,
                file: ArcStr::new(),
                relation: ArcStr::new(),
                block: None,
                exclusive: key.mode == LatchMode::Exclusive,
                mode_unknown: key.mode == LatchMode::NotKnown,
                // V$SESSION does not say whether a session that is in no wait has a CPU.
                state: State::Unknown,
                wait_class: wait.class.clone(),
                wait_event: wait.event.clone(),
                kernel_stack: NO_STACK,
                user_stack,
                ns: u64::try_from(ns).unwrap_or(u64::MAX),
                samples: sum.samples,
                gets: sum.gets,
            };
            into.rows(Rows {
                held_locks: vec![row],
                ..Rows::default()
            });
        }
    }

    fn tell(&self, path: &str, is_whole: bool, into: &mut Import) {
        let NotKnown {
            without_room,
            without_stretch,
            missing,
            gaps,
            gaps_us,
            of_samples,
        } = self.not_known;
        if self.samples == 0 {
            into.problem(format!(
                "{path}: no line says how many samples were taken: who held latches is not known"
            ));
        }
        if !is_whole {
            into.problem(format!(
                "{path}: the last line of the script is missing: the file was truncated, or the script was \
                 stopped; what is in it counts up to there"
            ));
        }
        if let Some(samples) = of_samples.filter(|samples| *samples != self.samples) {
            into.problem(format!(
                "{path}: {samples} samples were taken, and the lines that count them say {}: some are damaged or missing",
                self.samples
            ));
        }
        if gaps > 0 {
            into.problem(format!(
                "{path}: gaps of more than 0.1 s in which no sample was taken: {gaps}, {}.{:03} s in all; what was held in them is not \
                 known and no time of theirs is shown",
                gaps_us / SECOND_US,
                gaps_us % SECOND_US / 1000
            ));
        }
        if let Some((least, most)) = self.rates.filter(|(least, most)| *most > UNEVEN * *least) {
            into.problem(format!(
                "{path}: samples are uneven, {least:.0} to {most:.0} a second: each counts the same, so \
                 seconds with fewer count less"
            ));
        }
        let told = [
            (
                without_room,
                "lines left out because the file has more than are kept",
            ),
            (
                without_stretch,
                "lines of holders left out, because no line says how many samples were taken along with \
                 theirs",
            ),
            (
                missing,
                "lines of holders that were written but are missing: their holds are shown too short",
            ),
        ];
        for (count, what) in told.iter().filter(|(count, _)| *count > 0) {
            into.problem(format!("{path}: {what}: {count}"));
        }
    }
}

/// As the database shows it.
fn number_of((sid, serial): Sid) -> String {
    match serial {
        Some(serial) => format!("{sid}.{serial}"),
        None => sid.to_string(),
    }
}
