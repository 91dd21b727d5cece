//! What one session was found doing, pass after pass.

use std::collections::VecDeque;
use std::rc::Rc;

use dbtime_model::{NO_STACK, SessionId, SessionState, StackId, State};

use crate::database::StandbyWait;

/// As [`super::Found`], but compact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Doing {
    pub(super) session: SessionId,
    pub(super) statement: u64,
    pub(super) session_state: SessionState,
    /// Number of the wait event.
    pub(super) wait: u16,
    pub(super) state: State,
    pub(super) kernel_stack: StackId,
    pub(super) user_stack: StackId,
}

impl Doing {
    pub(super) fn is_of_statement_of(&self, other: &Doing) -> bool {
        (self.session, self.statement) == (other.session, other.statement)
    }

    /// True if both are in the same wait event of the same statement.
    pub(super) fn is_in_wait_of(&self, other: &Doing) -> bool {
        self.is_of_statement_of(other) && self.wait == other.wait
    }
}

/// Who ended a sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waker {
    /// No task: a timer, a device, the network.
    Interrupt,
    /// The process with this pid and start.
    Process(u32, u64),
}

/// Who held the lock that a session waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeldBy {
    /// The process with this pid and start.
    Process(u32, u64),
    Prepared,
}

/// Who held the lock, by the database's list, while a session waited, until the wait ended or the holders changed.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) by: Rc<[HeldBy]>,
    /// When it was read first, CLOCK_MONOTONIC.
    since_ns: u64,
    /// The last pass before it was last read.
    pub(super) until: u32,
}

/// Who is at the other end of the connection over which a session sends WAL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SendsTo {
    /// Pids and starts of two processes: the receiving and the replaying one.
    Standby((u32, u64), Option<(u32, u64)>),
    /// A process on this host that is not recorded.
    Process,
    OtherHost,
    NotKnown,
}

/// What a session was found doing in some passes in a row.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    /// Number of the first pass.
    pub(super) pass: u32,
    pub(super) passes: u32,
    holds: bool,
    pub(super) doing: Doing,
    pub(super) woken: Option<Waker>,
    /// In order.
    held: Vec<Held>,
    /// Of a wait for a standby.
    pub(super) standby: StandbyWait,
    /// Passes before this one have been followed already.
    pub(super) followed: u32,
    /// It has been checked against the kernel's time in run queues.
    is_judged: bool,
    /// Its passes when that time was last reported, while it went on.
    passes_told: Option<u32>,
    /// When it was over at the latest, CLOCK_MONOTONIC; none while it goes on.
    pub(super) closed_ns: Option<u64>,
}

impl Seen {
    pub(super) fn new(pass: u32, doing: Doing, holds: bool) -> Seen {
        Seen {
            pass,
            passes: 1,
            holds,
            doing,
            woken: None,
            held: Vec::new(),
            standby: StandbyWait::default(),
            followed: pass,
            is_judged: false,
            passes_told: None,
            closed_ns: None,
        }
    }

    /// At this moment, after this pass, these held the lock that it waits for.
    pub(super) fn hold(&mut self, now: u64, pass: u32, by: Vec<HeldBy>) {
        match self.held.last_mut() {
            Some(last) if *last.by == *by => last.until = pass,
            _ => self.held.push(Held {
                by: by.into(),
                since_ns: now,
                until: pass,
            }),
        }
    }

    /// Who held the lock, in order. What was read when this wait was already over belongs to another one.
    pub(super) fn held(&self) -> impl DoubleEndedIterator<Item = &Held> {
        let end = self.closed_ns.unwrap_or(u64::MAX);
        self.held.iter().filter(move |held| held.since_ns <= end)
    }

    /// Up to which pass it is known who held the lock.
    pub(super) fn held_until(&self) -> Option<u32> {
        self.held().next_back().map(|held| held.until + 1)
    }

    /// Passes before this one have been followed: who held the lock then is no longer needed.
    pub(super) fn follow_to(&mut self, pass: u32) {
        self.followed = self.followed.max(pass);
        let over = self.held.partition_point(|held| held.until < pass);
        // The last one may still hold it.
        self.held.drain(..over.min(self.held.len().saturating_sub(1)));
    }

    pub(super) fn repeat(&mut self, passes: u32) {
        if self.holds {
            self.passes = self.passes.saturating_add(passes);
        }
    }

    /// The pass after its last one.
    pub(super) fn end(&self) -> u32 {
        self.pass.saturating_add(self.passes)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Track {
    /// Of the task; 0 = not known yet.
    pub(super) start_ns: u64,
    pub(super) ended_ns: Option<u64>,
    /// Pid of the session that it works for: it is a parallel worker.
    pub(super) leader: Option<u32>,
    /// Where it sends WAL, if it does.
    pub(super) sends_to: Option<SendsTo>,
    /// When (CLOCK_MONOTONIC, at the latest) the standby had reported flushing the WAL, and up to where.
    flushed: VecDeque<(u64, u64)>,
    /// The wait event in which it waits for work, if it is a background process.
    pub(super) without_work: Option<u16>,
    pub(super) seen: VecDeque<Seen>,
    /// How many of these have been followed.
    pub(super) settled: usize,
    /// When its last sampled sleep ended, and who ended it.
    last_woken: Option<(u64, Waker)>,
    /// Time in run queues in which no pass has found it yet.
    queued_ns: u64,
    /// What the timer found on a CPU, and when.
    pub(super) on_cpu: VecDeque<(u64, Doing)>,
}

impl Track {
    /// It was found off CPU at this moment. Events of different CPUs may arrive out of order: the end of this very sleep may have been
    /// reported already, and taken for that of the one before.
    pub(super) fn off_cpu(&mut self, now: u64, mut seen: Seen) {
        if let Some((woken_ns, waker)) = self.last_woken
            && woken_ns > now
        {
            if let Some(before) = self.seen.back_mut()
                && before.closed_ns == Some(woken_ns)
            {
                before.woken = None;
                before.closed_ns = None;
            }
            seen.woken = Some(waker);
            seen.closed_ns = Some(woken_ns);
        }
        self.close(now);
        self.seen.push_back(seen);
    }

    /// The sleep in which it was last found has ended.
    pub(super) fn woken(&mut self, now: u64, waker: Waker) {
        self.last_woken = Some((now, waker));
        if let Some(seen) = self.seen.back_mut()
            && seen.closed_ns.is_none()
        {
            seen.woken = Some(waker);
            seen.closed_ns = Some(now);
        }
    }

    /// What was found last is over.
    pub(super) fn close(&mut self, now: u64) {
        if let Some(seen) = self.seen.back_mut() {
            seen.closed_ns.get_or_insert(now);
        }
    }

    /// How long it was in run queues since the last call, as the kernel counts. The sampler's own threads preempt sessions at the very
    /// moment of a pass: what was found in a run queue only once, and beyond that time, was on its CPU, in the code where it was preempted.
    /// A session in a wait event was woken, so it did wait for a CPU. `waits`: whether a number is that of a wait event.
    pub(super) fn queued(&mut self, ns: u64, period_ns: u64, waits: impl Fn(u16) -> bool) {
        let new = self.seen.iter().rev().take_while(|seen| !seen.is_judged).count();
        let first = self.seen.len() - new;
        let mut left = self.queued_ns + ns;
        let mut once: Vec<&mut Doing> = Vec::new();
        let mut open_passes = 0;
        for seen in self.seen.range_mut(first..) {
            // It may go on: then more passes find it before the next call.
            if seen.closed_ns.is_none() && seen.passes_told != Some(seen.passes) {
                seen.passes_told = Some(seen.passes);
                open_passes = seen.passes;
                continue;
            }
            seen.is_judged = true;
            if seen.doing.state != State::Runnable {
                continue;
            }
            match seen.passes {
                1 => once.push(&mut seen.doing),
                passes => left = left.saturating_sub(u64::from(passes) * period_ns),
            }
        }
        once.sort_by_key(|doing| !waits(doing.wait));
        for doing in once {
            if left >= period_ns / 2 {
                left = left.saturating_sub(period_ns);
            } else {
                doing.state = State::Cpu;
                doing.kernel_stack = NO_STACK;
            }
        }
        // The time left was between passes. It may belong to the row that goes on, and to one more.
        self.queued_ns = left.min(period_ns * (1 + u64::from(open_passes)));
    }

    pub(super) fn lives_at(&self, moment: u64) -> bool {
        self.start_ns <= moment && self.ended_ns.is_none_or(|ended| ended > moment)
    }

    /// What it was found doing off CPU in a pass.
    pub(super) fn seen_at(&self, pass: u32) -> Option<&Seen> {
        let after = self.seen.partition_point(|seen| seen.pass <= pass);
        let seen = self.seen.get(after.checked_sub(1)?)?;
        (pass < seen.end()).then_some(seen)
    }

    /// The standby that it sends WAL to had reported, before this moment, flushing it up to this position.
    pub(super) fn standby_flushed(&mut self, now: u64, position: u64) {
        if self.flushed.back().is_none_or(|&(_, last)| last != position) {
            self.flushed.push_back((now, position));
        }
    }

    /// Up to where its standby had flushed the WAL at a moment, at least.
    pub(super) fn standby_flushed_at(&self, moment: u64) -> Option<u64> {
        let after = self.flushed.partition_point(|&(time, _)| time <= moment);
        let (_, position) = self.flushed.get(after.checked_sub(1)?)?;
        Some(*position)
    }

    /// How much is remembered.
    pub(super) fn size(&self) -> usize {
        self.seen.len() + self.on_cpu.len()
    }

    /// Drops what was over before, as far as it has been followed. Returns how much that was.
    pub(super) fn forget(&mut self, since: u64) -> usize {
        let old = self
            .seen
            .iter()
            .take(self.settled)
            .take_while(|seen| seen.closed_ns.is_some_and(|closed| closed < since));
        let old = old.count();
        self.seen.drain(..old);
        self.settled -= old;
        let before = self.on_cpu.partition_point(|&(time, _)| time < since);
        self.on_cpu.drain(..before);
        // The last of them holds until the next one.
        let said = self.flushed.partition_point(|&(time, _)| time < since);
        self.flushed.drain(..said.saturating_sub(1));
        old + before
    }

    /// What it was found doing on a CPU nearest to a moment, no further away than this.
    pub(super) fn on_cpu_at(&self, moment: u64, within: u64) -> Option<Doing> {
        let after = self.on_cpu.partition_point(|&(time, _)| time < moment);
        let near = [after.checked_sub(1), Some(after)]
            .into_iter()
            .flatten()
            .filter_map(|place| self.on_cpu.get(place))
            .map(|&(time, doing)| (time.abs_diff(moment), doing));
        near.filter(|(distance, _)| *distance <= within)
            .min_by_key(|(distance, _)| *distance)
            .map(|(_, doing)| doing)
    }
}
