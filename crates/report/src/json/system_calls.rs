//! System calls of strace and perf trace.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{us, us_if_known};
use crate::system_calls::{SystemCall, SystemCalls};

#[derive(Serialize)]
pub(super) struct SystemCallsJson<'a> {
    total_us: f64,
    calls: Vec<CallJson<'a>>,
    /// Signals and page faults.
    others: BTreeMap<&'a str, u128>,
}

#[derive(Serialize)]
struct CallJson<'a> {
    name: &'a str,
    calls: u128,
    errors: u128,
    untimed: u128,
    total_us: f64,
    percent: Option<f64>,
    mean_us: Option<f64>,
    /// `null` when only sums are known.
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    max_us: Option<f64>,
}

impl<'a> From<&'a SystemCalls> for SystemCallsJson<'a> {
    fn from(calls: &'a SystemCalls) -> SystemCallsJson<'a> {
        SystemCallsJson {
            total_us: us(calls.total_ns),
            calls: calls.calls.iter().map(CallJson::from).collect(),
            others: calls
                .others
                .iter()
                .map(|(name, count)| (name.as_str(), *count))
                .collect(),
        }
    }
}

impl<'a> From<&'a SystemCall> for CallJson<'a> {
    fn from(call: &'a SystemCall) -> CallJson<'a> {
        let latency = &call.latency;
        CallJson {
            name: &call.name,
            calls: call.calls,
            errors: call.errors,
            untimed: call.untimed,
            total_us: us(call.total_ns),
            percent: call.percent,
            mean_us: call.mean_ns.map(us),
            p50_us: us_if_known(latency.quantile(0.5)),
            p99_us: us_if_known(latency.quantile(0.99)),
            max_us: us_if_known((latency.count() > 0).then(|| latency.max_ns())),
        }
    }
}
