//! Tests: whoever writes below a folder is killed before any change that others can see.
//!
//! Everything is made by [`super`], and before each system call by which it changes what others find below a folder (`mkdirat`, `linkat`,
//! `renameat`, `unlinkat`) there is a [`step`]. From the step on at which a writer is killed, none of these is made, whoever asks for it:
//! cleanup after an error, a thread that merges. So what is left is what SIGKILL at that system call leaves, and, because no other one
//! makes a difference, at every one since the previous step:
//!
//! - `openat`, `write` and `fsync` of a file that has no name yet (`O_TMPFILE`): the file is gone with its process. Where the file system
//!   has no such files, it has a name that no reader takes; [`leave_unfinished`] puts one into each folder.
//! - `fsync` of a directory: what it does matters when the host loses power, not when a process ends.
//! - `flock`: the lock goes with the process, as it goes with the writer that a test drops.
//! - `fchown`, `fchmod`: the same files, of another owner or mode.
//! - `mkdirat` on the way to a folder that must exist ([`super::Directory::open_or_make`]): the next process makes the rest.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Folders in which writers are killed. Tests run side by side, each with its own.
static MORTAL: Mutex<Vec<Life>> = Mutex::new(Vec::new());

struct Life {
    /// By all of its names.
    home: [PathBuf; 2],
    /// Changes that are made before it ends.
    left: usize,
    is_over: bool,
}

/// While this exists, whoever writes below its folder makes so many changes and no more.
pub(crate) struct Mortal {
    home: PathBuf,
}

impl Mortal {
    pub(crate) fn below(home: &Path, changes: usize) -> Mortal {
        let home = home.to_path_buf();
        lives().push(Life {
            home: [home.clone(), home.canonicalize().expect("a folder")],
            left: changes,
            is_over: false,
        });
        Mortal { home }
    }

    /// Whether a change was not made.
    pub(crate) fn is_dead(&self) -> bool {
        lives()
            .iter()
            .any(|life| life.home.contains(&self.home) && life.is_over)
    }
}

impl Drop for Mortal {
    fn drop(&mut self) {
        lives().retain(|life| !life.home.contains(&self.home));
    }
}

fn lives() -> MutexGuard<'static, Vec<Life>> {
    MORTAL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Called before a change in this folder.
pub(super) fn step(folder: &Path) -> io::Result<()> {
    let mut lives = lives();
    let is_below = |life: &&mut Life| life.home.iter().any(|home| folder.starts_with(home));
    let Some(life) = lives.iter_mut().find(is_below) else {
        return Ok(());
    };
    match life.left.checked_sub(1) {
        Some(left) => {
            life.left = left;
            Ok(())
        }
        None => {
            life.is_over = true;
            Err(io::Error::other("killed"))
        }
    }
}

/// The same, where only the open folder is known.
pub(super) fn step_in(folder: impl AsFd) -> io::Result<()> {
    let fd = folder.as_fd().as_raw_fd();
    step(&fs::read_link(format!("/proc/self/fd/{fd}"))?)
}

/// Puts into this folder and all below it what a killed writer leaves where files without a name are not supported.
pub(crate) fn leave_unfinished(folder: &Path) {
    fs::write(folder.join(".dbtime-0000000000000000.tmp"), "PAR1").expect("it can be written");
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            leave_unfinished(&path);
        }
    }
}
