//! How an error is shown, with what to do about it if that is known.

use std::io::ErrorKind;
use std::path::Path;

use dbtime_import::ImportError;
use dbtime_model::choice::did_you_mean;
use dbtime_model::recording::RecordingError;
use dbtime_report::shell_word;
use dbtime_store::StoreError;
use rustix::fs::{Access, access};

/// Most names in a directory that are searched for one that may have been meant.
const MOST_NAMES: usize = 10_000;

/// The error with its causes; for a recording that only its owner may read, what to do; for a file that does not exist, which one may have
/// been meant.
pub fn told(error: &anyhow::Error) -> String {
    match error.chain().find_map(failed) {
        Some((path, ErrorKind::PermissionDenied)) => denied(path, error),
        Some((path, ErrorKind::NotFound)) => missing(path),
        _ => None,
    }
    .unwrap_or_else(|| format!("{error:#}"))
}

/// The path that the operating system refused, and why.
fn failed<'a>(cause: &'a (dyn std::error::Error + 'static)) -> Option<(&'a Path, ErrorKind)> {
    if let Some(RecordingError::Io { path, error }) = cause.downcast_ref() {
        return Some((path, error.kind()));
    }
    if let Some(ImportError::Io { path, error }) = cause.downcast_ref() {
        return Some((path, error.kind()));
    }
    match cause.downcast_ref() {
        Some(StoreError::Io { path, error }) => Some((Path::new(path), error.kind())),
        _ => None,
    }
}

/// The message for a directory that may not be entered, or for a file in a recording.
fn denied(path: &Path, error: &anyhow::Error) -> Option<String> {
    let is_called_so = |path: &Path| path.extension().is_some_and(|extension| extension == "dbt");
    let is_closed = |path: &Path| path.is_dir() && access(path, Access::READ_OK | Access::EXEC_OK).is_err();
    let recording = path
        .ancestors()
        .take(2)
        .find(|path| is_called_so(path) && is_closed(path));
    let Some(recording) = recording else {
        // It may be anybody's directory, so do not advise to take it over.
        return is_closed(path)
            .then(|| format!("{error:#}: only its owner can read a recording; read it with sudo"));
    };
    let name = recording.display().to_string();
    Some(format!(
        "{name}: permission denied: only its owner can read a recording; read it with sudo, or make it yours with 'sudo chown -R \
         $USER {}'",
        shell_word(&name)
    ))
}

/// The message for a file that does not exist, if there is one with a similar name.
fn missing(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    // A file missing inside a recording is not a mistyped name.
    if path.exists() || directory.join("meta.json").exists() {
        return None;
    }
    let entries = directory.read_dir().ok()?.take(MOST_NAMES).flatten();
    let names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    Some(format!(
        "{}: no such file or directory{}",
        path.display(),
        did_you_mean(&name, &names)
    ))
}
