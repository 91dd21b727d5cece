//! An open directory: what is made in it stays in it, whatever becomes of its name.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, Stat, flock, fstat, fsync, mkdirat, openat,
    renameat, statat, unlinkat,
};
use rustix::io::Errno;

use super::lookup::{self, Missing};
use super::{DIRECTORY_MODE, NewFile, Owner, caller_of_sudo};

/// A directory that is open. Its path is for messages only: nothing is looked up by it again.
#[derive(Debug)]
pub struct Directory {
    fd: OwnedFd,
    path: PathBuf,
}

/// See [`Directory::lock`].
#[derive(Debug)]
pub struct Lock {
    _fd: OwnedFd,
}

impl Directory {
    /// Opens a directory that exists. Links on the way are followed unless they belong to somebody else.
    ///
    /// # Errors
    /// There is none, or another user's link is on the way.
    pub fn open(path: &Path) -> io::Result<Directory> {
        Directory::look_up(path, Missing::Refuse)
    }

    /// Opens a directory to read what is in it: links on the way are followed, whoever made them.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn open_to_read(path: &Path) -> io::Result<Directory> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Directory {
            fd: openat(CWD, path, flags, Mode::empty())?,
            path: path.to_path_buf(),
        })
    }

    /// Opens a directory; missing parts of its path are made, readable by all.
    ///
    /// # Errors
    /// As [`Directory::open`], or it cannot be made.
    pub fn open_or_make(path: &Path) -> io::Result<Directory> {
        Directory::look_up(path, Missing::Make)
    }

    fn look_up(path: &Path, missing: Missing) -> io::Result<Directory> {
        Ok(Directory {
            fd: lookup::directory(path, missing)?,
            path: path.to_path_buf(),
        })
    }

    /// Where it was when it was opened: for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a directory in it, for its owner only (0700).
    ///
    /// # Errors
    /// The name is taken ([`io::ErrorKind::AlreadyExists`]), it cannot be made, or somebody put another directory in its place
    /// at once.
    pub fn create_directory(&self, name: &OsStr) -> io::Result<Directory> {
        #[cfg(test)]
        super::killed::step(&self.path)?;
        mkdirat(&self.fd, name, DIRECTORY_MODE)?;
        let made = self.open_directory(name)?;
        if !made.is_new()? {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "another user put another directory in its place",
            ));
        }
        Ok(made)
    }

    /// Whether it is empty and has the owner that our files get in it (which need not be us: NFS and FAT have their own rules).
    fn is_new(&self) -> io::Result<bool> {
        let ours = NewFile::create(self)?.file().metadata()?.uid();
        Ok(fstat(&self.fd)?.st_uid == ours && self.names()?.is_empty())
    }

    /// Opens a directory in it; a link is not one.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn open_directory(&self, name: &OsStr) -> io::Result<Directory> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Directory {
            fd: openat(&self.fd, name, flags, Mode::empty())?,
            path: self.path.join(name),
        })
    }

    /// Opens a directory in it, or makes it for its owner only (0700); a new one belongs to the user who called sudo, if any.
    /// Several may do so at once. Whose it is does not matter to callers that make files for their owner only, and follow no links.
    ///
    /// # Errors
    /// It cannot be made or read, or the name is that of something else.
    pub fn open_or_create_directory(&self, name: &OsStr) -> io::Result<Directory> {
        match self.open_directory(name) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            other => return other,
        }
        #[cfg(test)]
        super::killed::step(&self.path)?;
        let is_new = match mkdirat(&self.fd, name, DIRECTORY_MODE) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(e) => return Err(e.into()),
        };
        let directory = self.open_directory(name)?;
        // If there is something in it already, it is not what was made: somebody has put it in its place.
        if let (true, Some(Owner { uid, gid })) = (is_new, caller_of_sudo())
            && directory.names()?.is_empty()
        {
            let (uid, gid) = (rustix::fs::Uid::from_raw(uid), rustix::fs::Gid::from_raw(gid));
            // If it cannot be given away it stays root's: better than none.
            let _ = rustix::fs::fchown(&directory.fd, Some(uid), Some(gid));
        }
        if is_new {
            self.sync()?;
        }
        Ok(directory)
    }

    /// Opens a file in it for reading. Only a regular file counts: no link, no FIFO, no device.
    ///
    /// # Errors
    /// There is none, it is something else, or it cannot be read.
    pub fn open_file(&self, name: &OsStr) -> io::Result<File> {
        // Non-blocking: a FIFO without a writer must not hold us up before its type is checked.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let what = match statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode {
            mode if FileType::from_raw_mode(mode) == FileType::RegularFile => {
                let fd = openat(&self.fd, name, flags, Mode::empty())?;
                match FileType::from_raw_mode(fstat(&fd)?.st_mode) {
                    FileType::RegularFile => return Ok(fd.into()),
                    other => other,
                }
            }
            mode => FileType::from_raw_mode(mode),
        };
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("not a file, but {}", in_words(what)),
        ))
    }

    /// Names of what is in it, in no particular order.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::new(lookup::readable(&self.fd)?)? {
            let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Makes the file `name` of what `fill` writes, or leaves everything as it was. A file of this name is replaced when the new
    /// one is whole and on the disk. Returns its length in bytes.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn replace<E>(&self, name: &OsStr, fill: impl FnOnce(&mut File) -> Result<(), E>) -> io::Result<u64>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let mut file = NewFile::create(self)?;
        fill(file.file()).map_err(io_error)?;
        file.commit(self, name)
    }

    /// Another handle on the same directory.
    ///
    /// # Errors
    /// There are too many open files.
    pub fn try_clone(&self) -> io::Result<Directory> {
        Ok(Directory {
            fd: self.fd.try_clone()?,
            path: self.path.clone(),
        })
    }

    /// Advisory lock for a writer, until it is dropped or its process ends, however it ends; none if another one has it.
    ///
    /// # Errors
    /// The file system has no locks, or the directory cannot be read.
    pub fn lock(&self) -> io::Result<Option<Lock>> {
        let fd = lookup::readable(&self.fd)?;
        match flock(&fd, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock { _fd: fd })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// Whose it is.
    ///
    /// # Errors
    /// Its status cannot be read.
    pub fn owner(&self) -> io::Result<u32> {
        Ok(fstat(&self.fd)?.st_uid)
    }

    /// Whether others than its owner may write in it.
    ///
    /// # Errors
    /// Its status cannot be read.
    pub fn is_writable_by_others(&self) -> io::Result<bool> {
        Ok(fstat(&self.fd)?.st_mode & 0o022 != 0)
    }

    /// Whether there is something with this name.
    ///
    /// # Errors
    /// Its status cannot be read.
    pub fn contains(&self, name: &OsStr) -> io::Result<bool> {
        Ok(self.stat(name)?.is_some())
    }

    /// Gives a file another name, replacing one that has it; on disk when this returns.
    ///
    /// # Errors
    /// It cannot be renamed: both are unchanged.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        #[cfg(test)]
        super::killed::step(&self.path)?;
        renameat(&self.fd, from, &self.fd, to)?;
        self.sync()
    }

    /// Removes a file, or a link but not its target. It is no error if there is none.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        #[cfg(test)]
        if self.contains(name)? {
            super::killed::step(&self.path)?;
        }
        match unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Removes a directory in it with everything in that; links are removed, not followed. It is no error if there is none.
    ///
    /// # Errors
    /// Something cannot be removed.
    pub fn remove_directory(&self, name: &OsStr) -> io::Result<()> {
        match self.open_directory(name) {
            Ok(directory) => directory.clear()?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(e),
        }
        #[cfg(test)]
        super::killed::step(&self.path)?;
        Ok(unlinkat(&self.fd, name, AtFlags::REMOVEDIR)?)
    }

    /// Removes everything in it.
    ///
    /// # Errors
    /// Something cannot be removed.
    pub(crate) fn clear(&self) -> io::Result<()> {
        for name in self.names()? {
            #[cfg(test)]
            super::killed::step(&self.path)?;
            match unlinkat(&self.fd, &name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                // What Linux and POSIX say about a directory.
                Err(Errno::ISDIR | Errno::PERM) => self.remove_directory(&name)?,
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// Gives it and everything in it to another user. Links themselves are given, not their targets.
    ///
    /// # Errors
    /// Something cannot be given.
    pub fn give(&self, to: Owner) -> io::Result<()> {
        let (owner, group) = (
            Some(rustix::fs::Uid::from_raw(to.uid)),
            Some(rustix::fs::Gid::from_raw(to.gid)),
        );
        // Contents first: until the last step nobody else can change what is in the directory.
        for name in self.names()? {
            match self.open_directory(&name) {
                Ok(directory) => directory.give(to)?,
                Err(_) => rustix::fs::chownat(&self.fd, &name, owner, group, AtFlags::SYMLINK_NOFOLLOW)?,
            }
        }
        Ok(rustix::fs::fchown(&self.fd, owner, group)?)
    }

    /// What has this name, a link itself and not its target; none if there is nothing.
    pub(super) fn stat(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        match statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// Whether this name refers to this directory (now).
    pub(super) fn is(&self, parent: &Directory, name: &OsStr) -> io::Result<bool> {
        let own = fstat(&self.fd)?;
        let there = parent.stat(name)?;
        Ok(there.is_some_and(|there| (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino)))
    }

    /// Where it is now, as far as the kernel says.
    pub(super) fn now_at(&self) -> Option<PathBuf> {
        use std::os::fd::AsRawFd;
        std::fs::read_link(format!("/proc/self/fd/{}", self.fd.as_raw_fd())).ok()
    }

    /// Makes the names in it durable, if it can be read.
    pub(super) fn sync(&self) -> io::Result<()> {
        match lookup::readable(&self.fd) {
            // Some file systems cannot sync a directory.
            Ok(fd) => match fsync(fd) {
                Err(Errno::INVAL) | Ok(()) => Ok(()),
                Err(e) => Err(e.into()),
            },
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            Err(e) => Err(e),
        }
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What it is instead of a file, for messages.
pub(super) fn in_words(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice => "a character device",
        FileType::BlockDevice => "a block device",
        FileType::Unknown => "something unknown",
    }
}

/// Finds the operating system's error under whatever a writing library wrapped around it, so that a full
/// disk is still recognised as one.
fn io_error(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    let error = error.into();
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&*error);
    while let Some(e) = cause {
        if let Some(code) = e.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
            return io::Error::from_raw_os_error(code);
        }
        cause = e.source();
    }
    io::Error::other(error)
}
