//! What can go wrong with a store, and what to do about it.

use std::io;

use dbtime_model::recording::RecordingError;

use crate::layout::VERSION;

/// Why something could not be put, read or listed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// What was typed names no store, or no part of one.
    #[error("{0}")]
    Address(String),
    /// An object, or the store itself, cannot be read or written.
    #[error("{path}: {error}")]
    Io {
        /// Which one.
        path: String,
        /// What the operating system, or the object store, reported.
        error: io::Error,
    },
    /// An object was not written by dbtime.
    #[error("{path}: {what}")]
    Format {
        /// Which one.
        path: String,
        /// What is wrong with it.
        what: String,
    },
    /// An object was written by a dbtime with another layout.
    #[error("{path}: layout version {version}: this dbtime reads {VERSION}; use the dbtime that wrote it")]
    OtherLayout {
        /// Which one.
        path: String,
        /// Its version.
        version: String,
    },
    /// There is something else at this place.
    #[error(
        "{0}: not a dbtime store: it has no dbtime-store.json; name an empty directory, or one that does not exist yet"
    )]
    NotAStore(String),
    /// There is nothing at this place.
    #[error("{0}: no store there: 'dbtime store put RECORDING {0}' creates one")]
    NotThere(String),
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// Not all of the recording can be read.
    #[error(
        "{recording}: not all of it can be read, so it was not put: {}; put what can be read with --damaged",
        .problems.join("; ")
    )]
    Damaged {
        /// Which one.
        recording: String,
        /// What cannot be read.
        problems: Vec<String>,
    },
    /// It cannot be put.
    #[error("{recording}: {why}")]
    NotPut {
        /// Which one.
        recording: String,
        /// Why, and what to do.
        why: String,
    },
    /// A host that was asked for has nothing there.
    #[error("{store}: nothing from host '{host}'; the store has {}", or_nothing(.hosts))]
    NoSuchHost {
        /// Where.
        store: String,
        /// The host that was asked for.
        host: String,
        /// The hosts that the store has.
        hosts: Vec<String>,
    },
    /// Nothing was recorded in the part that was asked for.
    #[error("{store}: no recording matches; 'dbtime store list' shows what there is")]
    Nothing {
        /// Where.
        store: String,
    },
    /// Recordings that cannot be read as one.
    #[error("{store}: the {} selected recordings cannot be read as one: {why}", .recordings)]
    Apart {
        /// Where.
        store: String,
        /// How many.
        recordings: usize,
        /// Why, and what to do.
        why: String,
    },
}

impl StoreError {
    /// There is no such object.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, StoreError::Io { error, .. } if error.kind() == io::ErrorKind::NotFound)
    }

    /// The object was read, and is not what dbtime wrote: reading it again changes nothing.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            StoreError::Format { .. } => true,
            StoreError::Io { error, .. } => error.kind() == io::ErrorKind::InvalidData,
            _ => false,
        }
    }

    /// Whether access was denied.
    pub fn is_denied(&self) -> bool {
        matches!(self, StoreError::Io { error, .. } if error.kind() == io::ErrorKind::PermissionDenied)
    }

    pub(crate) fn io(path: impl Into<String>, error: io::Error) -> StoreError {
        StoreError::Io {
            path: path.into(),
            error,
        }
    }

    pub(crate) fn format(path: impl Into<String>, what: impl ToString) -> StoreError {
        StoreError::Format {
            path: path.into(),
            what: what.to_string(),
        }
    }
}

/// Most hosts that an error lists.
const MOST_NAMED: usize = 20;

fn or_nothing(hosts: &[String]) -> String {
    match hosts {
        [] => "nothing".to_string(),
        hosts if hosts.len() > MOST_NAMED => format!("{} …", hosts[..MOST_NAMED].join(", ")),
        hosts => hosts.join(", "),
    }
}
