//! Recordings on this host: those that are being made, and those that have ended and wait for the store.
//!
//! ```text
//! SPOOL/recordings/SERVER/NAME.dbt            one folder for each server
//! SPOOL/recordings/SERVER/NAME.dbt.removed    on its way out: whoever was killed while removing it leaves that
//! SPOOL/recordings/SERVER-flights/NAME.dbt    exact ones
//! SPOOL/*.json                                what the next agent has to know
//! ```

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use dbtime_collect::RunningServer;
use dbtime_model::output::{Directory, Lock};
use dbtime_model::recording::{Meta, Recording};

use crate::output::say;
use crate::record::plain_words;

const RECORDINGS: &str = "recordings";
const REMOVED: &str = "removed";

/// See the module.
pub(super) struct Spool {
    home: Directory,
    recordings: Directory,
    /// One agent at a time.
    _lock: Lock,
}

/// A recording that nobody writes any longer.
#[derive(Debug)]
pub(super) struct Ended {
    folder: OsString,
    name: OsString,
    /// Where it is.
    pub(super) path: PathBuf,
    /// Of all its files.
    pub(super) bytes: u64,
    /// Microseconds since the Unix epoch.
    pub(super) end_us: i64,
    /// Its recorder was killed before it had written anything.
    pub(super) is_empty: bool,
    /// The recording that is made now may look up in it what it does not describe itself.
    pub(super) is_needed: bool,
}

/// What there is.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// The oldest first.
    pub(super) ended: Vec<Ended>,
    /// Of all recordings.
    pub(super) bytes: u64,
}

impl Spool {
    /// Opens it, and makes it where it is not there.
    ///
    /// # Errors
    /// It cannot be made, others may write in it, or another agent has it.
    pub(super) fn open(path: &Path) -> anyhow::Result<Spool> {
        let spool = Directory::open_or_make(path).with_context(|| path.display().to_string())?;
        check_is_ours(&spool)?;
        let recordings = spool
            .open_or_create_directory(OsStr::new(RECORDINGS))
            .with_context(|| path.display().to_string())?;
        check_is_ours(&recordings)?;
        let home = spool;
        let Some(lock) = recordings.lock().with_context(|| path.display().to_string())? else {
            bail!("{}: in use by another dbtime agent", path.display());
        };
        Ok(Spool {
            home,
            recordings,
            _lock: lock,
        })
    }

    /// Where the recordings of a server are. Two servers never have the same folder.
    ///
    /// # Errors
    /// It cannot be made, or others may write in it.
    pub(super) fn folder_of(&self, server: &RunningServer) -> anyhow::Result<PathBuf> {
        self.folder(&name_of(server))
    }

    /// Where its exact recordings are.
    ///
    /// # Errors
    /// As [`Spool::folder_of`].
    pub(super) fn flights_of(&self, server: &RunningServer) -> anyhow::Result<PathBuf> {
        self.folder(&format!("{}-flights", name_of(server)))
    }

    /// Where the agent keeps what it has to remember.
    ///
    /// # Errors
    /// There are too many open files.
    pub(super) fn home(&self) -> anyhow::Result<Directory> {
        Ok(self.home.try_clone()?)
    }

    fn folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = self.recordings.path().join(name);
        let folder = self
            .recordings
            .open_or_create_directory(OsStr::new(name))
            .with_context(|| path.display().to_string())?;
        check_is_ours(&folder)?;
        Ok(path)
    }

    /// Looks what there is, and ends removals that were begun. `recorded`: folders into which a recorder writes now.
    pub(super) fn look(&self, recorded: &HashSet<PathBuf>) -> Contents {
        let mut contents = Contents::default();
        for folder in self.recordings.names().unwrap_or_default() {
            if let Ok(server) = self.recordings.open_directory(&folder) {
                let is_recorded = recorded.contains(server.path());
                contents.bytes += look_into(&server, &folder, is_recorded, &mut contents.ended);
            }
        }
        contents.ended.sort_by_key(|ended| ended.end_us);
        contents
    }

    /// Removes a recording. Whoever is killed meanwhile leaves nothing that looks like one.
    ///
    /// # Errors
    /// It cannot be removed.
    pub(super) fn remove(&self, ended: &Ended) -> std::io::Result<()> {
        let server = self.recordings.open_directory(&ended.folder)?;
        let mut removed = ended.name.clone();
        removed.push(".");
        removed.push(REMOVED);
        server.rename(&ended.name, &removed)?;
        server.remove_directory(&removed)
    }
}

fn name_of(server: &RunningServer) -> String {
    let words = plain_words(&server.data_directory);
    let (device, inode) = server.directory_id;
    match words.is_empty() {
        true => format!("{device:x}-{inode:x}"),
        false => format!("{words}-{device:x}-{inode:x}"),
    }
}

/// Nobody else may put something there that root would write, upload or remove.
fn check_is_ours(directory: &Directory) -> anyhow::Result<()> {
    let name = || directory.path().display().to_string();
    let owner = directory.owner().with_context(name)?;
    if owner != rustix::process::geteuid().as_raw() {
        bail!("{}: belongs to another user (uid {owner})", name());
    }
    if directory.is_writable_by_others().with_context(name)? {
        bail!("{}: writable by group or others", name());
    }
    Ok(())
}

/// Bytes of the recordings in the folder of a server. What is no recording, and what links lead to, does not count.
fn look_into(server: &Directory, folder: &OsStr, is_recorded: bool, ended: &mut Vec<Ended>) -> u64 {
    let mut found = Vec::new();
    for name in server.names().unwrap_or_default() {
        let Ok(directory) = server.open_directory(&name) else {
            continue;
        };
        if Path::new(&name).extension() == Some(OsStr::new(REMOVED)) {
            if let Err(e) = server.remove_directory(&name) {
                say(format_args!(
                    "{}: cannot be removed: {e}",
                    server.path().join(&name).display()
                ));
            }
            continue;
        }
        let bytes = bytes_below(&directory);
        let Ok(probe) = directory.try_clone() else {
            continue;
        };
        if let Ok(recording) = Recording::inside(directory) {
            found.push((name, bytes, recording.meta().clone(), probe));
        }
    }
    let newest = found
        .iter()
        .map(|(_, _, meta, _)| meta)
        .max_by_key(|meta| meta.start_us)
        .cloned();
    let is_newest = |meta: &Meta| {
        newest
            .as_ref()
            .is_some_and(|newest| newest.start_us == meta.start_us)
    };
    // Only a recording of the same recorder refers to one before.
    let is_of_recorder = |meta: &Meta| {
        newest
            .as_ref()
            .is_some_and(|newest| newest.collector.series == meta.collector.series)
    };
    let last_ended_us = found
        .iter()
        .filter(|(_, _, meta, _)| meta.complete)
        .map(|(_, _, meta, _)| meta.start_us)
        .max();
    let all = found.iter().map(|(_, bytes, ..)| bytes).sum();
    for (name, bytes, meta, probe) in found {
        // Who writes a recording has its lock as long as it lives: without that, the recorder was killed. The newest one of a recorder
        // that lives is left alone: it may be about to take the lock.
        let may_be_begun_now = is_recorded && is_newest(&meta);
        let has_ended = meta.complete || !may_be_begun_now && matches!(probe.lock(), Ok(Some(_)));
        if has_ended {
            ended.push(Ended {
                folder: folder.to_os_string(),
                path: server.path().join(&name),
                name,
                bytes,
                end_us: meta.end_us,
                is_empty: !meta.complete && meta.segments.last == 0,
                is_needed: is_recorded && is_of_recorder(&meta) && Some(meta.start_us) >= last_ended_us,
            });
        }
    }
    all
}

/// Of all files below a directory; what goes away meanwhile does not count.
fn bytes_below(directory: &Directory) -> u64 {
    let bytes =
        directory
            .names()
            .unwrap_or_default()
            .into_iter()
            .map(|name| match directory.open_directory(&name) {
                Ok(below) => bytes_below(&below),
                Err(_) => directory
                    .open_file(&name)
                    .and_then(|file| file.metadata())
                    .map_or(0, |metadata| metadata.len()),
            });
    bytes.sum()
}
