//! A trace of waits and a trace of system calls of the same session, matched by clock: in which system calls the time of every wait
//! event was spent, how much of it in none, and which calls were made outside of all waits.
//!
//! # Rules
//! * Waits and calls of one process belong together. If one of the files does not give its process (an SQL trace without its header;
//!   strace of one process), and each of them is of one process only, they are assumed to be the same, and the report says so.
//! * Times of waits are moved to the clock of the calls ([`alignment`]).
//! * What counts is the time that both traces cover: from the first wait or call that began when both had begun to the last that
//!   ended. Waits and calls that are not entirely within it are left out, and counted.
//! * **Time** of a wait in a call is the time in which both were in progress. The rest of the wait is in no call: CPU, run queue, or
//!   calls that were not traced.
//! * A call is **inside** the wait that contains its middle: the clocks agree to some microseconds only, so ends do not decide.
//!
//! Waits and calls of one process only overlap by rounding; where they do, no time counts twice in a row of the matrix beyond the
//! length of its wait.

mod alignment;
mod matrix;

use std::collections::BTreeMap;

use dbtime_model::{SpanRow, span};
use serde::{Serialize, Serializer};

pub use alignment::Alignment;
pub use matrix::{CallTime, Matrix, WaitCalls};

use crate::dimensions::Dimensions;
use crate::filter::{Filter, SECOND_US};
use crate::load::Source;

/// All processes that have both.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WaitsInCalls {
    /// One for each process, in the order of their numbers.
    pub pairs: Vec<Pair>,
    /// Processes with waits but no calls; 0 = a trace that does not give its process.
    #[serde(rename = "pids_without_calls")]
    pub without_calls: Vec<u32>,
    /// Processes with calls but no waits.
    #[serde(rename = "pids_without_waits")]
    pub without_waits: Vec<u32>,
}

/// Waits and calls of one process.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pair {
    /// The process; 0 = neither gives it.
    pub pid: u32,
    /// Which traces do not give their process, if any: both are assumed to be of the same one, because there are no others.
    #[serde(rename = "is_pid_assumed", serialize_with = "is_some")]
    pub unnamed: Option<Unnamed>,
    /// Start of the time that both cover, nanoseconds since the Unix epoch by the clock of the calls.
    pub from_ns: i64,
    /// Its end.
    pub to_ns: i64,
    /// From start to end, nanoseconds.
    pub elapsed_ns: u64,
    /// How the clocks were aligned.
    pub alignment: Alignment,
    /// Waits that are not entirely within it.
    pub waits_left_out: u64,
    /// Calls that are not entirely within it.
    pub calls_left_out: u64,
    /// Where the time went.
    #[serde(flatten)]
    pub matrix: Matrix,
}

fn is_some<S: Serializer>(unnamed: &Option<Unnamed>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_bool(unnamed.is_some())
}

/// Which traces do not give their process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unnamed {
    /// The one with waits.
    Waits,
    /// The one with system calls.
    Calls,
    /// Neither of them gives it.
    Both,
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

/// Events by process. Calls of an unnamed process are separated by session: each file of strace has its own.
#[derive(Debug, Default)]
struct Events {
    waits: BTreeMap<u32, Vec<Event>>,
    calls: BTreeMap<(u32, u64), Vec<Event>>,
}

/// Matches waits with calls; none unless there are both.
pub(crate) fn waits_in_calls(
    source: &Source,
    dimensions: &mut Dimensions,
    filter: &Filter,
) -> Option<WaitsInCalls> {
    // Only files have both: our own recordings have them in their rows.
    if source.meta().files.is_empty() {
        return None;
    }
    let mut names = Names::default();
    let mut events = Events::default();
    // What cannot be read is reported by the readers of the other tables.
    let _ = source.spans(|row: &SpanRow| {
        let second_us = row
            .start_ns
            .div_euclid(1_000 * SECOND_US)
            .saturating_mul(SECOND_US);
        let session = dimensions.session(row.session);
        // System calls come from another tool's trace, which knows no statements.
        let is_of_other = row.kind == span::kind::WAIT && !filter.takes_statement(row.statement);
        if !filter.takes_time(second_us) || !filter.takes_session(session) || is_of_other {
            return;
        }
        let event = Event {
            start: row.start_ns,
            ns: i64::try_from(row.ns).unwrap_or(i64::MAX),
            name: names.number(&row.name),
        };
        match (row.kind.as_str(), session.pid) {
            (span::kind::WAIT, pid) => events.waits.entry(pid).or_default().push(event),
            (span::kind::SYSCALL, 0) => events.calls.entry((0, session.id.0)).or_default().push(event),
            (span::kind::SYSCALL, pid) => events.calls.entry((pid, 0)).or_default().push(event),
            _ => {}
        }
    });
    let Events { waits, mut calls } = events;
    if waits.is_empty() || calls.is_empty() {
        return None;
    }
    let only = match (waits.len(), calls.first_key_value()) {
        (1, Some((key, _))) if calls.len() == 1 => Some(*key),
        _ => None,
    };
    let mut answer = WaitsInCalls {
        pairs: Vec::new(),
        without_calls: Vec::new(),
        without_waits: Vec::new(),
    };
    for (pid, of_waits) in waits {
        let unnamed = match (pid, only) {
            (0, Some((0, _))) => Some(Unnamed::Both),
            (0, Some(_)) => Some(Unnamed::Waits),
            (_, Some((0, _))) => Some(Unnamed::Calls),
            _ => None,
        };
        let key = match unnamed {
            Some(_) => only.unwrap_or_default(),
            None => (pid, 0),
        };
        // Without a number nothing says that the two traces are of the same process.
        let of_calls = calls.remove(&key).filter(|_| pid != 0 || unnamed.is_some());
        match of_calls {
            Some(of_calls) => {
                answer
                    .pairs
                    .push(pair(pid.max(key.0), unnamed, [of_waits, of_calls], &names.names))
            }
            None => answer.without_calls.push(pid),
        }
    }
    answer.without_waits = calls.into_keys().map(|(pid, _)| pid).collect();
    Some(answer)
}

fn pair(pid: u32, unnamed: Option<Unnamed>, mut events: [Vec<Event>; 2], names: &[String]) -> Pair {
    for of in &mut events {
        of.sort_by_key(|event| event.start);
    }
    let [mut waits, calls] = events;
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
    let elapsed_ns = to_ns.saturating_sub(from_ns).unsigned_abs();
    Pair {
        pid,
        unnamed,
        alignment,
        from_ns,
        to_ns,
        elapsed_ns,
        waits_left_out,
        calls_left_out,
        matrix: matrix::of(&waits, &calls, elapsed_ns, names),
    }
}
