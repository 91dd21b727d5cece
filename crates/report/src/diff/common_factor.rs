//! How much longer everything takes that both sides have in common.
//!
//! A slower host, a hypervisor that steals time, or code that has to share the same second with something new change the
//! time of every function by one factor. It is the median of the ratios of bad to good over the functions' own CPU time,
//! weighted by the time that both sides have in common; no function weighs more than a part, so that one cause does not
//! pass for the host. It is taken off before anything is called a difference.

use std::collections::HashMap;

use super::Per;
use super::changes::Changes;
use crate::function::{FunctionId, Functions};

/// Fewer functions than this say nothing about everything.
const FEWEST_FUNCTIONS: usize = 10;
/// Largest weight of one function, as a part of all.
const LARGEST_WEIGHT: f64 = 0.05;
/// The host does not explain more than twofold: larger changes are shown as they are.
const LARGEST_FACTOR: f64 = 2.0;

/// Whether it may be even larger, so that the host does not explain it.
pub(crate) fn is_at_limit(factor: f64) -> bool {
    factor.max(1.0 / factor) >= LARGEST_FACTOR
}

pub(super) fn estimate(changes: &Changes, per: &Per, functions: &Functions) -> f64 {
    let mut own: HashMap<FunctionId, [u128; 2]> = HashMap::new();
    for atom in &changes.atoms {
        if let (true, Some(leaf)) = (atom.state.is_on_cpu(), atom.path.last())
            && functions.get(*leaf).is_named()
        {
            let own = own.entry(*leaf).or_default();
            own[0] += atom.values[0];
            own[1] += atom.values[1];
        }
    }
    let mut ratios: Vec<(f64, f64)> = own
        .values()
        .filter(|values| values[0] > 0 && values[1] > 0)
        .map(|values| {
            let [good, bad] = per.per_unit(*values);
            (bad / good, good.min(bad))
        })
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
