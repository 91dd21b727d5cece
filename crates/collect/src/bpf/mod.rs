//! The BPF programs: loading, attaching, reading.

mod block;
mod call_functions;
mod call_samples;
mod call_waits;
mod cpu_clock;
mod events;
mod fentry;
mod histograms;
mod kernel_functions;
mod latency;
mod load;
mod lwlocks;
mod messages;
mod oracle;
mod others;
mod plain;
mod plans;
mod ring;
mod run_time;
mod sampler;
mod sched;
mod scheduler_clock;
mod unwind;
mod wait_source;

pub(crate) use block::{BlockFilter, BlockLosses, BlockPrograms};
pub(crate) use call_functions::{CallFunctions, FunctionRow, FunctionStep, Probing};
pub(crate) use call_samples::{CallSample, CallSamples};
pub(crate) use call_waits::CallWaits;
#[cfg(test)]
pub(crate) use events::WaitSums;
pub(crate) use events::{Event, ExactState, ExactSums, Listed, SampleEvent, StackEnd};
pub(crate) use kernel_functions::KernelFunctions;
pub(crate) use latency::{latency_kind, read_source, wait_for_programs};
pub use load::Tier;
pub(crate) use load::{Losses, Programs, READY_SLOTS, SamplerKind, Wanted};
pub(crate) use lwlocks::{LockProbes, LockUseKey, LockUseLosses};
pub(crate) use oracle::OracleProbes;
pub(crate) use ring::Ring;
pub(crate) use sampler::{Sampler, SamplerStatistics, become_real_time, make_real_time, thread_cpu_ns};
pub(crate) use sched::{LeftAs, NamedTask, SchedEvent, SchedPrograms, TurnEvent};
pub(crate) use unwind::{CodeMapping, KernelTable, MAX_MAPPINGS, TABLES_AT_ONCE, UnwindMaps};

pub(crate) use recorder::types::{
    dbt_command_key as CommandKey, dbt_command_sums as CommandSums, dbt_latency as Latency,
    dbt_latency_key as LatencyKey, dbt_size, dbt_statement_mark, dbt_unwind_kind, dbt_unwind_number,
    dbt_wait_mark,
};
#[cfg(test)]
pub(crate) use recorder::types::{dbt_sample as Sample, dbt_sample_flag, dbt_space as Space, dbt_unwind_end};

/// What libbpf-cargo generates from a BPF object.
macro_rules! skeleton {
    ($module:ident, $file:literal) => {
        #[allow(
            missing_docs,
            unreachable_pub,
            unused_qualifications,
            unused_imports,
            clippy::all,
            clippy::undocumented_unsafe_blocks
        )]
        mod $module {
            include!(concat!(env!("OUT_DIR"), "/", $file, ".skel.rs"));
        }
    };
}

skeleton!(recorder, "recorder");
skeleton!(block_skeleton, "block");
skeleton!(oracle_skeleton, "oracle");
skeleton!(call_functions_skeleton, "call_functions");
skeleton!(call_samples_skeleton, "call_samples");
skeleton!(call_waits_skeleton, "call_waits");
skeleton!(lwlocks_skeleton, "lwlocks");
skeleton!(sched_skeleton, "sched");
