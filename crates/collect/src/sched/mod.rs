//! Context switches of sessions, live: every turn becomes rows.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::time::{Duration, Instant};

use arcstr::{ArcStr, literal};
use dbtime_model::recording::{CollectorMeta, Cost, Meta, Note, SCHEMA_VERSION, Scheduling};
use dbtime_model::{Rows, Session, SessionId, State, SwitchRow, Turn, Turns, Wait};

use crate::bpf::{LeftAs, NamedTask, SchedEvent, SchedPrograms, TurnEvent};
use crate::clock::{Clock, monotonic_ns};
use crate::collector::{Status, Target, database_of};
use crate::database::{Database, Member, Texts, WaitNames};
use crate::latencies::Wakers;
use crate::postgres::titles::Titles;
use crate::session::{Naming, Role, off_cpu_state};
use crate::statements::Statements;
use crate::{CollectError, host, privilege, process};

/// Maximum number of turns in a second that become a row of their own: all are in the sums.
const MAX_ROWS: u64 = 100_000;
/// A session that has ended is forgotten this long after: events under way have arrived by then.
const LATE: Duration = Duration::from_secs(1);
/// How often the title of a process that has not named itself is read.
const LOOK_FOR_TITLE: Duration = Duration::from_millis(20);
/// The occupant of an idle CPU.
const IDLE: &str = "idle";
/// All tasks for which there was no room in the kernel.
const OTHERS: &str = "other tasks";

/// A session whose switches are recorded.
struct Live {
    session: Session,
    naming: Naming,
    /// Its row has been reported.
    is_told: bool,
    ended: Option<Instant>,
}

/// Records context switches of the sessions of a database, or of a process.
pub struct SwitchCollector {
    programs: SchedPrograms,
    database: Box<dyn Database>,
    names: Rc<dyn WaitNames>,
    titles: Rc<Titles>,
    clock: Clock,
    start_ns: u64,
    cpu_at_start_ns: u64,
    sessions: HashMap<u32, Live>,
    /// Pids of the sessions that are in `sessions`.
    pids: HashMap<SessionId, u32>,
    next_id: u64,
    statements: Statements,
    texts: Texts,
    wakers: Wakers,
    turns: Turns,
    /// The current second, and how many turns became a row in it.
    kept: (i64, u64),
    scheduling: Scheduling,
    cpus: BTreeSet<u32>,
    rows: Rows,
    has_parent: bool,
    server_gone: Option<Instant>,
    notes: Vec<Note>,
}

impl SwitchCollector {
    /// Finds the target, loads the programs and takes up the sessions that exist. `texts`: what is kept of statements' texts.
    ///
    /// # Errors
    /// Missing privileges or kernel features, no such server or session; the message says what to do.
    pub fn start(target: &Target, texts: Texts) -> Result<SwitchCollector, CollectError> {
        privilege::check()?;
        let cpu_at_start_ns = host::process_cpu_ns();
        let database = database_of(target)?;
        let programs = SchedPrograms::load()?;
        let mut collector = SwitchCollector {
            programs,
            names: database.names(),
            titles: Rc::default(),
            clock: Clock::start(),
            start_ns: monotonic_ns(),
            cpu_at_start_ns,
            sessions: HashMap::new(),
            pids: HashMap::new(),
            next_id: 1,
            statements: Statements::new(Instant::now()),
            texts,
            wakers: Wakers::default(),
            turns: Turns::default(),
            kept: (0, 0),
            scheduling: Scheduling {
                has_wakers: true,
                has_occupants: true,
                has_migrations: true,
                has_states: true,
                ..Scheduling::default()
            },
            cpus: BTreeSet::new(),
            rows: Rows::default(),
            has_parent: false,
            server_gone: None,
            notes: Vec::new(),
            database,
        };
        collector.take_up()?;
        Ok(collector)
    }

    fn take_up(&mut self) -> Result<(), CollectError> {
        let parent = self.database.parent();
        for member in self.database.members() {
            let is_parent = Some(member.pid) == parent && self.database.outlives_its_sessions();
            // The parent of the one process that was asked for, or of all of a server.
            let with_children = Some(member.pid) == parent;
            if self.programs.watch(member.pid, member.source, with_children)? {
                self.has_parent |= is_parent;
                self.adopt(&member, 0);
            }
        }
        if self.sessions.is_empty() {
            return Err(CollectError::Kernel("the process has ended".to_string()));
        }
        Ok(())
    }

    fn adopt(&mut self, member: &Member, start_ns: u64) {
        let now = monotonic_ns();
        let begin = process::started(member.pid)
            .and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok())
            .map_or(0, |age| age.as_micros() as i64);
        let mut live = Live {
            session: Session {
                id: SessionId(self.next_id),
                pid: member.pid,
                started_us: if start_ns > 0 {
                    self.clock.wall_us(start_ns)
                } else {
                    begin
                },
                ..Session::default()
            },
            naming: Naming::new(member.role.clone(), Rc::clone(&self.titles), member.pid, now),
            is_told: false,
            ended: None,
        };
        self.next_id += 1;
        self.pids.insert(live.session.id, member.pid);
        live.name();
        if let Some(earlier) = self.sessions.insert(member.pid, live) {
            self.tell(earlier);
        }
    }

    /// Waits at most this long, then processes what the kernel has sent. Call it at least ten times a second.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn step(&mut self, longest: Duration) -> Result<Status, CollectError> {
        let now = monotonic_ns();
        let is_nameless = self.sessions.values().any(|live| live.is_about_to_be_named(now));
        let longest = if is_nameless {
            longest.min(LOOK_FOR_TITLE)
        } else {
            longest
        };
        for event in self.programs.wait(longest)? {
            match event {
                SchedEvent::Turn(turn) => self.turn(&turn),
                SchedEvent::Begin { pid, start_ns } => {
                    let child = Member {
                        pid,
                        source: crate::database::WaitSource::None,
                        role: self.database.role_of_children(),
                        is_of_parent: true,
                    };
                    self.adopt(&child, start_ns);
                }
                SchedEvent::End { pid } => {
                    if let Some(live) = self.sessions.get_mut(&pid) {
                        live.name();
                        live.ended = Some(Instant::now());
                    }
                    self.note_end(pid);
                }
            }
        }
        self.look_after_sessions();
        Ok(match (self.database.outlives_its_sessions(), self.server_gone) {
            (_, Some(_)) => Status::Ended,
            (false, None) if self.sessions.values().all(|live| live.ended.is_some()) => Status::Ended,
            _ => Status::Recording,
        })
    }

    fn note_end(&mut self, pid: u32) {
        if let Some(text) = self.database.gone_with(pid) {
            self.server_gone = Some(Instant::now());
            self.notes.push(Note {
                time_us: self.clock.wall_us(monotonic_ns()),
                text,
            });
        }
    }

    fn look_after_sessions(&mut self) {
        let now = monotonic_ns();
        for live in self.sessions.values_mut() {
            live.look_for_title(now);
        }
        let over: Vec<u32> = self
            .sessions
            .iter()
            .filter(|(_, live)| live.ended.is_some_and(|ended| ended.elapsed() > LATE))
            .map(|(pid, _)| *pid)
            .collect();
        for pid in over {
            if let Some(live) = self.sessions.remove(&pid) {
                self.tell(live);
            }
        }
        let settled =
            |live: &&mut Live| !live.is_told && live.naming.is_settled(live.naming.adopted_ns(), now);
        for live in self.sessions.values_mut().filter(settled) {
            if live.ended.is_none() {
                live.name();
            }
            live.is_told = true;
            self.rows.sessions.push(live.session.clone().into());
        }
    }

    fn tell(&mut self, live: Live) {
        self.pids.remove(&live.session.id);
        if !live.is_told {
            self.rows.sessions.push(live.session.into());
        }
    }

    fn turn(&mut self, event: &TurnEvent) {
        let Some(live) = self.sessions.get_mut(&event.pid) else {
            return;
        };
        if *live.naming.role() == Role::Process && !event.comm.is_empty() && live.session.title != event.comm
        {
            live.session.title.clone_from(&event.comm);
        }
        let wait = match (live.naming.role(), event.wait) {
            (Role::Postmaster | Role::Process, _) => Wait::no_interface(),
            (_, None) => Wait::not_read(),
            (_, Some(wait)) => self.names.decode(wait, live.session.backend_type.is_foreground()),
        };
        let wait_session_state = self.names.session_state(event.wait_executing.session_state);
        let wait_statement = match wait.is_idle_in(wait_session_state) {
            // It still has the id of its last statement, but executes none.
            true => 0,
            false => event.wait_executing.statement,
        };
        let now = Instant::now();
        for statement in [wait_statement, event.statement] {
            let text = || self.database.statement_text(event.pid, statement, self.texts);
            self.statements.see(statement, now, &mut self.rows, text);
        }
        if let Some(text) = self.statements.say_once() {
            self.notes.push(Note {
                time_us: self.clock.wall_us(monotonic_ns()),
                text: text.to_string(),
            });
        }
        let wait_state = state_of(event.was);
        let elapsed = event.time_ns.saturating_sub(event.since_ns);
        let time_ns = self.clock.wall_ns(event.time_ns);
        let scheduling = &mut self.scheduling;
        scheduling.first_ns = match scheduling.first_ns {
            0 => time_ns,
            first => first.min(time_ns),
        };
        scheduling.last_ns = scheduling.last_ns.max(time_ns);
        scheduling.missed += u64::from(event.missed);
        self.cpus.insert(event.cpu);
        let wakers = &mut self.wakers;
        let waker = match &event.waker {
            Some(who) if wait_state != State::Runnable => named(wakers, who),
            _ => ArcStr::new(),
        };
        let mut instead: Vec<(ArcStr, u64)> = Vec::with_capacity(event.occupants.len());
        for (who, ns) in &event.occupants {
            let name = match who {
                None => literal!(OTHERS),
                Some(NamedTask { pid: 0, .. }) => literal!(IDLE),
                Some(who) => named(wakers, who),
            };
            match instead.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum += ns,
                None => instead.push((name, *ns)),
            }
        }
        let turn = Turn {
            session: live.session.id,
            time_ns,
            cpu: event.cpu,
            wait_ns: Some(
                elapsed
                    .saturating_sub(event.run_ns)
                    .saturating_sub(event.delay_ns),
            ),
            delay_ns: Some(event.delay_ns),
            run_ns: Some(event.run_ns),
            wait_state,
            wait,
            state: state_of(event.is),
            waker,
            migrations: event.migrations.into(),
            migrated: event.moved,
            priority: Some(event.priority),
            instead,
            statement: self.statements.parsed(event.statement),
            wait_statement: self.statements.parsed(wait_statement),
            wait_session_state,
        };
        let second = time_ns / 1_000_000_000;
        if self.kept.0 != second {
            self.kept = (second, 0);
        }
        let keep = self.kept.1 < MAX_ROWS;
        self.kept.1 += u64::from(keep);
        self.turns.add(turn, keep);
    }

    /// Processes what has arrived until now; nothing is recorded afterwards.
    pub fn finish(&mut self) {
        for event in self.programs.wait(Duration::ZERO).unwrap_or_default() {
            if let SchedEvent::Turn(turn) = event {
                self.turn(&turn);
            }
        }
        let mut left: Vec<Live> = self.sessions.drain().map(|(_, live)| live).collect();
        left.sort_by_key(|live| live.session.id);
        for live in left {
            self.tell(live);
        }
    }

    /// What is known about a session so far.
    pub fn session(&self, id: SessionId) -> Option<&Session> {
        let live = self.sessions.get(self.pids.get(&id)?)?;
        (live.session.id == id).then_some(&live.session)
    }

    /// Rows of single switches since the last call, of this or of [`SwitchCollector::take_rows`].
    pub fn take_switches(&mut self) -> Vec<SwitchRow> {
        self.turns.take_switches()
    }

    /// Rows since the last call.
    pub fn take_rows(&mut self) -> Rows {
        let mut rows = std::mem::take(&mut self.rows);
        rows.append(self.turns.take());
        rows
    }

    /// Remarkable events so far, in order.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Description of the recording so far.
    pub fn meta(&self) -> Meta {
        Meta {
            schema: SCHEMA_VERSION.to_string(),
            dbtime: env!("CARGO_PKG_VERSION").to_string(),
            start_us: self.clock.wall_us(self.start_ns),
            end_us: self.clock.wall_us(monotonic_ns()),
            complete: false,
            host: host::description(),
            database: self.database.describe(),
            collector: CollectorMeta {
                tier: "exact".to_string(),
                engine: "context switches".to_string(),
                reasons: self.database.reasons(),
                ..CollectorMeta::default()
            },
            cost: Cost {
                cpu_ns: host::process_cpu_ns().saturating_sub(self.cpu_at_start_ns),
                max_rss_bytes: host::max_rss_bytes(),
                programs: self.programs.costs(),
                ..Cost::default()
            },
            scheduling: Some(Scheduling {
                switches: self.turns.switches_seen,
                kept: self.turns.switches_kept,
                without_begin: self.turns.without_begin,
                lost: self.programs.lost(),
                cpus: self.cpus.len() as u32,
                ..self.scheduling.clone()
            }),
            notes: self.notes.clone(),
            ..Meta::default()
        }
    }
}

impl Live {
    fn is_about_to_be_named(&self, now: u64) -> bool {
        self.ended.is_none() && self.naming.is_about_to_be_named(now)
    }

    fn look_for_title(&mut self, now: u64) {
        if self.naming.is_nameless() && self.ended.is_none() {
            self.naming.look(now);
            self.describe();
        }
    }

    /// Reads what the process says about itself.
    fn name(&mut self) {
        self.naming.read();
        self.describe();
    }

    fn describe(&mut self) {
        self.naming.describe(&mut self.session);
        // Each turn reports the name that the kernel has.
        if *self.naming.role() == Role::Process
            && let Some(name) = process::name(self.session.pid)
        {
            self.session.title = name;
        }
    }
}

/// The state in which a task left its CPU.
fn state_of(left: LeftAs) -> State {
    if left.pushed_off {
        State::Runnable
    } else {
        off_cpu_state(left.raw, left.in_iowait)
    }
}

/// A task with its pid, named by its kind if it is a server process.
fn named(wakers: &mut Wakers, who: &NamedTask) -> ArcStr {
    wakers.name_of(who.pid, &who.comm)
}
