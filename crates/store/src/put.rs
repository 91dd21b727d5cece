//! Puts a recording into a store.
//!
//! Files first, the manifest last, then what it replaces is removed. Whoever is killed in between has put nothing; the same once more
//! makes the same objects.

use std::collections::{BTreeMap, HashSet};

use dbtime_model::recording::{Meta, Problem, Recording};
use dbtime_model::{
    ActivityRow, CauseRow, CounterRow, HeldLockRow, LatencyRow, SessionRow, SpanRow, StackRow, StatementRow,
    SwitchRow,
};
use xxhash_rust::xxh3::xxh3_64;

use crate::catalog::Store;
use crate::error::StoreError;
use crate::layout::{Host, Hour, StateName, VERSION};
use crate::manifest::{Manifest, StoredFile, rank};
use crate::shape::{Dimension, Fact};
use crate::sheaf::{DimensionFiles, Once, Sheaves, Target};

/// How a recording is put.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PutOptions {
    /// Name of the host in the store, in place of the one that the recording says.
    pub host: Option<String>,
    /// Put what can be read of a damaged recording.
    pub damaged: bool,
}

/// What was done.
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
    /// It was there, whole.
    WasThere,
    /// A later state of it was there: that stays.
    LaterIsThere,
}

impl Store {
    /// Puts a recording. What is there of other recordings stays as it is; an earlier state of this one is replaced.
    ///
    /// # Errors
    /// It cannot be read whole, or the store cannot be written: nothing of it is in the store then, or what was there before.
    pub fn put(&self, recording: &Recording, what: &str, options: &PutOptions) -> Result<Put, StoreError> {
        let meta = recording.meta();
        let refused = |why: String| StoreError::NotPut {
            recording: what.to_string(),
            why,
        };
        let name = name_of(meta, options).map_err(refused)?;
        let there = self.states(&name.host, name.identity)?;
        let own = rank(meta, !options.damaged, name.version);
        if let Some(later) = there.iter().find(|other| other.rank() > own) {
            return Ok(done(later, Outcome::LaterIsThere, 0));
        }
        if let Some(same) = there.iter().find(|other| other.rank() == own)
            && self.is_whole(same)?
        {
            let replaced = self.remove_before(same, &there)?;
            return Ok(done(same, Outcome::WasThere, replaced));
        }
        let mut target = Target {
            objects: self.objects(),
            name,
            files: Vec::new(),
        };
        let problems = put_tables(recording, &mut target)?;
        let damaged: Vec<String> = problems.into_iter().map(|problem| problem.0).collect();
        if !damaged.is_empty() && !options.damaged {
            return Err(StoreError::Damaged {
                recording: what.to_string(),
                problems: damaged,
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
        self.objects()
            .put(&path, text.into())
            .map_err(|e| StoreError::io(self.objects().where_is(&path), e))?;
        let replaced = self.remove_before(&manifest, &there)?;
        Ok(done(&manifest, Outcome::Stored, replaced))
    }

    /// Whether all files of a recording are there, with the lengths that they should have.
    fn is_whole(&self, manifest: &Manifest) -> Result<bool, StoreError> {
        for file in &manifest.files {
            let path = manifest.path_of(file);
            let length = self
                .objects()
                .length(&path)
                .map_err(|e| StoreError::io(self.objects().where_is(&path), e))?;
            if length != Some(file.bytes) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Removes earlier states: their manifests last, so that whoever is killed leaves what the next one finds.
    fn remove_before(&self, kept: &Manifest, there: &[Manifest]) -> Result<usize, StoreError> {
        let is_earlier = |other: &&Manifest| other.rank() < kept.rank() && other.name != kept.name;
        let mut removed = 0;
        for earlier in there.iter().filter(is_earlier) {
            let files = earlier.files.iter().map(|file| earlier.path_of(file));
            for path in files.chain([earlier.name.manifest()]) {
                self.objects()
                    .remove(&path)
                    .map_err(|e| StoreError::io(self.objects().where_is(&path), e))?;
            }
            removed += 1;
        }
        Ok(removed)
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

/// The name of a recording as it is now. What a recorder says first of a recording tells which one it is; all of what it says, which
/// state of it.
fn name_of(meta: &Meta, options: &PutOptions) -> Result<StateName, String> {
    let host = match &options.host {
        Some(host) => host,
        None if meta.host.name.is_empty() => {
            return Err("it does not say of which host it is: name it with --host".to_string());
        }
        None => &meta.host.name,
    };
    let mut whole = meta.clone();
    // How it lies on the disk.
    (whole.segments.last, whole.segments.merged) = (0, Vec::new());
    let (database, collector) = (&meta.database, &meta.collector);
    // An import is whole from the begin.
    let imported = (!meta.files.is_empty()).then_some(&whole);
    let first = (meta.start_us, &database.target, &collector.tier, host, imported);
    let program = (VERSION, env!("CARGO_PKG_VERSION"), options.damaged);
    Ok(StateName {
        host: Host::new(host)?,
        from_s: 0,
        to_s: 0,
        identity: hash(&first)?,
        version: hash(&(program, host, &whole))?,
    })
}

fn hash(of: &impl serde::Serialize) -> Result<u64, String> {
    Ok(xxh3_64(&serde_json::to_vec(of).map_err(|e| e.to_string())?))
}

/// Whole seconds before all rows, and behind them.
fn bounds_s(meta: &Meta, files: &[StoredFile]) -> (i64, i64) {
    const SECOND_US: i64 = 1_000_000;
    let (mut first, mut last) = (meta.start_us, meta.end_us.max(meta.start_us));
    for (from, to) in files.iter().filter_map(|file| file.moments_us) {
        (first, last) = (first.min(from), last.max(to));
    }
    (first.div_euclid(SECOND_US), last.div_euclid(SECOND_US) + 1)
}

fn put_tables(recording: &Recording, target: &mut Target<'_>) -> Result<Vec<Problem>, StoreError> {
    let mut problems = put_facts::<ActivityRow>(recording, target)?;
    problems.extend(put_facts::<LatencyRow>(recording, target)?);
    problems.extend(put_facts::<CounterRow>(recording, target)?);
    problems.extend(put_facts::<SpanRow>(recording, target)?);
    problems.extend(put_facts::<SwitchRow>(recording, target)?);
    problems.extend(put_facts::<CauseRow>(recording, target)?);
    problems.extend(put_facts::<HeldLockRow>(recording, target)?);
    problems.extend(put_known::<SessionRow>(recording, target)?);
    problems.extend(put_known::<StatementRow>(recording, target)?);
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

/// Rows of which the last one that says something counts: all are kept until all are read.
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

/// There may be millions, and of equal ids all say the same.
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
