//! A recording is read by a program that knows nothing of dbtime, and gives the same sums.

use std::path::{Path, PathBuf};
use std::process::Command;

use dbtime::throwaway::Options;
use dbtime_tests::{Recorder, Session, dbtime, distribution, needs_recording, pgbench, skip};

fn python() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests/ is inside the repository");
    let python = root.join("target/venv/bin/python");
    if python.exists() {
        Some(python)
    } else {
        skip("no Python environment: run scripts/python-env.sh");
        None
    }
}

#[test]
fn duckdb_gets_the_sums_of_the_report() {
    needs_recording!();
    let Some(python) = python() else { return };
    let cluster = distribution().start(Options::default().set("shared_buffers", "1MB"));
    pgbench::initialise(&cluster, 5);
    let mut sleeper = Session::connect(&cluster);
    let recorder = Recorder::server(&cluster, &[]);
    let load = pgbench::Load::of_reads(&cluster);
    // Long enough for several segments.
    sleeper.run("SELECT pg_sleep(7)");
    drop(load);
    let recorded = recorder.stop();
    assert!(recorded.meta.segments.last >= 2, "{:?}", recorded.meta.segments);

    let recording = recorded.path.to_str().expect("a plain path");
    let report = recorded.path.with_extension("json");
    let json = dbtime(&["report", recording, "--format", "json"])
        .expect_code(0)
        .stdout;
    std::fs::write(&report, json).expect("a file of our own");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("duckdb_sums.py");
    let output = Command::new(python)
        .arg(script)
        .arg(recording)
        .arg(&report)
        .output()
        .expect("python runs");
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
