//! Where reads came from, against pencil and paper, and against arithmetic.

use std::collections::BTreeMap;

use crate::hand_made::{CPU, FIRST_SECOND, READ, meta, row, rows, session, stack};
use dbtime_model::latency::{bounds_of, bucket_of, kind, source};
use dbtime_model::{LatencyRow, Rows, SessionId, State};
use dbtime_report::{
    FileKind, Filter, Guessed, IoOptions, IoReport, KernelLayer, ReadSource, ReadWaits, Source, io, json,
    text,
};
use proptest::prelude::*;

const HOSTILE: &str = " \u{1b}]0;title\u{7} a;b\r\n<script>&\"'\u{0}\u{202e}\u{ffff}";
const US: u64 = 1_000;

/// `count` equal events of one session.
fn latency(kind: &str, from: &str, ns: u64, count: u64) -> LatencyRow {
    let (from_ns, to_ns) = bounds_of(bucket_of(ns));
    LatencyRow {
        time: FIRST_SECOND,
        session: SessionId(1),
        kind: kind.into(),
        name: "IO:DataFileRead".into(),
        device: if from == source::DEVICE {
            "nvme0n1".into()
        } else {
            "".into()
        },
        bytes: 8192,
        source: from.into(),
        file: "base/5/16384".into(),
        from_ns,
        to_ns,
        count,
        sum_ns: ns * count,
        max_ns: ns,
        ..LatencyRow::default()
    }
}

/// In microseconds, by session 1 (4711) in `IO:DataFileRead` of 8 kB:
///
/// | reads | each | from | file | kernel CPU each |
/// |---|---|---|---|---|
/// | 700 | 5 | page cache | base/5/16384 | 4 |
/// | 50 | 90 | page cache (it was busy) | base/5/16384.1 | 80 |
/// | 200 | 100 | device: 4 queue, 80 device | base/5/16384.1 | 10 |
/// | 20 | 40 | device: 1 queue, 30 device | base/5/16385_vm | 10 |
/// | 30 | 2000 | other task | base/5/16384 | 5 |
///
/// and 10 reads of 16 kB of the WAL, 5 us each, of unknown source, by no recorded session, in no wait event.
fn reads() -> Vec<LatencyRow> {
    let mut all = Vec::new();
    let mut add = |count, us, from, file: &str, cpu_us, parts: Option<[u64; 2]>| {
        let mut kinds = vec![(kind::READ, us), (kind::READ_CPU, cpu_us)];
        if let Some([queue, device]) = parts {
            kinds.extend([(kind::READ_QUEUE, queue), (kind::READ_DEVICE, device)]);
        }
        for (kind, us) in kinds {
            let mut row = latency(kind, from, us * US, count);
            row.file = file.into();
            all.push(row);
        }
    };
    add(700, 5, source::PAGE_CACHE, "base/5/16384", 4, None);
    add(50, 90, source::PAGE_CACHE, "base/5/16384.1", 80, None);
    add(200, 100, source::DEVICE, "base/5/16384.1", 10, Some([4, 80]));
    add(20, 40, source::DEVICE, "base/5/16385_vm", 10, Some([1, 30]));
    add(30, 2_000, source::OTHER_TASK, "base/5/16384", 5, None);
    let mut wal = latency(kind::READ, "", 5 * US, 10);
    (wal.session, wal.bytes, wal.name) = (SessionId(0), 16_384, "CPU".into());
    wal.file = "pg_wal/000000010000000000000001".into();
    all.push(wal);
    all
}

fn source_of(latency: Vec<LatencyRow>) -> Source {
    Source::memory(meta(), Rows { latency, ..rows() })
}

fn answer(latency: Vec<LatencyRow>) -> IoReport {
    io(&source_of(latency), &IoOptions::default()).expect("a report")
}

#[test]
fn reads_are_split_by_where_they_came_from() {
    let report = answer(reads());
    assert_eq!(report.total.count(), 1_010);
    let event = &report.by_event.top[0];
    assert_eq!(
        (event.key.as_str(), event.reads.count()),
        ("IO:DataFileRead", 1_000)
    );
    let of = |from| {
        let sums = &event.reads.by_source[&from];
        (sums.latency.count(), sums.latency.sum_ns() / 1_000, sums.bytes)
    };
    assert_eq!(of(ReadSource::PageCache), (750, 3_500 + 4_500, 750 * 8_192));
    assert_eq!(of(ReadSource::Device), (220, 20_000 + 800, 220 * 8_192));
    assert_eq!(of(ReadSource::OtherTask), (30, 60_000, 30 * 8_192));
    assert_eq!(
        report.by_event.top[1].reads.by_source[&ReadSource::Unknown]
            .latency
            .count(),
        10
    );
}

#[test]
fn what_the_ledger_has_for_the_waits_in_which_was_read_stands_beside_the_calls() {
    let mut rows = rows();
    rows.activity.push(row(1, READ, State::Runnable, 300));
    rows.latency = reads();
    let source = Source::memory(meta(), rows);
    let report = io(&source, &IoOptions::default()).expect("a report");
    // 1200 in the kernel and 700 on the disk; the reads in no wait event are none of these.
    let waits = ReadWaits {
        db_time_ns: 2_200_000 * u128::from(US),
        run_queue_ns: 300_000 * u128::from(US),
        reads_ns: 88_800 * u128::from(US),
    };
    assert_eq!(report.waits, waits);
    let said = text::render_io(&report, 300);
    assert!(
        said.contains("2.200 s of DB time in these wait events, 0.300 s of it in the run queue; the reads in them took 0.089 s. The other 2.111 s (96.0 %)"),
        "{said}"
    );
    // Samples show less than the calls took, or hardly more.
    for less_ns in [88_000, 90_000] {
        let mut rows = rows_of_read(less_ns * US);
        rows.latency = reads();
        let report = io(&Source::memory(meta(), rows), &IoOptions::default()).expect("a report");
        assert!(!text::render_io(&report, 300).contains("The ledger has"));
    }
}

fn rows_of_read(ns: u64) -> Rows {
    let mut rows = rows();
    rows.activity.retain(|row| row.wait_event == "DataFileRead");
    rows.activity.truncate(1);
    rows.activity[0].ns = ns;
    rows
}

#[test]
fn segments_of_a_relation_are_one_file() {
    let report = answer(reads());
    let files: Vec<(&str, FileKind, u128, usize)> = report
        .by_file
        .top
        .iter()
        .zip(&report.segments)
        .map(|(group, segments)| {
            (
                group.key.path.as_str(),
                group.key.kind,
                group.reads.count(),
                *segments,
            )
        })
        .collect();
    assert_eq!(
        files,
        [
            ("base/5/16384", FileKind::Relation, 980, 2),
            ("base/5/16385_vm", FileKind::VisibilityMap, 20, 1),
            ("pg_wal/000000010000000000000001", FileKind::Wal, 10, 1),
        ]
    );
    let options = IoOptions {
        top: 1,
        ..IoOptions::default()
    };
    let report = io(&source_of(reads()), &options).expect("a report");
    assert_eq!((report.by_file.top.len(), report.by_file.others), (1, 2));
    assert_eq!(report.by_file.others_reads.count(), 30);
    assert_eq!(report.by_file_kind.top.len(), 3, "kinds are few: all are shown");
}

#[test]
fn the_time_of_device_reads_adds_up() {
    let parts = answer(reads()).device;
    let total = parts.total;
    assert_eq!(total.reads, 220);
    assert_eq!(total.total_ns, 20_800_000);
    assert_eq!(total.queue_ns, 800_000 + 20_000);
    assert_eq!(total.device_ns, 16_000_000 + 600_000);
    assert_eq!(total.cpu_ns, 2_200_000);
    assert_eq!(total.rest_ns(), 20_800_000 - 820_000 - 16_600_000 - 2_200_000);
    assert_eq!(parts.by_device, [("nvme0n1".to_string(), total)]);
    assert_eq!(parts.by_size, [(8_192, total)]);
}

#[test]
fn cpu_that_is_in_two_parts_is_not_hidden() {
    let latency = [(kind::READ, 100), (kind::READ_CPU, 30), (kind::READ_DEVICE, 80)]
        .map(|(kind, us)| latency(kind, source::DEVICE, us * US, 2));
    let report = answer(latency.into());
    assert_eq!(report.device.total.rest_ns(), -20_000);
    let text = text::render_io(&report, 120);
    assert!(
        text.contains("-10.0") && text.contains("A negative rest"),
        "{text}"
    );
}

#[test]
fn the_guess_is_held_against_the_truth() {
    let report = answer(reads());
    let guess = &report.guess;
    let count = |guessed, from| guess.count(guessed, from);
    assert_eq!(count(Guessed::PageCache, ReadSource::PageCache), 700);
    assert_eq!(count(Guessed::StorageCache, ReadSource::PageCache), 50);
    assert_eq!(count(Guessed::PageCache, ReadSource::Device), 20);
    assert_eq!(count(Guessed::StorageCache, ReadSource::Device), 200);
    assert_eq!(count(Guessed::Disk, ReadSource::OtherTask), 30);
    assert_eq!((guess.wrong(), guess.known()), (70, 1_000));
    let options = IoOptions {
        thresholds_us: [10, 95],
        ..IoOptions::default()
    };
    let report = io(&source_of(reads()), &options).expect("a report");
    assert_eq!(report.guess.count(Guessed::Disk, ReadSource::Device), 200);
    assert_eq!(report.guess.wrong(), 50);
}

#[test]
fn cpu_is_told_per_call_per_session_and_by_layer() {
    let cpu = answer(reads()).cpu;
    let of = |from| {
        let call = cpu.calls.iter().find(|call| call.source == from).expect("calls");
        (call.bytes, call.cpu.count(), call.cpu.sum_ns() / 1_000)
    };
    assert_eq!(of(ReadSource::PageCache), (8_192, 750, 2_800 + 4_000));
    assert_eq!(of(ReadSource::Device), (8_192, 220, 2_200));
    // Session 1 is the only recorded one that read: 900 ms in no wait and 10 ms in an idle one.
    assert_eq!((cpu.sessions, cpu.reads, cpu.user_ns), (1, 1_000, 910_000_000));
    // 1200 ms in the wait, and 100 ms outside of waits at a stack that is one of a read.
    assert_eq!(cpu.layers.len(), 1);
    assert_eq!(cpu.layers[0].layer, KernelLayer::CopyToUser);
    assert_eq!((cpu.layers_ns, cpu.samples), (1_300_000_000, 130));
    assert_eq!(
        cpu.layers[0].functions,
        [("copy_page_to_iter".to_string(), 1_300_000_000)]
    );
    assert_eq!(cpu.without_stack_ns, 0);
}

#[test]
fn only_what_the_sessions_did_in_reads_is_cpu_of_reads() {
    let mut rows = rows();
    let (fault, wait) = (
        stack(&["asm_exc_page_fault", "exc_page_fault"], "[kernel]"),
        stack(&["vfs_read", "filemap_read", "io_schedule"], "[kernel]"),
    );
    let with = |mut row: dbtime_model::ActivityRow, stack: &dbtime_model::StackRow| {
        row.kernel_stack = stack.id;
        row
    };
    rows.activity = vec![
        with(row(1, CPU, State::Kernel, 1), &fault),
        with(row(1, CPU, State::Kernel, 20), &wait),
        with(row(1, READ, State::Kernel, 300), &fault),
        with(
            row(1, ("IO", "DataFileWrite", false), State::Kernel, 4_000),
            &wait,
        ),
        with(row(2, READ, State::Kernel, 50_000), &wait),
        with(row(1, READ, State::Disk, 600_000), &wait),
        row(1, READ, State::Kernel, 7_000_000),
        row(1, CPU, State::Kernel, 80_000_000),
    ];
    rows.stacks = vec![fault, wait];
    rows.latency = reads();
    // What session 1 reads in no wait event.
    let mut outside = latency(kind::READ, source::PAGE_CACHE, 5 * US, 1);
    outside.name = "CPU".into();
    rows.latency.push(outside);
    let cpu = io(&Source::memory(meta(), rows), &IoOptions::default())
        .expect("a report")
        .cpu;
    let layers: BTreeMap<&str, u128> = cpu
        .layers
        .iter()
        .map(|layer| (layer.layer.as_str(), layer.ns / 1_000_000))
        .collect();
    assert_eq!(
        layers,
        BTreeMap::from([("memory management", 300), ("scheduler", 20)])
    );
    assert_eq!(cpu.without_stack_ns / 1_000_000, 7_000_000);
}

#[test]
fn the_text_holds_the_numbers_that_matter_and_fits_the_page() {
    let report = answer(reads());
    let text = text::render_io(&report, 120);
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
    has("IO:DataFileRead all 1000 7.8 0.089 88.8");
    has("page cache 750 5.9 0.008 10.7");
    has("base/5/16384 (2 segments) all 980");
    has("nvme0n1 all 220 s 0.021 0.001 0.017 0.002 0.001");
    has("us/read 94.5 3.7 75.5 10.0 5.4");
    has("% 100.0 3.9 79.8 10.6 5.7");
    has("page cache 700 20 - 10");
    has("storage cache 50 200 - -");
    has("disk - - 30 -");
    has("The guess was wrong for 70 of 1000 reads (7.00 %)");
    has("8 kB page cache 750 0.007 9.1");
    has("User CPU of sessions that read (1), whatever they did: 0.910 s, 910 us per read (sampled)");
    has("Where in the kernel reads spent CPU (sampled: 130 samples, 1.300 s)");
    has("copy to user copy_page_to_iter 1.300 100.0 1300 130 ####");
    for width in [100, 120, 160] {
        for line in text::render_io(&report, width).lines() {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
    }
}

#[test]
fn json_has_the_same_content() {
    let json: serde_json::Value = serde_json::from_str(&json::render_io(&answer(reads()))).expect("JSON");
    let io = &json["io"];
    assert_eq!(io["fidelity"], "exact");
    assert_eq!(io["total"]["reads"], 1_010);
    assert_eq!(io["by_event"]["groups"][0]["event"], "IO:DataFileRead");
    assert_eq!(
        io["by_event"]["groups"][0]["by_source"][0]["source"],
        "page cache"
    );
    assert_eq!(io["by_event"]["groups"][0]["by_source"][0]["reads"], 750);
    assert_eq!(io["by_file"]["groups"][0]["segments"], 2);
    assert_eq!(io["by_size"]["groups"][0]["size_bytes"], 8_192);
    assert_eq!(io["device"]["rest_us"], 1_180.0);
    assert_eq!(io["device"]["by_device"][0]["device"], "nvme0n1");
    assert_eq!(io["guess"]["wrong"], 70);
    assert_eq!(io["guess"]["counts"][1]["truth"]["page cache"], 50);
    assert_eq!(io["cpu"]["kernel_layers"][0]["layer"], "copy to user");
    assert_eq!(io["cpu"]["kernel_layers_fidelity"], "sampled");
}

#[test]
fn without_reads_it_says_what_to_record() {
    let report = answer(vec![latency(kind::WAIT, "", 5 * US, 1)]);
    assert!(!report.has_reads);
    assert!(text::render_io(&report, 100).contains("dbtime record --exact=calls"));
    let options = IoOptions {
        filter: Filter {
            sessions: vec![4712],
            ..Filter::default()
        },
        ..IoOptions::default()
    };
    let report = io(&source_of(reads()), &options).expect("a report");
    assert!(report.has_reads);
    assert!(text::render_io(&report, 100).contains("There are no reads in this part"));
    serde_json::from_str::<serde_json::Value>(&json::render_io(&report)).expect("JSON");
}

#[test]
fn hostile_names_reach_the_terminal_as_plain_text() {
    let mut rows = rows();
    let hostile = stack(&[HOSTILE], HOSTILE);
    let mut activity = row(5, ("IO", HOSTILE, false), State::Kernel, 9_000);
    activity.kernel_stack = hostile.id;
    rows.activity.push(activity);
    rows.sessions
        .push(session(5, 6_000, "client backend", HOSTILE, HOSTILE));
    rows.stacks.push(hostile);
    for kind in [kind::READ, kind::READ_CPU, kind::READ_DEVICE] {
        let mut row = latency(kind, source::DEVICE, u64::MAX / 4, 3);
        (row.session, row.name, row.device) = (SessionId(5), format!("IO:{HOSTILE}").into(), HOSTILE.into());
        (row.file, row.count, row.bytes) = (HOSTILE.into(), u64::MAX, u64::MAX);
        rows.latency.push(row.clone());
        row.source = HOSTILE.into();
        rows.latency.push(row);
    }
    let report = io(&Source::memory(meta(), rows), &IoOptions::default()).expect("a report");
    assert_eq!(report.cpu.layers[0].layer, KernelLayer::Other);
    let text = text::render_io(&report, 100);
    assert!(text.contains("<script>"), "{text}");
    assert!(!text.contains(|c: char| c != '\n' && (c.is_control() || "\u{202e}\u{ffff}".contains(c))));
    let json: serde_json::Value = serde_json::from_str(&json::render_io(&report)).expect("JSON");
    assert_eq!(json["io"]["by_file"]["groups"][0]["file"], HOSTILE);
}

prop_compose! {
    fn any_read()(
        second in 0i64..5,
        session in 0u64..4,
        name in prop::sample::select(vec!["IO:DataFileRead", "IO:WALRead", "CPU"]),
        from in prop::sample::select(vec![source::PAGE_CACHE, source::DEVICE, source::READAHEAD, source::OTHER_TASK, "?"]),
        file in prop::sample::select(vec!["base/5/1", "base/5/1.1", "base/5/1_vm", "pg_wal/1", "global/1.2", "/x", ""]),
        bytes in prop::sample::select(vec![8_192u64, 16_384, 131_072]),
        power in 0u32..36,
        random: u64,
        count in 1u64..5,
    ) -> LatencyRow {
        let mut row = latency(kind::READ, from, (1 << power) + random % (1 << power), count);
        row.time += second * 1_000_000;
        (row.session, row.name, row.bytes, row.file) = (SessionId(session), name.into(), bytes, file.into());
        row
    }
}

proptest! {
    /// Every read is in every table exactly once, whatever the table is grouped by.
    #[test]
    fn every_table_sums_to_all_reads(
        latency in prop::collection::vec(any_read(), 1..80), top in 0usize..4, from in 0i64..5,
        low in 1u64..2_000, more in 1u64..100_000,
    ) {
        let options = IoOptions {
            filter: Filter { from_us: Some(FIRST_SECOND + from * 1_000_000), ..Filter::default() },
            top,
            thresholds_us: [low, low + more],
        };
        let truth: Vec<&LatencyRow> =
            latency.iter().filter(|row| row.time >= FIRST_SECOND + from * 1_000_000).collect();
        let count: u128 = truth.iter().map(|row| u128::from(row.count)).sum();
        let ns: u128 = truth.iter().map(|row| u128::from(row.sum_ns)).sum();
        let report = io(&source_of(latency.clone()), &options).expect("a report");
        prop_assert_eq!((report.total.count(), report.total.all.latency.sum_ns()), (count, ns));
        macro_rules! sums_to_all {
            ($groups:expr) => {{
                let groups = $groups;
                let all = groups.top.iter().map(|group| &group.reads).chain([&groups.others_reads]);
                let sums: Vec<(u128, u128, u128)> = all
                    .map(|reads| {
                        let of_sources: u128 = reads.by_source.values().map(|sums| sums.latency.count()).sum();
                        (reads.count(), reads.all.latency.sum_ns(), of_sources)
                    })
                    .collect();
                prop_assert_eq!(sums.iter().map(|sum| sum.0).sum::<u128>(), count);
                prop_assert_eq!(sums.iter().map(|sum| sum.1).sum::<u128>(), ns);
                prop_assert_eq!(sums.iter().map(|sum| sum.2).sum::<u128>(), count);
            }};
        }
        sums_to_all!(&report.by_event);
        sums_to_all!(&report.by_file_kind);
        sums_to_all!(&report.by_file);
        sums_to_all!(&report.by_size);
        prop_assert!(report.by_file.top.len() <= top);
        prop_assert_eq!(report.guess.counts.values().sum::<u128>(), count);
        // The guess again, with the latencies themselves; those within a percent of a threshold may go either way.
        let thresholds = [low as f64 * 1e3, (low + more) as f64 * 1e3];
        let is_near = |ns: f64| thresholds.iter().any(|bound| (ns - bound).abs() <= bound * 0.01);
        let near: u128 = truth.iter().filter(|row| is_near(row.max_ns as f64)).map(|row| u128::from(row.count)).sum();
        let wrong: u128 = truth
            .iter()
            .filter(|row| match &*row.source {
                source::PAGE_CACHE | source::READAHEAD => row.max_ns as f64 >= thresholds[0],
                source::DEVICE | source::OTHER_TASK => (row.max_ns as f64) < thresholds[0],
                _ => false,
            })
            .map(|row| u128::from(row.count))
            .sum();
        prop_assert!(report.guess.wrong().abs_diff(wrong) <= near);
    }
}
