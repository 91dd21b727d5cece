//! Which locks of the lock table blocked sessions waited for, on hand-made rows.

use dbtime_model::recording::Meta;
use dbtime_model::{
    ActivityRow, CauseKind, CauseLink, CauseRow, LockRow, Rows, SessionId, SessionState, State, StatementRow,
};
use dbtime_report::{
    Blocker, CauseOptions, CauseReport, LockShare, Source, Waiting, causes, json, next_steps_of_causes, text,
};
use proptest::prelude::*;
use serde_json::Value;

use crate::hand_made::waits::{SECOND, activity, cause, idle, waits};
use crate::hand_made::{MS, session};

fn meta() -> Meta {
    let mut meta = Meta {
        start_us: 0,
        end_us: 10 * SECOND,
        ..Meta::default()
    };
    meta.database.locks = true;
    meta
}

fn sessions(rows: &mut Rows) {
    for id in 1..=4 {
        rows.sessions
            .push(session(id, 10 * id as u32, "client backend", "u", "d"));
    }
}

fn asked(rows: Rows) -> CauseReport {
    causes(&Source::memory(meta(), rows), &CauseOptions::default()).expect("nothing is wrong")
}

fn blocked(second: i64, session: u64, event: &str, ms: u64) -> ActivityRow {
    activity(second, session, ("Lock", event), State::Sleep, ms * MS)
}

fn led_to(second: i64, session: u64, event: &str, chain: Vec<CauseLink>) -> CauseRow {
    CauseRow {
        wait_event: event.into(),
        ..cause(second, session, 1, CauseKind::Client, chain)
    }
}

/// Looks at the lock table that found a session waiting.
fn wants(second: i64, session: u64, kind: &str, ms: u64) -> LockRow {
    LockRow {
        time: second * SECOND,
        session: SessionId(session),
        kind: kind.into(),
        mode: "ShareLock".into(),
        ns: ms * MS,
        looks: ms / 100,
        longest_ns: ms * MS,
        ..LockRow::default()
    }
}

fn on(relation: u32, of: LockRow) -> LockRow {
    LockRow {
        database: Some(5),
        relation: Some(relation),
        ..of
    }
}

fn on_transaction(id: u32, of: LockRow) -> LockRow {
    LockRow {
        transactionid: Some(id),
        ..of
    }
}

/// A row of relation 16390 that a session has locked.
fn has_row(second: i64, session: u64, tuple: u32) -> LockRow {
    LockRow {
        granted: true,
        relation_name: "public.orders".into(),
        page: Some(4),
        tuple: Some(tuple),
        ..on(16_390, wants(second, session, "tuple", 900))
    }
}

fn said(shares: &[LockShare]) -> Vec<(String, usize, u128)> {
    let said = |share: &LockShare| (share.lock.to_string(), share.sessions, share.ns / u128::from(MS));
    shares.iter().map(said).collect()
}

/// True if no wait has a list of locks.
fn says_no_lock(report: &CauseReport) -> bool {
    let json: Value = serde_json::from_str(&json::render_causes(report)).expect("JSON");
    let waits = json["causes"].as_array().expect("waits");
    !waits.is_empty() && waits.iter().all(|wait| wait.get("locks").is_none())
}

/// 1 waits for a relation whose name becomes known late, 2 for that one and another.
fn two_relations() -> Rows {
    let mut rows = Rows::default();
    sessions(&mut rows);
    rows.activity = vec![
        blocked(1, 1, "relation", 1_000),
        blocked(2, 1, "relation", 500),
        blocked(2, 2, "relation", 300),
    ];
    rows.causes = vec![
        led_to(1, 1, "relation", vec![idle(3)]),
        led_to(2, 2, "relation", vec![idle(3)]),
    ];
    rows.locks = vec![
        on(16_390, wants(1, 1, "relation", 900)),
        LockRow {
            relation_name: "public.orders".into(),
            ..on(16_390, wants(2, 1, "relation", 400))
        },
        // Twice as long as it was blocked: looks are not that precise.
        on(16_390, wants(2, 2, "relation", 400)),
        on(16_391, wants(2, 2, "relation", 200)),
        // What it held, what it waited for in another statement, and what others did, is not part of this wait.
        LockRow {
            granted: true,
            ..on(16_392, wants(2, 2, "relation", 300))
        },
        LockRow {
            statement: 9,
            ..on(16_393, wants(2, 2, "relation", 300))
        },
        on(16_394, wants(2, 4, "relation", 300)),
        LockRow {
            session: SessionId::RECORDER,
            pid: 77,
            ..on(16_395, wants(2, 0, "relation", 300))
        },
    ];
    rows
}

#[test]
fn of_who_is_idle_in_a_transaction_looks_say_what_it_had_executed_last() {
    let mut rows = two_relations();
    let statement = |id: u64, text: &str| StatementRow {
        id,
        text: text.into(),
        ..StatementRow::default()
    };
    rows.statements = vec![statement(7, "UPDATE orders SET n = ?"), statement(8, "SELECT 8")];
    let has = |second, session, statement, ms, session_state| LockRow {
        granted: true,
        statement,
        session_state,
        ..on(16_390, wants(second, session, "relation", ms))
    };
    rows.locks.extend([
        has(1, 3, 7, 600, SessionState::IdleInTransaction),
        // The one with the most time; not one during which something was executed, and not that of another session.
        has(1, 3, 8, 300, SessionState::IdleInTransaction),
        has(1, 3, 8, 900, SessionState::Active),
        has(2, 4, 8, 900, SessionState::IdleInTransaction),
    ]);
    let mut meta = meta();
    meta.segments.rows.insert("locks".into(), 1);
    let report = causes(&Source::memory(meta, rows), &CauseOptions::default()).expect("nothing is wrong");
    let next: Vec<String> = next_steps_of_causes(&report)
        .iter()
        .map(|step| step.command_line(&["x.dbt"]))
        .collect();
    assert_eq!(next, ["dbtime report --latches --session 30 x.dbt"]);
    // 1: its chain is from the first second, for which this is known. 2: in the second one no look says it.
    let last: Vec<(u64, u128)> = report
        .blocking_statements
        .iter()
        .map(|of| (of.statement, of.ns / u128::from(MS)))
        .collect();
    assert_eq!(last, [(7, 1_500), (0, 300)]);
    let [causes, blockers] = [text::render_causes, text::render_blockers].map(|render| render(&report, 200));
    assert!(
        causes.contains("pid 30, u, last: UPDATE orders SET n = ?"),
        "{causes}"
    );
    assert!(
        blockers.contains("idle in transaction (its client), last: UPDATE orders SET n = ?"),
        "{blockers}"
    );
}

#[test]
fn looks_say_for_which_locks_and_never_for_more_than_the_ledger_has() {
    let report = asked(two_relations());
    let wait = &report.waits[0];
    assert_eq!(wait.ns / u128::from(MS), 1_800);
    assert_eq!(
        said(&wait.locks),
        [
            ("relation public.orders in d".to_string(), 2, 1_300 + 200),
            ("relation 16391 in d".to_string(), 1, 100),
        ]
    );
    assert_eq!(wait.by.iter().map(|part| part.ns).sum::<u128>(), wait.ns);
    let printed = text::render_causes(&report, 120);
    assert!(
        printed.contains(
            "  for relation public.orders in d: 1.500 s, relation 16391 in d: 0.100 s, [not known]: 0.200 s"
        ),
        "{printed}"
    );
    let json: Value = serde_json::from_str(&json::render_causes(&report)).expect("JSON");
    let lock = &json["causes"][0]["locks"][0];
    assert_eq!(lock["name"], "relation public.orders in d");
    assert_eq!(
        (&lock["type"], &lock["relation"], &lock["ns"]),
        (
            &Value::from("relation"),
            &Value::from(16_390),
            &Value::from(1_500 * MS)
        )
    );

    // 1 waited for one relation, 2 for two: which of them it was waiting for in the chain is not known.
    let of = |pid: u32| -> &Waiting {
        let mut behind = report.chains[0].behind.iter();
        behind.find(|one| one.who.pid == pid).expect("it waits")
    };
    let name = |pid: u32| of(pid).lock.as_ref().map(ToString::to_string);
    assert_eq!(name(10).as_deref(), Some("relation public.orders in d"));
    assert_eq!(name(20), None);
    let printed = text::render_chains(&report, 120);
    assert!(
        printed.contains("Lock:relation (relation public.orders in d)"),
        "{printed}"
    );
    assert_eq!(
        said(&report.blockers[0].locks),
        [("relation public.orders in d".to_string(), 1, 1_500)]
    );
}

#[test]
fn who_waits_for_a_transaction_waits_for_the_row_that_it_has_locked_meanwhile() {
    let mut rows = Rows::default();
    sessions(&mut rows);
    for second in [1, 2] {
        rows.activity.push(blocked(second, 1, "transactionid", 1_000));
        rows.activity.push(blocked(second, 2, "transactionid", 1_000));
        rows.activity.push(blocked(second, 4, "tuple", 1_000));
        rows.causes
            .push(led_to(second, 1, "transactionid", vec![idle(3)]));
        rows.causes
            .push(led_to(second, 2, "transactionid", vec![idle(3)]));
        rows.causes
            .push(led_to(second, 4, "tuple", vec![waits(1), idle(3)]));
        for (session, transaction) in [(1, 741), (2, 742)] {
            rows.locks.push(on_transaction(
                transaction,
                wants(second, session, "transactionid", 1_000),
            ));
        }
        rows.locks.push(LockRow {
            granted: false,
            ..has_row(second, 4, 7)
        });
    }
    // It is one transaction, for whose row it waited in the first second, too. The other one has locked two rows in a second: it is
    // one of these.
    rows.locks.push(has_row(2, 1, 7));
    rows.locks.push(has_row(2, 2, 8));
    rows.locks.push(has_row(2, 2, 9));
    let report = asked(rows);
    let row = "tuple (4,7) of public.orders in d";
    let of_row = format!("transactionid 741 ({row})");
    let of_some_row = "transactionid 742 (tuple of public.orders in d)".to_string();
    let locks = |event: &str| {
        let mut waits = report.waits.iter();
        let wait = waits
            .find(|wait| *wait.wait.event == *event)
            .expect("it was waited for");
        said(&wait.locks)
    };
    assert_eq!(
        locks("transactionid"),
        [(of_row.clone(), 1, 2_000), (of_some_row.clone(), 1, 2_000)]
    );
    assert_eq!(locks("tuple"), [(row.to_string(), 1, 1_800)]);
    // 4 is behind 1, and 1 behind 3: a session that waits for 3 itself waits for the transaction.
    let of = |pid: u32| -> &Blocker {
        let mut blockers = report.blockers.iter();
        blockers
            .find(|blocker| blocker.who.pid == pid)
            .expect("others waited for it")
    };
    assert_eq!(said(&of(10).locks), [(row.to_string(), 1, 2_000)]);
    assert_eq!(
        said(&of(30).locks),
        [(of_row.clone(), 1, 4_000), (of_some_row, 1, 2_000)]
    );
    let printed = text::render_blockers(&report, 160);
    assert!(
        printed.contains(&format!("blocked others on {of_row}: 4.000 s")),
        "{printed}"
    );
    let json: Value = serde_json::from_str(&json::render_blockers(&report)).expect("JSON");
    assert_eq!(json["blockers"][0]["locks"][0]["row"]["tuple"], 7);
}

#[test]
fn a_long_wait_is_known_in_its_seconds_whatever_was_waited_for_in_others() {
    let mut rows = Rows::default();
    sessions(&mut rows);
    for (second, ms) in [(1, 1_000), (2, 1_000), (3, 300)] {
        rows.activity.push(blocked(second, 1, "transactionid", ms));
        rows.causes
            .push(led_to(second, 1, "transactionid", vec![idle(3)]));
    }
    for second in [1, 2] {
        rows.locks
            .push(on_transaction(741, wants(second, 1, "transactionid", 1_000)));
    }
    for transaction in [750, 751] {
        rows.locks.push(LockRow {
            looks: 1,
            longest_ns: 3 * MS,
            ..on_transaction(transaction, wants(3, 1, "transactionid", 100))
        });
    }
    let report = asked(rows);
    assert_eq!(
        said(&report.blockers[0].locks),
        [("transactionid 741".to_string(), 1, 2_000)]
    );
    // In the whole period there were several.
    assert_eq!(report.chains[0].behind[0].lock, None);
    let printed = text::render_blockers(&report, 160);
    assert!(
        printed.contains(
            "In the end, 2.300 s of it (100.0 %) led to pid 30, u: idle in transaction (its client)."
        ),
        "{printed}"
    );
}

/// Looks that stand for far more time than the waits they found took: right in total, but not for any single one.
#[test]
fn waits_that_looks_met_briefly_are_not_told_apart() {
    let mut rows = Rows::default();
    sessions(&mut rows);
    for second in 1..=4 {
        let brief = |of: LockRow| LockRow {
            looks: 1,
            longest_ns: 3 * MS,
            ..of
        };
        let transaction = 740 + second as u32;
        for session in [1, 2] {
            rows.activity.push(blocked(second, session, "transactionid", 300));
            rows.locks.push(brief(on_transaction(
                transaction,
                wants(second, session, "transactionid", 200),
            )));
        }
        rows.locks.push(has_row(second, 1, 10 + second as u32));
        rows.activity.push(blocked(second, 4, "tuple", 500));
        rows.locks.push(LockRow {
            granted: false,
            ..brief(has_row(second, 4, 10 + second as u32))
        });
        rows.causes
            .push(led_to(second, 1, "transactionid", vec![idle(3)]));
    }
    // One that is long stays as it is.
    rows.activity.push(blocked(5, 2, "transactionid", 900));
    rows.locks.push(on_transaction(
        750,
        LockRow {
            longest_ns: 850 * MS,
            ..wants(5, 2, "transactionid", 900)
        },
    ));
    let report = asked(rows);
    let locks = |event: &str| {
        let mut waits = report.waits.iter();
        said(
            &waits
                .find(|wait| *wait.wait.event == *event)
                .expect("it was waited for")
                .locks,
        )
    };
    let briefly = "transactionids seen briefly".to_string();
    assert_eq!(
        locks("transactionid"),
        [
            ("transactionid 750".to_string(), 1, 900),
            (briefly.clone(), 1, 800),
            (format!("{briefly} (tuple of public.orders in d)"), 1, 800),
        ]
    );
    assert_eq!(
        locks("tuple"),
        [("tuple of public.orders in d".to_string(), 1, 2_000)]
    );
    // For a wait in a chain it is not known which of them it was.
    let mut behind = report.chains[0].behind.iter();
    assert!(behind.all(|one| one.lock.is_none()), "{:#?}", report.chains[0]);
}

#[test]
fn of_a_time_without_looks_nothing_is_said() {
    let mut options = CauseOptions::default();
    options.filter.to_us = Some(2 * SECOND);
    let report = causes(&Source::memory(meta(), two_relations()), &options).expect("nothing is wrong");
    assert_eq!(
        said(&report.waits[0].locks),
        [("relation 16390 in d".to_string(), 1, 900)]
    );
    options.filter.to_us = None;
    options.filter.from_us = Some(3 * SECOND);
    let mut rows = two_relations();
    rows.activity.push(blocked(3, 1, "relation", 100));
    let report = causes(&Source::memory(meta(), rows), &options).expect("nothing is wrong");
    assert_eq!(report.waits[0].locks, []);
    assert!(!text::render_causes(&report, 120).contains("  for "));
    assert!(says_no_lock(&report));
    // A recording without the table.
    let mut meta = meta();
    meta.database.locks = false;
    let source = Source::memory(meta, two_relations());
    let report = causes(&source, &CauseOptions::default()).expect("nothing is wrong");
    assert_eq!(report.waits[0].locks, []);
    assert!(says_no_lock(&report));
}

proptest! {
    #[test]
    fn whatever_looks_find_blocked_time_stays_what_it_is(
        times in prop::collection::vec((0..4i64, 1..4u64, 0..1_000_000_007u64), 0..30),
        looks in prop::collection::vec((0..4i64, 1..4u64, 0..3u32, 0..2_000_000_011u64), 0..40),
    ) {
        let mut rows = Rows::default();
        sessions(&mut rows);
        for &(second, waiter, ns) in &times {
            rows.activity.push(activity(second, waiter, ("Lock", "relation"), State::Sleep, ns));
        }
        for &(second, waiter, relation, ns) in &looks {
            rows.locks.push(LockRow { ns, ..on(relation, wants(second, waiter, "relation", 0)) });
        }
        let report = asked(rows);
        let all = times.iter().map(|&(.., ns)| u128::from(ns)).sum::<u128>();
        prop_assert_eq!(report.blocked_ns, all);
        for wait in &report.waits {
            prop_assert!(wait.locks.iter().map(|share| share.ns).sum::<u128>() <= wait.ns);
            prop_assert_eq!(wait.by.iter().map(|part| part.ns).sum::<u128>(), wait.ns);
        }
        for blocker in &report.blockers {
            prop_assert!(blocker.locks.iter().map(|share| share.ns).sum::<u128>() <= blocker.ns);
        }
    }
}
