//! The time breakdown, by both rules.

use crate::number::exact_seconds;
use crate::text::page::{Page, Table};
use crate::trace::Trace;

pub(super) fn render(trace: &Trace, page: &mut Page) {
    page.heading("Time breakdown (seconds, exact)");
    page.paragraph(
        "Call view (parsetrc.pl): elapsed time and CPU of the calls that no other traced call made; waits of every call; \
         unaccounted = elapsed - (waits + CPU). Idle is 'SQL*Net message from client', which lies between calls.",
    );
    if trace.interval_view.is_some() {
        page.paragraph(
            "Interval view (TVD$XTAT): from the begin of the first call to the last time stamp; CPU of calls of depth 0; \
             waits are all waits, the idle ones too; unaccounted = elapsed - (waits + CPU).",
        );
    }
    page.line("");
    page.table(&table(trace));
    doubts(trace, page);
}

fn table(trace: &Trace) -> Table {
    let calls = &trace.call_view;
    let numbers: &[&str] = match trace.interval_view {
        Some(_) => &["call view", "interval view"],
        None => &["call view"],
    };
    let mut table = Table::new(&["seconds"], numbers);
    let mut row = |what: &str, call: i128, interval: Option<i128>| {
        let mut cells = vec![what.to_string(), exact_seconds(call)];
        if trace.interval_view.is_some() {
            cells.push(interval.map_or_else(String::new, exact_seconds));
        }
        table.row(cells);
    };
    let interval = trace.interval_view.as_ref();
    row("elapsed", calls.elapsed_us, interval.map(|view| view.duration_us));
    row("CPU", calls.cpu_us, interval.map(|view| view.cpu_us));
    row("waits", calls.wait_us, interval.map(|view| view.wait_us));
    row("idle", calls.idle_us, None);
    row(
        "unaccounted",
        calls.unaccounted_us(),
        interval.map(|view| view.unaccounted_us()),
    );
    table
}

/// What a number below zero means, and how much is known to be counted twice.
fn doubts(trace: &Trace, page: &mut Page) {
    let interval_us = trace.interval_view.map_or(0, |view| view.unaccounted_us());
    if trace.call_view.unaccounted_us() < 0 || interval_us < 0 {
        page.paragraph(
            "Unaccounted below zero: CPU that was used inside waits is counted as CPU and as wait, so the two add up to \
             more than the time that passed.",
        );
    }
    let seconds = |ns: i128| exact_seconds(ns / 1_000);
    if trace.double_counted.cpu_inside_waits_ns > 0 {
        page.paragraph(&format!(
            "At least {} s of CPU were used inside waits: the waits of their calls leave no room for them.",
            seconds(trace.double_counted.cpu_inside_waits_ns)
        ));
    }
    if trace.double_counted.waits_beyond_calls_ns > 0 {
        page.paragraph(&format!(
            "{} s of waits are more than the calls that they are in: the clock of the trace is coarse.",
            seconds(trace.double_counted.waits_beyond_calls_ns)
        ));
    }
}
