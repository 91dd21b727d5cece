//! A part of a store as a recording: the files that can have rows of it, read when their table is asked for.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use dbtime_model::Whose;
use dbtime_model::recording::{BytesRead, Files, LARGEST_FILE, Recording, RecordingError, TableFile};
use xxhash_rust::xxh3::xxh3_64;

use crate::address::Choice;
use crate::catalog::Store;
use crate::combined::combined;
use crate::copies::Copies;
use crate::error::StoreError;
use crate::flights::set_aside;
use crate::manifest::{Manifest, StoredFile};
use crate::objects::Objects;

/// Files of the selected recordings.
#[derive(Debug)]
struct Selected {
    objects: Box<dyn Objects>,
    place: PathBuf,
    /// Those that can have rows of the period, by table, then by time.
    files: Vec<TableFile>,
    by_name: HashMap<OsString, Expected>,
    read: Arc<ReadSoFar>,
    /// Copies of files read before; none: reading them again costs nothing.
    copies: Option<Copies>,
}

/// How much of the selected recordings was read.
#[derive(Debug)]
pub struct ReadSoFar {
    read: AtomicU64,
    /// Bytes of all their files.
    all: u64,
}

impl ReadSoFar {
    /// So far.
    pub fn bytes(&self) -> BytesRead {
        BytesRead {
            read: self.read.load(Ordering::Relaxed),
            all: self.all,
        }
    }
}

/// What the manifest says of a file.
#[derive(Debug)]
struct Expected {
    bytes: u64,
    xxh3: u64,
    /// It was read before: a file counts once.
    is_counted: AtomicBool,
}

impl Store {
    /// The selected part, as a recording. What is read from a remote store is copied to `copies`, a folder that nobody else uses.
    ///
    /// # Errors
    /// Nothing was recorded of that part, its recordings cannot be read as one, or a manifest cannot be read.
    pub fn select(
        self,
        choice: &Choice,
        copies: Option<&Path>,
    ) -> Result<(Recording, Arc<ReadSoFar>), StoreError> {
        let (manifests, flights) = set_aside(self.recordings(choice)?, choice);
        if manifests.is_empty() {
            return Err(StoreError::Nothing {
                store: self.address().to_string(),
            });
        }
        let mut meta = combined(&manifests, choice).map_err(|why| StoreError::Apart {
            store: self.address().to_string(),
            recordings: manifests.len(),
            why,
        })?;
        meta.notes.extend(flights);
        meta.notes.sort_by_key(|note| note.time_us);
        let are_several = manifests.len() > 1;
        let mut chosen: Vec<(&StoredFile, &Manifest)> = Vec::new();
        for manifest in &manifests {
            let (from_us, to_us) = manifest
                .meta
                .collector
                .whole_windows(choice.from_us, choice.to_us);
            let is_needed = |file: &&StoredFile| file.may_have(from_us, to_us);
            chosen.extend(
                manifest
                    .files
                    .iter()
                    .filter(is_needed)
                    .map(|file| (file, manifest)),
            );
        }
        // Files without moments are ordered by part.
        chosen.sort_by_key(|(file, _)| (file.table, file.date, file.hour, file.part));
        meta.segments.last = 0;
        meta.segments.merged = Vec::new();
        meta.segments.rows = Manifest::rows_by_table(chosen.iter().map(|(file, _)| *file));
        let mut by_name = HashMap::new();
        let mut whose: HashMap<u64, Arc<Whose>> = HashMap::new();
        let files = chosen.iter().map(|(file, manifest)| {
            let path = manifest.path_of(file);
            let expected = Expected {
                bytes: file.bytes,
                xxh3: file.xxh3,
                is_counted: AtomicBool::new(false),
            };
            by_name.insert(OsString::from(&path), expected);
            TableFile {
                table: file.table,
                path: self.objects().where_is(&path).into(),
                name: path.into(),
                whose: are_several.then(|| {
                    let number = manifest.name.identity;
                    let of_files = whose.entry(number).or_insert_with(|| Arc::new(manifest.whose()));
                    Arc::clone(of_files)
                }),
            }
        });
        let files = files.collect();
        let read = Arc::new(ReadSoFar {
            read: AtomicU64::new(0),
            all: manifests.iter().map(Manifest::bytes).fold(0, u64::saturating_add),
        });
        let selected = Selected {
            place: self.address().into(),
            files,
            by_name,
            read: Arc::clone(&read),
            copies: copies.map(Copies::inside),
            objects: self.into_objects(),
        };
        Ok((Recording::of(meta, Box::new(selected)), read))
    }
}

impl Files for Selected {
    fn place(&self) -> &Path {
        &self.place
    }

    fn of_table(&self, table: &'static str) -> Result<Vec<TableFile>, RecordingError> {
        let files = self.files.iter().filter(|file| file.table == table);
        Ok(files.cloned().collect())
    }

    fn read(&self, file: &TableFile) -> io::Result<Bytes> {
        if let Some(bytes) = self.copies.as_ref().and_then(|copies| copies.get(&file.name)) {
            return Ok(bytes);
        }
        let expected = self.by_name.get(&file.name);
        let (Some(expected), Some(path)) = (expected, file.name.to_str()) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let bytes = match self.objects.get(path, LARGEST_FILE) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Err(io::Error::new(
                    e.kind(),
                    "missing: it was removed, or a later state of its recording was put in the meantime (then run this again)",
                ));
            }
            other => other?,
        };
        if !expected.is_counted.swap(true, Ordering::Relaxed) {
            self.read.read.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        if bytes.len() as u64 != expected.bytes || xxh3_64(&bytes) != expected.xxh3 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "damaged since it was put: put its recording again",
            ));
        }
        if let Some(copies) = &self.copies {
            copies.keep(&file.name, &bytes);
        }
        Ok(bytes)
    }

    fn bytes_read(&self) -> Option<BytesRead> {
        Some(self.read.bytes())
    }
}
