//! What has to be known of a trace before its first record counts: the unit of its times, and how its clock
//! relates to the time of day.

use super::number::unsigned_prefix;
use super::record::{Record, parse};
use super::wall_clock::wall_clock;

/// Unit of `e`, `ela` and `tim`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Unit {
    #[default]
    Microseconds,
    /// 1,024 nanoseconds: 9.2 and 10.2 on Linux and Solaris shift nanoseconds by ten bits instead of dividing them.
    /// Source: A. Zitelli, "Oracle 10046 tim, e and ela Values use Nanoseconds/1024 not Microseconds, on some Platforms",
    /// oracle-l, 30 March 2007.
    Ns1024,
    Centiseconds,
}

impl Unit {
    /// As microseconds.
    #[inline]
    pub(super) fn us(self, value: u64) -> u64 {
        match self {
            Unit::Microseconds => value,
            Unit::Ns1024 => value.saturating_add(value / 125 * 3 + value % 125 * 3 / 125),
            Unit::Centiseconds => value.saturating_mul(10_000),
        }
    }

    /// CPU as microseconds: the operating system counts it, whatever the clock does.
    #[inline]
    pub(super) fn cpu_us(self, c: u64) -> u64 {
        match self {
            Unit::Microseconds | Unit::Ns1024 => c,
            Unit::Centiseconds => c.saturating_mul(10_000),
        }
    }
}

/// A `tim` in this range counts from the Unix epoch (2000 to 2100), as on many Linux hosts; any other one from the start of the host.
/// Microseconds.
pub(super) const EPOCH_TIM_US: std::ops::Range<u64> = 946_684_800_000_000..4_102_444_800_000_000;

/// How far `tim` and the time of day of the same moment may be apart, microseconds: time zones, and the time between the lines. Units of
/// 1.024 µs add up to ten months in the decades since 1970.
const SAME_TIME_US: u64 = 10 * 86_400 * 1_000_000;

/// Read from the first lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Preview {
    pub unit: Unit,
    /// Time of day minus `tim`, microseconds; none if there is no time of day in the first lines.
    pub offset_us: Option<i64>,
}

impl Preview {
    pub(super) fn of(head: &[u8]) -> Preview {
        let mut release = None;
        let (mut first_tim, mut wall, mut anchor) = (None, None, None);
        let mut is_modern = false;
        for line in head.split(|byte| *byte == b'\n') {
            if release.is_none() {
                release = release_of(line);
            }
            if line.starts_with(b"*** ") {
                wall = wall.or_else(|| wall_clock(line));
                continue;
            }
            let tim = match parse(line) {
                Some(Record::Wait(wait)) => {
                    // Waits say when they ended, and on which object, since 10g.
                    is_modern |= wait.tim.is_some();
                    wait.tim
                }
                Some(Record::Call(call)) => {
                    is_modern |= memchr::memmem::find(line, b",plh=").is_some();
                    call.tim
                }
                Some(Record::Parsing(parsing)) => {
                    is_modern |= parsing.sql_id.is_some();
                    parsing.tim
                }
                _ => None,
            };
            if let Some(tim) = tim {
                first_tim = first_tim.or(Some(tim));
                if anchor.is_none() && wall.is_some() {
                    anchor = wall.map(|wall| (wall, tim));
                }
            }
        }
        let unit = match release {
            Some(..=8) => Unit::Centiseconds,
            Some(10..) => Unit::Microseconds,
            // 9i changed to microseconds, but not in its first releases. A clock in centiseconds has 32 bits.
            Some(9) | None if !is_modern && first_tim.is_some_and(|tim| tim <= u32::MAX.into()) => {
                Unit::Centiseconds
            }
            Some(9) | None => Unit::Microseconds,
        };
        let counts_1024_ns = |tim: &u64| {
            let wall = wall.and_then(|wall| u64::try_from(wall).ok());
            EPOCH_TIM_US.contains(tim)
                && wall.is_some_and(|wall| Unit::Ns1024.us(*tim).abs_diff(wall) < SAME_TIME_US)
        };
        let unit = match first_tim.filter(counts_1024_ns) {
            Some(_) if unit == Unit::Microseconds => Unit::Ns1024,
            _ => unit,
        };
        Preview {
            unit,
            offset_us: anchor.map(|(wall, tim)| wall.saturating_sub_unsigned(unit.us(tim))),
        }
    }
}

/// `Oracle Database 19c Enterprise Edition Release 19.0.0.0.0 - Production`
fn release_of(line: &[u8]) -> Option<u64> {
    if !line.starts_with(b"Oracle") {
        return None;
    }
    let at = memchr::memmem::find(line, b"Release ")?;
    unsigned_prefix(&line[at + b"Release ".len()..]).map(|(release, _)| release)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_decides_the_unit_and_the_size_of_the_clock_where_it_cannot() {
        let unit = |text: &str| Preview::of(text.as_bytes()).unit;
        let call = "EXEC #1:c=0,e=1,dep=0,og=4,tim=409849\n";
        let large = "EXEC #1:c=0,e=1,dep=0,og=4,tim=1050474396391\n";
        assert_eq!(
            unit(&format!(
                "Oracle8i Enterprise Edition Release 8.1.7.0.0 - Production\n{large}"
            )),
            Unit::Centiseconds
        );
        assert_eq!(
            unit(&format!(
                "Oracle9i Enterprise Edition Release 9.0.1.0.0 - Production\n{call}"
            )),
            Unit::Centiseconds
        );
        assert_eq!(
            unit(&format!(
                "Oracle9i Enterprise Edition Release 9.2.0.1.0 - Production\n{large}"
            )),
            Unit::Microseconds
        );
        assert_eq!(
            unit(&format!(
                "Oracle Database 19c Enterprise Edition Release 19.0.0.0.0 - Production\n{call}"
            )),
            Unit::Microseconds
        );
        assert_eq!(
            unit("EXEC #1:c=0,e=1,dep=0,og=4,plh=0,tim=409849\n"),
            Unit::Microseconds
        );
        assert_eq!(unit(""), Unit::Microseconds);
    }

    #[test]
    fn the_time_of_day_tells_a_clock_of_1024_nanoseconds() {
        // The example of the source: 2007-01-19 09:56:00 in a zone five hours behind UTC.
        let trace = "*** SESSION ID:(52.55034) 2007-01-19 09:56:00.761\n\
             PARSING IN CURSOR #1 len=147 dep=1 uid=0 oct=3 lid=0 tim=1141818516446923 hv=1 ad='1'\n";
        assert_eq!(Preview::of(trace.as_bytes()).unit, Unit::Ns1024);
        let plain = trace.replace("1141818516446923", "1169222160841649");
        assert_eq!(Preview::of(plain.as_bytes()).unit, Unit::Microseconds);
        assert_eq!(Unit::Ns1024.us(1_141_818_516_446_923), 1_169_222_160_841_649);
        assert_eq!(Unit::Ns1024.us(1_000), 1_024);
    }
}
