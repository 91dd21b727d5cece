//! Statements that wait for a lock before they are parsed, and so before the server gives them an id: behind an ALTER TABLE, every session
//! that names the table waits there. Against pg_locks, for how long, and pg_stat_statements, in what.

use std::collections::BTreeMap;
use std::time::Duration;

use dbtime::throwaway::{Cluster, Options};
use dbtime_tests::{Recorded, Recorder, Session, assert_close, builds, needs_recording, number, say};
use serde_json::Value;

/// Executed before, for long enough that its text is read.
const KNOWN: &str = "SELECT pg_sleep(0.3), count(*) FROM t";
/// Executed for the first time.
const NEW: &str = "SELECT 'ZQ4711', count(*) FROM t";
const WAIT: &str = "Lock:relation";
const RATE_HZ: &str = "199";

/// For how long each of these sessions has waited for a lock, in seconds. None: one does not wait yet.
fn waited(cluster: &Cluster, pids: [u32; 2]) -> Option<[f64; 2]> {
    let answer = cluster
        .psql("SELECT pid, extract(epoch FROM clock_timestamp() - waitstart) FROM pg_locks WHERE NOT granted")
        .expect("locks");
    let seconds: BTreeMap<&str, &str> = answer.lines().filter_map(|line| line.split_once('\t')).collect();
    let of = |pid: u32| seconds.get(pid.to_string().as_str())?.parse().ok();
    Some([of(pids[0])?, of(pids[1])?])
}

/// Seconds in the wait of a session, by query, and whether that is a fingerprint.
fn by_query(recorded: &Recorded, pid: u32) -> BTreeMap<String, f64> {
    let report = recorded.json(&["--session", &pid.to_string(), "--by", "query", "--wait", WAIT]);
    let rows = report["ledger"].as_array().expect("rows").iter();
    let mut seconds = BTreeMap::new();
    for row in rows.filter(|row| row["section"] == "db_time") {
        let query = row["group"]["query"].as_str().expect("a text").to_string();
        *seconds.entry(query).or_default() += number(&row["total_ns"]) / 1e9;
    }
    seconds
}

#[test]
fn who_waits_for_a_lock_before_the_statement_has_an_id_has_a_statement_in_the_oldest_and_in_the_newest_version()
 {
    needs_recording!();
    for build in builds(&[14, 18]) {
        let options = Options::default()
            .set("shared_preload_libraries", "pg_stat_statements")
            .set("autovacuum", "off");
        let cluster = build.start(options);
        cluster
            .psql("CREATE EXTENSION pg_stat_statements; CREATE TABLE t (a int)")
            .expect("a table");
        let [mut known, mut new, mut alters] = [(); 3].map(|()| Session::connect(&cluster));
        let recorders = [
            ("exact calls", &["--exact=calls", "-F", RATE_HZ][..]),
            ("exact switch", &["--exact=switch", "-F", RATE_HZ]),
            ("sampled", &["-F", RATE_HZ]),
            ("proc", &["--collector", "proc", "-F", RATE_HZ]),
        ]
        .map(|(how, arguments)| (how, Recorder::server(&cluster, arguments)));
        known.run(KNOWN);
        alters.run("BEGIN; ALTER TABLE t ADD COLUMN b int");
        let pids = [known.pid(), new.pid()];
        let truth = std::thread::scope(|scope| {
            scope.spawn(|| known.run(KNOWN));
            scope.spawn(|| new.run(NEW));
            while waited(&cluster, pids).is_none() {
                std::thread::sleep(Duration::from_millis(5));
            }
            std::thread::sleep(Duration::from_secs(1));
            let truth = waited(&cluster, pids).expect("they wait");
            alters.run("ROLLBACK");
            truth
        });
        known.wait_until_idle();
        new.wait_until_idle();
        let ids = [
            "SELECT pg_sleep($1), count(*) FROM t",
            "SELECT $1, count(*) FROM t",
        ]
        .map(|text| {
            let asked = format!("SELECT queryid FROM pg_stat_statements WHERE query = '{text}'");
            cluster.psql(&asked).expect("it was executed").trim().to_string()
        });
        for (how, recorder) in recorders {
            let recorded = recorder.stop();
            let found = pids.map(|pid| by_query(&recorded, pid));
            say(&format!(
                "{}, {how}: {found:?}; truth {truth:?} in {ids:?}",
                build.name
            ));
            for (found, truth) in found.iter().zip(truth) {
                let sum: f64 = found.values().sum();
                assert_close("the wait, s", sum, truth, 0.05, 0.03 + recorded.stolen);
                assert_eq!(found.len(), 1, "{how}: {found:?}");
            }
            let [of_known, of_new] = found;
            assert!(of_known.contains_key(&ids[0]), "{how}: {of_known:?}");
            let report = recorded.json(&[]);
            let statements = report["statements"].as_array().expect("statements");
            let is_new = |of: &&Value| of_new.contains_key(of["query"].as_str().unwrap_or_default());
            let new = statements.iter().find(is_new).expect("its statement");
            assert_eq!(new["text"], "SELECT ?, count(*) FROM t", "{how}");
            // It is executed so briefly that its text may never be read together with its id.
            assert!(
                new["fingerprint"] == true || new["query"] == ids[1].as_str(),
                "{how}: {new}"
            );
        }
    }
}
