//! Where the files of a recording are: in its directory, or wherever else parts of recordings are kept.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::{RecordingError, Segments, merged_name, pages, segment_name, segments_in};
use crate::Whose;
use crate::output::Directory;

/// A Parquet file with rows of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableFile {
    /// The table.
    pub table: &'static str,
    /// Its name where it is kept.
    pub name: OsString,
    /// Where it is, for messages.
    pub path: PathBuf,
    /// Sessions of different recordings may have the same identity: files with different numbers here have different sessions.
    /// None: they have the identity that is in the file.
    pub whose: Option<Arc<Whose>>,
}

/// How many bytes of files were read, and how many there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BytesRead {
    /// Read.
    pub read: u64,
    /// All there are.
    pub all: u64,
}

/// The files of which a recording is made. Their contents are not trusted: readers decode them within bounds.
pub trait Files: fmt::Debug + Send + Sync {
    /// Where they are, for messages.
    fn place(&self) -> &Path;

    /// Those of a table, in the order in which their rows are read.
    ///
    /// # Errors
    /// It cannot be found out.
    fn of_table(&self, table: &'static str) -> Result<Vec<TableFile>, RecordingError>;

    /// The contents of one of them.
    ///
    /// # Errors
    /// It cannot be read, or is larger than any that dbtime writes.
    fn read(&self, file: &TableFile) -> io::Result<Bytes>;

    /// What was read so far, where that is counted.
    fn bytes_read(&self) -> Option<BytesRead> {
        None
    }
}

/// The files in the directory of a recording.
#[derive(Debug)]
pub(super) struct InDirectory {
    pub(super) directory: Directory,
    pub(super) segments: Segments,
}

impl Files for InDirectory {
    fn place(&self) -> &Path {
        self.directory.path()
    }

    fn of_table(&self, table: &'static str) -> Result<Vec<TableFile>, RecordingError> {
        let directory = match self.directory.open_directory(table.as_ref()) {
            Ok(directory) => directory,
            // A table that the writer did not know.
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(RecordingError::io(&self.place().join(table), e)),
        };
        let segments = &self.segments;
        let mut files: BTreeMap<u64, OsString> = segments_in(&directory)
            .into_iter()
            .filter(|&number| number <= segments.last)
            .filter(|&number| {
                segments
                    .merged
                    .iter()
                    .all(|of| !of.contains(number) || number == of.last)
            })
            .map(|number| (number, segment_name(number)))
            .collect();
        for of in &segments.merged {
            let name = merged_name(of.last);
            // One that cannot be checked is reported when it is read.
            if directory.contains(&name).unwrap_or(true) {
                files.insert(of.last, name);
            }
        }
        let file = |name: OsString| TableFile {
            table,
            path: directory.path().join(&name),
            name,
            whose: None,
        };
        Ok(files.into_values().map(file).collect())
    }

    fn read(&self, file: &TableFile) -> io::Result<Bytes> {
        self.directory
            .open_directory(file.table.as_ref())?
            .open_file(&file.name)
            .and_then(pages::read)
    }
}
