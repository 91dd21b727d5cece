//! Whether two recordings can be compared.

use dbtime_model::recording::{Clock, Unit};

use super::SIDES;
use super::noise::FEWEST_SLICES;
use super::side::Side;
use crate::dive::has_kernel_trace;
use crate::latency::WaitUnit;
use crate::load::Source;
use crate::number::counted;

/// Modules that are named in a warning.
const NAMED: usize = 5;
/// A warning is given if the lengths of the recordings differ by more than this factor.
const SIMILAR_LENGTH: u128 = 3;

pub(super) struct Comparability {
    /// The numbers mean different things.
    pub(super) refusals: Vec<String>,
    /// The comparison is doubtful.
    pub(super) warnings: Vec<String>,
    /// A statement has the same id on both sides.
    pub(super) statements_match: bool,
}

pub(super) fn check(sources: [&Source; 2], sides: &[Side; 2]) -> Comparability {
    let [good, bad] = sources.map(Source::meta);
    let mut refusals = Vec::new();
    let mut warnings = Vec::new();
    let differ = |what: &str, one: &str, other: &str| {
        (one != other).then(|| format!("{what} differs: {} and {}", named(one), named(other)))
    };
    let tier = |tier: &str| {
        if tier.starts_with("exact") {
            "exact"
        } else {
            "sampled"
        }
        .to_string()
    };
    let (good_tier, bad_tier) = (&good.collector.tier, &bad.collector.tier);
    if !good_tier.is_empty() && !bad_tier.is_empty() && tier(good_tier) != tier(bad_tier) {
        refusals.push(
            "one side is exact, the other sampled: they differ in overhead, and so in times".to_string(),
        );
    } else {
        warnings.extend(differ("how it was recorded", good_tier, bad_tier));
    }
    if !good.database.product.is_empty() && !bad.database.product.is_empty() {
        refusals.extend(differ(
            "the database",
            &good.database.product,
            &bad.database.product,
        ));
    }
    if good.collector.unit != bad.collector.unit {
        let [one, other] = [good, bad].map(|meta| match meta.collector.unit {
            Unit::Time => "time",
            Unit::Samples => "samples",
            Unit::Counts => "counts of something",
        });
        refusals.push(format!(
            "one side is in {one}, the other in {other}: they have no common unit"
        ));
    }
    let are_dives = [good, bad].map(has_kernel_trace);
    if are_dives[0] != are_dives[1] {
        let dive = SIDES[usize::from(are_dives[1])];
        refusals.push(format!(
            "{dive} is a trace of single calls, the other side a recording of all time"
        ));
    }
    warnings.extend(differ(
        "the version of the database",
        &good.database.versions_in_short(),
        &bad.database.versions_in_short(),
    ));
    let statements_match = good.database.has_fingerprints() == bad.database.has_fingerprints();
    if !statements_match && sides.iter().all(Side::knows_statements) {
        warnings.push(
            "one recording has the server's query ids, the other has fingerprints: statements are not compared".to_string(),
        );
    }
    warnings.extend(differ("the host", &good.host.name, &bad.host.name));
    warnings.extend(differ("the kernel", &good.host.kernel, &bad.host.kernel));
    let units = [good, bad].map(WaitUnit::of);
    if units[0] != units[1] {
        warnings.push(format!(
            "one event of kind wait is {} in GOOD, {} in BAD: latencies of waits cannot be compared",
            units[0].one(),
            units[1].one()
        ));
    }
    let are_known = |one: u32, other: u32| one > 0 && other > 0;
    if good.host.cpus != bad.host.cpus && are_known(good.host.cpus, bad.host.cpus) {
        warnings.push(format!(
            "the number of CPUs differs: {} and {}",
            good.host.cpus, bad.host.cpus
        ));
    }
    if good.collector.rate_hz != bad.collector.rate_hz
        && are_known(good.collector.rate_hz, bad.collector.rate_hz)
    {
        warnings.push(format!(
            "sampling rates differ: {} and {} per second; times are compared, not samples, but the side with the lower \
             rate is less precise",
            good.collector.rate_hz, bad.collector.rate_hz
        ));
    }
    match [sides[0].has_stacks, sides[1].has_stacks] {
        [true, false] | [false, true] => {
            let without = SIDES[usize::from(sides[0].has_stacks)];
            warnings.push(format!(
                "{without} has no stacks: wait events and states can be compared, functions, call paths and modules cannot"
            ));
        }
        _ => warnings.extend(different_builds(sides)),
    }
    for ((meta, side), name) in [good, bad].into_iter().zip(sides).zip(SIDES) {
        warnings.extend(meta.counted_twice.iter().map(|text| format!("{name}: {text}")));
        if !meta.complete {
            warnings.push(format!(
                "{name} is incomplete: its recorder was killed, ended with an error, or is still running"
            ));
        }
        let slices = side.slices().count();
        // A recording without times is reported as not tested anyway.
        if slices < FEWEST_SLICES && meta.collector.clock != Clock::None {
            warnings.push(match side.slices().are_snapshots() {
                true => format!(
                    "{name} has {}: at least {FEWEST_SLICES} are needed to tell changes from noise",
                    counted(slices, "snapshot")
                ),
                false => format!(
                    "{name} covers {slices} s: at least {FEWEST_SLICES} s are needed to tell changes from \
                     noise"
                ),
            });
        }
    }
    let [one, other] = [0, 1].map(|side| sides[side].period.elapsed_ns().max(1));
    if one.max(other) / one.min(other) >= SIMILAR_LENGTH {
        warnings.push(format!(
            "lengths differ a lot: {:.0} s and {:.0} s",
            one as f64 / 1e9,
            other as f64 / 1e9
        ));
    }
    Comparability {
        refusals,
        warnings,
        statements_match,
    }
}

fn named(value: &str) -> &str {
    if value.is_empty() { "not known" } else { value }
}

/// Programs and libraries with the same name but different builds.
fn different_builds(sides: &[Side; 2]) -> Option<String> {
    let [good, bad] = [&sides[0].builds, &sides[1].builds];
    let different: Vec<&str> = good
        .iter()
        .filter(|(module, builds)| bad.get(*module).is_some_and(|others| others.is_disjoint(builds)))
        .map(|(module, _)| module.as_str())
        .collect();
    let more = different.len().saturating_sub(NAMED);
    let names = different
        .iter()
        .take(NAMED)
        .copied()
        .collect::<Vec<_>>()
        .join(", ");
    (!different.is_empty()).then(|| {
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        format!("different builds of {names}{more}: functions are compared by name")
    })
}
