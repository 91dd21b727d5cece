//! Commands of clients: how long they took, and what the slow ones did differently.
//!
//! A command lasts from when its session receives it until it asks the client for the next one. The kernel's programs add up
//! where its time went by wait event and state, for all commands of a statement that took about as long (an eighth of a power
//! of two): so the commands of any range of latencies have a ledger of their own that adds up to their mean latency. If a range
//! ends inside such a bucket, it has that part of the bucket.

mod causes;
mod ranges;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use dbtime_model::latency::kind;
use dbtime_model::recording::Meta;
use dbtime_model::{LatencyRow, State, Wait};
use serde::Serialize;

pub use causes::{Cause, CauseTime};
pub use ranges::{RangeLedger, RangeRow};

use crate::fields;
use crate::filter::Filter;
use crate::histogram::Histogram;
use crate::load::Source;
use crate::report::{ReportError, load};
use crate::scan::{Period, check_statements, finish};
use ranges::{Ranges, side_by_side};

/// Which commands, and how many statements are shown.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandOptions {
    /// Period and statements. What commands did is summed over sessions: it cannot be split by them.
    pub filter: Filter,
    /// How many statements to show individually: those with the most time.
    pub top: usize,
}

impl Default for CommandOptions {
    fn default() -> CommandOptions {
        CommandOptions {
            filter: Filter::default(),
            top: 5,
        }
    }
}

/// Commands by statement.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandReport {
    /// What the recording says about itself.
    pub meta: Meta,
    /// Which commands count.
    pub filter: Filter,
    /// The time it covers.
    pub period: Period,
    /// All of them.
    pub all: Commands,
    /// By statement, those with the most time first.
    pub statements: Vec<StatementCommands>,
    /// Statements that are not among them, and their commands.
    pub others: (usize, Histogram),
    /// What could not be read.
    pub problems: Vec<String>,
}

/// Commands of one statement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StatementCommands {
    /// The database's id of it; 0 = not known.
    #[serde(rename = "query", serialize_with = "fields::query_id")]
    pub id: u64,
    /// Its text; none when it was not read.
    pub text: Option<String>,
    /// Its commands.
    #[serde(flatten, serialize_with = "crate::json::commands")]
    pub commands: Commands,
}

/// Some commands.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Commands {
    /// How long they took.
    pub latencies: Histogram,
    /// The middle half of them, by latency; none if there are too few.
    pub median: Option<RangeLedger>,
    /// The slowest hundredth of them; none if there are too few.
    pub slow: Option<RangeLedger>,
}

impl Commands {
    /// What the slow ones spent more time on than those of the middle, the most first, nanoseconds per command. Empty if there
    /// are too few.
    pub fn causes(&self) -> Vec<CauseTime> {
        match (&self.median, &self.slow) {
            (Some(median), Some(slow)) => causes::differences(median, slow),
            _ => Vec::new(),
        }
    }

    /// The same by wait event and state: mean nanoseconds per command in the middle half and in the slowest hundredth.
    pub fn rows(&self) -> Vec<((Wait, State), f64, f64)> {
        match (&self.median, &self.slow) {
            (Some(median), Some(slow)) => side_by_side(median, slow, |row| (row.wait.clone(), row.state)),
            _ => Vec::new(),
        }
    }
}

/// Adds the rows up.
#[derive(Default)]
struct Builder {
    latencies: Histogram,
    ranges: Ranges,
}

impl Builder {
    fn add(&mut self, row: &LatencyRow) {
        match &*row.kind {
            kind::COMMAND => {
                self.latencies
                    .add(row.from_ns, row.to_ns, row.count, row.sum_ns, row.max_ns);
            }
            kind::COMMAND_WHOLE => self.ranges.add_whole(row.from_ns, row.count, row.sum_ns),
            kind::COMMAND_PART => {
                let state = row.source.parse::<State>().unwrap_or(State::Unknown);
                self.ranges
                    .add_part(row.from_ns, &wait_of(&row.name), state, row.sum_ns);
            }
            _ => {}
        }
    }

    fn finish(self) -> Commands {
        let (median, slow) = self.ranges.median_and_slow();
        Commands {
            latencies: self.latencies,
            median,
            slow,
        }
    }
}

/// Commands by statement, and what the slow ones did differently.
///
/// # Errors
/// The filter names something that is not in the recording, or chooses by sessions, waits or states.
pub fn commands(source: &Source, options: &CommandOptions) -> Result<CommandReport, ReportError> {
    let filter = &options.filter;
    if !filter.takes_all_sessions() || !filter.waits.is_empty() || !filter.states.is_empty() {
        return Err(ReportError::CommandsAreWhole);
    }
    let dimensions = load(source, filter)?;
    let mut statements: HashMap<u64, Builder> = HashMap::new();
    let mut all = Builder::default();
    let mut recorded: BTreeMap<u64, u128> = BTreeMap::new();
    let mut seconds: Option<(i64, i64)> = None;
    let problems = source.latency(|row| {
        let (first, last) = seconds.unwrap_or((row.time, row.time));
        seconds = Some((first.min(row.time), last.max(row.time)));
        if !filter.takes_time(row.time) {
            return;
        }
        if *row.kind == *kind::COMMAND {
            *recorded.entry(row.statement).or_default() += u128::from(row.sum_ns);
        }
        if filter.takes_statement(row.statement) {
            for builder in [&mut all, statements.entry(row.statement).or_default()] {
                builder.add(row);
            }
        }
    });
    check_statements(filter, &recorded)?;
    let scan = finish(source.meta(), filter, seconds, problems);
    statements.retain(|_, of| of.latencies.count() > 0);
    let mut statements: Vec<(u64, Builder)> = statements.into_iter().collect();
    statements.sort_unstable_by_key(|(id, of)| (Reverse(of.latencies.sum_ns()), *id));
    let rest = statements.split_off(options.top.min(statements.len()));
    let mut others = Histogram::default();
    rest.iter().for_each(|(_, of)| others.merge(&of.latencies));
    let statements = statements
        .into_iter()
        .map(|(id, of)| StatementCommands {
            id,
            text: dimensions.statement(id).map(str::to_string),
            commands: of.finish(),
        })
        .collect();
    let mut problems = dimensions.problems;
    problems.extend(scan.problems);
    Ok(CommandReport {
        meta: source.meta().clone(),
        filter: filter.clone(),
        period: scan.period,
        all: all.finish(),
        statements,
        others: (rest.len(), others),
        problems: problems.into_iter().map(|problem| problem.0).collect(),
    })
}

/// The wait event of this name, for a session that executes a command.
fn wait_of(name: &str) -> Wait {
    match name.split_once(':') {
        Some((class, event)) => Wait::event(class, event, false),
        None => Wait::none(),
    }
}
