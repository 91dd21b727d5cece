//! Reads a recording. What is damaged is reported and counted; the rest is read.

use std::io::Read;
use std::path::Path;
use std::sync::mpsc::sync_channel;

use serde_json::Value;

use super::files::InDirectory;
use super::segment::Columns;
use super::{BytesRead, Files, META_FILE, Meta, RecordingError, SCHEMA_VERSION, TableFile, segment};
use crate::Table;
use crate::output::Directory;

/// A part of the recording that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem(pub String);

/// Most bytes of `meta.json`: dbtime writes a thousandth of that.
const LONGEST_META: u64 = 64 << 20;
/// Most characters of a text in `meta.json`: the longest that dbtime writes is a line of a file, a few hundred.
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

/// At most so many threads decode segments in parallel: each may need memory for the largest there are.
const MOST_THREADS: usize = 4;
/// From so many files on, threads are worth starting.
const MANY_FILES: usize = 16;
/// Parts of a file that may wait to be taken.
const WAITING: usize = 2;

/// Reads files of a table, several in parallel if there are many, and hands on their rows in the order of the files. Returns
/// what could not be read.
fn read_in_order<T: Table>(
    from: &dyn Files,
    files: &[TableFile],
    take: &mut dyn FnMut(Vec<T>),
) -> Vec<RecordingError> {
    let columns = Columns::<T>::new().expect("every table has columns");
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = match files.len() {
        0..MANY_FILES => 1,
        _ => cpus.min(MOST_THREADS),
    };
    if threads == 1 {
        let read = |file| read_file(from, &columns, file, take).err();
        return files.iter().filter_map(read).collect();
    }
    enum Part<T> {
        Rows(Vec<T>),
        End(Result<(), RecordingError>),
    }
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..threads)
            .map(|first| {
                let (to, receiver) = sync_channel(WAITING);
                let columns = &columns;
                scope.spawn(move || {
                    for file in files.iter().skip(first).step_by(threads) {
                        // The receiver is there as long as this thread.
                        let end = read_file(from, columns, file, &mut |rows| {
                            let _ = to.send(Part::Rows(rows));
                        });
                        let _ = to.send(Part::End(end));
                    }
                });
                receiver
            })
            .collect();
        let mut failed = Vec::new();
        for receiver in readers.iter().cycle().take(files.len()) {
            loop {
                match receiver.recv() {
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

/// Hands on the rows of a file; sessions get identities that no other recording's file has.
fn read_file<T: Table>(
    from: &dyn Files,
    columns: &Columns<T>,
    file: &TableFile,
    take: &mut dyn FnMut(Vec<T>),
) -> Result<(), RecordingError> {
    let bytes = from.read(file).map_err(|e| RecordingError::io(&file.path, e))?;
    match &file.whose {
        None => segment::read(&file.path, bytes, columns, take),
        Some(whose) => segment::read(&file.path, bytes, columns, &mut |mut rows| {
            rows.iter_mut().for_each(|row| row.come_from(whose));
            take(rows);
        }),
    }
}

/// A recording as it is read: the one in a directory, or parts of some that are kept elsewhere.
#[derive(Debug)]
pub struct Recording {
    files: Box<dyn Files>,
    meta: Meta,
}

impl Meta {
    /// What the JSON of a `meta.json` that can be read says; `path` is where it is from.
    ///
    /// # Errors
    /// It is not that of a recording, or of a schema version with another major number.
    pub fn of_json(path: &Path, mut json: Value) -> Result<Meta, RecordingError> {
        shorten(&mut json);
        let version = json
            .get("schema")
            .and_then(Value::as_str)
            .ok_or_else(|| RecordingError::format(path, "not a recording of dbtime: no field 'schema'"))?;
        let major = |version: &str| version.split('.').next().map(str::to_string);
        if major(version) != major(SCHEMA_VERSION) {
            return Err(RecordingError::format(
                path,
                format!(
                    "schema version {version}: this dbtime reads {SCHEMA_VERSION}; use the dbtime that wrote it"
                ),
            ));
        }
        serde_json::from_value(json).map_err(|e| RecordingError::format(path, e))
    }
}

impl Recording {
    /// Opens a recording by its directory.
    ///
    /// # Errors
    /// No directory, no readable `meta.json`, a schema version with another major number, or an import that has not ended.
    pub fn open(directory: &Path) -> Result<Recording, RecordingError> {
        let directory = Directory::open_to_read(directory).map_err(|e| RecordingError::io(directory, e))?;
        Recording::inside(directory)
    }

    /// Opens the recording in an open directory.
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
                format!("longer than {} MB: not a recording of dbtime", LONGEST_META >> 20),
            ));
        }
        let json: Value = serde_json::from_str(&text).map_err(|e| RecordingError::format(&path, e))?;
        drop(text);
        let meta = Meta::of_json(&path, json)?;
        if meta.importing {
            return Err(RecordingError::Importing(directory.path().to_path_buf()));
        }
        let segments = meta.segments.clone();
        let files = InDirectory { directory, segments };
        Ok(Recording::of(meta, Box::new(files)))
    }

    /// A recording of these files. `segments.rows` of `meta` says how many rows of each table there are in them.
    pub fn of(meta: Meta, files: Box<dyn Files>) -> Recording {
        Recording { files, meta }
    }

    /// What `meta.json` says.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// How much of its files was read so far, where that is counted.
    pub fn bytes_read(&self) -> Option<BytesRead> {
        self.files.bytes_read()
    }

    /// Hands every row of a table to `take`, in the order of the segments, a batch at a time. Segments that
    /// cannot be read are returned as problems, and so is a difference between the rows that were written
    /// and those that were found.
    pub fn read<T: Table>(&self, mut take: impl FnMut(Vec<T>)) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut found = 0u64;
        match self.files.of_table(T::NAME) {
            Ok(files) => {
                let mut take = |rows: Vec<T>| {
                    found += rows.len() as u64;
                    take(rows);
                };
                let failed = read_in_order(&*self.files, &files, &mut take);
                problems.extend(failed.into_iter().map(|e| Problem(e.to_string())));
            }
            Err(e) => problems.push(Problem(e.to_string())),
        }
        let written = self.meta.segments.rows.get(T::NAME).copied().unwrap_or(0);
        if found != written {
            problems.push(Problem(format!(
                "{}: {found} of {written} rows of the table {} could be read",
                self.files.place().display(),
                T::NAME
            )));
        }
        problems
    }
}
