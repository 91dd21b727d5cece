//! `dbtime import`: a recording from files of other tools.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::exit_code::NOTHING_RECORDED;
use crate::import::{self, Outcome};
use crate::memory;
use crate::options::FileOptions;
use crate::output::say;

/// `dbtime import`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  dbtime import db_ora_7.trc -o slow.dbt\n  perf script | dbtime import - -o cpu.dbt"
)]
pub struct ImportArguments {
    /// Files in any supported format, plain, compressed (gzip, bzip2, xz, lzma, zstd) or in .zip archives: see docs/import.md
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// What they do not say
    #[command(flatten)]
    about: FileOptions,
    /// Directory to create for the recording
    #[arg(short, long, value_name = "NAME.dbt")]
    output: PathBuf,
}

/// Writes the recording, unless the files contain no time.
///
/// # Errors
/// No file can be imported, or the recording cannot be written.
pub(super) fn run(arguments: &ImportArguments) -> anyhow::Result<ExitCode> {
    memory::bound(arguments.about.max_memory);
    let Outcome { imported, has_time } =
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
