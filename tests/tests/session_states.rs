//! What the database says of a session as a whole: its state, its user, database and application, whose parallel worker it is.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use dbtime::throwaway::{Cluster, Options, SUPERUSER};
use dbtime_tests::snapping::Snapping;
use dbtime_tests::{
    Recorded, Recorder, Server, Session, assert_between, assert_close, distribution, every_version,
    needs_recording, say,
};
use serde_json::Value;

/// An address of this host at which no other test's server listens.
const ADDRESS: &str = "127.77.5.43";

/// Seconds in these sections by the value of a dimension, of one process.
fn seconds(recorded: &Recorded, pid: u32, by: &str, sections: &[&str]) -> BTreeMap<String, f64> {
    let report = recorded.json(&["--session", &pid.to_string(), "--by", by]);
    let mut seconds = BTreeMap::new();
    for row in report["ledger"].as_array().expect("rows") {
        if sections.iter().any(|section| row["section"] == *section) {
            let value = row["group"][by].as_str().expect("a value").to_string();
            *seconds.entry(value).or_default() += row["total_ns"].as_f64().expect("a number") / 1e9;
        }
    }
    seconds
}

/// Asks the server for a session's state, and lets it be in it for so long.
fn stay(cluster: &Cluster, session: &Session, state: &str, ms: u64) -> f64 {
    let begin = Instant::now();
    sleep(Duration::from_millis(ms));
    let said = cluster.psql(&format!(
        "SELECT state FROM pg_stat_activity WHERE pid = {}",
        session.pid()
    ));
    assert_eq!(said.expect("an answer").trim(), state);
    begin.elapsed().as_secs_f64()
}

#[test]
fn the_state_of_a_session_is_what_the_server_says_in_every_version() {
    needs_recording!();
    for build in every_version() {
        let cluster = build.start(Options::default());
        let mut session = Session::connect(&cluster);
        let recorders = [
            Recorder::server(&cluster, &["--exact=calls"]),
            Recorder::server(&cluster, &[]),
            Recorder::server(&cluster, &["--collector", "proc"]),
        ];
        // No shorter than the first, no longer than the second.
        let mut truth: BTreeMap<&str, [f64; 2]> = BTreeMap::new();
        let state = "idle in transaction";
        let begin = Instant::now();
        session.run("BEGIN; SELECT 1");
        let least = stay(&cluster, &session, state, 800);
        session.run("COMMIT");
        truth.insert(state, [least, begin.elapsed().as_secs_f64()]);
        let idle = stay(&cluster, &session, "idle", 400);
        let begin = Instant::now();
        session.run("SELECT pg_sleep(0.7)");
        truth.insert("active", [0.7, begin.elapsed().as_secs_f64()]);
        session.run("BEGIN");
        let state = "idle in transaction (aborted)";
        let begin = Instant::now();
        session.try_run("SELECT 1 / 0").expect_err("nobody can");
        let least = stay(&cluster, &session, state, 600);
        session.run("ROLLBACK");
        truth.insert(state, [least, begin.elapsed().as_secs_f64()]);
        session.wait_until_idle();
        for recorder in recorders {
            let recorded = recorder.stop();
            let idle_in = seconds(&recorded, session.pid(), "session_state", &["idle"]);
            let busy_in = seconds(&recorded, session.pid(), "session_state", &["db_time"]);
            say(&format!("{}: idle {idle_in:?}, DB time {busy_in:?}", build.name));
            for (state, [least, most]) in &truth {
                let found = if *state == "active" { &busy_in } else { &idle_in };
                // A sample is 10 ms, at either end.
                assert_between(
                    &format!("{}: {state}", build.name),
                    found.get(*state).copied().unwrap_or(0.0),
                    *least,
                    *most,
                    0.05,
                    0.03,
                );
            }
            assert!(idle_in["idle"] >= idle - 0.05, "{idle_in:?}");
            // Hardly any time is in other states.
            let others = idle_in
                .iter()
                .chain(&busy_in)
                .filter(|(state, _)| !truth.contains_key(state.as_str()) && state.as_str() != "idle");
            let others: f64 = others.map(|(_, seconds)| seconds).sum();
            assert!(others < 0.05, "{others} s in other states");
            let text = recorded.text(&[]);
            assert!(text.contains("Client:ClientRead (in transaction)"), "{text}");
        }
    }
}

#[test]
fn who_waits_for_the_rows_of_a_copy_executes_it() {
    needs_recording!();
    let cluster = distribution().start(Options::default().set("compute_query_id", "on"));
    cluster.psql("CREATE TABLE t (a int)").expect("a table");
    let recorder = Recorder::server(&cluster, &[]);
    let mut psql = cluster
        .client_program("psql")
        .expect("it is there")
        .args(["--quiet", "--dbname=postgres", "--command", "COPY t FROM STDIN"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut rows = psql.stdin.take().expect("a pipe");
    let begin = Instant::now();
    for _ in 0..5 {
        sleep(Duration::from_millis(200));
        // As much as the client sends at once.
        rows.write_all("1\n".repeat(8192).as_bytes()).expect("it reads");
        rows.flush().expect("it reads");
    }
    drop(rows);
    assert!(psql.wait().expect("it ends").success());
    let copied = begin.elapsed().as_secs_f64();
    let report = recorder.stop().json(&["--by", "query,session_state,wait"]);
    let rows = report["ledger"].as_array().expect("rows");
    let of_copy = rows.iter().filter(|row| {
        row["section"] == "idle"
            && row["group"]["session_state"] == "active"
            && row["group"]["wait"] == "Client:ClientRead"
            && row["group"]["query"] != "[unknown]"
    });
    let seconds: f64 = of_copy
        .map(|row| row["total_ns"].as_f64().expect("a number") / 1e9)
        .sum();
    assert_between("waiting for rows, s", seconds, 0.8, copied, 0.1, 0.0);
}

#[test]
fn what_the_application_calls_itself_is_followed() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let mut session = Session::connect_with(&cluster, "-c application_name=first");
    let recorder = Recorder::server(&cluster, &[]);
    let begin = Instant::now();
    session.run("SELECT pg_sleep(2.2)");
    session.run("SET application_name = '</script>'; SELECT pg_sleep(2.2)");
    let mut late = begin.elapsed().as_secs_f64() - 4.4;
    let begin = Instant::now();
    session.run("SET application_name = 'first'; SELECT pg_sleep(2.2)");
    late += begin.elapsed().as_secs_f64() - 2.2;
    session.wait_until_idle();
    let recorded = recorder.stop();
    let found = seconds(&recorded, session.pid(), "application", &["db_time"]);
    say(&format!("{found:?}"));
    // It is read once a second.
    assert_close("first", found["first"], 4.4, 0.0, 2.0);
    assert_close("second", found["</script>"], 2.2, 0.0, 2.0);
    assert_between("both", found.values().sum(), 6.6, 6.6 + late, 0.02, 0.0);
    let report = recorded.json(&[]);
    let sessions = report["sessions"].as_array().expect("sessions");
    let of = |application: &str| {
        let so = sessions.iter().filter(|of| of["application"] == application);
        so.filter(|of| of["pid"] == session.pid()).count()
    };
    assert_eq!((of("first"), of("</script>")), (1, 1), "{sessions:#?}");
    for of in sessions.iter().filter(|of| of["pid"] == session.pid()) {
        assert_eq!(of["accounted_ns"], of["elapsed_ns"], "{of:#}");
    }
}

#[test]
fn a_parallel_worker_works_for_its_leaders_user_statement_and_application() {
    needs_recording!();
    let options = Options::default()
        .set("compute_query_id", "on")
        .set("min_parallel_table_scan_size", "0")
        .set("parallel_setup_cost", "0")
        .set("parallel_tuple_cost", "0")
        .set("max_parallel_workers_per_gather", "2")
        .set("jit", "off");
    let cluster = distribution().start(options);
    cluster
        .psql("CREATE TABLE t AS SELECT n FROM generate_series(1, 400000) n; ANALYZE t")
        .expect("a table");
    let mut session = Session::connect_with(&cluster, "-c application_name=reports");
    let recorder = Recorder::server(&cluster, &[]);
    for _ in 0..5 {
        session.run("SELECT count(md5(md5(md5(n::text)))) FROM t");
    }
    session.wait_until_idle();
    let recorded = recorder.stop();
    let report = recorded.json(&["--by", "backend_type,user,application"]);
    let rows = report["ledger"].as_array().expect("rows");
    let workers: Vec<&Value> = rows
        .iter()
        .filter(|row| row["group"]["backend_type"] == "parallel worker")
        .collect();
    let sum = |rows: &[&Value]| -> f64 {
        rows.iter()
            .map(|row| row["total_ns"].as_f64().expect("a number"))
            .sum()
    };
    let named: Vec<&Value> = workers
        .iter()
        .copied()
        .filter(|row| row["group"]["user"] == SUPERUSER && row["group"]["application"] == "reports")
        .collect();
    assert!(sum(&workers) > 0.1e9, "there were none: {rows:#?}");
    assert_close("time of workers", sum(&named), sum(&workers), 0.02, 0.0);
    let by_query = recorded.json(&["--by", "query,backend_type"]);
    let rows = by_query["ledger"].as_array().expect("rows");
    let largest = |kind: &str| {
        let of = rows
            .iter()
            .filter(|row| row["section"] == "db_time" && row["group"]["backend_type"] == kind);
        let max = of.max_by_key(|row| row["total_ns"].as_u64());
        max.expect("there is one")["group"]["query"].clone()
    };
    assert_eq!(largest("parallel worker"), largest("client backend"));
    assert_ne!(largest("client backend"), "[unknown]");
}

/// The pids in this list of sessions, in order.
fn pids(sessions: &Value) -> Vec<u64> {
    let sessions = sessions.as_array().expect("sessions").iter();
    let mut pids: Vec<u64> = sessions.filter_map(|session| session["pid"].as_u64()).collect();
    pids.sort_unstable();
    pids
}

#[test]
fn names_with_blanks_and_brackets_are_told_and_choose_sessions_in_every_version() {
    needs_recording!();
    every_version().iter().for_each(names_with_blanks);
}

fn names_with_blanks(build: &Server) {
    let cluster = build.start(Options::default().set("listen_addresses", ADDRESS));
    for name in ["a b", "a"] {
        cluster
            .psql(&format!("CREATE ROLE \"{name}\" SUPERUSER LOGIN"))
            .expect("a role");
    }
    for name in ["c [local] d", "b c [local] d"] {
        cluster
            .psql(&format!("CREATE DATABASE \"{name}\""))
            .expect("a database");
    }
    let mut sessions = [
        Session::connect_as(&cluster, "a b", "c [local] d"),
        Session::connect_to(&cluster, ADDRESS, "a b", "c [local] d"),
        // With the same title as the first one.
        Session::connect_as(&cluster, "a", "b c [local] d"),
        Session::connect_to(&cluster, ADDRESS, "a", "b c [local] d"),
    ];
    // What the server says of them.
    let told = sessions.each_mut().map(|session| {
        session.run("SET application_name = 'an [app]'");
        session.ask(
            "SELECT concat_ws('|', usename, datname, application_name,
                 coalesce(host(client_addr) || '(' || client_port || ')', '[local]'))
             FROM pg_stat_activity WHERE pid = pg_backend_pid()",
        )
    });
    assert_eq!(told[0], "a b|c [local] d|an [app]|[local]");
    assert!(
        told[3].starts_with("a|b c [local] d|an [app]|127."),
        "{}",
        told[3]
    );
    let who = ["user=\"a b\"", "database=c [local] d", "'application=an [app]'"];
    let snapping = Snapping::start(&cluster, &[&["end", "1"], &who[..]].concat());
    let recorders = [
        Recorder::server(&cluster, &[]),
        Recorder::server(&cluster, &["--collector", "proc"]),
    ];
    for session in &mut sessions {
        session.run("SELECT pg_sleep(0.1)");
    }
    // The second in which that was is over, and shown.
    sleep(Duration::from_millis(1_200));
    let mut both = [&sessions[0], &sessions[1]].map(|session| u64::from(session.pid()));
    both.sort_unstable();
    let snapshots = snapping.stop();
    assert_eq!(pids(&snapshots[0]["sessions"]), both, "{snapshots:#?}");
    for recorder in recorders {
        let recorded = recorder.stop();
        for (session, told) in sessions.iter().zip(&told) {
            let row = recorded.session(session.pid()).row;
            let found = [&row.user, &row.database, &row.application, &row.client].map(|text| &**text);
            assert_eq!(found.join("|"), *told, "{row:?}");
            assert_eq!(row.backend_type, "client backend", "{row:?}");
        }
        let chosen = ["--where", "user=a b", "--where", "database=c [local] d"];
        let report = recorded.json(&[&chosen[..], &["--by", "user,database"]].concat());
        assert_eq!(pids(&report["sessions"]), both, "{report:#}");
        for row in report["ledger"].as_array().expect("rows") {
            let group = &row["group"];
            let is_theirs = group["user"] == "a b" && group["database"] == "c [local] d";
            assert!(is_theirs, "{row:#}");
        }
    }
}
