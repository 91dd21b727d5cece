//! The directory that the demo leaves: never one that exists, and gone again when the demo fails.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, lchown};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::data::ReadFrom;
use crate::output::say;

/// Name in the current directory; `-2`, `-3` … is added when it is taken.
const NAME: &str = "dbtime-demo";
/// More are a sign that nobody looks at them.
const MOST: u32 = 1000;

pub(super) struct OutputDirectory {
    path: PathBuf,
    keep: bool,
}

impl OutputDirectory {
    /// Creates the directory that was asked for, or one in the current directory.
    pub(super) fn create(wanted: Option<&Path>) -> Result<OutputDirectory> {
        if let Some(path) = wanted {
            return match create(path) {
                Err(e) if e.kind() == ErrorKind::AlreadyExists => bail!(
                    "{} exists already: choose another name or remove it",
                    path.display()
                ),
                done => done
                    .map(|()| OutputDirectory::of(path.to_path_buf()))
                    .with_context(|| path.display().to_string()),
            };
        }
        for number in 1..=MOST {
            let path = match number {
                1 => PathBuf::from(NAME),
                _ => PathBuf::from(format!("{NAME}-{number}")),
            };
            match create(&path) {
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                done => {
                    return done
                        .map(|()| OutputDirectory::of(path.clone()))
                        .with_context(|| path.display().to_string());
                }
            }
        }
        bail!("{NAME} up to {NAME}-{MOST} exist already: remove some or choose a name with -o")
    }

    fn of(path: PathBuf) -> OutputDirectory {
        OutputDirectory { path, keep: false }
    }

    pub(super) fn recording(&self, from: ReadFrom) -> PathBuf {
        self.path.join(format!("{}.dbt", from.file_name()))
    }

    pub(super) fn flame_graph(&self, from: ReadFrom) -> PathBuf {
        self.path.join(format!("{}.svg", from.file_name()))
    }

    /// The demo has succeeded: the directory stays, and belongs to who called sudo.
    pub(super) fn keep(mut self) {
        self.keep = true;
        if let Some((uid, gid)) = caller_of_sudo()
            && let Err(e) = give(&self.path, uid, gid)
        {
            say(format_args!("note: {} stays root's: {e}", self.path.display()));
        }
    }
}

impl Drop for OutputDirectory {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        // Only what the demo makes: nothing is lost that somebody else has put there. What cannot be removed
        // stays, a drop has nobody to tell.
        for from in ReadFrom::BOTH {
            let _ = fs::remove_dir_all(self.recording(from));
            let _ = fs::remove_file(self.flame_graph(from));
        }
        let _ = fs::remove_dir(&self.path);
    }
}

/// Only for its owner, as recordings are.
fn create(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

fn caller_of_sudo() -> Option<(u32, u32)> {
    // SAFETY: geteuid reads the caller's credentials and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return None;
    }
    let id = |name| std::env::var(name).ok()?.parse().ok();
    Some((id("SUDO_UID")?, id("SUDO_GID")?))
}

/// Contents first: until the last step nobody else can change what is in the directory.
fn give(path: &Path, uid: u32, gid: u32) -> io::Result<()> {
    if path.symlink_metadata()?.is_dir() {
        for entry in fs::read_dir(path)? {
            give(&entry?.path(), uid, gid)?;
        }
    }
    lchown(path, Some(uid), Some(gid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demo_that_fails_removes_what_it_made_and_nothing_else() {
        let home = tempfile::tempdir().expect("a temporary directory");
        let path = home.path().join("out");
        let output = OutputDirectory::create(Some(&path)).expect("it is new");
        fs::create_dir_all(output.recording(ReadFrom::Device).join("activity")).expect("it is ours");
        fs::write(output.flame_graph(ReadFrom::PageCache), "svg").expect("it is ours");
        drop(output);
        assert!(!path.exists());

        let output = OutputDirectory::create(Some(&path)).expect("it is new again");
        fs::write(path.join("mine"), "mine").expect("it is ours");
        drop(output);
        assert_eq!(fs::read(path.join("mine")).expect("it stays"), b"mine");
        let error = OutputDirectory::create(Some(&path)).err().expect("it exists");
        assert!(error.to_string().contains("exists already"), "{error}");
    }
}
