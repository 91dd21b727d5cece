//! DB time of a session against what the database itself says that its statements took.

use dbtime::throwaway::Options;
use dbtime_model::State;
use dbtime_tests::{Recorder, Session, assert_between, distribution, needs_recording, pgbench, say, skip};

/// Statements of 50 ms and more: what a statement costs beside its execution is explained, but small.
const STATEMENTS: [&str; 6] = [
    "SELECT count(*), sum(sqrt(n)) FROM generate_series(1, 3000000) n",
    "SELECT count(*) FROM pgbench_accounts a JOIN pgbench_accounts b USING (aid) WHERE a.bid > 0",
    "SELECT count(DISTINCT md5(n::text)) FROM generate_series(1, 200000) n",
    "SELECT pg_sleep(0.3)",
    "UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid <= 60000",
    "INSERT INTO pgbench_history SELECT 1, 1, n, 0, now() FROM generate_series(1, 100000) n",
];

fn statements_agree(level: &str) {
    let options = Options::default()
        .set("shared_preload_libraries", "pg_stat_statements")
        .set("pg_stat_statements.track_planning", "on")
        .set("max_parallel_workers_per_gather", "0")
        .set("autovacuum", "off")
        .set("fsync", "on");
    let cluster = distribution().start(options);
    if cluster.psql("CREATE EXTENSION pg_stat_statements").is_err() {
        skip("this build of PostgreSQL comes without pg_stat_statements");
        return;
    }
    pgbench::initialise(&cluster, 4);
    let mut session = Session::connect_with(&cluster, "-c log_duration=on -c synchronous_commit=off");
    let recorder = Recorder::server(&cluster, &[level]);
    session.wait_until_idle();
    session.take_durations();
    cluster
        .psql("SELECT pg_stat_statements_reset()")
        .expect("it is there");
    for statement in STATEMENTS {
        session.run(statement);
    }
    session.wait_until_idle();
    let durations = session.take_durations();
    let recorded = recorder.stop();
    let asked = "SELECT sum(total_exec_time), sum(total_plan_time), sum(calls) FROM pg_stat_statements \
                 WHERE query NOT LIKE '%pg_stat_statements%'";
    let answer = cluster.psql(asked).expect("it is there");
    let numbers: Vec<f64> = answer
        .split('\t')
        .map(|number| number.parse().expect("a number"))
        .collect();
    let (executed, planned, calls) = (numbers[0] / 1e3, numbers[1] / 1e3, numbers[2]);
    assert_eq!(
        (calls, durations.len()),
        (STATEMENTS.len() as f64, STATEMENTS.len())
    );

    let time = recorded.session(session.pid());
    let busy = time.busy_ns() as f64 / 1e9;
    // From the arrival of a statement until its answer is sent: with parsing, commit (here without waiting for the disk) and the answer.
    let whole: f64 = durations.iter().map(std::time::Duration::as_secs_f64).sum();
    let queued = time.ns(Some("CPU"), &[State::Runnable]) as f64 / 1e9;
    say(&format!(
        "{level}: DB time {busy:.6} s; statements executed {executed:.6} s, planned {planned:.6} s ({:+.2} %); with parsing \
         and commit {whole:.6} s ({:+.2} %)",
        100.0 * (busy / (executed + planned) - 1.0),
        100.0 * (busy / whole - 1.0),
    ));
    let ledger = time.ledger();
    // More than executions by what the server itself took for parsing and commits, which on a slow disk is not little.
    assert_between(
        &format!("{level}: DB time against executed and planned, s\n{ledger}\n"),
        busy,
        executed + planned,
        (executed + planned).max(whole + queued),
        0.03,
        0.0,
    );
    // What remains: reading the message, writing the answer and the notice of the duration itself; and waiting for a CPU
    // meanwhile.
    assert_between(
        &format!("{level}: DB time against whole statements, s\n{ledger}\n"),
        busy,
        whole,
        whole + queued,
        0.005,
        0.003,
    );
}

#[test]
fn db_time_is_what_the_statements_took_where_calls_are_traced() {
    needs_recording!();
    statements_agree("--exact=calls");
}

#[test]
fn db_time_is_what_the_statements_took_where_switches_are_traced() {
    needs_recording!();
    statements_agree("--exact=switch");
}
