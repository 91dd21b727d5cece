//! What changed between two recordings.

use std::sync::Arc;

use dbtime_model::recording::Clock;

use super::page::{Page, Table};
use super::{diff_causes, diff_executions, header};
use crate::diff::{Change, Diff, LatencyChange, Place, StatementChange, Verdict, amount, is_at_limit};
use crate::function::Function;
use crate::group::{moment, query_id};
use crate::number::{Amounts, counted, duration, seconds};
use crate::server_start::start_of_server;
use crate::statement_text::cell;
use crate::work::WorkUnit;

/// Functions of a call path that are shown, from its end.
const SHOWN_OF_PATH: usize = 4;
/// Distributions that are shown as histograms.
const HISTOGRAMS: usize = 2;

/// How the answer is laid out at the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstLine {
    /// In one line, however long: grepping or cutting the first line yields all of it.
    Whole,
    /// Wrapped like other text.
    Wrapped,
}

pub(super) fn render(diff: &Diff, first_line: FirstLine, page: &mut Page) {
    head(diff, first_line, page);
    statements(diff, page);
    times("Ledger: wait event and state", &diff.cells, diff, page);
    times("Wait events", &diff.waits, diff, page);
    diff_causes::render(diff, page);
    functions(diff, page);
    times(
        "Call paths, down to where the difference spreads out",
        &diff.paths,
        diff,
        page,
    );
    times("Modules", &diff.modules, diff, page);
    latencies(diff, page);
    counters(diff, page);
    for problem in &diff.problems {
        page.paragraph(&format!("Not read: {problem}"));
    }
}

/// The answer, and what was compared: everything except the tables.
pub(super) fn head(diff: &Diff, first_line: FirstLine, page: &mut Page) {
    let statement = diff.statements.as_ref().map_or("", |of| of.sentence.as_str());
    let answer = diff.answer();
    let sentences = [diff.headline.as_str(), statement, &answer];
    let sentences: Vec<&str> = sentences.into_iter().filter(|text| !text.is_empty()).collect();
    match first_line {
        FirstLine::Whole => page.line(&sentences.join(" ")),
        FirstLine::Wrapped => page.paragraph(&sentences.join(" ")),
    }
    if !diff.whole.is_empty() {
        page.paragraph(&diff.whole);
    }
    page.line("");
    for (side, name) in diff.sides.iter().zip(["GOOD", "BAD"]) {
        let how = side.fidelity.map_or("none", |fidelity| fidelity.words());
        let database = side.meta.database.in_short();
        let when = match side.meta.collector.clock {
            Clock::Utc => format!(
                ", {} UTC, {}",
                moment(side.period.from_us),
                header::length(side.period)
            ),
            Clock::Relative => format!(", {} s", seconds(side.period.elapsed_ns())),
            Clock::None => String::new(),
        };
        page.paragraph(&format!(
            "{name}: {}{when}, DB time {} ({how}), {}",
            match (database.is_empty(), &side.meta.files[..]) {
                (true, [file]) => file.path.clone(),
                (true, files) if !files.is_empty() => counted(files.len(), "file"),
                _ => database,
            },
            Amounts::of(&side.meta).with_unit(side.db_time_ns),
            work(side.work, diff.unit),
        ));
    }
    let of_statements = match &diff.statements {
        Some(statements) if statements.per != diff.unit => format!("; statements are per {}", statements.per),
        _ => String::new(),
    };
    page.paragraph(&format!(
        "Everything is per {}{}{of_statements}.",
        diff.unit,
        unit(diff)
    ));
    for warning in &diff.warnings {
        page.paragraph(&format!("Warning: {warning}."));
    }
    page.paragraph(&noise(diff));
}

fn work(work: f64, unit: WorkUnit) -> String {
    match unit {
        WorkUnit::Second => "compared by elapsed time".to_string(),
        WorkUnit::Run => "compared as a whole".to_string(),
        _ => format!("{work:.0} {unit}s"),
    }
}

fn unit(diff: &Diff) -> &'static str {
    match diff.unit {
        WorkUnit::Transaction if diff.unit_is_told => ", as you counted them",
        WorkUnit::Transaction | WorkUnit::Execution => ", as the database counted them",
        WorkUnit::Request => {
            ": a request is one completed wait for the client (Client:ClientRead), counted exactly"
        }
        WorkUnit::Call => ": a system call in a trace of the kernel",
        WorkUnit::Second => " of elapsed time",
        WorkUnit::Sample => ": the sources have no times; 100 % is all samples of a side",
        WorkUnit::Run => ": the whole of each side",
    }
}

fn noise(diff: &Diff) -> String {
    let test = &diff.noise;
    let [good, bad] = [0, 1].map(|side| diff.sides[side].slices);
    let mut text = if test.tested {
        format!(
            "Noise: bootstrap over {good} and {bad} slices of time, {} resamples, in blocks; limit by the \
             maximum over everything compared, so that equal recordings show anything significant in {:.0} \
             % of comparisons; and larger than the change between the halves of either side (else it \
             \"varies\"). Below {:.0} % of DB time: small, not tested. The host's time (run queue, \
             scheduling, waking, interrupts) is shown, not tested.",
            test.resamples,
            test.level * 100.0,
            test.smallest_share * 100.0
        )
    } else {
        format!(
            "Noise: not tested, each side needs at least {} s.",
            test.fewest_slices
        )
    };
    if (diff.common_factor - 1.0).abs() >= 0.005 {
        text += &format!(
            " What both sides do takes {:.2} times as long in BAD{}: removed before the test, not from the \
             numbers shown.",
            diff.common_factor,
            match is_at_limit(diff.common_factor) {
                true if diff.common_factor < 1.0 => ", or less",
                true => ", or more",
                false => "",
            }
        );
    }
    text
}

/// Where a difference is, in words.
pub(super) fn place(place: &Place) -> String {
    match place {
        Place::All => "DB time".to_string(),
        Place::Cell(wait, state) => format!("{wait}, {state}"),
        Place::Wait(wait) => wait.to_string(),
        Place::Function(function) => function.label(),
        Place::Path(path) => end_of_path(path, false),
        Place::Module(name) => name.clone(),
        Place::Statement(0) => String::new(),
        Place::Statement(id) => query_id(*id),
    }
}

/// The last functions of a call path, perhaps with its first one.
fn end_of_path(path: &[Arc<Function>], with_first: bool) -> String {
    let names: Vec<&str> = path.iter().map(|function| function.name.as_str()).collect();
    let path = &path[start_of_server(&names)..];
    let hidden = path.len().saturating_sub(SHOWN_OF_PATH);
    let mut names: Vec<String> = path[hidden..].iter().map(|function| function.label()).collect();
    if hidden > 0 {
        names.insert(0, "..".to_string());
        if with_first {
            names.insert(0, path[0].label());
        }
    }
    names.join(" > ")
}

/// What the rows of a table are called. Call paths that end alike, such as a leader's and its workers', are told apart by how they begin.
fn names(shown: &[&Change]) -> Vec<String> {
    let places: Vec<String> = shown.iter().map(|change| place(&change.place)).collect();
    let is_twice = |name: &String| places.iter().filter(|other| *other == name).count() > 1;
    let each = shown.iter().zip(&places);
    each.map(|(change, name)| match &change.place {
        Place::Path(path) if is_twice(name) => end_of_path(path, true),
        _ => name.clone(),
    })
    .collect()
}

pub(super) fn signed(value: f64, unit: WorkUnit) -> String {
    let sign = match value {
        value if value > 0.0 => "+",
        value if value < 0.0 => "-",
        _ => return "-".to_string(),
    };
    format!("{sign}{}", amount(value.abs(), unit))
}

pub(super) fn if_any(value: f64, unit: WorkUnit) -> String {
    if value == 0.0 {
        "-".to_string()
    } else {
        amount(value, unit)
    }
}

pub(super) fn verdict(verdict: Verdict) -> String {
    match verdict {
        Verdict::Significant => "yes".to_string(),
        other => other.as_str().to_string(),
    }
}

/// The changes other than zero, up to the requested number.
fn shown<'a>(changes: &'a [Change], diff: &Diff) -> Vec<&'a Change> {
    changes
        .iter()
        .filter(|change| change.difference != 0.0)
        .take(diff.top)
        .collect()
}

fn times(title: &str, changes: &[Change], diff: &Diff, page: &mut Page) {
    let shown = shown(changes, diff);
    if shown.is_empty() {
        return;
    }
    page.heading(&format!(
        "{title} (per {}, the largest difference first)",
        diff.unit
    ));
    let mut table = Table::new(
        &[""],
        &["GOOD", "BAD", "difference", "% of DB time", "significant"],
    );
    for (name, change) in names(&shown).into_iter().zip(shown) {
        table.row(row(name, change, diff));
    }
    table.rule();
    table.row(row("DB time".to_string(), &diff.total, diff));
    page.table(&table);
}

fn row(name: String, change: &Change, diff: &Diff) -> Vec<String> {
    let is_sum = change.place == Place::All;
    vec![
        name,
        if_any(change.per_unit[0], diff.unit),
        if_any(change.per_unit[1], diff.unit),
        signed(change.difference, diff.unit),
        format!("{:+.1}", change.percent),
        if is_sum {
            String::new()
        } else {
            verdict(change.verdict)
        },
    ]
}

/// Characters of a statement's text.
const TEXT: usize = 100;

fn statements(diff: &Diff, page: &mut Page) {
    let Some(statements) = &diff.statements else {
        return;
    };
    let unit = statements.per;
    let shown: Vec<&StatementChange> = statements
        .changes
        .iter()
        .filter(|statement| statement.change.difference != 0.0)
        .take(diff.top)
        .collect();
    if shown.is_empty() {
        return;
    }
    let counted = match unit {
        WorkUnit::Transaction if unit != diff.unit && statements.counted_by.is_some() => {
            ", all of them, as they were counted in the sessions' memory"
        }
        WorkUnit::Transaction if unit != diff.unit => {
            ", all of them, as they were counted in the sessions' memory: executions of single statements are not counted"
        }
        _ => "",
    };
    page.heading(&format!(
        "Statements (per {unit}{counted}; the largest difference first)"
    ));
    let mut table = Table::new(
        &["query", "statement", "most of the difference in"],
        &["GOOD", "BAD", "difference", "% of DB time", "significant"],
    );
    let numbers = |change: &Change| {
        [
            if_any(change.per_unit[0], unit),
            if_any(change.per_unit[1], unit),
            signed(change.difference, unit),
            format!("{:+.1}", change.percent),
        ]
    };
    for statement in &shown {
        let change = &statement.change;
        let id = statement.sql_id.clone().unwrap_or_else(|| place(&change.place));
        let text = match change.place {
            Place::Statement(id) => cell(id, statement.text.as_deref(), TEXT),
            _ => String::new(),
        };
        let mut cells = vec![id, text, most(statement)];
        cells.extend(numbers(change));
        cells.push(verdict(change.verdict));
        table.row(cells);
    }
    table.rule();
    let mut cells = vec!["DB time".to_string(), String::new(), String::new()];
    cells.extend(numbers(&statements.total));
    cells.push(String::new());
    table.row(cells);
    page.table(&table);
    diff_executions::render(statements, &shown, page);
}

/// The cell that differs most in the direction of the whole.
fn most(statement: &StatementChange) -> String {
    let is_along = |cell: &&Change| cell.difference * statement.change.difference > 0.0;
    statement
        .cells
        .iter()
        .find(is_along)
        .map_or_else(String::new, |cell| place(&cell.place))
}

fn functions(diff: &Diff, page: &mut Page) {
    let shown = shown(&diff.functions, diff);
    if shown.is_empty() {
        return;
    }
    page.heading(&format!(
        "Functions (per {}, by the difference in self time; total = with all they called)",
        diff.unit
    ));
    let mut table = Table::new(
        &["function", "module"],
        &["total GOOD", "total BAD", "self", "% of DB time", "significant"],
    );
    for change in shown {
        let Place::Function(function) = &change.place else {
            continue;
        };
        table.row(vec![
            function.label(),
            function.module.clone(),
            if_any(change.per_unit[0], diff.unit),
            if_any(change.per_unit[1], diff.unit),
            signed(change.difference, diff.unit),
            format!("{:+.1}", change.percent),
            verdict(change.verdict),
        ]);
    }
    page.table(&table);
}

fn latencies(diff: &Diff, page: &mut Page) {
    let shown: Vec<&LatencyChange> = diff
        .latencies
        .iter()
        .filter(|change| change.histograms[0] != change.histograms[1])
        .take(diff.top)
        .collect();
    if shown.is_empty() {
        return;
    }
    page.heading("Latencies of single events (exact; ~ = the change is noise or small)");
    let per = format!("per {}", diff.unit);
    let mut table = Table::new(
        &["kind", "event", ""],
        &[&per, "mean", "p50", "p95", "p99", "max"],
    );
    for change in &shown {
        for (side, label) in [(0, "GOOD"), (1, "BAD")] {
            let first = side == 0;
            let mut cells = vec![
                if first { change.kind.clone() } else { String::new() },
                if first { change.name.clone() } else { String::new() },
                label.to_string(),
                format!("{:.2}", change.per_unit[side]),
            ];
            for quantity in &change.quantities {
                let text = quantity.ns[side].map_or_else(|| "-".to_string(), |ns| duration(ns as u128));
                let mark = match quantity.verdict {
                    Verdict::Significant => "",
                    _ if first => "",
                    _ => "~",
                };
                cells.push(format!("{mark}{text}"));
            }
            cells.push(duration(change.histograms[side].max_ns().into()));
            table.row(cells);
        }
    }
    page.table(&table);
    for change in shown.iter().take(HISTOGRAMS) {
        histogram(change, page);
    }
}

/// Both histograms side by side.
fn histogram(change: &LatencyChange, page: &mut Page) {
    let buckets = change
        .histograms
        .each_ref()
        .map(|histogram| histogram.power_of_two_us());
    page.heading(&format!(
        "{} {}: events by latency, % of each side",
        change.kind, change.name
    ));
    let mut table = Table::new(&["from us", "to us"], &["GOOD", "BAD"]);
    let mut bounds: Vec<(u64, u64)> = buckets
        .iter()
        .flatten()
        .map(|bucket| (bucket.from_us, bucket.to_us))
        .collect();
    bounds.sort_unstable();
    bounds.dedup();
    for (from, to) in bounds {
        let part = |side: usize| {
            let bucket = buckets[side].iter().find(|bucket| bucket.from_us == from);
            let count = bucket.map_or(0, |bucket| bucket.count);
            match crate::sums::percent(count, change.histograms[side].count()) {
                Some(percent) if count > 0 => format!("{percent:.2}"),
                _ => "-".to_string(),
            }
        };
        table.row(vec![from.to_string(), to.to_string(), part(0), part(1)]);
    }
    page.table(&table);
}

fn counters(diff: &Diff, page: &mut Page) {
    let shown: Vec<_> = diff
        .counters
        .iter()
        .filter(|change| change.per_unit[0] != change.per_unit[1])
        .take(diff.top)
        .collect();
    if shown.is_empty() {
        return;
    }
    page.heading(&format!(
        "Counters (per {}, the largest relative change first)",
        diff.unit
    ));
    let mut table = Table::new(
        &["source", "counter"],
        &["GOOD", "BAD", "difference", "%", "significant"],
    );
    for change in shown {
        let [good, bad] = change.per_unit;
        table.row(vec![
            change.source.to_string(),
            change.name.to_string(),
            format!("{good:.2}"),
            format!("{bad:.2}"),
            format!("{:+.2}", bad - good),
            match good == 0.0 {
                true => "new".to_string(),
                false => format!("{:+.0}", (bad - good) / good.abs() * 100.0),
            },
            verdict(change.verdict),
        ]);
    }
    page.table(&table);
    if !diff.counters_of_one_side.is_empty() {
        page.paragraph(&format!(
            "Recorded on one side only, so not compared: {}.",
            diff.counters_of_one_side.join(", ")
        ));
    }
}
