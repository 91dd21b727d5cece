//! A thread that acts right at a moment, where a timer would be late.
//!
//! A sleeping CPU handles its timer late: by microseconds on real hardware, by a tenth of a millisecond in some virtual machines,
//! where a busy one needs 20 µs. A sampler that waits for a timer is latest when nothing runs, often after the very wait that had
//! left the CPU idle, and together with the interrupt that ended it. On a machine where a wait for the disk took 0.1 ms, half of
//! that time was not seen.
//!
//! So a thread wakes up shortly before the moment, gives way to everything else (SCHED_IDLE) and, if its CPU is idle, polls the
//! clock until the moment has come. If all CPUs are busy it is not run, and the timer remains.
//!
//! While it gives way it is in the run queue of its CPU, and even that disturbs: if a CPU has a second task in its queue, tasks
//! woken there go elsewhere, so that clients and sessions that answer each other run on two CPUs instead of one (a quarter of the
//! throughput of pgbench's shortest queries, measured). So it gives way at most from shortly before the moment until then, is called
//! back when the moment has passed without it, and seldom tries after several attempts in vain.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::thread::{JoinHandle, Thread};

use crate::bpf::{become_real_time, make_real_time, thread_cpu_ns};
use crate::clock::{NOTICES_STOP, monotonic_ns, sleep_until};
use crate::timer::Timer;

/// How many moments are remembered to know how late the thread wakes up.
const REMEMBERED: usize = 32;
/// Which of these counts, from the least late: if all CPUs are busy, it is late for another reason.
const TYPICAL: usize = REMEMBERED / 4;
/// On an idle CPU it is seldom twice as late.
const MARGIN: u64 = 2;
/// At most this part of a period is spent polling the clock, and never longer than this.
const SHARE_OF_PERIOD: u64 = 10;
const LONGEST_NS: u64 = 400_000;
/// After this many attempts in vain in a row, it tries one in this many moments.
const IN_VAIN: u32 = 4;
const SELDOM: u32 = 16;
/// Anything later than this is not on time.
const ON_TIME_NS: u64 = 10_000;
/// How much the waiter's timer is put off while the thread polls the clock: it would interrupt it at the very moment.
const PUT_OFF_NS: u64 = 150_000;

/// What the thread does at the moment.
pub(crate) type Act = Box<dyn FnMut(u64) + Send>;

#[derive(Debug, Default)]
struct Shared {
    /// The next one (CLOCK_MONOTONIC).
    moment: AtomicU64,
    stop: AtomicBool,
    cpu_ns: AtomicU64,
    /// The thread's id; 0 = it is not running.
    thread_id: AtomicI32,
    /// Moments since the last at which it was on time.
    in_vain: AtomicU32,
}

/// Handle of the thread; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Punctual {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    unpark: Thread,
}

impl Punctual {
    /// Starts the thread. Its moments are less than this apart on average; `timer` belongs to whoever acts when it does not, and
    /// fires when it has.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(period_ns: u64, timer: Arc<Timer>, act: Act) -> io::Result<Punctual> {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("dbtime-punctual".to_string())
            .spawn(move || {
                // Without real-time priority it is of no use.
                if become_real_time().is_ok() && make_timers_exact().is_ok() {
                    // SAFETY: a plain call without arguments.
                    of_thread
                        .thread_id
                        .store(unsafe { libc::gettid() }, Ordering::Release);
                    be_on_time(&of_thread, period_ns, &timer, act);
                    of_thread.thread_id.store(0, Ordering::Release);
                }
            })?;
        Ok(Punctual {
            unpark: thread.thread().clone(),
            shared,
            thread: Some(thread),
        })
    }

    /// When it is to act next (CLOCK_MONOTONIC), if it can.
    pub(crate) fn announce(&self, moment: u64) {
        let in_vain = self.shared.in_vain.fetch_add(1, Ordering::AcqRel);
        if in_vain >= IN_VAIN && !in_vain.is_multiple_of(SELDOM) {
            return;
        }
        self.shared.moment.store(moment, Ordering::Release);
        self.unpark.unpark();
    }

    /// The moment has passed without it, and its work has been done: it leaves the run queue.
    pub(crate) fn call_back(&self) {
        let thread = self.shared.thread_id.load(Ordering::Acquire);
        if thread != 0 {
            // Otherwise it becomes real-time by itself, when it is run.
            let _ = make_real_time(thread);
        }
    }

    /// CPU time that it has used.
    pub(crate) fn cpu_ns(&self) -> u64 {
        self.shared.cpu_ns.load(Ordering::Relaxed)
    }
}

impl Drop for Punctual {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.unpark.unpark();
        if let Some(thread) = self.thread.take() {
            // A panic in the thread has been printed already; there is nothing to be done about it here.
            let _ = thread.join();
        }
    }
}

fn be_on_time(shared: &Shared, period_ns: u64, timer: &Timer, mut act: Act) {
    let mut lateness = Lateness::new((period_ns / SHARE_OF_PERIOD).min(LONGEST_NS));
    let mut done = 0;
    while !shared.stop.load(Ordering::Acquire) {
        let moment = shared.moment.load(Ordering::Acquire);
        let come_up = moment.saturating_sub(lateness.lead());
        if moment == done || monotonic_ns() >= come_up {
            std::thread::park_timeout(NOTICES_STOP);
            continue;
        }
        done = moment;
        if sleep_until(come_up, &shared.stop) {
            return;
        }
        lateness.add(monotonic_ns() - come_up);
        // If it cannot give way, it must not poll the clock for long.
        if give_way().is_err() {
            return;
        }
        if monotonic_ns() < moment {
            timer.set(moment + PUT_OFF_NS);
            while monotonic_ns() < moment {
                // Into the kernel at every turn: on some kernels a woken task waits until the running one enters it.
                std::thread::yield_now();
            }
        }
        let is_on_time = monotonic_ns() - moment < ON_TIME_NS;
        if become_real_time().is_err() {
            return;
        }
        if is_on_time {
            act(moment);
            shared.in_vain.store(0, Ordering::Release);
            timer.set(moment);
        }
        shared.cpu_ns.store(thread_cpu_ns(), Ordering::Relaxed);
    }
}

/// How late the thread woke up the last times.
struct Lateness {
    last: VecDeque<u64>,
    lead: u64,
    longest: u64,
}

impl Lateness {
    fn new(longest: u64) -> Lateness {
        Lateness {
            last: VecDeque::with_capacity(REMEMBERED),
            lead: longest,
            longest,
        }
    }

    /// How long before the moment the thread has to wake up.
    fn lead(&self) -> u64 {
        self.lead
    }

    fn add(&mut self, ns: u64) {
        if self.last.len() == REMEMBERED {
            self.last.pop_front();
        }
        self.last.push_back(ns);
        let mut sorted: Vec<u64> = self.last.iter().copied().collect();
        sorted.sort_unstable();
        let typical = sorted[TYPICAL.min(sorted.len() - 1)];
        self.lead = (typical * MARGIN).min(self.longest);
    }
}

/// Lets everything else run before the calling thread.
fn give_way() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: pid 0 is the calling thread; `parameters` is valid.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE | libc::SCHED_RESET_ON_FORK, &parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The timers of the calling thread, while it is not real-time.
fn make_timers_exact() -> io::Result<()> {
    // SAFETY: a plain call with integer arguments, about the calling thread.
    match unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn it_comes_up_early_enough_for_an_idle_cpu_whatever_a_busy_one_does() {
        let mut lateness = Lateness::new(1_000_000);
        for n in 0..100 {
            // Two of three times there was something else to do.
            lateness.add(if n % 3 == 0 { 100_000 } else { 5_000_000 });
        }
        assert_eq!(lateness.lead(), 200_000);
        for _ in 0..REMEMBERED {
            lateness.add(3_000);
        }
        assert_eq!(lateness.lead(), 6_000);
        for _ in 0..REMEMBERED {
            lateness.add(5_000_000);
        }
        assert_eq!(lateness.lead(), 1_000_000, "never more than its share");
    }

    #[test]
    fn it_never_acts_before_the_moment_nor_twice_nor_late() {
        let timer = Arc::new(Timer::new().expect("a timer"));
        let acted = Arc::new(Mutex::new(Vec::new()));
        let found = Arc::clone(&acted);
        let act: Act = Box::new(move |moment| found.lock().expect("no panic").push((moment, monotonic_ns())));
        let punctual = Punctual::start(10_000_000, Arc::clone(&timer), act).expect("a thread");
        let go_on = AtomicBool::new(false);
        let mut moments = Vec::new();
        for _ in 0..50 {
            let moment = monotonic_ns() + 5_000_000;
            moments.push(moment);
            timer.set(moment);
            punctual.announce(moment);
            assert!(!timer.wait_for(moment, &go_on), "whether it acts or not");
            assert!(monotonic_ns() >= moment);
        }
        drop(punctual);
        let acted = acted.lock().expect("no panic");
        // How often depends on what else the machine has to do, and on privileges.
        assert!(
            acted
                .iter()
                .all(|(moment, at)| moments.contains(moment) && at >= moment)
        );
        assert!(acted.windows(2).all(|two| two[0].0 < two[1].0));
    }
}
