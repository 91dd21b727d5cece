//! The ready queries, in the engine that they are for: their sums are those of reports.

use std::fs;
use std::process::Command;

use dbtime_tests::{dbtime, repository, skip};

use crate::made::{HOUR_S, Made, START_S, plain, record, scratch};

#[test]
fn duckdb_gets_the_sums_of_reports_from_the_ready_queries() {
    let python = repository().join("target/venv/bin/python");
    if !python.exists() {
        skip("no Python environment: run scripts/python-env.sh");
        return;
    }
    let home = scratch();
    let made = Made::two_hosts(&home);
    let store = made.put(&home);
    // What no manifest names counts for nobody: a put that was killed, and a state that was replaced by another.
    let other = record(&home, "other.dbt", "db3", START_S, 1, true);
    dbtime(&["store", "put", plain(&other), plain(&store)]).expect_code(0);
    fs::remove_dir_all(store.join("recordings/host=db3")).expect("it is there");
    let early = record(&home, "early.dbt", "db1", START_S + 6 * HOUR_S, 1, false);
    let late = record(&home, "late.dbt", "db1", START_S + 6 * HOUR_S, 2, true);
    for recording in [&early, &late] {
        dbtime(&["store", "put", plain(recording), plain(&store)]).expect_code(0);
    }
    let mut command = Command::new(python);
    command
        .arg(repository().join("tests/store_sums.py"))
        .arg(&store)
        .arg(repository().join("queries/duckdb"));
    for host in ["db1", "db2"] {
        let report = home.path().join(format!("{host}.json"));
        let arguments = [
            "report",
            plain(&store),
            "--host",
            host,
            "--format",
            "json",
            "-o",
            plain(&report),
        ];
        dbtime(&arguments).expect_code(0);
        command.arg(format!("{host}={}", plain(&report)));
    }
    let output = command.output().expect("python runs");
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
