//! Throughput per observer: ratios, their spread, and whether the goal is met.

use std::fmt::Write;

use crate::markdown::Table;
use crate::observer::{Observer, Tier};
use crate::statistics::{Range, bootstrap_median, bootstrap_ratio, median, quartiles};
use crate::throughput::{Pair, Throughput};

/// The rate for which there are goals.
const GOAL_RATE_HZ: u32 = 99;
/// With fewer pairs nothing is concluded.
const PAIRS_TO_JUDGE: usize = 12;

/// The pairs of one observer.
struct Group<'a> {
    observer: Observer,
    pairs: Vec<&'a Pair>,
    ratios: Vec<f64>,
}

/// One row per observer, the control first.
pub(crate) fn table(result: &Throughput, seed: u64) -> Table {
    let mut table = Table::new(&[
        "observer",
        "pairs",
        "TPS off",
        "TPS on",
        "ratio on/off",
        "IQR",
        "interval",
        "of control",
        "interval",
        "ready after",
    ]);
    let groups = groups(result);
    for group in &groups {
        let middle =
            |value: fn(&Pair) -> f64| median(&group.pairs.iter().map(|p| value(p)).collect::<Vec<_>>());
        let (of_control, interval) = match of_control(group, &groups, seed) {
            Some((ratio, interval)) => (format!("{ratio:.3}"), range(interval)),
            None => ("–".to_string(), "–".to_string()),
        };
        let ready_after = match group.observer {
            Observer::Nobody => "–".to_string(),
            _ => format!("{:.2} s", middle(|pair| pair.ready_after.as_secs_f64())),
        };
        table.row(vec![
            group.observer.to_string(),
            group.pairs.len().to_string(),
            format!("{:.0}", middle(|pair| pair.off_per_s)),
            format!("{:.0}", middle(|pair| pair.on_per_s)),
            format!("{:.3}", median(&group.ratios)),
            range(quartiles(&group.ratios)),
            range(bootstrap_median(&group.ratios, seed)),
            of_control,
            interval,
            ready_after,
        ]);
    }
    table
}

/// Whether the goal is met, one line for each observer that has one.
pub(crate) fn verdicts(result: &Throughput, seed: u64) -> String {
    let mut text = String::new();
    let groups = groups(result);
    for group in &groups {
        if let (Some(goal), Some((ratio, interval))) =
            (goal(group.observer), of_control(group, &groups, seed))
        {
            let _ = writeln!(
                text,
                "\n**{}: {}**",
                group.observer,
                verdict(goal, ratio, interval, obstacle(group, result))
            );
        }
    }
    text
}

/// How much of the control's median should be left; none if nothing was promised.
fn goal(observer: Observer) -> Option<f64> {
    match observer {
        Observer::Dbtime {
            rate_hz: GOAL_RATE_HZ,
            tier,
        } => Some(match tier {
            Tier::Sampled => 0.99,
            Tier::Switch => 0.97,
            Tier::Calls => 0.95,
        }),
        _ => None,
    }
}

/// The ratio of every pair, a line per observer.
pub(crate) fn all_pairs(result: &Throughput) -> String {
    let mut text = String::new();
    for group in groups(result) {
        let ratios: Vec<String> = group.ratios.iter().map(|ratio| format!("{ratio:.3}")).collect();
        let _ = writeln!(text, "- {}: {}", group.observer, ratios.join(" "));
    }
    text
}

fn groups(result: &Throughput) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for pair in &result.pairs {
        let known = groups.iter().position(|group| group.observer == pair.observer);
        let group = known.unwrap_or_else(|| {
            groups.push(Group {
                observer: pair.observer,
                pairs: Vec::new(),
                ratios: Vec::new(),
            });
            groups.len() - 1
        });
        groups[group].pairs.push(pair);
        groups[group].ratios.push(pair.ratio());
    }
    groups.sort_by_key(|group| match group.observer {
        Observer::Nobody => (0, None, 0),
        Observer::Dbtime { rate_hz, tier } => (1, Some(tier), rate_hz),
        Observer::Perf { rate_hz } => (2, None, rate_hz),
        Observer::OffCpuTime => (3, None, 0),
        Observer::PerfTrace => (4, None, 0),
    });
    groups
}

fn of_control(group: &Group<'_>, groups: &[Group<'_>], seed: u64) -> Option<(f64, Range)> {
    let control = groups.iter().find(|other| other.observer == Observer::Nobody)?;
    if group.observer == Observer::Nobody {
        return None;
    }
    Some((
        median(&group.ratios) / median(&control.ratios),
        bootstrap_ratio(&group.ratios, &control.ratios, seed),
    ))
}

/// Why the ratios prove nothing, whatever they are.
fn obstacle(group: &Group<'_>, result: &Throughput) -> Option<&'static str> {
    if group.pairs.len() < PAIRS_TO_JUDGE {
        Some("there are too few pairs")
    } else if result.was_shared() {
        Some("the host was shared")
    } else {
        None
    }
}

fn verdict(goal: f64, ratio: f64, interval: Range, obstacle: Option<&str>) -> String {
    let is_certain = interval.low >= goal || interval.high < goal;
    let verdict = match (obstacle, ratio >= goal, is_certain) {
        (Some(why), ..) => format!("not judged: {why}"),
        (None, true, true) => "met".to_string(),
        (None, false, true) => "missed".to_string(),
        (None, true, false) => "met, not certain: the interval reaches below it".to_string(),
        (None, false, false) => "missed, not certain: the interval reaches above it".to_string(),
    };
    format!(
        "goal at least {goal} of control: {ratio:.3} ({}), {verdict}.",
        range(interval)
    )
}

fn range(range: Range) -> String {
    format!("{:.3}–{:.3}", range.low, range.high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_says_when_it_is_not_certain() {
        let interval = |low, high| Range { low, high };
        let certain = verdict(0.99, 1.0, interval(0.995, 1.01), None);
        assert!(certain.ends_with("1.000 (0.995–1.010), met."), "{certain}");
        assert!(verdict(0.99, 0.992, interval(0.97, 1.01), None).contains(" met, not certain"));
        assert!(verdict(0.99, 0.98, interval(0.97, 1.0), None).contains(" missed, not certain"));
        assert!(verdict(0.99, 0.95, interval(0.94, 0.96), None).ends_with(" missed."));
    }

    #[test]
    fn nothing_is_concluded_from_noise() {
        let (low, high) = (1.1, 1.4);
        let verdict = verdict(0.99, 1.276, Range { low, high }, Some("the host was shared"));
        assert!(verdict.ends_with("not judged: the host was shared."), "{verdict}");
    }
}
