//! One call from start to end: the slowest, the median, or one by its number.

use std::collections::HashMap;
use std::str::FromStr;

use dbtime_model::recording::Problem;
use dbtime_model::{SpanRow, State, span};
use serde::Serialize;

use super::samples::without_interval;
use super::{DiveOptions, module_of};
use crate::dimensions::Dimensions;
use crate::fields;
use crate::kernel_layers::is_foreign_root;
use crate::load::Source;
use crate::report::ReportError;

/// Selects a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallChoice {
    /// The longest of those that were kept.
    Slowest,
    /// As many calls are longer as are shorter.
    Median,
    /// By its number, from 1 in the order in which they ended.
    Number(u64),
}

impl FromStr for CallChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<CallChoice, String> {
        match text {
            "slowest" => Ok(CallChoice::Slowest),
            "median" => Ok(CallChoice::Median),
            number => match number.parse() {
                Ok(number) if number > 0 => Ok(CallChoice::Number(number)),
                _ => Err("choose slowest, median, or a number from 1".to_string()),
            },
        }
    }
}

/// A call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TracedCall {
    /// Its number, from 1.
    #[serde(rename = "call")]
    pub number: u64,
    /// Process number and name of the task that made it.
    pub pid: u32,
    /// See `pid`.
    pub task: String,
    /// What the session executed when it began; 0 = not known, or nothing.
    #[serde(
        rename = "query",
        serialize_with = "fields::query_id",
        skip_serializing_if = "is_not_known"
    )]
    pub statement: u64,
    /// Time from entry to return, nanoseconds, interrupts included.
    pub ns: u64,
    /// What happened in it, in order.
    pub spans: Vec<SpanLine>,
    /// Steps deeper than requested.
    #[serde(skip)]
    pub deeper: usize,
}

fn is_not_known(statement: &u64) -> bool {
    *statement == 0
}

/// A step of a call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SpanLine {
    /// Function, or the two tracepoints that it is between.
    pub function: String,
    /// Module it is in; empty for the kernel itself.
    pub module: String,
    /// Number of functions around it.
    pub depth: u32,
    /// Nanoseconds since the start of the call.
    pub from_ns: i64,
    /// Its length, nanoseconds, interrupts included.
    pub ns: u64,
    /// Off CPU in this state; none = a function, or an interval.
    pub off: Option<State>,
    /// A timer sample found the task in this function; has no length.
    #[serde(rename = "sample")]
    pub is_sample: bool,
    /// Whether it is the work of an interrupt, or preemption; for a sample, also the tracer's.
    #[serde(rename = "foreign")]
    pub is_foreign: bool,
}

pub(super) fn one_call(
    source: &Source,
    choice: &CallChoice,
    options: &DiveOptions,
    dimensions: &mut Dimensions,
    problems: &mut Vec<Problem>,
) -> Result<TracedCall, ReportError> {
    let mut lengths: Vec<(u64, u64)> = Vec::new();
    let mut takes: HashMap<dbtime_model::SessionId, bool> = HashMap::new();
    problems.extend(source.spans(|row| {
        let is_taken = *takes
            .entry(row.session)
            .or_insert_with(|| options.filter.takes_session(dimensions.session(row.session)));
        if row.call > 0 && row.depth == 0 && is_taken && options.filter.takes_statement(row.statement) {
            lengths.push((row.ns, row.call));
        }
    }));
    lengths.sort_unstable();
    let number = match choice {
        CallChoice::Slowest => lengths.last().map(|(_, call)| *call),
        CallChoice::Median => lengths
            .get(lengths.len().saturating_sub(1) / 2)
            .map(|(_, call)| *call),
        CallChoice::Number(number) => lengths.iter().map(|(_, call)| *call).find(|call| call == number),
    };
    let Some(number) = number else {
        return Err(ReportError::NoSuchCall(match choice {
            CallChoice::Number(number) => *number,
            _ => 0,
        }));
    };
    let mut rows: Vec<SpanRow> = Vec::new();
    let _ = source.spans(|row| {
        if row.call == number {
            rows.push(row.clone());
        }
    });
    let session = rows.first().map(|row| dimensions.session(row.session).clone());
    let begin = rows.first().map_or(0, |row| row.start_ns);
    let mut call = TracedCall {
        number,
        pid: session.as_ref().map_or(0, |session| session.pid),
        task: session.map_or_else(String::new, |session| session.title.clone()),
        statement: rows.first().map_or(0, |row| row.statement),
        ns: rows.first().map_or(0, |row| row.ns),
        spans: Vec::new(),
        deeper: 0,
    };
    for row in &rows {
        if options.depth.is_some_and(|depth| row.depth as usize >= depth) {
            call.deeper += 1;
            continue;
        }
        let frames = dimensions.stack(row.stack).unwrap_or(&[]);
        let is_sample = row.kind == span::kind::SAMPLE;
        let leaf = match is_sample {
            true => without_interval(frames).0.last(),
            false => frames.last(),
        };
        call.spans.push(SpanLine {
            function: leaf.map_or_else(String::new, |leaf| leaf.symbol.clone()),
            module: leaf.map_or_else(String::new, |leaf| module_of(leaf).to_string()),
            depth: row.depth,
            from_ns: row.start_ns.saturating_sub(begin),
            ns: row.ns,
            off: (row.kind == span::kind::OFF_CPU).then_some(row.state),
            is_sample,
            is_foreign: frames.first().is_some_and(|root| is_foreign_root(&root.symbol)),
        });
    }
    Ok(call)
}
