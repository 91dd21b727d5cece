//! Waits beside system calls: whatever the traces say, the parts add up, and every call is in one place.

use dbtime_model::recording::ImportedFile;
use dbtime_model::{NO_STACK, Rows, SessionId, SessionRow, SpanRow, State, span};
use dbtime_report::{Filter, Options, Report, Source, Unnamed, WaitCalls, WaitsInCalls, json, report, text};
use proptest::prelude::*;

const SECOND_NS: i64 = 1_000_000_000;
const START_NS: i64 = 1_700_000_000 * SECOND_NS;
const US: u64 = 1_000;

fn session(id: u64, pid: u32) -> SessionRow {
    SessionRow {
        id: SessionId(id),
        pid,
        ..SessionRow::default()
    }
}

fn span(session: u64, kind: &str, name: &str, start_ns: i64, ns: u64) -> SpanRow {
    SpanRow {
        session: SessionId(session),
        kind: kind.to_string(),
        name: name.to_string(),
        stack: NO_STACK,
        call: 0,
        depth: 0,
        start_ns,
        ns,
        state: State::Unknown,
        statement: 0,
    }
}

/// A report of waits of session 1 and calls of session 2.
fn of(pids: [u32; 2], spans: Vec<SpanRow>, filter: Filter) -> Report {
    let mut meta = crate::hand_made::meta();
    meta.start_us = START_NS / 1_000;
    meta.end_us = meta.start_us + 60_000_000;
    meta.files = ["Oracle SQL trace (event 10046)", "strace"]
        .map(|format| ImportedFile {
            format: format.to_string(),
            ..ImportedFile::default()
        })
        .to_vec();
    let rows = Rows {
        sessions: vec![session(1, pids[0]), session(2, pids[1])],
        spans,
        ..Rows::default()
    };
    let options = Options {
        filter,
        ..Options::default()
    };
    report(&Source::memory(meta, rows), &options).expect("a report")
}

fn beside(pids: [u32; 2], spans: Vec<SpanRow>) -> WaitsInCalls {
    of(pids, spans, Filter::default()).waits_in_calls.expect("both")
}

/// Events one after the other: gap before each and its length, microseconds.
fn events(session: u64, kind: &str, names: &[&str], times: &[(u64, u64)]) -> Vec<SpanRow> {
    let mut now = START_NS;
    times
        .iter()
        .enumerate()
        .map(|(at, (gap, length))| {
            now += (gap * US) as i64;
            let span = span(session, kind, names[at % names.len()], now, length * US);
            now += (length * US) as i64;
            span
        })
        .collect()
}

fn in_calls(row: &WaitCalls) -> u64 {
    row.calls.iter().map(|call| call.ns).sum()
}

#[test]
fn a_wait_that_is_not_named_is_given_to_the_only_process_and_to_no_other() {
    let spans = |extra: Vec<SpanRow>| {
        let mut spans = vec![
            span(1, span::kind::WAIT, "Commit:log file sync", START_NS, 10 * US),
            span(2, span::kind::SYSCALL, "getpid", START_NS - 5_000, US),
            span(2, span::kind::SYSCALL, "semtimedop", START_NS + 1_000, 8 * US),
            span(2, span::kind::SYSCALL, "getpid", START_NS + 20_000, US),
        ];
        spans.extend(extra);
        spans
    };
    for (pids, pid, unnamed) in [
        ([0, 77], 77, Some(Unnamed::Waits)),
        ([77, 0], 77, Some(Unnamed::Calls)),
        ([0, 0], 0, Some(Unnamed::Both)),
        ([77, 77], 77, None),
    ] {
        let found = beside(pids, spans(Vec::new()));
        assert_eq!((found.pairs[0].pid, found.pairs[0].unnamed), (pid, unnamed));
        assert_eq!(found.pairs[0].matrix.waits[0].in_call_ns("semtimedop"), 8 * US);
    }
    // A second traced process: it is unknown whose the waits are. (Session 3 is not described: it has no pid, but calls.)
    let other = || spans(vec![span(3, span::kind::SYSCALL, "read", START_NS, US)]);
    for pids in [[0, 77], [77, 0], [0, 0]] {
        let found = beside(pids, other());
        assert_eq!(
            (found.pairs.len(), found.without_calls.len()),
            (0, 1),
            "{found:?}"
        );
    }
    // Two that have their pids, which differ.
    let found = beside([77, 78], spans(Vec::new()));
    assert_eq!((found.without_calls, found.without_waits), (vec![77], vec![78]));
}

#[test]
fn a_report_of_a_part_lays_only_that_part_beside() {
    let waits = events(
        1,
        span::kind::WAIT,
        &["A:a"],
        &[(0, 500_000), (600_000, 500_000), (600_000, 500_000)],
    );
    let calls = events(
        2,
        span::kind::SYSCALL,
        &["read"],
        &[(100, 499_800), (600_200, 499_800), (600_200, 499_800)],
    );
    // Calls around them: waits that extend beyond the time of both are left out.
    let around = [-5_000, SECOND_NS + 50_000_000, 3 * SECOND_NS]
        .map(|at| span(2, span::kind::SYSCALL, "getpid", START_NS + at, US))
        .to_vec();
    let all = [waits, calls, around].concat();
    let whole = of([7, 7], all.clone(), Filter::default())
        .waits_in_calls
        .expect("both");
    assert_eq!(whole.pairs[0].matrix.waits[0].count, 3);
    let filter = Filter {
        from_us: Some(START_NS / 1_000 + 1_000_000),
        ..Filter::default()
    };
    let part = of([7, 7], all.clone(), filter).waits_in_calls.expect("both");
    assert_eq!(part.pairs[0].matrix.waits[0].count, 2);
    // One kind alone has nothing to be compared with.
    let waits_only: Vec<SpanRow> = all
        .into_iter()
        .filter(|span| span.kind == span::kind::WAIT)
        .collect();
    assert!(of([7, 7], waits_only, Filter::default()).waits_in_calls.is_none());
}

#[test]
fn hostile_names_and_times_are_shown_and_break_nothing() {
    let name = "\u{1b}[31m\n<script>";
    let spans = vec![
        span(1, span::kind::WAIT, name, i64::MIN, u64::MAX),
        span(1, span::kind::WAIT, name, i64::MAX, u64::MAX),
        span(1, span::kind::WAIT, name, START_NS, 10),
        span(2, span::kind::SYSCALL, name, i64::MIN, 0),
        span(2, span::kind::SYSCALL, name, START_NS, u64::MAX),
        span(2, span::kind::SYSCALL, name, START_NS, 5),
    ];
    let report = of([7, 7], spans, Filter::default());
    assert!(report.waits_in_calls.is_some());
    assert!(!text::render(&report, 120).contains('\u{1b}'));
    assert!(json::render(&report).contains("\"beside\""));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn parts_add_up_and_every_call_is_in_one_place(
        waits in proptest::collection::vec((0u64..300, 0u64..300), 1..60),
        calls in proptest::collection::vec((0u64..100, 0u64..150), 1..120),
    ) {
        let wait_spans = events(1, span::kind::WAIT, &["A:a", "B:b", "C:c"], &waits);
        let call_spans = events(2, span::kind::SYSCALL, &["read", "write"], &calls);
        let found = beside([7, 7], [wait_spans.clone(), call_spans.clone()].concat());
        let pair = &found.pairs[0];
        let matrix = &pair.matrix;
        for row in &matrix.waits {
            prop_assert_eq!(in_calls(row) + row.in_none_ns, row.ns);
            prop_assert_eq!(row.with_one_call + row.without_call + row.with_more_calls, row.count);
        }
        let outside = &matrix.outside;
        prop_assert_eq!(in_calls(outside) + outside.in_none_ns, outside.ns);
        let waits_ns: u64 = matrix.waits.iter().map(|row| row.ns).sum();
        prop_assert_eq!(waits_ns + outside.ns, pair.elapsed_ns);

        // By brute force: every call against every wait within the time of both.
        let shift = pair.alignment.shift_ns;
        let inside_of_both = |span: &&SpanRow, shift: i64| {
            span.start_ns + shift >= pair.from_ns && span.start_ns + shift + span.ns as i64 <= pair.to_ns
        };
        let waits: Vec<&SpanRow> = wait_spans.iter().filter(|span| inside_of_both(span, shift)).collect();
        let calls: Vec<&SpanRow> = call_spans.iter().filter(|span| inside_of_both(span, 0)).collect();
        prop_assert_eq!(pair.waits_left_out as usize + waits.len(), wait_spans.len());
        prop_assert_eq!(pair.calls_left_out as usize + calls.len(), call_spans.len());
        let overlap = |wait: &SpanRow, call: &SpanRow| -> u64 {
            let begin = (wait.start_ns + shift).max(call.start_ns);
            let end = (wait.start_ns + shift + wait.ns as i64).min(call.start_ns + call.ns as i64);
            (end - begin).max(0) as u64
        };
        for row in &matrix.waits {
            for name in ["read", "write"] {
                let expected: u64 = waits
                    .iter()
                    .filter(|wait| wait.name == row.event)
                    .flat_map(|wait| calls.iter().filter(|call| call.name == name).map(|call| overlap(wait, call)))
                    .sum();
                prop_assert_eq!(row.in_call_ns(name), expected, "{} {}", row.event, name);
            }
        }
        let counted: u64 = matrix.waits.iter().chain([outside]).flat_map(|row| &row.calls).map(|call| call.count).sum();
        prop_assert_eq!(counted as usize, calls.len());
        let shown: u64 = matrix.calls.iter().map(|call| call.ns).sum();
        prop_assert_eq!(shown, calls.iter().map(|call| call.ns).sum::<u64>());
    }
}
