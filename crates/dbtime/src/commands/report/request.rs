//! The question, made once from the flags that were given. It can only express what has an answer.

use std::fmt::Display;
use std::process::ExitCode;

use dbtime_report::{
    CauseOptions, CommandOptions, ComparisonOptions, Dimension, DiveView, LatchOptions, SnapshotColumn,
    StackView, TimelineOptions, USUAL_THRESHOLDS_US,
};

use super::arguments::{Buckets, Format, ReportArguments};
use super::commands::Commands;
use super::comparison::Comparison;
use super::io::Io;
use super::kernel_trace::KernelTrace;
use super::latches::Latches;
use super::latency::{self, Latency};
use super::ledger::{Ledger, OfTrace};
use super::snapshot::Snapshot;
use super::stacks::Stacks;
use super::subject::Subject;
use super::switches::Switches;
use super::timeline::{self, Timeline};
use super::waiters::{self, Waiters};
use super::what_if::Prediction;
use crate::commands::SNAPSHOT_SESSIONS;
use crate::options::{SnapshotFormat, TableFormat, each_once};
use crate::usage::Usage;

const NO_CSV: &str = "--format csv is for --snapshot only";

/// A question, and what it is asked of.
#[derive(Debug)]
pub(super) struct Request {
    subject: Subject,
    question: Question,
}

/// What is asked.
#[derive(Debug, PartialEq)]
pub(super) enum Question {
    Ledger(Ledger),
    Stacks(Stacks),
    KernelTrace(KernelTrace),
    Timeline(Timeline),
    Latency(Latency),
    Comparison(Comparison),
    Io(Io),
    Commands(Commands),
    Waiters(Waiters),
    Latches(Latches),
    Snapshot(Snapshot),
    Prediction(Prediction),
    Switches(Switches),
}

impl Request {
    /// What these flags ask for.
    ///
    /// # Errors
    /// The argument parser accepts the flags together, but no question has all of them.
    pub(super) fn of(arguments: ReportArguments) -> Result<Request, Usage> {
        let question = Question::of(&arguments)?;
        Ok(Request {
            subject: Subject {
                recordings: arguments.recordings,
                about: arguments.about,
                selection: arguments.selection,
                output: arguments.output,
            },
            question,
        })
    }

    /// Asks the question, and writes the answer.
    ///
    /// # Errors
    /// The source cannot be read, or cannot answer it; the answer cannot be written.
    pub(super) fn answer(&self) -> anyhow::Result<ExitCode> {
        let subject = &self.subject;
        match &self.question {
            Question::Ledger(asked) => asked.answer(subject),
            Question::Stacks(asked) => asked.answer(subject),
            Question::KernelTrace(asked) => asked.answer(subject),
            Question::Timeline(asked) => asked.answer(subject),
            Question::Latency(asked) => asked.answer(subject),
            Question::Comparison(asked) => asked.answer(subject),
            Question::Io(asked) => asked.answer(subject),
            Question::Commands(asked) => asked.answer(subject),
            Question::Waiters(asked) => asked.answer(subject),
            Question::Latches(asked) => asked.answer(subject),
            Question::Snapshot(asked) => asked.answer(subject),
            Question::Prediction(asked) => asked.answer(subject),
            Question::Switches(asked) => asked.answer(subject),
        }
    }
}

impl Question {
    fn of(flags: &ReportArguments) -> Result<Question, Usage> {
        check(flags)?;
        if let Some(buckets) = flags.timeline {
            return timeline(flags, buckets);
        }
        let format = match flags.format() {
            Format::Text => TableFormat::Text,
            Format::Json => TableFormat::Json,
            Format::Csv if flags.snapshot => return snapshot(flags, SnapshotFormat::Csv),
            Format::Csv => return Err(Usage(NO_CSV.to_string())),
            Format::Svg => return picture(flags),
        };
        if let Some(seen) = waiters_in_tables(flags, format) {
            return Ok(waiters(flags, seen));
        }
        if flags.latches {
            return Ok(Question::Latches(Latches {
                columns: choices(&flags.columns, str::parse)?,
                top: flags.top.unwrap_or(LatchOptions::default().top),
                format,
            }));
        }
        if flags.snapshot {
            return snapshot(
                flags,
                match format {
                    TableFormat::Text => SnapshotFormat::Text,
                    TableFormat::Json => SnapshotFormat::Json,
                },
            );
        }
        if !flags.what_if.is_empty() {
            return Ok(Question::Prediction(Prediction {
                changes: flags.what_if.clone(),
                format,
            }));
        }
        if flags.tail {
            return Ok(Question::Commands(Commands {
                top: flags.top.unwrap_or(CommandOptions::default().top),
                format,
            }));
        }
        if flags.compare {
            return comparison(flags, format);
        }
        if flags.latency {
            let by = match flags.by.is_empty() {
                true => vec![Dimension::Name],
                false => choices(&flags.by, Dimension::parse_of_latencies)?,
            };
            return Ok(latencies(flags, latency::Seen::Tables { by, format }));
        }
        if flags.io {
            return Ok(Question::Io(Io {
                thresholds_us: flags.thresholds.unwrap_or(USUAL_THRESHOLDS_US),
                top: flags.top.unwrap_or(10),
                format,
            }));
        }
        if flags.switches {
            return Ok(Question::Switches(Switches { format }));
        }
        if let Some(view) = view_of_kernel_trace(flags) {
            return Ok(Question::KernelTrace(KernelTrace {
                view,
                top: flags.top.unwrap_or(0),
                depth: flags.depth,
                format,
            }));
        }
        if let Some(view) = stack_view(flags) {
            return Ok(Question::Stacks(Stacks {
                view,
                sort: flags.sort.into(),
                top: flags.top,
                depth: flags.depth,
                format,
            }));
        }
        Ok(Question::Ledger(Ledger {
            by: choices(&flags.by, Dimension::parse_of_time)?,
            top: flags.top,
            of_trace: OfTrace {
                thresholds_us: flags.thresholds,
                block_bytes: flags.block_size,
                plans: flags.plans,
                each_literal: flags.each_literal,
            },
            calibration: flags.calibration.clone(),
            format,
        }))
    }
}

/// What the argument parser cannot express about options that go with some questions only.
fn check(flags: &ReportArguments) -> Result<(), Usage> {
    let wrong = |what: &str| Err(Usage(what.to_string()));
    let is_deep = flags.stacks || flags.tree || flags.call.is_some() || flags.causes || has_chains(flags);
    if flags.depth.is_some() && (!is_deep || flags.blockers) {
        return wrong("--depth is for --stacks, --tree, --call, --causes and --chain");
    }
    if flags.depth.is_some() && has_chains(flags) && flags.format() == Format::Svg {
        return wrong("--depth is for the trees of --chain, not for its picture");
    }
    if !flags.columns.is_empty() && !flags.latches && !flags.snapshot {
        return wrong("--columns is for --latches and --snapshot");
    }
    let chosen = &flags.selection;
    let cuts_waits = !chosen.wait.is_empty() || !chosen.state.is_empty();
    let cuts_times = cuts_waits || !chosen.query.is_empty();
    if cuts_times && !flags.what_if.is_empty() {
        return wrong("--what-if needs all of the client time: --wait, --state and --query leave some out");
    }
    if cuts_waits && (flags.latency || flags.io || flags.compare || flags.switches) {
        return wrong("--wait and --state select time; to select single events, use --name");
    }
    if !chosen.query.is_empty() && flags.compare {
        return wrong("--compare compares whole recordings: leave out --query");
    }
    Ok(())
}

fn snapshot(flags: &ReportArguments, format: SnapshotFormat) -> Result<Question, Usage> {
    Ok(Question::Snapshot(Snapshot {
        columns: match flags.columns.as_slice() {
            [] => SnapshotColumn::USUAL.to_vec(),
            names => choices(names, str::parse)?,
        },
        top: flags.top.unwrap_or(SNAPSHOT_SESSIONS),
        format,
    }))
}

fn picture(flags: &ReportArguments) -> Result<Question, Usage> {
    if flags.latency {
        Ok(latencies(flags, latency::Seen::HeatMap))
    } else if has_chains(flags) {
        let at = flags.at.clone();
        Ok(waiters(flags, waiters::Seen::Picture { at }))
    } else {
        Err(Usage(
            "this report cannot be drawn: use --timeline for a time line, --latency for a heat map, --chain for the \
            roots of chains, or 'dbtime flame' for a flame graph"
                .to_string(),
        ))
    }
}

fn timeline(flags: &ReportArguments, buckets: Buckets) -> Result<Question, Usage> {
    let wrong = |what: &str| Err(Usage(what.to_string()));
    let by = match choices(&flags.by, Dimension::parse_of_time)?.as_slice() {
        [] => None,
        [Dimension::Second] => {
            return wrong("a time line already shows seconds: choose another dimension");
        }
        [by] => Some(*by),
        _ => return wrong("a time line has one dimension: give only one"),
    };
    let seen = match flags.format() {
        Format::Text => timeline::Seen::Table(TableFormat::Text),
        Format::Json => timeline::Seen::Table(TableFormat::Json),
        Format::Svg => timeline::Seen::Picture,
        Format::Csv => return wrong(NO_CSV),
    };
    Ok(Question::Timeline(Timeline {
        by,
        width: buckets.width(seen == timeline::Seen::Picture),
        top: flags.top.unwrap_or(TimelineOptions::default().top),
        each_literal: flags.each_literal,
        seen,
    }))
}

fn latencies(flags: &ReportArguments, seen: latency::Seen) -> Question {
    Question::Latency(Latency {
        kinds: flags.kind.clone(),
        names: flags.name.clone(),
        top: flags.top.unwrap_or(10),
        seen,
    })
}

fn comparison(flags: &ReportArguments, format: TableFormat) -> Result<Question, Usage> {
    if flags.recordings.len() < 2 {
        return Err(Usage(
            "--compare needs at least two recordings or files".to_string(),
        ));
    }
    Ok(Question::Comparison(Comparison {
        kinds: flags.kind.clone(),
        names: flags.name.clone(),
        top: flags.top.unwrap_or(ComparisonOptions::default().top),
        format,
    }))
}

fn waiters(flags: &ReportArguments, seen: waiters::Seen) -> Question {
    Question::Waiters(Waiters {
        seen,
        top: flags.top.unwrap_or(CauseOptions::default().top),
        depth: flags.depth,
    })
}

fn waiters_in_tables(flags: &ReportArguments, format: TableFormat) -> Option<waiters::Seen> {
    if flags.blockers {
        Some(waiters::Seen::Blockers(format))
    } else if flags.causes {
        Some(waiters::Seen::Causes(format))
    } else if has_chains(flags) {
        let at = flags.at.clone();
        Some(waiters::Seen::Chains { at, format })
    } else {
        None
    }
}

/// `--at` alone asks for the trees at that moment.
fn has_chains(flags: &ReportArguments) -> bool {
    flags.chain || flags.at.is_some()
}

fn view_of_kernel_trace(flags: &ReportArguments) -> Option<DiveView> {
    match (&flags.call, &flags.children) {
        (Some(call), _) => Some(DiveView::Call(*call)),
        (None, Some(function)) => Some(DiveView::Children(function.clone())),
        (None, None) => None,
    }
}

fn stack_view(flags: &ReportArguments) -> Option<StackView> {
    let views = [
        (flags.stacks, StackView::Stacks),
        (flags.tree, StackView::Tree),
        (flags.functions, StackView::Functions),
        (flags.modules, StackView::Modules),
    ];
    views
        .into_iter()
        .find_map(|(is_wanted, view)| is_wanted.then_some(view))
}

/// Parses names: not every question accepts all that the command line does.
fn choices<T: PartialEq + Display>(
    names: &[String],
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, Usage> {
    let parsed = names.iter().map(|name| parse(name));
    let parsed: Vec<T> = parsed.collect::<Result<_, _>>().map_err(Usage)?;
    each_once(&parsed).map_err(Usage)?;
    Ok(parsed)
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

    fn question(words: &[&str]) -> Result<Question, String> {
        let words = [&["report", "x.dbt"], words].concat();
        let typed = Typed::try_parse_from(words).map_err(|e| e.to_string())?;
        Request::of(typed.arguments)
            .map(|request| request.question)
            .map_err(|e| e.0)
    }

    /// The kind of question that these words ask.
    fn kind(words: &[&str]) -> String {
        let question = format!("{:?}", question(words).expect("a question"));
        let end = question
            .find(|c: char| !c.is_alphabetic())
            .unwrap_or(question.len());
        question[..end].to_string()
    }

    #[test]
    fn each_flag_asks_its_question() {
        for (words, asked) in [
            (&[][..], "Ledger"),
            (&["--by", "query,wait"], "Ledger"),
            (&["--tree"], "Stacks"),
            (&["--functions", "--sort", "total"], "Stacks"),
            (&["--call", "slowest", "--depth", "2"], "KernelTrace"),
            (&["--children", "vfs_read"], "KernelTrace"),
            (&["--timeline", "--by", "wait"], "Timeline"),
            (&["--timeline=5m", "-o", "x.svg"], "Timeline"),
            (&["--latency", "--by", "device"], "Latency"),
            (&["--latency", "-o", "x.svg"], "Latency"),
            (&["y.dbt", "--compare"], "Comparison"),
            (&["--io", "--thresholds", "9,99"], "Io"),
            (&["--tail"], "Commands"),
            (&["--causes", "--blockers"], "Waiters"),
            (&["--at", "12.5"], "Waiters"),
            (&["--chain", "--format", "svg"], "Waiters"),
            (&["--latches", "--columns", "name"], "Latches"),
            (&["--snapshot"], "Snapshot"),
            (&["--snapshot", "--columns", "delta,%time,AVERAGE"], "Snapshot"),
            (&["--snapshot", "-o", "x.csv"], "Snapshot"),
            (
                &["--what-if", "hold:x=0.5", "--what-if", "query:-7=0"],
                "Prediction",
            ),
            (&["--switches"], "Switches"),
        ] {
            assert_eq!(kind(words), asked, "{words:?}");
        }
    }

    #[test]
    fn what_no_question_has_is_refused() {
        for (words, why) in [
            (&["--depth", "2"][..], "--depth is for"),
            (&["--blockers", "--depth", "2"], "--depth is for"),
            (&["--chain", "--depth", "2", "-o", "x.svg"], "not for its picture"),
            (&["--columns", "name"], "--latches"),
            (&["--latches", "--columns", "nmae"], "'name'"),
            (&["--snapshot", "--columns", "name"], "hdelta/s"),
            (&["--format", "csv"], "--snapshot"),
            (&["--timeline", "--format", "csv"], "--snapshot"),
            (&["-o", "x.csv", "--latches"], "--snapshot"),
            (&["--what-if", "hold:x"], "no factor"),
            (&["--what-if", "hold:x=1", "--causes"], "cannot be used"),
            (&["--what-if", "hold:x=1", "--state", "disk"], "leave some out"),
            (&["--io", "--wait", "IO"], "--name"),
            (&["--format", "svg"], "cannot be drawn"),
            (&["--causes", "-o", "x.svg"], "cannot be drawn"),
            (&["--compare"], "two recordings"),
            (&["--timeline", "--by", "second"], "already"),
            (&["--timeline", "--by", "wait,state"], "one dimension"),
            (&["--timeline", "--by", "device"], "'device'"),
            (&["--latency", "--by", "state"], "'state'"),
            (&["--by", "io_size"], "'io_size'"),
            (&["--by", "wait,state,wait"], "'wait' is listed twice"),
            (&["--timeline", "--by", "wait,wait"], "'wait' is listed twice"),
            // Two names of the same dimension of latencies.
            (&["--latency", "--by", "name,wait"], "'name' is listed twice"),
            (&["--latches", "--columns", "lock,lock"], "'lock' is listed twice"),
            (
                &["--snapshot", "--columns", "delta,delta"],
                "'delta' is listed twice",
            ),
            (&["--top", "0"], "above 0"),
            (&["--stacks", "--depth", "0"], "above 0"),
        ] {
            let refused = question(words).expect_err("no question");
            assert!(refused.contains(why), "{words:?}: {refused}");
        }
    }

    #[test]
    fn the_ending_of_the_output_is_the_format() {
        let Ok(Question::Switches(switches)) = question(&["--switches", "-o", "x.JSON"]) else {
            panic!("another question");
        };
        assert_eq!(switches.format, TableFormat::Json);
        let Ok(Question::Timeline(timeline)) = question(&["--timeline", "-o", "x.svg", "--format", "text"])
        else {
            panic!("another question");
        };
        assert_eq!(timeline.seen, timeline::Seen::Table(TableFormat::Text));
    }
}
