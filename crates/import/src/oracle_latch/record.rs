//! The lines of a spool of `dbtime oracle-latch`.

use std::borrow::Cow;

use crate::latch_mode::LatchMode;
use crate::oracle_spool::{fields, moment, text};
use crate::text::decimal;

/// The most fields that a line has.
const MAX_FIELDS: usize = 14;

/// A session of the instance: SID and SERIAL#, which is missing for a session that V$SESSION does not show.
pub(super) type Sid = (u64, Option<u64>);

/// What a line says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Record<'a> {
    Instance {
        version: String,
    },
    Held(Held<'a>),
    Taken(Taken),
    /// The number of the latch at this address among those of its name.
    Child {
        address: u64,
        number: u32,
    },
    /// Number of all samples, and of all lines of holders, that were written.
    Sampled {
        samples: u64,
        lines: u64,
    },
    Session {
        sid: Sid,
        is_background: bool,
        user: String,
        program: String,
    },
    End,
}

/// A sample met a session that held a latch.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Held<'a> {
    /// Microseconds since the Unix epoch.
    pub(super) time_us: i64,
    pub(super) sid: Sid,
    pub(super) address: u64,
    /// How often the latch had been taken by then.
    pub(super) gets: u64,
    pub(super) lock: Cow<'a, [u8]>,
    pub(super) mode: LatchMode,
    /// Where in the code it was taken, and what for.
    pub(super) code: Cow<'a, [u8]>,
    pub(super) label: Cow<'a, [u8]>,
    pub(super) sql_id: Cow<'a, [u8]>,
    /// Of the wait that it was in; empty: in none.
    pub(super) class: Cow<'a, [u8]>,
    pub(super) event: Cow<'a, [u8]>,
}

/// Samples without a gap between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Taken {
    /// Microseconds since the Unix epoch.
    pub(super) begin_us: i64,
    pub(super) end_us: i64,
    pub(super) samples: u64,
    /// Lines of holders in them.
    pub(super) lines: u64,
}

/// Reads a line; none if it is not understood, or truncated.
pub(super) fn record(line: &[u8]) -> Option<Record<'_>> {
    let fields = fields(line, MAX_FIELDS)?;
    let (kind, fields) = fields.split_first()?;
    match (kind.as_ref(), fields) {
        (b"instance", [_, version]) => Some(Record::Instance {
            version: text(version),
        }),
        (
            b"held",
            [
                time,
                sid,
                serial,
                address,
                gets,
                lock,
                mode,
                code,
                label,
                sql_id,
                class,
                event,
            ],
        ) => (!lock.is_empty()).then_some(Record::Held(Held {
            time_us: moment(time)?,
            sid: session(sid, serial)?,
            address: hexadecimal(address)?,
            gets: decimal(gets)?,
            lock: lock.clone(),
            mode: LatchMode::of(mode),
            code: code.clone(),
            label: label.clone(),
            sql_id: sql_id.clone(),
            class: class.clone(),
            event: event.clone(),
        })),
        (b"taken", [begin, end, samples, lines]) => {
            let taken = Taken {
                begin_us: moment(begin)?,
                end_us: moment(end)?,
                samples: decimal(samples)?,
                lines: decimal(lines)?,
            };
            (taken.end_us > taken.begin_us && taken.samples > 0).then_some(Record::Taken(taken))
        }
        (b"child", [address, number]) => Some(Record::Child {
            address: hexadecimal(address)?,
            number: u32::try_from(decimal(number)?).ok()?,
        }),
        (b"sampled", [samples, lines]) => Some(Record::Sampled {
            samples: decimal(samples)?,
            lines: decimal(lines)?,
        }),
        (b"session", [sid, serial, of, user, program]) => Some(Record::Session {
            sid: session(sid, serial)?,
            is_background: of.eq_ignore_ascii_case(b"BACKGROUND"),
            user: text(user),
            program: text(program),
        }),
        (b"end", []) => Some(Record::End),
        _ => None,
    }
}

fn session(sid: &[u8], serial: &[u8]) -> Option<Sid> {
    let serial = match serial {
        b"" => None,
        digits => Some(decimal(digits)?),
    };
    Some((decimal(sid)?, serial))
}

fn hexadecimal(text: &[u8]) -> Option<u64> {
    let is_address = !text.is_empty() && text.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(text).ok().filter(|_| is_address)?;
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_or_nothing() {
        let line = "held,2026-01-02T03:04:05.000006Z,12,345,00000000AB,7,\"cache buffers chains\",\"EXCLUSIVE\",\
                    \"kcbgtcr: \"\"fast\"\" path\",\"\",\"abc\",\"\",\"\",.";
        let Some(Record::Held(held)) = record(line.as_bytes()) else {
            panic!("a line");
        };
        // Checked with `date -u -d … +%s`.
        assert_eq!((held.time_us, held.sid), (1_767_323_045_000_006, (12, Some(345))));
        assert_eq!(
            (held.address, held.gets, held.mode),
            (0xab, 7, LatchMode::Exclusive)
        );
        assert_eq!(held.code.as_ref(), b"kcbgtcr: \"fast\" path");
        for cut in 0..line.len() {
            assert_eq!(record(&line.as_bytes()[..cut]), None, "{cut}");
        }
        assert_eq!(record(b"end,."), Some(Record::End));
        assert_eq!(
            record(b"child,FFFFFFFFFFFFFFFF,3,."),
            Some(Record::Child {
                address: u64::MAX,
                number: 3
            })
        );
        for wrong in [
            "",
            ".",
            "child,,3,.",
            "child,1FFFFFFFFFFFFFFFF,3,.",
            "child,+1,3,.",
            "child,1,4294967296,.",
            // Backwards, and without samples.
            "taken,2026-01-02T03:04:06.000000Z,2026-01-02T03:04:05.000000Z,10,0,.",
            "taken,2026-01-02T03:04:05.000000Z,2026-01-02T03:04:06.000000Z,0,0,.",
            "ORA-00942: table or view does not exist",
        ] {
            assert_eq!(record(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
