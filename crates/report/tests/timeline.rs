//! Timelines of hand-made recordings: every bucket can be checked with pencil and paper, and nothing is lost.

use crate::hand_made::{
    CLIENT_READ, CPU, FIRST_SECOND, LOCK, MS, START_US, kernel_counter, meta, row, session,
};
use dbtime_model::recording::{Clock, Meta, Note, Unit};
use dbtime_model::{ActivityRow, CounterRow, Fidelity, Rows, SessionId, State, StatementRow, counter};
use dbtime_report::{
    BucketWidth, Dimension, Filter, Options, ReportError, Source, Timeline, TimelineOptions, WidthError,
    json, report, text, timeline, timeline_svg,
};
use proptest::prelude::*;
use serde_json::Value;

const SECOND: i64 = 1_000_000;

/// A row in this second after the first one.
fn at(second: i64, row: ActivityRow) -> ActivityRow {
    ActivityRow {
        time: FIRST_SECOND + second * SECOND,
        ..row
    }
}

/// From 0.3 s to 20.8 s after a whole second. Session 1: CPU from 0 to 6, a lock from 6 to 8, then nothing to do. Session 2: a lock
/// from 5 to 8. In seconds 10 to 13 nothing was recorded.
fn recording() -> (Meta, Rows) {
    let mut rows = Rows {
        sessions: vec![
            session(1, 4711, "client backend", "app", "shop"),
            session(2, 4712, "client backend", "report", "shop"),
            session(3, 99, "checkpointer", "", ""),
        ],
        ..Rows::default()
    };
    for second in (0..10).chain(14..21) {
        let length = match second {
            0 => 700,
            20 => 800,
            _ => 1_000,
        };
        let of = |session, wait, state| at(second, row(session, wait, state, length));
        rows.activity.push(match second {
            0..6 => of(1, CPU, State::User),
            6..8 => of(1, LOCK, State::Sleep),
            _ => of(1, CLIENT_READ, State::Sleep),
        });
        rows.activity.push(match second {
            5..8 => of(2, LOCK, State::Sleep),
            _ => of(2, CLIENT_READ, State::Sleep),
        });
        // Not a client's: not part of DB time.
        rows.activity
            .push(of(3, crate::hand_made::FILE_FLUSH, State::Disk));
    }
    let mut meta = meta();
    meta.end_us = FIRST_SECOND + 20_800_000;
    meta.host.cpus = 2;
    (meta, rows)
}

fn draw((meta, rows): (Meta, Rows), options: &TimelineOptions) -> Result<Timeline, ReportError> {
    timeline(&Source::memory(meta, rows), options)
}

fn seconds(width_s: u32) -> TimelineOptions {
    TimelineOptions {
        width: BucketWidth::Seconds(width_s),
        ..TimelineOptions::default()
    }
}

/// Average active sessions of a value in each bucket; none in a gap.
fn line(timeline: &Timeline, label: &str) -> Vec<Option<f64>> {
    let at = timeline.values.iter().position(|value| value.label == label);
    let at = at.unwrap_or_else(|| panic!("no {label} in {:#?}", timeline.values));
    let rate = |ns, recorded_ns| {
        timeline
            .rate(ns, recorded_ns)
            .map(|rate| (rate * 1e6).round() / 1e6)
    };
    let buckets = timeline.buckets.iter();
    buckets
        .map(|bucket| rate(bucket.ns[at], bucket.recorded_ns))
        .collect()
}

#[test]
fn buckets_are_what_the_sessions_did() {
    let drawn = draw(recording(), &seconds(5)).expect("a time line");
    // 0.3 to 5, 5 to 10, 10 to 15 of which only second 14 was recorded, 15 to 20, 20 to 20.8.
    assert_eq!(
        line(&drawn, "CPU"),
        [Some(1.0), Some(0.2), Some(0.0), Some(0.0), Some(0.0)]
    );
    assert_eq!(
        line(&drawn, "Lock"),
        [Some(0.0), Some(1.0), Some(0.0), Some(0.0), Some(0.0)]
    );
    let recorded: Vec<u128> = drawn
        .buckets
        .iter()
        .map(|bucket| bucket.recorded_ns / u128::from(MS))
        .collect();
    assert_eq!(recorded, [4_700, 5_000, 1_000, 5_000, 800]);
    assert_eq!(
        drawn.values.len(),
        2,
        "idle time and that of the checkpointer is not in it"
    );
    assert_eq!((drawn.peak, drawn.cpus), (1.2, Some(2)));
    assert_eq!(drawn.values[0].peak, Some((1.0, 0)));
}

#[test]
fn seconds_without_data_are_a_gap_and_seconds_without_work_are_zero() {
    let drawn = draw(recording(), &seconds(1)).expect("a time line");
    assert_eq!(drawn.gaps.len(), 1);
    let gap = drawn.gaps[0];
    assert_eq!(
        (gap.from_us, gap.to_us),
        (FIRST_SECOND + 10 * SECOND, FIRST_SECOND + 14 * SECOND)
    );
    let of_cpu = line(&drawn, "CPU");
    assert_eq!(of_cpu[9..15], [Some(0.0), None, None, None, None, Some(0.0)]);
    // That one session has no rows is not a gap: others were recorded.
    let filter = Filter {
        sessions: vec![4712],
        ..Filter::default()
    };
    let (meta, mut rows) = recording();
    rows.activity
        .retain(|row| row.session != SessionId(2) || row.time < FIRST_SECOND + 8 * SECOND);
    let of_one = draw((meta, rows), &TimelineOptions { filter, ..seconds(1) }).expect("a time line");
    assert_eq!(of_one.gaps, drawn.gaps);
    // Nor is a second in which the kernel's counters went on without a sample.
    let (meta, mut rows) = recording();
    for second in 10..14 {
        rows.counters.push(CounterRow {
            time: FIRST_SECOND + second * SECOND,
            ..kernel_counter(1, counter::ELAPSED_NS, 1_000)
        });
    }
    assert_eq!(draw((meta, rows), &seconds(1)).expect("a time line").gaps, []);
    let page = text::render_timeline(&drawn, 100);
    assert!(page.contains("[nothing recorded for 4.000 s]"), "{page}");
    assert!(page.lines().all(|line| line.chars().count() <= 100), "{page}");
    let svg = timeline_svg::render(&drawn);
    assert!(svg.contains("nothing recorded for 4.000 s from 2026-"), "{svg}");
}

#[test]
fn the_bars_of_a_text_are_as_long_as_the_numbers_say() {
    let page = text::render_timeline(&draw(recording(), &seconds(5)).expect("a time line"), 100);
    let bars: Vec<&str> = page.lines().filter(|line| line.starts_with("  12:00")).collect();
    let count = |line: &str, letter| line.chars().filter(|c| *c == letter).count();
    // Two CPUs are the highest value, at the right edge.
    let whole = bars[0].find('|').expect("the line of the CPUs") - bars[0].find('C').expect("a bar");
    assert_eq!(
        (count(bars[0], 'C'), count(bars[1], 'C')),
        (whole.div_ceil(2), (whole + 5) / 10)
    );
    let both = count(bars[1], 'C') + count(bars[1], 'L');
    assert_eq!(both, (whole as f64 * 0.6).round() as usize, "{page}");
}

#[test]
fn what_has_little_time_is_summed() {
    let options = TimelineOptions {
        by: Dimension::User,
        top: 1,
        ..seconds(5)
    };
    let drawn = draw(recording(), &options).expect("a time line");
    let labels: Vec<(&str, bool, usize)> = drawn
        .values
        .iter()
        .map(|value| (value.label.as_str(), value.is_other, value.count))
        .collect();
    assert_eq!(labels, [("app", false, 1), ("other", true, 1)]);
    assert_eq!(line(&drawn, "other")[1], Some(0.6));
}

#[test]
fn windows_of_ten_seconds_are_whole() {
    let (mut meta, mut rows) = recording();
    meta.collector.resolution_s = 10;
    meta.start_us = FIRST_SECOND;
    meta.end_us = FIRST_SECOND + 60 * SECOND;
    rows.activity = (0..6)
        .map(|window| at(window * 10, row(1, CPU, State::User, 1_000 * window as u64)))
        .collect();
    let drawn = draw((meta.clone(), rows.clone()), &TimelineOptions::default()).expect("a time line");
    assert_eq!(drawn.width_s, 10);
    assert_eq!(line(&drawn, "CPU"), [0.0, 0.1, 0.2, 0.3, 0.4, 0.5].map(Some));
    assert_eq!(drawn.gaps, []);
    assert_eq!(
        line(
            &draw((meta.clone(), rows.clone()), &seconds(20)).expect("one"),
            "CPU"
        ),
        [0.05, 0.25, 0.45].map(Some)
    );
    assert_eq!(
        draw((meta, rows), &seconds(15)).err(),
        Some(ReportError::Buckets(WidthError::Finer {
            width_s: 15,
            resolution_s: 10
        }))
    );
}

/// An imported wait is in the second in which it ended.
#[test]
fn a_long_imported_wait_is_drawn_over_all_of_its_time() {
    let (mut meta, mut rows) = recording();
    (meta.start_us, meta.end_us) = (FIRST_SECOND, FIRST_SECOND + 20 * SECOND);
    meta.collector.tier = "exact".into();
    meta.files = vec![Default::default()];
    rows.activity = vec![
        at(14, row(1, LOCK, State::Sleep, 12_000)),
        at(19, row(1, CLIENT_READ, State::Sleep, 5_000)),
    ];
    let whole = draw((meta.clone(), rows.clone()), &seconds(5)).expect("a time line");
    // From 3 to 15. Before that nothing is known.
    assert_eq!(line(&whole, "Lock"), [Some(1.0), Some(1.0), Some(1.0), Some(0.0)]);
    assert_eq!(whole.buckets[0].recorded_ns, 2_000_000_000);
    assert_eq!(whole.before_ns, 0);
    // For a part of the recording, what was before it is reported separately.
    let filter = Filter {
        from_us: Some(FIRST_SECOND + 10 * SECOND),
        ..Filter::default()
    };
    let options = TimelineOptions { filter, ..seconds(5) };
    let part = draw((meta.clone(), rows.clone()), &options).expect("a time line");
    assert_eq!(line(&part, "Lock"), [Some(1.0), Some(0.0)]);
    assert_eq!((part.before_ns, part.db_time_ns), (7_000_000_000, 12_000_000_000));
    assert!(text::render_timeline(&part, 100).contains("Not in any bucket: 7.000 s"));
    // Samples of another tool may come from several tasks: they stay where they are, and seconds without any are not a gap.
    meta.collector.tier = "sampled".into();
    let sampled = draw((meta, rows), &seconds(5)).expect("a time line");
    assert_eq!(
        line(&sampled, "Lock"),
        [Some(0.0), Some(0.0), Some(2.4), Some(0.0)]
    );
    assert_eq!(sampled.gaps, []);
}

#[test]
fn what_knows_no_moments_has_no_time_line() {
    let (mut meta, rows) = recording();
    meta.collector.clock = Clock::None;
    let error = draw((meta.clone(), rows.clone()), &seconds(5)).expect_err("no moments");
    assert!(error.to_string().contains("has no timestamps"), "{error}");
    (meta.collector.clock, meta.end_us) = (Clock::Utc, meta.start_us);
    let error = draw((meta, Rows::default()), &seconds(5)).expect_err("no time");
    assert!(error.to_string().contains("has no duration"), "{error}");
}

#[test]
fn samples_are_not_called_sessions() {
    let (mut meta, mut rows) = recording();
    meta.collector.unit = Unit::Samples;
    for row in &mut rows.activity {
        row.ns = 0;
    }
    // 100 a second.
    let drawn = draw((meta, rows), &seconds(5)).expect("a time line");
    assert_eq!((line(&drawn, "CPU")[0], drawn.cpus), (Some(100.0), None));
    let page = text::render_timeline(&drawn, 100);
    assert!(
        page.contains("samples per second by wait_class") && !page.contains("AAS"),
        "{page}"
    );
    let answer: Value = serde_json::from_str(&json::render_timeline(&drawn)).expect("JSON");
    let bucket = &answer["timeline"]["buckets"][0];
    assert_eq!(
        (&bucket["total_samples"], &bucket["recorded_ns"]),
        (&470.into(), &4_700_000_000u64.into())
    );
    assert_eq!(answer["timeline"]["rate_is"], "per second");
}

#[test]
fn what_the_server_did_for_itself_is_marked() {
    let (mut meta, mut rows) = recording();
    // The WAL is also switched outside of checkpoints; without a statement the worker only looked for work.
    let of_checkpointer = |row: &ActivityRow| row.session == SessionId(3);
    rows.activity.retain(|row| !of_checkpointer(row));
    let waits = [
        (2, ("Activity", "CheckpointerMain", true)),
        (3, ("IO", "DataFileSync", false)),
        (4, ("Timeout", "CheckpointWriteDelay", false)),
        (6, ("IO", "WALSync", false)),
        (15, ("IO", "SLRUSync", false)),
    ];
    rows.activity
        .extend(waits.map(|(second, wait)| at(second, row(3, wait, State::Sleep, 10))));
    rows.sessions
        .push(session(4, 100, "autovacuum worker", "", "shop"));
    for (second, statement) in [(1, 0), (7, 5), (9, 5)] {
        let row = row(4, CPU, State::User, 10);
        rows.activity.push(at(second, ActivityRow { statement, ..row }));
    }
    rows.statements.push(StatementRow {
        id: 5,
        text: "autovacuum: VACUUM public.orders".into(),
        ..StatementRow::default()
    });
    meta.notes.push(Note {
        time_us: FIRST_SECOND + 16_500_000,
        text: "it was restarted".into(),
    });
    let marks = |options: &TimelineOptions| {
        let drawn = draw((meta.clone(), rows.clone()), options).expect("a time line");
        let ms = |us: i64| (us - FIRST_SECOND) / 1_000;
        let marks = drawn.marks.iter();
        let marks: Vec<(&str, i64, i64, String)> = marks
            .map(|mark| {
                (
                    mark.kind.as_str(),
                    ms(mark.from_us),
                    ms(mark.to_us),
                    mark.text.clone(),
                )
            })
            .collect();
        (marks, drawn)
    };
    let (all, drawn) = marks(&seconds(5));
    let expected = [
        ("checkpoint", 3_000, 5_000, ""),
        ("autovacuum", 7_000, 10_000, "VACUUM public.orders"),
        ("checkpoint", 15_000, 16_000, ""),
        ("note", 16_500, 16_500, "it was restarted"),
    ]
    .map(|(kind, from, to, text)| (kind, from, to, text.to_string()));
    assert_eq!(all, expected);
    // Whichever sessions are chosen, and cut to the chosen time.
    let (of_one, _) = marks(&TimelineOptions {
        filter: Filter {
            sessions: vec![4711],
            from_us: Some(FIRST_SECOND + 4 * SECOND),
            to_us: Some(FIRST_SECOND + 9 * SECOND),
            ..Filter::default()
        },
        ..seconds(5)
    });
    assert_eq!(of_one.len(), 2, "{of_one:?}");

    let page = text::render_timeline(&drawn, 100);
    let marked: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("  12:00:"))
        .map(|line| line.get(16..21).unwrap_or_default().trim_end())
        .collect();
    assert_eq!(marked, ["  c", "   v", "", "  c !", ""], "{page}");
    assert!(page.contains("VACUUM public.orders"), "{page}");
    assert!(page.contains("it was restarted"), "{page}");
    let svg = timeline_svg::render(&drawn);
    for expected in [
        "checkpoint, 2.000 s",
        "VACUUM public.orders",
        "note: it was restarted",
    ] {
        assert!(svg.contains(expected), "{expected} in {svg}");
    }
}

#[test]
fn hostile_names_are_text() {
    let hostile = "</title><script>alert(1)</script>\u{1b}[31m\n&\"'";
    let (mut meta, mut rows) = recording();
    for session in &mut rows.sessions {
        session.user = hostile.into();
    }
    meta.host.name = hostile.into();
    meta.database.version = hostile.into();
    let options = TimelineOptions {
        by: Dimension::User,
        ..seconds(5)
    };
    let drawn = draw((meta, rows), &options).expect("a time line");
    let svg = timeline_svg::render(&drawn);
    let mut reader = quick_xml::Reader::from_str(&svg);
    loop {
        match reader.read_event().expect("well-formed") {
            quick_xml::events::Event::Eof => break,
            quick_xml::events::Event::Start(element) | quick_xml::events::Event::Empty(element) => {
                assert_ne!(element.name().as_ref(), b"script");
            }
            _ => {}
        }
    }
    assert!(svg.contains("&lt;script&gt;") && !svg.contains('\u{1b}'), "{svg}");
    assert!(!text::render_timeline(&drawn, 100).contains('\u{1b}'));
    let answer: Value = serde_json::from_str(&json::render_timeline(&drawn)).expect("JSON");
    assert_eq!(answer["timeline"]["values"][0]["value"], hostile);
}

prop_compose! {
    fn any_row()(
        second in -2i64..25,
        session in 1u64..5,
        wait in prop::sample::select(vec![CPU, LOCK, CLIENT_READ]),
        state in prop::sample::select(State::ALL.to_vec()),
        ns in prop_oneof![4 => 0u64..1_000_000_000, 1 => 0u64..20_000_000_000, 1 => Just(u64::MAX)],
        exact: bool,
    ) -> ActivityRow {
        ActivityRow {
            time: FIRST_SECOND + second * SECOND,
            ns,
            fidelity: if exact { Fidelity::Exact } else { Fidelity::Sampled },
            ..row(session, wait, state, 1)
        }
    }
}

proptest! {
    #[test]
    fn buckets_sum_to_the_ledger(
        activity in prop::collection::vec(any_row(), 1..40),
        by in prop::sample::select(vec![Dimension::WaitClass, Dimension::State, Dimension::Session, Dimension::User, Dimension::Query]),
        width in prop_oneof![(1usize..80).prop_map(BucketWidth::AtMost), (1u32..9).prop_map(BucketWidth::Seconds)],
        top in 1usize..4,
        part in prop::option::of((0i64..10, 11i64..30)),
        imported: bool,
    ) {
        let (mut meta, rows) = recording();
        if imported {
            meta.files = vec![Default::default()];
        }
        let filter = Filter {
            from_us: part.map(|(from, _)| START_US + from * SECOND),
            to_us: part.map(|(_, to)| START_US + to * SECOND),
            ..Filter::default()
        };
        let source = Source::memory(meta, Rows { activity, ..rows });
        let ledger = report(&source, &Options { filter: filter.clone(), ..Options::default() }).expect("a report").ledger;
        let drawn = timeline(&source, &TimelineOptions { filter, by, width, top, each_literal: false }).expect("a time line");
        let all: u128 = drawn.buckets.iter().map(|bucket| bucket.total_ns()).sum();
        prop_assert_eq!(all + drawn.before_ns, ledger.db_time_ns());
        prop_assert_eq!(drawn.db_time_ns, ledger.db_time_ns());
        let of_values: u128 = drawn.values.iter().map(|value| value.ns).sum();
        prop_assert_eq!(of_values, all);
        prop_assert!(drawn.values.len() <= top + 1);
        // There is no time where nothing was recorded, and the buckets fill the period.
        let mut from_us = drawn.period.from_us;
        for bucket in &drawn.buckets {
            prop_assert!(bucket.recorded_ns > 0 || bucket.total_ns() == 0);
            prop_assert_eq!(bucket.period.from_us, from_us);
            from_us = bucket.period.to_us;
        }
        prop_assert_eq!(from_us, drawn.period.to_us);
        text::render_timeline(&drawn, 100);
        timeline_svg::render(&drawn);
    }
}
