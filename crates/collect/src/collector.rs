//! Records the sessions of a server: finds them, takes the kernel's events, hands on rows.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::RangeInclusive;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use dbtime_model::recording::{CollectorMeta, Cost, DatabaseMeta, Meta, Note, Quality, SCHEMA_VERSION};
use dbtime_model::{BackendType, CounterRow, Rows, SessionId, Windows, counter};

use crate::accounting::{Pool, Totals};
use crate::alike::Alike;
use crate::bpf::{
    Event, OracleProbes, Programs, Ring, Sampler, SamplerKind, StackEnd, Tier, Wanted, thread_cpu_ns,
};
use crate::causes::{self, Causes};
use crate::clock::{Clock, monotonic_ns};
use crate::comments::{Comments, Ends};
use crate::database::{Change, Database, Member, Texts, WaitNames, WaitSource};
use crate::ending::Ending;
use crate::engine::{BpfEngine, Engine};
use crate::held_locks::{HeldId, HeldLocks};
use crate::latencies::Latencies;
use crate::left_out::LeftOut;
use crate::lock_requests::{LockWatch, Locks};
use crate::oracle::Instance;
use crate::postgres::statistics::{ServerStatistics, Told};
use crate::postgres::titles::Titles;
use crate::postgres::{Connect, PostgresDatabase, Server};
use crate::priority::{self, Priority};
use crate::proc_engine::ProcEngine;
use crate::seconds::middle;
use crate::session::{Identity, LiveSession, Reported, Unused};
use crate::statements::Statements;
use crate::symbols::Symbolizer;
use crate::unwind::Unwinding;
use crate::{CollectError, host, privilege, process};

/// Samples per second that can be asked for.
pub const RATES_HZ: RangeInclusive<u32> = 1..=4999;

/// How long a row can be: the seconds in a window of rows.
pub const RESOLUTIONS_S: RangeInclusive<u32> = 1..=3600;
/// However long windows are, so much at the beginning of a recording is kept by the second, and is on disk as soon.
pub const WHOLE_SECONDS: Duration = Duration::from_secs(300);

/// How often the database is looked at: for a server that has gone, for what is new.
const LOOK_AT_DATABASE: Duration = Duration::from_millis(250);
/// Stacks, their bytes, and other rows that may wait to be taken: together they are under 100 MB.
const MOST_STACKS: usize = 4_000;
const MOST_STACK_BYTES: usize = 48 << 20;
const MOST_ROWS: usize = 100_000;
/// Remarkable events that are kept.
const MOST_NOTES: usize = 1_000;
/// As long as a process has not named itself, it is asked this often.
const LOOK_FOR_TITLE: Duration = Duration::from_millis(5);
/// Where passes are rarer than this allows, recording begins before the first one.
const LONGEST_FIRST_PASS: Duration = Duration::from_millis(300);
/// A pass that was under way when a session ended has sent what it found after so long at the latest.
const LATE_SAMPLES_NS: u64 = 50_000_000;
/// A session of which nothing is reported for this long is looked for.
const UNREPORTED_NS: u64 = 3_000_000_000;

/// What to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The only server of this host.
    OnlyServer,
    /// The server on this data directory.
    Server(PathBuf),
    /// One session. The pid of a postmaster means its server.
    Process(u32),
    /// A process that is no database's, and its children: it has no wait events.
    AnyProcess(u32),
    /// The sessions of an Oracle instance that this MAP lists.
    Oracle(PathBuf),
}

/// What looks at the sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mechanism {
    /// Programs in the kernel.
    #[default]
    Bpf,
    /// A thread that reads /proc and the memory of the processes: the sampled tier only.
    Proc,
}

/// How to record.
#[derive(Debug, Clone)]
pub struct Options {
    /// What to record.
    pub target: Target,
    /// Samples per second and session, in [`RATES_HZ`].
    pub rate_hz: u32,
    /// What looks at the sessions.
    pub mechanism: Mechanism,
    /// How exact the times are.
    pub tier: Tier,
    /// Note who ends a sleep; in the exact tiers only.
    pub wakers: bool,
    /// Put probes into Oracle's functions that begin and end a wait; in the exact tiers only.
    pub uprobes: bool,
    /// What is kept of the texts of statements.
    pub texts: Texts,
    /// Data directories of standbys of a server, of which the processes that receive and replay its log are recorded too.
    pub standbys: Vec<PathBuf>,
    /// Count what the kernel counts for every task: switches, faults, calls, bytes.
    pub task_counts: bool,
    /// Which locks of the server's lock table are recorded.
    pub locks: Locks,
    /// Ask the server for what it counts itself; none: no connection is made.
    pub connect: Option<Connect>,
    /// Time stays in its second, whatever is known of it by then: it does not wait for the session's next sample.
    pub at_once: bool,
    /// Rows of windows of so many seconds, after the first minutes ([`WHOLE_SECONDS`]).
    pub resolution_s: u32,
    /// Take the engine of older kernels also where the better one works.
    pub task_iterator: bool,
}

impl Options {
    /// By samples alone, by the second, without the texts of statements.
    pub fn sampled(target: Target, rate_hz: u32) -> Options {
        Options {
            target,
            rate_hz,
            mechanism: Mechanism::Bpf,
            tier: Tier::Sampled,
            wakers: false,
            uprobes: false,
            texts: Texts::None,
            standbys: Vec::new(),
            task_counts: false,
            locks: Locks::None,
            connect: None,
            at_once: false,
            resolution_s: 1,
            task_iterator: false,
        }
    }
}

/// Whether there is anything to record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Sessions are recorded.
    Recording,
    /// The server has gone, at this moment; it is taken up again when it comes back.
    ServerGone(Instant),
    /// The one session that was asked for has ended.
    Ended,
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
    /// Samples tell which internal locks a session has; of the server that was there first.
    lists_locks: bool,
    /// Where the server's lock table is looked at.
    locks: Option<LockWatch>,
    /// Of those that have named themselves.
    alike: Alike,
    statements: Statements,
    /// It has been said that there are too many of them.
    told_of_statements: bool,
    comments: Comments,
    told_of_comments: bool,
    symbolizer: Symbolizer,
    /// Where stacks are unwound.
    unwinding: Option<Unwinding>,
    /// Where the kernel tells who ends a sleep.
    causes: Option<Causes>,
    /// The exact tier only.
    latencies: Option<Latencies>,
    /// It has been said that some files have no names.
    told_of_files: bool,
    /// It has been said that some compiled functions have none.
    told_of_compiled: bool,
    /// In the database's own functions, where they are wanted.
    probes: Option<OracleProbes>,
    sessions: HashMap<u32, LiveSession>,
    next_id: u64,
    free_slots: Vec<u32>,
    /// Slots that the kernel gives to sessions that begin.
    ready_slots: BTreeSet<u32>,
    used_slots: u32,
    /// What the kernel has sent and was not looked at yet.
    waiting: VecDeque<Event>,
    rows: Rows,
    windows: Windows,
    /// No more rows come.
    is_finished: bool,
    /// Totals of sessions that were too short to be sampled each.
    pool: Pool,
    quality: Quality,
    reasons: Vec<String>,
    notes: Vec<Note>,
    gone: Option<Instant>,
    looked_at_database: Instant,
    cpu_at_start_ns: u64,
    next_check_ns: u64,
    lost_at_check: u64,
    stolen_at_start: (u64, u64),
    /// Without a slot.
    left_out: LeftOut,
    /// What the sampler has reported up to this moment (CLOCK_MONOTONIC) has been taken.
    accounted_ns: u64,
    /// The same once all that waits has been taken.
    reported_ns: u64,
    /// End of the last standstill that was noted, CLOCK_MONOTONIC.
    stood_still_until: u64,
    counted_transactions_ns: u64,
    /// What the server counts, where it is asked.
    statistics: Option<ServerStatistics>,
}

/// The database of a target.
///
/// # Errors
/// There is none.
pub(crate) fn database_of(target: &Target) -> Result<Box<dyn Database>, CollectError> {
    database_with_standbys(target, &[])
}

/// The same, with the processes of these standbys of it that receive and replay.
fn database_with_standbys(target: &Target, standbys: &[PathBuf]) -> Result<Box<dyn Database>, CollectError> {
    let whole =
        |database: PostgresDatabase| Ok::<_, CollectError>(Box::new(database.with_standbys(standbys)?));
    Ok(match target {
        Target::Oracle(_) if !standbys.is_empty() => return Err(CollectError::NoStandbyOf),
        Target::Oracle(map) => Box::new(Instance::read(map)?),
        Target::OnlyServer => whole(PostgresDatabase::whole(Server::only()?))?,
        Target::Server(directory) => whole(PostgresDatabase::whole(Server::on(directory)?))?,
        Target::Process(pid) => whole(PostgresDatabase::of_session(*pid)?)?,
        Target::AnyProcess(pid) => whole(PostgresDatabase::of_any_process(*pid)?)?,
    })
}

impl Collector {
    /// Finds the target, loads the programs and takes up the sessions that exist. When it returns, samples are taken. `ending`: when
    /// no more time is spent on names.
    ///
    /// # Errors
    /// Missing privileges or kernel features, no such server or session; the message says what to do.
    pub fn start(options: &Options, ending: &Ending) -> Result<Collector, CollectError> {
        let options = options.clone();
        match options.mechanism {
            Mechanism::Bpf => privilege::check().map_err(or_without_programs)?,
            Mechanism::Proc => privilege::check_processes()?,
        }
        let raised = Priority::raise(priority::BEGINNING);
        let cpu_at_start_ns = host::process_cpu_ns();
        let database = database_with_standbys(&options.target, &options.standbys)?;
        // Its process is started while there are no threads.
        let mut symbolizer = Symbolizer::new(ending);
        let mut unwinding = match options.mechanism {
            Mechanism::Bpf => Some(Unwinding::start(database.parent(), &database.members())?),
            Mechanism::Proc => None,
        };
        if let Some(parent) = database.parent() {
            symbolizer.set_parent(parent);
        }
        let clock = Clock::start();
        // Half a second of reading names, half a second in which the kernel checks the programs: at the same time.
        let (programs, mut reasons) = thread::scope(|scope| {
            let loading =
                (options.mechanism == Mechanism::Bpf).then(|| scope.spawn(|| load_programs(&options)));
            let reasons = symbolizer.warm_up();
            (
                loading.map(|loading| loading.join().unwrap_or_else(|panic| resume_unwind(panic))),
                reasons,
            )
        });
        let engine: Box<dyn Engine> = match programs {
            Some(programs) => Box::new(
                programs
                    .and_then(|programs| {
                        start_programs(programs, &options, clock, &mut reasons, unwinding.as_mut())
                    })
                    .map_err(or_without_programs)?,
            ),
            None => {
                let (engine, not_known) = ProcEngine::start(options.rate_hz, options.task_counts, clock)?;
                reasons.extend(not_known);
                Box::new(engine)
            }
        };
        let probes = match options.uprobes {
            true => {
                let pids: Vec<u32> = database.members().iter().map(|member| member.pid).collect();
                let (probes, told) = OracleProbes::attach(&pids)?;
                reasons.extend(told);
                Some(probes)
            }
            false => None,
        };
        if options.mechanism == Mechanism::Bpf {
            reasons.extend(host::too_few_samples(options.rate_hz));
        }
        let statistics = match &options.connect {
            Some(connect) => Some(
                database
                    .statistics(connect, clock)
                    .map_err(CollectError::Statistics)?,
            ),
            None => None,
        };
        let first_window_us = clock.wall_us(monotonic_ns() + WHOLE_SECONDS.as_nanos() as u64);
        let mut collector = Collector {
            clock,
            // No row is of an earlier second: the accounts of sessions are opened from here on, all of them within some milliseconds.
            start_ns: monotonic_ns(),
            engine,
            probes,
            names: database.names(),
            titles: Rc::default(),
            held_locks: Rc::default(),
            lists_locks: database.describe().held_locks && options.mechanism == Mechanism::Bpf,
            locks: LockWatch::new(match options.mechanism {
                Mechanism::Bpf => options.locks,
                Mechanism::Proc => Locks::None,
            }),
            alike: Alike::default(),
            statements: Statements::new(Instant::now()),
            told_of_statements: false,
            comments: Comments::default(),
            told_of_comments: false,
            causes: (options.mechanism == Mechanism::Bpf).then(|| Causes::new(options.rate_hz)),
            latencies: (options.tier != Tier::Sampled)
                .then(|| Latencies::new(database.at_files(), monotonic_ns())),
            told_of_files: false,
            told_of_compiled: false,
            symbolizer,
            unwinding,
            sessions: HashMap::new(),
            next_id: 1,
            free_slots: Vec::new(),
            ready_slots: BTreeSet::new(),
            used_slots: 0,
            waiting: VecDeque::new(),
            rows: Rows::default(),
            windows: Windows::new(options.resolution_s, first_window_us),
            is_finished: false,
            pool: Pool::new(options.at_once),
            quality: Quality::default(),
            reasons,
            notes: Vec::new(),
            gone: None,
            looked_at_database: Instant::now(),
            cpu_at_start_ns,
            next_check_ns: 0,
            lost_at_check: 0,
            stolen_at_start: host::stolen_time(),
            left_out: LeftOut::default(),
            accounted_ns: 0,
            reported_ns: 0,
            stood_still_until: 0,
            counted_transactions_ns: monotonic_ns(),
            statistics,
            database,
            options,
        };
        collector.take_up_database()?;
        collector.find_locks();
        // Before the accounts of sessions are opened, and after they are closed: no transaction is missing.
        collector.count_transactions(monotonic_ns(), true);
        collector.wait_for_first_pass();
        drop(raised);
        Ok(collector)
    }

    /// Accounts of sessions are opened by the first pass that finds them. Whoever is told that recording has begun may rely on
    /// it: what a session does from then on is in its account.
    fn wait_for_first_pass(&self) {
        let passes = || self.engine.statistics().passes;
        // One may have begun before the sessions were known.
        let (enough, until) = (passes() + 2, Instant::now() + LONGEST_FIRST_PASS);
        while passes() < enough && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Gives up, for good and for the calling thread, what this process was allowed to do and need not any longer. `gives_away`:
    /// whether what is written will be given to somebody else.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn give_up_privileges(&self, gives_away: bool) -> Result<(), CollectError> {
        let mut kept = privilege::READS_PROCESSES | privilege::WRITES;
        if gives_away {
            kept |= privilege::GIVES_AWAY;
        }
        if self.options.mechanism == Mechanism::Proc {
            kept |= privilege::READS_KERNEL_STACKS;
        }
        privilege::keep_only(kept)
    }

    /// Waits at most this long, then takes what the kernel has sent. Call it at least ten times a second.
    ///
    /// # Errors
    /// A kernel map could not be written: nothing that could be recorded is left.
    pub fn step(&mut self, longest: Duration) -> Result<Status, CollectError> {
        let now = monotonic_ns();
        let nameless = self.sessions.values().any(|s| s.is_about_to_be_named(now));
        let is_reading = self.unwinding.as_ref().is_some_and(Unwinding::is_reading);
        if self.waiting.is_empty() {
            let longest = if nameless || is_reading {
                longest.min(LOOK_FOR_TITLE)
            } else {
                longest
            };
            // Before they are taken: what it reports meanwhile may be among them or not.
            self.reported_ns = self.engine.statistics().reported_ns;
            self.waiting = self.engine.wait(longest)?.into();
        }
        // What is left is looked at once rows have been taken: what the kernel keeps meanwhile has a bound too.
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
        for session in self.sessions.values_mut() {
            session.look_for_title(now);
        }
        if now >= self.next_check_ns {
            self.next_check_ns = now + 1_000_000_000;
            self.note_standstill();
            self.drop_unreported(now)?;
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
        if let (Some(pid), false) = (self.symbolizer.compiled_without_room(), self.told_of_compiled) {
            self.told_of_compiled = true;
            self.note(format!(
                "code compiled at run time: process {pid} has listed more functions than there is room for; later \
                ones have no names"
            ));
        }
        self.engine.look_at_cost(now);
        if self.latencies.as_ref().is_some_and(|l| l.is_due(self.clock, now)) {
            self.take_latencies(now)?;
        }
        if now >= self.clock.next_second(self.counted_transactions_ns) {
            self.count_transactions(now, false);
        }
        self.look_at_locks(now);
        let told: Vec<Told> = self.statistics.iter().flat_map(ServerStatistics::take).collect();
        self.take_statistics(told);
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
    /// As [`Collector::step`].
    pub fn finish(&mut self) -> Result<(), CollectError> {
        self.look_who_holds_locks(monotonic_ns());
        self.look_who_has_the_log();
        if let Some(locks) = &mut self.locks {
            locks.finish(&mut self.rows);
        }
        self.engine.stop();
        self.take_clients_of_leaders();
        // All that is counted ends with the accounts; what waits in the ring may take a while.
        let end = monotonic_ns();
        self.count_transactions(end, true);
        if let Some(statistics) = self.statistics.take() {
            self.take_statistics(statistics.finish());
        }
        self.take_latencies(end)?;
        let mut last = std::mem::take(&mut self.waiting);
        last.extend(self.engine.wait(Duration::ZERO)?);
        for event in last {
            self.take(event)?;
        }
        self.end_sessions(u64::MAX)?;
        let mut left: Vec<LiveSession> = self.sessions.drain().map(|(_, session)| session).collect();
        left.sort_by_key(|session| session.slot);
        for session in &mut left {
            self.quality.samples += session.abandon(self.clock, &mut self.rows, &mut self.pool);
        }
        self.rows.sessions.append(&mut self.alike.take_rows(u64::MAX));
        self.quality.samples += self.pool.finish(&mut self.rows, &self.held_locks);
        if let Some(causes) = &mut self.causes {
            causes.settle(end, true, self.clock, &mut self.rows.causes);
        }
        self.note_standstill();
        self.note_time_that_is_not_the_sessions();
        self.count_losses();
        let rows = std::mem::take(&mut self.rows);
        self.rows = self.windows.pass(rows, i64::MIN);
        self.rows.append(self.windows.finish());
        self.is_finished = true;
        Ok(())
    }

    /// Who ends a wait is known when it ends; who has the lock before that, by the database's own list.
    fn look_who_holds_locks(&mut self, now: u64) {
        if let Some(causes) = &mut self.causes {
            for (pid, holders) in self.database.blockers(&causes.waiting_for_locks()) {
                causes.held(pid, now, &holders);
            }
        }
    }

    /// Whether the lock table can be read is said before anything is recorded.
    fn find_locks(&mut self) {
        if self.locks.is_none() {
            return;
        }
        match self.database.look_at_locks() {
            Some(Ok(_)) => {
                if let Some(why) = self.database.without_fast_path() {
                    self.reasons.push(format!(
                        "locks that sessions note with themselves (weak ones of relations, for which nobody can wait) are not recorded: {why}"
                    ));
                }
            }
            Some(Err(why)) => self
                .reasons
                .push(format!("the lock table is not recorded: {why}")),
            None => self.locks = None,
        }
    }

    /// Who has and who wants which lock of the server's table.
    fn look_at_locks(&mut self, now: u64) {
        let Some(locks) = self.locks.as_mut().filter(|locks| locks.is_due(now)) else {
            return;
        };
        if self.gone.is_some() {
            locks.finish(&mut self.rows);
            return;
        }
        let before = thread_cpu_ns();
        let look = self.database.look_at_locks();
        let period = (now, thread_cpu_ns().saturating_sub(before));
        let Some(Ok(look)) = look else {
            locks.take_failure(period, self.clock, &mut self.rows);
            return;
        };
        let session = |pid: u32| self.sessions.get(&pid).map(|session| session.id);
        let executing = locks.take(period, &look, self.clock, session, &mut self.rows);
        for (pid, statement) in executing {
            self.see_statement(pid, statement);
        }
    }

    /// A session that sends the log to a standby waits for that as if it had nothing to do: who it is tells the other end of its
    /// connection.
    fn look_who_has_the_log(&mut self) {
        let Some(causes) = &mut self.causes else {
            return;
        };
        let may_come = !self.options.standbys.is_empty();
        for (&pid, session) in &self.sessions {
            let looks = session.end.is_none() && !session.is_client() && !causes.knows_standby(pid, may_come);
            if looks && let Some(standby) = self.database.standby(pid) {
                causes.sends_to(pid, standby, &self.database.standbys());
            }
        }
    }

    fn take_latencies(&mut self, now: u64) -> Result<(), CollectError> {
        match (&mut self.latencies, self.engine.programs()) {
            (Some(latencies), Some(programs)) => latencies.take(
                programs,
                self.probes.as_mut(),
                &*self.names,
                self.clock,
                now,
                &mut self.rows,
            )?,
            _ => return Ok(()),
        }
        let left_out = self.latencies.as_ref().map_or(0, Latencies::files_left_out);
        if left_out > 0 && !self.told_of_files {
            self.told_of_files = true;
            self.note(format!(
                "the data directory has more files than there is room for names: {left_out} or more have no name"
            ));
        }
        Ok(())
    }

    /// Rows since the last call, as far as their windows are over.
    pub fn take_rows(&mut self) -> Rows {
        self.rows.stacks = self.symbolizer.take_new_stacks();
        let rows = std::mem::take(&mut self.rows);
        match self.is_finished {
            true => rows,
            false => self.windows.pass(rows, self.now_us()),
        }
    }

    /// Describes stacks and statements once more when they are seen next, and says once more what is said once: what was taken until now
    /// is in a recording that ends at this moment (microseconds since the Unix epoch), with the notes of its time.
    pub fn describe_again(&mut self, end_us: i64) {
        self.symbolizer.describe_again();
        self.statements = Statements::new(Instant::now());
        self.notes.retain(|note| note.time_us >= end_us);
        self.told_of_statements = false;
        self.comments = Comments::default();
        self.told_of_comments = false;
        self.told_of_files = false;
        self.told_of_compiled = false;
    }

    /// Every id that sessions have which live now: as their application calls itself, they may have several.
    pub fn ids(&self) -> impl Iterator<Item = SessionId> {
        self.sessions.values().flat_map(LiveSession::ids)
    }

    /// The time of day by the clock of the recording, microseconds since the Unix epoch: it does not step when the host's is set.
    pub fn now_us(&self) -> i64 {
        self.clock.wall_us(monotonic_ns())
    }

    /// True when the kernel's totals up to this moment (microseconds since the Unix epoch) have been taken, and short sessions have no
    /// time before it that is still to be divided. After a standstill of dbtime both take a while, whatever the clock says.
    pub fn is_settled(&self, until_us: i64) -> bool {
        self.clock.wall_us(self.accounted_ns) >= until_us
            && self.pool.first_us().is_none_or(|first| first >= until_us)
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

    /// True when so many rows wait that they should be taken now: stacks that are all different, as deep recursion and code that
    /// is compiled at run time make them, are some kilobytes each.
    pub fn has_much_to_take(&self) -> bool {
        self.symbolizer.new_stacks() >= MOST_STACKS
            || self.symbolizer.new_stack_bytes() >= MOST_STACK_BYTES
            || self.rows.len() >= MOST_ROWS
    }

    /// Remarkable events so far, in order.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Description of the recording so far.
    pub fn meta(&mut self) -> Meta {
        self.count_losses();
        let statistics = self.engine.statistics();
        let (frames, unresolved_frames) = self.symbolizer.frame_counts();
        let (names_cpu_ns, names_rss_bytes) = self.symbolizer.cost();
        let unwinding = self
            .unwinding
            .as_ref()
            .map(Unwinding::statistics)
            .unwrap_or_default();
        let described = self.database.describe();
        Meta {
            schema: SCHEMA_VERSION.to_string(),
            dbtime: env!("CARGO_PKG_VERSION").to_string(),
            start_us: self.clock.wall_us(self.start_ns),
            end_us: self.clock.wall_us(monotonic_ns()),
            complete: false,
            host: host::description(),
            database: DatabaseMeta {
                held_locks: self.lists_locks,
                locks: self.locks.as_ref().is_some_and(LockWatch::has_looked),
                ..described
            },
            collector: CollectorMeta {
                tier: self.options.tier.name().to_string(),
                rate_hz: self.options.rate_hz,
                engine: self.engine.describe().to_string(),
                reasons: self.reasons.clone(),
                resolution_s: self.options.resolution_s,
                task_counts: self.options.task_counts,
                ..CollectorMeta::default()
            },
            segments: Default::default(),
            quality: Quality {
                passes: statistics.passes,
                late_passes: statistics.late,
                frames,
                unresolved_frames,
                unwind_without_room: unwinding.without_room,
                stacks_without_room: self.symbolizer.stacks_without_room(),
                ..self.quality.clone()
            },
            cost: Cost {
                cpu_ns: host::process_cpu_ns().saturating_sub(self.cpu_at_start_ns) + names_cpu_ns,
                sampler_cpu_ns: statistics.cpu_ns,
                max_rss_bytes: host::max_rss_bytes() + names_rss_bytes,
                bytes_written: 0,
                programs: self.engine.costs(),
                unwind_table_bytes: unwinding.table_bytes,
                unwind_build_ns: unwinding.build_ns,
            },
            notes: self.notes.clone(),
            ..Meta::default()
        }
    }

    fn take(&mut self, event: Event) -> Result<(), CollectError> {
        match event {
            Event::Sample(sample) => {
                let Some(session) = self.sessions.get_mut(&sample.pid) else {
                    return Ok(());
                };
                let kernel = if sample.kernel_names.is_empty() {
                    self.symbolizer.kernel_stack(&sample.kernel)
                } else {
                    self.symbolizer.named_stack(sample.kernel_names.clone())
                };
                let routine_name = |routine| self.database.routine_name(sample.pid, routine);
                let user =
                    self.symbolizer
                        .user_stack(sample.pid, &sample.user, &sample.routines, routine_name);
                if sample.wait.is_none() {
                    self.quality.waits_not_read += 1;
                }
                self.quality.comments_not_read +=
                    u64::from(self.options.texts != Texts::None && sample.comment.is_none());
                match sample.user_end {
                    Some(StackEnd::Complete) => self.quality.stacks_complete += 1,
                    Some(StackEnd::Truncated) => self.quality.stacks_truncated += 1,
                    Some(StackEnd::Broken) => self.quality.stacks_broken += 1,
                    None => {}
                }
                if sample.new_code
                    && let Some(unwinding) = &mut self.unwinding
                {
                    unwinding.look_again(sample.pid, Instant::now());
                }
                let name = |lock| self.database.lock_name(lock);
                let held = match (&sample.locks, self.options.mechanism) {
                    (Some(locks), Mechanism::Bpf) => self.held_locks.number(locks, name),
                    (None, Mechanism::Bpf) => HeldId::NOT_READ,
                    // They are not looked for: the recording says so as a whole.
                    (_, Mechanism::Proc) => HeldId::NONE,
                };
                let found = session.sample(&sample, (kernel, user), held);
                if let Some(causes) = &mut self.causes {
                    causes.repeat(sample.pid, sample.repeats);
                    let moment = (sample.pass, sample.time_ns);
                    match (found, sample.off_cpu_state) {
                        (Some(found), Some(_)) => {
                            let for_standby = causes::is_for_standby(&found.wait);
                            causes.off_cpu(sample.pid, moment, found, !sample.stack_torn);
                            if for_standby
                                && let Some(for_replay) = self.database.waits_for_replay(sample.pid)
                            {
                                causes.waits_for_replay(sample.pid, for_replay);
                            }
                        }
                        (Some(found), None) => causes.on_cpu(sample.pid, sample.time_ns, found),
                        (None, _) => {}
                    }
                }
                if session.is_application_unknown()
                    && let Some(name) = self.database.application(sample.pid)
                {
                    session.set_application(name, &mut self.next_id);
                }
                self.see_statement(sample.pid, sample.executing.statement);
            }
            Event::Counts { pid, time_ns, counts } => {
                if let Some(session) = self.sessions.get_mut(&pid) {
                    session.count((time_ns, counts), self.clock, &mut self.rows.counters);
                }
            }
            Event::Comment {
                pid,
                since,
                begin,
                end,
                is_whole,
            } => {
                let begin = if is_whole { &end } else { &begin };
                let end = &end;
                let id = self.comments.id_of(Ends { begin, end, is_whole }, &mut self.rows);
                if let Some(session) = self.sessions.get_mut(&pid) {
                    session.learn_comment(since, id);
                }
                if self.comments.has_more() && !std::mem::replace(&mut self.told_of_comments, true) {
                    self.note(
                        "more comments of statements than are kept: the traces, or the routes, of further ones are not told apart"
                            .to_string(),
                    );
                }
            }
            Event::Woken { pid, time_ns, by } => {
                if let Some(causes) = &mut self.causes {
                    causes.woken(pid, time_ns, by);
                }
            }
            Event::Begin {
                pid,
                start_ns,
                source,
                slot,
            } => {
                // The end of an earlier process of this pid was lost, or has only just come; or it was found in the list of
                // processes before this event came.
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
                let id = self.take_id();
                if let Some(latencies) = &mut self.latencies {
                    latencies.know(pid, start_ns, id);
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
                let session = LiveSession::begin(identity, start_ns, monotonic_ns(), period_ns);
                self.sessions.insert(pid, session);
            }
            Event::Totals {
                pid,
                time_ns,
                ended: true,
                ..
            } => {
                if let Some(causes) = &mut self.causes {
                    causes.end(pid, time_ns);
                }
                if let Some(session) = self.sessions.get_mut(&pid) {
                    session.end = Some(event);
                }
            }
            Event::Totals {
                pid,
                start_ns,
                repeats,
                torn,
                torn_stacks,
                displaced,
                stood_in,
                ..
            } => {
                let Some(mut session) = self.sessions.remove(&pid) else {
                    return Ok(());
                };
                session.repeat(repeats);
                if let Some(causes) = &mut self.causes {
                    causes.repeat(pid, repeats);
                    causes.know(pid, start_ns);
                }
                if session.end.is_none() {
                    let unused = Unused {
                        torn,
                        torn_stacks,
                        displaced,
                        stood_in,
                    };
                    self.take_totals(&mut session, &event, unused);
                }
                self.sessions.insert(pid, session);
            }
        }
        Ok(())
    }

    /// Closes the accounts of the sessions that ended before this moment (CLOCK_MONOTONIC).
    fn end_sessions(&mut self, before: u64) -> Result<(), CollectError> {
        let ended: Vec<u32> = self
            .sessions
            .values()
            .filter(|s| s.end_ns().is_some_and(|end| end < before))
            .map(|s| s.pid)
            .collect();
        for pid in ended {
            if let Some(session) = self.sessions.remove(&pid) {
                self.end_session(session)?;
            }
        }
        Ok(())
    }

    /// Closes the account of a session: with the totals of its end, or, where these were lost, with the last ones.
    fn end_session(&mut self, mut session: LiveSession) -> Result<(), CollectError> {
        match session.end.take() {
            Some(end) => {
                let (repeats, unused) = self.engine.left_over(session.slot);
                session.repeat(repeats);
                if let Some(causes) = &mut self.causes {
                    causes.repeat(session.pid, repeats);
                }
                self.take_totals(&mut session, &end, unused);
            }
            None => self.quality.samples += session.abandon(self.clock, &mut self.rows, &mut self.pool),
        }
        self.forget(&session)?;
        self.note_end(session.pid);
        Ok(())
    }

    /// The session of this process has been seen in a statement.
    fn see_statement(&mut self, pid: u32, statement: u64) {
        let text = || self.database.statement_text(pid, statement, self.options.texts);
        self.statements
            .see(statement, Instant::now(), &mut self.rows, text);
        if self.statements.is_full() && !std::mem::replace(&mut self.told_of_statements, true) {
            self.note(
                "more than 100000 statements: further ones are recorded by their ids, without text"
                    .to_string(),
            );
        }
    }

    /// A parallel worker works for its leader's client, as long as the leader is there, and the leader waits for it.
    fn follow_leader(&mut self, session: &mut LiveSession) {
        let is_known = |causes: &Causes| causes.knows_leader(session.pid);
        if session.has_client() && self.causes.as_ref().is_none_or(is_known) {
            return;
        }
        let Some(leader) = session.leader_pid().and_then(|pid| self.sessions.get(&pid)) else {
            return;
        };
        // In a namespace of its own the database numbers processes otherwise.
        if process::innermost_pid(leader.pid) != Some(leader.pid) {
            return;
        }
        if !session.has_client() {
            session.take_client_of(leader);
        }
        if let Some(causes) = &mut self.causes {
            causes.works_for(session.pid, leader.pid);
        }
    }

    /// The same of all of them.
    fn take_clients_of_leaders(&mut self) {
        let is_worker = |session: &&LiveSession| session.leader_pid().is_some() && !session.has_client();
        let workers: Vec<u32> = self
            .sessions
            .values()
            .filter(is_worker)
            .map(|session| session.pid)
            .collect();
        for pid in workers {
            if let Some(mut session) = self.sessions.remove(&pid) {
                self.follow_leader(&mut session);
                self.sessions.insert(pid, session);
            }
        }
    }

    fn take_totals(&mut self, session: &mut LiveSession, event: &Event, unused: Unused) {
        let Event::Totals {
            start_ns,
            time_ns,
            on_cpu_ns,
            run_queue_ns,
            ended,
            ref sums,
            ..
        } = *event
        else {
            return;
        };
        match (sums.as_ref().and_then(|sums| sums.numbers), session.title()) {
            (Some(numbers), Some(title)) => self.alike.learn(numbers, title),
            (Some(numbers), None) if ended && session.is_nameless() => {
                if let Some(title) = self.alike.title(numbers) {
                    session.set_title(title);
                }
            }
            _ => {}
        }
        let asks = session.may_have_named_application(on_cpu_ns);
        let mut name = asks.then(|| self.database.application(session.pid)).flatten();
        let settles = name.as_deref().is_some_and(|name| session.is_another_as(name));
        if let Some(name) = name.take_if(|_| !settles) {
            session.set_application(name, &mut self.next_id);
        }
        self.follow_leader(session);
        if let Some(latencies) = &mut self.latencies {
            latencies.know(session.pid, start_ns, session.id);
            if ended {
                latencies.forget(session.pid, start_ns, monotonic_ns());
            }
        }
        for of_wait in sums.iter().flat_map(|sums| &sums.waits) {
            self.see_statement(session.pid, of_wait.executing.statement);
        }
        if let Some(causes) = &mut self.causes
            && let Some(queued_ns) = session.has_queued(run_queue_ns)
        {
            causes.queued(session.pid, queued_ns);
        }
        let totals = Totals {
            now: time_ns,
            on_cpu: on_cpu_ns,
            run_queue: run_queue_ns,
        };
        let reported = Reported {
            start_ns,
            totals,
            sums: sums.as_deref(),
            unused,
            ended,
            settles: settles || self.options.at_once,
        };
        self.quality.samples += session.totals(reported, self.clock, &mut self.rows, &mut self.pool);
        if ended
            && session.is_nameless()
            && let Some(numbers) = sums.as_ref().and_then(|sums| sums.numbers)
            && let Some(row) = self.rows.sessions.pop_if(|row| row.id == session.id)
        {
            self.alike.wait(numbers, row, monotonic_ns());
        }
        if let Some(name) = name.filter(|_| session.is_accounted_up_to(time_ns)) {
            session.set_application(name, &mut self.next_id);
        }
        self.quality.torn += u64::from(unused.torn);
        self.quality.torn_stacks += u64::from(unused.torn_stacks);
        self.quality.displaced += u64::from(unused.displaced);
        self.quality.stood_in += u64::from(unused.stood_in);
    }

    /// Says when the sampler has not run: after that nobody knows what was in which second.
    fn note_standstill(&mut self) {
        let Some((length, until)) = self.engine.statistics().standstill else {
            return;
        };
        if until != self.stood_still_until {
            self.stood_still_until = until;
            self.note(format!(
                "dbtime did not run for {:.1} s (it was stopped, or the host was): the sessions' times are complete, \
                but spread evenly over these seconds, and samples are missing",
                length as f64 / 1e9
            ));
        }
    }

    /// Begins with a database: takes up the sessions that exist.
    fn take_up_database(&mut self) -> Result<(), CollectError> {
        for reason in self.database.reasons() {
            if !self.reasons.contains(&reason) {
                self.reasons.push(reason);
            }
        }
        self.take_names()?;
        self.keep_slots_ready()?;
        self.take_up_newcomers()
    }

    fn take_names(&mut self) -> Result<(), CollectError> {
        self.names = self.database.names();
        self.engine.set_waits(&self.names.traits())
    }

    /// False when there is no room for it.
    fn adopt(&mut self, member: Member) -> Result<bool, CollectError> {
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
        // A process of another server has its code elsewhere: it is unwound when its own map has been read.
        let space = if member.is_of_parent { space } else { 0 };
        self.engine.watch(slot, (pid, 0), source, is_parent, space)?;
        if let Some(probes) = &self.probes {
            probes.watch(pid)?;
        }
        let id = self.take_id();
        let mut session = LiveSession::adopt(self.identity(id, slot, member), monotonic_ns());
        session.read_title();
        if let Some(name) = self.database.application(pid) {
            session.set_application(name, &mut self.next_id);
        }
        self.sessions.insert(pid, session);
        self.gone = self.gone.filter(|_| self.database.parent().is_some());
        Ok(true)
    }

    fn identity(&self, id: SessionId, slot: u32, member: Member) -> Identity {
        let has_texts = matches!(member.source, WaitSource::Pointer { status: Some(_), .. });
        Identity {
            comments: has_texts && self.options.texts != Texts::None,
            id,
            pid: member.pid,
            slot,
            names: Rc::clone(&self.names),
            titles: Rc::clone(&self.titles),
            held_locks: Rc::clone(&self.held_locks),
            source: member.source,
            role: member.role,
            tier: self.options.tier,
        }
    }

    fn forget(&mut self, session: &LiveSession) -> Result<(), CollectError> {
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

    /// Ends the sessions of which the kernel has reported nothing for some seconds and that are gone: they ended between
    /// being listed and being watched, or the event of their end was lost.
    fn drop_unreported(&mut self, now: u64) -> Result<(), CollectError> {
        let gone: Vec<u32> = self
            .sessions
            .values()
            .filter(|s| now.saturating_sub(s.last_report_ns()) > UNREPORTED_NS)
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
    fn repair_after_loss(&mut self) -> Result<(), CollectError> {
        let lost = self.engine.losses().events;
        if lost == self.lost_at_check || !self.database.outlives_its_sessions() || self.gone.is_some() {
            return Ok(());
        }
        self.lost_at_check = lost;
        self.free_lost_slots()?;
        // The kernel has counted those for which it had no room when they began.
        self.take_up(|_, _| {})
    }

    fn is_parent_recorded(&self) -> bool {
        let parent = self.database.parent();
        parent.is_some_and(|pid| self.sessions.contains_key(&pid))
    }

    fn take_up_newcomers(&mut self) -> Result<(), CollectError> {
        self.take_up(LeftOut::found)
    }

    /// `leave_out`: what is to be done about one for which there is no room.
    fn take_up(&mut self, leave_out: fn(&mut LeftOut, u32)) -> Result<(), CollectError> {
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

    fn note_end(&mut self, pid: u32) {
        if let Some(text) = self.database.gone_with(pid) {
            self.note(text);
            self.gone = Some(Instant::now());
        } else if self.database.parent().is_none() && self.sessions.is_empty() && self.gone.is_none() {
            self.note("all sessions have ended".to_string());
            self.gone = Some(Instant::now());
        }
    }

    /// The scheduler takes interrupts (where the kernel accounts for them) and time stolen by a hypervisor off the
    /// runtime of the task they hit. Neither is in its run-queue time: it would be mistaken for time blocked.
    fn note_time_that_is_not_the_sessions(&mut self) {
        let (stolen, all) = host::stolen_time();
        let (stolen, all) = (
            stolen.saturating_sub(self.stolen_at_start.0),
            all.saturating_sub(self.stolen_at_start.1),
        );
        if all > 0 && stolen * 100 > all {
            self.note(format!(
                "{:.1} % of this host's CPU time went to interrupts or was stolen by the hypervisor: what the kernel takes off the runtime of the sessions it hit is counted as blocked",
                stolen as f64 * 100.0 / all as f64
            ));
        }
    }

    fn look_at_database(&mut self) -> Result<(), CollectError> {
        if self.looked_at_database.elapsed() < LOOK_AT_DATABASE {
            return Ok(());
        }
        self.looked_at_database = Instant::now();
        match self.database.look(self.gone.is_some()) {
            // As long as the parent lives it may have children that nobody tells of.
            None if !self.engine.sees_births() && self.is_parent_recorded() => self.take_up_newcomers(),
            None => Ok(()),
            Some(Change::Newcomers) => self.take_up_newcomers(),
            Some(Change::Restarted(text)) => {
                self.note(text);
                self.held_locks.forget_addresses();
                if let Some(locks) = &mut self.locks {
                    locks.finish(&mut self.rows);
                }
                if let Some(parent) = self.database.parent() {
                    self.symbolizer.set_parent(parent);
                    if let Some(unwinding) = &mut self.unwinding {
                        unwinding.set_parent(parent);
                    }
                }
                if let Some(latencies) = &mut self.latencies {
                    latencies.set_server(self.database.at_files());
                }
                self.gone = None;
                self.take_up_database()
            }
            Some(Change::Sessions(notes)) => {
                notes.into_iter().for_each(|text| self.note(text));
                self.take_members()
            }
        }
    }

    /// Takes up the sessions that are new, and ends those that are none any longer.
    fn take_members(&mut self) -> Result<(), CollectError> {
        self.take_names()?;
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
        for session in self.sessions.values_mut() {
            session.set_names(Rc::clone(&self.names));
        }
        self.take_up_newcomers()
    }

    /// Transactions of clients' sessions since the last time. Of hundreds that are idle none is looked at.
    fn count_transactions(&mut self, now: u64, of_all: bool) {
        let sessions = self.sessions.values_mut();
        let clients = sessions.filter_map(|session| {
            let is_due = session.may_have_made_transactions() || of_all;
            (is_due && session.is_client()).then_some(session.pid)
        });
        let clients: Vec<u32> = clients.collect();
        let time = self.clock.second_us(middle(self.counted_transactions_ns, now));
        self.counted_transactions_ns = now;
        let Some((source, growth)) = self.database.transactions(&clients) else {
            return;
        };
        for (pid, grown) in growth {
            let Some(session) = self.sessions.get_mut(&pid) else {
                continue;
            };
            // A first row of 0 says that the session is counted.
            if grown > 0 || !std::mem::replace(&mut session.counts_transactions, true) {
                self.rows.counters.push(CounterRow {
                    time,
                    session: session.id,
                    source: source.to_string(),
                    name: counter::TRANSACTIONS.to_string(),
                    value: grown.into(),
                    ..CounterRow::default()
                });
            }
        }
    }

    /// What the server counts, of itself and of sessions that are recorded.
    fn take_statistics(&mut self, told: Vec<Told>) {
        for told in told {
            let (from, to, grown) = match told {
                Told::Grown(from, to, grown) => (from, to, grown),
                Told::Note(text) => {
                    self.note(text);
                    continue;
                }
            };
            let time = self.clock.second_us(middle(from, to));
            for growth in grown {
                let session = match growth.pid {
                    None => Some(SessionId::RECORDER),
                    Some(pid) => self.sessions.get(&pid).map(|session| session.id),
                };
                self.rows.counters.extend(session.map(|session| CounterRow {
                    time,
                    session,
                    statement: growth.statement,
                    source: counter::SERVER_STATISTICS.to_string(),
                    name: growth.name,
                    value: growth.value,
                    ..CounterRow::default()
                }));
            }
        }
    }

    fn take_slot(&mut self) -> Option<u32> {
        if let Some(slot) = self.free_slots.pop() {
            return Some(slot);
        }
        if self.used_slots == self.engine.capacity() {
            return None;
        }
        self.used_slots += 1;
        self.engine.set_slots(self.used_slots);
        Some(self.used_slots - 1)
    }

    /// This slot is in use: it is neither free nor ready for another session. One that was ready is replaced.
    fn take_ready_slot(&mut self, slot: u32) -> Result<(), CollectError> {
        self.free_slots.retain(|free| *free != slot);
        self.ready_slots.remove(&slot);
        self.keep_slots_ready()
    }

    fn keep_slots_ready(&mut self) -> Result<(), CollectError> {
        let wanted = self.engine.ready_places() as usize;
        while self.ready_slots.len() < wanted
            && (!self.free_slots.is_empty() || self.used_slots < self.engine.capacity())
            && let Some(slot) = self.take_slot()
        {
            self.engine.make_ready(slot)?;
            self.ready_slots.insert(slot);
        }
        Ok(())
    }

    /// Slots that were given to sessions of which nobody told, and that have ended since, are free.
    fn free_lost_slots(&mut self) -> Result<(), CollectError> {
        for slot in self.ready_slots.clone() {
            if let Some(pid) = self.engine.task_in(slot)
                && !self.sessions.contains_key(&pid)
                && process::parent(pid).is_none()
            {
                self.engine.forget(slot, pid)?;
                self.ready_slots.remove(&slot);
                self.free_slots.push(slot);
            }
        }
        self.keep_slots_ready()
    }

    fn take_id(&mut self) -> SessionId {
        self.next_id += 1;
        SessionId(self.next_id - 1)
    }

    fn count_losses(&mut self) {
        let losses = self.engine.losses();
        let not_recorded = losses.sessions + self.left_out.count();
        if not_recorded > 0 && self.quality.sessions_not_recorded == 0 {
            self.note(format!(
                "more than {} sessions: the others are not recorded",
                self.engine.capacity()
            ));
        }
        self.quality.lost = losses.events;
        let (of_probes, without_begin) = self.probes.as_ref().map_or((0, 0), OracleProbes::losses);
        self.quality.latencies_lost = losses.latencies + of_probes + without_begin;
        self.quality.sessions_not_recorded = not_recorded;
        self.quality.failed_passes = self.engine.statistics().failed;
    }

    fn note(&mut self, mut text: String) {
        if self.notes.len() >= MOST_NOTES {
            return;
        }
        if self.notes.len() + 1 == MOST_NOTES {
            text.push_str(" (further ones are not noted)");
        }
        self.notes.push(Note {
            time_us: self.clock.wall_us(monotonic_ns()),
            text,
        });
    }
}

/// Loads the programs; the second value says why the sampler is not the one that is wanted, where it is another one.
fn load_programs(options: &Options) -> Result<(Programs, Option<String>), CollectError> {
    let only = options.task_iterator.then_some(SamplerKind::Iterator);
    let wanted = Wanted {
        rate_hz: options.rate_hz,
        tier: options.tier,
        wakers: options.wakers,
        task_counts: options.task_counts,
        comments: options.texts != Texts::None,
    };
    Programs::load(wanted, only)
}

/// Starts the sampler; says what this kernel lacks.
fn start_programs(
    (mut programs, refused): (Programs, Option<String>),
    options: &Options,
    clock: Clock,
    reasons: &mut Vec<String>,
    unwinding: Option<&mut Unwinding>,
) -> Result<BpfEngine, CollectError> {
    let events =
        Ring::of_events(&programs.events).map_err(|e| CollectError::Kernel(format!("ring buffer: {e}")))?;
    if let (Some(unwinding), Some(maps)) = (unwinding, programs.unwind_maps.take()) {
        unwinding.attach(maps);
    }
    let sampler = Sampler::start(&programs, options.rate_hz, options.tier == Tier::Sampled, clock)?;
    if let Some(reason) = refused {
        reasons.push(format!(
            "this kernel rejects the pid-list sampler ({reason}): every pass visits all tasks of the host"
        ));
    }
    if let (Tier::Sampled, Err(reason)) = (options.tier, &programs.announcements) {
        let why = if reason.is_empty() {
            String::new()
        } else {
            format!(" ({reason})")
        };
        reasons.push(format!(
            "this kernel has no timer that notes what sessions do at the moment of a pass{why}: on a busy host waits of less than 0.2 ms are sampled too seldom"
        ));
    }
    if let Some(reason) = &sampler.not_real_time {
        reasons.push(format!(
            "the sampler has no real-time priority ({reason}; it needs CAP_SYS_NICE): on a busy host it undersamples \
            time in the run queue"
        ));
    }
    Ok(BpfEngine {
        programs,
        events,
        sampler,
    })
}

/// What to do where no programs can be had.
fn or_without_programs(error: CollectError) -> CollectError {
    match error {
        CollectError::Kernel(what) => CollectError::Kernel(format!(
            "{what}\n'--collector proc' records without BPF programs (sampled, with less detail)"
        )),
        other => other,
    }
}
