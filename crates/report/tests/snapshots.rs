//! Snapshots in files, hours apart: growth is divided by the time that they cover, not by the time between them.

use dbtime_model::counter::{self, snapper};
use dbtime_model::recording::{CoveredPeriod, ImportedFile, Meta};
use dbtime_model::{ActivityRow, CounterRow, Fidelity, Rows, SessionId, State};
use dbtime_report::{
    DiffOptions, Dimension, Filter, LineKind, Options, Snapshot, SnapshotColumn, SnapshotOptions, Source,
    Verdict, diff, report, snapshot, snapshot_csv, snapshots, text,
};

use crate::hand_made::{CLIENT_READ, CPU, FIRST_SECOND, meta, row, session};

const SECOND_US: i64 = 1_000_000;
const HOUR_US: i64 = 3_600 * SECOND_US;

/// One for each growth, an hour apart and ten seconds long: session 1 has executed this many statements, and was active for 4 s.
/// Session 2 did something only in the first one.
fn recorded(growth: &[i64]) -> (Meta, Rows) {
    let mut meta = Meta {
        start_us: FIRST_SECOND,
        end_us: FIRST_SECOND + (growth.len() as i64 - 1) * HOUR_US + 10 * SECOND_US,
        files: vec![ImportedFile::default()],
        ..meta()
    };
    meta.collector.tier = "exact".into();
    meta.collector.rate_hz = 0;
    let mut rows = Rows {
        sessions: vec![
            session(1, 0, "client backend", "TANEL", ""),
            session(2, 0, "client backend", "OTHER", ""),
        ],
        ..Rows::default()
    };
    for (number, growth) in growth.iter().enumerate() {
        let from_us = FIRST_SECOND + number as i64 * HOUR_US;
        let period = CoveredPeriod {
            from_us,
            to_us: from_us + 10 * SECOND_US,
            elapsed_ns: 10_000_000_000,
        };
        meta.periods.push(period);
        let mut add = |session: u64, name: String, value: i64| {
            rows.counters.push(CounterRow {
                time: period.last_second_us(),
                session: SessionId(session),
                source: counter::SNAPPER.into(),
                name: name.into(),
                value,
                ..CounterRow::default()
            });
        };
        add(1, counter::ELAPSED_NS.into(), 10_000_000_000);
        add(1, format!("{}execute count", snapper::STATISTIC), *growth);
        add(1, format!("{}user calls", snapper::STATISTIC), 3 * growth);
        add(1, format!("{}DB time", snapper::TIME_US), 4_000_000);
        if number == 0 {
            add(2, counter::ELAPSED_NS.into(), 10_000_000_000);
            add(2, format!("{}user calls", snapper::STATISTIC), 20);
        }
        rows.activity.push(ActivityRow {
            time: period.last_second_us(),
            samples: 0,
            fidelity: Fidelity::Exact,
            ..row(1, CPU, State::Cpu, 4_000)
        });
    }
    (meta, rows)
}

fn source((meta, rows): (Meta, Rows)) -> Source {
    Source::memory(meta, rows)
}

fn options() -> SnapshotOptions {
    SnapshotOptions {
        gather: LineKind::ALL.to_vec(),
        ..SnapshotOptions::default()
    }
}

/// Growth per second of a session's line.
fn per_second(snapshot: &Snapshot, user: &str, name: &str) -> Option<f64> {
    let one = snapshot.sessions.iter().find(|one| one.session.user == user)?;
    let line = one.lines.iter().find(|line| line.name == name)?;
    line.per_second(one.elapsed_ns)
}

#[test]
fn each_snapshot_is_of_its_own_time() {
    let source = source(recorded(&[100, 200, 300]));
    let all = snapshots(&source, &options()).expect("snapshots");
    let rates: Vec<_> = all
        .iter()
        .map(|one| per_second(one, "TANEL", "execute count"))
        .collect();
    assert_eq!(rates, [Some(10.0), Some(20.0), Some(30.0)]);
    let lengths: Vec<u128> = all.iter().map(|one| one.period.elapsed_ns()).collect();
    assert_eq!(lengths, [10_000_000_000; 3]);
    assert_eq!(all[1].period.from_us, FIRST_SECOND + HOUR_US);
    let sum = snapshot(&source, &options()).expect("a snapshot");
    assert_eq!(per_second(&sum, "TANEL", "execute count"), Some(20.0));
    // A session that did nothing in two of them was there all the same.
    assert_eq!(per_second(&sum, "OTHER", "user calls"), Some(20.0 / 30.0));
    let shown = text::render_snapshot(&all[1], &SnapshotColumn::ALL, 200);
    assert!(
        shown.contains("10.000 s, 1 session") && !shown.contains("within"),
        "{shown}"
    );
    assert!(
        shown.contains("3 per execution") && shown.contains("60 % unaccounted time"),
        "{shown}"
    );
    let shown = text::render_snapshot(&sum, &SnapshotColumn::USUAL, 200);
    assert!(shown.contains("30.000 s within 7210.000 s"), "{shown}");
    // A head, and one line for everything that grew.
    let csv = snapshot_csv::render(&all[2]).expect("CSV");
    assert_eq!(csv.lines().count(), 3, "{csv}");
    assert!(csv.contains(",STAT,execute count,300,"), "{csv}");
}

/// From samples alone: the file reports nothing, and what was observed belongs to the snapshot in which it was.
#[test]
fn what_was_observed_is_of_the_snapshot_in_which_it_was() {
    let (meta, mut rows) = recorded(&[100, 200]);
    rows.counters.clear();
    rows.activity[1].ns /= 2;
    let options = SnapshotOptions {
        ash: vec![Dimension::Wait],
        ..options()
    };
    let all = snapshots(&source((meta.clone(), rows.clone())), &options).expect("snapshots");
    let db_time = |one: &Snapshot| one.total.db_time_ns;
    assert_eq!(
        all.iter().map(db_time).collect::<Vec<_>>(),
        [4_000_000_000, 2_000_000_000]
    );
    assert!(all.iter().all(|one| one.active.is_some()));
    // A chosen one has its own time, not that of the choice.
    let one = SnapshotOptions {
        filter: Filter {
            from_us: Some(FIRST_SECOND + HOUR_US / 2),
            to_us: Some(FIRST_SECOND + 2 * HOUR_US),
            ..Filter::default()
        },
        ..options
    };
    let chosen = snapshots(&source((meta, rows)), &one).expect("snapshots");
    let [chosen] = &chosen[..] else {
        panic!("{} snapshots", chosen.len());
    };
    assert_eq!(chosen.period, all[1].period);
    assert_eq!(db_time(chosen), 2_000_000_000);
}

#[test]
fn active_sessions_are_those_of_the_time_that_is_told() {
    let source = source(recorded(&[100, 200, 300]));
    let whole = report(&source, &Options::default()).expect("a report");
    assert_eq!(whole.elapsed_ns(), 30_000_000_000);
    // 4 s of 10 s, three times.
    assert_eq!(whole.average_active_sessions(), Some(0.4));
    let part = Options {
        filter: Filter {
            from_us: Some(FIRST_SECOND + HOUR_US),
            ..Filter::default()
        },
        ..Options::default()
    };
    let part = report(&source, &part).expect("a report");
    assert_eq!(part.elapsed_ns(), 20_000_000_000);
    assert_eq!(part.average_active_sessions(), Some(0.4));
}

#[test]
fn diff_says_which_counters_changed_by_more_than_chance_and_by_how_much() {
    let good = source(recorded(&[100, 104, 98, 101, 99, 103, 97, 102]));
    let bad = source(recorded(&[301, 299, 304, 296, 305, 300, 298, 302]));
    let answer = diff([&good, &bad], &DiffOptions::default()).expect("a comparison");
    assert_eq!(answer.sides[0].slices, 8);
    let verdict = |name: &str| {
        let found = answer.counters.iter().find(|change| change.name == name);
        found.map(|change| (change.verdict, change.per_unit))
    };
    // 804 and 2,405 in eighty seconds.
    assert_eq!(
        verdict("stat:execute count"),
        Some((Verdict::Significant, [804.0 / 80.0, 2_405.0 / 80.0]))
    );
    assert_eq!(
        verdict("time_us:DB time").map(|(verdict, _)| verdict),
        Some(Verdict::Small)
    );
    for part in ["2 of 3 counters", "stat:execute count 10.1 and 30.1 (2.99 times)"] {
        assert!(answer.whole.contains(part), "{}", answer.whole);
    }
    // Against itself nothing differs, and a single snapshot proves nothing.
    let answer = diff([&good, &good], &DiffOptions::default()).expect("a comparison");
    assert!(answer.whole.contains("None of 3 counters"), "{}", answer.whole);
    let [good, bad] = [source(recorded(&[100])), source(recorded(&[300]))];
    let answer = diff([&good, &bad], &DiffOptions::default()).expect("a comparison");
    assert!(answer.whole.contains("to rule out chance"), "{}", answer.whole);
    assert!(
        answer
            .warnings
            .iter()
            .any(|warning| warning.contains("GOOD has 1 snapshot:")),
        "{:?}",
        answer.warnings
    );
}

#[test]
fn counters_are_compared_where_there_is_no_time() {
    let without_time = |growth: &[i64]| {
        let (meta, mut rows) = recorded(growth);
        rows.activity.clear();
        source((meta, rows))
    };
    let sides = [
        without_time(&[100, 104, 98, 101, 99, 103]),
        without_time(&[301, 299, 304, 296, 305, 300]),
    ];
    let answer = diff([&sides[0], &sides[1]], &DiffOptions::default()).expect("a comparison");
    assert!(
        answer.conclusion.contains("counters are compared"),
        "{}",
        answer.conclusion
    );
    assert!(answer.whole.contains("execute count"), "{}", answer.whole);
}

#[test]
fn a_level_is_what_there_is_at_the_end_and_no_growth() {
    let mut rows = Rows {
        sessions: vec![session(1, 11, "client backend", "a", "shop")],
        activity: vec![row(1, CPU, State::User, 500)],
        ..Rows::default()
    };
    for (source, name, value) in [
        (counter::LEVEL, counter::level::RSS_ANON_BYTES, 4_096),
        (counter::LEVEL, counter::level::SWAP_BYTES, 0),
        (counter::KERNEL, counter::task::VOLUNTARY_SWITCHES, 8),
    ] {
        rows.counters.push(CounterRow {
            time: FIRST_SECOND,
            session: SessionId(1),
            source: source.into(),
            name: name.into(),
            value,
            ..CounterRow::default()
        });
    }
    let found = snapshot(&Source::memory(meta(), rows), &options()).expect("a snapshot");
    let lines = &found.sessions[0].lines;
    let levels: Vec<_> = lines
        .iter()
        .filter(|line| line.is_level)
        .map(|line| (line.name.as_str(), line.growth, line.per_second(1_000_000_000)))
        .collect();
    assert_eq!(levels, [("rss_anon_bytes", 4_096, None), ("swap_bytes", 0, None)]);
    let text = text::render_snapshot(&found, &SnapshotColumn::USUAL, 200);
    let of_memory = text.lines().find(|line| line.contains("rss_anon_bytes (level)"));
    assert!(
        of_memory.is_some_and(|line| line.trim_end().ends_with("4096")),
        "{text}"
    );
    let csv = snapshot_csv::render(&found).expect("CSV");
    assert!(csv.contains(",rss_anon_bytes,4096,level,"), "{csv}");
    assert!(csv.contains(",voluntary_ctxt_switches,8,,"), "{csv}");
}

/// Whatever is gathered, and however many sessions are wanted: the first ones are shown, and all are counted.
#[test]
fn sessions_that_are_not_shown_are_counted() {
    let mut rows = Rows {
        sessions: (1..=4)
            .map(|id| session(id, id as u32, "client backend", "a", "shop"))
            .collect(),
        activity: vec![
            row(1, CPU, State::User, 900),
            row(2, CPU, State::User, 500),
            row(2, CLIENT_READ, State::Sleep, 500),
            row(3, CLIENT_READ, State::Sleep, 1_000),
        ],
        ..Rows::default()
    };
    // Of session 0, the server as a whole, too: it is none of the sessions that are counted.
    for id in [0, 2] {
        rows.counters.push(CounterRow {
            time: FIRST_SECOND,
            session: SessionId(id),
            source: counter::SERVER_STATISTICS.into(),
            name: "xact_commit".into(),
            value: 8,
            ..CounterRow::default()
        });
    }
    let source = Source::memory(meta(), rows);
    for (gather, include, sessions) in [
        (LineKind::ALL.to_vec(), "", 3),
        (LineKind::ALL.to_vec(), "xact", 1),
        (LineKind::ALL.to_vec(), "client", 2),
        (vec![LineKind::Stat], "", 1),
        (vec![LineKind::Time], "", 2),
        (vec![LineKind::Wait], "", 2),
    ] {
        let shown = |most| {
            let options = SnapshotOptions {
                gather: gather.clone(),
                include: include.to_string(),
                most,
                ..SnapshotOptions::default()
            };
            snapshot(&source, &options).expect("a snapshot")
        };
        let all = shown(None);
        assert_eq!((all.count(), all.others), (sessions, 0), "{gather:?} {include}");
        for most in 0..=all.sessions.len() {
            let some = shown(Some(most));
            assert_eq!(some.sessions, all.sessions[..most]);
            assert_eq!(some.count(), sessions, "{gather:?} {include} {most}");
        }
    }
}
