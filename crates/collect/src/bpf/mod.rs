//! The programs in the kernel: loaded, attached, and read from.

mod events;
mod latency;
mod load;
mod sampler;

pub(crate) use events::{Event, Events, ExactState, ExactSums, SampleEvent, WaitSums};
pub use load::Tier;
pub(crate) use load::{Engine, Programs};
pub(crate) use sampler::Sampler;

/// What libbpf-cargo makes of `bpf/recorder.bpf.c`.
#[allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    unused_imports,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]
mod recorder {
    include!(concat!(env!("OUT_DIR"), "/recorder.skel.rs"));
}
