//! Puts a recording into a store.
//!
//! Files first, then its row, the manifest last; then what it replaces is removed ([`crate::removal`]). If it is killed before the manifest
//! is written, nothing has been put; putting the same recording again makes the same objects.

use std::collections::{BTreeMap, HashSet};
use std::io::ErrorKind;

use bytes::Bytes;
use dbtime_model::recording::{LARGEST_FILE, Meta, Problem, Recording};
use dbtime_model::{
    ActivityRow, CauseRow, CommentRow, CounterRow, HeldLockRow, LatencyRow, LockRow, SessionRow, SpanRow,
    StackRow, StatementRow, SwitchRow,
};
use xxhash_rust::xxh3::xxh3_64;

use crate::catalog::Store;
use crate::error::StoreError;
use crate::identity::name_of;
use crate::layout::{Host, Hour, StateName};
use crate::manifest::{Manifest, StoredFile, rank};
use crate::shape::{Dimension, Fact};
use crate::sheaf::{DimensionFiles, Once, Sheaves, Target};

/// How a recording is put.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PutOptions {
    /// Name of the host in the store, instead of the one in the recording.
    pub host: Option<String>,
    /// Put what can be read of a damaged recording.
    pub damaged: bool,
}

/// What a put did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put {
    /// Name of the host in the store.
    pub host: String,
    /// Name of the recording in the store.
    pub recording: String,
    /// What became of it.
    pub outcome: Outcome,
    /// The recorder has ended.
    pub complete: bool,
    /// Files of the recording in the store.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Earlier states of the recording that were removed.
    pub replaced: usize,
    /// What could not be read of it.
    pub damaged: Vec<String>,
}

/// What became of a recording that was put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is in the store now.
    Stored,
    /// It was there already, complete and undamaged.
    WasThere,
    /// A later state of it was there already, and stays.
    LaterIsThere,
}

impl Store {
    /// Puts a recording. Other recordings are left as they are; an earlier state of this one is replaced.
    ///
    /// # Errors
    /// It cannot be read completely, or the store cannot be written: the store then has none of it, or what it had before.
    pub fn put(&self, recording: &Recording, what: &str, options: &PutOptions) -> Result<Put, StoreError> {
        let meta = recording.meta();
        let refused = |why: String| StoreError::NotPut {
            recording: what.to_string(),
            why,
        };
        let host = host_of(meta, options).map_err(refused)?;
        // Which state it is depends on what can be read of it.
        let damaged = match options.damaged {
            true => damages(recording),
            false => Vec::new(),
        };
        let name = name_of(meta, host, &damaged).map_err(refused)?;
        let there = self.states(&name.host, name.identity)?.readable;
        let own = rank(meta, damaged.len(), name.version);
        if let Some(later) = there.iter().find(|other| other.rank() > own) {
            return Ok(done(later, Outcome::LaterIsThere, 0));
        }
        if let Some(same) = there.iter().find(|other| other.rank() == own)
            && self.is_sound(same)?
        {
            let replaced = self.remove_before(same)?;
            return Ok(done(same, Outcome::WasThere, replaced));
        }
        let not_whole = |problems: Vec<String>| StoreError::Damaged {
            recording: what.to_string(),
            problems,
        };
        // Its files will be overwritten, which must not be done with less than they have.
        if there.iter().any(|other| other.name.version == name.version) && !options.damaged {
            let problems = damages(recording);
            if !problems.is_empty() {
                return Err(not_whole(problems));
            }
        }
        let mut target = Target {
            objects: self.objects(),
            name,
            files: Vec::new(),
        };
        let problems = in_words(put_tables(recording, &mut target)?);
        if problems != damaged {
            return Err(match options.damaged {
                true => {
                    refused("the readable part of it has changed in the meantime: put it again".to_string())
                }
                false => not_whole(problems),
            });
        }
        let Target { name, files, .. } = target;
        let (from_s, to_s) = bounds_s(meta, &files);
        let manifest = Manifest {
            name: StateName { from_s, to_s, ..name },
            meta: meta.clone(),
            damaged,
            files,
        };
        manifest.name.check().map_err(refused)?;
        let path = manifest.name.manifest();
        let text = manifest.to_json().map_err(refused)?;
        self.put_entry(&manifest)?;
        self.put_object(&path, text.into())?;
        let replaced = self.remove_before(&manifest)?;
        Ok(done(&manifest, Outcome::Stored, replaced))
    }

    /// Puts the row of a recording.
    pub(crate) fn put_entry(&self, manifest: &Manifest) -> Result<(), StoreError> {
        let path = manifest.entry_path();
        let entry = manifest.entry().map_err(|why| StoreError::format(&path, why))?;
        self.put_object(&path, entry)
    }

    fn put_object(&self, path: &str, bytes: Bytes) -> Result<(), StoreError> {
        self.objects()
            .put(path, bytes)
            .map_err(|e| StoreError::io(self.objects().where_is(path), e))
    }

    /// Whether all files of a recording, and its row, are there as they were put. In a remote store only lengths are compared: reading
    /// everything takes as long as putting it, and the service verifies its own checksums.
    fn is_sound(&self, manifest: &Manifest) -> Result<bool, StoreError> {
        let files = manifest.files.iter();
        let files = files.map(|file| (manifest.path_of(file), file.bytes, file.xxh3));
        let path = manifest.entry_path();
        let entry = manifest.entry().map_err(|why| StoreError::format(&path, why))?;
        for (path, length, xxh3) in files.chain([(path, entry.len() as u64, xxh3_64(&entry))]) {
            let is_sound = match self.objects().is_near() {
                true => match self.objects().get(&path, LARGEST_FILE) {
                    Ok(bytes) => Ok(bytes.len() as u64 == length && xxh3_64(&bytes) == xxh3),
                    Err(e) if [ErrorKind::NotFound, ErrorKind::InvalidData].contains(&e.kind()) => Ok(false),
                    Err(e) => Err(e),
                },
                false => self.objects().length(&path).map(|there| there == Some(length)),
            };
            if !is_sound.map_err(|e| StoreError::io(self.objects().where_is(&path), e))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn done(manifest: &Manifest, outcome: Outcome, replaced: usize) -> Put {
    Put {
        host: manifest.name.host.name().to_string(),
        recording: manifest.name.recording(),
        outcome,
        complete: manifest.meta.complete,
        files: manifest.files.len(),
        bytes: manifest.bytes(),
        replaced,
        damaged: manifest.damaged.clone(),
    }
}

/// The host that a recording is put under.
fn host_of(meta: &Meta, options: &PutOptions) -> Result<Host, String> {
    match &options.host {
        Some(host) => Host::new(host),
        None if meta.host.name.is_empty() => {
            Err("it does not say which host it is from: name it with --host".to_string())
        }
        None => Host::new(&meta.host.name),
    }
}

/// Whole seconds that enclose all rows: none is before the first, all are before the second.
fn bounds_s(meta: &Meta, files: &[StoredFile]) -> (i64, i64) {
    const SECOND_US: i64 = 1_000_000;
    let (mut first, mut last) = (meta.start_us, meta.end_us.max(meta.start_us));
    for (from, to) in files.iter().filter_map(|file| file.moments_us) {
        (first, last) = (first.min(from), last.max(to));
    }
    (first.div_euclid(SECOND_US), last.div_euclid(SECOND_US) + 1)
}

/// What cannot be read of a recording; reads all of it to find out.
fn damages(recording: &Recording) -> Vec<String> {
    let mut problems = recording.read::<ActivityRow>(drop);
    problems.extend(recording.read::<LatencyRow>(drop));
    problems.extend(recording.read::<CounterRow>(drop));
    problems.extend(recording.read::<SpanRow>(drop));
    problems.extend(recording.read::<SwitchRow>(drop));
    problems.extend(recording.read::<CauseRow>(drop));
    problems.extend(recording.read::<HeldLockRow>(drop));
    problems.extend(recording.read::<LockRow>(drop));
    problems.extend(recording.read::<SessionRow>(drop));
    problems.extend(recording.read::<StatementRow>(drop));
    problems.extend(recording.read::<CommentRow>(drop));
    problems.extend(recording.read::<StackRow>(drop));
    in_words(problems)
}

fn in_words(problems: Vec<Problem>) -> Vec<String> {
    problems.into_iter().map(|problem| problem.0).collect()
}

fn put_tables(recording: &Recording, target: &mut Target<'_>) -> Result<Vec<Problem>, StoreError> {
    let mut problems = put_facts::<ActivityRow>(recording, target)?;
    problems.extend(put_facts::<LatencyRow>(recording, target)?);
    problems.extend(put_facts::<CounterRow>(recording, target)?);
    problems.extend(put_facts::<SpanRow>(recording, target)?);
    problems.extend(put_facts::<SwitchRow>(recording, target)?);
    problems.extend(put_facts::<CauseRow>(recording, target)?);
    problems.extend(put_facts::<HeldLockRow>(recording, target)?);
    problems.extend(put_facts::<LockRow>(recording, target)?);
    problems.extend(put_known::<SessionRow>(recording, target)?);
    problems.extend(put_known::<StatementRow>(recording, target)?);
    problems.extend(put_known::<CommentRow>(recording, target)?);
    problems.extend(put_stacks(recording, target)?);
    Ok(problems)
}

fn put_facts<T: Fact>(recording: &Recording, target: &mut Target<'_>) -> Result<Vec<Problem>, StoreError> {
    let mut sheaves = Sheaves::<T>::new(target);
    let mut added = Ok(());
    let problems = recording.read(|rows: Vec<T>| {
        for row in rows {
            if added.is_ok() {
                added = sheaves.add(row);
            }
        }
    });
    added?;
    sheaves.finish()?;
    Ok(problems)
}

/// Puts a dimension. The last row of an id that says something counts, so all rows are kept until everything is read.
fn put_known<T: Dimension>(
    recording: &Recording,
    target: &mut Target<'_>,
) -> Result<Vec<Problem>, StoreError> {
    let mut once = Once(BTreeMap::new());
    let problems = recording.read(|rows: Vec<T>| rows.into_iter().for_each(|row| once.add(row)));
    let date = first_day(recording, target)?;
    let mut files = DimensionFiles::new(target, date);
    for row in once.0.into_values() {
        files.add(row)?;
    }
    files.finish()?;
    Ok(problems)
}

/// Puts stacks, of which there may be millions: only their ids are kept, because rows with the same id are equal.
fn put_stacks(recording: &Recording, target: &mut Target<'_>) -> Result<Vec<Problem>, StoreError> {
    let date = first_day(recording, target)?;
    let mut met = HashSet::new();
    let mut files = DimensionFiles::<StackRow>::new(target, date);
    let mut added = Ok(());
    let problems = recording.read(|rows: Vec<StackRow>| {
        for row in rows {
            if added.is_ok() && met.insert(row.id) {
                added = files.add(row);
            }
        }
    });
    added?;
    files.finish()?;
    Ok(problems)
}

/// The day on which a recording began.
fn first_day(recording: &Recording, target: &Target<'_>) -> Result<jiff::civil::Date, StoreError> {
    let hour = Hour::of(recording.meta().start_us);
    let failed = |why| StoreError::NotPut {
        recording: target.name.recording(),
        why,
    };
    Ok(hour.map_err(failed)?.date)
}
