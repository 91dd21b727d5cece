//! What looking cost in a recording.

use serde::Serialize;

use super::timestamp;
use crate::cost_of_looking::CostOfLooking;

#[derive(Serialize)]
pub(super) struct CostJson<'a> {
    look: &'a str,
    calls: u128,
    extra_ns_per_call: u64,
    noise_ns_per_call: u64,
    is_measurable: bool,
    total_ns: u128,
    percent: Option<f64>,
    calibrated: Option<String>,
    host: &'a str,
    is_other_host_possible: bool,
}

impl<'a> From<&'a CostOfLooking> for CostJson<'a> {
    fn from(cost: &'a CostOfLooking) -> CostJson<'a> {
        CostJson {
            look: &cost.look,
            calls: cost.calls,
            extra_ns_per_call: cost.extra_ns,
            noise_ns_per_call: cost.noise_ns,
            is_measurable: cost.is_measurable(),
            total_ns: cost.total_ns,
            percent: cost.percent,
            calibrated: timestamp(cost.calibrated_us),
            host: &cost.host,
            is_other_host_possible: cost.is_other_host_possible,
        }
    }
}
