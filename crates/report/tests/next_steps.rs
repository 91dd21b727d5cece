//! Where answers point to.

use dbtime_model::recording::Meta;
use dbtime_model::{LatencyRow, Rows, State};
use dbtime_report::{
    Filter, IoOptions, LatencyOptions, NextStep, Options, Source, io, latency, next_steps,
    next_steps_of_latencies, next_steps_of_reads, report, text,
};

use crate::hand_made::{FIRST_SECOND, MS, meta, row, session};

/// Reads, as a tier records them, of a table with or without a name.
fn reads(tier: &str, relation: &str) -> Source {
    let (meta, rows) = recording(tier, relation);
    Source::memory(meta, rows)
}

fn recording(tier: &str, relation: &str) -> (Meta, Rows) {
    let mut rows = Rows::default();
    rows.sessions.push(session(1, 11, "client backend", "a", "shop"));
    rows.activity = vec![row(1, ("IO", "DataFileRead", false), State::Disk, 900)];
    rows.latency = vec![LatencyRow {
        time: FIRST_SECOND,
        session: rows.sessions[0].id,
        kind: "read".into(),
        name: "IO:DataFileRead".into(),
        source: "device".into(),
        file: "base/5/16384".into(),
        relation: relation.into(),
        from_ns: MS,
        to_ns: 2 * MS,
        count: 1,
        sum_ns: MS,
        max_ns: MS,
        ..LatencyRow::default()
    }];
    let mut meta = meta();
    meta.collector.tier = tier.into();
    meta.segments.rows.insert("latency".into(), 1);
    (meta, rows)
}

fn commands(steps: &[NextStep]) -> Vec<String> {
    steps.iter().map(|step| step.command_line(&["x.dbt"])).collect()
}

#[test]
fn waits_for_reads_lead_to_where_they_came_from_if_every_call_was_timed() {
    for (tier, command) in [
        ("exact-calls", "dbtime report --io x.dbt"),
        ("exact", "dbtime report --latency --kind wait x.dbt"),
    ] {
        let source = reads(tier, "");
        let report = report(&source, &Options::default()).expect("a report");
        assert_eq!(commands(&next_steps(&report)), [command], "{tier}");
    }
}

#[test]
fn waits_for_lwlocks_alone_lead_to_one_view_of_them() {
    let next = |waits: &[(&str, u64)], tables: &[&str]| {
        let (mut meta, mut rows) = recording("sampled", "");
        for table in tables {
            meta.segments.rows.insert((*table).into(), 1);
        }
        let of_class = |(class, ms): &(&str, u64)| row(1, (*class, "x", false), State::Sleep, *ms);
        rows.activity = waits.iter().map(of_class).collect();
        let report = report(&Source::memory(meta, rows), &Options::default()).expect("a report");
        commands(&next_steps(&report))
    };
    let [causes, latches] = ["--causes", "--latches"].map(|view| format!("dbtime report {view} x.dbt"));
    let both = ["causes", "held_locks"];
    let few_locks = [("LWLock", 300), ("Lock", 50), ("IO", 100), ("Timeout", 550)];
    assert_eq!(next(&few_locks, &both), [latches.as_str()]);
    assert_eq!(next(&few_locks, &both[..1]), [causes.as_str()]);
    let locks_too = [("LWLock", 300), ("Lock", 200), ("Timeout", 500)];
    assert_eq!(next(&locks_too, &both), [causes.as_str(), latches.as_str()]);
}

#[test]
fn where_reads_came_from_leads_to_what_was_read_if_that_has_a_name() {
    let next = |relation: &str| {
        let report = io(&reads("exact-calls", relation), &IoOptions::default()).expect("a report");
        commands(&next_steps_of_reads(&report))
    };
    assert_eq!(next(""), [""; 0]);
    let command = "dbtime report --latency --kind read --by relation,source x.dbt";
    assert_eq!(next("public.orders"), [command]);
}

#[test]
fn a_command_is_one_line_and_its_reason_stands_below_it_where_both_have_no_room() {
    let report = io(&reads("exact-calls", "public.orders"), &IoOptions::default()).expect("a report");
    let steps = next_steps_of_reads(&report);
    let command = "Next: dbtime report --latency --kind read --by relation,source x.dbt";
    let why = "which tables and indexes were read, and from where";
    let wide = text::render_next_steps(&steps, &["x.dbt"], 200);
    assert_eq!(wide.trim(), format!("{command}   {why}"));
    let narrow = text::render_next_steps(&steps, &["x.dbt"], 80);
    assert_eq!(narrow.trim(), format!("{command}\n      {why}"));
}

#[test]
fn latencies_lead_to_the_same_over_time_and_commands_to_the_slow_ones() {
    let of_kind = |kind: &str| {
        let (meta, mut rows) = recording("exact-calls", "");
        rows.latency[0].kind = kind.into();
        let report = latency(&Source::memory(meta, rows), &LatencyOptions::default()).expect("a report");
        commands(&next_steps_of_latencies(&report))
    };
    assert_eq!(
        of_kind("read"),
        ["dbtime report --latency --kind read -o latency.svg x.dbt"]
    );
    assert_eq!(of_kind("command"), ["dbtime report --tail x.dbt"]);
}

#[test]
fn one_session_leads_to_its_code() {
    let (mut meta, rows) = recording("sampled", "");
    meta.segments.rows.insert("stacks".into(), 1);
    let source = Source::memory(meta, rows);
    let of = |filter: Filter| {
        let options = Options {
            filter,
            ..Options::default()
        };
        commands(&next_steps(&report(&source, &options).expect("a report")))
    };
    let of_one = Filter {
        sessions: vec![11],
        ..Filter::default()
    };
    assert_eq!(of(of_one.clone()), ["dbtime flame --session 11 x.dbt"]);
    // Users who have chosen more than that know what to ask.
    let states = vec![State::Disk];
    assert!(of(Filter { states, ..of_one }).is_empty());
}
