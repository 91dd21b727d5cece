//! Commands by statement: how long they took, and what the slow ones did differently.

use super::page::{Page, Table, percent};
use super::{header, quality};
use crate::commands::{CommandReport, Commands, RangeLedger, StatementCommands};
use crate::group::{NOT_KNOWN, query_id};
use crate::histogram::Histogram;
use crate::number::{counted, duration, seconds};
use crate::statement_text::{beginning, cell};
use crate::sums::percent as percent_of;

/// Characters of a statement's text in the table, and above a comparison.
const TEXT: usize = 80;
/// Rows of a comparison below this share of both means are merged.
const SMALL: f64 = 0.01;

pub(super) fn render(report: &CommandReport, page: &mut Page) {
    header::recording(&report.meta, report.period, &report.filter, page);
    if report.all.latencies.count() == 0 {
        page.heading(
            "There are no client commands in this part of the recording. They are recorded with 'dbtime \
             record --exact=calls'.",
        );
        quality::problems(&report.problems, page);
        return;
    }
    page.paragraph(
        "Exact: all numbers; quantiles are accurate to 1 %. A command lasts from when the server process has \
         received it until that process asks the client for the next one. The middle half are the commands \
         between the first and the third quartile.",
    );
    quality::latencies_lost(&report.meta, page);
    table(report, page);
    if report.statements.len() + report.others.0 > 1 {
        page.heading("All commands");
        comparison(&report.all, page);
    }
    for statement in &report.statements {
        page.heading(&heading(statement));
        comparison(&statement.commands, page);
    }
    quality::problems(&report.problems, page);
}

fn heading(statement: &StatementCommands) -> String {
    match (statement.id, &statement.text) {
        (0, _) => "Commands whose query is not known".to_string(),
        (id, Some(text)) => format!("Query {}: {}", query_id(id), beginning(text, TEXT)),
        (id, None) => format!("Query {}", query_id(id)),
    }
}

/// The latencies.
fn table(report: &CommandReport, page: &mut Page) {
    page.heading("Latency of commands by query (ms, exact)");
    let numbers = [
        "commands", "p50", "p90", "p99", "p99.9", "longest", "total s", "%",
    ];
    let mut table = Table::new(&["query", "statement"], &numbers);
    let all = report.all.latencies.sum_ns();
    let cells = |latencies: &Histogram| {
        let at = |q: f64| latencies.quantile(q).map_or_else(String::new, |ns| ms(ns as f64));
        [
            latencies.count().to_string(),
            at(0.5),
            at(0.9),
            at(0.99),
            at(0.999),
            ms(latencies.max_ns() as f64),
            seconds(latencies.sum_ns()),
            percent(percent_of(latencies.sum_ns(), all)),
        ]
    };
    for statement in &report.statements {
        let (id, text) = match statement.id {
            0 => (String::new(), NOT_KNOWN.to_string()),
            id => (query_id(id), cell(id, statement.text.as_deref(), TEXT)),
        };
        let mut row = vec![id, text];
        row.extend(cells(&statement.commands.latencies));
        table.row(row);
    }
    let (others, latencies) = &report.others;
    if *others > 0 {
        let mut row = vec![String::new(), counted(*others, "other")];
        row.extend(cells(latencies));
        table.row(row);
    }
    table.rule();
    let mut row = vec![String::new(), "all".to_string()];
    row.extend(cells(&report.all.latencies));
    table.row(row);
    page.table(&table);
}

fn comparison(commands: &Commands, page: &mut Page) {
    let (Some(median), Some(slow)) = (&commands.median, &commands.slow) else {
        page.paragraph(&format!(
            "{}: too few to compare the slow ones with the others.",
            counted(commands.latencies.count(), "command")
        ));
        return;
    };
    page.paragraph(&sentence(commands, median, slow));
    let mut table = Table::new(
        &["wait", "state"],
        &["middle half, ms", "slowest 1 %, ms", "more, ms"],
    );
    let mut small = (0, 0.0, 0.0);
    for ((wait, state), in_median, in_slow) in commands.rows() {
        if in_median < SMALL * median.mean_ns && in_slow < SMALL * slow.mean_ns {
            small = (small.0 + 1, small.1 + in_median, small.2 + in_slow);
            continue;
        }
        table.row(vec![
            wait.to_string(),
            state.to_string(),
            ms(in_median),
            ms(in_slow),
            more(in_slow - in_median),
        ]);
    }
    if small.0 > 0 {
        table.row(vec![
            counted(small.0, "smaller row"),
            String::new(),
            ms(small.1),
            ms(small.2),
            more(small.2 - small.1),
        ]);
    }
    table.rule();
    table.row(vec![
        "mean latency".to_string(),
        String::new(),
        ms(median.mean_ns),
        ms(slow.mean_ns),
        more(slow.mean_ns - median.mean_ns),
    ]);
    page.table(&table);
}

/// What makes the slow ones slow.
fn sentence(commands: &Commands, median: &RangeLedger, slow: &RangeLedger) -> String {
    let p99 = commands.latencies.quantile(0.99).unwrap_or_default();
    let difference = slow.mean_ns - median.mean_ns;
    let slowest = match slow.commands.round() as u64 {
        1 => format!("The slowest takes {}", length(slow.mean_ns)),
        many => format!(
            "The slowest {many} take {} on average, and {} at most",
            length(slow.mean_ns),
            duration(commands.latencies.max_ns().into())
        ),
    };
    let mut text = format!(
        "p99 is {}. {slowest}, those of the middle half {}",
        duration(p99.into()),
        length(median.mean_ns),
    );
    let causes = commands.causes();
    let grown = causes
        .iter()
        .filter(|cause| cause.more_ns() > 0.1 * difference)
        .take(3);
    let parts: Vec<String> = grown
        .map(|of| {
            format!(
                "{} {}, against {}",
                length(of.slow_ns),
                of.cause,
                length(of.median_ns)
            )
        })
        .collect();
    if difference <= 0.0 || parts.is_empty() {
        return text + ".";
    }
    text += ": ";
    text + &parts.join("; ") + " in the middle half."
}

/// A mean, in a suitable unit.
fn length(ns: f64) -> String {
    match ns.round() as u128 {
        0 => "0".to_string(),
        ns => duration(ns),
    }
}

/// Milliseconds, to the microsecond.
fn ms(ns: f64) -> String {
    format!("{:.3}", ns / 1e6)
}

fn more(ns: f64) -> String {
    format!("{:+.3}", ns / 1e6)
}
