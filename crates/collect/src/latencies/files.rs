//! Names of the server's files by file system and inode.
//!
//! The kernel's program knows the inode of what was read; its name is looked for in the data directory, which is listed
//! when an unknown inode comes, but not more often than every few seconds: a server may have a hundred thousand files.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::devices::major_minor;

/// Time between two listings, and how many times longer than a listing it is at least.
const LIST_EVERY: Duration = Duration::from_secs(5);
const SHARE_OF_TIME: u32 = 20;
/// Tablespaces lie behind a link, their files four levels below the data directory's.
const DEEPEST: usize = 8;

/// See the module.
#[derive(Debug)]
pub(crate) struct Files {
    data_directory: PathBuf,
    names: HashMap<(u64, u64), String>,
    /// The same where the file system has another number inside the kernel than outside (btrfs, overlayfs): by inode
    /// alone, none when several files have it.
    by_inode: HashMap<u64, Option<String>>,
    next_listing: Option<Instant>,
}

impl Files {
    pub(crate) fn new(data_directory: &Path) -> Files {
        Files {
            data_directory: data_directory.to_path_buf(),
            names: HashMap::new(),
            by_inode: HashMap::new(),
            next_listing: None,
        }
    }

    /// From now on files are looked for here.
    pub(crate) fn set_data_directory(&mut self, data_directory: &Path) {
        self.data_directory = data_directory.to_path_buf();
        self.next_listing = None;
    }

    /// Name relative to the data directory; empty when it is not known.
    pub(crate) fn name(&mut self, file_system: u32, inode: u64) -> String {
        let (major, minor) = major_minor(file_system);
        let key = (libc::makedev(major, minor), inode);
        if self.find(key).is_none() && self.next_listing.is_none_or(|next| Instant::now() >= next) {
            self.list();
        }
        self.find(key).unwrap_or_default()
    }

    fn find(&self, key: (u64, u64)) -> Option<String> {
        self.names
            .get(&key)
            .or_else(|| self.by_inode.get(&key.1)?.as_ref())
            .cloned()
    }

    /// Lists anew. Names of files that have gone are kept: what was read of them may still come.
    fn list(&mut self) {
        let begin = Instant::now();
        let root = self.data_directory.clone();
        self.list_directory(&root, "", DEEPEST);
        self.next_listing = Some(Instant::now() + LIST_EVERY.max(begin.elapsed() * SHARE_OF_TIME));
    }

    fn list_directory(&mut self, directory: &Path, prefix: &str, levels: usize) {
        let (Ok(entries), Ok(metadata)) = (fs::read_dir(directory), fs::metadata(directory)) else {
            return;
        };
        for entry in entries.flatten() {
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            let Ok(file_type) = entry.file_type() else {
                continue;
            };
            if file_type.is_file() {
                // A file lies on the file system of its directory.
                let (device, inode) = (metadata.dev(), entry.ino());
                if self.names.get(&(device, inode)) != Some(&name) {
                    let same = self.by_inode.entry(inode).or_insert_with(|| Some(name.clone()));
                    if same.as_ref().is_some_and(|other| *other != name) {
                        *same = if self.names.contains_key(&(device, inode)) {
                            Some(name.clone())
                        } else {
                            None
                        };
                    }
                    self.names.insert((device, inode), name);
                }
            } else if levels > 0 && (file_type.is_dir() || prefix == "pg_tblspc/" || name == "pg_wal") {
                self.list_directory(&entry.path(), &format!("{name}/"), levels - 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_relative_to_the_data_directory_whatever_their_directory() {
        let root = std::env::temp_dir().join(format!("dbtime-files-{}", std::process::id()));
        let elsewhere = root.join("elsewhere");
        fs::create_dir_all(root.join("data/base/5")).unwrap();
        fs::create_dir_all(root.join("data/pg_tblspc")).unwrap();
        fs::create_dir_all(elsewhere.join("PG_15/5")).unwrap();
        std::os::unix::fs::symlink(&elsewhere, root.join("data/pg_tblspc/77")).unwrap();
        let mut files = Files::new(&root.join("data"));
        for (path, name) in [
            (root.join("data/base/5/16384"), "base/5/16384"),
            (elsewhere.join("PG_15/5/99"), "pg_tblspc/77/PG_15/5/99"),
        ] {
            fs::write(&path, "").unwrap();
            let metadata = fs::metadata(&path).unwrap();
            files.next_listing = None;
            let kernel = libc::major(metadata.dev()) << 20 | libc::minor(metadata.dev());
            assert_eq!(files.name(kernel, metadata.ino()), name);
            // A file system that has another number inside the kernel.
            assert_eq!(files.name(1, metadata.ino()), name);
        }
        assert_eq!(files.name(1, u64::MAX), "");
        fs::remove_dir_all(&root).unwrap();
    }
}
