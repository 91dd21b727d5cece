//! From a wait to its cause.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use dbtime_model::{CauseKind, NO_STACK, State, StateGroup};

use super::replication::PAUSED;
use super::track::{Doing, Held, HeldBy, Seen, Track, Waker};
use super::{ACTIVITY, Causes, LOCK, TIMEOUT};
use crate::clock::Clock;

/// Most links of a chain that are followed.
const LONGEST_CHAIN: usize = 16;
/// Sleeps of one wait that are searched for the one that ended it: a deadlock timer interrupts a long one once a second.
const MOST_SLEEPS: usize = 1_000;
/// Most passes between two of them that do not find it off CPU.
const MOST_BETWEEN: u32 = 2;

/// Where samples of a blocked session lead.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Followed {
    /// Start of the second, microseconds since the Unix epoch.
    pub(super) time: i64,
    pub(super) doing: Doing,
    pub(super) kind: CauseKind,
    pub(super) chain: Vec<Doing>,
}

/// How a wait ended.
#[derive(Clone, Copy)]
pub(super) enum Ender<'a> {
    /// It goes on, or the one that waited has ended.
    Nobody,
    Woken(Waker),
    /// It went on after an interruption, and then these held the lock.
    Held(&'a Held),
}

/// Receives passes with the same cause: its kind, and who was waited for, by pid.
pub(super) type Take<'a> = &'a mut dyn FnMut(Range<u32>, CauseKind, &[(u32, Doing)]);

impl Causes {
    /// Follows the passes in which a session was found in this place of its track: those before `end` that were not followed earlier.
    pub(super) fn follow_all(
        &self,
        pid: u32,
        place: usize,
        end: u32,
        clock: Clock,
        sums: &mut HashMap<Followed, u64>,
    ) {
        let Some(track) = self.tracks.get(&pid) else {
            return;
        };
        let seen = &track.seen[place];
        let mut chain = Vec::new();
        self.follow(
            (pid, track, place),
            seen.followed..end,
            &mut chain,
            &mut |passes, kind, chain| {
                let mut seconds: BTreeMap<i64, u64> = BTreeMap::new();
                for pass in passes {
                    *seconds.entry(clock.second_us(self.time_of(pass))).or_default() += 1;
                }
                for (time, samples) in seconds {
                    let followed = Followed {
                        time,
                        // Its own stacks are recorded with its time.
                        doing: Doing {
                            kernel_stack: NO_STACK,
                            user_stack: NO_STACK,
                            ..seen.doing
                        },
                        kind,
                        chain: chain.iter().map(|&(_, doing)| doing).collect(),
                    };
                    *sums.entry(followed).or_default() += samples;
                }
            },
        );
    }

    /// Reports the causes of these passes of a blocked session, in parts. `chain`: who was waited for so far.
    fn follow(
        &self,
        (pid, track, place): (u32, &Track, usize),
        passes: Range<u32>,
        chain: &mut Vec<(u32, Doing)>,
        found: Take<'_>,
    ) {
        if self.is_for_standby(&track.seen[place]) {
            return self.follow_to_standby((pid, track, place), passes, chain, found);
        }
        if !self.is_for_others_of_its_query(pid, &track.seen[place]) {
            return self.follow_ender((pid, track, place), passes, chain, found);
        }
        for pass in passes {
            let working = self.working_for(pid, &track.seen[place], pass);
            match working.get(pass as usize % working.len().max(1)) {
                // Each of them gets an equal part of the passes.
                Some(&(by, of)) => self.follow_session(pid, (by, of), pass..pass + 1, chain, found),
                None => self.follow_ender((pid, track, place), pass..pass + 1, chain, found),
            }
        }
    }

    /// Reports the causes of passes in which a session waited for whoever held a lock, or ended the wait.
    pub(super) fn follow_ender(
        &self,
        (pid, track, place): (u32, &Track, usize),
        passes: Range<u32>,
        chain: &mut Vec<(u32, Doing)>,
        found: Take<'_>,
    ) {
        let seen = &track.seen[place];
        let mut next = passes.start;
        for held in seen.held() {
            let part = next..passes.end.min(held.until.saturating_add(1));
            if !part.is_empty() {
                next = part.end;
                self.follow_holders(pid, &held.by, part, chain, found);
            }
        }
        let rest = next..passes.end;
        if rest.is_empty() {
            return;
        }
        let ender = self.who_ended(track, place);
        let by = match ender {
            // It goes on, or an interrupt cut it: whoever held the lock before still holds it.
            Ender::Nobody | Ender::Woken(Waker::Interrupt) => seen.held().next_back(),
            Ender::Held(held) => Some(held),
            Ender::Woken(Waker::Process(..)) => None,
        };
        if let Some(held) = by {
            self.follow_holders(pid, &held.by, rest, chain, found);
            return;
        }
        if let Ender::Woken(Waker::Process(by, start_ns)) = ender
            && by != pid
            && let Some(of_waker) = self.track_of(by, start_ns)
        {
            self.follow_session(pid, (by, of_waker), rest, chain, found);
            return;
        }
        let class = &*self.waits.get(seen.doing.wait).class;
        let kind = match (seen.doing.state, ender, class) {
            (State::Disk, ..) => CauseKind::Device,
            (State::Stopped, ..) => CauseKind::Unknown,
            // It sleeps for a time that it has chosen, and still does.
            (_, Ender::Nobody, TIMEOUT) => CauseKind::Timer,
            (_, Ender::Nobody | Ender::Held(_), _) => CauseKind::Unknown,
            (_, _, "Client") => CauseKind::Client,
            // A thread of its own, in the kernel, has waited for the device (io_uring).
            (_, Ender::Woken(Waker::Process(by, _)), class) if by == pid => match class {
                "IO" => CauseKind::Device,
                _ => CauseKind::Unknown,
            },
            (_, Ender::Woken(Waker::Interrupt), "IO") => CauseKind::Device,
            // A lock is released by somebody. An interrupt cut the sleep, and what came after that was too short to be seen.
            (_, Ender::Woken(Waker::Interrupt), LOCK | "LWLock") => CauseKind::Unknown,
            (_, Ender::Woken(Waker::Interrupt), _) => CauseKind::Timer,
            (_, Ender::Woken(Waker::Process(..)), _) => CauseKind::Process,
        };
        found(rest, kind, chain);
    }

    pub(super) fn track_of(&self, pid: u32, start_ns: u64) -> Option<&Track> {
        self.tracks.get(&pid).filter(|track| track.start_ns == start_ns)
    }

    /// Reports the causes of passes in which a session waited for what these held. If there are several, each gets an equal part of the
    /// passes: all of them had to release it.
    fn follow_holders(
        &self,
        pid: u32,
        holders: &[HeldBy],
        passes: Range<u32>,
        chain: &mut Vec<(u32, Doing)>,
        found: Take<'_>,
    ) {
        let mut follow = |holder: HeldBy, part: Range<u32>| match holder {
            HeldBy::Prepared => found(part, CauseKind::Prepared, chain),
            HeldBy::Process(by, start_ns) => match self.track_of(by, start_ns) {
                Some(track) => self.follow_session(pid, (by, track), part, chain, found),
                None => found(part, CauseKind::Unknown, chain),
            },
        };
        match holders {
            [holder] => follow(*holder, passes),
            _ => {
                for pass in passes {
                    follow(holders[pass as usize % holders.len()], pass..pass + 1);
                }
            }
        }
    }

    /// Reports the causes of passes in which a session waited for this one.
    pub(super) fn follow_session(
        &self,
        pid: u32,
        (by, of_waker): (u32, &Track),
        passes: Range<u32>,
        chain: &mut Vec<(u32, Doing)>,
        found: Take<'_>,
    ) {
        // A cycle shows up if sessions are seen at different moments, or until the server breaks a deadlock.
        if by == pid || chain.len() >= LONGEST_CHAIN || chain.iter().any(|&(other, _)| other == by) {
            found(passes, CauseKind::Unknown, chain);
            return;
        }
        let mut next = passes.start;
        let first = of_waker.seen.partition_point(|seen| seen.end() <= passes.start);
        for place in first..of_waker.seen.len() {
            let other = &of_waker.seen[place];
            if other.pass >= passes.end {
                break;
            }
            self.ran(by, of_waker, next..other.pass, chain, found);
            let part = next.max(other.pass)..other.end().min(passes.end);
            next = part.end;
            chain.push((by, other.doing));
            let is_blocked = other.doing.state.group() == Some(StateGroup::Blocked);
            let wait = self.waits.get(other.doing.wait);
            match (is_blocked, wait.idle) {
                // Whatever it was doing: it was not allowed to run.
                _ if other.doing.state == State::Stopped => found(part, CauseKind::Session, chain),
                (false, _) => found(part, CauseKind::Session, chain),
                // Somebody has to resume replay.
                (true, _) if &*wait.event == PAUSED => found(part, CauseKind::Client, chain),
                // It has no client, and had been asked already. Another one of its kind may have had to pass the work on; otherwise both
                // were seen at different moments.
                (true, true) if &*wait.class == ACTIVITY => match self.like_that_gave_work(other) {
                    Some(giver) => self.follow_session(by, giver, part, chain, found),
                    None => found(part, CauseKind::Unknown, chain),
                },
                (true, true) => found(part, CauseKind::Client, chain),
                (true, false) => self.follow((by, of_waker, place), part, chain, found),
            }
            chain.pop();
        }
        self.ran(by, of_waker, next..passes.end, chain, found);
    }

    /// Who gave work to a background process that had none, if that was another one of the same kind.
    fn like_that_gave_work(&self, idle: &Seen) -> Option<(u32, &Track)> {
        let Some(Waker::Process(by, start_ns)) = idle.woken else {
            return None;
        };
        let track = self.track_of(by, start_ns)?;
        (track.without_work == Some(idle.doing.wait)).then_some((by, track))
    }

    /// In passes that did not find the awaited session off CPU, it ran.
    fn ran(
        &self,
        by: u32,
        track: &Track,
        passes: Range<u32>,
        chain: &mut Vec<(u32, Doing)>,
        found: Take<'_>,
    ) {
        for pass in passes {
            let near = track.on_cpu_at(self.time_of(pass), self.period_ns);
            let Some(doing) = near.or_else(|| self.executed_at(track, pass)) else {
                found(pass..pass + 1, CauseKind::Unknown, chain);
                continue;
            };
            let doing = Doing {
                state: State::Cpu,
                ..doing
            };
            chain.push((by, doing));
            found(pass..pass + 1, CauseKind::Session, chain);
            chain.pop();
        }
    }

    /// What was executing at a pass that did not find the session, if the one before and the one after it agree. Its wait event then is not
    /// known.
    fn executed_at(&self, track: &Track, pass: u32) -> Option<Doing> {
        let after = track.seen.partition_point(|seen| seen.pass <= pass);
        let before = &track.seen.get(after.checked_sub(1)?)?.doing;
        let after = track.seen.get(after).map_or(before, |seen| &seen.doing);
        let same = before.session == after.session && before.statement == after.statement;
        Some(Doing {
            session: before.session,
            statement: if same { before.statement } else { 0 },
            session_state: if same {
                before.session_state
            } else {
                Default::default()
            },
            wait: 0,
            state: State::Cpu,
            kernel_stack: NO_STACK,
            user_stack: NO_STACK,
        })
    }

    /// Who ended the wait that this sleep is part of: an interrupt may have cut it, and it went on.
    pub(super) fn who_ended<'a>(&self, track: &'a Track, place: usize) -> Ender<'a> {
        let seen = &track.seen[place];
        let Some(waker) = seen.woken else {
            return Ender::Nobody;
        };
        if waker != Waker::Interrupt || seen.doing.state != State::Sleep {
            return Ender::Woken(waker);
        }
        let mut end = seen.end();
        for later in track.seen.iter().skip(place + 1).take(MOST_SLEEPS) {
            if later.pass > end.saturating_add(MOST_BETWEEN) {
                break;
            }
            end = later.end();
            // Whatever its state is: it may be found before it has a CPU to check whether it goes on, or while it checks (for a deadlock),
            // which is in no wait event.
            if !later.doing.is_in_wait_of(&seen.doing) {
                if later.doing.is_of_statement_of(&seen.doing)
                    && later.doing.state.group() != Some(StateGroup::Blocked)
                {
                    continue;
                }
                break;
            }
            if let Some(held) = later.held().next() {
                return Ender::Held(held);
            }
            match later.woken {
                // It is still going on.
                None if later.closed_ns.is_none() => return Ender::Nobody,
                None | Some(Waker::Interrupt) => {}
                Some(waker) => return Ender::Woken(waker),
            }
        }
        Ender::Woken(waker)
    }
}
