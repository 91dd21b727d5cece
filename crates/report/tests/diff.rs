//! Two hand-made recordings: the differences between them were worked out with pencil and paper.

use crate::hand_made::{CPU, FIRST_SECOND, LOCK, MS, meta, row, session, stack};
use dbtime_model::recording::Meta;
use dbtime_model::{
    ActivityRow, CounterRow, Frame, LatencyRow, Rows, SessionId, StackRow, State, counter, stack_id,
};
use dbtime_report::diff_export::{Widths, write_folded, write_svg};
use dbtime_report::{
    Change, Diff, DiffError, DiffOptions, Filter, Place, ReportError, Source, StatementChange, Verdict,
    WorkUnit, diff, json, text,
};
use proptest::prelude::*;

/// Seconds of each recording.
const SECONDS: u64 = 20;

/// A stack, a wait event, a state, and how many milliseconds of each second are spent there.
type Spent<'a> = (&'a [&'a str], (&'a str, &'a str, bool), State, u64);

/// One session; in every second it spends this many milliseconds on each stack, wait event and state. Every other second has a little
/// more, so that there is noise.
fn recording(time: &[Spent<'_>]) -> (Meta, Rows) {
    let mut rows = Rows {
        sessions: vec![session(1, 4711, "client backend", "app", "shop")],
        ..Rows::default()
    };
    for (functions, wait, state, ms) in time {
        let stack = stack(functions, "postgres");
        for second in 0..SECONDS {
            let more = if second % 2 == 0 { ms / 50 } else { 0 };
            rows.activity.push(ActivityRow {
                time: FIRST_SECOND + second as i64 * 1_000_000,
                user_stack: stack.id,
                ..row(1, *wait, *state, ms + more)
            });
        }
        if !rows.stacks.contains(&stack) {
            rows.stacks.push(stack);
        }
    }
    let mut meta = meta();
    meta.start_us = FIRST_SECOND;
    meta.end_us = FIRST_SECOND + SECONDS as i64 * 1_000_000;
    (meta, rows)
}

/// The same for functions below `main`: in every second each is on a CPU for this many milliseconds.
fn of_functions(ms: &[u64]) -> (Meta, Rows) {
    let names: Vec<String> = (0..ms.len()).map(|n| format!("function_{n}")).collect();
    let stacks: Vec<[&str; 2]> = names.iter().map(|name| ["main", name.as_str()]).collect();
    let time: Vec<Spent<'_>> = stacks
        .iter()
        .zip(ms)
        .map(|(stack, ms)| (stack.as_slice(), CPU, State::User, *ms))
        .collect();
    recording(&time)
}

fn compare_with(good: &(Meta, Rows), bad: &(Meta, Rows), options: &DiffOptions) -> Result<Diff, DiffError> {
    let source = |(meta, rows): &(Meta, Rows)| Source::memory(meta.clone(), rows.clone());
    diff([&source(good), &source(bad)], options)
}

fn compare(good: &(Meta, Rows), bad: &(Meta, Rows)) -> Diff {
    compare_with(good, bad, &DiffOptions::default()).expect("they can be compared")
}

const SCAN: &[&str] = &["main", "PostgresMain", "ExecScan", "heap_getnext"];
const CHECKSUM: &[&str] = &[
    "main",
    "PostgresMain",
    "ExecScan",
    "heap_getnext",
    "PageIsVerified",
    "checksum_page",
];
const SORT: &[&str] = &["main", "PostgresMain", "ExecSort", "qsort"];
const LOCKED: &[&str] = &[
    "main",
    "PostgresMain",
    "ExecUpdate",
    "LockAcquire",
    "ProcSleep",
    "WaitLatch",
    "epoll_wait",
];

fn good() -> (Meta, Rows) {
    recording(&[(SCAN, CPU, State::User, 200), (SORT, CPU, State::User, 100)])
}

fn with_checksums() -> (Meta, Rows) {
    recording(&[
        (SCAN, CPU, State::User, 200),
        (SORT, CPU, State::User, 100),
        (CHECKSUM, CPU, State::User, 50),
    ])
}

fn function<'a>(diff: &'a Diff, name: &str) -> &'a Change {
    diff.functions
        .iter()
        .find(|change| matches!(&change.place, Place::Function(function) if function.name == name))
        .unwrap_or_else(|| panic!("no function {name} in {:#?}", diff.functions))
}

/// 50 ms in every second, one more in every other: 1010 ms in 20 s.
#[test]
fn a_function_that_one_side_runs_is_found_to_the_nanosecond() {
    let diff = compare(&good(), &with_checksums());
    assert_eq!(diff.unit, WorkUnit::Second);
    let checksum = function(&diff, "checksum_page");
    assert_eq!(checksum.values, [0, u128::from(1_010 * MS)]);
    assert_eq!(checksum.self_values, checksum.values);
    assert_eq!(checksum.difference, 50.5 * MS as f64);
    assert_eq!(checksum.verdict, Verdict::Significant);
    // Its caller did nothing more itself, but all of it is below it.
    let caller = function(&diff, "PageIsVerified");
    assert_eq!((caller.difference, caller.values), (0.0, checksum.values));
    assert_eq!(function(&diff, "qsort").difference, 0.0);
    assert_eq!(diff.total.difference, 50.5 * MS as f64);
    assert!(
        diff.conclusion.contains(
            "The extra 50.5 ms per second of BAD is in checksum_page under PageIsVerified (CPU, user)"
        ),
        "{}",
        diff.conclusion
    );
    let text = text::render_diff(&diff, 120);
    let first = text.lines().next().expect("a line");
    assert!(first.contains("checksum_page under PageIsVerified"), "{text}");
    // On a terminal it is wrapped; otherwise it is one line, for programs that read lines.
    assert!(first.chars().count() > 80, "{text}");
    let wrapped = text::render_diff_at_terminal(&diff, 80);
    let lines: Vec<&str> = wrapped.lines().take_while(|line| !line.is_empty()).collect();
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{wrapped}");
    assert!(lines.join(" ").starts_with(first), "{wrapped}");
}

#[test]
fn what_only_bad_does_is_named_even_where_it_is_noise() {
    let (meta, mut rows) = good();
    let mut jit = stack(
        &[
            "main",
            "PostgresMain",
            "ExecScan",
            "llvm_compile_expr",
            "optimize",
        ],
        "postgres",
    );
    for frame in &mut jit.frames[3..] {
        frame.module = "libLLVM-14.so.1".into();
    }
    jit.id = stack_id(&jit.frames);
    // Two seconds of twenty: a bootstrap over seconds cannot call that significant.
    for second in [7, 8] {
        rows.activity.push(ActivityRow {
            time: FIRST_SECOND + second * 1_000_000,
            user_stack: jit.id,
            ..row(1, CPU, State::User, 400)
        });
    }
    rows.stacks.push(jit);
    let diff = compare(&good(), &(meta, rows));
    assert!(!diff.is_significant(), "{}", diff.conclusion);
    assert_eq!(
        diff.conclusion,
        "No difference beyond noise, but new in BAD: module libLLVM-14 (12 % of BAD's DB time)."
    );
    assert_eq!(compare(&good(), &good()).new_in_bad, []);
    // What has gone is not new.
    assert_eq!(compare(&with_checksums(), &good()).new_in_bad, []);
}

#[test]
fn what_has_gone_is_found_too() {
    let diff = compare(&with_checksums(), &good());
    assert!(
        diff.conclusion
            .contains("The lost 50.5 ms per second of BAD was in checksum_page under PageIsVerified"),
        "{}",
        diff.conclusion
    );
}

#[test]
fn a_wait_is_named_with_its_state_and_who_waits() {
    let bad = recording(&[
        (SCAN, CPU, State::User, 200),
        (SORT, CPU, State::User, 100),
        (LOCKED, LOCK, State::Sleep, 400),
    ]);
    let diff = compare(&good(), &bad);
    let named = "LockAcquire under ExecUpdate (Lock:transactionid, sleep)";
    assert!(diff.conclusion.contains(named), "{}", diff.conclusion);
}

#[test]
fn times_are_per_transaction_when_transactions_are_known() {
    let counted = |(meta, mut rows): (Meta, Rows), per_second: i64| {
        for second in 0..SECONDS as i64 {
            rows.counters.push(CounterRow {
                time: FIRST_SECOND + second * 1_000_000,
                session: SessionId(1),
                source: "postgres".into(),
                name: counter::TRANSACTIONS.into(),
                value: per_second,
                ..CounterRow::default()
            });
        }
        (meta, rows)
    };
    let diff = compare(&counted(good(), 100), &counted(with_checksums(), 50));
    assert_eq!((diff.unit, diff.unit_is_told), (WorkUnit::Transaction, false));
    // 303 ms divided by 100, 353.5 ms by 50.
    assert_eq!(diff.total.per_unit, [3_030_000.0, 7_070_000.0]);
    // The first line begins with the whole.
    let text = text::render_diff(&diff, 120);
    assert!(
        text.starts_with(
            "Transactions per second: 100 in GOOD, 50.0 in BAD (0.500 times). DB time per transaction: 3.03 ms in GOOD, \
             7.07 ms in BAD (2.33 times). "
        ),
        "{text}"
    );
    // A second session, whose transactions nobody counted, has two fifths of DB time.
    let (meta, mut rows) = counted(with_checksums(), 50);
    rows.sessions
        .push(session(2, 4712, "client backend", "app", "shop"));
    let more: Vec<ActivityRow> = rows
        .activity
        .iter()
        .filter(|row| row.ns > 150 * MS)
        .cloned()
        .collect();
    rows.activity.extend(more.into_iter().map(|row| ActivityRow {
        session: SessionId(2),
        ..row
    }));
    let diff = compare(&counted(good(), 100), &(meta, rows));
    assert_eq!(diff.unit, WorkUnit::Second);
    assert!(
        diff.headline.contains("how much work was done is not known"),
        "{}",
        diff.headline
    );
    let told = DiffOptions {
        transactions: Some([4_000.0, 1_000.0]),
        ..DiffOptions::default()
    };
    let diff = compare_with(&good(), &with_checksums(), &told).expect("a comparison");
    assert_eq!((diff.unit, diff.unit_is_told), (WorkUnit::Transaction, true));
    assert_eq!(diff.total.per_unit, [1_515_000.0, 7_070_000.0]);
    let error = compare_with(
        &good(),
        &good(),
        &DiffOptions {
            per: Some(WorkUnit::Request),
            ..DiffOptions::default()
        },
    );
    assert!(
        matches!(
            &error,
            Err(DiffError::Unit {
                side: "GOOD",
                unit: WorkUnit::Request,
                ..
            })
        ),
        "{error:?}"
    );
}

/// Gives the rows of each stack the statement at its place in `ids`.
fn of_statements((meta, mut rows): (Meta, Rows), ids: &[u64]) -> (Meta, Rows) {
    let stacks: Vec<_> = rows.stacks.iter().map(|stack| stack.id).collect();
    for row in &mut rows.activity {
        let number = stacks
            .iter()
            .position(|id| *id == row.user_stack)
            .expect("a stack");
        row.statement = ids[number];
    }
    (meta, rows)
}

fn with_transactions((meta, mut rows): (Meta, Rows), per_second: i64) -> (Meta, Rows) {
    for second in 0..SECONDS as i64 {
        rows.counters.push(CounterRow {
            time: FIRST_SECOND + second * 1_000_000,
            session: SessionId(1),
            source: counter::SESSION_MEMORY.into(),
            name: counter::TRANSACTIONS.into(),
            value: per_second,
            ..CounterRow::default()
        });
    }
    (meta, rows)
}

/// 100 transactions a second become 50. Statement 1 takes 1 ms of each at first, then 6, 4 of them blocked on the disk; statement 2 takes
/// 2 ms, as before; the rest belongs to none.
#[test]
fn the_statement_that_changed_is_named_per_transaction_with_where_its_time_went() {
    const READING: &[&str] = &["main", "PostgresMain", "ReadBuffer", "pread64"];
    let text = |(meta, mut rows): (Meta, Rows)| {
        rows.statements.push(dbtime_model::StatementRow {
            id: -42i64 as u64,
            text: "SELECT v\n FROM n WHERE id = ?".into(),
            ..Default::default()
        });
        (meta, rows)
    };
    let good = of_statements(
        recording(&[
            (SCAN, CPU, State::User, 100),
            (SORT, CPU, State::User, 200),
            (LOCKED, LOCK, State::Sleep, 50),
        ]),
        &[-42i64 as u64, 2, 0],
    );
    let bad = of_statements(
        recording(&[
            (SCAN, CPU, State::User, 100),
            (SORT, CPU, State::User, 100),
            (LOCKED, LOCK, State::Sleep, 50),
            (READING, crate::hand_made::READ, State::Disk, 200),
        ]),
        &[-42i64 as u64, 2, 0, -42i64 as u64],
    );
    let diff = compare(
        &with_transactions(text(good.clone()), 100),
        &with_transactions(text(bad.clone()), 50),
    );
    assert_eq!(diff.unit, WorkUnit::Second);
    let statements = diff.statements.as_ref().expect("they are known");
    assert_eq!(statements.per, WorkUnit::Transaction);
    assert_eq!(
        statements.sentence,
        "Query -42 (SELECT v FROM n WHERE id = ?) takes 5.05 ms more DB time per transaction (1.01 ms in GOOD, 6.06 ms in BAD: 6.00 \
         times), 80 % of that in IO:DataFileRead, disk: its reads now come from the device."
    );
    let page = text::render_diff(&diff, 120);
    let first = page.lines().next().expect("a line");
    assert!(
        first.contains(&statements.sentence) && page.contains("Statements (per transaction"),
        "{page}"
    );
    assert_eq!(statements.changes.len(), 3);
    let of = |id: u64| {
        let is_it = |of: &&StatementChange| of.change.place == Place::Statement(id);
        statements.changes.iter().find(is_it).expect("a statement")
    };
    assert_eq!(of(2).change.difference, 0.0);
    // 50.5 ms a second are 0.505 ms of one transaction and 1.01 of the other: 5 % of DB time, but of no statement.
    assert!((of(0).change.difference - 0.505e6).abs() < 1.0);
    let answer: serde_json::Value = serde_json::from_str(&json::render_diff(&diff)).expect("JSON");
    assert_eq!(answer["statements"][0]["query"], "-42");
    assert_eq!(answer["statements"][0]["cells"][0]["state"], "disk");
    assert_eq!(answer["statements_per"], "transaction");
    assert_eq!(answer["statement"], statements.sentence.as_str());

    // Without transactions: per second, and the text says so.
    let diff = compare(&text(good), &text(bad));
    let sentence = &diff.statements.as_ref().expect("known").sentence;
    assert!(
        sentence.contains("takes 202 ms more DB time per second (101 ms in GOOD, 303 ms in BAD"),
        "{sentence}"
    );
}

#[test]
fn no_statement_is_named_where_none_changed_or_none_is_known() {
    let of_one = |recorded: (Meta, Rows)| of_statements(recorded, &[7, 8, 9]);
    let equal = compare(&of_one(good()), &of_one(good()));
    assert_eq!(equal.statements.as_ref().expect("known").sentence, "");
    assert!(!text::render_diff(&equal, 120).contains("Query"));
    // 4 % of DB time.
    let more = recording(&[(SCAN, CPU, State::User, 212), (SORT, CPU, State::User, 100)]);
    let small = compare(&of_one(good()), &of_one(more));
    assert_eq!(small.statements.as_ref().expect("known").sentence, "");
    // Time without a statement is not a statement that changed.
    let of_none = |recorded: (Meta, Rows)| of_statements(recorded, &[7, 8, 0]);
    let none = compare(&of_none(good()), &of_none(with_checksums()));
    assert_eq!(none.statements.as_ref().expect("known").sentence, "");
    assert!(none.is_significant());
    // One side does not know any statements.
    let half = compare(&good(), &of_one(with_checksums()));
    assert_eq!(half.statements, None);
    // The same number is a different statement if one server assigned it and on the other it is a fingerprint.
    let numbered = |ids: &str, (mut meta, rows): (Meta, Rows)| {
        meta.database.statement_ids = ids.into();
        of_one((meta, rows))
    };
    let [older, ids, fingerprints] = ["", "query_id", "fingerprint"].map(|ids| numbered(ids, good()));
    for server_gives_them in [&older, &ids] {
        let mixed = compare(server_gives_them, &fingerprints);
        assert_eq!(mixed.statements, None);
        assert!(mixed.warnings[0].contains("fingerprints"), "{:?}", mixed.warnings);
        let alike = compare(server_gives_them, &ids);
        assert!(alike.statements.is_some() && alike.warnings.is_empty());
    }
    assert!(compare(&fingerprints, &fingerprints).statements.is_some());
}

#[test]
fn a_statement_that_only_one_side_has_is_new_or_gone() {
    let of = |recorded: (Meta, Rows)| of_statements(recorded, &[7, 8, 9]);
    let forth = compare(&of(good()), &of(with_checksums()));
    assert_eq!(
        forth.statements.expect("known").sentence,
        "Query 9 is new in BAD, with 50.5 ms per second, 100 % of that in CPU, user."
    );
    let back = compare(&of(with_checksums()), &of(good()));
    assert_eq!(
        back.statements.expect("known").sentence,
        "Query 9 is not in BAD, and took 50.5 ms per second in GOOD, 100 % of that in CPU, user."
    );
}

#[test]
fn stacks_without_times_are_compared_per_sample() {
    let counted = |(meta, mut rows): (Meta, Rows)| {
        for row in &mut rows.activity {
            (row.ns, row.samples) = (0, row.ns / MS);
        }
        (meta, rows)
    };
    let diff = compare(&counted(good()), &counted(with_checksums()));
    assert_eq!(diff.unit, WorkUnit::Sample);
    let checksum = function(&diff, "checksum_page");
    assert_eq!(checksum.values, [0, 1_010]);
    assert!((checksum.difference - 50.5 / 353.5).abs() < 1e-9, "{checksum:?}");
}

#[test]
fn equal_recordings_do_not_differ() {
    let diff = compare(&good(), &good());
    assert!(
        !diff.is_significant() && diff.conclusion == "No difference.",
        "{}",
        diff.conclusion
    );
    assert!(
        diff.cells
            .iter()
            .chain(&diff.functions)
            .all(|change| change.difference == 0.0)
    );
    assert!(diff.paths.is_empty(), "{:#?}", diff.paths);
    assert_eq!(diff.common_factor, 1.0);
    assert!(!text::render_diff(&diff, 100).contains("Ledger"));
}

/// Twenty functions that all take 1.4 times as long: a slower host, not a cause.
#[test]
fn what_changes_all_alike_is_no_cause() {
    let all = |ms: u64| of_functions(&[ms; 20]);
    let diff = compare(&all(20), &all(28));
    assert!((diff.common_factor - 1.4).abs() < 0.01, "{}", diff.common_factor);
    assert!(!diff.is_significant(), "{}", diff.conclusion);
    assert!(diff.whole.contains("1.40 times as long"), "{}", diff.whole);
}

/// Twelve functions take 0.6 times as long, a thirteenth 300 ms longer: the sentence has that number, as the tables do, not how much
/// longer it is than with the common factor (340).
#[test]
fn the_amount_of_the_answer_is_that_of_the_tables() {
    let all = |most: u64, last: u64| of_functions(&[[most; 12].as_slice(), &[last]].concat());
    let diff = compare(&all(50, 100), &all(30, 400));
    assert!((diff.common_factor - 0.6).abs() < 0.02, "{}", diff.common_factor);
    assert!(
        diff.conclusion.starts_with("BAD has 30")
            && diff.conclusion.contains(" ms more per second in function_12"),
        "{}",
        diff.conclusion
    );
}

/// A stripped binary: all that can be said is where its unnamed functions are called.
#[test]
fn a_difference_in_functions_without_names_is_said_to_be_below_the_last_name() {
    let without_name = &["main", "PostgresMain", "ExecScan", "", ""];
    let bad = recording(&[
        (SCAN, CPU, State::User, 100),
        (SORT, CPU, State::User, 100),
        (without_name, CPU, State::User, 100),
    ]);
    // The time under ExecScan is unchanged, and so is that of the wait event: only paths differ.
    let diff = compare(&good(), &bad);
    assert!(diff.is_significant());
    assert_eq!(
        diff.conclusion,
        "BAD has 101 ms more per second in [postgres] under ExecScan (CPU, user), and less elsewhere: its DB time as a whole \
         has not grown as much."
    );
}

/// Twelve functions take 1.4 times as long; a thirteenth 0.8 times. Measured against the others that is two fifths less, as measured it is
/// not: what depends on the estimate of the common factor is not a difference.
#[test]
fn what_is_large_only_by_the_common_factor_is_no_difference() {
    let all = |most: u64, last: u64| of_functions(&[[most; 12].as_slice(), &[last]].concat());
    let diff = compare(&all(50, 400), &all(70, 320));
    assert!((diff.common_factor - 1.4).abs() < 0.02, "{}", diff.common_factor);
    assert!(!diff.is_significant(), "{}", diff.conclusion);
    // Either alone would be one.
    assert!(compare(&all(50, 400), &all(50, 220)).is_significant());
}

/// What else runs on the host is not a cause in the database; it is mentioned, not called significant.
#[test]
fn time_in_the_run_queue_is_shown_but_not_tested() {
    let bad = recording(&[
        (SCAN, CPU, State::User, 200),
        (SORT, CPU, State::User, 100),
        (SORT, CPU, State::Runnable, 400),
    ]);
    let diff = compare(&good(), &bad);
    assert!(!diff.is_significant(), "{}", diff.conclusion);
    assert_eq!(diff.cells[0].verdict, Verdict::Host);
    assert_eq!(diff.cells[0].difference, 404.0 * MS as f64);
    assert_eq!(diff.total.difference, 404.0 * MS as f64);
    assert!(
        diff.whole
            .contains("the host took 0 ns in GOOD and 404 ms in BAD"),
        "{}",
        diff.whole
    );
}

#[test]
fn latencies_are_compared_by_quantile() {
    let with_latency = |ns: u64| {
        let (meta, mut rows) = good();
        for second in 0..SECONDS as i64 {
            rows.latency.push(LatencyRow {
                time: FIRST_SECOND + second * 1_000_000,
                session: SessionId(1),
                kind: "wait".into(),
                name: "IO:WALSync".into(),
                device: "".into(),
                bytes: 0,
                source: "".into(),
                file: "".into(),
                from_ns: ns,
                to_ns: ns + 1,
                count: 10,
                sum_ns: 10 * ns,
                max_ns: ns,
                ..LatencyRow::default()
            });
        }
        (meta, rows)
    };
    let diff = compare(&with_latency(1_000_000), &with_latency(3_000_000));
    let [change] = diff.latencies.as_slice() else {
        panic!("{:#?}", diff.latencies)
    };
    assert_eq!(change.per_unit, [10.0, 10.0]);
    assert_eq!(change.difference, 20e6);
    for quantity in &change.quantities {
        assert_eq!(quantity.ns, [Some(1e6), Some(3e6)], "{}", quantity.name);
        assert_eq!(quantity.verdict, Verdict::Significant, "{}", quantity.name);
    }
    let text = text::render_diff(&diff, 120);
    assert!(
        text.contains("events by latency") && text.contains("100.00"),
        "{text}"
    );
}

#[test]
fn what_cannot_be_compared_is_refused_and_what_is_doubtful_is_said() {
    let mut exact = good();
    exact.0.collector.tier = "exact".into();
    let refused = compare_with(&good(), &exact, &DiffOptions::default());
    assert!(
        matches!(&refused, Err(DiffError::NotComparable(why)) if why[0].contains("sampled")),
        "{refused:?}"
    );
    let forced = DiffOptions {
        force: true,
        ..DiffOptions::default()
    };
    let diff = compare_with(&good(), &exact, &forced).expect("forced");
    assert!(diff.warnings[0].contains("sampled"), "{:?}", diff.warnings);

    let warned = |change: &dyn Fn(&mut (Meta, Rows)), words: &str| {
        let mut bad = good();
        change(&mut bad);
        let diff = compare(&good(), &bad);
        assert!(
            diff.warnings.iter().any(|warning| warning.contains(words)),
            "{words}: {:?}",
            diff.warnings
        );
        assert!(text::render_diff(&diff, 120).contains("Warning: "));
    };
    warned(
        &|(meta, _)| meta.collector.rate_hz = 999,
        "sampling rates differ: 99 and 999",
    );
    warned(
        &|(meta, _)| meta.database.version = "18.0".into(),
        "version of the database differs",
    );
    warned(
        &|(meta, _)| meta.host.kernel = "6.1.0".into(),
        "the kernel differs",
    );
    warned(&|(meta, _)| meta.complete = false, "BAD is incomplete");
    warned(
        &|(_, rows)| {
            rows.stacks.clear();
            for row in &mut rows.activity {
                row.user_stack = dbtime_model::NO_STACK;
            }
        },
        "BAD has no stacks",
    );

    let mut without = recording(&[(SCAN, CPU, State::User, 300), (LOCKED, LOCK, State::Sleep, 400)]);
    without.1.stacks.clear();
    for row in &mut without.1.activity {
        row.user_stack = dbtime_model::NO_STACK;
    }
    let diff = compare(&good(), &without);
    assert!(diff.functions.is_empty() && diff.paths.is_empty() && diff.modules.is_empty());
    assert!(
        diff.conclusion.contains("is in Lock:transactionid, sleep"),
        "{}",
        diff.conclusion
    );

    let built = |id: &str| {
        let (meta, mut rows) = good();
        let frames = vec![Frame {
            symbol: "f".into(),
            module: "postgres".into(),
            build_id: id.into(),
            offset: 0,
        }];
        rows.stacks.push(StackRow {
            id: stack_id(&frames),
            frames,
        });
        (meta, rows)
    };
    let diff = compare(&built("aa"), &built("bb"));
    assert!(
        diff.warnings
            .iter()
            .any(|warning| warning.contains("different builds of postgres"))
    );
    assert!(compare(&built("aa"), &built("aa")).warnings.is_empty());

    let short = Filter {
        to_us: Some(FIRST_SECOND + 2_000_000),
        ..Filter::default()
    };
    let options = DiffOptions {
        filters: [short.clone(), short],
        ..DiffOptions::default()
    };
    let diff = compare_with(&good(), &with_checksums(), &options).expect("a comparison");
    assert!(!diff.noise.tested && !diff.is_significant());
    assert!(
        diff.conclusion.contains("checksum_page") && text::render_diff(&diff, 120).contains("Not tested")
    );
    let nobody = DiffOptions {
        filters: [
            Filter::default(),
            Filter {
                waits: vec!["Lock".into()],
                ..Filter::default()
            },
        ],
        ..DiffOptions::default()
    };
    assert_eq!(
        compare_with(&good(), &good(), &nobody).err(),
        Some(DiffError::Side(
            "BAD",
            ReportError::NoSuchWait {
                wait: "Lock".into(),
                recorded: vec!["CPU".into()],
            }
        ))
    );
}

#[test]
fn folded_stacks_and_flame_graphs_have_both_sides() {
    let mut hostile = with_checksums();
    for frame in hostile.1.stacks.iter_mut().flat_map(|stack| &mut stack.frames) {
        if frame.symbol == "checksum_page" {
            frame.symbol = "<script>;\u{1b}[1m 7".into();
        }
    }
    let options = DiffOptions {
        transactions: Some([100.0, 200.0]),
        ..DiffOptions::default()
    };
    let diff = compare_with(&good(), &hostile, &options).expect("a comparison");
    let mut folded = Vec::new();
    write_folded(&diff, &mut folded).expect("memory");
    let folded = String::from_utf8(folded).expect("text");
    // BAD did twice the work: half of its time is compared.
    assert!(
        folded.contains("CPU;user;main;PostgresMain;ExecSort;qsort 2020000000 1010000000\n"),
        "{folded}"
    );
    assert!(folded.contains(";<script>:?[1m_7 0 505000000\n"), "{folded}");
    for (widths, vanished) in [(Widths::Bad, false), (Widths::Good, true)] {
        let mut svg = Vec::new();
        write_svg(&diff, widths, &mut svg).expect("memory");
        let svg = String::from_utf8(svg).expect("text");
        let mut reader = quick_xml::Reader::from_str(&svg);
        while !matches!(
            reader.read_event().expect("well-formed"),
            quick_xml::events::Event::Eof
        ) {}
        assert_eq!(svg.contains("&lt;script"), !vanished);
        assert!(svg.contains("qsort"));
    }
}

type Sample = (usize, usize, usize, u64);

fn generated(samples: &[Sample]) -> (Meta, Rows) {
    const FUNCTIONS: [&[&str]; 5] = [
        SCAN,
        CHECKSUM,
        SORT,
        LOCKED,
        &["main", "main", "recursive", "recursive"],
    ];
    let (meta, mut rows) = recording(&[]);
    for (stack_number, wait, state, ns) in samples {
        let stack = stack(FUNCTIONS[*stack_number], "postgres");
        rows.activity.push(ActivityRow {
            ns: *ns,
            user_stack: stack.id,
            comment: 0,
            statement: *ns % 3,
            ..row(
                1,
                [CPU, LOCK, crate::hand_made::READ][*wait],
                State::ALL[*state],
                1,
            )
        });
        rows.stacks.push(stack);
    }
    (meta, rows)
}

fn samples() -> impl Strategy<Value = Vec<Sample>> {
    prop::collection::vec((0..5usize, 0..3usize, 0..8usize, 1..1_000_000u64), 1..30)
}

fn sum(changes: &[Change], values: impl Fn(&Change) -> [u128; 2]) -> [u128; 2] {
    let add = |sum: [u128; 2], more: [u128; 2]| [sum[0] + more[0], sum[1] + more[1]];
    changes.iter().map(values).fold([0; 2], add)
}

proptest! {
    #[test]
    fn differences_sum_to_the_difference_of_db_time(good in samples(), bad in samples()) {
        let (good, bad) = (generated(&good), generated(&bad));
        let forward = compare(&good, &bad);
        let all = forward.total.values;
        prop_assert_eq!(sum(&forward.cells, |change| change.values), all);
        prop_assert_eq!(sum(&forward.waits, |change| change.values), all);
        prop_assert_eq!(sum(&forward.modules, |change| change.values), all);
        prop_assert_eq!(sum(&forward.functions, |change| {
            // `functions` has each function once, with its own time beside the total.
            change.self_values
        }), all);
        let stacks = forward.stacks.iter().fold([0; 2], |sum: [u128; 2], stack| {
            [sum[0] + stack.values[0], sum[1] + stack.values[1]]
        });
        prop_assert_eq!(stacks, all);
        if let Some(statements) = &forward.statements {
            let by_statement: Vec<Change> = statements.changes.iter().map(|of| of.change.clone()).collect();
            prop_assert_eq!(sum(&by_statement, |change| change.values), all);
            for statement in &statements.changes {
                prop_assert_eq!(sum(&statement.cells, |cell| cell.values), statement.change.values);
            }
        }
        // A function is counted once per stack, however often it is on it.
        let roots = function(&forward, "main");
        prop_assert_eq!(roots.values, all);

        let backward = compare(&bad, &good);
        prop_assert_eq!(forward.total.difference, -backward.total.difference);
        for cell in &forward.cells {
            let other = backward.cells.iter().find(|other| other.place == cell.place).expect("the same cells");
            prop_assert_eq!(cell.difference, -other.difference);
        }
        let answer: serde_json::Value = serde_json::from_str(&json::render_diff(&forward)).expect("JSON");
        // The JSON reader is accurate to all but the last digit.
        let read = answer["db_time"]["difference"].as_f64().expect("a number");
        prop_assert!((read - forward.total.difference).abs() <= 1e-9 * read.abs());
    }
}
