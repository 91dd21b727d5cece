//! The answers as tables: the ledger, statements, sessions, stacks.

use std::cmp::Reverse;

use dbtime_model::{BackendType, State};

use super::answers::Answers;
use super::table::{Column, Row, Setting, Subject, Table, Weight};
use super::{causes, latency};
use crate::group::query_id;
use crate::ledger::Section;
use crate::recent::MoreTables;
use crate::session_work::SessionWork;
use crate::statement_text::cell;
use crate::sums::{Sums, percent};
use crate::top_sql::NoStatements;

/// Characters of a statement's text.
pub(super) const TEXT: usize = 400;
/// States that have a column of their own.
const STATES: [State; 5] = [
    State::User,
    State::Kernel,
    State::Runnable,
    State::Disk,
    State::Sleep,
];

/// What the lower part of the screen shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Wait event by state.
    Ledger,
    /// Statements.
    Sql,
    /// Sessions.
    Sessions,
    /// Stacks.
    Stacks,
    /// Who was waited for.
    Causes,
    /// How long single events took.
    Latency,
}

impl View {
    /// All of them, in the order of their keys.
    pub const ALL: [View; 6] = [
        View::Ledger,
        View::Sql,
        View::Sessions,
        View::Stacks,
        View::Causes,
        View::Latency,
    ];

    /// The views shown beside this one if there is room.
    pub fn beside(self) -> [View; 2] {
        match self {
            View::Ledger => [View::Sql, View::Sessions],
            View::Sql => [View::Ledger, View::Sessions],
            _ => [View::Ledger, View::Sql],
        }
    }

    /// The tables that it needs.
    pub fn needs(self) -> MoreTables {
        MoreTables {
            causes: self == View::Causes,
            latencies: self == View::Latency,
            held_locks: false,
            locks: self == View::Causes,
        }
    }

    /// Its name.
    pub fn title(self) -> &'static str {
        match self {
            View::Ledger => "Ledger",
            View::Sql => "SQL",
            View::Sessions => "Sessions",
            View::Stacks => "Stacks",
            View::Causes => "Causes",
            View::Latency => "Latency",
        }
    }

    /// How many sort orders its rows have.
    pub fn orders(self) -> usize {
        match self {
            View::Ledger | View::Sql | View::Sessions | View::Latency => 3,
            View::Causes => 2,
            View::Stacks => 1,
        }
    }
}

/// The rows of a view, in one of its orders.
pub fn table(answers: &Answers, view: View, order: usize) -> Table {
    let elapsed_ns = answers.report.elapsed_ns();
    let rate = Rate { elapsed_ns };
    match view {
        View::Ledger => ledger(answers, rate, order),
        View::Sql => sql(answers, rate, order),
        View::Sessions => sessions(answers, rate, order),
        View::Stacks => stacks(answers, rate),
        View::Causes => causes::table(answers, rate, order),
        View::Latency => latency::table(answers, rate, order),
    }
}

/// Average active sessions of an amount of time.
#[derive(Clone, Copy)]
pub(super) struct Rate {
    pub(super) elapsed_ns: u128,
}

impl Rate {
    pub(super) fn cell(self, ns: u128) -> String {
        match (ns, self.elapsed_ns) {
            (0, _) | (_, 0) => "-".to_string(),
            (ns, elapsed_ns) => format!("{:.2}", ns as f64 / elapsed_ns as f64),
        }
    }
}

pub(super) fn share(part: u128, whole: u128) -> String {
    percent(part, whole).map_or_else(String::new, |percent| format!("{percent:.1}"))
}

/// `number`: index of the column that rows are sorted by.
pub(super) fn sorted(mut columns: Vec<Column>, number: usize) -> Vec<Column> {
    if let Some(column) = columns.get_mut(number) {
        column.is_sorted = true;
    }
    columns
}

fn ledger(answers: &Answers, rate: Rate, order: usize) -> Table {
    let ledger = &answers.report.ledger;
    let db_time = ledger.db_time_ns();
    let total = ledger.total();
    let has_others = total.other_ns() > 0;
    let title = ledger.by.first().map_or("wait", |by| by.as_str());
    let title = if title == "wait" { "wait event" } else { title };
    let mut columns = vec![Column::new(title, Setting::Text(12), 0)];
    columns.extend(
        STATES
            .iter()
            .map(|state| Column::new(state.as_str(), Setting::Number, 2)),
    );
    if has_others {
        columns.push(Column::new("other", Setting::Number, 2));
    }
    columns.push(Column::new("AAS", Setting::Number, 0));
    columns.push(Column::new("%", Setting::Number, 1));
    let cells = |label: String, sums: &Sums, whole: u128| {
        let mut cells = vec![label];
        cells.extend(STATES.iter().map(|state| rate.cell(sums.state_ns(*state))));
        if has_others {
            cells.push(rate.cell(sums.other_ns()));
        }
        cells.push(rate.cell(sums.total_ns()));
        cells.push(match whole {
            0 => String::new(),
            whole => share(sums.total_ns(), whole),
        });
        cells
    };
    let mut of_db_time: Vec<_> = ledger.section(Section::DbTime).collect();
    let sorted_by = match order {
        1 => {
            of_db_time.sort_by_key(|row| Reverse(row.sums.on_cpu_ns()));
            1
        }
        2 => {
            of_db_time.sort_by_key(|row| row.labels.concat());
            0
        }
        _ => columns.len() - 2,
    };
    let mut rows: Vec<Row> = of_db_time
        .iter()
        .map(|row| {
            let label = row.labels.concat();
            let subject = match &row.wait {
                Some(wait) => Subject::Wait(wait.to_string()),
                None => Subject::Sum,
            };
            Row::new(subject, Weight::Usual, cells(label, &row.sums, db_time))
        })
        .collect();
    if !rows.is_empty() {
        let sum = ledger.sum(Section::DbTime);
        rows.push(Row::new(
            Subject::Sum,
            Weight::Strong,
            cells("DB time".to_string(), sum, db_time),
        ));
    }
    for (section, label) in [(Section::Idle, "idle"), (Section::Background, "background")] {
        let sum = ledger.sum(section);
        if sum.total_ns() > 0 {
            rows.push(Row::new(
                Subject::Sum,
                Weight::Faint,
                cells(label.to_string(), sum, 0),
            ));
        }
    }
    let mut columns = sorted(columns, sorted_by);
    if order == 1 {
        // Both columns together are the time on a CPU.
        columns[2].is_sorted = true;
    }
    Table {
        columns,
        rows,
        nothing: "no session did anything in these seconds".to_string(),
    }
}

fn sql(answers: &Answers, rate: Rate, order: usize) -> Table {
    let id = match answers.report.meta.database.has_fingerprints() {
        true => "fingerprint",
        false => "query",
    };
    let columns = vec![
        Column::new("%", Setting::Number, 0),
        Column::new("AAS", Setting::Number, 0),
        Column::new("on CPU", Setting::Number, 2),
        Column::new("disk", Setting::Number, 3),
        Column::new("main wait", Setting::Text(12), 1),
        Column::new(id, Setting::Number, 4),
        Column::new("statement", Setting::Text(20), 0),
    ];
    let top = match &answers.report.top_sql {
        Ok(top) => top,
        Err(why) => {
            let nothing = match why {
                NoStatements::NotRecorded => "no statement was executed in these seconds",
                NoStatements::WithoutIds => {
                    "the SQL is not known: the server does not compute query ids ('compute_query_id = on' \
                     makes it do so)"
                }
            };
            return Table {
                columns,
                rows: Vec::new(),
                nothing: nothing.to_string(),
            };
        }
    };
    let mut statements: Vec<_> = top.statements.iter().collect();
    let sorted_by = match order {
        1 => {
            statements.sort_by_key(|statement| Reverse(statement.sums.on_cpu_ns()));
            2
        }
        2 => {
            statements.sort_by_key(|statement| Reverse(statement.sums.state_ns(State::Disk)));
            3
        }
        _ => 0,
    };
    let rows = statements
        .into_iter()
        .map(|statement| {
            let name = match (&statement.sql_id, statement.id) {
                (Some(sql_id), _) => sql_id.clone(),
                (None, 0) => String::new(),
                (None, id) => query_id(id),
            };
            let subject = match statement.id {
                0 => Subject::Sum,
                id => Subject::Statement(id),
            };
            let cells = vec![
                share(statement.sums.total_ns(), top.db_time_ns),
                rate.cell(statement.sums.total_ns()),
                rate.cell(statement.sums.on_cpu_ns()),
                rate.cell(statement.sums.state_ns(State::Disk)),
                statement.main_wait.to_string(),
                name,
                cell(statement.id, statement.text.as_deref(), TEXT),
            ];
            Row::new(subject, Weight::Usual, cells)
        })
        .collect();
    Table {
        columns: sorted(columns, sorted_by),
        rows,
        nothing: "no session did anything in these seconds".to_string(),
    }
}

fn sessions(answers: &Answers, rate: Rate, order: usize) -> Table {
    let columns = vec![
        Column::new("pid", Setting::Number, 0),
        Column::new("user", Setting::Short(12), 2),
        Column::new("database", Setting::Short(12), 3),
        Column::new("application", Setting::Short(20), 5),
        Column::new("active", Setting::Number, 0),
        Column::new("state", Setting::Short(8), 0),
        Column::new("wait event", Setting::Text(18), 0),
        Column::new("session is", Setting::Short(20), 4),
        Column::new("statement", Setting::Text(16), 1),
    ];
    let mut sessions: Vec<&SessionWork> = answers.work.iter().collect();
    let sorted_by = match order {
        1 => {
            sessions.sort_by_key(|work| work.session.pid);
            0
        }
        2 => {
            sessions.sort_by(|one, other| one.session.user.cmp(&other.session.user));
            1
        }
        _ => 4,
    };
    let rows = sessions
        .into_iter()
        .map(|work| {
            let session = &work.session;
            let is_active = work.active.total_ns() > 0 && session.backend_type.is_foreground();
            let whose = match session.user.as_str() {
                "" => kind(session.backend_type.0.as_str()),
                user => user.to_string(),
            };
            let text = match work.statement {
                0 => String::new(),
                id => cell(id, work.text.as_deref(), TEXT),
            };
            let weight = if is_active { Weight::Usual } else { Weight::Faint };
            let cells = vec![
                match session.pid {
                    0 => "?".to_string(),
                    pid => pid.to_string(),
                },
                whose,
                session.database.clone(),
                session.application.clone(),
                match session.backend_type.0.as_str() {
                    // It has no wait events that could be idle.
                    BackendType::POSTMASTER => "-".to_string(),
                    _ => rate.cell(work.active.total_ns()),
                },
                work.main_state.0.to_string(),
                work.main_wait.0.to_string(),
                work.session_state.to_string(),
                text,
            ];
            Row::new(Subject::Session(session.pid, session.id.0), weight, cells)
        })
        .collect();
    Table {
        columns: sorted(columns, sorted_by),
        rows,
        nothing: "no session was seen in these seconds".to_string(),
    }
}

/// Shown instead of a user.
fn kind(backend_type: &str) -> String {
    match backend_type {
        BackendType::UNKNOWN => "[not known yet]".to_string(),
        kind => format!("[{kind}]"),
    }
}

fn stacks(answers: &Answers, rate: Rate) -> Table {
    let columns = vec![
        Column::new("%", Setting::Number, 0),
        Column::new("AAS", Setting::Number, 1),
        Column::new("wait event", Setting::Text(12), 1),
        Column::new("state", Setting::Short(8), 0),
        Column::new("stack, the innermost function first", Setting::Text(20), 0),
    ];
    let stacks = &answers.report.stacks;
    let mut rows: Vec<Row> = stacks
        .top
        .iter()
        .enumerate()
        .map(|(at, stack)| {
            let frames = stack.kernel.iter().rev().chain(stack.user.iter().rev());
            let frames: Vec<&str> = frames.map(String::as_str).collect();
            let text = match frames.is_empty() {
                true => "[no stack]".to_string(),
                false => frames.join(" < "),
            };
            let cells = vec![
                format!("{:.1}", stack.percent),
                rate.cell(stack.ns),
                stack.wait.to_string(),
                stack.state.to_string(),
                text,
            ];
            Row::new(Subject::Stack(at), Weight::Usual, cells)
        })
        .collect();
    if stacks.others > 0 {
        let cells = vec![
            share(stacks.others_ns, answers.report.db_time_ns()),
            rate.cell(stacks.others_ns),
            String::new(),
            String::new(),
            format!("{} others", stacks.others),
        ];
        rows.push(Row::new(Subject::Sum, Weight::Faint, cells));
    }
    Table {
        columns: sorted(columns, 0),
        rows,
        nothing: "no session did anything in these seconds".to_string(),
    }
}
