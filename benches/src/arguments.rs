//! Command line arguments.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::observer::Tier;

/// What recording costs a PostgreSQL under load, and what the recorder itself uses.
///
/// A throw-away server is put under load by pgbench, and observers are attached and detached repeatedly within one run.
/// The host should do nothing else meanwhile. Needs root, as recording does.
#[derive(Debug, Clone, Parser)]
#[command(name = "overhead", max_term_width = 100)]
pub(crate) struct Arguments {
    /// Measure only this
    #[arg(long, value_enum)]
    pub(crate) only: Option<Part>,
    /// Pairs of phases (attached and not) per observer
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pairs: u32,
    /// Measured time of each phase
    #[arg(long, value_name = "SECONDS", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) phase: u32,
    /// Time after each attach and detach that is not measured
    #[arg(long, value_name = "SECONDS", default_value = "1.5", value_parser = seconds)]
    pub(crate) settle: Duration,
    /// Sampling rates of dbtime
    #[arg(long, value_name = "HZ,…", value_delimiter = ',', default_value = "99,999",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rate: Vec<u32>,
    /// Tiers of dbtime
    #[arg(
        long,
        value_name = "TIER,…",
        value_delimiter = ',',
        value_enum,
        default_value = "sampled,switch,calls"
    )]
    pub(crate) tier: Vec<Tier>,
    /// Sampling rate of perf
    #[arg(long, value_name = "HZ", default_value_t = 99, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) perf_rate: u32,
    /// Clients of pgbench
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) clients: u32,
    /// Idle sessions in addition, while throughput is measured
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) idle: u32,
    /// Scale of pgbench's tables: 15 MB each
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) scale: u32,
    /// Buffers of the server, small so that most reads go to the page cache
    #[arg(long, value_name = "SIZE", default_value = "16MB")]
    pub(crate) shared_buffers: String,
    /// Sessions of the server with many, mostly idle ones
    #[arg(long, value_name = "N", default_value_t = 300)]
    pub(crate) sessions: u32,
    /// Length of the recordings whose own cost is measured
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub(crate) recording: Duration,
    /// Measure the throughput of the server in this directory too (a build without frame pointers, say); may be repeated
    #[arg(long, value_name = "DIR")]
    pub(crate) bin_dir: Vec<PathBuf>,
    /// Leave out the installed server
    #[arg(long, requires = "bin_dir")]
    pub(crate) not_installed: bool,
    /// The dbtime to measure [default: the one built beside this program]
    #[arg(long, value_name = "FILE")]
    pub(crate) dbtime: Option<PathBuf>,
    /// Seed of the order of the observers and of the bootstrap [default: a random one]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Write the result to this file too
    #[arg(long, value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,
}

/// A part of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Throughput of the server with and without observers
    Throughput,
    /// CPU, memory and disk of the recorder
    Cost,
}

impl Arguments {
    /// Whether this part is to be measured.
    pub(crate) fn wants(&self, part: Part) -> bool {
        self.only.is_none_or(|only| only == part)
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_string())?;
    Duration::try_from_secs_f64(seconds).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }
}
