//! Commands by statement, on hand-made rows.

use dbtime_model::latency::{bounds_of, broad_bounds_of, bucket_of, kind};
use dbtime_model::recording::Meta;
use dbtime_model::{LatencyRow, Rows, SessionId, StatementRow};
use dbtime_report::{
    Cause, CauseTime, CommandOptions, Filter, LatencyOptions, ReportError, Source, commands, json, latency,
    text,
};

const SECOND: i64 = 1_000_000;
/// A query id that is shown as a negative number.
const FAST: u64 = u64::MAX - 41;
const SLOW: u64 = 7;

/// `count` commands that took `us` each: the parts are wait, state and their microseconds.
fn command(rows: &mut Rows, statement: u64, us: u64, count: u64, parts: &[(&str, &str, u64)]) {
    assert_eq!(parts.iter().map(|(.., us)| us).sum::<u64>(), us);
    let bucket = bucket_of(us * 1_000);
    let row = |kind: &str, (from_ns, to_ns), us: u64| LatencyRow {
        time: SECOND,
        kind: kind.into(),
        statement,
        from_ns,
        to_ns,
        count,
        sum_ns: count * us * 1_000,
        max_ns: us * 1_000,
        ..LatencyRow::default()
    };
    rows.latency.push(LatencyRow {
        session: SessionId(1),
        ..row(kind::COMMAND, bounds_of(bucket), us)
    });
    rows.latency
        .push(row(kind::COMMAND_WHOLE, broad_bounds_of(bucket), us));
    for (wait, state, us) in parts {
        rows.latency.push(LatencyRow {
            count: 0,
            name: (*wait).into(),
            source: (*state).into(),
            ..row(kind::COMMAND_PART, broad_bounds_of(bucket), *us)
        });
    }
}

fn source() -> Source {
    let mut rows = Rows::default();
    command(
        &mut rows,
        FAST,
        300,
        5_000,
        &[("CPU", "cpu", 250), ("CPU", "runnable", 50)],
    );
    command(
        &mut rows,
        SLOW,
        1_000,
        970,
        &[("CPU", "cpu", 900), ("IO:DataFileRead", "kernel", 100)],
    );
    command(
        &mut rows,
        SLOW,
        40_000,
        30,
        &[
            ("CPU", "cpu", 1_000),
            ("CPU", "runnable", 3_000),
            ("IO:DataFileRead", "kernel", 100),
            ("IO:DataFileRead", "disk", 4_900),
            ("Lock:transactionid", "sleep", 31_000),
        ],
    );
    for (id, text) in [
        (FAST, "SELECT a FROM t WHERE id = ?"),
        (SLOW, "UPDATE t SET a = ?"),
    ] {
        rows.statements.push(StatementRow {
            id,
            text: text.to_string(),
            ..StatementRow::default()
        });
    }
    let meta = Meta {
        start_us: SECOND,
        end_us: 2 * SECOND,
        ..Meta::default()
    };
    Source::memory(meta, rows)
}

#[test]
fn what_separates_the_slow_ones_is_said() {
    let report = commands(&source(), &CommandOptions::default()).expect("commands");
    let slow = &report
        .statements
        .iter()
        .find(|of| of.id == SLOW)
        .expect("it")
        .commands;
    assert_eq!(slow.latencies.count(), 1_000);
    let causes = slow.causes();
    assert_eq!(causes[0].cause.to_string(), "Lock:transactionid");
    let nanoseconds = |of: &CauseTime| (of.median_ns.round(), of.slow_ns.round());
    assert_eq!(nanoseconds(&causes[0]), (0.0, 31e6));
    assert_eq!(causes[1].cause.to_string(), "IO:DataFileRead");
    assert_eq!(nanoseconds(&causes[1]), (1e5, 5e6));
    assert_eq!(
        (causes[2].cause.clone(), nanoseconds(&causes[2])),
        (Cause::RunQueue, (0.0, 3e6))
    );
    for ledger in [&slow.median, &slow.slow] {
        let ledger = ledger.as_ref().expect("enough commands");
        let sum: f64 = ledger.rows.iter().map(|row| row.ns).sum();
        assert!((sum - ledger.mean_ns).abs() < 1.0, "{ledger:?}");
    }
    let printed = text::render_commands(&report, 140);
    for words in [
        "Query -42: SELECT a FROM t WHERE id = ?",
        "Query 7: UPDATE t SET a = ?",
        "p99 is 40.0 ms. The slowest 10 take 40.0 ms on average, and 40.0 ms at most, those of the middle half 1.00 ms: 31.0 ms Lock:transactionid, against 0; \
         5.00 ms IO:DataFileRead",
        "+31.000",
    ] {
        let flowing = printed.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flowing.contains(words), "{words}\n{printed}");
    }
    let document: serde_json::Value = serde_json::from_str(&json::render_commands(&report)).expect("JSON");
    let of = &document["statements"][1];
    assert_eq!(of["query"], "-42");
    assert_eq!(
        (of["count"].clone(), of["total_ns"].clone()),
        (5_000.into(), 1_500_000_000.into())
    );
    assert_eq!(of["ledger"]["median"][0]["wait"], "CPU");
    assert_eq!(document["all"]["count"], 6_000);
}

#[test]
fn commands_are_chosen_by_statement_and_time_only() {
    let ask = |filter: Filter| {
        let options = CommandOptions {
            filter,
            ..CommandOptions::default()
        };
        commands(&source(), &options)
    };
    let one = ask(Filter {
        statements: vec![SLOW],
        ..Filter::default()
    });
    let one = one.expect("it is there");
    assert_eq!((one.statements.len(), one.all.latencies.count()), (1, 1_000));
    let absent = ask(Filter {
        statements: vec![8],
        ..Filter::default()
    });
    let error = absent.expect_err("nothing of it").to_string();
    assert!(error.contains("-42") && error.contains('7'), "{error}");
    let by_wait = ask(Filter {
        waits: vec!["CPU".to_string()],
        ..Filter::default()
    });
    assert_eq!(by_wait, Err(ReportError::CommandsAreWhole));
    let later = ask(Filter {
        from_us: Some(2 * SECOND),
        ..Filter::default()
    });
    assert_eq!(later.expect("an empty part").all.latencies.count(), 0);
}

#[test]
fn latencies_have_commands_by_query_and_none_of_their_parts() {
    let report = latency(&source(), &LatencyOptions::default()).expect("latencies");
    assert_eq!(report.recorded_kinds, [kind::COMMAND]);
    let groups: Vec<(&str, u128)> = report.kinds[0]
        .groups
        .iter()
        .map(|group| (group.labels[0].as_str(), group.histogram.count()))
        .collect();
    assert_eq!(groups, [("7", 1_000), ("-42", 5_000)]);
}

#[test]
fn commands_of_which_no_query_is_known_are_called_unknown() {
    let mut rows = Rows::default();
    command(&mut rows, 0, 100, 3, &[("CPU", "cpu", 100)]);
    let source = Source::memory(Meta::default(), rows);
    let report = latency(&source, &LatencyOptions::default()).expect("latencies");
    assert_eq!(report.kinds[0].groups[0].labels, ["[unknown]"]);
    let named = LatencyOptions {
        names: vec!["[unknown]".to_string()],
        ..LatencyOptions::default()
    };
    let report = latency(&source, &named).expect("they have this name");
    assert_eq!(report.kinds[0].total.count(), 3);
    let slow = commands(&source, &CommandOptions::default()).expect("commands");
    let printed = text::render_commands(&slow, 140);
    assert!(printed.contains("[unknown]"), "{printed}");
}
