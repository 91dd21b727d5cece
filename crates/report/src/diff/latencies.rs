//! Latencies of single events on both sides.

use std::collections::{BTreeMap, BTreeSet};

use super::answer::{LatencyChange, LatencyQuantity, Verdict};
use super::noise::{Measure, test};
use super::side::Side;
use super::{DiffOptions, Per};
use crate::histogram::Histogram;
use crate::latency::{has_statements, is_event};
use crate::load::Source;
use crate::scan::is_foreground;

/// Quantiles that are compared, besides the mean.
const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)];
/// Quantities that differ by less are called equal.
const SMALLEST_CHANGE: f64 = 0.1;
/// Distributions of fewer events have no quantiles worth a verdict.
const FEWEST_EVENTS: u128 = 100;

type Slices = Vec<Histogram>;

/// Compares every kind and name of event of foreground sessions that either side has. The quantile of a side is that of all its events; its
/// noise is that of the quantiles of its slices.
pub(super) fn compare(
    sources: [&Source; 2],
    sides: &mut [Side; 2],
    options: &DiffOptions,
    per: &Per,
) -> Vec<LatencyChange> {
    let chooses = options.filters.iter().any(|filter| !filter.statements.is_empty());
    if chooses && !sources.iter().all(|source| has_statements(source.meta())) {
        return Vec::new();
    }
    let [good, bad] = [0, 1].map(|n| load(sources[n], &mut sides[n], options, n));
    let names: BTreeSet<&(String, String)> = good.keys().chain(bad.keys()).collect();
    let empty = [&sides[0], &sides[1]].map(|side| vec![Histogram::default(); side.slices().count()]);
    let mut measures = Vec::new();
    let mut changes: Vec<LatencyChange> = names
        .into_iter()
        .map(|name| {
            let slices = [
                good.get(name).unwrap_or(&empty[0]),
                bad.get(name).unwrap_or(&empty[1]),
            ];
            let histograms = slices.map(|slices| {
                let mut all = Histogram::default();
                slices.iter().for_each(|slice| all.merge(slice));
                all
            });
            let mean = |histogram: &Histogram| {
                (histogram.count() > 0).then(|| histogram.sum_ns() as f64 / histogram.count() as f64)
            };
            let mut quantities = vec![LatencyQuantity {
                name: "mean",
                ns: [0, 1].map(|n| mean(&histograms[n])),
                verdict: Verdict::Small,
            }];
            measures.push(measure(slices, mean));
            for (name, q) in QUANTILES {
                let quantile = |histogram: &Histogram| histogram.quantile(q).map(|ns| ns as f64);
                quantities.push(LatencyQuantity {
                    name,
                    ns: [0, 1].map(|n| quantile(&histograms[n])),
                    verdict: Verdict::Small,
                });
                measures.push(measure(slices, quantile));
            }
            let per_side = |value: [u128; 2]| per.per_unit(value);
            let time = per_side([histograms[0].sum_ns(), histograms[1].sum_ns()]);
            LatencyChange {
                kind: name.0.clone(),
                name: name.1.clone(),
                per_unit: per_side([histograms[0].count(), histograms[1].count()]),
                quantities,
                difference: time[1] - time[0],
                histograms,
            }
        })
        .collect();
    let tested = test(&measures);
    let quantities = changes.iter_mut().flat_map(|change| {
        let fewest = change.histograms[0].count().min(change.histograms[1].count());
        change
            .quantities
            .iter_mut()
            .map(move |quantity| (fewest, quantity))
    });
    for (number, (fewest, quantity)) in quantities.enumerate() {
        let [Some(good), Some(bad)] = quantity.ns else {
            continue;
        };
        quantity.verdict = match &tested {
            _ if fewest < FEWEST_EVENTS || (bad - good).abs() < SMALLEST_CHANGE * good.max(bad) => {
                Verdict::Small
            }
            None => Verdict::NotTested,
            Some(tested) => tested[number].verdict,
        };
    }
    changes.sort_by(|one, other| {
        let key = |change: &LatencyChange| (change.kind.clone(), change.name.clone());
        other
            .difference
            .abs()
            .total_cmp(&one.difference.abs())
            .then_with(|| key(one).cmp(&key(other)))
    });
    changes
}

fn load(
    source: &Source,
    side: &mut Side,
    options: &DiffOptions,
    n: usize,
) -> BTreeMap<(String, String), Slices> {
    let filter = &options.filters[n];
    let slices = side.slices().clone();
    let mut found: BTreeMap<(String, String), Slices> = BTreeMap::new();
    // Latencies have no state; those of a wait are selected by kind and name, which a filter of times does not name.
    if !filter.waits.is_empty() || !filter.states.is_empty() {
        return found;
    }
    let dimensions = &mut side.dimensions;
    let problems = source.latency(|row| {
        let is_chosen = filter.takes_time(row.time) && filter.takes_statement(row.statement);
        if is_event(row) && is_chosen && is_foreground(row.session, dimensions, filter) {
            let all = found
                .entry((row.kind.to_string(), row.name.to_string()))
                .or_insert_with(|| vec![Histogram::default(); slices.count()]);
            all[slices.of_time(row.time)].add(row.from_ns, row.to_ns, row.count, row.sum_ns, row.max_ns);
        }
    });
    side.problems
        .extend(problems.into_iter().map(|problem| problem.0));
    found
}

/// The mean of a quantity of the slices, weighted by their events.
fn measure(slices: [&Slices; 2], quantity: impl Fn(&Histogram) -> Option<f64>) -> Measure {
    let counts = |slices: &Slices| slices.iter().map(|slice| slice.count() as f64).collect();
    let values = |slices: &Slices| {
        slices
            .iter()
            .map(|slice| quantity(slice).unwrap_or(0.0) * slice.count() as f64)
            .collect()
    };
    Measure {
        numerators: slices.map(values),
        denominators: slices.map(counts),
        factor: 1.0,
    }
}
