//! Which page a lock belongs to, against a session that locks pages of its choice.

use std::collections::BTreeMap;

use dbtime::throwaway::{Cluster, Options};
use dbtime_tests::{
    Looking, Recorder, Server, Session, assert_between, every_version, needs_recording, number, say,
    server_with_hold, stolen,
};
use serde_json::Value;

/// Pages that are locked one after the other, and for how long each. The server has room for only a few of so many.
const MANY: u32 = 40;
const SHORT_US: u32 = 25_000;
/// How long the others are locked.
const LONG_US: u32 = 400_000;
/// How far samples of a stretch may be off, seconds, at 99 a second, while six servers are recorded twice: ten samples.
const SAMPLED: f64 = 0.1;

/// A server with room for sixteen pages, a table in it, one in a tablespace, and names of both in the catalogue's files.
fn server(build: &Server) -> Cluster {
    let mut options = Options::default()
        .set("shared_buffers", "128kB")
        .set("autovacuum", "off");
    // 14 cannot have a tablespace inside of its own directory.
    if build.major > 14 {
        options = options.set("allow_in_place_tablespaces", "on");
    }
    let cluster = server_with_hold(build, options);
    let tables = "CREATE TABLE paged AS SELECT n, repeat('x', 900) AS filler FROM generate_series(1, 1000) n; \
                  VACUUM paged; CHECKPOINT";
    let mut session = Session::connect(&cluster);
    for statement in tables.split(';') {
        session.run(statement);
    }
    if build.major > 14 {
        session.run("CREATE TABLESPACE elsewhere LOCATION ''");
        session.run(
            "CREATE TABLE far TABLESPACE elsewhere AS SELECT repeat('y', 900) FROM generate_series(1, 100)",
        );
        session.run("CHECKPOINT");
    }
    cluster
}

/// Locks pages, and returns for how many seconds each was locked: by relation, file fork and block, as reports call them.
fn lock_pages(session: &mut Session, far: bool) -> BTreeMap<String, f64> {
    let mut locked = BTreeMap::new();
    let mut lock = |name: &str, relation: &str, fork: u32, block: u32, exclusive: bool, us: u32| {
        let sql = format!("SELECT hold_page('{relation}', {fork}, {block}, {exclusive}, {us})");
        let held: f64 = session.ask(&sql).trim().parse().expect("microseconds");
        *locked.entry(format!("{name} block {block}")).or_default() += held / 1e6;
    };
    lock("public.paged", "paged", 0, 17, true, LONG_US);
    lock("public.paged (visibility map)", "paged", 2, 0, false, LONG_US);
    lock("pg_catalog.pg_database", "pg_database", 0, 0, false, LONG_US);
    if far {
        lock("public.far", "far", 0, 3, true, LONG_US);
    }
    for n in 0..MANY {
        // In an order that no reader would expect.
        lock(
            "public.paged",
            "paged",
            0,
            20 + n * 7 % MANY,
            n % 2 == 0,
            SHORT_US,
        );
    }
    locked
}

fn page_of(single: &Value) -> String {
    let fork = match single["file"].as_str().unwrap_or_default() {
        file if file.ends_with("_vm") => " (visibility map)",
        _ => "",
    };
    format!(
        "{}{fork} block {}",
        single["relation"].as_str().unwrap_or("[no name]"),
        single["block"]
    )
}

/// Seconds by page, of all pages whose lock was met.
fn found(latches: &Value, ns: &str) -> BTreeMap<String, f64> {
    let all = latches.as_array().expect("a list").iter();
    let pages = all
        .filter(|latch| latch["name"] == "BufferContent")
        .flat_map(|latch| latch["single"].as_array().expect("locks"));
    let mut found = BTreeMap::new();
    for single in pages {
        *found.entry(page_of(single)).or_default() += number(&single[ns]) / 1e9;
    }
    found
}

/// Asserts that each page that was locked was found for as long, and that what else was found is what the server locks for a moment.
/// `not_known`: seconds in which it is not known what the session had.
#[track_caller]
fn assert_found(
    what: &str,
    found: &BTreeMap<String, f64>,
    locked: &BTreeMap<String, f64>,
    not_known: f64,
    error: f64,
) {
    let (mut short, mut short_found) = (0.0, 0.0);
    for (page, held) in locked {
        let seconds = found.get(page).copied().unwrap_or_default();
        if *held > 0.1 {
            let about = format!("{what}: {page}");
            say(&format!("{about}: {seconds:.3} s of {held:.3} s"));
            assert_between(&about, *held, seconds, seconds + not_known, 0.02, error);
        } else {
            short += held;
            short_found += seconds;
        }
    }
    // Whether a sample meets one of these is chance; their sum is sampled as all time is.
    let about = format!("{what}: pages of a moment");
    say(&format!(
        "{about}: {short_found:.3} s of {short:.3} s, {not_known:.3} s not known"
    ));
    assert_between(
        &about,
        short,
        short_found,
        short_found + not_known,
        0.02,
        3.0 * error,
    );
    let others: f64 = found
        .iter()
        .filter(|(page, _)| !locked.contains_key(*page))
        .map(|(_, seconds)| seconds)
        .sum();
    assert!(others < 3.0 * SAMPLED, "{what}: {found:#?}");
}

fn of_one_server(build: &Server) {
    let cluster = server(build);
    let far = build.major > 14;
    let mut session = Session::connect(&cluster);
    session.ask("SELECT hold_page('paged', 0, 0, false, 1)");

    for options in [&[][..], &["--exact=calls"]] {
        let recorder = Recorder::server(&cluster, options);
        let locked = lock_pages(&mut session, far);
        let recorded = recorder.stop();
        let what = format!("{}, {}", build.name, recorded.meta.collector.tier);
        let pid = session.pid().to_string();
        let report = recorded.json(&["--latches", "--session", &pid]);
        let found = found(&report["latches"], "ns");
        let not_known = number(&report["not_known_ns"]) / 1e9;
        assert!(
            not_known < 0.2 + recorded.stolen,
            "{what}: {not_known} s not known"
        );
        assert_found(&what, &found, &locked, not_known, SAMPLED + recorded.stolen);
        let text = recorded.text(&["--latches", "--columns", "name,relation"]);
        assert!(text.contains("pg_catalog.pg_database"), "{text}");
    }

    // Every use.
    let stolen_before = stolen();
    let looking = Looking::begin(&cluster, &["-d", "6", "--format", "json"]);
    let locked = lock_pages(&mut session, far);
    let report = looking.finish_json();
    let found = found(&report["exact"]["latches"], "held_ns");
    let what = format!("{}, counted", build.name);
    let error = 0.01 + (stolen() - stolen_before).as_secs_f64();
    assert_found(&what, &found, &locked, 0.0, error);
}

#[test]
fn a_lock_is_that_of_the_page_that_was_locked_in_every_version() {
    needs_recording!();
    // They do little else than wait.
    std::thread::scope(|scope| {
        for build in every_version() {
            scope.spawn(move || of_one_server(&build));
        }
    });
}
