//! A file that gets its name when it is whole.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, Uid, fchmod, fchown, linkat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use super::{Directory, FILE_MODE, Owner};

/// Names to try when some are taken.
const TRIES: u32 = 100;

/// A file without a name, so that nothing is left of it however this program ends; with a temporary one where the file
/// system has no other way. Dropped before [`Place::name`](super::Place::name) it is gone.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    /// The directory that the temporary name is in, and that name.
    temporary: Option<(OwnedFd, OsString)>,
}

impl NewFile {
    /// Makes a file for its owner only (0600), to be named in this directory.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn create(directory: &Directory) -> io::Result<NewFile> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        if let Ok(fd) = openat(directory, ".", flags | OFlags::TMPFILE, FILE_MODE) {
            let file = File::from(fd);
            // This is the name that it will be linked by.
            if statat(CWD, in_proc(&file), AtFlags::empty()).is_ok() {
                return Ok(NewFile {
                    file,
                    temporary: None,
                });
            }
        }
        let (name, fd) = with_temporary_name(|name| {
            openat(
                directory,
                name,
                flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW,
                FILE_MODE,
            )
        })?;
        Ok(NewFile {
            file: fd.into(),
            temporary: Some((directory.as_fd().try_clone_to_owned()?, name)),
        })
    }

    /// The file itself.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Lets everybody read it.
    ///
    /// # Errors
    /// The file system does not allow it.
    pub(super) fn for_all_to_read(&self) -> io::Result<()> {
        Ok(fchmod(&self.file, Mode::from_raw_mode(0o644))?)
    }

    /// Gives it to another user.
    ///
    /// # Errors
    /// The file system has no owners, or this process may not change them.
    pub(super) fn give(&self, owner: Owner) -> io::Result<()> {
        let (uid, gid) = (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid));
        Ok(fchown(&self.file, Some(uid), Some(gid))?)
    }

    /// Gives it its name, replacing a file that has it; on disk when this returns. Returns its length in bytes.
    ///
    /// # Errors
    /// It cannot be written or named: what had the name before is unchanged.
    pub(super) fn commit(mut self, directory: &Directory, name: &OsStr) -> io::Result<u64> {
        self.file.sync_all()?;
        let bytes = self.file.metadata()?.len();
        if self.temporary.is_none() && !self.link(directory, name)? {
            let (temporary, ()) = with_temporary_name(|temporary| match self.link(directory, temporary) {
                Ok(true) => Ok(()),
                Ok(false) => Err(Errno::EXIST),
                Err(e) => Err(Errno::from_io_error(&e).unwrap_or(Errno::IO)),
            })?;
            self.temporary = Some((directory.as_fd().try_clone_to_owned()?, temporary));
        }
        if let Some((place, temporary)) = &self.temporary {
            #[cfg(test)]
            super::killed::step(directory.path())?;
            renameat(place, temporary, directory, name)?;
            self.temporary = None;
        }
        directory.sync()?;
        Ok(bytes)
    }

    /// Names a file that has none; false when the name is taken.
    fn link(&self, directory: &Directory, name: &OsStr) -> io::Result<bool> {
        #[cfg(test)]
        super::killed::step(directory.path())?;
        match linkat(CWD, in_proc(&self.file), directory, name, AtFlags::SYMLINK_FOLLOW) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some((directory, name)) = &self.temporary {
            #[cfg(test)]
            if super::killed::step_in(directory).is_err() {
                return;
            }
            // It is of no use to anyone; a drop cannot report errors.
            let _ = unlinkat(directory, name, AtFlags::empty());
        }
    }
}

fn in_proc(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Makes something under a name that is free and that nobody can guess.
fn with_temporary_name<T>(mut make: impl FnMut(&OsStr) -> Result<T, Errno>) -> io::Result<(OsString, T)> {
    for number in 0..TRIES {
        let name = OsString::from(format!(
            ".dbtime-{:016x}.tmp",
            RandomState::new().hash_one(number)
        ));
        match make(&name) {
            Err(Errno::EXIST) => {}
            Err(e) => return Err(e.into()),
            Ok(made) => return Ok((name, made)),
        }
    }
    Err(Errno::EXIST.into())
}
