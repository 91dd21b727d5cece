//! Sessions and statements that others waited for.

use super::causes::{TEXT, begin, with_statement};
use super::page::{Page, Table, percent, time};
use super::{quality, waited_locks};
use crate::causes::{CauseReport, Meanwhile, doing, no_session};
use crate::group::query_id;
use crate::locks::LockShare;
use crate::number::{counted, seconds};
use crate::statement_text::beginning;
use crate::sums::percent as percent_of;

/// One session in whose way the others are is named in the first line if this many of it would be more than all.
const LARGE: u128 = 4;
/// What a blocker did in less than one part in this many of its time is summed.
const SMALL: u128 = 50;

/// Sessions, then statements.
pub(super) fn render(report: &CauseReport, page: &mut Page) {
    if !begin(report, page) {
        return;
    }
    page.paragraph(&format!(
        "Blocked DB time: {} s.{}",
        seconds(report.blocked_ns),
        in_the_end(report)
    ));
    sessions(report, page);
    statements(report, page);
    quality::problems(&report.problems, page);
}

/// The session that most time led to, if it is a large part; begins with a space.
pub(super) fn in_the_end(report: &CauseReport) -> String {
    let Some(most) = report.blockers.iter().max_by_key(|blocker| blocker.root_ns) else {
        return String::new();
    };
    let did = most.doing.iter().find(|meanwhile| meanwhile.end.is_some());
    match did {
        Some(did) if most.root_ns.saturating_mul(LARGE) >= report.blocked_ns => format!(
            " In the end, {} s of it ({} %) led to {}: {}.",
            seconds(most.root_ns),
            percent(percent_of(most.root_ns, report.blocked_ns)),
            most.who,
            with_statement(words(did), &did.did).trim_end_matches(';')
        ),
        _ => String::new(),
    }
}

/// Sessions by the time that others waited for them.
pub(super) fn sessions(report: &CauseReport, page: &mut Page) {
    if report.blockers.is_empty() {
        return;
    }
    page.heading("Sessions by the time that others waited for them");
    page.paragraph(
        "A session that waits for a chain waits for each session in it, so 'waited for' does not sum to the \
         total. 'in the end' does: it counts the session at the root.",
    );
    let mut table = Table::new(
        &["session, and what it was doing"],
        &["waiters", "waited for s", "in the end s"],
    );
    for blocker in report.blockers.iter().take(report.top) {
        table.row(vec![
            blocker.who.to_string(),
            blocker.waiters.to_string(),
            seconds(blocker.ns),
            time(blocker.root_ns),
        ]);
        let was = |meanwhile: &Meanwhile| {
            let did = &meanwhile.did;
            with_statement(words(meanwhile), did)
        };
        in_the_way(&blocker.locks, 1, &mut table);
        doings(&blocker.doing, was, 1, report.top, &mut table);
    }
    let rest = report.blockers.get(report.top..).unwrap_or_default();
    let others = (rest.len(), rest.iter().map(|blocker| blocker.root_ns).sum());
    finish(report, "other session", others, 1, &mut table);
    page.table(&table);
}

/// Statements by the time that others waited for what executed them.
fn statements(report: &CauseReport, page: &mut Page) {
    let statements = &report.blocking_statements;
    if statements.is_empty() {
        return;
    }
    page.heading(
        "Statements for which others waited: what the blocking session executed, or had executed last",
    );
    let mut table = Table::new(
        &["statement, and what its sessions were doing"],
        &["sessions", "waiters", "waited for s", "in the end s"],
    );
    for of in statements.iter().take(report.top) {
        let statement = match (of.statement, &of.text) {
            (0, _) => "no query known".to_string(),
            (id, None) => format!("query {}", query_id(id)),
            (id, Some(text)) => format!("query {}: {}", query_id(id), beginning(text, TEXT)),
        };
        table.row(vec![
            statement,
            of.sessions.to_string(),
            of.waiters.to_string(),
            seconds(of.ns),
            time(of.root_ns),
        ]);
        in_the_way(&of.locks, 2, &mut table);
        doings(&of.doing, words, 2, report.top, &mut table);
    }
    let rest = statements.get(report.top..).unwrap_or_default();
    let others = (rest.len(), rest.iter().map(|of| of.root_ns).sum());
    finish(report, "other statement", others, 2, &mut table);
    page.table(&table);
}

fn words(meanwhile: &Meanwhile) -> String {
    let did = &meanwhile.did;
    doing(meanwhile.end, did.session_state, &did.wait, did.state)
}

/// The locks that others wanted, below a blocker. In one cell, as they are not parts of its time beside what it did. The row also has
/// `counts` cells, and two for times.
fn in_the_way(locks: &[LockShare], counts: usize, table: &mut Table) {
    if let Some(locks) = waited_locks::line(locks) {
        let mut cells = vec![format!("└ blocked others on {locks}")];
        cells.extend(vec![String::new(); counts + 2]);
        table.row(cells);
    }
}

/// What a blocker did, below it. `counts`: number of cells before the two times.
fn doings(
    doing: &[Meanwhile],
    was: impl Fn(&Meanwhile) -> String,
    counts: usize,
    top: usize,
    table: &mut Table,
) {
    let root_ns = |of: &[Meanwhile]| -> u128 {
        let at_root = of.iter().filter(|meanwhile| meanwhile.end.is_some());
        at_root.map(|meanwhile| meanwhile.ns).sum()
    };
    let row = |what: String, of: &[Meanwhile]| {
        let mut cells = vec![format!("└ {what}")];
        cells.extend(vec![String::new(); counts]);
        let ns = of.iter().map(|meanwhile| meanwhile.ns).sum();
        cells.extend([seconds(ns), time(root_ns(of))]);
        cells
    };
    let all: u128 = doing.iter().map(|meanwhile| meanwhile.ns).sum();
    let small = |meanwhile: &Meanwhile| meanwhile.ns.saturating_mul(SMALL) < all;
    let shown = doing.iter().position(small).unwrap_or(doing.len()).min(top);
    // One row in place of one says less.
    let shown = if shown + 1 == doing.len() {
        doing.len()
    } else {
        shown
    };
    let (shown, rest) = doing.split_at(shown);
    for meanwhile in shown {
        table.row(row(was(meanwhile), std::slice::from_ref(meanwhile)));
    }
    if !rest.is_empty() {
        table.row(row(counted(rest.len(), "other"), rest));
    }
}

/// Root times of what is left out, of what led to no session, and in total. `counts`: number of cells before the two times.
fn finish(
    report: &CauseReport,
    other: &str,
    (count, others_ns): (usize, u128),
    counts: usize,
    table: &mut Table,
) {
    let row = |what: String, root_ns: u128| {
        let mut cells = vec![what];
        cells.extend(vec![String::new(); counts + 1]);
        cells.push(time(root_ns));
        cells
    };
    if count > 0 {
        table.row(row(counted(count, other), others_ns));
    }
    for chain in report.chains.iter().filter(|chain| chain.who.is_none()) {
        table.row(row(no_session(chain.kind).to_string(), chain.behind_ns));
    }
    table.rule();
    table.row(row("blocked DB time".to_string(), report.blocked_ns));
}
