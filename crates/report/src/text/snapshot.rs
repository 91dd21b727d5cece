//! A snapshot of sessions, in the manner of Snapper.

use dbtime_model::Session;
use dbtime_model::recording::Clock;

use super::page::{Page, Table, percent};
use super::{header, quality};
use crate::group::moment;
use crate::ledger::{LedgerRow, Rest, Section};
use crate::number::{counted, seconds};
use crate::snapshot::{LineKind, SessionSnapshot, Snapshot, SnapshotColumn};
use crate::sums::percent as percent_of;

/// Lines of average active sessions.
const MOST_ACTIVE: usize = 15;

pub(super) fn render(snapshot: &Snapshot, columns: &[SnapshotColumn], top: usize, page: &mut Page) {
    let period = snapshot.period;
    let from = match snapshot.meta.collector.clock {
        Clock::Utc => format!("From {} UTC, ", moment(period.from_us)),
        Clock::Relative | Clock::None => String::new(),
    };
    page.heading(&format!(
        "{from}{} s, {}",
        seconds(period.elapsed_ns()),
        counted(snapshot.sessions.len(), "session"),
    ));
    if let Some(only) = header::chosen(&snapshot.filter) {
        page.paragraph(&only);
    }
    let shown = snapshot.sessions.get(..top).unwrap_or(&snapshot.sessions);
    if shown.is_empty() {
        page.paragraph("Nothing of these sessions grew.");
    } else {
        lines(shown, columns, page);
    }
    let rest = snapshot.sessions.len() - shown.len();
    if rest > 0 {
        page.line(&format!(
            "{} not shown: --sessions shows more.",
            counted(rest, "other session")
        ));
    }
    if !snapshot.meta.collector.task_counts && snapshot.meta.files.is_empty() {
        page.paragraph(
            "Switches, faults, calls and bytes were not recorded: 'dbtime record --statistics' records them.",
        );
    }
    explain(snapshot, shown, columns, page);
    active(snapshot, page);
    quality::problems(&snapshot.problems, page);
}

fn lines(sessions: &[SessionSnapshot], columns: &[SnapshotColumn], page: &mut Page) {
    let heads: Vec<&str> = columns.iter().map(|column| column.as_str()).collect();
    let mut table = Table::new(&["session", "user", "type", "statistic"], &heads);
    for (n, one) in sessions.iter().enumerate() {
        if n > 0 {
            table.rule();
        }
        for line in &one.lines {
            let mut cells = vec![
                name(&one.session),
                whose(&one.session),
                line.kind.as_str().to_string(),
                line.name.clone(),
            ];
            cells.extend(columns.iter().map(|column| column.cell(line, one.elapsed_ns)));
            table.row(cells);
        }
    }
    page.table(&table);
}

/// By the number that the database gives it, where its pid is not known.
fn name(session: &Session) -> String {
    match session.pid {
        0 if !session.sid.is_empty() => session.sid.clone(),
        pid => pid.to_string(),
    }
}

/// Of a process of the server: what it is.
fn whose(session: &Session) -> String {
    match session.user.is_empty() {
        true => session.backend_type.0.clone(),
        false => session.user.clone(),
    }
}

/// CPU and waits against DB time.
fn explain(snapshot: &Snapshot, shown: &[SessionSnapshot], columns: &[SnapshotColumn], page: &mut Page) {
    if snapshot.total.db_time_ns == 0 {
        return;
    }
    let whole = match snapshot.sessions.len() {
        1 => String::new(),
        sessions => format!("All {sessions} sessions: "),
    };
    page.paragraph(&format!("{whole}{}", snapshot.total.explanation));
    let mut apart: Vec<&SessionSnapshot> = shown.iter().filter(|one| is_anomalous(one)).collect();
    if snapshot.sessions.len() == 1 {
        apart.clear();
    }
    for one in apart {
        page.paragraph(&format!(
            "Session {}: {}",
            name(&one.session),
            one.view.explanation
        ));
    }
    let counts_waits = |one: &SessionSnapshot| {
        let mut waits = one.lines.iter().filter(|line| line.kind == LineKind::Wait);
        waits.any(|line| line.waits.is_none())
    };
    let of_waits = [
        SnapshotColumn::Waits,
        SnapshotColumn::WaitsPerSecond,
        SnapshotColumn::Average,
    ];
    if shown.iter().any(counts_waits) && columns.iter().any(|column| of_waits.contains(column)) {
        page.paragraph("~: not known. Samples tell how long waits took and not how many there were; --exact counts them.");
    }
}

/// The database says more than there is.
fn is_anomalous(one: &SessionSnapshot) -> bool {
    // As much as is worth a sentence: explanation.rs.
    one.view
        .percent_of_db_time()
        .is_some_and(|percent| percent >= 105.0)
}

fn active(snapshot: &Snapshot, page: &mut Page) {
    let Some(ledger) = &snapshot.active else {
        return;
    };
    let is_active = |row: &&LedgerRow| row.rest == Rest::None && row.sums.total_ns() > 0;
    let elapsed = snapshot.period.elapsed_ns();
    for (section, what) in [
        (Section::DbTime, "for clients"),
        (Section::Background, "of the server itself"),
    ] {
        let rows: Vec<&LedgerRow> = ledger.section(section).filter(is_active).collect();
        if rows.is_empty() {
            continue;
        }
        let all: u128 = rows.iter().map(|row| row.sums.total_ns()).sum();
        let average = |ns: u128| format!("{:.2}", ns as f64 / elapsed.max(1) as f64);
        page.heading(&format!("Active sessions {what}: {} on average", average(all)));
        let mut heads: Vec<&str> = ledger.by.iter().map(|dimension| dimension.as_str()).collect();
        if heads.is_empty() {
            heads.push("");
        }
        let mut table = Table::new(&heads, &["active", "%"]);
        for row in rows.iter().take(MOST_ACTIVE) {
            let mut cells = row.labels.clone();
            cells.push(average(row.sums.total_ns()));
            cells.push(percent(percent_of(row.sums.total_ns(), all)));
            table.row(cells);
        }
        page.table(&table);
        if let Some(rest) = rows.get(MOST_ACTIVE..).filter(|rest| !rest.is_empty()) {
            let ns = rest.iter().map(|row| row.sums.total_ns()).sum();
            page.line(&format!("{}: {}", counted(rest.len(), "other row"), average(ns)));
        }
    }
}
