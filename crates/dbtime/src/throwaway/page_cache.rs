//! How much of some files is in the page cache, and moving them in or out of it. The host's cache as a whole is never
//! touched.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};

/// How much of some files is in the page cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Residency {
    /// Pages in memory.
    pub resident: usize,
    /// Pages of the files.
    pub total: usize,
}

impl Residency {
    /// Share of the pages in memory, 0 to 1; 0 when there is no page.
    pub fn share(&self) -> f64 {
        self.resident as f64 / self.total.max(1) as f64
    }
}

/// Reads the files into the page cache, as far as it has room.
///
/// # Errors
/// A file cannot be read.
pub fn warm(files: &[PathBuf]) -> Result<()> {
    let mut buffer = vec![0; 1 << 20];
    each(files, |file, _| {
        let mut file = file;
        while file.read(&mut buffer)? > 0 {}
        Ok(())
    })
}

/// Takes the files out of the page cache. Pages that some process has mapped or locked stay.
///
/// # Errors
/// A file cannot be opened or synced.
pub fn evict(files: &[PathBuf]) -> Result<()> {
    each(files, |file, _| {
        // Only clean pages can be dropped.
        file.sync_data()?;
        drop_pages(file)
    })
}

/// Counts the pages of the files that are in memory.
///
/// # Errors
/// A file cannot be opened or mapped.
pub fn residency(files: &[PathBuf]) -> Result<Residency> {
    // SAFETY: sysconf has no memory effects.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let mut sum = Residency::default();
    each(files, |file, length| {
        let pages = length.div_ceil(page);
        if pages == 0 {
            return Ok(());
        }
        let mut in_memory = vec![0u8; pages];
        // SAFETY: a fresh mapping at an address of the kernel's choice, of a file that is open.
        let map = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the range is the mapping just made; the vector has one byte for each of its pages. The
        // mapping is not read.
        let code = unsafe { libc::mincore(map, length, in_memory.as_mut_ptr().cast()) };
        let error = io::Error::last_os_error();
        // SAFETY: the mapping is ours, and nothing refers to it any more.
        unsafe { libc::munmap(map, length) };
        if code != 0 {
            return Err(error);
        }
        sum.total += pages;
        sum.resident += in_memory.iter().filter(|&&flags| flags & 1 != 0).count();
        Ok(())
    })?;
    Ok(sum)
}

/// Keeps files out of the page cache while it lives: a thread evicts them again and again.
#[derive(Debug)]
pub struct KeepOut {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl KeepOut {
    /// Evicts the files now and every `period` from now on.
    ///
    /// # Errors
    /// A file cannot be opened or synced.
    pub fn start(files: &[PathBuf], period: Duration) -> Result<KeepOut> {
        evict(files)?;
        let files: Vec<File> = files.iter().map(File::open).collect::<Result<_, _>>()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("keep-out".to_string())
            .spawn(move || {
                while !stopped.load(Ordering::Relaxed) {
                    for file in &files {
                        // If a pass fails, the next one makes up for it; residency() verifies the result.
                        let _ = drop_pages(file);
                    }
                    std::thread::sleep(period);
                }
            })?;
        Ok(KeepOut {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for KeepOut {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread cannot panic, and drop could not report it.
            let _ = thread.join();
        }
    }
}

fn drop_pages(file: &File) -> io::Result<()> {
    // SAFETY: no memory is involved; length 0 means up to the end.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

fn each(files: &[PathBuf], mut act: impl FnMut(&File, usize) -> io::Result<()>) -> Result<()> {
    for path in files {
        File::open(path)
            .and_then(|file| {
                let length = file.metadata()?.len() as usize;
                act(&file, length)
            })
            .with_context(|| path.display().to_string())?;
    }
    Ok(())
}
