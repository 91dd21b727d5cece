//! What blocked time led to, as `dbtime report --causes` says.

use serde_json::Value;

use crate::{Recorded, assert_close, number};

/// The report; every sum in it is checked.
///
/// # Panics
/// When it is no such report, or a sum is wrong.
#[track_caller]
pub fn causes(recorded: &Recorded) -> Value {
    let report = recorded.json(&["--causes"]);
    let waits = report["causes"].as_array().expect("waits");
    let sum = |of: &[Value]| of.iter().map(|of| number(&of["ns"])).sum::<f64>();
    assert_close("waits, ns", sum(waits), number(&report["blocked_ns"]), 1e-9, 1.0);
    for wait in waits {
        let by = wait["by"].as_array().expect("parts");
        assert_close("parts of a wait, ns", sum(by), number(&wait["ns"]), 1e-9, 1.0);
    }
    // The same time as in the ledger.
    let ledger = recorded.json(&[]);
    let blocked: f64 = ledger["ledger"]
        .as_array()
        .expect("rows")
        .iter()
        .filter(|row| row["section"] == "db_time")
        .flat_map(|row| ["disk_ns", "sleep_ns"].map(|state| number(&row[state])))
        .sum();
    assert_close("blocked, ns", number(&report["blocked_ns"]), blocked, 1e-9, 1.0);
    report
}

/// A part of the time of a wait, and where it led.
#[derive(Debug, Clone)]
pub struct Part {
    /// The wait event.
    pub wait: String,
    /// The statement that waited.
    pub text: String,
    /// Kind of the cause.
    pub kind: String,
    /// Session at the root, to which the next three fields belong, too; 0 = no session.
    pub pid: u32,
    /// Kind of server process.
    pub backend_type: String,
    /// The wait event that it was in.
    pub root_wait: String,
    /// Its state as the kernel saw it.
    pub state: String,
    /// How long.
    pub seconds: f64,
}

/// All parts of such a report.
///
/// # Panics
/// When it is no such report.
pub fn parts(report: &Value) -> Vec<Part> {
    let word = |of: &Value| of.as_str().unwrap_or_default().to_string();
    let mut parts = Vec::new();
    for wait in report["causes"].as_array().expect("waits") {
        for by in wait["by"].as_array().expect("parts") {
            parts.push(Part {
                wait: word(&wait["wait"]),
                text: word(&wait["text"]),
                kind: word(&by["kind"]),
                pid: by["pid"].as_u64().map_or(0, |pid| pid as u32),
                backend_type: word(&by["backend_type"]),
                root_wait: word(&by["wait"]),
                state: word(&by["state"]),
                seconds: number(&by["ns"]) / 1e9,
            });
        }
    }
    parts
}
