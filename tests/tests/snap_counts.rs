//! `dbtime snap` where nothing is compared with a clock: what the kernel and the server have counted, and what it says when nobody matches.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use dbtime::throwaway::Options;
use dbtime_tests::snapping::{Snapping, growth, line, session};
use dbtime_tests::{
    Recorder, Server, Session, assert_between, dbtime, distribution, every_version, needs_recording, pgbench,
    say,
};
use serde_json::Value;

use crate::snap::{counts, work};

#[test]
fn what_a_session_did_that_came_and_went_is_not_lost() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    Session::connect(&cluster).run("CREATE ROLE passer LOGIN SUPERUSER");
    let snapping = Snapping::start(&cluster, &["end", "1", "user=passer"]);
    let mut truth = BTreeMap::new();
    for _ in 0..3 {
        let mut passer = Session::connect_as(&cluster, "passer", "postgres");
        work(&mut passer);
        passer.wait_until_idle();
        truth.insert(passer.pid(), counts(passer.pid()));
        drop(passer);
    }
    let snapshots = snapping.stop();
    let found: Vec<&Value> = snapshots[0]["sessions"]
        .as_array()
        .expect("sessions")
        .iter()
        .collect();
    assert_eq!(found.len(), 3, "{snapshots:#?}");
    for (pid, counts) in truth {
        let found = session(&snapshots[0], pid).expect("the session");
        for name in [
            "rchar",
            "syscr",
            "wchar",
            "write_bytes",
            "voluntary_ctxt_switches",
        ] {
            let told = growth(found, "STAT", name);
            // What its end takes comes on top.
            assert!(
                told >= counts[name] && told < counts[name] * 1.05 + 100_000.0,
                "{pid}: {name}: {told}, and {} before its end",
                counts[name]
            );
        }
    }
}

#[test]
fn a_recording_with_statistics_shows_the_same_and_one_without_says_so() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let mut worker = Session::connect(&cluster);
    work(&mut worker);
    for (arguments, has_them) in [(&["--statistics"][..], true), (&[], false)] {
        let recorder = Recorder::server(&cluster, arguments);
        let before = counts(worker.pid());
        work(&mut worker);
        worker.wait_until_idle();
        let after = counts(worker.pid());
        std::thread::sleep(Duration::from_millis(100));
        let recorded = recorder.stop();
        let snapshot = recorded.json(&["--snapshot"]);
        let found = session(&snapshot, worker.pid()).expect("the session");
        let told = growth(found, "STAT", "syscr");
        let text = recorded.text(&["--snapshot"]);
        if has_them {
            assert_eq!(told, after["syscr"] - before["syscr"]);
            assert!(text.contains("syscr") && !text.contains("--statistics"), "{text}");
        } else {
            assert_eq!(told, 0.0);
            assert!(text.contains("--statistics"), "{text}");
        }
    }
}

#[test]
fn transactions_are_those_that_the_server_counts_in_every_version() {
    needs_recording!();
    for build in every_version() {
        transactions(&build);
    }
}

fn transactions(build: &Server) {
    const EACH: u32 = 300;
    let cluster = build.start(Options::default());
    let mut worker = Session::connect(&cluster);
    let mut passer = Session::connect(&cluster);
    let passed = passer.pid();
    worker.run("SELECT 1");
    passer.run("SELECT 1");
    let snapping = Snapping::start(&cluster, &["end", "1", "fg", "gather=s", "include=trans"]);
    // They are looked at once a second, and when they end.
    std::thread::sleep(Duration::from_millis(1_000));
    for _ in 0..EACH {
        worker.run("SELECT 1");
        passer.run("SELECT 1");
    }
    drop(passer);
    // Two looks, of which the first may have begun before the last transaction did.
    std::thread::sleep(Duration::from_millis(2_200));
    let snapshots = snapping.stop();
    for (who, pid) in [("a session", worker.pid()), ("one that ended", passed)] {
        let found = session(&snapshots[0], pid).unwrap_or_else(|| panic!("{}: {snapshots:#?}", build.name));
        let told = growth(found, "STAT", "transactions");
        say(&format!("{}: {told} transactions of {EACH}, {who}", build.name));
        assert_eq!(told, f64::from(EACH), "{}, {who}", build.name);
    }
}

/// Sessions that begin and end while they are recorded: what they make before the first look at them is all that is missing.
#[test]
fn transactions_of_clients_that_come_and_go_are_those_of_pgbench() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    pgbench::initialise(&cluster, 1);
    let snapping = Snapping::start(&cluster, &["end", "1", "fg", "gather=s", "include=trans"]);
    let report = pgbench::run(&cluster, &["-n", "-S", "-c", "4", "-T", "3"]);
    let made = pgbench::transactions(&report);
    let snapshots = snapping.stop();
    let sessions = snapshots[0]["sessions"].as_array().expect("sessions");
    let told: f64 = sessions
        .iter()
        .filter(|session| line(session, "STAT", "transactions").is_some())
        .map(|session| growth(session, "STAT", "transactions"))
        .sum();
    say(&format!("{told} transactions, pgbench made {made}"));
    // It asks the server a few things before it begins. By itself the recorder misses some milliseconds of each session, beside other
    // tests it may have its first look later.
    assert_between("transactions", told, made * 0.93, made + 20.0, 0.0, 0.0);
}

#[test]
fn who_is_nobody_and_what_is_nothing_is_told() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let directory = cluster.data_dir().to_str().expect("a plain path");
    for (arguments, code, words) in [
        (&["1", "1", "bob"][..], 2, &["bob", "user=bob"][..]),
        (&["1", "1", "gather=x"], 2, &["'x'"]),
        (&["0", "1"], 2, &["more than 0"]),
        (&["1.5", "1"], 2, &["whole seconds"]),
        (&["1", "0"], 2, &["COUNT"]),
        (&["1", "1", "fg", "--columns", "delta,colour"], 2, &["hdelta"]),
        (&["1", "1", "1"], 3, &["no session with pid 1"]),
        (&["1", "1", "user=nobody"], 3, &["nobody"]),
    ] {
        let outcome = dbtime(&[&["snap"], arguments, &["--postgres", directory]].concat());
        outcome.expect_code(code).expect_stderr(words);
    }
    let shown = Command::new(dbtime_tests::dbtime_binary())
        .args(["snap", "1", "1", "bg", "--format", "csv", "--postgres", directory])
        .output()
        .expect("the command can be run");
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    let (head, rows) = text.split_once('\n').expect("a head");
    let kind = head.split(',').position(|name| name == "type").expect("a type");
    // No name of these processes has a comma in it.
    let is_wait = |row: &str| row.split(',').nth(kind) == Some("WAIT");
    assert!(rows.lines().any(is_wait), "{text}");
}
