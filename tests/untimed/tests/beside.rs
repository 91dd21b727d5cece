//! `dbtime report SESSION.trc SESSION.strace`: waits beside the system calls of the same session, against a second computation of the
//! same and against files whose numbers are worked out by hand.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use dbtime_tests::{dbtime, repository, say};
use serde_json::Value;
use tempfile::TempDir;

fn report(arguments: &[&str]) -> Value {
    let outcome = dbtime(&[&["report", "--format", "json"], arguments].concat()).expect_code(0);
    serde_json::from_str(&outcome.stdout).expect("JSON")
}

#[track_caller]
fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Numbers by name, of a list of objects or of an object of objects.
fn by_name<'a>(list: &'a Value, name: &str) -> BTreeMap<&'a str, &'a Value> {
    let list = list.as_array().expect("a list");
    list.iter()
        .map(|of| (of[name].as_str().expect("a name"), of))
        .collect()
}

/// The real pair: a session of Oracle 19c that was traced by both; says so loudly when it is not there.
fn real_pair() -> Option<[String; 2]> {
    let data = repository().join("../shared/data");
    let find = |folder: &str, ending: &str| -> Option<PathBuf> {
        let mut entries = fs::read_dir(data.join(folder)).ok()?.flatten();
        entries.find_map(|entry| entry.path().to_str()?.ends_with(ending).then(|| entry.path()))
    };
    let pair = [
        find("oracle_10046", "TRUNC-TEST.trc"),
        find("strace", "trunc-test.strace"),
    ];
    let [Some(trace), Some(strace)] = pair else {
        say(&format!(
            "SKIPPED: no real pair of traces below {}",
            data.display()
        ));
        return None;
    };
    Some([trace, strace].map(|path| path.to_str().expect("a plain path").to_string()))
}

#[test]
fn the_matrix_of_a_real_session_is_that_of_a_second_computation() {
    let Some([trace, strace]) = real_pair() else {
        return;
    };
    let script = repository().join("tests/waits_beside_calls.py");
    let output = match Command::new("python3")
        .arg(script)
        .args([&trace, &strace])
        .output()
    {
        Ok(output) => output,
        Err(e) => return say(&format!("SKIPPED: python3: {e}: the matrix is not compared")),
    };
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let truth: Value = serde_json::from_slice(&output.stdout).expect("JSON");

    // In either order of the files.
    let found = report(&[&trace, &strace]);
    assert_eq!(report(&[&strace, &trace])["beside"], found["beside"]);
    let pairs = found["beside"]["pairs"].as_array().expect("pairs");
    assert_eq!(pairs.len(), 1);
    let pair = &pairs[0];
    assert_eq!(
        (number(&pair["pid"]), &pair["is_pid_assumed"]),
        (5390, &Value::Bool(true))
    );

    let alignment = &pair["alignment"];
    let [low, high] = [0, 1].map(|at| number(&truth["shift"][at]) * 1_000);
    assert_eq!(number(&alignment["shift_ns"]), (low + high) / 2);
    assert_eq!(number(&alignment["may_be_off_ns"]), (high - low) / 2);
    assert_eq!(alignment["matches"], truth["matches"]);
    assert_eq!(pair["elapsed_ns"], truth["elapsed"]);

    let waits = by_name(&pair["waits"], "event");
    let events = truth["waits"].as_object().expect("events");
    assert_eq!(waits.len(), events.len());
    for (event, expected) in events {
        let (_, wait) = waits
            .iter()
            .find(|(name, _)| name.split_once(':').is_some_and(|(_, name)| name == event))
            .unwrap_or_else(|| panic!("{event} is missing"));
        for (field, of) in [
            ("count", "count"),
            ("ns", "ns"),
            ("with_one_call", "one"),
            ("without_call", "none"),
        ] {
            assert_eq!(wait[field], expected[of], "{event}: {field}");
        }
        let calls = by_name(&wait["calls"], "name");
        for (call, ns) in expected["calls"].as_object().expect("calls") {
            assert_eq!(&calls[call.as_str()]["ns"], ns, "{event}: {call}");
        }
        for (call, count) in expected["inside"].as_object().expect("calls") {
            assert_eq!(&calls[call.as_str()]["count"], count, "{event}: {call}");
        }
        // The parts of a row add up.
        let in_calls: i64 = calls.values().map(|call| number(&call["ns"])).sum();
        assert_eq!(
            in_calls + number(&wait["in_none_ns"]),
            number(&wait["ns"]),
            "{event}"
        );
    }
    let outside = by_name(&pair["outside_of_waits"]["calls"], "name");
    let mut count = 0;
    for (call, expected) in truth["outside"].as_object().expect("calls") {
        assert_eq!(outside[call.as_str()]["count"], expected["count"], "{call}");
        // A call whose middle is in a wait can extend beyond it: that time counts here, too.
        assert!(
            number(&outside[call.as_str()]["ns"]) >= number(&expected["ns"]),
            "{call}"
        );
        count += number(&expected["count"]);
    }
    assert_eq!(
        outside.values().map(|call| number(&call["count"])).sum::<i64>(),
        count
    );
    // Every call in the time of both is inside one wait, or outside all.
    let inside: i64 = waits
        .values()
        .flat_map(|wait| by_name(&wait["calls"], "name").into_values())
        .map(|call| number(&call["count"]))
        .sum();
    assert_eq!(inside + count, number(&truth["calls"]));
}

#[test]
fn the_time_of_the_calls_is_not_added_to_that_of_the_waits() {
    let Some([trace, strace]) = real_pair() else {
        return;
    };
    let (both, alone) = (report(&[&trace, &strace]), report(&[&trace]));
    assert_eq!(
        (&both["db_time_ns"], &both["ledger"]),
        (&alone["db_time_ns"], &alone["ledger"])
    );
    assert_eq!(both["trace"], alone["trace"]);
    assert!(alone.get("beside").is_none() && report(&[&strace]).get("beside").is_none());
    // A recording of both files says the same as the files.
    let folder = TempDir::new().expect("a folder");
    let recording = folder.path().join("both.dbt");
    let recording = recording.to_str().expect("a plain path");
    dbtime(&["import", &trace, &strace, "-o", recording]).expect_code(0);
    assert_eq!(report(&[recording])["beside"], both["beside"]);
}

/// An SQL trace of process 77, and what strace says of the same second. The clock of the SQL trace is 4,000 us late.
fn small_pair(folder: &TempDir, pid: u32) -> [String; 2] {
    let trace = "Trace file /t/x_ora_77.trc\nUnix process pid: 77, image: oracle@host\n\n\
        *** 2023-11-14T22:13:20.004000+00:00\n\
        *** SESSION ID:(1.2)\n\
        WAIT #1: nam='db file sequential read' ela= 2000 file#=1 block#=2 blocks=1 obj#=-1 tim=1002000\n\
        WAIT #1: nam='db file sequential read' ela= 3000 file#=1 block#=2 blocks=1 obj#=-1 tim=1010000\n\
        WAIT #1: nam='db file sequential read' ela= 5000 file#=1 block#=2 blocks=1 obj#=-1 tim=1020000\n\
        WAIT #1: nam='latch free' ela= 100 p1=1 p2=2 p3=3 obj#=-1 tim=1030000\n";
    // The first tim, 1002000, is …20.004000 of the trace's clock, …20.000000 of strace's.
    let strace = format!(
        "{pid} 1699999999.997000 getpid() = 77 <0.000010>\n\
         {pid} 1699999999.998100 pread64(5, \"\", 8192, 0) = 8192 <0.001800>\n\
         {pid} 1700000000.005100 pread64(5, \"\", 8192, 0) = 8192 <0.002800>\n\
         {pid} 1700000000.009000 lseek(5, 0, SEEK_CUR) = 0 <0.000500>\n\
         {pid} 1700000000.013100 pread64(5, \"\", 8192, 0) = 8192 <0.004600>\n\
         {pid} 1700000000.017750 times() = 5 <0.000150>\n\
         {pid} 1700000000.030000 getpid() = 77 <0.000010>\n"
    );
    [("small.trc", trace.to_string()), ("small.strace", strace)].map(|(name, text)| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("a file");
        path.to_str().expect("a plain path").to_string()
    })
}

#[test]
fn a_small_session_has_the_numbers_that_were_worked_out_by_hand() {
    let folder = TempDir::new().expect("a folder");
    let [trace, strace] = small_pair(&folder, 77);
    let found = report(&[&trace, &strace]);
    let pair = &found["beside"]["pairs"][0];
    assert_eq!(
        (number(&pair["pid"]), &pair["is_pid_assumed"]),
        (77, &Value::Bool(false))
    );
    // Each read leaves room for the shift: 100 us before and 100 after; the same; 100 before and 300 after. All allow -4,100 to -3,900 and
    // a microsecond of rounding on either side.
    let alignment = &pair["alignment"];
    assert_eq!(
        (
            number(&alignment["shift_ns"]),
            number(&alignment["may_be_off_ns"])
        ),
        (-4_000_000, 101_000)
    );
    assert_eq!(
        (number(&alignment["matches"]), number(&alignment["candidates"])),
        (3, 3)
    );
    // From the begin of the first wait to the end of the last.
    assert_eq!(number(&pair["elapsed_ns"]), 30_000_000);
    assert_eq!(
        (number(&pair["waits_left_out"]), number(&pair["calls_left_out"])),
        (0, 2)
    );
    let waits = by_name(&pair["waits"], "event");
    let read = waits["User I/O:db file sequential read"];
    let facts = [
        "count",
        "ns",
        "with_one_call",
        "without_call",
        "with_more_calls",
        "in_none_ns",
    ];
    // `times` ends with the third read, so two calls are inside.
    assert_eq!(
        facts.map(|fact| number(&read[fact])),
        [3, 10_000_000, 2, 0, 1, 10_000_000 - 9_200_000 - 150_000]
    );
    let calls = by_name(&read["calls"], "name");
    assert_eq!(
        (
            number(&calls["pread64"]["ns"]),
            number(&calls["pread64"]["count"])
        ),
        (9_200_000, 3)
    );
    assert_eq!(
        (number(&calls["times"]["ns"]), number(&calls["times"]["count"])),
        (150_000, 1)
    );
    let (_, latch) = waits
        .iter()
        .find(|(name, _)| name.ends_with(":latch free"))
        .expect("the latch");
    assert_eq!(
        facts.map(|fact| number(&latch[fact])),
        [1, 100_000, 0, 1, 0, 100_000]
    );
    let outside = &pair["outside_of_waits"];
    let calls = by_name(&outside["calls"], "name");
    assert_eq!(calls.keys().copied().collect::<Vec<_>>(), ["lseek"]);
    assert_eq!(
        (number(&outside["ns"]), number(&calls["lseek"]["ns"])),
        (19_900_000, 500_000)
    );
    assert_eq!(number(&outside["in_none_ns"]), 19_400_000);
}

#[test]
fn strace_of_one_process_need_not_say_its_number() {
    let folder = TempDir::new().expect("a folder");
    let [trace, strace] = small_pair(&folder, 77);
    let named = report(&[&trace, &strace]);
    // `strace -p 77` without -f: lines begin with their time.
    let text = fs::read_to_string(&strace).expect("a file").replace("77 1", "1");
    fs::write(&strace, text).expect("a file");
    let unnamed = report(&[&trace, &strace]);
    let pair = &unnamed["beside"]["pairs"][0];
    assert_eq!(
        (number(&pair["pid"]), &pair["is_pid_assumed"]),
        (77, &Value::Bool(true))
    );
    assert_eq!(pair["waits"], named["beside"]["pairs"][0]["waits"]);
}

#[test]
fn other_processes_are_not_taken_for_the_same() {
    let folder = TempDir::new().expect("a folder");
    let [trace, strace] = small_pair(&folder, 78);
    let beside = &report(&[&trace, &strace])["beside"];
    assert_eq!(beside["pairs"], Value::Array(Vec::new()));
    assert_eq!(
        (&beside["pids_without_calls"][0], &beside["pids_without_waits"][0]),
        (&77.into(), &78.into())
    );
    let text = dbtime(&["report", &trace, &strace]).expect_code(0).stdout;
    assert!(
        text.contains("No system calls were traced for these processes of the SQL trace: 77."),
        "{text}"
    );
}
