//! A store in a directory. Links, FIFOs and devices in it are never read or written, whoever put them there.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use dbtime_model::output::{Directory, Place, Readers};

use crate::objects::{Entry, Objects, too_large};

/// Maximum depth of folders. A store has five.
const DEEPEST: usize = 8;

#[derive(Debug)]
pub(crate) struct Folder {
    root: Directory,
    address: String,
}

impl Folder {
    /// Opens an existing directory.
    pub(crate) fn open(path: &Path, address: &str) -> io::Result<Folder> {
        Ok(Folder {
            root: Directory::open_to_read(path)?,
            address: address.to_string(),
        })
    }

    /// Opens a directory for writing; creates it, accessible only to its owner, if it does not exist.
    pub(crate) fn open_or_make(path: &Path, address: &str) -> io::Result<Folder> {
        let root = match Directory::open(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let place = Place::of(path)?;
                place
                    .directory()
                    .open_or_create_directory(place.name_in_directory())?
            }
            other => other?,
        };
        Ok(Folder {
            root,
            address: address.to_string(),
        })
    }

    /// True if there is nothing in it, apart from hidden files that another process is still writing.
    pub(crate) fn is_empty(&self) -> io::Result<bool> {
        let is_hidden = |name: &OsString| name.as_encoded_bytes().starts_with(b".");
        Ok(self.root.names()?.iter().all(is_hidden))
    }

    /// The folder that an object is in, and its name there.
    fn look_up<'a>(
        &self,
        path: &'a str,
        step: impl Fn(&Directory, &OsStr) -> io::Result<Directory>,
    ) -> io::Result<(Directory, &'a OsStr)> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut directory = self.root.try_clone()?;
        for part in folder.split('/').filter(|part| !part.is_empty()) {
            directory = step(&directory, part.as_ref())?;
        }
        Ok((directory, name.as_ref()))
    }

    fn folder(&self, path: &str) -> io::Result<Option<Directory>> {
        let mut directory = self.root.try_clone()?;
        for part in path.split('/').filter(|part| !part.is_empty()) {
            directory = match directory.open_directory(part.as_ref()) {
                Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
                other => other?,
            };
        }
        Ok(Some(directory))
    }
}

impl Objects for Folder {
    fn list(&self, folder: &str) -> io::Result<Vec<Entry>> {
        let mut found = Vec::new();
        if let Some(directory) = self.folder(folder)? {
            list_below(&directory, folder, DEEPEST, &mut found)?;
        }
        found.sort_unstable();
        Ok(found)
    }

    fn folders(&self, folder: &str) -> io::Result<Vec<String>> {
        let Some(directory) = self.folder(folder)? else {
            return Ok(Vec::new());
        };
        let mut names = Vec::new();
        for name in directory.names()? {
            if let (Some(name), Some(_)) = (name.to_str(), below(&directory, &name, folder)?) {
                names.push(name.to_string());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn length(&self, path: &str) -> io::Result<Option<u64>> {
        let opened = self
            .look_up(path, Directory::open_directory)
            .and_then(|(directory, name)| directory.open_file(name)?.metadata());
        match opened {
            Ok(metadata) => Ok(Some(metadata.len())),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn get(&self, path: &str, most: u64) -> io::Result<Bytes> {
        let (directory, name) = self.look_up(path, Directory::open_directory)?;
        let file = directory.open_file(name)?;
        let length = file.metadata()?.len();
        if length > most {
            return Err(too_large(length, most));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
        file.take(length).read_to_end(&mut bytes)?;
        Ok(bytes.into())
    }

    fn put(&self, path: &str, bytes: Bytes) -> io::Result<()> {
        let (directory, name) = self.look_up(path, Directory::open_or_create_directory)?;
        Place::inside(Arc::new(directory), name).write(Readers::Owner, |out| out.write_all(&bytes))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        match self.look_up(path, Directory::open_directory) {
            Ok((directory, name)) => directory.remove_file(name),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            Err(e) => Err(e),
        }
    }

    fn is_near(&self) -> bool {
        true
    }

    fn address(&self) -> &str {
        &self.address
    }
}

/// Files in a folder and below it. Names that dbtime never gives (hidden, not UTF-8) are skipped, and no link is followed.
fn list_below(directory: &Directory, folder: &str, deepest: usize, found: &mut Vec<Entry>) -> io::Result<()> {
    for name in directory.names()? {
        let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else {
            continue;
        };
        let path = match folder {
            "" => name.to_string(),
            folder => format!("{folder}/{name}"),
        };
        if let Some(below) = below(directory, name.as_ref(), folder)? {
            if deepest > 0 {
                list_below(&below, &path, deepest - 1, found)?;
            }
            continue;
        }
        match directory
            .open_file(name.as_ref())
            .and_then(|file| file.metadata())
        {
            Ok(file) => found.push(Entry {
                path,
                bytes: file.len(),
            }),
            // A link, a FIFO or a device; or it was removed in the meantime.
            Err(e) if [ErrorKind::InvalidInput, ErrorKind::NotFound].contains(&e.kind()) => {}
            Err(e) => return Err(at(&path, e)),
        }
    }
    Ok(())
}

/// A subfolder; none if there is nothing with this name, or it is not a folder. If it cannot be opened, it may have objects in it: that is
/// an error.
fn below(directory: &Directory, name: &OsStr, folder: &str) -> io::Result<Option<Directory>> {
    match directory.open_directory(name) {
        Ok(below) => Ok(Some(below)),
        Err(e) if e.kind() == ErrorKind::NotFound || e.kind() == ErrorKind::NotADirectory => Ok(None),
        Err(e) if e.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => Ok(None),
        Err(e) => Err(at(&format!("{folder}/{}", name.to_string_lossy()), e)),
    }
}

/// Adds the path to an error.
fn at(path: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{path}: {error}"))
}
