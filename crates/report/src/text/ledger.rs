//! The ledger: DB time first, then what is not part of it.

use dbtime_model::{State, WaitKind};

use super::page::{Page, Table, percent};
use crate::diff::rate;
use crate::group::Dimension;
use crate::ledger::{Ledger, LedgerRow, Rest, Section};
use crate::number::{Amounts, duration, seconds};
use crate::report::Report;
use crate::sums::{self, Sums};

pub(super) fn render(report: &Report, page: &mut Page) {
    let ledger = &report.ledger;
    let amounts = Amounts::of(&report.meta);
    db_time(report, amounts, page);
    let total = ledger.total();
    if total.total_ns() == 0 {
        return;
    }
    for dimension in ledger.not_recorded() {
        page.paragraph(&format!("'{dimension}' was not recorded."));
    }
    let sections = match report.db_time_ns() {
        0 => {
            page.paragraph(NOBODY_WAS_ACTIVE);
            page.line("");
            &Section::ALL[1..]
        }
        _ => {
            page.heading(&heading(ledger, Section::DbTime, amounts));
            &Section::ALL[..]
        }
    };
    page.table(&table(ledger, sections, amounts));
    page.line("");
    words(report, &total, page);
}

const NOBODY_WAS_ACTIVE: &str = "No session of a client was active.";

/// Only DB time.
pub(super) fn render_db_time(report: &Report, page: &mut Page) {
    let amounts = Amounts::of(&report.meta);
    db_time(report, amounts, page);
    if report.db_time_ns() > 0 {
        page.heading(&heading(&report.ledger, Section::DbTime, amounts));
        page.table(&table(&report.ledger, &[Section::DbTime], amounts));
        page.line("");
        words(report, report.ledger.sum(Section::DbTime), page);
    } else if report.ledger.total().total_ns() > 0 {
        page.paragraph(NOBODY_WAS_ACTIVE);
    }
}

/// How much there is in total, and on average at a time.
fn db_time(report: &Report, amounts: Amounts, page: &mut Page) {
    let average = report
        .average_active_sessions()
        .map_or_else(|| "?".to_string(), |sessions| format!("{sessions:.2}"));
    page.heading(&format!(
        "DB time {}{}",
        amounts.with_unit(report.db_time_ns()),
        match amounts.are_times() && report.elapsed_ns() > 0 {
            true => format!(
                " in {} s elapsed: {average} average active sessions (AAS)",
                seconds(report.elapsed_ns())
            ),
            false => String::new(),
        },
    ));
    if let Some(of) = &report.transactions {
        page.paragraph(&format!(
            "Transactions per second: {}; DB time per transaction: {}.",
            rate(of.per_second),
            duration(of.mean_db_time_ns.round() as u128)
        ));
    }
    if let Some(sentence) = report.saturation.as_ref().and_then(|of| of.sentence.as_ref()) {
        page.paragraph(sentence);
    }
}

/// What the words in the table mean.
fn words(report: &Report, shown: &Sums, page: &mut Page) {
    legend(report, shown, page);
    let is_by_wait = report.ledger.by.contains(&Dimension::Wait);
    if report.database_view.run_queue_inside_idle_waits_ns > 0 && is_by_wait {
        page.paragraph(
            "(no CPU): ready to run, but without a CPU; usually a command had arrived for the session. The \
             database calls this idle.",
        );
    }
}

/// What the columns mean.
fn legend(report: &Report, total: &Sums, page: &mut Page) {
    if !total.knows_states() {
        page.paragraph(match report.meta.files.is_empty() {
            true => "In which state the sessions were meanwhile is not known: no sample fell into this time.",
            false => "The source does not say what the operating system did meanwhile.",
        });
        return;
    }
    let mut legend =
        "user, kernel: on a CPU. runnable: ready to run, but without a CPU. disk: blocked on I/O. \
                      sleep: waiting for anything else."
            .to_string();
    if total.other_ns() > 0 {
        let others = [State::Stopped, State::Unknown]
            .into_iter()
            .filter(|state| total.state_ns(*state) > 0)
            .map(|state| match state {
                State::Stopped => "stopped",
                _ => "state not known",
            });
        let others: Vec<_> = others.collect();
        if !others.is_empty() {
            legend += &format!(" other: {}.", others.join("; "));
        }
        if total.state_ns(State::Cpu) > 0 {
            legend += " cpu: on a CPU, user or kernel not known.";
        }
    }
    page.paragraph(&legend);
}

fn heading(ledger: &Ledger, section: Section, amounts: Amounts) -> String {
    let what = match section {
        Section::DbTime => "Where DB time went",
        Section::Idle => "Not part of DB time: sessions waiting for work",
        Section::Background => "Not part of DB time: background processes",
    };
    format!("{what} ({}, {})", amounts.unit(), fidelity(ledger.sum(section)))
}

fn fidelity(sums: &Sums) -> &'static str {
    match sums.fidelity() {
        Some(mix) => mix.words(),
        None => "none",
    }
}

fn dimension_heading(dimension: &Dimension) -> &'static str {
    match dimension {
        Dimension::Wait => "wait event",
        Dimension::WaitClass => "wait class",
        Dimension::BackendType => "process",
        Dimension::Program => "program",
        Dimension::Second => "second (UTC)",
        other => other.as_str(),
    }
}

/// Time in the states without a column of their own.
fn other_ns(sums: &Sums) -> u128 {
    sums.state_ns(State::Stopped) + sums.state_ns(State::Unknown)
}

/// Heading, and nanoseconds of a row.
type Column = (&'static str, fn(&Sums) -> u128);

/// Columns of times: one per state, but optional ones only if they have any time, and just the total if the rows are single
/// states or no state is known.
fn columns(sum: &Sums, by: &[Dimension]) -> Vec<Column> {
    if by.contains(&Dimension::State) || !sum.knows_states() {
        return vec![("total", Sums::total_ns)];
    }
    let mut columns: Vec<Column> = vec![
        ("user", |sums| sums.state_ns(State::User)),
        ("kernel", |sums| sums.state_ns(State::Kernel)),
        ("runnable", |sums| sums.state_ns(State::Runnable)),
        ("disk", |sums| sums.state_ns(State::Disk)),
        ("sleep", |sums| sums.state_ns(State::Sleep)),
    ];
    if sum.state_ns(State::Cpu) > 0 {
        // A source that does not know CPU modes has neither of the two.
        if sum.state_ns(State::User) + sum.state_ns(State::Kernel) == 0 {
            columns.drain(..2);
        }
        columns.insert(0, ("cpu", |sums| sums.state_ns(State::Cpu)));
    }
    if other_ns(sum) > 0 {
        columns.push(("other", other_ns));
    }
    columns.push(("total", Sums::total_ns));
    columns
}

/// `sections`: the ones to show, DB time first.
fn table(ledger: &Ledger, sections: &[Section], amounts: Amounts) -> Table {
    let mut shown = Sums::default();
    sections
        .iter()
        .for_each(|section| shown.merge(ledger.sum(*section)));
    let columns = columns(&shown, &ledger.by);
    let mut text_heads: Vec<&str> = ledger.by.iter().map(dimension_heading).collect();
    if text_heads.is_empty() {
        text_heads.push("");
    }
    let mut number_heads: Vec<&str> = columns.iter().map(|(head, _)| *head).collect();
    number_heads.push("%");
    let mut table = Table::new(&text_heads, &number_heads);
    for &section in sections {
        let sum = ledger.sum(section);
        // If calls are traced, a session may have been seen in a wait for no time at all.
        let mut rows: Vec<&LedgerRow> = ledger
            .section(section)
            .filter(|row| row.sums.total_ns() > 0)
            .collect();
        if section != Section::DbTime {
            if rows.is_empty() {
                continue;
            }
            table.heading(heading(ledger, section, amounts));
        }
        let numbers = |sums: &Sums| -> Vec<String> {
            let part = sums::percent(sums.total_ns(), sum.total_ns());
            columns
                .iter()
                .map(|(_, column)| amounts.cell(column(sums)))
                .chain([percent(part)])
                .collect()
        };
        let idle = match ledger.by.as_slice() {
            [Dimension::Wait] => idle_background(&mut rows),
            _ => None,
        };
        for row in &rows {
            let mut cells = labels(row, &ledger.by, text_heads.len());
            cells.extend(numbers(&row.sums));
            table.row(cells);
        }
        if let Some((events, sums)) = &idle {
            let mut cells = vec![format!("idle, {events} wait events (--by wait,backend_type)")];
            cells.extend(numbers(sums));
            table.row(cells);
        }
        // The sum of a single row says nothing new, except what DB time is.
        let name = match section {
            Section::DbTime => "DB time",
            Section::Idle | Section::Background if rows.len() + usize::from(idle.is_some()) == 1 => continue,
            Section::Idle | Section::Background => "sum",
        };
        let mut cells = vec![String::new(); text_heads.len()];
        cells[0] = name.to_string();
        cells.extend(numbers(sum));
        table.rule();
        table.row(cells);
    }
    table
}

/// Removes what background processes did while they waited for work: half a screen without information, in every report.
/// Returns the number of rows, and their sum; a single row stays.
fn idle_background(rows: &mut Vec<&LedgerRow>) -> Option<(usize, Sums)> {
    // The first process of a server has no wait interface: it sleeps until somebody connects.
    let sleeps = |row: &LedgerRow| {
        row.wait
            .as_ref()
            .is_some_and(|wait| wait.kind() == WaitKind::Unknown)
            && row.sums.state_ns(State::Sleep) == row.sums.total_ns()
    };
    let is_idle = |row: &LedgerRow| row.section == Section::Background && (row.rest.is_idle() || sleeps(row));
    let (idle, others): (Vec<&LedgerRow>, Vec<&LedgerRow>) = rows.iter().partition(|row| is_idle(row));
    if idle.len() < 2 {
        return None;
    }
    *rows = others;
    let mut sums = Sums::default();
    idle.iter().for_each(|row| sums.merge(&row.sums));
    Some((idle.len(), sums))
}

/// Texts of the group. Background sections mix idle waits with others, so they are marked; and sessions with and without open
/// transactions are mixed, too.
fn labels(row: &LedgerRow, by: &[Dimension], columns: usize) -> Vec<String> {
    let mut labels = row.labels.clone();
    labels.resize(columns, String::new());
    let mark = match (row.rest, row.section) {
        (Rest::IdleInTransaction, _) if !by.contains(&Dimension::SessionState) => "(in transaction)",
        (Rest::Idle, Section::Background) => "(idle)",
        _ => return labels,
    };
    if let Some(last) = labels.last_mut() {
        if !last.is_empty() {
            last.push(' ');
        }
        last.push_str(mark);
    }
    labels
}
