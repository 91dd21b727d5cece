//! System calls of strace and perf trace, longest time first.

use super::page::{Page, Table, percent};
use crate::number::{microseconds, milliseconds};
use crate::system_calls::{SystemCall, SystemCalls};

/// Calls shown individually.
const CALLS: usize = 15;

/// Shown for what is not known, or does not exist.
const NOTHING: &str = "-";

pub(super) fn render(calls: &SystemCalls, page: &mut Page) {
    page.heading("System calls (exact; untimed = it is not known how long they took)");
    let mut table = Table::new(
        &["system call"],
        &[
            "calls", "errors", "untimed", "ms", "%", "mean us", "p50 us", "p99 us", "max us",
        ],
    );
    for call in calls.top(CALLS) {
        table.row(row(call));
    }
    if let Some(others) = calls.others_after(CALLS) {
        table.row(row(&others));
    }
    if !calls.calls.is_empty() {
        page.table(&table);
    }
    let others: Vec<String> = calls
        .others
        .iter()
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    if !others.is_empty() {
        page.paragraph(&format!("  Signals and faults: {}", others.join(", ")));
    }
}

fn row(call: &SystemCall) -> Vec<String> {
    let count = |count: u128| {
        if count == 0 {
            NOTHING.to_string()
        } else {
            count.to_string()
        }
    };
    let us = |ns: Option<u128>| ns.map_or_else(|| NOTHING.to_string(), microseconds);
    let single = call.latency.count() > 0;
    let quantile = |q| us(call.latency.quantile(q).map(u128::from));
    vec![
        call.name.clone(),
        count(call.calls),
        count(call.errors),
        count(call.untimed),
        call.mean_ns
            .map_or_else(|| NOTHING.to_string(), |_| milliseconds(call.total_ns)),
        percent(call.percent),
        us(call.mean_ns),
        quantile(0.5),
        quantile(0.99),
        us(single.then(|| call.latency.max_ns().into())),
    ]
}
