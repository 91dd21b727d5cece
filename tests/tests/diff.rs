//! `dbtime diff` of recordings of a real PostgreSQL between which one thing was changed: the first line names it. And of
//! recordings between which nothing was changed: nothing is called significant.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use dbtime::throwaway::{Cluster, Options, page_cache};
use dbtime_tests::pgbench::Load;
use dbtime_tests::{Recorded, Recorder, dbtime, distribution, needs_recording, say};
use serde_json::Value;
use tempfile::TempDir;

/// Seconds of each recording.
const SECONDS: &str = "5";
/// In a few seconds, few slices stand out from noise: what has to be significant each time needs more of them.
const LONGER: &str = "15";

/// Records while clients run a script over and over.
fn record(cluster: &Cluster, clients: u32, script: &str) -> Recorded {
    record_for(cluster, clients, script, SECONDS)
}

fn record_for(cluster: &Cluster, clients: u32, script: &str, seconds: &str) -> Recorded {
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let file = home.path().join("script.sql");
    fs::write(&file, script).expect("a file of our own");
    let load = start(cluster, clients, &file);
    // Connections and first executions are no part of what is compared.
    std::thread::sleep(Duration::from_millis(700));
    let recorded = Recorder::server(cluster, &["-d", seconds, "-F", "499"]).finish();
    drop(load);
    recorded
}

fn start(cluster: &Cluster, clients: u32, script: &Path) -> Load {
    let script = script.to_str().expect("a plain path");
    let clients = format!("--client={clients}");
    Load::start(
        cluster,
        &[
            "--no-vacuum",
            "--time=600",
            "--jobs=1",
            &clients,
            "--file",
            script,
        ],
    )
}

fn path(recorded: &Recorded) -> &str {
    recorded.path.to_str().expect("a plain path")
}

fn text(good: &Recorded, bad: &Recorded) -> String {
    dbtime(&["diff", path(good), path(bad)]).expect_code(0).stdout
}

/// Asserts that the first sentence names one of these.
#[track_caller]
fn assert_named(what: &str, good: &Recorded, bad: &Recorded, names: &[&str]) {
    let answer = json(good, bad);
    let conclusion = answer["conclusion"].as_str().expect("a sentence");
    say(&format!("{what}: {conclusion}"));
    let text = text(good, bad);
    let first = text.lines().next().expect("a line");
    assert!(first.ends_with(conclusion), "{text}");
    // The second paragraph says what is new in BAD, where something else has grown by more.
    let named: String = text.lines().take_while(|line| !line.is_empty()).collect();
    assert!(
        names.iter().any(|name| named.contains(name)) && answer["significant"] == true,
        "{what} is not named: none of {names:?} in\n{text}"
    );
}

fn json(good: &Recorded, bad: &Recorded) -> Value {
    let outcome = dbtime(&["diff", path(good), path(bad), "--format", "json"]).expect_code(0);
    serde_json::from_str(&outcome.stdout).expect("JSON")
}

fn numbers(cluster: &Cluster, rows: u32) {
    let sql = |sql: &str| {
        cluster.psql(sql).expect("it works");
    };
    sql(&format!(
        "CREATE TABLE n AS SELECT i AS id, i::numeric AS v, repeat('x', 100) AS filler FROM generate_series(1, {rows}) i"
    ));
    sql("VACUUM ANALYZE n");
    sql("CHECKPOINT");
}

fn cluster(options: Options) -> Cluster {
    let options = options
        .set("max_parallel_workers_per_gather", "0")
        .set("autovacuum", "off")
        .set("jit", "off");
    distribution().start(options)
}

#[test]
fn data_checksums_are_found() {
    needs_recording!();
    let small = || Options::default().set("shared_buffers", "1MB");
    let run = |options: Options| {
        let cluster = cluster(options);
        numbers(&cluster, 200_000);
        record(&cluster, 1, "SELECT count(*) FROM n;")
    };
    let good = run(small());
    let bad = run(Options {
        checksums: true,
        ..small()
    });
    assert_named(
        "data checksums",
        &good,
        &bad,
        &["pg_checksum_page", "PageIsVerified"],
    );
}

#[test]
fn what_was_changed_in_queries_and_settings_is_found() {
    needs_recording!();
    let cluster = cluster(Options::default());
    numbers(&cluster, 20_000);
    let sql = |sql: &str| {
        cluster.psql(sql).expect("it works");
    };

    let good = record(&cluster, 2, "SELECT sum(v) FROM n;");
    let bad = record(&cluster, 2, "SELECT sum(exp(v / 20000)) FROM n;");
    let slow = ["exp_var", "numeric_exp", "mul_var", "div_var"];
    assert_named("a slow function", &good, &bad, &slow);

    // It is only available where it is switched on.
    let available = cluster
        .psql("SET jit = on; SELECT pg_jit_available()")
        .expect("it works");
    if available.trim().ends_with('t') {
        let many: Vec<String> = (0..30).map(|n| format!("sum(id + {n})")).collect();
        let query = format!("SELECT {} FROM n WHERE id < 100;", many.join(", "));
        let good = record(&cluster, 2, &query);
        sql("ALTER ROLE postgres SET jit = on; ALTER ROLE postgres SET jit_above_cost = 0");
        sql(
            "ALTER ROLE postgres SET jit_inline_above_cost = 0; ALTER ROLE postgres SET jit_optimize_above_cost = 0",
        );
        let bad = record(&cluster, 2, &query);
        sql("ALTER ROLE postgres SET jit = off");
        assert_named("jit", &good, &bad, &["llvm", "LLVM"]);
    } else {
        dbtime_tests::skip("this PostgreSQL has no jit");
    }
}

#[test]
fn commits_that_wait_for_the_log_and_for_each_other_are_found() {
    needs_recording!();
    let cluster = cluster(Options::default().set("fsync", "on"));
    let sql = |sql: &str| {
        cluster.psql(sql).expect("it works");
    };
    sql("CREATE TABLE h (id int PRIMARY KEY, v int) WITH (fillfactor = 20)");
    sql("INSERT INTO h SELECT i, 0 FROM generate_series(1, 1000) i");
    let insert = "\\set id random(1, 1000)\nUPDATE h SET v = v + 1 WHERE id = :id;";
    sql("ALTER ROLE postgres SET synchronous_commit = off");
    let good = record(&cluster, 2, insert);
    sql("ALTER ROLE postgres SET synchronous_commit = on");
    let bad = record(&cluster, 2, insert);
    let log = ["IO:WALSync", "IO:WALWrite", "LWLock:WALWrite", "XLogFlush"];
    assert_named("synchronous_commit", &good, &bad, &log);

    sql("ALTER ROLE postgres SET synchronous_commit = off");
    let update = |rows: u32| {
        format!(
            "\\set id random(1, {rows})\nBEGIN;\nUPDATE h SET v = v + 1 WHERE id = :id;\nSELECT pg_sleep(0.002);\nEND;"
        )
    };
    let good = record(&cluster, 4, &update(1_000));
    let bad = record(&cluster, 4, &update(1));
    assert_named(
        "a lock convoy",
        &good,
        &bad,
        &["Lock:transactionid", "Lock:tuple"],
    );
}

/// Takes files out of the page cache, over and over.
struct Evicting {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Evicting {
    fn start(files: Vec<PathBuf>) -> Evicting {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                page_cache::evict(&files).expect("files of a server of our own");
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        Evicting {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Evicting {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("it evicted to its end");
        }
    }
}

/// A server that knows its statements, with two tables of numbers.
fn cluster_with_statements(options: Options, rows: u32) -> Cluster {
    let cluster = cluster(
        options
            .set("shared_preload_libraries", "pg_stat_statements")
            .set("pg_stat_statements.track_planning", "on"),
    );
    numbers(&cluster, rows);
    for sql in [
        "CREATE EXTENSION pg_stat_statements",
        "CREATE TABLE m AS SELECT * FROM n",
        "CREATE INDEX i ON n (id)",
        "CREATE INDEX j ON m (id)",
        "VACUUM ANALYZE",
        "CHECKPOINT",
    ] {
        cluster.psql(sql).expect("it works");
    }
    cluster
}

/// What the server says of the statement that begins like this since the last call: its id, and milliseconds of one execution.
fn witness(cluster: &Cluster, begin: &str) -> (String, f64) {
    let answer = cluster
        .psql(&format!(
            "SELECT queryid, (total_exec_time + total_plan_time) / calls FROM pg_stat_statements WHERE query LIKE '{begin}%'"
        ))
        .expect("it is there");
    cluster
        .psql("SELECT pg_stat_statements_reset()")
        .expect("it is there");
    let (id, ms) = answer.trim().split_once('\t').expect("one statement");
    (id.to_string(), ms.parse().expect("a number"))
}

/// The first line names the statement with this id, and it is the first of all; gives back what is said of it.
#[track_caller]
fn assert_statement(what: &str, good: &Recorded, bad: &Recorded, id: &str) -> (String, Value) {
    let answer = json(good, bad);
    let sentence = answer["statement"].as_str().expect("a sentence").to_string();
    say(&format!("{what}: {sentence}"));
    let text = text(good, bad);
    let first = text.lines().next().expect("a line");
    assert!(
        sentence.starts_with(&format!("Query {id} ")) && first.contains(&sentence),
        "{what}: query {id} is not named in\n{text}"
    );
    let statement = answer["statements"][0].clone();
    assert_eq!(
        (&statement["query"], &statement["verdict"]),
        (&id.into(), &"significant".into())
    );
    assert_eq!(answer["statements_per"], "transaction");
    (sentence, statement)
}

#[test]
fn of_two_statements_the_one_that_lost_its_index_is_named() {
    needs_recording!();
    let cluster = cluster_with_statements(Options::default(), 20_000);
    // One transaction executes each once.
    let script = "\\set id random(1, 20000)\nBEGIN;\nSELECT v FROM n WHERE id = :id;\nSELECT count(*) FROM m WHERE id < 3000;\nEND;";
    let slowed = "SELECT v FROM n WHERE";
    let good = record_for(&cluster, 2, script, LONGER);
    let (id, good_ms) = witness(&cluster, slowed);
    cluster.psql("DROP INDEX i").expect("it works");
    let bad = record_for(&cluster, 2, script, LONGER);
    let (same, bad_ms) = witness(&cluster, slowed);
    assert_eq!(id, same);
    let scan = [
        "SeqScan",
        "SeqNext",
        "heap_getnextslot",
        "heapgettup",
        "heapgetpage",
    ];
    assert_named("a missing index", &good, &bad, &scan);
    let (sentence, statement) = assert_statement("an index less", &good, &bad, &id);
    assert!(
        sentence.contains("more DB time per transaction") && sentence.contains("CPU"),
        "{sentence}"
    );
    let number = |value: &Value| value.as_f64().expect("a number");
    let (found, truth) = (number(&statement["difference"]) / 1e6, bad_ms - good_ms);
    say(&format!(
        "{found:.3} ms more per transaction, {truth:.3} per execution by the server"
    ));
    // The server does not count parsing, nor the answer.
    assert!((found / truth - 1.0).abs() < 0.25, "{found} ms, {truth} ms");
    // The other one is there, and takes as long as it did.
    let answer = json(&good, &bad);
    let others = answer["statements"].as_array().expect("statements");
    let other = others
        .iter()
        .find(|one| one["text"].as_str().is_some_and(|text| text.contains("FROM m")));
    assert_ne!(other.expect("it is there")["verdict"], "significant");

    // Nothing has changed since: nothing is named.
    let again = record_for(&cluster, 2, script, LONGER);
    assert_eq!(json(&bad, &again)["statement"], "");
}

#[test]
fn of_two_statements_the_one_whose_reads_come_from_the_device_now_is_named() {
    needs_recording!();
    let cluster = cluster_with_statements(Options::default().set("shared_buffers", "1MB"), 400_000);
    let relation = |table: &str| {
        let path = cluster.psql(&format!("SELECT pg_relation_filepath('{table}')"));
        cluster.data_dir().join(path.expect("it works").trim())
    };
    let (files, other) = (vec![relation("n")], vec![relation("m")]);
    for files in [&files, &other] {
        page_cache::warm(files).expect("files of a server of our own");
    }
    let script =
        "\\set id random(1, 400000)\nSELECT v FROM n WHERE id = :id;\nSELECT v FROM m WHERE id = :id;";
    let good = record_for(&cluster, 2, script, LONGER);
    let (id, _) = witness(&cluster, "SELECT v FROM n WHERE");
    let evicting = Evicting::start(files);
    let bad = record_for(&cluster, 2, script, LONGER);
    drop(evicting);
    assert_named("uncached reads", &good, &bad, &["IO:DataFileRead"]);
    let (sentence, _) = assert_statement("reads of one table", &good, &bad, &id);
    // On a busy host, a session that has read from the device then waits for a CPU, longer than for the device.
    let is_mostly_queued = sentence.contains("IO:DataFileRead, runnable");
    assert!(
        sentence.contains("IO:DataFileRead, disk")
            && (is_mostly_queued || sentence.contains("its reads now come from the device")),
        "{sentence}"
    );
}

#[test]
fn of_equal_runs_hardly_any_is_called_different() {
    needs_recording!();
    // With statements: they are compared, too.
    let cluster = cluster_with_statements(Options::default(), 20_000);
    let lookup =
        "\\set id random(1, 20000)\nSELECT v FROM n WHERE id = :id;\nSELECT count(*) FROM n WHERE id < 500;";
    let recorded: Vec<Recorded> = (0..7).map(|_| record(&cluster, 2, lookup)).collect();
    let mut alarms = Vec::new();
    let mut pairs = 0;
    for (number, good) in recorded.iter().enumerate() {
        for bad in &recorded[number + 1..] {
            pairs += 1;
            let answer = json(good, bad);
            assert_eq!(answer["noise"]["tested"], true, "{answer}");
            if answer["significant"] == true {
                alarms.push(text(good, bad));
            }
        }
    }
    say(&format!(
        "{} false alarms in {pairs} comparisons of equal runs",
        alarms.len()
    ));
    assert!(
        pairs >= 20 && alarms.len() <= 1,
        "{} of {pairs}:\n{}",
        alarms.len(),
        alarms.join("\n")
    );
}
