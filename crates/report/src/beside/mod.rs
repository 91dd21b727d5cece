//! A trace of waits and a trace of system calls of the same session, laid beside each other by clock: in which system call was
//! the time of every wait event, how much of it was in none, and which calls were made outside of all waits.
//!
//! # Rules
//! * Waits and calls of one process belong together. Where the SQL trace does not say its process and one process was traced, that
//!   is taken for it, which is said.
//! * Times of waits are moved onto the clock of the calls ([`alignment`]).
//! * What counts is the time that both traces cover: from the first wait or call that began when both were there to the last that
//!   ended. Waits and calls that are not wholly in it are left out, and counted.
//! * **Time** of a wait in a call is the time in which both went on. What is left of the wait is in no call: CPU, run queue, or the
//!   time of calls that were not traced.
//! * A call is **inside** the wait in which its middle lies: the clocks agree to some microseconds only, so ends do not decide.
//!
//! Times of waits and calls of one process do not overlap but by what rounding does; where they do, no time counts twice in a
//! row of the matrix beyond the length of its wait.

mod alignment;
mod matrix;

use std::collections::BTreeMap;

use dbtime_model::{SpanRow, span};

pub use alignment::Alignment;
pub use matrix::{CallTime, Matrix, WaitCalls};

use crate::filter::{Filter, SECOND_US};
use crate::load::{Dimensions, Source};

/// All processes of which there are both.
#[derive(Debug, Clone, PartialEq)]
pub struct Beside {
    /// One for each process, in the order of their numbers.
    pub pairs: Vec<Pair>,
    /// Processes of which there are waits and no calls; 0 = a trace that does not say its process.
    pub without_calls: Vec<u32>,
    /// Processes of which there are calls and no waits.
    pub without_waits: Vec<u32>,
}

/// Waits and calls of one process.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// The process.
    pub pid: u32,
    /// The SQL trace does not say its process: it is taken for the only one whose calls were traced.
    pub is_pid_assumed: bool,
    /// How the clocks were brought together.
    pub alignment: Alignment,
    /// Begin of the time that both cover, nanoseconds since the Unix epoch by the clock of the calls.
    pub from_ns: i64,
    /// Its end.
    pub to_ns: i64,
    /// Waits that are not wholly in it.
    pub waits_left_out: u64,
    /// Calls that are not wholly in it.
    pub calls_left_out: u64,
    /// Where the time was.
    pub matrix: Matrix,
}

/// An event, with its name as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) start: i64,
    pub(crate) ns: i64,
    pub(crate) name: usize,
}

impl Event {
    fn end(self) -> i64 {
        self.start.saturating_add(self.ns)
    }

    fn middle(self) -> i64 {
        self.start.saturating_add(self.ns / 2)
    }
}

/// Names, each once.
#[derive(Debug, Default)]
struct Names {
    numbers: BTreeMap<String, usize>,
    names: Vec<String>,
}

impl Names {
    fn number(&mut self, name: &str) -> usize {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        self.names.push(name.to_string());
        self.numbers.insert(name.to_string(), self.names.len() - 1);
        self.names.len() - 1
    }
}

/// Events of one process.
#[derive(Debug, Default)]
struct Process {
    waits: Vec<Event>,
    calls: Vec<Event>,
}

/// Lays waits and calls beside each other; none when there are not both.
pub(crate) fn beside(source: &Source, dimensions: &mut Dimensions, filter: &Filter) -> Option<Beside> {
    // Only files have both: a recording of our own has them in its rows.
    if source.meta().files.is_empty() {
        return None;
    }
    let mut names = Names::default();
    let mut processes: BTreeMap<u32, Process> = BTreeMap::new();
    // What cannot be read is told by whoever reads the other tables.
    let _ = source.spans(|row: &SpanRow| {
        let second_us = row
            .start_ns
            .div_euclid(1_000 * SECOND_US)
            .saturating_mul(SECOND_US);
        let session = dimensions.session(row.session);
        if !filter.takes_time(second_us) || !filter.takes_session(session) {
            return;
        }
        let of = processes.entry(session.pid).or_default();
        let event = Event {
            start: row.start_ns,
            ns: i64::try_from(row.ns).unwrap_or(i64::MAX),
            name: names.number(&row.name),
        };
        match row.kind.as_str() {
            span::kind::WAIT => of.waits.push(event),
            span::kind::SYSCALL => of.calls.push(event),
            _ => {}
        }
    });
    let has = |of: fn(&Process) -> &[Event]| processes.values().any(|process| !of(process).is_empty());
    if !has(|process| &process.waits) || !has(|process| &process.calls) {
        return None;
    }
    let assumed = assume(&mut processes);
    let mut answer = Beside {
        pairs: Vec::new(),
        without_calls: Vec::new(),
        without_waits: Vec::new(),
    };
    for (pid, mut process) in processes {
        match (process.waits.is_empty(), process.calls.is_empty()) {
            (true, true) => {}
            (false, true) => answer.without_calls.push(pid),
            (true, false) => answer.without_waits.push(pid),
            (false, false) => {
                for events in [&mut process.waits, &mut process.calls] {
                    events.sort_by_key(|event| event.start);
                }
                answer
                    .pairs
                    .push(pair(pid, assumed == Some(pid), process, &names.names));
            }
        }
    }
    Some(answer)
}

/// Gives the waits of an unnamed process to the only one whose calls were traced.
fn assume(processes: &mut BTreeMap<u32, Process>) -> Option<u32> {
    let unnamed = processes
        .get(&0)
        .filter(|of| of.calls.is_empty() && !of.waits.is_empty());
    unnamed?;
    let mut traced = processes
        .iter()
        .filter(|(_, of)| !of.calls.is_empty())
        .map(|(pid, of)| (*pid, of.waits.is_empty()));
    let (Some((pid, true)), None) = (traced.next(), traced.next()) else {
        return None;
    };
    let waits = processes.remove(&0)?.waits;
    processes.get_mut(&pid)?.waits = waits;
    Some(pid)
}

fn pair(pid: u32, is_pid_assumed: bool, process: Process, names: &[String]) -> Pair {
    let Process { mut waits, calls } = process;
    let alignment = alignment::find(&waits, &calls);
    for wait in &mut waits {
        wait.start = wait.start.saturating_add(alignment.shift_ns);
    }
    let covered = |events: &[Event]| {
        let from = events.first().map_or(0, |event| event.start);
        let to = events.iter().map(|event| event.end()).max().unwrap_or(from);
        (from, to)
    };
    let (waits_from, waits_to) = covered(&waits);
    let (calls_from, calls_to) = covered(&calls);
    let from_ns = waits_from.max(calls_from);
    let to_ns = waits_to.min(calls_to).max(from_ns);
    let within = |events: Vec<Event>| -> (Vec<Event>, u64) {
        let all = events.len();
        let kept: Vec<Event> = events
            .into_iter()
            .filter(|event| event.start >= from_ns && event.end() <= to_ns)
            .collect();
        let left_out = (all - kept.len()) as u64;
        (kept, left_out)
    };
    let (waits, waits_left_out) = within(waits);
    let (calls, calls_left_out) = within(calls);
    Pair {
        pid,
        is_pid_assumed,
        alignment,
        from_ns,
        to_ns,
        waits_left_out,
        calls_left_out,
        matrix: matrix::of(
            &waits,
            &calls,
            to_ns.saturating_sub(from_ns).unsigned_abs(),
            names,
        ),
    }
}
