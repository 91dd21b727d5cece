//! What changed between two recordings.

use std::sync::Arc;

use arcstr::ArcStr;
use serde::{Serialize, Serializer};

use super::diff_causes::CausesJson;
use crate::diff::{Change, CounterChange, Diff, DiffSide, LatencyChange, Place, StatementChange, Verdict};
use crate::function::Function;
use crate::group::known_query_id;
use crate::statement_counts::{CountedBy, CountedStatement};
use crate::work::WorkUnit;

#[derive(Serialize)]
pub(super) struct Document<'a> {
    /// Throughput and DB time of both sides.
    headline: &'a str,
    /// Which statement changed most, and how; empty when none can be named.
    statement: &'a str,
    /// It changed by more than noise.
    statement_is_certain: bool,
    conclusion: &'a str,
    /// Who was waited for, if that explains the difference best; else empty.
    cause: &'a str,
    whole: &'a str,
    new_in_bad: Vec<NewJson<'a>>,
    significant: bool,
    /// Unit of work that everything is divided by.
    per: &'static str,
    /// Unit of `good`, `bad` and `difference`: `ns` or `samples`.
    value: &'static str,
    good: &'a DiffSide,
    bad: &'a DiffSide,
    warnings: &'a [String],
    common_factor: f64,
    noise: NoiseJson,
    db_time: &'a Change,
    /// What the statements are divided by; null when a side knows none.
    statements_per: Option<&'static str>,
    /// Who counted their executions; null when a side does not know them.
    statements_counted_by: Option<&'static str>,
    statements: Vec<StatementJson<'a>>,
    causes: CausesJson<'a>,
    cells: &'a [Change],
    waits: &'a [Change],
    functions: &'a [Change],
    paths: &'a [Change],
    modules: &'a [Change],
    latencies: &'a [LatencyChange],
    counters: &'a [CounterChange],
    counters_of_one_side: &'a [ArcStr],
    problems: &'a [String],
}

/// What only BAD does.
#[derive(Serialize)]
struct NewJson<'a> {
    name: &'a str,
    percent_of_bad: f64,
}

#[derive(Serialize)]
struct NoiseJson {
    test: &'static str,
    resamples: usize,
    level: f64,
    fewest_slices: usize,
    smallest_share: f64,
    tested: bool,
}

#[derive(Serialize)]
struct StatementJson<'a> {
    /// As PostgreSQL prints it: signed; null: belongs to none.
    query: Option<String>,
    sql_id: Option<&'a str>,
    text: Option<&'a str>,
    #[serde(flatten)]
    change: &'a Change,
    /// By its own executions, if known well enough on both sides.
    #[serde(skip_serializing_if = "Option::is_none")]
    per_execution: Option<PerExecutionJson>,
    /// How often it was executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    good_counted: Option<CountedStatement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bad_counted: Option<CountedStatement>,
    /// By wait event and state; without verdicts.
    cells: Vec<CellJson<'a>>,
}

#[derive(Serialize)]
struct PerExecutionJson {
    good: f64,
    bad: f64,
    difference: f64,
    verdict: Verdict,
}

#[derive(Serialize)]
pub(super) struct CellJson<'a> {
    #[serde(flatten)]
    place: PlaceJson<'a>,
    good_recorded: u128,
    bad_recorded: u128,
    good: f64,
    bad: f64,
    difference: f64,
}

#[derive(Serialize, Default)]
struct PlaceJson<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_class: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_event: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    module: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<bool>,
    /// Root first.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<Vec<&'a str>>,
}

impl<'a> From<&'a Diff> for Document<'a> {
    fn from(diff: &'a Diff) -> Document<'a> {
        Document {
            headline: &diff.headline,
            statement: diff.statements.as_ref().map_or("", |of| of.sentence.as_str()),
            statement_is_certain: diff.statements.as_ref().is_some_and(|of| of.is_certain),
            conclusion: &diff.conclusion,
            cause: diff.causes.as_ref().map_or("", |of| of.sentence.as_str()),
            whole: &diff.whole,
            new_in_bad: diff
                .new_in_bad
                .iter()
                .map(|(name, percent_of_bad)| NewJson {
                    name,
                    percent_of_bad: *percent_of_bad,
                })
                .collect(),
            significant: diff.is_significant(),
            per: diff.unit.as_str(),
            value: match diff.unit {
                WorkUnit::Sample => "samples",
                _ => "ns",
            },
            good: &diff.sides[0],
            bad: &diff.sides[1],
            warnings: &diff.warnings,
            common_factor: diff.common_factor,
            noise: NoiseJson {
                test: "block bootstrap over slices of time, maximum statistic",
                resamples: diff.noise.resamples,
                level: diff.noise.level,
                fewest_slices: diff.noise.fewest_slices,
                smallest_share: diff.noise.smallest_share,
                tested: diff.noise.tested,
            },
            db_time: &diff.total,
            statements_per: diff.statements.as_ref().map(|of| of.per.as_str()),
            statements_counted_by: (diff.statements.as_ref())
                .and_then(|of| of.counted_by)
                .map(CountedBy::as_str),
            statements: diff
                .statements
                .iter()
                .flat_map(|of| of.changes.iter().map(StatementJson::from))
                .collect(),
            causes: diff.into(),
            cells: &diff.cells,
            waits: &diff.waits,
            functions: &diff.functions,
            paths: &diff.paths,
            modules: &diff.modules,
            latencies: &diff.latencies,
            counters: &diff.counters,
            counters_of_one_side: &diff.counters_of_one_side,
            problems: &diff.problems,
        }
    }
}

impl<'a> From<&'a StatementChange> for StatementJson<'a> {
    fn from(statement: &'a StatementChange) -> StatementJson<'a> {
        StatementJson {
            query: match statement.change.place {
                Place::Statement(id) => known_query_id(id),
                _ => None,
            },
            sql_id: statement.sql_id.as_deref(),
            text: statement.text.as_deref(),
            change: &statement.change,
            per_execution: statement.per_execution.as_ref().map(|of| PerExecutionJson {
                good: of.per_unit[0],
                bad: of.per_unit[1],
                difference: of.difference,
                verdict: of.verdict,
            }),
            good_counted: statement.counted[0],
            bad_counted: statement.counted[1],
            cells: statement.cells.iter().map(CellJson::from).collect(),
        }
    }
}

impl<'a> From<&'a Change> for CellJson<'a> {
    fn from(change: &'a Change) -> CellJson<'a> {
        CellJson {
            place: (&change.place).into(),
            good_recorded: change.values[0],
            bad_recorded: change.values[1],
            good: change.per_unit[0],
            bad: change.per_unit[1],
            difference: change.difference,
        }
    }
}

/// Names of what changed, next to the other fields.
pub(crate) fn place<S: Serializer>(place: &Place, to: S) -> Result<S::Ok, S::Error> {
    PlaceJson::from(place).serialize(to)
}

impl<'a> From<&'a Place> for PlaceJson<'a> {
    fn from(place: &'a Place) -> PlaceJson<'a> {
        let names = |path: &'a [Arc<Function>]| path.iter().map(|function| function.name.as_str()).collect();
        let nowhere = PlaceJson::default();
        match place {
            Place::All | Place::Statement(_) => nowhere,
            Place::Cell(wait, state) => PlaceJson {
                wait_class: Some(&wait.class),
                wait_event: Some(&wait.event),
                state: Some(state.as_str()),
                ..nowhere
            },
            Place::Wait(wait) => PlaceJson {
                wait_class: Some(&wait.class),
                wait_event: Some(&wait.event),
                ..nowhere
            },
            Place::Function(function) => PlaceJson {
                function: Some(&function.name),
                module: Some(&function.module),
                kernel: Some(function.kernel),
                ..nowhere
            },
            Place::Path(path) => PlaceJson {
                path: Some(names(path)),
                ..nowhere
            },
            Place::Module(name) => PlaceJson {
                module: Some(name),
                ..nowhere
            },
        }
    }
}
