//! Latencies of several recordings side by side, against arithmetic.

use crate::hand_made::traced::{SCATTERED, SEQUENTIAL, trace_meta, trace_rows, waits};
use crate::hand_made::{meta, rows};
use dbtime_model::latency::kind;
use dbtime_model::{LatencyRow, Rows};
use dbtime_report::{
    Comparison, ComparisonOptions, Filter, ReportError, Source, ToCompare, compare, json, text,
};
use proptest::prelude::*;
use serde_json::Value;

fn traced(label: &str, latency: Vec<LatencyRow>) -> ToCompare {
    ToCompare {
        label: label.into(),
        source: Source::memory(
            trace_meta(),
            Rows {
                latency,
                ..trace_rows()
            },
        ),
        filter: Filter::default(),
    }
}

fn of(recordings: &[ToCompare]) -> Comparison {
    compare(recordings, &ComparisonOptions::default()).expect("a comparison")
}

fn sentence(first: Vec<LatencyRow>, second: Vec<LatencyRow>) -> String {
    let comparison = of(&[traced("dev", first), traced("prod", second)]);
    comparison.events[0].differences[0].sentence.clone()
}

fn has_line(text: &str, wanted: &str) {
    let flat = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.lines().any(|line| flat(line).contains(wanted)),
        "{wanted} in\n{text}"
    );
}

fn read(us: u64, count: u64) -> LatencyRow {
    waits(0, 1, SEQUENTIAL, 0, us, count)
}

/// Averages: (60 x 10,000 + 40 x 500) / 100 = 6,200 and (4 x 5,500 + 96 x 500) / 100 = 700.
fn dev_and_prod() -> [ToCompare; 2] {
    [
        traced("dev", vec![read(10_000, 60), read(500, 40)]),
        traced("prod", vec![read(5_500, 4), read(500, 96)]),
    ]
}

#[test]
fn the_tail_that_makes_the_difference_is_named() {
    let comparison = of(&dev_and_prod());
    let difference = &comparison.events[0].differences[0];
    assert_eq!(difference.mean_ns, [Some(6_200_000.0), Some(700_000.0)]);
    // With m = 700: 256 us: 0.40 x -200 - 0.96 x -200 = 112; 4,096 us: -0.04 x 4,800 = -192;
    // 8,192 us: 0.60 x 9,300 = 5,580; in all 5,500.
    let contributions: Vec<(u64, f64)> = difference
        .buckets
        .iter()
        .map(|bucket| (bucket.from_us, bucket.contribution_ns.round()))
        .collect();
    assert_eq!(
        contributions,
        [(256, 112_000.0), (4_096, -192_000.0), (8_192, 5_580_000.0)]
    );
    // Ahead by 60 - 0 from 8,192 us on, by 60 - 4 from 4,096 us on.
    assert_eq!(
        difference.sentence,
        "db file sequential read: 6.20 ms in dev, 700 us in prod on average; reads of 8.19 ms and more are 60 % in dev \
         and 0 % in prod and make more than all of the difference (101 %: shorter ones take some back)."
    );
    // Swapped, the same part is named.
    let [dev, prod] = dev_and_prod();
    let turned = of(&[prod, dev]);
    let tail = turned.events[0].differences[0].tail.expect("a tail");
    assert_eq!((tail.from_us, tail.percent), (8_192, [0.0, 60.0]));
}

#[test]
fn a_shift_of_everything_is_all_of_the_difference() {
    assert_eq!(
        sentence(vec![read(8_200, 50)], vec![read(1_100, 50)]),
        "db file sequential read: 8.20 ms in dev, 1.10 ms in prod on average; reads of 8.19 ms and more are 100 % in dev and \
         0 % in prod and make 100 % of the difference."
    );
}

#[test]
fn rare_long_waits_are_found_though_most_are_shorter() {
    // Averages: 0.99 x 1,000 + 0.01 x 1,000,000 = 10,990; 4,000.
    let text = sentence(
        vec![read(1_000, 990), read(1_000_000, 10)],
        vec![read(4_000, 1_000)],
    );
    assert!(
        text.contains(
            "reads of 524 ms and more are 1 % in dev and 0 % in prod and make more than all of the difference"
        ),
        "{text}"
    );
}

#[test]
fn what_hardly_differs_is_called_about_the_same() {
    let text = sentence(vec![read(1_000, 100)], vec![read(1_010, 100)]);
    assert_eq!(
        text,
        "db file sequential read: 1.00 ms in dev, 1.01 ms in prod on average, about the same."
    );
    let text = sentence(vec![read(600, 100)], vec![read(1_000, 100)]);
    assert!(text.ends_with("within the same powers of two."), "{text}");
}

#[test]
fn few_events_are_said_to_be_few_and_absent_ones_absent() {
    let text = sentence(vec![read(8_000, 29)], vec![read(1_000, 30)]);
    assert!(
        text.ends_with("Only 29 of them in dev: that may be chance."),
        "{text}"
    );
    let text = sentence(vec![], vec![read(1_000, 30)]);
    assert_eq!(
        text,
        "db file sequential read: only in prod: 30 of them, 30.0 ms in all."
    );
}

#[test]
fn three_recordings_are_held_against_the_first() {
    let [dev, prod] = dev_and_prod();
    let comparison = of(&[dev, prod, traced("test", vec![read(10_000, 100)])]);
    let differences = &comparison.events[0].differences;
    let pairs: Vec<[usize; 2]> = differences.iter().map(|one| one.of).collect();
    assert_eq!(pairs, [[0, 1], [0, 2]]);
    assert!(
        differences[1].sentence.contains("10.0 ms in test"),
        "{}",
        differences[1].sentence
    );
}

#[test]
fn text_and_json_have_sizes_call_views_and_distributions() {
    let [_, prod] = dev_and_prod();
    let dev = traced(
        "dev",
        vec![
            read(10_000, 60),
            read(500, 40),
            waits(0, 1, SCATTERED, 8, 2_000, 5),
            waits(0, 1, SCATTERED, 16, 3_000, 1),
        ],
    );
    let comparison = of(&[dev, prod]);
    let text = text::render_comparison(&comparison, 120);
    has_line(&text, "dev 0.620000 0.300000 0.337009 2.800000 -0.017009");
    // Quantiles are middles of buckets: 9,216 to 10,240 us, 480 to 512, 5,120 to 5,632, 1,920 to 2,048.
    has_line(
        &text,
        "db file sequential read dev 100 620 ms 6.20 ms 9.73 ms 9.73 ms 10.0 ms",
    );
    has_line(&text, "prod 100 70.0 ms 700 us 496 us 5.38 ms 5.50 ms");
    has_line(
        &text,
        "db file scattered read 8 blocks dev 5 10.0 ms 2.00 ms 1.98 ms 2.00 ms 2.00 ms",
    );
    has_line(&text, "from us to us % dev % prod difference us");
    has_line(&text, "8192 16384 60.0 0.0 +5580.0");
    has_line(&text, "256 512 40.0 96.0 +112.0");
    let json: Value = serde_json::from_str(&json::render_comparison(&comparison)).expect("JSON");
    let comparison = &json["comparison"];
    assert_eq!(comparison["recordings"][1]["label"], "prod");
    assert_eq!(
        comparison["recordings"][0]["call_view"]["unaccounted_us"],
        -17_009
    );
    let event = &comparison["events"][0];
    assert_eq!(
        (event["name"].as_str(), event["kind"].as_str()),
        (Some("db file sequential read"), Some("wait"))
    );
    assert_eq!(event["latencies"][0]["total_us"], 620_000.0);
    assert_eq!(event["latencies"][0]["histogram"][1]["percent"], 60.0);
    assert_eq!(event["differences"][0]["tail"]["from_us"], 8_192);
    assert_eq!(event["differences"][0]["difference_us"], 5_500.0);
    assert_eq!(comparison["events"][1]["sizes"][1]["blocks"], 16);
}

#[test]
fn any_recording_with_latencies_is_compared_waits_first() {
    let event = |kind: &str, name: &str, us, count| LatencyRow {
        kind: kind.into(),
        ..waits(0, 1, name, 0, us, count)
    };
    let live = |label: &str, latency| ToCompare {
        label: label.into(),
        source: Source::memory(meta(), Rows { latency, ..rows() }),
        filter: Filter::default(),
    };
    let recordings = [
        live(
            "before",
            vec![
                event(kind::WAIT, "IO:DataFileRead", 90, 40),
                event(kind::SYSCALL, "pread64", 80, 40),
            ],
        ),
        live("after", vec![event(kind::WAIT, "IO:DataFileRead", 10, 40)]),
    ];
    let comparison = of(&recordings);
    assert_eq!(comparison.events.len(), 1);
    assert_eq!(comparison.events[0].name, "IO:DataFileRead");
    assert!(!text::render_comparison(&comparison, 100).contains("call view"));
    let only = ComparisonOptions {
        kinds: vec![kind::SYSCALL.into()],
        ..ComparisonOptions::default()
    };
    let comparison = compare(&recordings, &only).expect("calls");
    assert_eq!(
        comparison.events[0].differences[0].sentence,
        "pread64: only in before: 40 of them, 3.20 ms in all."
    );
    let absent = ComparisonOptions {
        kinds: vec!["block".into()],
        ..ComparisonOptions::default()
    };
    assert!(matches!(
        compare(&recordings, &absent),
        Err(ReportError::NoSuchKind { .. })
    ));
    let none = of(&[live("a", vec![]), live("b", vec![])]);
    assert!(text::render_comparison(&none, 100).contains("These recordings have no latencies."));
}

#[test]
fn hostile_names_are_harmless() {
    let hostile = "\u{1b}]0;title\u{7}\r\n\u{202e}";
    let row = |us| waits(0, 1, hostile, 8, us, 40);
    let comparison = of(&[traced(hostile, vec![row(10)]), traced(hostile, vec![row(99)])]);
    let text = text::render_comparison(&comparison, 100);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
}

fn latencies() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((0..5_000_000u64, 1..100u64), 1..30)
}

proptest! {
    #[test]
    fn contributions_add_up_to_the_difference_of_the_averages(first in latencies(), second in latencies()) {
        let rows = |all: &[(u64, u64)]| all.iter().map(|(us, count)| read(*us, *count)).collect();
        let mean = |all: &[(u64, u64)]| {
            let sum: u64 = all.iter().map(|(us, count)| us * count).sum();
            sum as f64 * 1e3 / all.iter().map(|(_, count)| count).sum::<u64>() as f64
        };
        let comparison = of(&[traced("dev", rows(&first)), traced("prod", rows(&second))]);
        let difference = &comparison.events[0].differences[0];
        let expected = mean(&first) - mean(&second);
        let tolerance = 1e-9 * (mean(&first) + mean(&second)) + 1e-6;
        prop_assert!((difference.difference_ns().expect("both") - expected).abs() <= tolerance);
        let contributions: f64 = difference.buckets.iter().map(|bucket| bucket.contribution_ns).sum();
        prop_assert!((contributions - expected).abs() <= tolerance, "{contributions} {expected}");
        for of in [0, 1] {
            let percent: f64 = difference.buckets.iter().map(|bucket| bucket.percent[of]).sum();
            prop_assert!((percent - 100.0).abs() < 1e-6);
        }
        if let Some(tail) = difference.tail {
            let slower = usize::from(expected < 0.0);
            prop_assert!(tail.percent[slower] > tail.percent[1 - slower]);
        }
    }
}
