//! What differs between two traces of the kernel.

use super::page::{Page, Table};
use crate::dive::{DiveChange, DiveDiff};
use crate::number::duration;

const SIDES: [&str; 2] = ["GOOD", "BAD"];

/// What precedes the tables: the answer, the two sides, and what the numbers are.
pub(super) fn lines(diff: &DiveDiff) -> Vec<String> {
    let [good, bad] = &diff.sides;
    let mut lines = vec![format!(
        "A call takes {} in GOOD and {} in BAD. {} functions are called in GOOD only, {} in BAD only.",
        time(good.call_ns),
        time(bad.call_ns),
        diff.only[0].len() + diff.only_others[0],
        diff.only[1].len() + diff.only_others[1],
    )];
    for (side, of) in SIDES.into_iter().zip(&diff.sides) {
        lines.push(format!(
            "{side}: {}, {} calls ({})",
            of.target, of.trace.calls, of.trace.tracer
        ));
    }
    lines.push(
        "Everything is per call, without interrupts and preemption. Which functions run is exact; times \
         vary from call to call, and by how much is not shown here."
            .to_string(),
    );
    lines
}

pub(super) fn render(diff: &DiveDiff, page: &mut Page) {
    for line in lines(diff) {
        page.paragraph(&line);
    }
    for (side, number) in SIDES.into_iter().zip(0..) {
        if !diff.only[number].is_empty() {
            only(diff, side, number, page);
        }
    }
    changes("Functions that both call", &diff.functions, page);
    changes("Call paths", &diff.paths, page);
    for problem in &diff.problems {
        page.paragraph(&format!("Not read: {problem}"));
    }
}

fn only(diff: &DiveDiff, side: &str, number: usize, page: &mut Page) {
    page.heading(&format!("Functions in {side} only"));
    let mut table = Table::new(&["function"], &["calls", "own", "with what it called"]);
    for change in &diff.only[number] {
        table.row(vec![
            change.path.join(" > "),
            count(change.calls[number]),
            time(change.own_ns[number]),
            time(change.total_ns[number]),
        ]);
    }
    page.table(&table);
    if diff.only_others[number] > 0 {
        page.paragraph(&format!(
            "  {} more are not shown, see --top",
            diff.only_others[number]
        ));
    }
}

fn changes(heading: &str, changes: &[DiveChange], page: &mut Page) {
    page.heading(&format!(
        "{heading}, by the difference in own time, on or off a CPU"
    ));
    let numbers = [
        "calls GOOD",
        "BAD",
        "own GOOD",
        "BAD",
        "more",
        "in all GOOD",
        "BAD",
    ];
    let mut table = Table::new(&["function"], &numbers);
    for change in changes {
        let mut row = vec![change.path.join(" > ")];
        row.extend(change.calls.map(count));
        row.extend(change.own_ns.map(time));
        row.push(signed(change.own_more_ns()));
        row.extend(change.total_ns.map(time));
        table.row(row);
    }
    page.table(&table);
}

fn time(ns: f64) -> String {
    // A mean per call: the nanoseconds always fit.
    match ns {
        0.0 => "-".to_string(),
        ns => duration(ns.round() as u128),
    }
}

fn signed(ns: f64) -> String {
    let sign = if ns < 0.0 { "-" } else { "+" };
    format!("{sign}{}", duration(ns.abs().round() as u128))
}

fn count(calls: f64) -> String {
    match calls {
        0.0 => "-".to_string(),
        calls if calls.fract() == 0.0 => format!("{calls:.0}"),
        calls => format!("{calls:.2}"),
    }
}
