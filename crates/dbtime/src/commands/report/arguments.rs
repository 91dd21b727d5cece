//! Command line flags, which [`super::request`] turns into a question. Nothing else looks at them.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use dbtime_report::{BucketWidth, CallChoice, Dimension, Sort, TimelineOptions, WhatIf};

use crate::options::{FileOptions, Selection, above_zero};

/// Options that cannot be combined with questions about who was waited for.
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
    after_help = "Examples:\n  dbtime report\n  dbtime report slow.dbt --by query,wait\n  dbtime report slow.dbt --causes\n  dbtime report slow.dbt --blockers\n  dbtime report slow.dbt --chain -o chains.svg\n  dbtime report slow.dbt --latches\n  dbtime report slow.dbt --what-if hold:transactionid=0.5\n  dbtime report slow.dbt --from 20s --to 30s --format json"
)]
pub struct ReportArguments {
    /// The recording [default: the newest in the current directory], or files that 'dbtime import' understands: several
    /// count as one; or a store, or a part of it (STORE?host=db1&from=2026-10-10: see docs/store.md)
    #[arg(value_name = "RECORDING")]
    pub(super) recordings: Vec<PathBuf>,
    /// What such a file does not say
    #[command(flatten)]
    pub(super) about: FileOptions,
    /// Which part of it
    #[command(flatten)]
    pub(super) selection: Selection,
    /// Show latencies instead of times: a histogram per group, or a heat map (--format svg)
    #[arg(long, group = "latencies")]
    pub(super) latency: bool,
    /// Put the latencies of two or more recordings or files side by side, and say which part of them differs
    #[arg(long, group = "latencies", conflicts_with = "by")]
    pub(super) compare: bool,
    /// Kinds of latencies: wait, syscall, sched, read, block … [default: all that were recorded]
    #[arg(long, value_name = "KIND,…", value_delimiter = ',', requires = "latencies")]
    pub(super) kind: Vec<String>,
    /// Only events of this name, as Class:Event or either of the two; may be repeated
    #[arg(long, value_name = "NAME", requires = "latencies")]
    pub(super) name: Vec<String>,
    /// Show a time line: average active sessions by wait class, or --by any other dimension, in at most this many
    /// buckets, or in buckets of this length (10s, 5m, 1h) [default: 60, 240 in a picture]
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
    pub(super) timeline: Option<Buckets>,
    /// Show the latency of commands by query, and what the slowest 1 % did differently from the middle half (of a recording made
    /// with --exact=calls)
    #[arg(
        long,
        conflicts_with_all = ["latencies", "io", "timeline", "thresholds", "block_size", "plans", "each_literal", "stacks", "tree",
                              "functions", "modules", "call", "children", "switches", "calibration", "by"]
    )]
    pub(super) tail: bool,
    /// Show who was waited for: blocked time followed to whoever ended each wait, and what they were doing meanwhile
    #[arg(long, conflicts_with_all = NOT_OF_WAITERS)]
    pub(super) causes: bool,
    /// Show the sessions and statements that others waited for, and what they were doing meanwhile
    #[arg(long, conflicts_with_all = NOT_OF_WAITERS)]
    pub(super) blockers: bool,
    /// Show who waited behind whom, as trees: at the root of each is the session that all others in it ultimately waited
    /// for. As a picture (-o chains.svg): a lane over time for each root, coloured by what it was doing
    #[arg(long, conflicts_with_all = NOT_OF_WAITERS, conflicts_with_all = ["causes", "blockers"])]
    pub(super) chain: bool,
    /// Show the trees at this moment, to the second: seconds since the start (12.5, 2m) or a time (20:51:58 in UTC, or RFC 3339)
    #[arg(long, value_name = "TIME", conflicts_with_all = NOT_OF_WAITERS, conflicts_with_all = ["causes", "blockers", "from", "to"])]
    pub(super) at: Option<String>,
    /// Show who held the server's internal locks (PostgreSQL: LWLocks), what they were doing and where in the code, and who waited
    #[arg(long, conflicts_with_all = NOT_OF_WAITERS, conflicts_with_all = ["causes", "blockers", "chain", "at"])]
    pub(super) latches: bool,
    /// With --latches, held locks (LWLocks) as one table by name, lock, relation, mode, session, user, backend_type, application, query,
    /// sql_id, statement, wait, state, where; with --snapshot, its columns: delta, delta/s, hdelta, hdelta/s, %time, graph, waits,
    /// waits/s, average
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',')]
    pub(super) columns: Vec<String>,
    /// Show how much the statistics, times and waits of each session grew, as 'dbtime snap' does; for files of Snapper, each snapshot
    #[arg(long, conflicts_with_all = NOT_OF_WAITERS, conflicts_with_all = ["causes", "blockers", "chain", "at", "latches"])]
    pub(super) snapshot: bool,
    /// Predict DB time and throughput of the same closed load if something took FACTOR times as long: what is done while a lock is
    /// held (hold:LOCK=0.5), each wait in an event (event:IO:WALSync=0.3), a statement (query:ID=0, gone); may be repeated to
    /// combine several
    #[arg(long, value_name = "WHAT=FACTOR", conflicts_with_all = NOT_OF_WAITERS,
          conflicts_with_all = ["causes", "blockers", "chain", "at", "latches", "snapshot", "top"])]
    pub(super) what_if: Vec<WhatIf>,
    /// Show where reads really came from, page cache or device, by wait event, file and size, and what they cost in CPU
    #[arg(long, conflicts_with = "latencies")]
    pub(super) io: bool,
    /// Reads shorter than these are assumed to come from the page cache and the storage's cache, respectively (with --io, or for SQL traces)
    #[arg(long, value_name = "US,US", value_parser = parse_thresholds, conflicts_with = "latencies")]
    pub(super) thresholds: Option<[u64; 2]>,
    /// Block size of the database, for SQL traces [default: 8192]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..=1 << 30),
          conflicts_with_all = ["latencies", "io"])]
    pub(super) block_size: Option<u64>,
    /// Show the plans of the statements of an SQL trace
    #[arg(long, conflicts_with_all = ["latencies", "io"])]
    pub(super) plans: bool,
    /// Show the statements of an SQL trace one by one, even those that differ only in literals
    #[arg(long, conflicts_with_all = ["latencies", "io"])]
    pub(super) each_literal: bool,
    /// Show the stacks, identical ones merged, the hottest last
    #[arg(long, conflicts_with_all = ["latencies", "io"])]
    pub(super) stacks: bool,
    /// Show the call tree: every function with everything called from it
    #[arg(long, conflicts_with_all = ["latencies", "io", "stacks"])]
    pub(super) tree: bool,
    /// Show every function, self and total
    #[arg(long, conflicts_with_all = ["latencies", "io", "stacks", "tree"])]
    pub(super) functions: bool,
    /// Order functions by their own time, or by the time including everything they called
    #[arg(long, value_enum, value_name = "BY", default_value_t = FunctionSort::Own, requires = "functions")]
    pub(super) sort: FunctionSort,
    /// Show programs, libraries, kernel modules and subsystems
    #[arg(long, conflicts_with_all = ["latencies", "io", "stacks", "tree", "functions"])]
    pub(super) modules: bool,
    /// For kernel traces: show one call from start to end: slowest, median, or its number
    #[arg(long, value_name = "WHICH", conflicts_with_all = ["latencies", "io", "stacks", "tree", "functions", "modules", "by"])]
    pub(super) call: Option<CallChoice>,
    /// For kernel traces: show what this function calls directly
    #[arg(long, value_name = "FUNCTION", conflicts_with_all = ["latencies", "io", "stacks", "tree", "functions", "modules", "by", "call"])]
    pub(super) children: Option<String>,
    /// Show the context switches one by one, in the columns of 'perf sched timehist'
    #[arg(long, conflicts_with_all = ["latencies", "io", "stacks", "tree", "functions", "modules", "by"])]
    pub(super) switches: bool,
    /// How deep to show: functions from the leaf of each stack, levels from the root of the tree, links of a chain
    /// (--causes, --chain); the rest is summed up [default: all; --causes: the last link]
    #[arg(long, value_name = "N", value_parser = above_zero)]
    pub(super) depth: Option<usize>,
    /// Cost of observation, as measured by 'dbtime calibrate' [default: what it saved on this host, for recordings of this host]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["latencies", "io", "stacks", "tree", "functions", "modules"])]
    pub(super) calibration: Option<PathBuf>,
    /// Group the ledger by these [default: wait, or program for files without a database]; a time line by one of them [default:
    /// wait_class, or program]; latencies by name, kind, device, session, io_size, blocks, source, file, relation, second, and by what sessions and statements are grouped by [default:
    /// name]
    #[arg(
        long,
        value_name = "DIMENSION,…",
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(all_dimensions()),
        conflicts_with_all = ["io", "stacks", "tree", "functions", "modules"]
    )]
    pub(super) by: Vec<String>,
    /// How many to show: stacks [default: 5; --stacks: 20], call paths [60], functions and modules [30], statements and events of an SQL
    /// trace, groups of latencies or files [10], values of a time line [8], queries with --tail [5], waits, causes and
    /// blockers with --causes, --blockers and --chain [10], locks and holders with --latches [10], sessions with
    /// --snapshot [10]
    #[arg(long, value_name = "N", value_parser = above_zero)]
    pub(super) top: Option<usize>,
    /// Output format [default: by the extension of the output file (.json, .csv, .svg), else text]
    #[arg(long, value_enum)]
    pub(super) format: Option<Format>,
    /// File to write instead of standard output
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = "-",
        hide_default_value = true
    )]
    pub(super) output: PathBuf,
}

impl ReportArguments {
    /// The output format.
    pub(super) fn format(&self) -> Format {
        let ending = self.output.extension().and_then(|ending| ending.to_str());
        self.format
            .unwrap_or_else(|| match ending.map(str::to_ascii_lowercase).as_deref() {
                Some("json") => Format::Json,
                Some("csv") => Format::Csv,
                Some("svg") => Format::Svg,
                _ => Format::Text,
            })
    }
}

/// The order of functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum FunctionSort {
    /// By their own time
    #[value(name = "self")]
    Own,
    /// By the time in them and in everything they called
    Total,
}

impl From<FunctionSort> for Sort {
    fn from(sort: FunctionSort) -> Sort {
        match sort {
            FunctionSort::Own => Sort::Own,
            FunctionSort::Total => Sort::Total,
        }
    }
}

/// Output formats of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Tables for a terminal
    Text,
    /// JSON
    Json,
    /// With --snapshot, one line for each thing that grew
    Csv,
    /// A picture: with --latency, a heat map of one kind; with --timeline, the time line; with --chain, the roots over time
    Svg,
}

/// How a time line is divided into buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Buckets {
    /// By default.
    Usual,
    /// As given on the command line.
    Typed(BucketWidth),
}

impl Buckets {
    /// Buckets for text, or for a picture.
    pub(super) fn width(self, is_picture: bool) -> BucketWidth {
        match self {
            Buckets::Typed(width) => width,
            Buckets::Usual if is_picture => BucketWidth::AtMost(240),
            Buckets::Usual => TimelineOptions::default().width,
        }
    }
}

/// The values of `--by`: for times, and for latencies.
fn all_dimensions() -> Vec<&'static str> {
    let mut names: Vec<&str> = Dimension::OF_TIME.map(Dimension::as_str).to_vec();
    for of_latencies in Dimension::OF_LATENCIES.map(Dimension::as_str) {
        if !names.contains(&of_latencies) {
            names.push(of_latencies);
        }
    }
    names
}

fn parse_buckets(text: &str) -> Result<Buckets, String> {
    let usage = || {
        "must be a number of buckets (60), or the length of one in whole seconds, minutes or hours (10s, 5m, 1h)".to_string()
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
