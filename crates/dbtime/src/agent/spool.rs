//! Recordings on this host: those that are being made, and those that have ended and wait for the store.
//!
//! ```text
//! SPOOL/recordings/SERVER/NAME.dbt            one folder for each server
//! SPOOL/recordings/SERVER/NAME.dbt.removed    on its way out: whoever was killed while removing it leaves that
//! ```

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use dbtime_collect::RunningServer;
use dbtime_model::output::{Directory, Lock};
use dbtime_model::recording::Recording;

use crate::output::say;
use crate::record::plain_words;

const RECORDINGS: &str = "recordings";
const REMOVED: &str = "removed";

/// See the module.
pub(super) struct Spool {
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
    /// It cannot be made, others could write in it, or another agent has it.
    pub(super) fn open(path: &Path) -> anyhow::Result<Spool> {
        let name = || path.display().to_string();
        let spool = Directory::open_or_make(path).with_context(name)?;
        let owner = spool.owner().with_context(name)?;
        if owner != rustix::process::geteuid().as_raw() {
            bail!("{}: it belongs to another user (uid {owner})", name());
        }
        let recordings = spool
            .open_or_create_directory(OsStr::new(RECORDINGS))
            .with_context(name)?;
        let Some(lock) = recordings.lock().with_context(name)? else {
            bail!("{}: another agent has it", name());
        };
        Ok(Spool {
            recordings,
            _lock: lock,
        })
    }

    /// Where the recordings of a server are. Two servers never have the same folder.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn folder_of(&self, server: &RunningServer) -> anyhow::Result<PathBuf> {
        let words = plain_words(&server.data_directory);
        let (device, inode) = server.directory_id;
        let name = match words.is_empty() {
            true => format!("{device:x}-{inode:x}"),
            false => format!("{words}-{device:x}-{inode:x}"),
        };
        let path = self.recordings.path().join(&name);
        self.recordings
            .open_or_create_directory(OsStr::new(&name))
            .with_context(|| path.display().to_string())?;
        Ok(path)
    }

    /// Looks what there is, and ends removals that were begun.
    pub(super) fn look(&self) -> Contents {
        let mut contents = Contents::default();
        for folder in self.recordings.names().unwrap_or_default() {
            let Ok(server) = self.recordings.open_directory(&folder) else {
                continue;
            };
            for name in server.names().unwrap_or_default() {
                if Path::new(&name).extension() == Some(OsStr::new(REMOVED)) {
                    if let Err(e) = server.remove_directory(&name) {
                        say(format_args!("{}: {e}", server.path().join(&name).display()));
                    }
                    continue;
                }
                let path = server.path().join(&name);
                let bytes = bytes_below(&path);
                contents.bytes += bytes;
                let Ok(directory) = server.open_directory(&name) else {
                    continue;
                };
                // Who writes it has this lock as long as it lives: without that, the recorder was killed.
                let nobody_writes = matches!(directory.lock(), Ok(Some(_)));
                if let Ok(recording) = Recording::inside(directory)
                    && (recording.meta().complete || nobody_writes)
                {
                    contents.ended.push(Ended {
                        folder: folder.clone(),
                        name,
                        path,
                        bytes,
                        end_us: recording.meta().end_us,
                    });
                }
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

/// Of all files below a directory; what goes away meanwhile does not count.
fn bytes_below(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else {
        return 0;
    };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}
