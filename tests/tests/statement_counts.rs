//! `--connect`: what pg_stat_statements counts of single statements, against what another session is told before and after.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use dbtime::throwaway::{Cluster, Options};
use dbtime_tests::snapping::growth;
use dbtime_tests::{Recorded, Recorder, Server, Session, builds, distribution, needs_recording, number, say};
use serde_json::Value;

/// The server is asked once a second.
const TOLD_WITHIN: Duration = Duration::from_millis(1_100);
const PATIENCE: Duration = Duration::from_secs(30);
/// How often the worker's statements are executed.
const CALLS: u32 = 12;

fn server(build: &Server) -> Cluster {
    let options = Options::default().set("autovacuum", "off").set("fsync", "off");
    let options = options
        .set("shared_preload_libraries", "pg_stat_statements")
        .set("pg_stat_statements.max", "100")
        .set("pg_stat_statements.track", "all")
        .set("pg_stat_statements.track_planning", "on")
        .set("track_io_timing", "on");
    build.start(options)
}

/// Statement, whether nested, and column.
type Numbers = BTreeMap<(String, bool, String), f64>;

/// Numbers that add up, of the statements about the worker's table.
fn told(witness: &mut Session, schema: &str) -> Numbers {
    let rows = witness.ask(&format!(
        "SELECT jsonb_agg(to_jsonb(s) - 'query' || jsonb_build_object('queryid', queryid::text)) FROM {schema}.pg_stat_statements s \
         WHERE query ILIKE '%counted%' AND query NOT LIKE '%pg_stat%'"
    ));
    let rows: Vec<Value> = serde_json::from_str(&rows).expect("JSON");
    let mut numbers = Numbers::new();
    for row in &rows {
        let id = row["queryid"].as_str().expect("an id");
        let is_nested = row["toplevel"] == false;
        for (column, value) in row.as_object().expect("columns") {
            let begins = ["min_", "max_", "mean_", "stddev_"];
            let is_sum = !begins.iter().any(|begin| column.starts_with(begin))
                && !["userid", "dbid"].contains(&&**column);
            if let (true, Some(value)) = (is_sum, value.as_f64()) {
                *numbers
                    .entry((id.to_string(), is_nested, column.clone()))
                    .or_default() += value;
            }
        }
    }
    numbers
}

/// The id of the worker's statement of which the text has this in it.
fn id(witness: &mut Session, schema: &str, text: &str) -> String {
    witness.ask(&format!(
        "SELECT queryid FROM {schema}.pg_stat_statements WHERE query LIKE '{text}%' LIMIT 1"
    ))
}

/// The part of `report --snapshot` that is of no session.
fn whole(recorded: &Recorded) -> Value {
    let snapshot = recorded.json(&["--snapshot"]);
    let sessions = snapshot["sessions"].as_array().expect("sessions");
    let whole = sessions.iter().find(|session| session["pid"].is_null());
    whole.unwrap_or_else(|| panic!("{snapshot:#}")).clone()
}

/// What the report says of a statement.
fn statement(report: &Value, id: &str) -> Value {
    let statements = report["statements"].as_array().expect("statements");
    let found = statements.iter().find(|statement| statement["query"] == id);
    found.unwrap_or_else(|| panic!("{id} in {statements:#?}")).clone()
}

/// Waits until a recorder has read what is counted now. It reads once a second, less often if an answer takes long; the extension counts
/// that, too. The first reading that is counted may have begun before.
fn wait_until_read(witness: &mut Session) {
    let mut readings = || -> u32 {
        let calls =
            "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE query LIKE 'SELECT userid, dbid,%'";
        witness.ask(calls).parse().expect("a number")
    };
    let enough = readings() + 2;
    let give_up = Instant::now() + PATIENCE;
    while readings() < enough {
        assert!(Instant::now() < give_up, "the counts are not read");
        std::thread::sleep(PATIENCE / 300);
    }
}

fn notes(recorded: &Recorded) -> Vec<&str> {
    recorded
        .meta
        .notes
        .iter()
        .map(|note| note.text.as_str())
        .collect()
}

fn has_note(recorded: &Recorded, words: &str) -> bool {
    notes(recorded).iter().any(|note| note.contains(words))
}

/// The worker's statements; the first one takes long enough to be sampled.
fn work(worker: &mut Session) {
    for n in 0..CALLS {
        worker.run(&format!(
            "SELECT count(*) FROM counted a, counted b WHERE a.n + b.n > {n}"
        ));
        worker.run(&format!("INSERT INTO counted SELECT generate_series(1, {n})"));
        worker.run("SELECT nesting()");
    }
}

const PREPARED: &str = "CREATE TABLE counted AS SELECT generate_series(1, 1000) AS n; \
     CREATE FUNCTION nesting() RETURNS void LANGUAGE plpgsql AS 'BEGIN UPDATE counted SET n = n + 1 WHERE n < 3; END'";

#[test]
fn calls_rows_and_times_of_statements_are_those_of_the_server_in_every_version() {
    needs_recording!();
    for build in builds(&[]) {
        let cluster = server(&build);
        // Another database than the one that is connected to, and a schema whose name needs quotes; the owner of the database has put a
        // function of their own before the server's.
        Session::connect(&cluster).run("CREATE DATABASE shop");
        let mut worker = Session::connect_as(&cluster, "postgres", "shop");
        worker.run(
            "CREATE SCHEMA \"Over There\"; CREATE EXTENSION pg_stat_statements SCHEMA \"Over There\"; CREATE SCHEMA evil; \
             CREATE FUNCTION evil.quote_ident(name) RETURNS text LANGUAGE plpgsql AS 'BEGIN RAISE ''trapped''; END'; \
             ALTER DATABASE shop SET search_path = evil, pg_catalog, public",
        );
        worker.run(PREPARED);
        let schema = "\"Over There\"";
        let mut witness = Session::connect_as(&cluster, "postgres", "shop");
        // What was there before does not count.
        work(&mut worker);
        let recorder = Recorder::server(&cluster, &["--connect"]);
        let before = told(&mut witness, schema);
        work(&mut worker);
        std::thread::sleep(TOLD_WITHIN);
        work(&mut worker);
        let after = told(&mut witness, schema);
        let joined = id(&mut witness, schema, "SELECT count(*) FROM counted a");
        std::thread::sleep(TOLD_WITHIN);
        let recorded = recorder.stop();
        let found = whole(&recorded);
        let mut compared = 0;
        for ((id, is_nested, column), value) in &after {
            let truth = value
                - before
                    .get(&(id.clone(), *is_nested, column.clone()))
                    .unwrap_or(&0.0);
            let truth = if column.ends_with("_time") {
                truth * 1e6
            } else {
                truth
            };
            let nested = if *is_nested { "nested." } else { "" };
            let told = growth(
                &found,
                "STAT",
                &format!("pg_stat_statements.{id}.{nested}{column}"),
            );
            assert!(
                (told - truth).abs() <= 4.0,
                "{}: {id} {nested}{column}: {told}, and another session was told {truth}",
                build.name
            );
            compared += i32::from(truth > 0.0);
        }
        say(&format!("{}: {compared} numbers that grew are equal", build.name));
        // Of three statements: which blocks and how much WAL depends on the version.
        assert!(compared >= 20, "{}: {after:#?}", build.name);
        let expected = f64::from(2 * CALLS);
        let calls: Vec<f64> = after
            .iter()
            .filter(|((.., column), _)| column == "calls")
            .map(|(key, calls)| calls - before.get(key).unwrap_or(&0.0))
            .collect();
        assert_eq!(
            calls.iter().filter(|calls| **calls == expected).count(),
            3,
            "{calls:?}"
        );
        assert!(after.keys().any(|(_, is_nested, _)| *is_nested));
        let report = recorded.json(&[]);
        let joined = statement(&report, &joined);
        let calls = f64::from(2 * CALLS);
        assert_eq!(
            (number(&joined["calls"]), number(&joined["rows"])),
            (calls, calls),
            "{report:#}"
        );
        let counts = &report["statement_counts"];
        assert!(
            counts["at_least"] == false && number(&counts["calls"]) >= 3.0 * calls,
            "{counts:#}"
        );
        assert!(
            !notes(&recorded).iter().any(|note| note.contains("statements")),
            "{:?}",
            notes(&recorded)
        );
        let text = recorded.text(&[]);
        assert!(
            text.contains("per call") && text.contains("counts executions of the whole server"),
            "{text}"
        );
    }
}

#[test]
fn what_is_hidden_reset_and_thrown_out_is_said() {
    needs_recording!();
    let cluster = server(&distribution());
    let mut witness = Session::connect(&cluster);
    let mut worker = Session::connect(&cluster);
    worker.run(PREPARED);
    worker.run("CREATE ROLE monitor LOGIN");
    // The library is loaded, but no database has the extension.
    let recorded = Recorder::server(&cluster, &["--connect"]).stop();
    assert!(
        has_note(&recorded, "CREATE EXTENSION pg_stat_statements"),
        "{:?}",
        notes(&recorded)
    );
    assert!(recorded.json(&[])["statement_counts"].is_null());
    witness.run("CREATE EXTENSION pg_stat_statements");

    let recorder = Recorder::server(&cluster, &["--connect=user=monitor"]);
    work(&mut worker);
    let joined = id(&mut witness, "public", "SELECT count(*) FROM counted a");
    let recorded = recorder.stop();
    assert!(has_note(&recorded, "pg_read_all_stats"), "{:?}", notes(&recorded));
    let report = recorded.json(&[]);
    let of_unknown = number(&report["statement_counts"]["of_unknown"]["calls"]);
    assert!(of_unknown >= f64::from(3 * CALLS) && report["statement_counts"]["at_least"] == true);
    assert!(statement(&report, &joined)["calls"].is_null());

    witness.run("GRANT pg_read_all_stats TO monitor");
    let recorder = Recorder::server(&cluster, &["--connect=user=monitor"]);
    work(&mut worker);
    wait_until_read(&mut witness);
    witness.run("SELECT pg_stat_statements_reset()");
    work(&mut worker);
    wait_until_read(&mut witness);
    // More statements than there is room for.
    for n in 1..200 {
        worker.run(&format!("SELECT {}", vec!["1"; n].join(", ")));
    }
    let evicted = |witness: &mut Session| -> f64 {
        let evicted = witness.ask("SELECT dealloc FROM pg_stat_statements_info");
        evicted.parse().expect("a number")
    };
    let at_least = evicted(&mut witness);
    let recorded = recorder.stop();
    let at_most = evicted(&mut witness);
    for words in ["was reset", "evicts statements"] {
        assert!(has_note(&recorded, words), "{words}: {:?}", notes(&recorded));
    }
    assert!(!has_note(&recorded, "pg_read_all_stats"));
    let report = recorded.json(&[]);
    let counts = &report["statement_counts"];
    assert_eq!(
        number(&statement(&report, &joined)["calls"]),
        f64::from(2 * CALLS)
    );
    let told = number(&counts["evictions"]);
    assert!(
        at_least > 0.0 && (at_least..=at_most).contains(&told),
        "{told} of {at_least}"
    );
    assert!(number(&counts["resets"]) >= 1.0 && counts["at_least"] == true);
    // The whole server's counts are of none of the sessions that somebody chooses.
    let chosen = recorded.json(&["--session", &worker.pid().to_string()]);
    assert!(chosen["statement_counts"].is_null() && statement(&chosen, &joined)["calls"].is_null());
}

#[test]
fn a_server_without_it_says_so_once() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let recorder = Recorder::server(&cluster, &["--connect"]);
    std::thread::sleep(2 * TOLD_WITHIN);
    let recorded = recorder.stop();
    let told = notes(&recorded);
    let about = told
        .iter()
        .filter(|note| note.contains("pg_stat_statements is not loaded"));
    assert_eq!(about.count(), 1, "{told:?}");
}
