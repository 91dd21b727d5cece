//! When a sampler looks: once in each period, at a random moment of it, and never so often that it would take more than its
//! share of a CPU.

use crate::clock::monotonic_ns;

/// Moments of CLOCK_MONOTONIC, nanoseconds.
pub(crate) struct Rhythm {
    period: u64,
    begin_of_period: u64,
    share_of_cpu: u64,
    random: fastrand::Rng,
}

impl Rhythm {
    /// Begins now. The thread uses at most one in `share_of_cpu` parts of a CPU.
    pub(crate) fn start(rate_hz: u64, share_of_cpu: u64) -> Rhythm {
        Rhythm {
            period: 1_000_000_000 / rate_hz,
            begin_of_period: monotonic_ns(),
            share_of_cpu,
            random: fastrand::Rng::new(),
        }
    }

    /// Moment of the next pass: at a fixed rhythm the samples could keep step with something the database does periodically.
    pub(crate) fn next(&mut self) -> u64 {
        self.begin_of_period + self.random.u64(0..self.period)
    }

    /// A pass that began at this moment has ended. True when the next ones come late for the sake of the CPU.
    pub(crate) fn ended(&mut self, begin: u64) -> bool {
        self.begin_of_period += self.period;
        let end = monotonic_ns();
        let rest = (end - begin) * (self.share_of_cpu - 1);
        let late = end + rest > self.begin_of_period + self.period;
        if late {
            self.begin_of_period = end + rest;
        }
        late
    }
}
