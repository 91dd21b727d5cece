//! Spools of the script of `dbtime oracle-latch`, written by hand as it prints them: no Oracle was at hand. Numbers were worked out by
//! hand. Sums over many holds are in the tests of the command (`oracle_latches`).

use crate::whole::{Whole, of_text};
use dbtime_model::counter;
use dbtime_model::recording::Clock;
use dbtime_model::{HeldLockRow, SessionId};
use proptest::prelude::*;

/// 2026-01-02 03:04:05, by `date -u +%s`.
const BEGIN_US: i64 = 1_767_323_045_000_000;

/// Sessions 12 and 13, and 99 which V$SESSION does not show, in 15,000 samples of 1.5 s: one is 0.1 ms.
fn spool() -> String {
    include_str!("fixtures/oracle_latch.csv").to_string()
}

/// SID, latch, second, samples, gets, microseconds.
type Held<'a> = (&'a str, &'a str, i64, u64, u64, u64);

fn held(imported: &Whole) -> Vec<Held<'_>> {
    let rows = imported.rows.held_locks.iter().map(|row| {
        let session = imported.rows.sessions.iter().find(|of| of.id == row.session);
        let sid = session.expect("every row has a session").sid.as_str();
        let second = (row.time - BEGIN_US) / 1_000_000;
        (
            sid,
            row.lock.as_str(),
            second,
            row.samples,
            row.gets,
            row.ns / 1000,
        )
    });
    rows.collect()
}

fn row<'a>(imported: &'a Whole, lock: &str) -> &'a HeldLockRow {
    let mut rows = imported.rows.held_locks.iter();
    rows.find(|row| row.lock == lock).expect("it was held")
}

fn says(imported: &Whole, what: &str) -> bool {
    imported.problems.iter().any(|problem| problem.contains(what))
}

#[test]
fn who_held_what_is_there() {
    let imported = of_text(spool()).expect("a known format");
    // The hold of get 12 continues in the next second: it counts in the second in which it was first met.
    assert_eq!(
        held(&imported),
        [
            ("12.345", "cache buffers chains", 0, 4, 3, 400),
            ("13.2", "shared pool", 0, 1, 1, 100),
            ("12.345", "cache buffers chains", 1, 1, 0, 100),
            ("99", "row cache objects", 1, 1, 1, 100),
        ]
    );
    let chains = row(&imported, "cache buffers chains");
    assert_eq!((chains.number, chains.address), (Some(4711), 0xa1));
    assert!(chains.exclusive && !chains.mode_unknown);
    assert_eq!(
        (chains.wait_class.as_str(), chains.wait_event.as_str()),
        ("CPU", "CPU")
    );
    let pool = row(&imported, "shared pool");
    assert_eq!(
        (pool.number, pool.wait_event.as_str()),
        (None, "latch: shared pool")
    );
    let cache = row(&imported, "row cache objects");
    assert!(!cache.exclusive && !cache.mode_unknown && cache.statement == 0);
    assert_eq!(cache.wait_event, "not recorded");
    let frames: Vec<&str> = imported
        .rows
        .stacks
        .iter()
        .map(|stack| stack.frames[0].symbol.as_str())
        .collect();
    assert_eq!(
        frames,
        [
            "kcbgtcr: fast path (cr pin) [buffer header]",
            "kghalo",
            "kqrpre: init complete"
        ]
    );
    let mut statements: Vec<&str> = imported
        .rows
        .statements
        .iter()
        .map(|row| row.sql_id.as_str())
        .collect();
    statements.sort_unstable();
    assert_eq!(statements, ["0w26sk6t6gq98", "8f1sjvfxuup9w"]);
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
            ("13.2", "", "lgwr"),
            ("99", "", "unknown")
        ]
    );
    let counters: Vec<_> = imported
        .rows
        .counters
        .iter()
        .map(|row| ((row.time - BEGIN_US) / 1_000_000, row.name.as_str(), row.value))
        .collect();
    assert_eq!(
        counters,
        [
            (0, "samples", 7500),
            (0, "sampled_ns", 750_000_000),
            (1, "samples", 7500),
            (1, "sampled_ns", 750_000_000)
        ]
    );
    assert!(
        imported
            .rows
            .counters
            .iter()
            .all(|row| row.source == counter::LATCH_SAMPLES && row.session == SessionId::RECORDER)
    );
    let meta = &imported.meta;
    assert_eq!(
        (meta.start_us, meta.end_us),
        (BEGIN_US + 250_000, BEGIN_US + 1_750_000)
    );
    assert_eq!(
        (meta.collector.clock, meta.collector.rate_hz),
        (Clock::Utc, 10_000)
    );
    assert!(meta.database.held_locks && meta.database.version == "19.0.0.0.0");
    assert!(imported.problems.is_empty(), "{:?}", imported.problems);
    let coloured = spool()
        .replace("held,", "\x1b[0;32mheld,\x1b[0m")
        .replace('\n', "\r\n");
    let coloured = of_text(coloured).expect("a known format");
    assert_eq!(held(&coloured), held(&imported));
    assert!(coloured.problems.is_empty(), "{:?}", coloured.problems);
}

#[test]
fn gaps_and_uneven_samples_are_told() {
    // The second stretch a quarter of a second later, and a tenth of its samples.
    let text = spool()
        .replace(
            "taken,2026-01-02T03:04:06.000000Z,2026-01-02T03:04:06.750000Z,7500",
            "taken,2026-01-02T03:04:06.100000Z,2026-01-02T03:04:06.850000Z,750",
        )
        .replace("sampled,15000", "sampled,8250");
    let imported = of_text(text).expect("a known format");
    assert!(
        says(
            &imported,
            "gaps of more than 0.1 s in which no sample was taken: 1, 0.100 s"
        ),
        "{:?}",
        imported.problems
    );
    assert!(
        says(&imported, "1000 to 10000 a second"),
        "{:?}",
        imported.problems
    );
    // 1.5 s of 8250 samples: the gap is not time in which somebody could have held it.
    let all: u64 = imported.rows.held_locks.iter().map(|row| row.ns).sum();
    assert_eq!(all, 7 * 1_500_000_000 / 8250);
}

#[test]
fn what_is_damaged_or_missing_is_told_with_its_line() {
    let whole = spool();
    let lines = whole.lines().count();
    for (from, to, line, said) in [
        // Wrapped: SQL*Plus with a shorter line.
        (
            "\"kghalo\",",
            "\"kghalo\"\n,",
            6,
            "lines of holders that were written but are missing: their holds are shown too short: 1",
        ),
        (
            "held,2026-01-02T03:04:05.400000Z,13",
            "ORA-00942: table or view does not exist\n",
            6,
            "are missing",
        ),
        (
            "taken,2026-01-02T03:04:05.250000Z",
            "taken,2026-01-02T03:04:5.250000Z",
            8,
            "no line says how many samples were taken along with theirs: 5",
        ),
        (
            ",7500,5,.",
            ",7500,5",
            8,
            "15000 samples were taken, and the lines that count them say 7500",
        ),
    ] {
        let imported = of_text(whole.replacen(from, to, 1)).expect("a known format");
        assert!(says(&imported, said), "{said}: {:?}", imported.problems);
        assert!(
            says(&imported, &format!("text.trc:{line}: ")),
            "{line}: {:?}",
            imported.problems
        );
    }
    assert!(says(
        &of_text(whole.replace("end,.\n", "")).expect("a known format"),
        "the file was truncated"
    ));
    assert_eq!(lines, whole.lines().count());
    for nothing in [
        "dbtime-oracle-latch 1\n",
        "dbtime-oracle-latch 1\nORA-01034: ORACLE not available\n",
    ] {
        let imported = of_text(nothing).expect("a known format");
        assert!(imported.rows.held_locks.is_empty() && !imported.meta.database.held_locks);
        assert!(
            says(&imported, "who held latches is not known"),
            "{:?}",
            imported.problems
        );
    }
    assert!(of_text("").expect_err("nothing").is_empty());
    let imported = of_text(spool().replace("oracle-latch 1", "oracle-latch 2")).expect("a known format");
    assert!(imported.rows.held_locks.is_empty() && says(&imported, "version 2"));
}

#[test]
fn a_spool_cut_at_any_byte_gives_no_more_than_the_whole() {
    let whole = spool();
    let all = of_text(whole.clone()).expect("a known format");
    let sum = |of: &Whole, what: fn(&HeldLockRow) -> u64| of.rows.held_locks.iter().map(what).sum::<u64>();
    for cut in 0..whole.len() - 1 {
        let Ok(part) = of_text(&whole[..cut]) else {
            continue;
        };
        assert!(
            sum(&part, |row| row.samples) <= sum(&all, |row| row.samples),
            "cut at {cut}"
        );
        assert!(
            sum(&part, |row| row.gets) <= sum(&all, |row| row.gets),
            "cut at {cut}"
        );
        assert!(
            part.problems
                .iter()
                .any(|problem| problem.contains("the last line of the script is missing"))
        );
    }
}

#[test]
fn numbers_at_their_ends_overflow_nothing() {
    for number in ["18446744073709551615", "0", "9223372036854775807"] {
        for of in [
            ",7500,5,.",
            ",15000,7,.",
            ",12,345,",
            "A1,7,",
            "child,00000000000000A1,4711",
        ] {
            let to = match of {
                ",7500,5,." => format!(",{number},{number},."),
                ",15000,7,." => format!(",{number},7,."),
                ",12,345," => format!(",{number},{number},"),
                "A1,7," => format!("A1,{number},"),
                _ => format!("child,00000000000000A1,{number}"),
            };
            let _ = of_text(spool().replace(of, &to)).expect("a known format");
        }
    }
    for time in ["0001-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z"] {
        for of in [
            "2026-01-02T03:04:05.250000Z",
            "2026-01-02T03:04:06.750000Z",
            "2026-01-02T03:04:06.000000Z",
        ] {
            let _ = of_text(spool().replace(of, time)).expect("a known format");
        }
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
