//! What is in a store: hosts, recordings, and gaps.

use std::collections::BTreeMap;
use std::collections::HashSet;

use crate::address::Choice;
use crate::catalog::{Store, latest};
use crate::error::StoreError;
use crate::manifest::Manifest;
use crate::seams::{gaps_by_server, servers};

/// What is in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// Sorted by name.
    pub hosts: Vec<HostListing>,
    /// Files with rows that belong to no recording, and their bytes: a put was killed, or is still running.
    pub left: (u64, u64),
    /// Recordings, counting each of their states, that ready queries do not see: an older dbtime put them, or the row was lost.
    pub without_row: usize,
    /// Manifests that cannot be understood: which, why, and what to do. Their recordings are in no other list.
    pub broken: Vec<String>,
}

/// What there is of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostListing {
    /// Name of the host.
    pub host: String,
    /// Sorted by start.
    pub recordings: Vec<RecordingListing>,
    /// Time between the first and the last recording of a server that none covers, sorted by start.
    pub gaps: Vec<Gap>,
}

/// A period of a server for which nothing was recorded, or nothing is in the store yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// Its data directory; empty if not known.
    pub server: String,
    /// Microseconds since the Unix epoch.
    pub from_us: i64,
    /// Microseconds since the Unix epoch.
    pub to_us: i64,
}

/// A recording in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordingListing {
    /// Name in the store.
    pub recording: String,
    /// Microseconds since the Unix epoch.
    pub start_us: i64,
    /// Microseconds since the Unix epoch.
    pub end_us: i64,
    /// The recorder has ended.
    pub complete: bool,
    /// Product and version of what was recorded.
    pub database: String,
    /// Its data directory; empty if not known.
    pub server: String,
    /// The condition on which a flight recorder made it; empty: none did.
    pub flight: String,
    /// Rows of all tables.
    pub rows: u64,
    /// Files.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// What could not be read of it when it was put.
    pub damaged: Vec<String>,
    /// Files that are missing or have the wrong length.
    pub missing: Vec<String>,
}

impl Store {
    /// Lists the selected part, and checks it against the files that are there.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn list(&self, choice: &Choice) -> Result<Listing, StoreError> {
        let entries = self
            .objects()
            .list("")
            .map_err(|e| StoreError::io(self.address(), e))?;
        let there: BTreeMap<&str, u64> = entries
            .iter()
            .filter(|entry| entry.path.starts_with("table="))
            .map(|entry| (entry.path.as_str(), entry.bytes))
            .collect();
        let chosen = self.found(choice)?;
        let of_all = match *choice == Choice::default() {
            true => None,
            false => Some(self.found(&Choice::default())?),
        };
        let all = of_all.as_ref().unwrap_or(&chosen);
        let known: HashSet<String> = all.readable.iter().flat_map(Manifest::paths).collect();
        // A broken manifest does not say which files it has: those named like it are its own.
        let of_broken = |path: &str| all.broken.iter().any(|broken| broken.name.has_file(path));
        let left = there
            .iter()
            .filter(|(path, _)| !known.contains(**path) && !of_broken(path));
        let (files, bytes) = left.fold((0, 0), |(files, sum), (_, bytes)| (files + 1, sum + bytes));
        let broken = chosen
            .broken
            .iter()
            .map(|broken| broken.error.to_string())
            .collect();
        let has_no_row = |manifest: &&Manifest| !there.contains_key(manifest.entry_path().as_str());
        let without_row = chosen.readable.iter().filter(has_no_row).count();
        let mut hosts: BTreeMap<String, Vec<Manifest>> = BTreeMap::new();
        for manifest in latest(chosen.readable) {
            let host = manifest.name.host.name().to_string();
            hosts.entry(host).or_default().push(manifest);
        }
        Ok(Listing {
            hosts: hosts
                .into_iter()
                .map(|(host, manifests)| HostListing {
                    host,
                    gaps: gaps_of(&manifests),
                    recordings: manifests
                        .iter()
                        .map(|manifest| recording(manifest, &there))
                        .collect(),
                })
                .collect(),
            left: (files, bytes),
            without_row,
            broken,
        })
    }
}

/// Exact recordings of a flight recorder fill no gap: they are put before the continuous one.
fn gaps_of(manifests: &[Manifest]) -> Vec<Gap> {
    let lasting: Vec<&Manifest> = manifests
        .iter()
        .filter(|manifest| manifest.meta.collector.flight.is_empty())
        .collect();
    gaps_by_server(&servers(&lasting))
        .into_iter()
        .map(|(server, (from_us, to_us))| Gap {
            server: server.to_string(),
            from_us,
            to_us,
        })
        .collect()
}

fn recording(manifest: &Manifest, there: &BTreeMap<&str, u64>) -> RecordingListing {
    let is_missing = |(path, bytes): &(String, u64)| there.get(path.as_str()) != Some(bytes);
    let files = manifest.files.iter();
    let missing = files
        .map(|file| (manifest.path_of(file), file.bytes))
        .filter(is_missing)
        .map(|(path, _)| path)
        .collect();
    RecordingListing {
        recording: manifest.name.recording(),
        start_us: manifest.meta.start_us,
        end_us: manifest.meta.end_us,
        complete: manifest.meta.complete,
        database: manifest.meta.database.in_short(),
        server: manifest.meta.database.data_directory.clone(),
        flight: manifest.meta.collector.flight.clone(),
        rows: manifest
            .files
            .iter()
            .map(|file| file.rows)
            .fold(0, u64::saturating_add),
        files: manifest.files.len(),
        bytes: manifest.bytes(),
        damaged: manifest.damaged.clone(),
        missing,
    }
}
