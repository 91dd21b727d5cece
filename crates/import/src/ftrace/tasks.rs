//! Tasks of a trace, and which of them a line is about.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

use dbtime_model::{BackendType, SessionId, SessionRow, State, Wait};

use super::line::{Place, argument, comm_of, pid_of, seconds};
use super::paths::Path;
use super::role::Role;
use super::samples::{Sample, Samples};
use super::statements::{Statements, query};
use super::step::{LastLeaf, Open, Step};
use crate::Import;
use crate::samples::Table;
use crate::text::decimal;

const SECOND_NS: i64 = 1_000_000_000;

/// What the session was in when it began a call.
#[derive(Debug)]
pub(super) struct NotedCall {
    pub(super) at_ns: i64,
    pub(super) wait: Wait,
    /// 0 = none, or not known.
    pub(super) statement: u64,
}

/// A task and the call that it is in.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) session: SessionId,
    pub(super) cpu: Option<u32>,
    pub(super) open: Vec<Open>,
    pub(super) steps: Vec<Step>,
    pub(super) last_leaf: Option<LastLeaf>,
    /// When it was last seen.
    pub(super) last_ns: Option<i64>,
    pub(super) off_since: Option<(i64, State)>,
    pub(super) off_until: Option<i64>,
    pub(super) woken: Option<i64>,
    /// Calls since rows were handed on.
    pub(super) calls: i64,
    /// Another task was on its CPU since it was last seen.
    pub(super) left: bool,
    pub(super) is_cut: bool,
    /// What dbtime's recorder knows of its calls, in the order of time.
    pub(super) noted: Vec<NotedCall>,
    /// Timer samples that are still to come, in the order of time.
    pub(super) samples: VecDeque<Sample>,
    /// Those of the call that the task is in: when, and at which path.
    pub(super) sampled: Vec<(i64, Path)>,
}

/// All tasks of a trace.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    all: Vec<Task>,
    by_name: Table<Box<[u8]>, usize>,
    by_pid: Table<u32, usize>,
    on_cpu: Table<u32, usize>,
    last_name: Vec<u8>,
    last: usize,
    noted: Table<u32, Vec<NotedCall>>,
    pub(super) samples: Samples,
    pub(super) statements: Statements,
}

impl Index<usize> for Tasks {
    type Output = Task;

    fn index(&self, at: usize) -> &Task {
        &self.all[at]
    }
}

impl IndexMut<usize> for Tasks {
    fn index_mut(&mut self, at: usize) -> &mut Task {
        &mut self.all[at]
    }
}

impl Tasks {
    /// All tasks.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Task> {
        self.all.iter()
    }

    /// All tasks, mutable.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Task> {
        self.all.iter_mut()
    }

    /// The task with this number, if a line was about it.
    pub(super) fn with_pid(&self, pid: u32) -> Option<usize> {
        self.by_pid.get(&pid).copied()
    }

    /// `pid=TID at=SECONDS query=ID wait=CLASS:EVENT`: the wait and, if it is known, the statement of a session when it began a call.
    pub(super) fn note_call(&mut self, call: &[u8], into: &mut Import) -> Option<()> {
        // Names of waits have blanks, so it comes last.
        let begins = memchr::memmem::find(call, b" wait=")?;
        let (call, text) = (&call[..begins], &call[begins + 6..]);
        let pid = u32::try_from(decimal(argument(call, b"pid")?)?).ok()?;
        let at_ns = seconds(argument(call, b"at")?)?;
        let statement = match argument(call, b"query") {
            Some(id) => query(id)?,
            None => 0,
        };
        let text = String::from_utf8_lossy(text);
        let wait = match text.trim().split_once(':') {
            Some((class, event)) => Wait::event(class, event, false),
            None => Wait::none(),
        };
        self.statements.see(statement, into);
        self.noted.entry(pid).or_default().push(NotedCall {
            at_ns,
            wait,
            statement,
        });
        Some(())
    }

    /// The task that a line is about: its place in the table.
    pub(super) fn of(&mut self, place: &Place<'_>, into: &mut Import) -> usize {
        let name = place.task;
        if name.is_empty() {
            let cpu = place.cpu.unwrap_or(0);
            return match self.on_cpu.get(&cpu) {
                Some(task) => *task,
                None => {
                    let task = self.named(format!("cpu {cpu}").as_bytes(), place.at_ns, into);
                    self.on_cpu.insert(cpu, task);
                    task
                }
            };
        }
        if name == self.last_name.as_slice() && pid_of(name) != Some(0) {
            return self.last;
        }
        let task = match pid_of(name) {
            // Every CPU has an idle task, and all have the same number.
            Some(0) => {
                let cpu = place.cpu.unwrap_or(0);
                self.named(
                    format!("{} {cpu}", String::from_utf8_lossy(name)).as_bytes(),
                    place.at_ns,
                    into,
                )
            }
            _ => self.named(name, place.at_ns, into),
        };
        self.last_name.clear();
        self.last_name.extend_from_slice(name);
        self.last = task;
        task
    }

    fn named(&mut self, name: &[u8], at_ns: Option<i64>, into: &mut Import) -> usize {
        if let Some(task) = self.by_name.get(name) {
            return *task;
        }
        let pid = pid_of(name).unwrap_or(0);
        // A task has one stack, even if it changes its name.
        if pid > 0
            && let Some(task) = self.by_pid.get(&pid)
        {
            self.by_name.insert(name.into(), *task);
            return *task;
        }
        let session = into.session(
            &String::from_utf8_lossy(name),
            SessionRow {
                pid,
                started: at_ns.unwrap_or(0).div_euclid(SECOND_NS).saturating_mul(1_000_000),
                backend_type: BackendType::PROCESS.into(),
                title: String::from_utf8_lossy(comm_of(name)).into_owned(),
                ..SessionRow::default()
            },
        );
        self.all.push(Task {
            session,
            cpu: None,
            open: Vec::new(),
            steps: Vec::new(),
            last_leaf: None,
            last_ns: None,
            off_since: None,
            off_until: None,
            woken: None,
            calls: 0,
            left: false,
            is_cut: false,
            noted: self.noted.remove(&pid).unwrap_or_default(),
            samples: self.samples.of(pid),
            sampled: Vec::new(),
        });
        let task = self.all.len() - 1;
        self.by_name.insert(name.into(), task);
        if pid > 0 {
            self.by_pid.insert(pid, task);
        }
        task
    }

    /// Another task is on this CPU from now on.
    pub(super) fn switch(&mut self, cpu: Option<u32>, from: &[u8], to: &[u8], into: &mut Import) {
        let cpu = cpu.unwrap_or(0);
        // Without a task column, only the switch away tells whose lines these were.
        if let Some(task) = self.on_cpu.get(&cpu)
            && !self.by_name.contains_key(from)
        {
            self.by_name.insert(from.into(), *task);
        }
        let to = Place {
            task: to,
            cpu: Some(cpu),
            at_ns: None,
            indent: 0,
            in_interrupt: false,
        };
        let to = self.of(&to, into);
        if let Some(before) = self.on_cpu.insert(cpu, to)
            && before != to
        {
            self.all[before].left = true;
        }
    }
}

impl Task {
    pub(super) fn seen(&mut self, place: &Place<'_>, later_ns: u64) {
        if let Some(at) = place.at_ns {
            self.last_ns = Some(at.saturating_add(i64::try_from(later_ns).unwrap_or(0)));
        }
        self.cpu = place.cpu.or(self.cpu);
    }

    /// The next timer sample, if it was taken before this moment.
    pub(super) fn next_sample(&mut self, before_ns: i64) -> Option<Sample> {
        self.samples.front().filter(|sample| sample.at_ns < before_ns)?;
        self.samples.pop_front()
    }

    /// Drops what is known of the call that the task is in.
    pub(super) fn forget_call(&mut self) {
        self.steps.clear();
        self.sampled.clear();
    }

    /// Number of functions that the call of the task is in, without those that enclose calls.
    pub(super) fn depth(&self) -> u32 {
        let of_call = self.open.iter().filter(|open| open.role != Role::Dispatcher);
        of_call.count() as u32
    }

    /// True if the task is inside an interrupt or preemption, whichever this role is.
    pub(super) fn is_inside_of(&self, role: Role) -> bool {
        self.open.iter().any(|open| open.role.foreign() == role.foreign())
    }

    /// State of a task that is off its CPU, by the functions it is in.
    pub(super) fn state_by_callers(&self) -> State {
        let roles = self.open.iter().rev().map(|open| open.role);
        let mut states = roles.filter_map(|role| match role {
            Role::IoSchedule => Some(State::Disk),
            Role::Yield | Role::Preemption => Some(State::Runnable),
            _ => None,
        });
        states.next().unwrap_or(State::Sleep)
    }

    /// True if something below this function was off its CPU.
    pub(super) fn off_inside(&self, open: &Open) -> bool {
        open.step
            .is_some_and(|step| self.steps[step..].iter().any(|step| step.off.is_some()))
    }
}
