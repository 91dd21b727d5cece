//! Removes what a state of a recording replaces. What may still be read stays: files that another manifest names; and everything, as long
//! as a manifest that cannot be understood may cover more.

use std::collections::HashSet;

use crate::catalog::{Broken, Store};
use crate::error::StoreError;
use crate::layout::StateName;
use crate::manifest::Manifest;

impl Store {
    /// Removes the states earlier than this one, their manifests last, so that if it is killed, the next run finds what is left. Returns
    /// how many there were.
    pub(crate) fn remove_before(&self, kept: &Manifest) -> Result<usize, StoreError> {
        // Listed again: another process may have put something in the meantime.
        let found = self.states(&kept.name.host, kept.name.identity)?;
        if !found.broken.iter().all(|broken| is_replaced(broken, kept)) {
            return Ok(0);
        }
        let (earlier, current): (Vec<Manifest>, Vec<Manifest>) = found
            .readable
            .into_iter()
            .partition(|other| is_earlier(other, kept));
        let used: HashSet<String> = [kept]
            .into_iter()
            .chain(&current)
            .flat_map(Manifest::paths)
            .collect();
        for state in &earlier {
            self.remove_state(&state.name, state.paths(), &used)?;
        }
        if !found.broken.is_empty() {
            let all = self
                .objects()
                .list("")
                .map_err(|e| StoreError::io(self.address(), e))?;
            for Broken { name, .. } in &found.broken {
                let files = all.iter().map(|entry| &entry.path);
                let files = files.filter(|path| name.has_file(path)).cloned();
                self.remove_state(name, files, &used)?;
            }
        }
        Ok(earlier.len() + found.broken.len())
    }

    fn remove_state(
        &self,
        name: &StateName,
        files: impl Iterator<Item = String>,
        used: &HashSet<String>,
    ) -> Result<(), StoreError> {
        for path in files.filter(|path| !used.contains(path)).chain([name.manifest()]) {
            self.remove_object(&path)?;
        }
        Ok(())
    }

    /// Removes an object; it is not an error if there is none.
    pub(crate) fn remove_object(&self, path: &str) -> Result<(), StoreError> {
        self.objects()
            .remove(path)
            .map_err(|e| StoreError::io(self.objects().where_is(path), e))
    }
}

/// Whether a state is no longer needed. One that could be read completely is never given up for one that could not.
fn is_earlier(other: &Manifest, kept: &Manifest) -> bool {
    other.rank() < kept.rank()
        && other.name != kept.name
        && (kept.damaged.is_empty() || !other.damaged.is_empty())
}

/// Whether a manifest that cannot be understood is of a state that `kept`, which has to be undamaged, covers: its name says how far it
/// went.
fn is_replaced(broken: &Broken, kept: &Manifest) -> bool {
    let goes_as_far = match kept.meta.complete {
        true => kept.name.to_s >= broken.name.to_s,
        // The other one may be the final state.
        false => kept.name.to_s > broken.name.to_s,
    };
    goes_as_far && kept.damaged.is_empty() && broken.error.is_damage()
}
