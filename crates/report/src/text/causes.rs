//! Who was waited for.

use dbtime_model::CauseKind;

use super::page::{Page, Table, percent};
use super::{blockers, header, links, quality, waited_locks};
use crate::causes::{
    CauseGroup, CausePart, CauseReport, CausedWait, Root, doing, no_session, why_not_recorded,
};
use crate::group::query_id;
use crate::number::{counted, seconds};
use crate::statement_text::beginning;
use crate::sums::percent as percent_of;

/// Reasons are listed if at least one in this many parts of the blocked time is not known.
const MANY: u128 = 100;
/// Characters of a statement's text.
pub(super) const TEXT: usize = 60;

pub(super) fn render(report: &CauseReport, page: &mut Page) {
    if !begin(report, page) {
        return;
    }
    if report.blocked_ns == 0 {
        page.paragraph("No DB time was blocked.");
        return quality::problems(&report.problems, page);
    }
    page.paragraph(&format!(
        "Blocked DB time: {} s. {} % of it was traced to whoever held the lock or ended the wait, and \
         further if that session was blocked too.{} Times are those of the ledger, divided by samples.",
        seconds(report.blocked_ns),
        percent(percent_of(report.followed_ns, report.blocked_ns)),
        blockers::in_the_end(report),
    ));
    for wait in report.waits.iter().take(report.top) {
        render_wait(wait, report.top, page);
    }
    let rest = report.waits.get(report.top..).unwrap_or_default();
    if !rest.is_empty() {
        let ns = rest.iter().map(|wait| wait.ns).sum::<u128>();
        page.paragraph(&format!(
            "{}: {} s.",
            counted(rest.len(), "other wait"),
            seconds(ns)
        ));
    }
    not_known(report, page);
    blockers::sessions(report, page);
    quality::problems(&report.problems, page);
}

/// Why part of the time led nowhere, if there is enough of it.
fn not_known(report: &CauseReport, page: &mut Page) {
    let all = report.not_known.iter().map(|(_, ns)| ns).sum::<u128>();
    if all * MANY < report.blocked_ns || all == 0 {
        return;
    }
    page.heading(&format!("Why {} s led to [not known]", seconds(all)));
    for (why, ns) in &report.not_known {
        page.paragraph(&format!("- {} s: {}.", seconds(*ns), why.as_str()));
    }
}

/// The head of the page. False: the recording does not say who was waited for, and nothing follows.
pub(super) fn begin(report: &CauseReport, page: &mut Page) -> bool {
    header::recording(&report.meta, report.period, &report.filter, page);
    if !report.is_recorded() {
        page.heading(why_not_recorded(&report.meta));
        quality::problems(&report.problems, page);
    }
    report.is_recorded()
}

fn render_wait(wait: &CausedWait, top: usize, page: &mut Page) {
    let of = match (wait.statement, &wait.text) {
        (0, _) => "no query known".to_string(),
        (id, Some(text)) => format!("query {} {}", query_id(id), beginning(text, TEXT)),
        (id, None) => format!("query {}", query_id(id)),
    };
    page.heading(&format!(
        "{}  {} s  waited by {}, {of}",
        wait.wait,
        seconds(wait.ns),
        counted(wait.sessions, "session"),
    ));
    if let Some(locks) = waited_locks::line_of_all(&wait.locks, wait.ns) {
        page.paragraph(&format!("  for {locks}"));
    }
    if !wait.links.is_empty() {
        return links::render(&wait.links, wait.ns, top, page);
    }
    let mut table = Table::new(&["waited for", "which was"], &["links", "s", "%"]);
    for group in wait.by_doing.iter().take(top) {
        table.row(row(
            who(group),
            what(&group.part),
            group.part.links.to_string(),
            group.part.ns,
            wait.ns,
        ));
    }
    let rest = wait.by_doing.get(top..).unwrap_or_default();
    if !rest.is_empty() {
        let ns = rest.iter().map(|group| group.part.ns).sum();
        table.row(row(
            counted(rest.len(), "other"),
            String::new(),
            String::new(),
            ns,
            wait.ns,
        ));
    }
    page.table(&table);
}

fn row(who: String, what: String, links: String, ns: u128, all: u128) -> Vec<String> {
    vec![who, what, links, seconds(ns), percent(percent_of(ns, all))]
}

fn who(group: &CauseGroup) -> String {
    match &group.part.root {
        Some(root) => session(root, group.pids.len()),
        None => no_session(group.part.kind).to_string(),
    }
}

/// A session, or how many did the same, with the statement they executed.
pub(super) fn session(root: &Root, sessions: usize) -> String {
    let who = match (sessions, root.user.as_str()) {
        (1, "") => format!("pid {}, {}", root.pid, root.backend_type),
        (1, user) => format!("pid {}, {user}", root.pid),
        (many, _) => counted(many, "session"),
    };
    with_statement(who, root)
}

/// A session, or what it did, with the statement that it executed, or had executed last.
pub(super) fn with_statement(what: String, root: &Root) -> String {
    let of = match root.session_state.is_idle_in_transaction() {
        true => of_last_statement,
        false => of_statement,
    };
    of(what, root.statement, root.text.as_deref())
}

/// The same for one that executes nothing: with the statement executed last.
pub(super) fn of_last_statement(who: String, statement: u64, text: Option<&str>) -> String {
    match statement {
        0 => who,
        _ => of_statement(format!("{who}, last"), statement, text),
    }
}

/// The same with the current statement; 0 = not known, or none.
pub(super) fn of_statement(who: String, statement: u64, text: Option<&str>) -> String {
    match (statement, text) {
        (0, _) => who,
        (_, Some(text)) => format!("{who}: {}", beginning(text, TEXT)),
        (id, None) => format!("{who}: query {}", query_id(id)),
    }
}

/// What the root was doing meanwhile.
pub(crate) fn what(part: &CausePart) -> String {
    let Some(root) = &part.root else {
        return String::new();
    };
    let doing = doing(Some(part.kind), root.session_state, &root.wait, root.state);
    match part.functions.first() {
        Some((function, ns)) if part.kind == CauseKind::Session => {
            format!("{doing}, {} % in {function}", percent(percent_of(*ns, part.ns)))
        }
        _ => doing,
    }
}
