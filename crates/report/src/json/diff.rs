//! What changed between two recordings.

use std::sync::Arc;

use serde::Serialize;

use super::MetaJson;
use super::diff_causes::CausesJson;
use crate::diff::{Change, CounterChange, Diff, DiffSide, LatencyChange, Place, StatementChange};
use crate::fields::timestamp;
use crate::function::Function;
use crate::group::known_query_id;
use crate::histogram::Histogram;
use crate::work::WorkUnit;

#[derive(Serialize)]
pub(super) struct Document<'a> {
    /// Throughput and DB time of both sides.
    headline: &'a str,
    /// Which statement changed most, and how; empty when none did by more than noise.
    statement: &'a str,
    conclusion: &'a str,
    /// Whom sessions waited for, where that explains the difference best; else empty.
    cause: &'a str,
    whole: &'a str,
    new_in_bad: Vec<NewJson<'a>>,
    significant: bool,
    /// Unit of work by which everything is divided.
    per: &'static str,
    /// Unit of `good`, `bad` and `difference`: `ns` or `samples`.
    value: &'static str,
    good: SideJson<'a>,
    bad: SideJson<'a>,
    warnings: &'a [String],
    common_factor: f64,
    noise: NoiseJson,
    db_time: ChangeJson<'a>,
    /// By what the statements are divided; null when one side knows none.
    statements_per: Option<&'static str>,
    statements: Vec<StatementJson<'a>>,
    causes: CausesJson<'a>,
    cells: Vec<ChangeJson<'a>>,
    waits: Vec<ChangeJson<'a>>,
    functions: Vec<ChangeJson<'a>>,
    paths: Vec<ChangeJson<'a>>,
    modules: Vec<ChangeJson<'a>>,
    latencies: Vec<LatencyJson<'a>>,
    counters: Vec<CounterJson<'a>>,
    problems: &'a [String],
}

/// What only BAD does.
#[derive(Serialize)]
struct NewJson<'a> {
    name: &'a str,
    percent_of_bad: f64,
}

#[derive(Serialize)]
struct SideJson<'a> {
    meta: MetaJson<'a>,
    from: Option<String>,
    to: Option<String>,
    elapsed_ns: u128,
    db_time_ns: u128,
    samples: u128,
    work: f64,
    slices: usize,
    fidelity: Option<&'static str>,
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
pub(super) struct ChangeJson<'a> {
    #[serde(flatten)]
    place: PlaceJson<'a>,
    good_recorded: u128,
    bad_recorded: u128,
    good_self_recorded: u128,
    bad_self_recorded: u128,
    good: f64,
    bad: f64,
    difference: f64,
    percent: f64,
    verdict: &'static str,
}

#[derive(Serialize)]
struct StatementJson<'a> {
    /// As PostgreSQL prints it: signed; null: what belongs to none.
    query: Option<String>,
    sql_id: Option<&'a str>,
    text: Option<&'a str>,
    #[serde(flatten)]
    change: ChangeJson<'a>,
    /// By wait event and state; without verdicts.
    cells: Vec<CellJson<'a>>,
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

#[derive(Serialize)]
struct LatencyJson<'a> {
    kind: &'a str,
    name: &'a str,
    good_per_unit: f64,
    bad_per_unit: f64,
    difference_ns_per_unit: f64,
    quantities: Vec<QuantityJson>,
    good_histogram: Vec<BucketJson>,
    bad_histogram: Vec<BucketJson>,
}

#[derive(Serialize)]
struct QuantityJson {
    name: &'static str,
    good_ns: Option<f64>,
    bad_ns: Option<f64>,
    verdict: &'static str,
}

#[derive(Serialize)]
struct BucketJson {
    from_us: u64,
    to_us: u64,
    count: u128,
    sum_ns: u128,
}

#[derive(Serialize)]
struct CounterJson<'a> {
    source: &'a str,
    name: &'a str,
    good_recorded: i128,
    bad_recorded: i128,
    good: f64,
    bad: f64,
    verdict: &'static str,
}

impl<'a> From<&'a Diff> for Document<'a> {
    fn from(diff: &'a Diff) -> Document<'a> {
        let changes = |changes: &'a [Change]| changes.iter().map(ChangeJson::from).collect();
        Document {
            headline: &diff.headline,
            statement: diff.statements.as_ref().map_or("", |of| of.sentence.as_str()),
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
            good: (&diff.sides[0]).into(),
            bad: (&diff.sides[1]).into(),
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
            db_time: (&diff.total).into(),
            statements_per: diff.statements.as_ref().map(|of| of.per.as_str()),
            statements: diff
                .statements
                .iter()
                .flat_map(|of| of.changes.iter().map(StatementJson::from))
                .collect(),
            causes: diff.into(),
            cells: changes(&diff.cells),
            waits: changes(&diff.waits),
            functions: changes(&diff.functions),
            paths: changes(&diff.paths),
            modules: changes(&diff.modules),
            latencies: diff.latencies.iter().map(LatencyJson::from).collect(),
            counters: diff.counters.iter().map(CounterJson::from).collect(),
            problems: &diff.problems,
        }
    }
}

impl<'a> From<&'a DiffSide> for SideJson<'a> {
    fn from(side: &'a DiffSide) -> SideJson<'a> {
        SideJson {
            meta: (&side.meta).into(),
            from: timestamp(side.period.from_us),
            to: timestamp(side.period.to_us),
            elapsed_ns: side.period.elapsed_ns(),
            db_time_ns: side.db_time_ns,
            samples: side.samples,
            work: side.work,
            slices: side.slices,
            fidelity: side.fidelity.map(|fidelity| fidelity.as_str()),
        }
    }
}

impl<'a> From<&'a Change> for ChangeJson<'a> {
    fn from(change: &'a Change) -> ChangeJson<'a> {
        ChangeJson {
            place: (&change.place).into(),
            good_recorded: change.values[0],
            bad_recorded: change.values[1],
            good_self_recorded: change.self_values[0],
            bad_self_recorded: change.self_values[1],
            good: change.per_unit[0],
            bad: change.per_unit[1],
            difference: change.difference,
            percent: change.percent,
            verdict: change.verdict.as_str(),
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
            change: (&statement.change).into(),
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

impl<'a> From<&'a LatencyChange> for LatencyJson<'a> {
    fn from(change: &'a LatencyChange) -> LatencyJson<'a> {
        let buckets = |histogram: &Histogram| {
            let shown = histogram.power_of_two_us().into_iter();
            shown
                .map(|bucket| BucketJson {
                    from_us: bucket.from_us,
                    to_us: bucket.to_us,
                    count: bucket.count,
                    sum_ns: bucket.sum_ns,
                })
                .collect()
        };
        LatencyJson {
            kind: &change.kind,
            name: &change.name,
            good_per_unit: change.per_unit[0],
            bad_per_unit: change.per_unit[1],
            difference_ns_per_unit: change.difference,
            quantities: change
                .quantities
                .iter()
                .map(|quantity| QuantityJson {
                    name: quantity.name,
                    good_ns: quantity.ns[0],
                    bad_ns: quantity.ns[1],
                    verdict: quantity.verdict.as_str(),
                })
                .collect(),
            good_histogram: buckets(&change.histograms[0]),
            bad_histogram: buckets(&change.histograms[1]),
        }
    }
}

impl<'a> From<&'a CounterChange> for CounterJson<'a> {
    fn from(change: &'a CounterChange) -> CounterJson<'a> {
        CounterJson {
            source: &change.source,
            name: &change.name,
            good_recorded: change.values[0],
            bad_recorded: change.values[1],
            good: change.per_unit[0],
            bad: change.per_unit[1],
            verdict: change.verdict.as_str(),
        }
    }
}
