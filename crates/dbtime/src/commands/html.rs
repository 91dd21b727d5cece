//! `dbtime html`: a page of a recording, of a dive, or of what changed between two recordings.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use dbtime_report::{Source, has_kernel_trace};

use super::diff::{compare, compare_dives};
use crate::exit_code::NOTHING_RECORDED;
use crate::import::Detail;
use crate::memory;
use crate::newest;
use crate::options::{ComparedOptions, FileOptions, Selection};
use crate::output::say;
use crate::page;
use crate::reading;
use crate::usage::Usage;

/// `dbtime html`
#[derive(Debug, Args)]
#[command(
    after_help = "Example: dbtime html slow.dbt -o slow.html, and mail slow.html to whoever asked.\n\n\
                  The page has the ledger, a time line, who was waited for, a flame graph, statements, sessions, \
                  functions and latencies; click any item to filter the page; its URL keeps the filter. \
                  'dbtime html good.dbt bad.dbt' shows what changed; for a dive, the page has the tree of all calls and \
                  the functions. It contains statement texts and user names: \
                  treat it like the recording."
)]
pub struct HtmlArguments {
    /// The recording [default: the newest in the current directory], or a file that 'dbtime import' understands; two of
    /// them, GOOD and BAD, to see what changed
    #[arg(value_name = "RECORDING", num_args = 0..=2)]
    recordings: Vec<PathBuf>,
    /// What such a file does not say
    #[command(flatten)]
    about: FileOptions,
    /// Which part of it; of two, --from and --to in seconds count from the start of each
    #[command(flatten)]
    selection: Selection,
    /// How two are compared
    #[command(flatten)]
    compared: ComparedOptions,
    /// File to write, - for standard output [default: next to the recording, slow.html for slow.dbt; for two,
    /// slow-against-fast.html]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Makes the page.
///
/// # Errors
/// A recording cannot be read, two cannot be compared, or the page cannot be written.
pub(super) fn run(arguments: &HtmlArguments) -> anyhow::Result<ExitCode> {
    memory::bound(arguments.about.max_memory);
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
        None => reading::sibling(&recording, "html")?,
    };
    let source = open(&recording)?;
    if has_kernel_trace(source.meta()) {
        arguments.selection.takes_kernel_trace()?;
    }
    if !page::write(&source, &arguments.selection.filter(&source)?, &output)? {
        say(format_args!("dbtime: {}: nothing to show", recording.display()));
        return Ok(ExitCode::from(NOTHING_RECORDED));
    }
    if arguments.output.is_none() {
        page::say_where(&output);
    }
    Ok(ExitCode::SUCCESS)
}

fn html_of_two(sides: [&Source; 2], arguments: &HtmlArguments, output: &Path) -> anyhow::Result<ExitCode> {
    // The page itself limits what it shows.
    match compare_dives(sides, &arguments.selection, &arguments.compared, usize::MAX)? {
        Some(answer) => page::write_dive_difference(answer, output)?,
        None => {
            let answer = compare(sides, &arguments.selection, &arguments.compared, usize::MAX)?;
            let Some(answer) = answer else {
                return Ok(ExitCode::from(NOTHING_RECORDED));
            };
            for warning in &answer.warnings {
                say(format_args!("warning: {warning}"));
            }
            page::write_difference(answer, output)?;
        }
    }
    if arguments.output.is_none() {
        page::say_where(output);
    }
    Ok(ExitCode::SUCCESS)
}
