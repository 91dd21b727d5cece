//! The rows of one snapshot, kept until its last line says when it was.

use dbtime_model::{BackendType, SessionId, SessionRow};

use super::columns::{Row, Session};
use super::length::Length;
use crate::Import;
use crate::names::Names;
use crate::oracle_trace::backend_type;
use crate::oracle_trace::events::Events;
use crate::samples::Table;
use crate::session_growth::{Growth, Interval, Kind, SessionTime};

/// In place of a session, for what the whole instance counts.
const INSTANCE: &[u8] = b"-1";

#[derive(Debug)]
struct Grown {
    session: u32,
    kind: Kind,
    name: u32,
    delta: i64,
    waits: Option<i64>,
}

/// SID, instance, user: their numbers in [`Names`].
type Who = (u32, u32, u32);

/// Rows so far.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    /// Line of the first row.
    pub line: u64,
    /// Start and length, if rows have them.
    pub taken: Option<(i64, i64)>,
    /// Some rows could not be read.
    pub is_damaged: bool,
    /// Growth is rounded.
    pub is_rounded: bool,
    /// What its rows say about its length.
    pub length: Length,
    rows: Vec<Grown>,
    sessions: Vec<Who>,
    numbers: Table<Who, u32>,
}

impl Snapshot {
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// True if the row belongs to another snapshot than those before it.
    pub(super) fn is_another(&self, row: &Row<'_>) -> bool {
        self.len() > 0 && self.taken != row.taken
    }

    /// Adds a row; false if there are too many names.
    pub(super) fn add(&mut self, row: &Row<'_>, line: u64, names: &mut Names) -> bool {
        let (kind, name) = match row.kind {
            b"STAT" => (Kind::Statistic, names.number(row.statistic)),
            b"TIME" => (Kind::Time, names.number(row.statistic)),
            b"WAIT" => (Kind::Wait, names.number(row.statistic)),
            other => (
                Kind::Statistic,
                names.number(&[other, b": ", row.statistic].concat()),
            ),
        };
        let (Some(name), Some(session)) = (name, self.session(&row.session, names)) else {
            return false;
        };
        if self.rows.is_empty() {
            self.line = line;
            self.taken = row.taken;
        }
        self.is_rounded |= row.is_rounded;
        self.length.meet(row.length);
        self.rows.push(Grown {
            session,
            kind,
            name,
            delta: row.delta,
            waits: row.waits,
        });
        true
    }

    fn session(&mut self, session: &Session<'_>, names: &mut Names) -> Option<u32> {
        let who = (
            names.number(session.sid)?,
            names.number(session.instance)?,
            names.number(session.user)?,
        );
        if let Some(number) = self.numbers.get(&who) {
            return Some(*number);
        }
        let number = u32::try_from(self.sessions.len()).ok()?;
        self.sessions.push(who);
        self.numbers.insert(who, number);
        Some(number)
    }

    /// Turns all into rows.
    pub(super) fn finish(
        self,
        interval: &Interval,
        names: &Names,
        events: &mut Events,
        path: &str,
        into: &mut Import,
    ) {
        let mut sessions: Vec<SessionTime> = Vec::with_capacity(self.sessions.len());
        for (sid, instance, user) in self.sessions {
            let session = described(names.get(sid), names.get(instance), names.get(user));
            let id = match session {
                None => SessionId::RECORDER,
                Some(session) => {
                    let identity = format!("{path}\0{}\0{}", session.sid, names.get(user));
                    let started = interval.begin_us;
                    into.session(&identity, SessionRow { started, ..session })
                }
            };
            sessions.push(SessionTime::new(id));
        }
        for row in self.rows {
            let name = names.get(row.name);
            let of = &mut sessions[row.session as usize];
            let growth = match row.kind {
                Kind::Statistic => Growth::Statistic {
                    name,
                    value: row.delta,
                },
                Kind::Time => Growth::Time { name, us: row.delta },
                Kind::Wait => {
                    let event = events.id(name.as_bytes());
                    Growth::Wait {
                        name,
                        wait: &events.get(event).wait,
                        us: row.delta,
                        waits: row.waits,
                    }
                }
            };
            interval.grew(of, growth, into);
        }
        for session in &sessions {
            interval.ended(session, into);
        }
    }
}

/// `1090  @1` and `TANEL`, or `(DBW0)`: if a session has no user, Snapper prints the end of its program. None for the instance.
fn described(sid: &str, instance: &str, user: &str) -> Option<SessionRow> {
    let (sid, of_instance) = match sid.split_once('@') {
        Some((sid, of_instance)) => (sid.trim(), of_instance.trim()),
        None => (sid, instance),
    };
    if sid.as_bytes() == INSTANCE {
        return None;
    }
    let sid = match of_instance {
        "" => sid.to_string(),
        of_instance => format!("{sid}@{of_instance}"),
    };
    let is_program = user.starts_with('(');
    Some(SessionRow {
        backend_type: match is_program {
            true => backend_type(user).into(),
            false => BackendType::CLIENT.into(),
        },
        user: if is_program {
            String::new()
        } else {
            user.to_string()
        },
        title: [sid.as_str(), user].join(" ").trim_end().to_string(),
        sid,
        ..SessionRow::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_who_it_says() {
        let kind = |user| described("7", "", user).map(|session| (session.backend_type, session.user));
        assert_eq!(
            kind("TANEL"),
            Some(("client backend".into(), "TANEL".to_string()))
        );
        for (program, expected) in [
            ("(DBW0)", "dbw0"),
            ("(P003)", "parallel worker"),
            ("(TNS V1-V3", "client backend"),
        ] {
            assert_eq!(kind(program), Some((expected.into(), String::new())), "{program}");
        }
        let sid = |sid, instance| described(sid, instance, "").map(|session| session.sid);
        assert_eq!(sid("1090  @1", "").as_deref(), Some("1090@1"));
        assert_eq!(sid("1090", "2").as_deref(), Some("1090@2"));
        assert_eq!(sid("1090", "").as_deref(), Some("1090"));
        assert_eq!(sid("-1", "").as_deref(), None);
        assert_eq!(sid("-1  @1", "").as_deref(), None);
    }
}
