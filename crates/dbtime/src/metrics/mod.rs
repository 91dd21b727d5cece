//! `dbtime metrics`: what a running server's time goes into, as counters that Prometheus fetches. Nothing is written.
//!
//! ```text
//! counters   what is counted, and how it is called
//! endpoint   who asks for it, by HTTP
//! ```

mod counters;
mod endpoint;

use std::process::ExitCode;
use std::sync::Arc;

use dbtime_collect::Options;

use crate::arguments::MetricsArguments;
use crate::live::{self, Kept, Late, Length, Plan};
use crate::memory;
use crate::output::say;
use crate::signals::{Second, stop_on_signals};
use counters::Counters;
use endpoint::Endpoint;

/// Counts until somebody ends it.
///
/// # Errors
/// The address cannot be listened at; recording cannot begin; it fails.
pub fn run(arguments: &MetricsArguments) -> anyhow::Result<ExitCode> {
    let stop = stop_on_signals(Second::Ends)?;
    memory::give_back();
    // Before anything is attached: an address that is in use is noticed at once.
    let endpoint = Endpoint::bind(arguments.listen)?;
    let means = arguments.collector.into();
    let counters = Arc::new(Counters::new(means)?);
    let plan = Plan {
        collect: Options {
            means,
            at_once: true,
            ..Options::sampled(arguments.target.target(), arguments.rate.rate_hz)
        },
        length: Length::Seconds(1),
        count: arguments.seconds.unwrap_or(u32::MAX),
        kept: Kept {
            stacks: false,
            statements: false,
            late: Late::IsInTheNext,
        },
        tells_progress: false,
    };
    // Who asks is answered once there is something to say.
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
