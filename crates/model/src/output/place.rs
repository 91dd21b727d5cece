//! Where an output is to be: an open directory, and a name in it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, unlinkat};

use super::directory::in_words;
use super::{Directory, NewFile, caller_of_sudo};

/// Who may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    /// Its owner: for what contains SQL, user names or symbols.
    Owner,
    /// Everyone: for what says nothing about anybody's data.
    Everyone,
}

/// An open directory and a name in it. Whatever becomes of the directory's own name, the output lands in it.
#[derive(Debug, Clone)]
pub struct Place {
    directory: Arc<Directory>,
    name: OsString,
}

impl Place {
    /// Opens the directory that an output will be in.
    ///
    /// # Errors
    /// There is none, another user's link is on the way, or the path ends in no name.
    pub fn of(path: &Path) -> io::Result<Place> {
        let directory = match path.parent() {
            Some(parent) if parent != Path::new("") => Directory::open(parent)?,
            _ => Directory::open(Path::new("."))?,
        };
        match path.file_name() {
            Some(name) => Ok(Place::inside(Arc::new(directory), name)),
            None => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a name for a new file or directory",
            )),
        }
    }

    /// A name in a directory that is open.
    pub fn inside(directory: Arc<Directory>, name: &OsStr) -> Place {
        Place {
            directory,
            name: name.to_owned(),
        }
    }

    /// The directory that is open.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The name in it.
    pub fn name_in_directory(&self) -> &OsStr {
        &self.name
    }

    /// The path as it was when the directory was opened: for messages.
    pub fn path(&self) -> PathBuf {
        let parent = self.directory.path();
        if parent == Path::new(".") {
            return PathBuf::from(&self.name);
        }
        parent.join(&self.name)
    }

    /// Whether something has this name; a dangling link counts.
    ///
    /// # Errors
    /// It cannot be found out.
    pub fn is_taken(&self) -> io::Result<bool> {
        Ok(self.directory.stat(&self.name)?.is_some())
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// See [`Directory::create_directory`].
    pub fn create_directory(&self) -> io::Result<Directory> {
        self.directory.create_directory(&self.name)
    }

    /// Opens a directory that has this name; a link is not one.
    ///
    /// # Errors
    /// See [`Directory::open_directory`].
    pub(crate) fn open_directory(&self) -> io::Result<Directory> {
        self.directory.open_directory(&self.name)
    }

    /// Removes a directory that was made here, with what is in it.
    ///
    /// # Errors
    /// Something cannot be removed.
    pub fn remove_directory(&self) -> io::Result<()> {
        self.directory.remove_directory(&self.name)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove_empty_directory(&self) -> io::Result<()> {
        Ok(unlinkat(&*self.directory, &self.name, AtFlags::REMOVEDIR)?)
    }

    /// Removes a file.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove_file(&self) -> io::Result<()> {
        self.directory.remove_file(&self.name)
    }

    /// Where a directory that was made here is now, if it is no longer here.
    pub fn moved(&self, made: &Directory) -> Option<PathBuf> {
        match made.is(&self.directory, &self.name) {
            Ok(true) => None,
            _ => made.now_at(),
        }
    }

    /// Makes a file of what `fill` writes; one for its owner only belongs to the user who called sudo, if any.
    ///
    /// An existing file is replaced when the new one is whole. Of what else may be there, our own FIFO and a character device
    /// of ours or root's (`/dev/null`, a terminal) are written to as they are; links are never followed.
    ///
    /// # Errors
    /// It cannot be written, or the name belongs to something that must not be written to.
    pub fn write(
        &self,
        readers: Readers,
        fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        if let Some(mut there) = self.written_in_place()? {
            fill(&mut there)?;
            return there.flush();
        }
        let mut out = BufWriter::new(NewFile::create(&self.directory)?);
        fill(&mut out)?;
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        match readers {
            Readers::Everyone => file.for_all_to_read()?,
            Readers::Owner => {
                if let Some(caller) = caller_of_sudo() {
                    // If a file cannot be given away it stays root's: better than none.
                    let _ = file.give(caller);
                }
            }
        }
        self.name(file).map(|_| ())
    }

    /// A file for its owner only that is to get this name with [`Place::name`].
    ///
    /// # Errors
    /// It cannot be made, or the name belongs to something that is no file.
    pub fn new_file(&self) -> io::Result<NewFile> {
        match self.written_in_place()? {
            None => NewFile::create(&self.directory),
            Some(_) => Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "it is not a regular file",
            )),
        }
    }

    /// Gives a file this name, replacing a file that has it. Returns its length in bytes.
    ///
    /// # Errors
    /// It cannot be written or named: what had the name before is unchanged.
    pub fn name(&self, file: NewFile) -> io::Result<u64> {
        file.commit(&self.directory, &self.name)
    }

    /// What is there and can be written to as it is; none if a file is to be made.
    fn written_in_place(&self) -> io::Result<Option<BufWriter<File>>> {
        let Some(stat) = self.directory.stat(&self.name)? else {
            return Ok(None);
        };
        let kind = FileType::from_raw_mode(stat.st_mode);
        let own = rustix::process::geteuid().as_raw();
        let why = match kind {
            FileType::RegularFile => return Ok(None),
            FileType::Fifo if stat.st_uid != own => {
                format!("a FIFO of another user (uid {}): not written to", stat.st_uid)
            }
            FileType::CharacterDevice if ![0, own].contains(&stat.st_uid) => format!(
                "a character device of another user (uid {}): not written to",
                stat.st_uid
            ),
            FileType::Fifo | FileType::CharacterDevice => {
                let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
                let fd = openat(&*self.directory, &self.name, flags, Mode::empty())?;
                let opened = fstat(&fd)?;
                if (opened.st_dev, opened.st_ino) != (stat.st_dev, stat.st_ino) {
                    return Err(io::Error::other("it was replaced while it was being opened"));
                }
                return Ok(Some(BufWriter::new(fd.into())));
            }
            FileType::Symlink => {
                "a symbolic link, which is not followed: name its target, or remove it".to_string()
            }
            other => format!("{}: not written to", in_words(other)),
        };
        Err(io::Error::new(io::ErrorKind::InvalidInput, why))
    }
}
