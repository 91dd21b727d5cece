//! How much of the time in a report is overhead of the tool that recorded it, according to a calibration on
//! the same host.

use dbtime_model::calibration::{Calibration, look, workload};
use dbtime_model::latency::kind;
use dbtime_model::recording::Meta;
use dbtime_model::{LatencyRow, counter};
use serde::Serialize;

use crate::fields;
use crate::sums::percent;

/// Tier of recordings in which every system call is observed.
pub(crate) const CALLS_TIER: &str = "exact-calls";

/// The calibration that applies to a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalibrationOf {
    /// What was measured.
    pub calibration: Calibration,
    /// The user named it: it is also used for files that do not say their host.
    pub is_named: bool,
}

/// Approximate cost of looking.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CostOfLooking {
    /// Which tool looked; see [`look`].
    pub look: String,
    /// System calls that were observed.
    pub calls: u128,
    /// How much longer each of them was, nanoseconds: median of a short call.
    #[serde(rename = "extra_ns_per_call")]
    pub extra_ns: u64,
    /// A lower cost is not distinguishable from noise, nanoseconds per call.
    #[serde(rename = "noise_ns_per_call")]
    pub noise_ns: u64,
    /// The cost of a call is more than the noise of its calibration.
    pub is_measurable: bool,
    /// Calls times their extra cost, nanoseconds.
    pub total_ns: u128,
    /// In percent of the time that was recorded; none when there is none.
    pub percent: Option<f64>,
    /// When it was calibrated, microseconds since the Unix epoch.
    #[serde(rename = "calibrated", serialize_with = "fields::moment")]
    pub calibrated_us: i64,
    /// On which host.
    pub host: String,
    /// The recording does not say whether it was made on that host.
    pub is_other_host_possible: bool,
}

/// Counts the calls that were observed.
pub(crate) struct CostBuilder<'a> {
    calibration: &'a Calibration,
    look: &'static str,
    is_other_host_possible: bool,
    calls: u128,
}

impl<'a> CostBuilder<'a> {
    /// None when the calibration does not apply to the recording: another tier, host or kernel.
    pub(crate) fn new(of: &'a CalibrationOf, meta: &Meta) -> Option<CostBuilder<'a>> {
        let calibration = &of.calibration;
        let is_strace = meta.files.iter().any(|file| file.format == counter::STRACE);
        let look = if meta.collector.tier == CALLS_TIER && calibration.is_of(&meta.host) {
            look::CALLS
        } else if is_strace && of.is_named {
            look::STRACE
        } else {
            return None;
        };
        Some(CostBuilder {
            calibration,
            look,
            is_other_host_possible: look == look::STRACE,
            calls: 0,
        })
    }

    /// Adds latencies that the filter lets through.
    pub(crate) fn add(&mut self, row: &LatencyRow) {
        if *row.kind == *kind::SYSCALL {
            self.calls += u128::from(row.count);
        }
    }

    /// `time_ns`: all recorded time.
    pub(crate) fn finish(self, time_ns: u128) -> Option<CostOfLooking> {
        let cell = self.calibration.cell(self.look, workload::PREAD)?;
        let control = self.calibration.control(workload::PREAD)?;
        let extra_ns = cell.extra_ns.map_or(0, |ns| ns.max(0).unsigned_abs());
        let total_ns = self.calls.saturating_mul(extra_ns.into());
        Some(CostOfLooking {
            look: self.look.to_string(),
            calls: self.calls,
            extra_ns,
            total_ns,
            percent: percent(total_ns, time_ns),
            noise_ns: control.noise_ns,
            is_measurable: extra_ns > control.noise_ns,
            calibrated_us: self.calibration.time_us,
            host: self.calibration.host.name.clone(),
            is_other_host_possible: self.is_other_host_possible,
        })
    }
}
