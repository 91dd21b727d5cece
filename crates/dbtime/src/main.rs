//! The command `dbtime`: arguments in, exit code out.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use dbtime::agent;
use dbtime::arguments::{
    Arguments, CalibrateArguments, Command, CompactArguments, DemoArguments, DiffArguments, DiveArguments,
    FlameArguments, Format, FunctionSort, HtmlArguments, ImportArguments, IolatArguments, ReportArguments,
    SNAPSHOT_SESSIONS, SchedArguments, WidthsOf,
};
use dbtime::calibrate;
use dbtime::demo;
use dbtime::diff::{self, DiffFormat};
use dbtime::dive;
use dbtime::doctor;
use dbtime::exit_code::{FAILED, NOTHING_RECORDED, WRONG_USAGE};
use dbtime::import::{self, Detail};
use dbtime::iolat;
use dbtime::latch;
use dbtime::manual;
use dbtime::memory;
use dbtime::metrics;
use dbtime::newest;
use dbtime::options::{ComparedOptions, Selection, TableFormat};
use dbtime::output::{self, ProgressLine, say, say_lines};
use dbtime::page;
use dbtime::reading;
use dbtime::record;
use dbtime::remains::mend;
use dbtime::sched;
use dbtime::signals::{Second, stop_on_signals};
use dbtime::snap;
use dbtime::store;
use dbtime::top;
use dbtime::usage::Usage;
use dbtime_model::recording::{self, Compacted};
use dbtime_report::diff_export::Widths;
use dbtime_report::{
    CalibrationOf, CauseOptions, CommandOptions, ComparisonOptions, Diff, DiffError, DiffOptions, Dimension,
    DiveOptions, DiveView, Filter, FlameOptions, IoOptions, LatchOptions, LatencyDimension, LatencyOptions,
    LineKind, NextStep, ReportError, SnapshotColumn, SnapshotOptions, Sort, Source, StackOptions, StackView,
    TimelineOptions, ToCompare, TraceOptions, USUAL_THRESHOLDS_US, dive_diff, export, has_kernel_trace,
    next_steps, next_steps_of_causes, next_steps_of_timeline, parse_moment, printable_lines,
};

#[global_allocator]
static ALLOCATOR: memory::Bounded = memory::Bounded;

fn main() -> ExitCode {
    let command = Arguments::parse().command;
    if command.reads_files() {
        memory::bound(command.max_memory());
    }
    if command.touches_kernel() {
        mend();
    }
    let done = match command {
        Command::Record(arguments) => record::run(&arguments),
        Command::Report(arguments) => run_report(arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Snap(arguments) => snap::run(&arguments),
        Command::Latch(arguments) => latch::run(&arguments),
        Command::Metrics(arguments) => metrics::run(&arguments),
        Command::Flame(arguments) => run_flame(&arguments),
        Command::Html(arguments) => run_html(&arguments),
        Command::Diff(arguments) => run_diff(&arguments),
        Command::Import(arguments) => run_import(&arguments),
        Command::Compact(arguments) => run_compact(&arguments),
        Command::Store(arguments) => store::run(&arguments.command),
        Command::Agent(arguments) => agent::run(&arguments),
        Command::Iolat(arguments) => run_iolat(&arguments),
        Command::Dive(arguments) => run_dive(&arguments),
        Command::Sched(arguments) => run_sched(&arguments),
        Command::Calibrate(arguments) => run_calibrate(&arguments),
        Command::OracleMap => output::print(ORACLE_MAP).map(|()| ExitCode::SUCCESS),
        Command::OracleSnap => output::print(ORACLE_SNAP).map(|()| ExitCode::SUCCESS),
        Command::Doctor(arguments) => doctor::run(&arguments).map(|works| match works {
            true => ExitCode::SUCCESS,
            false => ExitCode::from(FAILED),
        }),
        Command::Demo(arguments) => run_demo(&arguments),
        Command::Completions(arguments) => {
            manual::print_completions(arguments.shell).map(|()| ExitCode::SUCCESS)
        }
        Command::Man(arguments) => manual::write_pages(&arguments.directory).map(|()| ExitCode::SUCCESS),
    };
    match done {
        Ok(code) => code,
        Err(e) => {
            say_lines(format_args!("dbtime: {e:#}"));
            ExitCode::from(if e.is::<Usage>() {
                WRONG_USAGE
            } else if import::is_empty(&e) || reading::is_nothing(&e) {
                NOTHING_RECORDED
            } else {
                FAILED
            })
        }
    }
}

/// Printed by `dbtime oracle-map`.
const ORACLE_MAP: &str = include_str!("oracle_map.sql");

/// Printed by `dbtime oracle-snap`.
const ORACLE_SNAP: &str = include_str!("oracle_snap.sql");

fn run_report(mut arguments: Box<ReportArguments>) -> anyhow::Result<ExitCode> {
    if arguments.recordings.is_empty() && !arguments.compare {
        arguments.recordings.push(newest::or_named(None, "report")?);
    }
    let arguments = &arguments;
    let is_deep = arguments.stacks
        || arguments.tree
        || arguments.call.is_some()
        || arguments.causes
        || arguments.chains();
    if arguments.depth.is_some() && (!is_deep || arguments.blockers) {
        return Err(
            Usage("--depth is for --stacks, --tree, --call, --causes and --chain".to_string()).into(),
        );
    }
    if arguments.depth.is_some() && arguments.chains() && arguments.format() == Format::Svg {
        return Err(
            Usage("--depth is for the trees of --chain, not for a picture of roots".to_string()).into(),
        );
    }
    if !arguments.latch_layout.columns.is_empty() && !arguments.latches {
        return Err(Usage("--columns is for --latches".to_string()).into());
    }
    let selection = &arguments.selection;
    let cuts_times = !selection.wait.is_empty() || !selection.state.is_empty() || !selection.query.is_empty();
    if cuts_times && (arguments.latency || arguments.io || arguments.compare || arguments.switches) {
        return Err(Usage(
            "--wait, --state and --query choose times; choose single events with --name".to_string(),
        )
        .into());
    }
    match (arguments.latency, arguments.io, arguments.format()) {
        (true, _, Format::Svg) => run_heat_map(arguments),
        _ if arguments.timeline.is_some() => run_timeline(arguments),
        (_, _, Format::Svg) if arguments.chains() => run_chain_picture(arguments),
        _ if arguments.waiters() && arguments.format() != Format::Svg => run_causes(arguments),
        _ if arguments.latches && arguments.format() != Format::Svg => run_latches(arguments),
        _ if arguments.snapshot && arguments.format() != Format::Svg => run_snapshot(arguments),
        _ if arguments.tail && arguments.format() != Format::Svg => run_tail(arguments),
        (_, _, Format::Svg) => Err(Usage(
            "this report is no picture: draw a time line with --timeline, a heat map with --latency, roots of chains with --chain, or \
             a flame graph with 'dbtime flame'"
                .to_string(),
        )
        .into()),
        _ if arguments.compare => run_comparison(arguments),
        (true, ..) => run_latency(arguments),
        (_, true, _) => run_io(arguments),
        _ if arguments.switches => run_switches(arguments),
        _ => run_times(arguments),
    }
}

fn run_timeline(arguments: &ReportArguments) -> anyhow::Result<ExitCode> {
    let by = arguments.timeline_by().map_err(Usage)?;
    let source = open(arguments)?;
    let usual = TimelineOptions::default();
    let format = arguments.format();
    let options = TimelineOptions {
        filter: filter(&arguments.selection, &source)?,
        by: by.unwrap_or_else(|| match Dimension::usual(source.meta()) {
            Dimension::Wait => usual.by,
            other => other,
        }),
        width: arguments
            .timeline
            .map_or(usual.width, |buckets| buckets.width(format == Format::Svg)),
        top: arguments.top.unwrap_or(usual.top),
        each_literal: arguments.each_literal,
    };
    let timeline = match dbtime_report::timeline(&source, &options) {
        Err(ReportError::Buckets(e)) => return Err(Usage(e.to_string()).into()),
        other => other?,
    };
    let text = match format {
        Format::Json => dbtime_report::json::render_timeline(&timeline),
        Format::Text => {
            dbtime_report::text::render_timeline(&timeline, output::width())
                + &next(arguments, &next_steps_of_timeline(&timeline))
        }
        Format::Svg => {
            for problem in &timeline.problems {
                say(format_args!("dbtime: {problem}"));
            }
            dbtime_report::timeline_svg::render(&timeline)
        }
    };
    answer(
        arguments,
        &text,
        timeline.recorded_ns > 0,
        "nothing was recorded in the part chosen",
    )
}

fn run_tail(arguments: &ReportArguments) -> anyhow::Result<ExitCode> {
    let source = open(arguments)?;
    let options = CommandOptions {
        filter: filter(&arguments.selection, &source)?,
        top: arguments.top.unwrap_or(CommandOptions::default().top),
    };
    let report = match dbtime_report::commands(&source, &options) {
        Err(e @ ReportError::CommandsAreWhole) => return Err(Usage(e.to_string()).into()),
        other => other?,
    };
    let text = match arguments.format() {
        Format::Json => dbtime_report::json::render_commands(&report),
        Format::Text | Format::Svg => dbtime_report::text::render_commands(&report, output::width()),
    };
    answer(
        arguments,
        &text,
        report.all.latencies.count() > 0,
        "no commands in the part chosen of the recording",
    )
}

fn run_causes(arguments: &ReportArguments) -> anyhow::Result<ExitCode> {
    let source = open(arguments)?;
    let report = dbtime_report::causes(&source, &cause_options(arguments, &source)?)?;
    let text = match arguments.format() {
        Format::Json if arguments.blockers => dbtime_report::json::render_blockers(&report),
        Format::Json => dbtime_report::json::render_causes(&report),
        Format::Text | Format::Svg if arguments.chains() => {
            dbtime_report::text::render_chains(&report, output::width())
        }
        Format::Text | Format::Svg => {
            let text = match arguments.blockers {
                true => dbtime_report::text::render_blockers(&report, output::width()),
                false => dbtime_report::text::render_causes(&report, output::width()),
            };
            text + &next(arguments, &next_steps_of_causes(&report))
        }
    };
    answer(arguments, &text, report.blocked_ns > 0, NOTHING_BLOCKED)
}

fn run_chain_picture(arguments: &ReportArguments) -> anyhow::Result<ExitCode> {
    let source = open(arguments)?;
    let chains = dbtime_report::chains_over_time(&source, &cause_options(arguments, &source)?)?;
    for problem in &chains.problems {
        say(format_args!("dbtime: {problem}"));
    }
    let text = dbtime_report::chains_svg::render(&chains);
    answer(arguments, &text, chains.blocked_ns > 0, NOTHING_BLOCKED)
}

/// What to say when nobody waited.
const NOTHING_BLOCKED: &str = "no DB time was blocked in the part chosen of the recording";

fn cause_options(arguments: &ReportArguments, source: &Source) -> anyhow::Result<CauseOptions> {
    let mut filter = filter(&arguments.selection, source)?;
    if let Some(at) = &arguments.at {
        let (from, to) = window_of("--at", at, source)?;
        (filter.from_us, filter.to_us) = (Some(from), Some(to));
    }
    Ok(CauseOptions {
        filter,
        top: arguments.top.unwrap_or(CauseOptions::default().top),
        depth: arguments.depth,
    })
}

fn run_latches(arguments: &ReportArguments) -> anyhow::Result<ExitCode> {
    let source = open(arguments)?;
    let options = LatchOptions {
        filter: filter(&arguments.selection, &source)?,
        top: arguments.top.unwrap_or(LatchOptions::default().top),
        columns: arguments.latch_layout.columns.clone(),
    };
    let report = dbtime_report::latches(&source, &options)?;
    let text = match arguments.format() {
        Format::Json => dbtime_report::json::render_latches(&report),
        Format::Text | Format::Svg => dbtime_report::text::render_latches(&report, output::width()),
    };
    answer(
        arguments,
        &text,
        report.meta.database.held_locks,
        "it does not say who held internal locks",
    )
}

fn run_snapshot(arguments: &ReportArguments) -> anyhow::Result<ExitCode> {
    let source = open(arguments)?;
    let options = SnapshotOptions {
        filter: filter(&arguments.selection, &source)?,
        gather: LineKind::ALL.to_vec(),
        ..SnapshotOptions::default()
    };
    let snapshot = dbtime_report::snapshot(&source, &options)?;
    let text = match arguments.format() {
        Format::Json => dbtime_report::json::render_snapshot(&snapshot),
        Format::Text | Format::Svg => dbtime_report::text::render_snapshot(
            &snapshot,
            &SnapshotColumn::USUAL,
            arguments.top.unwrap_or(SNAPSHOT_SESSIONS),
            output::width(),
        ),
    };
    answer(
        arguments,
        &text,
        !snapshot.sessions.is_empty(),
        "nothing of a session in the part chosen of the recording",
    )
}

fn run_switches(arguments: &ReportArguments) -> anyhow::Result<ExitCode> {
    let source = open(arguments)?;
    let filter = filter(&arguments.selection, &source)?;
    let clock = source.meta().collector.clock;
    let mut found = 0u64;
    let mut read = Ok(Vec::new());
    output::to_file(&arguments.output, |out| {
        let mut written = Ok(());
        read = dbtime_report::switches(&source, &filter, |line| {
            found += 1;
            if written.is_ok() {
                let text = match arguments.format() {
                    Format::Json => dbtime_report::json::render_switch(line),
                    Format::Text | Format::Svg if found == 1 => {
                        dbtime_report::text::render_switch_heading(output::width())
                            + &dbtime_report::text::render_switch(line, clock)
                    }
                    Format::Text | Format::Svg => dbtime_report::text::render_switch(line, clock),
                };
                written = out.write_all(printable_lines(&text).as_bytes());
            }
        });
        written
    })?;
    for problem in &read? {
        say(format_args!("dbtime: {}", problem.0));
    }
    answer_nothing(
        arguments,
        found > 0,
        "no switches in the part chosen of the recording",
    )
}

fn run_times(arguments: &ReportArguments) -> anyhow::Result<ExitCode> {
    let source = open(arguments)?;
    let dive_view = arguments.dive_view().filter(|_| has_kernel_trace(source.meta()));
    match (dive_view, arguments.stack_view()) {
        (Some((view, top)), _) => run_dive_report(arguments, &source, view, top),
        (None, _) if arguments.call.is_some() || arguments.children.is_some() => {
            let path = arguments.recordings[0].display();
            Err(Usage(format!(
                "--call and --children are for traces of the kernel, which {path} is not"
            ))
            .into())
        }
        (None, Some((view, top))) => run_stacks(arguments, &source, view, top),
        (None, None) => run_time(arguments, &source),
    }
}

fn run_dive_report(
    arguments: &ReportArguments,
    source: &Source,
    view: DiveView,
    top: usize,
) -> anyhow::Result<ExitCode> {
    if !arguments.selection.wait.is_empty() || !arguments.selection.state.is_empty() {
        return Err(Usage(
            "--wait and --state do not cut a trace of the kernel, whose durations are of whole calls; 'dbtime dive \
             --wait' takes the calls of one wait event"
                .to_string(),
        )
        .into());
    }
    let options = DiveOptions {
        filter: filter(&arguments.selection, source)?,
        view,
        top: arguments.top.unwrap_or(top),
        depth: arguments.depth,
    };
    let report = dbtime_report::dive(source, &options)?;
    let text = match arguments.format() {
        Format::Json => dbtime_report::json::render_dive(&report),
        Format::Text | Format::Svg => dbtime_report::text::render_dive(&report, output::width()),
    };
    answer(
        arguments,
        &text,
        report.trace.calls > 0,
        "no call is in the trace from begin to end",
    )
}

fn run_stacks(
    arguments: &ReportArguments,
    source: &Source,
    view: StackView,
    top: usize,
) -> anyhow::Result<ExitCode> {
    let options = StackOptions {
        filter: filter(&arguments.selection, source)?,
        view,
        sort: match arguments.sort {
            FunctionSort::Own => Sort::Own,
            FunctionSort::Total => Sort::Total,
        },
        top: arguments.top.unwrap_or(top),
        depth: arguments.depth,
    };
    let report = dbtime_report::stacks(source, &options)?;
    let text = match arguments.format() {
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

fn run_time(arguments: &ReportArguments, source: &Source) -> anyhow::Result<ExitCode> {
    let by = arguments.by().map_err(Usage)?;
    let usual = TraceOptions::default();
    let options = dbtime_report::Options {
        filter: filter(&arguments.selection, source)?,
        by: if by.is_empty() {
            vec![Dimension::usual(source.meta())]
        } else {
            by
        },
        stacks: arguments.top.unwrap_or(5),
        longest_delays: arguments.top.unwrap_or(10),
        trace: TraceOptions {
            thresholds_us: arguments.thresholds.unwrap_or(usual.thresholds_us),
            block_bytes: arguments.block_size.unwrap_or(usual.block_bytes),
            top: arguments.top.unwrap_or(usual.top),
            plans: arguments.plans,
            each_literal: arguments.each_literal,
            binds: arguments.about.binds,
        },
        calibration: calibration(arguments)?,
    };
    let report = dbtime_report::report(source, &options)?;
    if report.trace.is_none() {
        let of_traces = [
            ("--thresholds", arguments.thresholds.is_some()),
            ("--block-size", arguments.block_size.is_some()),
            ("--plans", arguments.plans),
            ("--each-literal", arguments.each_literal),
            ("--binds", arguments.about.binds),
        ];
        if let Some((option, _)) = of_traces.into_iter().find(|(_, is_given)| *is_given) {
            let path = arguments.recordings[0].display();
            return Err(Usage(format!("{option} is for SQL traces, which {path} is not")).into());
        }
    }
    if let (Some(path), None) = (&arguments.calibration, &report.cost_of_looking) {
        say(format_args!(
            "note: {} says nothing of this: a calibration speaks of recordings with --exact=calls that were made on its own host \
             and kernel, and of files of strace",
            path.display()
        ));
    }
    let nothing = "nothing was recorded";
    match arguments.format() {
        Format::Json => {
            output::to_file(&arguments.output, |out| dbtime_report::json::write(&report, out))?;
            answer_nothing(arguments, !report.is_empty(), nothing)
        }
        Format::Text | Format::Svg => {
            let text = dbtime_report::text::render(&report, output::width())
                + &next(arguments, &next_steps(&report));
            answer(arguments, &text, !report.is_empty(), nothing)
        }
    }
}

/// Where the answer points to.
fn next(arguments: &ReportArguments, steps: &[NextStep]) -> String {
    let recording = arguments.recordings[0].display().to_string();
    dbtime_report::text::render_next_steps(steps, &recording)
}

/// What looking costs: as the file says that was named, or what is kept on this host.
fn calibration(arguments: &ReportArguments) -> anyhow::Result<Option<CalibrationOf>> {
    Ok(match &arguments.calibration {
        Some(path) => Some(CalibrationOf {
            calibration: calibrate::read(path)?,
            is_named: true,
        }),
        None => calibrate::kept().map(|calibration| CalibrationOf {
            calibration,
            is_named: false,
        }),
    })
}

/// The recording that was named, or files as one.
fn open(arguments: &ReportArguments) -> anyhow::Result<Source> {
    let recordings = &arguments.recordings;
    if recordings.len() > 1
        && let Some(recording) = recordings.iter().find(|path| path.is_dir())
    {
        let recording = recording.display();
        return Err(Usage(format!(
            "{recording} is a recording: a report is about one of them, or about files; --compare puts several side by \
             side"
        ))
        .into());
    }
    reading::open(
        recordings,
        &arguments.about,
        arguments.detail(),
        &arguments.selection,
    )
}

fn run_comparison(arguments: &ReportArguments) -> anyhow::Result<ExitCode> {
    let paths = &arguments.recordings;
    if paths.len() < 2 {
        return Err(Usage("--compare needs two recordings or files, or more".to_string()).into());
    }
    let mut recordings = Vec::with_capacity(paths.len());
    for (path, label) in paths.iter().zip(labels(paths)) {
        let source = reading::open(
            std::slice::from_ref(path),
            &arguments.about,
            arguments.detail(),
            &arguments.selection,
        )?;
        recordings.push(ToCompare {
            label,
            filter: filter(&arguments.selection, &source)?,
            source,
        });
    }
    let usual = ComparisonOptions::default();
    let options = ComparisonOptions {
        kinds: arguments.kind.clone(),
        names: arguments.name.clone(),
        top: arguments.top.unwrap_or(usual.top),
    };
    let comparison = dbtime_report::compare(&recordings, &options)?;
    let text = match arguments.format() {
        Format::Json => dbtime_report::json::render_comparison(&comparison),
        Format::Text | Format::Svg => dbtime_report::text::render_comparison(&comparison, output::width()),
    };
    answer(arguments, &text, !comparison.events.is_empty(), NO_LATENCIES)
}

/// What recordings are called: their names without folder and ending, as far as that tells them apart.
fn labels(paths: &[PathBuf]) -> Vec<String> {
    let short = |path: &PathBuf| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let stems: Vec<Option<String>> = paths.iter().map(short).collect();
    let is_unique = |stem: &String| stems.iter().flatten().filter(|other| *other == stem).count() == 1;
    paths
        .iter()
        .zip(&stems)
        .map(|(path, stem)| match stem {
            Some(stem) if is_unique(stem) => stem.clone(),
            _ => path.display().to_string(),
        })
        .collect()
}

fn run_latency(arguments: &ReportArguments) -> anyhow::Result<ExitCode> {
    let by = arguments.latency_by().map_err(Usage)?;
    let source = open(arguments)?;
    let options = latency_options(arguments, by, &source)?;
    let report = dbtime_report::latency(&source, &options)?;
    let text = match arguments.format() {
        Format::Json => dbtime_report::json::render_latency(&report),
        Format::Text | Format::Svg => dbtime_report::text::render_latency(&report, output::width()),
    };
    answer(arguments, &text, !report.kinds.is_empty(), NO_LATENCIES)
}

fn run_heat_map(arguments: &ReportArguments) -> anyhow::Result<ExitCode> {
    let source = open(arguments)?;
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
    let source = open(arguments)?;
    let options = IoOptions {
        filter: filter(&arguments.selection, &source)?,
        top: arguments.top.unwrap_or(10),
        thresholds_us: arguments.thresholds.unwrap_or(USUAL_THRESHOLDS_US),
    };
    let report = dbtime_report::io(&source, &options)?;
    let text = match arguments.format() {
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
    output::text_to_file(&arguments.output, text)?;
    answer_nothing(arguments, is_something, nothing)
}

/// Says so when there was nothing in an answer.
fn answer_nothing(
    arguments: &ReportArguments,
    is_something: bool,
    nothing: &str,
) -> anyhow::Result<ExitCode> {
    if is_something {
        return Ok(ExitCode::SUCCESS);
    }
    let paths: Vec<String> = arguments
        .recordings
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    say(format_args!("dbtime: {}: {nothing}", paths.join(" ")));
    Ok(ExitCode::from(NOTHING_RECORDED))
}

fn run_flame(arguments: &FlameArguments) -> anyhow::Result<ExitCode> {
    let recording = newest::or_named(arguments.recording.as_deref(), "flame graph")?;
    let output = match &arguments.output {
        Some(output) => output.clone(),
        // A picture is for who looks at a terminal; a program that reads the next pipe takes folded stacks.
        None if io::stdout().is_terminal() => reading::beside(&recording, "svg")?,
        None => PathBuf::from("-"),
    };
    // The format first: a wrong ending shows before a large recording is read.
    let exporter = export::exporter(&output).map_err(|e| Usage(e.to_string()))?;
    let source = reading::open(
        std::slice::from_ref(&recording),
        &arguments.about,
        Detail::Seconds,
        &arguments.selection,
    )?;
    let options = FlameOptions {
        filter: filter(&arguments.selection, &source)?,
        by: levels(&arguments.by, exporter.dimensions(), &source),
        include_idle: arguments.idle,
        include_background: arguments.background,
        each_literal: arguments.each_literal,
        causes: arguments.causes,
    };
    let folded = match dbtime_report::flame(&source, &options) {
        Err(e @ ReportError::CausesTwice) => return Err(Usage(e.to_string()).into()),
        other => other?,
    };
    for problem in &folded.problems {
        say(format_args!("dbtime: {}", problem.0));
    }
    for dimension in folded.not_recorded() {
        say(format_args!(
            "note: nothing in this recording says the {dimension}"
        ));
    }
    if folded.total_ns == 0 {
        say(format_args!("dbtime: {}: nothing to draw", recording.display()));
        return Ok(ExitCode::from(NOTHING_RECORDED));
    }
    output::to_file(&output, |out| exporter.write(&folded, out))?;
    if arguments.output.is_none() && output != Path::new("-") {
        page::say_where(&output);
    }
    Ok(ExitCode::SUCCESS)
}

fn run_html(arguments: &HtmlArguments) -> anyhow::Result<ExitCode> {
    let open = |path: &PathBuf| {
        reading::open(
            std::slice::from_ref(path),
            &arguments.about,
            Detail::Seconds,
            &arguments.selection,
        )
    };
    if let [good, bad] = arguments.recordings.as_slice() {
        let output = match &arguments.output {
            Some(output) => output.clone(),
            None => reading::beside_two(good, bad)?,
        };
        return html_of_two([&open(good)?, &open(bad)?], arguments, &output);
    }
    let ComparedOptions {
        per,
        transactions,
        force,
    } = &arguments.compared;
    if per.is_some() || transactions.is_some() || *force {
        return Err(Usage("--per, --transactions and --force compare two recordings".to_string()).into());
    }
    let recording = newest::or_named(arguments.recordings.first().map(PathBuf::as_path), "page")?;
    let output = match &arguments.output {
        Some(output) => output.clone(),
        None => reading::beside(&recording, "html")?,
    };
    let source = open(&recording)?;
    if !page::write(&source, &filter(&arguments.selection, &source)?, &output)? {
        say(format_args!("dbtime: {}: nothing to show", recording.display()));
        return Ok(ExitCode::from(NOTHING_RECORDED));
    }
    if arguments.output.is_none() {
        page::say_where(&output);
    }
    Ok(ExitCode::SUCCESS)
}

fn html_of_two(sides: [&Source; 2], arguments: &HtmlArguments, output: &Path) -> anyhow::Result<ExitCode> {
    // The page bounds what it shows itself.
    let answer = compare(sides, &arguments.selection, &arguments.compared, usize::MAX)?;
    let Some(answer) = answer else {
        return Ok(ExitCode::from(NOTHING_RECORDED));
    };
    for warning in &answer.warnings {
        say(format_args!("warning: {warning}"));
    }
    page::write_difference(answer, output)?;
    if arguments.output.is_none() {
        page::say_where(output);
    }
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

fn run_diff(arguments: &DiffArguments) -> anyhow::Result<ExitCode> {
    let format = match arguments.format {
        Some(TableFormat::Json) => DiffFormat::Json,
        Some(TableFormat::Text) => DiffFormat::Text,
        None => DiffFormat::of(&arguments.output).map_err(Usage)?,
    };
    let [good, bad] =
        newest::two_or_named(arguments.good.as_deref(), arguments.bad.as_deref())?.map(|path| {
            reading::open(
                std::slice::from_ref(&path),
                &arguments.about,
                Detail::Seconds,
                &arguments.selection,
            )
        });
    let (good, bad) = (good?, bad?);
    let is_dive = has_kernel_trace(good.meta()) && has_kernel_trace(bad.meta());
    if is_dive && arguments.compared.per.is_none() && matches!(format, DiffFormat::Text | DiffFormat::Json) {
        let filters = [
            filter(&arguments.selection, &good)?,
            filter(&arguments.selection, &bad)?,
        ];
        let answer = dive_diff((&good, &filters[0]), (&bad, &filters[1]), arguments.top)?;
        let text = match format {
            DiffFormat::Json => dbtime_report::json::render_dive_diff(&answer),
            _ => dbtime_report::text::render_dive_diff(&answer, output::width()),
        };
        output::text_to_file(&arguments.output, &text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let sides = [&good, &bad];
    let Some(answer) = compare(sides, &arguments.selection, &arguments.compared, arguments.top)? else {
        return Ok(ExitCode::from(NOTHING_RECORDED));
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

/// What changed between two sources; none, which is said, where one of them has no DB time.
fn compare(
    sides: [&Source; 2],
    selection: &Selection,
    compared: &ComparedOptions,
    top: usize,
) -> anyhow::Result<Option<Diff>> {
    let options = DiffOptions {
        filters: [filter(selection, sides[0])?, filter(selection, sides[1])?],
        per: compared.per,
        transactions: compared.transactions,
        top,
        force: compared.force,
    };
    match dbtime_report::diff(sides, &options) {
        Err(e @ DiffError::Empty(_)) => {
            say(format_args!("dbtime: {e}"));
            Ok(None)
        }
        Err(e @ DiffError::Unit { .. }) => Err(Usage(e.to_string()).into()),
        other => Ok(Some(other?)),
    }
}

fn run_import(arguments: &ImportArguments) -> anyhow::Result<ExitCode> {
    let import::Outcome { imported, has_time } =
        import::import(&arguments.files, &arguments.about, &arguments.output)?;
    for problem in &imported.problems {
        say(format_args!("note: {problem}"));
    }
    if !has_time {
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

fn run_compact(arguments: &CompactArguments) -> anyhow::Result<ExitCode> {
    let path = arguments.recording.display();
    let Compacted { files, bytes } = recording::compact(&arguments.recording)?;
    let mb = |bytes: u64| bytes as f64 / 1e6;
    say(format_args!(
        "compacted {path}: {} files of {:.1} MB, before {} of {:.1} MB",
        files.1,
        mb(bytes.1),
        files.0,
        mb(bytes.0)
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

fn run_dive(arguments: &DiveArguments) -> anyhow::Result<ExitCode> {
    // A second Ctrl-C must not end what gives the kernel's settings back.
    let stop = stop_on_signals(Second::Ignored)?;
    Ok(match dive::run(arguments, &stop)? {
        dive::Ended::Done => ExitCode::SUCCESS,
        dive::Ended::NothingSeen => ExitCode::from(NOTHING_RECORDED),
    })
}

fn run_sched(arguments: &SchedArguments) -> anyhow::Result<ExitCode> {
    let stop = stop_on_signals(Second::Ends)?;
    let ended = sched::run(arguments, &stop)?;
    if let Some(path) = &arguments.recording.output {
        let path = path.display();
        say(format_args!(
            "recorded {path}: see it with 'dbtime report {path}'"
        ));
    }
    Ok(match ended {
        sched::Ended::Shown | sched::Ended::ReaderGone => ExitCode::SUCCESS,
        sched::Ended::NothingSeen => {
            say(format_args!("dbtime: no context switch was seen"));
            ExitCode::from(NOTHING_RECORDED)
        }
    })
}

fn run_calibrate(arguments: &CalibrateArguments) -> anyhow::Result<ExitCode> {
    if let Some(file) = &arguments.workload {
        calibrate::serve(file)?;
        return Ok(ExitCode::SUCCESS);
    }
    let stop = stop_on_signals(Second::Ignored)?;
    let mut line = ProgressLine::new();
    let calibration = calibrate::run(arguments.quick, &stop, |what| line.show(what))?;
    drop(line);
    let path = arguments.output.clone().unwrap_or_else(calibrate::default_path);
    let is_stdout = path == Path::new("-");
    if !is_stdout {
        calibrate::write(&calibration, &path)?;
    }
    let text = match arguments.answer.format {
        TableFormat::Text if !is_stdout => {
            dbtime_report::text::render_calibration(&calibration, output::width())
        }
        _ => dbtime_report::json::render_calibration(&calibration),
    };
    output::print(&text)?;
    if !is_stdout {
        say(format_args!("kept in {}", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn run_demo(arguments: &DemoArguments) -> anyhow::Result<ExitCode> {
    let stop = stop_on_signals(Second::Ignored)?;
    let page = demo::run(arguments.output.as_deref(), &stop)?;
    output::print(&page)?;
    Ok(ExitCode::SUCCESS)
}

/// Begin and end of the window that a moment is in, microseconds since the Unix epoch.
fn window_of(option: &str, text: &str, source: &Source) -> anyhow::Result<(i64, i64)> {
    let moment = parse_moment(text, source.meta().start_us).map_err(|e| Usage(format!("{option}: {e}")))?;
    Ok(window_at(moment, source))
}

/// The same of a moment in microseconds since the Unix epoch. Rows stand for windows: a period has a window, or it has not.
fn window_at(moment: i64, source: &Source) -> (i64, i64) {
    let length = i64::from(source.meta().collector.resolution_s.max(1)) * 1_000_000;
    let begin = moment.div_euclid(length).saturating_mul(length);
    (begin, begin.saturating_add(length))
}

fn filter(selection: &Selection, source: &Source) -> anyhow::Result<Filter> {
    if let Some(part) = source.part() {
        let begin = |moment: Option<i64>| moment.map(|moment| window_at(moment, source).0);
        return Ok(Filter {
            from_us: begin(part.from_us),
            to_us: begin(part.to_us),
            ..selection.whole_time()
        });
    }
    let moment = |option: &str, text: &Option<String>| {
        let window = text.as_ref().map(|text| window_of(option, text, source));
        window.transpose().map(|window| window.map(|(begin, _)| begin))
    };
    Ok(Filter {
        from_us: moment("--from", &selection.from)?,
        to_us: moment("--to", &selection.to)?,
        ..selection.whole_time()
    })
}
