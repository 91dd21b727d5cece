//! What a store needs of the place that it is in: objects that are there whole or not at all.

use std::fmt;
use std::io;

use bytes::Bytes;

/// An object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    /// Names with `/` between them, without the address of the store.
    pub(crate) path: String,
    pub(crate) bytes: u64,
}

/// Objects below one address. Errors have the kinds of [`io::ErrorKind`] where there is one: `NotFound`, `StorageFull` …
pub(crate) trait Objects: fmt::Debug + Send + Sync {
    /// All objects in a folder and in those below it; none where there is no such folder.
    fn list(&self, folder: &str) -> io::Result<Vec<Entry>>;

    /// Names of the folders in a folder.
    fn folders(&self, folder: &str) -> io::Result<Vec<String>>;

    /// Length of an object in bytes; none where there is none.
    fn length(&self, path: &str) -> io::Result<Option<u64>>;

    /// An object, if it has no more than `most` bytes.
    fn get(&self, path: &str, most: u64) -> io::Result<Bytes>;

    /// Makes an object, whole or not at all, in place of one of this name.
    fn put(&self, path: &str, bytes: Bytes) -> io::Result<()>;

    /// Removes an object. That there is none is no error.
    fn remove(&self, path: &str) -> io::Result<()>;

    /// Whether an object is read about as fast as it is asked for.
    fn is_near(&self) -> bool;

    /// The address, as a person would type it.
    fn address(&self) -> &str;

    /// Where an object is, for messages.
    fn where_is(&self, path: &str) -> String {
        format!("{}/{path}", self.address().trim_end_matches('/'))
    }
}

/// What is said of an object that is larger than any that is written.
pub(crate) fn too_large(bytes: u64, most: u64) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("{bytes} bytes, and {most} is the maximum: not written by dbtime"),
    )
}
