//! Tables of LatchProfX, written by hand as the script formats them (`latchprofx.sql` of Tanel Poder's TPT scripts): none printed by an
//! Oracle was at hand. Numbers were worked out by hand.

use crate::whole::{Whole, of_text};
use dbtime_model::recording::Clock;
use proptest::prelude::*;

/// 10,000 samples in 0.31 s.
const TABLE: &str = include_str!("fixtures/latchprof.txt");

/// SID, latch, samples, gets, nanoseconds.
fn held(imported: &Whole) -> Vec<(&str, &str, u64, u64, u64)> {
    let rows = imported.rows.held_locks.iter().map(|row| {
        let session = imported.rows.sessions.iter().find(|of| of.id == row.session);
        let sid = session.expect("every row has a session").sid.as_str();
        (sid, row.lock.as_str(), row.samples, row.gets, row.ns)
    });
    rows.collect()
}

fn says(imported: &Whole, what: &str) -> bool {
    imported.problems.iter().any(|problem| problem.contains(what))
}

fn counters(imported: &Whole) -> Vec<i64> {
    imported.rows.counters.iter().map(|row| row.value).collect()
}

#[test]
fn a_table_is_read_to_the_digit() {
    // 500 of 10,000 in 0.312 s, which is not in hundredths: such a table is never printed.
    let never = TABLE
        .replace("15.500        .155", "15.600        .156")
        .replace("1.240        .124", "1.248        .125");
    let imported = of_text(never).expect("a known format");
    assert!(
        says(&imported, "does not show how long was sampled"),
        "{:?}",
        imported.problems
    );
    let table = TABLE;
    for text in [
        table.to_string(),
        table.replace('\n', "\r\n"),
        table.replace(" .", " ,"),
    ] {
        let imported = of_text(text).expect("a known format");
        assert_eq!(
            held(&imported),
            [
                ("146", "cache buffers chains", 500, 100, 15_500_000),
                ("146", "Change Notification Hash table latch", 40, 10, 1_240_000),
                ("12", "shared pool", 1, 1, 31_000),
            ]
        );
        assert_eq!(counters(&imported), [10_000, 310_000_000]);
        assert_eq!((imported.meta.start_us, imported.meta.end_us), (0, 310_000));
        assert_eq!(imported.meta.collector.clock, Clock::Relative);
        let modes: Vec<_> = imported
            .rows
            .held_locks
            .iter()
            .map(|row| (row.exclusive, row.mode_unknown))
            .collect();
        assert_eq!(modes, [(true, false), (true, false), (false, false)]);
        assert!(imported.problems.is_empty(), "{:?}", imported.problems);
    }
}

#[test]
fn runs_stand_one_behind_the_other_and_pages_are_one_run() {
    let table = TABLE;
    let imported = of_text(table.repeat(2)).expect("a known format");
    assert_eq!(counters(&imported), [10_000, 310_000_000, 10_000, 310_000_000]);
    assert_eq!(imported.meta.end_us, 620_000);
    let (above, last) = table.split_once("        12 shared").expect("the last row");
    let headings: Vec<&str> = table.lines().skip(4).take(2).collect();
    let paged = format!("{above}\n{}\n        12 shared{last}", headings.join("\n"));
    let imported = of_text(paged).expect("a known format");
    assert_eq!(counters(&imported), [10_000, 310_000_000]);
    assert_eq!(held(&imported).len(), 3);
}

#[test]
fn what_is_damaged_is_told_with_its_line() {
    let table = TABLE;
    for (from, to, said) in [
        ("500        100", "5x0        100", "text.trc:7: "),
        (
            "500        100",
            "900        100",
            "text.trc:7: left out, because its numbers contradict",
        ),
        (".124\n", "\n", "text.trc:8: "),
        (
            "1.240        .124",
            "1.240        .924",
            "text.trc:8: left out, because its numbers contradict",
        ),
        // A line has only as many columns as fit into 80 characters.
        (
            "FUNC     ",
            "\n---------- -----------------------------------\nFUNC     ",
            "text.trc:7: the table is wrapped",
        ),
    ] {
        assert!(table.contains(from), "{from}");
        let imported = of_text(table.replacen(from, to, 1)).expect("a known format");
        assert!(says(&imported, said), "{said}: {:?}", imported.problems);
    }
    let empty = table
        .lines()
        .take(6)
        .map(|line| format!("{line}\n"))
        .collect::<String>();
    let imported = of_text(empty).expect("a known format");
    assert!(says(&imported, "who held latches is not known") && !imported.meta.database.held_locks);
    for cut in 0..table.len() {
        if let Ok(part) = of_text(&table[..cut]) {
            assert!(held(&part).len() <= 3, "{cut}");
            // A cut inside a row is reported; a missing rest of a name, on a line of its own, cannot be noticed.
            let is_whole = table[cut..].starts_with('\n')
                || table[..cut]
                    .lines()
                    .last()
                    .is_none_or(|line| line.trim().is_empty())
                || table[..cut].ends_with('\n')
                || cut > table.find("\n\nSQL> exit").expect("an end");
            assert!(is_whole || !part.problems.is_empty(), "{cut}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_damage_makes_it_panic(damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40)) {
        let mut text = TABLE.as_bytes().to_vec();
        for (at, byte) in damage {
            let at = at.index(text.len());
            text[at] = byte;
        }
        let _ = of_text(text);
    }
}
