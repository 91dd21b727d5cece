//! A store: which recordings are in it, by their manifests.

use std::collections::BTreeMap;
use std::io::ErrorKind;

use crate::address::{Address, Choice};
use crate::error::StoreError;
use crate::layout::{Host, MANIFESTS, MARK, StateName, VERSION, is_known_layout, manifests_of};
use crate::manifest::Manifest;
use crate::objects::Objects;

/// Most bytes of the object that marks a store.
const LARGEST_MARK: u64 = 64 << 10;

/// How often names are listed again if an object that was listed is gone.
const TRIES: usize = 2;

/// Recordings of many hosts in one place.
#[derive(Debug)]
pub struct Store {
    objects: Box<dyn Objects>,
}

impl Store {
    /// Opens a store for reading.
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

    /// Opens a store for writing, and creates it if there is nothing at this address.
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

    /// Whether it is marked as a store, of a version that can be read.
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
            .map_err(|e| StoreError::format(&path, format!("not a dbtime store marker: {e}")))?;
        match is_known_layout(&mark.version) {
            true => Ok(true),
            false => Err(StoreError::OtherLayout {
                path,
                version: mark.version,
            }),
        }
    }

    /// Hosts that have a folder in the store.
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

    /// All states of a recording.
    pub(crate) fn states(&self, host: &Host, identity: u64) -> Result<Found, StoreError> {
        let mut found = Found::default();
        for name in self.names(host)? {
            if name.identity == identity {
                match self.read_into(&mut found, name) {
                    // It has been removed in the meantime.
                    Err(e) if e.is_gone() => {}
                    other => other?,
                }
            }
        }
        Ok(found)
    }

    /// The selected recordings, each in its latest state, sorted by start.
    ///
    /// # Errors
    /// The store has nothing of a selected host, or a manifest cannot be read.
    pub(crate) fn recordings(&self, choice: &Choice) -> Result<Vec<Manifest>, StoreError> {
        let found = self.found(choice)?;
        match found.broken.into_iter().next() {
            Some(broken) => Err(broken.error),
            None => Ok(latest(found.readable)),
        }
    }

    /// All states of the selected recordings.
    ///
    /// # Errors
    /// The store has nothing of a selected host, or cannot be read.
    pub(crate) fn found(&self, choice: &Choice) -> Result<Found, StoreError> {
        for _ in 0..TRIES {
            match self.found_now(choice) {
                // A later state was put since the names were listed; it has another name.
                Err(e) if e.is_gone() => {}
                other => return other,
            }
        }
        self.found_now(choice)
    }

    fn found_now(&self, choice: &Choice) -> Result<Found, StoreError> {
        let hosts = match choice.hosts.as_slice() {
            [] => self.hosts()?,
            hosts => hosts
                .iter()
                .map(|host| Host::new(host).map_err(StoreError::Address))
                .collect::<Result<Vec<Host>, _>>()?,
        };
        let mut found = Found::default();
        for host in &hosts {
            let names = self.names(host)?;
            // The folder of a host stays when its recordings have been removed.
            if names.is_empty() && !choice.hosts.is_empty() {
                let hosts = self.hosts()?;
                return Err(StoreError::NoSuchHost {
                    store: self.address().to_string(),
                    host: host.name().to_string(),
                    hosts: hosts.iter().map(|host| host.name().to_string()).collect(),
                });
            }
            for name in names.into_iter().filter(|name| choice.takes(name)) {
                self.read_into(&mut found, name)?;
            }
        }
        found
            .readable
            .retain(|manifest| choice.takes_server(&manifest.meta));
        Ok(found)
    }

    /// Reads a manifest. It is not an error if it is there but cannot be understood.
    fn read_into(&self, found: &mut Found, name: StateName) -> Result<(), StoreError> {
        match Manifest::read(self.objects(), &name) {
            Ok(manifest) => found.readable.push(manifest),
            Err(error @ StoreError::Io { .. }) if !error.is_damage() => return Err(error),
            Err(error) => found.broken.push(Broken { name, error }),
        }
        Ok(())
    }
}

/// Manifests.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) readable: Vec<Manifest>,
    /// Those that are there and cannot be understood.
    pub(crate) broken: Vec<Broken>,
}

/// A manifest that cannot be understood.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) name: StateName,
    pub(crate) error: StoreError,
}

/// The state that counts, of each recording; sorted by start.
pub(crate) fn latest(manifests: Vec<Manifest>) -> Vec<Manifest> {
    let mut latest: BTreeMap<(Host, u64), Manifest> = BTreeMap::new();
    for manifest in manifests {
        let recording = (manifest.name.host.clone(), manifest.name.identity);
        match latest.get(&recording) {
            Some(other) if other.rank() > manifest.rank() => {}
            _ => drop(latest.insert(recording, manifest)),
        }
    }
    let mut latest: Vec<Manifest> = latest.into_values().collect();
    latest.sort_by_key(|manifest| (manifest.meta.start_us, manifest.name.clone()));
    latest
}
