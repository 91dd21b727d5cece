//! Files inside .zip archives: each is read as if it were a file of its own.
//!
//! An archive has its directory at the end, so it has to be a file: in a pipe it is refused.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use zip::ZipArchive;

use crate::ImportError;
use crate::parallel::Shared;

/// What an archive begins with: a file in it, or its directory if there is none.
const MAGIC: [&[u8]; 2] = [b"PK\x03\x04", b"PK\x05\x06"];

/// Most files of an archive that are read.
pub(crate) const MAX_MEMBERS: usize = 10_000;

/// Bytes that may be read to open an archive, beyond twice its size: its directory is searched for in more than one place, and a crafted
/// one could be searched for ever.
const DIRECTORY_SLACK: u64 = 1 << 20;

/// True if a file that begins like this is an archive.
pub(crate) fn is_archive(head: &[u8]) -> bool {
    MAGIC.iter().any(|magic| head.starts_with(magic))
}

/// An archive whose directory was read. A clone reads the same file on its own.
#[derive(Clone)]
pub(crate) struct Archive<'a>(ZipArchive<Window<'a>>);

/// A file in an archive.
#[derive(Debug)]
pub(crate) struct Member {
    /// Its place in the directory.
    pub index: usize,
    /// The path of the archive, followed by its name.
    pub path: PathBuf,
}

impl<'a> Archive<'a> {
    /// Reads the directory of an archive, and what is in it; none if it is not a regular file, or not an archive.
    ///
    /// # Errors
    /// It is damaged, or malicious.
    pub(crate) fn open(
        path: &Path,
        shared: &'a Shared,
    ) -> Result<Option<(Archive<'a>, Contents)>, ImportError> {
        // Opening a pipe would wait for its writer, and what is read from it is lost.
        let Some(length) = path
            .metadata()
            .ok()
            .filter(std::fs::Metadata::is_file)
            .map(|of| of.len())
        else {
            return Ok(None);
        };
        let io = |e: io::Error| ImportError::io(path, e);
        let file = File::open(path).map_err(io)?;
        let mut magic = [0; 4];
        if file.read_exact_at(&mut magic, 0).is_err() || !is_archive(&magic) {
            return Ok(None);
        }
        let left = length.saturating_mul(2).saturating_add(DIRECTORY_SLACK);
        let left = Arc::new(AtomicU64::new(left));
        let window = Window {
            file: Arc::new(file),
            length,
            at: 0,
            left: Arc::clone(&left),
            shared,
        };
        let mut zip = ZipArchive::new(window).map_err(|e| io(e.into()))?;
        let contents = contents(&mut zip, path);
        left.store(u64::MAX, Ordering::Relaxed);
        if contents.packed_bytes > length {
            return Err(io(io::Error::new(
                io::ErrorKind::InvalidData,
                "the files in it overlap, as in a zip bomb",
            )));
        }
        Ok(Some((Archive(zip), contents)))
    }

    /// The unpacked contents of a file in it.
    ///
    /// # Errors
    /// It is encrypted, or packed in an unknown way, or damaged.
    pub(crate) fn read(&mut self, index: usize) -> io::Result<impl Read + '_> {
        Ok(self.0.by_index(index)?)
    }
}

/// What is in an archive.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// The first [`MAX_MEMBERS`] files.
    pub members: Vec<Member>,
    /// All files.
    pub count: usize,
    packed_bytes: u64,
}

fn contents(zip: &mut ZipArchive<Window<'_>>, path: &Path) -> Contents {
    let mut contents = Contents::default();
    for index in 0..zip.len() {
        let name = zip.name_for_index(index).unwrap_or_default();
        if name.ends_with(['/', '\\']) {
            continue;
        }
        contents.count += 1;
        if contents.members.len() >= MAX_MEMBERS {
            continue;
        }
        // Nothing is written there: a name is only shown, and tells files apart.
        let mut of_member = path.as_os_str().to_os_string();
        of_member.push("/");
        of_member.push(name);
        contents.members.push(Member {
            index,
            path: of_member.into(),
        });
        // A file that cannot be read fails again when it is.
        let packed = zip.by_index_raw(index).map_or(0, |file| file.compressed_size());
        contents.packed_bytes = contents.packed_bytes.saturating_add(packed);
    }
    contents
}

/// A file with a read position of its own that reports how much was read.
#[derive(Clone)]
struct Window<'a> {
    file: Arc<File>,
    length: u64,
    at: u64,
    /// Bytes that may still be read, of all clones together.
    left: Arc<AtomicU64>,
    shared: &'a Shared,
}

impl Read for Window<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.shared.is_stopped() {
            return Ok(0);
        }
        let read = self.file.read_at(buffer, self.at)?;
        let left = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(read as u64)
            });
        if left.is_err() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the directory of the archive is damaged",
            ));
        }
        self.at = self.at.saturating_add(read as u64);
        self.shared.has_read(read as u64);
        Ok(read)
    }
}

impl Seek for Window<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.length.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        // As for a file: positions have 63 bits.
        self.at = at
            .filter(|at| i64::try_from(*at).is_ok())
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "seek position out of range"))?;
        Ok(self.at)
    }
}
