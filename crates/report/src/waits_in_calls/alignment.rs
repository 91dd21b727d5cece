//! By how much the clocks of two traces differ, found by waits that consist of one call.
//!
//! A call that takes at least nine tenths of a wait is taken for the call that the wait was about, when it is near. It must lie inside
//! the wait, so each such match allows the shift of the clock a range: no less than brings the end of the wait behind that of the
//! call, no more than keeps its begin before that of the call. Wrong matches allow ranges anywhere, right ones the same: the
//! shift is the middle of what most matches allow, and may be off by half of its width.

use serde::Serialize;

use super::Event;

/// Waits and calls that are held against each other.
#[derive(Debug, Clone, Copy)]
struct Search {
    /// Shorter waits say little, and have many calls that look like theirs.
    shortest_ns: i64,
    /// Further apart than this, two events are not the same.
    window_ns: i64,
}

/// First long waits, wherever their call may be: time lines of old releases have whole seconds. If there are too few of them,
/// shorter ones, whose calls have to be near.
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

/// Waits that are looked at: more of them say no more.
const MAX_WAITS: usize = 20_000;

/// Calls that are looked at for each, on either side, the nearest: bounds the time that dense traces take.
const MAX_CALLS: usize = 100;

/// Both traces have whole microseconds: an end may be one off.
const ROUNDING_NS: i64 = 1_000;

/// Fewer matches are chance.
const FEWEST: u64 = 3;

/// Time zones differ by multiples of a quarter of an hour.
const ZONE_NS: i64 = 900_000_000_000;

/// How the times of waits were brought onto the clock of the calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Alignment {
    /// What was added to the times of the waits, nanoseconds.
    pub shift_ns: i64,
    /// How far that may be off; none when it was not found by matches: the times of day of both files are taken as they are.
    pub may_be_off_ns: Option<u64>,
    /// Waits that consist of one call and agree on the shift.
    pub matches: u64,
    /// Waits that have a call of their length near.
    pub candidates: u64,
    /// Quarters of an hour of the shift, for a time line without its offset from UTC.
    pub zone_quarters: i64,
}

/// Finds the shift. Both are in the order of their begin.
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

/// Quarters of an hour by which waits and calls are apart, when they do not meet at all.
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

/// The range that most of the ranges have in common, the one nearest to no shift among equals, and how many they are.
fn most_allowed(ranges: Vec<(i64, i64)>) -> (u64, Option<(i64, i64)>) {
    let mut edges: Vec<(i64, bool)> = Vec::with_capacity(ranges.len() * 2);
    for (low, high) in ranges {
        // An end comes behind the begins of the same place: ranges that touch have that place in common.
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
        // It stays as many until the next edge.
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
        // Waits of different lengths, each with 20 us before its call and 30 us behind; their clock is 7 ms late.
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
