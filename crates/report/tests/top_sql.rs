//! Which SQL: how often statements were executed, by whom and where, on hand-made rows.

use crate::hand_made::{CPU, FIRST_SECOND, MS, meta, row, session};
use dbtime_model::counter::{SERVER_STATISTICS, statement_counts};
use dbtime_model::latency::kind;
use dbtime_model::recording::Meta;
use dbtime_model::{ActivityRow, CounterRow, LatencyRow, Rows, SessionId, State};
use dbtime_report::{CountedBy, Filter, Options, Report, Source, json, report, text};

const SECOND: i64 = 1_000_000;
const SELECT: u64 = 42;
const UPDATE: u64 = 43;

/// In each of four seconds session 1 executes SELECT for 300 ms, and session 2 executes both for 100 ms each.
fn rows() -> Rows {
    let mut rows = Rows {
        sessions: vec![
            session(1, 4711, "client backend", "app", "shop"),
            session(2, 4712, "client backend", "report", "shop"),
        ],
        ..Rows::default()
    };
    for second in 0..4 {
        for (id, statement, ms) in [(1, SELECT, 300), (2, SELECT, 100), (2, UPDATE, 100)] {
            rows.activity.push(ActivityRow {
                time: FIRST_SECOND + second * SECOND,
                statement,
                ..row(id, CPU, State::User, ms)
            });
        }
    }
    rows
}

/// In each second session 1 has 30 SELECT commands of 10 ms each, session 2 one of 100 ms, and one more without a known query.
fn with_commands() -> (Meta, Rows) {
    let mut rows = rows();
    for second in 0..4 {
        for (id, statement, count, ms) in [(1, SELECT, 30, 10), (2, SELECT, 1, 100), (2, 0, 1, 1)] {
            rows.latency.push(LatencyRow {
                time: FIRST_SECOND + second * SECOND,
                session: SessionId(id),
                kind: kind::COMMAND.into(),
                statement,
                count,
                sum_ns: count * ms * MS,
                ..LatencyRow::default()
            });
        }
    }
    let mut meta = meta();
    meta.collector.tier = "exact-calls".into();
    (meta, rows)
}

fn ask((meta, rows): &(Meta, Rows), filter: Filter) -> Report {
    let options = Options {
        filter,
        ..Options::default()
    };
    report(&Source::memory(meta.clone(), rows.clone()), &options).expect("a report")
}

/// Calls of SELECT and how long one took, in milliseconds.
fn calls_of_select(report: &Report) -> Option<(u128, u128)> {
    let top = report.top_sql.as_ref().expect("statements");
    let select = top.statements.iter().find(|of| of.id == SELECT);
    let counted = select.expect("it was executed").counted?;
    Some((counted.calls, counted.average_ns()? / u128::from(MS)))
}

fn flowing(report: &Report) -> String {
    let printed = text::render(report, 160);
    printed.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn commands_are_counted_where_the_server_does_not_say_how_often_statements_were_executed() {
    let recorded = with_commands();
    let whole = ask(&recorded, Filter::default());
    // 4 x 31, which took 4 x (300 + 100) ms.
    assert_eq!(calls_of_select(&whole), Some((124, 12)));
    let top = whole.top_sql.as_ref().expect("statements");
    assert_eq!(top.counts.by(), CountedBy::Commands);
    assert_eq!((top.counts.all().calls, top.counts.of_unknown().calls), (128, 4));
    let printed = flowing(&whole);
    for words in ["commands per command", "in all 128 commands", " 124 12.9 ms"] {
        assert!(printed.contains(words), "{words}\n{printed}");
    }
    let answer: serde_json::Value = serde_json::from_str(&json::render(&whole)).expect("JSON");
    assert_eq!(answer["statement_counts"]["source"], "commands");
    let [select, update] = [0, 1].map(|at| &answer["statements"][at]);
    assert_eq!((&select["query"], &select["calls"]), (&"42".into(), &124.into()));
    assert!(select["rows"].is_null() && update["calls"].is_null());

    // Another tier may have durations of events, but not of all commands.
    let (mut meta, rows) = recorded;
    meta.collector.tier = "exact".into();
    assert_eq!(calls_of_select(&ask(&(meta, rows), Filter::default())), None);
}

#[test]
fn commands_are_counted_of_what_is_chosen() {
    let recorded = with_commands();
    let chosen = |filter: Filter| calls_of_select(&ask(&recorded, filter));
    let of_a_session = Filter {
        sessions: vec![4711],
        ..Filter::default()
    };
    assert_eq!(chosen(of_a_session), Some((120, 10)));
    let of_two_seconds = Filter {
        from_us: Some(FIRST_SECOND + SECOND),
        to_us: Some(FIRST_SECOND + 3 * SECOND),
        ..Filter::default()
    };
    assert_eq!(chosen(of_two_seconds), Some((62, 12)));
    // Commands are not split by wait and state: how many there are in a part is not known.
    let on_cpu = Filter {
        states: vec![State::User],
        ..Filter::default()
    };
    assert_eq!(chosen(on_cpu), None);
    let of_a_query = Filter {
        statements: vec![SELECT],
        ..Filter::default()
    };
    let of_a_query = ask(&recorded, of_a_query);
    assert_eq!(calls_of_select(&of_a_query), Some((124, 12)));
    let top = of_a_query.top_sql.as_ref().expect("statements");
    assert_eq!(top.counts.all().calls, 124);
}

#[test]
fn what_pg_stat_statements_says_goes_before_commands_but_not_of_single_sessions() {
    let (meta, mut rows) = with_commands();
    for (name, value) in [
        (statement_counts::CALLS, 125),
        (statement_counts::ROWS, 250),
        (statement_counts::EXECUTION_NS, 1_250 * MS as i64),
    ] {
        rows.counters.push(CounterRow {
            time: FIRST_SECOND,
            statement: SELECT,
            source: SERVER_STATISTICS.into(),
            name: name.into(),
            value,
            ..CounterRow::default()
        });
    }
    let recorded = (meta, rows);
    let whole = ask(&recorded, Filter::default());
    assert_eq!(calls_of_select(&whole), Some((125, 10)));
    let printed = flowing(&whole);
    assert!(
        printed.contains("calls rows per call") && printed.contains("pg_stat_statements"),
        "{printed}"
    );
    let of_a_session = Filter {
        sessions: vec![4712],
        ..Filter::default()
    };
    assert_eq!(calls_of_select(&ask(&recorded, of_a_session)), Some((4, 100)));
}

#[test]
fn commands_for_which_there_was_no_room_make_the_others_the_least() {
    let (mut meta, rows) = with_commands();
    meta.quality.latencies_lost = 9;
    let printed = flowing(&ask(&(meta, rows), Filter::default()));
    for words in [">=124", "no room for 9 single events"] {
        assert!(printed.contains(words), "{words}\n{printed}");
    }
}

#[test]
fn the_only_user_and_the_only_database_have_a_word_of_their_own() {
    let answer = ask(&with_commands(), Filter::default());
    let answer: serde_json::Value = serde_json::from_str(&json::render(&answer)).expect("JSON");
    let [select, update] = [0, 1].map(|at| &answer["statements"][at]);
    assert_eq!(select["users"], serde_json::json!(["app", "report"]));
    assert_eq!(select["user"], serde_json::Value::Null);
    assert_eq!(
        (&select["database"], &select["databases"]),
        (&"shop".into(), &serde_json::json!(["shop"]))
    );
    assert_eq!(
        (&update["user"], &update["database"]),
        (&"report".into(), &"shop".into())
    );
}
