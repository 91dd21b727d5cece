//! How much memory a command that reads other people's files may use, and what happens beyond that: files can be crafted to need more than
//! any host has.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::output::say;

/// The limit by default, unless half of the host's memory is less.
const USUAL: u64 = 4 << 30;

/// In bytes; 0 = there is no bound.
static MOST: AtomicU64 = AtomicU64::new(0);

/// Makes the kernel refuse more memory than this (the data of the process, `RLIMIT_DATA`), as far as it permits setting that limit.
pub fn bound(most: Option<u64>) {
    let most = most.unwrap_or_else(usual);
    let Some(mut limit) = limit() else { return };
    limit.rlim_cur = limit.rlim_max.min(most);
    // SAFETY: a plain call that reads the struct.
    if unsafe { libc::setrlimit(libc::RLIMIT_DATA, &limit) } == 0 {
        MOST.store(most, Ordering::Relaxed);
    }
}

/// For a command that runs for long: freed memory goes back to the kernel. By default the allocator keeps as much as the largest blocks
/// ever freed, for each thread (measured with 400 busy sessions, `--exact=calls`: 262 MB, and 205 MB with this). What is needed again each
/// second stays: 4 MB (`snap` of 1,000 sessions: no page fault instead of 650 a second, 12 % less CPU in that thread).
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: plain calls that set numbers.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 1 << 20);
        libc::mallopt(libc::M_TOP_PAD, 4 << 20);
    }
}

fn usual() -> u64 {
    let Some(host) = host_memory() else { return USUAL };
    USUAL.min(host / 2)
}

fn host_memory() -> Option<u64> {
    // SAFETY: plain calls without memory effects.
    let (pages, size) = unsafe {
        (
            libc::sysconf(libc::_SC_PHYS_PAGES),
            libc::sysconf(libc::_SC_PAGESIZE),
        )
    };
    u64::try_from(pages).ok()?.checked_mul(u64::try_from(size).ok()?)
}

fn limit() -> Option<libc::rlimit> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a plain call that fills the struct.
    (unsafe { libc::getrlimit(libc::RLIMIT_DATA, &mut limit) } == 0).then_some(limit)
}

/// The system's allocator; if it fails and there is a bound, the program ends with a message instead of aborting.
#[derive(Debug)]
pub struct Bounded;

// SAFETY: every call, and its result, is passed through to and from the system's allocator unchanged.
unsafe impl GlobalAlloc for Bounded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        there(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        there(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as the caller promises.
        there(unsafe { System.realloc(block, layout, size) })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(block, layout) }
    }
}

#[inline]
fn there(block: *mut u8) -> *mut u8 {
    if block.is_null() {
        end();
    }
    block
}

#[cold]
fn end() {
    let most = MOST.swap(0, Ordering::Relaxed);
    if most == 0 {
        return;
    }
    // Room for the message.
    if let Some(mut limit) = limit() {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: a plain call that reads the struct.
        unsafe { libc::setrlimit(libc::RLIMIT_DATA, &limit) };
    }
    say(format_args!(
        "dbtime: this needs more than {} MB of memory: allow more with --max-memory, or choose a part with --from and --to",
        most >> 20
    ));
    std::process::exit(1);
}
