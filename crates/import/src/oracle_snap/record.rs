//! The lines of a spool of `dbtime oracle-snap`.

use std::borrow::Cow;

use crate::oracle_spool::{fields, moment, text};
use crate::session_growth::Kind;
use crate::text::decimal;

/// The most fields that a line has.
const MAX_FIELDS: usize = 9;

/// A session of the instance: SID and SERIAL#.
pub(super) type Sid = (u64, u64);

/// What a line says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Record<'a> {
    Instance {
        version: String,
    },
    /// Something of a session, in the reading of this time (microseconds since the Unix epoch).
    Read {
        time_us: i64,
        sid: Sid,
        what: What<'a>,
    },
    /// The reading was written completely.
    End,
}

/// Something of a session.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum What<'a> {
    Session {
        since_logon_s: u64,
        is_background: bool,
        user: String,
        program: String,
    },
    Value {
        kind: Kind,
        name: Cow<'a, [u8]>,
        /// Of waits.
        class: Cow<'a, [u8]>,
        value: i64,
        waits: i64,
    },
}

/// Reads a line; none if it is not understood, or truncated.
pub(super) fn record(line: &[u8]) -> Option<Record<'_>> {
    let fields = fields(line, MAX_FIELDS)?;
    let (kind, fields) = fields.split_first()?;
    match (kind.as_ref(), fields) {
        (b"read", []) => Some(Record::End),
        (b"instance", [_, version]) => Some(Record::Instance {
            version: text(version),
        }),
        (kind, [time, sid, serial, rest @ ..]) => {
            let what = match (kind, rest) {
                (b"session", [since, of, user, program]) => What::Session {
                    since_logon_s: decimal(since)?,
                    is_background: of.eq_ignore_ascii_case(b"BACKGROUND"),
                    user: text(user),
                    program: text(program),
                },
                (b"stat", [name, value]) => number(Kind::Statistic, name, &Cow::Borrowed(b""), value, b"0")?,
                (b"time", [name, value]) => number(Kind::Time, name, &Cow::Borrowed(b""), value, b"0")?,
                (b"wait", [name, class, us, waits]) => number(Kind::Wait, name, class, us, waits)?,
                (b"waiting", [name, class, us]) => number(Kind::Wait, name, class, us, b"0")?,
                _ => return None,
            };
            Some(Record::Read {
                time_us: moment(time)?,
                sid: (decimal(sid)?, decimal(serial)?),
                what,
            })
        }
        _ => None,
    }
}

fn number<'a>(
    kind: Kind,
    name: &Cow<'a, [u8]>,
    class: &Cow<'a, [u8]>,
    value: &[u8],
    waits: &[u8],
) -> Option<What<'a>> {
    // Some statistics can be below zero.
    let value = match value.strip_prefix(b"-") {
        Some(digits) => -i64::try_from(decimal(digits)?).ok()?,
        None => i64::try_from(decimal(value)?).ok()?,
    };
    (!name.is_empty()).then_some(What::Value {
        kind,
        name: name.clone(),
        class: class.clone(),
        value,
        waits: i64::try_from(decimal(waits)?).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_or_nothing() {
        let line = "wait,2026-01-02T03:04:05.000006Z,12,345,\"enq: \"\"TX\"\", a\",\"Application\",1000,2,.";
        let Some(Record::Read { time_us, sid, what }) = record(line.as_bytes()) else {
            panic!("a line");
        };
        // Checked with `date -u -d … +%s`.
        assert_eq!((time_us, sid), (1_767_323_045_000_006, (12, 345)));
        assert_eq!(
            what,
            What::Value {
                kind: Kind::Wait,
                name: Cow::Borrowed(b"enq: \"TX\", a"),
                class: Cow::Borrowed(b"Application"),
                value: 1000,
                waits: 2,
            }
        );
        for cut in 0..line.len() {
            assert_eq!(record(&line.as_bytes()[..cut]), None, "{cut}");
        }
        assert_eq!(record(b"read,."), Some(Record::End));
        for wrong in [
            "",
            ",",
            ".",
            "read",
            "stat,.",
            "\"",
            "\"a\"b,.",
            "ORA-00942: table or view does not exist",
        ] {
            assert_eq!(record(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
