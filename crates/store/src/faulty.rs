//! For tests: objects in memory, and objects of which one request fails.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use dbtime_model::recording::Recording;

use crate::address::Choice;
use crate::catalog::Store;
use crate::error::StoreError;
use crate::killed::hours;
use crate::objects::{Entry, Objects, too_large};
use crate::put::{Put, PutOptions};

/// Objects of a store.
pub(crate) type Content = BTreeMap<String, Bytes>;

/// Objects in memory. They count as remote: they are not read to find out whether they are undamaged.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory {
    objects: Arc<Mutex<Content>>,
    /// Paths of what was read.
    read: Arc<Mutex<Vec<String>>>,
}

impl Memory {
    pub(crate) fn of(content: Content) -> Memory {
        Memory {
            objects: Arc::new(Mutex::new(content)),
            ..Memory::default()
        }
    }

    fn objects(&self) -> MutexGuard<'_, Content> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn content(&self) -> Content {
        self.objects().clone()
    }

    pub(crate) fn store(&self) -> Store {
        Store::of(Box::new(self.clone()))
    }

    pub(crate) fn put_recording(&self, recording: &Path) -> Put {
        put(self.store(), recording).expect("put")
    }

    pub(crate) fn hours(&self) -> Vec<i64> {
        hours(self.store(), &Choice::default())
    }

    /// Manifests read since the last call.
    pub(crate) fn manifests_read(&self) -> usize {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.drain(..)
            .filter(|path| path.starts_with("recordings/"))
            .count()
    }
}

/// Puts a recording.
pub(crate) fn put(store: Store, recording: &Path) -> Result<Put, StoreError> {
    store.put(&Recording::open(recording)?, "it", &PutOptions::default())
}

impl Objects for Memory {
    fn list(&self, folder: &str) -> io::Result<Vec<Entry>> {
        let is_below = |path: &str| folder.is_empty() || path.starts_with(&format!("{folder}/"));
        let objects = self.objects();
        let found = objects.iter().filter(|(path, _)| is_below(path));
        Ok(found
            .map(|(path, bytes)| Entry {
                path: path.clone(),
                bytes: bytes.len() as u64,
            })
            .collect())
    }

    fn folders(&self, folder: &str) -> io::Result<Vec<String>> {
        let objects = self.objects();
        let names = objects.keys().filter_map(|path| {
            let below = path.strip_prefix(folder)?.strip_prefix('/')?;
            below.split_once('/').map(|(name, _)| name.to_string())
        });
        let mut names: Vec<String> = names.collect();
        names.dedup();
        Ok(names)
    }

    fn length(&self, path: &str) -> io::Result<Option<u64>> {
        Ok(self.objects().get(path).map(|bytes| bytes.len() as u64))
    }

    fn get(&self, path: &str, most: u64) -> io::Result<Bytes> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.push(path.to_string());
        match self.objects().get(path) {
            None => Err(ErrorKind::NotFound.into()),
            Some(bytes) if bytes.len() as u64 > most => Err(too_large(bytes.len() as u64, most)),
            Some(bytes) => Ok(bytes.clone()),
        }
    }

    fn put(&self, path: &str, bytes: Bytes) -> io::Result<()> {
        self.objects().insert(path.to_string(), bytes);
        Ok(())
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.objects().remove(path);
        Ok(())
    }

    fn is_near(&self) -> bool {
        false
    }

    fn address(&self) -> &'static str {
        "s3://fleet/x"
    }
}

/// What goes wrong with one request.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// It is not done.
    Refused(ErrorKind),
    /// It is done, and the answer does not arrive.
    AnswerLost,
    /// Somebody else puts this recording before it is done.
    After(PathBuf),
}

/// Objects of which one request, of a reader or a writer, goes wrong.
#[derive(Debug)]
struct Faulty {
    inner: Memory,
    asked: Arc<AtomicUsize>,
    at: usize,
    fault: Fault,
}

/// Puts a recording while the request with this number goes wrong. Returns the result; none: there were fewer requests.
pub(crate) fn put_with_fault(
    memory: &Memory,
    at: usize,
    fault: &Fault,
    recording: &Path,
) -> Option<Result<Put, StoreError>> {
    let asked = Arc::new(AtomicUsize::new(0));
    let faulty = Faulty {
        inner: memory.clone(),
        asked: Arc::clone(&asked),
        at,
        fault: fault.clone(),
    };
    let outcome = put(Store::of(Box::new(faulty)), recording);
    (asked.load(Ordering::Relaxed) > at).then_some(outcome)
}

impl Faulty {
    fn ask<T>(&self, work: impl FnOnce(&Memory) -> io::Result<T>) -> io::Result<T> {
        if self.asked.fetch_add(1, Ordering::Relaxed) != self.at {
            return work(&self.inner);
        }
        match &self.fault {
            Fault::Refused(kind) => Err(io::Error::new(*kind, "refused")),
            Fault::AnswerLost => {
                work(&self.inner)?;
                Err(io::Error::new(ErrorKind::TimedOut, "no answer"))
            }
            Fault::After(other) => {
                self.inner.put_recording(other);
                work(&self.inner)
            }
        }
    }
}

impl Objects for Faulty {
    fn list(&self, folder: &str) -> io::Result<Vec<Entry>> {
        self.ask(|place| place.list(folder))
    }

    fn folders(&self, folder: &str) -> io::Result<Vec<String>> {
        self.ask(|place| place.folders(folder))
    }

    fn length(&self, path: &str) -> io::Result<Option<u64>> {
        self.ask(|place| place.length(path))
    }

    fn get(&self, path: &str, most: u64) -> io::Result<Bytes> {
        self.ask(|place| place.get(path, most))
    }

    fn put(&self, path: &str, bytes: Bytes) -> io::Result<()> {
        self.ask(|place| place.put(path, bytes))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.ask(|place| place.remove(path))
    }

    fn is_near(&self) -> bool {
        self.inner.is_near()
    }

    fn address(&self) -> &str {
        self.inner.address()
    }
}
