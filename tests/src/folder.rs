//! The contents of a folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// All files in a folder and below, with their contents, by path.
///
/// # Panics
/// When one cannot be read.
#[track_caller]
pub fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => {
                let bytes = fs::read(&path).expect("a file");
                found.push((path, bytes));
            }
        }
    }
    found.sort();
    found
}

/// Copies everything in a folder and below into another one, which is created if it does not exist.
///
/// # Panics
/// When something cannot be read or written.
#[track_caller]
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &to);
        } else {
            fs::copy(&path, &to).expect("a file");
        }
    }
}

/// Copies a folder with the owners, modes and times of its files; into `to`, if that exists, else to that name.
///
/// # Panics
/// When it cannot be copied.
#[track_caller]
pub(crate) fn copy_with_owners(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
    let is_whole = copied.is_ok_and(|status| status.success());
    assert!(
        is_whole,
        "{} cannot be copied to {}",
        from.display(),
        to.display()
    );
}
