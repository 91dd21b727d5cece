//! Upgrades a store that an older dbtime wrote: adds the rows of recordings that have none.

use std::collections::HashSet;

use crate::catalog::Store;
use crate::error::StoreError;
use crate::layout::ENTRIES;
use crate::manifest::Manifest;

/// What an upgrade did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Upgraded {
    /// Recordings that were given a row, counting each of their states.
    pub recordings: usize,
    /// Why some have none: their manifests cannot be understood.
    pub kept: Vec<String>,
}

impl Store {
    /// Writes the rows of recordings that have none. Nothing else changes.
    ///
    /// # Errors
    /// The store cannot be read or written. The next call finishes what was begun.
    pub fn upgrade(&self) -> Result<Upgraded, StoreError> {
        let folder = format!("table={ENTRIES}");
        let entries = self
            .objects()
            .list(&folder)
            .map_err(|e| StoreError::io(self.objects().where_is(&folder), e))?;
        let there: HashSet<&str> = entries.iter().map(|entry| entry.path.as_str()).collect();
        let mut upgraded = Upgraded::default();
        for host in self.hosts()? {
            for name in self.names(&host)? {
                let written = Manifest::read(self.objects(), &name).and_then(|manifest| {
                    match there.contains(manifest.entry_path().as_str()) {
                        true => Ok(false),
                        false => self.put_entry(&manifest).map(|()| true),
                    }
                });
                match written {
                    Ok(is_new) => upgraded.recordings += usize::from(is_new),
                    // It was replaced, or pruned, since the names were listed.
                    Err(e) if e.is_gone() => {}
                    Err(e @ StoreError::Io { .. }) if !e.is_damage() => return Err(e),
                    Err(e) => upgraded.kept.push(e.to_string()),
                }
            }
        }
        Ok(upgraded)
    }
}
