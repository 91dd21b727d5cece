//! Every number of every trace at hand, against a second computation of it: `breakdown.awk`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::whole::{Whole, of_files, of_files_with};
use dbtime_import::Options;
use dbtime_model::counter::{ORACLE, oracle};
use dbtime_model::{Rows, SessionId, Wait, WaitKind};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

fn imported(path: &Path) -> Whole {
    of_files(&[path.to_path_buf()]).unwrap_or_else(|e| panic!("{e}"))
}

/// What awk makes of the file; none if there is no awk.
fn by_awk(path: &Path) -> Option<BTreeMap<String, i128>> {
    let text = crate::samples::by_awk("breakdown.awk", path)?;
    Some(
        text.lines()
            .map(|line| {
                let (name, value) = line.split_once('\t').expect("name and value");
                (name.to_string(), value.parse().expect("a number"))
            })
            .collect(),
    )
}

/// Counters of statements.
const OF_STATEMENTS: [&[&str]; 4] = [
    &oracle::CALL_SUMS,
    &oracle::PARSE_SUMS,
    &oracle::FETCH_SUMS,
    &[
        oracle::EXECUTIONS,
        oracle::OWN_ELAPSED_US,
        oracle::OWN_CPU_US,
        oracle::WAIT_US,
        oracle::IDLE_US,
        oracle::ASSUMED_WAIT_US,
    ],
];

/// The same names from the rows alone.
fn by_rows(rows: &Rows) -> BTreeMap<String, i128> {
    let mut found = BTreeMap::new();
    let mut add = |name: String, value: i128| *found.entry(name).or_insert(0) += value;
    let sid: BTreeMap<SessionId, String> = rows
        .sessions
        .iter()
        .map(|row| {
            let sid = row.title.split(' ').next().unwrap_or_default().to_string();
            let pid = if row.pid > 0 {
                row.pid.to_string()
            } else {
                String::new()
            };
            (row.id, if sid.contains('.') { sid } else { pid })
        })
        .collect();
    for row in &rows.activity {
        assert_eq!(row.ns % 1_000, 0);
        assert_eq!(row.time % 1_000_000, 0);
        let us = i128::from(row.ns / 1_000);
        if !matches!(row.wait_class.as_str(), Wait::NONE | Wait::UNKNOWN) {
            add(format!("event {}", row.wait_event), us);
            add(format!("events {}", row.wait_event), row.count.into());
        }
        add(format!("session {}", sid[&row.session]), us);
    }
    let mut longest: BTreeMap<String, i128> = BTreeMap::new();
    for row in &rows.latency {
        let event = row.name.split_once(':').expect("a class").1;
        // The lower bound of the power of two that the bucket is in, microseconds.
        let from = match row.from_ns / 1_000 {
            0 => 0,
            us => 1u64 << us.ilog2(),
        };
        add(format!("count {event} from {from}"), row.count.into());
        add(format!("us {event} from {from}"), i128::from(row.sum_ns / 1_000));
        add(format!("size {event} blocks {}", row.blocks), row.count.into());
        let longest = longest.entry(format!("longest {event}")).or_default();
        *longest = (*longest).max(i128::from(row.max_ns / 1_000));
    }
    longest.into_iter().for_each(|(name, us)| add(name, us));
    let sql_id = |id: u64| {
        let statement = rows.statements.iter().find(|row| row.id == id);
        statement.map_or("", |row| row.sql_id.as_str())
    };
    for row in &rows.counters {
        assert_eq!(row.source, ORACLE);
        match row.name.as_str() {
            oracle::READS | oracle::READ_BLOCKS | oracle::WRITES | oracle::WRITTEN_BLOCKS => {}
            name if name.starts_with("file_") => {}
            name if name.starts_with("object_") => {
                // awk knows no classes, so only events that move blocks are compared.
                let event = name.rsplit(':').next().unwrap_or_default();
                let moves_blocks = event.starts_with("db file ") || event.starts_with("direct path ");
                if moves_blocks && !event.contains("parallel write") {
                    add(name.to_string(), row.value.into());
                }
            }
            name if name.contains("errors:") => {}
            name if OF_STATEMENTS.iter().any(|names| names.contains(&name)) => {
                add(format!("sql {} {name}", sql_id(row.statement)), row.value.into());
            }
            oracle::WAITS_BEYOND_CALLS_NS => {
                add("waits_beyond_calls_us".to_string(), i128::from(row.value) / 1_000)
            }
            name => add(name.to_string(), row.value.into()),
        }
    }
    found
}

/// Compares both kinds of rows: those of each second, and those summed over seconds.
fn compare(path: &Path) {
    let Some(expected) = by_awk(path) else { return };
    for summed in [false, true] {
        let options = Options {
            summed,
            ..Options::default()
        };
        let imported = of_files_with(&options, &[path.to_path_buf()]).unwrap_or_else(|e| panic!("{e}"));
        compare_rows(path, &imported, expected.clone());
    }
}

fn compare_rows(path: &Path, imported: &Whole, mut expected: BTreeMap<String, i128>) {
    let mut found = by_rows(&imported.rows);
    // Intervals of sessions do not add up to the interval of a file that several sessions share.
    let trace = imported.trace();
    let duration = match (trace.begin_us, trace.last_tim_us) {
        (Some(begin), Some(end)) => end - begin,
        _ => 0,
    };
    for (name, us) in [
        (oracle::INTERVAL_DURATION_US, duration),
        (oracle::INTERVAL_CPU_US, trace.cpu_us),
        (oracle::INTERVAL_WAIT_US, trace.wait_us),
    ] {
        found.insert(name.to_string(), us.into());
    }
    // All CPU of the calls is somewhere: in rows of its own, inside waits, or in no call.
    let cpu_rows = imported
        .rows
        .activity
        .iter()
        .filter(|row| row.wait().kind() == WaitKind::None);
    let in_rows: i128 = cpu_rows.map(|row| i128::from(row.ns / 1_000)).sum();
    let ns = |name: &str| found.get(name).copied().unwrap_or(0) / 1_000;
    let elsewhere = ns(oracle::CPU_INSIDE_WAITS_NS) + ns(oracle::CPU_BEYOND_CALLS_NS);
    assert_eq!(
        in_rows + elsewhere,
        expected.remove("all_cpu_us").unwrap_or(0),
        "{}",
        path.display()
    );
    let waits_in_calls =
        found.get(oracle::CALL_WAIT_US).unwrap_or(&0) + found.get(oracle::CALL_IDLE_US).unwrap_or(&0);
    assert!(
        ns(oracle::CPU_INSIDE_WAITS_NS) <= waits_in_calls,
        "{}",
        path.display()
    );
    found.remove(oracle::CPU_INSIDE_WAITS_NS);
    found.remove(oracle::CPU_BEYOND_CALLS_NS);
    found.remove(oracle::INTERVAL_UNACCOUNTED_US);
    for numbers in [&mut expected, &mut found] {
        numbers.retain(|_, value| *value != 0);
    }
    // Counts of events that took no time stay: only their time is 0.
    assert_eq!(found, expected, "{}", path.display());
}

#[test]
fn real_traces_give_the_numbers_that_awk_gives() {
    for path in crate::samples::samples(&[".trc"]) {
        compare(&path);
    }
}

#[test]
fn own_traces_give_the_numbers_that_awk_gives() {
    compare(&fixture("two_sessions.trc"));
    compare(&fixture("statements.trc"));
}

#[test]
fn sessions_of_a_merge_have_the_numbers_of_their_own_files() {
    let sample = |ending: &str| {
        crate::samples::samples(&[ending])
            .first()
            .map(|path| by_rows(&imported(path).rows))
    };
    let (Some(merge), Some(one), Some(other)) = (
        sample("trace-combine_main.trc"),
        sample("js122a1_ora_9850.trc"),
        sample("js122a1_ora_9854.trc"),
    ) else {
        return;
    };
    for name in [
        oracle::CALL_ELAPSED_US,
        oracle::CALL_CPU_US,
        oracle::CALL_WAIT_US,
        oracle::CALL_IDLE_US,
        oracle::INTERVAL_DURATION_US,
        oracle::INTERVAL_CPU_US,
    ] {
        assert_eq!(merge[name], one[name] + other[name], "{name}");
    }
    let session = |rows: &BTreeMap<String, i128>| -> Vec<i128> {
        rows.iter()
            .filter(|(name, _)| name.starts_with("session "))
            .map(|(_, us)| *us)
            .collect()
    };
    assert_eq!(session(&merge), [session(&one), session(&other)].concat());
}

#[test]
fn compressed_traces_give_the_rows_of_the_plain_ones() {
    let all = crate::samples::samples(&[".trc", ".gz", ".bz2", ".xz", ".lzma"]);
    let rows = |ending: &str| {
        let path = all.iter().find(|path| path.to_string_lossy().ends_with(ending));
        path.map(|path| imported(path).rows)
    };
    if all.is_empty() {
        return;
    }
    for (packed, plain) in [
        (
            "two_statements_one_cursor.trc.gz",
            "two_statements_one_cursor.trc",
        ),
        ("mixed_execs.trc.bz2", "mixed_execs.trc"),
        ("lobread.trc.xz", "lobread.trc.lzma"),
    ] {
        let found = rows(packed).expect("a sample");
        assert!(found.activity.len() > 1, "{packed}");
        // One of the packed samples lacks a line with a time of day: its rows are in other seconds.
        let plain = rows(plain).expect("a sample");
        assert_eq!(by_rows(&found), by_rows(&plain), "{packed}");
        assert_eq!(found.statements, plain.statements, "{packed}");
    }
}

/// `BINDS` sections by the simplest rule, compared with the values kept of each execution.
#[test]
fn values_of_each_execution_are_those_of_a_second_reading() {
    let options = Options {
        binds: true,
        ..Options::default()
    };
    let mut executions = 0;
    for path in crate::samples::samples(&[".trc"]) {
        let Some(text) = crate::samples::by_awk("binds.awk", &path) else {
            return;
        };
        let mut expected: Vec<String> = text.lines().map(str::to_string).collect();
        let rows = of_files_with(&options, std::slice::from_ref(&path))
            .expect("rows")
            .rows;
        let all = rows
            .statements
            .iter()
            .flat_map(|statement| &statement.bound_executions);
        let mut found: Vec<String> = all
            .map(|execution| {
                let values = execution.values.iter();
                values
                    .map(|of| format!(" {}={}", of.position, of.value))
                    .collect()
            })
            .collect();
        expected.sort();
        found.sort();
        assert_eq!(found, expected, "{}", path.display());
        executions += found.len();
    }
    // Far more than one file has, if there are any.
    assert!(executions == 0 || executions > 100, "{executions}");
}
