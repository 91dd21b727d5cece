//! Snapshots of a part of the sessions' time, on hand-made rows.

use dbtime_model::counter::{SERVER_STATISTICS, statement_counts};
use dbtime_model::latency::kind;
use dbtime_model::recording::Meta;
use dbtime_model::{ActivityRow, CounterRow, LatencyRow, Rows, SessionId, State, counter};
use dbtime_report::{
    Dimension, Filter, LineKind, Snapshot, SnapshotColumn, SnapshotOptions, Source, json, snapshot, text,
};

use crate::hand_made::{CPU, FIRST_SECOND, MS, READ, meta, row, session};

const SELECT: u64 = 42;
const UPDATE: u64 = 43;

/// In milliseconds, with the number of waits that ended:
///
/// | session | statement | wait | user | kernel | disk | waits |
/// |---|---|---|---|---|---|---|
/// | 1 | SELECT | CPU | 300 | | | |
/// | 1 | SELECT | IO:DataFileRead | | 50 | 150 | 4 |
/// | 1 | UPDATE | IO:DataFileRead | | | 700 | 10 |
/// | 2 | UPDATE | CPU | 900 | | | |
///
/// Each session made 1,000 system calls; the server counted 7 executions of SELECT and 8 of UPDATE.
fn recorded() -> (Meta, Rows) {
    let mut rows = Rows {
        sessions: vec![
            session(1, 4711, "client backend", "app", "shop"),
            session(2, 4712, "client backend", "app", "shop"),
        ],
        ..Rows::default()
    };
    for (id, statement, wait, state, ms) in [
        (1, SELECT, CPU, State::User, 300),
        (1, SELECT, READ, State::Kernel, 50),
        (1, SELECT, READ, State::Disk, 150),
        (1, UPDATE, READ, State::Disk, 700),
        (2, UPDATE, CPU, State::User, 900),
    ] {
        rows.activity.push(ActivityRow {
            statement,
            ..row(id, wait, state, ms)
        });
    }
    for (statement, count, ms) in [(SELECT, 4, 200), (UPDATE, 10, 700)] {
        rows.latency.push(LatencyRow {
            time: FIRST_SECOND,
            session: SessionId(1),
            kind: kind::WAIT.into(),
            statement,
            name: "IO:DataFileRead".into(),
            count,
            sum_ns: ms * MS,
            ..LatencyRow::default()
        });
    }
    for (id, source, name, statement, value) in [
        (1, counter::KERNEL, "syscr", 0, 1_000),
        (2, counter::KERNEL, "syscr", 0, 1_000),
        (0, SERVER_STATISTICS, statement_counts::CALLS, SELECT, 7),
        (0, SERVER_STATISTICS, statement_counts::CALLS, UPDATE, 8),
        (0, SERVER_STATISTICS, "pg_stat_database.xact_commit", 0, 15),
    ] {
        rows.counters.push(CounterRow {
            time: FIRST_SECOND,
            session: SessionId(id),
            source: source.into(),
            name: name.into(),
            statement,
            value,
            ..CounterRow::default()
        });
    }
    let mut meta = meta();
    meta.collector.tier = "exact-calls".into();
    meta.collector.task_counts = true;
    (meta, rows)
}

fn ask((meta, rows): (Meta, Rows), filter: Filter) -> Snapshot {
    let options = SnapshotOptions {
        filter,
        gather: LineKind::ALL.to_vec(),
        ash: vec![Dimension::Query],
        ..SnapshotOptions::default()
    };
    snapshot(&Source::memory(meta, rows), &options).expect("a snapshot")
}

fn of_query(id: u64) -> Filter {
    Filter {
        statements: vec![id],
        ..Filter::default()
    }
}

/// Growth by pid, kind and name; times in milliseconds.
fn lines(snapshot: &Snapshot) -> Vec<(u32, &'static str, String, i128)> {
    let mut lines = Vec::new();
    for one in &snapshot.sessions {
        for line in &one.lines {
            let unit = match line.kind {
                LineKind::Stat => 1,
                LineKind::Time | LineKind::Wait | LineKind::Latch | LineKind::Lock => i128::from(MS),
            };
            let growth = line.growth / unit;
            lines.push((one.session.pid, line.kind.as_str(), line.name.clone(), growth));
        }
    }
    lines
}

fn line(pid: u32, kind: &'static str, name: &str, growth: i128) -> (u32, &'static str, String, i128) {
    (pid, kind, name.to_string(), growth)
}

/// How many waits of the only wait event ended.
fn waits(snapshot: &Snapshot) -> Option<u64> {
    let lines = snapshot.sessions.iter().flat_map(|one| &one.lines);
    let waits: Vec<Option<u64>> = lines
        .filter(|line| line.kind == LineKind::Wait)
        .map(|line| line.waits)
        .collect();
    assert_eq!(waits.len(), 1, "{snapshot:#?}");
    waits[0]
}

/// Average active sessions, all together, in milliseconds.
fn active_ms(snapshot: &Snapshot) -> u128 {
    let ledger = snapshot.active.as_ref().expect("it was asked for");
    let sum: u128 = ledger.rows.iter().map(|row| row.sums.total_ns()).sum();
    sum / u128::from(MS)
}

fn printed(snapshot: &Snapshot) -> String {
    let text = text::render_snapshot(snapshot, &SnapshotColumn::USUAL, 200);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn of_a_query_there_is_its_own_time_and_what_the_server_counts_of_it() {
    let shown = ask(recorded(), of_query(SELECT));
    let of_server = statement_counts::PREFIX.to_string() + "42.calls";
    let mut found = lines(&shown);
    found.sort();
    let mut expected = vec![
        line(4711, "TIME", "DB time", 500),
        line(4711, "TIME", "DB CPU", 350),
        line(4711, "TIME", "DB time, user", 300),
        line(4711, "TIME", "DB time, kernel", 50),
        line(4711, "TIME", "DB time, disk", 150),
        line(4711, "WAIT", "IO:DataFileRead", 200),
        line(0, "STAT", &of_server, 7),
    ];
    expected.sort();
    assert_eq!(found, expected);
    assert_eq!(waits(&shown), Some(4));
    assert_eq!(shown.total.db_time_ns / u128::from(MS), 500);
    assert_eq!(active_ms(&shown), 500);
    let text = printed(&shown);
    assert!(
        text.contains("Only query 42") && text.contains("Other statistics are left out"),
        "{text}"
    );
    let json = json::render_snapshot(&shown);
    assert!(json.contains("\"statistics_left_out\":true"), "{json}");
}

#[test]
fn what_all_queries_have_is_what_there_is() {
    let whole = ask(recorded(), Filter::default());
    let each = [SELECT, UPDATE].map(|id| ask(recorded(), of_query(id)));
    for (kind, name) in [
        ("TIME", "DB time"),
        ("TIME", "DB CPU"),
        ("TIME", "DB time, disk"),
        ("WAIT", "IO:DataFileRead"),
    ] {
        let sum = |snapshot: &Snapshot| -> i128 {
            let lines = lines(snapshot).into_iter();
            lines
                .filter(|(_, of, called, _)| *of == kind && called == name)
                .map(|(.., growth)| growth)
                .sum()
        };
        assert_eq!(each.iter().map(sum).sum::<i128>(), sum(&whole), "{name}");
        assert_ne!(sum(&whole), 0, "{name}");
    }
    assert_eq!(active_ms(&whole), 2_100);
    assert_eq!(each.iter().map(active_ms).sum::<u128>(), 2_100);
    assert_eq!(waits(&whole), Some(14));
    let calls = lines(&whole).into_iter().filter(|(.., name, _)| name == "syscr");
    assert_eq!(calls.count(), 2);
    let text = printed(&whole);
    assert!(!text.contains("left out"), "{text}");
    let json = json::render_snapshot(&whole);
    assert!(!json.contains("statistics_left_out"), "{json}");
}

#[test]
fn of_a_wait_or_a_state_there_is_that_time_alone() {
    let of_wait = ask(
        recorded(),
        Filter {
            waits: vec!["IO".to_string()],
            ..Filter::default()
        },
    );
    let found = lines(&of_wait);
    assert!(
        found.contains(&line(4711, "TIME", "DB time", 900))
            && found.contains(&line(4711, "WAIT", "IO:DataFileRead", 900)),
        "{found:?}"
    );
    // The other session had none, and counters are not counted by wait.
    assert!(
        found
            .iter()
            .all(|(pid, kind, ..)| *pid == 4711 && *kind != "STAT"),
        "{found:?}"
    );
    assert_eq!(waits(&of_wait), Some(14));
    let of_state = ask(
        recorded(),
        Filter {
            states: vec![State::Kernel],
            ..Filter::default()
        },
    );
    let found = lines(&of_state);
    assert!(
        found.contains(&line(4711, "WAIT", "IO:DataFileRead", 50)) && found.len() == 4,
        "{found:?}"
    );
    // A wait ends once, and has many states.
    assert_eq!(waits(&of_state), None);
    let text = printed(&of_state);
    assert!(text.contains("How many waits ended is not counted"), "{text}");
}

#[test]
fn how_many_waits_ended_is_not_known_by_query_where_an_older_dbtime_recorded_it() {
    let (mut meta, rows) = recorded();
    meta.schema = "1.16".into();
    assert_eq!(waits(&ask((meta, rows), of_query(SELECT))), None);
}
