//! A recording: a directory of Parquet segments, one folder per table, and `meta.json`.
//!
//! ```text
//! NAME.dbt/meta.json                    what was recorded, how, what was lost; names the last good segment
//! NAME.dbt/activity/000001.parquet      rows of one table of one segment
//! NAME.dbt/stacks/000001.parquet
//! ```
//!
//! A segment is written table by table, each file synced before it gets its name; `meta.json` comes last
//! and is what makes the segment part of the recording. Killing the writer at any instant therefore loses
//! the open segment and nothing else. How files are made is in [`crate::output`].

mod compaction;
mod encoder;
mod files;
mod finished;
#[cfg(test)]
mod killed;
mod meta;
mod pages;
mod reader;
mod segment;
mod unfinished_import;
mod writer;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub use encoder::TableEncoder;
pub use files::{BytesRead, Files, TableFile};
pub use finished::{Compacted, compact};
pub use meta::{
    CallInFlight, Clock, CollectorMeta, Cost, CoveredPeriod, DatabaseMeta, Gap, HostMeta, ImportedFile,
    KernelTrace, LaterVersion, Merged, Meta, Note, ProgramCost, Quality, SCHEMA_VERSION, Scheduling,
    Segments, SqlTrace, TraceGap, Unit, UnknownLine,
};
pub use reader::{Problem, Recording};
pub use unfinished_import::remove_unfinished_import;
pub use writer::{RecordingWriter, TABLES};

use crate::output::Directory;

/// Bytes of the largest file of a table that is read.
pub const LARGEST_FILE: u64 = pages::LARGEST_FILE;

/// Name of the file that makes a directory a recording.
pub const META_FILE: &str = "meta.json";

/// Why a recording could not be written or read. Every message names the path.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The output already exists; nothing is overwritten.
    #[error("{0} already exists: choose another name or remove it")]
    Exists(PathBuf),
    /// The directory or one of its files cannot be created, written or read.
    #[error("{path}: {error}")]
    Io {
        /// What was touched.
        path: PathBuf,
        /// What the operating system said.
        error: std::io::Error,
    },
    /// Not a recording, or one of a version that this program cannot read.
    #[error("{path}: {what}")]
    Format {
        /// What was read.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// What `import` writes, before it is whole.
    #[error(
        "{0}: an import that has not ended; if its dbtime was killed, import again to the same name, or remove it"
    )]
    Importing(PathBuf),
    /// A recording that is not ours to change, now or at all.
    #[error("{path}: {why}")]
    NotOurs {
        /// Where it is.
        path: PathBuf,
        /// Why, and what to do.
        why: String,
    },
}

impl RecordingError {
    /// Whether the reason is a full disk, or a full quota.
    pub fn is_full_disk(&self) -> bool {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self, RecordingError::Io { error, .. } if matches!(error.kind(), StorageFull | QuotaExceeded))
    }

    /// What the operating system said about a file.
    pub fn io(path: &Path, error: std::io::Error) -> RecordingError {
        RecordingError::Io {
            path: path.to_path_buf(),
            error,
        }
    }

    /// What is wrong with a file.
    pub fn format(path: &Path, what: impl ToString) -> RecordingError {
        RecordingError::Format {
            path: path.to_path_buf(),
            what: what.to_string(),
        }
    }
}

/// Name of the file into which segments are merged, the last of which has this number.
fn merged_name(last: u64) -> OsString {
    format!("{last:06}.merged").into()
}

/// Numbers of the segments for which a table has a file, in order.
fn segments_in(table: &Directory) -> Vec<u64> {
    let mut numbers: Vec<u64> = table
        .names()
        .unwrap_or_default()
        .iter()
        .filter_map(|name| name.to_str()?.strip_suffix(".parquet")?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// Names of files of a table that are, or were to become, those of segments.
fn segment_files(table: &Directory) -> std::io::Result<Vec<OsString>> {
    let mut names = table.names()?;
    names.retain(|name| {
        let number = name
            .to_str()
            .and_then(|name| name.split('.').next()?.parse().ok());
        number.is_some_and(|number| *name == segment_name(number) || *name == merged_name(number))
    });
    Ok(names)
}

/// Name of the file of a table in one segment. Segments count from 1.
fn segment_name(segment: u64) -> OsString {
    format!("{segment:06}.parquet").into()
}
