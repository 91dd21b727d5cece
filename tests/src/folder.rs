//! What lies in a folder.

use std::fs;
use std::path::{Path, PathBuf};

/// All files in a folder and below, with what is in them, by their paths.
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
