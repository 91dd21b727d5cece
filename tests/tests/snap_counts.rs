//! `dbtime snap` where nothing is held to a clock: transactions by the server's count, and what it says of who is nobody.

use std::process::Command;
use std::time::Duration;

use dbtime::throwaway::Options;
use dbtime_tests::snapping::{Snapping, growth, session};
use dbtime_tests::{Server, Session, dbtime, distribution, every_version, needs_recording, say};

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
    worker.run("SELECT 1");
    let snapping = Snapping::start(&cluster, &["end", "1", "fg", "gather=s", "include=trans"]);
    // It is looked at once a second.
    std::thread::sleep(Duration::from_millis(1_000));
    for _ in 0..EACH {
        worker.run("SELECT 1");
    }
    // Two looks, of which the first may have begun before the last transaction did.
    std::thread::sleep(Duration::from_millis(2_200));
    let snapshots = snapping.stop();
    let found =
        session(&snapshots[0], worker.pid()).unwrap_or_else(|| panic!("{}: {snapshots:#?}", build.name));
    let told = growth(found, "STAT", "transactions");
    say(&format!("{}: {told} transactions of {EACH}", build.name));
    assert_eq!(told, f64::from(EACH), "{}", build.name);
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
