//! How far what samples say may be from the truth.

use crate::assert_close;

/// Four standard deviations of the time that so many samples give to something which took `seconds` of `of`, and 2 % of it for
/// waits that are torn more than others. Where nothing else wants the CPUs samples fall more evenly than that.
pub fn sampling_error(seconds: f64, of: f64, rate_hz: f64) -> f64 {
    let (share, samples) = (seconds / of, of * rate_hz);
    4.0 * (share * (1.0 - share) / samples).sqrt() * of + 0.02 * seconds
}

/// Times of the same thing in several recordings: their sum is better known than each.
#[derive(Debug, Default)]
pub struct SampledSum {
    found: f64,
    truth: f64,
    squares: f64,
    stolen: f64,
}

impl SampledSum {
    /// Asserts that a time is true within its error, and adds it. `stolen`: while it was recorded.
    #[track_caller]
    pub fn add(&mut self, what: &str, found: f64, truth: f64, error: f64, stolen: f64) {
        assert_close(what, found, truth, 0.0, error + stolen);
        self.found += found;
        self.truth += truth;
        self.squares += error * error;
        self.stolen += stolen;
    }

    /// Asserts that the sum is true within its own.
    #[track_caller]
    pub fn assert(&self, what: &str) {
        let error = self.squares.sqrt() + self.stolen;
        assert_close(what, self.found, self.truth, 0.0, error);
    }
}
