//! Time by the plan of a statement, against a function that reports the ids of plans and says for how long it then did something.

use std::collections::BTreeMap;
use std::time::Instant;

use dbtime::throwaway::Options;
use dbtime_tests::{
    Recorded, Recorder, Session, assert_close, builds, needs_recording, number, sampling_error, say,
    server_with_hold,
};
use serde_json::Value;

/// A plan, for how long (ms), and whether it spins. The first one comes back, and what is between has none.
const STEPS: [(i64, u64, bool); 4] = [
    (4711, 400, false),
    (-77, 300, true),
    (0, 300, false),
    (4711, 200, true),
];
const NO_PLAN: &str = "[no plan id]";
/// Samples a second.
const RATE_HZ: &str = "199";

/// Seconds of a process by plan.
fn seconds(recorded: &Recorded, pid: u32) -> BTreeMap<String, f64> {
    let report = recorded.json(&["--session", &pid.to_string(), "--by", "plan"]);
    let rows = report["ledger"].as_array().expect("rows").iter();
    let mut seconds = BTreeMap::new();
    for row in rows.filter(|row| row["section"] == "db_time") {
        let plan = row["group"]["plan"].as_str().expect("a text").to_string();
        *seconds.entry(plan).or_default() += number(&row["total_ns"]) / 1e9;
    }
    seconds
}

/// Sums and counts of system calls of this name by plan, in seconds.
fn calls(recorded: &Recorded, pid: u32, name: &str) -> BTreeMap<String, (f64, u64)> {
    let pid = pid.to_string();
    let asked = [
        "--latency",
        "--kind",
        "syscall",
        "--name",
        name,
        "--session",
        &pid,
    ];
    let report = recorded.json(&[&asked[..], &["--by", "plan", "--top", "100"]].concat());
    let groups = report["latency"].as_array().expect("groups").iter();
    let of = |group: &Value| {
        let plan = group["group"]["plan"].as_str()?.to_string();
        let count = group["count"].as_u64().expect("a number");
        Some((plan, (number(&group["sum_us"]) / 1e6, count)))
    };
    groups.filter_map(of).collect()
}

#[test]
fn every_plan_has_its_time_and_servers_without_them_have_none() {
    needs_recording!();
    for build in builds(&[17, 18]) {
        let options = Options::default()
            .set("compute_query_id", "on")
            .set("autovacuum", "off");
        let cluster = server_with_hold(&build, options);
        let mut session = Session::connect(&cluster);
        let recorders = [
            ("exact calls", &["--exact=calls", "-F", RATE_HZ][..]),
            ("exact switch", &["--exact=switch", "-F", RATE_HZ]),
            ("sampled", &["-F", RATE_HZ]),
            ("proc", &["--collector", "proc", "-F", RATE_HZ]),
        ]
        .into_iter()
        // Where there are no plans it is the same for all of them.
        .take(if build.major < 18 { 1 } else { 4 })
        .map(|(how, arguments)| (how, Recorder::server(&cluster, arguments)));
        let recorders: Vec<(&str, Recorder)> = recorders.collect();
        session.wait_until_idle();
        let mut truth: BTreeMap<String, f64> = BTreeMap::new();
        let mut naps = BTreeMap::new();
        // Of statements, but before and after their function: what the first one reads from a busy disk, and no CPU.
        let mut outside = 0.0;
        for (plan, ms, spins) in STEPS {
            let asked = Instant::now();
            let said = session.ask(&format!("SELECT by_plan({plan}, {}, {spins})", ms * 1_000));
            let seconds = said.parse::<f64>().expect("microseconds") / 1e6;
            outside += asked.elapsed().as_secs_f64() - seconds;
            let label = match plan {
                plan if plan != 0 && build.major >= 18 => plan.to_string(),
                _ => NO_PLAN.to_string(),
            };
            *truth.entry(label.clone()).or_default() += seconds;
            if !spins {
                *naps.entry(label).or_default() += seconds;
            }
        }
        session.wait_until_idle();
        let pid = session.pid();
        let all: f64 = truth.values().sum();
        let rate: f64 = RATE_HZ.parse().expect("a number");
        for (how, recorder) in recorders {
            let recorded = recorder.stop();
            let found = seconds(&recorded, pid);
            say(&format!(
                "{}, {how}: {found:?}, truth {truth:?} and {outside:.3} s outside of the function",
                build.name
            ));
            let known: Vec<&String> = found.keys().collect();
            for plan in known {
                assert!(truth.contains_key(plan), "{how}: {plan} of {truth:?}");
            }
            for (plan, &seconds) in &truth {
                // Running time is divided by samples, and what it did before it said its plan is in none.
                let error = sampling_error(seconds, all, rate).max(0.03) + recorded.stolen;
                let of_plan = found.get(plan).copied().unwrap_or_default();
                let what = format!("{}, {how}: plan {plan}, s", build.name);
                let truth = of_plan.clamp(seconds, seconds + outside);
                assert_close(&what, of_plan, truth, 0.05, error);
            }
            let notes = format!("{:?}", recorded.meta.notes);
            assert!(!notes.contains("more plans than"), "{notes}");
            if how == "exact calls" {
                check_naps(&recorded, pid, &naps);
            }
            if build.major >= 18 {
                check_queries(&recorded, pid, how);
            }
        }
    }
}

/// Each nap is of the plan of its statement, and no other call of that name is made.
fn check_naps(recorded: &Recorded, pid: u32, truth: &BTreeMap<String, f64>) {
    let found = calls(recorded, pid, "clock_nanosleep");
    assert_eq!(
        found.keys().collect::<Vec<_>>(),
        truth.keys().collect::<Vec<_>>(),
        "{found:?}"
    );
    for (plan, &(seconds, count)) in &found {
        // Each takes 10 ms at least but the last one, and longer where no CPU is free.
        assert_close(&format!("naps of {plan}, s"), seconds, truth[plan], 0.05, 0.02);
        assert!((5..=100).contains(&count), "{plan}: {count}");
    }
}

/// All plans are of one statement, which has its text whatever its plan.
fn check_queries(recorded: &Recorded, pid: u32, how: &str) {
    let report = recorded.json(&["--session", &pid.to_string(), "--by", "query,plan"]);
    let rows = report["ledger"].as_array().expect("rows").iter();
    let of_plan = |row: &&Value| row["section"] == "db_time" && row["group"]["plan"] != NO_PLAN;
    let mut queries: Vec<&str> = rows
        .filter(of_plan)
        .map(|row| row["group"]["query"].as_str().expect("a text"))
        .collect();
    queries.sort_unstable();
    queries.dedup();
    assert_eq!(queries.len(), 1, "{how}: {queries:?}");
    let statements = recorded.statements();
    let text = statements.get(queries[0]).map(|(_, text)| text.as_str());
    assert!(
        text.is_some_and(|text| text.starts_with("SELECT by_plan(?")),
        "{how}: {statements:#?}"
    );
}
