//! Latencies against arithmetic: every event is in one group, one bucket and one cell, whatever the question.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::hand_made::{FIRST_SECOND, meta, rows};
use dbtime_model::latency::{bounds_of, bucket_of, kind, source};
use dbtime_model::recording::{Recording, RecordingWriter};
use dbtime_model::{LatencyRow, Rows, SessionId};
use dbtime_report::{
    Dimension, Filter, IoOptions, LatencyOptions, LatencyReport, ReportError, Source, heat_map, heat_map_svg,
    io, json, latency, text,
};
use proptest::prelude::*;

const SECOND: i64 = 1_000_000;
const HOSTILE: &str = " \u{1b}]0;title\u{7} a;b\r\n<script>&\"'--]]>\u{0}\u{202e}\u{ffff}";

/// One event.
fn event(second: i64, session: u64, kind: &str, name: &str, ns: u64) -> LatencyRow {
    let (from_ns, to_ns) = bounds_of(bucket_of(ns));
    LatencyRow {
        time: FIRST_SECOND + second * SECOND,
        session: SessionId(session),
        kind: kind.into(),
        name: name.into(),
        device: "".into(),
        bytes: 0,
        source: "".into(),
        file: "".into(),
        from_ns,
        to_ns,
        count: 1,
        sum_ns: ns,
        max_ns: ns,
        ..LatencyRow::default()
    }
}

fn source_of(latency: Vec<LatencyRow>) -> Source {
    Source::memory(meta(), Rows { latency, ..rows() })
}

fn by(by: &[Dimension]) -> LatencyOptions {
    LatencyOptions {
        by: by.to_vec(),
        top: usize::MAX,
        ..LatencyOptions::default()
    }
}

/// Reads of 100 us and 1 ms, a lock wait of 2 s, and block requests.
fn some() -> Vec<LatencyRow> {
    let mut latency = Vec::new();
    for n in 0..90 {
        latency.push(event(n % 3, 1, kind::WAIT, "IO:DataFileRead", 100_000));
    }
    for n in 0..10 {
        latency.push(event(n % 3, 1, kind::WAIT, "IO:DataFileRead", 1_000_000));
    }
    latency.push(event(2, 2, kind::WAIT, "Lock:transactionid", 2_000_000_000));
    let mut block = event(1, 0, kind::BLOCK, "read", 50_000);
    (block.device, block.bytes) = ("nvme0n1".into(), 8192);
    latency.push(block.clone());
    (block.device, block.bytes, block.count) = ("sda".into(), 12_345, 3);
    latency.push(block);
    latency
}

#[test]
fn the_text_holds_the_numbers_that_matter() {
    let report = latency(&source_of(some()), &LatencyOptions::default()).expect("a report");
    let text = text::render_latency(&report, 100);
    let flat: Vec<String> = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let has = |wanted: &str| {
        assert!(
            flat.iter().any(|line| line.contains(wanted)),
            "{wanted} in\n{text}"
        )
    };
    has("Exact: all numbers");
    has("Waits (kind wait, exact): 101 events, 2.02 s in all.");
    has("100 events (25.0/s), 19.0 ms in all; mean 190 us");
    has("64 128 90 90.0 100 9.000 47.4 ####################");
    has("128 256 0 0.0 - - 0.0");
    has("512 1024 10 10.0 1000 10.000 52.6 ##");
    has("1048576 2097152 1 100.0 2000000 2000.000 100.0");
    has("Block requests (kind block, exact): 4 events, 100 us in all");
    // The largest sum of time first.
    let at = |name: &str| text.find(name).expect(name);
    assert!(at("Lock:transactionid") < at("IO:DataFileRead"));
    for width in [80, 100, 160] {
        for line in text::render_latency(&report, width).lines() {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
    }
}

#[test]
fn it_is_said_what_one_wait_is_where_calls_were_not_traced() {
    for (tier, minor, words, unit) in [
        (
            "exact",
            4,
            "Off-CPU periods in waits (kind wait",
            "an off-CPU period in a wait",
        ),
        ("exact-calls", 4, "Waits (kind wait", "a wait"),
        (
            "exact-calls",
            3,
            "System calls made in waits (kind wait",
            "a system call made in a wait",
        ),
    ] {
        let mut meta = meta();
        meta.collector.tier = tier.into();
        meta.schema = format!("1.{minor}");
        let source = Source::memory(
            meta,
            Rows {
                latency: some(),
                ..rows()
            },
        );
        let report = latency(&source, &LatencyOptions::default()).expect("a report");
        let text = text::render_latency(&report, 100);
        assert!(text.contains(words), "{words} in\n{text}");
        let json: serde_json::Value = serde_json::from_str(&json::render_latency(&report)).expect("JSON");
        assert_eq!(json["wait_is"], unit);
    }
}

#[test]
fn json_has_one_object_per_group() {
    let options = by(&[Dimension::Device, Dimension::IoSize]);
    let report = latency(&source_of(some()), &options).expect("a report");
    let json: serde_json::Value = serde_json::from_str(&json::render_latency(&report)).expect("JSON");
    let groups = json["latency"].as_array().expect("groups");
    let block: Vec<_> = groups.iter().filter(|group| group["kind"] == "block").collect();
    assert_eq!(
        block[0]["group"],
        serde_json::json!({"device": "nvme0n1", "io_size": "8 kB"})
    );
    assert_eq!(
        block[1]["group"],
        serde_json::json!({"device": "sda", "io_size": "12345 B"})
    );
    assert_eq!(block[1]["count"], 3);
    assert_eq!(block[0]["max_us"], 50.0);
    assert_eq!(block[0]["per_second"], 0.25);
    assert_eq!(
        block[0]["histogram"],
        serde_json::json!([{"from_us": 32, "to_us": 64, "count": 1, "sum_us": 50.0}])
    );
    assert_eq!(json["latency_total"][0]["count"], 101);
    assert_eq!(json["recorded_kinds"], serde_json::json!(["wait", "block"]));
}

#[test]
fn what_is_not_shown_one_by_one_is_shown_as_a_sum() {
    let options = LatencyOptions {
        top: 1,
        ..LatencyOptions::default()
    };
    let report = latency(&source_of(some()), &options).expect("a report");
    let waits = &report.kinds[0];
    assert_eq!((waits.groups.len(), waits.others), (1, 1));
    assert_eq!(waits.others_total.count(), 100);
    assert!(text::render_latency(&report, 100).contains("1 other groups\n100 events"));
}

#[test]
fn kinds_and_names_choose() {
    let count = |kinds: &[&str], names: &[&str]| {
        let options = LatencyOptions {
            kinds: kinds.iter().map(ToString::to_string).collect(),
            names: names.iter().map(ToString::to_string).collect(),
            ..LatencyOptions::default()
        };
        latency(&source_of(some()), &options)
            .map(|report| report.kinds.iter().map(|kind| kind.total.count()).sum::<u128>())
    };
    assert_eq!(count(&[], &[]), Ok(105));
    assert_eq!(count(&["block"], &[]), Ok(4));
    assert_eq!(count(&[], &["Lock"]), Ok(1));
    assert_eq!(count(&["wait", "block"], &["DataFileRead", "read"]), Ok(104));
    assert_eq!(
        count(&["syscall"], &[]).expect_err("none").to_string(),
        "no latencies of kind 'syscall' in this recording; it has wait, block"
    );
    assert_eq!(
        count(&["wait"], &["read"]),
        Err(ReportError::NoSuchEvent {
            names: vec!["read".into()],
            recorded: vec!["IO:DataFileRead".into(), "Lock:transactionid".into()],
            more: false,
        })
    );
    assert_eq!(count(&[], &["lock"]), Ok(1), "in capitals or not");
}

#[test]
fn a_recording_without_latencies_says_how_to_record_some() {
    let source = source_of(Vec::new());
    for options in [
        LatencyOptions::default(),
        LatencyOptions {
            kinds: vec!["wait".into()],
            ..LatencyOptions::default()
        },
    ] {
        let report = latency(&source, &options).expect("a report");
        assert!(report.kinds.is_empty());
        assert!(text::render_latency(&report, 100).contains("dbtime record --exact"));
        let map = heat_map(&source, &options).expect("a map");
        assert_eq!(map.total.count(), 0);
        well_formed(&heat_map_svg::render(&map));
    }
}

#[test]
fn what_was_lost_is_told() {
    let mut meta = meta();
    meta.quality.latencies_lost = 17;
    let mut latency_rows = some();
    latency_rows.retain(|row| *row.kind == *kind::WAIT);
    latency_rows.push(event(0, 1, kind::READ, "CPU", 5_000));
    let rows = Rows {
        latency: latency_rows,
        ..rows()
    };
    let source = Source::memory(meta, rows);
    let report = latency(&source, &LatencyOptions::default()).expect("a report");
    let reads = io(&source, &IoOptions::default()).expect("a report");
    let only = LatencyOptions {
        kinds: vec![kind::WAIT.into()],
        ..LatencyOptions::default()
    };
    let map = heat_map(&source, &only).expect("a map");
    for text in [text::render_latency(&report, 100), text::render_io(&reads, 100)] {
        assert!(text.contains("17 events of the whole recording"), "{text}");
    }
    assert!(heat_map_svg::render(&map).contains("(exact); 17 lost"));
    for json in [json::render_latency(&report), json::render_io(&reads)] {
        assert!(json.contains("\"latencies_lost\": 17"), "{json}");
    }
}

#[test]
fn events_of_no_session_are_of_none_that_is_asked_for() {
    let mut options = by(&[Dimension::Session]);
    let labels = |report: &LatencyReport| -> Vec<(String, u128)> {
        let groups = report.kinds.iter().flat_map(|kind| &kind.groups);
        groups
            .map(|group| (group.labels[0].clone(), group.histogram.count()))
            .collect()
    };
    let report = latency(&source_of(some()), &options).expect("a report");
    assert_eq!(
        labels(&report),
        [("4712".into(), 1), ("4711".into(), 100), ("[none]".into(), 4)]
    );
    options.filter.sessions = vec![4711];
    let report = latency(&source_of(some()), &options).expect("a report");
    assert_eq!(labels(&report), [("4711".into(), 100)]);
}

#[test]
fn a_heat_map_shows_one_kind() {
    let error = heat_map(&source_of(some()), &LatencyOptions::default()).expect_err("two kinds");
    assert!(
        error
            .to_string()
            .ends_with("choose one with --kind; this recording has wait, block"),
        "{error}"
    );
    let only = some()
        .into_iter()
        .filter(|row| *row.kind == *kind::BLOCK)
        .collect();
    let map = heat_map(&source_of(only), &LatencyOptions::default()).expect("a map");
    assert_eq!((map.kind.as_str(), map.total.count()), ("block", 4));
    // 4.3 s that begin within the first of five seconds.
    assert_eq!((map.columns, map.column_s, map.from_us), (5, 1, FIRST_SECOND));
    // 50 us is 0.64 of a power above the power 32 us, which is row 5 of 8.
    assert_eq!(map.cells.keys().collect::<Vec<_>>(), [&(1, 5)]);
    assert_eq!((map.lowest_power, map.powers), (5, 1));
    let (from, to) = map.bounds_ns(5);
    assert!(from <= 50_000.0 && 50_000.0 < to, "{from} {to}");
}

#[test]
fn a_long_recording_gets_wider_columns() {
    let mut latency = some();
    for hour in 0..50 {
        latency.push(event(hour * 3600, 1, kind::WAIT, "IO:DataFileRead", 100_000));
    }
    let total = latency.iter().filter(|row| *row.kind == *kind::WAIT).count();
    let options = LatencyOptions {
        kinds: vec![kind::WAIT.into()],
        ..LatencyOptions::default()
    };
    let map = heat_map(&source_of(latency), &options).expect("a map");
    assert_eq!(map.column_s, 1_800);
    assert!(map.columns <= 240);
    assert_eq!(
        map.cells.values().map(|cell| cell.count).sum::<u128>(),
        total as u128
    );
    let svg = heat_map_svg::render(&map);
    well_formed(&svg);
    assert!(svg.contains("(1800 seconds)") && svg.contains(">4 h<"), "{svg}");
}

/// Texts of the document; panics if it is not well-formed or has a character that XML forbids.
fn well_formed(svg: &str) -> Vec<String> {
    use quick_xml::events::Event;
    assert!(
        svg.chars()
            .all(|c| matches!(c, '\n' | ' '..='\u{fffd}' | '\u{10000}'..))
    );
    let mut reader = quick_xml::Reader::from_str(svg);
    let mut texts = vec![String::new()];
    let mut open = 0;
    loop {
        match reader.read_event().expect("well-formed XML") {
            Event::Start(tag) => {
                tag.attributes()
                    .for_each(|attribute| drop(attribute.expect("an attribute")));
                open += 1;
                texts.push(String::new());
            }
            Event::Empty(tag) => tag
                .attributes()
                .for_each(|attribute| drop(attribute.expect("an attribute"))),
            Event::End(_) => open -= 1,
            Event::Text(text) => {
                let last = texts.last_mut().expect("one");
                last.push_str(&text.decode().expect("UTF-8"));
            }
            Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!(open, 0);
    texts
}

#[test]
fn hostile_names_break_neither_terminal_nor_picture() {
    let mut row = event(1, 1, HOSTILE, HOSTILE, 1_000);
    (row.device, row.source, row.file) = (HOSTILE.into(), HOSTILE.into(), HOSTILE.into());
    let mut odd = row.clone();
    (odd.from_ns, odd.to_ns, odd.time) = (u64::MAX, 0, i64::MAX);
    (odd.count, odd.sum_ns, odd.max_ns) = (u64::MAX, u64::MAX, u64::MAX);
    let mut old = odd.clone();
    (old.time, old.from_ns) = (i64::MIN, 0);
    for latency_rows in [vec![row.clone()], vec![row, odd, old]] {
        let source = source_of(latency_rows);
        let report = latency(&source, &by(&Dimension::OF_LATENCIES)).expect("a report");
        let text = text::render_latency(&report, 80);
        assert!(text.contains("<script>"), "{text}");
        assert!(!text.contains(|c: char| c != '\n' && (c.is_control() || "\u{202e}\u{ffff}".contains(c))));
        let json: serde_json::Value = serde_json::from_str(&json::render_latency(&report)).expect("JSON");
        assert_eq!(json["latency"][0]["group"]["file"], HOSTILE);
        let svg = heat_map_svg::render(&heat_map(&source, &LatencyOptions::default()).expect("a map"));
        let texts = well_formed(&svg);
        assert!(texts.iter().any(|text| text.contains("script")), "{texts:?}");
    }
}

#[test]
fn recordings_on_disk_give_the_same_answer() {
    let home = tempfile::tempdir().expect("a directory");
    let path = home.path().join("r.dbt");
    let mut writer = RecordingWriter::create(&path, meta()).expect("a recording");
    for latency in [some(), some()] {
        writer.write(&Rows { latency, ..rows() }).expect("a segment");
    }
    writer.finish().expect("a recording");
    let disk = Source::from(Recording::open(&path).expect("a recording"));
    let memory = source_of([some(), some()].concat());
    let groups = |source: &Source| {
        latency(source, &by(&Dimension::OF_LATENCIES))
            .expect("a report")
            .kinds
    };
    assert_eq!(groups(&disk), groups(&memory));
}

prop_compose! {
    fn any_event()(
        second in 0i64..6,
        session in 0u64..4,
        kind in prop::sample::select(vec![kind::WAIT, kind::READ, kind::BLOCK]),
        name in prop::sample::select(vec!["IO:DataFileRead", "IO:WALRead", "CPU"]),
        source in prop::sample::select(vec![source::PAGE_CACHE, source::DEVICE, ""]),
        bytes in prop::sample::select(vec![0u64, 8192, 131_072]),
        power in 0u32..36,
        random: u64,
    ) -> LatencyRow {
        let mut row = event(second, session, kind, name, (1 << power) + random % (1 << power));
        (row.source, row.bytes) = (source.into(), bytes);
        row
    }
}

proptest! {
    #[test]
    fn every_event_is_in_one_group_and_one_cell(
        events in prop::collection::vec(any_event(), 1..120),
        dimensions in prop::sample::subsequence(Dimension::OF_LATENCIES.to_vec(), 0..=Dimension::OF_LATENCIES.len()),
        from in 0i64..6, to in 1i64..7, top in 0usize..5,
    ) {
        prop_assume!(from < to);
        let options = LatencyOptions {
            filter: Filter {
                from_us: Some(FIRST_SECOND + from * SECOND),
                to_us: Some(FIRST_SECOND + to * SECOND),
                ..Filter::default()
            },
            by: dimensions,
            top,
            ..LatencyOptions::default()
        };
        let selected = events.iter().filter(|row| (from..to).contains(&((row.time - FIRST_SECOND) / SECOND)));
        let mut truth: BTreeMap<&str, (u128, u128, u64)> = BTreeMap::new();
        for row in selected {
            let sums = truth.entry(&row.kind).or_default();
            *sums = (sums.0 + 1, sums.1 + u128::from(row.sum_ns), sums.2.max(row.sum_ns));
        }
        let source = source_of(events.clone());
        let report = latency(&source, &options).expect("a report");
        prop_assert_eq!(report.kinds.len(), truth.len());
        for kind in &report.kinds {
            let mut all = kind.others_total.clone();
            for group in &kind.groups {
                all.merge(&group.histogram);
            }
            prop_assert_eq!(&all, &kind.total);
            prop_assert_eq!((all.count(), all.sum_ns(), all.max_ns()), truth[kind.kind.as_str()]);
            prop_assert!(kind.groups.len() <= top);
            // By second in order of time, and the largest first within each.
            let second = options.by.iter().position(|by| *by == Dimension::Second);
            let places: Vec<_> = kind
                .groups
                .iter()
                .map(|group| (second.map(|at| group.labels[at].clone()), Reverse(group.histogram.sum_ns())))
                .collect();
            prop_assert!(places.is_sorted());
            let least = kind.groups.iter().map(|group| group.histogram.sum_ns()).min();
            prop_assert!(kind.others == 0 || least.is_none_or(|least| least * kind.others as u128 >= kind.others_total.sum_ns()));

            let only = LatencyOptions { kinds: vec![kind.kind.clone()], ..options.clone() };
            let map = heat_map(&source, &only).expect("a map");
            prop_assert_eq!(&map.total, &kind.total);
            prop_assert_eq!(map.cells.values().map(|cell| cell.count).sum::<u128>(), kind.total.count());
            prop_assert_eq!(map.cells.values().map(|cell| cell.sum_ns).sum::<u128>(), kind.total.sum_ns());
            let rows = map.powers * map.rows_per_power;
            prop_assert!(map.cells.keys().all(|(column, row)| *column < map.columns && *row < rows));
        }
    }
}
