//! `dbtime compact`: merges the many small files of a recording into a few large ones.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use dbtime_model::recording::{self, Compacted};

use crate::memory;
use crate::output::say;

/// `dbtime compact`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  dbtime compact killed.dbt")]
pub struct CompactArguments {
    /// The recording to compact: each of its tables becomes one file
    #[arg(value_name = "RECORDING")]
    recording: PathBuf,
}

/// Merges each table into one file.
///
/// # Errors
/// It is not a recording, is still being recorded, or cannot be written.
pub(super) fn run(arguments: &CompactArguments) -> anyhow::Result<ExitCode> {
    memory::bound(None);
    let path = arguments.recording.display();
    let Compacted { files, bytes } = recording::compact(&arguments.recording)?;
    let mb = |bytes: u64| bytes as f64 / 1e6;
    say(format_args!(
        "compacted {path}: now {} files of {:.1} MB, previously {} of {:.1} MB",
        files.1,
        mb(bytes.1),
        files.0,
        mb(bytes.0)
    ));
    Ok(ExitCode::SUCCESS)
}
