//! A snapshot of sessions, in the style of Snapper.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use dbtime_model::Session;
use dbtime_model::recording::{Clock, Meta};

use super::page::{Page, Table, percent};
use super::{header, quality};
use crate::explanation::WORTH_MENTIONING;
use crate::group::moment;
use crate::latency::WaitUnit;
use crate::ledger::{LedgerRow, Rest, Section};
use crate::number::counted;
use crate::snapshot::{LineKind, SessionSnapshot, Snapshot, SnapshotColumn, is_whole};
use crate::sums::percent as percent_of;

/// Lines of average active sessions.
const MOST_ACTIVE: usize = 15;
/// Statements whose counts are shown: those with the most time.
const STATEMENTS: usize = 5;

pub(super) fn render(snapshot: &Snapshot, columns: &[SnapshotColumn], page: &mut Page) {
    let (meta, period) = (&snapshot.meta, snapshot.period);
    let from = match meta.collector.clock {
        Clock::Utc => format!("From {} UTC, ", moment(period.from_us)),
        Clock::Relative | Clock::None => String::new(),
    };
    let how = match (meta.collector.tier.as_str(), meta.collector.rate_hz) {
        ("", _) | (_, 0) => String::new(),
        (tier, rate_hz) => format!(", {tier} at {rate_hz} Hz"),
    };
    page.heading(&format!(
        "{from}{}, {}{how}",
        header::length(period),
        counted(snapshot.count(), "session"),
    ));
    if let Some(only) = header::chosen(&snapshot.filter) {
        page.paragraph(&only);
    }
    if snapshot.sessions.is_empty() {
        page.paragraph("No statistic of these sessions changed.");
    }
    let shown = &snapshot.sessions;
    if !shown.is_empty() {
        lines(shown, columns, meta, page);
    }
    if snapshot.others > 0 {
        page.line(&format!(
            "{} not shown.",
            counted(snapshot.others, "other session")
        ));
    }
    if snapshot.statistics_left_out {
        page.paragraph(
            "Other statistics are left out: they are counted for whole sessions, and not by query, wait, state or comment.",
        );
    }
    if !meta.collector.task_counts && meta.files.is_empty() && snapshot.filter.chooses_no_time() {
        page.paragraph(
            "Switches, faults, calls and bytes were not recorded: 'dbtime record --statistics' records them.",
        );
    }
    let lost = meta.quality.lost;
    if lost > 0 {
        page.paragraph(&format!(
            "{} lost since the beginning: their data is missing.",
            counted(lost, "event")
        ));
    }
    explain(snapshot, columns, page);
    active(snapshot, page);
    quality::problems(&snapshot.problems, page);
}

fn lines(sessions: &[SessionSnapshot], columns: &[SnapshotColumn], meta: &Meta, page: &mut Page) {
    let heads: Vec<&str> = columns.iter().map(|column| column.as_str()).collect();
    let mut table = Table::new(&["session", "user", "type", "statistic"], &heads);
    let mut left_out = 0;
    for (n, one) in sessions.iter().enumerate() {
        if n > 0 {
            table.rule();
        }
        let less_time = statements_with_less_time(one);
        left_out += less_time.len();
        for line in &one.lines {
            if line.statement.is_some_and(|id| less_time.contains(&id)) {
                continue;
            }
            let mut cells = vec![
                name(&one.session, meta),
                whose(&one.session),
                line.kind.as_str().to_string(),
                match line.is_level {
                    true => format!("{} (level)", line.name),
                    false => line.name.clone(),
                },
            ];
            cells.extend(columns.iter().map(|column| column.cell(line, one.elapsed_ns)));
            table.row(cells);
        }
    }
    page.table(&table);
    if left_out > 0 {
        page.line(&format!(
            "{} with less time not shown ('--format csv' has all).",
            counted(left_out, "other statement")
        ));
    }
}

/// The statements with counts that are not among those with the most time.
fn statements_with_less_time(one: &SessionSnapshot) -> HashSet<u64> {
    let mut times: HashMap<u64, i128> = HashMap::new();
    for line in &one.lines {
        if let Some(id) = line.statement.filter(|id| *id != 0) {
            let is_time = line.name.ends_with(".total_exec_time");
            *times.entry(id).or_default() += if is_time { line.growth } else { 0 };
        }
    }
    let mut times: Vec<(u64, i128)> = times.into_iter().collect();
    times.sort_unstable_by_key(|(id, ns)| (Reverse(*ns), *id));
    times.into_iter().skip(STATEMENTS).map(|(id, _)| id).collect()
}

/// By its number in the database if its pid is not known.
fn name(session: &Session, meta: &Meta) -> String {
    if is_whole(session) {
        // Oracle's usual term, as it is Oracle's files that are read.
        let name = if meta.files.is_empty() {
            "server"
        } else {
            "instance"
        };
        return name.to_string();
    }
    match session.pid {
        0 if !session.sid.is_empty() => session.sid.clone(),
        pid => pid.to_string(),
    }
}

/// For a process of the server: its kind.
fn whose(session: &Session) -> String {
    match session.user.is_empty() {
        true if is_whole(session) => String::new(),
        true => session.backend_type.0.to_string(),
        false => session.user.clone(),
    }
}

/// CPU and waits compared with DB time, and what is not known.
fn explain(snapshot: &Snapshot, columns: &[SnapshotColumn], page: &mut Page) {
    let shown = &snapshot.sessions;
    let is_observed = snapshot.total.db_time_ns > 0;
    if is_observed {
        page.paragraph(&match snapshot.count() {
            1 => snapshot.total.explanation.clone(),
            sessions => format!("All {sessions} sessions: {}", snapshot.total.explanation),
        });
    }
    if !is_observed || snapshot.count() > 1 {
        for one in shown.iter().filter(|one| is_anomalous(one)) {
            page.paragraph(&format!(
                "Session {}: {}",
                name(&one.session, &snapshot.meta),
                one.view.explanation
            ));
        }
    }
    let is_not_counted = |one: &SessionSnapshot| {
        let mut waits = one.lines.iter().filter(|line| line.kind == LineKind::Wait);
        waits.any(|line| line.waits.is_none())
    };
    let of_waits = [
        SnapshotColumn::Waits,
        SnapshotColumn::WaitsPerSecond,
        SnapshotColumn::Average,
    ];
    let shows_waits = columns.iter().any(|column| of_waits.contains(column));
    let is_counted = |one: &SessionSnapshot| one.lines.iter().any(|line| line.waits > Some(0));
    if shows_waits && WaitUnit::of(&snapshot.meta) == WaitUnit::Stay && shown.iter().any(is_counted) {
        page.paragraph(
            "With --exact, waits are off-CPU periods in the wait event: one wait may have several, or none if it never left its CPU. \
             --exact=calls counts whole waits.",
        );
    }
    if shows_waits && shown.iter().any(is_not_counted) {
        let meta = &snapshot.meta;
        page.paragraph(
            match (meta.files.is_empty(), meta.collector.tier.starts_with("exact")) {
                (false, _) => "~: the file does not say.",
                (true, false) => {
                    "~: not known. Samples show how long waits took, not how many there were; --exact counts \
                 them."
                }
                (true, true) => "~: not known. How many waits ended is not counted for this selection.",
            },
        );
    }
}

/// Whether the database reports more than there is.
fn is_anomalous(one: &SessionSnapshot) -> bool {
    one.view
        .percent_of_db_time
        .is_some_and(|percent| percent >= 100.0 + WORTH_MENTIONING)
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
        let heads: Vec<&str> = ledger.by.iter().map(|dimension| dimension.as_str()).collect();
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
