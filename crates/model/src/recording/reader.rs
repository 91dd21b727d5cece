//! Reads a recording. What is damaged is named and counted; the rest is read.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read;
use std::path::Path;
use std::sync::mpsc::sync_channel;

use serde_json::Value;

use super::segment::Columns;
use super::{
    META_FILE, Meta, RecordingError, SCHEMA_VERSION, merged_name, segment, segment_name, segments_in,
};
use crate::Table;
use crate::output::Directory;

/// Something of the recording that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem(pub String);

/// Bytes of `meta.json`: what dbtime writes is a thousandth of it.
const LONGEST_META: u64 = 64 << 20;
/// Characters of a text in `meta.json`: the longest that dbtime writes is a line of a file, a few hundred.
const LONGEST_TEXT: usize = 4_096;

/// Cuts texts that are longer than any that dbtime writes.
fn shorten(json: &mut Value) {
    match json {
        Value::String(text) => {
            if let Some((end, _)) = text.char_indices().nth(LONGEST_TEXT) {
                text.truncate(end);
                text.push('…');
            }
        }
        Value::Array(values) => values.iter_mut().for_each(shorten),
        Value::Object(fields) => fields.values_mut().for_each(shorten),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Segments are decoded side by side by so many threads at most: each may need memory for the largest there are.
const MOST_THREADS: usize = 4;
/// Files for which it is worth to start threads.
const MANY_FILES: usize = 16;
/// Parts of a file that wait to be taken.
const WAITING: usize = 2;

/// Reads files of a table, as many at a time as there are CPUs, and hands on their rows in the order of the files. Returns what
/// could not be read.
fn read_in_order<T: Table>(
    table: &Directory,
    files: &[OsString],
    take: &mut dyn FnMut(Vec<T>),
) -> Vec<RecordingError> {
    let columns = Columns::<T>::new().expect("every table has columns");
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = match files.len() {
        0..MANY_FILES => 1,
        _ => cpus.min(MOST_THREADS),
    };
    if threads == 1 {
        let read = |name| segment::read(table, &columns, name, take).err();
        return files.iter().map(OsString::as_os_str).filter_map(read).collect();
    }
    enum Part<T> {
        Rows(Vec<T>),
        End(Result<(), RecordingError>),
    }
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..threads)
            .map(|first| {
                let (to, from) = sync_channel(WAITING);
                let columns = &columns;
                scope.spawn(move || {
                    for name in files.iter().skip(first).step_by(threads) {
                        // Whoever took the rows is there as long as this thread.
                        let end = segment::read(table, columns, name, &mut |rows| {
                            let _ = to.send(Part::Rows(rows));
                        });
                        let _ = to.send(Part::End(end));
                    }
                });
                from
            })
            .collect();
        let mut failed = Vec::new();
        for from in readers.iter().cycle().take(files.len()) {
            loop {
                match from.recv() {
                    Ok(Part::Rows(rows)) => take(rows),
                    Ok(Part::End(end)) => {
                        failed.extend(end.err());
                        break;
                    }
                    // The thread has panicked, and so will this one at the end of the scope.
                    Err(_) => return failed,
                }
            }
        }
        failed
    })
}

/// A recording on disk.
#[derive(Debug)]
pub struct Recording {
    directory: Directory,
    meta: Meta,
}

impl Recording {
    /// Opens a recording by its directory.
    ///
    /// # Errors
    /// No directory, no readable `meta.json`, or a schema version with another major number.
    pub fn open(directory: &Path) -> Result<Recording, RecordingError> {
        let directory = Directory::open_to_read(directory).map_err(|e| RecordingError::io(directory, e))?;
        Recording::inside(directory)
    }

    /// The recording that an open directory is.
    ///
    /// # Errors
    /// As [`Recording::open`].
    pub fn inside(directory: Directory) -> Result<Recording, RecordingError> {
        let path = directory.path().join(META_FILE);
        let mut text = String::new();
        match directory
            .open_file(META_FILE.as_ref())
            .and_then(|file| file.take(LONGEST_META + 1).read_to_string(&mut text))
        {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Err(RecordingError::format(
                    directory.path(),
                    format!("not a recording of dbtime: it has no {META_FILE}"),
                ));
            }
            other => other.map_err(|e| RecordingError::io(&path, e))?,
        };
        if text.len() as u64 > LONGEST_META {
            return Err(RecordingError::format(
                &path,
                format!("longer than {} MB: no recording of dbtime", LONGEST_META >> 20),
            ));
        }
        let mut json: Value = serde_json::from_str(&text).map_err(|e| RecordingError::format(&path, e))?;
        drop(text);
        shorten(&mut json);
        let version = json
            .get("schema")
            .and_then(Value::as_str)
            .ok_or_else(|| RecordingError::format(&path, "not a recording of dbtime: no field 'schema'"))?;
        let major = |version: &str| version.split('.').next().map(str::to_string);
        if major(version) != major(SCHEMA_VERSION) {
            return Err(RecordingError::format(
                &path,
                format!(
                    "schema version {version}: this dbtime reads {SCHEMA_VERSION}; use the dbtime that wrote it"
                ),
            ));
        }
        let meta: Meta = serde_json::from_value(json).map_err(|e| RecordingError::format(&path, e))?;
        if meta.importing {
            return Err(RecordingError::Importing(directory.path().to_path_buf()));
        }
        Ok(Recording { directory, meta })
    }

    /// What `meta.json` says.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Hands every row of a table to `take`, in the order of the segments, a batch at a time. Segments that
    /// cannot be read are returned as problems, and so is a difference between the rows that were written
    /// and those that were found.
    pub fn read<T: Table>(&self, mut take: impl FnMut(Vec<T>)) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut found = 0u64;
        let table = match self.directory.open_directory(T::NAME.as_ref()) {
            Ok(table) => Some(table),
            // A table that was not known to the writer.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            Err(e) => {
                let path = self.directory().join(T::NAME);
                problems.push(Problem(RecordingError::io(&path, e).to_string()));
                None
            }
        };
        if let Some(table) = &table {
            let mut take = |rows: Vec<T>| {
                found += rows.len() as u64;
                take(rows);
            };
            let failed = read_in_order(table, &self.files(table), &mut take);
            problems.extend(failed.into_iter().map(|e| Problem(e.to_string())));
        }
        let written = self.meta.segments.rows.get(T::NAME).copied().unwrap_or(0);
        if found != written {
            problems.push(Problem(format!(
                "{}: {found} of {written} rows of the table {} could be read",
                self.directory().display(),
                T::NAME
            )));
        }
        problems
    }

    /// The files of a table that are part of the recording, in the order of their segments.
    fn files(&self, table: &Directory) -> Vec<OsString> {
        let segments = &self.meta.segments;
        let mut files: BTreeMap<u64, OsString> = segments_in(table)
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
            // One that cannot be looked at is named when it is read.
            if table.contains(&name).unwrap_or(true) {
                files.insert(of.last, name);
            }
        }
        files.into_values().collect()
    }
}
