//! What formats of context switches have in common: tasks as sessions, who had a CPU when, and rows made of turns.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use dbtime_model::recording::{Clock, ImportedFile, Scheduling, Unit};
use dbtime_model::{BackendType, SessionId, SessionRow, State, Turn, Turns};

use crate::import::session_id;
use crate::span::Span;
use crate::{Import, Measure};

/// Rows added up before they are handed on.
const ROWS: usize = 100_000;
/// Stays on a CPU remembered per CPU: a delay that lasted longer than these is only partly known.
const REMEMBERED: usize = 4_096;
/// Most CPUs whose stays are remembered: more than any host has, fewer than a damaged file may name.
const MAX_CPUS: usize = 8_192;
/// Microseconds per second.
const SECOND_US: i64 = 1_000_000;
/// Nanoseconds per second.
const SECOND_NS: i64 = 1_000_000_000;

/// Occupant of an idle CPU: a task that was woken there is on its way.
pub(crate) const IDLE: &str = "idle";

/// A stay on a CPU.
#[derive(Debug, Clone)]
struct Stay {
    from: i64,
    to: i64,
    who: String,
}

/// Who had the CPUs when.
#[derive(Debug, Default)]
pub(crate) struct Occupancy {
    cpus: HashMap<u32, VecDeque<Stay>>,
}

impl Occupancy {
    /// Adds a stay that has ended; those of a CPU come in order.
    pub(crate) fn add(&mut self, cpu: u32, from: i64, to: i64, who: String) {
        if self.cpus.len() >= MAX_CPUS && !self.cpus.contains_key(&cpu) {
            return;
        }
        let stays = self.cpus.entry(cpu).or_default();
        if stays.len() >= REMEMBERED {
            stays.pop_front();
        }
        stays.push_back(Stay { from, to, who });
    }

    /// Who had the CPU in this time, and how much of it, nanoseconds.
    pub(crate) fn between(&self, cpu: u32, from: i64, to: i64, sums: &mut BTreeMap<String, u64>) {
        let stays = self.cpus.get(&cpu).into_iter().flatten();
        for stay in stays.rev().take_while(|stay| stay.to > from) {
            let overlap = stay.to.min(to).saturating_sub(stay.from.max(from));
            if let Ok(overlap) = u64::try_from(overlap)
                && overlap > 0
            {
                let sum = sums.entry(stay.who.clone()).or_default();
                *sum = sum.saturating_add(overlap);
            }
        }
    }
}

/// A task, by its number: it stays the same if its name changes (exec).
#[derive(Debug, Clone)]
struct Task {
    /// The last one.
    name: String,
    /// Process of a thread; 0 = not known, or itself.
    process: u32,
    first_second: i64,
}

/// Turns of a file on their way to rows.
pub(crate) struct Switches<'a> {
    pub(crate) into: &'a mut Import,
    pub(crate) file: ImportedFile,
    pub(crate) occupancy: Occupancy,
    turns: Turns,
    tasks: HashMap<u32, Task>,
    cpus: BTreeSet<u32>,
    span: Span,
    /// What the file knows.
    pub(crate) known: Scheduling,
}

impl<'a> Switches<'a> {
    pub(crate) fn new(file: ImportedFile, into: &'a mut Import) -> Switches<'a> {
        Switches {
            into,
            file,
            occupancy: Occupancy::default(),
            turns: Turns::default(),
            tasks: HashMap::new(),
            cpus: BTreeSet::new(),
            span: Span::default(),
            // A switch without its state resets this.
            known: Scheduling {
                has_states: true,
                ..Scheduling::default()
            },
        }
    }

    /// Whether a turn of any task was added.
    pub(crate) fn has_any(&self) -> bool {
        self.turns.switches_seen > 0
    }

    /// A switch of any task was seen.
    pub(crate) fn seen(&mut self, time: i64, cpu: u32) {
        self.span.add(time, time);
        if self.cpus.len() < MAX_CPUS {
            self.cpus.insert(cpu);
        }
    }

    /// The session of a task that has this name now. `process`: 0 = not known.
    pub(crate) fn task(&mut self, tid: u32, process: u32, name: &[u8], time: i64) -> SessionId {
        let process = if process == tid { 0 } else { process };
        let second = time.div_euclid(SECOND_NS);
        let known = self.tasks.entry(tid).or_insert_with(|| Task {
            name: String::new(),
            process,
            first_second: second,
        });
        if known.name.as_bytes() != name {
            known.name = String::from_utf8_lossy(name).into_owned();
        }
        known.first_second = known.first_second.min(second);
        if process != 0 {
            known.process = process;
        }
        session_id(&identity(&self.file, tid))
    }

    /// Adds a turn.
    pub(crate) fn turn(&mut self, turn: Turn) {
        self.known.has_occupants |= !turn.instead.is_empty();
        self.known.has_wakers |= !turn.waker.is_empty();
        self.known.has_migrations |= turn.migrations > 0;
        self.turns.add(turn, true);
        if self.turns.len() >= ROWS {
            self.into.rows(self.turns.take());
        }
    }

    /// A task of which a switch was seen was moved, and not seen again.
    pub(crate) fn moved(&mut self, tid: u32, times: u64) {
        if self.tasks.contains_key(&tid)
            && let Some((_, last)) = self.span.ends()
        {
            self.known.has_migrations |= times > 0;
            self.turns
                .moved(last, session_id(&identity(&self.file, tid)), times);
        }
    }

    pub(crate) fn finish(mut self, lines: u64) {
        self.into.set_measure(Measure {
            sampled: false,
            unit: Unit::Time,
            clock: Clock::Relative,
        });
        self.into.rows(self.turns.take());
        for (tid, task) in &self.tasks {
            let row = SessionRow {
                pid: *tid,
                leader_pid: task.process,
                title: task.name.clone(),
                backend_type: BackendType::PROCESS.into(),
                started: task.first_second.saturating_mul(SECOND_US),
                ..SessionRow::default()
            };
            self.into.session(&identity(&self.file, *tid), row);
        }
        self.file.lines = lines;
        let (first_ns, last_ns) = self.span.ends().unwrap_or_default();
        if let Some(span) = self.span.us_of_ns() {
            self.into.spans(span);
        }
        self.into.scheduling(Scheduling {
            switches: self.turns.switches_seen,
            kept: self.turns.switches_kept,
            without_begin: self.turns.without_begin,
            first_ns,
            last_ns,
            cpus: u32::try_from(self.cpus.len()).unwrap_or(u32::MAX),
            ..self.known
        });
        self.into.file(self.file);
    }
}

fn identity(file: &ImportedFile, tid: u32) -> String {
    format!("task {tid} {}", file.path)
}

/// Distinguishes a task from others: `name tid`.
pub(crate) fn called(name: &[u8], tid: u32) -> String {
    format!("{} {tid}", String::from_utf8_lossy(name))
}

/// The state whose letter this is: those of ps(1), as the kernel's tracepoints print them.
pub(crate) fn state_of(letters: &[u8]) -> State {
    match letters.first() {
        Some(b'R') => State::Runnable,
        // I: an idle kernel thread, asleep without counting as load.
        Some(b'S' | b'I') => State::Sleep,
        Some(b'D') => State::Disk,
        Some(b'T' | b't') => State::Stopped,
        _ => State::Unknown,
    }
}
