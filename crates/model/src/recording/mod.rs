//! A recording: a directory of Parquet segments, one folder per table, and `meta.json`.
//!
//! ```text
//! NAME.dbt/meta.json                    what was recorded, how, what was lost; names the last good segment
//! NAME.dbt/activity/000001.parquet      rows of one table of one segment
//! NAME.dbt/stacks/000001.parquet
//! ```
//!
//! A segment is written table by table under a temporary name, synced and renamed; `meta.json` comes last
//! and is what makes the segment part of the recording. Killing the writer at any instant therefore loses
//! the open segment and nothing else.

mod meta;
mod reader;
mod segment;
mod writer;

use std::path::{Path, PathBuf};

pub use meta::{
    CallInFlight, Clock, CollectorMeta, Cost, DatabaseMeta, HostMeta, ImportedFile, KernelTrace, Meta, Note,
    ProgramCost, Quality, SCHEMA_VERSION, Scheduling, Segments, SqlTrace, TraceGap, Unit, UnknownLine,
};
pub use reader::{Problem, Recording};
pub use writer::RecordingWriter;

/// Name of the file that makes a directory a recording.
pub const META_FILE: &str = "meta.json";

/// Why a recording could not be written or read. Every message names the path.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The output is there already; nothing is overwritten.
    #[error("{0} exists already: choose another name or remove it")]
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
}

impl RecordingError {
    fn io(path: &Path, error: std::io::Error) -> RecordingError {
        RecordingError::Io {
            path: path.to_path_buf(),
            error,
        }
    }

    fn format(path: &Path, what: impl ToString) -> RecordingError {
        RecordingError::Format {
            path: path.to_path_buf(),
            what: what.to_string(),
        }
    }
}

/// Path of one table in one segment. Segments count from 1.
fn segment_path(directory: &Path, table: &str, segment: u64) -> PathBuf {
    directory.join(table).join(format!("{segment:06}.parquet"))
}
