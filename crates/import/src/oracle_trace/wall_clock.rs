//! Times of day in `***` lines: `2013-08-26 14:40:23.035`, `2019-07-09T09:57:07.703515-07:00`.

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};

/// The first time of day in a line, in microseconds since the Unix epoch. Without an offset it is taken for UTC, because nothing in the
/// file says in which zone the host was.
pub(crate) fn wall_clock(line: &[u8]) -> Option<i64> {
    memchr::memchr_iter(b'-', line).find_map(|at| {
        let start = at.checked_sub(4)?;
        let before = start.checked_sub(1).map(|at| line[at]);
        if before.is_some_and(|byte| byte.is_ascii_digit()) {
            return None;
        }
        moment(&line[start..])
    })
}

fn moment(text: &[u8]) -> Option<i64> {
    let digits = |from: usize, to: usize| -> Option<i16> {
        text.get(from..to)?.iter().try_fold(0i16, |value, byte| {
            byte.is_ascii_digit().then(|| value * 10 + i16::from(byte - b'0'))
        })
    };
    let is = |at: usize, any: &[u8]| text.get(at).is_some_and(|byte| any.contains(byte));
    if !(is(4, b"-") && is(7, b"-") && is(10, b" T") && is(13, b":") && is(16, b":")) {
        return None;
    }
    let small = |from| digits(from, from + 2).and_then(|value| i8::try_from(value).ok());
    let mut at = 19;
    let mut nanosecond = 0i32;
    if is(19, b".") {
        at += 1;
        let mut unit = 100_000_000;
        while let Some(byte) = text.get(at).filter(|byte| byte.is_ascii_digit()) {
            nanosecond += i32::from(byte - b'0') * unit;
            unit /= 10;
            at += 1;
        }
    }
    let civil = DateTime::new(
        digits(0, 4)?,
        small(5)?,
        small(8)?,
        small(11)?,
        small(14)?,
        small(17)?,
        nanosecond,
    )
    .ok()?;
    let offset = match text.get(at) {
        Some(sign @ (b'+' | b'-')) if is(at + 3, b":") => {
            let seconds = i32::from(small(at + 1)?) * 3600 + i32::from(small(at + 4)?) * 60;
            Offset::from_seconds(if *sign == b'-' { -seconds } else { seconds }).ok()?
        }
        _ => Offset::UTC,
    };
    let zoned = civil.to_zoned(TimeZone::fixed(offset)).ok()?;
    Some(zoned.timestamp().as_microsecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read() {
        // Checked with `date -u -d … +%s`.
        for (line, expected) in [
            ("*** 2013-08-26 14:40:23.035", Some(1_377_528_023_035_000)),
            (
                "*** SESSION ID:(9.9) 2002-05-07 16:22:07",
                Some(1_020_788_527_000_000),
            ),
            (
                "*** 2019-07-09T09:57:07.703515-07:00 (PDB(8))",
                Some(1_562_691_427_703_515),
            ),
            ("*** 2024-13-40 00:00:00", None),
            ("*** [ Unix process pid: 9850 ]", None),
            ("2024-01-16", None),
        ] {
            assert_eq!(wall_clock(line.as_bytes()), expected, "{line}");
        }
    }
}
