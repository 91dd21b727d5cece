//! Removes recordings that ended long ago.
//!
//! For each of them, in this order:
//!
//! 1. its manifest is copied to `removed/`;
//! 2. the manifest is removed: from now on no reader sees the recording;
//! 3. its files and its row are removed;
//! 4. the copy is removed.
//!
//! If it is killed in between, the copy stays, and the next prune continues from it. A report that is reading the recording finds files
//! missing and says so.

use std::io::ErrorKind;

use crate::catalog::Store;
use crate::error::StoreError;
use crate::layout::{Host, MANIFESTS, StateName, manifests_of};
use crate::manifest::Manifest;

/// Folder of the manifests of recordings that are being removed.
const REMOVED: &str = "removed";

/// What was removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pruned {
    /// How many recordings, counting each of their states.
    pub recordings: usize,
    /// Bytes of their files.
    pub bytes: u64,
    /// Why some were kept: their manifests cannot be understood.
    pub kept: Vec<String>,
}

impl Store {
    /// Removes the recordings of a host whose rows are all before a moment (seconds since the Unix epoch), but never the newest.
    ///
    /// # Errors
    /// The store cannot be read or written. The next call finishes what was begun.
    pub fn prune(&self, host: &str, before_s: i64) -> Result<Pruned, StoreError> {
        let host = Host::new(host).map_err(StoreError::Address)?;
        let mut pruned = Pruned::default();
        self.go_on(&host, &mut pruned)?;
        let names = self.names(&host)?;
        // Even if a clock is wrong, something is left of a host.
        let newest_s = names.iter().map(|name| name.to_s).max();
        for name in names {
            if name.to_s > before_s || Some(name.to_s) == newest_s {
                continue;
            }
            let read = Manifest::read(self.objects(), &name);
            if let Some(manifest) = understood(read, &mut pruned)? {
                let text = manifest
                    .to_json()
                    .map_err(|why| StoreError::format(name.manifest(), why))?;
                self.objects()
                    .put(&copy_of(&name), text.into())
                    .map_err(|e| self.failed(&copy_of(&name), e))?;
                self.remove_object(&name.manifest())?;
                self.remove_files(&manifest, &mut pruned)?;
            }
        }
        Ok(pruned)
    }

    /// Finishes what a killed prune began.
    fn go_on(&self, host: &Host, pruned: &mut Pruned) -> Result<(), StoreError> {
        let folder = manifests_of(host).replacen(MANIFESTS, REMOVED, 1);
        let copies = match self.objects().list(&folder) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            other => other.map_err(|e| self.failed(&folder, e))?,
        };
        if copies.is_empty() {
            return Ok(());
        }
        let there = self.names(host)?;
        for copy in copies {
            let named = copy
                .path
                .strip_prefix(REMOVED)
                .map(|rest| format!("{MANIFESTS}{rest}"));
            let Some(name) = named.and_then(|path| StateName::of_manifest(&path)) else {
                continue;
            };
            // It was put again in the meantime, so its files are in use.
            if there.contains(&name) {
                self.remove_object(&copy.path)?;
                continue;
            }
            let read = Manifest::read_at(self.objects(), &name, &copy.path);
            if let Some(manifest) = understood(read, pruned)? {
                self.remove_files(&manifest, pruned)?;
            }
        }
        Ok(())
    }

    fn remove_files(&self, manifest: &Manifest, pruned: &mut Pruned) -> Result<(), StoreError> {
        for path in manifest.paths() {
            self.remove_object(&path)?;
        }
        self.remove_object(&copy_of(&manifest.name))?;
        pruned.recordings += 1;
        pruned.bytes += manifest.bytes();
        Ok(())
    }

    fn failed(&self, path: &str, e: std::io::Error) -> StoreError {
        StoreError::io(self.objects().where_is(path), e)
    }
}

/// The manifest, unless it has just been removed, or cannot be understood, which is noted.
fn understood(
    read: Result<Manifest, StoreError>,
    pruned: &mut Pruned,
) -> Result<Option<Manifest>, StoreError> {
    match read {
        Ok(manifest) => Ok(Some(manifest)),
        Err(e) if e.is_gone() => Ok(None),
        Err(e @ StoreError::Io { .. }) if !e.is_damage() => Err(e),
        Err(e) => {
            pruned.kept.push(e.to_string());
            Ok(None)
        }
    }
}

fn copy_of(name: &StateName) -> String {
    name.manifest().replacen(MANIFESTS, REMOVED, 1)
}
