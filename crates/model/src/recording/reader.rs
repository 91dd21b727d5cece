//! Reads a recording. What is damaged is named and counted; the rest is read.

use std::fs;
use std::path::{Path, PathBuf};

use super::{META_FILE, Meta, RecordingError, SCHEMA_VERSION, segment, segment_path};
use crate::Table;

/// Something of the recording that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem(pub String);

/// A recording on disk.
#[derive(Debug)]
pub struct Recording {
    directory: PathBuf,
    meta: Meta,
}

impl Recording {
    /// Opens a recording by its directory.
    ///
    /// # Errors
    /// No directory, no readable `meta.json`, or a schema version with another major number.
    pub fn open(directory: &Path) -> Result<Recording, RecordingError> {
        let path = directory.join(META_FILE);
        let text = match fs::read_to_string(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && directory.is_dir() => {
                return Err(RecordingError::format(
                    directory,
                    format!("not a recording of dbtime: it has no {META_FILE}"),
                ));
            }
            Err(e) => {
                return Err(RecordingError::io(
                    if directory.exists() { &path } else { directory },
                    e,
                ));
            }
            Ok(text) => text,
        };
        let version = serde_json::from_str::<serde_json::Value>(&text)
            .map_err(|e| RecordingError::format(&path, e))?
            .get("schema")
            .and_then(|v| v.as_str().map(str::to_string))
            .ok_or_else(|| RecordingError::format(&path, "not a recording of dbtime: no field 'schema'"))?;
        let major = |version: &str| version.split('.').next().map(str::to_string);
        if major(&version) != major(SCHEMA_VERSION) {
            return Err(RecordingError::format(
                &path,
                format!(
                    "schema version {version}: this dbtime reads {SCHEMA_VERSION}; use the dbtime that wrote it"
                ),
            ));
        }
        let meta = serde_json::from_str(&text).map_err(|e| RecordingError::format(&path, e))?;
        Ok(Recording {
            directory: directory.to_path_buf(),
            meta,
        })
    }

    /// What `meta.json` says.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Hands every row of a table to `take`, in the order of the segments, a batch at a time. Segments that
    /// cannot be read are returned as problems, and so is a difference between the rows that were written
    /// and those that were found.
    pub fn read<T: Table>(&self, mut take: impl FnMut(Vec<T>)) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut found = 0u64;
        for number in self.segments(T::NAME) {
            let path = segment_path(&self.directory, T::NAME, number);
            let read = segment::read::<T>(&path, &mut |rows| {
                found += rows.len() as u64;
                take(rows);
            });
            if let Err(e) = read {
                problems.push(Problem(e.to_string()));
            }
        }
        let written = self.meta.segments.rows.get(T::NAME).copied().unwrap_or(0);
        if found != written {
            problems.push(Problem(format!(
                "{}: {found} of {written} rows of the table {} could be read",
                self.directory.display(),
                T::NAME
            )));
        }
        problems
    }

    /// Numbers of the segments of a table that are part of the recording, in order.
    fn segments(&self, table: &str) -> Vec<u64> {
        let Ok(entries) = fs::read_dir(self.directory.join(table)) else {
            return Vec::new();
        };
        let mut numbers: Vec<u64> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".parquet")?.parse().ok())
            .filter(|&number| number <= self.meta.segments.last)
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }
}
