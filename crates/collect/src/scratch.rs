//! Folders needed only while a command runs. They are removed with their owner; those of a killed owner are removed by the next start that
//! could make one. A mark inside distinguishes them from what people have named alike.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Prefixes of their names in the temporary directory.
const PREFIXES: [&str; 5] = [
    Scratch::DIVE,
    Scratch::CALIBRATE,
    Scratch::IMPORT,
    Scratch::STORE,
    Scratch::DEBUGINFOD,
];

/// File inside of each. An owner killed before creating it leaves an empty folder.
const MARK: &str = ".dbtime-scratch";

/// A folder that only its owner may read, removed when dropped.
#[derive(Debug)]
pub struct Scratch {
    folder: TempDir,
    /// Held until it is closed, which the kernel does for a process that was killed.
    _lock: File,
}

impl Scratch {
    /// The text of a dive.
    pub const DIVE: &str = "dbtime-dive-";
    /// What tools write during a calibration.
    pub const CALIBRATE: &str = "dbtime-calibrate-";
    /// Rows of an import that do not fit into memory.
    pub const IMPORT: &str = "dbtime-import-";
    /// Copies of what was read from a store.
    pub const STORE: &str = "dbtime-store-";
    /// Debug files that were fetched.
    pub(crate) const DEBUGINFOD: &str = "dbtime-debuginfod-";

    /// Creates one in the temporary directory.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn new(prefix: &str) -> io::Result<Scratch> {
        let home = std::env::temp_dir();
        loop {
            let folder = tempfile::Builder::new()
                .prefix(prefix)
                .tempdir_in(&home)
                .map_err(|e| {
                    io::Error::new(
                        e.kind(),
                        format!("{}: cannot create a temporary directory: {e}", home.display()),
                    )
                })?;
            // Another start may take it for abandoned and remove it before it is locked.
            if let Ok(Some(lock)) = lock_folder(folder.path()) {
                File::create_new(folder.path().join(MARK))?;
                return Ok(Scratch { folder, _lock: lock });
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes the folders whose owners were killed before they could. Returns what was done, in words.
pub fn mend_scratch() -> Vec<String> {
    remove_abandoned(&std::env::temp_dir())
}

fn remove_abandoned(home: &Path) -> Vec<String> {
    let entries = fs::read_dir(home).into_iter().flatten().flatten();
    let ours = |name: &OsStr| {
        let name = name.as_encoded_bytes();
        PREFIXES.iter().any(|prefix| name.starts_with(prefix.as_bytes()))
    };
    let folders: Vec<PathBuf> = entries
        .filter(|entry| ours(&entry.file_name()))
        .map(|entry| entry.path())
        .collect();
    let mut done = Vec::new();
    for folder in folders {
        // Only this user's: others may have been planted.
        let Ok(Some(_lock)) = lock_folder(&folder) else {
            continue;
        };
        if !fs::symlink_metadata(folder.join(MARK)).is_ok_and(|mark| mark.is_file()) {
            continue;
        }
        let name = folder.display();
        done.push(match fs::remove_dir_all(&folder) {
            Ok(()) => format!("removed {name}, left by a killed dbtime"),
            Err(e) => format!("{name}, left by a killed dbtime, cannot be removed: {e}"),
        });
    }
    done
}

/// Locks a folder of this user's, as long as the file is open; None if somebody else has it, or if it is another user's or gone.
pub fn lock_folder(folder: &Path) -> io::Result<Option<File>> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW)
        .open(folder)?;
    let opened = file.metadata()?;
    // SAFETY: both are plain calls: geteuid cannot fail, flock has no memory effects and the descriptor is open.
    let is_locked = unsafe {
        opened.uid() == libc::geteuid() && libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) == 0
    };
    if !is_locked {
        return Ok(None);
    }
    // It may have been removed between the two.
    let is_there = fs::symlink_metadata(folder)
        .is_ok_and(|there| (there.dev(), there.ino()) == (opened.dev(), opened.ino()));
    Ok(is_there.then_some(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_use_stays_and_what_is_abandoned_goes() {
        let home = tempfile::tempdir().expect("a temporary directory");
        let at = |name: &str| home.path().join(name);
        for name in [
            "dbtime-dive-left",
            "dbtime-debuginfod-left",
            "dbtime-import-used",
            "other-dive-x",
            // A recording that somebody has named so.
            "dbtime-import-monday.dbt",
        ] {
            fs::create_dir(at(name)).expect("an own folder");
            fs::write(at(name).join("text"), "text").expect("an own file");
            if name != "dbtime-import-monday.dbt" {
                fs::write(at(name).join(MARK), "").expect("an own file");
            }
        }
        // What was planted: links are not followed.
        std::os::unix::fs::symlink(at("other-dive-x"), at("dbtime-dive-link")).expect("an own link");
        fs::write(at("dbtime-calibrate-file"), "text").expect("an own file");
        let held = lock_folder(&at("dbtime-import-used")).expect("it is there");
        assert!(held.is_some());
        let done = remove_abandoned(home.path());
        assert_eq!(done.len(), 2, "{done:?}");
        let mut left: Vec<_> = fs::read_dir(home.path())
            .expect("it is there")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
            .collect();
        left.sort();
        assert_eq!(
            left,
            [
                "dbtime-calibrate-file",
                "dbtime-dive-link",
                "dbtime-import-monday.dbt",
                "dbtime-import-used",
                "other-dive-x"
            ]
        );
        assert!(at("other-dive-x").join("text").exists());
    }
}
