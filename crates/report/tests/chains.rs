//! Views of who was waited for, on hand-made rows: blockers, chains cut at a depth, chains over time, time by cause.

use std::collections::BTreeMap;

use dbtime_model::recording::Meta;
use dbtime_model::{ActivityRow, CauseKind, Fidelity, Rows, State, StatementRow};
use dbtime_report::{
    BucketWidth, CauseOptions, CauseReport, ChainLink, Dimension, FidelityMix, FlameOptions, Options,
    ReportError, RootActivity, Section, Source, TimelineOptions, Waiting, causes, chains_over_time,
    chains_svg, flame, json, report, text, timeline,
};
use proptest::prelude::*;
use serde_json::Value;

use crate::hand_made::session;
use crate::hand_made::waits::{SECOND, activity, cause, idle, runs, waits};

const TUPLE: (&str, &str) = ("Lock", "tuple");

fn meta() -> Meta {
    Meta {
        start_us: 0,
        end_us: 10 * SECOND,
        ..Meta::default()
    }
}

/// In nanoseconds of the first second: 10 waits 900 for 20, which waits for 30, whose client thinks (600 of them), or for 40, which
/// executes statement 7 (300). 50 waits 200 for 30 itself, and 100 for a device. In the second second 50 waits 50, for something unknown.
/// 10 also runs 1,000.
fn pile_up() -> Source {
    let mut rows = Rows::default();
    for id in 1..=5 {
        rows.sessions
            .push(session(id, 10 * id as u32, "client backend", "u", "d"));
    }
    rows.statements.push(StatementRow {
        id: 7,
        text: "SELECT  count(*)\nFROM t".into(),
        ..StatementRow::default()
    });
    rows.activity.push(activity(1, 1, TUPLE, State::Sleep, 900));
    rows.activity
        .push(activity(1, 1, ("CPU", "CPU"), State::User, 1_000));
    rows.causes
        .push(cause(1, 1, 2, CauseKind::Client, vec![waits(2), idle(3)]));
    rows.causes
        .push(cause(1, 1, 1, CauseKind::Session, vec![waits(2), runs(4, 7)]));
    rows.activity.push(activity(1, 5, TUPLE, State::Sleep, 300));
    rows.causes.push(cause(1, 5, 2, CauseKind::Client, vec![idle(3)]));
    rows.causes.push(cause(1, 5, 1, CauseKind::Device, vec![]));
    let unknown = ("IO", "WALSync");
    rows.activity.push(activity(2, 5, unknown, State::Disk, 50));
    Source::memory(meta(), rows)
}

/// The blocked part of that.
const BLOCKED: u128 = 900 + 300 + 50;

fn asked(depth: Option<usize>) -> CauseReport {
    let options = CauseOptions {
        depth,
        ..CauseOptions::default()
    };
    causes(&pile_up(), &options).expect("nothing is wrong")
}

#[test]
fn blockers_are_sessions_and_statements_and_those_at_the_roots_sum_to_the_blocked_time() {
    let report = asked(None);
    assert_eq!(report.blocked_ns, BLOCKED);
    let sessions: Vec<_> = report
        .blockers
        .iter()
        .map(|of| (of.who.pid, of.waiters, of.ns, of.root_ns))
        .collect();
    assert_eq!(sessions, [(20, 1, 900, 0), (30, 2, 800, 800), (40, 1, 300, 300)]);
    // Idle sessions and the one in the middle execute none: 10 waited for both of them, but counts once.
    let statements: Vec<_> = report
        .blocking_statements
        .iter()
        .map(|of| (of.statement, of.sessions, of.waiters, of.ns, of.root_ns))
        .collect();
    assert_eq!(statements, [(0, 2, 2, 1_100, 800), (7, 1, 1, 300, 300)]);
    assert_blockers_are_conserved(&report);

    let printed = text::render_blockers(&report, 120);
    for part in [
        "Lock:transactionid, behind another session",
        "idle in transaction (its client)",
        "on a CPU: SELECT count(*) FROM t",
        "query 7: SELECT count(*) FROM t",
        "a device",
        "[not known]",
        "blocked DB time",
    ] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    assert!(!printed.contains("waited by"), "{printed}");
    let json: Value = serde_json::from_str(&json::render_blockers(&report)).expect("JSON");
    assert_eq!(json["blockers"][1]["pid"], 30);
    assert_eq!(json["blockers"][1]["doing"][0]["end"], "client");
    assert_eq!(json["blockers"][0]["doing"][0]["end"], Value::Null);
    assert_eq!(json["blocking_statements"][1]["query"], "7");
    assert!(json.get("chains").is_none());
    let ns = |of: &Value, field: &str| -> u64 {
        let all = of.as_array().expect("a list").iter();
        all.map(|of| of[field].as_u64().expect("a number")).sum()
    };
    let without = ns(&json["without_session"], "ns");
    for of in ["blockers", "blocking_statements"] {
        assert_eq!(u128::from(ns(&json[of], "root_ns") + without), BLOCKED, "{of}");
    }
}

fn assert_blockers_are_conserved(report: &CauseReport) {
    let chains = report.chains.iter().filter(|chain| chain.who.is_none());
    let without: u128 = chains.map(|chain| chain.behind_ns).sum();
    let roots: u128 = report.blockers.iter().map(|of| of.root_ns).sum();
    assert_eq!(roots + without, report.blocked_ns);
    let roots: u128 = report.blocking_statements.iter().map(|of| of.root_ns).sum();
    assert_eq!(roots + without, report.blocked_ns);
    for of in &report.blockers {
        assert_eq!(of.doing.iter().map(|of| of.ns).sum::<u128>(), of.ns);
    }
    for of in &report.blocking_statements {
        assert_eq!(of.doing.iter().map(|of| of.ns).sum::<u128>(), of.ns);
        assert!(of.ns <= report.blocked_ns, "a wait counts once");
    }
}

#[test]
fn what_lies_beyond_the_depth_is_summed_under_the_last_one_shown() {
    let whole = asked(None);
    let cut = asked(Some(1));
    // Behind 30 wait 50 itself, and 10 behind 20.
    let of = |report: &CauseReport| {
        let chain = &report.chains[0];
        assert_eq!(chain.who.as_ref().map(|who| who.pid), Some(30));
        chain.clone()
    };
    let (all, shown) = (of(&whole), of(&cut));
    assert_eq!((all.behind_ns, shown.behind_ns), (800, 800));
    let first = |of: &[Waiting]| {
        (
            of[0].who.pid,
            of[0].ns,
            of[0].behind_ns,
            of[0].behind.len(),
            of[0].beyond.sessions,
        )
    };
    assert_eq!(first(&all.behind), (20, 0, 600, 1, 0));
    assert_eq!(first(&shown.behind), (20, 0, 600, 0, 1));
    assert_eq!(asked(Some(2)).chains, whole.chains);
    let printed = text::render_chains(&cut, 120);
    assert!(
        printed.contains("1 session behind it") && !printed.contains("pid 10"),
        "{printed}"
    );

    // The same from the other end: whom 10 and 50 waited for directly.
    let wait = |report: &CauseReport| {
        let tuple = report.waits.iter().find(|wait| &*wait.wait.event == "tuple");
        tuple.expect("a wait").clone()
    };
    assert!(wait(&whole).links.is_empty());
    let links = wait(&cut).links;
    let levels: Vec<_> = links
        .iter()
        .map(|link| {
            (
                link.end,
                link.sessions,
                link.ns,
                link.beyond_ns,
                link.further.len(),
            )
        })
        .collect();
    assert_eq!(
        levels,
        [
            (None, 1, 900, 900, 0),
            (Some(CauseKind::Client), 1, 200, 0, 0),
            (Some(CauseKind::Device), 0, 100, 0, 0),
        ]
    );
    let deeper = wait(&asked(Some(2))).links;
    let further: Vec<_> = deeper[0].further.iter().map(|link| (link.end, link.ns)).collect();
    assert_eq!(
        further,
        [(Some(CauseKind::Client), 600), (Some(CauseKind::Session), 300)]
    );
    assert_eq!(deeper[0].beyond_ns, 0);
    let printed = text::render_causes(&cut, 120);
    assert!(printed.contains("└ further on"), "{printed}");
    let json: Value = serde_json::from_str(&json::render_causes(&asked(Some(2)))).expect("JSON");
    assert_eq!(json["causes"][0]["links"][0]["further"][1]["query"], "7");
    let json: Value = serde_json::from_str(&json::render_causes(&whole)).expect("JSON");
    assert!(json["causes"][0].get("links").is_none());
}

fn assert_links_are_conserved(links: &[ChainLink]) {
    for link in links {
        let further: u128 = link.further.iter().map(|link| link.ns).sum();
        match link.end {
            Some(_) => assert_eq!((further, link.beyond_ns), (0, 0)),
            None => assert_eq!(further + link.beyond_ns, link.ns),
        }
        assert_links_are_conserved(&link.further);
    }
}

/// Time of all in a tree.
fn waited(behind: &[Waiting]) -> u128 {
    let of = |one: &Waiting| {
        assert_eq!(waited(&one.behind) + one.beyond.ns, one.behind_ns);
        one.ns + one.behind_ns
    };
    behind.iter().map(of).sum()
}

/// Nanoseconds by the labels of the ledger's DB time.
fn ledger_by(source: &Source, by: &[Dimension]) -> BTreeMap<Vec<String>, u128> {
    let options = Options {
        by: by.to_vec(),
        ..Options::default()
    };
    let report = report(source, &options).expect("a report");
    let rows = report.ledger.section(Section::DbTime);
    let ledger: BTreeMap<Vec<String>, u128> = rows
        .map(|row| (row.labels.clone(), row.sums.total_ns()))
        .collect();
    assert_eq!(ledger.values().sum::<u128>(), report.db_time_ns());
    ledger
}

#[test]
fn the_ledger_is_grouped_by_cause_and_root() {
    let of = |labels: &[&str], ns: u128| (labels.iter().map(ToString::to_string).collect(), ns);
    assert_eq!(
        ledger_by(&pile_up(), &[Dimension::Cause]),
        BTreeMap::from([
            of(&["client"], 800),
            of(&["session"], 300),
            of(&["device"], 100),
            of(&["[unknown]"], 50),
            of(&["[none]"], 1_000),
        ])
    );
    assert_eq!(
        ledger_by(&pile_up(), &[Dimension::Wait, Dimension::Root]),
        BTreeMap::from([
            of(
                &["Lock:tuple", "client backend: idle in transaction (its client)"],
                800
            ),
            of(&["Lock:tuple", "client backend: on a CPU"], 300),
            of(&["Lock:tuple", "a device"], 100),
            of(&["IO:WALSync", "[unknown]"], 50),
            of(&["CPU", "[none]"], 1_000),
        ])
    );
    let options = Options {
        by: vec![Dimension::Cause],
        ..Options::default()
    };
    let mut rows = Rows::default();
    rows.sessions.push(session(1, 11, "client backend", "a", "d"));
    rows.activity.push(activity(1, 1, TUPLE, State::Sleep, 900));
    let silent = report(&Source::memory(meta(), rows), &options).expect("a report");
    assert!(text::render(&silent, 100).contains("'cause' was not recorded."));
}

#[test]
fn what_samples_divide_is_not_exact() {
    let mut rows = Rows::default();
    rows.sessions.push(session(1, 11, "client backend", "a", "d"));
    rows.sessions.push(session(2, 22, "client backend", "b", "d"));
    for second in 1..4 {
        rows.activity.push(ActivityRow {
            fidelity: Fidelity::Exact,
            ..activity(second, 1, TUPLE, State::Sleep, 900)
        });
    }
    let ledger = |rows: &Rows| {
        let options = Options {
            by: vec![Dimension::Second, Dimension::Cause],
            ..Options::default()
        };
        let report = report(&Source::memory(meta(), rows.clone()), &options).expect("a report");
        let rows = report.ledger.section(Section::DbTime);
        rows.map(|row| row.sums.fidelity()).collect::<Vec<_>>()
    };
    let exact = Some(FidelityMix::Exact);
    assert_eq!(ledger(&rows), [exact; 3]);
    rows.causes.push(cause(1, 1, 2, CauseKind::Client, vec![idle(2)]));
    rows.causes.push(cause(2, 1, 1, CauseKind::Client, vec![idle(2)]));
    rows.causes.push(cause(2, 1, 1, CauseKind::Timer, vec![]));
    let mut found = ledger(&rows);
    found.sort_by_key(|fidelity| *fidelity != exact);
    // One part in the first second; two in the second one, and the third has those of the others.
    let sampled = Some(FidelityMix::Sampled);
    assert_eq!(found, [exact, sampled, sampled, sampled, sampled]);
}

#[test]
fn pictures_have_levels_and_layers_of_causes() {
    let options = FlameOptions {
        by: vec![Dimension::Cause],
        ..FlameOptions::default()
    };
    let folded = flame(&pile_up(), &options).expect("stacks");
    let client = folded.stacks.iter().filter(|stack| stack.levels[0] == "client");
    assert_eq!(client.map(|stack| stack.ns).sum::<u128>(), 800);
    assert_eq!(
        folded.stacks.iter().map(|stack| stack.ns).sum::<u128>(),
        BLOCKED + 1_000
    );
    let twice = FlameOptions {
        causes: true,
        ..options
    };
    assert_eq!(flame(&pile_up(), &twice), Err(ReportError::CausesTwice));

    let options = TimelineOptions {
        by: Dimension::Root,
        width: BucketWidth::Seconds(1),
        ..TimelineOptions::default()
    };
    let line = timeline(&pile_up(), &options).expect("a time line");
    let device = line.values.iter().find(|value| value.label == "a device");
    assert_eq!(device.map(|value| value.ns), Some(100));
    assert_eq!(
        line.values.iter().map(|value| value.ns).sum::<u128>(),
        BLOCKED + 1_000
    );
}

#[test]
fn each_root_has_a_lane_over_time_coloured_by_what_it_did() {
    let chains = chains_over_time(&pile_up(), &CauseOptions::default()).expect("nothing is wrong");
    assert_eq!(
        (chains.blocked_ns, chains.buckets.len(), chains.width_s),
        (BLOCKED, 10, 1)
    );
    let lanes: Vec<_> = chains
        .lanes
        .iter()
        .map(|lane| {
            let root = lane.root.as_ref().expect("one").as_ref();
            (root.map(|who| who.pid).map_err(|kind| *kind), lane.ns)
        })
        .collect();
    assert_eq!(
        lanes,
        [
            (Ok(30), 800),
            (Ok(40), 300),
            (Err(CauseKind::Device), 100),
            (Err(CauseKind::Unknown), 50)
        ]
    );
    let buckets = |lane: usize| -> Vec<_> {
        let all = chains.lanes[lane].buckets.iter().enumerate();
        all.flat_map(|(at, bucket)| bucket.iter().map(move |(activity, ns)| (at, *activity, *ns)))
            .collect()
    };
    assert_eq!(buckets(0), [(1, RootActivity::IdleInTransaction, 800)]);
    assert_eq!(buckets(1), [(1, RootActivity::OnCpu, 300)]);
    assert_eq!(buckets(3), [(2, RootActivity::Unknown, 50)]);

    let options = CauseOptions {
        top: 1,
        ..CauseOptions::default()
    };
    let few = chains_over_time(&pile_up(), &options).expect("nothing is wrong");
    let [first, others] = few.lanes.as_slice() else {
        panic!("{few:?}");
    };
    assert_eq!((first.ns, others.ns, others.count), (800, 450, 3));

    let svg = chains_svg::render(&chains);
    let mut reader = quick_xml::Reader::from_str(&svg);
    while !matches!(
        reader.read_event().expect("well-formed"),
        quick_xml::events::Event::Eof
    ) {}
    for part in ["pid 30, u", "a device", "idle in transaction: 0.000 s, 64.0 %"] {
        assert!(svg.contains(part), "{part}: {svg}");
    }
}

proptest! {
    #[test]
    fn whatever_is_asked_the_parts_sum_to_the_ledger(
        times in prop::collection::vec((0..4i64, 1..4u64, 0..1_000_000_007u64), 0..30),
        samples in prop::collection::vec((0..4i64, 1..4u64, 0..50u64, 0..4usize, 0..3usize), 0..40),
        depth in 1..4usize,
        top in 1..4usize,
    ) {
        let mut rows = Rows::default();
        for id in 1..9 {
            rows.sessions.push(session(id, id as u32, "client backend", "u", "d"));
        }
        for &(second, waiter, ns) in &times {
            rows.activity.push(activity(second, waiter, TUPLE, State::Sleep, ns));
        }
        for &(second, waiter, n, links, end) in &samples {
            let mut chain: Vec<_> = (0..links as u64).map(|n| waits(4 + n)).collect();
            let kind = match end {
                0 => CauseKind::Client,
                1 => CauseKind::Session,
                _ => CauseKind::Unknown,
            };
            if let Some(last) = chain.last_mut() {
                *last = if end == 1 { runs(8, n % 2) } else { idle(7) };
            }
            rows.causes.push(cause(second, waiter, n, kind, chain));
        }
        let blocked_ns = times.iter().map(|&(.., ns)| u128::from(ns)).sum::<u128>();
        let source = Source::memory(meta(), rows);
        let options = CauseOptions { depth: Some(depth), top, ..CauseOptions::default() };
        let report = causes(&source, &options).expect("nothing is wrong");
        prop_assert_eq!(report.blocked_ns, blocked_ns);
        assert_blockers_are_conserved(&report);
        for wait in &report.waits {
            prop_assert_eq!(wait.links.iter().map(|link| link.ns).sum::<u128>(), wait.ns);
            assert_links_are_conserved(&wait.links);
        }
        for chain in &report.chains {
            prop_assert_eq!(waited(&chain.behind), chain.behind_ns);
        }
        prop_assert_eq!(report.chains.iter().map(|chain| chain.behind_ns).sum::<u128>(), blocked_ns);
        text::render_causes(&report, 100);
        text::render_chains(&report, 100);
        text::render_blockers(&report, 100);

        let by_cause = ledger_by(&source, &[Dimension::Cause]);
        prop_assert_eq!(by_cause.values().sum::<u128>(), blocked_ns);
        // To a nanosecond for each row that is split.
        for kind in [CauseKind::Client, CauseKind::Session] {
            let of_chains: u128 = report.chains.iter().flat_map(|chain| &chain.doing)
                .filter(|part| part.kind == kind).map(|part| part.ns).sum();
            let of_ledger = by_cause.get(&vec![kind.as_str().to_string()]).copied().unwrap_or(0);
            let rows = (times.len() * samples.len()) as u128;
            prop_assert!(of_chains.abs_diff(of_ledger) <= rows, "{}: {} {}", kind.as_str(), of_chains, of_ledger);
        }

        let chains = chains_over_time(&source, &options).expect("nothing is wrong");
        prop_assert!(chains.lanes.len() <= top + 1);
        prop_assert_eq!(chains.blocked_ns, blocked_ns);
        for lane in &chains.lanes {
            prop_assert_eq!(lane.buckets.iter().flat_map(|bucket| bucket.values()).sum::<u128>(), lane.ns);
        }
        prop_assert!(chains_svg::render(&chains).ends_with("</svg>\n"));
    }
}
