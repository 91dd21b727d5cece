//! How long to run what would otherwise run until Ctrl-C.

use std::time::Duration;

use clap::Args;

use super::time::parse_seconds;

/// Run for this long, or until Ctrl-C.
#[derive(Debug, Args)]
pub struct StopAfter {
    /// Stop after this time: seconds, or 30s, 1m, 2h [default: at Ctrl-C]
    #[arg(short, long, value_name = "TIME", value_parser = parse_seconds)]
    pub duration: Option<Duration>,
}
