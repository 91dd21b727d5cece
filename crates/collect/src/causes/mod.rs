//! Whom blocked sessions waited for: every sample of a blocked session is traced to whoever ended its wait, and to what that one was doing
//! in the same pass of the sampler.
//!
//! The kernel reports who woke a session from a sleep in which it was sampled. The waker was running at that moment, so its own waits up to
//! then are over and it is known who ended them: the chain can be followed without gaps. This is done some seconds later, when all sessions
//! have reported how long their rows held.

mod follow;
mod parallel;
mod replication;
#[cfg(test)]
mod tests;
mod track;

use std::collections::{HashMap, VecDeque};

use dbtime_model::{
    CauseLink, CauseRow, SessionId, SessionState, StackId, State, StateGroup, Wait, WaitKind,
};

use crate::clock::Clock;
use crate::database::{Holder, Standby, StandbyWait};
use follow::Followed;
pub(crate) use replication::is_for_standby;
pub(crate) use track::Waker;
use track::{Doing, HeldBy, Seen, SendsTo, Track};

/// Sessions report once a second how long their rows held.
const SETTLED_AFTER_NS: u64 = 2_500_000_000;
/// How far back a wait is followed, and how much is remembered of all sessions for that.
const REMEMBERED_NS: u64 = 120_000_000_000;
const MOST_SEEN: usize = 200_000;
/// Class of waits for what another session holds.
const LOCK: &str = "Lock";
/// Class of waits for a time to pass.
const TIMEOUT: &str = "Timeout";
/// Class of waits of background processes that have no work.
const ACTIVITY: &str = "Activity";

/// What a session was found doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) session: SessionId,
    pub(crate) statement: u64,
    pub(crate) session_state: SessionState,
    pub(crate) wait: Wait,
    pub(crate) state: State,
    pub(crate) kernel_stack: StackId,
    pub(crate) user_stack: StackId,
}

/// See the module.
pub(crate) struct Causes {
    period_ns: u64,
    /// By pid.
    tracks: HashMap<u32, Track>,
    /// Number of a pass and when it was made, CLOCK_MONOTONIC.
    passes: VecDeque<(u32, u64)>,
    waits: Waits,
    /// What is remembered in all tracks.
    size: usize,
    /// Parallel workers by the pid of their leader, when waits were followed last.
    workers: HashMap<u32, Vec<u32>>,
}

/// Wait events, each once.
#[derive(Debug, Default)]
struct Waits {
    all: Vec<Wait>,
    numbers: HashMap<Wait, u16>,
}

impl Waits {
    fn number(&mut self, wait: Wait) -> u16 {
        if let Some(&number) = self.numbers.get(&wait) {
            return number;
        }
        // A database has a few hundred; there may be more unknown numbers.
        let Ok(number) = u16::try_from(self.all.len()) else {
            return 0;
        };
        self.all.push(wait.clone());
        self.numbers.insert(wait, number);
        number
    }

    fn get(&self, number: u16) -> &Wait {
        &self.all[usize::from(number)]
    }
}

impl Causes {
    pub(crate) fn new(rate_hz: u32) -> Causes {
        let mut waits = Waits::default();
        waits.number(Wait::not_read());
        Causes {
            period_ns: 1_000_000_000 / u64::from(rate_hz),
            tracks: HashMap::new(),
            passes: VecDeque::new(),
            waits,
            size: 0,
            workers: HashMap::new(),
        }
    }

    /// A task is a session from now on, or another one than before.
    pub(crate) fn know(&mut self, pid: u32, start_ns: u64) {
        let track = self.tracks.entry(pid).or_default();
        if track.start_ns != start_ns && track.start_ns != 0 {
            self.size -= track.size();
            *track = Track::default();
        }
        track.start_ns = start_ns;
    }

    /// It is a parallel worker of the session with this pid.
    pub(crate) fn works_for(&mut self, pid: u32, leader: u32) {
        self.tracks.entry(pid).or_default().leader = Some(leader);
    }

    /// Whether it is known whose worker it is.
    pub(crate) fn knows_leader(&self, pid: u32) -> bool {
        self.tracks.get(&pid).is_some_and(|track| track.leader.is_some())
    }

    /// It was found off CPU in a pass. `holds`: passes in which nothing has changed may follow.
    pub(crate) fn off_cpu(&mut self, pid: u32, (pass, now): (u32, u64), found: Found, holds: bool) {
        if self.passes.back().is_none_or(|&(last, _)| last < pass) {
            self.passes.push_back((pass, now));
        }
        let doing = self.doing(found);
        let track = self.tracks.entry(pid).or_default();
        if &*self.waits.get(doing.wait).class == ACTIVITY {
            track.without_work = Some(doing.wait);
        }
        track.off_cpu(now, Seen::new(pass, doing, holds));
        self.size += 1;
    }

    /// The timer found it on a CPU.
    pub(crate) fn on_cpu(&mut self, pid: u32, now: u64, found: Found) {
        let doing = self.doing(found);
        self.tracks.entry(pid).or_default().on_cpu.push_back((now, doing));
        self.size += 1;
    }

    /// What it was last found doing still held in this many passes.
    pub(crate) fn repeat(&mut self, pid: u32, passes: u32) {
        if let Some(seen) = self.tracks.get_mut(&pid).and_then(|track| track.seen.back_mut()) {
            seen.repeat(passes);
        }
    }

    /// How long it was in run queues since the last call, nanoseconds.
    pub(crate) fn queued(&mut self, pid: u32, ns: u64) {
        if let Some(track) = self.tracks.get_mut(&pid) {
            let waits = |wait| self.waits.get(wait).kind() == WaitKind::Event;
            track.queued(ns, self.period_ns, waits);
        }
    }

    /// The sleep in which it was last found has ended.
    pub(crate) fn woken(&mut self, pid: u32, now: u64, waker: Waker) {
        if let Some(track) = self.tracks.get_mut(&pid) {
            track.woken(now, waker);
        }
    }

    /// Sessions that wait for a lock now.
    pub(crate) fn waiting_for_locks(&self) -> Vec<u32> {
        let waits = |track: &Track| {
            let open = track.seen.back().filter(|seen| seen.closed_ns.is_none());
            open.is_some_and(|seen| {
                self.is_blocked(&seen.doing) && &*self.waits.get(seen.doing.wait).class == LOCK
            })
        };
        let waiting = self.tracks.iter().filter(|(_, track)| waits(track));
        waiting.map(|(&pid, _)| pid).collect()
    }

    /// What a session waits for is held by these at this moment.
    pub(crate) fn held(&mut self, pid: u32, now: u64, holders: &[Holder]) {
        let pass = self.pass_at(now);
        let by = holders.iter().filter_map(|holder| match *holder {
            Holder::Process(pid) => Some(HeldBy::Process(pid, self.tracks.get(&pid)?.start_ns)),
            Holder::Prepared => Some(HeldBy::Prepared),
        });
        let by: Vec<HeldBy> = by.collect();
        if let Some(seen) = self.tracks.get_mut(&pid).and_then(|track| track.seen.back_mut())
            && !by.is_empty()
        {
            seen.hold(now, pass, by);
        }
    }

    /// What it waits for in the wait in which it was last found.
    pub(crate) fn waits_for_standby(&mut self, pid: u32, wait: StandbyWait) {
        if let Some(seen) = self.tracks.get_mut(&pid).and_then(|track| track.seen.back_mut()) {
            seen.standby = wait;
        }
    }

    /// Whether it is known to send WAL, wherever.
    pub(crate) fn sends_log(&self, pid: u32) -> bool {
        self.tracks
            .get(&pid)
            .is_some_and(|track| track.sends_to.is_some())
    }

    /// Before this moment the standby that it sends WAL to had reported flushing it up to this position.
    pub(crate) fn standby_flushed(&mut self, pid: u32, now: u64, position: u64) {
        if let Some(track) = self.tracks.get_mut(&pid) {
            track.standby_flushed(now, position);
        }
    }

    /// Whether it is known where it sends WAL. `may_come`: standbys are recorded, and one may be met later.
    pub(crate) fn knows_standby(&self, pid: u32, may_come: bool) -> bool {
        match self.tracks.get(&pid).and_then(|track| track.sends_to) {
            None | Some(SendsTo::NotKnown) => false,
            Some(SendsTo::Process | SendsTo::Standby(_, None)) => !may_come,
            Some(SendsTo::Standby(_, Some(_)) | SendsTo::OtherHost) => true,
        }
    }

    /// It sends WAL to this one. `recorded`: receiving processes of standbys, with those that replay. Nothing says who is at the other end
    /// of a Unix socket; whoever wakes the session must be: another server can wake it in no other way.
    pub(crate) fn sends_to(&mut self, pid: u32, standby: Standby, recorded: &[(u32, Option<u32>)]) {
        let process = |pid| Some((pid, self.tracks.get(&pid)?.start_ns));
        let wakes = |receiver: u32| {
            let mut seen = self.tracks.get(&pid).into_iter().flat_map(|track| &track.seen);
            seen.any(|seen| matches!(seen.woken, Some(Waker::Process(by, _)) if by == receiver))
        };
        let standby = match standby {
            Standby::Process => match recorded.iter().find(|(receiver, _)| wakes(*receiver)) {
                Some(&(receiver, startup)) => Standby::Recorded { receiver, startup },
                None => Standby::Process,
            },
            other => other,
        };
        let to = match standby {
            Standby::Recorded { receiver, startup } => match process(receiver) {
                Some(receiver) => SendsTo::Standby(receiver, startup.and_then(process)),
                // It will be met soon.
                None => SendsTo::NotKnown,
            },
            Standby::Process => SendsTo::Process,
            Standby::OtherHost => SendsTo::OtherHost,
            Standby::NotKnown => SendsTo::NotKnown,
        };
        if let Some(track) = self.tracks.get_mut(&pid) {
            track.sends_to = Some(to);
        }
    }

    /// It has ended.
    pub(crate) fn end(&mut self, pid: u32, now: u64) {
        if let Some(track) = self.tracks.get_mut(&pid) {
            track.close(now);
            track.ended_ns = Some(now);
        }
    }

    fn doing(&mut self, found: Found) -> Doing {
        Doing {
            session: found.session,
            statement: found.statement,
            session_state: found.session_state,
            wait: self.waits.number(found.wait),
            state: found.state,
            kernel_stack: found.kernel_stack,
            user_stack: found.user_stack,
        }
    }

    /// Follows the waits that ended some seconds before `now`, and makes rows of them. `all`: every wait, even those that go on.
    pub(crate) fn settle(&mut self, now: u64, all: bool, clock: Clock, rows: &mut Vec<CauseRow>) {
        let before = match all {
            true => u64::MAX,
            false => now.saturating_sub(SETTLED_AFTER_NS),
        };
        let mut sums: HashMap<Followed, u64> = HashMap::new();
        let over = self.pass_at(before);
        self.find_workers();
        let mut open = Vec::new();
        for (&pid, track) in &self.tracks {
            for (place, seen) in track.seen.iter().enumerate().skip(track.settled) {
                let is_over = all || seen.closed_ns.is_some_and(|closed| closed < before);
                // A wait that goes on is followed as far as it is known who held the lock: it may outlast what is remembered.
                let end = match is_over {
                    true => seen.end(),
                    // A leader may wait that long for its workers, and a commit for the only standby.
                    false
                        if self.is_for_others_of_its_query(pid, seen)
                            || self.is_for_the_only_standby(seen) =>
                    {
                        over.min(seen.end())
                    }
                    false => seen.held_until().map_or(0, |held| held.min(over).min(seen.end())),
                };
                if self.is_blocked(&seen.doing) && seen.followed < end {
                    self.follow_all(pid, place, end, clock, &mut sums);
                }
                if !is_over {
                    open.push((pid, place, end));
                    // What comes after it is not over either.
                    break;
                }
            }
        }
        for (pid, place, end) in open {
            if let Some(seen) = self
                .tracks
                .get_mut(&pid)
                .and_then(|track| track.seen.get_mut(place))
            {
                seen.follow_to(end);
            }
        }
        for track in self.tracks.values_mut() {
            let open = track
                .seen
                .iter()
                .skip(track.settled)
                .take_while(|seen| seen.closed_ns.is_some_and(|closed| closed < before));
            track.settled += open.count();
        }
        self.forget(now);
        let mut settled: Vec<CauseRow> = sums
            .into_iter()
            .map(|(followed, samples)| self.row(followed, samples))
            .collect();
        settled.sort_unstable_by_key(|row| (row.time, row.session));
        rows.append(&mut settled);
    }

    /// It waits for somebody, and not for work.
    fn is_blocked(&self, doing: &Doing) -> bool {
        let wait = self.waits.get(doing.wait);
        doing.state.group() == Some(StateGroup::Blocked) && !wait.idle && wait.kind() != WaitKind::Unknown
    }

    fn row(&self, followed: Followed, samples: u64) -> CauseRow {
        let wait = self.waits.get(followed.doing.wait);
        CauseRow {
            time: followed.time,
            session: followed.doing.session,
            statement: followed.doing.statement,
            wait_class: wait.class.clone(),
            wait_event: wait.event.clone(),
            state: followed.doing.state,
            kind: followed.kind,
            chain: followed.chain.iter().map(|doing| self.link(doing)).collect(),
            samples,
        }
    }

    fn link(&self, doing: &Doing) -> CauseLink {
        let wait = self.waits.get(doing.wait);
        CauseLink {
            session: doing.session,
            statement: doing.statement,
            session_state: doing.session_state,
            wait_class: wait.class.clone(),
            wait_event: wait.event.clone(),
            state: doing.state,
            kernel_stack: doing.kernel_stack,
            user_stack: doing.user_stack,
        }
    }

    /// Drops what nobody can still have waited for, or what there is no room for: waits that go back that far end there as unknown.
    fn forget(&mut self, now: u64) {
        let mut remembered = REMEMBERED_NS;
        loop {
            let since = now.saturating_sub(remembered);
            self.tracks.retain(|_, track| {
                self.size -= track.forget(since);
                track.ended_ns.is_none_or(|ended| ended >= since) || track.settled < track.seen.len() || {
                    self.size -= track.size();
                    false
                }
            });
            if self.size <= MOST_SEEN || remembered < SETTLED_AFTER_NS {
                break;
            }
            remembered /= 2;
        }
        let since = now.saturating_sub(REMEMBERED_NS);
        let old = self.passes.partition_point(|&(_, time)| time < since);
        // The last of them dates those after it.
        self.passes.drain(..old.saturating_sub(1));
    }

    /// The last pass that was made before a moment.
    fn pass_at(&self, moment: u64) -> u32 {
        let after = self.passes.partition_point(|&(_, time)| time <= moment);
        match after.checked_sub(1).map(|place| self.passes[place]) {
            Some((known, time)) => {
                let further = (moment - time) / self.period_ns;
                known.saturating_add(u32::try_from(further).unwrap_or(u32::MAX))
            }
            None => 0,
        }
    }

    /// When a pass was made, even if it found nothing and is not listed.
    fn time_of(&self, pass: u32) -> u64 {
        let after = self.passes.partition_point(|&(known, _)| known <= pass);
        match after.checked_sub(1).map(|place| self.passes[place]) {
            Some((known, time)) => time + u64::from(pass - known) * self.period_ns,
            None => self.passes.front().map_or(0, |&(_, time)| time),
        }
    }
}
