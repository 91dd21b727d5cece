//! The ready queries, each in the engine that it is for: their sums are those of reports.

use std::fs;
use std::path::Path;
use std::process::Command;

use dbtime_tests::{copy, dbtime, dbtime_binary, repository, skip};

use super::made::{HOUR_S, Made, START_S, plain, record, record_flight, record_release, scratch};
use super::s3::{CREDENTIALS, Server};

/// In paths its name is encoded.
const ODD_HOST: &str = "db 4/é%41";

#[test]
fn duckdb_gets_the_sums_of_reports_from_the_ready_queries() {
    gets_the_sums_of_reports("duckdb");
}

#[test]
fn clickhouse_gets_the_sums_of_reports_from_the_ready_queries() {
    gets_the_sums_of_reports("clickhouse");
}

#[test]
fn spark_gets_the_sums_of_reports_from_the_ready_queries() {
    gets_the_sums_of_reports("spark");
}

/// How many states of recordings of a host have a manifest.
fn states(store: &Path, host: &str) -> usize {
    let manifests = fs::read_dir(store.join(format!("recordings/host={host}")));
    manifests.expect("manifests").count()
}

fn gets_the_sums_of_reports(engine: &str) {
    let python = repository().join("target/venv/bin/python");
    if !python.exists() {
        skip("no Python environment: run scripts/python-env.sh");
        return;
    }
    let home = scratch();
    let made = Made::two_hosts(&home);
    let store = made.put(&home);
    // What no manifest names does not count: a put that was killed, and a state that was replaced by another.
    let other = record(&home, "other.dbt", "db3", START_S, 1, true);
    dbtime(&["store", "put", plain(&other), plain(&store)]).expect_code(0);
    fs::remove_dir_all(store.join("recordings/host=db3")).expect("it is there");
    let later = START_S + 6 * HOUR_S;
    let early = record_release(&home, "early.dbt", "db1", later, 1, false, "18.2");
    let late = record_release(&home, "late.dbt", "db1", later, 2, true, "18.2");
    let odd = record(&home, "odd.dbt", ODD_HOST, START_S, 5, true);
    let once = record(&home, "once.dbt", "db5", START_S, 2, true);
    // Two moments later than one of the same host began: it is not the same.
    let flight = record_flight(&home, "flight.dbt", "db1", START_S + HOUR_S + 2);
    for recording in [&early, &late, &odd, &once, &flight] {
        dbtime(&["store", "put", plain(recording), plain(&store)]).expect_code(0);
    }
    // What a killed put of a later state has left, without its manifest, and an earlier state that nobody has removed yet.
    let [short, long] = [(1, false), (2, true)].map(|(hours, complete)| {
        let name = format!("{hours}.dbt");
        record(&home, &name, "db2", later, hours, complete)
    });
    dbtime(&["store", "put", plain(&short), plain(&store)]).expect_code(0);
    for (recording, is_whole) in [(&long, false), (&early, true)] {
        let elsewhere = home.path().join("elsewhere");
        dbtime(&["store", "put", plain(recording), plain(&elsewhere)]).expect_code(0);
        if !is_whole {
            fs::remove_dir_all(elsewhere.join("recordings")).expect("it is there");
        }
        copy(&elsewhere, &store);
        fs::remove_dir_all(&elsewhere).expect("it is there");
    }
    assert_eq!(states(&store, "db1"), states(&store, "db2") + 2);
    let mut command = Command::new(python);
    command.arg(repository().join("tests/store_sums.py")).arg(engine);
    command.arg(&store).arg(dbtime_binary());
    command.args(["db1", "db2", ODD_HOST, "db5"]);
    // Kept until the engine has ended.
    let mut server = None;
    if engine == "clickhouse" {
        let Some(started) = Server::start() else { return };
        for (_, recording) in made.recordings() {
            started
                .dbtime(&["store", "put", plain(recording), "s3://fleet/x"])
                .expect_code(0);
        }
        for recording in [&late, &odd, &once, &flight, &short] {
            started
                .dbtime(&["store", "put", plain(recording), "s3://fleet/x"])
                .expect_code(0);
        }
        command.arg(format!("--bucket={}/fleet/x", started.endpoint));
        command.envs(CREDENTIALS);
        server = Some(started);
    }
    let output = command.output().expect("python runs");
    drop(server);
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
