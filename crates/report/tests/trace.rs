//! What an SQL trace says, against arithmetic on hand-made rows.

use std::collections::BTreeMap;

use crate::hand_made::traced::{
    DEEPEST, PLAN, SCATTERED, SELECT, SEQUENTIAL, count, trace_meta, trace_rows, waits,
};
use crate::hand_made::{FIRST_SECOND, meta, rows};
use dbtime_model::counter::oracle;
use dbtime_model::recording::{Meta, RecordingWriter};
use dbtime_model::{
    ActivityRow, BindSet, BoundExecution, BoundValue, Caller, CounterRow, LatencyRow, Rows, SessionId,
    StatementRow,
};
use dbtime_report::{
    Dimension, Filter, FlameOptions, LatencyOptions, LedgerRow, Options, Report, Section, Source,
    TraceOptions, flame, heat_map, heat_map_svg, json, latency, report, text,
};
use proptest::prelude::*;
use serde_json::{Value, json};

const HOSTILE: &str = "\u{1b}]0;title\u{7}\u{1b}[2Jselect\r\n<script>&\"'\u{202e}\u{0}\u{ffff}";

fn of(meta: Meta, rows: Rows, options: &Options) -> Report {
    report(&Source::memory(meta, rows), options).expect("a report")
}

fn whole() -> Report {
    of(trace_meta(), trace_rows(), &Options::default())
}

fn json_of(report: &Report) -> Value {
    serde_json::from_str(&json::render(report)).expect("JSON")
}

/// Checks that a line of the text has these words, whatever the spacing between them.
fn has_line(text: &str, wanted: &str) {
    let flat = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.lines().any(|line| flat(line).contains(wanted)),
        "{wanted} in\n{text}"
    );
}

/// Checks that the text has these words, however its lines are broken.
fn has_words(text: &str, wanted: &str) {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(wanted), "{wanted} in\n{text}");
}

#[test]
fn both_views_follow_their_rules_to_the_microsecond() {
    let report = whole();
    let trace = &json_of(&report)["trace"];
    assert_eq!(
        trace["call_view"],
        json!({"elapsed_us": 620_000, "cpu_us": 300_000, "wait_us": 337_009, "idle_us": 2_800_000,
               "wait_outside_us": 9, "unaccounted_us": -17_009})
    );
    assert_eq!(
        trace["interval_view"],
        json!({"duration_us": 3_400_000, "cpu_us": 300_000, "wait_us": 3_137_009, "unaccounted_us": -37_009})
    );
    assert_eq!(
        [&trace["files"], &trace["lines"], &trace["unknown_lines"]],
        [&json!(1), &json!(1_000), &json!(2)]
    );
    assert_eq!(
        [&trace["first_tim"], &trace["last_tim"]],
        [&json!(5_000_000), &json!(8_500_000)]
    );
    let text = text::render(&report, 120);
    has_line(&text, "elapsed 0.620000 3.400000");
    has_line(&text, "CPU 0.300000 0.300000");
    has_line(&text, "waits 0.337009 3.137009");
    has_line(&text, "unaccounted -0.017009 -0.037009");
    has_words(&text, "0.000009 s of the waits fall in none of these calls");
    has_words(
        &text,
        "Sessions overlap in time: their own intervals add up to 3.500000 s, 0.100000 s more",
    );
    has_words(&text, "CPU was counted in steps of 10 ms");
    assert!(!text.contains("There are no waits"), "{text}");
    has_line(&text, "At least 0.017000 s of CPU were used inside waits");
}

#[test]
fn files_add_up_and_one_without_calls_has_no_interval() {
    let mut meta = trace_meta();
    let mut other = meta.files[0].clone();
    other.lines = 7;
    let trace = other.sql_trace.as_mut().expect("a trace");
    (trace.first_tim_us, trace.last_tim_us, trace.begin_us) = (Some(9_000_000), Some(9_900_000), None);
    (trace.cpu_us, trace.wait_us) = (0, 500);
    meta.files.push(other);
    // Not a trace: another format.
    meta.files.push(Default::default());
    let trace = &json_of(&of(meta, trace_rows(), &Options::default()))["trace"];
    assert_eq!([&trace["files"], &trace["lines"]], [&json!(2), &json!(1_007)]);
    assert_eq!(
        [&trace["first_tim"], &trace["last_tim"]],
        [&json!(5_000_000), &json!(9_900_000)]
    );
    assert_eq!(
        trace["interval_view"],
        json!({"duration_us": 3_400_000, "cpu_us": 300_000, "wait_us": 3_137_509, "unaccounted_us": -37_509})
    );
}

#[test]
fn a_recording_of_something_else_has_no_trace() {
    let report = of(meta(), rows(), &Options::default());
    assert_eq!(report.trace, None);
    assert_eq!(json_of(&report).get("trace"), None);
    let text = text::render(&report, 100);
    assert!(
        text.contains("What the database says") && !text.contains("SQL trace"),
        "{text}"
    );
}

#[test]
fn what_only_a_live_recording_knows_is_not_asked_of_a_trace() {
    let text = text::render(&whole(), 100);
    for absent in ["What the database says", "Top stacks", "torn"] {
        assert!(!text.contains(absent), "{absent} in\n{text}");
    }
}

#[test]
fn events_have_exact_sums_and_histograms() {
    let json = json_of(&whole());
    let events = json["trace"]["events"].as_array().expect("events");
    let names: Vec<_> = events
        .iter()
        .map(|event| event["name"].as_str().unwrap_or(""))
        .collect();
    assert_eq!(
        names,
        [
            "SQL*Net message from client",
            "db file scattered read",
            "db file sequential read",
            "some event of release 30"
        ]
    );
    let idle: Vec<_> = events.iter().map(|event| event["idle"] == true).collect();
    assert_eq!(idle, [true, false, false, false]);
    let sequential = &events[2];
    assert_eq!(
        [
            &sequential["count"],
            &sequential["total_us"],
            &sequential["max_us"]
        ],
        [&json!(100), &json!(132_800), &json!(9_000)]
    );
    assert_eq!(
        sequential["histogram"],
        json!([
            {"from_us": 0, "count": 10, "total_us": 0},
            {"from_us": 32, "count": 20, "total_us": 800},
            {"from_us": 512, "count": 60, "total_us": 42_000},
            {"from_us": 8192, "count": 10, "total_us": 90_000},
        ])
    );
    let sizes = &json["trace"]["io_sizes"];
    assert_eq!(
        *sizes,
        json!([
            {"event": "db file scattered read", "blocks": 8, "count": 4, "total_us": 4_000, "max_us": 1_000,
             "histogram": [{"from_us": 512, "count": 4, "total_us": 4_000}]},
            {"event": "db file scattered read", "blocks": 32, "count": 1, "total_us": 200_000, "max_us": 200_000,
             "histogram": [{"from_us": 131_072, "count": 1, "total_us": 200_000}]},
        ])
    );
}

#[test]
fn the_resource_profile_sums_to_elapsed_and_idle_time() {
    let text = text::render(&whole(), 120);
    // 620,000 + 2,800,000
    has_line(
        &text,
        "SQL*Net message from client idle 1 2.800000 81.9 2800000 2800000",
    );
    has_line(&text, "CPU 0.300000 8.8");
    has_line(&text, "db file sequential read 100 0.132800 3.9 1328 9000");
    has_line(&text, "[unaccounted] -0.017009 -0.5");
    has_line(&text, "sum 3.420000 100.0");
}

#[test]
fn histograms_have_the_columns_of_parsetrc() {
    let text = text::render(&whole(), 140);
    has_line(
        &text,
        "event count 0u 64u .1m .2m .5m 1m 2m 4m 8m 16m 33m 65m .1s .1s+",
    );
    has_line(
        &text,
        "db file sequential read 100 10 20 - - - 60 - - - 10 - - - -",
    );
    has_line(&text, "SQL*Net message from client 1 - - - - - - - - - - - - - 1");
    has_line(&text, "some event of release 30 1 - - - 1 -");
    // 1,000 us is below 1,024.
    has_line(&text, "db file scattered read 8 blocks 4 0.004 1000 1000 4 -");
    has_line(&text, "32 blocks 1 0.200 200000 200000 - - - - - - - - 1");
}

#[test]
fn every_latency_is_in_the_column_below_its_label() {
    // First and last microsecond of each column.
    let columns = [
        ("0u", 0, 0),
        ("64u", 1, 63),
        (".1m", 64, 127),
        (".2m", 128, 255),
        (".5m", 256, 511),
        ("1m", 512, 1_023),
        ("2m", 1_024, 2_047),
        ("4m", 2_048, 4_095),
        ("8m", 4_096, 8_191),
        ("16m", 8_192, 16_383),
        ("33m", 16_384, 32_767),
        ("65m", 32_768, 65_535),
        (".1s", 65_536, 131_071),
        (".1s+", 131_072, 3_000_000_000),
    ];
    assert_eq!(columns.map(|(label, ..)| label), dbtime_report::PARSETRC_LABELS);
    for (column, (label, first, last)) in columns.into_iter().enumerate() {
        for us in [first, last] {
            let mut rows = trace_rows();
            rows.latency = vec![waits(0, 1, SEQUENTIAL, 0, us, 3)];
            let report = of(trace_meta(), rows, &Options::default());
            let trace = report.trace.as_ref().expect("a trace");
            let counts = dbtime_report::parsetrc_counts(&trace.events[0].latency);
            assert_eq!(
                (counts[column], counts.iter().sum::<u128>()),
                (3, 3),
                "{us} in {label}"
            );
        }
    }
}

#[test]
fn sources_are_guessed_by_the_thresholds_that_were_set() {
    let options = |thresholds_us| Options {
        trace: TraceOptions {
            thresholds_us,
            ..TraceOptions::default()
        },
        ..Options::default()
    };
    let counts = |thresholds_us| {
        let report = of(trace_meta(), trace_rows(), &options(thresholds_us));
        let json = json_of(&report);
        let sources = &json["trace"]["sources"];
        assert_eq!(sources["fidelity"], "guessed");
        assert_eq!(sources["events"][1]["event"], "db file sequential read");
        let of = |index: usize, what: &str| sources["events"][1]["sources"][index][what].as_u64();
        [0, 1, 2].map(|index| (of(index, "count"), of(index, "total_us")))
    };
    assert_eq!(
        counts([50, 1_000]),
        [
            (Some(30), Some(800)),
            (Some(60), Some(42_000)),
            (Some(10), Some(90_000))
        ]
    );
    assert_eq!(
        counts([1, 500]),
        [
            (Some(10), Some(0)),
            (Some(20), Some(800)),
            (Some(70), Some(132_000))
        ]
    );
    let text = text::render(&of(trace_meta(), trace_rows(), &options([50, 1_000])), 120);
    has_words(&text, "(guessed from their latency: page cache below 50 us");
    has_line(
        &text,
        "db file sequential read 30 30.0 0.6 60 60.0 31.6 10 10.0 67.8",
    );
}

#[test]
fn statements_stand_by_plan_with_what_they_miss() {
    let report = whole();
    let json = json_of(&report);
    let statements = json["trace"]["statements"].as_array().expect("statements");
    let of = |index: usize| {
        let names = [
            "sql_id",
            "plan_hash",
            "calls",
            "elapsed_us",
            "cpu_us",
            "wait_us",
            "missing_us",
            "rows",
            "consistent_gets",
            "current_gets",
            "physical_reads",
        ];
        Value::from(names.map(|name| statements[index][name].clone()).to_vec())
    };
    assert_eq!(statements.len(), 5);
    assert_eq!(
        of(0),
        json!([
            "4vs91dcv7u1p6",
            3_702_719_588u64,
            6,
            400_000,
            200_000,
            130_000,
            70_000,
            77,
            40,
            3,
            36
        ])
    );
    assert_eq!(
        of(1),
        json!(["4vs91dcv7u1p6", null, 1, 90_000, 40_000, 0, 50_000, 0, 0, 0, 0])
    );
    assert_eq!(
        of(3),
        json!([null, 6, 2, 30_000, 10_000, 200_000, -180_000, 1, 3, 0, 32])
    );
    assert_eq!(
        of(4),
        json!([null, null, 1, 10_000, 10_000, 209, -209, 0, 0, 0, 0])
    );
    assert_eq!(statements[0]["text"], "select *\n  from orders");
    assert_eq!(
        [&statements[4]["text"], &statements[4]["id"]],
        [&Value::Null, &Value::Null]
    );
    // The dictionary statement spent 80,000 on it, the deepest one 10,000.
    assert_eq!(statements[0]["called_us"], 90_000);
    let text = text::render(&report, 120);
    has_line(
        &text,
        "4vs91dcv7u1p6 3702719588 5 6 0.400000 0.200000 0.130000 0.070000 2.800000 77 43 36",
    );
    has_line(&text, "4vs91dcv7u1p6 select * from orders");
    has_line(
        &text,
        "[unknown] 1 0.010000 0.010000 0.000209 -0.000209 0.000000 0 0 0",
    );
    has_line(&text, "hash 4711 6 SYS r 2 0.030000");
}

#[test]
fn parse_execute_and_fetch_stand_apart_as_in_tkprof() {
    let mut rows = trace_rows();
    let parse = [1, 20_000, 9_000, 0, 4, 0, 1, 1];
    let fetch = [3, 300_000, 150_000, 77, 30, 0, 35, 0];
    for (names, values) in [(oracle::PARSE_SUMS, parse), (oracle::FETCH_SUMS, fetch)] {
        rows.counters.extend(
            names
                .iter()
                .zip(values)
                .map(|(name, value)| count(1, SELECT, PLAN, name, value)),
        );
    }
    let report = of(trace_meta(), rows, &Options::default());
    let execute = &json_of(&report)["trace"]["statements"][0]["execute"];
    assert_eq!(
        *execute,
        json!({"calls": 2, "elapsed_us": 80_000, "cpu_us": 41_000, "rows": 0, "consistent_gets": 6, "current_gets": 3,
               "physical_reads": 0, "misses": 0})
    );
    let text = text::render(&report, 120);
    has_line(&text, "4vs91dcv7u1p6 Parse 1 0.009000 0.020000 1 4 0 0 1");
    has_line(&text, "Execute 2 0.041000 0.080000 0 6 3 0 0");
    has_line(&text, "Fetch 3 0.150000 0.300000 35 30 0 77 0");
    has_line(&text, "total 6 0.200000 0.400000 36 40 3 77 1");
}

#[test]
fn each_statement_has_its_own_time_by_event() {
    let report = whole();
    let json = json_of(&report);
    let profile = &json["trace"]["statement_profiles"][0];
    assert_eq!(profile["sql_id"], "4vs91dcv7u1p6");
    let events: Vec<_> = profile["events"].as_array().expect("events").iter().collect();
    let of = |name: &str| {
        events
            .iter()
            .find(|event| event["name"] == name)
            .map(|event| event["us"].clone())
    };
    assert_eq!(of("CPU"), Some(json!(250_000)));
    assert_eq!(of("db file sequential read"), Some(json!(132_800)));
    let text = text::render(&report, 120);
    has_line(&text, "4vs91dcv7u1p6 CPU 0.250000 65.3");
    has_line(&text, "db file sequential read 1 0.132800 34.7 132800");
    has_line(&text, "SQL*Net message from client idle 1 2.800000 2800000");
}

#[test]
fn statements_that_differ_in_literals_are_one_unless_asked_for() {
    let mut rows = trace_rows();
    for n in 0..500u64 {
        let id = 1_000 + n;
        rows.statements.push(StatementRow {
            id,
            text: format!("select name from t where id = {n} and c = 'x{n}'"),
            sql_id: format!("sql{n}"),
            callers: vec![Caller {
                statement: SELECT,
                calls: 1,
                elapsed_us: 10,
            }],
            ..StatementRow::default()
        });
        rows.counters.push(count(1, id, 8, oracle::CALLS, 2));
        rows.counters.push(count(1, id, 8, oracle::ELAPSED_US, 1_000));
        let of_another = rows.activity[0].clone();
        rows.activity.push(ActivityRow {
            statement: id,
            ns: 3_000,
            ..of_another
        });
    }
    // One of them represents two more that the importer did not keep.
    rows.statements.last_mut().expect("a statement").alike = 2;
    let options = Options {
        by: vec![Dimension::SqlId, Dimension::Statement],
        ..Options::default()
    };
    let report = of(trace_meta(), rows.clone(), &options);
    let groups: Vec<_> = report
        .ledger
        .rows
        .iter()
        .filter(|row| row.labels[1].contains("from t where"))
        .map(|row| (row.labels.join(" "), row.sums.total_ns()))
        .collect();
    assert_eq!(
        groups,
        [(
            "sql0 select name from t where id = ? and c = ?".to_string(),
            1_500_000
        )]
    );
    let statements = &report.trace.as_ref().expect("a trace").statements;
    let group = statements.iter().find(|one| one.variants > 1).expect("a group");
    assert_eq!(
        (group.variants, group.all.calls, group.all.elapsed_us),
        (502, 1_000, 500_000)
    );
    assert_eq!(
        group.text.as_deref(),
        Some("select name from t where id = ? and c = ?")
    );
    assert_eq!(
        group
            .callers
            .iter()
            .map(|caller| caller.calls)
            .collect::<Vec<_>>(),
        [500]
    );
    assert_eq!(statements.len(), 6);
    let text = text::render(&report, 120);
    has_words(
        &text,
        "(502 statements that differ in literals: --each-literal shows them)",
    );
    let options = Options {
        trace: TraceOptions {
            each_literal: true,
            ..TraceOptions::default()
        },
        ..options
    };
    let each = of(trace_meta(), rows, &options);
    assert_eq!(each.trace.as_ref().map(|trace| trace.statements.len()), Some(505));
    let of_group = |row: &&LedgerRow| row.labels[1].contains("from t where");
    assert_eq!(each.ledger.rows.iter().filter(of_group).count(), 500);
}

#[test]
fn values_of_executions_are_shown_by_position_when_they_are_asked_for_and_the_rest_is_counted() {
    let mut rows = trace_rows();
    let statement = rows
        .statements
        .iter_mut()
        .find(|row| row.id == SELECT)
        .expect("it is there");
    statement.bound_execution_count = 2_000;
    statement.binds.push(BindSet {
        values: vec!["1".into()],
        executions: 2_000,
        ..BindSet::default()
    });
    for n in (0..12).rev() {
        let value = |position: u32, value: String| BoundValue { position, value };
        statement.bound_executions.push(BoundExecution {
            // 2024-05-01 10:00:00
            time_us: 1_714_557_600_000_000 + n,
            elapsed_us: 1_500_000,
            values: vec![value(0, n.to_string()), value(2, format!("\"{HOSTILE}\""))],
        });
    }
    let binds = |binds| Options {
        trace: TraceOptions {
            binds,
            ..TraceOptions::default()
        },
        ..Options::default()
    };
    let report = of(trace_meta(), rows.clone(), &binds(true));
    let text = text::render(&report, 160);
    has_line(&text, "2024-05-01 10:00:00.000000 #0 -> 0,");
    has_line(&text, "2024-05-01 10:00:00.000009 #0 -> 9,");
    assert!(!text.contains("#0 -> 10") && !text.contains('\u{1b}'), "{text}");
    has_line(
        &text,
        "1990 more executions with values; --format json has the first 12 one by one",
    );
    let statements = json_of(&report)["trace"]["statements"].clone();
    let of_select = statements
        .as_array()
        .and_then(|all| all.iter().find(|one| one["bound_execution_count"] == 2_000));
    let of_select = of_select.expect("it is there");
    assert_eq!(of_select["bound_executions"].as_array().map(Vec::len), Some(12));
    assert_eq!(
        of_select["bound_executions"][3],
        json!({"time_us": 1_714_557_600_000_003_i64, "elapsed_us": 1_500_000, "values": [
            {"position": 0, "value": "3"}, {"position": 2, "value": format!("\"{HOSTILE}\"")}]})
    );
    let without = text::render(&of(trace_meta(), rows, &binds(false)), 160);
    assert!(!without.contains("#0 -> "));
}

#[test]
fn a_flame_graph_takes_the_statements_as_one_that_the_ledger_takes_as_one() {
    let mut rows = trace_rows();
    for n in 0..50u64 {
        let id = 1_000 + n;
        rows.statements.push(StatementRow {
            id,
            text: format!("select name from t where id = {n}"),
            sql_id: format!("sql{n}"),
            ..StatementRow::default()
        });
        rows.counters.push(count(1, id, 8, oracle::CALLS, 2));
        // The first of them, which represents all, has calls but no time of its own.
        if n > 0 {
            let of_another = rows.activity[0].clone();
            rows.activity.push(ActivityRow {
                statement: id,
                ns: 3_000,
                ..of_another
            });
        }
    }
    let by = vec![Dimension::SqlId, Dimension::Statement];
    for (each_literal, groups) in [(false, 1), (true, 49)] {
        let options = Options {
            by: by.clone(),
            trace: TraceOptions {
                each_literal,
                ..TraceOptions::default()
            },
            ..Options::default()
        };
        let ledger = of(trace_meta(), rows.clone(), &options).ledger;
        let in_ledger: BTreeMap<String, u128> = ledger
            .section(Section::DbTime)
            .map(|row| (row.labels.join(" "), row.sums.total_ns()))
            .collect();
        let options = FlameOptions {
            by: by.clone(),
            each_literal,
            ..FlameOptions::default()
        };
        let folded = flame(&Source::memory(trace_meta(), rows.clone()), &options).expect("stacks");
        let mut drawn: BTreeMap<String, u128> = BTreeMap::new();
        for stack in &folded.stacks {
            *drawn.entry(stack.levels.join(" ")).or_default() += stack.ns;
        }
        assert_eq!(drawn, in_ledger);
        let of_group = |name: &&String| name.contains("from t where");
        assert_eq!(drawn.keys().filter(of_group).count(), groups);
        let of_one = drawn.get("sql0 select name from t where id = ?").copied();
        assert_eq!(of_one, (!each_literal).then_some(49 * 3_000));
    }
}

#[test]
fn figures_of_tools_that_do_not_correct_a_clock_of_1024_ns_stand_beside_the_corrected_ones() {
    let mut meta = trace_meta();
    let elapsed_us = whole().trace.expect("a trace").call_view.elapsed_us;
    let without = json_of(&of(meta.clone(), trace_rows(), &Options::default()));
    assert_eq!(without["trace"]["facts"]["uncorrected_elapsed_us"], Value::Null);
    meta.files[0].sql_trace.as_mut().expect("a trace").counts_1024_ns = true;
    let report = of(meta, trace_rows(), &Options::default());
    let facts = &json_of(&report)["trace"]["facts"];
    // 8.5 s - 5.1 s
    assert_eq!(facts["uncorrected_us"], 3_320_312);
    assert_eq!(facts["uncorrected_elapsed_us"], json!(elapsed_us * 125 / 128));
    let text = text::render(&report, 120);
    has_words(&text, "TVD$XTAT shows 3.320312 s for an interval of 3.400000 s.");
    has_words(
        &text,
        &format!(
            "TKPROF shows {:.2} s of elapsed time",
            elapsed_us as f64 / 1.024e6
        ),
    );
}

#[test]
fn errors_transactions_objects_and_files_are_told() {
    let mut rows = trace_rows();
    rows.counters.extend([
        count(1, SELECT, 0, "errors:1476", 3),
        count(1, DEEPEST, 0, "parse_errors:942", 1),
        count(1, 0, 0, oracle::COMMITS, 4),
        count(1, 0, 0, oracle::ROLLBACKS, 1),
        count(1, 0, 0, oracle::READ_ONLY_ENDS, 2),
        count(1, 0, 0, "object_waits:61:db file sequential read", 10),
        count(1, 0, 0, "object_wait_us:61:db file sequential read", 5_000),
        count(1, 0, 0, "object_blocks:61:db file sequential read", 10),
        count(1, 0, 0, "file_waits:4:db file sequential read", 10),
        count(1, 0, 0, "file_wait_us:4:db file sequential read", 5_000),
    ]);
    let report = of(trace_meta(), rows, &Options::default());
    let json = json_of(&report);
    assert_eq!(json["trace"]["errors"][0]["code"], 1_476);
    assert_eq!(json["trace"]["objects"][0]["us"], 5_000);
    let text = text::render(&report, 120);
    has_line(
        &text,
        "Transactions: 4 committed, 1 rolled back, 2 ended without a change",
    );
    has_line(&text, "ORA-01476 run time 4vs91dcv7u1p6 select * from orders 3");
    has_line(&text, "61 db file sequential read 10 10 0.005000 500");
    has_line(&text, "4 db file sequential read 10 0 0.005000 500");
}

#[test]
fn a_trace_without_waits_says_how_to_have_them() {
    let mut meta = trace_meta();
    let trace = meta.files[0].sql_trace.as_mut().expect("a trace");
    trace.waits = 0;
    let text = text::render(&of(meta, trace_rows(), &Options::default()), 120);
    has_words(
        &text,
        "There are no waits in the trace: perhaps it was made without them (level 1 or 4).",
    );
}

#[test]
fn a_clock_of_1024_nanoseconds_shows_what_other_tools_show() {
    let mut meta = trace_meta();
    meta.files[0].sql_trace.as_mut().expect("a trace").counts_1024_ns = true;
    let text = text::render(&of(meta, trace_rows(), &Options::default()), 120);
    // 3,400,000 / 1.024
    has_words(&text, "TVD$XTAT shows 3.320312 s for an interval of 3.400000 s.");
}

#[test]
fn a_plan_shows_what_each_step_took_by_itself() {
    let with_plans = Options {
        trace: TraceOptions {
            plans: true,
            ..TraceOptions::default()
        },
        ..Options::default()
    };
    let report = of(trace_meta(), trace_rows(), &with_plans);
    let json = json_of(&report);
    let plan = &json["trace"]["statements"][0]["plan"];
    assert_eq!(
        [&plan[0]["own_us"], &plan[1]["own_us"]],
        [&json!(10_000), &json!(90_000)]
    );
    assert_eq!([&plan[0]["depth"], &plan[1]["depth"]], [&json!(0), &json!(1)]);
    let text = text::render(&report, 120);
    has_line(&text, "1 SORT AGGREGATE 2 2 40 36 0 0.100000 0.010000");
    has_line(&text, "2 TABLE ACCESS FULL ORDERS 2 77 40 36 0 0.090000 0.090000");
    let at = |what: &str| {
        let line = text.lines().find(|line| line.contains(what)).expect(what);
        line.find(what)
    };
    assert!(at("TABLE ACCESS FULL") > at("SORT AGGREGATE"), "{text}");
    assert!(!text::render(&whole(), 120).contains("TABLE ACCESS FULL"));
}

#[test]
fn the_tree_of_calls_begins_at_the_top_and_shows_each_statement_once() {
    let report = whole();
    let lines: Vec<(usize, u64, i128, i128)> = report
        .trace
        .iter()
        .flat_map(|trace| &trace.recursion)
        .map(|call| (call.depth, call.id, call.calls, call.elapsed_us))
        .collect();
    assert_eq!(
        lines,
        [
            (0, SELECT, 7, 490_000),
            (1, 12, 4, 80_000),
            (2, DEEPEST, 1, 20_000),
            (1, DEEPEST, 1, 10_000)
        ]
    );
}

#[test]
fn statements_that_call_each_other_in_a_ring_end() {
    let mut rows = trace_rows();
    for (statement, caller) in [(0, 12), (1, 13), (2, 11), (2, 13)] {
        rows.statements[statement].callers = vec![Caller {
            statement: caller,
            calls: 1,
            elapsed_us: 5,
        }];
    }
    let report = of(trace_meta(), rows, &Options::default());
    let trace = report.trace.as_ref().expect("a trace");
    assert!((3..10).contains(&trace.recursion.len()), "{:?}", trace.recursion);
    text::render(&report, 100);
}

#[test]
fn applications_add_up_to_the_whole() {
    let report = whole();
    let json = json_of(&report);
    let by = json["trace"]["by_application"].as_array().expect("applications");
    assert_eq!(by[1]["module"], "batch");
    assert_eq!(
        [&by[1]["elapsed_us"], &by[1]["unaccounted_us"], &by[1]["calls"]],
        [&json!(120_000), &json!(120_000 - 50_000 - 200_209), &json!(3)]
    );
    let sum = |name: &str| by.iter().filter_map(|one| one[name].as_i64()).sum::<i64>();
    assert_eq!(
        [sum("elapsed_us"), sum("idle_us"), sum("calls")],
        [620_000, 2_800_000, 14]
    );
    let text = text::render(&report, 120);
    has_line(
        &text,
        "orders batch close month eva 3 0.120000 0.050000 0.200209 0.000000 -0.130209",
    );
}

#[test]
fn throughput_is_by_second_in_blocks_of_the_size_that_was_said() {
    let options = Options {
        trace: TraceOptions {
            block_bytes: 1 << 20,
            ..TraceOptions::default()
        },
        ..Options::default()
    };
    let report = of(trace_meta(), trace_rows(), &options);
    let json = json_of(&report);
    let throughput = &json["trace"]["throughput"];
    assert_eq!(throughput["block_bytes"], 1 << 20);
    assert_eq!(throughput["seconds"].as_array().map(Vec::len), Some(3));
    assert_eq!(throughput["seconds"][1]["read_bytes"], 124 << 20);
    assert_eq!(throughput["seconds"][1]["written_blocks"], 10);
    let text = text::render(&report, 120);
    has_line(&text, "2026-10-10 12:00:01 65.0 124.0 2.0 10.0");
    has_line(&text, "In all 105 reads of 164.0 MB, 2 writes of 10.0 MB.");
    has_words(
        &text,
        "The busiest second was 2026-10-10 12:00:01 with 124.0 MB read, 10.0 MB written.",
    );
}

#[test]
fn long_traces_show_their_throughput_in_spans_that_add_up() {
    let mut rows = trace_rows();
    for second in 0..100 {
        let mut row = count(1, 0, 0, oracle::READ_BLOCKS, 7);
        row.time = FIRST_SECOND + second * 1_000_000;
        rows.counters.push(row);
    }
    let report = of(trace_meta(), rows, &Options::default());
    let throughput = &report.trace.as_ref().expect("a trace").throughput;
    let spans = throughput.spans(20);
    assert_eq!(spans.len(), 20);
    assert!(spans.iter().all(|span| span.seconds == 5));
    let blocks: i128 = spans.iter().map(|span| span.sum.read_blocks).sum();
    assert_eq!(blocks, 164 + 700);
    assert!((spans[1].per_second(spans[1].sum.read_blocks) - 7.0).abs() < 1e-9);
}

#[test]
fn gaps_and_calls_in_flight_are_shown() {
    let report = whole();
    let trace = &json_of(&report)["trace"];
    assert_eq!(trace["gaps"]["total_us"], 1_250_000);
    assert_eq!(trace["in_flight"][0]["sql_id"], "4vs91dcv7u1p6");
    let text = text::render(&report, 120);
    has_line(
        &text,
        "Gaps (stretches of a second or more that no line covers): 1, 1.250000 s in all",
    );
    has_line(
        &text,
        "2026-10-10 12:00:00 12.345 /tmp/dev_ora_4711.trc 1.250000 500",
    );
    has_line(
        &text,
        "4vs91dcv7u1p6 12.345 /tmp/dev_ora_4711.trc 7 0 3 0.000042 2 999",
    );
    has_line(&text, "stopped writing at its size limit");
}

#[test]
fn a_part_of_a_trace_has_no_interval_and_says_so() {
    let options = Options {
        filter: Filter {
            sessions: vec![4712],
            ..Filter::default()
        },
        ..Options::default()
    };
    let report = of(trace_meta(), trace_rows(), &options);
    let json = json_of(&report);
    let trace = &json["trace"];
    for name in [
        "interval_view",
        "lines",
        "unknown_lines",
        "first_tim",
        "last_tim",
        "gaps",
        "in_flight",
    ] {
        assert_eq!(trace[name], Value::Null, "{name}");
    }
    assert_eq!(trace["call_view"]["elapsed_us"], 120_000);
    assert_eq!(trace["events"].as_array().map(Vec::len), Some(2));
    assert_eq!(trace["statements"].as_array().map(Vec::len), Some(2));
    let text = text::render(&report, 120);
    has_line(&text, "SQL trace: part of /tmp/dev_ora_4711.trc.");
    assert!(!text.contains("TVD$XTAT") && !text.contains("Gaps"), "{text}");

    let first_second = Options {
        filter: Filter {
            to_us: Some(FIRST_SECOND + 1_000_000),
            ..Filter::default()
        },
        ..Options::default()
    };
    let report = of(trace_meta(), trace_rows(), &first_second);
    has_words(
        &text::render(&report, 120),
        "is counted in the second in which it ended",
    );
}

#[test]
fn time_is_grouped_by_what_the_application_says() {
    for (by, first, second) in [
        (Dimension::Module, "[none]", "batch"),
        (Dimension::Action, "[none]", "close month"),
        (Dimension::ClientId, "[none]", "eva"),
        (Dimension::Service, "[none]", "orders"),
    ] {
        let options = Options {
            by: vec![by],
            ..Options::default()
        };
        let report = of(trace_meta(), trace_rows(), &options);
        let labels: Vec<&str> = report
            .ledger
            .rows
            .iter()
            .map(|row| row.labels[0].as_str())
            .collect();
        // DB time of sessions 1 and 2, then idle time.
        assert_eq!(labels, [first, second, first], "{by}");
    }
    let options = Options {
        by: vec![Dimension::SqlId],
        ..Options::default()
    };
    let report = of(trace_meta(), trace_rows(), &options);
    let labels: Vec<&str> = report
        .ledger
        .rows
        .iter()
        .map(|row| row.labels[0].as_str())
        .collect();
    assert_eq!(
        labels,
        ["4vs91dcv7u1p6", "hash 4711", "[unknown]", "4vs91dcv7u1p6"],
        "the hash value stands for what has no sql_id"
    );
}

#[test]
fn latencies_are_grouped_by_blocks_and_drawn() {
    let source = Source::memory(trace_meta(), trace_rows());
    let options = LatencyOptions {
        by: vec![Dimension::Blocks],
        names: vec!["db file scattered read".into()],
        ..LatencyOptions::default()
    };
    let report = latency(&source, &options).expect("latencies");
    let labels: Vec<&str> = report.kinds[0]
        .groups
        .iter()
        .map(|group| group.labels[0].as_str())
        .collect();
    assert_eq!(labels, ["32 blocks", "8 blocks"]);
    let text = text::render_latency(&report, 100);
    has_line(&text, "One event is a wait, as the trace reports it.");
    has_line(&text, "quantiles are accurate to 6 %");
    let map = heat_map(&source, &LatencyOptions::default()).expect("a map");
    assert_eq!(map.total.count(), 107);
    assert!(heat_map_svg::render(&map).contains("</svg>"));
}

#[test]
fn a_recording_on_disk_answers_as_the_rows_did() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("traced.dbt");
    let mut writer = RecordingWriter::create(&path, trace_meta()).expect("a recording");
    writer.write(&trace_rows()).expect("rows");
    writer.finish().expect("the end");
    let from_disk =
        report(&Source::open(&path).expect("a recording"), &Options::default()).expect("a report");
    assert_eq!(from_disk.trace, whole().trace);
}

#[test]
fn hostile_names_and_long_texts_are_harmless() {
    let mut rows = trace_rows();
    let long = format!("{HOSTILE} {}", "x, ".repeat(30_000));
    for statement in &mut rows.statements {
        statement.text = long.clone();
        statement.sql_id = HOSTILE.into();
        for step in &mut statement.plan_steps {
            step.operation = long.clone();
            // Not a tree: steps that are their own parents.
            step.parent = step.id;
        }
    }
    for session in &mut rows.sessions {
        for name in [
            &mut session.service,
            &mut session.module,
            &mut session.action,
            &mut session.client_id,
        ] {
            *name = HOSTILE.into();
        }
    }
    for row in &mut rows.latency {
        row.name = format!("{HOSTILE}:{HOSTILE}").into();
    }
    let mut meta = trace_meta();
    meta.files[0].path = HOSTILE.into();
    let trace = meta.files[0].sql_trace.as_mut().expect("a trace");
    trace.longest_gaps[0].session = HOSTILE.into();
    trace.in_flight[0].session = HOSTILE.into();
    let options = Options {
        trace: TraceOptions {
            plans: true,
            each_literal: true,
            binds: true,
            ..TraceOptions::default()
        },
        ..Options::default()
    };
    let report = of(meta.clone(), rows.clone(), &options);
    let text = text::render(&report, 120);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    assert!(!text.contains('\u{202e}'));
    assert!(text.len() < 60_000, "{} bytes", text.len());
    let by_statement = Options {
        by: vec![Dimension::Statement],
        ..Options::default()
    };
    let report_by = of(meta.clone(), rows.clone(), &by_statement);
    assert!(text::render(&report_by, 120).len() < 60_000);
    assert_eq!(json_of(&report)["trace"]["statements"][0]["text"], long);
}

#[test]
fn impossible_numbers_overflow_nothing() {
    let mut rows = trace_rows();
    for row in &mut rows.counters {
        row.value = if row.name.contains('w') {
            i64::MIN
        } else {
            i64::MAX
        };
        row.time = if row.session == SessionId(1) {
            i64::MIN
        } else {
            i64::MAX
        };
    }
    for row in &mut rows.latency {
        (row.from_ns, row.to_ns, row.count) = (u64::MAX, 0, u64::MAX);
        (row.sum_ns, row.max_ns, row.blocks) = (u64::MAX, u64::MAX, u64::MAX);
    }
    let mut meta = trace_meta();
    let trace = meta.files[0].sql_trace.as_mut().expect("a trace");
    (trace.begin_us, trace.last_tim_us) = (Some(i64::MIN), Some(i64::MAX));
    (trace.cpu_us, trace.wait_us, trace.gaps_us) = (i64::MIN, i64::MIN, u64::MAX);
    let report = of(meta, rows, &Options::default());
    text::render(&report, 80);
    json_of(&report);
}

fn some_waits() -> impl Strategy<Value = Vec<(usize, u64, u64)>> {
    prop::collection::vec((0..4usize, 0..3_000_000u64, 1..50u64), 0..40)
}

proptest! {
    /// Events are the waits of the call view, and statements are too, however they are split.
    #[test]
    fn events_and_statements_add_up_to_the_call_view(waited in some_waits(), session in 0..3u32) {
        let names = [SEQUENTIAL, SCATTERED, "Idle:SQL*Net message from client", "unclassified:of release 30"];
        let mut rows = trace_rows();
        rows.latency.clear();
        rows.counters.clear();
        for (index, (name, us, number)) in waited.iter().enumerate() {
            let of = 1 + (index % 2) as u64;
            let sum = (us * number) as i64;
            let is_idle = *name == 2;
            let latency: LatencyRow = waits(0, of, names[*name], 8, *us, *number);
            rows.latency.push(latency);
            let (all, own) = match is_idle {
                true => (oracle::CALL_IDLE_US, oracle::IDLE_US),
                false => (oracle::CALL_WAIT_US, oracle::WAIT_US),
            };
            let counted: [CounterRow; 2] = [
                count(of, 0, 0, all, sum),
                count(of, index as u64 % 4 * 7, index as u64 % 3, own, sum),
            ];
            rows.counters.extend(counted);
        }
        let options = Options {
            filter: Filter {
                sessions: match session { 0 => vec![], one => vec![4710 + one] },
                ..Filter::default()
            },
            ..Options::default()
        };
        let report = of(trace_meta(), rows, &options);
        let trace = report.trace.as_ref().expect("a trace");
        let view = trace.call_view;
        prop_assert_eq!(trace.events_us(), view.wait_us + view.idle_us);
        let idle: i128 = trace.events.iter().filter(|event| event.idle).map(|event| event.total_us()).sum();
        prop_assert_eq!(idle, view.idle_us);
        let of_statements = |us: fn(&dbtime_report::TracedStatement) -> i128| trace.statements.iter().map(us).sum::<i128>();
        prop_assert_eq!(of_statements(|one| one.wait_us), view.wait_us);
        prop_assert_eq!(of_statements(|one| one.idle_us), view.idle_us);
        let parts: i128 = trace.applications.iter().map(|one| one.time.call_view.wait_us).sum();
        prop_assert_eq!(parts, view.wait_us);
        prop_assert_eq!(trace.profile_us(), view.elapsed_us + view.idle_us);
        for event in &trace.events {
            let columns = dbtime_report::parsetrc_counts(&event.latency);
            prop_assert_eq!(columns.iter().sum::<u128>(), event.latency.count());
        }
        for event in &trace.io_sizes {
            let whole = trace.events.iter().find(|one| one.name == event.event).expect("the event");
            let sum: u128 = event.sizes.iter().map(|size| size.latency.sum_ns()).sum();
            prop_assert_eq!(sum, whole.latency.sum_ns());
            let (top, _, others) = event.top(1);
            prop_assert_eq!(top.iter().map(|size| size.latency.count()).sum::<u128>() + others.count(),
                            whole.latency.count());
        }
    }
}
