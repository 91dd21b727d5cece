//! Counters of both sides.

use std::collections::{BTreeMap, BTreeSet};

use arcstr::ArcStr;
use dbtime_model::counter;

use super::answer::{CounterChange, Verdict};
use super::headline::rate;
use super::noise::{FEWEST_SLICES, Measure, test};
use super::side::Side;
use super::{DiffOptions, Per};
use crate::load::Source;
use crate::scan::is_foreground;

/// Counters that differ by less are called equal.
const SMALLEST_CHANGE: f64 = 0.1;
/// Counters that are named in the sentence.
const NAMED: usize = 3;

/// Growth on both sides.
struct Counter {
    values: [i128; 2],
    by_slice: [Vec<f64>; 2],
}

/// What says how much dbtime saw, not what was done; and whatever else ran on the host, which is not the work of these sessions.
const OF_OTHERS: [&str; 4] = [
    counter::HOST,
    counter::DBTIME,
    counter::LOCK_LOOKS,
    counter::LATCH_SAMPLES,
];
/// What the kernel counts in every recording.
const ALWAYS: [&str; 3] = [counter::ELAPSED_NS, counter::ON_CPU_NS, counter::RUN_QUEUE_NS];

/// Compares every counter of foreground sessions. The second return value: sources of those that only one side recorded, which are not
/// compared.
pub(super) fn compare(
    sources: [&Source; 2],
    sides: &mut [Side; 2],
    options: &DiffOptions,
    per: &Per,
) -> (Vec<CounterChange>, Vec<ArcStr>) {
    let mut recorded = [const { BTreeSet::new() }; 2];
    let mut counters: BTreeMap<(ArcStr, ArcStr), Counter> = BTreeMap::new();
    let empty = [0, 1].map(|n| vec![0.0; sides[n].slices().count()]);
    for (n, side) in sides.iter_mut().enumerate() {
        let filter = &options.filters[n];
        let slices = side.slices().clone();
        let dimensions = &mut side.dimensions;
        // What cannot be read was reported when work was counted.
        let _ = sources[n].counters(|row| {
            if OF_OTHERS.contains(&row.source.as_str()) {
                return;
            }
            if !recorded[n].contains(&row.source) {
                recorded[n].insert(row.source.clone());
            }
            if filter.takes_time(row.time) && is_foreground(row.session, dimensions, filter) {
                let counter = counters
                    .entry((row.source.clone(), row.name.clone()))
                    .or_insert_with(|| Counter {
                        values: [0; 2],
                        by_slice: empty.clone(),
                    });
                counter.values[n] += i128::from(row.value);
                counter.by_slice[n][slices.of_time(row.time)] += row.value as f64;
            }
        });
    }
    let [of_good, of_bad] = &recorded;
    let of_one_side = of_good.symmetric_difference(of_bad).cloned().collect();
    let [good, bad] = sources.map(|source| source.meta().collector.task_counts);
    counters.retain(|(source, name), _| {
        let is_of_tasks = source == counter::KERNEL && !ALWAYS.contains(&name.as_str());
        of_good.contains(source) && of_bad.contains(source) && (good == bad || !is_of_tasks)
    });
    let measures: Vec<Measure> = counters
        .values()
        .map(|counter| Measure {
            numerators: counter.by_slice.clone(),
            denominators: per.slices.clone(),
            factor: 1.0,
        })
        .collect();
    let tested = test(&measures);
    let mut changes: Vec<CounterChange> = counters
        .into_iter()
        .enumerate()
        .map(|(number, ((source, name), Counter { values, .. }))| {
            let per_unit = [0, 1].map(|n| values[n] as f64 / per.work[n]);
            let [good, bad] = per_unit;
            let verdict = match &tested {
                _ if (bad - good).abs() < SMALLEST_CHANGE * good.abs().max(bad.abs()) || good == bad => {
                    Verdict::Small
                }
                None => Verdict::NotTested,
                Some(tested) => tested[number].verdict,
            };
            CounterChange {
                source,
                name,
                values,
                per_unit,
                verdict,
            }
        })
        .collect();
    // Counters have different units: they are ranked by relative change.
    let part = |change: &CounterChange| {
        let [good, bad] = change.per_unit;
        (bad - good).abs() / good.abs().max(bad.abs()).max(f64::MIN_POSITIVE)
    };
    changes.sort_by(|one, other| part(other).total_cmp(&part(one)));
    (changes, of_one_side)
}

/// What the counters of snapshots, which have no samples, say: which changed by more than chance, and by how much. Empty if there is
/// more than snapshots.
pub(super) fn sentence(changes: &[CounterChange], sides: &[Side; 2], per: &Per) -> String {
    let is_of_snapshots = |side: &Side| side.is_of_snapshots && side.total.samples == 0;
    if !sides.iter().all(is_of_snapshots) {
        return String::new();
    }
    let is_growth =
        |change: &&CounterChange| change.source == counter::SNAPPER && change.name != counter::ELAPSED_NS;
    let all: Vec<&CounterChange> = changes.iter().filter(is_growth).collect();
    let with = |verdict: Verdict| all.iter().filter(move |change| change.verdict == verdict);
    let untested = with(Verdict::NotTested).count();
    if untested > 0 {
        return format!(
            "{untested} of {} counters {} by a tenth or more; at least {FEWEST_SLICES} snapshots of each \
             side are needed to rule out chance.",
            all.len(),
            differ(untested),
        );
    }
    let certain = with(Verdict::Significant).count();
    if certain == 0 {
        // If all differ by less, nothing was tested.
        let by = match with(Verdict::Noise).chain(with(Verdict::Varies)).count() {
            0 => "by a tenth or more",
            _ => "by more than chance",
        };
        return format!("None of {} counters differs {by}.", all.len());
    }
    let named: Vec<String> = with(Verdict::Significant)
        .take(NAMED)
        .map(|change| amounts(change))
        .collect();
    let more = if certain > NAMED { ", …" } else { "" };
    format!(
        "{certain} of {} counters {} by more than chance (per {}, GOOD and BAD): {}{more}.",
        all.len(),
        differ(certain),
        per.unit,
        named.join(", ")
    )
}

fn differ(how_many: usize) -> &'static str {
    if how_many == 1 { "differs" } else { "differ" }
}

/// `stat:user calls 12.0 and 36.0 (3.00 times)`
fn amounts(change: &CounterChange) -> String {
    let [good, bad] = change.per_unit;
    let times = match good * bad > 0.0 {
        true => format!(" ({} times)", rate(bad / good)),
        false => String::new(),
    };
    format!("{} {} and {}{times}", change.name, rate(good), rate(bad))
}
