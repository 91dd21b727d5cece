//! A token bucket: an amount that can be used at once, refilled at a fixed rate per second.

use std::time::Instant;

/// See the module.
#[derive(Debug)]
pub(crate) struct Allowance {
    most: f64,
    a_second: f64,
    left: f64,
    looked: Instant,
}

impl Allowance {
    /// A full allowance at this moment.
    pub(crate) fn new(most: f64, a_second: f64, now: Instant) -> Allowance {
        Allowance {
            most,
            a_second,
            left: most,
            looked: now,
        }
    }

    /// What is left at this moment; negative if more was used than was left.
    pub(crate) fn left(&mut self, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(self.looked).as_secs_f64();
        self.looked = self.looked.max(now);
        self.left = (self.left + passed * self.a_second).min(self.most);
        self.left
    }

    /// Takes this much, even if less is left.
    pub(crate) fn use_up(&mut self, amount: f64) {
        self.left -= amount;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_used_comes_back_with_time_up_to_the_most() {
        let begin = Instant::now();
        let after = |seconds| begin + Duration::from_secs(seconds);
        let mut allowance = Allowance::new(100.0, 2.0, begin);
        allowance.use_up(130.0);
        for (seconds, left) in [(0, -30.0), (10, -10.0), (15, 0.0), (40, 50.0), (4_000, 100.0)] {
            assert_eq!(allowance.left(after(seconds)), left, "after {seconds} s");
        }
        // A clock that goes backwards adds nothing.
        assert_eq!(allowance.left(after(20)), 100.0);
    }
}
