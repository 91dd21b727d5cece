//! Oracle SQL traces on the command line, as they are and as recordings made of them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use dbtime_tests::{dbtime, repository, say};
use serde_json::Value;

/// A trace of our own making, whose numbers are worked out in the tests of the importer.
fn fixture(name: &str) -> String {
    let path = repository().join("crates/import/tests/fixtures").join(name);
    path.to_str().expect("a plain path").to_string()
}

/// Real traces; says so loudly when there are none.
fn real_traces() -> Vec<PathBuf> {
    let Some(folder) = std::env::var_os("DBTIME_TRACES") else {
        say("SKIPPED: no real traces are tested; set DBTIME_TRACES to a folder of Oracle SQL traces");
        return Vec::new();
    };
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "trc"))
        .collect();
    found.sort();
    found
}

fn report(arguments: &[&str]) -> Value {
    let arguments = [&["report", "--format", "json"], arguments].concat();
    let outcome = dbtime(&arguments).expect_code(0);
    serde_json::from_str(&outcome.stdout).expect("JSON")
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// What awk works out of a trace, by name: see `crates/import/tests/breakdown.awk`.
fn by_awk(path: &Path) -> BTreeMap<String, i64> {
    let script = repository().join("crates/import/tests/breakdown.awk");
    let output = std::process::Command::new("awk")
        .arg("-f")
        .arg(script)
        .arg(path)
        .output();
    let text = String::from_utf8(output.expect("awk").stdout).expect("text");
    text.lines()
        .map(|line| {
            let (name, value) = line.split_once('\t').expect("name and value");
            (name.to_string(), value.parse().expect("a number"))
        })
        .collect()
}

/// Numbers of a statement that are compared.
const SHOWN: [&str; 11] = [
    "calls",
    "elapsed_us",
    "cpu_us",
    "own_elapsed_us",
    "own_cpu_us",
    "wait_us",
    "assumed_wait_us",
    "rows",
    "consistent_gets",
    "current_gets",
    "physical_reads",
];

#[test]
fn a_report_gives_the_numbers_that_awk_gives() {
    let mut paths = real_traces();
    paths.push(fixture("two_sessions.trc").into());
    paths.push(fixture("statements.trc").into());
    for path in paths {
        let expected = by_awk(&path);
        let name = path.to_str().expect("a plain path");
        let outcome = dbtime(&["report", name, "--each-literal", "--format", "json"]);
        // Some samples are damaged on purpose and have no time in them.
        if outcome.code == 3 {
            let has_calls = |name: &String| name.starts_with("sql ") || name.starts_with("events ");
            assert!(!expected.keys().any(has_calls), "{name}");
            continue;
        }
        let report: Value = serde_json::from_str(&outcome.expect_code(0).stdout).expect("JSON");
        let trace = &report["trace"];
        let of = |name: &str| expected.get(name).copied().unwrap_or(0);
        let call = &trace["call_view"];
        for field in ["elapsed_us", "cpu_us", "wait_us", "idle_us"] {
            assert_eq!(
                number(&call[field]),
                of(&format!("call_{field}")),
                "{name}: {field}"
            );
        }
        let rest = number(&call["elapsed_us"]) - number(&call["cpu_us"]) - number(&call["wait_us"]);
        assert_eq!(number(&call["unaccounted_us"]), rest, "{name}");
        let interval = &trace["interval_view"];
        for field in ["duration_us", "cpu_us", "wait_us"] {
            assert_eq!(
                number(&interval[field]),
                of(&format!("interval_{field}")),
                "{name}: {field}"
            );
        }
        let rest =
            number(&interval["duration_us"]) - number(&interval["cpu_us"]) - number(&interval["wait_us"]);
        assert_eq!(number(&interval["unaccounted_us"]), rest, "{name}");

        let mut found: BTreeMap<String, i64> = BTreeMap::new();
        for event in trace["events"].as_array().expect("events") {
            let name = event["name"].as_str().expect("a name");
            found.insert(format!("events {name}"), number(&event["count"]));
            found.insert(format!("event {name}"), number(&event["total_us"]));
            found.insert(format!("longest {name}"), number(&event["max_us"]));
            for bucket in event["histogram"].as_array().expect("a histogram") {
                let from = number(&bucket["from_us"]);
                found.insert(format!("count {name} from {from}"), number(&bucket["count"]));
                found.insert(format!("us {name} from {from}"), number(&bucket["total_us"]));
            }
        }
        for statement in trace["statements"].as_array().expect("statements") {
            let sql_id = statement["sql_id"].as_str().unwrap_or_default();
            for field in SHOWN {
                *found.entry(format!("sql {sql_id} {field}")).or_default() += number(&statement[field]);
            }
            let missing = number(&statement["elapsed_us"])
                - number(&statement["cpu_us"])
                - number(&statement["wait_us"]);
            assert_eq!(number(&statement["missing_us"]), missing, "{name}");
        }
        let mut expected = expected.clone();
        expected.retain(|name, _| {
            let first = name.split(' ').next().unwrap_or_default();
            ["events", "event", "longest", "count", "us", "sql"].contains(&first)
                && (first != "sql" || SHOWN.iter().any(|field| name.ends_with(&format!(" {field}"))))
        });
        for numbers in [&mut expected, &mut found] {
            numbers.retain(|_, value| *value != 0);
        }
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn a_recording_made_of_a_trace_gives_the_report_of_the_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["two_sessions.trc", "statements.trc", "release_8.trc"] {
        let trace = fixture(name);
        let recording = folder.path().join(name).with_extension("dbt");
        let recording = recording.to_str().expect("a plain path");
        dbtime(&["import", &trace, "-o", recording]).expect_code(0);
        let (mut of_trace, mut of_recording) = (report(&[&trace]), report(&[recording]));
        for report in [&mut of_trace, &mut of_recording] {
            // What it cost to write the recording.
            report["meta"]["cost"] = Value::Null;
        }
        assert_eq!(of_trace, of_recording, "{name}");
        assert_eq!(
            dbtime(&["report", &trace]).expect_code(0).stdout,
            dbtime(&["report", recording]).expect_code(0).stdout,
            "{name}"
        );
        dbtime(&["import", &trace, "-o", recording])
            .expect_code(1)
            .expect_stderr(&["already exists"]);
    }
}

#[test]
fn several_files_are_one_report_and_what_is_no_trace_is_told() {
    let (one, other) = (fixture("two_sessions.trc"), fixture("statements.trc"));
    let both = report(&[&one, &other]);
    let (one_only, other_only) = (report(&[&one]), report(&[&other]));
    for view in ["call_view", "interval_view"] {
        for (field, value) in both["trace"][view].as_object().expect("a view") {
            let sum = number(&one_only["trace"][view][field]) + number(&other_only["trace"][view][field]);
            assert_eq!(number(value), sum, "{view}: {field}");
        }
    }
    assert_eq!(number(&both["trace"]["files"]), 2);
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).expect("a file");
        path.to_str().expect("a plain path").to_string()
    };
    let notes = write("notes.txt", b"WAIT for the bus\n");
    let empty = write("empty.trc", b"");
    let with_notes = report(&[&one, &notes]);
    assert_eq!(with_notes["trace"]["call_view"], one_only["trace"]["call_view"]);
    let told = with_notes["quality"]["notes"].to_string();
    assert!(
        told.contains("notes.txt") && told.contains("not a format"),
        "{told}"
    );
    dbtime(&["report", &notes])
        .expect_code(1)
        .expect_stderr(&["notes.txt", "not a format"]);
    dbtime(&["report", &empty])
        .expect_code(3)
        .expect_stderr(&["empty.trc", "empty"]);
    dbtime(&["report", &format!("{empty}.absent")])
        .expect_code(1)
        .expect_stderr(&["absent", "no such file"]);
}

#[test]
fn rows_that_do_not_fit_into_memory_change_nothing() {
    // Each wait is in a second of its own, and so has its own rows for reads and blocks.
    const WAITS: u64 = 150_000;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("long.trc");
    let mut file = std::io::BufWriter::new(fs::File::create(&path).expect("a file"));
    let mut total = 0;
    for n in 0..WAITS {
        let ela = 100 + n % 1_000;
        total += ela;
        let tim = 1_000_000_000_000 + n * 1_000_000;
        writeln!(
            file,
            "WAIT #{}: nam='db file sequential read' ela= {ela} file#=1 block#={n} blocks=1 obj#=-1 tim={tim}",
            n % 7
        )
        .expect("a line");
    }
    file.flush().expect("all lines");
    let before: Vec<_> = left_behind();
    let report = report(&[path.to_str().expect("a plain path")]);
    let event = &report["trace"]["events"][0];
    assert_eq!(number(&event["count"]), WAITS as i64);
    assert_eq!(number(&event["total_us"]), total as i64);
    assert_eq!(number(&event["max_us"]), 1_099);
    assert_eq!(number(&report["trace"]["call_view"]["wait_us"]), total as i64);
    assert_eq!(left_behind(), before, "folders of rows stay behind");
}

#[test]
fn a_part_of_a_trace_has_the_waits_and_calls_that_ended_in_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("part.trc");
    let mut text = String::from("*** 2024-05-01T10:00:00.000000+00:00\n");
    for second in 0..30_i64 {
        for n in 0..10 {
            let (tim, ela) = (
                1_000_000_050_000 + second * 1_000_000 + n * 90_000,
                1_000 + second,
            );
            text += &format!(
                "WAIT #1: nam='db file sequential read' ela= {ela} file#=1 block#=2 blocks=1 obj#=-1 tim={}\n\
                 EXEC #1:c=100,e=2000,p=0,cr=1,cu=0,mis=0,r=1,dep=0,og=1,plh=9,tim={tim}\n",
                tim - 200
            );
        }
    }
    fs::write(&path, text).expect("a file");
    let path = path.to_str().expect("a plain path");
    // 10 waits a second of 1,010 to 1,019 us: 100 and 101,450 us in ten seconds.
    let recording = folder.path().join("part.dbt");
    let recording = recording.to_str().expect("a plain path");
    dbtime(&["import", path, "-o", recording]).expect_code(0);
    for file in [path, recording] {
        let part = report(&[
            file,
            "--from",
            "2024-05-01T10:00:10Z",
            "--to",
            "2024-05-01T10:00:20Z",
        ]);
        let event = &part["trace"]["events"][0];
        assert_eq!(
            (number(&event["count"]), number(&event["total_us"])),
            (100, 101_450),
            "{file}"
        );
        let statement = &part["trace"]["statements"][0];
        assert_eq!(number(&statement["executions"]), 100, "{file}");
        assert_eq!(number(&statement["elapsed_us"]), 200_000, "{file}");
        assert_eq!(number(&statement["wait_us"]), 101_450, "{file}");
        let seconds = report(&[file, "--latency", "--by", "second", "--top", "100"]);
        let groups = seconds["latency"].as_array().expect("groups");
        assert_eq!(groups.len(), 30, "{file}");
        for (second, group) in (0i64..).zip(groups) {
            assert_eq!(
                group["group"]["second"],
                format!("2024-05-01 10:00:{second:02}"),
                "{file}"
            );
            assert_eq!(number(&group["count"]), 10, "{file}");
            assert_eq!(group["sum_us"], (1_000 + second) as f64 * 10.0, "{file}");
        }
    }
}

#[test]
fn statements_without_a_name_in_the_database_are_called_by_their_hash_value() {
    let trace = fixture("release_8.trc");
    let ledger = report(&[&trace, "--by", "sql_id"]);
    let labels: Vec<String> = ledger["ledger"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| row["group"]["sql_id"].to_string())
        .collect();
    assert!(labels.iter().any(|label| label.contains("hash ")), "{labels:?}");
    assert!(
        !labels.iter().any(|label| label.contains("[statement")),
        "{labels:?}"
    );
}

/// Folders that a report makes for rows that do not fit into memory.
fn left_behind() -> Vec<PathBuf> {
    let entries = fs::read_dir(std::env::temp_dir()).expect("the folder of temporary files");
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("import.dbt").exists())
        .collect();
    found.sort();
    found
}

/// `executions` of a statement at depth 0, each with so many of another one in it. Times in microseconds.
fn of_executions(executions: u64, recursive: u64) -> String {
    let mut text = "*** 2024-05-01 10:00:00.000\n".to_string();
    for (cursor, dep, name) in [(7, 0, "aaaaaaaaaaaa1"), (8, 1, "bbbbbbbbbbbb2")] {
        text += &format!(
            "=====================\nPARSING IN CURSOR #{cursor} len=8 dep={dep} uid=5 oct=3 lid=5 tim=1000000 hv=7 ad='1' \
             sqlid='{name}'\nselect 1\nEND OF STMT\n"
        );
    }
    for n in 1..=executions {
        let end = 1_000_000 + 20_000 * n;
        for of in 0..recursive {
            let tim = end - 14_000 + 100 * of;
            text += &format!("EXEC #8:c=10,e=20,p=0,cr=1,cu=0,mis=0,r=1,dep=1,og=1,plh=9,tim={tim}\n");
        }
        text += &format!("EXEC #7:c=5000,e=15000,p=0,cr=1,cu=0,mis=0,r=1,dep=0,og=1,plh=9,tim={end}\n");
    }
    text
}

#[test]
fn traces_are_compared_by_what_clients_had_executed() {
    let home = tempfile::tempdir().expect("a folder");
    let path = |name: &str| home.path().join(name).to_str().expect("a plain path").to_string();
    let (good, bad, slower) = (path("good.trc"), path("bad.trc"), path("slower.trc"));
    fs::write(&good, of_executions(600, 0)).expect("a file");
    fs::write(&bad, of_executions(600, 20)).expect("a file");
    fs::write(&slower, of_executions(600, 20).replace("e=15000", "e=19000")).expect("a file");
    let diff = |one: &str, other: &str| -> Value {
        let answer = dbtime(&["diff", one, other, "--format", "json"]).expect_code(0);
        serde_json::from_str(&answer.stdout).expect("JSON")
    };
    let same = diff(&good, &bad);
    assert_eq!(same["per"], "execution", "{same:#}");
    let close = |found: &Value, truth: f64| {
        let found = found.as_f64().unwrap_or_else(|| panic!("{found} is no number"));
        assert!(
            (found - truth).abs() < 1e-6 * truth,
            "{found}, but the truth is {truth}"
        );
    };
    for side in ["good", "bad"] {
        close(&same["db_time"][side], 15e6);
    }
    assert_eq!(same["statements_counted_by"], "sql trace", "{same:#}");
    let longer = diff(&bad, &slower);
    close(&longer["db_time"]["bad"], 19e6);
    let of = longer["statements"].as_array().expect("statements");
    let of = of.iter().find(|of| of["sql_id"] == "aaaaaaaaaaaa1");
    let of = of.unwrap_or_else(|| panic!("{longer:#}"));
    close(&of["per_execution"]["difference"], 4e6);
    // An input is not overwritten, and a missing one is not just left out.
    for output in [&good, &path("./good.trc")] {
        dbtime(&["report", &good, "-o", output])
            .expect_code(1)
            .expect_stderr(&["it is one of the input files"]);
    }
    assert_eq!(fs::read_to_string(&good).expect("a file"), of_executions(600, 0));
    dbtime(&["report", &path("none.trc"), &good])
        .expect_code(1)
        .expect_stderr(&["none.trc", "No such file"]);
    let folded = path("samples.folded");
    fs::write(&folded, "a;b 100\n").expect("a file");
    dbtime(&["diff", &good, &folded])
        .expect_code(1)
        .expect_stderr(&["no common unit"]);
    // By the name that Oracle has for it.
    let chosen = dbtime(&["report", &bad, "--query", "aaaaaaaaaaaa1"]).expect_code(0);
    assert!(
        chosen.stdout.contains("--wait, --state and --query filter"),
        "{}",
        chosen.stdout
    );
}
