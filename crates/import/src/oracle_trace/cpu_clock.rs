//! The steps in which the operating system counts CPU, and what they do to single calls.
//!
//! Older kernels count CPU in ticks: `c` moves in steps of 1 or 10 ms, and the whole step is in the call in which the tick fell (`EXEC
//! #1:c=1000,e=180`). Such a call does not say what it used itself, but over many calls the sum is right. So CPU that does not fit into a
//! call is moved to neighbouring calls of the session: back to earlier ones, whose CPU the tick counted, then on to later ones. It is never
//! taken for CPU inside waits, which only a finer clock shows.

use super::views::signed;

/// A clock is coarse if all its values are multiples of this. Microseconds.
const STEP_US: u64 = 1_000;

/// The coarser of the two steps in use.
const LONG_STEP_US: u64 = 10_000;

/// CPU of one session.
#[derive(Debug, Default)]
pub(super) struct CpuClock {
    /// The step that all values so far agree with; 0 before there was one.
    step_us: u64,
    /// CPU waiting for a call with room for it; negative if calls inside used more than the call they are in.
    carried_us: i64,
}

/// Where the CPU of a call goes. Microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CpuSplit {
    /// In the call, besides its waits.
    pub cpu: u64,
    /// In earlier calls.
    pub earlier: u64,
    /// In its waits: nothing else is left of the call.
    pub inside_waits: u64,
    /// In no call: there is no room left in it, waits included.
    pub beyond: u64,
}

impl CpuClock {
    /// The step of the clock, microseconds: 1 when it is finer than 1 ms, none before there was any CPU.
    pub(super) fn step_us(&self) -> Option<u64> {
        (self.step_us > 0).then_some(self.step_us)
    }

    /// CPU that found no room in any call.
    pub(super) fn carried_us(&self) -> i64 {
        self.carried_us
    }

    /// Takes note of the `c` of a call.
    pub(super) fn told(&mut self, c: u64) {
        if c == 0 || self.step_us == 1 {
            return;
        }
        let longest = if self.step_us == 0 {
            LONG_STEP_US
        } else {
            self.step_us
        };
        let agrees = [LONG_STEP_US, STEP_US]
            .into_iter()
            .find(|step| *step <= longest && c.is_multiple_of(*step));
        self.step_us = agrees.unwrap_or(1);
    }

    /// Splits the CPU of a call itself, given the room besides its waits, and its waits. `earlier` finds room for that much in earlier
    /// calls, and returns how much it found.
    pub(super) fn split(
        &mut self,
        own: i64,
        room: u64,
        waits: u64,
        earlier: impl FnOnce(u64) -> u64,
    ) -> CpuSplit {
        let mut split = CpuSplit::default();
        if self.step_us == 1 && self.carried_us > 0 {
            // The clock has turned out to be finer.
            split.beyond = self.carried_us.unsigned_abs();
            self.carried_us = 0;
        }
        let available = own.saturating_add(self.carried_us);
        let Ok(cpu) = u64::try_from(available) else {
            self.carried_us = available;
            return split;
        };
        split.cpu = cpu.min(room);
        let mut rest = cpu - split.cpu;
        self.carried_us = 0;
        if self.step_us == 1 {
            split.inside_waits = rest.min(waits);
            split.beyond = split.beyond.saturating_add(rest - split.inside_waits);
        } else {
            if rest > 0 {
                split.earlier = earlier(rest).min(rest);
                rest -= split.earlier;
            }
            self.carried_us = signed(rest);
        }
        split
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(values: &[u64]) -> CpuClock {
        let mut clock = CpuClock::default();
        values.iter().for_each(|c| clock.told(*c));
        clock
    }

    #[test]
    fn the_step_is_the_one_that_all_values_agree_with() {
        for (values, step) in [
            (&[][..], None),
            (&[0, 0][..], None),
            (&[10_000, 0, 30_000][..], Some(10_000)),
            (&[10_000, 1_000, 20_000][..], Some(1_000)),
            (&[1_000, 999, 10_000][..], Some(1)),
        ] {
            assert_eq!(clock(values).step_us(), step, "{values:?}");
        }
    }

    #[test]
    fn a_coarse_step_goes_to_the_neighbours_and_never_into_waits() {
        let mut clock = clock(&[1_000]);
        let first = clock.split(1_000, 180, 0, |_| 300);
        assert_eq!((first.cpu, first.earlier, first.inside_waits), (180, 300, 0));
        let next = clock.split(0, 400, 5_000, |_| 0);
        assert_eq!((next.cpu, next.inside_waits), (400, 0));
        assert_eq!(clock.carried_us(), 120);
    }

    #[test]
    fn of_a_fine_clock_what_no_room_is_for_was_inside_waits_but_never_more_than_these() {
        let mut clock = clock(&[451]);
        let split = clock.split(451, 100, 300, |_| panic!("no neighbour is asked"));
        assert_eq!((split.cpu, split.inside_waits, split.beyond), (100, 300, 51));
        // A call inside that used more than the call around it is taken off again.
        clock.split(-20, 10, 0, |_| 0);
        assert_eq!(clock.split(25, 10, 0, |_| 0).cpu, 5);
    }
}
