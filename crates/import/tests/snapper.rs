//! Snapper's output: what a second, simpler reading of the real file (`../shared/data` beside the checkout) finds, and small tables of
//! other versions with numbers of their own.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::whole::{Whole, of_files, of_text};
use dbtime_import::ImportError;
use dbtime_model::counter::{self, snapper};
use dbtime_model::recording::Clock;
use dbtime_model::{Fidelity, SessionId, State};
use proptest::prelude::*;

const SECOND: i64 = 1_000_000;

/// The real file; says so loudly if it is not there.
fn real() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/data/snapper/tanelpoder__tpt-oracle__im_inmemory_cpu_counters.txt");
    if path.is_file() {
        return Some(path);
    }
    // There is nobody to tell if standard error is closed.
    let _ = writeln!(
        std::io::stderr(),
        "SKIPPED: no real file of Snapper: {} is not there",
        path.display()
    );
    None
}

/// A table of version 4 with one snapshot of ten seconds.
const TABLE: &str = include_str!("fixtures/snapper.txt");

/// 2015-04-29 08:25:20, by `date -u +%s`.
const TABLE_END: i64 = 1_430_295_920 * SECOND;

/// Sums of counters: time, SID, name.
fn counters(imported: &Whole) -> BTreeMap<(i64, String, String), i64> {
    let sids: BTreeMap<SessionId, &str> = imported
        .rows
        .sessions
        .iter()
        .map(|row| (row.id, row.sid.as_str()))
        .collect();
    let mut sums = BTreeMap::new();
    for row in &imported.rows.counters {
        assert_eq!(row.source, counter::SNAPPER);
        let sid = sids.get(&row.session).copied().unwrap_or_default();
        *sums
            .entry((row.time, sid.to_string(), row.name.to_string()))
            .or_default() += row.value;
    }
    sums
}

/// Time by SID and wait.
fn activity(imported: &Whole) -> BTreeMap<(String, String), u64> {
    let mut sums = BTreeMap::new();
    for row in &imported.rows.activity {
        let session = imported.rows.sessions.iter().find(|of| of.id == row.session);
        let sid = session.expect("every row has a session").sid.clone();
        *sums.entry((sid, row.wait().to_string())).or_default() += row.ns;
    }
    sums
}

fn named(pairs: &[(&str, &str, u64)]) -> BTreeMap<(String, String), u64> {
    let pairs = pairs.iter();
    pairs
        .map(|(sid, wait, us)| ((sid.to_string(), wait.to_string()), us * 1000))
        .collect()
}

// ---- the real file ----

/// What one snapshot of it prints, read by splitting lines at commas: no name in it has one.
#[derive(Debug, Default)]
struct Printed {
    end: String,
    seconds: String,
    rows: Vec<(String, String, i64, Option<i64>)>,
}

fn printed(text: &str) -> Vec<Printed> {
    let mut all = Vec::new();
    let mut open = Printed::default();
    for line in text.lines() {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        if line.starts_with("  1090  @1, ") {
            open.rows.push((
                cells[2].to_string(),
                cells[3].to_string(),
                cells[4].parse().expect("a number"),
                cells[8].parse().ok(),
            ));
        } else if let Some(rest) = line.strip_prefix("--  End of Stats snap 1, end=") {
            let (end, seconds) = rest.split_once(", seconds=").expect("both");
            open.end = end.to_string();
            open.seconds = seconds.trim().to_string();
            all.push(std::mem::take(&mut open));
        }
    }
    all
}

/// Seconds since the epoch, of days in November 2014.
fn november(end: &str) -> i64 {
    let number = |from: usize, to: usize| end[from..to].parse::<i64>().expect("digits");
    assert_eq!(&end[..8], "2014-11-");
    // 2014-11-01 00:00:00, by `date -u +%s`.
    1_414_800_000
        + (number(8, 10) - 1) * 86_400
        + number(11, 13) * 3600
        + number(14, 16) * 60
        + number(17, 19)
}

#[test]
fn every_number_of_the_real_file_is_there() {
    let Some(path) = real() else { return };
    let text = std::fs::read_to_string(&path).expect("text");
    let printed = printed(&text);
    // `grep -c 'End of Stats'`, and of rows `grep -c ', STAT, '` and so on.
    assert_eq!(printed.len(), 6);
    let rows_of = |kind: &str| {
        let rows = printed.iter().flat_map(|snapshot| &snapshot.rows);
        rows.filter(|(of, ..)| of == kind).count()
    };
    let lines_with = |what: &str| text.lines().filter(|line| line.contains(what)).count();
    for kind in ["STAT", "TIME", "WAIT"] {
        assert_eq!(rows_of(kind), lines_with(&format!(", {kind}, ")), "{kind}");
    }

    let imported = of_files(&[path]).expect("a known format");
    let mut expected = BTreeMap::new();
    let mut time_us = BTreeMap::<&str, i64>::new();
    for snapshot in &printed {
        let (whole, tenths) = snapshot
            .seconds
            .split_once('.')
            .unwrap_or((&snapshot.seconds, "0"));
        let tenths: i64 = format!("{whole}{tenths}").parse().expect("tenths");
        // The last second that it has some of.
        let last = (november(&snapshot.end) - 1) * SECOND;
        let mut add = |name: String, value: i64| {
            expected.insert((last, "1090@1".to_string(), name), value);
        };
        // More digits than are printed, derived from growth per second.
        let taken = counters(&imported);
        let elapsed_ns = taken[&(last, "1090@1".to_string(), "elapsed_ns".to_string())];
        assert!(
            (elapsed_ns - tenths * 100_000_000).abs() <= 50_000_000,
            "{elapsed_ns}"
        );
        add("elapsed_ns".to_string(), elapsed_ns);
        for (kind, name, delta, waits) in &snapshot.rows {
            match kind.as_str() {
                "STAT" => add(format!("stat:{name}"), *delta),
                "TIME" => add(format!("time_us:{name}"), *delta),
                "WAIT" => {
                    add(format!("wait_us:{name}"), *delta);
                    add(format!("waits:{name}"), waits.expect("waits are counted"));
                }
                other => panic!("{other}"),
            }
            match (kind.as_str(), name.as_str()) {
                ("TIME", "DB CPU") => *time_us.entry("CPU").or_default() += delta,
                ("TIME", "DB time") => *time_us.entry("DB time").or_default() += delta,
                ("WAIT", "SQL*Net message from client") => *time_us.entry("idle").or_default() += delta,
                ("WAIT", _) => *time_us.entry("wait").or_default() += delta,
                _ => {}
            }
        }
    }
    assert_eq!(counters(&imported), expected);

    // 114166302 - 113788701 - 3 is what the first one has beyond CPU and waits; none of the six is below zero.
    let found = |is: &dyn Fn(&dbtime_model::ActivityRow) -> bool| -> i64 {
        let rows = imported.rows.activity.iter().filter(|row| is(row));
        rows.map(|row| i64::try_from(row.ns / 1000).expect("microseconds"))
            .sum()
    };
    assert_eq!(found(&|row| row.wait_class == "CPU"), time_us["CPU"]);
    assert_eq!(found(&|row| row.idle), time_us["idle"]);
    assert_eq!(found(&|row| !row.idle), time_us["DB time"]);
    assert_eq!(
        found(&|row| row.wait_event == "unaccounted"),
        time_us["DB time"] - time_us["CPU"] - time_us["wait"]
    );
    assert_eq!(imported.problems, Vec::<String>::new());
    assert_eq!(imported.rows.sessions.len(), 1);
    let session = &imported.rows.sessions[0];
    assert_eq!(
        (session.user.as_str(), session.backend_type.as_str()),
        ("TANEL", "client backend")
    );
    let meta = &imported.meta;
    assert_eq!(
        (meta.collector.tier.as_str(), meta.collector.clock),
        ("exact", Clock::Utc)
    );
    assert_eq!(meta.database.product, "Oracle Database");
    // The first ended at 20:50:06 and took 130.7 s.
    let first = november("2014-11-01 20:50:06") * SECOND - 130_700_000;
    assert!((meta.start_us - first).abs() <= 50_000, "{}", meta.start_us);
    assert_eq!(meta.end_us, november(&printed[5].end) * SECOND);
    let reasons = &meta.collector.reasons;
    assert!(reasons.iter().any(|reason| reason.contains("UTC")));
    assert!(
        reasons
            .iter()
            .any(|reason| reason.starts_with("Snapper took 6 snapshots of "))
    );
}

#[test]
fn each_snapshot_of_the_real_file_is_a_period() {
    let Some(path) = real() else { return };
    let printed = printed(&std::fs::read_to_string(&path).expect("text"));
    let meta = of_files(&[path]).expect("a known format").meta;
    assert_eq!(meta.periods.len(), 6);
    for (period, printed) in meta.periods.iter().zip(&printed) {
        let seconds: f64 = printed.seconds.parse().expect("seconds");
        assert_eq!(period.to_us, november(&printed.end) * SECOND);
        let elapsed = period.elapsed_ns as f64 / 1e9;
        assert!((elapsed - seconds).abs() <= 0.050_001, "{elapsed} {seconds}");
    }
    // 130.7 and so on: `grep -o 'seconds=.*'`, added up.
    let all: u64 = meta.periods.iter().map(|period| period.elapsed_ns).sum();
    let told: f64 = printed
        .iter()
        .map(|one| one.seconds.parse::<f64>().expect("seconds"))
        .sum();
    assert!((all as f64 / 1e9 - told).abs() <= 0.3, "{all} {told}");
    assert!(all < 300_000_000_000, "they lie within hours: {all}");
}

#[test]
fn the_real_file_cut_anywhere_gives_no_more_than_the_whole() {
    let Some(path) = real() else { return };
    let whole = std::fs::read(&path).expect("a file");
    let all = activity(&of_files(&[path]).expect("a known format"));
    let mut last = 0;
    for cut in (0..whole.len()).step_by(997) {
        let Ok(part) = of_text(&whole[..cut]) else {
            continue;
        };
        // The name of the file differs, the session's own is the same.
        for (key, ns) in activity(&part) {
            assert!(
                all.get(&key).is_some_and(|all| ns <= *all),
                "cut at {cut}: {key:?}"
            );
        }
        assert!(part.rows.counters.len() >= last, "cut at {cut}");
        last = part.rows.counters.len();
    }
    assert!(last > 200);
}

// ---- small ones ----

#[test]
fn a_snapshot_becomes_counters_and_time() {
    let imported = of_text(TABLE).expect("a known format");
    let (begin, last) = (TABLE_END - 10 * SECOND, TABLE_END - SECOND);
    let expected: BTreeMap<_, _> = [
        ("20@1", "elapsed_ns", 10_000_000_000),
        ("20@1", "stat:physical reads direct", 1),
        ("20@1", "stat:session pga memory", -65_536),
        ("20@1", "time_us:DB CPU", 4_000_000),
        ("20@1", "time_us:DB time", 7_000_000),
        ("20@1", "wait_us:db file sequential read", 2_500_000),
        ("20@1", "waits:db file sequential read", 500),
        ("20@1", "wait_us:SQL*Net message from client", 3_000_000),
        ("20@1", "waits:SQL*Net message from client", 2),
        ("7@1", "elapsed_ns", 10_000_000_000),
        ("7@1", "time_us:background cpu time", 100_000),
        ("7@1", "time_us:background elapsed time", 100_000),
        ("", "stat:LATG: cache buffers chains", 123_456),
    ]
    .map(|(sid, name, value)| ((last, sid.to_string(), name.to_string()), value))
    .into();
    assert_eq!(counters(&imported), expected);
    assert_eq!(
        activity(&imported),
        named(&[
            ("20@1", "CPU", 4_000_000),
            ("20@1", "User I/O:db file sequential read", 2_500_000),
            ("20@1", "Idle:SQL*Net message from client", 3_000_000),
            // 7 s of DB time, less 4 s and 2.5 s.
            ("20@1", "[unaccounted]", 500_000),
            ("7@1", "CPU", 100_000),
        ])
    );
    for row in &imported.rows.activity {
        // In the second in which the snapshot ended.
        assert_eq!((row.time, row.fidelity), (TABLE_END - SECOND, Fidelity::Exact));
        let state = if row.wait_class == "CPU" {
            State::Cpu
        } else {
            State::Unknown
        };
        assert_eq!(row.state, state);
    }
    let reads = imported
        .rows
        .activity
        .iter()
        .find(|row| row.wait_event.starts_with("db file"));
    assert_eq!(reads.map(|row| row.count), Some(500));
    let mut kinds: Vec<_> = imported
        .rows
        .sessions
        .iter()
        .map(|row| (row.sid.as_str(), row.user.as_str(), row.backend_type.as_str()))
        .collect();
    kinds.sort_unstable();
    assert_eq!(kinds, [("20@1", "BDT", "client backend"), ("7@1", "", "dbw0")]);
    assert_eq!((imported.meta.start_us, imported.meta.end_us), (begin, TABLE_END));
    assert_eq!(imported.problems, Vec::<String>::new());
}

#[test]
fn line_ends_and_lost_blanks_change_nothing() {
    let plain = counters(&of_text(TABLE).expect("a known format"));
    let with_returns = TABLE.replace('\n', "\r\n");
    assert_eq!(counters(&of_text(with_returns).expect("a known format")), plain);
    // As web pages show it.
    let squeezed: String = TABLE
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n")
        .collect();
    assert_eq!(counters(&of_text(squeezed).expect("a known format")), plain);
    // As a session with another decimal point prints it.
    let with_commas = TABLE
        .replace("        .02", "        ,02")
        .replace("-6.55k", "-6,55k");
    assert_eq!(counters(&of_text(with_commas).expect("a known format")), plain);
}

#[test]
fn older_tables_have_other_columns() {
    // Version 3, without waits; two snapshots under one heading.
    let three = "\
-- Session Snapper v3.15 by Tanel Poder @ E2SN ( http://tech.e2sn.com )
----------------------------------------------------------------------------------------
    SID, USERNAME  , TYPE, STATISTIC             ,         DELTA, HDELTA/SEC,    %TIME, GRAPH
----------------------------------------------------------------------------------------
     20, BDT       , WAIT, direct path read      ,       1000000,      200ms,    20.0%, |@@        |
--  End of Stats snap 1, end=2011-02-10 11:06:40, seconds=5
     20, BDT       , STAT, user calls            ,             3,         .6,
     20, BDT       , TIME, DB time               ,       2000000,      400ms,    40.0%, |@@@@      |
--  End of snap 2, end=2011-02-10 11:06:45, seconds=5
";
    let imported = of_text(three).expect("a known format");
    // The last second of the first one, by `date -u +%s`.
    let first = 1_297_335_999 * SECOND;
    let row = |time: i64, name: &str, value: i64| ((time, "20".to_string(), name.to_string()), value);
    assert_eq!(
        counters(&imported),
        BTreeMap::from([
            row(first, "elapsed_ns", 5_000_000_000),
            row(first, "wait_us:direct path read", 1_000_000),
            row(first + 5 * SECOND, "elapsed_ns", 5_000_000_000),
            row(first + 5 * SECOND, "stat:user calls", 3),
            row(first + 5 * SECOND, "time_us:DB time", 2_000_000),
        ])
    );
    assert_eq!(imported.problems, Vec::<String>::new());
    // All columns that there are.
    let all = "\
HEAD,    SID, USERNAME  , SNAPSHOT START   ,  SECONDS, TYPE, STATISTIC  ,         DELTA,  DELTA/SEC,     HDELTA, HDELTA/SEC
SID=      20, BDT       , 20110210 11:06:35,        5, STAT, user calls ,             3,          1,          3,         .6
";
    assert_eq!(
        counters(&of_text(all).expect("a known format")),
        BTreeMap::from([
            row(first, "elapsed_ns", 5_000_000_000),
            row(first, "stat:user calls", 3)
        ])
    );
}

#[test]
fn rows_of_version_1_need_no_heading_and_no_end() {
    let rows = "\
DATA,      20, 20110210 11:06:35,        5, WAIT, direct path read      ,       1000000,     200000,         1s,      200ms
DATA,      21, 20110210 11:06:35,        5, STAT, user calls            ,             3,          1,          3,         .6
DATA,      20, 20110210 11:06:40,        6, STAT, user calls            ,             7,          1,          7,       1.17
";
    let first = 1_297_335_999 * SECOND;
    let row =
        |time: i64, sid: &str, name: &str, value: i64| ((time, sid.to_string(), name.to_string()), value);
    let expected = BTreeMap::from([
        row(first, "20", "elapsed_ns", 5_000_000_000),
        row(first, "20", "wait_us:direct path read", 1_000_000),
        row(first, "21", "elapsed_ns", 5_000_000_000),
        row(first, "21", "stat:user calls", 3),
        row(first + 6 * SECOND, "20", "elapsed_ns", 6_000_000_000),
        row(first + 6 * SECOND, "20", "stat:user calls", 7),
    ]);
    for text in [
        rows.to_string(),
        rows.replace("20110210", "2011-02-10"),
        rows.replace("20110210 ", "2011-02-10 ")
            .replace(' ', "")
            .replace("2011-02-10", "2011-02-10 "),
    ] {
        let text = text
            .replace("directpathread", "direct path read")
            .replace("usercalls", "user calls");
        let imported = of_text(text).expect("a known format");
        assert_eq!(counters(&imported), expected);
        assert_eq!(imported.problems, Vec::<String>::new());
    }
}

#[test]
fn a_snapshot_without_its_end_has_no_length_and_says_so() {
    let (rows, _) = TABLE.split_once("\n--  End").expect("an end");
    let imported = of_text(rows).expect("a known format");
    let found = counters(&imported);
    assert_eq!(found.len(), 11);
    assert!(
        found
            .keys()
            .all(|(time, _, name)| *time == 0 && name != counter::ELAPSED_NS)
    );
    assert_eq!(imported.meta.collector.clock, Clock::None);
    assert_eq!(imported.problems.len(), 1);
    assert!(imported.problems[0].contains("line 6"), "{:?}", imported.problems);
    // Waits may be missing, so nothing is said about time beyond them.
    assert!(
        !activity(&imported)
            .keys()
            .any(|(_, wait)| wait.contains("unaccounted"))
    );
    // Before and after a whole snapshot, it is read as well.
    let both = counters(&of_text(format!("{rows}\n{TABLE}{rows}\n")).expect("a known format"));
    let begin = TABLE_END - 10 * SECOND;
    let at = |time: i64, name: &str| both.get(&(time, "20@1".to_string(), name.to_string())).copied();
    assert_eq!(at(begin, "stat:physical reads direct"), Some(1));
    assert_eq!(at(begin, counter::ELAPSED_NS), None);
    assert_eq!(at(TABLE_END - SECOND, "stat:physical reads direct"), Some(2));
    assert_eq!(at(TABLE_END - SECOND, counter::ELAPSED_NS), Some(10_000_000_000));
}

#[test]
fn damaged_rows_are_counted_and_everything_else_is_passed_over() {
    let around = "SQL> select sid, type, delta from t where a = 'STAT, x'; \n\
                  ORA-00942: table or view does not exist\n   391,579,324,969 cycles # 3.172 GHz\n\
                  |  1 |   SORT AGGREGATE  |  1 |\n\x1b[31m,,,,,,,\n";
    let damaged = TABLE.replace("        -65536", " #############");
    let imported = of_text(format!("{around}{damaged}{around}")).expect("a known format");
    assert_eq!(imported.file().unknown_lines, 1);
    assert_eq!(imported.file().first_unknown[0].number, 5 + 7);
    assert_eq!(counters(&imported).len(), 12);
    assert!(
        !activity(&imported)
            .keys()
            .any(|(_, wait)| wait.contains("unaccounted"))
    );
    let warned = TABLE.replace(
        "\n--  End",
        "\nWARN, Session has disappeared during snapshot, ignoring SID=9\n--  End",
    );
    let imported = of_text(warned).expect("a known format");
    assert_eq!(imported.problems.len(), 1);
    assert!(
        imported.problems[0].contains("disappeared"),
        "{:?}",
        imported.problems
    );
}

#[test]
fn a_table_of_rounded_numbers_says_that_they_are() {
    let rounded = "\
-- Session Snapper v4.12 BETA
 SID @INST, USERNAME  , TYPE, STATISTIC                    ,     HDELTA, HDELTA/SEC,    %TIME, GRAPH       , NUM_WAITS,  WAITS/SEC,   AVERAGES
    20  @1, BDT       , STAT, session logical reads        ,      1.25M,    125.12k,         ,             ,          ,           ,
    20  @1, BDT       , TIME, DB time                      ,         7s,      700ms,    70.0%, [#######   ],          ,           ,
    20  @1, BDT       , WAIT, db file sequential read      ,    2.5s,      250ms,    25.0%, [WWW       ],       500,         50,        5ms average wait

--  End of Stats snap 1, end=2015-04-29 08:25:20, seconds=10
";
    let imported = of_text(rounded).expect("a known format");
    let row = |name: &str, value: i64| ((TABLE_END - SECOND, "20@1".to_string(), name.to_string()), value);
    assert_eq!(
        counters(&imported),
        BTreeMap::from([
            row("elapsed_ns", 10_000_000_000),
            row("stat:session logical reads", 1_250_000),
            row("time_us:DB time", 7_000_000),
            row("wait_us:db file sequential read", 2_500_000),
            row("waits:db file sequential read", 500),
        ])
    );
    assert_eq!(imported.problems, Vec::<String>::new());
    let says = |reason: &String| reason.contains("HDELTA");
    assert!(imported.meta.collector.reasons.iter().any(says));
    assert!(
        !of_text(TABLE)
            .expect("a known format")
            .meta
            .collector
            .reasons
            .iter()
            .any(says)
    );
}

#[test]
fn samples_of_sessions_are_left_out_beside_statistics_and_said_to_be() {
    let ash = "
---------------------------------------------------------------------------------
  ActSes   %Thread | INST | SQL_ID          | EVENT                | WAIT_CLASS
---------------------------------------------------------------------------------
    1.00    (100%) |    1 | 0000000000000   | ON CPU               | ON CPU

--  End of ASH snap 1, end=2015-04-29 08:25:20, seconds=10, samples_taken=96, AAS=1
";
    let imported = of_text(format!("{TABLE}{ash}")).expect("a known format");
    assert_eq!(
        counters(&imported),
        counters(&of_text(TABLE).expect("a known format"))
    );
    assert_eq!(imported.problems, Vec::<String>::new());
    let says = |imported: &Whole| {
        imported
            .meta
            .collector
            .reasons
            .iter()
            .any(|reason| reason.contains("ASH"))
    };
    assert!(says(&imported) && !says(&of_text(TABLE).expect("a known format")));
    // Nothing at all.
    let banner = "-- Session Snapper v4.12 BETA - by Tanel Poder ( http://blog.tanelpoder.com )\n";
    let imported =
        of_text(format!("{banner}{}", ash.replace("1.00    (100%)", "x"))).expect("a known format");
    assert!(imported.rows.counters.is_empty() && imported.rows.activity.is_empty());
    assert!(
        imported.problems[0].contains("'stats'"),
        "{:?}",
        imported.problems
    );
}

#[test]
fn samples_before_the_first_statistic_are_the_same_time_once_more() {
    let samples = |end: &str, seconds: &str| {
        format!(
            "\
  ActSes   %Thread | EVENT                               | WAIT_CLASS
    1.00    (100%) | db file sequential read             | User I/O

--  End of ASH snap 1, end={end}, seconds={seconds}, samples_taken=96, AAS=1
"
        )
    };
    let says = |imported: &Whole| {
        let reasons = imported.meta.collector.reasons.iter();
        reasons.filter(|reason| reason.contains("ASH")).count()
    };
    let is_same = |with: &Whole, without: &Whole| {
        assert_eq!(counters(with), counters(without));
        assert_eq!(activity(with), activity(without));
        assert_eq!(with.meta.periods, without.meta.periods);
        assert_eq!(
            (with.meta.start_us, with.meta.end_us),
            (without.meta.start_us, without.meta.end_us)
        );
        assert_eq!(with.meta.collector.tier, "exact");
        assert_eq!(with.problems, without.problems);
        assert_eq!((says(with), says(without)), (1, 0));
    };
    let text = samples("2015-04-29 08:25:20", "10") + TABLE;
    is_same(
        &of_text(text).expect("a known format"),
        &of_text(TABLE).expect("a known format"),
    );
    if let Some(path) = real() {
        let real = std::fs::read_to_string(&path).expect("text");
        let text = samples("2014-11-01 20:50:06", "130.7") + &real;
        is_same(
            &of_text(text).expect("a known format"),
            &of_text(real).expect("a known format"),
        );
    }
}

#[test]
fn a_snapshot_in_which_nothing_grew_passed_whatever_samples_say() {
    let quiet = "--  End of Stats snap 1, end=2015-04-29 08:25:10, seconds=10\n";
    let samples = "  ActSes   %Thread | EVENT\n\
                   --  End of ASH snap 1, end=2015-04-29 08:25:10, seconds=10, samples_taken=96, AAS=0\n";
    let (heading, rows) = TABLE.split_once("    20  @1").expect("rows");
    let text = format!("{heading}{quiet}{samples}    20  @1{rows}");
    let imported = of_text(text).expect("a known format");
    let elapsed = imported.meta.periods.iter().map(|period| period.elapsed_ns);
    assert_eq!(elapsed.collect::<Vec<u64>>(), [10_000_000_000; 2]);
    // Of samples alone, the time is reported once.
    let imported = of_text(format!("{heading}{quiet}{samples}")).expect("a known format");
    assert_eq!(imported.meta.periods.len(), 1);
}

#[test]
fn samples_alone_are_time_by_statement_and_event() {
    let text = "\
-- Session Snapper v4.33 - by Tanel Poder ( https://tanelpoder.com/snapper )

---------------------------------------------------------------------------------------------------------------
  ActSes   %Thread | INST | SQL_ID          | SQL_CHILD | EVENT                               | WAIT_CLASS
---------------------------------------------------------------------------------------------------------------
    2.35    (235%) |    2 | g81cbrq5yamf5   | 0         | direct path read                    | User I/O
    1.00    (100%) |    2 | 56pwkjspvmg3h   | 0         | ON CPU                              | ON CPU
     .01      (1%) |    2 |                 | 0         | some event of an extension          | Other

---------------------------------------------------
  ActSes   %Thread | EVENT
---------------------------------------------------
    3.35    (335%) | all of it once more

--  End of ASH snap 1, end=2015-04-29 08:25:20, seconds=10, samples_taken=100, AAS=3.4
";
    let imported = of_text(text).expect("a known format");
    let mut found: Vec<_> = imported
        .rows
        .activity
        .iter()
        .map(|row| {
            let statement = imported.rows.statements.iter().find(|of| of.id == row.statement);
            let sql_id = statement.map_or("", |of| of.sql_id.as_str());
            (sql_id, row.wait().to_string(), row.samples, row.ns)
        })
        .collect();
    found.sort();
    assert_eq!(
        found,
        [
            ("", "Other:some event of an extension".to_string(), 1, 100_000_000),
            ("56pwkjspvmg3h", "CPU".to_string(), 100, 10_000_000_000),
            (
                "g81cbrq5yamf5",
                "User I/O:direct path read".to_string(),
                235,
                23_500_000_000
            ),
        ]
    );
    for row in &imported.rows.activity {
        assert_eq!((row.time, row.fidelity), (TABLE_END - SECOND, Fidelity::Sampled));
    }
    let collector = &imported.meta.collector;
    assert_eq!((collector.tier.as_str(), collector.rate_hz), ("sampled", 10));
    assert_eq!(imported.meta.periods.len(), 1);
    assert_eq!(imported.meta.end_us, TABLE_END);
    assert_eq!(imported.problems, Vec::<String>::new());
}

#[test]
fn a_table_cut_at_any_byte_gives_no_more_than_the_whole() {
    let all = of_text(TABLE).expect("a known format");
    let all = activity(&all);
    for cut in 0..TABLE.len() {
        if let Ok(part) = of_text(&TABLE[..cut]) {
            for (key, ns) in activity(&part) {
                assert!(
                    all.get(&key).is_some_and(|all| ns <= *all),
                    "cut at {cut}: {key:?}"
                );
            }
        }
    }
}

#[test]
fn hostile_names_are_names() {
    let name = "<script>,\u{1b}[31m;\u{202e}x";
    let text = TABLE
        .replace("physical reads direct        ", name)
        .replace("BDT       ", "(;DROP\u{0}");
    let imported = of_text(text).expect("a known format");
    assert!(
        imported
            .rows
            .counters
            .iter()
            .any(|row| row.name == format!("stat:{name}"))
    );
    assert!(
        imported
            .rows
            .sessions
            .iter()
            .all(|row| row.sid == "20@1" || row.sid == "7@1")
    );
    // A name that is not one.
    let text = TABLE.replace("physical reads direct", &"x".repeat(10_000));
    assert_eq!(of_text(text).expect("a known format").file().unknown_lines, 1);
    // Numbers at their ends.
    for number in [i64::MAX, i64::MIN + 1] {
        let text = TABLE
            .replace("4000000", &number.to_string())
            .replace("2500000", &number.to_string());
        let imported = of_text(text).expect("a known format");
        assert!(imported.rows.counters.iter().any(|row| row.value == number));
    }
    for seconds in ["9223372036", "0", "99999999999999999999"] {
        let _ = of_text(TABLE.replace("seconds=10", &format!("seconds={seconds}"))).expect("a known format");
    }
    let text = TABLE.replace("2015-04-29", "9999-12-31");
    assert!(of_text(text).is_ok());
}

#[test]
fn more_names_than_any_database_has_are_left_out_and_told() {
    let (head, rest) = TABLE.split_once("    20  @1").expect("rows");
    let mut text = head.to_string();
    for number in 0..100_010 {
        text.push_str(&format!(
            "    20  @1, BDT       , STAT, {number:<29}, {number:13},        .02,\n"
        ));
    }
    let imported = of_text(format!("{text}    20  @1{rest}")).expect("a known format");
    let rows = imported.rows.counters.len();
    assert!((99_000..=100_000).contains(&rows), "{rows}");
    assert_eq!(imported.problems.len(), 1);
    assert!(
        imported.problems[0].contains("rows are left out"),
        "{:?}",
        imported.problems
    );
    // What is left out may be waits.
    assert!(
        !activity(&imported)
            .keys()
            .any(|(_, wait)| wait.contains("unaccounted"))
    );
}

#[test]
fn texts_about_snapper_are_not_its_output() {
    for text in [
        "Session Snapper v4\n",
        "SID, TYPE, STATISTIC\n",
        "DATA, 1, 2, x\n",
        "a, b, c\n",
    ] {
        assert!(
            matches!(of_text(text), Err(ImportError::UnknownFormat { .. })),
            "{text}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_damage_makes_it_panic(damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40)) {
        let mut text = TABLE.repeat(2).into_bytes();
        for (at, byte) in damage {
            let at = at.index(text.len());
            text[at] = byte;
        }
        let _ = of_text(text);
    }

    #[test]
    fn numbers_are_kept(rows in prop::collection::vec((0u32..5, "[a-z(]{1,20}", any::<i32>()), 1..40)) {
        let (head, _) = TABLE.split_once("    20  @1").expect("rows");
        let lines: String = rows
            .iter()
            .map(|(sid, name, delta)| format!("{sid:6}  @1, BDT       , STAT, {name:29}, {delta:13},        .02,\n"))
            .collect();
        let text = format!("{head}{lines}--  End of Stats snap 1, end=2015-04-29 08:25:20, seconds=10\n");
        let imported = of_text(text).expect("a known format");
        let is_statistic = |row: &&dbtime_model::CounterRow| row.name.starts_with(snapper::STATISTIC);
        let found: Vec<i64> = imported.rows.counters.iter().filter(is_statistic).map(|row| row.value).collect();
        let expected: Vec<i64> = rows.iter().map(|(_, _, delta)| i64::from(*delta)).collect();
        prop_assert_eq!(found, expected);
    }
}
