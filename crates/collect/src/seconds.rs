//! The seconds that an interval of a session's account is booked to.
//!
//! Usually it is one: totals are taken once a second. After a time without totals (the recorder was stopped, the host stood
//! still) it is all that have passed, and what is known about them together is spread evenly.

use crate::clock::Clock;

/// Longer intervals are spread.
pub(crate) const USUAL_NS: u64 = 2_500_000_000;

const SECOND_NS: u64 = 1_000_000_000;

/// The moment that decides the second of an interval, CLOCK_MONOTONIC. Intervals begin and end within a pass of a whole second:
/// their middle says which second is meant.
pub(crate) fn middle(begin: u64, end: u64) -> u64 {
    begin + end.saturating_sub(begin) / 2
}

/// Start of each second (microseconds since the Unix epoch), and how much of the interval has passed by its end.
#[derive(Debug)]
pub(crate) struct Seconds(Vec<(i64, u64)>);

impl Seconds {
    /// Of an interval, CLOCK_MONOTONIC.
    pub(crate) fn of(clock: Clock, begin: u64, end: u64) -> Seconds {
        if end.saturating_sub(begin) <= USUAL_NS {
            return Seconds::at(clock, middle(begin, end));
        }
        let mut seconds = Vec::new();
        let mut from = begin;
        while from < end {
            let until = clock.next_second(from).clamp(from + 1, end);
            seconds.push((clock.second_us(from), until - begin));
            from = until;
        }
        // A sliver of a second at either end belongs to its neighbour: it is how late a pass was.
        let slivers = |until: u64, before: u64| until - before < SECOND_NS / 10;
        if seconds.len() > 1 && slivers(seconds[0].1, 0) {
            seconds.remove(0);
        }
        if let [.., (_, before), (_, last)] = seconds[..]
            && slivers(last, before)
        {
            seconds.pop();
            if let Some(second) = seconds.last_mut() {
                second.1 = last;
            }
        }
        Seconds(seconds)
    }

    /// Of a moment, CLOCK_MONOTONIC.
    pub(crate) fn at(clock: Clock, moment: u64) -> Seconds {
        Seconds(vec![(clock.second_us(moment), 1)])
    }

    /// Divides numbers of the interval among its seconds: the parts sum to them.
    pub(crate) fn spread<const N: usize>(&self, numbers: [u64; N]) -> impl Iterator<Item = (i64, [u64; N])> {
        let whole = self.0.last().map_or(1, |(_, until)| *until).max(1);
        let mut given = [0; N];
        self.0.iter().map(move |&(time, until)| {
            let part = std::array::from_fn(|at| {
                let due = (u128::from(numbers[at]) * u128::from(until) / u128::from(whole)) as u64;
                due - std::mem::replace(&mut given[at], due)
            });
            (time, part)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_interval_of_a_second_is_written_under_the_second_that_it_is_most_of() {
        let clock = Clock::start();
        let begin = clock.next_second(5 * SECOND_NS) + 3_000_000;
        let found: Vec<_> = Seconds::of(clock, begin, begin + SECOND_NS)
            .spread([7, 9])
            .collect();
        assert_eq!(found, [(clock.second_us(begin), [7, 9])]);
    }

    #[test]
    fn twelve_seconds_are_twelve_times_one() {
        let clock = Clock::start();
        let begin = clock.next_second(5 * SECOND_NS) + 3_000_000;
        let end = begin + 12 * SECOND_NS + 2_000_000;
        let found: Vec<_> = Seconds::of(clock, begin, end).spread([end - begin]).collect();
        assert_eq!(found.len(), 12);
        for (n, (time, [ns])) in found.into_iter().enumerate() {
            assert_eq!(time, clock.second_us(begin) + n as i64 * 1_000_000);
            assert!(ns.abs_diff(SECOND_NS) < 10_000_000, "{ns}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost(begin in 0u64..100 * SECOND_NS, length in 0u64..100 * SECOND_NS, numbers: [u64; 3]) {
            let seconds = Seconds::of(Clock::start(), begin, begin + length);
            let mut sums = [0u64; 3];
            let mut last = i64::MIN;
            for (time, parts) in seconds.spread(numbers) {
                prop_assert!(time > last);
                last = time;
                for (sum, part) in sums.iter_mut().zip(parts) {
                    *sum += part;
                }
            }
            prop_assert_eq!(sums, numbers);
        }
    }
}
