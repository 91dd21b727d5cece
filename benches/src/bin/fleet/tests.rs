//! Tests: no two hosts share an identity, the same seed makes the same store, and what reports say of the fleet is the sum of what was
//! made, host by host.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Parser;
use dbtime_model::recording::Recording;
use dbtime_model::{ActivityRow, SessionRow, StackRow, StatementRow, Table};
use dbtime_store::{Address, Store};
use dbtime_tests::{dbtime, files, repository};
use serde_json::Value;

use crate::make::make;
use crate::{Arguments, Command, MakeArguments};

/// Two seconds of a real server, in windows of ten minutes: small, but made like any other.
fn arguments(store: &Path, more: &[&str]) -> MakeArguments {
    let recording = repository().join("tests/untimed/tests/unchanged/recordings/sampled.dbt");
    let typed = ["fleet", "make", text(&recording), "--store", text(store)];
    let fleet = ["--hosts=3", "--days=2", "--hours=2", "--resolution=600"];
    let Command::Make(arguments) = Arguments::parse_from([&typed[..], &fleet, more].concat()).command else {
        panic!("it is fleet make");
    };
    arguments
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

fn report(store: &str, more: &[&str]) -> Value {
    let answer = dbtime(&[&["report", store, "--format", "json"], more].concat()).expect_code(0);
    serde_json::from_str(&answer.stdout).expect("JSON")
}

/// All time of a report's ledger, nanoseconds.
fn total_ns(report: &Value) -> u64 {
    let ledger = report["ledger"].as_array().expect("a ledger");
    ledger
        .iter()
        .map(|row| row["total_ns"].as_u64().expect("a number"))
        .sum()
}

fn rows<T: Table>(recording: &Recording) -> Vec<T> {
    let mut rows = Vec::new();
    assert_eq!(recording.read(|some: Vec<T>| rows.extend(some)), []);
    rows
}

#[test]
fn reports_of_the_fleet_are_the_sum_of_what_was_made() {
    let home = tempfile::tempdir().expect("a folder");
    let store = home.path().join("store");
    let made = make(&arguments(&store, &[])).expect("made");
    assert_eq!((made.hosts, made.recordings), (3, 3 * 2 * 2));
    let store = text(&store);
    assert!(made.ns > 0);
    assert_eq!(total_ns(&report(store, &[])), made.ns);
    let hosts = ["db0000.fleet", "db0001.fleet", "db0002.fleet"];
    let of_host = |host: &str| total_ns(&report(store, &["--host", host]));
    let by_host: Vec<u64> = hosts.iter().map(|host| of_host(host)).collect();
    assert_eq!(by_host.iter().sum::<u64>(), made.ns);
    // No two hosts have the same amount.
    assert_eq!(by_host.iter().collect::<BTreeSet<_>>().len(), 3);
    let hours = [
        ("2026-10-01T00:00:00Z", "2026-10-01T01:00:00Z"),
        ("2026-10-01T01:00:00Z", "2026-10-03"),
    ];
    let of_hours = hours.map(|(from, to)| total_ns(&report(store, &["--from", from, "--to", to])));
    assert!(of_hours.iter().all(|ns| *ns > 0));
    assert_eq!(of_hours.iter().sum::<u64>(), made.ns);
}

#[test]
fn identities_are_distinct_and_what_rows_name_is_described() {
    let home = tempfile::tempdir().expect("a folder");
    let store = home.path().join("store");
    make(&arguments(&store, &[])).expect("made");
    let (mut sessions, mut met) = (BTreeSet::new(), 0);
    for host in 0..3 {
        let address = format!("{}?host=db{host:04}.fleet&to=2026-10-01T01:00:00Z", text(&store));
        let address = Address::recognise(address.as_ref())
            .expect("an address")
            .expect("a store");
        let opened = Store::open(&address).expect("a store");
        let (recording, _) = opened.select(&address.choice, None).expect("an hour");
        let own: BTreeSet<u64> = rows::<SessionRow>(&recording)
            .iter()
            .map(|row| row.id.0)
            .collect();
        let stacks: BTreeSet<_> = rows::<StackRow>(&recording).iter().map(|row| row.id).collect();
        let statements: BTreeSet<u64> = rows::<StatementRow>(&recording)
            .iter()
            .map(|row| row.id)
            .collect();
        for row in rows::<ActivityRow>(&recording) {
            assert!(own.contains(&row.session.0), "{row:?}");
            assert!(
                row.statement == 0 || statements.contains(&row.statement),
                "{row:?}"
            );
            for stack in [row.kernel_stack, row.user_stack] {
                assert!(stack.0 == 0 || stacks.contains(&stack), "{row:?}");
            }
        }
        met += own.len();
        sessions.extend(own);
    }
    assert!(met > 0);
    assert_eq!(sessions.len(), met, "a session of two hosts");
}

#[test]
fn the_same_seed_makes_the_same_store_and_another_one_another() {
    let home = tempfile::tempdir().expect("a folder");
    let made = |name: &str, more: &[&str]| {
        let store = home.path().join(name);
        make(&arguments(&store, more)).expect("made");
        let below = |(path, bytes): (PathBuf, Vec<u8>)| {
            (path.strip_prefix(&store).expect("below").to_path_buf(), bytes)
        };
        files(&store).into_iter().map(below).collect::<Vec<_>>()
    };
    let one = made("one", &["--threads=1"]);
    assert!(one == made("same", &["--threads=3"]));
    assert!(one != made("other", &["--seed=18"]));
}

#[test]
fn a_recording_of_a_day_describes_once_what_hours_describe_each() {
    let home = tempfile::tempdir().expect("a folder");
    let [hours, days] = ["1", "24"].map(|rotate| {
        let store = home.path().join(rotate);
        let made = make(&arguments(&store, &["--rotate", rotate])).expect("made");
        let stacks = files(&store.join("table=stacks")).len();
        (made.ns, made.rows, stacks)
    });
    assert_eq!((hours.0, hours.1), (days.0, days.1));
    assert_eq!((hours.2, days.2), (12, 6));
}
