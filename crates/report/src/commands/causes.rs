//! What slow commands spend more time on than others.

use std::fmt;

use dbtime_model::{State, StateGroup, Wait, WaitKind};
use serde::Serialize;

use super::ranges::{RangeLedger, side_by_side};
use crate::fields;

/// What a part of a command's time is attributed to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Ready to run without a CPU, whatever it was doing.
    RunQueue,
    /// On a CPU in no wait event.
    Cpu,
    /// In this wait event.
    Wait(Wait),
    /// In a wait event of files for what does not fit into memory: sorts, hashes, materialised rows.
    TemporaryFiles,
    /// Off CPU, and not waiting according to the database.
    OffCpu,
    /// Not known.
    Unknown,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::RunQueue => f.write_str("waiting for a CPU"),
            Cause::Cpu => f.write_str("on CPU"),
            Cause::Wait(wait) => wait.fmt(f),
            Cause::TemporaryFiles => f.write_str("temporary files (IO:BufFile…)"),
            Cause::OffCpu => f.write_str("off CPU in no wait event"),
            Cause::Unknown => f.write_str("not known"),
        }
    }
}

impl Cause {
    fn of(wait: &Wait, state: State) -> Cause {
        match (wait.kind(), state.group()) {
            (_, Some(StateGroup::RunQueue)) => Cause::RunQueue,
            (WaitKind::Unknown, _) | (_, None) => Cause::Unknown,
            (WaitKind::Event, _) if is_of_temporary_files(wait) => Cause::TemporaryFiles,
            (WaitKind::Event, _) => Cause::Wait(wait.clone()),
            (WaitKind::None, Some(StateGroup::OnCpu)) => Cause::Cpu,
            (WaitKind::None, Some(StateGroup::Blocked)) => Cause::OffCpu,
        }
    }
}

/// PostgreSQL writes such a file, and reads it back: one cause. `BufFileRead`, `BufFileTruncate`, `BufFileWrite` up to 16, since then
/// `BuffileRead` and so on.
fn is_of_temporary_files(wait: &Wait) -> bool {
    &*wait.class == "IO"
        && wait
            .event
            .get(..7)
            .is_some_and(|begin| begin.eq_ignore_ascii_case("buffile"))
}

/// Time of a cause in two ranges, nanoseconds per command.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CauseTime {
    /// The cause.
    #[serde(serialize_with = "fields::text")]
    pub cause: Cause,
    /// In the middle half.
    pub median_ns: f64,
    /// In the slowest.
    pub slow_ns: f64,
}

impl CauseTime {
    /// How much more it is in the slowest.
    pub fn more_ns(&self) -> f64 {
        self.slow_ns - self.median_ns
    }
}

/// All causes, what grew most first.
pub(super) fn differences(median: &RangeLedger, slow: &RangeLedger) -> Vec<CauseTime> {
    let by_cause = side_by_side(median, slow, |row| Cause::of(&row.wait, row.state));
    by_cause
        .into_iter()
        .map(|(cause, median_ns, slow_ns)| CauseTime {
            cause,
            median_ns,
            slow_ns,
        })
        .collect()
}
