//! Commands by statement, and what the slow ones did differently.

use serde::{Serialize, Serializer};

use super::Head;
use crate::commands::{CauseTime, CommandReport, Commands, RangeRow, StatementCommands};
use crate::histogram::Histogram;

#[derive(Serialize)]
pub(super) struct Document<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    all: CommandsJson<'a>,
    statements: &'a [StatementCommands],
    statements_not_shown: usize,
    not_shown: LatenciesJson,
    latencies_lost: u64,
    problems: &'a [String],
}

#[derive(Serialize)]
struct CommandsJson<'a> {
    #[serde(flatten)]
    latencies: LatenciesJson,
    /// None if there are too few commands.
    ledger: Option<LedgersJson<'a>>,
    /// What the slowest do more of, largest first.
    causes: Vec<CauseTime>,
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
struct LedgersJson<'a> {
    /// Commands of the middle half: buckets at its ends count in part.
    median_commands: f64,
    median_mean_ns: f64,
    median: &'a [RangeRow],
    /// Of the slowest hundredth.
    slow_commands: f64,
    slow_mean_ns: f64,
    slow: &'a [RangeRow],
}

impl<'a> From<&'a CommandReport> for Document<'a> {
    fn from(report: &'a CommandReport) -> Document<'a> {
        Document {
            head: Head::of(&report.meta, report.period),
            all: (&report.all).into(),
            statements: &report.statements,
            statements_not_shown: report.others.0,
            not_shown: (&report.others.1).into(),
            latencies_lost: report.meta.quality.latencies_lost,
            problems: &report.problems,
        }
    }
}

/// Latencies, both ledgers and causes of some commands.
pub(crate) fn commands<S: Serializer>(commands: &Commands, to: S) -> Result<S::Ok, S::Error> {
    CommandsJson::from(commands).serialize(to)
}

impl<'a> From<&'a Commands> for CommandsJson<'a> {
    fn from(commands: &'a Commands) -> CommandsJson<'a> {
        let ledger = commands.median.as_ref().zip(commands.slow.as_ref());
        CommandsJson {
            latencies: (&commands.latencies).into(),
            ledger: ledger.map(|(median, slow)| LedgersJson {
                median_commands: median.commands,
                median_mean_ns: median.mean_ns,
                median: &median.rows,
                slow_commands: slow.commands,
                slow_mean_ns: slow.mean_ns,
                slow: &slow.rows,
            }),
            causes: commands.causes(),
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
