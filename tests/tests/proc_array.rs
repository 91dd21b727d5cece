//! The lock of the table of transactions, ProcArray, as a server uses it: shared for snapshots, exclusive for commits. What is counted of
//! it, against what samples of the same seconds find.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dbtime::throwaway::Options;
use dbtime_tests::{Looking, Session, assert_between, distribution, needs_recording, number, say, stolen};
use serde_json::Value;

/// Transactions that do not end. A snapshot lists them with their subtransactions while it has the lock (GetSnapshotData in
/// src/backend/storage/ipc/procarray.c), which takes some ten microseconds for so many.
const OPEN: u32 = 400;
/// Of each; up to 64 are listed.
const SUBTRANSACTIONS: u32 = 60;
/// Sessions that commit one transaction after the other.
const COMMITTING: usize = 8;
/// Mean time between two transactions of a session: probes may take a quarter of the CPUs, and these are to take less.
const PAUSE: Duration = Duration::from_millis(2);
/// They end by themselves after this.
const LONGEST: Duration = Duration::from_secs(60);
/// Samples per second.
const RATE_HZ: f64 = 997.0;

/// What is said of the lock; nothing where it was never met.
fn proc_array(latches: &Value) -> &Value {
    let mut all = latches.as_array().expect("a list").iter();
    all.find(|latch| latch["name"] == "ProcArray")
        .unwrap_or(&Value::Null)
}

#[test]
fn samples_find_the_lock_of_snapshots_held_for_as_long_as_is_counted() {
    needs_recording!();
    let options = Options::default()
        .set("autovacuum", "off")
        .set("max_prepared_transactions", &OPEN.to_string());
    let cluster = distribution().start(options);
    let mut preparing = Session::connect(&cluster);
    preparing.run("CREATE TABLE t (a int)");
    for number in 0..OPEN {
        // A block that could catch an error is a subtransaction.
        preparing.run(&format!(
            "BEGIN; DO $$ BEGIN FOR i IN 1..{SUBTRANSACTIONS} LOOP \
             BEGIN INSERT INTO t VALUES (i); EXCEPTION WHEN division_by_zero THEN NULL; END; \
             END LOOP; END $$; PREPARE TRANSACTION 'open {number}'"
        ));
    }
    let mut sessions: Vec<Session> = (0..COMMITTING).map(|_| Session::connect(&cluster)).collect();
    let (done, begin) = (AtomicBool::new(false), Instant::now());
    let (shown, stolen) = std::thread::scope(|scope| {
        for (number, session) in sessions.iter_mut().enumerate() {
            let done = &done;
            scope.spawn(move || {
                // By the golden ratio they fall most evenly, and in step with no timer.
                let mut pause = number as f64 / COMMITTING as f64;
                // The time limit is in case nobody ends them.
                while !done.load(Ordering::Relaxed) && begin.elapsed() < LONGEST {
                    session.run("SELECT pg_current_xact_id()");
                    pause = (pause + 0.618_034).fract();
                    std::thread::sleep(PAUSE.mul_f64(0.5 + pause));
                }
            });
        }
        let before = stolen();
        let arguments = ["-d", "3", "-F", "997", "--top", "50", "--format", "json"];
        let shown = Looking::start(&cluster, &arguments).finish_json();
        done.store(true, Ordering::Relaxed);
        (shown, stolen() - before)
    });
    let exact = &shown["exact"];
    assert_eq!(exact["stopped"], Value::Null, "{exact:#}");
    let (counted, sampled) = (proc_array(&exact["latches"]), proc_array(&shown["latches"]));
    let of_both = |field: &str| number(&counted["shared"][field]) + number(&counted["exclusive"][field]);
    let (held, gets) = (of_both("held_ns") / 1e9, of_both("gets"));
    let found = number(&sampled["held_ns"]) / 1e9;
    let not_known = number(&shown["not_known_ns"]) / 1e9;
    say(&format!(
        "ProcArray: counted {held:.4} s in {gets} gets, sampled {found:.4} s, not known {not_known:.4} s, {:.3} s stolen",
        stolen.as_secs_f64()
    ));
    for (mode, least) in [("shared", 1_000.0), ("exclusive", 500.0)] {
        assert!(number(&counted[mode]["gets"]) > least, "{mode}: {counted:#}");
    }
    assert!(held > 0.05, "it is hardly held: {counted:#}");
    // Four standard errors of so many samples. Half of what the probes take may be on either side of the lock.
    let by_chance = 4.0 * (held / RATE_HZ).sqrt();
    let by_probes = 0.5 * gets * number(&exact["use_cost_ns"]) / 1e9;
    let error = by_chance + by_probes + stolen.as_secs_f64();
    assert_between("counted as held, s", held, found, found + not_known, 0.0, error);
    assert!(
        found > 0.3 * held,
        "{found} s of {held} s: what is not known is no proof"
    );
}
