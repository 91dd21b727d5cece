//! Copies of files read from a remote store, so that each is read once. In a folder that nobody else uses; bounded.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

/// Most bytes of all copies. What does not fit is read again.
const MOST: u64 = 1 << 30;
/// A copy may take the free space divided by this.
const LEFT_TO_OTHERS: u64 = 2;

/// Copies of files. Whoever created the folder removes it.
#[derive(Debug)]
pub(crate) struct Copies {
    folder: PathBuf,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// By the name of the file.
    copies: HashMap<OsString, PathBuf>,
    /// Copies started so far: numbers their files.
    begun: u64,
    bytes: u64,
}

impl Copies {
    pub(crate) fn inside(folder: &Path) -> Copies {
        Copies {
            folder: folder.to_path_buf(),
            kept: Mutex::default(),
        }
    }

    pub(crate) fn get(&self, name: &OsStr) -> Option<Bytes> {
        let path = self.lock().copies.get(name)?.clone();
        fs::read(path).ok().map(Bytes::from)
    }

    /// Keeps a copy if there is room.
    pub(crate) fn keep(&self, name: &OsStr, bytes: &[u8]) {
        let length = bytes.len() as u64;
        let path = {
            let mut kept = self.lock();
            let is_known = kept.copies.contains_key(name);
            if is_known || kept.bytes.saturating_add(length) > MOST || length > self.room() {
                return;
            }
            kept.begun += 1;
            kept.bytes += length;
            self.folder.join(format!("{}.parquet", kept.begun))
        };
        match fs::write(&path, bytes) {
            Ok(()) => {
                self.lock().copies.insert(name.to_owned(), path);
            }
            Err(_) => {
                let _ = fs::remove_file(&path);
                self.lock().bytes -= length;
            }
        }
    }

    /// Most bytes that a copy may have.
    fn room(&self) -> u64 {
        rustix::fs::statvfs(&self.folder).map_or(0, |room| {
            room.f_bavail.saturating_mul(room.f_frsize) / LEFT_TO_OTHERS
        })
    }

    /// Consistent at any moment, also after a panic.
    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_copy_stays_what_it_is() {
        let home = tempfile::tempdir().expect("a folder");
        let copies = Copies::inside(home.path());
        let name = |n: u32| OsString::from(format!("{n}"));
        // Two threads that read the same file both offer it.
        for n in [1, 1, 2, 2, 3] {
            copies.keep(&name(n), format!("file {n}").as_bytes());
        }
        for n in 1..=3 {
            assert_eq!(copies.get(&name(n)), Some(Bytes::from(format!("file {n}"))));
        }
        assert_eq!(copies.get(&name(4)), None);
        assert_eq!(fs::read_dir(home.path()).expect("a folder").count(), 3);
    }

    #[test]
    fn copies_are_bounded_and_one_that_cannot_be_made_takes_no_room() {
        let home = tempfile::tempdir().expect("a folder");
        let copies = Copies::inside(home.path());
        copies.lock().bytes = MOST - 10;
        copies.keep(OsStr::new("large"), b"more than ten bytes");
        assert_eq!(copies.get(OsStr::new("large")), None);
        copies.keep(OsStr::new("small"), b"ten bytes!");
        assert_eq!(
            copies.get(OsStr::new("small")),
            Some(Bytes::from_static(b"ten bytes!"))
        );
        let nowhere = Copies::inside(&home.path().join("nowhere"));
        nowhere.keep(OsStr::new("a"), b"text");
        assert_eq!((nowhere.get(OsStr::new("a")), nowhere.lock().bytes), (None, 0));
    }
}
