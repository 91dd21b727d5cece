//! `dbtime flame`: a flame graph of a recording, or stacks for other programs that draw them.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use dbtime_report::{Dimension, FlameOptions, ReportError, Source, export};

use crate::exit_code::NOTHING_RECORDED;
use crate::import::Detail;
use crate::memory;
use crate::newest;
use crate::options::{FileOptions, Selection, each_once};
use crate::output::{self, say};
use crate::page;
use crate::reading;
use crate::usage::Usage;

/// `dbtime flame`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  dbtime flame slow.dbt\n  dbtime flame slow.dbt --by query,wait -o slow.svg\n  dbtime flame prod_1.trc prod_2.trc -o prod.svg\n  perf script | dbtime flame - -o cpu.svg"
)]
pub struct FlameArguments {
    /// The recording [default: the newest in the current directory], or files that 'dbtime import' understands: several
    /// count as one; or a store, or a part of it (STORE?host=db1&from=2026-10-10: see docs/store.md)
    #[arg(value_name = "RECORDING")]
    recordings: Vec<PathBuf>,
    /// What such a file does not say
    #[command(flatten)]
    about: FileOptions,
    /// Which part of it
    #[command(flatten)]
    selection: Selection,
    /// Levels below the stacks, from the bottom [default: wait,state, or program,state for files without a database]
    #[arg(long, value_name = "DIMENSION,…", value_delimiter = ',', value_parser = dimension_parser())]
    by: Vec<Dimension>,
    /// Draw idle waits too
    #[arg(long)]
    idle: bool,
    /// Draw background processes too
    #[arg(long)]
    background: bool,
    /// SQL traces: keep statements apart that differ only in literals
    #[arg(long)]
    each_literal: bool,
    /// Also draw the frames from _start to PostmasterMain, with which every stack of a PostgreSQL server begins. Formats other than
    /// SVG always have them
    #[arg(long)]
    whole_stacks: bool,
    /// Continue blocked time in the stacks of whoever was waited for; the total width stays the same
    #[arg(long)]
    causes: bool,
    /// File to write; its extension chooses the format (see docs/export.md: .svg, .folded, .pb.gz, .speedscope.json …); -
    /// writes folded stacks to standard output [default: next to the recording or the first file, slow.svg for slow.dbt; - if
    /// standard output is not a terminal]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The values of `--by` for times.
fn dimension_parser() -> impl TypedValueParser<Value = Dimension> {
    PossibleValuesParser::new(Dimension::OF_TIME.map(Dimension::as_str))
        .try_map(|name| Dimension::parse_of_time(&name))
}

/// Draws the flame graph.
///
/// # Errors
/// The recording cannot be read, the output cannot be written, or no format has its extension.
pub(super) fn run(arguments: &FlameArguments) -> anyhow::Result<ExitCode> {
    memory::bound(arguments.about.max_memory);
    each_once(&arguments.by).map_err(Usage)?;
    let first = newest::or_named(arguments.recordings.first().map(PathBuf::as_path), "flame graph")?;
    let recordings = match arguments.recordings.as_slice() {
        [] => std::slice::from_ref(&first),
        named => named,
    };
    let output = match &arguments.output {
        Some(output) => output.clone(),
        // A picture is for a user at a terminal; a program behind a pipe takes folded stacks.
        None if io::stdout().is_terminal() => reading::sibling(&first, "svg")?,
        None => PathBuf::from("-"),
    };
    // The format first: a wrong extension shows before a large recording is read.
    let exporter = export::exporter(&output).map_err(|e| Usage(e.to_string()))?;
    let source = reading::open(
        recordings,
        &arguments.about,
        Detail::Seconds,
        &arguments.selection,
    )?;
    let options = FlameOptions {
        filter: arguments.selection.filter(&source)?,
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
    output::say_problems(folded.problems.iter().map(|problem| &problem.0));
    for dimension in folded.not_recorded() {
        say(format_args!("note: this recording does not say the {dimension}"));
    }
    if folded.total_ns == 0 {
        let paths: Vec<String> = recordings.iter().map(|path| path.display().to_string()).collect();
        say(format_args!("dbtime: {}: nothing to draw", paths.join(" ")));
        return Ok(ExitCode::from(NOTHING_RECORDED));
    }
    let folded = match exporter.is_picture() && !arguments.whole_stacks {
        true => folded.without_start_of_server(),
        false => folded,
    };
    output::to_file(&output, |out| exporter.write(&folded, out))?;
    if arguments.output.is_none() && output != Path::new("-") {
        page::say_where(&output);
    }
    Ok(ExitCode::SUCCESS)
}

/// What distinguishes stacks: what the format needs, then what was given or is the default.
fn levels(typed: &[Dimension], needed: &[Dimension], source: &Source) -> Vec<Dimension> {
    let usual = [Dimension::usual(source.meta()), Dimension::State];
    let wanted = if typed.is_empty() { &usual[..] } else { typed };
    let mut levels: Vec<Dimension> = needed.to_vec();
    levels.extend(wanted.iter().filter(|dimension| !needed.contains(dimension)));
    levels
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Typed {
        #[command(flatten)]
        arguments: FlameArguments,
    }

    #[test]
    fn dimensions_are_typed_by_their_names() {
        let by = |words: &str| match Typed::try_parse_from(["flame", "x.dbt", "--by", words]) {
            Ok(typed) => Ok(typed.arguments.by),
            Err(e) => Err(e.to_string()),
        };
        assert_eq!(by("wait,query"), Ok(vec![Dimension::Wait, Dimension::Query]));
        let told = by("qeury").expect_err("there is no such dimension");
        assert!(told.contains("'query'") && told.contains("wait_class"), "{told}");
    }
}
