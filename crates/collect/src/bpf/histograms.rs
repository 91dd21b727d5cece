//! The sessions' own histograms, read through memory shared with the kernel.
//!
//! They only grow. What is passed on is the growth since the last read.

use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::{io, ptr};

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::recorder::types::{dbt_histogram, dbt_latency_key, dbt_size};

const BUCKETS: usize = dbt_size::LATENCY_BUCKETS.0 as usize;
const _: () = assert!(size_of::<dbt_histogram>() == size_of::<dbt_latency_key>() + 3 * 8 + BUCKETS * 4);

/// See the module.
pub(crate) struct Histograms {
    memory: NonNull<dbt_histogram>,
    bytes: usize,
    free: MapHandle,
    /// What was passed on so far, by number. Grows as histograms come into use.
    seen: Vec<Seen>,
    count: usize,
}

#[derive(Default)]
struct Seen {
    count: u64,
    sum_ns: u64,
    max_ns: u64,
    /// Those in which there is something, in order: a few dozen of more than two thousand.
    buckets: Vec<(u16, u32)>,
}

/// Growth of one histogram.
pub(crate) struct Growth {
    pub(crate) key: dbt_latency_key,
    /// Bucket and events in it.
    pub(crate) buckets: Vec<(u16, u64)>,
    pub(crate) sum_ns: u64,
    /// The longest, if it is longer than all before.
    pub(crate) max_ns: Option<u64>,
}

// SAFETY: the mapping is this value's own, and is not bound to the thread that made it.
unsafe impl Send for Histograms {}

impl Histograms {
    /// Maps the memory, and tells the kernel that all histograms are free.
    pub(crate) fn new(map: &MapHandle, free: MapHandle) -> io::Result<Histograms> {
        let count = map.max_entries() as usize;
        assert_eq!(map.value_size() as usize, size_of::<dbt_histogram>());
        let bytes = count * size_of::<dbt_histogram>();
        // SAFETY: the map is an array made to be mapped, of `count` values of this size without gaps (the size is a
        // multiple of 8); the mapping is private to this value and unmapped with it.
        let memory = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_fd().as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let histograms = Histograms {
            memory: NonNull::new(memory.cast()).ok_or_else(|| io::Error::other("mapped at 0"))?,
            bytes,
            free,
            seen: Vec::new(),
            count,
        };
        for number in 0..count as u32 {
            histograms.give_back(number)?;
        }
        Ok(histograms)
    }

    /// Passes on what has been added since the last call.
    pub(crate) fn take(&mut self, mut take: impl FnMut(Growth)) {
        for number in 0..self.count {
            let histogram = self.at(number);
            // SAFETY: `histogram` points into the mapping; what the kernel changes is only loaded atomically.
            let (count, sum_ns, max_ns, from) = unsafe {
                (
                    &raw const (*histogram).count,
                    &raw const (*histogram).sum_ns,
                    &raw const (*histogram).max_ns,
                    (&raw const (*histogram).buckets).cast::<u32>(),
                )
            };
            let count = load(count);
            if number >= self.seen.len() {
                if count == 0 {
                    // The kernel takes them in order, except those given back: nothing follows the last one seen.
                    return;
                }
                self.seen.resize_with(number + 1, Seen::default);
            }
            let seen = &mut self.seen[number];
            if count == seen.count {
                continue;
            }
            let mut filled = Vec::with_capacity(seen.buckets.len());
            let mut buckets = Vec::new();
            let mut before = seen.buckets.iter().peekable();
            for bucket in 0..BUCKETS {
                // SAFETY: a histogram has this many buckets.
                let now = load_bucket(unsafe { from.add(bucket) });
                let bucket = bucket as u16;
                let before = before.next_if(|before| before.0 == bucket);
                let growth = now.wrapping_sub(before.map_or(0, |before| before.1));
                if growth > 0 {
                    buckets.push((bucket, u64::from(growth)));
                }
                if growth > 0 || before.is_some() {
                    filled.push((bucket, now));
                }
            }
            if buckets.is_empty() {
                continue;
            }
            filled.shrink_to_fit();
            seen.buckets = filled;
            // The task may be adding right now: if the bucket of an event is there and its sum is not yet, that comes with the next read.
            let (sum_ns, max_ns) = (load(sum_ns), load(max_ns));
            take(Growth {
                key: self.key(number),
                buckets,
                sum_ns: sum_ns - self.seen[number].sum_ns,
                max_ns: (max_ns > self.seen[number].max_ns).then_some(max_ns),
            });
            let seen = &mut self.seen[number];
            (seen.count, seen.sum_ns, seen.max_ns) = (count, sum_ns, max_ns);
        }
    }

    /// Frees the histograms of a task that has ended. What was added to them must have been taken.
    ///
    /// # Errors
    /// The kernel did not take them back: they are lost to other sessions.
    pub(crate) fn release(&mut self, pid: u32, start_ns: u64) -> io::Result<()> {
        for number in 0..self.seen.len() {
            let key = self.key(number);
            if self.seen[number].count == 0 || (key.pid, key.start_ns) != (pid, start_ns) {
                continue;
            }
            // SAFETY: the place lies in the mapping; its task has ended, so that nobody else writes to it.
            unsafe { self.at(number).write_bytes(0, 1) };
            self.seen[number] = Seen::default();
            self.give_back(number as u32)?;
        }
        Ok(())
    }

    /// Key of a histogram that is in use: the kernel writes it before the first count.
    fn key(&self, number: usize) -> dbt_latency_key {
        // SAFETY: into the mapping; read as a whole, unaligned, of integers only.
        unsafe { (&raw const (*self.at(number)).key).read_unaligned() }
    }

    fn give_back(&self, number: u32) -> io::Result<()> {
        self.free
            .update(&[], &number.to_ne_bytes(), MapFlags::ANY)
            .map_err(io::Error::other)
    }

    fn at(&self, number: usize) -> *mut dbt_histogram {
        assert!(number < self.count, "within the mapping");
        // SAFETY: the number is below the count, so that it lies in the mapping.
        unsafe { self.memory.as_ptr().add(number) }
    }
}

impl Drop for Histograms {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, with this length; no reference into it outlives `self`.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.bytes) };
    }
}

fn load(value: *const u64) -> u64 {
    // SAFETY: the pointer is into the mapping, which is aligned to pages, and the field to 8 bytes.
    unsafe { AtomicU64::from_ptr(value.cast_mut()) }.load(Ordering::Acquire)
}

fn load_bucket(value: *const u32) -> u32 {
    // SAFETY: as in `load`, aligned to 4 bytes.
    unsafe { AtomicU32::from_ptr(value.cast_mut()) }.load(Ordering::Acquire)
}
