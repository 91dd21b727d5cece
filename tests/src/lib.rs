//! What the end-to-end tests share: servers to record, sessions whose truth is known, the command itself.
//!
//! The tests run the command as a user would. They need root and BPF; without them a test says so loudly and
//! ends, except under `CI=true`, where being skipped is a failure. Time is measured: run them one at a time
//! (`--test-threads=1`). Tests that measure none are in `untimed/`, a package of its own, and run beside each other.

mod block_trace;
mod blocks;
mod books;
mod causes;
mod command;
mod diving;
mod empty_clusters;
mod folder;
mod hanging_disk;
mod holding;
mod host;
pub mod hostile;
mod iolat;
mod kernel_objects;
mod latencies;
mod loaded;
mod looking;
mod loop_device;
mod moved;
mod namespaces;
pub mod pgbench;
mod process;
mod program;
mod real_time;
mod recorded;
mod recorder;
mod replicated;
mod report;
mod sampling;
mod screen;
mod seen;
mod servers;
mod session;
mod slow_disk;
pub mod snapping;
mod stand_in;
mod wire;

pub use block_trace::BlockTrace;
pub use blocks::{BLOCK_BYTES, TableOfBlocks};
pub use books::Books;
pub use causes::{Part, causes, parts};
pub use command::{Outcome, copy_of_command, dbtime, dbtime_as_nobody, dbtime_binary, dbtime_with_memory};
pub use diving::{Diving, instances, trace_settings};
pub use folder::{copy, files};
pub use hanging_disk::HangingDisk;
pub use holding::server_with_hold;
pub use host::{can_record, repository, say, skip, stolen};
pub use iolat::{BlockBucket, BlockIo, BlockRequests, BlockTable, Iolat};
pub use kernel_objects::KernelObjects;
pub use latencies::Latencies;
pub use loaded::{program_is_loaded, programs_of};
pub use looking::Looking;
pub use loop_device::{DiskStat, LoopDevice};
pub use moved::Moved;
pub use namespaces::{NO_BTF, NO_PROCESSES, SmallDisk, dbtime_after};
pub use process::{
    Io, SchedStat, Unreaped, age, children, io, is_exiting, processes_in, schedstat, state_and_tracer,
    wait_for_state,
};
pub use program::{DebugFile, Programs, Running, run};
pub use real_time::take_cpu;
pub use recorded::{Recorded, SessionTime};
pub use recorder::Recorder;
pub use replicated::{Over, Replicated, Stopped};
pub use report::{DatabaseView, LedgerRow, Quality, Report, ReportSession};
pub use sampling::{SampledSum, sampling_error};
pub use screen::Screen;
pub use seen::{MISSED_SWITCH, assert_seen};
pub use servers::{Server, builds, distribution, every_version};
pub use session::{Life, Session, Truth};
pub use slow_disk::SlowDisk;
pub use stand_in::{StandIn, WaitTruth, event};
pub use wire::Wire;

/// Ends the test, loudly, when this host cannot record.
#[macro_export]
macro_rules! needs_recording {
    () => {
        if !$crate::can_record() {
            return;
        }
    };
}

/// Asserts that a number lies between two bounds, which are widened by a share of themselves and by a floor.
#[track_caller]
pub fn assert_between(what: &str, found: f64, least: f64, most: f64, share: f64, floor: f64) {
    let (least, most) = (
        least - (least.abs() * share).max(floor),
        most + (most.abs() * share).max(floor),
    );
    assert!(
        (least..=most).contains(&found),
        "{what}: {found:.6}, but the truth lies in {least:.6} … {most:.6}"
    );
}

/// A number in JSON.
///
/// # Panics
/// When it is not one.
#[track_caller]
pub fn number(value: &serde_json::Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Asserts that two numbers differ by no more than a share of the second, or a floor when that is more.
#[track_caller]
pub fn assert_close(what: &str, found: f64, truth: f64, share: f64, floor: f64) {
    let tolerance = (truth.abs() * share).max(floor);
    assert!(
        (found - truth).abs() <= tolerance,
        "{what}: {found:.4}, but the truth is {truth:.4} (± {tolerance:.4})"
    );
}
