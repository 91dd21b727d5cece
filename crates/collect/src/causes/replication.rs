//! What a commit that waits for a standby waits for: the process that sends WAL there wakes it when the standby has answered, and waits for
//! that answer as if it had nothing to do. So the other end of its connection is examined: whether the receiving process was working or, if
//! the WAL has to be replayed, the replaying one. If neither was, what they send each other was in transit.
//!
//! Whatever the standby was doing at the moment counts, even for earlier commits, until it has reported flushing the WAL up to the commit:
//! then the commit waits for its replay alone, whatever the receiver does for others.

use std::ops::Range;

use dbtime_model::{CauseKind, State, Wait};

use super::follow::{Ender, Take};
use super::track::{Doing, Seen, SendsTo, Track, Waker};
use super::{ACTIVITY, Causes};
use crate::database::StandbyWait;

/// Class and event in which a commit waits for a standby.
const FOR_STANDBY: (&str, &str) = ("IPC", "SyncRep");
/// Event in which replay waits if it has been paused.
pub(super) const PAUSED: &str = "RecoveryPause";
/// Class of waits for the other end of a connection.
const CLIENT: &str = "Client";

/// Whether it is the wait event of a commit that waits for a standby.
pub(crate) fn is_for_standby(wait: &Wait) -> bool {
    (&*wait.class, &*wait.event) == FOR_STANDBY
}

impl Causes {
    /// Whether it is a commit that waits for a standby.
    pub(super) fn is_for_standby(&self, seen: &Seen) -> bool {
        is_for_standby(self.waits.get(seen.doing.wait)) && self.is_blocked(&seen.doing)
    }

    /// The same if only one session sends WAL: then it is known for whom before the wait ends.
    pub(super) fn is_for_the_only_standby(&self, seen: &Seen) -> bool {
        self.is_for_standby(seen) && self.only_sender().is_some()
    }

    /// The session that sends WAL, if there is only one.
    fn only_sender(&self) -> Option<(u32, &Track)> {
        let sends = |track: &&Track| track.sends_to.is_some() && track.ended_ns.is_none();
        let mut senders = self.tracks.iter().filter(|(_, track)| sends(track));
        let (&pid, track) = senders.next()?;
        senders.next().is_none().then_some((pid, track))
    }

    /// Reports the causes of passes in which a commit waited for a standby.
    pub(super) fn follow_to_standby(
        &self,
        (pid, track, place): (u32, &Track, usize),
        passes: Range<u32>,
        chain: &mut Vec<(u32, Doing)>,
        found: Take<'_>,
    ) {
        let sender = match self.who_ended(track, place) {
            Ender::Woken(Waker::Process(by, start_ns)) => {
                self.track_of(by, start_ns).map(|track| (by, track))
            }
            Ender::Nobody | Ender::Woken(Waker::Interrupt) => self.only_sender(),
            Ender::Held(_) => None,
        };
        let Some((by, of_sender, to)) = sender.and_then(|(by, track)| Some((by, track, track.sends_to?)))
        else {
            return self.follow_ender((pid, track, place), passes, chain, found);
        };
        let StandbyWait { for_replay, position } = track.seen[place].standby;
        for pass in passes {
            let flushed = of_sender.standby_flushed_at(self.time_of(pass));
            let has_log = position
                .zip(flushed)
                .is_some_and(|(position, flushed)| flushed >= position);
            let one = pass..pass + 1;
            match of_sender
                .seen_at(pass)
                .filter(|seen| self.waits_for_other_end(seen))
            {
                Some(seen) if chain.iter().all(|&(other, _)| other != by) => {
                    chain.push((by, seen.doing));
                    self.at_standby((by, to), (for_replay, has_log), one, chain, found);
                    chain.pop();
                }
                _ => self.follow_session(pid, (by, of_sender), one, chain, found),
            }
        }
    }

    /// It has sent what there is, or cannot send more.
    fn waits_for_other_end(&self, seen: &Seen) -> bool {
        let wait = self.waits.get(seen.doing.wait);
        let is_blocked = matches!(seen.doing.state, State::Sleep | State::Disk);
        is_blocked && (&*wait.class == ACTIVITY || &*wait.class == CLIENT)
    }

    /// Reports the cause of a pass in which a session waited for the standby that it sends to. `has_log`: the standby is known to have
    /// flushed what the commit wrote.
    fn at_standby(
        &self,
        (sender, to): (u32, SendsTo),
        (for_replay, has_log): (Option<bool>, bool),
        pass: Range<u32>,
        chain: &mut Vec<(u32, Doing)>,
        found: Take<'_>,
    ) {
        let (receiver, startup) = match to {
            SendsTo::Standby(receiver, startup) => (receiver, startup),
            SendsTo::Process => return found(pass, CauseKind::Process, chain),
            SendsTo::OtherHost => return found(pass, CauseKind::OtherHost, chain),
            SendsTo::NotKnown => return found(pass, CauseKind::Unknown, chain),
        };
        let moment = self.time_of(pass.start);
        let lives = |(pid, start_ns)| {
            self.track_of(pid, start_ns)
                .filter(|track| track.lives_at(moment))
        };
        let of_startup = startup.and_then(|startup| Some((startup.0, lives(startup)?)));
        if for_replay == Some(true)
            && has_log
            && let Some((by, track)) = of_startup
            && self.without_work(track, pass.start).is_none()
        {
            return self.follow_session(sender, (by, track), pass, chain, found);
        }
        // It has to receive the WAL, or to report that it is replayed.
        let Some(of_receiver) = lives(receiver) else {
            return found(pass, CauseKind::Unknown, chain);
        };
        let Some(without_work) = self.without_work(of_receiver, pass.start) else {
            return self.follow_session(sender, (receiver.0, of_receiver), pass, chain, found);
        };
        chain.push((receiver.0, without_work));
        match (for_replay, of_startup) {
            (Some(false), _) => found(pass, CauseKind::Network, chain),
            (Some(true), Some((by, track))) => match self.without_work(track, pass.start) {
                Some(_) => found(pass, CauseKind::Network, chain),
                None => self.follow_session(receiver.0, (by, track), pass, chain, found),
            },
            // What it waits for, or who would do it, is not known.
            (None, _) | (Some(true), None) => found(pass, CauseKind::Unknown, chain),
        }
        chain.pop();
    }

    /// What a background process was doing in a pass, if it had nothing to do.
    fn without_work(&self, track: &Track, pass: u32) -> Option<Doing> {
        let seen = track.seen_at(pass)?;
        let wait = self.waits.get(seen.doing.wait);
        (seen.doing.state == State::Sleep && &*wait.class == ACTIVITY).then_some(seen.doing)
    }
}
