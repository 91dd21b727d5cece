//! What the database says, and how that turns into DB time, line by line.

use super::page::{Page, Table, percent};
use crate::database_view::{DatabaseView, Step};
use crate::number::Amounts;
use crate::report::Report;
use crate::sums;

/// Wait events that are shown with what is inside them.
const EVENTS: usize = 10;

pub(super) fn render(report: &Report, page: &mut Page) {
    let view = &report.database_view;
    let amounts = Amounts::of(&report.meta);
    if view.db_time_ns == 0 && view.cpu_ns == 0 {
        return;
    }
    let fidelity = view.fidelity.map_or("sampled", |fidelity| fidelity.words());
    page.heading(&format!(
        "What the database says, and what happened ({}, {fidelity})",
        amounts.unit()
    ));
    page.paragraph(&view.explanation);
    page.line("");
    page.table(&reconciliation(view, amounts));
    events(view, amounts, page);
}

/// In words only.
pub(super) fn render_explanation(report: &Report, page: &mut Page) {
    if report.database_view.db_time_ns > 0 {
        page.line("");
        page.paragraph(&report.database_view.explanation);
    }
}

fn reconciliation(view: &DatabaseView, amounts: Amounts) -> Table {
    let mut table = Table::new(
        &["from the database's view to DB time"],
        &[amounts.unit(), "% of DB time"],
    );
    let share = |ns| percent(sums::percent(ns, view.db_time_ns));
    let row = |what: &str, sign: &str, ns: u128| {
        let amount = if ns == 0 {
            amounts.cell(0)
        } else {
            format!("{sign}{}", amounts.number(ns))
        };
        let share = share(ns);
        let share = if share.is_empty() || ns == 0 {
            share
        } else {
            format!("{sign}{share}")
        };
        vec![what.to_string(), amount, share]
    };
    table.row(row("CPU the database counts (getrusage)", "", view.cpu_ns));
    table.row(row("Time inside wait events", "+", view.wait_ns));
    for (step, ns) in view.steps() {
        let what = match step {
            Step::CpuAndWaits => "= what the database can show",
            Step::DoubleCounted => "CPU inside wait events: counted twice",
            Step::CpuInsideIdleWaits => "CPU inside idle waits: not DB time",
            Step::RunQueueInsideIdleWaits => "Waiting for a CPU after a command came: called idle",
            Step::RunQueueOutsideWaits => "Waiting for a CPU outside of waits: not counted",
            Step::BlockedOutsideWaits => "Blocked outside of waits: not counted",
            Step::StateUnknownOutsideWaits => "State not known, outside of waits",
            Step::WaitUnknownOffCpu => "Wait not known, off CPU",
        };
        let sign = match step {
            Step::CpuAndWaits => "",
            step if step.is_taken_off() => "-",
            _ => "+",
        };
        if ns > 0 || step == Step::CpuAndWaits {
            table.row(row(what, sign, ns));
        }
    }
    table.rule();
    table.row(row("= DB time", "", view.db_time_ns));
    table
}

/// What sessions did inside their wait events.
fn events(view: &DatabaseView, amounts: Amounts, page: &mut Page) {
    if view.by_event.is_empty() {
        return;
    }
    page.line("");
    let mut heads = vec![
        if amounts.are_times() { "wait s" } else { "wait" },
        "on CPU",
        "% on CPU",
        "run queue",
        "blocked",
    ];
    let unknown = view
        .by_event
        .iter()
        .any(|event| event.state_unknown_inside_ns > 0);
    if unknown {
        heads.push("not known");
    }
    let mut table = Table::new(&["inside the wait event"], &heads);
    for event in view.by_event.iter().take(EVENTS) {
        let mut cells = vec![
            event.wait.to_string(),
            amounts.cell(event.wait_ns),
            amounts.cell(event.cpu_inside_ns),
            match event.cpu_inside_ns {
                0 => amounts.cell(0),
                inside => percent(sums::percent(inside, event.wait_ns)),
            },
            amounts.cell(event.run_queue_inside_ns),
            amounts.cell(event.blocked_inside_ns),
        ];
        if unknown {
            cells.push(amounts.cell(event.state_unknown_inside_ns));
        }
        table.row(cells);
    }
    page.table(&table);
    if view.by_event.len() > EVENTS {
        page.line(&format!(
            "  {} wait events with less CPU inside are not shown",
            view.by_event.len() - EVENTS
        ));
    }
}
