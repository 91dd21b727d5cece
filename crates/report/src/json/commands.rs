//! Commands by statement, and what the slow ones did differently.

use serde::Serialize;

use super::Head;
use crate::commands::{CauseTime, CommandReport, Commands, RangeLedger, RangeRow, StatementCommands};
use crate::group::known_query_id;
use crate::histogram::Histogram;

#[derive(Serialize)]
pub(super) struct Document<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    all: CommandsJson,
    statements: Vec<StatementJson<'a>>,
    statements_not_shown: usize,
    not_shown: LatenciesJson,
    latencies_lost: u64,
    problems: &'a [String],
}

#[derive(Serialize)]
struct StatementJson<'a> {
    /// As PostgreSQL prints it: signed; none: no statement was known.
    query: Option<String>,
    text: Option<&'a str>,
    #[serde(flatten)]
    commands: CommandsJson,
}

#[derive(Serialize)]
struct CommandsJson {
    #[serde(flatten)]
    latencies: LatenciesJson,
    /// None of too few commands.
    ledger: Option<LedgersJson>,
    /// What the slowest do more, the most first.
    causes: Vec<CauseJson>,
}

#[derive(Serialize)]
struct LatenciesJson {
    count: u128,
    total_ns: u128,
    mean_ns: Option<u128>,
    p50_ns: Option<u64>,
    p90_ns: Option<u64>,
    p99_ns: Option<u64>,
    p999_ns: Option<u64>,
    max_ns: Option<u64>,
}

/// Each sums to its mean latency.
#[derive(Serialize)]
struct LedgersJson {
    /// Commands of the middle half: a bucket at an end counts in part.
    median_commands: f64,
    median_mean_ns: f64,
    median: Vec<RowJson>,
    /// Of the slowest hundredth.
    slow_commands: f64,
    slow_mean_ns: f64,
    slow: Vec<RowJson>,
}

#[derive(Serialize)]
struct RowJson {
    wait: String,
    state: &'static str,
    /// Mean per command.
    ns: f64,
}

#[derive(Serialize)]
struct CauseJson {
    cause: String,
    median_ns: f64,
    slow_ns: f64,
}

impl<'a> From<&'a CommandReport> for Document<'a> {
    fn from(report: &'a CommandReport) -> Document<'a> {
        Document {
            head: Head::of(&report.meta, report.period),
            all: (&report.all).into(),
            statements: report.statements.iter().map(StatementJson::from).collect(),
            statements_not_shown: report.others.0,
            not_shown: (&report.others.1).into(),
            latencies_lost: report.meta.quality.latencies_lost,
            problems: &report.problems,
        }
    }
}

impl<'a> From<&'a StatementCommands> for StatementJson<'a> {
    fn from(of: &'a StatementCommands) -> StatementJson<'a> {
        StatementJson {
            query: known_query_id(of.id),
            text: of.text.as_deref(),
            commands: (&of.commands).into(),
        }
    }
}

impl From<&Commands> for CommandsJson {
    fn from(commands: &Commands) -> CommandsJson {
        let ledger = commands.median.as_ref().zip(commands.slow.as_ref());
        CommandsJson {
            latencies: (&commands.latencies).into(),
            ledger: ledger.map(|(median, slow)| LedgersJson {
                median_commands: median.commands,
                median_mean_ns: median.mean_ns,
                median: rows(median),
                slow_commands: slow.commands,
                slow_mean_ns: slow.mean_ns,
                slow: rows(slow),
            }),
            causes: commands.causes().iter().map(CauseJson::from).collect(),
        }
    }
}

impl From<&Histogram> for LatenciesJson {
    fn from(latencies: &Histogram) -> LatenciesJson {
        LatenciesJson {
            count: latencies.count(),
            total_ns: latencies.sum_ns(),
            mean_ns: latencies.mean_ns(),
            p50_ns: latencies.quantile(0.5),
            p90_ns: latencies.quantile(0.9),
            p99_ns: latencies.quantile(0.99),
            p999_ns: latencies.quantile(0.999),
            max_ns: (latencies.count() > 0).then(|| latencies.max_ns()),
        }
    }
}

impl From<&CauseTime> for CauseJson {
    fn from(of: &CauseTime) -> CauseJson {
        CauseJson {
            cause: of.cause.to_string(),
            median_ns: of.median_ns,
            slow_ns: of.slow_ns,
        }
    }
}

fn rows(ledger: &RangeLedger) -> Vec<RowJson> {
    let row = |row: &RangeRow| RowJson {
        wait: row.wait.to_string(),
        state: row.state.as_str(),
        ns: row.ns,
    };
    ledger.rows.iter().map(row).collect()
}
