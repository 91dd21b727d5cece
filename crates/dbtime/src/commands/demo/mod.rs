//! `dbtime demo`: a throw-away server, the same reads from the page cache and from the device, and the differences.

mod comparison;
mod data;
mod explanation;
mod output_directory;
mod page;
mod phases;
mod reads;
mod two_runs;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use dbtime_collect::{CollectError, Collector, Ending, Options, Target, Texts};
use dbtime_model::output::Readers;
use dbtime_report::{DiffOptions, FlameOptions, Report, Source, export, html};

use crate::output;
use crate::record::{Output, Plan, Progress, record};
use crate::signals::{Second, stop_on_signals};
use crate::throwaway::{Cluster, Programs};
use comparison::{Comparison, Run};
use data::{Data, ReadFrom};
use output_directory::OutputDirectory;
use phases::Phases;
use reads::Reads;

/// `dbtime demo`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  sudo dbtime demo")]
pub struct DemoArguments {
    /// Directory to create for recordings, flame graphs and a page [default: dbtime-demo, or dbtime-demo-2 and so on]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Long enough for a thousand samples of one session.
const RECORDED: Duration = Duration::from_secs(12);
/// By then connections are made, and the upper levels of the index are in shared buffers.
const SETTLED: Duration = Duration::from_secs(1);
/// The default of `dbtime record`.
const RATE_HZ: u32 = 99;

/// Runs the demo, and prints its page.
///
/// # Errors
/// See [`make`].
pub(super) fn run(arguments: &DemoArguments) -> Result<ExitCode> {
    let stop = stop_on_signals(Second::Ignored)?;
    let page = make(arguments.output.as_deref(), &stop)?;
    output::print(&page)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the demo; returns the page to print. When it returns, everything except the output directory is gone; if it
/// fails, that too. `stop` ends it early, as a failure.
///
/// # Errors
/// It was stopped, a program is missing, recording is not possible here, or the output cannot be written.
fn make(output: Option<&Path>, stop: &AtomicBool) -> Result<String> {
    // Check what is most likely to be missing before anything is made.
    recording_is_allowed()?;
    let programs = Programs::find(None)?;
    for client in ["psql", "pgbench"] {
        programs.client(client)?;
    }
    let directory = OutputDirectory::create(output)?;
    let mut phases = Phases::new();

    phases.begin("starting a throw-away PostgreSQL server");
    let cluster = Cluster::start(&data::server_options()?)?;
    go_on(stop)?;
    phases.begin("loading the server with pgbench data");
    let data = Data::make(&cluster, stop)?;

    let cached = take(
        ReadFrom::PageCache,
        &cluster,
        &data,
        &directory,
        &mut phases,
        stop,
    )?;
    let device = take(ReadFrom::Device, &cluster, &data, &directory, &mut phases, stop)?;

    phases.begin("stopping the server");
    drop(cluster);
    phases.begin("drawing the flame graphs and the page");
    let comparison = Comparison::of([cached, device], data.bytes);
    for run in &comparison.runs {
        draw(run, &directory)?;
    }
    go_on(stop)?;
    write_page(&directory)?;
    drop(phases);
    let page = page::render(&comparison, &directory, output::width());
    directory.keep();
    Ok(page)
}

/// Fails once it should stop.
fn go_on(stop: &AtomicBool) -> Result<()> {
    if stop.load(Ordering::Relaxed) {
        bail!("interrupted: the demo has cleaned up after itself");
    }
    Ok(())
}

/// Sleeps, unless it should stop.
fn pause(time: Duration, stop: &AtomicBool) -> Result<()> {
    let until = Instant::now() + time;
    while Instant::now() < until {
        go_on(stop)?;
        std::thread::sleep(Duration::from_millis(20).min(time));
    }
    go_on(stop)
}

/// Tries to record this very process, which is no backend: refusals that come before that answer would meet every
/// recording.
fn recording_is_allowed() -> Result<()> {
    match Collector::start(&collect(Target::Process(std::process::id())), &Ending::default()) {
        Err(e @ (CollectError::Privilege(_) | CollectError::Kernel(_))) => Err(e.into()),
        _ => Ok(()),
    }
}

fn collect(target: Target) -> Options {
    Options {
        texts: Texts::Full,
        ..Options::sampled(target, RATE_HZ)
    }
}

/// Records the reads while they come from one place.
fn take(
    from: ReadFrom,
    cluster: &Cluster,
    data: &Data,
    directory: &OutputDirectory,
    phases: &mut Phases,
    stop: &AtomicBool,
) -> Result<Run> {
    go_on(stop)?;
    phases.begin(&format!("getting the data {}", from.preparation()));
    let held = data.hold(from)?;
    let mut reads = Reads::start(cluster, data::SCALE)?;
    pause(SETTLED, stop)?;
    let before = held.residency()?;

    let plan = Plan {
        collect: collect(Target::Server(cluster.data_dir().to_path_buf())),
        duration: Some(RECORDED),
        output: Output::At(directory.recording(from)),
        rotate: None,
        watch: Vec::new(),
        flight: String::new(),
        // The whole directory changes owner at the end.
        owner: None,
        // The server is stopped after it.
        alone: false,
    };
    let end = Arc::new(AtomicBool::new(false));
    let outcome = record(&plan, &end, &mut |progress| match progress {
        Progress::Started { .. } => phases.begin(&format!("recording reads from {}", from.place())),
        Progress::Elapsed(elapsed) => {
            phases.detail(&format!("{} of {} s", elapsed.as_secs(), RECORDED.as_secs()));
            if stop.load(Ordering::Relaxed) || reads.have_ended() {
                end.store(true, Ordering::Relaxed);
            }
        }
        Progress::Standing(_) | Progress::Watched(_) | Progress::Complete { .. } => {}
        Progress::Note(note) => phases.note(note),
    })?;
    go_on(stop)?;
    let after = held.residency()?;
    let rates = reads.stop()?;
    drop(held);

    let nothing = || anyhow!("no DB time was recorded while reading from {}", from.place());
    if outcome.activity_rows == 0 {
        return Err(nothing());
    }
    let source = Source::open(&outcome.path)?;
    let report: Report = dbtime_report::report(&source, &dbtime_report::Options::default())?;
    if report.db_time_ns() == 0 {
        return Err(nothing());
    }
    Ok(Run {
        from,
        transactions_per_second: rates
            .mean_between(outcome.meta.start_us, outcome.meta.end_us)
            .context("pgbench did not report how many transactions it ran")?,
        residency: [before, after],
        flame: dbtime_report::flame(&source, &FlameOptions::default())?,
        report,
    })
}

/// The page of the differences, like that of `dbtime html`.
fn write_page(directory: &OutputDirectory) -> Result<()> {
    let [cached, device] = ReadFrom::BOTH.map(|from| Source::open(&directory.recording(from).path()));
    let answer = dbtime_report::diff([&cached?, &device?], &DiffOptions::default())?;
    let page = html::difference(answer);
    let place = directory.page();
    place
        .write(Readers::Owner, |out| html::write_difference(&page, out))
        .with_context(|| place.path().display().to_string())
}

fn draw(run: &Run, directory: &OutputDirectory) -> Result<()> {
    let place = directory.flame_graph(run.from);
    let path = place.path();
    let exporter = export::exporter(&path)?;
    let picture = run.flame.clone().without_start_of_server();
    place
        .write(Readers::Owner, |out| exporter.write(&picture, out))
        .with_context(|| path.display().to_string())
}
