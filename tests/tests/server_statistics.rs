//! `--connect`: what the server itself counts is shown as it counts it, over a connection that can do nothing but read.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use dbtime::throwaway::{Cluster, Options, Shutdown};
use dbtime_tests::snapping::{Snapping, growth, session};
use dbtime_tests::{
    Server, Session, assert_close, dbtime, distribution, every_version, needs_recording, number, say,
};
use serde_json::Value;

/// What the worker does to its table, in rows.
const INSERTED: f64 = 20_000.0;
const UPDATED: f64 = 2_000.0;
const DELETED: f64 = 300.0;
/// Sessions report to the server what they did at the end of a transaction, at most once in so long (PGSTAT_MIN_INTERVAL in
/// src/backend/utils/activity/pgstat.c).
const TOLD_WITHIN: Duration = Duration::from_millis(1_100);

fn server(build: &Server) -> Cluster {
    // Nobody else changes a row.
    build.start(Options::default().set("autovacuum", "off").set("fsync", "off"))
}

/// Ends with a transaction in which the session reports what it did.
fn work(worker: &mut Session) {
    worker.run(&format!(
        "INSERT INTO counted SELECT generate_series(1, {INSERTED}), repeat('x', 100)"
    ));
    worker.run(&format!("UPDATE counted SET t = 'y' WHERE n <= {UPDATED}"));
    worker.run(&format!("DELETE FROM counted WHERE n <= {DELETED}"));
    std::thread::sleep(TOLD_WITHIN);
    worker.run("SELECT 1");
}

/// The part of a snapshot that is of no session.
fn whole(snapshot: &Value) -> Option<&Value> {
    let sessions = snapshot["sessions"].as_array().expect("sessions");
    sessions.iter().find(|session| session["pid"].is_null())
}

/// What a session of its own is told, before and after.
fn told(witness: &mut Session, question: &str) -> f64 {
    let answer = witness.ask(question);
    answer.trim().parse().unwrap_or_else(|e| panic!("{e}: {answer}"))
}

#[test]
fn what_the_server_counts_is_told_in_every_version() {
    needs_recording!();
    for build in every_version() {
        let cluster = server(&build);
        let mut worker = Session::connect(&cluster);
        let mut witness = Session::connect(&cluster);
        worker.run("CREATE TABLE counted (n int, t text)");
        let major = told(
            &mut witness,
            "SELECT current_setting('server_version_num')::int / 10000",
        ) as u32;
        std::thread::sleep(TOLD_WITHIN);
        worker.run("SELECT 1");
        let snapping = Snapping::start(&cluster, &["end", "1", "all", "--connect"]);
        let wal = "SELECT wal_bytes::float8 FROM pg_stat_wal";
        let extends = "SELECT sum(extends) FROM pg_stat_io WHERE backend_type = 'client backend' AND object = 'relation'";
        let of_worker = format!(
            "SELECT sum(extends) FROM pg_stat_get_backend_io({}) WHERE object = 'relation'",
            worker.pid()
        );
        let asked: Vec<&str> = [(0, wal), (16, extends), (18, of_worker.as_str())]
            .into_iter()
            .filter_map(|(since, question)| (major >= since).then_some(question))
            .collect();
        let before: Vec<f64> = asked
            .iter()
            .map(|question| told(&mut witness, question))
            .collect();
        work(&mut worker);
        std::thread::sleep(TOLD_WITHIN);
        let after: Vec<f64> = asked
            .iter()
            .map(|question| told(&mut witness, question))
            .collect();
        let grown: Vec<f64> = before
            .iter()
            .zip(&after)
            .map(|(before, after)| after - before)
            .collect();
        std::thread::sleep(TOLD_WITHIN);
        let snapshots = snapping.stop();
        let [snapshot] = &snapshots[..] else {
            panic!("one snapshot: {snapshots:?}");
        };
        let found = whole(snapshot).unwrap_or_else(|| panic!("{major}: {snapshot:#}"));
        say(&format!("{major}: {grown:?} {found:#}"));
        for (name, truth) in [
            ("tup_inserted", INSERTED),
            ("tup_updated", UPDATED),
            ("tup_deleted", DELETED),
        ] {
            let told = growth(found, "STAT", &format!("pg_stat_database.{name}"));
            assert!(
                told == truth,
                "{major}: {name}: {told}, and the worker did {truth}"
            );
        }
        // The witness itself writes next to nothing.
        let told = growth(found, "STAT", "pg_stat_wal.wal_bytes");
        assert_close(&format!("{major}: bytes of WAL"), told, grown[0], 0.0, 10_000.0);
        assert!(grown[0] > INSERTED * 100.0, "the work writes WAL");
        let extended = |session: &Value, begin: &str| -> f64 {
            let lines = session["lines"].as_array().expect("lines");
            let is_meant = |line: &&Value| {
                let name = line["name"].as_str().unwrap_or_default();
                name.starts_with(begin) && name.ends_with(".extends")
            };
            lines
                .iter()
                .filter(is_meant)
                .map(|line| number(&line["growth"]))
                .sum()
        };
        if major >= 16 {
            let told = extended(found, "pg_stat_io.client backend.relation.");
            assert!(
                told == grown[1] && told > 0.0,
                "{major}: extends: {told} and {}",
                grown[1]
            );
        }
        if major >= 18 {
            let of_worker = session(snapshot, worker.pid()).expect("the worker");
            let told = extended(of_worker, "pg_stat_backend_io.relation.");
            assert!(
                told == grown[2] && told > 0.0,
                "{major}: of the worker: {told} and {}",
                grown[2]
            );
        }
    }
}

#[test]
fn who_asks_can_do_nothing_else() {
    needs_recording!();
    let cluster = server(&distribution());
    let mut witness = Session::connect(&cluster);
    // As Debian has it: by the user of the operating system, and by no other way. Whoever runs the server has a role of that name.
    witness.run("DO $$ BEGIN CREATE ROLE nobody LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$");
    std::fs::write(cluster.data_dir().join("pg_hba.conf"), "local all all peer\n").expect("root may");
    witness.run("SELECT pg_reload_conf()");
    std::thread::sleep(TOLD_WITHIN);
    let snapping = Snapping::start(&cluster, &["end", "1", "fg", "--connect"]);
    assert_eq!(
        witness.ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'dbtime'"),
        "1"
    );
    let threads = std::fs::read_dir(format!("/proc/{}/task", snapping.pid())).expect("it runs");
    let statuses = threads
        .flatten()
        .map(|thread| std::fs::read_to_string(thread.path().join("status")).unwrap_or_default());
    let of_asking: Vec<String> = statuses
        .filter(|status| status.starts_with("Name:\tstatistics\n"))
        .collect();
    let [status] = &of_asking[..] else {
        panic!("one thread: {of_asking:?}");
    };
    let server = std::fs::metadata(format!("/proc/{}", cluster.postmaster_pid()))
        .expect("it runs")
        .uid();
    for line in [
        "CapPrm:\t0000000000000000",
        "CapEff:\t0000000000000000",
        "NoNewPrivs:\t1",
        // The server's user can neither signal nor trace it.
        &format!("Uid:\t0\t{server}\t0\t{server}"),
    ] {
        assert!(status.contains(line), "{line}: {status}");
    }
    // What is counted for the whole server is of none of the sessions that are chosen.
    std::thread::sleep(TOLD_WITHIN);
    let snapshots = snapping.stop();
    assert!(
        snapshots.iter().all(|snapshot| whole(snapshot).is_none()),
        "{snapshots:#?}"
    );
    // Nor is the connection one of those that serve clients.
    let sessions = snapshots
        .iter()
        .filter_map(|snapshot| snapshot["sessions"].as_array());
    let applications: Vec<&Value> = sessions
        .flatten()
        .map(|session| &session["application"])
        .collect();
    assert!(
        !applications.is_empty() && applications.iter().all(|name| *name != "dbtime"),
        "{applications:?}"
    );
}

#[test]
fn a_server_that_restarts_is_asked_again() {
    needs_recording!();
    let mut cluster = server(&distribution());
    Session::connect(&cluster).run("CREATE TABLE counted (n int, t text)");
    let snapping = Snapping::start(&cluster, &["end", "1", "all", "--connect"]);
    cluster.stop(Shutdown::Fast).expect("it ran");
    cluster.launch().expect("it starts again");
    std::thread::sleep(2 * TOLD_WITHIN);
    work(&mut Session::connect(&cluster));
    std::thread::sleep(2 * TOLD_WITHIN);
    let snapshots = snapping.stop();
    let found = whole(&snapshots[0]).unwrap_or_else(|| panic!("{snapshots:#?}"));
    let told = growth(found, "STAT", "pg_stat_database.tup_inserted");
    assert!(
        told == INSERTED,
        "{told} rows, and the worker inserted {INSERTED}"
    );
}

#[test]
fn what_cannot_be_asked_is_said() {
    needs_recording!();
    let cluster = server(&distribution());
    let directory = cluster.data_dir().to_str().expect("a plain path");
    let mine = std::process::id().to_string();
    for (arguments, code, words) in [
        (
            &["--connect=host", "--postgres", directory][..],
            2,
            &["--connect", "host"][..],
        ),
        (
            &["--connect=host=/nowhere", "--postgres", directory],
            1,
            &["--connect", "statistics", "/nowhere"],
        ),
        (
            &["--connect=user=nobody_here", "--postgres", directory],
            1,
            &["nobody_here"],
        ),
        (&["--connect", "--process", &mine], 2, &["--process", "--connect"]),
    ] {
        let outcome = dbtime(&[&["snap", "1", "1"], arguments].concat());
        outcome.expect_code(code).expect_stderr(words);
    }
}

#[test]
fn one_view_that_is_refused_takes_no_other_with_it_and_what_is_off_is_named() {
    needs_recording!();
    let cluster = server(&distribution());
    let mut worker = Session::connect(&cluster);
    worker.run("CREATE ROLE watcher LOGIN");
    worker.run("REVOKE SELECT ON pg_catalog.pg_stat_wal FROM PUBLIC");
    let directory = cluster.data_dir().to_str().expect("a plain path");
    let arguments = [
        "snap",
        "3",
        "1",
        "all",
        "--connect=user=watcher",
        "--postgres",
        directory,
    ];
    // It asks itself, and that is a transaction.
    let outcome = dbtime(&[&arguments[..], &["--format", "csv"]].concat());
    let outcome = outcome
        .expect_code(0)
        .expect_stderr(&["pg_stat_wal (", "track_io_timing ("]);
    assert!(outcome.stdout.contains("pg_stat_database."), "{}", outcome.stdout);
    assert!(!outcome.stdout.contains("pg_stat_wal."), "{}", outcome.stdout);
}
