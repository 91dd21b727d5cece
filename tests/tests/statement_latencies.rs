//! Single events by the statement that was executed: as many of each, and as long, as the session was asked for.

use std::time::Instant;

use dbtime::throwaway::{Options, page_cache};
use dbtime_tests::{
    Recorded, Recorder, Session, TableOfBlocks, assert_between, assert_close, dbtime, distribution,
    needs_recording, number, pgbench, say,
};
use serde_json::Value;

/// A statement, its text without literals, how often it is executed, and how long it sleeps.
type Sleep = (&'static str, &'static str, u64, f64);
const SHORT: Sleep = ("SELECT pg_sleep(0.02)", "SELECT pg_sleep(?)", 20, 0.02);
const LONG: Sleep = (
    "SELECT 'another', pg_sleep(0.05)",
    "SELECT ?, pg_sleep(?)",
    10,
    0.05,
);
/// Blocks of the table: sixteen times the shared buffers; and those that are read.
const BLOCKS: u64 = 6400;
const READS: u64 = 500;

/// Groups of the events of a kind by query.
fn by_query(recorded: &Recorded, kind: &str, more: &[&str]) -> Vec<Value> {
    let asked = ["--latency", "--kind", kind, "--by", "query", "--top", "100"];
    let report = recorded.json(&[&asked[..], more].concat());
    let groups = report["latency"].as_array().expect("groups").iter();
    groups
        .filter(|group| group["group"].is_object())
        .cloned()
        .collect()
}

/// The id that the recording has for a statement whose text begins like this.
fn id_of(recorded: &Recorded, text: &str) -> String {
    let known = recorded.statements();
    let found = known.iter().find(|(_, (_, of))| of.starts_with(text));
    found
        .unwrap_or_else(|| panic!("{text} is not in {known:#?}"))
        .0
        .clone()
}

#[test]
fn every_event_has_the_statement_in_which_it_happened() {
    needs_recording!();
    let options = Options::default()
        .set("compute_query_id", "on")
        .set("shared_buffers", "3MB")
        .set("autovacuum", "off")
        .set("max_parallel_workers_per_gather", "0");
    let cluster = distribution().start(options);
    let table = TableOfBlocks::create(&cluster, "blocks", BLOCKS);
    for tier in ["--exact=calls", "--exact=switch"] {
        let mut session = Session::connect(&cluster);
        cluster.psql("CHECKPOINT").expect("it works");
        page_cache::evict(&table.files).expect("files of a server of our own");
        let recorder = Recorder::server(&cluster, &[tier]);
        session.wait_until_idle();
        // A wait ends when the session has a CPU again: none is longer than its command is for the client.
        let by_client = [SHORT, LONG].map(|(sql, _, count, _)| {
            let begin = Instant::now();
            (0..count).for_each(|_| session.run(sql));
            begin.elapsed().as_secs_f64()
        });
        session.run(&table.read_singly(READS));
        session.wait_until_idle();
        let recorded = recorder.stop();
        let sleeps = by_query(&recorded, "wait", &["--name", "Timeout:PgSleep"]);
        assert_eq!(sleeps.len(), 2, "{tier}: {sleeps:#?}");
        for ((sql, text, count, seconds), longest) in [SHORT, LONG].into_iter().zip(by_client) {
            let id = id_of(&recorded, text);
            let group = sleeps.iter().find(|group| group["group"]["query"] == *id);
            let group = group.unwrap_or_else(|| panic!("{tier}: {id} is not in {sleeps:#?}"));
            assert_eq!(group["count"], count, "{tier}: {sql}");
            let sum = number(&group["sum_us"]) / 1e6;
            assert_between(
                &format!("{tier}: {sql}, s"),
                sum,
                count as f64 * seconds,
                longest,
                0.02,
                0.0,
            );
            // Chosen by its id there is nothing else.
            let chosen = by_query(&recorded, "wait", &["--query", &id, "--name", "Timeout:PgSleep"]);
            assert_eq!(chosen.len(), 1, "{tier}: {chosen:#?}");
            assert_eq!(&chosen[0], group, "{tier}");
        }
        if tier == "--exact=calls" {
            reads_have_their_statement(&recorded);
        }
    }
}

/// Read calls, and the requests to the device that they made, are of the one statement that read.
fn reads_have_their_statement(recorded: &Recorded) {
    let reader = id_of(recorded, "DO ");
    for kind in ["read", "block"] {
        let groups = by_query(recorded, kind, &[]);
        let count = |wanted: Option<&str>| -> f64 {
            let is_wanted = |group: &&Value| wanted.is_none_or(|id| group["group"]["query"] == id);
            groups
                .iter()
                .filter(is_wanted)
                .map(|group| number(&group["count"]))
                .sum()
        };
        say(&format!("{kind}: {} of {}", count(Some(&reader)), count(None)));
        // The catalogue may be cold, too; and two neighbours may be read by one request.
        assert!(
            count(Some(&reader)) >= 0.95 * READS as f64 && count(Some(&reader)) > 0.8 * count(None),
            "{kind}: {groups:#?}"
        );
    }
    let of_reader = recorded.json(&["--io", "--query", &reader]);
    let calls = number(&of_reader["io"]["total"]["reads"]);
    assert!(
        (READS as f64..READS as f64 + 100.0).contains(&calls),
        "{of_reader:#}"
    );
    let path = recorded.path.to_str().expect("a plain path");
    let sleeper = id_of(recorded, LONG.1);
    let nothing = dbtime(&["report", path, "--io", "--query", &sleeper]);
    assert!(
        (nothing.stdout.clone() + &nothing.stderr).contains("There are no reads in this part"),
        "{nothing:?}"
    );
    let unknown = dbtime(&["report", path, "--latency", "--query", "4711"]);
    assert!(
        unknown.code != 0 && unknown.stderr.contains("query 4711") && unknown.stderr.contains(&reader),
        "{unknown:?}"
    );
}

#[test]
fn so_many_different_statements_at_a_time_lose_no_time_and_no_command() {
    needs_recording!();
    let options = Options::default()
        .set("compute_query_id", "off")
        .set("autovacuum", "off");
    let cluster = distribution().start(options);
    let home = tempfile::tempdir().expect("a temporary directory");
    let script = home.path().join("different.sql");
    // Names are no literals: each is a statement of its own.
    std::fs::write(&script, "\\set r random(1, 1000000000)\nSELECT 1 AS c:r;\n").expect("room");
    let recorder = Recorder::server(&cluster, &["--exact=calls"]);
    let script = format!("--file={}", script.display());
    let said = pgbench::run(
        &cluster,
        &["--no-vacuum", &script, "--client=3", "--jobs=1", "--time=6"],
    );
    let recorded = recorder.stop();
    let transactions = pgbench::transactions(&said);
    assert!(transactions > 20_000.0, "they are many: {said}");
    let report = recorded.json(&[]);
    let quality = &report["quality"];
    for (lost, most) in [
        ("lost", 0),
        ("latencies_lost", 0),
        ("missing_ns", 0),
        ("rows_dropped", 0),
    ] {
        assert_eq!(quality[lost], most, "{lost}: {quality:#}");
    }
    // Six seconds of each of three.
    let clients = recorded
        .sessions
        .iter()
        .filter(|session| session.application == "pgbench");
    let times: Vec<f64> = clients
        .map(|session| recorded.session(session.pid).elapsed_ns as f64 / 1e9)
        .filter(|seconds| *seconds > 1.0)
        .collect();
    say(&format!("{transactions} transactions; sessions of {times:?} s"));
    assert_eq!(times.len(), 3, "{times:?}");
    for seconds in times {
        assert_close("a session, s", seconds, 6.0, 0.02, 0.1 + recorded.stolen);
    }
    let commands = recorded.json(&["--latency", "--kind", "command", "--by", "kind"]);
    let counted: f64 = (commands["latency"].as_array().expect("groups").iter())
        .map(|group| number(&group["count"]))
        .sum();
    // What pgbench asks before it begins.
    assert!(
        (transactions..transactions + 20.0).contains(&counted),
        "{counted} of {transactions}"
    );
    let pooled = recorded
        .statements()
        .values()
        .any(|(_, text)| text.contains("statements not told apart"));
    assert!(pooled, "{:#?}", report["statements"][0]);
    let notes = quality["notes"].to_string();
    assert!(notes.contains("no room to tell all statements apart"), "{notes}");
    // Not a row for each.
    let known = recorded.statements().len();
    assert!(known < 20_000, "{known}");
}
