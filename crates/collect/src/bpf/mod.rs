//! The programs in the kernel: loaded, attached, and read from.

mod events;
mod load;
mod sampler;

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
