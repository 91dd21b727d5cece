//! How often sessions are sampled.

use clap::Args;
use clap::builder::RangedI64ValueParser;
use dbtime_collect::RATES_HZ;

/// With fewer samples a second, it is not clear enough in which second time was spent.
const LEAST_LIVE_HZ: i64 = 10;

/// Sampling rate of what is divided into seconds of the clock.
#[derive(Debug, Args)]
pub struct LiveRate {
    /// Samples per second and session
    #[arg(short = 'F', long = "frequency", value_name = "HZ", default_value_t = 99,
          value_parser = clap::value_parser!(u32).range(LEAST_LIVE_HZ..=i64::from(*RATES_HZ.end())))]
    pub rate_hz: u32,
}

/// Every rate at which sessions can be sampled.
pub fn any_rate() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(i64::from(*RATES_HZ.start())..=i64::from(*RATES_HZ.end()))
}
