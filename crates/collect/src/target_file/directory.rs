//! Directories under the control of a traced process: their contents may be looked at, no link leads out of its root.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
#[cfg(test)]
use std::path::Path;
use std::path::PathBuf;
use std::rc::Rc;

use rustix::fs::{Dir, Mode, OFlags, ResolveFlags};

use super::{TargetFile, open_directory};
use crate::process;

const OPENS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

/// A directory, open for reading.
#[derive(Debug)]
pub(crate) struct TargetDirectory {
    directory: OwnedFd,
    /// Where it is below the root, as far as that is known: for relative links.
    path: PathBuf,
    root: Rc<OwnedFd>,
}

impl TargetDirectory {
    /// The working directory of a process, which the kernel finds: no name is looked up.
    ///
    /// # Errors
    /// The process is gone, or may not be looked at.
    pub(crate) fn working(pid: u32) -> io::Result<TargetDirectory> {
        let link = process::path(pid, "cwd");
        Ok(TargetDirectory {
            directory: rustix::fs::open(&link, OPENS, Mode::empty())?,
            path: std::fs::read_link(&link)?,
            root: Rc::new(open_directory(&process::path(pid, "root"))?),
        })
    }

    /// A directory in it that is not a link.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(crate) fn subdirectory(&self, name: &CStr) -> io::Result<TargetDirectory> {
        let opens = OPENS | OFlags::NOFOLLOW;
        Ok(TargetDirectory {
            directory: rustix::fs::openat(&self.directory, name, opens, Mode::empty())?,
            path: self.path.join(OsStr::from_bytes(name.to_bytes())),
            root: Rc::clone(&self.root),
        })
    }

    /// The directory that a link in it leads to, if that is below the root of the process. If the kernel cannot enforce that
    /// (before Linux 5.6), no link is followed.
    ///
    /// # Errors
    /// It cannot be opened, or there is none.
    pub(crate) fn behind_link(&self, name: &CStr) -> io::Result<TargetDirectory> {
        let link: CString = rustix::fs::readlinkat(&self.directory, name, Vec::new())?;
        // An absolute link replaces the rest.
        let path = self.path.join(OsStr::from_bytes(link.to_bytes()));
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        Ok(TargetDirectory {
            directory: rustix::fs::openat2(&*self.root, &path, OPENS, Mode::empty(), resolve)?,
            path,
            root: Rc::clone(&self.root),
        })
    }

    /// A file in it; links are not followed.
    ///
    /// # Errors
    /// There is none, or it is not a regular file.
    pub(crate) fn file(&self, name: &CStr) -> io::Result<TargetFile> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        TargetFile::of(&rustix::fs::openat(&self.directory, name, flags, Mode::empty())?)
    }

    /// What is in it.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn entries(&self) -> io::Result<Dir> {
        Ok(Dir::read_from(&self.directory)?)
    }

    /// The file system that it is on.
    ///
    /// # Errors
    /// The kernel does not say.
    pub(crate) fn device(&self) -> io::Result<u64> {
        Ok(rustix::fs::fstat(&self.directory)?.st_dev)
    }

    /// As if it were the working directory of a process with this root.
    #[cfg(test)]
    pub(crate) fn below(root: &Path, path: &Path) -> io::Result<TargetDirectory> {
        let root = open_directory(root)?;
        let resolve = ResolveFlags::IN_ROOT;
        Ok(TargetDirectory {
            directory: rustix::fs::openat2(&root, path, OPENS, Mode::empty(), resolve)?,
            path: path.to_path_buf(),
            root: Rc::new(root),
        })
    }
}
