//! What traces of system calls (strace, perf trace) say about each call: how many, how many failed, how long they took.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use dbtime_model::counter::{PERF_TRACE, STRACE, calls as name};
use dbtime_model::latency::kind;
use dbtime_model::recording::Meta;
use dbtime_model::{ActivityRow, CounterRow, LatencyRow, NO_STACK};
use serde::{Serialize, Serializer};

use crate::dimensions::Dimensions;
use crate::fields;
use crate::filter::Filter;
use crate::histogram::Histogram;
use crate::number::counted;
use crate::sums::percent;

/// All calls of the files.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SystemCalls {
    /// Time in all of them, nanoseconds.
    #[serde(rename = "total_us", serialize_with = "fields::us")]
    pub total_ns: u128,
    /// By call, the longest time first.
    pub calls: Vec<SystemCall>,
    /// Signals and page faults, by name.
    pub others: BTreeMap<String, u128>,
}

/// A system call.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SystemCall {
    /// Its name.
    pub name: String,
    /// Calls that ended.
    pub calls: u128,
    /// Of these, those that returned an error.
    pub errors: u128,
    /// Of these, those whose duration is not known; 0 for a summary, though it has no single durations.
    pub untimed: u128,
    /// Time in it, nanoseconds.
    #[serde(rename = "total_us", serialize_with = "fields::us")]
    pub total_ns: u128,
    /// In percent of all calls.
    pub percent: Option<f64>,
    /// Mean time, nanoseconds; none when no call has a time.
    #[serde(rename = "mean_us", serialize_with = "fields::us_if_known")]
    pub mean_ns: Option<u128>,
    /// Single calls; empty when only their sum is known.
    #[serde(flatten, serialize_with = "quantiles")]
    pub latency: Histogram,
}

fn quantiles<S: Serializer>(latency: &Histogram, to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Quantiles {
        p50_us: Option<f64>,
        p99_us: Option<f64>,
        max_us: Option<f64>,
    }
    let quantiles = Quantiles {
        p50_us: latency.quantile_us(0.5),
        p99_us: latency.quantile_us(0.99),
        max_us: latency.longest_us(),
    };
    quantiles.serialize(to)
}

impl SystemCalls {
    /// The first `n`.
    pub fn top(&self, n: usize) -> &[SystemCall] {
        &self.calls[..n.min(self.calls.len())]
    }

    /// All after the first `n` together; none when there are no others.
    pub fn others_after(&self, n: usize) -> Option<SystemCall> {
        let others = self.calls.get(n..).filter(|others| !others.is_empty())?;
        let mut sum = SystemCall {
            name: counted(others.len(), "other"),
            ..SystemCall::default()
        };
        for call in others {
            sum.calls += call.calls;
            sum.errors += call.errors;
            sum.untimed += call.untimed;
            sum.total_ns += call.total_ns;
            sum.latency.merge(&call.latency);
        }
        sum.finish(self.total_ns);
        Some(sum)
    }
}

impl SystemCall {
    fn finish(&mut self, all_ns: u128) {
        self.percent = percent(self.total_ns, all_ns);
        let timed = self.calls.saturating_sub(self.untimed);
        self.mean_ns = (self.total_ns > 0 || self.latency.count() > 0)
            .then(|| self.total_ns.checked_div(timed))
            .flatten();
    }
}

/// Adds up what the rows say.
#[derive(Default)]
pub(crate) struct SystemCallsBuilder {
    calls: BTreeMap<String, SystemCall>,
    /// Time by stack, which stands for a call: all that summaries have.
    by_stack: BTreeMap<u64, u128>,
    others: BTreeMap<String, u128>,
}

/// True when a recording was made from traces of system calls.
pub(crate) fn has_system_calls(meta: &Meta) -> bool {
    let is = |format: &str| format == STRACE || format == PERF_TRACE;
    meta.files.iter().any(|file| is(&file.format))
}

impl SystemCallsBuilder {
    /// Adds activity that the filter lets through.
    pub(crate) fn add(&mut self, row: &ActivityRow) {
        if row.kernel_stack != NO_STACK {
            *self.by_stack.entry(row.kernel_stack.0).or_default() += u128::from(row.ns);
        }
    }

    /// Adds a latency that the filter lets through.
    pub(crate) fn add_latency(&mut self, row: &LatencyRow) {
        if *row.kind == *kind::SYSCALL {
            let call = self.calls.entry(row.name.to_string()).or_default();
            call.latency
                .add(row.from_ns, row.to_ns, row.count, row.sum_ns, row.max_ns);
        }
    }

    /// Adds a counter if the filter lets it through.
    pub(crate) fn add_counter(&mut self, row: &CounterRow, dimensions: &mut Dimensions, filter: &Filter) {
        let is_ours = row.source == STRACE || row.source == PERF_TRACE;
        if !is_ours || !filter.takes_time(row.time) || !filter.takes_session(dimensions.session(row.session))
        {
            return;
        }
        let value = u128::from(row.value.max(0).unsigned_abs());
        type Field = fn(&mut SystemCall) -> &mut u128;
        let fields: [(&str, Field); 3] = [
            (name::CALLS, |call| &mut call.calls),
            (name::ERRORS, |call| &mut call.errors),
            (name::UNTIMED, |call| &mut call.untimed),
        ];
        for (prefix, field) in fields {
            if let Some(name) = row.name.strip_prefix(prefix) {
                *field(self.calls.entry(name.to_string()).or_default()) += value;
                return;
            }
        }
        let name = row.name.strip_prefix(name::SIGNALS).unwrap_or(&row.name);
        *self.others.entry(name.to_string()).or_default() += value;
    }

    /// `are_times`: the rows of activity count time.
    pub(crate) fn finish(mut self, dimensions: &Dimensions, are_times: bool) -> SystemCalls {
        let mut sums: BTreeMap<&str, u128> = BTreeMap::new();
        for (stack, ns) in self.by_stack.iter().filter(|_| are_times) {
            let frames = dimensions.stack(dbtime_model::StackId(*stack));
            if let Some(leaf) = frames.and_then(|frames| frames.last()) {
                *sums.entry(&leaf.symbol).or_default() += ns;
            }
        }
        for (name, call) in &mut self.calls {
            call.name.clone_from(name);
            call.total_ns = match call.latency.count() {
                0 => sums.get(name.as_str()).copied().unwrap_or(0),
                _ => call.latency.sum_ns(),
            };
        }
        let mut calls: Vec<SystemCall> = self.calls.into_values().collect();
        let total_ns = calls.iter().map(|call| call.total_ns).sum();
        calls.iter_mut().for_each(|call| call.finish(total_ns));
        calls.sort_by(|a, b| {
            (Reverse(a.total_ns), Reverse(a.calls), &a.name).cmp(&(
                Reverse(b.total_ns),
                Reverse(b.calls),
                &b.name,
            ))
        });
        SystemCalls {
            calls,
            total_ns,
            others: self.others,
        }
    }
}
