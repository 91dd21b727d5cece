//! Who held internal locks, on hand-made rows.

use arcstr::ArcStr;
use dbtime_model::{ActivityRow, HeldLockRow, NO_STACK, Rows, SessionId, State};
use dbtime_report::{
    Filter, Latch, LatchOptions, LatchReport, LineKind, SnapshotOptions, Source, json, latches, snapshot,
    text,
};

use crate::hand_made::{CPU, FIRST_SECOND, MS, meta, row, session, stack};

const SYNC: (&str, &str, bool) = ("IO", "WALSync", false);

fn held(session: u64, lock: &str, wait: (&str, &str, bool), state: State, ms: u64) -> HeldLockRow {
    HeldLockRow {
        time: FIRST_SECOND,
        session: SessionId(session),
        statement: 0,
        lock: lock.into(),
        number: None,
        address: 64,
        file: ArcStr::new(),
        relation: ArcStr::new(),
        block: None,
        exclusive: true,
        mode_unknown: false,
        wait_class: wait.0.into(),
        wait_event: wait.1.into(),
        state,
        kernel_stack: NO_STACK,
        user_stack: NO_STACK,
        ns: ms * MS,
        samples: ms / 10,
        gets: 0,
    }
}

/// Two sessions: 1 flushes the WAL for 500 ms, 100 of them in the run queue, and computes for 300 ms, 20 of which are not known; it holds
/// a partition for 40 ms. 2 waits for 200 ms, and holds a partition shared for 30 ms.
fn rows() -> Rows {
    let mut rows = Rows::default();
    rows.sessions.push(session(1, 11, "client backend", "a", "d"));
    rows.sessions.push(session(2, 22, "client backend", "b", "d"));
    let code = stack(
        &["main", "XLogFlush", "[postgres+0x1]", "XLogWrite", "fdatasync"],
        "postgres",
    );
    let nameless = stack(&["[postgres+0x1]", "[postgres+0x2]"], "postgres");
    rows.activity = vec![
        row(1, SYNC, State::Disk, 400),
        row(1, SYNC, State::Runnable, 100),
        row(1, CPU, State::User, 300),
        // A page that is being read from disk.
        row(1, CPU, State::Disk, 10),
        row(2, ("LWLock", "WALWrite", false), State::Sleep, 200),
        row(2, CPU, State::User, 30),
        row(2, ("Client", "ClientRead", true), State::Sleep, 900),
    ];
    rows.held_locks = vec![
        HeldLockRow {
            user_stack: code.id,
            ..held(1, "WALWrite", SYNC, State::Disk, 400)
        },
        held(1, "WALWrite", SYNC, State::Runnable, 100),
        HeldLockRow {
            number: Some(3),
            user_stack: nameless.id,
            ..held(1, "BufferMapping", CPU, State::User, 40)
        },
        HeldLockRow {
            number: Some(7),
            exclusive: false,
            ..held(2, "BufferMapping", CPU, State::User, 30)
        },
        held(1, "", CPU, State::User, 20),
        held(1, "ProcArray", CPU, State::Disk, 10),
    ];
    rows.stacks = vec![code, nameless];
    rows
}

fn asked(filter: Filter) -> LatchReport {
    asked_of(rows(), filter)
}

fn asked_of(rows: Rows, filter: Filter) -> LatchReport {
    let mut meta = meta();
    meta.database.held_locks = true;
    let options = LatchOptions {
        filter,
        ..LatchOptions::default()
    };
    latches(&Source::memory(meta, rows), &options).expect("nothing is wrong")
}

fn ms(latch: &Latch) -> [u128; 6] {
    let ns = [
        latch.held_ns,
        latch.exclusive_ns,
        latch.shared_ns,
        latch.queued_ns,
        latch.blocked_ns,
        latch.waited_ns,
    ];
    ns.map(|ns| ns / u128::from(MS))
}

#[test]
fn holders_and_waiters_of_a_lock_stand_together() {
    let report = asked(Filter::default());
    let names: Vec<&str> = report.latches.iter().map(|latch| latch.name.as_str()).collect();
    assert_eq!(names, ["WALWrite", "BufferMapping", "ProcArray"]);
    let [write, mapping, _] = &report.latches[..] else {
        panic!("{names:?}")
    };
    assert_eq!((ms(write), write.waiters), ([500, 500, 0, 100, 400, 200], 1));
    assert_eq!((ms(mapping), mapping.waiters), ([70, 40, 30, 0, 0, 0], 0));
    let labels: Vec<String> = mapping.single.iter().map(|single| single.lock.label()).collect();
    assert_eq!(labels, ["[3]", "[7]"]);
    // Idle time does not count: it could not matter there.
    assert_eq!(report.active_ns, 1_040 * u128::from(MS));
    assert_eq!(report.not_known_ns, 20 * u128::from(MS));
    let code: Vec<Vec<&str>> = [&write.holdings[0], &mapping.holdings[0]]
        .map(|holding| holding.code[0].functions.iter().map(AsRef::as_ref).collect())
        .into();
    // Code without a name is shown only if there is nothing else.
    assert_eq!(
        code,
        [
            vec!["XLogFlush", "XLogWrite", "fdatasync"],
            vec!["[postgres+0x1]", "[postgres+0x2]"]
        ]
    );
    for latch in &report.latches {
        assert_eq!(
            latch.holdings.iter().map(|holding| holding.ns).sum::<u128>(),
            latch.held_ns
        );
        assert_eq!(
            latch.single.iter().map(|single| single.ns).sum::<u128>(),
            latch.held_ns
        );
    }
}

#[test]
fn a_filter_chooses_among_holders_and_waiters() {
    let of_two = asked(Filter {
        sessions: vec![22],
        ..Filter::default()
    });
    let found: Vec<_> = of_two
        .latches
        .iter()
        .map(|latch| (latch.name.as_str(), ms(latch)))
        .collect();
    assert_eq!(
        found,
        [
            ("WALWrite", [0, 0, 0, 0, 0, 200]),
            ("BufferMapping", [30, 0, 30, 0, 0, 0])
        ]
    );
    let asleep = asked(Filter {
        states: vec![State::Disk],
        ..Filter::default()
    });
    assert_eq!(
        asleep.latches.iter().map(ms).collect::<Vec<_>>(),
        [[400, 400, 0, 0, 400, 0], [10, 10, 0, 0, 10, 0]]
    );
}

#[test]
fn what_is_said_is_what_was_found() {
    let report = asked(Filter::default());
    let said = text::render_latches(&report, 120);
    for part in [
        "For 1.9 %",
        "WALWrite  held 0.500 s, waited for 0.200 s by 1 session",
        "BufferMapping  held 0.070 s, no session waited",
        "[3] (57.1 %; 2 seen)",
        "XLogFlush > XLogWrite > fdatasync",
        "IO:WALSync, disk",
        "in no wait event, disk",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let document: serde_json::Value = serde_json::from_str(&json::render_latches(&report)).expect("JSON");
    assert_eq!(document["latches"][0]["run_queue_ns"], 100 * MS);
    assert_eq!(document["latches"][1]["single"][0]["number"], 3);
    assert_eq!(document["latches"][0]["holders"][0]["pids"][0], 11);
    // For a recording that lacks them, nothing is said but that.
    let older = latches(&Source::memory(meta(), Rows::default()), &LatchOptions::default())
        .expect("nothing is wrong");
    let said = text::render_latches(&older, 120);
    assert!(said.contains("does not say who held internal locks"), "{said}");
    assert!(!said.contains("Locks, by"), "{said}");
}

#[test]
fn who_waits_is_told_with_the_code_that_wants_the_lock() {
    let mut rows = rows();
    let wants = stack(
        &["main", "XLogFlush", "LWLockAcquireOrWait", "PGSemaphoreLock"],
        "postgres",
    );
    let spins = stack(&["main", "GetSnapshotData", "s_lock", "pg_usleep"], "postgres");
    for row in &mut rows.activity {
        if &*row.wait_class == "LWLock" {
            row.user_stack = wants.id;
        }
    }
    rows.activity.push(ActivityRow {
        user_stack: spins.id,
        ..row(2, ("Timeout", "SpinDelay", false), State::Sleep, 60)
    });
    rows.stacks.extend([wants, spins]);
    let report = asked_of(rows, Filter::default());
    let latch = |name: &str| {
        report
            .latches
            .iter()
            .find(|latch| latch.name == name)
            .expect("it was waited for")
    };
    for (name, ms, place) in [
        ("WALWrite", 200, "XLogFlush"),
        ("spinlocks", 60, "GetSnapshotData"),
    ] {
        let latch = latch(name);
        assert_eq!(
            (latch.waited_ns, latch.waiters),
            (u128::from(ms * MS), 1),
            "{name}"
        );
        let [waiting] = &latch.waitings[..] else {
            panic!("{latch:#?}");
        };
        assert_eq!(
            (waiting.pids.first(), waiting.ns),
            (Some(&22), latch.waited_ns),
            "{name}"
        );
        let functions: Vec<&str> = waiting.code[0].functions.iter().map(AsRef::as_ref).collect();
        assert_eq!(functions, ["main", place], "{name}");
    }
    let said = text::render_latches(&report, 120);
    assert!(
        said.contains("spinlocks  waited for 0.060 s by 1 session; who holds one is not known"),
        "{said}"
    );
    assert!(said.contains("main > GetSnapshotData"), "{said}");
}

#[test]
fn a_snapshot_has_locks_where_they_are_asked_for() {
    let lines = |gather: &[LineKind]| -> Vec<(u32, String, i128)> {
        let options = SnapshotOptions {
            gather: gather.to_vec(),
            ..SnapshotOptions::default()
        };
        let found = snapshot(&Source::memory(meta(), rows()), &options).expect("a snapshot");
        let sessions = found.sessions.into_iter();
        let lines = sessions.flat_map(|one| {
            let pid = one.session.pid;
            one.lines.into_iter().map(move |line| (pid, line))
        });
        lines
            .filter(|(_, line)| !matches!(line.kind, LineKind::Time | LineKind::Wait))
            .map(|(pid, line)| (pid, line.name, line.growth / i128::from(MS)))
            .collect()
    };
    assert_eq!(
        lines(&[LineKind::Time, LineKind::Latch]),
        [
            (11, "WALWrite, exclusive".to_string(), 500),
            (11, "BufferMapping, exclusive".to_string(), 40),
            (11, "ProcArray, exclusive".to_string(), 10),
            (22, "BufferMapping, shared".to_string(), 30),
        ]
    );
    assert_eq!(lines(&[LineKind::Stat, LineKind::Time, LineKind::Wait]), []);
}
