//! The input files: no answer may overwrite one of them.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// See [`identity`].
static READ: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());

/// Device and inode of a file.
pub fn identity(of: &Metadata) -> (u64, u64) {
    (of.dev(), of.ino())
}

/// Notes a file of another tool that will be read. Only a regular file could be replaced by an output.
pub fn note(path: &Path) {
    if let Ok(metadata) = path.metadata()
        && metadata.is_file()
    {
        let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
        read.push(identity(&metadata));
    }
}

/// Whether an answer may have this name.
///
/// # Errors
/// The name is that of an input file.
pub fn check(output: &Path) -> io::Result<()> {
    let read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    match output.metadata() {
        Ok(metadata) if read.contains(&identity(&metadata)) => Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "it is one of the input files: choose another name",
        )),
        _ => Ok(()),
    }
}
