//! Files of other tools: as a recording on disk, or straight into a report.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use dbtime_import::{ImportError, Imported};
use dbtime_model::recording::RecordingWriter;
use dbtime_report::Source;

use crate::arguments::FileArguments;

/// Writes a recording of `files`. Nothing is created when they cannot be imported or hold no time.
///
/// # Errors
/// A file cannot be imported, or the recording cannot be written.
pub fn import(files: &[PathBuf], about: &FileArguments, output: &Path) -> anyhow::Result<Imported> {
    let imported = about.options()?.import(files)?;
    if imported.rows.activity.is_empty() {
        return Ok(imported);
    }
    let mut writer = RecordingWriter::create(output, imported.meta.clone())?;
    writer.write(&imported.rows)?;
    writer.finish()?;
    Ok(imported)
}

/// Opens a recording by its directory, or imports a file.
///
/// # Errors
/// It is neither.
pub fn open(path: &Path, about: &FileArguments) -> anyhow::Result<Source> {
    if path.is_dir() && about.is_some() {
        bail!(
            "{}: a recording; --interval, --event-names and --event are for the files of other tools: give them to \
             'dbtime import'",
            path.display()
        );
    }
    if path.is_dir() || !(path.exists() || path == Path::new("-")) {
        return Ok(Source::open(path)?);
    }
    let imported = about
        .options()?
        .import(&[path.to_path_buf()])
        .context("not a recording")?;
    Ok(Source::memory(imported.meta, imported.rows))
}

/// True when there was a file, but nothing in it.
pub fn is_empty(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<ImportError>()
        .is_some_and(ImportError::is_empty)
}
