//! The sampler thread: at random moments, as often as the timer fires, it makes a pass over the sessions that do not
//! run. It does nothing else, because it runs at real-time priority: at a normal one it would itself wait for a CPU
//! whenever the host is busy, and find the sessions that compete with it too seldom in the run queue.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use libbpf_rs::{MapHandle, libbpf_sys};

use super::load::{PassHandle, Programs, run_iterator, set_pass};
use super::recorder::types::dbt_pass;
use crate::CollectError;
use crate::clock::{Clock, monotonic_ns};
use crate::rhythm::{Rhythm, Standstill};

/// Lowest real-time priority: above everything that is not real-time.
const PRIORITY: i32 = 1;
/// The thread uses at most one in so many parts of a CPU: where passes take long, it makes fewer of them. The samples
/// only split exact totals, so that fewer of them cost precision, not truth.
const SHARE_OF_CPU: u64 = 10;
/// A pass that hangs in the kernel (a session's memory on a dead network disk) must not keep the recorder from ending.
const LONGEST_STOP: Duration = Duration::from_secs(5);
/// A stop is noticed within this time also at one sample a second.
const LONGEST_SLEEP_NS: u64 = 100_000_000;

/// Shared with the thread.
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    slots: AtomicU32,
    totals_wanted: AtomicBool,
    passes: AtomicU64,
    late: AtomicU64,
    failed: AtomicU64,
    cpu_ns: AtomicU64,
    standstill: Standstill,
}

/// What the thread has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SamplerStatistics {
    pub(crate) passes: u64,
    /// Passes that came more than a period late.
    pub(crate) late: u64,
    /// Passes that the kernel refused.
    pub(crate) failed: u64,
    pub(crate) cpu_ns: u64,
    /// The last time without passes: how long it was, and until when (CLOCK_MONOTONIC).
    pub(crate) standstill: Option<(u64, u64)>,
}

/// Handle of the thread; dropping it stops the thread.
#[derive(Debug)]
pub(crate) struct Sampler {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Why the thread has no real-time priority; none when it has.
    pub(crate) not_real_time: Option<String>,
}

enum Pass {
    Program(OwnedFd),
    Iterator { link: OwnedFd, argument: MapHandle },
}

impl Sampler {
    pub(crate) fn start(programs: &Programs, rate_hz: u32, clock: Clock) -> Result<Sampler, CollectError> {
        let failed =
            |e: io::Error| CollectError::Kernel(format!("the sampler thread cannot be started: {e}"));
        let pass = match &programs.pass {
            PassHandle::Program(fd) => Pass::Program(fd.try_clone().map_err(failed)?),
            PassHandle::Iterator(link) => Pass::Iterator {
                link: link.as_fd().try_clone_to_owned().map_err(failed)?,
                argument: MapHandle::try_from(&programs.current_pass)
                    .map_err(|e| CollectError::Kernel(e.to_string()))?,
            },
        };
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("dbtime-sampler".to_string())
            .spawn(move || {
                // The receiver waits for this very message.
                let _ = tell.send(become_real_time());
                sample(&pass, &of_thread, u64::from(rate_hz), clock);
            })
            .map_err(failed)?;
        let not_real_time = told.recv().ok().and_then(Result::err).map(|e| e.to_string());
        Ok(Sampler {
            shared,
            thread: Some(thread),
            not_real_time,
        })
    }

    /// Slots that a pass goes over.
    pub(crate) fn set_slots(&self, slots: u32) {
        self.shared.slots.store(slots, Ordering::Release);
    }

    /// Makes the next pass report all totals, whatever second it is: a session that was taken up is accounted for from
    /// its first totals on.
    pub(crate) fn want_totals(&self) {
        self.shared.totals_wanted.store(true, Ordering::Release);
    }

    /// What has been done so far.
    pub(crate) fn statistics(&self) -> SamplerStatistics {
        SamplerStatistics {
            passes: self.shared.passes.load(Ordering::Relaxed),
            late: self.shared.late.load(Ordering::Relaxed),
            failed: self.shared.failed.load(Ordering::Relaxed),
            cpu_ns: self.shared.cpu_ns.load(Ordering::Relaxed),
            standstill: self.shared.standstill.last(),
        }
    }

    /// Makes a last pass that reports all totals, and ends the thread.
    pub(crate) fn stop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let begin = Instant::now();
            while !thread.is_finished() {
                if begin.elapsed() > LONGEST_STOP {
                    return;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            // A panic in the thread has been printed already; there is nothing to be done about it here.
            let _ = thread.join();
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop();
    }
}

fn sample(pass: &Pass, shared: &Shared, rate_hz: u64, clock: Clock) {
    // A thread of real-time priority must leave the CPU to others, however many sessions there are.
    let mut rhythm = Rhythm::start(rate_hz, SHARE_OF_CPU);
    let mut next_totals = 0;
    loop {
        let stop = sleep_until(rhythm.next(), &shared.stop);
        let now = monotonic_ns();
        rhythm.begins(now, &shared.standstill);
        let wanted = shared.totals_wanted.swap(false, Ordering::AcqRel);
        let totals = stop || wanted || now >= next_totals;
        if totals {
            next_totals = clock.next_second(now);
            shared.cpu_ns.store(thread_cpu_ns(), Ordering::Relaxed);
        }
        if pass.run(shared.slots.load(Ordering::Acquire), totals).is_err() {
            shared.failed.fetch_add(1, Ordering::Relaxed);
        }
        shared.passes.fetch_add(1, Ordering::Relaxed);
        if stop {
            return;
        }
        if rhythm.ended(now) {
            shared.late.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Pass {
    fn run(&self, slots: u32, totals: bool) -> io::Result<()> {
        match self {
            Pass::Program(program) => {
                let mut argument = dbt_pass {
                    slots,
                    totals: totals.into(),
                };
                let mut options = libbpf_sys::bpf_test_run_opts {
                    sz: size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t,
                    ctx_in: std::ptr::from_mut(&mut argument).cast(),
                    ctx_size_in: size_of::<dbt_pass>() as u32,
                    ..Default::default()
                };
                // SAFETY: the options and the argument they point to live through the call.
                match unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &mut options) } {
                    0 => Ok(()),
                    _ => Err(io::Error::last_os_error()),
                }
            }
            Pass::Iterator { link, argument } => {
                set_pass(argument, slots, totals).map_err(io::Error::other)?;
                run_iterator(link)
            }
        }
    }
}

/// Sleeps until a moment of CLOCK_MONOTONIC; true when the thread is to stop.
fn sleep_until(moment: u64, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::Acquire) {
            return true;
        }
        let now = monotonic_ns();
        if now >= moment {
            return false;
        }
        let until = moment.min(now + LONGEST_SLEEP_NS);
        let time = libc::timespec {
            tv_sec: (until / 1_000_000_000) as i64,
            tv_nsec: (until % 1_000_000_000) as i64,
        };
        // SAFETY: `time` is a valid timespec; a signal that ends the sleep early is covered by the loop.
        unsafe {
            libc::clock_nanosleep(
                libc::CLOCK_MONOTONIC,
                libc::TIMER_ABSTIME,
                &time,
                std::ptr::null_mut(),
            )
        };
    }
}

/// Gives the calling thread the lowest real-time priority.
pub(crate) fn become_real_time() -> io::Result<()> {
    let parameters = libc::sched_param {
        sched_priority: PRIORITY,
    };
    // SAFETY: pid 0 is the calling thread; `parameters` is valid. Children do not inherit the priority.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// CPU time of the calling thread.
pub(crate) fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
