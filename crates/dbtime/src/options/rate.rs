//! How often sessions are looked at.

use clap::Args;
use clap::builder::RangedI64ValueParser;
use dbtime_collect::RATES_HZ;

/// At fewer samples a second it is not clear enough in which one time passed.
const LEAST_LIVE_HZ: i64 = 10;

/// Samples per second of what is divided by the seconds of the clock.
#[derive(Debug, Args)]
pub struct LiveRate {
    /// Samples per second and session
    #[arg(short = 'F', long = "frequency", value_name = "HZ", default_value_t = 99,
          value_parser = clap::value_parser!(u32).range(LEAST_LIVE_HZ..=i64::from(*RATES_HZ.end())))]
    pub rate_hz: u32,
}

/// Every rate at which sessions can be looked at.
pub fn any_rate() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(i64::from(*RATES_HZ.start())..=i64::from(*RATES_HZ.end()))
}
