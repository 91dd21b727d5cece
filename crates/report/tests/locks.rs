//! Who had heavyweight locks and who waited for them, on hand-made rows.

use dbtime_model::{CounterRow, LockRow, Rows, SessionId, SessionState, State, StatementRow};
use dbtime_report::{
    Dimension, Filter, LatchOptions, LineKind, LockReport, SnapshotOptions, Source, Whose, json, latches,
    snapshot, text,
};

use crate::hand_made::{CPU, FIRST_SECOND, MS, meta, row, session};

fn lock(session: u64, mode: &str, granted: bool, ms: u64, longest_ms: u64) -> LockRow {
    LockRow {
        time: FIRST_SECOND,
        session: SessionId(session),
        kind: "relation".into(),
        database: Some(5),
        relation: Some(16_390),
        mode: mode.into(),
        granted,
        ns: ms * MS,
        looks: ms / 100,
        longest_ns: longest_ms * MS,
        ..LockRow::default()
    }
}

/// Session 1, idle in its transaction, holds a lock on a relation, and 2 waits for it; a prepared transaction and a process that is not
/// recorded hold one, too. 2 holds an advisory lock for long.
fn rows() -> Rows {
    let mut rows = Rows::default();
    rows.sessions.push(session(1, 11, "client backend", "a", "shop"));
    rows.sessions.push(session(2, 22, "client backend", "b", "shop"));
    rows.activity = vec![
        row(1, CPU, State::User, 100),
        row(2, ("Lock", "relation", false), State::Sleep, 800),
    ];
    rows.statements.push(StatementRow {
        id: 7,
        text: "UPDATE t SET n = $1".into(),
        ..StatementRow::default()
    });
    rows.locks = vec![
        LockRow {
            statement: 7,
            session_state: SessionState::IdleInTransaction,
            ..lock(1, "RowExclusiveLock", true, 900, 40_000)
        },
        LockRow {
            time: FIRST_SECOND + 1_000_000,
            statement: 7,
            session_state: SessionState::IdleInTransaction,
            fast_path: true,
            ..lock(1, "RowExclusiveLock", true, 100, 41_000)
        },
        lock(2, "ExclusiveLock", false, 800, 3_000),
        LockRow {
            prepared: Some(700),
            ..lock(0, "RowShareLock", true, 900, 900)
        },
        LockRow {
            pid: 33,
            ..lock(0, "ShareLock", true, 300, 300)
        },
        LockRow {
            kind: "advisory".into(),
            relation: None,
            classid: Some(0),
            objid: Some(42),
            objsubid: Some(1),
            ..lock(2, "ShareLock", true, 900, 2_000)
        },
    ];
    for (name, value) in [("looks", 10), ("looked_ns", 1_000_000_000), ("torn", 2)] {
        rows.counters.push(CounterRow {
            time: FIRST_SECOND,
            session: SessionId::RECORDER,
            source: "lock table".into(),
            name: name.into(),
            value,
            ..CounterRow::default()
        });
    }
    rows
}

fn source() -> Source {
    let mut meta = meta();
    meta.database.held_locks = true;
    meta.database.locks = true;
    Source::memory(meta, rows())
}

fn asked(filter: Filter) -> LockReport {
    let options = LatchOptions {
        filter,
        ..LatchOptions::default()
    };
    latches(&source(), &options).expect("nothing is wrong").locks
}

#[test]
fn who_has_a_lock_and_who_waits_for_it_stand_together() {
    let report = asked(Filter::default());
    let names: Vec<String> = report.locks.iter().map(|lock| lock.target.to_string()).collect();
    assert_eq!(names, ["relation 16390 in shop", "advisory 42 in shop"]);
    assert_eq!(
        (report.looks, report.torn, report.looked_ns),
        (10, 2, 1_000_000_000)
    );
    let relation = &report.locks[0];
    let ms = u128::from(MS);
    assert_eq!((relation.held_ns, relation.waited_ns), (2_200 * ms, 800 * ms));
    assert_eq!(
        (
            relation.longest_held_ns,
            relation.longest_waited_ns,
            relation.waiters
        ),
        (41_000 * MS, 3_000 * MS, 1)
    );
    // Holders before waiters, the longest first; for the two rows of the first one, their sum and the longest.
    let uses: Vec<_> = relation
        .requests
        .iter()
        .map(|of| (of.pid, of.prepared, of.recorded, of.granted, of.ns / ms))
        .collect();
    assert_eq!(
        uses,
        [
            (Some(11), None, true, true, 1_000),
            (None, Some(700), true, true, 900),
            (Some(33), None, false, true, 300),
            (Some(22), None, true, false, 800),
        ]
    );
    assert!(relation.requests[0].fast_path && !relation.requests[1].fast_path);
}

#[test]
fn a_filter_chooses_holders_and_waiters_and_who_is_no_session_is_in_none() {
    let pids = |filter: Filter| -> Vec<Option<u32>> {
        let report = asked(filter);
        report
            .locks
            .iter()
            .flat_map(|lock| &lock.requests)
            .map(|of| of.pid)
            .collect()
    };
    let of_session = |pid| Filter {
        sessions: vec![pid],
        ..Filter::default()
    };
    // Who waits for a lock that it holds waits for it.
    assert_eq!(pids(of_session(11)), [Some(11), Some(22)]);
    assert_eq!(pids(of_session(22)), [Some(22), Some(22)]);
    // One that was idle but held a lock is found by its statement.
    let of_statement = Filter {
        statements: vec![7],
        ..Filter::default()
    };
    assert_eq!(pids(of_statement), [Some(11), Some(22)]);
    let of_wait = Filter {
        waits: vec!["Lock:relation".into()],
        ..Filter::default()
    };
    assert_eq!(pids(of_wait), [Some(22)]);
}

#[test]
fn text_and_json_say_what_is_not_known() {
    let report = latches(&source(), &LatchOptions::default()).expect("nothing is wrong");
    let said = text::render_latches(&report, 160);
    for expected in [
        "10 samples of the server's lock table, which stand for 1.000 s. 2 locks were dropped",
        ">= 41.000",
        "prepared transaction 700 (no process has it: pg_prepared_xacts)",
        "pid 33, which is not recorded",
        "pid 11, client backend, idle in transaction, last: UPDATE t SET n = $1",
        "held (fast path)",
    ] {
        assert!(said.contains(expected), "no '{expected}' in\n{said}");
    }
    let said: serde_json::Value = serde_json::from_str(&json::render_latches(&report)).expect("JSON");
    let relation = &said["locks"]["locks"][0];
    assert_eq!(
        (&relation["type"], &relation["relation"]),
        (&"relation".into(), &16_390.into())
    );
    assert_eq!(relation["requests"][3]["granted"], false);
    assert_eq!(relation["requests"][0]["session_state"], "idle in transaction");
    // A recording without them.
    let without = latches(&Source::memory(meta(), Rows::default()), &LatchOptions::default())
        .expect("nothing is wrong");
    let said = text::render_latches(&without, 160);
    assert!(
        said.contains("The lock table (heavyweight locks, pg_locks) is not in this recording"),
        "{said}"
    );
    let said: serde_json::Value = serde_json::from_str(&json::render_latches(&without)).expect("JSON");
    assert!(said["locks"].is_null());
}

#[test]
fn a_snapshot_says_for_how_long_a_session_had_and_awaited_each_lock() {
    let lines = |filter: Filter| {
        let options = SnapshotOptions {
            filter,
            gather: vec![LineKind::Lock],
            ..SnapshotOptions::default()
        };
        let found = snapshot(&source(), &options).expect("a snapshot");
        let sessions = found.sessions.into_iter();
        sessions
            .flat_map(|one| {
                let pid = one.session.pid;
                one.lines
                    .into_iter()
                    .map(move |line| (pid, line.name, line.growth))
            })
            .collect::<Vec<_>>()
    };
    let ms = |ms: i128| ms * i128::from(MS);
    let of_2 = [
        (22, "advisory 42 in shop, ShareLock held".to_string(), ms(900)),
        (
            22,
            "relation 16390 in shop, ExclusiveLock awaited".to_string(),
            ms(800),
        ),
    ];
    // 900 and 100 ms; the prepared transaction and the process that is not recorded have no session.
    let of_1 = (
        11,
        "relation 16390 in shop, RowExclusiveLock held".to_string(),
        ms(1_000),
    );
    let mut all = lines(Filter::default());
    all.sort();
    assert_eq!(all, [&[of_1][..], &of_2].concat());
    let of_b = Filter {
        facts: vec![(Dimension::User, "b".to_string())],
        ..Filter::default()
    };
    assert_eq!(lines(of_b), of_2);
    let foreground = Filter {
        whose: Whose::Foreground,
        ..Filter::default()
    };
    let mut of_clients = lines(foreground);
    of_clients.sort();
    assert_eq!(of_clients, all);
}
