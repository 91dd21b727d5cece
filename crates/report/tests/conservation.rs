//! Time is conserved: what goes in as rows comes out as sums, however it is grouped, filtered or stored.

use std::path::Path;

use crate::hand_made::{FIRST_SECOND, meta, session, stack};
use dbtime_model::recording::{Recording, RecordingWriter};
use dbtime_model::{ActivityRow, Fidelity, Rows, SessionId, StackId, State};
use dbtime_report::{
    Dimension, Filter, FlameOptions, Options, Report, ReportError, Section, Source, export, flame, json,
    report, text,
};
use proptest::prelude::*;

const SECOND: i64 = 1_000_000;

/// (class, event, idle), including odd ones that only a foreign file would have.
const WAITS: [(&str, &str, bool); 9] = [
    ("CPU", "CPU", false),
    ("CPU", "spinning", false),
    ("CPU", "CPU", true),
    ("IO", "DataFileRead", false),
    ("IO", "DataFileRead", true),
    ("LWLock", "WALInsert", false),
    ("Client", "ClientRead", true),
    ("unknown", "not sampled", false),
    ("unknown", "not read", false),
];

/// Of foreground sessions: outside of idle waits, and in the run queue inside them.
fn is_db_time(row: &ActivityRow) -> bool {
    is_foreground(row.session.0) && (!row.idle || row.state == State::Runnable)
}

/// Sessions 1 to 3 are foreground, 4 is not; 0 and 5 are not described, which makes them foreground.
fn is_foreground(session: u64) -> bool {
    session != 4
}

prop_compose! {
    fn any_row()(
        second in 0i64..6,
        session in 0u64..6,
        statement in 0u64..3,
        wait in prop::sample::select(WAITS.to_vec()),
        state in prop::sample::select(State::ALL.to_vec()),
        ns in prop_oneof![8 => 0u64..3_000_000_000, 1 => Just(u64::MAX)],
        samples in prop_oneof![8 => 0u64..100, 1 => Just(u64::MAX)],
        stacks in (0usize..4, 0usize..4),
        exact: bool,
    ) -> ActivityRow {
        ActivityRow {
            time: FIRST_SECOND + second * SECOND,
            session: SessionId(session),
            statement,
            plan: 0,
            wait_class: wait.0.into(),
            wait_event: wait.1.into(),
            idle: wait.2,
            state,
            kernel_stack: stack_number(stacks.0),
            user_stack: stack_number(stacks.1),
            comment: 0,
            ns,
            count: 0,
            samples,
            fidelity: if exact { Fidelity::Exact } else { Fidelity::Sampled },
            pooled: false,
            session_state: dbtime_model::SessionState::None,
        }
    }
}

/// None, two that are in the recording, one that is not.
fn stack_number(n: usize) -> StackId {
    match n {
        0 => StackId(0),
        3 => StackId(99),
        n => stacks()[n - 1].id,
    }
}

/// The second is the first with a frame on top; the name before the `;` sorts before its callers' lines.
fn stacks() -> [dbtime_model::StackRow; 2] {
    [
        stack(&["main", "read"], "m"),
        stack(&["main", "read", "read all;"], "m"),
    ]
}

fn all_rows(activity: Vec<ActivityRow>) -> Rows {
    Rows {
        activity,
        sessions: vec![
            session(1, 11, "client backend", "a", "x"),
            session(2, 12, "parallel worker", "a", "y"),
            session(3, 13, "unknown", "", ""),
            session(4, 14, "checkpointer", "", ""),
        ],
        stacks: stacks().to_vec(),
        ..Rows::default()
    }
}

fn any_activity() -> impl Strategy<Value = Vec<ActivityRow>> {
    prop::collection::vec(any_row(), 0..60)
}

fn any_grouping() -> impl Strategy<Value = Vec<Dimension>> {
    prop::sample::subsequence(Dimension::OF_TIME.to_vec(), 0..=Dimension::OF_TIME.len()).prop_shuffle()
}

fn answer(activity: &[ActivityRow], by: &[Dimension], filter: Filter) -> Report {
    try_answer(activity, by, filter).expect("a report")
}

fn try_answer(activity: &[ActivityRow], by: &[Dimension], filter: Filter) -> Result<Report, ReportError> {
    let source = Source::memory(meta(), all_rows(activity.to_vec()));
    let options = Options {
        filter,
        by: by.to_vec(),
        ..Options::default()
    };
    report(&source, &options)
}

fn sum(activity: &[ActivityRow], of: impl Fn(&ActivityRow) -> bool) -> u128 {
    activity
        .iter()
        .filter(|row| of(row))
        .map(|row| u128::from(row.ns))
        .sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn rows_in_are_sums_out(activity in any_activity(), by in any_grouping()) {
        let ledger = answer(&activity, &by, Filter::default()).ledger;
        for state in State::ALL {
            let expected = sum(&activity, |row| row.state == state);
            prop_assert_eq!(ledger.total().state_ns(state), expected);
            prop_assert_eq!(ledger.rows.iter().map(|row| row.sums.state_ns(state)).sum::<u128>(), expected);
        }
        let samples: u128 = activity.iter().map(|row| u128::from(row.samples)).sum();
        prop_assert_eq!(ledger.total().samples, samples);
        for (section, expected) in [
            (Section::DbTime, sum(&activity, is_db_time)),
            (Section::Idle, sum(&activity, |row| is_foreground(row.session.0) && !is_db_time(row))),
            (Section::Background, sum(&activity, |row| !is_foreground(row.session.0))),
        ] {
            prop_assert_eq!(ledger.sum(section).total_ns(), expected);
            prop_assert_eq!(ledger.section(section).map(|row| row.sums.total_ns()).sum::<u128>(), expected);
        }
        // No group occurs twice.
        let mut groups: Vec<_> = ledger.rows.iter().map(|row| (row.section, row.rest, &row.labels)).collect();
        let rows = groups.len();
        groups.sort();
        groups.dedup();
        let unknown_sessions = by.contains(&Dimension::Session);
        prop_assert!(groups.len() == rows || unknown_sessions);
    }

    #[test]
    fn the_parts_of_any_filter_add_up(activity in any_activity(), cut in 0i64..8, into_second in 0i64..SECOND) {
        let whole = answer(&activity, &[Dimension::Wait], Filter::default());
        let cut = FIRST_SECOND + cut * SECOND + into_second;
        let before = answer(&activity, &[], Filter { to_us: Some(cut), from_us: Some(i64::MIN), ..Filter::default() });
        let after = answer(&activity, &[], Filter { from_us: Some(cut), ..Filter::default() });
        let total = |report: &Report| report.ledger.total().total_ns();
        prop_assert_eq!(total(&before) + total(&after), total(&whole));
        prop_assert_eq!(before.db_time_ns() + after.db_time_ns(), whole.db_time_ns());
        let within = whole.period.from_us <= cut && cut < whole.period.to_us;
        if within {
            prop_assert_eq!(before.elapsed_ns() + after.elapsed_ns(), whole.elapsed_ns());
        }

        // What does not occur at all is an error, which counts as no time.
        let total_of = |filter: Filter| match try_answer(&activity, &[], filter) {
            Ok(report) => report.ledger.total().total_ns(),
            Err(ReportError::NoSuchWait { .. } | ReportError::NoSuchState { .. }) => 0,
            Err(e) => panic!("{e}"),
        };
        let by_state: u128 = State::ALL
            .iter()
            .map(|&state| total_of(Filter { states: vec![state], ..Filter::default() }))
            .sum();
        prop_assert_eq!(by_state, total(&whole));
        let by_wait: u128 = ["CPU", "IO", "LWLock", "Client", "unknown"]
            .iter()
            .map(|&class| total_of(Filter { waits: vec![class.into()], ..Filter::default() }))
            .sum();
        prop_assert_eq!(by_wait, total(&whole));
        let by_session: u128 = [11, 12, 13, 14].iter().map(|&pid| {
            total(&answer(&activity, &[], Filter { sessions: vec![pid], ..Filter::default() }))
        }).sum();
        prop_assert_eq!(by_session, sum(&activity, |row| (1..=4).contains(&row.session.0)));
    }

    #[test]
    fn the_database_view_leads_to_db_time(activity in any_activity()) {
        let report = answer(&activity, &[], Filter::default());
        let view = &report.database_view;
        let signed = |ns: u128| i128::try_from(ns).expect("fits");
        let db_time: i128 = view.steps().iter()
            .map(|&(step, ns)| if step.is_taken_off() { -signed(ns) } else { signed(ns) })
            .sum();
        prop_assert_eq!(db_time, signed(report.db_time_ns()));
        prop_assert_eq!(view.db_time_ns, report.db_time_ns());

        // Each item again, from the rows and by its definition.
        let foreground: Vec<ActivityRow> =
            activity.iter().filter(|row| is_foreground(row.session.0)).cloned().collect();
        let on_cpu = |row: &ActivityRow| matches!(row.state, State::User | State::Kernel | State::Cpu);
        let in_wait = |row: &ActivityRow| !row.idle && !["CPU", "unknown"].contains(&row.wait_class.as_str());
        let no_wait = |row: &ActivityRow| !row.idle && row.wait_class == "CPU";
        prop_assert_eq!(view.cpu_ns, sum(&foreground, on_cpu));
        prop_assert_eq!(view.wait_ns, sum(&foreground, in_wait));
        prop_assert_eq!(view.double_counted_ns, sum(&foreground, |row| on_cpu(row) && in_wait(row)));
        prop_assert_eq!(view.cpu_inside_idle_waits_ns, sum(&foreground, |row| on_cpu(row) && row.idle));
        prop_assert_eq!(
            view.run_queue_inside_idle_waits_ns,
            sum(&foreground, |row| row.idle && row.state == State::Runnable)
        );
        prop_assert_eq!(
            view.run_queue_outside_waits_ns,
            sum(&foreground, |row| no_wait(row) && row.state == State::Runnable)
        );
        prop_assert_eq!(
            view.blocked_outside_waits_ns,
            sum(&foreground, |row| no_wait(row)
                && matches!(row.state, State::Disk | State::Sleep | State::Stopped))
        );
        prop_assert_eq!(view.by_event.iter().map(|e| e.wait_ns).sum::<u128>(), view.wait_ns);
        prop_assert_eq!(view.by_event.iter().map(|e| e.cpu_inside_ns).sum::<u128>(), view.double_counted_ns);
        for event in &view.by_event {
            prop_assert_eq!(
                event.wait_ns,
                event.cpu_inside_ns
                    + event.run_queue_inside_ns
                    + event.blocked_inside_ns
                    + event.state_unknown_inside_ns
            );
        }
    }

    #[test]
    fn sessions_and_stacks_account_for_all_time(activity in any_activity()) {
        let report = answer(&activity, &[], Filter::default());
        let accounted: u128 = report.sessions.0.iter().map(|session| session.totals.accounted_ns).sum();
        prop_assert_eq!(accounted, sum(&activity, |_| true));
        let shown: u128 = report.stacks.top.iter().map(|stack| stack.ns).sum();
        prop_assert_eq!(shown + report.stacks.others_ns, report.db_time_ns());
        prop_assert_eq!(report.quality.unsampled_ns, sum(&activity, |row| row.wait_event == "not sampled"));
        prop_assert_eq!(
            report.quality.missing_stacks_ns,
            sum(&activity, |row| is_db_time(row)
                && (row.user_stack == StackId(99) || row.kernel_stack == StackId(99)))
        );
    }

    #[test]
    fn folded_stacks_are_db_time_to_the_nanosecond(activity in any_activity(), by in any_grouping()) {
        let source = Source::memory(meta(), all_rows(activity.clone()));
        let folded = flame(&source, &FlameOptions { by, ..FlameOptions::default() }).expect("stacks");
        let db_time = sum(&activity, is_db_time);
        prop_assert_eq!(folded.total_ns, db_time);
        if folded.stacks.is_empty() {
            prop_assert_eq!(db_time, 0);
            return Ok(());
        }
        let mut text = Vec::new();
        export::write(&folded, Path::new("x.folded"), &mut text).expect("text");
        let text = String::from_utf8(text).expect("UTF-8");
        let written: u128 = text
            .lines()
            .map(|line| line.rsplit(' ').next().expect("a value").parse::<u128>().expect("a number"))
            .sum();
        prop_assert_eq!(written, db_time);
        export::write(&folded, Path::new("x.svg"), &mut Vec::new()).expect("a picture");
    }

    #[test]
    fn nothing_that_a_row_can_hold_makes_a_report_fail(
        mut activity in any_activity(),
        times in prop::collection::vec(any::<i64>(), 60),
        counters in prop::collection::vec((any::<i64>(), 0u64..6, any::<i64>(), 0usize..7), 0..30),
        width in 0usize..300,
    ) {
        use dbtime_model::{CounterRow, counter};
        for (row, time) in activity.iter_mut().zip(times) {
            row.time = time;
        }
        let names = [
            (counter::KERNEL, counter::ELAPSED_NS), (counter::KERNEL, counter::ON_CPU_NS),
            (counter::KERNEL, counter::RUN_QUEUE_NS), (counter::DBTIME, counter::TORN),
            (counter::DBTIME, counter::DISPLACED), (counter::DBTIME, counter::WAIT_NOT_READ), ("x", "y"),
        ];
        let mut rows = all_rows(activity);
        rows.counters = counters.into_iter().map(|(time, session, value, name)| CounterRow {
            time, session: SessionId(session), source: names[name].0.into(), name: names[name].1.into(), value,
            ..CounterRow::default()
        }).collect();
        let mut meta = meta();
        (meta.start_us, meta.end_us) = (i64::MAX, i64::MIN);
        let options = Options { by: Dimension::OF_TIME.to_vec(), ..Options::default() };
        let report = report(&Source::memory(meta, rows), &options).expect("a report");
        prop_assert!(!text::render(&report, width).is_empty());
        let json: serde_json::Value = serde_json::from_str(&json::render(&report)).expect("JSON");
        prop_assert!(json["ledger"].is_array());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_recording_on_disk_gives_the_answers_of_its_rows_in_memory(
        segments in prop::collection::vec(any_activity(), 1..4),
    ) {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("r.dbt");
        let mut writer = RecordingWriter::create(&path, meta()).expect("a recording");
        for (n, activity) in segments.iter().enumerate() {
            let rows = match n {
                0 => all_rows(activity.clone()),
                _ => Rows { activity: activity.clone(), ..Rows::default() },
            };
            writer.write(&rows).expect("a segment");
        }
        writer.finish().expect("the end");
        let on_disk = Source::from(Recording::open(&path).expect("a recording"));
        let options = Options::default();
        let on_disk = report(&on_disk, &options).expect("a report");
        let in_memory = answer(&segments.concat(), &options.by, Filter::default());
        prop_assert_eq!(on_disk.ledger, in_memory.ledger);
        prop_assert_eq!(on_disk.database_view, in_memory.database_view);
        prop_assert_eq!(on_disk.sessions, in_memory.sessions);
        prop_assert_eq!(on_disk.stacks, in_memory.stacks);
        prop_assert_eq!(on_disk.quality, in_memory.quality);
    }
}
