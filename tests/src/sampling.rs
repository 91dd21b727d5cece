//! How far what samples say may be off.

use crate::assert_close;

/// Four standard deviations of the sampled time of something that took `seconds` out of `of`, and 2 % of it for waits whose samples are
/// torn more often than others. Where nothing else wants the CPUs, samples fall more evenly than that.
pub fn sampling_error(seconds: f64, of: f64, rate_hz: f64) -> f64 {
    let (share, samples) = (seconds / of, of * rate_hz);
    4.0 * (share * (1.0 - share) / samples).sqrt() * of + 0.02 * seconds
}

/// Times of the same thing in several recordings: their sum is known more precisely than each of them.
#[derive(Debug, Default)]
pub struct SampledSum {
    found: f64,
    truth: f64,
    squares: f64,
    stolen: f64,
}

impl SampledSum {
    /// Asserts that a time is right within its error, and adds it. `stolen`: CPU time that was stolen while it was recorded.
    #[track_caller]
    pub fn add(&mut self, what: &str, found: f64, truth: f64, error: f64, stolen: f64) {
        assert_close(what, found, truth, 0.0, error + stolen);
        self.found += found;
        self.truth += truth;
        self.squares += error * error;
        self.stolen += stolen;
    }

    /// Asserts that the sum is right within its own error.
    #[track_caller]
    pub fn assert(&self, what: &str) {
        let error = self.squares.sqrt() + self.stolen;
        assert_close(what, self.found, self.truth, 0.0, error);
    }
}
