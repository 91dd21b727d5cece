//! The command `dbtime`: arguments in, exit code out.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Parser;
use dbtime::arguments::{
    Arguments, Command, DemoArguments, DiffArguments, FlameArguments, Format, ImportArguments,
    IolatArguments, LiveFormat, RecordArguments, ReportArguments, Selection, WidthsOf,
};
use dbtime::demo;
use dbtime::diff::{self, DiffFormat};
use dbtime::import;
use dbtime::iolat;
use dbtime::output::{self, ProgressLine, say};
use dbtime::record::{Plan, Progress, record};
use dbtime_collect::Options;
use dbtime_report::diff_export::Widths;
use dbtime_report::{
    DiffError, DiffOptions, Filter, FlameOptions, IoOptions, LatencyDimension, LatencyOptions, ReportError,
    Source, StackOptions, StackView, USUAL_THRESHOLDS_US, export, parse_moment,
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
        Command::Diff(arguments) => run_diff(&arguments),
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
    if arguments.depth.is_some() && !arguments.stacks && !arguments.tree {
        return Err(Usage("--depth is for --stacks and --tree".to_string()).into());
    }
    let cuts_times = !arguments.selection.wait.is_empty() || !arguments.selection.state.is_empty();
    if cuts_times && (arguments.latency || arguments.io) {
        return Err(
            Usage("--wait and --state choose times; choose single events with --name".to_string()).into(),
        );
    }
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
        _ => match arguments.stack_view() {
            Some((view, top)) => run_stacks(arguments, view, top),
            None => run_time(arguments),
        },
    }
}

fn run_stacks(arguments: &ReportArguments, view: StackView, top: usize) -> anyhow::Result<ExitCode> {
    let source = import::open(&arguments.recording)?;
    let options = StackOptions {
        filter: filter(&arguments.selection, &source)?,
        view,
        top: arguments.top.unwrap_or(top),
        depth: arguments.depth,
    };
    let report = dbtime_report::stacks(&source, &options)?;
    let text = match arguments.format {
        Format::Json => dbtime_report::json::render_stacks(&report),
        Format::Text | Format::Svg => dbtime_report::text::render_stacks(&report, output::width()),
    };
    let is_something = report.total.total_ns() > 0;
    answer(
        arguments,
        &text,
        is_something,
        "no DB time in the recording or the part chosen of it",
    )
}

fn run_time(arguments: &ReportArguments) -> anyhow::Result<ExitCode> {
    let by = arguments.by().map_err(Usage)?;
    let source = import::open(&arguments.recording)?;
    let options = dbtime_report::Options {
        filter: filter(&arguments.selection, &source)?,
        by,
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
    let source = import::open(&arguments.recording)?;
    let options = latency_options(arguments, by, &source)?;
    let report = dbtime_report::latency(&source, &options)?;
    let text = match arguments.format {
        Format::Json => dbtime_report::json::render_latency(&report),
        Format::Text | Format::Svg => dbtime_report::text::render_latency(&report, output::width()),
    };
    answer(arguments, &text, !report.kinds.is_empty(), NO_LATENCIES)
}

fn run_heat_map(arguments: &ReportArguments) -> anyhow::Result<ExitCode> {
    let source = import::open(&arguments.recording)?;
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
    let source = import::open(&arguments.recording)?;
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
    let source = import::open(&arguments.recording)?;
    let options = FlameOptions {
        filter: filter(&arguments.selection, &source)?,
        by: arguments.by.clone(),
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

fn run_diff(arguments: &DiffArguments) -> anyhow::Result<ExitCode> {
    let format = match arguments.format {
        Some(LiveFormat::Json) => DiffFormat::Json,
        Some(LiveFormat::Text) => DiffFormat::Text,
        None => DiffFormat::of(&arguments.output).map_err(Usage)?,
    };
    let [good, bad] = [import::open(&arguments.good)?, import::open(&arguments.bad)?];
    let options = DiffOptions {
        filters: [
            filter(&arguments.selection, &good)?,
            filter(&arguments.selection, &bad)?,
        ],
        per: arguments.per,
        transactions: arguments.transactions,
        top: arguments.top,
        force: arguments.force,
    };
    let answer = match dbtime_report::diff([&good, &bad], &options) {
        Err(e @ DiffError::Empty(_)) => {
            say(format_args!("dbtime: {e}"));
            return Ok(ExitCode::from(NOTHING_RECORDED));
        }
        Err(e @ DiffError::Unit { .. }) => return Err(Usage(e.to_string()).into()),
        other => other?,
    };
    if format != DiffFormat::Text {
        for warning in &answer.warnings {
            say(format_args!("warning: {warning}"));
        }
    }
    let widths = match arguments.widths {
        WidthsOf::Bad => Widths::Bad,
        WidthsOf::Good => Widths::Good,
    };
    diff::write(&answer, format, widths, &arguments.output)?;
    Ok(ExitCode::SUCCESS)
}

fn run_import(arguments: &ImportArguments) -> anyhow::Result<ExitCode> {
    let imported = import::import(&arguments.files, &arguments.output)?;
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
        waits: selection.wait.clone(),
        states: selection.state.clone(),
    })
}
