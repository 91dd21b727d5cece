//! Who held locks in the server's lock table, and who waited for them.

use dbtime_model::SessionState;

use super::causes::{of_last_statement, of_statement};
use super::page::{Page, Table};
use crate::filter::Filter;
use crate::locks::{HeavyLock, LockReport, LockRequest};
use crate::number::{counted, seconds};

pub(super) fn render(report: &LockReport, filter: &Filter, top: usize, page: &mut Page) {
    page.heading("Heavyweight locks (pg_locks)");
    page.paragraph(&format!(
        "{} of the server's lock table, which stand for {} s. {}Times are those that samples stand for. The \
         server does not say when a lock was acquired: >= is how long it was seen held without a break, in \
         one transaction.",
        counted(report.looks, "sample"),
        seconds(report.looked_ns),
        left_out(report),
    ));
    if !(filter.waits.is_empty() && filter.states.is_empty()) {
        page.paragraph(
            "Wait event and state of lock holders are not recorded: with this filter, holders are left out.",
        );
    }
    if report.locks.is_empty() {
        page.paragraph("No sample found a lock that was waited for, or held for a second or longer.");
        return;
    }
    let mut table = Table::new(
        &["lock", "held longest by"],
        &[
            "held s",
            "at a time",
            "longest held s",
            "waited s",
            "longest waited s",
            "waiters",
        ],
    );
    for lock in report.locks.iter().take(top) {
        table.row(vec![
            lock.target.to_string(),
            by_whom(lock),
            seconds(lock.held_ns),
            format!("{:.2}", lock.held_ns as f64 / report.looked_ns.max(1) as f64),
            at_least(lock),
            seconds(lock.waited_ns),
            seconds(lock.longest_waited_ns.into()),
            lock.waiters.to_string(),
        ]);
    }
    page.table(&table);
    let rest = report.locks.get(top..).unwrap_or_default();
    if !rest.is_empty() {
        page.line(&format!(
            "{}: held {} s, waited {} s",
            counted(rest.len(), "other lock"),
            seconds(rest.iter().map(|lock| lock.held_ns).sum()),
            seconds(rest.iter().map(|lock| lock.waited_ns).sum()),
        ));
    }
    page.paragraph(
        "at a time: how many sessions held it, in any mode, on average; 1 = one session, all the time.",
    );
    let waited = report.locks.iter().filter(|lock| lock.waiters > 0);
    for lock in waited.take(top) {
        uses(lock, top, page);
    }
}

/// What sampling the table missed.
fn left_out(report: &LockReport) -> String {
    let mut said = String::new();
    if report.torn > 0 {
        said.push_str(&format!(
            "{} were dropped, because the server changed them during the read. ",
            counted(report.torn, "lock")
        ));
    }
    if report.not_read > 0 {
        said.push_str(&format!("{} more could not read it. ", report.not_read));
    }
    if report.without_room > 0 {
        said.push_str(&format!(
            "There was no room for {}: the table has more than are read or kept. ",
            counted(report.without_room, "lock")
        ));
    }
    said
}

/// Who held it longest, and in which mode.
fn by_whom(lock: &HeavyLock) -> String {
    let holders = lock.requests.iter().filter(|of| of.granted);
    let Some(of) = holders.max_by_key(|of| of.longest_ns) else {
        return String::new();
    };
    let noted = if of.fast_path { " (fast path)" } else { "" };
    format!("{}: {}{noted}", session(of), of.mode)
}

fn at_least(lock: &HeavyLock) -> String {
    match lock.held_ns {
        0 => String::new(),
        _ => format!(">= {}", seconds(lock.longest_held_ns.into())),
    }
}

fn uses(lock: &HeavyLock, top: usize, page: &mut Page) {
    page.heading(&lock.target.to_string());
    let mut table = Table::new(&["session", "mode", ""], &["s", "longest s"]);
    for of in lock.requests.iter().take(top) {
        let longest = seconds(of.longest_ns.into());
        table.row(vec![
            who(of),
            of.mode.to_string(),
            match (of.granted, of.fast_path) {
                (true, true) => "held (fast path)",
                (true, false) => "held",
                (false, _) => "waited",
            }
            .to_string(),
            seconds(of.ns),
            match of.granted {
                true => format!(">= {longest}"),
                false => longest,
            },
        ]);
    }
    page.table(&table);
    if let Some(rest) = lock.requests.get(top..).filter(|rest| !rest.is_empty()) {
        let of = |granted: bool| {
            rest.iter()
                .filter(move |of| of.granted == granted)
                .map(|of| of.ns)
                .sum()
        };
        page.line(&format!(
            "{}: held {} s, waited {} s",
            counted(rest.len(), "more row"),
            seconds(of(true)),
            seconds(of(false)),
        ));
    }
}

/// The session, and its statement.
fn who(of: &LockRequest) -> String {
    let session = session(of);
    let with_statement = match of.session_state {
        SessionState::None | SessionState::Active => of_statement,
        _ => of_last_statement,
    };
    with_statement(session, of.statement, of.text.as_deref())
}

fn session(of: &LockRequest) -> String {
    let session = match (of.prepared, of.pid) {
        (Some(transaction), _) => {
            return format!("prepared transaction {transaction} (no process has it: pg_prepared_xacts)");
        }
        (None, Some(pid)) if !of.recorded => return format!("pid {pid}, which is not recorded"),
        (None, Some(pid)) => format!("pid {pid}, {}", of.backend_type),
        (None, None) => of.backend_type.to_string(),
    };
    match of.session_state {
        SessionState::None | SessionState::Active => session,
        state => format!("{session}, {state}"),
    }
}
