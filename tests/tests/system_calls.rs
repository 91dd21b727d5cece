//! Reports of strace's and perf trace's files: the numbers that the tools themselves print.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use dbtime_tests::{dbtime, say};
use serde_json::Value;

fn system_calls(path: &Path) -> BTreeMap<String, Value> {
    let path = path.to_str().expect("a plain path");
    let outcome = dbtime(&["report", path, "--format", "json"]).expect_code(0);
    let report: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let calls = report["system_calls"]["calls"].as_array().expect("calls");
    calls
        .iter()
        .map(|call| (call["name"].as_str().expect("a name").to_string(), call.clone()))
        .collect()
}

#[test]
fn a_summary_is_shown_with_the_percentages_that_strace_printed() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/strace/strace_c_nanosleep.txt");
    let Ok(text) = fs::read_to_string(&path) else {
        return say(&format!("SKIPPED: {} is not there", path.display()));
    };
    let found = system_calls(&path);
    let mut rows = 0;
    for line in text.lines() {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let (Some(Ok(percent)), Some(name)) = (cells.first().map(|cell| cell.parse::<f64>()), cells.last())
        else {
            continue;
        };
        if *name == "total" {
            continue;
        }
        let call = &found[*name];
        // It prints two decimals of a percentage.
        assert!(
            (call["percent"].as_f64().expect("known") - percent).abs() < 0.006,
            "{line}: {call}"
        );
        assert_eq!(call["calls"].to_string(), cells[3], "{line}");
        assert_eq!(
            call["total_us"].as_f64(),
            Some((cells[1].parse::<f64>().expect("seconds") * 1e6).round()),
            "{line}"
        );
        assert!(call["p99_us"].is_null() && call["max_us"].is_null(), "{call}");
        rows += 1;
    }
    assert_eq!(rows, found.len());
}

#[test]
fn a_program_traced_now_has_the_calls_that_strace_itself_counts() {
    let folder = tempfile::tempdir().expect("a folder");
    let (trace, summary) = (folder.path().join("trace"), folder.path().join("summary"));
    // Reads of a known number; the program is the same in both runs, and so are its calls.
    let program = [
        "dd",
        "if=/dev/zero",
        "of=/dev/null",
        "bs=512",
        "count=1000",
        "status=none",
    ];
    for (options, output) in [
        (["-f", "-T", "-ttt", "-o"], &trace),
        (["-f", "-c", "-w", "-o"], &summary),
    ] {
        let run = Command::new("strace")
            .args(options)
            .arg(output)
            .args(program)
            .output();
        match run {
            Ok(run) if run.status.success() => {}
            other => return say(&format!("SKIPPED: strace: {other:?}")),
        }
    }
    let (single, summed) = (system_calls(&trace), system_calls(&summary));
    let count =
        |calls: &BTreeMap<String, Value>, name: &str| calls[name]["calls"].as_u64().expect("a number");
    // A thousand, and those of the dynamic linker.
    assert!(
        (1_000..1_010).contains(&count(&single, "read")),
        "{}",
        single["read"]
    );
    for name in ["read", "write", "openat", "close", "mmap"] {
        assert_eq!(count(&single, name), count(&summed, name), "{name}");
        assert_eq!(single[name]["errors"], summed[name]["errors"], "{name}");
        let (p50, max) = (single[name]["p50_us"].as_f64(), single[name]["max_us"].as_f64());
        assert!(p50.is_some() && p50 <= max, "{name}: {}", single[name]);
        // Every call takes a time, and none more than the longest.
        let total = single[name]["total_us"].as_f64().expect("a time");
        assert!(total > 0.0 && total <= max.expect("a time") * count(&single, name) as f64);
    }
}
