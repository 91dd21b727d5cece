//! The clock of a session: `tim` as microseconds that never go back.
//!
//! Three kinds of clocks do: one with 32 bits starts at 0 again after 71 minutes (Windows before 11g) or 497 days (centiseconds), one that
//! is set back, and that of a file with parts of a session in the wrong order. What follows is moved so that it continues from where the
//! clock was. How much time passed in between is not known.

use super::preview::Unit;

/// Lines of a session may be this much out of order, microseconds: start and end of what they report are read at different moments.
/// Measured on traces of 12c to 19c: up to 5 µs; clocks are set back by 128 ms and more (ntpd steps by no less).
const OUT_OF_ORDER_US: u64 = 100_000;

const BITS_32: u64 = 1 << 32;

/// A line usually follows the previous one within this. Microseconds.
const SOON_US: u64 = 600 * 1_000_000;

/// A clock that never goes back.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Clock {
    unit: Unit,
    /// The last `tim`, as in the file.
    last: Option<u64>,
    /// Microseconds that are added to every `tim`.
    added_us: u64,
    /// How often 32 bits overflowed.
    pub(super) wraps: u64,
    /// How often it was set back otherwise.
    pub(super) steps: u64,
    /// By how much in all, microseconds.
    pub(super) steps_us: u64,
}

impl Clock {
    pub(super) fn new(unit: Unit) -> Clock {
        Clock {
            unit,
            ..Clock::default()
        }
    }

    /// A new session of the same file: 32 bits may have overflowed before it began.
    pub(super) fn of_next_session(&self) -> Clock {
        Clock {
            unit: self.unit,
            added_us: self.unit.us(BITS_32).saturating_mul(self.wraps),
            ..Clock::default()
        }
    }

    /// Its resolution, microseconds.
    #[inline]
    pub(super) fn resolution_us(&self) -> u64 {
        self.unit.us(1)
    }

    /// The last moment, microseconds.
    #[inline]
    fn now_us(&self) -> Option<u64> {
        self.last
            .map(|last| self.unit.us(last).saturating_add(self.added_us))
    }

    /// True if `tim` is a truncated number: it has fewer digits than the last one, and with the missing ones it could be a moment soon
    /// after the last one.
    #[inline]
    pub(super) fn is_cut(&self, tim: u64) -> bool {
        let Some(last) = self.last.filter(|last| tim > 0 && tim < *last) else {
            return false;
        };
        let soon = SOON_US / self.unit.us(1);
        if last < BITS_32 && BITS_32 - last < soon {
            return false;
        }
        let digits = |n: u64| n.checked_ilog10().unwrap_or(0);
        let missing = digits(last.saturating_add(soon)).saturating_sub(digits(tim));
        (1..=missing).any(|missing| {
            let unit = 10u64.pow(missing);
            let (from, to) = (
                tim.saturating_mul(unit),
                tim.saturating_add(1).saturating_mul(unit),
            );
            from <= last.saturating_add(soon) && to > last
        })
    }

    /// True if there was a `tim`.
    pub(super) fn has_begun(&self) -> bool {
        self.last.is_some()
    }

    /// True if `tim` is before the last one.
    #[inline]
    pub(super) fn is_before(&self, tim: u64) -> bool {
        self.last.is_some_and(|last| tim < last)
    }

    /// The moment of `tim`, microseconds. `us`: of a wait, how long it was.
    #[inline]
    pub(super) fn moment_us(&mut self, tim: u64, us: u64) -> u64 {
        if let (Some(last), Some(now)) = (self.last, self.now_us()) {
            let moment = self.unit.us(tim).saturating_add(self.added_us);
            if last < BITS_32 && last.saturating_sub(tim) > BITS_32 / 2 {
                self.wraps += 1;
                self.added_us = self.added_us.saturating_add(self.unit.us(BITS_32));
            } else if moment.saturating_add(OUT_OF_ORDER_US) < now {
                self.steps += 1;
                self.steps_us = self.steps_us.saturating_add(now - moment);
                self.added_us = self.added_us.saturating_add(now - moment).saturating_add(us);
            }
        }
        self.last = Some(tim);
        self.unit.us(tim).saturating_add(self.added_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_of_32_bits_goes_on_when_they_are_full() {
        let mut clock = Clock::new(Unit::Microseconds);
        assert_eq!(clock.moment_us(4_294_967_290, 0), 4_294_967_290);
        assert_eq!(clock.moment_us(4, 0), 4_294_967_300);
        assert_eq!((clock.wraps, clock.steps), (1, 0));
        assert_eq!(clock.of_next_session().moment_us(50, 0), 4_294_967_346);
        let mut clock = Clock::new(Unit::Centiseconds);
        clock.moment_us(4_294_967_295, 0);
        assert_eq!(clock.moment_us(0, 0), 42_949_672_960_000);
    }

    #[test]
    fn a_clock_that_was_set_back_goes_on_where_it_stood() {
        let mut clock = Clock::new(Unit::Microseconds);
        clock.moment_us(9_000_000_000_000_000, 0);
        assert_eq!(
            clock.moment_us(8_999_999_999_999_995, 0),
            8_999_999_999_999_995,
            "lines out of order"
        );
        assert_eq!(clock.moment_us(8_999_990_000_000_000, 70), 9_000_000_000_000_065);
        assert_eq!(clock.moment_us(8_999_990_000_000_100, 0), 9_000_000_000_000_165);
        assert_eq!((clock.wraps, clock.steps, clock.steps_us), (0, 1, 9_999_999_995));
    }

    #[test]
    fn the_beginning_of_a_number_is_no_moment() {
        let mut clock = Clock::new(Unit::Microseconds);
        clock.moment_us(1_377_520_823_034_521, 0);
        for tim in [1, 13, 1_377, 1_377_520, 137_752_082_303_452, 137_752_082_303_453] {
            assert!(clock.is_cut(tim), "{tim}");
        }
        for tim in [0, 5, 1_400, 1_377_520_823_034_000, 1_377_520_823_034_530] {
            assert!(!clock.is_cut(tim), "{tim}");
        }
    }
}
