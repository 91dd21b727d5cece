//! When a sampler looks: once per period, at a random moment in it, and never so often that it would use more than its share of a CPU.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::monotonic_ns;
use crate::seconds::USUAL_NS;

/// The longest rest, whatever a pass has used: totals are due every second.
const LONGEST_REST_NS: u64 = 2_000_000_000;

/// The last time in which a sampler did not run, judging by its own passes: it was stopped, or the host stood still.
#[derive(Debug, Default)]
pub(crate) struct Standstill {
    length_ns: AtomicU64,
    until_ns: AtomicU64,
}

impl Standstill {
    /// How long it was, and until when (CLOCK_MONOTONIC); None: there was none yet.
    pub(crate) fn last(&self) -> Option<(u64, u64)> {
        let until = self.until_ns.load(Ordering::Acquire);
        (until > 0).then(|| (self.length_ns.load(Ordering::Relaxed), until))
    }
}

/// Moments of CLOCK_MONOTONIC, nanoseconds.
pub(crate) struct Rhythm {
    period: u64,
    begin_of_period: u64,
    share_of_cpu: u64,
    last_pass: u64,
    random: fastrand::Rng,
}

impl Rhythm {
    /// Begins now. The thread uses at most one in `share_of_cpu` parts of a CPU.
    pub(crate) fn start(rate_hz: u64, share_of_cpu: u64) -> Rhythm {
        Rhythm {
            period: 1_000_000_000 / rate_hz,
            begin_of_period: monotonic_ns(),
            share_of_cpu,
            last_pass: monotonic_ns(),
            random: fastrand::Rng::new(),
        }
    }

    /// Time of the next pass: at a fixed rhythm, samples could stay in step with something that the database does periodically.
    pub(crate) fn next(&mut self) -> u64 {
        self.begin_of_period + self.random.u64(0..self.period)
    }

    /// A pass begins at this moment. The time since the previous one is noted if it was too long.
    pub(crate) fn begins(&mut self, now: u64, standstill: &Standstill) {
        let pause = now.saturating_sub(std::mem::replace(&mut self.last_pass, now));
        if pause > USUAL_NS {
            standstill.length_ns.store(pause, Ordering::Relaxed);
            standstill.until_ns.store(now, Ordering::Release);
        }
    }

    /// A pass has ended now and used this much CPU time: not the time that it took, as it may have waited for a lock in the kernel. True if
    /// the next ones are late to save CPU time.
    pub(crate) fn ended(&mut self, now: u64, cpu_ns: u64) -> bool {
        self.begin_of_period += self.period;
        let rest = (cpu_ns * (self.share_of_cpu - 1)).min(LONGEST_REST_NS);
        let late = now + rest > self.begin_of_period + self.period;
        if late {
            self.begin_of_period = now + rest;
        }
        late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn rhythm() -> (Rhythm, u64) {
        let rhythm = Rhythm::start(100, 10);
        let begin = rhythm.begin_of_period;
        (rhythm, begin)
    }

    #[test]
    fn there_is_one_moment_in_each_period() {
        let (mut rhythm, begin) = rhythm();
        for period in 0..1_000 {
            let first = begin + period * 10 * MS;
            let moment = rhythm.next();
            assert!((first..first + 10 * MS).contains(&moment));
            assert!(!rhythm.ended(moment + MS / 2, MS / 2));
        }
    }

    #[test]
    fn who_needs_much_of_a_cpu_rests_and_who_was_held_up_goes_on() {
        let (mut rhythm, begin) = rhythm();
        assert!(rhythm.ended(begin + 5 * MS, 4 * MS));
        assert!(rhythm.next() >= begin + (5 + 9 * 4) * MS);
        // 300 ms of waiting for a lock.
        let (mut rhythm, begin) = self::rhythm();
        assert!(rhythm.ended(begin + 300 * MS, MS / 2));
        let next = rhythm.next();
        assert!(
            next < begin + (300 + 5 + 10) * MS,
            "{} us",
            (next - begin) / 1_000
        );
    }
}
