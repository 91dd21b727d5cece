//! Time and single events by the plan of a statement, on hand-made rows.

use std::collections::BTreeMap;

use crate::hand_made::{self, CPU, FIRST_SECOND, meta, row, session, sums};
use dbtime_model::latency::{bounds_of, bucket_of, kind};
use dbtime_model::{ActivityRow, LatencyRow, Rows, SessionId, State};
use dbtime_report::{Dimension, Filter, LatencyOptions, Options, Source, json, latency, report};

/// Plans of two statements, one of which they share: 100, 200, 400 and 800 ms; and one event for each, twice as long.
const OF: [(u64, i64); 4] = [(7, 42), (7, i64::MIN), (8, 42), (8, 0)];

fn source() -> Source {
    let activity = OF.iter().enumerate().map(|(n, &(statement, plan))| ActivityRow {
        statement,
        plan,
        ..row(1, CPU, State::User, 100 << n)
    });
    let latency = OF.iter().enumerate().map(|(n, &(statement, plan))| {
        let ns = 200_000_000 << n;
        let (from_ns, to_ns) = bounds_of(bucket_of(ns));
        LatencyRow {
            time: FIRST_SECOND,
            session: SessionId(1),
            kind: kind::WAIT.into(),
            name: "Timeout:PgSleep".into(),
            statement,
            plan,
            from_ns,
            to_ns,
            count: 1,
            sum_ns: ns,
            max_ns: ns,
            ..LatencyRow::default()
        }
    });
    let rows = Rows {
        activity: activity.collect(),
        latency: latency.collect(),
        sessions: vec![session(1, 4711, "client backend", "bob", "shop")],
        ..Rows::default()
    };
    Source::memory(meta(), rows)
}

#[test]
fn a_plan_has_its_time_whatever_the_statement_and_no_plan_is_said_in_words() {
    let by = |by, filter| hand_made::ms_by(&source(), by, filter);
    let least = i64::MIN.to_string();
    let all = Filter::default;
    assert_eq!(
        by(Dimension::Plan, all()),
        sums(&[("42", 500), (&least, 200), ("[no plan id]", 800)])
    );
    // A statement is one, however it is executed.
    assert_eq!(by(Dimension::Query, all()), sums(&[("7", 300), ("8", 1_200)]));
    let of_one = Filter {
        statements: vec![7],
        ..Filter::default()
    };
    assert_eq!(by(Dimension::Plan, of_one), sums(&[("42", 100), (&least, 200)]));
}

#[test]
fn json_has_the_plan_beside_the_query() {
    let options = Options {
        by: vec![Dimension::Query, Dimension::Plan],
        ..Options::default()
    };
    let text = json::render(&report(&source(), &options).expect("a report"));
    let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let rows = document["ledger"].as_array().expect("rows").iter();
    let ms: BTreeMap<(String, String), u64> = rows
        .filter(|row| row["section"] == "db_time")
        .map(|row| {
            let value = |of: &str| row["group"][of].as_str().expect("a text").to_string();
            let ns = row["total_ns"].as_u64().expect("a number");
            ((value("query"), value("plan")), ns / hand_made::MS)
        })
        .collect();
    let wanted = [
        ("7", "42", 100),
        ("7", "-9223372036854775808", 200),
        ("8", "42", 400),
    ]
    .into_iter()
    .chain([("8", "[no plan id]", 800)]);
    let wanted = wanted.map(|(query, plan, ms)| ((query.to_string(), plan.to_string()), ms));
    assert_eq!(ms, wanted.collect());
}

#[test]
fn where_no_plan_is_known_that_is_said() {
    let rows = Rows {
        activity: vec![row(1, CPU, State::User, 100)],
        ..hand_made::rows()
    };
    let options = Options {
        by: vec![Dimension::Plan],
        ..Options::default()
    };
    let of_none = report(&Source::memory(meta(), rows), &options).expect("a report");
    assert_eq!(of_none.ledger.not_recorded(), [Dimension::Plan]);
}

#[test]
fn single_events_have_the_plan_too() {
    let options = LatencyOptions {
        by: vec![Dimension::Plan],
        ..LatencyOptions::default()
    };
    let text = json::render_latency(&latency(&source(), &options).expect("a report"));
    let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let groups = document["latency"].as_array().expect("groups").iter();
    let counts: BTreeMap<&str, u64> = groups
        .filter_map(|group| Some((group["group"]["plan"].as_str()?, group["count"].as_u64()?)))
        .collect();
    let wanted = [("42", 2), ("-9223372036854775808", 1), ("[no plan id]", 1)];
    assert_eq!(counts, wanted.into());
}
