//! A reading and the one before it: what grew between the two.

use std::path::Path;

use dbtime_model::{SessionRow, Wait};

use super::record::{Sid, What};
use crate::Import;
use crate::names::Names;
use crate::oracle_session::described;
use crate::samples::Table;
use crate::session_growth::{Growth, Interval, Kind, SessionTime};

/// Most numbers kept of a reading: those of a thousand sessions are some hundred thousand.
const MAX_VALUES: usize = 1_000_000;

/// Most sessions kept apart.
const MAX_SESSIONS: usize = 100_000;

/// Tolerance for the time since logon, which is in whole seconds of two clocks.
const LOGON_TOLERANCE_US: i64 = 2_000_000;

const SECOND_US: i64 = 1_000_000;

/// Session, kind and name of a number.
type Key = (u32, Kind, u32);

#[derive(Debug, Clone, Copy)]
struct Value {
    value: i64,
    waits: i64,
}

/// All that was read at one time.
#[derive(Debug, Default)]
struct Reading {
    time_us: i64,
    /// In the order of the file.
    values: Vec<(Key, Value)>,
    numbers: Table<Key, usize>,
    /// Some of it was damaged, or did not fit: what is missing is not known to be 0.
    lacks_some: bool,
}

#[derive(Debug)]
struct Session {
    row: SessionRow,
    since_logon_s: Option<u64>,
    is_in_this: bool,
    is_in_before: bool,
}

/// How often something could not be determined.
#[derive(Debug, Default)]
struct NotKnown {
    logged_off: u64,
    began_before: u64,
    went_back: u64,
    without_room: u64,
    back_in_time: u64,
    cut: bool,
}

/// The readings of a file, as far as they are still needed.
#[derive(Debug)]
pub(super) struct Readings {
    path: String,
    this: Option<Reading>,
    before: Option<Reading>,
    names: Names,
    waits: Table<u32, Wait>,
    sessions: Vec<Session>,
    sids: Table<Sid, u32>,
    not_known: NotKnown,
    intervals: u64,
    last_us: Option<i64>,
}

impl Readings {
    pub(super) fn new(path: &Path) -> Readings {
        Readings {
            path: path.display().to_string(),
            this: None,
            before: None,
            names: Names::default(),
            waits: Table::default(),
            sessions: Vec::new(),
            sids: Table::default(),
            not_known: NotKnown::default(),
            intervals: 0,
            last_us: None,
        }
    }

    /// Adds what a line says.
    pub(super) fn read(&mut self, time_us: i64, sid: Sid, what: &What<'_>, into: &mut Import) {
        if self.this.as_ref().is_some_and(|this| this.time_us != time_us) {
            // The end of the reading is missing.
            self.end(false, into);
        }
        let this = self.this.get_or_insert_with(|| Reading {
            time_us,
            ..Reading::default()
        });
        let added = add(
            this,
            sid,
            what,
            &mut self.sessions,
            &mut self.sids,
            &mut self.names,
            &mut self.waits,
        );
        if added.is_none() {
            this.lacks_some = true;
            self.not_known.without_room += 1;
        }
    }

    /// A line could not be read.
    pub(super) fn is_damaged(&mut self) {
        if let Some(this) = &mut self.this {
            this.lacks_some = true;
        }
    }

    /// The reading ends: what grew since the one before becomes rows.
    pub(super) fn end(&mut self, is_whole: bool, into: &mut Import) {
        let Some(mut this) = self.this.take() else { return };
        this.lacks_some |= !is_whole;
        self.last_us = self.last_us.max(Some(this.time_us));
        if let Some(before) = self.before.take() {
            if this.time_us > before.time_us {
                self.grew(&before, &this, into);
            } else {
                self.not_known.back_in_time += 1;
            }
        }
        for session in &mut self.sessions {
            session.is_in_before = session.is_in_this;
            session.is_in_this = false;
            session.since_logon_s = None;
        }
        self.before = Some(this);
    }

    fn grew(&mut self, before: &Reading, this: &Reading, into: &mut Import) {
        self.intervals += 1;
        let elapsed_us = this.time_us.saturating_sub(before.time_us);
        let interval = Interval {
            begin_us: before.time_us,
            end_us: this.time_us,
            elapsed_ns: Some(elapsed_us.saturating_mul(1000)),
            is_whole: !before.lacks_some && !this.lacks_some,
        };
        let mut times: Vec<Option<SessionTime>> = Vec::with_capacity(self.sessions.len());
        for session in &self.sessions {
            let since_logon_us = session
                .since_logon_s
                .map(|s| i64::try_from(s).unwrap_or(i64::MAX).saturating_mul(SECOND_US));
            let is_new = since_logon_us.is_some_and(|us| us <= elapsed_us.saturating_add(LOGON_TOLERANCE_US));
            let is_known = session.is_in_this && (session.is_in_before || is_new);
            times.push(is_known.then(|| {
                let identity = format!("{}\0{}", self.path, session.row.sid);
                let row = SessionRow {
                    started: before.time_us,
                    ..session.row.clone()
                };
                SessionTime::new(into.session(&identity, row))
            }));
            if session.is_in_this && !is_known {
                self.not_known.began_before += 1;
            } else if session.is_in_before && !session.is_in_this && !this.lacks_some {
                self.not_known.logged_off += 1;
            }
        }
        for (key, value) in &this.values {
            let Some(Some(of)) = times.get_mut(key.0 as usize) else {
                continue;
            };
            let old = before.numbers.get(key).map(|at| before.values[*at].1);
            // A number that the previous reading may have had is not known to have been 0.
            if old.is_none() && before.lacks_some && self.sessions[key.0 as usize].is_in_before {
                continue;
            }
            let old = old.unwrap_or(Value { value: 0, waits: 0 });
            self.changed(*key, old, *value, &interval, of, into);
        }
        if !this.lacks_some {
            for (key, old) in before
                .values
                .iter()
                .filter(|(key, _)| !this.numbers.contains_key(key))
            {
                let Some(Some(of)) = times.get_mut(key.0 as usize) else {
                    continue;
                };
                self.changed(*key, *old, Value { value: 0, waits: 0 }, &interval, of, into);
            }
        }
        for of in times.iter().flatten() {
            interval.ended(of, into);
        }
    }

    fn changed(
        &mut self,
        key: Key,
        old: Value,
        new: Value,
        interval: &Interval,
        of: &mut SessionTime,
        into: &mut Import,
    ) {
        let value = new.value.saturating_sub(old.value);
        let waits = new.waits.saturating_sub(old.waits);
        if value == 0 && waits == 0 {
            return;
        }
        let (_, kind, number) = key;
        if kind != Kind::Statistic && (value < 0 || waits < 0) {
            self.not_known.went_back += 1;
            return;
        }
        let name = self.names.get(number);
        let growth = match (kind, self.waits.get(&number)) {
            (Kind::Wait, Some(wait)) => Growth::Wait {
                name,
                wait,
                us: value,
                waits: Some(waits).filter(|waits| *waits > 0),
            },
            (Kind::Time, _) => Growth::Time { name, us: value },
            _ => Growth::Statistic { name, value },
        };
        interval.grew(of, growth, into);
    }

    /// The file has ended.
    pub(super) fn finish(mut self, path: &str, into: &mut Import) {
        self.not_known.cut = self.this.is_some();
        self.end(false, into);
        if let Some(last_us) = self.last_us {
            into.ends(last_us);
        }
        if self.intervals == 0 {
            into.problem(format!(
                "{path}: fewer than two readings: what grew between them is not known"
            ));
        }
        if self.not_known.cut {
            into.problem(format!(
                "{path}: the last reading is truncated: what it lacks is not known"
            ));
        }
        let NotKnown {
            logged_off,
            began_before,
            went_back,
            without_room,
            back_in_time,
            cut: _,
        } = self.not_known;
        let told = [
            (
                logged_off,
                "sessions that ended between two readings and are not in the file",
            ),
            (
                began_before,
                "sessions left out because they are not in the previous reading, although they had begun",
            ),
            (
                went_back,
                "times and waits left out because they are lower than in the previous reading",
            ),
            (
                without_room,
                "lines left out because a reading has more than are kept",
            ),
            (
                back_in_time,
                "readings left out because they are not later than the previous one",
            ),
        ];
        for (count, what) in told.iter().filter(|(count, _)| *count > 0) {
            into.problem(format!("{path}: {what}: {count}"));
        }
    }
}

/// Adds what a line says to a reading; none if there is no room for it.
fn add(
    this: &mut Reading,
    sid: Sid,
    what: &What<'_>,
    sessions: &mut Vec<Session>,
    sids: &mut Table<Sid, u32>,
    names: &mut Names,
    waits: &mut Table<u32, Wait>,
) -> Option<()> {
    let number = match sids.get(&sid) {
        Some(number) => *number,
        None if sessions.len() >= MAX_SESSIONS => return None,
        None => {
            let number = u32::try_from(sessions.len()).ok()?;
            sids.insert(sid, number);
            sessions.push(Session {
                row: described(&number_of(sid), false, "", ""),
                since_logon_s: None,
                is_in_this: false,
                is_in_before: false,
            });
            number
        }
    };
    let session = &mut sessions[number as usize];
    session.is_in_this = true;
    match what {
        What::Session {
            since_logon_s,
            is_background,
            user,
            program,
        } => {
            session.since_logon_s = Some(*since_logon_s);
            session.row = described(&number_of(sid), *is_background, user, program);
        }
        What::Value {
            kind,
            name,
            class,
            value,
            waits: count,
        } => {
            let name_number = names.number(name)?;
            if *kind == Kind::Wait {
                waits.entry(name_number).or_insert_with(|| {
                    let class = String::from_utf8_lossy(class);
                    let is_idle = class == "Idle";
                    Wait::event(class, String::from_utf8_lossy(name), is_idle)
                });
            }
            let key = (number, *kind, name_number);
            match this.numbers.get(&key) {
                Some(at) => {
                    let known = &mut this.values[*at].1;
                    known.value = known.value.saturating_add(*value);
                    known.waits = known.waits.saturating_add(*count);
                }
                None if this.values.len() >= MAX_VALUES => return None,
                None => {
                    this.numbers.insert(key, this.values.len());
                    let value = Value {
                        value: *value,
                        waits: *count,
                    };
                    this.values.push((key, value));
                }
            }
        }
    }
    Some(())
}

/// As the database shows it.
fn number_of((sid, serial): Sid) -> String {
    format!("{sid}.{serial}")
}
