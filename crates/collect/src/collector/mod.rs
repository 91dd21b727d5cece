//! Records the sessions of a server: finds them, takes the kernel's events, passes on rows.

mod asked;
mod described;
mod events;
mod host_cpu;
mod levels;
mod lock_table;
mod lock_uses;
mod options;
mod relations;
mod restart;
mod roster;
mod slots;
mod start;
mod versions;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

use dbtime_model::recording::{Note, Quality};
use dbtime_model::{BackendType, Rows, SessionId, Windows};
use foldhash::fast::RandomState;

use crate::CollectError;
use crate::accounting::Pool;
use crate::alike::Alike;
use crate::bpf::{Event, OracleProbes};
use crate::causes::Causes;
use crate::clock::{Clock, monotonic_ns};
use crate::comments::Comments;
use crate::database::{Database, WaitNames};
use crate::engine::Engine;
use crate::held_locks::HeldLocks;
use crate::joined::Joined;
use crate::latencies::Latencies;
use crate::left_out::LeftOut;
use crate::lock_requests::LockWatch;
use crate::lock_uses::LockCounter;
use crate::postgres::statistics::ServerStatistics;
use crate::postgres::titles::Titles;
use crate::session::LiveSession;
use crate::statements::Statements;
use crate::symbols::Symbolizer;
use crate::unwind::Unwinding;

use host_cpu::HostCpu;
use relations::Unnamed;
use restart::ToAsk;
use versions::Versions;

pub use levels::{SessionProcess, levels};
pub use options::{Mechanism, Options, RATES_HZ, RESOLUTIONS_S, Status, Target, WHOLE_SECONDS};
pub(crate) use start::database_of;

/// Stacks, their bytes, and other rows that may wait to be taken: together they are under 100 MB.
const MOST_STACKS: usize = 4_000;
const MOST_STACK_BYTES: usize = 48 << 20;
const MOST_ROWS: usize = 100_000;
/// How often a process is checked for its title until it has set one.
const LOOK_FOR_TITLE: Duration = Duration::from_millis(5);
/// A pass that was in progress when a session ended has sent what it found within this time.
const LATE_SAMPLES_NS: u64 = 50_000_000;

/// What there is no room for, which a recording notes once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum NoRoomFor {
    /// Comments of statements.
    Comments,
    /// Distinct plans.
    Plans,
    /// Names of files.
    Files,
    /// Names of functions that were compiled at run time.
    Compiled,
}

/// A recording in progress.
pub struct Collector {
    options: Options,
    clock: Clock,
    start_ns: u64,
    engine: Box<dyn Engine>,
    database: Box<dyn Database>,
    names: Rc<dyn WaitNames>,
    titles: Rc<Titles>,
    held_locks: Rc<HeldLocks>,
    /// What the server reports that its sessions execute, if it is queried.
    joined: Rc<Joined>,
    /// Samples contain the internal locks that a session holds: as it was with the first server.
    lists_locks: bool,
    /// Set if the server's lock table is read.
    locks: Option<LockWatch>,
    /// Learned from those that have set their title.
    alike: Alike,
    statements: Statements,
    comments: Comments,
    symbolizer: Symbolizer,
    /// Set if stacks are unwound.
    unwinding: Option<Unwinding>,
    /// Set if the kernel reports who ends a sleep.
    causes: Option<Causes>,
    /// The exact tier only.
    latencies: Option<Latencies>,
    /// What has been noted, once in a recording.
    noted: BTreeSet<NoRoomFor>,
    /// In the database's own functions, if wanted.
    probes: Option<OracleProbes>,
    /// In the functions that acquire and release internal locks, if wanted.
    lock_counter: Option<LockCounter>,
    /// Boxed: most events take a session out of the table and put it back.
    sessions: HashMap<u32, Box<LiveSession>, RandomState>,
    /// Those of them that may have no name yet: each new one, until its name is there.
    nameless: BTreeSet<u32>,
    /// Client sessions that have a name, and whose transactions are not counted yet.
    uncounted: Vec<u32>,
    /// Sessions whose last totals have arrived: their accounts stay open for a moment.
    ending: Vec<u32>,
    next_id: u64,
    /// The process that writes checkpoints has ended, and its server runs on: none has been seen in its place yet.
    checkpointer_has_ended: bool,
    /// Processes of sessions that began, or were found, since the lock table was last read.
    newcomers: Vec<u32>,
    free_slots: Vec<u32>,
    /// Slots that the kernel gives to new sessions.
    ready_slots: BTreeSet<u32>,
    used_slots: u32,
    /// What the kernel has sent and was not processed yet.
    waiting: VecDeque<Event>,
    rows: Rows,
    /// How many of them are about files that no longer exist.
    unnamed: Unnamed,
    /// Rows with stacks whose names are still being read.
    without_names: Rows,
    windows: Windows,
    /// When the recording ended (CLOCK_MONOTONIC), once it has: no more rows follow.
    end_ns: Option<u64>,
    /// Totals of sessions that were too short to be sampled individually.
    pool: Pool,
    quality: Quality,
    reasons: Vec<String>,
    notes: Vec<Note>,
    gone: Option<Instant>,
    looked_at_database: Instant,
    cpu_at_start_ns: u64,
    next_check_ns: u64,
    lost_at_check: u64,
    host_cpu: HostCpu,
    /// Sessions without a slot.
    left_out: LeftOut,
    /// What the sampler has reported up to this moment (CLOCK_MONOTONIC) has been taken.
    accounted_ns: u64,
    /// The same, once all waiting events have been taken.
    reported_ns: u64,
    /// End of the last standstill that was noted, CLOCK_MONOTONIC.
    stood_still_until: u64,
    counted_transactions_ns: u64,
    /// What the server counts, if it is queried.
    statistics: Option<ServerStatistics>,
    /// Set while it is to be told which server to query.
    to_ask: Option<ToAsk>,
    versions: Versions,
}

impl Collector {
    /// Waits at most this long, then takes what the kernel has sent. Call it at least ten times a second.
    ///
    /// # Errors
    /// A kernel map could not be written: recording cannot go on.
    pub fn step(&mut self, longest: Duration) -> Result<Status, CollectError> {
        let now = monotonic_ns();
        let nameless = self.is_anyone_about_to_be_named(now);
        let is_reading = self.unwinding.as_ref().is_some_and(Unwinding::is_reading);
        if self.waiting.is_empty() {
            let longest = if nameless || is_reading {
                longest.min(LOOK_FOR_TITLE)
            } else {
                longest
            };
            // Before they are taken: what it reports meanwhile may or may not be among them.
            self.reported_ns = self.engine.statistics().reported_ns;
            self.waiting = self.engine.wait(longest)?.into();
        }
        // The rest is processed once rows have been taken: what the kernel keeps meanwhile is limited too.
        while !self.has_much_to_take()
            && let Some(event) = self.waiting.pop_front()
        {
            self.take(event)?;
        }
        if let (Some(unwinding), Some(programs)) = (&mut self.unwinding, self.engine.programs()) {
            for (pid, space) in unwinding.mapped() {
                programs.set_space(pid, space);
            }
        }
        let now = monotonic_ns();
        if self.waiting.is_empty() {
            self.end_sessions(now.saturating_sub(LATE_SAMPLES_NS))?;
            self.accounted_ns = self.reported_ns;
        }
        self.symbolizer.name_waiting();
        self.look_for_names(now);
        self.begin_to_count(now);
        if now >= self.next_check_ns {
            self.next_check_ns = now + 1_000_000_000;
            self.note_standstill();
            self.drop_unreported()?;
            self.rows.sessions.append(&mut self.alike.take_rows(now));
            let now_us = self.clock.wall_us(now);
            self.quality.samples += self.pool.settle(now_us, &mut self.rows, &self.held_locks);
            self.look_who_holds_locks(now);
            self.look_who_has_the_log();
            if let Some(causes) = &mut self.causes {
                causes.settle(now, false, self.clock, &mut self.rows.causes);
            }
            self.repair_after_loss()?;
        }
        if let Some(pid) = self.symbolizer.compiled_without_room()
            && self.noted.insert(NoRoomFor::Compiled)
        {
            self.note(format!(
                "code compiled at run time: process {pid} has listed more functions than there is room for; later \
                ones have no names"
            ));
        }
        self.engine.attend(now);
        self.step_lock_uses(now)?;
        if self.latencies.as_ref().is_some_and(|l| l.is_due(self.clock, now)) {
            self.take_latencies(now)?;
        }
        if now >= self.clock.next_second(self.counted_transactions_ns) {
            self.count_transactions(now, false);
            self.count_host_cpu();
        }
        self.look_at_locks(now);
        self.take_told();
        self.look_at_database()?;
        let outlives = self.database.outlives_its_sessions();
        Ok(match (outlives, self.gone, self.sessions.is_empty()) {
            (false, _, true) => Status::Ended,
            (_, Some(since), _) => Status::ServerGone(since),
            _ => Status::Recording,
        })
    }

    /// Ends sampling and accounts for the time up to now.
    ///
    /// # Errors
    /// As for [`Collector::step`].
    pub fn finish(&mut self) -> Result<(), CollectError> {
        self.look_who_holds_locks(monotonic_ns());
        self.look_who_has_the_log();
        self.finish_locks();
        self.engine.stop();
        self.take_clients_of_leaders();
        self.finish_lock_uses()?;
        // Everything ends with the accounts: on a busy host it takes a while until this thread gets a CPU again and reads what waits in the
        // ring.
        let end = match self.engine.statistics().ended_ns {
            0 => monotonic_ns(),
            ended => ended,
        };
        self.end_ns = Some(end);
        // Probes in the database's own functions count until this: as little as possible of what comes after the end.
        self.take_latencies(end)?;
        self.count_transactions(end, true);
        self.count_host_cpu();
        if let Some(statistics) = self.statistics.take() {
            self.take_statistics(statistics.finish());
        }
        let mut last = std::mem::take(&mut self.waiting);
        last.extend(self.engine.wait(Duration::ZERO)?);
        for event in last {
            let is_later = matches!(event, Event::Totals { ended: true, time_ns, .. } if time_ns > end);
            if !is_later {
                self.take(event)?;
            }
        }
        self.end_sessions(u64::MAX)?;
        let mut left: Vec<Box<LiveSession>> = self.sessions.drain().map(|(_, session)| session).collect();
        left.sort_by_key(|session| session.slot);
        for session in &mut left {
            self.abandon(session, end);
        }
        self.rows.sessions.append(&mut self.alike.take_rows(u64::MAX));
        self.quality.samples += self.pool.finish(&mut self.rows, &self.held_locks);
        if let Some(causes) = &mut self.causes {
            causes.settle(end, true, self.clock, &mut self.rows.causes);
        }
        self.note_standstill();
        self.note_time_that_is_not_the_sessions();
        self.count_losses();
        self.name_relations();
        self.unnamed = Unnamed::default();
        self.symbolizer.name_all();
        let mut rows = self.rows_with_names();
        // A task that kept changing its sums sends them itself, some milliseconds after the end perhaps.
        rows.limit_times(self.clock.second_us(end));
        self.rows = self.windows.pass(rows, i64::MIN);
        self.rows.append(self.windows.finish());
        Ok(())
    }

    /// Rows since the last call, as far as their windows are over.
    pub fn take_rows(&mut self) -> Rows {
        self.rows.stacks = self.symbolizer.take_new_stacks();
        if self.end_ns.is_none() {
            self.name_relations();
        }
        self.unnamed = Unnamed::default();
        let rows = self.rows_with_names();
        match self.end_ns {
            Some(_) => rows,
            None => self.windows.pass(rows, self.now_us()),
        }
    }

    /// Takes all rows but those whose stacks wait for their names.
    fn rows_with_names(&mut self) -> Rows {
        let mut rows = std::mem::take(&mut self.rows);
        rows.append(std::mem::take(&mut self.without_names));
        self.without_names = self.symbolizer.settle(&mut rows);
        rows.replace_statements(|statement| self.statements.parsed(statement));
        rows
    }

    /// Describes stacks and statements again when they are next seen, and repeats what is noted once: what was taken so far is in a
    /// recording that ends at this moment (microseconds since the Unix epoch), with the notes of its time.
    pub fn describe_again(&mut self, end_us: i64) {
        self.symbolizer.describe_again();
        self.versions.forget_before(end_us);
        self.statements = Statements::new(Instant::now());
        self.notes.retain(|note| note.time_us >= end_us);
        self.comments = Comments::default();
        self.noted.clear();
    }

    /// All ids of sessions that are alive now: one may have several, as its application renames itself.
    pub fn ids(&self) -> impl Iterator<Item = SessionId> {
        self.sessions.values().flat_map(|session| session.ids())
    }

    /// The time of day by the clock of the recording, microseconds since the Unix epoch: it does not step when the host's clock is set.
    pub fn now_us(&self) -> i64 {
        self.clock.wall_us(monotonic_ns())
    }

    /// True if the kernel's totals up to this moment (microseconds since the Unix epoch) have been taken, short sessions have no time before
    /// it that is still to be divided, and no row waits for the names of its stacks. After a standstill of dbtime this takes a while,
    /// whatever the clock says.
    pub fn is_settled(&self, until_us: i64) -> bool {
        self.clock.wall_us(self.accounted_ns) >= until_us
            && self.pool.first_us().is_none_or(|first| first >= until_us)
            && self.without_names.is_empty()
    }

    /// The wait classes that the database can have, as far as they are known before they are seen.
    pub fn wait_classes(&self) -> Vec<String> {
        match self.options.target {
            Target::AnyProcess(_) => Vec::new(),
            _ => self.names.classes(),
        }
    }

    /// Rows that wait to be taken: those of seconds that are over, in the order in which they came.
    pub fn rows(&self) -> &Rows {
        &self.rows
    }

    /// The sessions that are recorded now, and what kind of process each is.
    pub fn sessions(&self) -> impl Iterator<Item = (SessionId, BackendType)> {
        self.sessions
            .values()
            .map(|session| (session.id, session.backend_type()))
    }

    /// Samples in rows so far.
    pub fn samples(&self) -> u64 {
        self.quality.samples
    }

    /// True if so many rows wait that they should be taken now: stacks that are all different, as from deep recursion and code compiled at
    /// run time, are some kilobytes each.
    pub fn has_much_to_take(&self) -> bool {
        self.symbolizer.new_stacks() >= MOST_STACKS
            || self.symbolizer.new_stack_bytes() >= MOST_STACK_BYTES
            || self.rows.len() >= MOST_ROWS
    }

    /// Remarkable events so far, in order.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }
}
