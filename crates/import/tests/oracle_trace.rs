//! What a trace becomes, on files of our own making: every expected number was worked out by hand.

use std::collections::BTreeMap;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::slice::from_ref;

use crate::whole::{Whole, of_files as import, of_files_with, of_text, of_text_with};
use dbtime_import::{ImportError, MAX_LINE, Options};
use dbtime_model::counter::oracle;
use dbtime_model::{Fidelity, Rows, SessionId, State, StatementRow, Wait, WaitKind};
use proptest::prelude::*;

const TWO_SESSIONS: &str = include_str!("fixtures/two_sessions.trc");

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

fn of_file(name: &str) -> Whole {
    import(&[fixture(name)]).unwrap_or_else(|e| panic!("{e}"))
}

/// Sessions in the order of their `sid.serial`, from 1.
fn number_of(rows: &Rows, id: SessionId) -> u64 {
    let mut all: Vec<(&str, SessionId)> = rows
        .sessions
        .iter()
        .map(|row| (row.title.as_str(), row.id))
        .collect();
    all.sort();
    all.iter().position(|(_, of)| *of == id).expect("a session") as u64 + 1
}

/// Microseconds and counts by session and wait.
fn waits(rows: &Rows) -> BTreeMap<(u64, String), (u64, u64)> {
    let mut sums = BTreeMap::new();
    for row in &rows.activity {
        let sum: &mut (u64, u64) = sums
            .entry((number_of(rows, row.session), row.wait().to_string()))
            .or_default();
        sum.0 += row.ns / 1_000;
        sum.1 += row.count;
    }
    sums
}

fn counters(rows: &Rows, name: &str) -> i64 {
    rows.counters
        .iter()
        .filter(|row| row.name == name)
        .map(|row| row.value)
        .sum()
}

fn total_ns(rows: &Rows) -> u128 {
    rows.activity.iter().map(|row| u128::from(row.ns)).sum()
}

#[test]
fn a_call_is_split_into_its_waits_its_cpu_and_what_is_unaccounted() {
    let rows = of_file("two_sessions.trc").rows;
    let expected: BTreeMap<(u64, String), (u64, u64)> = [
        // PARSE 100, the recursive EXEC 50, EXEC 300 of its own 650 (400 of its 1600 are the recursive one, 900 are waits),
        // FETCH 10, LOBREAD 30, CLOSE 1, EXEC 20.
        ((1, "CPU".to_string()), (511, 7)),
        // PARSE 50, the recursive EXEC 50 besides its wait of 300, EXEC 0, FETCH 50, LOBREAD 40, CLOSE 1, EXEC 80.
        ((1, "[unaccounted]".to_string()), (271, 6)),
        ((1, "Concurrency:row cache lock".to_string()), (300, 1)),
        ((1, "User I/O:db file sequential read".to_string()), (900, 1)),
        ((1, "Network:SQL*Net message to client".to_string()), (2, 1)),
        (
            (1, "Idle:SQL*Net message from client".to_string()),
            (1_500_000, 1),
        ),
        ((1, "unclassified:an event of tomorrow".to_string()), (40, 1)),
        ((1, "Commit:log file sync".to_string()), (500, 1)),
        ((2, "CPU".to_string()), (5, 1)),
        ((2, "[unaccounted]".to_string()), (49_995, 1)),
        ((2, "Idle:PL/SQL lock timer".to_string()), (250_000, 1)),
    ]
    .into();
    assert_eq!(waits(&rows), expected);
    assert_eq!(counters(&rows, oracle::CPU_INSIDE_WAITS_NS), 350_000);
    assert_eq!(counters(&rows, oracle::WAITS_BEYOND_CALLS_NS), 0);
    assert!(
        rows.activity
            .iter()
            .all(|row| row.fidelity == Fidelity::Exact && row.samples == 0)
    );
    for row in &rows.activity {
        let cpu = row.wait().kind() == WaitKind::None;
        assert_eq!(row.state, if cpu { State::Cpu } else { State::Unknown });
        assert_eq!(row.idle, row.wait_class == "Idle");
    }
}

#[test]
fn the_time_of_a_session_is_its_calls_and_the_waits_between_them() {
    let rows = of_file("two_sessions.trc").rows;
    let sum = |session: u64| {
        let of_session = rows
            .activity
            .iter()
            .filter(|row| number_of(&rows, row.session) == session);
        of_session.map(|row| row.ns / 1_000).sum::<u64>()
    };
    let calls = 150 + 1_600 + 100 + 70 + 2 + 600;
    assert_eq!(sum(1), calls + 2 + 1_500_000);
    assert_eq!(sum(2), 300_000);
}

#[test]
fn both_classic_breakdowns_are_counters() {
    let rows = of_file("two_sessions.trc").rows;
    let first = |name: &str| -> i64 {
        let of_session = rows
            .counters
            .iter()
            .filter(|row| number_of(&rows, row.session) == 1 && row.name == name);
        of_session.map(|row| row.value).sum()
    };
    assert_eq!(first(oracle::CALL_ELAPSED_US), 150 + 1_600 + 100 + 600);
    assert_eq!(first(oracle::CALL_CPU_US), 100 + 700 + 10 + 20);
    assert_eq!(first(oracle::CALL_WAIT_US), 300 + 900 + 2 + 40 + 500);
    assert_eq!(first(oracle::CALL_IDLE_US), 1_500_000);
    // From the start of PARSE, 7000000050, to XCTEND, 7001503410.
    assert_eq!(first(oracle::INTERVAL_DURATION_US), 1_503_360);
    // Without CLOSE, and the recursive call is in the one around it.
    assert_eq!(first(oracle::INTERVAL_CPU_US), 100 + 700 + 10 + 30 + 20);
    assert_eq!(first(oracle::INTERVAL_WAIT_US), 1_501_742);
    assert_eq!(
        first(oracle::INTERVAL_UNACCOUNTED_US),
        1_503_360 - 860 - 1_501_742
    );
}

#[test]
fn rows_name_the_statement_that_the_cursor_had_at_the_time() {
    let rows = of_file("two_sessions.trc").rows;
    let texts: BTreeMap<u64, &str> = rows
        .statements
        .iter()
        .map(|row| (row.id, row.text.as_str()))
        .collect();
    let of_event = |event: &str| {
        let row = rows
            .activity
            .iter()
            .find(|row| row.wait_event == event)
            .expect("a row");
        texts.get(&row.statement).copied()
    };
    assert_eq!(
        of_event("db file sequential read"),
        Some("select *\n  from orders o")
    );
    assert_eq!(of_event("row cache lock"), Some("select 2 one"));
    assert_eq!(of_event("log file sync"), Some("commit w"));
    assert_eq!(of_event("PL/SQL lock timer"), None);
}

#[test]
fn the_clock_of_the_trace_becomes_the_time_of_day() {
    let imported = of_file("two_sessions.trc");
    // 2024-05-01 08:00:00 UTC is the first tim; PARSE ended 200 µs later and took 150.
    const START_US: i64 = 1_714_550_400_000_000;
    assert_eq!(imported.meta.start_us, START_US + 50);
    assert_eq!(imported.rows.sessions[0].started, START_US + 50);
    // The second session has a time of day of its own: 7002300000 is 10:00:02.
    assert_eq!(imported.meta.end_us, START_US + 2_000_100);
    let sync = imported
        .rows
        .activity
        .iter()
        .find(|row| row.wait_event == "log file sync");
    assert_eq!(sync.map(|row| row.time), Some(START_US + 1_000_000));
}

#[test]
fn a_header_says_host_database_and_session() {
    let imported = of_file("two_sessions.trc");
    assert_eq!(imported.meta.host.name, "db.example.com");
    assert_eq!(imported.meta.database.product, "Oracle Database");
    assert_eq!(imported.meta.database.version, "19.3.0.0.0");
    let session = &imported.rows.sessions[0];
    assert_eq!(
        (session.pid, session.backend_type.as_str()),
        (77, "client backend")
    );
    assert_eq!(session.title, "11.101 shop billing (nightly)");
    assert_eq!(imported.rows.sessions[1].title, "12.102");
}

#[test]
fn lines_that_are_not_understood_are_counted_and_shown_with_their_number() {
    let imported = of_file("two_sessions.trc");
    let file = imported.file();
    assert_eq!(file.unknown_lines, 1);
    assert_eq!(file.first_unknown[0].number, 40);
    let mut text = TWO_SESSIONS.to_string();
    for n in 0..1_000 {
        text.push_str(&format!("QUERY BLOCK {n}\n\u{0}\u{1}\n***************\n"));
    }
    let imported = of_text(text).expect("rows");
    assert_eq!(imported.file().unknown_lines, 3_001);
    assert_eq!(imported.file().first_unknown.len(), 5);
    assert!(
        imported.problems[0].contains("text.trc:40: kcrfw_update"),
        "{:?}",
        imported.problems
    );
    assert_eq!(waits(&imported.rows), waits(&of_file("two_sessions.trc").rows));
}

#[test]
fn a_trace_of_release_8_counts_in_centiseconds() {
    let imported = of_file("release_8.trc");
    let expected: BTreeMap<(u64, String), (u64, u64)> = [
        // PARSE 1 of 2; FETCH 3 of 20, besides 13 of wait.
        ((1, "CPU".to_string()), (40_000, 2)),
        ((1, "[unaccounted]".to_string()), (10_000 + 40_000 + 10_000, 3)),
        ((1, "Network:SQL*Net message to client".to_string()), (0, 1)),
        ((1, "User I/O:db file scattered read".to_string()), (130_000, 1)),
        (
            (1, "Idle:SQL*Net message from client".to_string()),
            (7_000_000, 1),
        ),
    ]
    .into();
    assert_eq!(waits(&imported.rows), expected);
    assert_eq!(counters(&imported.rows, oracle::CALL_ELAPSED_US), 230_000);
    assert_eq!(counters(&imported.rows, oracle::CALL_CPU_US), 40_000);
    assert_eq!(counters(&imported.rows, oracle::INTERVAL_DURATION_US), 7_240_000);
    // 2001-03-04 05:06:07 is when PARSE ended, which took 20 ms.
    assert_eq!(imported.meta.start_us, 983_682_366_980_000);
    assert_eq!(imported.rows.statements[0].text, "select * from emp");
    assert_eq!(imported.rows.sessions[0].module, "SQL*Plus");
    assert!(
        imported
            .rows
            .activity
            .iter()
            .any(|row| row.statement == imported.rows.statements[0].id)
    );
    assert_eq!(imported.problems, Vec::<String>::new());
}

#[test]
fn lines_longer_than_any_buffer_do_no_harm() {
    let long = "x".repeat(3 * MAX_LINE);
    let text = TWO_SESSIONS
        .replace("  from orders o", &long)
        .replace("kcrfw_update_adaptive_sync_mode", &long);
    let imported = of_text(text).expect("rows");
    let whole = of_file("two_sessions.trc");
    assert_eq!(waits(&imported.rows), waits(&whole.rows));
    assert_eq!(imported.file().lines, whole.file().lines);
    assert!(
        imported
            .rows
            .statements
            .iter()
            .all(|row| row.text.len() <= 64 * 1024)
    );
}

#[test]
fn windows_line_ends_change_nothing() {
    let windows = of_text(TWO_SESSIONS.replace('\n', "\r\n")).expect("rows");
    assert_eq!(windows.rows, of_text(TWO_SESSIONS).expect("rows").rows);
}

#[test]
fn a_second_file_of_the_same_session_continues_it() {
    let both = import(&[fixture("two_sessions.trc"), fixture("two_sessions.trc")])
        .expect("rows")
        .rows;
    let one = of_file("two_sessions.trc").rows;
    assert_eq!(both.sessions, one.sessions);
    assert_eq!(total_ns(&both), 2 * total_ns(&one));
    let twice = |mut row: StatementRow| {
        for step in &mut row.plan_steps {
            step.executions *= 2;
            step.rows *= 2;
            step.consistent_gets *= 2;
            step.physical_reads *= 2;
            step.elapsed_us *= 2;
        }
        for caller in &mut row.callers {
            caller.calls *= 2;
            caller.elapsed_us *= 2;
        }
        row
    };
    let doubled: Vec<StatementRow> = one.statements.into_iter().map(twice).collect();
    assert_eq!(both.statements, doubled);
}

#[test]
fn what_is_no_trace_is_an_error_that_names_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("a file");
        path
    };
    for (name, bytes) in [
        ("image.png", &b"\x89PNG\r\n\x1a\n0000"[..]),
        ("notes.txt", b"WAIT for the bus\n"),
        ("zeros", &[0; 100_000]),
    ] {
        let error = import(&[write(name, bytes)]).expect_err(name);
        assert!(matches!(error, ImportError::UnknownFormat { .. }), "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
    let empty = import(&[write("empty.trc", b"")]).expect_err("empty");
    assert!(
        empty.is_empty() && empty.to_string().contains("empty.trc"),
        "{empty}"
    );
    for path in [folder.path().join("absent.trc"), folder.path().to_path_buf()] {
        let error = import(from_ref(&path)).expect_err("no file");
        assert!(matches!(error, ImportError::Io { .. }) && !error.is_empty());
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    }
}

#[test]
fn every_compression_is_seen_in_the_contents_and_a_cut_one_gives_what_is_before_the_cut() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = TWO_SESSIONS.repeat(40);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(text.as_bytes()).expect("packed");
    let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    bzip2.write_all(text.as_bytes()).expect("packed");
    let packed = [
        ("a.bin", gzip.finish().expect("packed")),
        ("b.bin", bzip2.finish().expect("packed")),
        ("c.bin", zstd::encode_all(text.as_bytes(), 1).expect("packed")),
    ];
    let plain = of_text(text.clone()).expect("rows");
    for (name, bytes) in packed {
        let path = folder.path().join(name);
        std::fs::write(&path, &bytes).expect("a file");
        let whole = import(from_ref(&path)).expect("rows");
        assert_eq!(whole.rows.activity, plain.rows.activity, "{name}");
        assert_eq!(whole.problems.len(), plain.problems.len());
        std::fs::write(&path, &bytes[..bytes.len() - 9]).expect("a file");
        match import(&[path]) {
            Ok(cut) => {
                assert!(total_ns(&cut.rows) <= total_ns(&whole.rows), "{name}");
                let told = cut
                    .problems
                    .iter()
                    .any(|problem| problem.contains("lines before were read"));
                assert!(told, "{name}: {:?}", cut.problems);
            }
            // Nothing could be unpacked: one block is all there is.
            Err(e) => assert!(matches!(e, ImportError::Io { .. }), "{e}"),
        }
    }
}

/// Compares the rows of a cut trace with those of all of it; nothing to compare if the text is not a trace yet.
fn at_most(cut: &[u8], whole: &Rows, what: &str) {
    let Ok(part) = of_text(cut) else { return };
    assert!(part.trace().last_tim_us >= part.trace().begin_us, "{what}");
    assert!(total_ns(&part.rows) <= total_ns(whole), "{what}");
    let whole_waits = waits(whole);
    for ((session, wait), (us, count)) in waits(&part.rows) {
        if wait == "[unaccounted]" || wait == Wait::NONE {
            continue;
        }
        let (whole_us, whole_count) = whole_waits
            .get(&(session, wait.clone()))
            .copied()
            .unwrap_or_default();
        assert!(us <= whole_us && count <= whole_count, "{what}: {wait}");
    }
    for name in [
        oracle::CALL_ELAPSED_US,
        oracle::CALL_CPU_US,
        oracle::CALL_WAIT_US,
        oracle::INTERVAL_CPU_US,
    ] {
        assert!(
            counters(&part.rows, name) <= counters(whole, name),
            "{what}: {name}"
        );
    }
    assert!(part.rows.statements.len() <= whole.statements.len(), "{what}");
}

#[test]
fn a_trace_cut_at_any_byte_never_gives_more_than_the_whole() {
    for name in ["two_sessions.trc", "release_8.trc", "statements.trc"] {
        let bytes = std::fs::read(fixture(name)).expect("a fixture");
        let whole = of_text(bytes.clone()).expect("rows").rows;
        for at in 0..bytes.len() {
            at_most(&bytes[..at], &whole, &format!("{name} cut at {at}"));
        }
    }
}

#[test]
fn real_traces_cut_anywhere_never_give_more_than_the_whole() {
    for path in crate::samples::samples(&[".trc"]) {
        let bytes = std::fs::read(&path).expect("a trace");
        let whole = of_text(bytes.clone()).expect("rows").rows;
        // At every byte of a small file, at some bytes of a large one.
        let step = 1.max(bytes.len() * bytes.len() / 30_000_000);
        for at in (0..bytes.len()).step_by(step) {
            at_most(&bytes[..at], &whole, &format!("{} cut at {at}", path.display()));
        }
    }
}

#[test]
fn one_thread_and_several_read_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("a file");
        path
    };
    // Some of its chunks end within lines and numbers; the last line has no end.
    let mut long = String::from(TWO_SESSIONS);
    for n in 0..30_000u64 {
        let tim = 9_000_000_000_000 + n * 1_000;
        long += &format!(
            "WAIT #{}: nam='event {}' ela= {n} p1={n} p2=2 p3=3 obj#=-1 tim={tim}\n",
            n % 7,
            n % 11
        );
    }
    let long = long.trim_end().as_bytes();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(long).expect("bytes");
    let packed = packed.finish().expect("bytes");
    let mut paths = vec![
        fixture("two_sessions.trc"),
        fixture("statements.trc"),
        fixture("release_8.trc"),
        write("long.trc", long),
        write("long.trc.gz", &packed),
        write("cut.trc.gz", &packed[..packed.len() / 2]),
    ];
    paths.extend(crate::samples::samples(&[".trc", ".gz", ".bz2", ".xz", ".lzma"]));
    for path in paths {
        let read_by = |threads: usize| {
            let options = Options {
                threads: NonZeroUsize::new(threads),
                ..Options::default()
            };
            of_files_with(&options, from_ref(&path)).unwrap_or_else(|e| panic!("{e}"))
        };
        let (one, several) = (read_by(1), read_by(3));
        assert_eq!(one.problems, several.problems, "{}", path.display());
        assert_eq!(one.meta, several.meta, "{}", path.display());
        assert!(one.rows == several.rows, "{}", path.display());
    }
}

/// Traces with lines of all kinds, which the fuzzer starts from, too.
const TO_DAMAGE: [&str; 4] = [
    TWO_SESSIONS,
    include_str!("../../../fuzz/seeds/oracle_trace/lines_of_all_kinds.trc"),
    include_str!("../../../fuzz/seeds/oracle_trace/old_release.trc"),
    include_str!("../../../fuzz/seeds/oracle_trace/clock_of_1024_ns.trc"),
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_damage_makes_it_panic(
        text in prop::sample::select(TO_DAMAGE.to_vec()),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
        lines in prop::collection::vec((0usize..60, prop::collection::vec(any::<u8>(), 0..80)), 0..5),
        (binds, summed) in any::<(bool, bool)>(),
    ) {
        let mut bytes = text.as_bytes().to_vec();
        for (at, byte) in damage {
            bytes[at.index(text.len())] = byte;
        }
        let mut all: Vec<Vec<u8>> = bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        for (at, line) in lines {
            all.insert(at.min(all.len()), line);
        }
        let options = Options { binds, summed, ..Options::default() };
        let _ = of_text_with(&options, all.join(&b'\n'));
    }

    #[test]
    fn no_numbers_make_it_panic(c in any::<u64>(), e in any::<u64>(), ela in any::<u64>(), tim in any::<u64>()) {
        let text = format!(
            "WAIT #1: nam='x' ela= {ela} tim={tim}\nEXEC #1:c={c},e={e},dep=0,tim={tim}\n\
             LOBREAD: c={c},e={e},tim={e}\nWAIT #1: nam='x' ela= {ela}\nCLOSE #1:c={e},e={c},dep=0,tim={ela}\n"
        );
        let _ = of_text(text);
    }
}

/// Counters of a statement, by `sql_id`, plan and name.
fn statement_counters(rows: &Rows) -> BTreeMap<(String, u64, String), i64> {
    let mut sums = BTreeMap::new();
    for row in rows.counters.iter().filter(|row| row.statement != 0) {
        let statement = rows.statements.iter().find(|of| of.id == row.statement);
        let sql_id = statement.expect("a statement").sql_id.clone();
        *sums.entry((sql_id, row.plan, row.name.to_string())).or_default() += row.value;
    }
    sums
}

#[test]
fn calls_and_waits_belong_to_the_plan_that_their_cursor_runs_next() {
    let rows = of_file("statements.trc").rows;
    let sums = statement_counters(&rows);
    let of = |sql_id: &str, plan: u64| -> BTreeMap<&str, i64> {
        let of_a_kind = |name: &str| {
            ["parse_", "fetch_", "own_"]
                .iter()
                .any(|kind| name.starts_with(kind))
        };
        let of_plan = sums
            .iter()
            .filter(|((id, of, name), _)| id == sql_id && *of == plan && !of_a_kind(name));
        of_plan
            .map(|((_, _, name), value)| (name.as_str(), *value))
            .collect()
    };
    // The parse has no plan, and the waits come before the call that has one.
    let expected = [
        (oracle::CALLS, 3),
        (oracle::EXECUTIONS, 1),
        (oracle::ELAPSED_US, 1_000 + 2_500 + 30),
        (oracle::CPU_US, 100 + 2_000 + 20),
        (oracle::WAIT_US, 5 + 900 + 64 + 128 + 127 + 10),
        (oracle::ROWS, 10),
        (oracle::CONSISTENT_GETS, 3 + 20 + 4),
        (oracle::CURRENT_GETS, 2),
        (oracle::PHYSICAL_READS, 346),
        (oracle::MISSES, 1),
    ];
    assert_eq!(of("ggggggggggg03", 333), expected.into());
    let expected = [
        (oracle::CALLS, 3),
        (oracle::EXECUTIONS, 2),
        (oracle::ELAPSED_US, 2 + 500 + 6_000_000),
        (oracle::CPU_US, 1 + 1 + 5_000_000),
        (oracle::WAIT_US, 400 + 3_000),
        (oracle::IDLE_US, 700),
        (oracle::ROWS, 1),
        (oracle::CONSISTENT_GETS, 2),
        (oracle::PHYSICAL_READS, 1),
    ];
    assert_eq!(of("ggggggggggg03", 444), expected.into());
    assert_eq!(of("ggggggggggg03", 0), BTreeMap::new());
    assert_eq!(of("ggggggggggg04", 0)[oracle::CURRENT_GETS], 4);
}

#[test]
fn callers_and_steps_of_plans_are_known() {
    let rows = of_file("statements.trc").rows;
    let statement = |sql_id: &str| {
        rows.statements
            .iter()
            .find(|row| row.sql_id == sql_id)
            .expect("a statement")
    };
    let callers = |sql_id: &str| -> Vec<(u64, u64, u64)> {
        let callers = &statement(sql_id).callers;
        callers
            .iter()
            .map(|caller| (caller.statement, caller.calls, caller.elapsed_us))
            .collect()
    };
    assert_eq!(callers("ggggggggggg01"), [(statement("ggggggggggg02").id, 2, 6)]);
    assert_eq!(
        callers("ggggggggggg02"),
        [(statement("ggggggggggg03").id, 1, 250)]
    );
    assert_eq!(callers("ggggggggggg03"), []);
    // The call it was made in is not in the trace.
    assert_eq!(callers("ggggggggggg04"), []);
    let steps = &statement("ggggggggggg03").plan_steps;
    let told: Vec<_> = steps
        .iter()
        .map(|step| {
            (
                step.plan,
                step.id,
                step.parent,
                step.operation.as_str(),
                step.rows,
                step.elapsed_us,
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            (333, 1, 0, "HASH JOIN", 10, 2_400),
            (333, 2, 1, "TABLE ACCESS FULL A 'QUOTED' (NAME)", 10, 2_000),
        ]
    );
    assert_eq!(
        (
            steps[0].consistent_gets,
            steps[0].physical_reads,
            steps[0].physical_writes
        ),
        (24, 346, 31)
    );
}

#[test]
fn waits_for_io_are_counted_by_their_blocks() {
    let rows = of_file("statements.trc").rows;
    let mut sizes: BTreeMap<(&str, u64), (u64, u64)> = BTreeMap::new();
    for row in &rows.latency {
        assert!(row.from_ns <= row.max_ns && row.max_ns < row.to_ns);
        let sum = sizes.entry((&row.name, row.blocks)).or_default();
        sum.0 += row.count;
        sum.1 += row.sum_ns / 1_000;
    }
    sizes.retain(|(_, blocks), _| *blocks > 0);
    let expected = [
        (("User I/O:db file scattered read", 8), (1, 5)),
        (("User I/O:db file scattered read", 128), (1, 900)),
        (("User I/O:direct path read", 128), (1, 0)),
        (("User I/O:direct path read temp", 31), (1, 64)),
        (("User I/O:db file parallel read", 39), (1, 128)),
        (("User I/O:db file parallel read", 12), (1, 127)),
        (("User I/O:direct path write temp", 31), (1, 10)),
        (("User I/O:db file sequential read", 1), (1, 400)),
    ];
    assert_eq!(sizes, expected.into());
    assert_eq!(counters(&rows, oracle::READS), 7);
    assert_eq!(
        counters(&rows, oracle::READ_BLOCKS),
        8 + 128 + 128 + 31 + 39 + 12 + 1
    );
    assert_eq!(counters(&rows, oracle::WRITES), 1);
    assert_eq!(counters(&rows, oracle::WRITTEN_BLOCKS), 31);
}

#[test]
fn what_the_application_says_it_does_splits_the_time_of_a_session() {
    let rows = of_file("statements.trc").rows;
    let time_of = |module: &str| {
        let row = rows
            .sessions
            .iter()
            .find(|row| row.module == module)
            .expect("a session");
        assert_eq!(
            (row.pid, row.client_id.as_str(), row.service.as_str()),
            (88, "ann", "freepdb1")
        );
        assert_eq!(row.action, "load");
        let of_session = rows.activity.iter().filter(|of| of.session == row.id);
        of_session.map(|of| of.ns / 1_000).sum::<u64>()
    };
    assert_eq!(rows.sessions.len(), 2);
    assert_eq!(time_of("orders"), 1_000 + 2_500 + 30);
    // The recursive call of 2 has ended, although the call around it has not.
    assert_eq!(time_of("reports"), 2 + 700 + 500 + 6_000_000 + 2 + 3_000);
}

#[test]
fn gaps_and_calls_that_had_not_ended_are_told() {
    let imported = of_file("statements.trc");
    let trace = imported.trace();
    // From the wait for the client to the wait that ended 3.5 s later; the six seconds are one call.
    assert_eq!((trace.gaps, trace.gaps_us), (1, 3_499_600));
    assert_eq!(trace.longest_gaps[0].line, trace_line("db file sequential read"));
    assert_eq!(trace.longest_gaps[0].session, "21.201");
    // 10:00:00 is the first tim, 1000000100.
    assert_eq!(trace.longest_gaps[0].from_us, 1_714_557_600_000_000 + 9_900);
    let [call] = trace.in_flight.as_slice() else {
        panic!("{:?}", trace.in_flight)
    };
    assert_eq!(
        (
            call.cursor,
            call.depth,
            call.waits,
            call.wait_us,
            call.calls,
            call.call_us
        ),
        (3, Some(0), 1, 3_000, 1, 2)
    );
    assert_eq!(call.line, trace_line("enq: TX"));
    assert!(
        imported
            .rows
            .statements
            .iter()
            .any(|row| row.id == call.statement)
    );
}

/// Number of the line of the fixture that contains this text.
fn trace_line(text: &str) -> u64 {
    let all = include_str!("fixtures/statements.trc");
    all.lines().position(|line| line.contains(text)).expect("a line") as u64 + 1
}
