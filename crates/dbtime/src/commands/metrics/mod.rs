//! `dbtime metrics`: where a running server's time goes, as counters for Prometheus. Nothing is written.
//!
//! ```text
//! counters   what is counted, and its names
//! endpoint   answers requests, by HTTP
//! ```

mod counters;
mod endpoint;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use dbtime_collect::Options;

use crate::live::{self, Kept, Late, Length, Plan};
use crate::memory;
use crate::options::time::parse_whole_seconds;
use crate::options::{CollectorKind, LiveRate, TargetOptions};
use crate::output::say;
use crate::remains::mend;
use crate::signals::{Second, stop_on_signals};
use counters::Counters;
use endpoint::Endpoint;

/// `dbtime metrics`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  sudo dbtime metrics\n  sudo dbtime metrics --postgres /var/lib/postgresql/15/main --listen 10.0.0.7:9789"
)]
pub struct MetricsArguments {
    #[command(flatten)]
    target: TargetOptions,
    /// Address to serve /metrics on; whoever can reach it sees all counters
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9789")]
    listen: SocketAddr,
    /// Stop after this time: seconds, or 30s, 1m [default: at Ctrl-C]
    #[arg(short = 'd', long = "duration", value_name = "TIME", value_parser = parse_whole_seconds)]
    seconds: Option<u32>,
    /// How often
    #[command(flatten)]
    rate: LiveRate,
    /// How sessions are observed
    #[arg(long, value_name = "HOW", default_value = "bpf")]
    collector: CollectorKind,
}

/// Counts until stopped.
///
/// # Errors
/// The address cannot be listened on; recording cannot begin; it fails.
pub(super) fn run(arguments: &MetricsArguments) -> anyhow::Result<ExitCode> {
    mend();
    let stop = stop_on_signals(Second::Ends)?;
    memory::give_back();
    // Before anything is attached, so that an address in use is noticed at once.
    let endpoint = Endpoint::bind(arguments.listen)?;
    let mechanism = arguments.collector.into();
    let counters = Arc::new(Counters::new(mechanism)?);
    let plan = Plan {
        collect: Options {
            mechanism,
            standbys: Vec::new(),
            at_once: true,
            stacks: false,
            causes: false,
            ..Options::sampled(arguments.target.target(), arguments.rate.rate_hz)
        },
        length: Length::Seconds(1),
        count: arguments.seconds.unwrap_or(u32::MAX),
        kept: Kept {
            statements: false,
            counters: |_| true,
            late: Late::IsInTheNext,
        },
        levels: false,
        tells_progress: false,
    };
    // Requests are answered once there is something to answer.
    let mut waiting = Some(endpoint);
    live::take(&plan, &stop, &mut |second| {
        counters.add(second)?;
        if let Some(endpoint) = waiting.take() {
            let url = endpoint.url();
            endpoint.serve(Arc::clone(&counters))?;
            say(format_args!("metrics at {url}"));
        }
        Ok(true)
    })?;
    Ok(ExitCode::SUCCESS)
}
