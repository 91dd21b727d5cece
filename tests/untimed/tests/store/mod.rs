//! A store of recordings: what is put into it comes out of it, to the nanosecond, whatever happens on the way.

mod clouds;
mod faults;
pub(crate) mod made;
mod queries;
mod s3;
mod server;
mod unreliable;

use std::fs;
use std::path::Path;
use std::slice;

use dbtime_tests::dbtime;
use serde_json::Value;

use made::{HOUR_S, Made, START_S, as_json, folder_bytes, moment, plain, scratch};

/// Parts of recordings of five hours: in one hour, over the end of some, over midnight, all.
fn periods() -> Vec<[i64; 2]> {
    vec![
        [START_S, START_S + 5 * HOUR_S],
        [START_S + 100, START_S + 160],
        [START_S + HOUR_S / 2, START_S + 3 * HOUR_S / 2 + 7],
        [START_S + 2 * HOUR_S, START_S + 4 * HOUR_S],
    ]
}

/// The answer without what only a store has.
fn of_recording(mut answer: Value) -> Value {
    answer.as_object_mut().expect("an object").remove("store");
    answer
}

#[test]
fn reports_of_a_store_are_those_of_the_recording() {
    let home = scratch();
    let made = Made::two_hosts(&home);
    let store = made.put(&home);
    let questions: [&[&str]; 9] = [
        &[],
        &["--by", "query,wait,state"],
        &["--by", "session,second"],
        &["--latency"],
        &["--causes"],
        &["--latches"],
        &["--timeline"],
        &["--snapshot"],
        &["--session", "101"],
    ];
    for (host, recording) in made.recordings() {
        for period in periods() {
            let [from, to] = period.map(moment);
            for question in questions {
                let part = ["--from", &from, "--to", &to];
                let truth = as_json(&[&["report", plain(recording)], question, &part].concat());
                let flags = [&["report", plain(&store), "--host", host], question, &part].concat();
                assert_eq!(of_recording(as_json(&flags)), truth, "{flags:?}");
                let address = format!("{}?host={host}&from={from}&to={to}", plain(&store));
                let chosen = [&["report", address.as_str()], question].concat();
                assert_eq!(of_recording(as_json(&chosen)), truth, "{chosen:?}");
            }
        }
        let whole = as_json(&["report", plain(recording)]);
        assert!(whole["ledger"].as_array().expect("a ledger").len() > 5);
        assert_eq!(
            of_recording(as_json(&["report", plain(&store), "--host", host])),
            whole
        );
    }
}

#[test]
fn flame_graphs_pages_and_differences_of_a_store_are_those_of_the_recordings() {
    let home = scratch();
    let made = Made::two_hosts(&home);
    let store = made.put(&home);
    let of = |host: &str| format!("{}?host={host}", plain(&store));
    let written = |arguments: &[&str], name: &str| {
        let path = home.path().join(name);
        dbtime(&[arguments, &["-o", plain(&path)]].concat()).expect_code(0);
        fs::read_to_string(path).expect("a file")
    };
    for (host, recording) in made.recordings() {
        let truth = written(&["flame", plain(recording)], "truth.folded");
        assert!(truth.lines().count() > 3, "{truth}");
        assert_eq!(written(&["flame", &of(host)], "store.folded"), truth);
        // It numbers its parts in the order in which they were met: the same page in other words.
        let [page, truth] =
            [of(host).as_str(), plain(recording)].map(|from| written(&["html", from], "page.html").len());
        assert!(page.abs_diff(truth) * 100 < truth, "{page} {truth}");
    }
    let [good, bad] = made.recordings().map(|(_, recording)| plain(recording));
    let diff = |sides: [&str; 2]| as_json(&["diff", sides[0], sides[1]]);
    assert_eq!(diff([&of("db1"), &of("db2")]), diff([good, bad]));
    // There is no place for a page beside a store.
    dbtime(&["html", &of("db1")])
        .expect_code(2)
        .expect_stderr(&["-o"]);
}

/// Time by section, wait event and state.
fn cells(report: &Value) -> Vec<(String, u64)> {
    let mut cells = Vec::new();
    for row in report["ledger"].as_array().expect("a ledger") {
        let name = format!("{} {} {}", row["section"], row["wait_class"], row["wait_event"]);
        for state in [
            "user_ns",
            "kernel_ns",
            "runnable_ns",
            "disk_ns",
            "sleep_ns",
            "other_ns",
            "samples",
        ] {
            cells.push((format!("{name} {state}"), row[state].as_u64().expect("a number")));
        }
    }
    cells.sort();
    cells
}

#[test]
fn several_hosts_are_their_sum() {
    let home = scratch();
    let made = Made::two_hosts(&home);
    let store = made.put(&home);
    let mut sum: std::collections::BTreeMap<String, u64> = std::collections::BTreeMap::new();
    let mut db_time = 0;
    let mut sessions = 0;
    for (_, recording) in made.recordings() {
        let report = as_json(&["report", plain(recording)]);
        for (name, value) in cells(&report) {
            *sum.entry(name).or_default() += value;
        }
        db_time += report["db_time_ns"].as_u64().expect("a number");
        sessions += report["sessions"].as_array().expect("sessions").len();
    }
    let both = as_json(&["report", plain(&store)]);
    assert_eq!(cells(&both), sum.into_iter().collect::<Vec<_>>());
    assert_eq!(both["db_time_ns"], db_time);
    // Sessions of different recordings are different ones, though their ids are the same.
    assert_eq!(both["sessions"].as_array().expect("sessions").len(), sessions);
    assert_eq!(both["quality"]["problems"], Value::Array(vec![]));
    let named = ["report", plain(&store), "--host", "db2", "--host", "db1"];
    assert_eq!(as_json(&named)["ledger"], both["ledger"]);
}

#[test]
fn only_the_files_that_are_needed_are_read() {
    let home = scratch();
    let made = Made::two_hosts(&home);
    let store = made.put(&home);
    let read = |arguments: &[&str]| {
        let report = as_json(&[&["report", plain(&store)], arguments].concat());
        let number = |name: &str| report["store"][name].as_u64().expect("a number");
        (number("read_bytes"), number("bytes"))
    };
    let table = |name: &str| folder_bytes(&store.join(format!("table={name}")));
    let (everything, all) = read(&[]);
    let rows: u64 = fs::read_dir(&store)
        .expect("a store")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| {
            // `table=recordings` is for query engines; it belongs to no recording.
            path.file_name().is_some_and(|name| {
                name.to_string_lossy().starts_with("table=") && name != "table=recordings"
            })
        })
        .map(|path| folder_bytes(&path))
        .sum();
    assert_eq!(all, rows);
    // Commands are counted where calls were traced.
    let needed = [
        "activity",
        "counters",
        "latency",
        "sessions",
        "stacks",
        "statements",
    ]
    .map(table);
    assert_eq!(everything, needed.iter().sum::<u64>());
    let [from, to] = [START_S + HOUR_S, START_S + 2 * HOUR_S].map(moment);
    let (hour, of) = read(&["--host", "db1", "--from", &from, "--to", &to]);
    assert!(
        of < all && hour * 4 < everything,
        "{hour} of {of}, {everything} of {all}"
    );
}

#[test]
fn what_is_in_a_store_is_listed() {
    let home = scratch();
    let made = Made::two_hosts(&home);
    let store = made.put(&home);
    // Two hours later: a gap of one.
    let later = made::record(&home, "later.dbt", "db1", START_S + 6 * HOUR_S, 1, true);
    dbtime(&["store", "put", plain(&later), plain(&store)]).expect_code(0);
    let listing = as_json(&["store", "list", plain(&store)]);
    let hosts = listing["hosts"].as_array().expect("hosts");
    assert_eq!(hosts.len(), 2);
    assert_eq!(hosts[0]["host"], "db1");
    assert_eq!(hosts[0]["recordings"].as_array().expect("recordings").len(), 2);
    let gap = &hosts[0]["gaps"][0];
    assert_eq!(gap["from"], moment(START_S + 5 * HOUR_S));
    assert_eq!(gap["to"], moment(START_S + 6 * HOUR_S));
    assert_eq!(
        (&listing["left_files"], &hosts[1]["gaps"]),
        (&Value::from(0), &Value::Array(vec![]))
    );
    let text = dbtime(&["store", "list", plain(&store)]).expect_code(0).stdout;
    assert!(
        text.contains("db1: 2 recordings") && text.contains("nothing for 3600 s"),
        "{text}"
    );
    // A part of it.
    let address = format!("{}?host=db2", plain(&store));
    let listing = as_json(&["store", "list", &address]);
    assert_eq!(listing["hosts"].as_array().expect("hosts").len(), 1);
}

#[test]
fn gaps_and_overlaps_of_what_is_taken_as_one_are_said() {
    let home = scratch();
    let store = home.path().join("store");
    for (name, hour, hours) in [("a.dbt", 0, 2), ("b.dbt", 3, 2), ("c.dbt", 4, 1)] {
        let recording = made::record(&home, name, "db1", START_S + hour * HOUR_S, hours, true);
        dbtime(&["store", "put", plain(&recording), plain(&store)]).expect_code(0);
    }
    let notes = |arguments: &[&str]| {
        let report = as_json(&[&["report", plain(&store)], arguments].concat());
        report["quality"]["notes"].to_string()
    };
    let at = |hour: i64| moment(START_S + hour * HOUR_S);
    let all = notes(&[]);
    let gap = format!("db1: nothing was recorded from {} to {}", at(2), at(3));
    let overlap = format!("overlap from {} to {}", at(4), at(5));
    assert!(all.contains(&gap) && all.contains(&overlap), "{all}");
    assert!(all.contains("counted twice"), "{all}");
    // Of what was chosen only.
    let part = notes(&["--from", &at(0), "--to", &at(4)]);
    assert!(part.contains(&gap) && !part.contains("overlap"), "{part}");
    assert_eq!(notes(&["--from", &at(0), "--to", &at(2)]), "[]");

    // What was not recorded is not elapsed time: of the five hours, four were.
    for (arguments, hours) in [
        (vec![], 4),
        (vec!["--from", &at(1), "--to", &at(4)], 2),
        (vec!["--to", &at(2)], 2),
    ] {
        let report = as_json(&[&["report", plain(&store)], &*arguments].concat());
        assert_eq!(
            report["elapsed_ns"],
            hours * HOUR_S * 1_000_000_000,
            "{arguments:?}"
        );
    }
    let said = dbtime(&["report", plain(&store)]).expect_code(0).stdout;
    assert!(said.contains("14400.000 s within 18000.000 s"), "{said}");
}

#[test]
fn time_can_be_grouped_and_chosen_by_host() {
    let home = scratch();
    let made = Made::two_hosts(&home);
    let store = made.put(&home);
    let by_host = |arguments: &[&str]| -> Vec<(String, u64)> {
        let report = as_json(&[arguments, &["--by", "host"]].concat());
        let rows = report["ledger"].as_array().expect("rows").iter();
        let mut hosts: Vec<(String, u64)> = rows
            .filter(|row| row["section"] == "db_time")
            .map(|row| {
                let host = row["group"]["host"].as_str().expect("a name").to_string();
                (host, row["total_ns"].as_u64().expect("a number"))
            })
            .collect();
        hosts.sort();
        hosts
    };
    let of_all = by_host(&["report", plain(&store)]);
    assert_eq!(of_all.len(), 2, "{of_all:?}");
    for (row, (host, recording)) in of_all.iter().zip(made.recordings()) {
        let alone = as_json(&["report", plain(&store), "--host", host]);
        let expected = (host.to_string(), alone["db_time_ns"].as_u64().expect("a number"));
        assert_eq!(*row, expected);
        assert_eq!(by_host(&["report", plain(recording)]), slice::from_ref(row));
        let chosen = format!("host={host}");
        assert_eq!(
            by_host(&["report", plain(&store), "--where", &chosen]),
            slice::from_ref(row)
        );
    }
}

#[test]
fn what_is_wrong_is_said_and_what_to_do() {
    let home = scratch();
    let made = Made::two_hosts(&home);
    let store = made.put(&home);
    let (_, recording) = made.recordings()[0];
    let nowhere = home.path().join("nowhere");
    dbtime(&["store", "list", plain(&nowhere)])
        .expect_code(1)
        .expect_stderr(&[plain(&nowhere), "store put"]);
    dbtime(&["report", plain(&store), "--host", "db9"])
        .expect_code(1)
        .expect_stderr(&["db9", "db1, db2"]);
    dbtime(&["report", plain(&store), "--from", "2031-01-01"])
        .expect_code(3)
        .expect_stderr(&[plain(&store), "store list"]);
    for (part, word) in [
        ("from=12s", "12s"),
        ("hosts=db1", "host="),
        ("to=2026-10-10T12:00", "is not a time"),
    ] {
        dbtime(&["report", &format!("{}?{part}", plain(&store))])
            .expect_code(2)
            .expect_stderr(&[word]);
    }
    dbtime(&["report", plain(recording), "--host", "db1"])
        .expect_code(2)
        .expect_stderr(&["--host", plain(recording)]);
    dbtime(&["report", plain(&store), plain(&store)]).expect_code(2);
    dbtime(&["report", "ftp://bucket/x"])
        .expect_code(2)
        .expect_stderr(&["s3://"]);
    // A directory of something else is not made a store, a recording least of all.
    for other in [home.path(), recording] {
        dbtime(&["store", "put", plain(recording), plain(other)])
            .expect_code(1)
            .expect_stderr(&[plain(other), "empty"]);
    }
    assert!(Path::new(recording).join("meta.json").is_file());
    // A part of a store cannot be put into, nor can a new store have such a name.
    for base in [&store, &nowhere] {
        let part = format!("{}?host=db1", plain(base));
        dbtime(&["store", "put", plain(recording), &part])
            .expect_code(2)
            .expect_stderr(&[&part, "name only the store"]);
        assert!(!Path::new(&part).exists());
    }
    dbtime(&["store", "list", &format!("{}?host=db1", plain(&nowhere))])
        .expect_code(1)
        .expect_stderr(&[plain(&nowhere), "store put"]);
    let nameless = made::record(&home, "nameless.dbt", "", START_S, 1, true);
    dbtime(&["store", "put", plain(&nameless), plain(&store)])
        .expect_code(1)
        .expect_stderr(&[plain(&nameless), "--host"]);
    dbtime(&["store", "put", plain(&nameless), plain(&store), "--host", "db3"]).expect_code(0);
    assert!(as_json(&["report", plain(&store), "--host", "db3"])["ledger"].is_array());
}

#[test]
fn a_recording_that_has_not_ended_is_replaced_by_what_it_becomes() {
    let home = scratch();
    let early = made::record(&home, "early.dbt", "db1", START_S, 2, false);
    let late = made::record(&home, "late.dbt", "db1", START_S, 3, true);
    let store = home.path().join("store");
    dbtime(&["store", "put", plain(&early), plain(&store)])
        .expect_code(0)
        .expect_stderr(&["not ended", "again"]);
    let report = || of_recording(as_json(&["report", plain(&store)]));
    assert_eq!(report(), as_json(&["report", plain(&early)]));
    dbtime(&["store", "put", plain(&late), plain(&store)]).expect_code(0);
    assert_eq!(report(), as_json(&["report", plain(&late)]));
    dbtime(&["store", "put", plain(&early), plain(&store)])
        .expect_code(0)
        .expect_stderr(&["later state"]);
    assert_eq!(report(), as_json(&["report", plain(&late)]));
    assert_eq!(as_json(&["store", "list", plain(&store)])["left_files"], 0);
}
