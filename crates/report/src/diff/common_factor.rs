//! How much longer everything takes that both sides have in common.
//!
//! A slower host, a hypervisor that steals time, or code that has to share the same second with something new change the
//! time of every function by one factor. It is the median of the ratios of bad to good over the functions' own CPU time,
//! weighted by the time that both sides have in common; no function weighs more than a part, so that one cause does not
//! pass for the host. It is taken off before anything is called a difference.
//!
//! Most functions have few samples, and the median of their ratios is far off 1 by chance, too: a factor that equal recordings could have
//! is none. Its standard error is its spread over resamples, like that of a difference ([`super::noise`]).

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::Per;
use super::changes::{Atom, Changes};
use super::noise::{self, Resamples};
use crate::function::{FunctionId, Functions};

/// Fewer functions than this say nothing about everything.
const FEWEST_FUNCTIONS: usize = 10;
/// Largest weight of one function, as a part of all.
const LARGEST_WEIGHT: f64 = 0.05;
/// The host does not explain more than twofold: larger changes are shown as they are.
const LARGEST_FACTOR: f64 = 2.0;
/// Only so many functions, the largest, are resampled.
const MOST_RESAMPLED: usize = 1_000;
/// So many resamples tell a standard error to a twentieth.
const ENOUGH_RESAMPLES: usize = 200;

/// Whether it may be even larger, so that the host does not explain it.
pub(crate) fn is_at_limit(factor: f64) -> bool {
    factor.max(1.0 / factor) >= LARGEST_FACTOR
}

/// The factor; 1 if it is not larger than its noise, or that is not known. `error`: see [`error`].
pub(super) fn estimate(changes: &Changes, per: &Per, functions: &Functions, error: Option<f64>) -> f64 {
    let own = own_times(changes, functions);
    let values = own.into_iter().map(|(_, values)| values.map(|ns| ns as f64));
    let factor = median(values.map(|values| of_each(values, per.work)));
    match error {
        Some(error) if factor.ln().abs() > error => factor,
        _ => 1.0,
    }
}

/// How large the logarithm of the factor may be by chance, before the slices have been dropped; none if there are too few.
pub(super) fn error(changes: &Changes, per: &Per, functions: &Functions) -> Option<f64> {
    let resamples = Resamples::of(per.slices.each_ref().map(Vec::len))?;
    let mut largest = own_times(changes, functions);
    largest.sort_by_key(|(_, values)| Reverse(values[0] + values[1]));
    largest.truncate(MOST_RESAMPLED);
    let none = per.slices.each_ref().map(|slices| vec![0.0; slices.len()]);
    let mut own: BTreeMap<FunctionId, [Vec<f64>; 2]> =
        largest.into_iter().map(|(id, _)| (id, none.clone())).collect();
    for (leaf, atom) in on_cpu(changes, functions) {
        let Some(own) = own.get_mut(&leaf) else { continue };
        for (own, slices) in own.iter_mut().zip(&atom.slices) {
            for (slice, value) in slices {
                own[usize::from(*slice)] += value;
            }
        }
    }
    let factors: Vec<f64> = resamples
        .draw()
        .take(ENOUGH_RESAMPLES)
        .map(|drawn| {
            let sums = |of: &[Vec<f64>; 2]| {
                [0, 1].map(|side| drawn[side].iter().map(|slice| of[side][*slice]).sum::<f64>())
            };
            let work = sums(&per.slices);
            median(own.values().map(|own| of_each(sums(own), work))).ln()
        })
        .collect();
    let mean = factors.iter().sum::<f64>() / factors.len() as f64;
    let square = factors.iter().map(|factor| (factor - mean).powi(2)).sum::<f64>() / factors.len() as f64;
    Some(square.sqrt() * resamples.widened() * resamples.students(noise::NORMAL))
}

/// Own time on a CPU of every function with a name. There may be millions.
fn own_times(changes: &Changes, functions: &Functions) -> Vec<(FunctionId, [u128; 2])> {
    let mut own: HashMap<FunctionId, [u128; 2]> = HashMap::new();
    for (leaf, atom) in on_cpu(changes, functions) {
        let own = own.entry(leaf).or_default();
        own[0] += atom.values[0];
        own[1] += atom.values[1];
    }
    let mut own: Vec<(FunctionId, [u128; 2])> = own.into_iter().collect();
    // Sums of floating-point numbers depend on their order.
    own.sort_unstable_by_key(|(id, _)| *id);
    own
}

/// Stacks on a CPU in functions with a name, with the function.
fn on_cpu<'a>(
    changes: &'a Changes,
    functions: &'a Functions,
) -> impl Iterator<Item = (FunctionId, &'a Atom)> {
    let atoms = changes.atoms.iter().filter(|atom| atom.state.is_on_cpu());
    atoms.filter_map(|atom| {
        let leaf = *atom.path.last()?;
        functions.get(leaf).is_named().then_some((leaf, atom))
    })
}

/// Time per unit of work.
fn of_each(values: [f64; 2], work: [f64; 2]) -> [f64; 2] {
    [0, 1].map(|side| {
        if work[side] > 0.0 {
            values[side] / work[side]
        } else {
            0.0
        }
    })
}

/// The weighted median of the ratios of bad to good.
fn median(own: impl Iterator<Item = [f64; 2]>) -> f64 {
    let mut ratios: Vec<(f64, f64)> = own
        .filter(|values| values.iter().all(|value| *value > 0.0))
        .map(|[good, bad]| (bad / good, good.min(bad)))
        .collect();
    if ratios.len() < FEWEST_FUNCTIONS {
        return 1.0;
    }
    let limit = LARGEST_WEIGHT * ratios.iter().map(|(_, weight)| weight).sum::<f64>();
    for (_, weight) in &mut ratios {
        *weight = weight.min(limit);
    }
    ratios.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
    let half = ratios.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    let mut seen = 0.0;
    let median = ratios.iter().find_map(|(ratio, weight)| {
        seen += weight;
        (seen >= half).then_some(*ratio)
    });
    median.unwrap_or(1.0).clamp(1.0 / LARGEST_FACTOR, LARGEST_FACTOR)
}
