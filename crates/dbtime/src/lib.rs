//! What the command `dbtime` is made of, and what it shares with its tests and benchmarks.

pub mod calibration;
pub mod commands;
pub mod exit_code;
pub mod filter_line;
pub mod import;
pub mod live;
pub mod memory;
pub mod newest;
pub mod options;
pub mod output;
pub mod page;
pub mod reading;
pub mod record;
pub mod remains;
pub mod signals;
pub mod throwaway;
mod time_of_day;
pub mod usage;
pub mod who;
