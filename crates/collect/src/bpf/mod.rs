//! The programs in the kernel: loaded, attached, and read from.

mod block;
mod events;
mod latency;
mod load;
mod messages;
mod sampler;

pub(crate) use block::{BlockFilter, BlockLosses, BlockPrograms};
pub(crate) use events::{Event, Events, SampleEvent};
pub(crate) use load::{Engine, Programs};
pub(crate) use sampler::Sampler;

/// What libbpf-cargo makes of `bpf/sampled.bpf.c`.
#[allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    unused_imports,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]
mod sampled {
    include!(concat!(env!("OUT_DIR"), "/sampled.skel.rs"));
}

/// What libbpf-cargo makes of `bpf/block.bpf.c`.
#[allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    unused_imports,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]
mod block_skeleton {
    include!(concat!(env!("OUT_DIR"), "/block.skel.rs"));
}
