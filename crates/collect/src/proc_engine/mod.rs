//! Observes sessions without BPF programs: a thread reads /proc/PID/{schedstat,stat,stack,syscall} and the memory of the
//! process, as often as samples are wanted.
//!
//! What it reads is not from one instant. The kernel's counters of the task (/proc/PID/schedstat: time on a CPU, in the run
//! queue, number of times it was given a CPU) are read before and after everything else: if they are equal, a task that was off
//! its CPU has not run in between, and the row holds; otherwise it is dropped and counted as torn. A task in state R is on a CPU
//! or in the run queue, it is not known which: its row stands for both, and the kernel's totals give the time of each. Its wait
//! event is read twice and must not have changed.

mod comment;
mod task;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use dbtime_model::recording::ProgramCost;

use crate::CollectError;
use crate::bpf::{Event, Losses, Programs, SamplerStatistics, become_real_time, thread_cpu_ns};
use crate::clock::{Clock, monotonic_ns};
use crate::database::{WaitSource, WaitTraits};
use crate::engine::Engine;
use crate::rhythm::{Rhythm, Standstill};
use crate::session::Unused;
use comment::ROOM;
use task::Task;

/// Events that may wait to be fetched; beyond that they are lost, and counted.
const EVENTS: usize = 100_000;
/// Sessions that can be recorded at the same time; each has three files open.
const MAX_SESSIONS: u32 = 4_096;
/// The thread uses at most one part in this many of a CPU.
const SHARE_OF_CPU: u64 = 5;

/// Orders to the thread.
enum Order {
    Watch(u32, Box<Task>),
    Forget(u32),
    Totals,
    Stop,
}

#[derive(Debug, Default)]
struct Shared {
    passes: AtomicU64,
    late: AtomicU64,
    cpu_ns: AtomicU64,
    reported_ns: AtomicU64,
    ended_ns: AtomicU64,
    lost: AtomicU64,
    standstill: Standstill,
}

/// What is read of a session besides its state and wait event.
#[derive(Clone, Copy)]
pub(crate) struct Reads {
    /// Kernel stacks.
    pub stacks: bool,
    /// What the kernel counts for it.
    pub task_counts: bool,
    /// Comments of statements.
    pub comments: bool,
}

/// See the module.
pub(crate) struct ProcEngine {
    orders: Sender<Order>,
    events: Receiver<Event>,
    /// First totals of sessions, which are accounted for from when they are taken up.
    first: VecDeque<Event>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    reads: Reads,
}

impl ProcEngine {
    /// Starts the thread. The second return value says what is not known this way.
    ///
    /// # Errors
    /// No thread can be started.
    pub(crate) fn start(
        rate_hz: u32,
        reads: Reads,
        clock: Clock,
    ) -> Result<(ProcEngine, Vec<String>), CollectError> {
        let shared = Arc::new(Shared::default());
        let (orders, received) = channel();
        let (send, events) = sync_channel(EVENTS);
        let (tell, told) = channel();
        let mut thread = Thread {
            tasks: BTreeMap::new(),
            orders: received,
            events: send,
            shared: Arc::clone(&shared),
            want_totals: false,
            task_counts: reads.task_counts,
        };
        let thread = std::thread::Builder::new()
            .name("dbtime-sampler".to_string())
            .spawn(move || {
                // The receiver waits for this very message.
                let _ = tell.send(become_real_time());
                thread.sample(u64::from(rate_hz), clock);
            })
            .map_err(|e| CollectError::Kernel(format!("the sampler thread cannot be started: {e}")))?;
        let mut reasons: Vec<String> = [
            "proc collector: state, wait event and kernel stack of a row are read one after the other, not at one \
            instant; rows of sessions that ran meanwhile are dropped and counted as torn, so short states are undersampled",
            "proc collector: a session in state R may be running or in the run queue: its wait event counts for both, \
            and the kernel's totals say how long each was",
            "proc collector: no user stacks; user and kernel CPU are not told apart; new sessions are found within \
             0.25 s, their time before that is not recorded",
        ]
        .map(str::to_string)
        .to_vec();
        if reads.task_counts {
            reasons
                .push("proc collector: what a session counts in its last second is not recorded".to_string());
        }
        if let Ok(Err(e)) = told.recv() {
            reasons.push(format!(
                "the sampler has no real-time priority ({e}; it needs CAP_SYS_NICE): on a busy host it runs late"
            ));
        }
        if reads.stacks && std::fs::read("/proc/self/stack").is_err() {
            reasons.push(
                "/proc/PID/stack cannot be read (it needs CAP_SYS_ADMIN): there are no kernel stacks"
                    .to_string(),
            );
        }
        let engine = ProcEngine {
            orders,
            events,
            first: VecDeque::new(),
            shared,
            reads,
            thread: Some(thread),
        };
        Ok((engine, reasons))
    }

    fn order(&self, order: Order) {
        // The thread ends when it is told to, and not before.
        let _ = self.orders.send(order);
    }
}

impl Engine for ProcEngine {
    fn describe(&self) -> &'static str {
        "proc: /proc and process memory, no BPF programs"
    }

    fn sees_births(&self) -> bool {
        false
    }

    fn watch(
        &mut self,
        _slot: u32,
        (pid, _): (u32, u64),
        source: WaitSource,
        _is_parent: bool,
        _space: u32,
    ) -> Result<(), CollectError> {
        // If it is gone already, the collector notices by itself.
        if let Some(mut task) = Task::open(pid, source, self.reads) {
            if self.reads.task_counts {
                self.first.extend(task.counts());
            }
            self.first.push_back(task.totals(false));
            self.order(Order::Watch(pid, Box::new(task)));
        }
        Ok(())
    }

    fn forget(&mut self, _slot: u32, pid: u32) -> Result<(), CollectError> {
        self.order(Order::Forget(pid));
        Ok(())
    }

    fn set_slots(&mut self, _slots: u32) {}

    fn capacity(&self) -> u32 {
        MAX_SESSIONS
    }

    fn left_over(&self, _slot: u32) -> (u32, Unused) {
        (0, Unused::default())
    }

    fn set_waits(&mut self, _waits: &WaitTraits) -> Result<(), CollectError> {
        Ok(())
    }

    fn want_totals(&mut self) {
        self.order(Order::Totals);
    }

    fn wait(&mut self, longest: Duration) -> Result<Vec<Event>, CollectError> {
        // Nothing here is so urgent that it has to be fetched before the time is over.
        if !longest.is_zero() {
            std::thread::sleep(longest);
        }
        Ok(self.first.drain(..).chain(self.events.try_iter()).collect())
    }

    fn stop(&mut self) {
        self.order(Order::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic in the thread has been printed already; there is nothing to be done about it here.
            let _ = thread.join();
        }
    }

    fn statistics(&self) -> SamplerStatistics {
        SamplerStatistics {
            passes: self.shared.passes.load(Ordering::Relaxed),
            late: self.shared.late.load(Ordering::Relaxed),
            failed: 0,
            cpu_ns: self.shared.cpu_ns.load(Ordering::Relaxed),
            reported_ns: self.shared.reported_ns.load(Ordering::Acquire),
            ended_ns: self.shared.ended_ns.load(Ordering::Acquire),
            standstill: self.shared.standstill.last(),
        }
    }

    fn losses(&self) -> Losses {
        Losses {
            events: self.shared.lost.load(Ordering::Relaxed),
            ..Losses::default()
        }
    }

    fn attend(&mut self, _now: u64) {}

    fn costs(&self) -> Vec<ProgramCost> {
        Vec::new()
    }

    fn programs(&mut self) -> Option<&mut Programs> {
        None
    }
}

impl Drop for ProcEngine {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Thread {
    tasks: BTreeMap<u32, Task>,
    orders: Receiver<Order>,
    events: SyncSender<Event>,
    shared: Arc<Shared>,
    want_totals: bool,
    task_counts: bool,
}

impl Thread {
    fn sample(&mut self, rate_hz: u64, clock: Clock) {
        let mut rhythm = Rhythm::start(rate_hz, SHARE_OF_CPU);
        let mut next_totals = 0;
        loop {
            let stop = self.take_orders_until(rhythm.next());
            let (now, cpu_before) = (monotonic_ns(), thread_cpu_ns());
            rhythm.begins(now, &self.shared.standstill);
            let totals = stop || std::mem::take(&mut self.want_totals) || now >= next_totals;
            if totals {
                next_totals = clock.next_second(now);
                self.shared.cpu_ns.store(cpu_before, Ordering::Relaxed);
            }
            self.pass(totals);
            if totals {
                self.shared.reported_ns.store(now, Ordering::Release);
            }
            self.shared.passes.fetch_add(1, Ordering::Relaxed);
            if stop {
                self.shared.ended_ns.store(monotonic_ns(), Ordering::Release);
                return;
            }
            if rhythm.ended(monotonic_ns(), thread_cpu_ns() - cpu_before) {
                self.shared.late.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// True when the thread is to stop.
    fn take_orders_until(&mut self, moment: u64) -> bool {
        loop {
            let left = Duration::from_nanos(moment.saturating_sub(monotonic_ns()));
            match self.orders.recv_timeout(left) {
                Ok(Order::Watch(pid, task)) => {
                    self.tasks.insert(pid, *task);
                }
                Ok(Order::Forget(pid)) => {
                    self.tasks.remove(&pid);
                }
                Ok(Order::Totals) => self.want_totals = true,
                Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => return true,
                Err(RecvTimeoutError::Timeout) => return false,
            }
        }
    }

    fn pass(&mut self, totals: bool) {
        let (events, shared, mut room) = (&self.events, &self.shared, ROOM);
        let send = |event| match events.try_send(event) {
            Err(TrySendError::Full(_)) => {
                shared.lost.fetch_add(1, Ordering::Relaxed);
            }
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
        };
        self.tasks.retain(|_, task| {
            if !task.look(&mut room) {
                send(task.totals(true));
                return false;
            }
            task.take_seen().for_each(send);
            if totals {
                if self.task_counts {
                    task.counts().into_iter().for_each(send);
                }
                send(task.totals(false));
            }
            true
        });
    }
}
