//! A store: which recordings are in it, by their manifests.

use std::collections::BTreeMap;
use std::io::ErrorKind;

use crate::address::{Address, Choice};
use crate::error::StoreError;
use crate::layout::{Host, MANIFESTS, MARK, StateName, VERSION, manifests_of};
use crate::manifest::Manifest;
use crate::objects::Objects;

/// Bytes of the object that says what this is.
const LARGEST_MARK: u64 = 64 << 10;

/// How often it is listed once more when something is gone that was listed before.
const TRIES: usize = 2;

/// Recordings of many hosts in one place.
#[derive(Debug)]
pub struct Store {
    objects: Box<dyn Objects>,
}

impl Store {
    /// Opens a store to read it.
    ///
    /// # Errors
    /// There is none at this address, or it cannot be reached.
    pub fn open(address: &Address) -> Result<Store, StoreError> {
        let store = Store {
            objects: address.open()?,
        };
        match store.is_marked()? {
            true => Ok(store),
            false => Err(StoreError::NotThere(address.to_string())),
        }
    }

    /// Opens a store to put something into it, and makes it if there is nothing at this address.
    ///
    /// # Errors
    /// Something else is there, or it cannot be written.
    pub fn open_or_make(address: &Address) -> Result<Store, StoreError> {
        let (objects, is_empty) = address.open_or_make()?;
        let store = Store { objects };
        if store.is_marked()? {
            return Ok(store);
        }
        if !is_empty {
            return Err(StoreError::NotAStore(address.to_string()));
        }
        let mark = format!("{{\"format\":\"dbtime store\",\"version\":\"{VERSION}\"}}\n");
        store
            .objects
            .put(MARK, mark.into())
            .map_err(|e| StoreError::io(store.objects.where_is(MARK), e))?;
        Ok(store)
    }

    #[cfg(test)]
    pub(crate) fn of(objects: Box<dyn Objects>) -> Store {
        Store { objects }
    }

    pub(crate) fn objects(&self) -> &dyn Objects {
        &*self.objects
    }

    pub(crate) fn into_objects(self) -> Box<dyn Objects> {
        self.objects
    }

    /// Where it is.
    pub fn address(&self) -> &str {
        self.objects.address()
    }

    /// Whether it says that it is a store, of a version that can be read.
    fn is_marked(&self) -> Result<bool, StoreError> {
        let path = self.objects.where_is(MARK);
        let text = match self.objects.get(MARK, LARGEST_MARK) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(false),
            other => other.map_err(|e| StoreError::io(&path, e))?,
        };
        #[derive(serde::Deserialize)]
        struct Mark {
            version: String,
        }
        let mark: Mark = serde_json::from_slice(&text)
            .map_err(|e| StoreError::format(&path, format!("not the mark of a store of dbtime: {e}")))?;
        let major = |version: &str| version.split('.').next().map(str::to_string);
        match major(&mark.version) == major(VERSION) {
            true => Ok(true),
            false => Err(StoreError::format(
                path,
                format!(
                    "layout version {}: this dbtime reads {VERSION}; use the dbtime that wrote it",
                    mark.version
                ),
            )),
        }
    }

    /// Hosts of which there is something.
    pub(crate) fn hosts(&self) -> Result<Vec<Host>, StoreError> {
        let folders = self
            .objects
            .folders(MANIFESTS)
            .map_err(|e| StoreError::io(self.objects.where_is(MANIFESTS), e))?;
        Ok(folders
            .iter()
            .filter_map(|folder| Host::of_folder(folder))
            .collect())
    }

    /// Names of all states of all recordings of a host.
    pub(crate) fn names(&self, host: &Host) -> Result<Vec<StateName>, StoreError> {
        let folder = manifests_of(host);
        let entries = self
            .objects
            .list(&folder)
            .map_err(|e| StoreError::io(self.objects.where_is(&folder), e))?;
        Ok(entries
            .iter()
            .filter_map(|entry| StateName::of_manifest(&entry.path))
            .collect())
    }

    /// What there is of a recording. A manifest that cannot be understood stands in nobody's way here.
    pub(crate) fn states(&self, host: &Host, identity: u64) -> Result<Vec<Manifest>, StoreError> {
        let mut states = Vec::new();
        for name in self.names(host)?.iter().filter(|name| name.identity == identity) {
            match Manifest::read(self.objects(), name) {
                Ok(manifest) => states.push(manifest),
                Err(StoreError::Io { error, .. }) if error.kind() == ErrorKind::NotFound => {}
                Err(e @ StoreError::Io { .. }) => return Err(e),
                Err(_) => {}
            }
        }
        Ok(states)
    }

    /// The recordings that were chosen, each in its latest state, in the order of their begin.
    ///
    /// # Errors
    /// There is nothing of a host that was asked for, or a manifest cannot be read.
    pub(crate) fn recordings(&self, choice: &Choice) -> Result<Vec<Manifest>, StoreError> {
        let is_gone =
            |e: &StoreError| matches!(e, StoreError::Io { error, .. } if error.kind() == ErrorKind::NotFound);
        for _ in 0..TRIES {
            match self.recordings_now(choice) {
                // A later state was put since the names were listed: there is another name.
                Err(e) if is_gone(&e) => {}
                other => return other,
            }
        }
        self.recordings_now(choice)
    }

    fn recordings_now(&self, choice: &Choice) -> Result<Vec<Manifest>, StoreError> {
        let hosts = match choice.hosts.as_slice() {
            [] => self.hosts()?,
            hosts => hosts
                .iter()
                .map(|host| Host::new(host).map_err(StoreError::Address))
                .collect::<Result<Vec<Host>, _>>()?,
        };
        let mut found: Vec<Manifest> = Vec::new();
        for host in &hosts {
            let names = self.names(host)?;
            if names.is_empty() {
                let hosts = self.hosts()?;
                return Err(StoreError::NoSuchHost {
                    store: self.address().to_string(),
                    host: host.name().to_string(),
                    hosts: hosts.iter().map(|host| host.name().to_string()).collect(),
                });
            }
            let mut states: BTreeMap<u64, Vec<StateName>> = BTreeMap::new();
            for name in names.into_iter().filter(|name| choice.takes(name)) {
                states.entry(name.identity).or_default().push(name);
            }
            for names in states.into_values() {
                let manifests = names.iter().map(|name| Manifest::read(self.objects(), name));
                let manifests = manifests.collect::<Result<Vec<_>, _>>()?;
                found.extend(manifests.into_iter().max_by_key(Manifest::rank));
            }
        }
        found.sort_by_key(|manifest| (manifest.meta.start_us, manifest.name.clone()));
        Ok(found)
    }
}
