//! Spools of the script of `dbtime oracle-snap`, written by hand as it prints them: no Oracle was at hand. Numbers were worked out by hand.

use std::collections::BTreeMap;

use crate::whole::{Whole, of_text};
use dbtime_model::counter;
use dbtime_model::recording::Clock;
use proptest::prelude::*;

const FIRST: &str = "2026-01-02T03:04:05.250000Z";
const SECOND: &str = "2026-01-02T03:04:15.750001Z";

/// 2026-01-02 03:04:05, by `date -u +%s`.
const BEGIN_US: i64 = 1_767_323_045_000_000;

/// Sessions 12 (of HR) and 3 (a background process) are in both readings, 13 logged on in between, 14 logged off, and 15 began
/// before the first reading, which does not have it.
fn spool() -> String {
    include_str!("fixtures/oracle_snap.csv").to_string()
}

fn counters(imported: &Whole) -> BTreeMap<(String, String), i64> {
    let sids = imported
        .rows
        .sessions
        .iter()
        .map(|row| (row.id, row.sid.as_str()));
    let sids: BTreeMap<_, _> = sids.collect();
    let mut sums = BTreeMap::new();
    for row in &imported.rows.counters {
        assert_eq!(
            (row.source.as_str(), row.time),
            (counter::SNAPPER, BEGIN_US + 10_000_000)
        );
        *sums
            .entry((sids[&row.session].to_string(), row.name.to_string()))
            .or_default() += row.value;
    }
    sums
}

fn activity(imported: &Whole) -> BTreeMap<(String, String), u64> {
    let mut sums = BTreeMap::new();
    for row in &imported.rows.activity {
        assert_eq!(row.time, BEGIN_US + 10_000_000);
        let session = imported.rows.sessions.iter().find(|of| of.id == row.session);
        let sid = session.expect("every row has a session").sid.clone();
        *sums.entry((sid, row.wait().to_string())).or_default() += row.ns / 1000;
    }
    sums
}

fn named<T: Copy>(pairs: &[(&str, &str, T)]) -> BTreeMap<(String, String), T> {
    let pairs = pairs.iter();
    pairs
        .map(|(sid, name, value)| ((sid.to_string(), name.to_string()), *value))
        .collect()
}

#[test]
fn what_grew_between_two_readings_is_there() {
    let imported = of_text(spool()).expect("a known format");
    let elapsed = 10_500_001_000;
    assert_eq!(
        counters(&imported),
        named(&[
            ("3.1", "elapsed_ns", elapsed),
            ("3.1", "time_us:background cpu time", 200),
            ("12.345", "elapsed_ns", elapsed),
            ("12.345", "stat:user calls", 5),
            ("12.345", "stat:session pga memory", -100),
            ("12.345", "stat:opened cursors current", -3),
            ("12.345", "time_us:DB CPU", 3_000_000),
            ("12.345", "time_us:DB time", 6_000_000),
            ("12.345", "wait_us:db file sequential read", 2_000_000),
            ("12.345", "waits:db file sequential read", 400),
            // 6 s, less 5 s and the 0.25 s of the one that had begun.
            ("12.345", "wait_us:SQL*Net message from client", 750_000),
            ("12.345", "waits:SQL*Net message from client", 1),
            ("12.345", "wait_us:enq: TX - row lock contention", 700_000),
            ("13.1", "elapsed_ns", elapsed),
            ("13.1", "stat:user calls", 2),
            ("13.1", "time_us:DB CPU", 50),
        ])
    );
    assert_eq!(
        activity(&imported),
        named(&[
            ("3.1", "CPU", 200),
            ("12.345", "CPU", 3_000_000),
            ("12.345", "User I/O:db file sequential read", 2_000_000),
            ("12.345", "Idle:SQL*Net message from client", 750_000),
            ("12.345", "Application:enq: TX - row lock contention", 700_000),
            ("12.345", "[unaccounted]", 300_000),
            ("13.1", "CPU", 50),
        ])
    );
    let mut sessions: Vec<_> = imported
        .rows
        .sessions
        .iter()
        .map(|row| (row.sid.as_str(), row.user.as_str(), row.backend_type.as_str()))
        .collect();
    sessions.sort_unstable();
    assert_eq!(
        sessions,
        [
            ("12.345", "HR", "client backend"),
            ("13.1", "OE", "client backend"),
            ("3.1", "", "dbw0")
        ]
    );
    let meta = &imported.meta;
    assert_eq!(
        (meta.start_us, meta.end_us),
        (BEGIN_US + 250_000, BEGIN_US + 10_750_001)
    );
    assert_eq!(meta.collector.clock, Clock::Utc);
    assert_eq!(meta.database.version, "19.0.0.0.0");
    assert_eq!(imported.problems.len(), 3, "{:?}", imported.problems);
    for said in [
        "sessions that ended between two readings and are not in the file: 1",
        "although they had begun: 1",
        "lower than in the previous reading: 1",
    ] {
        assert!(
            imported.problems.iter().any(|problem| problem.contains(said)),
            "{said}: {:?}",
            imported.problems
        );
    }
    let with_returns = of_text(spool().replace('\n', "\r\n")).expect("a known format");
    assert_eq!(counters(&with_returns), counters(&imported));
}

#[test]
fn a_third_reading_is_another_interval() {
    let third = "2026-01-02T03:04:25.750001Z";
    let text = spool();
    let (_, second) = text.split_once("read,.\n").expect("two readings");
    let more = second
        .replace(SECOND, third)
        .replace("\"user calls\",15", "\"user calls\",16");
    let imported = of_text(format!("{text}{more}")).expect("a known format");
    let at = |time: i64, name: &str| {
        let rows = imported
            .rows
            .counters
            .iter()
            .filter(|row| row.time == time && row.name == name);
        rows.map(|row| row.value).collect::<Vec<_>>()
    };
    assert_eq!(at(BEGIN_US + 20_000_000, "stat:user calls"), [1]);
    // 15 is in both now.
    assert_eq!(at(BEGIN_US + 20_000_000, "elapsed_ns"), [10_000_000_000; 4]);
}

#[test]
fn what_is_missing_is_not_taken_for_zero() {
    // A damaged line of the first reading: what the session had then is not known.
    let text = spool().replace(&format!("stat,{FIRST},12,345,\"user calls\",10,."), "stat,");
    let imported = of_text(text).expect("a known format");
    assert_eq!(imported.file().unknown_lines, 1);
    let found = counters(&imported);
    let has = |name: &str| found.contains_key(&("12.345".to_string(), name.to_string()));
    assert!(!has("stat:user calls") && has("time_us:DB CPU"));
    // A damaged line of the second one: nothing has shrunk to 0 because of that.
    let text = spool().replace(
        &format!("stat,{SECOND},12,345,\"session pga memory\",900,."),
        "stat,",
    );
    let found = counters(&of_text(text).expect("a known format"));
    let shrunk: Vec<_> = found.iter().filter(|(_, value)| **value < 0).collect();
    assert!(shrunk.is_empty(), "{shrunk:?}");
}

#[test]
fn a_spool_cut_at_any_byte_gives_no_more_than_the_whole() {
    let whole = spool();
    let all = of_text(whole.clone()).expect("a known format");
    let (all_counters, all_activity) = (counters(&all), activity(&all));
    for cut in 0..whole.len() - 1 {
        let Ok(part) = of_text(&whole[..cut]) else {
            continue;
        };
        // If a wait in progress is cut away, what was waited before stays.
        for (key, ns) in activity(&part) {
            assert!(
                all_activity.get(&key).is_some_and(|all| ns <= *all),
                "cut at {cut}: {key:?}"
            );
        }
        for (key, value) in counters(&part) {
            assert!(all_counters.contains_key(&key), "cut at {cut}: {key:?} {value}");
        }
        assert!(!part.problems.is_empty(), "cut at {cut}");
    }
}

#[test]
fn another_version_and_other_orders_are_told() {
    let imported = of_text(spool().replace("oracle-snap 1", "oracle-snap 2")).expect("a known format");
    assert!(imported.rows.counters.is_empty() && imported.problems[0].contains("version 2"));
    let backwards = spool()
        .replace(FIRST, "x")
        .replace(SECOND, FIRST)
        .replace('x', SECOND);
    let imported = of_text(backwards).expect("a known format");
    assert!(imported.rows.counters.is_empty());
    assert!(
        imported
            .problems
            .iter()
            .any(|problem| problem.contains("not later than")),
        "{:?}",
        imported.problems
    );
    let only = spool().replace(SECOND, FIRST);
    assert!(of_text(only).expect("a known format").rows.counters.is_empty());
}

#[test]
fn more_names_than_any_database_has_are_left_out_and_told() {
    let text = spool();
    let (first, second) = text.split_once("read,.\n").expect("two readings");
    let many = |time: &str, value: u32| -> String {
        let lines = (0..100_010).map(|number| format!("stat,{time},12,345,\"{number}\",{value},.\n"));
        lines.collect()
    };
    let text = format!("{first}{}read,.\n{}{second}", many(FIRST, 1), many(SECOND, 3));
    let imported = of_text(text).expect("a known format");
    // Those that did not fit into the first reading do not fit into the second: nothing grew from 0.
    assert!(imported.rows.counters.iter().all(|row| row.value != 3));
    assert!(imported.rows.counters.iter().filter(|row| row.value == 2).count() > 99_000);
    assert!(
        imported
            .problems
            .iter()
            .any(|problem| problem.contains("lines left out")),
        "{:?}",
        imported.problems
    );
}

#[test]
fn numbers_at_their_ends_overflow_nothing() {
    for number in ["9223372036854775807", "-9223372036854775807", "0"] {
        for of in [
            "4000000",
            "2400000",
            "\"user calls\",15",
            "\"user calls\",10",
            "480",
        ] {
            let to = match of.rsplit_once(',') {
                Some((name, _)) => format!("{name},{number}"),
                None => number.to_string(),
            };
            let _ = of_text(spool().replace(of, &to)).expect("a known format");
        }
    }
    for time in ["0001-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z"] {
        let _ = of_text(spool().replace(FIRST, time)).expect("a known format");
        let _ = of_text(spool().replace(SECOND, time)).expect("a known format");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_damage_makes_it_panic(damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40)) {
        let mut text = spool().into_bytes();
        for (at, byte) in damage {
            let at = at.index(text.len());
            text[at] = byte;
        }
        let _ = of_text(text);
    }
}
