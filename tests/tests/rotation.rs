//! One recording after the other (`record --rotate`): nothing is missing where they meet, nothing is there twice, and each can be read
//! alone.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use dbtime::throwaway::Options;
use dbtime_model::recording::Recording;
use dbtime_model::{
    ActivityRow, CauseRow, CounterRow, HeldLockRow, LatencyRow, LockRow, Rows, SessionRow, StackRow,
    StatementRow, Table,
};
use dbtime_tests::{Recorder, Session, assert_close, dbtime, distribution, needs_recording, number, pgbench};
use serde_json::Value;
use tempfile::TempDir;

const EVERY_S: u64 = 20;

fn rows<T: Table>(recording: &Recording) -> Vec<T> {
    let mut all = Vec::new();
    let problems = recording.read(|mut rows| all.append(&mut rows));
    assert!(problems.is_empty(), "{problems:?}");
    all
}

fn all_rows(recording: &Recording) -> Rows {
    Rows {
        activity: rows::<ActivityRow>(recording),
        latency: rows::<LatencyRow>(recording),
        counters: rows::<CounterRow>(recording),
        sessions: rows::<SessionRow>(recording),
        stacks: rows::<StackRow>(recording),
        statements: rows::<StatementRow>(recording),
        causes: rows::<CauseRow>(recording),
        held_locks: rows::<HeldLockRow>(recording),
        locks: rows::<LockRow>(recording),
        ..Rows::default()
    }
}

fn recordings_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

fn report(path: &Path) -> Value {
    let path = path.to_str().expect("a plain path");
    let outcome = dbtime(&["report", path, "--format", "json"]).expect_code(0);
    serde_json::from_str(&outcome.stdout).expect("JSON")
}

/// Sleeps until so many seconds after a multiple of [`EVERY_S`].
fn wait_for_second(second: u64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let since = Duration::new(now.as_secs() % EVERY_S, now.subsec_nanos());
    let until = Duration::from_secs(second);
    let until = if until < since {
        until + Duration::from_secs(EVERY_S)
    } else {
        until
    };
    std::thread::sleep(until - since);
}

/// Time of the session in foreground, seconds.
fn time_of(recordings: &[Rows], pid: u32) -> f64 {
    let ns: u64 = recordings
        .iter()
        .map(|rows| {
            let ids: BTreeSet<_> = rows
                .sessions
                .iter()
                .filter(|row| row.pid == pid)
                .map(|row| row.id)
                .collect();
            assert!(!ids.is_empty(), "each recording describes session {pid}");
            let own = rows.activity.iter().filter(|row| ids.contains(&row.session));
            own.map(|row| row.ns).sum::<u64>()
        })
        .sum();
    ns as f64 / 1e9
}

#[test]
fn where_one_ends_and_the_next_begins_nothing_is_missing_and_nothing_is_twice() {
    needs_recording!();
    let server = distribution();
    let cluster = server.start(Options::default());
    pgbench::initialise(&cluster, 1);
    let mut sleeper = Session::connect(&cluster);
    let pid = sleeper.pid();
    wait_for_second(EVERY_S - 7);
    let load = pgbench::Load::start(&cluster, &["-c", "2", "-T", "30"]);
    // It goes on over the end of a recording, and is seen anew in none of the passes after that.
    let asleep = std::thread::spawn(move || {
        sleeper.run("SELECT pg_sleep(30)");
        sleeper
    });
    std::thread::sleep(Duration::from_secs(1));

    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let folder = home.path().join("series");
    let data_dir = cluster.data_dir().to_str().expect("a plain path");
    let before = Instant::now();
    let recorder = Recorder::start_at(&folder, &["--postgres", data_dir, "--rotate", "20s"]);
    let least = Instant::now();
    std::thread::sleep(Duration::from_secs(23));
    let least = least.elapsed().as_secs_f64();
    recorder.signal(libc::SIGINT);
    let outcome = recorder.outcome().expect_code(0);
    let most = before.elapsed().as_secs_f64();
    load.finish();
    drop(asleep.join().expect("it has slept"));

    let paths = recordings_in(&folder);
    assert_eq!(paths.len(), 2, "{}", outcome.stderr);
    let opened: Vec<Recording> = paths
        .iter()
        .map(|path| Recording::open(path).unwrap_or_else(|e| panic!("{e}")))
        .collect();
    let [first, second] = [opened[0].meta(), opened[1].meta()];
    assert!(first.complete && second.complete);
    assert_eq!(first.end_us, second.start_us);
    assert_eq!(first.end_us % (EVERY_S as i64 * 1_000_000), 0);
    assert_eq!(first.collector.series, second.collector.series);

    let all: Vec<Rows> = opened.iter().map(all_rows).collect();
    for rows in &all {
        let mut missing = rows.refers_to();
        missing.subtract(&rows.describes());
        // The text of a short statement may not be known: nobody could be asked for it in time.
        for statement in &rows.statements {
            missing.statements.remove(&statement.id);
        }
        assert!(missing.is_empty(), "rows name what nobody describes: {missing:?}");
    }
    // Each row is where its second is.
    assert!(all[0].activity.iter().all(|row| row.time < first.end_us));
    assert!(all[1].activity.iter().all(|row| row.time >= second.start_us));

    // A session that was there all the time.
    let slept = time_of(&all, pid);
    assert!(
        (least - 0.05..most + 0.05).contains(&slept),
        "the session has {slept} s, where {least} to {most} s were recorded"
    );
    // It has one second in each of the seconds around the end of the first (beside other tests, a recorder needs a second or two to begin).
    for second_us in (-3..3).map(|second| first.end_us + second * 1_000_000) {
        let in_second = |rows: &Rows| -> u64 {
            let id = rows
                .sessions
                .iter()
                .find(|row| row.pid == pid)
                .expect("it is there")
                .id;
            let own = rows
                .activity
                .iter()
                .filter(|row| row.session == id && row.time == second_us);
            own.map(|row| row.ns).sum()
        };
        let ns: u64 = all.iter().map(in_second).sum();
        assert_close(
            "a second of a session that was there, s",
            ns as f64 / 1e9,
            1.0,
            0.0,
            0.05,
        );
    }
    // What was counted of the recorder is divided as well: no sample twice, none missing.
    let said: u64 = opened
        .iter()
        .map(|recording| recording.meta().quality.samples)
        .sum();
    let found: u64 = all
        .iter()
        .flat_map(|rows| &rows.activity)
        .map(|row| row.samples)
        .sum();
    assert_eq!(said, found);
    // Both have stacks that are named, and what was executed.
    for path in &paths {
        let report = report(path);
        assert!(number(&report["db_time_ns"]) > 0.0, "{report}");
        let statements = report["statements"].as_array().expect("statements");
        assert!(
            statements.iter().any(|one| one["text"]
                .as_str()
                .is_some_and(|text| text.contains("pgbench_accounts"))),
            "{statements:?}"
        );
    }
}

#[test]
fn what_cannot_be_is_said() {
    for (arguments, said) in [
        (["--rotate", "7m"], "a day must be a multiple"),
        (["--rotate", "5s"], "20s to 1d"),
        (["--rotate", "2d"], "20s to 1d"),
    ] {
        dbtime(&[&["record"], &arguments[..]].concat())
            .expect_code(2)
            .expect_stderr(&[said]);
    }
    dbtime(&["record", "--rotate", "10m", "--resolution", "7s"])
        .expect_code(2)
        .expect_stderr(&["multiple of --resolution"]);
    dbtime(&["record", "--rotate", "10m", "--html"])
        .expect_code(2)
        .expect_stderr(&["cannot be used with"]);
}
