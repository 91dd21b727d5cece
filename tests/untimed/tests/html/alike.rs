//! Asserts that a page says what the report says, to the nanosecond.

use std::collections::BTreeMap;
use std::path::Path;

use dbtime_tests::dbtime;
use serde_json::Value;

use super::browser::{plain, report};

pub(super) fn ns(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("nanoseconds: {value}"))
}

/// Time by name, without those that have none.
pub(super) type Times = BTreeMap<String, u64>;

pub(super) fn times(rows: &Value, named: impl Fn(&Value) -> (String, u64)) -> Times {
    let mut sums = Times::new();
    for row in rows.as_array().expect("rows") {
        let (name, ns) = named(row);
        if ns > 0 {
            *sums.entry(name).or_default() += ns;
        }
    }
    sums
}

/// The ledger, cell by cell.
pub(super) fn cells(rows: &Value, states: impl Fn(&Value) -> Times) -> Times {
    let mut sums = Times::new();
    for row in rows.as_array().expect("rows") {
        for (state, ns) in states(row) {
            if ns > 0 {
                *sums.entry(state).or_default() += ns;
            }
        }
    }
    sums
}

/// Asserts that the page's summary names the wait class with the most DB time.
#[track_caller]
fn assert_largest_class(what: &str, page: &Value, report: &Value) {
    let db_time = ns(&report["db_time_ns"]);
    if db_time == 0 {
        return;
    }
    let classes = times(&report["ledger"], |row| {
        let wait = row["group"]["wait"].as_str().expect("a wait");
        let class = match wait.split_once(':') {
            Some((class, _)) if wait.ends_with(" (no CPU)") => format!("{class} (no CPU)"),
            Some((class, _)) => class.to_string(),
            None => wait.to_string(),
        };
        let is_db_time = row["section"] == "db_time";
        (class, if is_db_time { ns(&row["total_ns"]) } else { 0 })
    });
    let most = classes.values().max().expect("there is DB time");
    let summary = page["summary"].as_str().expect("text");
    let share = 100.0 * *most as f64 / db_time as f64;
    let words = if share > 50.0 {
        "Most of it"
    } else {
        "The largest part"
    };
    let mut largest = classes.iter().filter(|(_, ns)| *ns == most);
    assert!(
        largest.any(|(class, _)| summary.contains(&format!("{words}: {class}, {share:.1} %"))),
        "{what}: {summary}, but {classes:?}"
    );
}

/// Asserts that a page says what the report says.
#[track_caller]
pub(super) fn assert_is_report(what: &str, page: &Value, report: &Value) {
    assert_eq!(page["db_time_ns"], report["db_time_ns"], "{what}: DB time");
    let in_page = cells(&page["ledger"], |row| {
        let rest = ["", " idle", " in transaction"][ns(&row["rest"]) as usize];
        let states: Times = serde_json::from_value(row["states"].clone()).expect("states");
        let mut sums = Times::new();
        for (state, ns) in states {
            let state = match state.as_str() {
                "stopped" | "unknown" | "cpu" => "other",
                state => state,
            };
            let wait = row["wait"].as_str().expect("a name");
            let section = row["section"].as_str().expect("a section");
            *sums.entry(format!("{section}{rest} {wait} {state}")).or_default() += ns;
        }
        sums
    });
    let in_report = cells(&report["ledger"], |row| {
        let rest = match (&row["idle"], &row["in_transaction"]) {
            (_, Value::Bool(true)) => " in transaction",
            (Value::Bool(true), _) => " idle",
            _ => "",
        };
        let name = |state: &str| {
            format!(
                "{}{rest} {} {state}",
                row["section"].as_str().expect("a section"),
                row["group"]["wait"].as_str().expect("a wait")
            )
        };
        ["user", "kernel", "runnable", "disk", "sleep", "other"]
            .map(|state| (name(state), ns(&row[format!("{state}_ns")])))
            .into()
    });
    assert_eq!(in_page, in_report, "{what}: ledger");
    assert_largest_class(what, page, report);
    let statements = |rows: &Value, of: &dyn Fn(&Value) -> (String, u64)| times(rows, of);
    if report["statements"].is_array() {
        assert_eq!(
            statements(&page["statements"], &|row| (
                row["key"].as_str().expect("an id").to_string(),
                ns_of(&row["values"][0])
            )),
            statements(&report["statements"], &|row| (
                row["query"].as_str().unwrap_or("0").to_string(),
                ns(&row["total_ns"])
            )),
            "{what}: statements"
        );
        for row in page["statements"].as_array().expect("rows") {
            let query = row["key"].as_str().filter(|key| *key != "0");
            let all = report["statements"].as_array().expect("rows");
            let Some(same) = all.iter().find(|other| other["query"].as_str() == query) else {
                continue;
            };
            let main = |at: usize| row["cells"][at].as_str().expect("text").to_string();
            let (wait, state) = (&same["main_wait"], &same["main_state"]);
            assert!(
                main(3).starts_with(wait.as_str().expect("a wait"))
                    && main(4).starts_with(state.as_str().expect("a state")),
                "{what}: {row}, but {same}"
            );
        }
    }
    assert_eq!(
        times(&page["sessions"], |row| (
            row["cells"][0].as_str().expect("a pid").to_string(),
            ns_of(&row["values"][1]) + ns_of(&row["values"][9])
        )),
        times(&report["sessions"], |row| (
            row["pid"].to_string(),
            ns(&row["active_ns"])
        )),
        "{what}: sessions"
    );
    let view = &report["database_view"];
    let step = |words: &str| {
        let steps = page["steps"].as_array().expect("steps");
        let found = steps
            .iter()
            .find(|step| step[0].as_str().is_some_and(|text| text.contains(words)));
        found.map_or(0, |step| step[1].as_f64().expect("a number").abs() as u64)
    };
    for (words, field) in [
        ("getrusage", "cpu_ns"),
        ("Time inside wait events", "wait_ns"),
        ("counted twice", "double_counted_ns"),
        ("CPU inside idle waits", "cpu_inside_idle_waits_ns"),
        ("after a command came", "run_queue_inside_idle_waits_ns"),
        ("Waiting for a CPU outside", "run_queue_outside_waits_ns"),
        ("Blocked outside", "blocked_outside_waits_ns"),
        ("State not known", "state_unknown_outside_waits_ns"),
        ("Wait not known", "wait_unknown_off_cpu_ns"),
    ] {
        assert_eq!(step(words), ns(&view[field]), "{what}: {words}");
    }
}

pub(super) fn ns_of(value: &Value) -> u64 {
    value.as_f64().unwrap_or_else(|| panic!("a number: {value}")) as u64
}

/// The functions of a page by name: in themselves, and with all they called.
pub(super) fn functions(rows: &Value) -> BTreeMap<String, (u64, u64)> {
    let rows = rows.as_array().expect("rows").iter();
    rows.map(|row| {
        let name = row["cells"][4]
            .as_str()
            .expect("a name")
            .trim_end_matches(" [k]")
            .to_string();
        (name, (ns_of(&row["values"][0]), ns_of(&row["values"][2])))
    })
    .collect()
}

#[track_caller]
pub(super) fn assert_are_functions(what: &str, page: &Value, recording: &Path, arguments: &[&str]) {
    let all = report(
        recording,
        &[&["--functions", "--top", "100000"], arguments].concat(),
    );
    let reported: BTreeMap<String, (u64, u64)> = all["functions"]
        .as_array()
        .unwrap_or_else(|| panic!("functions: {all}"))
        .iter()
        .map(|row| {
            let name = row["function"].as_str().or(row["name"].as_str()).expect("a name");
            (name.to_string(), (ns(&row["self_ns"]), ns(&row["total_ns"])))
        })
        .collect();
    assert_eq!(functions(&page["functions"]), reported, "{what}: functions");
}

/// Asserts that modules are those of the report: in themselves, and anywhere on the path.
#[track_caller]
pub(super) fn assert_are_modules(what: &str, page: &Value, recording: &Path, arguments: &[&str]) {
    let all = report(
        recording,
        &[&["--modules", "--top", "100000"], arguments].concat(),
    );
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let reported: BTreeMap<String, (u64, u64)> = list(&all["modules"])
        .iter()
        .map(|row| {
            let name = row["module"].as_str().expect("a name").to_string();
            (name, (ns(&row["self_ns"]), ns(&row["total_ns"])))
        })
        .collect();
    let in_page: BTreeMap<String, (u64, u64)> = list(&page["tables"]["Modules by time in them"])
        .iter()
        .map(|row| {
            let name = row["key"].as_str().expect("a name").to_string();
            (name, (ns_of(&row["values"][0]), ns_of(&row["values"][2])))
        })
        .collect();
    assert_eq!(in_page, reported, "{what}: modules");
}

/// Asserts that the time line of a page is that of the report, value by value and second by second (a thousandth is shown).
#[track_caller]
pub(super) fn assert_is_timeline(what: &str, page: &Value, recording: &Path, arguments: &[&str]) {
    let line = &report(
        recording,
        &[&["--timeline=1s", "--by", "wait_class"], arguments].concat(),
    )["timeline"];
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let (values, buckets) = (list(&line["values"]), list(&line["buckets"]));
    let drawn = list(&page["timeline"]["buckets"]);
    assert_eq!(drawn.len(), buckets.len(), "{what}: buckets");
    let names = list(&page["timeline"]["values"]);
    for (bucket, drawn) in buckets.iter().zip(&drawn) {
        for (at, value) in values.iter().enumerate() {
            let place = names.iter().position(|name| *name == value["value"]);
            let rate = &drawn["rates"][place.unwrap_or_else(|| panic!("{what}: {value} is not drawn"))];
            match bucket["by_value_rate"][at].as_f64() {
                Some(expected) => {
                    let found = rate.as_f64().expect("a number");
                    assert!(
                        (found - expected).abs() < 0.0011,
                        "{what}: {found}, but {expected} at {bucket}"
                    );
                }
                None => assert!(rate.is_null(), "{what}: {rate}, but nothing at {bucket}"),
            }
        }
    }
}

/// Asserts that who was waited for is what the report says of it.
#[track_caller]
pub(super) fn assert_are_causes(what: &str, page: &Value, recording: &Path, arguments: &[&str]) {
    // Where nothing was blocked, that is what its exit code says.
    let asked = [
        &["report", plain(recording), "--format", "json", "--causes"],
        arguments,
    ]
    .concat();
    let report: Value = serde_json::from_str(&dbtime(&asked).stdout).expect("JSON");
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let of = &page["causes"];
    if ns(&report["blocked_ns"]) == 0 {
        assert!(
            of["empty"].as_str().is_some_and(|text| !text.is_empty()),
            "{what}: {of}"
        );
        return;
    }
    for sum in ["blocked_ns", "followed_ns"] {
        assert_eq!(ns_of(&of[sum]), ns(&report[sum]), "{what}: {sum}");
    }
    let text = |value: &Value| value.as_str().expect("text").to_string();
    assert_eq!(
        times(&of["waits"], |wait| (text(&wait["wait"]), ns_of(&wait["ns"]))),
        times(&report["causes"], |wait| (text(&wait["wait"]), ns(&wait["ns"]))),
        "{what}: waits"
    );
    let (mut in_page, mut in_report) = (Times::new(), Times::new());
    for wait in list(&of["waits"]) {
        for node in list(&wait["causes"]).iter().filter(|node| node["kind"] != "") {
            *in_page
                .entry(format!("{} {}", wait["wait"], node["kind"]))
                .or_default() += ns_of(&node["ns"]);
        }
    }
    for wait in list(&report["causes"]) {
        for part in list(&wait["by"]) {
            *in_report
                .entry(format!("{} {}", wait["wait"], part["kind"]))
                .or_default() += ns(&part["ns"]);
        }
    }
    in_report.retain(|_, ns| *ns > 0);
    assert_eq!(in_page, in_report, "{what}: ends of chains");
    let locks = |waits: &Value, named: &dyn Fn(&Value) -> (String, u64)| {
        let mut sums = Times::new();
        for wait in list(waits) {
            for lock in wait["locks"].as_array().into_iter().flatten() {
                let (name, ns) = named(lock);
                *sums.entry(format!("{} {name}", wait["wait"])).or_default() += ns;
            }
        }
        sums
    };
    let shown = locks(&of["waits"], &|lock| (text(&lock["name"]), ns_of(&lock["ns"])));
    let (not_known, in_page): (Times, Times) = shown
        .into_iter()
        .partition(|(name, _)| name.ends_with("[not known]"));
    let not_known: u64 = not_known.values().sum();
    let in_report = locks(&report["causes"], &|lock| (text(&lock["name"]), ns(&lock["ns"])));
    assert_eq!(in_page, in_report, "{what}: locks");
    let waited: u64 = list(&of["waits"])
        .iter()
        .filter(|wait| !list(&wait["locks"]).is_empty())
        .map(|wait| ns_of(&wait["ns"]))
        .sum();
    let known: u64 = in_page.values().sum();
    assert!(
        known + not_known <= waited && (known + not_known) as f64 >= 0.99 * waited as f64,
        "{what}: of {waited} ns {known} are known, and {not_known} not"
    );
    let blockers = |rows: &Value, of: &dyn Fn(&Value) -> (String, [u64; 3])| -> BTreeMap<String, [u64; 3]> {
        list(rows)
            .iter()
            .map(of)
            .filter(|(_, [ns, ..])| *ns > 0)
            .collect()
    };
    assert_eq!(
        blockers(&of["blockers"], &|row| (
            text(&row["cells"][0]),
            [1, 2, 3].map(|at| ns_of(&row["values"][at]))
        )),
        blockers(&report["blockers"], &|row| (
            row["pid"].to_string(),
            ["ns", "blocked_ns", "waiters"].map(|name| ns(&row[name]))
        )),
        "{what}: blockers"
    );
}

/// Asserts that latencies of a kind are what the report says of them.
#[track_caller]
pub(super) fn assert_are_latencies(what: &str, page: &Value, recording: &Path, arguments: &[&str]) {
    let all = [&["--latency", "--top", "100000"], arguments].concat();
    let report = report(recording, &all);
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let of = &page["latency"];
    let ns_of_us = |us: &Value| (us.as_f64().expect("a number") * 1e3).round() as u64;
    let in_page: BTreeMap<Vec<String>, [u64; 8]> = list(&of["rows"])
        .iter()
        .map(|row| {
            let labels = serde_json::from_str(row["key"].as_str().expect("a key")).expect("labels");
            (
                labels,
                [1, 3, 4, 5, 6, 7, 8, 9].map(|at| ns_of(&row["values"][at])),
            )
        })
        .collect();
    let by = list(&report["by"]);
    let in_report: BTreeMap<Vec<String>, [u64; 8]> = list(&report["latency"])
        .iter()
        .map(|row| {
            let label = |by: &Value| row["group"][by.as_str().expect("a word")].as_str().expect("text");
            let labels = by.iter().map(|by| label(by).replace("[none]", "")).collect();
            let numbers = [
                "sum_us", "mean_us", "p50_us", "p95_us", "p99_us", "p999_us", "max_us",
            ];
            let [sum, mean, p50, p95, p99, p999, max] = numbers.map(|name| ns_of_us(&row[name]));
            (labels, [ns(&row["count"]), sum, mean, p50, p95, p99, p999, max])
        })
        .collect();
    assert_eq!(in_page, in_report, "{what}");
    let total = &report["latency_total"][0]["histogram"];
    let drawn: Vec<[u64; 3]> = serde_json::from_value(of["histogram"].clone()).expect("buckets");
    let expected: Vec<[u64; 3]> = total
        .as_array()
        .into_iter()
        .flatten()
        .map(|bucket| {
            [
                ns(&bucket["from_us"]),
                ns(&bucket["count"]),
                ns_of_us(&bucket["sum_us"]),
            ]
        })
        .collect();
    assert_eq!(drawn, expected, "{what}: histogram");
}
