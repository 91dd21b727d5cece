//! Records the sessions of a server: finds them, takes the kernel's events, hands on rows.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use dbtime_model::recording::{CollectorMeta, Cost, DatabaseMeta, Meta, Note, Quality, SCHEMA_VERSION};
use dbtime_model::{Rows, SessionId};

use crate::accounting::Totals;
use crate::bpf::{Engine, Event, Events, Programs, Sampler, Tier};
use crate::clock::{Clock, monotonic_ns};
use crate::latencies::Latencies;
use crate::postgres::{Server, WaitEventNames, wait_events};
use crate::session::{Identity, LiveSession, Reported, Role, Unused};
use crate::symbols::Symbolizer;
use crate::{CollectError, host, privilege, process};

/// Samples per second that can be asked for.
pub const RATES_HZ: RangeInclusive<u32> = 1..=4999;

/// How often a server that has gone is looked for.
const LOOK_FOR_SERVER: Duration = Duration::from_millis(250);
/// As long as a process has not named itself, it is asked this often.
const LOOK_FOR_TITLE: Duration = Duration::from_millis(5);
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
}

/// How to record.
#[derive(Debug, Clone)]
pub struct Options {
    /// What to record.
    pub target: Target,
    /// Samples per second and session, in [`RATES_HZ`].
    pub rate_hz: u32,
    /// How exact the times are.
    pub tier: Tier,
    /// Note who ends a sleep; in the exact tiers only.
    pub wakers: bool,
    /// Take the engine of older kernels also where the better one works.
    pub task_iterator: bool,
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
    programs: Programs,
    events: Events,
    sampler: Sampler,
    server: Server,
    whole_server: bool,
    names: &'static WaitEventNames,
    symbolizer: Symbolizer,
    /// The exact tier only.
    latencies: Option<Latencies>,
    sessions: HashMap<u32, LiveSession>,
    next_id: u64,
    free_slots: Vec<u32>,
    used_slots: u32,
    rows: Rows,
    quality: Quality,
    reasons: Vec<String>,
    notes: Vec<Note>,
    gone: Option<Instant>,
    looked_for_server: Instant,
    cpu_at_start_ns: u64,
    next_check_ns: u64,
    lost_at_check: u64,
    stolen_at_start: (u64, u64),
    without_slot: u64,
}

impl Collector {
    /// Finds the target, loads the programs and takes up the sessions that exist. When it returns, samples are taken.
    ///
    /// # Errors
    /// Missing privileges or kernel features, no such server or session; the message says what to do.
    pub fn start(options: &Options) -> Result<Collector, CollectError> {
        let options = options.clone();
        privilege::check()?;
        let cpu_at_start_ns = host::process_cpu_ns();
        let server = match &options.target {
            Target::OnlyServer => Server::only()?,
            Target::Server(directory) => Server::on(directory)?,
            Target::Process(pid) => Server::of_backend(*pid)?,
            Target::AnyProcess(pid) => Server::of_any_process(*pid)?,
        };
        let whole_server = match options.target {
            Target::Process(pid) => pid == server.postmaster,
            Target::AnyProcess(_) => false,
            Target::OnlyServer | Target::Server(_) => true,
        };
        let mut symbolizer = Symbolizer::new();
        symbolizer.set_parent(server.postmaster);
        let mut reasons = symbolizer.warm_up();
        let clock = Clock::start();
        let only = options.task_iterator.then_some(Engine::Iterator);
        let (programs, refused) = Programs::load(options.rate_hz, options.tier, options.wakers, only)?;
        let events =
            Events::new(&programs.events).map_err(|e| CollectError::Kernel(format!("ring buffer: {e}")))?;
        let sampler = Sampler::start(&programs, options.rate_hz, clock)?;

        if let Some(reason) = refused {
            reasons.push(format!(
                "this kernel refuses the pid-list sampler ({reason}): every pass visits all tasks of the host"
            ));
        }
        if let Some(reason) = &sampler.not_real_time {
            reasons.push(format!(
                "the sampler has no real-time priority ({reason}; it needs CAP_SYS_NICE): on a busy host time in the run queue is sampled too seldom"
            ));
        }
        if let Some(most) = host::most_samples_a_second()
            && options.rate_hz > most
        {
            reasons.push(format!(
                "the kernel allows {most} timer samples a second (kernel.perf_event_max_sample_rate): there are fewer than asked for on a CPU"
            ));
        }
        let mut collector = Collector {
            clock,
            start_ns: monotonic_ns(),
            programs,
            events,
            sampler,
            whole_server,
            names: WaitEventNames::for_major(server.major).0,
            latencies: (options.tier != Tier::Sampled)
                .then(|| Latencies::new(&server.data_directory_here(), monotonic_ns())),
            symbolizer,
            sessions: HashMap::new(),
            next_id: 1,
            free_slots: Vec::new(),
            used_slots: 0,
            rows: Rows::default(),
            quality: Quality::default(),
            reasons,
            notes: Vec::new(),
            gone: None,
            looked_for_server: Instant::now(),
            cpu_at_start_ns,
            next_check_ns: 0,
            lost_at_check: 0,
            stolen_at_start: host::stolen_time(),
            without_slot: 0,
            server,
            options,
        };
        collector.take_up_server()?;
        collector.start_ns = monotonic_ns();
        Ok(collector)
    }

    /// Waits at most this long, then takes what the kernel has sent. Call it at least ten times a second.
    ///
    /// # Errors
    /// A kernel map could not be written: nothing that could be recorded is left.
    pub fn step(&mut self, longest: Duration) -> Result<Status, CollectError> {
        let now = monotonic_ns();
        let nameless = self.sessions.values().any(|s| s.is_about_to_be_named(now));
        for event in self.events.wait(if nameless {
            longest.min(LOOK_FOR_TITLE)
        } else {
            longest
        }) {
            self.take(event)?;
        }
        let now = monotonic_ns();
        self.end_sessions(now.saturating_sub(LATE_SAMPLES_NS))?;
        for session in self.sessions.values_mut() {
            session.look_for_title(now);
        }
        if now >= self.next_check_ns {
            self.next_check_ns = now + 1_000_000_000;
            self.drop_unreported(now)?;
            self.repair_after_loss()?;
        }
        self.programs.run_times.step(now);
        if self.latencies.as_ref().is_some_and(|l| l.is_due(self.clock, now)) {
            self.take_latencies(now)?;
        }
        self.look_for_server()?;
        Ok(match (self.whole_server, self.gone, self.sessions.is_empty()) {
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
        self.sampler.stop();
        for event in self.events.wait(Duration::ZERO) {
            self.take(event)?;
        }
        self.end_sessions(u64::MAX)?;
        let mut left: Vec<LiveSession> = self.sessions.drain().map(|(_, session)| session).collect();
        left.sort_by_key(|session| session.slot);
        for session in &mut left {
            self.quality.samples += session.abandon(self.clock, &mut self.rows);
        }
        self.take_latencies(monotonic_ns())?;
        self.note_time_that_is_not_the_sessions();
        self.count_losses();
        Ok(())
    }

    fn take_latencies(&mut self, now: u64) -> Result<(), CollectError> {
        match &mut self.latencies {
            Some(latencies) => {
                latencies.take(&mut self.programs, self.names, self.clock, now, &mut self.rows)
            }
            None => Ok(()),
        }
    }

    /// Rows since the last call.
    pub fn take_rows(&mut self) -> Rows {
        self.rows.stacks = self.symbolizer.take_new_stacks();
        std::mem::take(&mut self.rows)
    }

    /// Remarkable events so far, in order.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Description of the recording so far.
    pub fn meta(&mut self) -> Meta {
        self.count_losses();
        let statistics = self.sampler.statistics();
        let (frames, unresolved_frames) = self.symbolizer.frame_counts();
        let usage = host::usage();
        Meta {
            schema: SCHEMA_VERSION.to_string(),
            dbtime: env!("CARGO_PKG_VERSION").to_string(),
            start_us: self.clock.wall_us(self.start_ns),
            end_us: self.clock.wall_us(monotonic_ns()),
            complete: false,
            host: host::description(),
            database: DatabaseMeta {
                product: self.server.product(),
                version: self.server.version.clone(),
                data_directory: self.server.data_directory.to_string_lossy().into_owned(),
                executable: self.server.executable.to_string_lossy().into_owned(),
                target: match self.options.target {
                    Target::Process(pid) | Target::AnyProcess(pid) if !self.whole_server => {
                        format!("pid {pid}")
                    }
                    _ => "server".to_string(),
                },
            },
            collector: CollectorMeta {
                tier: self.options.tier.name().to_string(),
                rate_hz: self.options.rate_hz,
                engine: self.programs.engine.describe().to_string(),
                reasons: self.reasons.clone(),
                ..CollectorMeta::default()
            },
            segments: Default::default(),
            quality: Quality {
                passes: statistics.passes,
                late_passes: statistics.late,
                frames,
                unresolved_frames,
                ..self.quality.clone()
            },
            cost: Cost {
                cpu_ns: host::process_cpu_ns().saturating_sub(self.cpu_at_start_ns),
                sampler_cpu_ns: statistics.cpu_ns,
                max_rss_bytes: usage.ru_maxrss as u64 * 1024,
                bytes_written: 0,
                programs: self.programs.run_times.costs(),
            },
            notes: self.notes.clone(),
        }
    }

    fn take(&mut self, event: Event) -> Result<(), CollectError> {
        match event {
            Event::Sample(sample) => {
                let Some(session) = self.sessions.get_mut(&sample.pid) else {
                    return Ok(());
                };
                let kernel = self.symbolizer.kernel_stack(&sample.kernel);
                let user = self.symbolizer.user_stack(sample.pid, &sample.user);
                if sample.wait.is_none() {
                    self.quality.waits_not_read += 1;
                }
                session.sample(&sample, (kernel, user));
            }
            Event::Begin {
                pid,
                start_ns,
                wait_address,
            } => {
                // The end of an earlier process of this pid was lost, or has only just come.
                if let Some(earlier) = self.sessions.remove(&pid) {
                    self.end_session(earlier)?;
                }
                let Some(slot) = self.take_slot() else {
                    return Ok(());
                };
                self.programs
                    .set_slot(slot, Some((pid, start_ns)), wait_address)?;
                self.programs.add_target(pid, wait_address, false, Some(slot))?;
                let id = self.take_id();
                if let Some(latencies) = &mut self.latencies {
                    latencies.know(pid, start_ns, id);
                }
                let identity = self.identity(id, pid, slot, self.role_of_children());
                let session = LiveSession::begin(identity, start_ns, monotonic_ns());
                self.sessions.insert(pid, session);
            }
            Event::Totals { pid, ended: true, .. } => {
                if let Some(session) = self.sessions.get_mut(&pid) {
                    session.end = Some(event);
                }
            }
            Event::Totals {
                pid,
                repeats,
                torn,
                torn_stacks,
                displaced,
                ..
            } => {
                let Some(mut session) = self.sessions.remove(&pid) else {
                    return Ok(());
                };
                session.repeat(repeats);
                if session.end.is_none() {
                    let unused = Unused {
                        torn,
                        torn_stacks,
                        displaced,
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
                let (repeats, unused) = self.programs.read_slot(session.slot);
                session.repeat(repeats);
                self.take_totals(&mut session, &end, unused);
            }
            None => self.quality.samples += session.abandon(self.clock, &mut self.rows),
        }
        self.forget(&session)?;
        self.note_end_of_server(session.pid);
        Ok(())
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
        if let Some(latencies) = &mut self.latencies {
            latencies.know(session.pid, start_ns, session.id);
            if ended {
                latencies.forget(session.pid, start_ns, monotonic_ns());
            }
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
        };
        self.quality.samples += session.totals(reported, self.clock, &mut self.rows);
        self.quality.torn += u64::from(unused.torn);
        self.quality.torn_stacks += u64::from(unused.torn_stacks);
        self.quality.displaced += u64::from(unused.displaced);
    }

    /// Begins with a server: its postmaster first, so that no child is missed, then the processes that exist.
    fn take_up_server(&mut self) -> Result<(), CollectError> {
        let (names, exact) = WaitEventNames::for_major(self.server.major);
        self.names = names;
        if !exact && self.server.has_waits() {
            self.reasons.push(format!(
                "the wait events of PostgreSQL {} are not known to this dbtime: those of {} are shown, some names may be wrong",
                self.server.major,
                names.major()
            ));
        }
        // Idle sessions need no stack: it is always the same one.
        let (classes, waits) = wait_events::idle_codes(names);
        self.programs.skip_stacks(&classes, &waits)?;
        match self.options.target {
            Target::Process(pid) if !self.whole_server => self.adopt(pid)?,
            _ => {
                self.adopt(self.server.postmaster)?;
                for pid in self.server.children() {
                    if !self.sessions.contains_key(&pid) {
                        self.adopt(pid)?;
                    }
                }
            }
        }
        self.sampler.want_totals();
        Ok(())
    }

    fn adopt(&mut self, pid: u32) -> Result<(), CollectError> {
        let Some(slot) = self.take_slot() else {
            return Ok(());
        };
        let is_parent = pid == self.server.postmaster;
        let role = match self.role_of_children() {
            Role::Backend if is_parent => Role::Postmaster,
            role => role,
        };
        self.programs
            .set_slot(slot, Some((pid, 0)), self.server.wait_address)?;
        self.programs
            .add_target(pid, self.server.wait_address, is_parent, Some(slot))?;
        let id = self.take_id();
        let mut session = LiveSession::adopt(self.identity(id, pid, slot, role), monotonic_ns());
        session.read_title();
        self.sessions.insert(pid, session);
        Ok(())
    }

    fn identity(&self, id: SessionId, pid: u32, slot: u32, role: Role) -> Identity {
        Identity {
            id,
            pid,
            slot,
            names: self.names,
            role,
            tier: self.options.tier,
        }
    }

    fn role_of_children(&self) -> Role {
        if self.server.has_waits() {
            Role::Backend
        } else {
            Role::Process
        }
    }

    fn forget(&mut self, session: &LiveSession) -> Result<(), CollectError> {
        self.programs.remove_target(session.pid);
        self.programs.set_slot(session.slot, None, 0)?;
        self.free_slots.push(session.slot);
        self.symbolizer.forget(session.pid);
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
        let lost = self.programs.losses().events;
        if lost == self.lost_at_check || !self.whole_server || self.gone.is_some() {
            return Ok(());
        }
        self.lost_at_check = lost;
        for pid in self.server.children() {
            if !self.sessions.contains_key(&pid) {
                self.adopt(pid)?;
            }
        }
        self.sampler.want_totals();
        Ok(())
    }

    fn note_end_of_server(&mut self, pid: u32) {
        if pid == self.server.postmaster && self.whole_server {
            self.note(format!("the server has stopped (postmaster {pid} ended)"));
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

    fn look_for_server(&mut self) -> Result<(), CollectError> {
        if self.gone.is_none() || self.looked_for_server.elapsed() < LOOK_FOR_SERVER {
            return Ok(());
        }
        self.looked_for_server = Instant::now();
        if let Some(server) = self.server.successor() {
            self.note(format!(
                "the server has started again (postmaster {})",
                server.postmaster
            ));
            self.symbolizer.set_parent(server.postmaster);
            if let Some(latencies) = &mut self.latencies {
                latencies.set_data_directory(&server.data_directory_here());
            }
            self.server = server;
            self.gone = None;
            self.take_up_server()?;
        }
        Ok(())
    }

    fn take_slot(&mut self) -> Option<u32> {
        if let Some(slot) = self.free_slots.pop() {
            return Some(slot);
        }
        if self.used_slots == self.programs.capacity() {
            self.without_slot += 1;
            return None;
        }
        self.used_slots += 1;
        self.sampler.set_slots(self.used_slots);
        Some(self.used_slots - 1)
    }

    fn take_id(&mut self) -> SessionId {
        self.next_id += 1;
        SessionId(self.next_id - 1)
    }

    fn count_losses(&mut self) {
        let losses = self.programs.losses();
        let not_recorded = losses.sessions + self.without_slot;
        if not_recorded > 0 && self.quality.sessions_not_recorded == 0 {
            self.note(format!(
                "more than {} sessions: the others are not recorded",
                self.programs.capacity()
            ));
        }
        self.quality.lost = losses.events;
        self.quality.latencies_lost = losses.latencies;
        self.quality.sessions_not_recorded = not_recorded;
        self.quality.failed_passes = self.sampler.statistics().failed;
    }

    fn note(&mut self, text: String) {
        self.notes.push(Note {
            time_us: self.clock.wall_us(monotonic_ns()),
            text,
        });
    }
}
