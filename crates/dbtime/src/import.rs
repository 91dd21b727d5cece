//! Files of other tools: as a recording on disk, or straight into a report.

use std::path::{Path, PathBuf};

use anyhow::Context;
use dbtime_import::{ImportError, Imported};
use dbtime_model::recording::RecordingWriter;
use dbtime_report::Source;

/// Writes a recording of `files`. Nothing is created when they cannot be imported or hold no time.
///
/// # Errors
/// A file cannot be imported, or the recording cannot be written.
pub fn import(files: &[PathBuf], output: &Path) -> anyhow::Result<Imported> {
    let imported = dbtime_import::import(files)?;
    if imported.rows.activity.is_empty() {
        return Ok(imported);
    }
    let mut writer = RecordingWriter::create(output, imported.meta.clone())?;
    writer.write(&imported.rows)?;
    writer.finish()?;
    Ok(imported)
}

/// Opens a recording by its directory, or imports files as one.
///
/// # Errors
/// They are neither.
pub fn open(paths: &[PathBuf]) -> anyhow::Result<Source> {
    if let [path] = paths
        && !path.is_file()
    {
        return Ok(Source::open(path)?);
    }
    let imported = dbtime_import::import(paths).context("not a recording")?;
    Ok(Source::memory(imported.meta, imported.rows))
}

/// True when there was a file, but nothing in it.
pub fn is_empty(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<ImportError>()
        .is_some_and(ImportError::is_empty)
}
