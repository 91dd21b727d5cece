//! Wait event × system call: where the time of each went.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use super::Event;
use crate::number::counted;
use crate::sums::percent;

/// The time that both traces cover, nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Matrix {
    /// Wait events, the longest time first.
    pub waits: Vec<WaitCalls>,
    /// Time outside of all waits; its `count` is 0.
    #[serde(rename = "outside_of_waits", serialize_with = "times")]
    pub outside: WaitCalls,
    /// System calls, the longest time first: the columns.
    pub calls: Vec<CallTime>,
}

/// Time in a system call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CallTime {
    /// The call.
    pub name: String,
    /// Number of calls whose middle was here.
    pub count: u64,
    /// Their time here.
    pub ns: u64,
}

/// A wait event and the calls that were made in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct WaitCalls {
    /// `class:event`.
    pub event: String,
    /// How many waits.
    pub count: u64,
    /// Their time.
    pub ns: u64,
    /// Waits with exactly one call inside.
    pub with_one_call: u64,
    /// Waits with none.
    pub without_call: u64,
    /// Waits with several calls inside.
    pub with_more_calls: u64,
    /// Time in no traced call.
    pub in_none_ns: u64,
    /// Time by call, the longest first.
    pub calls: Vec<CallTime>,
}

fn times<S: Serializer>(outside: &WaitCalls, to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Times<'a> {
        ns: u64,
        in_none_ns: u64,
        calls: &'a [CallTime],
    }
    let times = Times {
        ns: outside.ns,
        in_none_ns: outside.in_none_ns,
        calls: &outside.calls,
    };
    times.serialize(to)
}

impl WaitCalls {
    /// The same as a percentage of its time.
    pub fn in_none_percent(&self) -> Option<f64> {
        percent(self.in_none_ns.into(), self.ns.into())
    }

    /// Time in all calls except these.
    pub fn in_other_calls_ns(&self, names: &[&str]) -> u64 {
        let others = self
            .calls
            .iter()
            .filter(|call| !names.contains(&call.name.as_str()));
        others.map(|call| call.ns).fold(0, u64::saturating_add)
    }

    /// The sum of all calls after the first `shown`; none if there are no more.
    pub fn others_after(&self, shown: usize) -> Option<CallTime> {
        let others = self.calls.get(shown..).filter(|others| !others.is_empty())?;
        Some(CallTime {
            name: counted(others.len(), "other"),
            count: others.iter().map(|call| call.count).sum(),
            ns: others.iter().map(|call| call.ns).fold(0, u64::saturating_add),
        })
    }

    /// Time in a call.
    pub fn in_call_ns(&self, name: &str) -> u64 {
        self.calls
            .iter()
            .find(|call| call.name == name)
            .map_or(0, |call| call.ns)
    }
}

/// Sums by number of the name.
#[derive(Debug, Clone, Default)]
struct Row {
    count: u64,
    ns: u64,
    with_one_call: u64,
    without_call: u64,
    in_none_ns: u64,
    /// By call: how many, and their time.
    calls: BTreeMap<usize, (u64, u64)>,
}

/// Both are sorted by start, and within the time of both traces.
pub(super) fn of(waits: &[Event], calls: &[Event], elapsed_ns: u64, names: &[String]) -> Matrix {
    let mut rows: BTreeMap<usize, Row> = BTreeMap::new();
    let mut outside = Row::default();
    // How much of each call is in waits, and whether its middle is.
    let mut inside: Vec<(i64, bool)> = vec![(0, false); calls.len()];
    let mut first = 0;
    for wait in waits {
        let row = rows.entry(wait.name).or_default();
        // Calls that ended before this wait are over for later ones, too.
        while calls.get(first).is_some_and(|call| call.end() < wait.start) {
            first += 1;
        }
        let mut left = wait.ns;
        let mut made = 0u64;
        for (call, in_waits) in calls[first..].iter().zip(&mut inside[first..]) {
            if call.start > wait.end() {
                break;
            }
            let both = call
                .end()
                .min(wait.end())
                .saturating_sub(call.start.max(wait.start));
            // Rounding makes neighbours overlap: no wait gets more time in calls than it has, no call more in waits.
            let both = both.min(left).min(call.ns - in_waits.0).max(0);
            let is_inside = !in_waits.1 && (wait.start..=wait.end()).contains(&call.middle());
            if both == 0 && !is_inside {
                continue;
            }
            left -= both;
            in_waits.0 += both;
            in_waits.1 |= is_inside;
            made += u64::from(is_inside);
            let sum = row.calls.entry(call.name).or_default();
            sum.0 += u64::from(is_inside);
            sum.1 = sum.1.saturating_add(both.unsigned_abs());
        }
        row.count += 1;
        row.ns = row.ns.saturating_add(wait.ns.unsigned_abs());
        row.in_none_ns = row.in_none_ns.saturating_add(left.unsigned_abs());
        row.with_one_call += u64::from(made == 1);
        row.without_call += u64::from(made == 0);
    }
    let in_waits_ns = rows.values().map(|row| row.ns).fold(0, u64::saturating_add);
    outside.ns = elapsed_ns.saturating_sub(in_waits_ns);
    outside.in_none_ns = outside.ns;
    for (call, (in_waits, is_inside)) in calls.iter().zip(&inside) {
        let ns = (call.ns - in_waits).unsigned_abs();
        if ns == 0 && *is_inside {
            continue;
        }
        let sum = outside.calls.entry(call.name).or_default();
        sum.0 += u64::from(!is_inside);
        sum.1 = sum.1.saturating_add(ns);
        outside.in_none_ns = outside.in_none_ns.saturating_sub(ns);
    }
    let mut of_calls: BTreeMap<usize, (u64, u64)> = Default::default();
    for call in calls {
        let sum = of_calls.entry(call.name).or_default();
        sum.0 += 1;
        sum.1 = sum.1.saturating_add(call.ns.unsigned_abs());
    }
    let mut waits: Vec<WaitCalls> = rows
        .into_iter()
        .map(|(name, row)| named(&names[name], row, names))
        .collect();
    waits.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.event.cmp(&b.event)));
    Matrix {
        calls: call_times(of_calls, names),
        waits,
        outside: named("", outside, names),
    }
}

fn named(event: &str, row: Row, names: &[String]) -> WaitCalls {
    WaitCalls {
        event: event.to_string(),
        count: row.count,
        ns: row.ns,
        with_one_call: row.with_one_call,
        without_call: row.without_call,
        with_more_calls: row
            .count
            .saturating_sub(row.with_one_call)
            .saturating_sub(row.without_call),
        calls: call_times(row.calls, names),
        in_none_ns: row.in_none_ns,
    }
}

fn call_times(calls: BTreeMap<usize, (u64, u64)>, names: &[String]) -> Vec<CallTime> {
    let mut calls: Vec<CallTime> = calls
        .into_iter()
        .map(|(name, (count, ns))| CallTime {
            name: names[name].clone(),
            count,
            ns,
        })
        .collect();
    calls.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.name.cmp(&b.name)));
    calls
}
