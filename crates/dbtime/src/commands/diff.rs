//! `dbtime diff`: what changed between two recordings.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use dbtime_report::diff_export::{self, Widths};
use dbtime_report::{
    Diff, DiffError, DiffOptions, DiveDiff, Filter, NextStep, Source, dive_diff, has_kernel_trace, json,
    next_steps_of_diff, next_steps_of_dive_diff, text,
};

use crate::exit_code::NOTHING_RECORDED;
use crate::import::Detail;
use crate::memory;
use crate::newest;
use crate::options::{ComparedOptions, FileOptions, Selection, TableFormat, above_zero};
use crate::output::{self, say};
use crate::reading;
use crate::usage::Usage;

/// `dbtime diff`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  dbtime diff\n  dbtime diff good.dbt slow.dbt\n  dbtime diff good.dbt slow.dbt -o diff.svg"
)]
pub struct DiffArguments {
    /// Recording of the good period, or a file that 'dbtime import' understands [default: the second newest in the
    /// current directory]
    #[arg(value_name = "GOOD")]
    good: Option<PathBuf>,
    /// The same for the bad period [default: the newest in the current directory]
    #[arg(value_name = "BAD")]
    bad: Option<PathBuf>,
    /// What files of other tools do not say
    #[command(flatten)]
    about: FileOptions,
    /// Which part of both; --from and --to in seconds count from the start of each
    #[command(flatten)]
    selection: Selection,
    /// How they are compared
    #[command(flatten)]
    compared: ComparedOptions,
    /// Changes of each kind to show
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = above_zero)]
    top: usize,
    /// Side that sets the widths of a flame graph: bad shows what BAD does more of, good what GOOD did and BAD no longer does
    #[arg(long, value_enum, value_name = "SIDE", default_value_t = WidthsOf::Bad)]
    widths: WidthsOf,
    /// File to write; its extension chooses the format (.txt, .json, .folded, .svg) [default: text on standard output]
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = "-",
        hide_default_value = true
    )]
    output: PathBuf,
    /// Output format on standard output
    #[arg(long, value_enum, conflicts_with = "output")]
    format: Option<TableFormat>,
}

/// Sides of a differential flame graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WidthsOf {
    /// BAD
    Bad,
    /// GOOD
    Good,
}

/// The output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DiffFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
    /// Folded stacks with both sides' times.
    Folded,
    /// A differential flame graph, with the widths of this side.
    Svg(Widths),
}

impl DiffFormat {
    /// As given, or by the extension of the output's name; text for standard output.
    ///
    /// # Errors
    /// No format has this extension; the message lists those there are.
    fn of(arguments: &DiffArguments) -> Result<DiffFormat, Usage> {
        match arguments.format {
            Some(TableFormat::Json) => return Ok(DiffFormat::Json),
            Some(TableFormat::Text) => return Ok(DiffFormat::Text),
            None => {}
        }
        let path = arguments.output.as_path();
        let ending = path.extension().and_then(|ending| ending.to_str());
        match ending.map(str::to_ascii_lowercase).as_deref() {
            None if path == Path::new("-") => Ok(DiffFormat::Text),
            Some("txt") => Ok(DiffFormat::Text),
            Some("json") => Ok(DiffFormat::Json),
            Some("folded") => Ok(DiffFormat::Folded),
            Some("svg") => Ok(DiffFormat::Svg(match arguments.widths {
                WidthsOf::Bad => Widths::Bad,
                WidthsOf::Good => Widths::Good,
            })),
            _ => Err(Usage(format!(
                "{}: no output format has this extension; choose one of .txt, .json, .folded, .svg",
                path.display()
            ))),
        }
    }
}

/// Shows what changed.
///
/// # Errors
/// One of them cannot be read, they cannot be compared, or the output cannot be written.
pub(super) fn run(arguments: &DiffArguments) -> anyhow::Result<ExitCode> {
    memory::bound(arguments.about.max_memory);
    let format = DiffFormat::of(arguments)?;
    let paths = newest::two_or_named(arguments.good.as_deref(), arguments.bad.as_deref())?;
    let [good, bad] = paths.each_ref().map(|path| {
        reading::open(
            std::slice::from_ref(path),
            &arguments.about,
            Detail::Seconds,
            &arguments.selection,
        )
    });
    let (good, bad) = (good?, bad?);
    let sides = [&good, &bad];
    // Users who have selected a part know what to ask.
    let is_all = arguments.selection.filter(&good)? == Filter::default();
    let names = paths.each_ref().map(|path| path.display().to_string());
    let next = |steps: &[NextStep]| match is_all {
        true => text::render_next_steps(steps, &names.each_ref().map(String::as_str), output::width()),
        false => String::new(),
    };
    if matches!(format, DiffFormat::Text | DiffFormat::Json)
        && let Some(answer) = compare_dives(sides, &arguments.selection, &arguments.compared, arguments.top)?
    {
        let answer = match format {
            DiffFormat::Json => json::render_dive_diff(&answer),
            _ => text::render_dive_diff(&answer, output::width()) + &next(&next_steps_of_dive_diff()),
        };
        output::text_to_file(&arguments.output, &answer)?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(answer) = compare(sides, &arguments.selection, &arguments.compared, arguments.top)? else {
        return Ok(ExitCode::from(NOTHING_RECORDED));
    };
    if format != DiffFormat::Text {
        for warning in &answer.warnings {
            say(format_args!("warning: {warning}"));
        }
    }
    let path = arguments.output.as_path();
    match format {
        DiffFormat::Text => {
            let render = match path == Path::new("-") && io::stdout().is_terminal() {
                true => text::render_diff_at_terminal,
                false => text::render_diff,
            };
            let text = render(&answer, output::width()) + &next(&next_steps_of_diff(&answer));
            output::text_to_file(path, &text)?;
        }
        DiffFormat::Json => output::text_to_file(path, &json::render_diff(&answer))?,
        DiffFormat::Folded => output::to_file(path, |out| diff_export::write_folded(&answer, out))?,
        DiffFormat::Svg(widths) => output::to_file(path, |out| diff_export::write_svg(&answer, widths, out))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What changed between two dives, call by call; none if a source is not a dive, or another unit of work is wanted.
///
/// # Errors
/// One of them has no such part, or no calls.
pub(super) fn compare_dives(
    sides: [&Source; 2],
    selection: &Selection,
    compared: &ComparedOptions,
    top: usize,
) -> anyhow::Result<Option<DiveDiff>> {
    if compared.per.is_some() || !sides.iter().all(|side| has_kernel_trace(side.meta())) {
        return Ok(None);
    }
    selection.takes_kernel_trace()?;
    let [good, bad] = sides.map(|side| selection.filter(side).map(|filter| (side, filter)));
    let ((good, of_good), (bad, of_bad)) = (good?, bad?);
    Ok(Some(dive_diff((good, &of_good), (bad, &of_bad), top)?))
}

/// What changed between two sources; none, with a message, if one of them has no DB time.
///
/// # Errors
/// They cannot be compared, or not by the options given.
pub(super) fn compare(
    sides: [&Source; 2],
    selection: &Selection,
    compared: &ComparedOptions,
    top: usize,
) -> anyhow::Result<Option<Diff>> {
    let options = DiffOptions {
        filters: [selection.filter(sides[0])?, selection.filter(sides[1])?],
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
