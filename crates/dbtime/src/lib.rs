//! What the command `dbtime` is made of, and what it shares with its tests and benchmarks.
//!
//! ```text
//! commands      what can be typed: a file, or a folder, for each command, with its arguments and what is done with them
//! options       what can be typed at more than one of them
//! record        a collector, and a recording: of record, dive and demo
//! live          snapshots of what goes on: of snap, latch and metrics
//! import        files of other tools as a recording, or straight into a report
//! reading       whatever can be named as a recording, opened
//! output        where answers go, and what is said meanwhile
//! queue         what waits for a thread that may be slow
//! printer       text for who may not read it
//! exit_code     how commands end
//! throwaway     a PostgreSQL server for demo, tests and benchmarks
//! ```

pub mod advice;
pub mod calibration;
pub mod commands;
pub mod exit_code;
pub mod filter_line;
pub mod import;
pub mod inputs;
pub mod live;
pub mod memory;
pub mod newest;
pub mod options;
pub mod output;
pub mod page;
mod printer;
mod queue;
pub mod reading;
pub mod record;
pub mod remains;
pub mod signals;
pub mod throwaway;
mod time_of_day;
pub mod usage;
pub mod who;
pub mod working;
