//! Why files could not be imported. Every message names the file.

use std::io;
use std::path::{Path, PathBuf};

/// Why an import gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file cannot be opened or read.
    #[error("{path}: {error}")]
    Io {
        /// What was read.
        path: PathBuf,
        /// What the operating system or the decompressor reported.
        error: io::Error,
    },
    /// There is not one byte in it, or none in the compressed stream.
    #[error("{0}: the file is empty")]
    Empty(PathBuf),
    /// The caller could not store the rows.
    #[error("cannot store the rows: {0}")]
    Output(io::Error),
    /// Its contents are of no format that dbtime knows.
    #[error("{path}: not a format that dbtime can import; it reads {known}")]
    UnknownFormat {
        /// What was read.
        path: PathBuf,
        /// The formats it could have been.
        known: String,
    },
    /// It has sums of what dbtime reads one by one.
    #[error("{path}: only a summary, without the {wanted}: {how}")]
    OnlySummary {
        /// What was read.
        path: PathBuf,
        /// What is missing.
        wanted: &'static str,
        /// How to get it.
        how: &'static str,
    },
    /// Its rows cannot be added to those of earlier files: other units, other clocks.
    #[error(
        "{0}: does not count what the files before it count, or uses another clock; import it on its own"
    )]
    Mixed(PathBuf),
}

impl ImportError {
    /// A file cannot be opened or read.
    pub fn io(path: &Path, error: io::Error) -> ImportError {
        ImportError::Io {
            path: path.to_path_buf(),
            error,
        }
    }

    /// True if the file was readable but held nothing.
    pub fn is_empty(&self) -> bool {
        matches!(self, ImportError::Empty(_))
    }
}
