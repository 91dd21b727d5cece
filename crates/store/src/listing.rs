//! What is in a store: hosts, recordings, and the time of which there is nothing.

use std::collections::BTreeMap;
use std::collections::HashSet;

use crate::address::Choice;
use crate::catalog::Store;
use crate::error::StoreError;
use crate::manifest::Manifest;

/// Shorter than this, time between two recordings is what starting the next one takes: microseconds.
const NO_GAP_US: i64 = 2_000_000;

/// What is in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// By name.
    pub hosts: Vec<HostListing>,
    /// Files with rows that are part of no recording, and their bytes: a put was killed, or is under way.
    pub left: (u64, u64),
}

/// What there is of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostListing {
    /// Name of the host.
    pub host: String,
    /// In the order of their begin.
    pub recordings: Vec<RecordingListing>,
    /// Time between the first and the last of them in which there is none: begin and end, microseconds since the Unix epoch.
    pub gaps_us: Vec<(i64, i64)>,
}

/// A recording in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordingListing {
    /// Name in the store.
    pub recording: String,
    /// Microseconds since the Unix epoch.
    pub start_us: i64,
    /// The same.
    pub end_us: i64,
    /// The recorder has ended.
    pub complete: bool,
    /// Product and version of what was recorded.
    pub database: String,
    /// Rows of all tables.
    pub rows: u64,
    /// Files.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// What could not be read of it when it was put.
    pub damaged: Vec<String>,
    /// Files that are not there, or do not have the length that they should have.
    pub missing: Vec<String>,
}

impl Store {
    /// Lists what there is of the part that is chosen, and holds it against the files that are there.
    ///
    /// # Errors
    /// The store or a manifest cannot be read.
    pub fn list(&self, choice: &Choice) -> Result<Listing, StoreError> {
        let entries = self
            .objects()
            .list("")
            .map_err(|e| StoreError::io(self.address(), e))?;
        let mut there: BTreeMap<&str, u64> = entries
            .iter()
            .filter(|entry| entry.path.starts_with("table="))
            .map(|entry| (entry.path.as_str(), entry.bytes))
            .collect();
        let mut hosts: BTreeMap<String, Vec<RecordingListing>> = BTreeMap::new();
        for manifest in self.recordings(choice)? {
            let recording = recording(&manifest, &there);
            let host = manifest.name.host.name().to_string();
            hosts.entry(host).or_default().push(recording);
        }
        let known: HashSet<String> = self
            .recordings(&Choice::default())?
            .iter()
            .flat_map(|manifest| manifest.files.iter().map(|file| manifest.path_of(file)))
            .collect();
        there.retain(|path, _| !known.contains(*path));
        Ok(Listing {
            hosts: hosts
                .into_iter()
                .map(|(host, recordings)| HostListing {
                    host,
                    gaps_us: gaps(&recordings),
                    recordings,
                })
                .collect(),
            left: (there.len() as u64, there.values().sum()),
        })
    }
}

fn recording(manifest: &Manifest, there: &BTreeMap<&str, u64>) -> RecordingListing {
    let is_missing = |(path, bytes): &(String, u64)| there.get(path.as_str()) != Some(bytes);
    let files = manifest.files.iter();
    let missing = files
        .map(|file| (manifest.path_of(file), file.bytes))
        .filter(is_missing)
        .map(|(path, _)| path)
        .collect();
    let database = &manifest.meta.database;
    RecordingListing {
        recording: manifest.name.recording(),
        start_us: manifest.meta.start_us,
        end_us: manifest.meta.end_us,
        complete: manifest.meta.complete,
        database: format!("{} {}", database.product, database.version)
            .trim()
            .to_string(),
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

fn gaps(recordings: &[RecordingListing]) -> Vec<(i64, i64)> {
    let mut gaps = Vec::new();
    let mut covered: Option<i64> = None;
    for recording in recordings {
        if let Some(end) = covered
            && recording.start_us.saturating_sub(end) > NO_GAP_US
        {
            gaps.push((end, recording.start_us));
        }
        covered = Some(covered.map_or(recording.end_us, |end| end.max(recording.end_us)));
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_time_in_which_no_recording_was_made() {
        let recording = |start_s: i64, end_s: i64| RecordingListing {
            recording: String::new(),
            start_us: start_s * 1_000_000,
            end_us: end_s * 1_000_000,
            complete: true,
            database: String::new(),
            rows: 0,
            files: 0,
            bytes: 0,
            damaged: vec![],
            missing: vec![],
        };
        assert_eq!(gaps(&[]), []);
        let all = [
            recording(0, 100),
            recording(10, 20),
            recording(101, 200),
            recording(300, 400),
        ];
        assert_eq!(gaps(&all), [(200_000_000, 300_000_000)]);
    }
}
