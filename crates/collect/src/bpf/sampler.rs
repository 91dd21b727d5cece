//! The sampler thread: at random moments, as often as the timer fires, it makes a pass over the sessions that are not running. It does
//! nothing else, because it runs at real-time priority: at a normal one it would itself wait for a CPU whenever the host is busy, and too
//! rarely find the sessions that compete with it in the run queue.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use libbpf_rs::{MapHandle, libbpf_sys};

use super::load::{PassHandle, Programs, run_iterator, set_pass};
use super::recorder::types::dbt_pass;
use super::scheduler_clock::{Behind, SchedulerClock};
use crate::CollectError;
use crate::clock::{Clock, monotonic_ns};
use crate::punctual::{Act, Punctual};
use crate::rhythm::{Rhythm, Standstill};
use crate::timer::Timer;

/// Lowest real-time priority: above everything that is not real-time.
const PRIORITY: i32 = 1;
/// The thread uses at most one part in this many of a CPU: if passes take long, it makes fewer. Samples only split exact totals, so fewer
/// of them cost precision, not correctness.
const SHARE_OF_CPU: u64 = 10;
const NAME: &CStr = c"dbtime-sampler";
/// A pass that hangs in the kernel (a session's memory on a dead network disk) must not keep the recorder from ending.
const LONGEST_STOP: Duration = Duration::from_secs(5);

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
    reported_ns: AtomicU64,
    ended_ns: AtomicU64,
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
    /// When the last pass that has reported all totals began (CLOCK_MONOTONIC).
    pub(crate) reported_ns: u64,
    /// When the very last pass had reported all totals; 0 = it has not, or could not.
    pub(crate) ended_ns: u64,
    /// The last period without passes: its length, and until when (CLOCK_MONOTONIC).
    pub(crate) standstill: Option<(u64, u64)>,
}

/// Handle of the thread; dropping it stops the thread.
#[derive(Debug)]
pub(crate) struct Sampler {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Why the thread has no real-time priority; none if it has.
    pub(crate) not_real_time: Option<String>,
}

enum Pass {
    Program(OwnedFd),
    Iterator { link: OwnedFd, argument: MapHandle },
}

impl Sampler {
    /// `punctual`: passes are made at their moments as exactly as possible, because the states that they find count: in the sampled tier.
    /// In the exact ones samples only show where in the code exact times were spent.
    pub(crate) fn start(
        programs: &Programs,
        rate_hz: u32,
        punctual: bool,
        clock: Clock,
    ) -> Result<Sampler, CollectError> {
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
        let announce = match &programs.announcements {
            Ok(announcements) if punctual => Some(announcements.program.try_clone().map_err(failed)?),
            _ => None,
        };
        let timer = Arc::new(Timer::new().map_err(failed)?);
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new()
            .name(NAME.to_string_lossy().into_owned())
            .spawn(move || {
                let scheduler_clock = match SchedulerClock::of_this_thread(NAME) {
                    Ok(scheduler_clock) => scheduler_clock,
                    Err(e) => {
                        let _ = tell.send(Err(e));
                        return;
                    }
                };
                // The receiver waits for this very message.
                let _ = tell.send(Ok(become_real_time()));
                sample(
                    (pass, announce),
                    &of_thread,
                    &timer,
                    u64::from(rate_hz),
                    punctual,
                    (clock, scheduler_clock),
                );
            })
            .map_err(failed)?;
        let priority = told
            .recv()
            .map_err(io::Error::other)
            .and_then(|started| started)
            .map_err(failed)?;
        let not_real_time = priority.err().map(|e| e.to_string());
        Ok(Sampler {
            shared,
            thread: Some(thread),
            not_real_time,
        })
    }

    /// Sets how many slots a pass covers.
    pub(crate) fn set_slots(&self, slots: u32) {
        self.shared.slots.store(slots, Ordering::Release);
    }

    /// Makes the next pass report all totals, even within a second: a new session is accounted for from its first totals on.
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
            reported_ns: self.shared.reported_ns.load(Ordering::Acquire),
            ended_ns: self.shared.ended_ns.load(Ordering::Acquire),
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

/// State of the passes, for all threads that make them.
struct Passes {
    pass: Pass,
    shared: Arc<Shared>,
    clock: Clock,
    next_totals: u64,
    /// The moment that a timer in the kernel notes; 0 = it notes none.
    announced: u64,
    /// The moment of the last one, and when it began and ended.
    moment: u64,
    begin: u64,
    end: u64,
    /// CPU time that it used.
    cpu_ns: u64,
    /// Whether it reported totals: once a second.
    totals: bool,
    /// Whether any session has run since the one before.
    sessions_ran: bool,
    /// How far the scheduler's clock is behind.
    behind: Behind,
}

impl Passes {
    /// Makes the pass of a moment.
    fn make(&mut self, moment: u64, stop: bool) {
        let cpu_before = thread_cpu_ns();
        self.moment = moment;
        self.begin = monotonic_ns();
        let wanted = self.shared.totals_wanted.swap(false, Ordering::AcqRel);
        self.totals = stop || wanted || self.begin >= self.next_totals;
        if self.totals {
            self.next_totals = self.clock.next_second(self.begin);
        }
        let pass = dbt_pass {
            slots: self.shared.slots.load(Ordering::Acquire),
            totals: self.totals.into(),
            // The pass of a stop comes before its moment.
            moment: moment.min(self.begin),
            clock_offset: self.behind.at(self.begin),
            number: self.shared.passes.load(Ordering::Relaxed),
            announced: self.announced,
            is_last: stop.into(),
        };
        match self.pass.run(pass) {
            Ok(sessions_ran) => {
                self.sessions_ran = sessions_ran;
                if self.totals {
                    self.shared.reported_ns.store(self.begin, Ordering::Release);
                }
                if stop {
                    self.shared.ended_ns.store(monotonic_ns(), Ordering::Release);
                }
            }
            Err(_) => {
                self.shared.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.shared.passes.fetch_add(1, Ordering::Relaxed);
        self.end = monotonic_ns();
        self.cpu_ns = thread_cpu_ns() - cpu_before;
    }
}

fn sample(
    (pass, announce): (Pass, Option<OwnedFd>),
    shared: &Arc<Shared>,
    timer: &Arc<Timer>,
    rate_hz: u64,
    punctual: bool,
    (clock, mut scheduler_clock): (Clock, SchedulerClock),
) {
    // A thread of real-time priority must leave the CPU to others, however many sessions there are.
    let mut rhythm = Rhythm::start(rate_hz, SHARE_OF_CPU);
    let passes = Arc::new(Mutex::new(Passes {
        pass,
        shared: Arc::clone(shared),
        clock,
        next_totals: 0,
        announced: 0,
        moment: 0,
        begin: 0,
        end: 0,
        cpu_ns: 0,
        totals: false,
        sessions_ran: false,
        behind: scheduler_clock.compare(),
    }));
    let of_punctual = Arc::clone(&passes);
    let act: Act = Box::new(move |moment| {
        if let Ok(mut passes) = of_punctual.try_lock()
            && passes.moment != moment
            // The last pass is not made here: one more would count for time that is over.
            && !passes.shared.stop.load(Ordering::Acquire)
        {
            passes.make(moment, false);
        }
    });
    let punctual = punctual
        .then(|| Punctual::start(1_000_000_000 / rate_hz, Arc::clone(timer), act).ok())
        .flatten();
    let mut sessions_ran = true;
    loop {
        let moment = rhythm.next();
        // Sleepers stay as they are, whatever the moment.
        let announced = sessions_ran
            && announce
                .as_ref()
                .is_some_and(|program| announce_to(program, moment, shared));
        passes.lock().unwrap_or_else(PoisonError::into_inner).announced = if announced { moment } else { 0 };
        timer.set(moment);
        if let (Some(punctual), true) = (&punctual, sessions_ran) {
            punctual.announce(moment);
        }
        let stop = timer.wait_for(moment, &shared.stop);
        // A panic while it was held has been printed.
        let mut passes = passes.lock().unwrap_or_else(PoisonError::into_inner);
        if stop || passes.moment != moment {
            passes.make(timer.due(), stop);
            passes.moment = moment;
            punctual.iter().for_each(Punctual::call_back);
        }
        sessions_ran = passes.sessions_ran;
        rhythm.begins(passes.begin, &shared.standstill);
        if passes.totals {
            passes.behind = scheduler_clock.compare();
            let punctual_ns = punctual.as_ref().map_or(0, Punctual::cpu_ns);
            shared
                .cpu_ns
                .store(thread_cpu_ns() + punctual_ns, Ordering::Relaxed);
        }
        if stop {
            return;
        }
        if rhythm.ended(passes.end, passes.cpu_ns) {
            shared.late.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Makes the timer in the kernel note a moment. False = it will not.
fn announce_to(program: &OwnedFd, moment: u64, shared: &Shared) -> bool {
    let slots = shared.slots.load(Ordering::Acquire);
    let pass = dbt_pass {
        slots,
        moment,
        ..dbt_pass::default()
    };
    run_program(program, pass).is_ok_and(|refused| refused == 0)
}

/// Runs a program of the sampler, and returns its result.
fn run_program(program: &OwnedFd, mut pass: dbt_pass) -> io::Result<u32> {
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t,
        ctx_in: std::ptr::from_mut(&mut pass).cast(),
        ctx_size_in: size_of::<dbt_pass>() as u32,
        ..Default::default()
    };
    // SAFETY: the options and the pass they point to live through the call.
    match unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &mut options) } {
        0 => Ok(options.retval),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Pass {
    /// True if a session has run since the pass before, or if that is not known.
    fn run(&self, pass: dbt_pass) -> io::Result<bool> {
        match self {
            Pass::Program(program) => run_program(program, pass).map(|ran| ran > 0),
            Pass::Iterator { link, argument } => {
                set_pass(argument, &pass).map_err(io::Error::other)?;
                run_iterator(link).map(|()| true)
            }
        }
    }
}

/// Gives the calling thread the lowest real-time priority.
pub(crate) fn become_real_time() -> io::Result<()> {
    make_real_time(0)
}

/// Gives this priority to a thread of this process; 0 is the calling one.
pub(crate) fn make_real_time(thread: libc::pid_t) -> io::Result<()> {
    let parameters = libc::sched_param {
        sched_priority: PRIORITY,
    };
    // SAFETY: `parameters` is valid. Children do not inherit the priority.
    match unsafe {
        libc::sched_setscheduler(thread, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &parameters)
    } {
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
