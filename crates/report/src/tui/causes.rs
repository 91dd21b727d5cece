//! Who was waited for, as a table: sessions behind the one that held them up, or what each wait was for.

use super::answers::Answers;
use super::table::{Column, Row, Setting, Subject, Table, Weight};
use super::views::{Rate, TEXT, share, sorted};
use crate::causes::{CauseReport, Waiting, no_session, why_not_recorded};
use crate::locks::LockShare;
use crate::number::counted;
use crate::statement_text::cell;
use crate::text::what_cause;

/// Orders of the rows: trees of sessions, or wait by wait.
pub(super) fn table(answers: &Answers, rate: Rate, order: usize) -> Table {
    let Some(report) = &answers.causes else {
        return Table::default();
    };
    if !report.is_recorded() {
        return Table {
            nothing: why_not_recorded(&report.meta).to_string(),
            ..Table::default()
        };
    }
    match order {
        1 => by_wait(report, rate),
        _ => chains(report, rate),
    }
}

const NOBODY_WAITED: &str = "no session was blocked in these seconds";

/// Each session is below the one that it waited for.
fn chains(report: &CauseReport, rate: Rate) -> Table {
    let columns = vec![
        Column::new("waited", Setting::Number, 0),
        Column::new("behind it", Setting::Number, 0),
        Column::new("%", Setting::Number, 2),
        Column::new("session", Setting::Text(24), 0),
        Column::new("was", Setting::Text(16), 0),
        Column::new("for", Setting::Text(16), 1),
        Column::new("statement", Setting::Text(16), 1),
    ];
    let mut rows = Vec::new();
    for chain in &report.chains {
        let did = chain.doing.first();
        let root = did.and_then(|part| part.root.as_ref());
        let cells = vec![
            "-".to_string(),
            rate.cell(chain.behind_ns),
            share(chain.behind_ns, report.blocked_ns),
            match &chain.who {
                Some(who) => who.to_string(),
                None => no_session(chain.kind).to_string(),
            },
            did.map_or_else(String::new, what_cause),
            String::new(),
            root.map_or_else(String::new, |root| {
                statement(root.statement, root.text.as_deref())
            }),
        ];
        let subject = subject(chain.who.as_ref().map_or(0, |who| who.pid), rows.len());
        rows.push(Row::new(subject, Weight::Strong, cells));
        behind(&chain.behind, 0, report, rate, &mut rows);
    }
    if !rows.is_empty() {
        rows.push(all(report, rate));
    }
    Table {
        columns: sorted(columns, 1),
        rows,
        nothing: NOBODY_WAITED.to_string(),
    }
    .without_if_empty("for")
}

fn behind(waiting: &[Waiting], level: usize, report: &CauseReport, rate: Rate, rows: &mut Vec<Row>) {
    let branch = format!("└{}", "─".repeat(level));
    for one in waiting {
        let (was, text) = match one.waits.first() {
            Some((wait, id, _)) => (wait.to_string(), statement(*id, one.text.as_deref())),
            None => ("seen in waits of others".to_string(), String::new()),
        };
        let cells = vec![
            rate.cell(one.ns),
            rate.cell(one.behind_ns),
            share(one.ns, report.blocked_ns),
            format!("{branch} {}", one.who),
            was,
            one.lock.as_ref().map_or_else(String::new, ToString::to_string),
            text,
        ];
        rows.push(Row::new(subject(one.who.pid, rows.len()), Weight::Usual, cells));
        behind(&one.behind, level + 1, report, rate, rows);
        if one.beyond.sessions > 0 {
            let who = counted(one.beyond.sessions, "session");
            let cells = vec![
                rate.cell(one.beyond.ns),
                String::new(),
                share(one.beyond.ns, report.blocked_ns),
                format!("{branch}─ {who} behind it"),
                String::new(),
                String::new(),
                String::new(),
            ];
            rows.push(Row::new(subject(0, rows.len()), Weight::Faint, cells));
        }
    }
}

fn all(report: &CauseReport, rate: Rate) -> Row {
    let cells = vec![
        rate.cell(report.blocked_ns),
        String::new(),
        String::new(),
        "all blocked DB time".to_string(),
        format!("{} % followed", share(report.followed_ns, report.blocked_ns)),
        String::new(),
        String::new(),
    ];
    Row::new(Subject::Sum, Weight::Strong, cells)
}

/// What was waited for in the end, wait by wait.
fn by_wait(report: &CauseReport, rate: Rate) -> Table {
    let columns = vec![
        Column::new("AAS", Setting::Number, 0),
        Column::new("%", Setting::Number, 0),
        Column::new("wait event", Setting::Text(16), 0),
        Column::new("waited for", Setting::Text(16), 0),
        Column::new("which was", Setting::Text(16), 0),
        Column::new("lock", Setting::Text(16), 1),
        Column::new("statement that waited", Setting::Text(16), 1),
    ];
    let mut parts: Vec<_> = (report.waits.iter())
        .flat_map(|wait| wait.by_doing.iter().map(move |group| (wait, group)))
        .collect();
    parts.sort_by_key(|(_, group)| std::cmp::Reverse(group.part.ns));
    let rows = parts.into_iter().enumerate().map(|(at, (wait, group))| {
        let root = group.part.root.as_ref();
        let (pid, who) = match (root, group.pids.len()) {
            (None, _) => (0, no_session(group.part.kind).to_string()),
            (Some(root), 0 | 1) => (root.pid, format!("pid {}", root.pid)),
            (Some(root), sessions) => (root.pid, counted(sessions, "session")),
        };
        let cells = vec![
            rate.cell(group.part.ns),
            share(group.part.ns, report.blocked_ns),
            wait.wait.to_string(),
            who,
            what_cause(&group.part),
            locks(&wait.locks),
            statement(wait.statement, wait.text.as_deref()),
        ];
        Row::new(subject(pid, at), Weight::Usual, cells)
    });
    Table {
        rows: rows.collect(),
        columns: sorted(columns, 0),
        nothing: NOBODY_WAITED.to_string(),
    }
    .without_if_empty("lock")
}

/// The lock that most of a wait was for, whoever held it, and how many others.
fn locks(of_wait: &[LockShare]) -> String {
    match of_wait {
        [] => String::new(),
        [one] => one.lock.to_string(),
        [first, others @ ..] => format!("{}, and {} more", first.lock, others.len()),
    }
}

/// A session may be in several rows.
fn subject(pid: u32, row: usize) -> Subject {
    Subject::Link(pid, row)
}

fn statement(id: u64, text: Option<&str>) -> String {
    match id {
        0 => String::new(),
        id => cell(id, text, TEXT),
    }
}
