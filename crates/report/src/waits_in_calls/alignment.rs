//! By how much the clocks of two traces differ, found by waits that consist of one call.
//!
//! A nearby call that takes at least nine tenths of a wait is assumed to be the call that the wait was about. As it must be inside the
//! wait, each such match allows a range of clock shifts: at least as much as puts the end of the wait after that of the call, at most
//! as much as keeps its start before that of the call. Wrong matches allow random ranges, right ones the same range: the shift is the
//! middle of what most matches allow, and may be off by half of its width.

use serde::Serialize;

use super::Event;

/// Which waits and calls are compared.
#[derive(Debug, Clone, Copy)]
struct Search {
    /// Shorter waits say little, and many calls look like theirs.
    shortest_ns: i64,
    /// Two events further apart than this are not the same.
    window_ns: i64,
}

/// First long waits, however far away their call is: time lines of old releases have whole seconds. If there are too few of them,
/// shorter ones, whose calls have to be close.
const SEARCHES: [Search; 2] = [
    Search {
        shortest_ns: 1_000_000,
        window_ns: 2_000_000_000,
    },
    Search {
        shortest_ns: 50_000,
        window_ns: 20_000_000,
    },
];

/// Waits that are examined: more of them add nothing.
const MAX_WAITS: usize = 20_000;

/// Nearest calls that are examined for each, on either side: bounds the time for dense traces.
const MAX_CALLS: usize = 100;

/// Both traces have whole microseconds: an end may be off by one.
const ROUNDING_NS: i64 = 1_000;

/// Fewer matches than this are chance.
const FEWEST: u64 = 3;

/// Time zones differ by multiples of a quarter of an hour.
const ZONE_NS: i64 = 900_000_000_000;

/// How the times of waits were mapped to the clock of the calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Alignment {
    /// What was added to the times of the waits, nanoseconds.
    pub shift_ns: i64,
    /// How far that may be off; none if it was not found by matches: the times of day of both files are used unchanged.
    pub may_be_off_ns: Option<u64>,
    /// Waits that consist of one call and agree on the shift.
    pub matches: u64,
    /// Waits with a nearby call of their length.
    pub candidates: u64,
    /// Quarters of an hour in the shift, for a time line without its offset from UTC.
    pub zone_quarters: i64,
}

/// Finds the shift. Both are sorted by start.
pub(super) fn find(waits: &[Event], calls: &[Event]) -> Alignment {
    let zone_quarters = zone(waits, calls);
    let zone_ns = zone_quarters.saturating_mul(ZONE_NS);
    let [long, short] = SEARCHES;
    let found = search(waits, calls, zone_ns, long);
    let found = match found.may_be_off_ns {
        Some(_) => found,
        None => search(waits, calls, zone_ns, short),
    };
    Alignment {
        zone_quarters,
        ..found
    }
}

fn search(waits: &[Event], calls: &[Event], zone_ns: i64, of: Search) -> Alignment {
    let mut ranges: Vec<(i64, i64)> = Vec::new();
    let mut candidates = 0;
    let long: Vec<&Event> = calls
        .iter()
        .filter(|call| call.ns >= of.shortest_ns / 10 * 9)
        .collect();
    for wait in waits
        .iter()
        .filter(|wait| wait.ns >= of.shortest_ns)
        .take(MAX_WAITS)
    {
        let start = wait.start.saturating_add(zone_ns);
        let here = long.partition_point(|call| call.start < start);
        let near = long[here.saturating_sub(MAX_CALLS)..(here + MAX_CALLS).min(long.len())]
            .iter()
            .filter(|call| call.start.abs_diff(start) <= of.window_ns.unsigned_abs())
            .filter(|call| call.ns <= wait.ns.saturating_add(ROUNDING_NS) && call.ns >= wait.ns / 10 * 9);
        let before = ranges.len();
        ranges.extend(near.map(|call| {
            let end = start.saturating_add(wait.ns);
            (
                call.end().saturating_sub(end).saturating_sub(ROUNDING_NS),
                call.start.saturating_sub(start).saturating_add(ROUNDING_NS),
            )
        }));
        candidates += u64::from(ranges.len() > before);
    }
    let (matches, range) = most_allowed(ranges);
    let unknown = Alignment {
        shift_ns: zone_ns,
        may_be_off_ns: None,
        matches,
        candidates,
        zone_quarters: 0,
    };
    match range {
        Some((low, high)) if matches >= FEWEST && matches * 2 > candidates => Alignment {
            shift_ns: zone_ns + low + (high - low) / 2,
            may_be_off_ns: Some((high - low + 1).unsigned_abs() / 2),
            ..unknown
        },
        _ => unknown,
    }
}

/// Quarters of an hour between waits and calls, if they do not overlap at all.
fn zone(waits: &[Event], calls: &[Event]) -> i64 {
    let (Some(first_wait), Some(last_wait)) = (waits.first(), waits.last()) else {
        return 0;
    };
    let (Some(first_call), Some(last_call)) = (calls.first(), calls.last()) else {
        return 0;
    };
    let meet = first_wait.start <= last_call.end() && first_call.start <= last_wait.end();
    if meet {
        return 0;
    }
    let apart = last_call.end().saturating_sub(last_wait.end());
    let quarters = (apart as f64 / ZONE_NS as f64).round() as i64;
    // The earth has zones from -12 to +14 hours.
    if quarters.abs() <= 14 * 4 { quarters } else { 0 }
}

/// The range that most of the ranges have in common, among equals the one nearest to no shift, and how many have it in common.
fn most_allowed(ranges: Vec<(i64, i64)>) -> (u64, Option<(i64, i64)>) {
    let mut edges: Vec<(i64, bool)> = Vec::with_capacity(ranges.len() * 2);
    for (low, high) in ranges {
        // At the same place, an end sorts after a start: ranges that touch have that place in common.
        edges.push((low, false));
        edges.push((high, true));
    }
    edges.sort_unstable();
    let (mut open, mut most, mut best): (u64, u64, Option<(i64, i64)>) = (0, 0, None);
    for (at, (place, is_end)) in edges.iter().enumerate() {
        if *is_end {
            open -= 1;
            continue;
        }
        open += 1;
        // The number stays the same until the next edge.
        let until = edges.get(at + 1).map_or(*place, |(next, _)| *next);
        let is_nearer = best.is_none_or(|(low, high)| distance(*place, until) < distance(low, high));
        if open > most || open == most && is_nearer {
            most = open;
            best = Some((*place, until));
        }
    }
    (most, best)
}

/// How far a range is from no shift.
fn distance(low: i64, high: i64) -> u64 {
    if low <= 0 && high >= 0 {
        0
    } else {
        low.unsigned_abs().min(high.unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn event(start: i64, ns: i64) -> Event {
        Event { start, ns, name: 0 }
    }

    #[test]
    fn a_constant_difference_is_found_within_its_bounds() {
        // Waits of different lengths, each with 20 us before its call and 30 us after it; their clock is 7 ms late.
        let lengths = [5, 11, 3, 8, 21, 2].map(|ms| ms * MS);
        let calls: Vec<Event> = lengths
            .iter()
            .scan(0, |now, ns| {
                *now += 40 * MS;
                Some(event(*now, *ns))
            })
            .collect();
        let waits: Vec<Event> = calls
            .iter()
            .map(|call| event(call.start - 20_000 + 7 * MS, call.ns + 50_000))
            .collect();
        let found = find(&waits, &calls);
        assert_eq!((found.matches, found.candidates), (6, 6));
        let off = found.may_be_off_ns.expect("it was found") as i64;
        assert!((found.shift_ns + 7 * MS).abs() <= off, "{found:?}");
        assert!(off <= 26_000 + 1, "{found:?}");
    }

    #[test]
    fn where_no_wait_is_long_short_ones_are_enough() {
        let calls: Vec<Event> = (0..40)
            .map(|at| event(at * MS + at * at * 3_000, 80_000 + at % 7 * 30_000))
            .collect();
        let waits: Vec<Event> = calls
            .iter()
            .map(|call| event(call.start - 2_000 + 400_000, call.ns + 5_000))
            .collect();
        let found = find(&waits, &calls);
        let off = found.may_be_off_ns.expect("it was found") as i64;
        assert!(
            (found.shift_ns + 400_000).abs() <= off && off < 5_000,
            "{found:?}"
        );
        assert_eq!(found.matches, 40);
    }

    #[test]
    fn without_matches_nothing_is_moved() {
        let waits = [event(0, 5 * MS), event(20 * MS, 5 * MS)];
        let calls = [event(MS, 1_000), event(3 * MS, 2 * MS)];
        let found = find(&waits, &calls);
        assert_eq!((found.shift_ns, found.may_be_off_ns, found.matches), (0, None, 0));
    }

    #[test]
    fn a_time_line_without_its_zone_is_moved_by_quarters_of_an_hour() {
        let lengths = [5, 11, 3, 8].map(|ms| ms * MS);
        let calls: Vec<Event> = (1..)
            .zip(lengths)
            .map(|(at, ns)| event(at * 100 * MS, ns))
            .collect();
        let zone = 32 * ZONE_NS;
        let waits: Vec<Event> = calls
            .iter()
            .map(|call| event(call.start - zone - 2_000, call.ns + 4_000))
            .collect();
        let found = find(&waits, &calls);
        assert_eq!((found.zone_quarters, found.matches), (32, 4));
        assert!((found.shift_ns - zone).abs() < 4_000, "{found:?}");
    }
}
