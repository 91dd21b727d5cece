//! Predictions, checked by making the change: a load is recorded, the effect of a change predicted, the change made, and the load measured.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dbtime::throwaway::{Cluster, Options};
use dbtime_tests::{
    Recorded, Recorder, Session, SlowDisk, distribution, needs_recording, number, say, server_with_hold,
};
use serde_json::Value;

/// Seconds of a recording, and of a measurement after it.
const RECORDED: Duration = Duration::from_secs(8);
const MEASURED: Duration = Duration::from_secs(3);
/// How long a load takes to become steady.
const SETTLED: Duration = Duration::from_millis(500);
/// A measurement of some seconds on a busy host is not the mean: an interval is that much wider, either side.
const HOST: f64 = 0.08;

/// Clients that think and execute, again and again, until they are told to end.
struct Load {
    sessions: Vec<Session>,
    think: Duration,
}

impl Load {
    fn connect(cluster: &Cluster, clients: usize, think: Duration) -> Load {
        Load {
            sessions: (0..clients).map(|_| Session::connect(cluster)).collect(),
            think,
        }
    }

    /// Runs it; returns what `during` returns, which can ask how many transactions have ended.
    fn run<T>(&mut self, statements: &[&str], during: impl FnOnce(&dyn Fn() -> u64) -> T) -> T {
        let (is_over, ended) = (AtomicBool::new(false), AtomicU64::new(0));
        let think = self.think;
        std::thread::scope(|scope| {
            for session in &mut self.sessions {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        std::thread::sleep(think);
                        for statement in statements {
                            session.run(statement);
                        }
                        ended.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            std::thread::sleep(SETTLED);
            let given = during(&|| ended.load(Ordering::Relaxed));
            is_over.store(true, Ordering::Relaxed);
            given
        })
    }

    /// Transactions a second.
    fn measure(&mut self, statements: &[&str]) -> f64 {
        self.run(statements, |ended| throughput_for(MEASURED, ended))
    }

    /// A recording of it, and the transactions a second meanwhile.
    fn record(&mut self, cluster: &Cluster, statements: &[&str], arguments: &[&str]) -> (Recorded, f64) {
        let (recorder, throughput) = self.run(statements, |ended| {
            let recorder = Recorder::server(cluster, arguments);
            let throughput = throughput_for(RECORDED, ended);
            (recorder, throughput)
        });
        (recorder.stop(), throughput)
    }
}

/// Transactions a second, for this long.
fn throughput_for(length: Duration, ended: &dyn Fn() -> u64) -> f64 {
    let (begin, before) = (Instant::now(), ended());
    std::thread::sleep(length);
    (ended() - before) as f64 / begin.elapsed().as_secs_f64()
}

/// What is predicted.
fn predict(recorded: &Recorded, what_if: &str) -> Value {
    let path = recorded.path.to_str().expect("a plain path");
    let text = dbtime_tests::dbtime(&["report", path, "--what-if", what_if]);
    say(&text.stdout);
    let prediction = recorded.json(&["--what-if", what_if])["prediction"].clone();
    assert!(prediction.is_object(), "{}", text.stdout);
    prediction
}

fn throughput(prediction: &Value, which: &str) -> f64 {
    number(&prediction[which]["transactions_per_s"])
}

/// Holds a prediction against what was measured before and after.
#[track_caller]
fn check(what: &str, prediction: &Value, before: f64, after: f64) {
    let of = |which| throughput(prediction, which);
    say(&format!(
        "WHAT-IF | {what} | {before:.1} | {:.1} | {:.1} | {:.1} to {:.1} | {after:.1} | {:+.1} % |",
        of("now"),
        of("predicted"),
        of("low"),
        of("high"),
        100.0 * (of("predicted") / after - 1.0)
    ));
    assert!(
        (of("now") / before - 1.0).abs() < HOST,
        "{what}: recorded {:.1}, counted {before:.1}",
        of("now")
    );
    assert!(
        (of("low") * (1.0 - HOST)..=of("high") * (1.0 + HOST)).contains(&after),
        "{what}: measured {after:.1}: {prediction:#}"
    );
    // An interval that has everything in it says nothing.
    assert!(of("high") < 3.0 * of("low"), "{what}: {prediction:#}");
    // A prediction of no change would be wrong.
    assert!(
        (after / before - 1.0).abs() > 0.15,
        "{what}: {before:.1} and {after:.1} are no test"
    );
}

#[test]
fn an_internal_lock_that_is_held_for_half_as_long() {
    needs_recording!();
    let cluster = server_with_hold(&distribution(), Options::default());
    let mut load = Load::connect(&cluster, 4, Duration::from_millis(12));
    let (recorded, before) = load.record(&cluster, &["SELECT hold(true, 10000, false)"], &[]);
    let prediction = predict(&recorded, "hold:AddinShmemInit=0.5");
    let after = load.measure(&["SELECT hold(true, 5000, false)"]);
    check(
        "LWLock held for 5 ms instead of 10, 4 clients",
        &prediction,
        before,
        after,
    );
}

#[test]
fn a_row_that_is_locked_for_half_as_long() {
    needs_recording!();
    let cluster = distribution().start(Options::default().set("autovacuum", "off"));
    cluster
        .psql("CREATE TABLE t (a int) WITH (fillfactor = 10); INSERT INTO t VALUES (0)")
        .expect("a table");
    let mut load = Load::connect(&cluster, 5, Duration::from_millis(20));
    let transaction = |nap: &str| format!("BEGIN; UPDATE t SET a = a + 1; SELECT pg_sleep({nap}); COMMIT");
    let (recorded, before) = load.record(&cluster, &[&transaction("0.01")], &[]);
    let prediction = predict(&recorded, "hold:transactionid=0.5");
    let after = load.measure(&[&transaction("0.005")]);
    check(
        "row locked for 5 ms instead of 10, 5 clients",
        &prediction,
        before,
        after,
    );
}

#[test]
fn a_faster_device_and_commits_that_do_not_wait_for_it() {
    needs_recording!();
    let Some(disk) = SlowDisk::mount(400, 60) else {
        return;
    };
    let options = Options {
        parent_dir: Some(disk.path()),
        ..Options::default()
    };
    let options = options.set("fsync", "on").set("track_wal_io_timing", "on");
    let cluster = distribution().start(options.set("autovacuum", "off"));
    cluster.psql("CREATE TABLE t (a int)").expect("a table");
    let mut asks = Session::connect(&cluster);
    // They think so little that the device is hardly ever idle: a limit of writes lets through at once what was saved up.
    let mut load = Load::connect(&cluster, 4, Duration::from_millis(5));
    for session in &load.sessions {
        disk.slow_down(session.pid());
    }
    let insert = ["INSERT INTO t VALUES (1)"];
    asks.run("SELECT pg_stat_reset_shared('wal')");
    // Without its flush, a fifteenth of a transaction is left: at this rate there are enough samples of it.
    let (recorded, before) = load.record(&cluster, &insert, &["-F", "499"]);
    let slow = flush(&mut load, &mut asks);
    disk.limit(180);
    let after = load.measure(&insert);
    // A limit of writes makes each flush faster by a factor that depends on how many come: the server says by which.
    let factor = flush(&mut load, &mut asks) / slow;
    for session in &mut load.sessions {
        session.run("SET synchronous_commit = off");
    }
    let without = load.measure(&insert);
    let faster = predict(&recorded, &format!("event:IO:WALSync={factor:.3}"));
    let gone = predict(&recorded, "event:IO:WALSync=0");
    check(
        "limit of writes raised from 60 to 180 a second, 4 clients",
        &faster,
        before,
        after,
    );
    // More than these waits goes away: statements that run fifty times a second, all woken by one flush, need several times the CPU and run
    // queue of those that run seven hundred times. The prediction has them as they were recorded; the interval allows for it, and the host
    // needs no allowance here.
    check("synchronous_commit = off, 4 clients", &gone, before, without);
    let of = |which| throughput(&gone, which);
    assert!(
        (of("low")..=of("high")).contains(&without),
        "measured {without:.1}: {gone:#}"
    );
    assert!(of("high") < 2.0 * of("predicted"), "{gone:#}");
    let assumes = gone["assumes"].as_array().expect("sentences");
    assert!(
        assumes
            .iter()
            .any(|of| of.as_str().is_some_and(|of| of.contains("under a denser load"))),
        "{gone:#}"
    );
    drop((load, asks, cluster));
}

/// Mean time of a flush of the log since this was asked last, by the server, ms.
fn flush(load: &mut Load, asks: &mut Session) -> f64 {
    for session in &mut load.sessions {
        session.run("SELECT pg_stat_force_next_flush()");
    }
    let mean = asks.ask("SELECT wal_sync_time / wal_sync FROM pg_stat_wal");
    asks.run("SELECT pg_stat_reset_shared('wal')");
    mean.parse().expect("there were some")
}

#[test]
fn a_statement_that_gets_an_index() {
    needs_recording!();
    let options = Options::default()
        .set("compute_query_id", "on")
        .set("autovacuum", "off")
        .set("max_parallel_workers_per_gather", "0");
    let cluster = distribution().start(options);
    cluster
        .psql("CREATE TABLE t AS SELECT n AS a, repeat('x', 100) AS b FROM generate_series(1, 100000) n; ANALYZE t")
        .expect("a table");
    let (slow, other) = (
        "SELECT b FROM t WHERE a = 4711",
        "SELECT sum(sqrt(n)) FROM generate_series(1, 5000) n",
    );
    let transaction = ["BEGIN", slow, other, "COMMIT"];
    let mut load = Load::connect(&cluster, 2, Duration::from_millis(8));
    let (recorded, before) = load.record(&cluster, &transaction, &[]);
    let statements = recorded.statements();
    let (id, _) = statements
        .iter()
        .find(|(_, (_, text))| text.contains("FROM t WHERE"))
        .unwrap_or_else(|| panic!("{statements:?}"));
    // The statement alone, as its client sees it, without and with the index.
    let mut alone = Session::connect(&cluster);
    let mut time = || {
        let times = (0..40).map(|_| {
            let begin = Instant::now();
            alone.run(slow);
            begin.elapsed().as_secs_f64()
        });
        let mut times: Vec<f64> = times.collect();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let without = time();
    cluster.psql("CREATE INDEX ON t (a)").expect("an index");
    let factor = time() / without;
    let prediction = predict(&recorded, &format!("query:{id}={factor:.3}"));
    let after = load.measure(&transaction);
    check("index for a statement, 2 clients", &prediction, before, after);
}
