//! The time breakdown, by both rules.

use crate::number::exact_seconds;
use crate::text::page::{Page, Table};
use crate::trace::{Trace, TraceFacts};

pub(super) fn render(trace: &Trace, page: &mut Page) {
    page.heading("Time breakdown (seconds, exact)");
    page.paragraph(
        "Call view (as parsetrc.pl): elapsed time and CPU of the PARSE, EXEC and FETCH calls that no other \
         traced call made; waits of every call; unaccounted = elapsed - (waits + CPU). Idle is 'SQL*Net \
         message from client', which falls between calls.",
    );
    if trace.interval_view.is_some() {
        page.paragraph(
            "Interval view (as TVD$XTAT): from the earliest begin of a call or wait to the last time stamp; CPU of the calls \
             that no other traced call made, except CLOSE; waits are all waits, the idle ones too; unaccounted = elapsed - \
             (waits + CPU).",
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

/// What is known about unaccounted time, and what is counted twice or nowhere. Each sentence has a number of its own.
fn doubts(trace: &Trace, page: &mut Page) {
    let seconds = |ns: i128| exact_seconds(ns / 1_000);
    let calls = &trace.call_view;
    if calls.wait_outside_us > 0 {
        page.paragraph(&format!(
            "{} s of the waits fall in none of these calls (between calls, in CLOSE and LOB calls, or in a \
             call whose end is not in the trace): the call view subtracts them from elapsed time anyway.",
            exact_seconds(calls.wait_outside_us)
        ));
    }
    let doubles = &trace.double_counted;
    if doubles.cpu_inside_waits_ns > 0 {
        page.paragraph(&format!(
            "At least {} s of CPU were used inside waits: the waits of their calls leave no room for them.",
            seconds(doubles.cpu_inside_waits_ns)
        ));
    }
    if doubles.cpu_beyond_calls_ns > 0 {
        page.paragraph(&format!(
            "{} s of CPU do not fit into the elapsed time of their calls, waits included.",
            seconds(doubles.cpu_beyond_calls_ns)
        ));
    }
    if doubles.waits_beyond_calls_ns > 0 {
        page.paragraph(&format!(
            "Waits and calls add up to {} s more than the calls that contain them.",
            seconds(doubles.waits_beyond_calls_ns)
        ));
    }
    if let Some(facts) = &trace.facts {
        facts_of_files(trace, facts, page);
    }
}

fn facts_of_files(trace: &Trace, facts: &TraceFacts, page: &mut Page) {
    if facts.cpu_step_us > 1 {
        page.paragraph(&format!(
            "CPU was counted in steps of {} ms: for a single call it may be off by more than the length of \
             the call, over many calls it is right. In the ledger, CPU that does not fit into its call is \
             counted with the neighbouring calls.",
            facts.cpu_step_us / 1_000
        ));
    }
    if facts.waits == 0 && facts.calls > 0 {
        page.paragraph(
            "There are no waits in the trace: perhaps it was made without them (level 1 or 4). Unaccounted includes \
             all waits, the run queue and the rest. dbms_monitor.session_trace_enable(waits => true), or \
             level 8 of event 10046, traces waits.",
        );
    }
    if let Some(view) = trace
        .interval_view
        .filter(|view| facts.sessions_us > view.duration_us)
    {
        page.paragraph(&format!(
            "Sessions overlap in time: their own intervals add up to {} s, {} s more than the interval view has.",
            exact_seconds(facts.sessions_us),
            exact_seconds(facts.sessions_us - view.duration_us)
        ));
    }
    if facts.calls_without_outer > 0 {
        page.paragraph(&format!(
            "Recursive calls whose outer call is not in the trace: {}, {} s; they are counted.",
            facts.calls_without_outer,
            exact_seconds(i128::try_from(facts.calls_without_outer_us).unwrap_or(i128::MAX))
        ));
    }
    if let (Some(uncorrected), Some(view)) = (facts.uncorrected_us, trace.interval_view) {
        page.paragraph(&format!(
            "The clock of this trace counts units of 1.024 us (9.2 and 10.2 on Linux and Solaris). All times here are \
             corrected, except CPU, which has another clock. TVD$XTAT and TKPROF do not correct them: TVD$XTAT shows {} s \
             for an interval of {} s.",
            exact_seconds(uncorrected),
            exact_seconds(view.duration_us)
        ));
        if let Some(uncorrected) = trace.uncorrected_elapsed_us() {
            page.paragraph(&format!(
                "TKPROF shows {:.2} s of elapsed time for the calls, which took {} s.",
                uncorrected as f64 / 1e6,
                exact_seconds(trace.call_view.elapsed_us)
            ));
        }
    }
}
