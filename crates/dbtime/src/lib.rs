//! What the command `dbtime` is made of, and what it shares with its tests and benchmarks.

pub mod arguments;
pub mod calibrate;
pub mod demo;
pub mod diff;
pub mod dive;
pub mod import;
pub mod iolat;
pub mod memory;
pub mod output;
pub mod record;
pub mod remains;
pub mod sched;
pub mod signals;
pub mod throwaway;
