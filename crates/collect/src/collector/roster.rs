//! Which sessions are recorded: they are taken up, followed through a restart of their server, and their accounts closed.

use std::rc::Rc;
use std::time::{Duration, Instant};

use dbtime_model::SessionId;

use super::Collector;
use crate::clock::monotonic_ns;
use crate::database::{Change, Member, Texts, WaitSource};
use crate::left_out::LeftOut;
use crate::session::{Identity, LiveSession};
use crate::{CollectError, process};

/// How often the database is checked: for a server that has gone, for what is new.
const LOOK_AT_DATABASE: Duration = Duration::from_millis(250);
/// If nothing is reported about a session for this long, its process is looked for.
const UNREPORTED_NS: u64 = 3_000_000_000;
/// Time of a session without numbers that is worth mentioning.
const LEAST_MISSING_NS: u64 = 100_000_000;

impl Collector {
    /// A child of the server's parent has begun.
    pub(super) fn begin_session(
        &mut self,
        pid: u32,
        start_ns: u64,
        source: WaitSource,
        slot: Option<u32>,
    ) -> Result<(), CollectError> {
        // The end of an earlier process with this pid was lost, or has only just arrived; or it was found in the list of processes before
        // this event arrived.
        let earlier = self.sessions.remove(&pid);
        let is_watched = slot.is_some() && earlier.is_none();
        if let Some(earlier) = earlier {
            self.end_session(earlier)?;
        }
        let Some(slot) = slot.or_else(|| self.take_slot()) else {
            self.left_out.begun(pid);
            return Ok(());
        };
        self.take_ready_slot(slot)?;
        let space = self
            .unwinding
            .as_ref()
            .map_or(0, |unwinding| unwinding.begin(pid));
        if !is_watched {
            self.engine.watch(slot, (pid, start_ns), source, false, space)?;
        }
        let id = self.take_id(pid);
        if let Some(latencies) = &mut self.latencies {
            latencies.know(pid, start_ns, id);
        }
        if let Some(counter) = &mut self.lock_counter {
            counter.know(pid, start_ns, id);
        }
        if let Some(causes) = &mut self.causes {
            causes.know(pid, start_ns);
        }
        let child = Member {
            pid,
            source,
            role: self.database.role_of_children(),
            is_of_parent: true,
        };
        let identity = self.identity(id, slot, child);
        let period_ns = 1_000_000_000 / u64::from(self.options.rate_hz);
        let session = Box::new(LiveSession::begin(identity, start_ns, monotonic_ns(), period_ns));
        self.sessions.insert(pid, session);
        self.nameless.insert(pid);
        Ok(())
    }

    /// Closes the accounts of the sessions that ended before this moment (CLOCK_MONOTONIC).
    pub(super) fn end_sessions(&mut self, before: u64) -> Result<(), CollectError> {
        // Does not go through all sessions: there may be thousands, and this is done many times a second.
        let mut ending = std::mem::take(&mut self.ending);
        let mut ended = Vec::new();
        ending.retain(
            |pid| match self.sessions.get(pid).and_then(|session| session.end_ns()) {
                Some(end) if end < before => {
                    ended.push(*pid);
                    false
                }
                Some(_) => true,
                // It is another process by now.
                None => false,
            },
        );
        self.ending = ending;
        for pid in ended {
            if let Some(session) = self.sessions.remove(&pid) {
                self.end_session(session)?;
            }
        }
        Ok(())
    }

    /// True if a process is so new that it may set its title at any moment.
    pub(super) fn is_anyone_about_to_be_named(&self, now: u64) -> bool {
        let mut sessions = self.nameless.iter().filter_map(|pid| self.sessions.get(pid));
        sessions.any(|session| session.is_about_to_be_named(now))
    }

    /// Reads the titles of those that have no name yet.
    pub(super) fn look_for_names(&mut self, now: u64) {
        let sessions = &mut self.sessions;
        let uncounted = &mut self.uncounted;
        let mut writes_checkpoints = false;
        self.nameless.retain(|pid| {
            sessions.get_mut(pid).is_some_and(|session| {
                session.look_for_title(now);
                if session.is_client() {
                    uncounted.push(*pid);
                }
                writes_checkpoints |= session.writes_checkpoints();
                session.is_nameless()
            })
        });
        if writes_checkpoints {
            self.note_recovery();
        }
    }

    /// The process that writes checkpoints lives as long as the server. After a crash of one of its processes the server ends all others,
    /// this one too, and starts another. (The one that replays WAL may live for less than a title takes to be read.)
    fn note_recovery(&mut self) {
        let mut ending = self.ending.iter().filter_map(|pid| self.sessions.get(pid));
        if self.checkpointer_has_ended || ending.any(|session| session.writes_checkpoints()) {
            self.note(
                "the server recovers from a crash: it ended all sessions, and replays WAL before new ones can begin"
                    .to_string(),
            );
        }
        self.checkpointer_has_ended = false;
    }

    /// Closes the account of a session: with the totals of its end, or, if these were lost, with the last ones.
    pub(super) fn end_session(&mut self, mut session: Box<LiveSession>) -> Result<(), CollectError> {
        self.checkpointer_has_ended |= session.writes_checkpoints();
        self.count_last_transactions(&session);
        match session.end.take() {
            Some(end) => {
                let (repeats, unused) = self.engine.left_over(session.slot);
                session.repeat(repeats);
                if let Some(causes) = &mut self.causes {
                    causes.repeat(session.pid, repeats);
                }
                self.take_totals(&mut session, &end, unused);
            }
            None => self.abandon(&mut session, monotonic_ns()),
        }
        self.forget(&session)?;
        self.note_end(session.pid);
        Ok(())
    }

    /// Closes the account of a session that ended at this moment, or before, with the last numbers received.
    pub(super) fn abandon(&mut self, session: &mut LiveSession, end_ns: u64) {
        let until = session.accounted_ns().unwrap_or(end_ns);
        let missing = end_ns.saturating_sub(until);
        // The last numbers of those that live on are some milliseconds old.
        if missing >= LEAST_MISSING_NS {
            self.quality.missing_ns += missing;
        }
        self.quality.samples += session.abandon(self.clock, &mut self.rows, &mut self.pool);
    }

    /// Adds what the database reports as missing, or as determined in another way.
    pub(super) fn take_reasons(&mut self) {
        for reason in self.database.reasons() {
            if !self.reasons.contains(&reason) {
                self.reasons.push(reason);
            }
        }
    }

    /// Begins with a database: takes up its existing sessions.
    pub(super) fn take_up_database(&mut self) -> Result<(), CollectError> {
        self.take_reasons();
        self.take_names()?;
        self.keep_slots_ready()?;
        self.take_up_newcomers()
    }

    pub(super) fn take_names(&mut self) -> Result<(), CollectError> {
        self.names = self.database.names();
        self.engine.set_waits(&self.names.traits())
    }

    /// False if there is no room for it.
    pub(super) fn adopt(&mut self, member: Member) -> Result<bool, CollectError> {
        let (pid, source) = (member.pid, member.source);
        let Some(slot) = self.engine.place_of(pid).or_else(|| self.take_slot()) else {
            return Ok(false);
        };
        self.take_ready_slot(slot)?;
        let is_parent = Some(pid) == self.database.parent();
        let space = self
            .unwinding
            .as_mut()
            .map_or(0, |unwinding| unwinding.adopt(pid));
        // A process of another server has its code elsewhere: it is unwound once its own mappings have been read.
        let space = if member.is_of_parent { space } else { 0 };
        self.engine.watch(slot, (pid, 0), source, is_parent, space)?;
        if let Some(probes) = &self.probes {
            probes.watch(pid)?;
        }
        let id = self.take_id(pid);
        let mut session = Box::new(LiveSession::adopt(
            self.identity(id, slot, member),
            monotonic_ns(),
        ));
        session.read_title();
        let name = self
            .database
            .application(pid)
            .or_else(|| self.application_told(&session));
        if let Some(name) = name {
            session.set_application(name, &mut self.next_id);
        }
        self.sessions.insert(pid, session);
        self.nameless.insert(pid);
        self.gone = self.gone.filter(|_| self.database.parent().is_some());
        Ok(true)
    }

    pub(super) fn identity(&self, id: SessionId, slot: u32, member: Member) -> Identity {
        let has_texts = matches!(member.source, WaitSource::Pointer { status: Some(_), .. });
        Identity {
            comments: has_texts && self.options.texts != Texts::None,
            id,
            pid: member.pid,
            slot,
            names: Rc::clone(&self.names),
            titles: Rc::clone(&self.titles),
            held_locks: Rc::clone(&self.held_locks),
            joined: Rc::clone(&self.joined),
            source: member.source,
            role: member.role,
            tier: self.options.tier,
        }
    }

    pub(super) fn forget(&mut self, session: &LiveSession) -> Result<(), CollectError> {
        self.engine.forget(session.slot, session.pid)?;
        if let Some(probes) = &self.probes {
            probes.forget(session.pid);
        }
        self.free_slots.push(session.slot);
        self.symbolizer.forget(session.pid);
        self.database.forget(session.pid);
        if let Some(unwinding) = &mut self.unwinding {
            unwinding.end(session.pid);
        }
        Ok(())
    }

    /// Ends the sessions that are gone and about which the kernel has reported nothing for some seconds: they ended between being listed
    /// and being watched, or the event of their end was lost. Time whose events have not been taken yet does not count: on a saturated host
    /// that may be seconds, with those very ends in it.
    pub(super) fn drop_unreported(&mut self) -> Result<(), CollectError> {
        let taken_until = self.accounted_ns;
        let gone: Vec<u32> = self
            .sessions
            .values()
            .filter(|s| taken_until.saturating_sub(s.last_report_ns()) > UNREPORTED_NS)
            .filter(|s| !s.has_account() || process::parent(s.pid).is_none())
            .map(|s| s.pid)
            .collect();
        for pid in gone {
            if let Some(session) = self.sessions.remove(&pid) {
                self.end_session(session)?;
            }
        }
        Ok(())
    }

    /// Takes up processes whose beginning was lost with other events.
    pub(super) fn repair_after_loss(&mut self) -> Result<(), CollectError> {
        let lost = self.engine.losses().events;
        if lost == self.lost_at_check || !self.database.outlives_its_sessions() || self.gone.is_some() {
            return Ok(());
        }
        self.lost_at_check = lost;
        self.free_lost_slots()?;
        // The kernel has counted those for which it had no room when they began.
        self.take_up(|_, _| {})
    }

    pub(super) fn is_parent_recorded(&self) -> bool {
        let parent = self.database.parent();
        parent.is_some_and(|pid| self.sessions.contains_key(&pid))
    }

    pub(super) fn take_up_newcomers(&mut self) -> Result<(), CollectError> {
        self.take_up(LeftOut::found)
    }

    /// `leave_out`: what to do with one that there is no room for.
    pub(super) fn take_up(&mut self, leave_out: fn(&mut LeftOut, u32)) -> Result<(), CollectError> {
        let mut newcomers = self.database.members();
        self.left_out.keep(newcomers.iter().map(|member| member.pid));
        newcomers.retain(|member| !self.sessions.contains_key(&member.pid));
        if newcomers.is_empty() {
            return Ok(());
        }
        for member in newcomers {
            let pid = member.pid;
            if !self.adopt(member)? {
                leave_out(&mut self.left_out, pid);
            }
        }
        self.engine.want_totals();
        Ok(())
    }

    pub(super) fn note_end(&mut self, pid: u32) {
        if let Some(text) = self.database.gone_with(pid) {
            self.note(text);
            self.gone = Some(Instant::now());
            // From what was read of its files: they may be others when it comes back.
            self.name_relations();
        } else if self.database.parent().is_none() && self.sessions.is_empty() && self.gone.is_none() {
            self.note("all sessions have ended".to_string());
            self.gone = Some(Instant::now());
        }
    }

    pub(super) fn look_at_database(&mut self) -> Result<(), CollectError> {
        if self.looked_at_database.elapsed() < LOOK_AT_DATABASE {
            return Ok(());
        }
        self.looked_at_database = Instant::now();
        self.ask_anew();
        match self.database.look(self.gone.is_some()) {
            // As long as the parent lives, it may have children that are not reported.
            None if !self.engine.sees_births() && self.is_parent_recorded() => self.take_up_newcomers(),
            None => Ok(()),
            Some(Change::Newcomers) => self.take_up_newcomers(),
            Some(Change::Restarted(restart)) => self.follow_restart(restart),
            Some(Change::Sessions(notes)) => {
                notes.into_iter().for_each(|text| self.note(text));
                let described = self.database.describe();
                self.versions.see(self.now_us(), &described);
                self.take_members()
            }
        }
    }

    /// Takes up new sessions, and ends those that no longer belong to the database.
    pub(super) fn take_members(&mut self) -> Result<(), CollectError> {
        self.end_others()?;
        self.take_names()?;
        // Ended sessions keep the names that their numbers came with.
        for session in self.sessions.values_mut().filter(|session| session.end.is_none()) {
            session.set_names(Rc::clone(&self.names));
        }
        self.take_up_newcomers()
    }

    /// Ends the sessions that no longer belong to the database.
    pub(super) fn end_others(&mut self) -> Result<(), CollectError> {
        let members = self.database.members();
        let is_member = |session: &LiveSession| members.iter().any(|member| session.is(member));
        let others: Vec<u32> = self
            .sessions
            .values()
            .filter(|session| session.end.is_none() && !is_member(session))
            .map(|session| session.pid)
            .collect();
        for pid in others {
            if let Some(session) = self.sessions.remove(&pid) {
                self.end_session(session)?;
            }
        }
        Ok(())
    }

    /// The id for a session that begins, or was found.
    fn take_id(&mut self, pid: u32) -> SessionId {
        if self.locks.is_some() {
            self.newcomers.push(pid);
        }
        self.next_id += 1;
        SessionId(self.next_id - 1)
    }
}
