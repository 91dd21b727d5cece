//! What a store needs of its storage: objects that exist completely or not at all.

use std::fmt;
use std::io;

use bytes::Bytes;

/// An object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    /// Names separated by `/`, without the address of the store.
    pub(crate) path: String,
    pub(crate) bytes: u64,
}

/// Objects below one address. Errors have the matching [`io::ErrorKind`] if there is one: `NotFound`, `StorageFull` …
pub(crate) trait Objects: fmt::Debug + Send + Sync {
    /// All objects in a folder and below it; none if there is no such folder.
    fn list(&self, folder: &str) -> io::Result<Vec<Entry>>;

    /// Names of the folders in a folder.
    fn folders(&self, folder: &str) -> io::Result<Vec<String>>;

    /// Length of an object in bytes; none if there is no such object.
    fn length(&self, path: &str) -> io::Result<Option<u64>>;

    /// An object, if it has no more than `most` bytes.
    fn get(&self, path: &str, most: u64) -> io::Result<Bytes>;

    /// Writes an object, completely or not at all; it replaces one of the same name.
    fn put(&self, path: &str, bytes: Bytes) -> io::Result<()>;

    /// Removes an object. It is not an error if there is none.
    fn remove(&self, path: &str) -> io::Result<()>;

    /// Whether reading an object is about as fast as asking for its length.
    fn is_near(&self) -> bool;

    /// The address, as a person would type it.
    fn address(&self) -> &str;

    /// Where an object is, for messages.
    fn where_is(&self, path: &str) -> String {
        format!("{}/{path}", self.address().trim_end_matches('/'))
    }
}

/// The error for an object that is larger than any that dbtime writes.
pub(crate) fn too_large(bytes: u64, most: u64) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("{bytes} bytes, and {most} is the maximum: not written by dbtime"),
    )
}
