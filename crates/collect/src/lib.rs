//! Turns a live host into rows: the only crate that touches BPF, /proc or a running database.
//!
//! [`Collector`] records the sessions of a database, in every tier. In the sampled one a timer samples those that are running, a
//! sampler thread those that are not, and the kernel's own counters give the exact time on a CPU and in the run queue; the
//! exact tiers add switches and system calls. Nothing is written to the server's processes. The server is queried only if the
//! caller gave a connection.
//!
//! [`BlockLatency`] measures the block I/O of the host, database or not.
//!
//! [`Dive`] captures what a system call of one task does inside the kernel, as ftrace's text.

mod accounting;
mod alike;
mod allowance;
mod block;
mod bpf;
mod causes;
mod clock;
mod collector;
mod comments;
mod confinement;
mod connections;
mod database;
mod devices;
mod dive;
mod doctor;
mod ending;
mod engine;
mod error;
mod executable;
mod fingerprint;
mod held_locks;
mod host;
mod joined;
mod latencies;
mod left_out;
mod lock_requests;
mod lock_uses;
mod memory;
mod oracle;
mod postgres;
mod priority;
mod privilege;
mod probed_code;
mod proc_engine;
mod process;
mod punctual;
mod rhythm;
mod sched;
mod scratch;
mod seconds;
mod session;
mod small_code;
mod statements;
mod symbols;
mod target_file;
mod task_counts;
mod timer;
mod unwind;

pub use block::{BlockInterval, BlockLatency, BlockOptions, BlockVolume};
pub use bpf::Tier;
pub use collector::{
    Collector, Mechanism, Options, RATES_HZ, RESOLUTIONS_S, SessionProcess, Status, Target, WHOLE_SECONDS,
    levels,
};
pub use database::Texts;
pub use dive::{
    Dive, DiveEngine, DiveFacts, DiveOptions, DiveRemains, DiveStatus, DiveWait, KernelTracing, SystemCall,
    mend as mend_after_dives,
};
pub use doctor::{Examination, Finding, ServerFindings, Verdict, examine};
pub use ending::Ending;
pub use error::CollectError;
pub use host::description as host_description;
pub use lock_requests::Locks;
pub use postgres::{Connect, RunningServer, postmaster_of, running_servers, wait_classes};
pub use privilege::give_up_all_privileges;
pub use sched::SwitchCollector;
pub use scratch::{Scratch, lock_folder, mend_scratch};
