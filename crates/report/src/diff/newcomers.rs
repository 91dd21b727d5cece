//! What only BAD does. It is named whether or not it is more than noise: that something exists at all is not a question of its
//! amount.

use super::changes::{Changes, Item, Pair};
use super::conclusion::says_something;
use super::{Per, SMALLEST_SHARE};
use crate::function::Functions;

/// GOOD must have enough samples for this many to be expected.
pub(super) const EXPECTED_SAMPLES: f64 = 20.0;
/// How many are named.
const NAMED: usize = 3;
/// What overlaps by this part with something that is named is not named itself.
const SAME: f64 = 0.8;

/// Modules, wait events and functions of BAD that GOOD does not have, with their part of BAD's DB time in percent; the largest
/// first. `good_samples`: samples of GOOD.
pub(super) fn newcomers(
    changes: &Changes,
    functions: &Functions,
    per: &Per,
    good_samples: u128,
) -> Vec<(String, f64)> {
    let [_, whole] = per.per_unit(changes.totals());
    let share = |pair: &Pair| {
        let [_, bad] = per.per_unit(pair.values);
        if whole > 0.0 { bad / whole } else { 0.0 }
    };
    let is_new = |pair: &Pair| {
        let share = share(pair);
        pair.values[0] == 0 && share >= SMALLEST_SHARE && share * good_samples as f64 >= EXPECTED_SAMPLES
    };
    // Modules before wait events before functions; of equal functions the caller.
    let mut found: Vec<(u8, &Item, &Pair, String)> = changes
        .items
        .iter()
        .filter(|(_, pair)| is_new(pair))
        .filter_map(|(item, pair)| {
            let (kind, name) = match item {
                Item::Module(name) if !name.starts_with('[') || &**name == "[jit]" => {
                    (0, format!("module {name}"))
                }
                Item::Wait(wait) => (1, wait.to_string()),
                Item::Total(id) if says_something(functions.get(*id)) => (2, functions.get(*id).label()),
                _ => return None,
            };
            Some((kind, item, pair, name))
        })
        .collect();
    found.sort_by(|one, other| {
        let depth = |pair: &Pair| pair.depth as f64 / (pair.values[1].max(1)) as f64;
        (one.0.cmp(&other.0))
            .then_with(|| other.2.values[1].cmp(&one.2.values[1]))
            .then_with(|| depth(one.2).total_cmp(&depth(other.2)))
            .then_with(|| one.1.cmp(other.1))
    });
    let mut named: Vec<(&Item, String, f64)> = Vec::new();
    for (_, item, pair, name) in found {
        if named.len() == NAMED {
            break;
        }
        let in_common = |other: &Item| {
            let both = changes
                .atoms
                .iter()
                .filter(|atom| changes.is_in(atom, item) && changes.is_in(atom, other));
            both.map(|atom| atom.values[1]).sum::<u128>() as f64
        };
        let is_named = named
            .iter()
            .any(|(other, ..)| in_common(other) >= SAME * pair.values[1] as f64);
        if !is_named {
            named.push((item, name, share(pair) * 100.0));
        }
    }
    named.into_iter().map(|(_, name, share)| (name, share)).collect()
}
