//! The data that is read: far larger than the server's own buffers, held in the page cache or kept out of it.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::reads;
use crate::throwaway::page_cache::{self, KeepOut, Residency};
use crate::throwaway::{Cluster, Options};

/// 300 MB in two million rows.
pub(super) const SCALE: u32 = 20;
/// So small that hardly any row is found there: every read goes to the operating system.
pub(super) const SHARED_BUFFERS: &str = "4MB";
/// At ten thousand reads a second, one page in a hundred comes back between two evictions.
const EVICTION: Duration = Duration::from_millis(50);
/// With more than this fraction of the data in the page cache, reads do not come from the device.
const MOST_RESIDENT: f64 = 0.05;

/// Where reads come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadFrom {
    PageCache,
    Device,
}

impl ReadFrom {
    pub(super) const BOTH: [ReadFrom; 2] = [ReadFrom::PageCache, ReadFrom::Device];

    pub(super) fn place(self) -> &'static str {
        match self {
            ReadFrom::PageCache => "the page cache",
            ReadFrom::Device => "the device",
        }
    }

    pub(super) fn preparation(self) -> &'static str {
        match self {
            ReadFrom::PageCache => "into the page cache",
            ReadFrom::Device => "out of the page cache",
        }
    }

    pub(super) fn file_name(self) -> &'static str {
        match self {
            ReadFrom::PageCache => "page-cache",
            ReadFrom::Device => "device",
        }
    }
}

/// Settings and place of the server.
pub(super) fn server_options() -> Result<Options> {
    let mut options = Options::default()
        .set("shared_buffers", SHARED_BUFFERS)
        // The data is loaded without WAL.
        .set("wal_level", "minimal")
        .set("max_wal_senders", "0")
        // Only the reads should be visible.
        .set("autovacuum", "off");
    options.parent_dir = Some(directory_on_a_device()?);
    Ok(options)
}

/// Files in a temporary directory in memory (tmpfs) are not read from a device.
fn directory_on_a_device() -> Result<PathBuf> {
    let temporary = std::env::temp_dir();
    for directory in [&temporary, Path::new("/var/tmp")] {
        if directory.is_dir() && !is_memory(directory)? {
            return Ok(directory.to_path_buf());
        }
    }
    bail!(
        "{} and /var/tmp are in memory (tmpfs), so nothing would be read from a device: set TMPDIR to a directory on a disk",
        temporary.display()
    )
}

fn is_memory(directory: &Path) -> Result<bool> {
    /// `RAMFS_MAGIC` of linux/magic.h.
    const RAMFS_MAGIC: i64 = 0x8584_58f6;
    let path = std::ffi::CString::new(directory.as_os_str().as_bytes())?;
    // SAFETY: all-zero bytes are a valid `statfs`, a struct of integers.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live memory, the path ends in NUL.
    if unsafe { libc::statfs(path.as_ptr(), &mut found) } != 0 {
        return Err(std::io::Error::last_os_error()).with_context(|| directory.display().to_string());
    }
    Ok([libc::TMPFS_MAGIC, RAMFS_MAGIC].contains(&(found.f_type as i64)))
}

/// The table and index that are read.
pub(super) struct Data {
    files: Vec<PathBuf>,
    /// Length of all files.
    pub(super) bytes: u64,
}

/// Files kept in the page cache, or out of it, as long as this lives.
pub(super) struct Held<'a> {
    files: &'a [PathBuf],
    _keep_out: Option<KeepOut>,
}

impl Data {
    /// Fills the server.
    pub(super) fn make(cluster: &Cluster, stop: &AtomicBool) -> Result<Data> {
        reads::initialise(cluster, SCALE, stop)?;
        // Nothing should be left to write while reads are recorded.
        cluster.psql("CHECKPOINT")?;
        let mut files = cluster.relation_files("pgbench_accounts")?;
        files.extend(cluster.relation_files("pgbench_accounts_pkey")?);
        let mut bytes = 0;
        for file in &files {
            bytes += fs::metadata(file)
                .with_context(|| file.display().to_string())?
                .len();
        }
        Ok(Data { files, bytes })
    }

    /// Gets the files into the page cache, or out of it.
    pub(super) fn hold(&self, from: ReadFrom) -> Result<Held<'_>> {
        let keep_out = match from {
            ReadFrom::PageCache => {
                page_cache::warm(&self.files)?;
                None
            }
            ReadFrom::Device => Some(KeepOut::start(&self.files, EVICTION)?),
        };
        let held = Held {
            files: &self.files,
            _keep_out: keep_out,
        };
        let resident = held.residency()?.share();
        if from == ReadFrom::Device && resident > MOST_RESIDENT {
            bail!(
                "{:.0} % of {} stays in the page cache, so reads from the device cannot be shown: set TMPDIR to a \
                 directory on a disk",
                resident * 100.0,
                self.files[0].display()
            );
        }
        Ok(held)
    }
}

impl Held<'_> {
    /// How much is in the page cache now.
    pub(super) fn residency(&self) -> Result<Residency> {
        page_cache::residency(self.files)
    }
}
