//! Names of the server's files by file system and inode.
//!
//! The BPF program knows the inode of what was read; its name is looked up in the data directory, which is listed when an unknown inode
//! appears, but only every few seconds: a server may have a hundred thousand files.
//!
//! The server decides what is there, and where its tablespace links lead: they are followed only below its root, and not for ever.

use std::collections::HashMap;
use std::ffi::CStr;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::fs::FileType;

use crate::devices::major_minor;
use crate::target_file::TargetDirectory;

/// Time between two listings, and how many times as long as a listing it is at least.
const LIST_EVERY: Duration = Duration::from_secs(5);
const SHARE_OF_TIME: u32 = 20;
/// Tablespaces are behind a link, their files four levels below the data directory.
const DEEPEST: usize = 8;
/// Limits of a listing: the names of half a million files have 10 MB.
const MOST_NAMES: usize = 500_000;
const MOST_BYTES: usize = 64 << 20;
/// Maximum number of entries that a listing counts, to say how many have no name.
const MOST_COUNTED: usize = 2_000_000;

/// See the module.
#[derive(Debug)]
pub(crate) struct Files {
    /// The process whose working directory is the data directory.
    server: Option<u32>,
    known: Known,
    next_listing: Option<Instant>,
    /// Files in the last listing for which there was no room.
    left_out: usize,
}

impl Files {
    pub(crate) fn new(server: Option<u32>) -> Files {
        Files {
            server,
            known: Known::default(),
            next_listing: None,
            left_out: 0,
        }
    }

    /// From now on files are looked up in the working directory of this process. If that is another directory, its inode numbers may have
    /// been those of other files.
    pub(crate) fn set_server(&mut self, server: Option<u32>, has_other_files: bool) {
        self.server = server;
        if has_other_files {
            self.known = Known::default();
        }
        self.next_listing = None;
    }

    /// Files of the data directory for which there is no room: reads from them have no name.
    pub(crate) fn left_out(&self) -> usize {
        self.left_out
    }

    /// Name relative to the data directory; empty when it is not known.
    pub(crate) fn name(&mut self, file_system: u32, inode: u64) -> &str {
        let (major, minor) = major_minor(file_system);
        let key = (libc::makedev(major, minor), inode);
        if self.known.find(key).is_none() && self.next_listing.is_none_or(|next| Instant::now() >= next) {
            self.list();
        }
        self.known.find(key).unwrap_or_default()
    }

    /// Lists the files again. Names of deleted files are kept: reads from them may still arrive.
    fn list(&mut self) {
        let begin = Instant::now();
        let data_directory = self
            .server
            .ok_or_else(|| io::ErrorKind::NotFound.into())
            .and_then(TargetDirectory::working);
        if let Ok(data_directory) = data_directory {
            self.left_out = self.known.list(&data_directory, Room::default());
        }
        self.next_listing = Some(Instant::now() + LIST_EVERY.max(begin.elapsed() * SHARE_OF_TIME));
    }
}

/// How much a listing may still keep.
#[derive(Debug)]
struct Room {
    names: usize,
    bytes: usize,
    counted: usize,
    left_out: usize,
}

impl Default for Room {
    fn default() -> Room {
        Room {
            names: MOST_NAMES,
            bytes: MOST_BYTES,
            counted: MOST_COUNTED,
            left_out: 0,
        }
    }
}

impl Room {
    fn has(&mut self, name: &str) -> bool {
        if self.names == 0 || name.len() > self.bytes {
            self.left_out += 1;
            return false;
        }
        self.names -= 1;
        self.bytes -= name.len();
        true
    }
}

/// Names that were found.
#[derive(Debug, Default)]
struct Known {
    names: HashMap<(u64, u64), Rc<str>>,
    /// The same for file systems whose number differs inside and outside of the kernel (btrfs, overlayfs): by inode alone, None if
    /// several files have it.
    by_inode: HashMap<u64, Option<Rc<str>>>,
    /// Bytes of the names, including replaced ones.
    bytes: usize,
}

impl Known {
    fn find(&self, key: (u64, u64)) -> Option<&str> {
        self.names
            .get(&key)
            .or_else(|| self.by_inode.get(&key.1)?.as_ref())
            .map(AsRef::as_ref)
    }

    /// Adds what is in a data directory; returns how many files have no room.
    fn list(&mut self, data_directory: &TargetDirectory, mut room: Room) -> usize {
        // Deleted files must not make it grow for ever.
        if self.names.len() > room.names || self.bytes > room.bytes {
            *self = Known::default();
        }
        // What cannot be read has no names.
        let _ = self.list_directory(data_directory, "", DEEPEST, &mut room);
        room.left_out
    }

    fn list_directory(
        &mut self,
        directory: &TargetDirectory,
        prefix: &str,
        levels: usize,
        room: &mut Room,
    ) -> io::Result<()> {
        let device = directory.device()?;
        for entry in directory.entries()? {
            let entry = entry?;
            let entry_name = entry.file_name();
            if matches!(entry_name.to_bytes(), b"." | b"..") {
                continue;
            }
            if room.counted == 0 {
                return Ok(());
            }
            room.counted -= 1;
            let name = format!("{prefix}{}", entry_name.to_string_lossy());
            let inner = match entry.file_type() {
                FileType::RegularFile => {
                    // A file is on the file system of its directory.
                    if room.has(&name) {
                        self.add((device, entry.ino()), name);
                    }
                    continue;
                }
                FileType::Directory => directory.subdirectory(entry_name),
                FileType::Symlink if is_followed(prefix, entry_name) => directory.behind_link(entry_name),
                _ => continue,
            };
            if levels > 0
                && let Ok(inner) = inner
            {
                let _ = self.list_directory(&inner, &format!("{name}/"), levels - 1, room);
            }
        }
        Ok(())
    }

    fn add(&mut self, key: (u64, u64), name: String) {
        let name: Rc<str> = name.into();
        if self.names.get(&key) == Some(&name) {
            return;
        }
        self.bytes += name.len();
        let same = self
            .by_inode
            .entry(key.1)
            .or_insert_with(|| Some(Rc::clone(&name)));
        if same.as_ref().is_some_and(|other| *other != name) {
            *same = self.names.contains_key(&key).then(|| Rc::clone(&name));
        }
        self.names.insert(key, name);
    }
}

/// Tablespaces and the write-ahead log may be elsewhere.
fn is_followed(prefix: &str, name: &CStr) -> bool {
    prefix == "pg_tblspc/" || prefix.is_empty() && name.to_bytes() == b"pg_wal"
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Metadata};
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::path::Path;

    use super::*;

    fn key(metadata: &Metadata) -> (u64, u64) {
        (metadata.dev(), metadata.ino())
    }

    fn list(root: &Path, room: Room) -> (Known, usize) {
        let mut known = Known::default();
        let data_directory = TargetDirectory::below(root, Path::new("/data")).unwrap();
        let left_out = known.list(&data_directory, room);
        (known, left_out)
    }

    #[test]
    fn files_are_named_relative_to_the_data_directory_whatever_their_directory() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("root");
        for folder in [
            "data/base/5",
            "data/pg_tblspc",
            "mnt/one/PG_15/5",
            "mnt/two",
            "mnt/wal",
        ] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        // As the server sees them: absolute paths begin at its root.
        symlink("/mnt/one", root.join("data/pg_tblspc/77")).unwrap();
        symlink("../../mnt/two", root.join("data/pg_tblspc/78")).unwrap();
        symlink("/mnt/wal", root.join("data/pg_wal")).unwrap();
        for (path, name) in [
            ("data/base/5/16384", "base/5/16384"),
            ("mnt/one/PG_15/5/99", "pg_tblspc/77/PG_15/5/99"),
            ("mnt/two/98", "pg_tblspc/78/98"),
            (
                "mnt/wal/000000010000000000000001",
                "pg_wal/000000010000000000000001",
            ),
        ] {
            fs::write(root.join(path), "").unwrap();
            let (device, inode) = key(&fs::metadata(root.join(path)).unwrap());
            let (known, left_out) = list(&root, Room::default());
            assert_eq!((known.find((device, inode)), left_out), (Some(name), 0));
            // A file system whose number differs inside the kernel.
            assert_eq!(known.find((1, inode)), Some(name));
            assert_eq!(known.find((1, u64::MAX)), None);
        }
    }

    #[test]
    fn links_out_of_the_root_of_the_server_and_others_are_not_followed() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("root");
        fs::create_dir_all(root.join("data/pg_tblspc")).unwrap();
        fs::create_dir_all(root.join("data/base")).unwrap();
        let secret = home.path().join("secret");
        fs::create_dir(&secret).unwrap();
        fs::write(secret.join("file"), "").unwrap();
        for (number, link) in [
            secret.as_path(),
            Path::new("../../../secret"),
            Path::new("/proc/self/cwd"),
        ]
        .iter()
        .enumerate()
        {
            symlink(link, root.join(format!("data/pg_tblspc/{number}"))).unwrap();
        }
        // Inside, but links do not belong there.
        fs::create_dir(root.join("elsewhere")).unwrap();
        fs::write(root.join("elsewhere/file"), "").unwrap();
        symlink("/elsewhere", root.join("data/base/9")).unwrap();
        let (known, _) = list(&root, Room::default());
        assert_eq!(known.names.len(), 0, "{known:?}");
    }

    #[test]
    fn what_finds_no_room_is_counted_and_what_has_gone_makes_room() {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("data");
        fs::create_dir_all(data.join("base/5")).unwrap();
        for number in 0..1_000 {
            fs::write(data.join(format!("base/5/{number:04}")), "").unwrap();
        }
        let room = |names, bytes| Room {
            names,
            bytes,
            ..Room::default()
        };
        let (known, left_out) = list(home.path(), room(300, MOST_BYTES));
        assert_eq!((known.names.len(), left_out), (300, 700));
        // `base/5/0000`: eleven bytes each.
        let (known, left_out) = list(home.path(), room(MOST_NAMES, 1_100));
        assert_eq!((known.names.len(), left_out), (100, 900));
        // A listing ends at some point, even if it only counts.
        let bounded = Room {
            names: 0,
            counted: 500,
            ..Room::default()
        };
        let (_, left_out) = list(home.path(), bounded);
        assert!((490..=500).contains(&left_out), "{left_out}");

        let (mut known, _) = list(home.path(), Room::default());
        fs::remove_dir_all(data.join("base/5")).unwrap();
        fs::write(data.join("base/new"), "").unwrap();
        let directory = TargetDirectory::below(home.path(), Path::new("/data")).unwrap();
        known.list(&directory, room(999, MOST_BYTES));
        assert_eq!(known.names.len(), 1, "the thousand that have gone");
    }
}
