//! Commands of clients: how many, how long, and what the slow ones did differently; against what the server counts, the time of
//! the sessions, and causes that are brought about.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dbtime::throwaway::{Cluster, Options};
use dbtime_model::State;
use dbtime_tests::{
    Outcome, Recorded, Recorder, Session, SlowDisk, assert_between, assert_close, dbtime, distribution,
    needs_recording, number, pgbench, say, take_cpu,
};
use serde_json::Value;

pub(crate) const CALLS: &str = "--exact=calls";

/// The answer about slow commands; every sum in it is checked.
pub(crate) fn tail(recorded: &Recorded) -> Value {
    let report = recorded.json(&["--tail", "--top", "100"]);
    assert_conserved(&report["all"]);
    for statement in report["statements"].as_array().expect("statements") {
        assert_conserved(statement);
    }
    report
}

/// Each ledger sums to the mean latency of its commands, and these are a half and a hundredth of all.
#[track_caller]
fn assert_conserved(commands: &Value) {
    let count = number(&commands["count"]);
    let ledger = &commands["ledger"];
    if count < 20.0 {
        assert!(ledger.is_null(), "{commands:#}");
        return;
    }
    for (range, share) in [("median", 0.5), ("slow", 0.01)] {
        let rows = ledger[range].as_array().expect("rows");
        let sum: f64 = rows.iter().map(|row| number(&row["ns"])).sum();
        let mean = number(&ledger[format!("{range}_mean_ns")]);
        assert_close("rows of a ledger, ns", sum, mean, 1e-6, 0.0);
        assert!(rows.iter().all(|row| row["state"] != "unknown"), "{ledger:#}");
        let commands = number(&ledger[format!("{range}_commands")]);
        assert_close(
            "commands of a ledger",
            commands,
            (count * share).max(1.0),
            1e-6,
            0.0,
        );
    }
}

/// Commands by query id.
pub(crate) fn counts(report: &Value) -> BTreeMap<String, u64> {
    let statements = report["statements"].as_array().expect("statements").iter();
    statements
        .filter_map(|of| Some((of["query"].as_str()?.to_string(), of["count"].as_u64()?)))
        .collect()
}

/// pgbench's own log says when each of its transactions ended. The recorder gets its turn at the CPUs late: what has ended until then is
/// not counted.
#[test]
fn of_clients_that_go_on_only_the_commands_of_the_recorded_time_are_counted() {
    needs_recording!();
    const CLIENTS: f64 = 16.0;
    const COMMANDS: f64 = 7.0;
    let cluster = server();
    pgbench::initialise(&cluster, 5);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let log = folder.path().join("log");
    let prefix = format!("--log-prefix={}", log.display());
    let arguments = [
        "--no-vacuum",
        "--client=16",
        "--jobs=1",
        "--time=12",
        "--log",
        &prefix,
    ];
    let load = pgbench::Load::start(&cluster, &arguments);
    std::thread::sleep(Duration::from_secs(1));
    let recorder = Recorder::server(&cluster, &[CALLS]);
    std::thread::sleep(Duration::from_secs(3));
    // They end before pgbench does: until then hardly anything is left for it.
    let spinning = |_| {
        let mut command = Command::new("timeout");
        command
            .args(["6", "sh", "-c", "while :; do :; done"])
            .spawn()
            .expect("it is installed")
    };
    let others = [(); 2].map(spinning);
    // SAFETY: setpriority has no memory effects; the process is this test's recorder, whose first thread has its pid.
    let is_nice = unsafe { libc::setpriority(libc::PRIO_PROCESS, recorder.pid(), 19) };
    assert_eq!(is_nice, 0);
    let recorded = recorder.stop();
    load.finish();
    for mut other in others {
        other.wait().expect("it is our child");
    }
    let mut transactions = 0.0;
    for log in std::fs::read_dir(folder.path()).expect("pgbench has written it") {
        let log = std::fs::read_to_string(log.expect("readable").path()).expect("readable");
        // CLIENT NUMBER DURATION SCRIPT SECONDS MICROSECONDS
        for line in log.lines() {
            let fields: Vec<i64> = line
                .split(' ')
                .map(|field| field.parse().expect("a number"))
                .collect();
            let end_us = fields[4] * 1_000_000 + fields[5];
            let is_recorded = (recorded.meta.start_us..=recorded.meta.end_us).contains(&end_us);
            transactions += f64::from(is_recorded);
        }
    }
    let found: u64 = counts(&recorded.json(&["--tail", "--top", "100"])).values().sum();
    say(&format!("{found} commands of {transactions} transactions"));
    assert!(transactions > 1_000.0, "{transactions} transactions");
    // Where it begins, a busy session is taken up some milliseconds later; where it ends, nothing more is counted.
    let all = COMMANDS * transactions;
    let most = all + COMMANDS * CLIENTS + 0.005 * all;
    assert!(
        (0.95 * all..=most).contains(&(found as f64)),
        "{found} commands, but {transactions} transactions ended in that time"
    );
}

/// Eight clients with seven statements have so many other events that these fill the room for single events by statement.
#[test]
fn commands_keep_their_statement_beside_however_many_other_events() {
    needs_recording!();
    const CLIENTS: u64 = 8;
    const TRANSACTIONS: u64 = 400;
    let cluster = server();
    pgbench::initialise(&cluster, 1);
    let recorder = Recorder::server(&cluster, &[CALLS]);
    let (clients, transactions) = (
        format!("--client={CLIENTS}"),
        format!("--transactions={TRANSACTIONS}"),
    );
    pgbench::run(&cluster, &["--no-vacuum", "--jobs=1", &clients, &transactions]);
    let recorded = recorder.stop();
    let report = recorded.json(&["--top", "100"]);
    let lost = &report["quality"]["latencies_lost"];
    assert_eq!(*lost, 0, "{:#}", report["quality"]);
    let of_tail = counts(&tail(&recorded));
    let statements = report["statements"].as_array().expect("statements");
    for text in pgbench::STATEMENTS {
        let is_it = |of: &&Value| of["text"].as_str().is_some_and(|of| of.starts_with(text));
        let of = statements.iter().find(is_it);
        let of = of.unwrap_or_else(|| panic!("{text} is not in {statements:#?}"));
        let id = of["query"].as_str().expect("it has an id");
        assert_eq!(of["calls"], CLIENTS * TRANSACTIONS, "{of:#}");
        assert_eq!(of_tail.get(id), Some(&(CLIENTS * TRANSACTIONS)), "{of:#}");
    }
}

#[test]
fn commands_last_as_long_as_their_session_is_busy() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let mut session = Session::connect_with(&cluster, "-c log_duration=on");
    session.wait_until_idle();
    let recorder = Recorder::server(&cluster, &[CALLS]);
    session.take_durations();
    for _ in 0..30 {
        session.run("SELECT pg_sleep(0.01)");
        session.burn(Duration::from_millis(20));
    }
    session.wait_until_idle();
    let durations = session.take_durations();
    let recorded = recorder.stop();
    let report = tail(&recorded);
    let all = number(&report["all"]["total_ns"]) / 1e9;
    let time = recorded.session(session.pid());
    // It enters its wait for the client on a CPU, and waits for a CPU when it leaves it: a command begins then, or later.
    let [least, most] = [&State::ALL[..], &[State::Sleep]].map(|states| {
        let waits = time.ns(Some("Client:ClientRead"), states);
        (time.elapsed_ns - waits) as f64 / 1e9
    });
    say(&format!(
        "{all:.6} s of commands, {least:.6} to {most:.6} s not idle"
    ));
    assert_between("commands, s", all, least, most, 0.001, 0.0005);
    assert_eq!(report["all"]["count"], 60, "{report:#}");
    // The server's own clock starts when it has the command, and stops before its answer is sent.
    let by_server: f64 = durations.iter().map(Duration::as_secs_f64).sum();
    // Outside of it the session may wait for a CPU, too.
    let queued = time.ns(None, &[State::Runnable]) as f64 / 1e9;
    assert!(
        by_server <= all && all < by_server * 1.02 + 0.01 + queued + recorded.stolen,
        "{all} s of commands, {by_server} s by the server"
    );
}

/// Asserts the first cause that the report names for slow commands of this query, and that it takes so many milliseconds on average.
#[track_caller]
fn assert_cause(recorded: &Recorded, text: &str, cause: &str, slow_ms: std::ops::Range<f64>) {
    let report = tail(recorded);
    let statements = report["statements"].as_array().expect("statements");
    let is_it = |of: &&Value| of["text"].as_str().is_some_and(|of| of.starts_with(text));
    let of = statements.iter().find(is_it).expect("it was recorded");
    let first = &of["causes"][0];
    let (median, slow) = (number(&first["median_ns"]) / 1e6, number(&first["slow_ns"]) / 1e6);
    say(&format!(
        "{text}: {} commands, p50 {} ns, p99 {} ns: {} {slow:.3} ms, against {median:.3} ms",
        of["count"], of["p50_ns"], of["p99_ns"], first["cause"]
    ));
    assert_eq!(first["cause"], cause, "{}", recorded.text(&["--tail"]));
    assert!(slow_ms.contains(&slow), "{}", recorded.text(&["--tail"]));
    assert!(median < slow / 20.0, "{}", recorded.text(&["--tail"]));
    let printed = recorded.text(&["--tail", "--query", of["query"].as_str().expect("it has an id")]);
    assert!(printed.contains(cause), "{printed}");
}

fn asked(recorded: &Recorded, arguments: &[&str]) -> Outcome {
    let path = recorded.path.to_str().expect("a plain path");
    dbtime(&[&["report", path, "--tail"], arguments].concat())
}

fn server() -> Cluster {
    distribution().start(Options::default().set("compute_query_id", "on"))
}

#[test]
fn a_lock_that_some_commands_wait_for_is_named() {
    needs_recording!();
    let cluster = server();
    let mut session = Session::connect(&cluster);
    let mut other = Session::connect(&cluster);
    session.run("CREATE TABLE t AS SELECT 1 AS id, 0 AS n");
    let recorder = Recorder::server(&cluster, &[CALLS]);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                other.run("BEGIN; UPDATE t SET n = n + 1; SELECT pg_sleep(0.03); COMMIT");
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let begin = Instant::now();
        // 2 to 3 % of them meet the other one.
        while begin.elapsed() < Duration::from_secs(4) {
            session.run("UPDATE t SET n = n + 2");
            std::thread::sleep(Duration::from_millis(2));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_cause(
        &recorder.stop(),
        "UPDATE t SET n = n +",
        "Lock:transactionid",
        // 30 ms at most, and a wait for a CPU on either side.
        5.0..45.0,
    );
}

#[test]
fn a_sleep_in_some_commands_is_named() {
    needs_recording!();
    let cluster = server();
    let mut session = Session::connect(&cluster);
    session.run(
        "CREATE FUNCTION work(i int) RETURNS int LANGUAGE plpgsql AS $$
         BEGIN IF i % 40 = 0 THEN PERFORM pg_sleep(0.02); END IF; RETURN i; END $$",
    );
    let recorder = Recorder::server(&cluster, &[CALLS]);
    for i in 0..800 {
        session.run(&format!("SELECT work({i})"));
    }
    assert_cause(&recorder.stop(), "SELECT work(", "Timeout:PgSleep", 19.9..21.0);
}

#[test]
fn a_cpu_that_others_have_is_named() {
    needs_recording!();
    let cluster = server();
    let mut session = Session::connect(&cluster);
    let pinned = Command::new("taskset")
        .args(["-pc", "0", &session.pid().to_string()])
        .output()
        .expect("util-linux is installed");
    assert!(pinned.status.success(), "{pinned:?}");
    let recorder = Recorder::server(&cluster, &[CALLS]);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(5) {
        // For a twentieth of the time nobody else gets that CPU: one command in fifty meets it.
        let other = take_cpu(0, Duration::from_millis(30));
        let until = Instant::now() + Duration::from_millis(600);
        while Instant::now() < until {
            session.run("SELECT sum(sqrt(n)) FROM generate_series(1, 4000) n");
            std::thread::sleep(Duration::from_millis(12));
        }
        other.join().expect("it had the CPU");
    }
    assert_cause(
        &recorder.stop(),
        "SELECT sum(sqrt(n))",
        "waiting for a CPU",
        5.0..60.0,
    );
}

#[test]
fn a_disk_that_is_slow_for_some_commits_is_named() {
    needs_recording!();
    const FAST: u32 = 1_000_000;
    let Some(disk) = SlowDisk::mount(400, FAST) else {
        return;
    };
    let options = Options {
        parent_dir: Some(disk.path()),
        ..Options::default()
    };
    let options = options
        .set("compute_query_id", "on")
        .set("fsync", "on")
        .set("autovacuum", "off");
    let cluster = distribution().start(options);
    cluster.psql("CREATE TABLE t (a int)").expect("a table");
    let mut session = Session::connect(&cluster);
    disk.slow_down(session.pid());
    let insert = "INSERT INTO t VALUES (1)";
    session.run(insert);
    let recorder = Recorder::server(&cluster, &[CALLS]);
    for _ in 0..10 {
        for _ in 0..39 {
            session.run(insert);
        }
        // At ten writes a second, each waits for two tenths of a second.
        disk.limit(10);
        session.run(insert);
        disk.limit(FAST);
    }
    let recorded = recorder.stop();
    assert_cause(&recorded, "INSERT INTO t VALUES", "IO:WALSync", 20.0..400.0);
    drop((session, cluster));
}

#[test]
fn temporary_files_of_some_commands_are_named() {
    needs_recording!();
    let Some(disk) = SlowDisk::mount(400, 2_000) else {
        return;
    };
    let options = Options {
        parent_dir: Some(disk.path()),
        ..Options::default()
    };
    let options = options.set("compute_query_id", "on").set("autovacuum", "off");
    let cluster = distribution().start(options);
    let mut session = Session::connect(&cluster);
    session.run("SET work_mem = '64kB'");
    // Otherwise they would be written when nobody waits for it.
    disk.write_through();
    disk.slow_down(session.pid());
    let sort = |rows: u32| {
        format!(
            "SELECT count(*) FROM (SELECT md5(n::text) m FROM generate_series(1, {rows}) n ORDER BY m OFFSET 0) s"
        )
    };
    session.run(&sort(100));
    let recorder = Recorder::server(&cluster, &[CALLS]);
    for _ in 0..5 {
        for _ in 0..59 {
            session.run(&sort(100));
        }
        session.run(&sort(10_000));
    }
    let recorded = recorder.stop();
    assert_cause(
        &recorded,
        "SELECT count(*) FROM (SELECT md5",
        "temporary files (IO:BufFile…)",
        20.0..2_000.0,
    );
    drop((session, cluster));
}

#[test]
fn what_cannot_be_asked_of_commands_is_said() {
    needs_recording!();
    let cluster = server();
    let mut session = Session::connect(&cluster);
    let sampled = Recorder::server(&cluster, &[]);
    session.run("SELECT pg_sleep(0.2)");
    let sampled = sampled.stop();
    let nothing = asked(&sampled, &[]).expect_code(3);
    assert!(nothing.stdout.contains("--exact=calls"), "{nothing:?}");

    let recorder = Recorder::server(&cluster, &[CALLS]);
    session.run("SELECT pg_sleep(0.2)");
    let recorded = recorder.stop();
    for (wrong, said) in [
        (&["--where", "user=postgres"][..], "over all sessions"),
        (&["--wait", "Timeout"], "over all sessions"),
        (&["--query", "4711"], "no time in query 4711"),
        (&["--by", "wait"], "--by"),
    ] {
        let outcome = asked(&recorded, wrong);
        assert!(
            outcome.code != 0 && outcome.stderr.contains(said),
            "{wrong:?}: {outcome:?}"
        );
    }
}
