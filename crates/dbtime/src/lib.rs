//! What the command `dbtime` is made of, and what it shares with its tests and benchmarks.
//!
//! ```text
//! commands      one file or folder for each command, with its arguments and what it does with them
//! options       options that several commands share
//! record        a collector, and the recording that it fills: for record, dive and demo
//! live          live snapshots: for snap, latch and metrics
//! import        files of other tools, as a recording or straight into a report
//! reading       opens whatever can be named as a recording
//! folder        a directory that was named although its files were meant
//! output        where answers go, and messages on the way
//! queue         a queue for a thread that may be slow
//! printer       text for a reader that may not read it
//! exit_code     the exit codes of commands
//! throwaway     a PostgreSQL server for demo, tests and benchmarks
//! ```

pub mod advice;
pub mod calibration;
pub mod commands;
pub mod exit_code;
pub mod filter_line;
pub mod folder;
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
