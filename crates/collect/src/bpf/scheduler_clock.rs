//! How far the scheduler's clock, in which the kernel notes when a task got a CPU or was queued, is behind CLOCK_MONOTONIC.
//!
//! No interface returns that clock. But perf_event timestamps its records with it, so the calling thread sets its name to the one that it
//! has, which makes a record, and reads CLOCK_MONOTONIC before and after.
//!
//! It is not enough to see how late a thread finds itself on its CPU: the minimum of a hundred tries was 5 to 18 µs, depending on what else
//! the machine did, and disk waits of 0.1 ms came out that much shorter.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings::{
    PERF_COUNT_SW_DUMMY, PERF_RECORD_COMM, PERF_SAMPLE_TIME, PERF_TYPE_SOFTWARE, perf_event_attr,
    perf_event_header, perf_event_mmap_page,
};

use super::cpu_clock::open;
use crate::clock::monotonic_ns;

/// Readings for one answer: interruptions make a reading worse, and the best one counts.
const LOOKS: u32 = 32;
/// The clocks are compared anew after this time at the earliest.
const LASTS_NS: u64 = 500_000_000;
/// NTP makes CLOCK_MONOTONIC faster or slower by 500 ppm at most (adjtimex(2)); twice that.
const MOST_GROWTH: f64 = 1e-3;

/// Belongs to the thread that created it, which alone may use it.
pub(super) struct SchedulerClock {
    records: Records,
    name: &'static CStr,
    last: Behind,
}

/// The difference of the clocks when they were compared, and how it grows: CLOCK_MONOTONIC follows NTP, the scheduler's clock does not.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Behind {
    /// When they were compared (CLOCK_MONOTONIC, ns), and what is to be subtracted from that, modulo 2⁶⁴; 0 = not known.
    at: u64,
    ns: u64,
    /// Nanoseconds per nanosecond.
    growth: f64,
}

impl Behind {
    /// What is to be subtracted from `now`, a moment of CLOCK_MONOTONIC, modulo 2⁶⁴; 0 = not known.
    pub(super) fn at(&self, now: u64) -> u64 {
        let grown = self.growth * now.saturating_sub(self.at) as f64;
        self.ns.wrapping_add_signed(grown as i64)
    }

    /// After another comparison.
    fn then(self, at: u64, ns: u64) -> Behind {
        let growth = ns.wrapping_sub(self.ns) as i64 as f64 / at.saturating_sub(self.at).max(1) as f64;
        let is_known = self.at != 0 && growth.abs() <= MOST_GROWTH;
        Behind {
            at,
            ns,
            growth: if is_known { growth } else { 0.0 },
        }
    }
}

impl SchedulerClock {
    /// `name`: that of the calling thread.
    ///
    /// # Errors
    /// The kernel has no such event, or refuses it.
    pub(super) fn of_this_thread(name: &'static CStr) -> io::Result<SchedulerClock> {
        let mut attr = perf_event_attr {
            size: size_of::<perf_event_attr>() as u32,
            type_: PERF_TYPE_SOFTWARE,
            config: u64::from(PERF_COUNT_SW_DUMMY),
            sample_type: u64::from(PERF_SAMPLE_TIME),
            ..perf_event_attr::default()
        };
        attr.set_comm(1);
        attr.set_sample_id_all(1);
        attr.set_exclude_kernel(1);
        Ok(SchedulerClock {
            records: Records::of(open(&mut attr, 0, -1)?)?,
            name,
            last: Behind::default(),
        })
    }

    /// Compares the clocks, unless that was done just now. If the kernel makes no record, the last result holds.
    pub(super) fn compare(&mut self) -> Behind {
        if monotonic_ns() - self.last.at >= LASTS_NS
            && let Some((at, ns)) = self.behind()
        {
            self.last = self.last.then(at, ns);
        }
        self.last
    }

    /// When the clocks were compared, and the difference, accurate to less than one microsecond.
    fn behind(&mut self) -> Option<(u64, u64)> {
        let mut best: Option<(u64, u64, u64)> = None;
        for _ in 0..LOOKS {
            let before = monotonic_ns();
            // SAFETY: the name is a string that ends with a zero byte.
            unsafe { libc::prctl(libc::PR_SET_NAME, self.name.as_ptr()) };
            let took = monotonic_ns() - before;
            let Some(stamped) = self.records.last_time() else {
                continue;
            };
            if best.is_none_or(|(least, ..)| took < least) {
                let at = before + took / 2;
                best = Some((took, at, at.wrapping_sub(stamped)));
            }
        }
        best.map(|(_, at, behind)| (at, behind))
    }
}

/// The ring in which the kernel writes records of an event.
struct Records {
    _event: OwnedFd,
    memory: NonNull<perf_event_mmap_page>,
    page: usize,
}

impl Records {
    fn of(event: OwnedFd) -> io::Result<Records> {
        let page = rustix::param::page_size();
        // SAFETY: a new mapping of one page that describes the ring and one that is the ring; it is unmapped with this value.
        let memory = unsafe {
            libc::mmap(
                ptr::null_mut(),
                2 * page,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Records {
            _event: event,
            memory: NonNull::new(memory.cast()).ok_or_else(|| io::Error::other("mapped at 0"))?,
            page,
        })
    }

    /// Takes all records, and returns the time of the last one about a name.
    fn last_time(&mut self) -> Option<u64> {
        // SAFETY: the first page of the mapping is this structure; both are aligned words that the kernel only loads and stores whole.
        let (head, tail) = unsafe {
            let page = self.memory.as_ptr();
            (
                AtomicU64::from_ptr(&raw mut (*page).data_head),
                AtomicU64::from_ptr(&raw mut (*page).data_tail),
            )
        };
        let end = head.load(Ordering::Acquire);
        let mut at = tail.load(Ordering::Relaxed);
        let mut time = None;
        while at < end {
            // A record's size is a multiple of 8, and its header of 8 bytes never crosses the end of the ring.
            let word = self.word(at);
            let header = perf_event_header {
                type_: word as u32,
                misc: (word >> 32) as u16,
                size: (word >> 48) as u16,
            };
            if header.size < 16 {
                break;
            }
            at += u64::from(header.size);
            if header.type_ == PERF_RECORD_COMM {
                // The sample id comes last, and consists of the time alone.
                time = Some(self.word(at - 8));
            }
        }
        tail.store(end, Ordering::Release);
        time
    }

    /// The word at this offset, a multiple of 8.
    fn word(&self, offset: u64) -> u64 {
        // SAFETY: the second page of the mapping is the ring, and the word lies in it.
        unsafe {
            self.memory
                .as_ptr()
                .cast::<u8>()
                .add(self.page + offset as usize % self.page)
                .cast::<u64>()
                .read()
        }
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        // SAFETY: this value's own mapping, of two pages.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), 2 * self.page) };
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_it_is_now_follows_from_two_comparisons() {
        let first = Behind::default().then(1_000_000_000, 500);
        assert_eq!(first.at(2_000_000_000), 500, "nothing is known of how it grows");
        // 20 ppm, and the scheduler's clock ahead.
        let grows = first.then(2_000_000_000, 20_500);
        assert_eq!(grows.at(2_500_000_000), 30_500);
        let ahead = first.then(2_000_000_000, 500_u64.wrapping_sub(20_000));
        assert_eq!(ahead.at(3_000_000_000) as i64, -39_500);
        // No clock runs like that: one of them was set.
        assert_eq!(
            first.then(2_000_000_000, 10_000_000).at(3_000_000_000),
            10_000_000
        );
        assert_eq!(Behind::default().at(5), 0);
    }

    #[test]
    #[allow(clippy::print_stderr)] // A test that is skipped says so.
    fn it_knows_what_it_will_be_and_the_name_stays() {
        let run = || {
            let mut clock = match SchedulerClock::of_this_thread(c"dbtime-clock") {
                Ok(clock) => clock,
                Err(e) => {
                    eprintln!("SKIPPED: perf_event_open: {e}");
                    return;
                }
            };
            let mut errors: Vec<i64> = Vec::new();
            for _ in 0..5 {
                let before = clock.compare();
                std::thread::sleep(Duration::from_nanos(LASTS_NS + 10_000_000));
                let (at, ns) = clock.behind().expect("a record");
                errors.push((before.at(at).wrapping_sub(ns) as i64).abs());
            }
            errors.sort_unstable();
            assert!(errors[2] < 2_000, "ns: {errors:?}");
            let name = std::fs::read_to_string("/proc/thread-self/comm").expect("its own");
            assert_eq!(name, "dbtime-clock\n");
        };
        let thread = std::thread::Builder::new()
            .name("dbtime-clock".to_string())
            .spawn(run);
        thread.expect("a thread").join().expect("no panic");
    }
}
