//! Whom sessions waited for, in two hand-made recordings.

use crate::hand_made::waits::{idle, runs};
use crate::hand_made::{CPU, FIRST_SECOND, LOCK, MS, meta, row, session};
use dbtime_model::recording::Meta;
use dbtime_model::{ActivityRow, CauseKind, CauseLink, CauseRow, Rows, SessionId, State, StatementRow};
use dbtime_report::diff_export::{Widths, write_svg};
use dbtime_report::{Change, Diff, DiffOptions, Place, Source, Verdict, WorkUnit, diff, json, text};
use proptest::prelude::*;
use serde_json::Value;

/// Seconds of each recording.
const SECONDS: i64 = 20;

/// A statement that waits, milliseconds per second, and where following it ended.
type Waited = (u64, u64, CauseKind, Vec<CauseLink>);

/// Session 1 runs 200 ms of each second and waits for a lock.
fn recording(pids: [u32; 3], waited: &[Waited]) -> (Meta, Rows) {
    running(200, pids, waited)
}

/// Session 1 runs this many milliseconds. Every other second has a fiftieth more, so that there is noise.
fn running(cpu_ms: u64, pids: [u32; 3], waited: &[Waited]) -> (Meta, Rows) {
    let mut rows = Rows::default();
    for (id, pid) in (1..).zip(pids) {
        rows.sessions
            .push(session(id, pid, "client backend", "app", "shop"));
    }
    for (id, text) in [(7, "UPDATE t SET n = n + ?"), (8, "DELETE FROM t")] {
        rows.statements.push(StatementRow {
            id,
            text: text.into(),
            ..StatementRow::default()
        });
    }
    for second in 0..SECONDS {
        let time = FIRST_SECOND + second * 1_000_000;
        let noisy = |ms: u64| ms + if second % 2 == 0 { ms / 50 } else { 0 };
        rows.activity.push(ActivityRow {
            time,
            statement: 7,
            ..row(1, CPU, State::User, noisy(cpu_ms))
        });
        for (statement, ms, kind, chain) in waited {
            rows.activity.push(ActivityRow {
                time,
                statement: *statement,
                ..row(1, LOCK, State::Sleep, noisy(*ms))
            });
            rows.causes.push(CauseRow {
                time,
                session: SessionId(1),
                statement: *statement,
                wait_class: LOCK.0.into(),
                wait_event: LOCK.1.into(),
                state: State::Sleep,
                kind: *kind,
                chain: chain.clone(),
                samples: 10,
            });
        }
    }
    let mut meta = meta();
    meta.start_us = FIRST_SECOND;
    meta.end_us = FIRST_SECOND + SECONDS * 1_000_000;
    (meta, rows)
}

fn compare(good: &(Meta, Rows), bad: &(Meta, Rows)) -> Diff {
    compare_with(good, bad, &DiffOptions::default())
}

fn compare_with(good: &(Meta, Rows), bad: &(Meta, Rows), options: &DiffOptions) -> Diff {
    let source = |(meta, rows): &(Meta, Rows)| Source::memory(meta.clone(), rows.clone());
    diff([&source(good), &source(bad)], options).expect("they can be compared")
}

fn in_transaction(ms: u64) -> Waited {
    (7, ms, CauseKind::Client, vec![idle(2)])
}

fn good() -> (Meta, Rows) {
    recording([11, 12, 13], &[in_transaction(50)])
}

/// Alternating 51 and 50 ms are 50.5 a second, 404 for 400.
#[test]
fn the_cause_that_explains_the_change_is_named_whatever_its_pid() {
    let bad = recording([21, 22, 23], &[in_transaction(400)]);
    let diff = compare(&good(), &bad);
    let causes = diff.causes.as_ref().expect("both say it");
    let sentence = "Lock:transactionid: 354 ms more per second (50.5 ms in GOOD, 404 ms in BAD), behind a session (client backend) \
                    that was idle in transaction (its client).";
    assert_eq!(causes.sentence, sentence);
    let [change] = causes.changes.as_slice() else {
        panic!("{causes:#?}");
    };
    assert_eq!(change.change.verdict, Verdict::Significant);
    assert_eq!(change.change.difference, 353.5 * MS as f64);
    assert_eq!(
        change.change,
        Change {
            place: change.change.place.clone(),
            verdict: Verdict::Significant,
            ..causes.total.clone()
        }
    );
    assert_eq!(change.sessions, [1, 1]);
    let page = text::render_diff(&diff, 200);
    assert!(page.lines().next().expect("a line").contains(sentence), "{page}");
    let has = |words: &str| {
        page.lines()
            .any(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") == words)
    };
    assert!(
        has(
            "Lock:transactionid UPDATE t SET n = n + ? client backend, idle in transaction (its client) 50.5 ms 404 ms +354 ms +58.3 yes"
        ) && has("blocked DB time 50.5 ms 404 ms +354 ms +58.3"),
        "{page}"
    );

    let answer: Value = serde_json::from_str(&json::render_diff(&diff)).expect("JSON");
    assert_eq!(answer["cause"], sentence);
    let cause = &answer["causes"]["changes"][0];
    assert_eq!(cause["wait_event"], "transactionid");
    assert_eq!(cause["cause"]["session_state"], "idle in transaction");
    assert_eq!(cause["cause"]["pid"], 22);
    assert_eq!(cause["statements"][0]["query"], "7");
    assert_eq!(cause["statements"][0]["difference"], cause["difference"]);
    assert_eq!(answer["causes"]["not_recorded"], Value::Array(Vec::new()));
    assert_eq!(answer["causes"]["blocked"]["difference"], cause["difference"]);

    // What has gone.
    let back = compare(&bad, &good());
    let sentence = &back.causes.as_ref().expect("both say it").sentence;
    assert!(
        sentence.starts_with(
            "Lock:transactionid: 354 ms less per second (404 ms in GOOD, 50.5 ms in BAD), behind a session"
        ),
        "{sentence}"
    );
}

#[test]
fn times_are_per_transaction_where_everything_is() {
    let options = DiffOptions {
        transactions: Some([2_000.0, 1_000.0]),
        ..DiffOptions::default()
    };
    let bad = recording([21, 22, 23], &[in_transaction(400)]);
    let diff = compare_with(&good(), &bad, &options);
    assert_eq!(diff.unit, WorkUnit::Transaction);
    let causes = diff.causes.expect("both say it");
    // 50.5 ms in 20 s divided by 2,000, and 404 by 1,000.
    assert_eq!(causes.total.per_unit, [505_000.0, 8_080_000.0]);
    assert!(
        causes
            .sentence
            .contains("7.58 ms more per transaction (505 us in GOOD, 8.08 ms in BAD)"),
        "{}",
        causes.sentence
    );
}

/// As much waiting as before, but for others: nothing else shows it.
#[test]
fn what_grew_stands_first_and_what_shrank_after_it() {
    let held = |ms: u64| (8, ms, CauseKind::Session, vec![runs(3, 8)]);
    let device = |ms: u64| (0, ms, CauseKind::Device, Vec::new());
    let good = recording([11, 12, 13], &[in_transaction(300), held(50), device(100)]);
    let bad = recording([21, 22, 23], &[in_transaction(100), held(250), device(100)]);
    let diff = compare(&good, &bad);
    assert!(diff.waits.iter().all(|wait| wait.difference == 0.0));
    let causes = diff.causes.as_ref().expect("both say it");
    let kinds: Vec<_> = causes
        .changes
        .iter()
        .map(|of| (of.cause.kind, of.change.difference / MS as f64, of.change.verdict))
        .collect();
    assert_eq!(
        kinds,
        [
            (CauseKind::Session, 202.0, Verdict::Significant),
            (CauseKind::Client, -202.0, Verdict::Significant),
            (CauseKind::Device, 0.0, Verdict::Small),
        ]
    );
    assert!(diff.is_significant());
    assert_eq!(causes.total.difference, 0.0);
    assert_eq!(
        causes.sentence,
        "Lock:transactionid: 202 ms more per second (50.5 ms in GOOD, 252 ms in BAD), behind a session (client backend) that was on \
         a CPU, executing DELETE FROM t."
    );
    assert_eq!(diff.conclusion, "Per second nothing else differs beyond noise.");
    assert_eq!(diff.answer(), format!("{} {}", causes.sentence, diff.conclusion));
    let mut svg = Vec::new();
    write_svg(&diff, Widths::Bad, &mut svg).expect("memory");
    let svg = String::from_utf8(svg).expect("text");
    assert!(
        svg.contains("Lock:transactionid: 202 ms more per second"),
        "{svg}"
    );
    let few = DiffOptions {
        top: 1,
        ..DiffOptions::default()
    };
    let page = text::render_diff(&compare_with(&good, &bad, &few), 140);
    let other = page.lines().find(|line| line.contains("1 other"));
    assert!(other.is_some_and(|line| line.contains("-202 ms")), "{page}");
    assert!(page.contains("client backend, on a CPU: DELETE FROM t"), "{page}");
}

#[test]
fn what_shrank_most_is_not_among_the_others() {
    let held = |ms: u64| (8, ms, CauseKind::Session, vec![runs(3, 8)]);
    let good = recording([11, 12, 13], &[in_transaction(600), held(50)]);
    let bad = recording([21, 22, 23], &[in_transaction(100), held(150)]);
    let few = DiffOptions {
        top: 1,
        ..DiffOptions::default()
    };
    let page = text::render_diff(&compare_with(&good, &bad, &few), 140);
    let has = |name: &str, difference: &str| {
        page.lines()
            .any(|line| line.contains(name) && line.contains(difference))
    };
    assert!(has("client backend, idle in transaction", "-505 ms"), "{page}");
    assert!(has("1 other", "+101 ms"), "{page}");
}

#[test]
fn beside_a_cause_what_is_new_is_said_of_all_else() {
    let held = |ms: u64| (8, ms, CauseKind::Session, vec![runs(3, 8)]);
    let good = recording([11, 12, 13], &[in_transaction(300), held(50)]);
    let (meta, mut rows) = recording([21, 22, 23], &[in_transaction(100), held(250)]);
    // Only once: that is noise.
    rows.activity
        .push(row(1, ("IO", "DataFileRead", false), State::Disk, 950));
    let diff = compare(&good, &(meta, rows));
    assert!(
        diff.causes
            .as_ref()
            .is_ok_and(|causes| causes.sentence.starts_with("Lock:transactionid: 202 ms more"))
    );
    assert_eq!(
        diff.conclusion,
        "Per second nothing else differs beyond noise, but new in BAD: IO:DataFileRead (8 % of BAD's DB time)."
    );
}

/// Nobody waited in GOOD: otherwise its recorder would have followed it.
#[test]
fn a_recorder_that_met_no_waits_says_so() {
    let with = |schema: &str, engine: &str, (mut meta, rows): (Meta, Rows)| {
        meta.schema = schema.into();
        meta.collector.engine = engine.into();
        (meta, rows)
    };
    let quiet = |schema: &str, engine: &str| with(schema, engine, recording([11, 12, 13], &[]));
    let bad = recording([21, 22, 23], &[in_transaction(400)]);
    let of = |good: &(Meta, Rows), bad: &(Meta, Rows)| compare(good, bad).causes;
    let causes = of(&quiet("1.7", "BPF"), &bad).expect("both say it");
    assert!(
        causes
            .sentence
            .starts_with("Lock:transactionid: 404 ms more per second"),
        "{causes:#?}"
    );
    assert!(of(&bad, &quiet("1.7", "BPF")).is_ok());
    for (schema, engine) in [
        ("1.6", "BPF"),
        ("1.7", "proc: /proc and process memory"),
        ("1.7", "context switches"),
        ("1.7", "imported: perf script"),
        ("1.7", ""),
    ] {
        assert_eq!(of(&quiet(schema, engine), &bad), Err(vec!["GOOD"]));
    }
    // Nothing to compare.
    assert_eq!(of(&quiet("1.7", "BPF"), &quiet("1.7", "BPF")), Err(Vec::new()));
}

#[test]
fn what_the_wait_event_says_itself_is_no_sentence() {
    let device = |ms: u64| [(7, ms, CauseKind::Device, Vec::new())];
    let unknown = |ms: u64| [(7, ms, CauseKind::Unknown, vec![idle(2)])];
    let of = |good: &[Waited], bad: &[Waited]| {
        let diff = compare(&recording([1, 2, 3], good), &recording([4, 5, 6], bad));
        assert!(diff.is_significant());
        diff.causes.expect("both say it").sentence
    };
    assert_eq!(of(&device(50), &device(400)), "");
    assert_eq!(of(&unknown(50), &unknown(400)), "");
}

/// 400 ms more on a CPU, 200 ms more of waits: these have a cause, but it explains little of the whole.
#[test]
fn a_cause_that_explains_little_is_no_sentence() {
    let bad = |cpu_ms: u64| running(cpu_ms, [21, 22, 23], &[in_transaction(250)]);
    let of = |bad: &(Meta, Rows)| compare(&good(), bad).causes.expect("both say it");
    let causes = of(&bad(600));
    assert_eq!(causes.changes[0].change.verdict, Verdict::Significant);
    assert_eq!(causes.sentence, "");
    assert!(
        of(&bad(200))
            .sentence
            .starts_with("Lock:transactionid: 202 ms more")
    );
}

#[test]
fn where_a_side_does_not_say_it_nothing_is_compared() {
    let (meta, mut rows) = good();
    rows.causes.clear();
    let silent = (meta, rows);
    let half = compare(&good(), &silent);
    assert_eq!(half.causes, Err(vec!["BAD"]));
    let page = text::render_diff(
        &compare(&silent, &recording([1, 2, 3], &[in_transaction(400)])),
        120,
    );
    assert!(
        page.contains("Who was waited for is not compared: GOOD does not record it."),
        "{page}"
    );
    let both = compare(&silent, &silent);
    assert_eq!(both.causes, Err(vec!["GOOD", "BAD"]));
    assert!(!text::render_diff(&both, 120).contains("not compared"));
    let answer: Value = serde_json::from_str(&json::render_diff(&half)).expect("JSON");
    assert_eq!(answer["causes"]["not_recorded"][0], "BAD");
    assert_eq!(
        (&answer["causes"]["blocked"], &answer["cause"]),
        (&Value::Null, &Value::from(""))
    );
}

/// The same numbers are different statements if one server assigned them and on the other they are
/// fingerprints.
#[test]
fn statements_that_mean_nothing_to_the_other_side_tell_nothing_apart() {
    let with_ids = |ids: &str, pids: [u32; 3], statement: u64| {
        let chain = vec![runs(3, statement)];
        let (mut meta, rows) = recording(pids, &[(statement, 300, CauseKind::Session, chain)]);
        meta.database.statement_ids = ids.into();
        (meta, rows)
    };
    let good = with_ids("query_id", [11, 12, 13], 7);
    let bad = with_ids("fingerprint", [21, 22, 23], 8);
    let mixed = compare(&good, &bad).causes.expect("both say it");
    let [change] = mixed.changes.as_slice() else {
        panic!("{mixed:#?}");
    };
    assert_eq!(change.change.difference, 0.0);
    assert_eq!(
        change
            .cause
            .root
            .as_ref()
            .map(|root| (root.statement, root.text.clone())),
        Some((0, None))
    );
    let alike = compare(&good, &with_ids("query_id", [21, 22, 23], 8));
    assert_eq!(alike.causes.expect("both say it").changes.len(), 2);
}

type Sample = (i64, u64, usize, u64);

fn generated(samples: &[Sample]) -> (Meta, Rows) {
    let (meta, mut rows) = recording([1, 2, 3], &[]);
    for (second, statement, end, ns) in samples {
        let time = FIRST_SECOND + second * 1_000_000;
        let (kind, chain) = match end {
            0 => (CauseKind::Client, vec![idle(2)]),
            1 => (CauseKind::Session, vec![idle(3), runs(2, *statement)]),
            2 => (CauseKind::Device, Vec::new()),
            _ => (CauseKind::Unknown, Vec::new()),
        };
        rows.activity.push(ActivityRow {
            time,
            statement: *statement,
            ns: *ns,
            ..row(1, LOCK, State::Sleep, 0)
        });
        rows.causes.push(CauseRow {
            time,
            session: SessionId(1),
            statement: *statement,
            wait_class: LOCK.0.into(),
            wait_event: LOCK.1.into(),
            state: State::Sleep,
            kind,
            chain,
            samples: ns % 5,
        });
    }
    // So that the table exists.
    rows.causes.push(CauseRow {
        samples: 1,
        ..rows.causes.first().cloned().unwrap_or(CauseRow {
            time: FIRST_SECOND,
            session: SessionId(1),
            statement: 0,
            wait_class: "IO".into(),
            wait_event: "WALSync".into(),
            state: State::Disk,
            kind: CauseKind::Device,
            chain: Vec::new(),
            samples: 1,
        })
    });
    (meta, rows)
}

fn samples() -> impl Strategy<Value = Vec<Sample>> {
    prop::collection::vec((0..SECONDS, 6..9u64, 0..4usize, 1..1_000_000_007u64), 0..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn differences_of_causes_sum_to_that_of_blocked_db_time(good in samples(), bad in samples()) {
        let sides = [generated(&good), generated(&bad)];
        let diff = compare(&sides[0], &sides[1]);
        let causes = diff.causes.as_ref().expect("both say it");
        let blocked = [&good, &bad].map(|of| of.iter().map(|(.., ns)| u128::from(*ns)).sum::<u128>());
        prop_assert_eq!(causes.total.values, blocked);
        // The same as in the ledger.
        let cells = diff.cells.iter().filter(|cell| matches!(cell.place, Place::Cell(_, State::Sleep)));
        let of_cells = cells.fold([0; 2], |sum: [u128; 2], cell| [sum[0] + cell.values[0], sum[1] + cell.values[1]]);
        prop_assert_eq!(of_cells, blocked);
        let sum = |all: &mut dyn Iterator<Item = [u128; 2]>| {
            all.fold([0; 2], |sum: [u128; 2], more| [sum[0] + more[0], sum[1] + more[1]])
        };
        prop_assert_eq!(sum(&mut causes.changes.iter().map(|of| of.change.values)), blocked);
        for of in &causes.changes {
            prop_assert_eq!(sum(&mut of.statements.iter().map(|of| of.change.values)), of.change.values);
        }
        let growth: Vec<f64> = causes.changes.iter().map(|of| of.change.difference).collect();
        let grown = growth.iter().take_while(|difference| **difference > 0.0).count();
        prop_assert!(growth[..grown].is_sorted_by(|one, other| one >= other));
        prop_assert!(growth[grown..].iter().all(|difference| *difference <= 0.0) && growth[grown..].is_sorted());
        text::render_diff(&diff, 100);
    }
}
