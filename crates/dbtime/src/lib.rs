//! What the command `dbtime` is made of, and what it shares with its tests and benchmarks.

pub mod arguments;
pub mod calibrate;
pub mod demo;
pub mod diff;
pub mod dive;
pub mod doctor;
pub mod exit_code;
pub mod filter_line;
pub mod import;
pub mod iolat;
pub mod latch;
pub mod live;
pub mod manual;
pub mod memory;
pub mod newest;
pub mod output;
pub mod page;
pub mod record;
pub mod remains;
pub mod sched;
pub mod signals;
pub mod snap;
pub mod throwaway;
pub mod top;
pub mod usage;
pub mod who;
