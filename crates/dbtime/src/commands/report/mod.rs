//! `dbtime report`: a recording is asked a question.

use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use dbtime_report::{
    BucketWidth, CalibrationOf, CallChoice, CauseOptions, CommandOptions, ComparisonOptions, Dimension,
    DiveOptions, DiveView, IoOptions, LatchOptions, LatencyDimension, LatencyOptions, LineKind, NextStep,
    ReportError, SnapshotColumn, SnapshotOptions, Sort, Source, StackOptions, StackView, TimelineOptions,
    ToCompare, TraceOptions, USUAL_THRESHOLDS_US, has_kernel_trace, next_steps, next_steps_of_causes,
    next_steps_of_timeline, printable_lines,
};

use super::SNAPSHOT_SESSIONS;
use crate::calibration;
use crate::exit_code::NOTHING_RECORDED;
use crate::import::Detail;
use crate::memory;
use crate::newest;
use crate::options::{FileOptions, LatchLayout, Selection, window_of};
use crate::output::{self, say};
use crate::reading;
use crate::usage::Usage;

/// What cannot be asked together with who was waited for.
const NOT_OF_WAITERS: [&str; 17] = [
    "latencies",
    "io",
    "timeline",
    "tail",
    "thresholds",
    "block_size",
    "plans",
    "each_literal",
    "stacks",
    "tree",
    "functions",
    "modules",
    "call",
    "children",
    "switches",
    "calibration",
    "by",
];

/// `dbtime report`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  dbtime report\n  dbtime report slow.dbt --by query,wait\n  dbtime report slow.dbt --causes\n  dbtime report slow.dbt --blockers\n  dbtime report slow.dbt --chain -o chains.svg\n  dbtime report slow.dbt --latches\n  dbtime report slow.dbt --from 20s --to 30s --format json"
)]
pub struct ReportArguments {
    /// The recording [default: the newest in the current directory], or files that 'dbtime import' understands: several are taken as
    /// one; or a store, or a part of it (STORE?host=db1&from=2026-10-10: see docs/store.md)
    #[arg(value_name = "RECORDING")]
    recordings: Vec<PathBuf>,
    /// What such a file does not say
    #[command(flatten)]
    about: FileOptions,
    /// Which part of it
    #[command(flatten)]
    selection: Selection,
    /// Show latencies in place of times: a histogram per group, or a heat map (--format svg)
    #[arg(long, group = "latencies")]
    latency: bool,
    /// Put the latencies of two or more recordings or files side by side, and say which part of them differs
    #[arg(long, group = "latencies", conflicts_with = "by")]
    compare: bool,
    /// Kinds of latencies: wait, syscall, sched, read, block … [default: all that were recorded]
    #[arg(long, value_name = "KIND,…", value_delimiter = ',', requires = "latencies")]
    kind: Vec<String>,
    /// Only events of this name, as Class:Event or either of the two; may be repeated
    #[arg(long, value_name = "NAME", requires = "latencies")]
    name: Vec<String>,
    /// Show a time line: average active sessions by wait class, or --by any other dimension, in so many buckets at most, or in
    /// buckets of so long (10s, 5m, 1h) [default: 60, 240 in a picture]
    #[arg(
        long,
        value_name = "BUCKETS|TIME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_parser = parse_buckets,
        conflicts_with_all = ["latencies", "io", "thresholds", "block_size", "plans", "stacks", "tree", "functions", "modules", "call",
                              "children", "switches", "calibration"]
    )]
    timeline: Option<Buckets>,
    /// Show the latency of commands by query, and what the slowest 1 % did differently from the middle half (of a recording made
    /// with --exact=calls)
    #[arg(
        long,
        conflicts_with_all = ["latencies", "io", "timeline", "thresholds", "block_size", "plans", "each_literal", "stacks", "tree",
                              "functions", "modules", "call", "children", "switches", "calibration", "by"]
    )]
    tail: bool,
    /// Show who was waited for: blocked time followed to who ended each wait and what that one was doing meanwhile
    #[arg(long, conflicts_with_all = NOT_OF_WAITERS)]
    causes: bool,
    /// Of these, show those for which others waited: sessions and statements, and what they were doing meanwhile
    #[arg(long, conflicts_with_all = NOT_OF_WAITERS)]
    blockers: bool,
    /// Show who waited behind whom, as trees: at the root of each the one that everybody in it waited for in the end. As a picture
    /// (-o chains.svg): a lane of time for each root, coloured by what it was doing
    #[arg(long, conflicts_with_all = NOT_OF_WAITERS, conflicts_with_all = ["causes", "blockers"])]
    chain: bool,
    /// The same at this moment, to the second: seconds since the start (12.5, 2m) or a time (RFC 3339)
    #[arg(long, value_name = "TIME", conflicts_with_all = NOT_OF_WAITERS, conflicts_with_all = ["causes", "blockers", "from", "to"])]
    at: Option<String>,
    /// Show who held the server's internal locks (PostgreSQL: LWLocks), what they were doing and where in the code, and who waited
    #[arg(long, conflicts_with_all = NOT_OF_WAITERS, conflicts_with_all = ["causes", "blockers", "chain", "at"])]
    latches: bool,
    /// How that is shown
    #[command(flatten)]
    latch_layout: LatchLayout,
    /// Show how much the statistics, times and waits of each session grew, as 'dbtime snap' does
    #[arg(long, conflicts_with_all = NOT_OF_WAITERS, conflicts_with_all = ["causes", "blockers", "chain", "at", "latches"])]
    snapshot: bool,
    /// Show the truth about reads: page cache or device, by wait event, file and size, and what they cost in CPU
    #[arg(long, conflicts_with = "latencies")]
    io: bool,
    /// Reads shorter than these are guessed to come from the page cache, from the storage's cache (with --io, or of an
    /// SQL trace)
    #[arg(long, value_name = "US,US", value_parser = parse_thresholds, conflicts_with = "latencies")]
    thresholds: Option<[u64; 2]>,
    /// Size of a block of the database, of an SQL trace [default: 8192]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..=1 << 30),
          conflicts_with_all = ["latencies", "io"])]
    block_size: Option<u64>,
    /// Show the plans of the statements of an SQL trace
    #[arg(long, conflicts_with_all = ["latencies", "io"])]
    plans: bool,
    /// Show the statements of an SQL trace one by one, also those that differ in literals only
    #[arg(long, conflicts_with_all = ["latencies", "io"])]
    each_literal: bool,
    /// Show the stacks, equal ones counted, the hottest last
    #[arg(long, conflicts_with_all = ["latencies", "io"])]
    stacks: bool,
    /// Show the call tree: every function with all that was called from there
    #[arg(long, conflicts_with_all = ["latencies", "io", "stacks"])]
    tree: bool,
    /// Show every function, self and total
    #[arg(long, conflicts_with_all = ["latencies", "io", "stacks", "tree"])]
    functions: bool,
    /// Functions by the time in them, or with all they called
    #[arg(long, value_enum, value_name = "BY", default_value_t = FunctionSort::Own, requires = "functions")]
    sort: FunctionSort,
    /// Show programs, libraries, kernel modules and subsystems
    #[arg(long, conflicts_with_all = ["latencies", "io", "stacks", "tree", "functions"])]
    modules: bool,
    /// Of a trace of the kernel: show one call from begin to end: slowest, median, or its number
    #[arg(long, value_name = "WHICH", conflicts_with_all = ["latencies", "io", "stacks", "tree", "functions", "modules", "by"])]
    call: Option<CallChoice>,
    /// Of a trace of the kernel: show what this function calls directly
    #[arg(long, value_name = "FUNCTION", conflicts_with_all = ["latencies", "io", "stacks", "tree", "functions", "modules", "by", "call"])]
    children: Option<String>,
    /// Show the context switches one by one, in the columns of 'perf sched timehist'
    #[arg(long, conflicts_with_all = ["latencies", "io", "stacks", "tree", "functions", "modules", "by"])]
    switches: bool,
    /// Functions from the leaf of each stack, levels from the root of the tree, links of a chain (--causes, --chain): what lies beyond
    /// is summed up [default: all; --causes: the last link]
    #[arg(long, value_name = "N", value_parser = parse_depth)]
    depth: Option<usize>,
    /// What looking costs, as 'dbtime calibrate' found it [default: what it kept on this host, for recordings of this host]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["latencies", "io", "stacks", "tree", "functions", "modules"])]
    calibration: Option<PathBuf>,
    /// Group the ledger by these [default: wait, or program in files that know no database]; a time line by one of them [default:
    /// wait_class, or program]; latencies by name, kind, device, session, io_size, blocks, source, file, second [default: name]
    #[arg(
        long,
        value_name = "DIMENSION,…",
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(all_dimensions()),
        conflicts_with_all = ["io", "stacks", "tree", "functions", "modules"]
    )]
    by: Vec<String>,
    /// Stacks [default: 5; --stacks: 20], call paths [60], functions and modules [30], statements and events of an SQL
    /// trace, groups of latencies or files [10], values of a time line [8], queries with --tail [5], waits, causes and blockers with --causes, --blockers and --chain [10], locks and holders with --latches [10], sessions with --snapshot [10] to show
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// For people or for programs [default: by the ending of the output's name (.json, .svg), else text]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// File to write in place of standard output
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = "-",
        hide_default_value = true
    )]
    output: PathBuf,
}

impl ReportArguments {
    /// What is written.
    pub fn format(&self) -> Format {
        let ending = self.output.extension().and_then(|ending| ending.to_str());
        self.format
            .unwrap_or_else(|| match ending.map(str::to_ascii_lowercase).as_deref() {
                Some("json") => Format::Json,
                Some("svg") => Format::Svg,
                _ => Format::Text,
            })
    }

    /// True when trees of those who waited are to be shown.
    pub fn chains(&self) -> bool {
        self.chain || self.at.is_some()
    }

    /// True when it is asked who was waited for, in whatever way.
    pub fn waiters(&self) -> bool {
        self.causes || self.blockers || self.chains()
    }

    /// What a time line is told apart by; none typed = none here.
    ///
    /// # Errors
    /// There is no such dimension, or more than one, or one that a time line has anyhow.
    pub fn timeline_by(&self) -> Result<Option<Dimension>, String> {
        match self.by()?.as_slice() {
            [] => Ok(None),
            [Dimension::Second] => {
                Err("a time line has its seconds already: choose another dimension".to_string())
            }
            [by] => Ok(Some(*by)),
            _ => Err("a time line is by one dimension: choose one of them".to_string()),
        }
    }

    /// How stacks are to be read, if they are, and how many of the hottest are shown when nothing else is said.
    pub fn stack_view(&self) -> Option<(StackView, usize)> {
        [
            (self.stacks, StackView::Stacks, 20),
            (self.tree, StackView::Tree, 60),
            (self.functions, StackView::Functions, 30),
            (self.modules, StackView::Modules, 30),
        ]
        .into_iter()
        .find_map(|(wanted, view, top)| wanted.then_some((view, top)))
    }

    /// How a trace of the kernel is to be looked at, and how much of it is shown when nothing else is said; none when what was
    /// asked for is asked of any recording.
    pub fn dive_view(&self) -> Option<(DiveView, usize)> {
        if self.stacks || self.modules || !self.by.is_empty() {
            return None;
        }
        Some(match (&self.call, &self.children) {
            (Some(call), _) => (DiveView::Call(*call), 0),
            (None, Some(function)) => (DiveView::Children(function.clone()), 0),
            (None, None) if self.tree => (DiveView::Tree, 200),
            (None, None) if self.functions => (DiveView::Functions, 60),
            (None, None) => (DiveView::Summary, 20),
        })
    }

    /// What is needed of files that are read for it.
    pub fn detail(&self) -> Detail {
        let by_second = || self.by().is_ok_and(|by| by.contains(&Dimension::Second));
        let cuts = self.selection.from.is_some() || self.selection.to.is_some();
        if cuts
            || self.latency
            || self.io
            || self.switches
            || self.tail
            || self.waiters()
            || self.latches
            || self.snapshot
            || self.timeline.is_some()
            || by_second()
        {
            Detail::Seconds
        } else {
            Detail::Sums
        }
    }

    /// What the ledger is grouped by; none typed = none here.
    ///
    /// # Errors
    /// There is no such dimension; the message lists those there are.
    pub fn by(&self) -> Result<Vec<Dimension>, String> {
        self.by.iter().map(|name| name.parse()).collect()
    }

    /// What latencies are grouped by.
    ///
    /// # Errors
    /// There is no such dimension; the message lists those there are.
    pub fn latency_by(&self) -> Result<Vec<LatencyDimension>, String> {
        or_default(&self.by, LatencyDimension::Name)
    }
}

/// The dimensions that were typed, or one if none were.
fn or_default<T: FromStr<Err = String>>(names: &[String], default: T) -> Result<Vec<T>, String> {
    if names.is_empty() {
        return Ok(vec![default]);
    }
    names.iter().map(|name| name.parse()).collect()
}

/// In which order functions stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FunctionSort {
    /// By the time in them
    #[value(name = "self")]
    Own,
    /// By the time in them and in all they called
    Total,
}

/// Output formats of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Tables for a terminal
    Text,
    /// JSON
    Json,
    /// A picture: with --latency, a heat map of one kind; with --timeline, the time line; with --chain, the roots over time
    Svg,
}

/// How a time line is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Buckets {
    /// As is usual.
    Usual,
    /// As was typed.
    Typed(BucketWidth),
}

impl Buckets {
    /// Buckets of a text, or of a picture.
    fn width(self, is_picture: bool) -> BucketWidth {
        match self {
            Buckets::Typed(width) => width,
            Buckets::Usual if is_picture => BucketWidth::AtMost(240),
            Buckets::Usual => TimelineOptions::default().width,
        }
    }
}

/// The words of `--by`: of times, and of latencies.
fn all_dimensions() -> Vec<&'static str> {
    let mut names: Vec<&str> = Dimension::ALL.map(Dimension::as_str).to_vec();
    for of_latencies in LatencyDimension::ALL.map(LatencyDimension::as_str) {
        if !names.contains(&of_latencies) {
            names.push(of_latencies);
        }
    }
    names
}

fn parse_buckets(text: &str) -> Result<Buckets, String> {
    let usage = || {
        "must be a number of buckets (60), or how long one is in whole seconds, minutes or hours (10s, 5m, 1h)".to_string()
    };
    let units = [("s", 1), ("m", 60), ("h", 3_600)];
    let with_unit = units
        .into_iter()
        .find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)));
    match with_unit {
        _ if text.is_empty() => Ok(Buckets::Usual),
        Some((number, unit)) => match number
            .parse::<u32>()
            .ok()
            .and_then(|number| number.checked_mul(unit))
        {
            Some(seconds) if seconds > 0 => Ok(Buckets::Typed(BucketWidth::Seconds(seconds))),
            _ => Err(usage()),
        },
        None => match text.parse() {
            Ok(most @ 1..=10_000) => Ok(Buckets::Typed(BucketWidth::AtMost(most))),
            _ => Err(usage()),
        },
    }
}

fn parse_depth(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(depth) if depth > 0 => Ok(depth),
        _ => Err("must be a number, 1 at least".to_string()),
    }
}

fn parse_thresholds(text: &str) -> Result<[u64; 2], String> {
    let numbers: Vec<u64> = text
        .split(',')
        .map(|number| number.trim().parse())
        .collect::<Result<_, _>>()
        .map_err(|_| "not two whole numbers of microseconds, as in 50,1000".to_string())?;
    match numbers.as_slice() {
        [first, second] if first < second => Ok([*first, *second]),
        _ => Err("must be two numbers of microseconds, the smaller one first, as in 50,1000".to_string()),
    }
}

pub(super) fn run(mut arguments: Box<ReportArguments>) -> anyhow::Result<ExitCode> {
    memory::bound(arguments.about.max_memory);
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
        filter: arguments.selection.filter(&source)?,
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
        filter: arguments.selection.filter(&source)?,
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
    let mut filter = arguments.selection.filter(source)?;
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
        filter: arguments.selection.filter(&source)?,
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
        filter: arguments.selection.filter(&source)?,
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
    let filter = arguments.selection.filter(&source)?;
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
        filter: arguments.selection.filter(source)?,
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
        filter: arguments.selection.filter(source)?,
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
        filter: arguments.selection.filter(source)?,
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
        calibration: cost_of_looking(arguments)?,
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
fn cost_of_looking(arguments: &ReportArguments) -> anyhow::Result<Option<CalibrationOf>> {
    Ok(match &arguments.calibration {
        Some(path) => Some(CalibrationOf {
            calibration: calibration::read(path)?,
            is_named: true,
        }),
        None => calibration::kept().map(|calibration| CalibrationOf {
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
            filter: arguments.selection.filter(&source)?,
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
        filter: arguments.selection.filter(&source)?,
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
        filter: arguments.selection.filter(source)?,
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Typed {
        #[command(flatten)]
        arguments: ReportArguments,
    }

    #[test]
    fn one_view_of_who_was_waited_for_at_a_time() {
        let is_one = |words: &[&str]| Typed::try_parse_from([&["report", "x.dbt"], words].concat()).is_ok();
        for wrong in [
            &["--causes", "--chain"][..],
            &["--causes", "--at=3"],
            &["--blockers", "--chain"],
        ] {
            assert!(!is_one(wrong), "{wrong:?}");
        }
        assert!(is_one(&["--chain", "--at=3"]) && is_one(&["--causes", "--depth=2"]));
    }

    #[test]
    fn thresholds_are_two_numbers_in_order() {
        assert_eq!(parse_thresholds("50, 1000"), Ok([50, 1_000]));
        for wrong in ["", "50", "50,50", "1000,50", "1,2,3", "a,b", "-1,5"] {
            assert!(parse_thresholds(wrong).is_err(), "{wrong}");
        }
    }
}
