//! Who was waited for, on hand-made rows.

use dbtime_model::recording::Meta;
use dbtime_model::{CauseKind, Rows, SessionState, State};
use dbtime_report::{
    CauseOptions, CauseReport, FlameOptions, NotKnown, Source, Waiting, causes, flame, json, text,
};
use proptest::prelude::*;

use crate::hand_made::session;
use crate::hand_made::waits::{SECOND, activity, cause, idle, link, waits};

fn meta() -> Meta {
    Meta {
        start_us: 0,
        end_us: 10 * SECOND,
        ..Meta::default()
    }
}

fn asked(rows: Rows) -> CauseReport {
    causes(&Source::memory(meta(), rows), &CauseOptions::default()).expect("nothing is wrong")
}

fn assert_conserved(report: &CauseReport) {
    assert_eq!(
        report.waits.iter().map(|wait| wait.ns).sum::<u128>(),
        report.blocked_ns
    );
    for wait in &report.waits {
        assert_eq!(wait.by.iter().map(|part| part.ns).sum::<u128>(), wait.ns);
        assert_eq!(
            wait.by_doing.iter().map(|group| group.part.ns).sum::<u128>(),
            wait.ns
        );
    }
    assert_eq!(
        report.chains.iter().map(|chain| chain.behind_ns).sum::<u128>(),
        report.blocked_ns
    );
    for chain in &report.chains {
        assert_eq!(
            chain.doing.iter().map(|part| part.ns).sum::<u128>(),
            chain.behind_ns
        );
        assert_eq!(waited(&chain.behind), chain.behind_ns);
    }
}

/// Time of all in a tree, each node's sums checked.
fn waited(behind: &[Waiting]) -> u128 {
    let of = |one: &Waiting| {
        assert_eq!(one.waits.iter().map(|(.., ns)| ns).sum::<u128>(), one.ns);
        assert_eq!(waited(&one.behind), one.behind_ns);
        one.ns + one.behind_ns
    };
    behind.iter().map(of).sum()
}

#[test]
fn time_is_divided_by_the_samples_of_its_second_and_where_there_are_none_by_those_of_others() {
    let mut rows = Rows::default();
    rows.sessions.push(session(1, 11, "client backend", "a", "d"));
    rows.sessions.push(session(2, 22, "client backend", "b", "d"));
    for (second, ns) in [(1, 1_000), (2, 300), (3, 50)] {
        rows.activity
            .push(activity(second, 1, ("Lock", "tuple"), State::Sleep, ns));
    }
    // Time that is not blocked, and that of background processes, does not count.
    rows.activity
        .push(activity(1, 1, ("Lock", "tuple"), State::Runnable, 7));
    let in_second = vec![
        cause(1, 1, 3, CauseKind::Client, vec![idle(2)]),
        cause(1, 1, 1, CauseKind::Unknown, vec![]),
        cause(2, 1, 6, CauseKind::Client, vec![idle(2)]),
    ];
    rows.causes.extend(in_second);
    let report = asked(rows);
    assert_conserved(&report);
    assert_eq!(report.blocked_ns, 1_350);
    // 750 of 1000, 300 of 300, and 9 of 10 samples for the 50 ns of the third second.
    assert_eq!(report.followed_ns, 750 + 300 + 45);
    let by: Vec<_> = report.waits[0]
        .by
        .iter()
        .map(|part| (part.kind, part.ns))
        .collect();
    assert_eq!(by, [(CauseKind::Client, 1_095), (CauseKind::Unknown, 255)]);
    let blocker = &report.blockers[0];
    assert_eq!(
        (blocker.who.pid, blocker.waiters, blocker.ns, blocker.blocked_ns),
        (22, 1, 1_095, 0)
    );
    let printed = text::render_causes(&report, 120);
    assert!(printed.contains("pid 22, b"), "{printed}");
    assert!(printed.contains("idle in transaction (its client)"), "{printed}");
}

#[test]
fn what_is_not_known_has_its_reason() {
    let mut rows = Rows::default();
    for id in 1..=20 {
        rows.sessions
            .push(session(id, 10 * id as u32, "client backend", "u", "d"));
    }
    rows.activity
        .push(activity(1, 1, ("Lock", "tuple"), State::Sleep, 1_000));
    let no_work = link(3, ("Activity", "IoWorkerMain"), State::Sleep, SessionState::None);
    for (samples, chain) in [
        (4, vec![waits(2), waits(1)]),
        (3, vec![]),
        (1, vec![waits(2)]),
        (1, vec![no_work]),
        (1, (2..=17).map(waits).collect()),
    ] {
        rows.causes.push(cause(1, 1, samples, CauseKind::Unknown, chain));
    }
    let report = asked(rows.clone());
    assert_conserved(&report);
    assert_eq!(
        report.not_known,
        [
            (NotKnown::Circle, 400),
            (NotKnown::Nobody, 300),
            (NotKnown::LongChain, 100),
            (NotKnown::NoWork, 100),
            (NotKnown::FurtherOn, 100),
        ]
    );
    let printed = text::render_causes(&report, 200);
    assert!(printed.contains("led to [not known]"), "{printed}");
    assert!(
        printed.contains("each waited for the other: a deadlock"),
        "{printed}"
    );
    // If all of it is known, there is nothing to say.
    rows.causes.truncate(0);
    rows.causes.push(cause(1, 1, 9, CauseKind::Client, vec![idle(2)]));
    let report = asked(rows);
    assert_eq!(report.not_known, []);
    assert!(!text::render_causes(&report, 200).contains("led to [not known]"));
}

#[test]
fn the_root_of_a_chain_is_named_and_each_link_was_waited_for() {
    let mut rows = Rows::default();
    for id in 1..=4 {
        rows.sessions
            .push(session(id, 10 * id as u32, "client backend", "u", "d"));
    }
    rows.activity
        .push(activity(1, 1, ("Lock", "tuple"), State::Sleep, 900));
    let middle = link(2, ("Lock", "transactionid"), State::Sleep, SessionState::Active);
    rows.causes
        .push(cause(1, 1, 2, CauseKind::Client, vec![middle.clone(), idle(3)]));
    let on_cpu = link(4, ("CPU", "CPU"), State::Cpu, SessionState::Active);
    rows.causes
        .push(cause(1, 1, 1, CauseKind::Session, vec![middle, on_cpu]));
    let report = asked(rows);
    assert_conserved(&report);
    let json: serde_json::Value = serde_json::from_str(&json::render_causes(&report)).expect("JSON");
    let by = json["causes"][0]["by"].as_array().expect("parts");
    let of = |n: usize| (by[n]["pid"].clone(), by[n]["kind"].clone(), by[n]["ns"].clone());
    assert_eq!(of(0), (30.into(), "client".into(), 600.into()));
    assert_eq!(of(1), (40.into(), "session".into(), 300.into()));
    assert_eq!(by[0]["links"], 2);
    assert_eq!(by[1]["state"], "cpu");
    let blockers: Vec<_> = report
        .blockers
        .iter()
        .map(|b| (b.who.pid, b.ns, b.blocked_ns))
        .collect();
    assert_eq!(blockers, [(20, 900, 900), (30, 600, 0), (40, 300, 0)]);
    // 10 waits behind 20, which was not seen waiting itself, behind 30 and behind 40.
    let trees: Vec<_> = report
        .chains
        .iter()
        .map(|chain| {
            let [middle] = chain.behind.as_slice() else {
                panic!("one waits for it: {chain:?}");
            };
            let root = chain.who.as_ref().expect("a session").pid;
            (
                root,
                chain.behind_ns,
                middle.who.pid,
                middle.ns,
                middle.behind[0].who.pid,
            )
        })
        .collect();
    assert_eq!(trees, [(30, 600, 20, 0, 10), (40, 300, 20, 0, 10)]);
    let printed = text::render_chains(&report, 120);
    assert!(printed.contains("  └ pid 10"), "{printed}");
}

#[test]
fn a_part_of_the_time_has_its_parts_of_the_causes() {
    let mut rows = Rows::default();
    rows.sessions.push(session(1, 11, "client backend", "a", "d"));
    rows.sessions.push(session(2, 22, "client backend", "b", "d"));
    for second in [1, 3] {
        rows.activity
            .push(activity(second, 1, ("Lock", "tuple"), State::Sleep, 300));
    }
    rows.causes.push(cause(1, 1, 2, CauseKind::Client, vec![idle(2)]));
    rows.causes.push(cause(1, 1, 1, CauseKind::Timer, vec![]));
    let meta = Meta {
        start_us: 0,
        end_us: 10 * SECOND,
        ..Meta::default()
    };
    let mut options = CauseOptions::default();
    // In the third second no sample was followed: those of the first stand for it, though that is not chosen.
    options.filter.from_us = Some(3 * SECOND);
    let report = causes(&Source::memory(meta, rows), &options).expect("nothing is wrong");
    let by: Vec<_> = report.waits[0]
        .by
        .iter()
        .map(|part| (part.kind, part.ns))
        .collect();
    assert_eq!(by, [(CauseKind::Client, 200), (CauseKind::Timer, 100)]);
}

#[test]
fn a_recording_without_causes_says_so() {
    let mut rows = Rows::default();
    rows.sessions.push(session(1, 11, "client backend", "a", "d"));
    rows.activity
        .push(activity(1, 1, ("Lock", "tuple"), State::Sleep, 900));
    let report = asked(rows);
    assert!(!report.is_recorded());
    let printed = text::render_causes(&report, 120);
    assert!(printed.contains("does not say who was waited for"), "{printed}");
}

#[test]
fn chains_that_no_recorder_follows_are_cut() {
    let mut rows = Rows::default();
    rows.sessions.push(session(1, 11, "client backend", "a", "d"));
    rows.activity
        .push(activity(1, 1, ("Lock", "tuple"), State::Sleep, 900));
    let chain = (2..100_002).map(waits).collect();
    rows.causes.push(cause(1, 1, 1, CauseKind::Client, chain));
    let options = CauseOptions {
        depth: Some(usize::MAX),
        ..CauseOptions::default()
    };
    let report = causes(&Source::memory(meta(), rows), &options).expect("nothing is wrong");
    assert_conserved(&report);
    let part = &report.waits[0].by[0];
    assert_eq!((part.kind, part.links), (CauseKind::Unknown, 64));
    assert!(
        report.problems[0].contains("1 row with chains of more than 64 links"),
        "{:?}",
        report.problems
    );
}

proptest! {
    #[test]
    fn however_it_is_divided_it_sums_to_the_ledger(
        times in prop::collection::vec((0..4i64, 1..4u64, 0..1_000_000_007u64), 0..30),
        samples in prop::collection::vec((0..4i64, 1..4u64, 0..50u64, 0..3usize), 0..40),
    ) {
        let mut rows = Rows::default();
        for id in 1..9 {
            rows.sessions.push(session(id, id as u32, "client backend", "u", "d"));
        }
        for &(second, waiter, ns) in &times {
            rows.activity.push(activity(second, waiter, ("Lock", "tuple"), State::Sleep, ns));
        }
        for &(second, waiter, n, links) in &samples {
            let chain = (0..links as u64).map(|n| idle(4 + n)).collect();
            rows.causes.push(cause(second, waiter, n, CauseKind::Client, chain));
        }
        let source = Source::memory(meta(), rows);
        let report = causes(&source, &CauseOptions::default()).expect("nothing is wrong");
        assert_conserved(&report);
        let blocked_ns = times.iter().map(|&(.., ns)| u128::from(ns)).sum::<u128>();
        prop_assert_eq!(report.blocked_ns, blocked_ns);
        let options = FlameOptions {
            causes: true,
            ..FlameOptions::default()
        };
        let folded = flame(&source, &options).expect("nothing is wrong");
        prop_assert_eq!(folded.stacks.iter().map(|stack| stack.ns).sum::<u128>(), blocked_ns);
        prop_assert!(folded.stacks.iter().all(|stack| !stack.waited_for.is_empty()));
    }
}
