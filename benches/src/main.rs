//! `overhead`: what recording costs, as Markdown on standard output.
//!
//! A benchmark asserts nothing about time; it says what it measured, on what machine, and how far that can be trusted.

mod arguments;
mod cost;
mod cost_table;
mod document;
mod host;
mod load;
mod markdown;
mod observer;
mod processor;
mod program;
mod server;
mod setup;
mod statistics;
mod stop;
mod throughput;
mod throughput_table;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use dbtime::output::{ProgressLine, say, to_stdout};

use arguments::{Arguments, Part};
use document::{Document, not_idle};
use host::{Before, Machine};
use server::Server;
use setup::Setup;
use stop::Stop;

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            say(format_args!("overhead: {e:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<()> {
    let setup = Setup::new(arguments, Stop::on_signals()?)?;
    let before = Before::watch(&setup.stop)?;
    if !before.idle {
        say(format_args!(
            "\n  ****  WARNING: {}.\n  ****  Stop what else runs and start again: these results are worth little.\n",
            not_idle(&before)
        ));
    }
    if setup.perf_version.is_none() {
        say(format_args!("perf is not installed: it is left out"));
    }
    say(format_args!(
        "this takes about {} min",
        expected(&setup).as_secs().div_ceil(60)
    ));
    let mut document = Document::new(&setup, &Machine::read(), &before);
    measure(&setup, &mut document)?;
    to_stdout(|out| out.write_all(document.text().as_bytes()))?;
    if let Some(path) = &setup.arguments.write {
        std::fs::write(path, document.text()).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// Servers one after the other; the recorder's own cost only on the first.
fn measure(setup: &Setup, document: &mut Document) -> Result<()> {
    let mut line = ProgressLine::new();
    if setup.arguments.wants(Part::Throughput) {
        document.throughput_method(setup);
    }
    let mut costs = None;
    for (number, bin_dir) in servers(&setup.arguments).into_iter().enumerate() {
        let wants_cost = number == 0 && setup.arguments.wants(Part::Cost);
        if !wants_cost && !setup.arguments.wants(Part::Throughput) {
            continue;
        }
        line.show("starting a server");
        let server = Server::start(setup, bin_dir)?;
        if setup.arguments.wants(Part::Throughput) {
            let result = throughput::measure(&server, setup, &mut |text| line.show(&text))?;
            document.throughput(&server, &result, setup);
        }
        if wants_cost {
            let cached_before = server.cached_share()?;
            let measured = cost::measure(&server, setup, &mut |text| line.show(&text))?;
            let cached_share = (cached_before, server.cached_share()?);
            costs = Some((server, measured, cached_share));
        }
    }
    if let Some((server, measured, cached_share)) = &costs {
        document.cost(server, measured, *cached_share, setup);
    }
    Ok(())
}

/// Where the servers are; none: the installed one.
fn servers(arguments: &Arguments) -> Vec<Option<&Path>> {
    let installed = (!arguments.not_installed).then_some(None);
    let given = arguments
        .bin_dir
        .iter()
        .map(|directory| Some(directory.as_path()));
    installed.into_iter().chain(given).collect()
}

/// How long all of it takes, estimated from how long its parts took elsewhere.
fn expected(setup: &Setup) -> Duration {
    const START_OF_A_SERVER: Duration = Duration::from_secs(10);
    const ATTACH_AND_DETACH: Duration = Duration::from_secs(1);
    /// Mean wait for the next report of pgbench.
    const ALIGN: Duration = Duration::from_millis(500);
    let arguments = &setup.arguments;
    let mut sum = Duration::ZERO;
    if arguments.wants(Part::Throughput) {
        let measured = Duration::from_secs(u64::from(arguments.phase + 2 * arguments.phase.div_ceil(2)));
        let pair = measured + 2 * (arguments.settle + ALIGN) + ATTACH_AND_DETACH;
        let pairs = arguments.pairs * throughput::observers(setup).len() as u32;
        sum += (START_OF_A_SERVER + pair * pairs) * servers(arguments).len() as u32;
    }
    if arguments.wants(Part::Cost) {
        sum +=
            START_OF_A_SERVER + (arguments.recording + ATTACH_AND_DETACH) * (arguments.rate.len() as u32 + 1);
    }
    sum
}
