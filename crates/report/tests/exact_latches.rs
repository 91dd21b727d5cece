//! Counted uses of internal locks, made by hand, beside what samples found.

use arcstr::ArcStr;
use dbtime_model::{
    ActivityRow, HeldLockRow, LockUse, LockUseSums, LockUses, NO_STACK, Rows, SessionId, State,
};
use dbtime_report::{
    Filter, HoldMode, LatchColumn, LatchOptions, LatchReport, Source, json, latches_and_uses, text,
};

use crate::hand_made::{CPU, FIRST_SECOND, MS, meta, row, session, stack};

/// Session 1 takes ProcArray exclusively 100 times, waits 10 times, 4 ms each, and holds it for 2 ms each; shared 50 times, for 1 ms each.
/// Session 2 takes it shared 10 times, and one of two partitions once. Samples find 190 ms of the first.
fn report(filter: Filter, columns: &[LatchColumn]) -> LatchReport {
    let mut rows = Rows::default();
    rows.sessions.push(session(1, 11, "client backend", "ann", "d"));
    rows.sessions.push(session(2, 22, "client backend", "bob", "d"));
    rows.activity = [1, 2]
        .map(|n| ActivityRow {
            statement: n,
            ..row(n, CPU, State::User, 900)
        })
        .to_vec();
    let code = stack(&["GetSnapshotData", "ProcArrayAdd"], "postgres");
    rows.held_locks.push(HeldLockRow {
        time: FIRST_SECOND,
        session: SessionId(1),
        statement: 0,
        lock: "ProcArray".into(),
        number: None,
        address: 64,
        file: ArcStr::new(),
        relation: ArcStr::new(),
        block: None,
        exclusive: true,
        mode_unknown: false,
        wait_class: "CPU".into(),
        wait_event: "CPU".into(),
        state: State::User,
        kernel_stack: NO_STACK,
        user_stack: NO_STACK,
        ns: 190 * MS,
        samples: 19,
        gets: 0,
    });
    let used = |session: u64, lock: &str, exclusive: bool, gets: u64, hold_ms: u64| LockUse {
        session: SessionId(session),
        lock: lock.into(),
        number: None,
        address: 64,
        file: ArcStr::new(),
        relation: ArcStr::new(),
        block: None,
        exclusive,
        user_stack: code.id,
        statement: session,
        sums: LockUseSums {
            gets,
            holds: gets,
            hold_ns: gets * hold_ms * MS,
            max_hold_ns: hold_ms * MS + 1,
            ..LockUseSums::default()
        },
    };
    let with = |used: LockUse, waited: u64, refused: u64| LockUse {
        sums: LockUseSums {
            waited,
            wait_ns: waited * 4 * MS,
            max_wait_ns: if waited > 0 { 9 * MS } else { 0 },
            refused,
            ..used.sums
        },
        ..used
    };
    let uses = LockUses {
        uses: vec![
            with(used(1, "ProcArray", true, 100, 2), 10, 0),
            used(1, "ProcArray", false, 50, 1),
            used(2, "ProcArray", false, 10, 1),
            LockUse {
                number: Some(5),
                ..with(used(2, "BufferMapping", true, 1, 7), 0, 3)
            },
        ],
        from_us: FIRST_SECOND,
        to_us: FIRST_SECOND + 1_000_000,
        elapsed_ns: 1_000 * MS,
        probed_ns: 2_000 * MS,
        hits: 200_000,
        hits_of_others: 50_000,
        hit_ns: 500,
        lost: 0,
        without_get: 2,
        holds_without_room: 0,
        stopped: None,
    };
    rows.stacks.push(code.clone());
    let mut meta = meta();
    meta.database.held_locks = true;
    let options = LatchOptions {
        filter,
        columns: columns.to_vec(),
        ..LatchOptions::default()
    };
    latches_and_uses(&Source::memory(meta, rows), Some(&uses), &options).expect("nothing is wrong")
}

#[test]
fn uses_are_added_up_by_mode_session_and_place() {
    let report = report(Filter::default(), &[]);
    let exact = report.exact.as_ref().expect("it was counted");
    let alone = exact.of("ProcArray", HoldMode::Exclusive).expect("uses");
    assert_eq!(
        (alone.gets, alone.waits, alone.mean_wait_ns()),
        (100, 10, 4 * u128::from(MS))
    );
    assert_eq!(
        (alone.held_ns, alone.mean_hold_ns()),
        (200 * u128::from(MS), 2 * u128::from(MS))
    );
    assert_eq!((alone.max_hold_ns, alone.max_wait_ns), (2 * MS + 1, 9 * MS));
    let shared = exact.of("ProcArray", HoldMode::Shared).expect("uses");
    assert_eq!((shared.gets, shared.held_ns), (60, 60 * u128::from(MS)));
    assert_eq!(exact.of("BufferMapping", HoldMode::Shared), None);
    let names: Vec<&str> = exact.latches.iter().map(|latch| latch.name.as_str()).collect();
    assert_eq!(names, ["ProcArray", "BufferMapping"], "the longest first");
    let sessions: Vec<_> = exact.latches[0]
        .sessions
        .iter()
        .map(|one| (one.session.as_str(), one.user.as_str(), one.sums.gets))
        .collect();
    assert_eq!(sessions, [("11", "ann", 150), ("22", "bob", 10)]);
    let places: Vec<_> = exact.latches[0].places.iter().map(|one| one.sums.gets).collect();
    assert_eq!(places, [160]);
    let statements: Vec<_> = exact.latches[0]
        .statements
        .iter()
        .map(|one| (one.statement, one.sums.gets))
        .collect();
    assert_eq!(statements, [(1, 150), (2, 10)]);
    assert_eq!((exact.gets, exact.use_cost_ns), (161, 1_000));
    // 200,000 hits of 500 ns in two seconds.
    assert!((exact.cpu - 0.05).abs() < 1e-9 && (exact.cpu_of_others - 0.0125).abs() < 1e-9);

    let said = text::render_latches(&report, 140);
    for part in [
        "161 gets and releases a second",
        "1.00 us more",
        "5.0 % of one CPU (1.2 % in other servers",
        "2 releases of locks that had been taken before",
        "(exact; sampled %",
        "3 attempts to take a lock without waiting failed",
        "GetSnapshotData > ProcArrayAdd",
        "pid 11, client backend of ann",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let line = said
        .lines()
        .find(|line| line.contains("ProcArray") && line.contains("exclusive"));
    let numbers: Vec<&str> = line.expect("a row").split_ascii_whitespace().skip(2).collect();
    // Per second: over one second by probes, over four by samples.
    assert_eq!(
        numbers,
        [
            "100", "10", "0.040", "4000", "0.200", "2000", "2000", "20.0", "4.8"
        ]
    );
    let document: serde_json::Value = serde_json::from_str(&json::render_latches(&report)).expect("JSON");
    let latch = &document["exact"]["latches"][0];
    assert_eq!(latch["exclusive"]["wait_ns"], 40 * MS);
    assert_eq!(latch["sessions"][1]["gets"], 10);
    assert_eq!(latch["single"][0]["address"], "0x40");
}

#[test]
fn what_uses_are_not_known_by_is_said_and_nothing_is_shown() {
    let of_bob = Filter {
        sessions: vec![22],
        ..Filter::default()
    };
    let report_of_bob = report(of_bob, &[]);
    let exact = report_of_bob.exact.as_ref().expect("it was counted");
    assert_eq!(exact.of("ProcArray", HoldMode::Exclusive), None);
    assert_eq!(
        exact.of("ProcArray", HoldMode::Shared).map(|sums| sums.gets),
        Some(10)
    );
    // Whichever sessions are chosen, that is what the probes cost.
    assert_eq!(exact.gets, 161);

    let of_statement = Filter {
        statements: vec![2],
        ..Filter::default()
    };
    let exact_of_statement = report(of_statement, &[]).exact.expect("it was counted");
    assert_eq!(exact_of_statement.latches[0].sessions.len(), 1);

    let on_cpu = Filter {
        states: vec![State::User],
        ..Filter::default()
    };
    let report_of_state = report(on_cpu, &[LatchColumn::Name, LatchColumn::Where]);
    let exact = report_of_state.exact.as_ref().expect("it was counted");
    assert_eq!(exact.not_by, ["state", "where"]);
    assert!(exact.latches.is_empty());
    let said = text::render_latches(&report_of_state, 140);
    assert!(said.contains("cannot be broken down by state, where"), "{said}");
}

#[test]
fn columns_have_what_was_counted_beside_what_was_sampled() {
    let by_mode = report(Filter::default(), &[LatchColumn::Name, LatchColumn::Mode]);
    let rows: Vec<_> = by_mode
        .profile
        .iter()
        .map(|row| {
            let cells: Vec<&str> = row.cells.iter().map(String::as_str).collect();
            (
                cells.join(" "),
                row.ns / MS as u128,
                row.exact.map(|sums| sums.gets),
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            ("ProcArray exclusive".to_string(), 190, Some(100)),
            ("ProcArray shared".to_string(), 0, Some(60)),
            ("BufferMapping exclusive".to_string(), 0, Some(1)),
        ]
    );
    let said = text::render_latches(&by_mode, 140);
    assert!(said.contains("held s (exact)"), "{said}");
}
