//! Context switches of a task, added up.

use dbtime_model::latency::kind;
use dbtime_model::{BackendType, LatencyRow, Session, SessionId, State};
use serde::Serialize;

use super::add;
use crate::fields;
use crate::histogram::Histogram;

/// A task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SchedTask {
    /// Identity in the recording.
    #[serde(serialize_with = "fields::session_id")]
    pub id: SessionId,
    /// Its name, or what kind of server process it is.
    pub name: String,
    /// Its thread id.
    pub tid: u32,
    /// Its process, if it is a thread of another one.
    #[serde(rename = "pid")]
    pub process: Option<u32>,
    /// Its switches.
    #[serde(flatten, serialize_with = "crate::json::sched_sums")]
    pub sums: SchedSums,
}

impl SchedTask {
    pub(super) fn of(session: &Session, sums: SchedSums) -> SchedTask {
        let (name, process) = name_of(session);
        SchedTask {
            id: session.id,
            name: name.to_string(),
            tid: session.pid,
            process,
            sums,
        }
    }
}

/// The name of a task, and the process of a thread.
pub(super) fn name_of(session: &Session) -> (&str, Option<u32>) {
    let kind = session.backend_type.0.as_str();
    if kind == BackendType::PROCESS && !session.title.is_empty() {
        let process = Some(session.leader_pid).filter(|process| *process != 0);
        return (&session.title, process);
    }
    (kind, None)
}

/// Turns of a task, or of all. A turn whose beginning was not seen is in none of the times, only in
/// `switches`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SchedSums {
    /// Turns: how often it left a CPU.
    pub switches: u128,
    /// Of these, how often it was pushed off, or gave up its CPU without going to sleep.
    pub pushed_off: u128,
    /// How often it was moved to another CPU.
    pub migrations: u128,
    /// Stays on a CPU.
    pub run: Histogram,
    /// The shortest of them, nanoseconds.
    pub shortest_run_ns: Option<u64>,
    /// Stays off CPU that began with going to sleep, scheduling delay included.
    pub off_cpu: Histogram,
    /// Scheduling delays: one for each stay off CPU.
    pub delay: Histogram,
    /// Sleeps whose waker is known, nanoseconds.
    pub slept_ns: u128,
    /// The lowest and the highest of the kernel's numbers for its priority; none when not known.
    pub priorities: Option<(i32, i32)>,
}

impl SchedSums {
    /// Adds a latency of any kind.
    pub(super) fn add_latency(&mut self, row: &LatencyRow) {
        match &*row.kind {
            kind::WAIT => add(&mut self.off_cpu, row),
            kind::SCHED => add(&mut self.delay, row),
            kind::RUN => {
                self.add_run(row);
                add(&mut self.run, row);
            }
            kind::WAKER => self.slept_ns += u128::from(row.sum_ns),
            _ => {}
        }
    }

    fn add_run(&mut self, row: &LatencyRow) {
        if *row.name == *State::Runnable.as_str() {
            self.pushed_off += u128::from(row.count);
        }
        // 0: not recorded, or in the first bucket, which begins at 0.
        let shortest = if row.min_ns > 0 { row.min_ns } else { row.from_ns };
        self.shortest_run_ns = Some(self.shortest_run_ns.map_or(shortest, |known| known.min(shortest)));
    }

    pub(super) fn add_priority(&mut self, priority: i32) {
        let (least, largest) = self.priorities.unwrap_or((priority, priority));
        self.priorities = Some((least.min(priority), largest.max(priority)));
    }

    pub(super) fn merge(&mut self, other: &SchedSums) {
        self.switches += other.switches;
        self.pushed_off += other.pushed_off;
        self.migrations += other.migrations;
        self.run.merge(&other.run);
        self.shortest_run_ns = match (self.shortest_run_ns, other.shortest_run_ns) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        self.off_cpu.merge(&other.off_cpu);
        self.delay.merge(&other.delay);
        self.slept_ns += other.slept_ns;
        if let Some((least, largest)) = other.priorities {
            self.add_priority(least);
            self.add_priority(largest);
        }
    }
}
