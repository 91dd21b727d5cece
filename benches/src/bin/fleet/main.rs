//! `fleet`: a fleet's days in a store, made from a few real recordings; their size, and that of a month of a larger fleet.
//!
//! ```text
//! fleet record SHAPES                       recordings of a throw-away PostgreSQL under several loads (needs root)
//! fleet make SHAPES/*.dbt --store STORE     hosts, each with its own identities and its own mixture of these loads
//! fleet sizes STORE                         bytes, files and requests of a host and day; on paper 1,000 hosts for 30 days
//! ```
//!
//! The store contains what agents would have put there: the same windows, the same writer of recordings, the same put. `queries.py`
//! measures how long queries take on it, and what they read. A benchmark asserts nothing about time.

mod host;
mod lab;
mod make;
mod shape;
mod sizes;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use dbtime::output::{say, to_stdout};
use jiff::civil::Date;

#[derive(Debug, Parser)]
#[command(name = "fleet", max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Record a throw-away PostgreSQL under several loads, one recording each (needs root)
    Record {
        /// Directory to create for the recordings
        directory: PathBuf,
        /// Seconds of each
        #[arg(long, default_value_t = 180, value_parser = clap::value_parser!(u32).range(10..))]
        seconds: u32,
        /// This load only
        #[arg(long)]
        only: Option<String>,
    },
    /// Make a fleet's days from recordings and put them into a store
    Make(MakeArguments),
    /// Show what a store in a directory takes, and what a month of 1,000 such hosts would
    Sizes {
        /// The store
        store: PathBuf,
    },
}

/// `fleet make`
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct MakeArguments {
    /// Recordings of single seconds, of different loads
    #[arg(required = true)]
    pub(crate) shapes: Vec<PathBuf>,
    /// The store: a directory or a bucket
    #[arg(long)]
    pub(crate) store: PathBuf,
    /// Hosts
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) hosts: u32,
    /// Days, from midnight to midnight (UTC)
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) days: u32,
    /// Hours of each day, from midnight on
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=24))]
    pub(crate) hours: u32,
    /// The first day
    #[arg(long, default_value = "2026-10-01")]
    pub(crate) first: Date,
    /// Seconds of a row, as in `record --resolution`: the agents' by default
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) resolution: u32,
    /// Hours of a recording, as in `record --rotate`: the agents' by default
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=24))]
    pub(crate) rotate: u32,
    /// The same seed and recordings make the same store
    #[arg(long, default_value_t = 17)]
    pub(crate) seed: u64,
    /// Hosts made at a time
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) threads: u32,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            say(format_args!("fleet: {e:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let text = match &arguments.command {
        Command::Record {
            directory,
            seconds,
            only,
        } => lab::record(directory, *seconds, only.as_deref())?,
        Command::Make(arguments) => make::make(arguments)?.to_string(),
        Command::Sizes { store } => sizes::table(store)?,
    };
    to_stdout(|out| out.write_all(text.as_bytes()))
}
