//! Sessions, busiest first; those that are not shown are summed.

use dbtime_model::BackendType;

use super::page::{Page, Table, time_if_known};
use crate::number::{Amounts, counted};
use crate::report::Report;
use crate::sessions::{SessionTime, SessionTotals};

/// Sessions shown individually.
const SESSIONS: usize = 10;

pub(super) fn render(report: &Report, page: &mut Page) {
    let (top, others, rest) = report.sessions.top(SESSIONS);
    if top.is_empty() {
        return;
    }
    let amounts = Amounts::of(&report.meta);
    let unit = amounts.unit();
    let exact = report.sessions.have_exact_totals();
    let fidelity = report
        .ledger
        .total()
        .fidelity()
        .map_or("not known", |fidelity| fidelity.words());
    page.heading(&if exact {
        format!("Sessions ({unit}; active = outside of idle waits: {fidelity}; all others: exact, from the kernel)")
    } else {
        format!("Sessions ({unit}; active = outside of idle waits: {fidelity})")
    });
    let numbers = ["active", "on CPU", "run queue", "blocked", "elapsed"];
    let mut table = Table::new(&["pid", "session"], if exact { &numbers } else { &numbers[..1] });
    let cells = |pid: String, name: String, totals: &SessionTotals| {
        let mut cells = vec![pid, name, amounts.cell(totals.active_ns)];
        if exact {
            cells.extend([
                time_if_known(totals.on_cpu_ns),
                time_if_known(totals.run_queue_ns),
                time_if_known(totals.blocked_ns),
                time_if_known(totals.elapsed_ns),
            ]);
        }
        cells
    };
    for session in top {
        let pid = session.pid.map_or_else(|| "?".to_string(), |pid| pid.to_string());
        table.row(cells(pid, name(session), &session.totals));
    }
    if others > 0 {
        table.rule();
        table.row(cells(String::new(), counted(others, "other"), &rest));
    }
    page.table(&table);
}

/// Who it is, in a few words.
fn name(session: &SessionTime) -> String {
    let whose = match (session.user.as_str(), session.database.as_str()) {
        ("", "") => String::new(),
        (user, "") => user.to_string(),
        ("", database) => format!("@{database}"),
        (user, database) => format!("{user}@{database}"),
    };
    let kind = match session.backend_type.0.as_str() {
        BackendType::CLIENT if !whose.is_empty() => String::new(),
        BackendType::PARALLEL_WORKER if session.leader_pid != 0 => {
            format!("parallel worker of {}", session.leader_pid)
        }
        BackendType::UNKNOWN => "ended before it could be identified".to_string(),
        kind => kind.to_string(),
    };
    let name = match (whose.is_empty(), kind.is_empty()) {
        (true, _) => kind,
        (_, true) => whose,
        _ => format!("{whose} ({kind})"),
    };
    let says = [
        &session.application,
        &session.module,
        &session.action,
        &session.client_id,
    ];
    let says: Vec<&str> = says
        .into_iter()
        .map(String::as_str)
        .filter(|text| !text.is_empty())
        .collect();
    let name = match session.sid.as_str() {
        "" => name,
        sid => format!("{sid} {name}"),
    };
    match says.as_slice() {
        [] => name,
        says => format!("{name}: {}", says.join(", ")),
    }
}
