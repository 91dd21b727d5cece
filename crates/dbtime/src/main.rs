//! The command `dbtime`: arguments in, exit code out.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Parser;
use dbtime::arguments::{
    Arguments, Command, DemoArguments, FlameArguments, Format, ImportArguments, IolatArguments,
    RecordArguments, ReportArguments, Selection,
};
use dbtime::demo;
use dbtime::import;
use dbtime::iolat;
use dbtime::output::{self, ProgressLine, say};
use dbtime::record::{Plan, Progress, record};
use dbtime_collect::Options;
use dbtime_model::State;
use dbtime_report::{
    Dimension, Filter, FlameOptions, IoOptions, LatencyDimension, LatencyOptions, ReportError, Source,
    USUAL_THRESHOLDS_US, export, parse_moment,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Exit codes, besides 0 for done and 2 for wrong usage (clap's own).
const FAILED: u8 = 1;
const WRONG_USAGE: u8 = 2;
const NOTHING_RECORDED: u8 = 3;

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Record(arguments) => run_record(&arguments),
        Command::Report(arguments) => run_report(&arguments),
        Command::Flame(arguments) => run_flame(&arguments),
        Command::Import(arguments) => run_import(&arguments),
        Command::Iolat(arguments) => run_iolat(&arguments),
        Command::Demo(arguments) => run_demo(&arguments),
    };
    match done {
        Ok(code) => code,
        Err(e) => {
            say(format_args!("dbtime: {e:#}"));
            ExitCode::from(if e.is::<Usage>() {
                WRONG_USAGE
            } else if import::is_empty(&e) {
                NOTHING_RECORDED
            } else {
                FAILED
            })
        }
    }
}

/// Something typed is wrong that clap cannot know.
#[derive(Debug)]
struct Usage(String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// What the second Ctrl-C does.
#[derive(PartialEq)]
enum Second {
    /// It ends the program at once.
    Ends,
    /// Nothing: what has to be cleaned up would stay.
    Ignored,
}

/// Set by the first Ctrl-C (or TERM, HUP), which ends the work in good order.
fn stop_on_signals(second: Second) -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if second == Second::Ends {
            signal_hook::flag::register_conditional_shutdown(signal, FAILED.into(), Arc::clone(&stop))?;
        }
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

fn run_record(arguments: &RecordArguments) -> anyhow::Result<ExitCode> {
    let plan = Plan {
        collect: Options {
            target: arguments.target(),
            rate_hz: arguments.rate_hz,
            tier: arguments.tier(),
            wakers: arguments.wakers,
            task_iterator: arguments.task_iterator,
        },
        duration: arguments.duration,
        output: arguments.output.clone(),
    };
    let stop = stop_on_signals(Second::Ends)?;
    let mut line = ProgressLine::new();
    let mut shown = Duration::MAX;
    let outcome = record(&plan, &stop, &mut |progress| match progress {
        Progress::Started(meta) => {
            let until = match plan.duration {
                Some(duration) => format!("for {} s", duration.as_secs_f64()),
                None => "until Ctrl-C".to_string(),
            };
            say(format_args!(
                "recording {} {} ({}) at {} Hz {until}",
                meta.database.product, meta.database.version, meta.database.target, meta.collector.rate_hz
            ));
            for reason in &meta.collector.reasons {
                say(format_args!("note: {reason}"));
            }
        }
        Progress::Elapsed(elapsed) => {
            let second = Duration::from_secs(elapsed.as_secs());
            if second != shown {
                shown = second;
                line.show(&format!("{} s", second.as_secs()));
            }
        }
        Progress::Note(note) => {
            line.clear();
            say(format_args!("note: {note}"));
        }
    })?;
    drop(line);
    let path = plan.output.display();
    if outcome.activity_rows == 0 {
        say(format_args!(
            "dbtime: nothing was recorded in {path}: no session lived long enough to be seen"
        ));
        return Ok(ExitCode::from(NOTHING_RECORDED));
    }
    say(format_args!(
        "recorded {path}: see it with 'dbtime report {path}'"
    ));
    Ok(ExitCode::SUCCESS)
}

fn run_report(arguments: &ReportArguments) -> anyhow::Result<ExitCode> {
    match (arguments.latency, arguments.io, arguments.format) {
        (true, _, Format::Svg) => run_heat_map(arguments),
        (_, _, Format::Svg) => Err(Usage(
            "this report is no picture: draw a heat map with --latency --format svg, or a flame graph with 'dbtime \
             flame'"
                .to_string(),
        )
        .into()),
        (true, ..) => run_latency(arguments),
        (_, true, _) => run_io(arguments),
        _ => run_time(arguments),
    }
}

fn run_time(arguments: &ReportArguments) -> anyhow::Result<ExitCode> {
    let by = arguments.by().map_err(Usage)?;
    let source = import::open(&arguments.recording, &arguments.about)?;
    let options = dbtime_report::Options {
        filter: filter(&arguments.selection, &source)?,
        by: if by.is_empty() {
            vec![Dimension::usual(source.meta())]
        } else {
            by
        },
        stacks: arguments.top.unwrap_or(5),
    };
    let report = dbtime_report::report(&source, &options)?;
    let text = match arguments.format {
        Format::Json => dbtime_report::json::render(&report),
        Format::Text | Format::Svg => dbtime_report::text::render(&report, output::width()),
    };
    answer(arguments, &text, !report.is_empty(), "nothing was recorded")
}

fn run_latency(arguments: &ReportArguments) -> anyhow::Result<ExitCode> {
    let by = arguments.latency_by().map_err(Usage)?;
    let source = import::open(&arguments.recording, &arguments.about)?;
    let options = latency_options(arguments, by, &source)?;
    let report = dbtime_report::latency(&source, &options)?;
    let text = match arguments.format {
        Format::Json => dbtime_report::json::render_latency(&report),
        Format::Text | Format::Svg => dbtime_report::text::render_latency(&report, output::width()),
    };
    answer(arguments, &text, !report.kinds.is_empty(), NO_LATENCIES)
}

fn run_heat_map(arguments: &ReportArguments) -> anyhow::Result<ExitCode> {
    let source = import::open(&arguments.recording, &arguments.about)?;
    let options = latency_options(arguments, Vec::new(), &source)?;
    let map = match dbtime_report::heat_map(&source, &options) {
        Err(e @ ReportError::ChooseKind(_)) => return Err(Usage(e.to_string()).into()),
        other => other?,
    };
    for problem in &map.problems {
        say(format_args!("dbtime: {problem}"));
    }
    answer(
        arguments,
        &dbtime_report::heat_map_svg::render(&map),
        map.total.count() > 0,
        NO_LATENCIES,
    )
}

fn run_io(arguments: &ReportArguments) -> anyhow::Result<ExitCode> {
    let source = import::open(&arguments.recording, &arguments.about)?;
    let options = IoOptions {
        filter: filter(&arguments.selection, &source)?,
        top: arguments.top.unwrap_or(10),
        thresholds_us: arguments.thresholds.unwrap_or(USUAL_THRESHOLDS_US),
    };
    let report = dbtime_report::io(&source, &options)?;
    let text = match arguments.format {
        Format::Json => dbtime_report::json::render_io(&report),
        Format::Text | Format::Svg => dbtime_report::text::render_io(&report, output::width()),
    };
    answer(
        arguments,
        &text,
        report.total.count() > 0,
        "no reads in the recording or the part chosen of it; 'dbtime record --exact=calls' records them",
    )
}

/// What to say when there are no latencies to show.
const NO_LATENCIES: &str =
    "no latencies in the recording or the part chosen of it; 'dbtime record --exact' records them";

fn latency_options(
    arguments: &ReportArguments,
    by: Vec<LatencyDimension>,
    source: &Source,
) -> anyhow::Result<LatencyOptions> {
    Ok(LatencyOptions {
        filter: filter(&arguments.selection, source)?,
        kinds: arguments.kind.clone(),
        names: arguments.name.clone(),
        by,
        top: arguments.top.unwrap_or(10),
    })
}

/// Writes an answer, and says so when there is nothing in it.
fn answer(
    arguments: &ReportArguments,
    text: &str,
    is_something: bool,
    nothing: &str,
) -> anyhow::Result<ExitCode> {
    output::to_file(&arguments.output, |out| out.write_all(text.as_bytes()))?;
    if is_something {
        return Ok(ExitCode::SUCCESS);
    }
    say(format_args!(
        "dbtime: {}: {nothing}",
        arguments.recording.display()
    ));
    Ok(ExitCode::from(NOTHING_RECORDED))
}

fn run_flame(arguments: &FlameArguments) -> anyhow::Result<ExitCode> {
    // The format first: a wrong ending shows before a large recording is read.
    let exporter = export::exporter(&arguments.output).map_err(|e| Usage(e.to_string()))?;
    let source = import::open(&arguments.recording, &arguments.about)?;
    let options = FlameOptions {
        filter: filter(&arguments.selection, &source)?,
        by: levels(&arguments.by, exporter.dimensions(), &source),
        include_idle: arguments.idle,
        include_background: arguments.background,
    };
    let folded = dbtime_report::flame(&source, &options)?;
    for problem in &folded.problems {
        say(format_args!("dbtime: {}", problem.0));
    }
    if folded.total_ns == 0 {
        say(format_args!(
            "dbtime: {}: nothing to draw",
            arguments.recording.display()
        ));
        return Ok(ExitCode::from(NOTHING_RECORDED));
    }
    output::to_file(&arguments.output, |out| exporter.write(&folded, out))?;
    Ok(ExitCode::SUCCESS)
}

/// What stacks are told apart by: what the format needs, then what was typed or is usual.
fn levels(typed: &[Dimension], needed: &[Dimension], source: &Source) -> Vec<Dimension> {
    let usual = [Dimension::usual(source.meta()), Dimension::State];
    let wanted = if typed.is_empty() { &usual[..] } else { typed };
    let mut levels: Vec<Dimension> = needed.to_vec();
    levels.extend(wanted.iter().filter(|dimension| !needed.contains(dimension)));
    levels
}

fn run_import(arguments: &ImportArguments) -> anyhow::Result<ExitCode> {
    let imported = import::import(&arguments.files, &arguments.about, &arguments.output)?;
    for problem in &imported.problems {
        say(format_args!("note: {problem}"));
    }
    if imported.rows.activity.is_empty() {
        say(format_args!(
            "dbtime: no time is recorded in {}; nothing was written",
            imported.meta.database.target
        ));
        return Ok(ExitCode::from(NOTHING_RECORDED));
    }
    let path = arguments.output.display();
    say(format_args!(
        "imported {path}: see it with 'dbtime report {path}'"
    ));
    Ok(ExitCode::SUCCESS)
}

fn run_iolat(arguments: &IolatArguments) -> anyhow::Result<ExitCode> {
    let stop = stop_on_signals(Second::Ends)?;
    Ok(match iolat::run(arguments, &stop)? {
        iolat::Ended::Shown | iolat::Ended::ReaderGone => ExitCode::SUCCESS,
        iolat::Ended::NothingSeen => {
            say(format_args!("dbtime: no block I/O was seen"));
            ExitCode::from(NOTHING_RECORDED)
        }
    })
}

fn run_demo(arguments: &DemoArguments) -> anyhow::Result<ExitCode> {
    let stop = stop_on_signals(Second::Ignored)?;
    let page = demo::run(arguments.output.as_deref(), &stop)?;
    output::to_stdout(|out| out.write_all(page.as_bytes()))?;
    Ok(ExitCode::SUCCESS)
}

fn filter(selection: &Selection, source: &Source) -> anyhow::Result<Filter> {
    let start = source.meta().start_us;
    let moment = |option: &str, text: &Option<String>| {
        text.as_ref()
            .map(|t| parse_moment(t, start).map_err(|e| Usage(format!("{option}: {e}"))))
            .transpose()
    };
    Ok(Filter {
        from_us: moment("--from", &selection.from)?,
        to_us: moment("--to", &selection.to)?,
        sessions: selection.session.clone(),
        waits: Vec::new(),
        states: Vec::<State>::new(),
    })
}
