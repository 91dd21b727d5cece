//! Answers about the hand-made recording: every expected number was worked out on paper from its table.

use std::collections::BTreeSet;

use crate::hand_made::{FIRST_SECOND, MS, START_US, busy_meta, busy_rows, kernel_counter, meta, rows};
use dbtime_model::{CounterRow, State, counter};
use dbtime_report::{
    Dimension, FidelityMix, Filter, FlameOptions, Options, Report, ReportError, Section, Source, Step, flame,
    json, report,
};

const SECOND: i64 = 1_000_000;

fn hand_made() -> Source {
    Source::memory(meta(), rows())
}

fn answer(options: &Options) -> Report {
    report(&hand_made(), options).expect("a report")
}

fn ms(ms: u64) -> u128 {
    u128::from(ms * MS)
}

#[test]
fn db_time_is_what_clients_spend_outside_of_idle_waits() {
    let report = answer(&Options::default());
    assert_eq!(report.db_time_ns(), ms(4_600));
    assert_eq!(report.ledger.sum(Section::Idle).total_ns(), ms(3_400));
    assert_eq!(report.ledger.sum(Section::Background).total_ns(), ms(4_000));
    assert_eq!(report.elapsed_ns(), ms(4_000));
    assert_eq!(report.average_active_sessions(), Some(1.15));
}

#[test]
fn transactions_are_told_if_nearly_all_db_time_is_of_sessions_that_count_them() {
    let ended = |sessions: &[u64], filter: Filter| {
        let mut rows = rows();
        rows.counters.extend(sessions.iter().map(|session| CounterRow {
            source: counter::SESSION_MEMORY.into(),
            value: 230,
            ..kernel_counter(*session, counter::TRANSACTIONS, 0)
        }));
        let options = Options {
            filter,
            ..Options::default()
        };
        let report = report(&Source::memory(meta(), rows), &options).expect("a report");
        report.transactions
    };
    let all = ended(&[1, 2], Filter::default()).expect("they are counted");
    assert_eq!(
        (all.count, all.per_second, all.mean_db_time_ns),
        (460, 115.0, 10.0 * MS as f64)
    );
    // The other session has a third of DB time.
    assert_eq!(ended(&[1], Filter::default()), None);
    assert_eq!(ended(&[], Filter::default()), None);
    let of_session = Filter {
        sessions: vec![4711],
        ..Filter::default()
    };
    assert_eq!(ended(&[1], of_session).map(|of| of.count), Some(230));
    // A wait is a part of what they did.
    let of_wait = Filter {
        waits: vec!["IO".into()],
        ..Filter::default()
    };
    assert_eq!(ended(&[1, 2], of_wait), None);
}

#[test]
fn the_ledger_has_a_row_per_wait_event_the_largest_first() {
    let report = answer(&Options::default());
    let db_time: Vec<(&str, u128)> = report
        .ledger
        .section(Section::DbTime)
        .map(|row| (row.labels[0].as_str(), row.sums.total_ns()))
        .collect();
    assert_eq!(
        db_time,
        [
            ("IO:DataFileRead", ms(1_900)),
            ("Lock:transactionid", ms(1_500)),
            ("CPU", ms(1_100)),
            ("[not sampled]", ms(100)),
        ]
    );
    let read = report.ledger.section(Section::DbTime).next().expect("a row");
    assert_eq!(read.sums.state_ns(State::Kernel), ms(1_200));
    assert_eq!(read.sums.state_ns(State::Disk), ms(700));
    assert_eq!(read.sums.samples, 190);
    assert_eq!(read.sums.fidelity(), Some(FidelityMix::Sampled));
    // A total without a sample is exact, and does not make the sum mixed.
    let not_sampled = report.ledger.section(Section::DbTime).nth(3).expect("a row");
    assert_eq!(not_sampled.sums.fidelity(), Some(FidelityMix::Exact));
    let db_time = report.ledger.sum(Section::DbTime);
    assert_eq!(db_time.fidelity(), Some(FidelityMix::Sampled));
    assert_eq!(db_time.state_fidelity(State::Sleep), Some(FidelityMix::Sampled));
}

#[test]
fn time_can_be_grouped_by_several_dimensions() {
    let report = answer(&Options {
        by: vec![Dimension::Database, Dimension::Session, Dimension::WaitClass],
        ..Options::default()
    });
    let rows: Vec<(String, u128)> = report
        .ledger
        .rows
        .iter()
        .map(|row| (row.labels.join(" "), row.sums.total_ns()))
        .collect();
    let expected = [
        ("shop 4711 IO", 1_900),
        ("shop 4712 Lock", 1_500),
        ("shop 4711 CPU", 1_100),
        ("shop 4711 unknown", 100),
        ("shop 4712 Client", 2_500),
        ("shop 4711 Client", 900),
        ("[none] 99 Activity", 3_500),
        ("[none] 99 IO", 500),
    ];
    assert_eq!(rows, expected.map(|(name, time)| (name.to_string(), ms(time))));
}

#[test]
fn seconds_stand_in_the_order_of_time() {
    use crate::hand_made::{CPU, LOCK, row};
    let in_second = |n: i64, wait, ms| {
        let mut row = row(1, wait, State::User, ms);
        row.time += n * SECOND;
        row
    };
    let activity = vec![
        in_second(1, CPU, 900),
        in_second(0, CPU, 100),
        in_second(0, LOCK, 200),
        in_second(2, CPU, 50),
    ];
    let source = Source::memory(meta(), dbtime_model::Rows { activity, ..rows() });
    let report = report(
        &source,
        &Options {
            by: vec![Dimension::Wait, Dimension::Second],
            ..Options::default()
        },
    )
    .expect("a report");
    let rows: Vec<String> = report
        .ledger
        .rows
        .iter()
        .map(|row| row.labels.join(" at "))
        .collect();
    let expected = [
        "Lock:transactionid at 2026-10-10 12:00:00",
        "CPU at 2026-10-10 12:00:00",
        "CPU at 2026-10-10 12:00:01",
        "CPU at 2026-10-10 12:00:02",
    ];
    assert_eq!(rows, expected);
}

#[test]
fn the_database_view_is_reconciled_step_by_step() {
    let view = answer(&Options::default()).database_view;
    // CPU: 900 + 100 (no wait), 1200 (read), 10 + 20 (idle), 30 (not sampled).
    assert_eq!(view.cpu_ns, ms(2_260));
    assert_eq!(view.wait_ns, ms(1_900 + 1_500));
    assert_eq!(view.db_time_ns, ms(4_600));
    let percent = view.percent_of_db_time.expect("there is DB time");
    assert!((percent - 5_660.0 / 46.0).abs() < 1e-9, "{percent}");
    assert_eq!(
        view.steps(),
        [
            (Step::CpuAndWaits, ms(5_660)),
            (Step::DoubleCounted, ms(1_200)),
            (Step::CpuInsideIdleWaits, ms(30)),
            (Step::RunQueueInsideIdleWaits, 0),
            (Step::RunQueueOutsideWaits, ms(60)),
            (Step::BlockedOutsideWaits, ms(40)),
            (Step::StateUnknownOutsideWaits, 0),
            (Step::WaitUnknownOffCpu, ms(70)),
        ]
    );
    let events: Vec<_> = view
        .by_event
        .iter()
        .map(|e| {
            (
                e.wait.to_string(),
                e.wait_ns,
                e.cpu_inside_ns,
                e.run_queue_inside_ns,
                e.blocked_inside_ns,
            )
        })
        .collect();
    assert_eq!(
        events,
        [
            ("IO:DataFileRead".to_string(), ms(1_900), ms(1_200), 0, ms(700)),
            ("Lock:transactionid".to_string(), ms(1_500), 0, 0, ms(1_500)),
        ]
    );
    assert!(
        view.explanation.contains("123 % of DB time"),
        "{}",
        view.explanation
    );
    assert!(
        view.explanation
            .contains("63 % of the time inside IO:DataFileRead was CPU, most of it in the kernel"),
        "{}",
        view.explanation
    );
}

/// The explanation of a recording with just these rows.
fn explanation(activity: Vec<dbtime_model::ActivityRow>) -> String {
    let all = dbtime_model::Rows { activity, ..rows() };
    report(&Source::memory(meta(), all), &Options::default())
        .expect("a report")
        .database_view
        .explanation
}

#[test]
fn the_explanation_says_what_the_numbers_say() {
    use crate::hand_made::{CLIENT_READ, CPU, LOCK, NOT_SAMPLED, READ, row};
    let close = explanation(vec![
        row(1, CPU, State::User, 700),
        row(1, LOCK, State::Sleep, 300),
    ]);
    assert!(
        close.contains("100 % of DB time") && close.contains("close to"),
        "{close}"
    );

    let queue = explanation(vec![
        row(1, CPU, State::User, 600),
        row(1, CPU, State::Runnable, 400),
    ]);
    assert!(
        queue.contains("60 % of DB time: 40 % of DB time is counted neither"),
        "{queue}"
    );
    assert!(queue.contains("run queue"), "{queue}");

    let blocked = explanation(vec![row(1, CPU, State::User, 600), row(1, CPU, State::Disk, 400)]);
    assert!(blocked.contains("blocked outside of any wait event"), "{blocked}");

    let unknown = explanation(vec![
        row(1, CPU, State::User, 600),
        row(1, NOT_SAMPLED, State::Sleep, 400),
    ]);
    assert!(unknown.contains("wait event is not known"), "{unknown}");

    // 500 too much and 500 too little: the sum looks right, but the text says that it is not.
    let luck = explanation(vec![
        row(1, READ, State::User, 500),
        row(1, CPU, State::Runnable, 500),
    ]);
    assert!(
        luck.contains("100 % of DB time: 100 % of the time inside IO:DataFileRead was CPU,"),
        "{luck}"
    );
    assert!(
        !luck.contains("kernel") && luck.contains("50 % of DB time is counted neither"),
        "{luck}"
    );

    let idle = explanation(vec![
        row(1, CPU, State::User, 500),
        row(1, CLIENT_READ, State::Kernel, 100),
    ]);
    assert!(
        idle.contains("120 % of DB time: 20 % of it is CPU that sessions used inside idle waits"),
        "{idle}"
    );

    // Neither alone is much, together they are: both are named, and account for the sum.
    let both = explanation(vec![
        row(1, READ, State::Kernel, 40),
        row(1, READ, State::Disk, 160),
        row(1, CPU, State::User, 800),
        row(1, CLIENT_READ, State::Kernel, 20),
    ]);
    assert!(
        both.contains(
            "106 % of DB time: 20 % of the time inside IO:DataFileRead was CPU, most of it in the kernel, which the database \
             counts both as CPU and as wait (in all waits 4 % of DB time); another 2 % is CPU inside idle waits"
        ),
        "{both}"
    );

    let late = explanation(vec![
        row(1, CPU, State::User, 500),
        row(1, CLIENT_READ, State::Runnable, 1_000),
        row(3, CLIENT_READ, State::Runnable, 9_000),
    ]);
    assert!(
        late.contains("33 % of DB time: 67 % of DB time is counted neither as CPU nor as wait")
            && late.contains("a command had arrived but no CPU was free"),
        "{late}"
    );
    assert!(!idle.contains("a command had arrived"), "{idle}");

    let states_unknown = explanation(vec![
        row(1, CPU, State::Unknown, 900),
        row(1, READ, State::Unknown, 100),
    ]);
    assert!(
        states_unknown.starts_with("For 100 % of DB time"),
        "{states_unknown}"
    );

    assert!(explanation(vec![]).contains("no DB time"));
}

/// Two clients of 4 s each: on a CPU for 1 s, ready to run inside the idle wait for 3 and 2 s.
fn saturated(background_ms: u64) -> Report {
    use crate::hand_made::{CLIENT_READ, CPU, row};
    let activity = vec![
        row(1, CPU, State::User, 1_000),
        row(1, CLIENT_READ, State::Runnable, 3_000),
        row(2, CPU, State::User, 1_000),
        row(2, CLIENT_READ, State::Runnable, 2_000),
        row(2, CLIENT_READ, State::Sleep, 1_000),
        row(3, CLIENT_READ, State::Runnable, background_ms),
    ];
    let all = dbtime_model::Rows { activity, ..rows() };
    let mut meta = meta();
    meta.host.cpus = 1;
    report(&Source::memory(meta, all), &Options::default()).expect("a report")
}

#[test]
fn cpus_are_saturated_wherever_sessions_wait_for_them() {
    use crate::hand_made::{CPU, row};
    let of = |runnable_ms: u64, sleep_ms: u64| {
        let activity = vec![
            row(1, CPU, State::User, 1_000),
            row(1, CPU, State::Runnable, runnable_ms),
            row(1, CPU, State::Sleep, sleep_ms),
        ];
        let all = dbtime_model::Rows { activity, ..rows() };
        let mut meta = meta();
        meta.host.cpus = 2;
        let report = report(&Source::memory(meta, all), &Options::default()).expect("a report");
        report.saturation.expect("times").sentence
    };
    // In the middle of their statements: the database sees nothing but CPU.
    assert_eq!(
        of(10_000, 0).as_deref(),
        Some("2 CPUs saturated: sessions waited 10.000 s for a CPU; 2.5 were in the run queue on average.")
    );
    assert_eq!(
        of(1_000, 1_000).as_deref(),
        Some("Short of CPU: sessions waited 1.000 s for a CPU; 0.2 were in the run queue on average.")
    );
    assert_eq!(of(1_000, 3_000), None);
}

#[test]
fn a_command_that_no_cpu_takes_up_is_db_time() {
    let report = saturated(9_000);
    assert_eq!(report.db_time_ns(), ms(7_000));
    assert_eq!(report.average_active_sessions(), Some(1.75));
    assert_eq!(report.ledger.sum(Section::Idle).total_ns(), ms(1_000));
    assert_eq!(report.ledger.sum(Section::Background).total_ns(), ms(9_000));
    let rows: Vec<(&str, u128)> = report
        .ledger
        .section(Section::DbTime)
        .map(|row| (row.labels[0].as_str(), row.sums.total_ns()))
        .collect();
    assert_eq!(
        rows,
        [("Client:ClientRead (no CPU)", ms(5_000)), ("CPU", ms(2_000))]
    );
    let view = &report.database_view;
    // The database shows 2 s of CPU and no wait; the difference to DB time is the run queue.
    assert_eq!(view.cpu_and_waits_ns(), ms(2_000));
    assert_eq!(view.run_queue_inside_idle_waits_ns, ms(5_000));
    let saturation = report.saturation.expect("times");
    assert_eq!(saturation.run_queue_ns, ms(5_000));
    assert_eq!(
        saturation.sentence.as_deref(),
        Some(
            "1 CPU saturated: sessions waited 5.000 s for a CPU, 5.000 s of that after a command came; 1.2 were in the \
             run queue on average."
        )
    );
    let active: Vec<u128> = report
        .sessions
        .0
        .iter()
        .map(|session| session.totals.active_ns)
        .collect();
    assert_eq!(active, [ms(4_000), ms(3_000), 0]);
}

#[test]
fn the_row_of_commands_without_a_cpu_is_found_by_the_wait_and_by_its_own_name() {
    let source = || {
        let activity = vec![
            crate::hand_made::row(1, crate::hand_made::CLIENT_READ, State::Runnable, 300),
            crate::hand_made::row(1, crate::hand_made::CLIENT_READ, State::Sleep, 500),
            crate::hand_made::row(1, crate::hand_made::CPU, State::User, 100),
        ];
        Source::memory(meta(), dbtime_model::Rows { activity, ..rows() })
    };
    for (name, total, db_time) in [
        ("Client:ClientRead", 800, 300),
        ("ClientRead (no CPU)", 300, 300),
        ("Client", 800, 300),
    ] {
        let filter = Filter {
            waits: vec![name.to_string()],
            ..Filter::default()
        };
        let options = Options {
            filter,
            ..Options::default()
        };
        let report = report(&source(), &options).expect("a report");
        assert_eq!(report.ledger.total().total_ns(), ms(total), "{name}");
        assert_eq!(report.db_time_ns(), ms(db_time), "{name}");
    }
    let folded = flame(&source(), &FlameOptions::default()).expect("stacks");
    assert_eq!(folded.total_ns, ms(400));
    assert!(
        folded
            .stacks
            .iter()
            .any(|stack| *stack.levels == ["Client:ClientRead (no CPU)", "runnable"] && stack.ns == ms(300))
    );
}

#[test]
fn names_of_which_there_is_nothing_are_answered_with_those_there_are() {
    let with = |waits: &[&str], states: &[State]| {
        let options = Options {
            filter: Filter {
                waits: waits.iter().map(ToString::to_string).collect(),
                states: states.to_vec(),
                ..Filter::default()
            },
            ..Options::default()
        };
        report(&hand_made(), &options).map(|report| report.db_time_ns())
    };
    assert_eq!(with(&["lock"], &[]), Ok(ms(1_500)));
    assert_eq!(with(&["LOCK:TransactionId", "io"], &[]), Ok(ms(3_400)));
    let error = with(&["io", "Lok"], &[]).expect_err("a typing error").to_string();
    assert!(
        error.starts_with("no time in wait 'Lok' in the selected part of this recording; it has ")
            && error.contains("Lock:transactionid")
            && error.contains("CPU"),
        "{error}"
    );
    let error = with(&[], &[State::Stopped]).expect_err("nothing").to_string();
    assert!(
        error.contains("no time in state 'stopped'") && error.contains("runnable"),
        "{error}"
    );
    let error = "foo".parse::<State>().expect_err("no state");
    assert!(
        error.contains("'foo'") && error.contains("user, kernel"),
        "{error}"
    );
    assert_eq!("Runnable".parse(), Ok(State::Runnable));
}

#[test]
fn what_the_recording_does_not_say_is_named() {
    let report = answer(&Options {
        by: vec![Dimension::Statement, Dimension::User, Dimension::Module],
        ..Options::default()
    });
    assert_eq!(
        report.ledger.not_recorded(),
        [Dimension::Statement, Dimension::Module]
    );
    let text = dbtime_report::text::render(&report, 120);
    assert!(text.contains("'statement' was not recorded."), "{text}");
    let folded = flame(
        &hand_made(),
        &FlameOptions {
            by: vec![Dimension::Wait, Dimension::SqlId],
            ..FlameOptions::default()
        },
    )
    .expect("stacks");
    assert_eq!(folded.not_recorded(), [Dimension::SqlId]);
}

#[test]
fn a_session_shows_the_kernels_totals_beside_what_was_accounted() {
    let sessions = answer(&Options::default()).sessions;
    let pids: Vec<_> = sessions.0.iter().map(|session| session.pid).collect();
    assert_eq!(pids, [Some(4711), Some(4712), Some(99)]);
    let first = &sessions.0[0].totals;
    assert_eq!(first.elapsed_ns, Some(ms(4_000)));
    assert_eq!(first.accounted_ns, ms(4_000));
    assert_eq!(first.on_cpu_ns, Some(ms(2_260)));
    assert_eq!(first.run_queue_ns, Some(ms(60)));
    assert_eq!(first.blocked_ns, Some(ms(1_680)));
    assert_eq!(first.active_ns, ms(3_100));
    assert_eq!(first.unsampled_ns, ms(100));
    assert_eq!(first.torn, 9);
    assert_eq!(sessions.0[0].first_us, Some(FIRST_SECOND));
    // A counter that did not grow has no row: the kernel was asked, so it is zero.
    let second = &sessions.0[1].totals;
    assert_eq!((second.on_cpu_ns, second.run_queue_ns), (Some(0), Some(0)));
    assert_eq!(second.blocked_ns, Some(ms(4_000)));
    // The checkpointer has no counters: unknown is not zero.
    assert_eq!(sessions.0[2].totals.elapsed_ns, None);
    assert_eq!(sessions.0[2].totals.blocked_ns, None);
}

#[test]
fn foreground_sessions_come_before_busier_background_processes() {
    let mut rows = rows();
    let checkpointer = crate::hand_made::row(3, crate::hand_made::FILE_FLUSH, State::Disk, 3_000);
    rows.activity.push(checkpointer);
    let sessions = report(&Source::memory(meta(), rows), &Options::default())
        .expect("a report")
        .sessions;
    assert_eq!(sessions.0[2].pid, Some(99));
    assert!(sessions.0[2].totals.active_ns > sessions.0[1].totals.active_ns);
}

#[test]
fn sessions_that_are_not_shown_are_summed() {
    let report = report(&Source::memory(busy_meta(), busy_rows()), &Options::default()).expect("a report");
    let (top, others, rest) = report.sessions.top(10);
    assert_eq!((top.len(), others), (10, 6));
    let shown: u128 = top.iter().map(|session| session.totals.accounted_ns).sum();
    assert_eq!(shown + rest.accounted_ns, report.ledger.total().total_ns());
    assert_eq!(report.sessions.top(100).1, 0);
}

#[test]
fn a_counter_that_runs_backwards_is_no_time() {
    let mut rows = rows();
    rows.counters = vec![
        kernel_counter(1, "elapsed_ns", -5),
        kernel_counter(2, "elapsed_ns", 9),
        kernel_counter(2, "elapsed_ns", -2),
    ];
    let sessions = report(&Source::memory(meta(), rows), &Options::default())
        .expect("a report")
        .sessions;
    assert_eq!(sessions.0[0].totals.elapsed_ns, Some(0));
    assert_eq!(sessions.0[1].totals.elapsed_ns, Some(ms(7)));
}

#[test]
fn a_session_that_was_never_described_still_counts() {
    let report = report(&Source::memory(busy_meta(), busy_rows()), &Options::default()).expect("a report");
    let unknown: Vec<_> = report.sessions.0.iter().filter(|s| s.pid.is_none()).collect();
    assert_eq!(unknown.len(), 1);
    assert_eq!(unknown[0].id.0, 77);
    assert_eq!(unknown[0].backend_type.0, "unknown");
    assert_eq!(unknown[0].totals.active_ns, ms(11));
    assert_eq!(report.quality.sessions_not_described, 1);
}

#[test]
fn quality_takes_the_larger_of_two_accounts_of_a_loss() {
    let quality = answer(&Options::default()).quality;
    assert_eq!(quality.torn, 9, "7 in meta.json, 9 in the counters");
    assert_eq!(quality.samples, 1_234);
    assert_eq!(quality.unsampled_ns, ms(100));
    assert_eq!(quality.accounted_ns, ms(12_000));
    assert_eq!((quality.unresolved_frames, quality.frames), (3, 120));
    assert_eq!(quality.recorder_percent_of_one_cpu, Some(1.5));
    assert_eq!(quality.stacks.percent(quality.stacks.broken), Some(0.2));
    assert!(quality.problems.is_empty(), "{:?}", quality.problems);
}

#[test]
fn the_stack_with_the_most_db_time_comes_first_and_the_rest_is_summed() {
    let stacks = answer(&Options {
        stacks: 2,
        ..Options::default()
    })
    .stacks;
    assert_eq!(stacks.top[0].wait.to_string(), "Lock:transactionid");
    assert!(stacks.top[0].user.is_empty() && stacks.top[0].kernel.is_empty());
    let read = &stacks.top[1];
    assert_eq!(
        (read.wait.to_string().as_str(), read.state),
        ("IO:DataFileRead", State::Kernel)
    );
    assert_eq!((read.ns, read.samples), (ms(1_200), 120));
    assert!((read.percent - 1_200.0 / 46.0).abs() < 1e-9);
    assert_eq!(
        (read.user[0].as_str(), read.user[10].as_str()),
        ("main", "ReadBuffer")
    );
    assert_eq!(
        (read.kernel[0].as_str(), read.kernel[4].as_str()),
        ("entry_SYSCALL_64", "copy_page_to_iter")
    );
    assert_eq!((stacks.others, stacks.others_ns), (7, ms(4_600 - 1_500 - 1_200)));
}

#[test]
fn folded_stacks_add_up_to_db_time() {
    let folded = flame(&hand_made(), &FlameOptions::default()).expect("stacks");
    assert_eq!(folded.total_ns, ms(4_600));
    assert_eq!(
        folded.stacks.iter().map(|stack| stack.ns).sum::<u128>(),
        ms(4_600)
    );
    let mut without_time = rows();
    without_time.activity.iter_mut().for_each(|row| row.ns = 0);
    let without_time =
        flame(&Source::memory(meta(), without_time), &FlameOptions::default()).expect("no stacks");
    assert!(without_time.stacks.is_empty());

    let all = flame(
        &hand_made(),
        &FlameOptions {
            include_idle: true,
            include_background: true,
            by: vec![Dimension::BackendType],
            ..FlameOptions::default()
        },
    )
    .expect("stacks");
    assert_eq!(all.total_ns, ms(12_000));
    let checkpointer: u128 = all
        .stacks
        .iter()
        .filter(|stack| *stack.levels == ["checkpointer"])
        .map(|stack| stack.ns)
        .sum();
    assert_eq!(checkpointer, ms(4_000));
}

#[test]
fn a_filter_narrows_every_answer() {
    let only = |filter: Filter| {
        answer(&Options {
            filter,
            ..Options::default()
        })
    };
    let session = only(Filter {
        sessions: vec![4712],
        ..Filter::default()
    });
    assert_eq!(session.db_time_ns(), ms(1_500));
    assert_eq!(session.sessions.0.len(), 1);
    assert_eq!(session.sessions.0[0].totals.elapsed_ns, Some(ms(4_000)));

    let io = only(Filter {
        waits: vec!["IO".into()],
        ..Filter::default()
    });
    assert_eq!(io.db_time_ns(), ms(1_900));
    assert_eq!(io.ledger.sum(Section::Background).total_ns(), ms(500));

    let disk = only(Filter {
        states: vec![State::Disk],
        ..Filter::default()
    });
    assert_eq!(disk.db_time_ns(), ms(700));

    // All rows are in the first second, of which the recording has 700 ms.
    let first = only(Filter {
        to_us: Some(START_US + SECOND),
        ..Filter::default()
    });
    assert_eq!((first.db_time_ns(), first.elapsed_ns()), (ms(4_600), ms(700)));
    let rest = only(Filter {
        from_us: Some(START_US + SECOND),
        ..Filter::default()
    });
    assert_eq!((rest.db_time_ns(), rest.elapsed_ns()), (0, ms(3_300)));
    assert!(rest.is_empty() && !first.is_empty());
    let after_the_end = only(Filter {
        from_us: Some(START_US + 60 * SECOND),
        ..Filter::default()
    });
    assert_eq!((after_the_end.db_time_ns(), after_the_end.elapsed_ns()), (0, 0));
    assert_eq!(after_the_end.period.from_us, after_the_end.period.to_us);
    assert_eq!(after_the_end.average_active_sessions(), None);
}

#[test]
fn sessions_are_chosen_by_what_is_known_of_them() {
    let ask = |facts: &[(Dimension, &str)]| {
        let facts = facts
            .iter()
            .map(|(dimension, value)| (*dimension, value.to_string()));
        let filter = Filter {
            facts: facts.collect(),
            ..Filter::default()
        };
        report(
            &hand_made(),
            &Options {
                filter,
                by: vec![Dimension::User],
                ..Options::default()
            },
        )
    };
    let all = ask(&[]).expect("a report");
    let users: BTreeSet<&str> = all
        .ledger
        .rows
        .iter()
        .map(|row| match row.labels[0].as_str() {
            "[none]" => "",
            user => user,
        })
        .collect();
    assert!(users.len() > 1, "{users:?}");
    // The parts add up to the whole, and two of them chosen together are both.
    let of = |users: &[&str]| {
        let facts: Vec<_> = users.iter().map(|user| (Dimension::User, *user)).collect();
        ask(&facts).expect("a report").ledger.total().total_ns()
    };
    let parts: u128 = users.iter().map(|user| of(&[user])).sum();
    assert_eq!(parts, all.ledger.total().total_ns());
    let users: Vec<&str> = users.into_iter().collect();
    assert_eq!(of(&users[..2]), of(&users[..1]) + of(&users[1..2]));
    // Of two dimensions, both must match.
    let nobody = ask(&[
        (Dimension::User, users[1]),
        (Dimension::BackendType, "checkpointer"),
    ]);
    assert!(nobody.is_err() || nobody.expect("a report").ledger.total().total_ns() == 0);
    let error = ask(&[(Dimension::User, "nobody")]).expect_err("there is none");
    let text = error.to_string();
    assert!(
        text.starts_with("no session with user 'nobody' in this recording; it has '"),
        "{text}"
    );
    assert!(text.contains(&format!("'{}'", users[1])), "{text}");
}

#[test]
fn a_filter_for_what_is_not_there_says_so() {
    let ask = |filter: Filter| {
        report(
            &hand_made(),
            &Options {
                filter,
                ..Options::default()
            },
        )
    };
    let nobody = ask(Filter {
        sessions: vec![4711, 1, 2],
        ..Filter::default()
    });
    let error = nobody.expect_err("no such session");
    assert!(
        matches!(&error, ReportError::NoSuchSession { pids, .. } if *pids == [1, 2]),
        "{error:?}"
    );
    let text = error.to_string();
    assert!(
        text.starts_with("no session with pid 1, 2 in this recording; it has 4711"),
        "{text}"
    );
    let never = ask(Filter {
        from_us: Some(START_US),
        to_us: Some(START_US + 100),
        ..Filter::default()
    });
    assert_eq!(never.expect_err("no period"), ReportError::EmptyPeriod);
}

#[test]
fn json_has_the_fields_that_others_rely_on() {
    let text = json::render(&answer(&Options::default()));
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(json["elapsed_ns"], 4_000 * MS);
    assert_eq!(json["db_time_ns"], 4_600 * MS);
    assert_eq!(json["aas"], 1.15);
    assert_eq!(json["meta"]["host"]["name"], "db1.example");
    assert_eq!(json["meta"]["database"]["product"], "PostgreSQL");
    assert_eq!(json["meta"]["tier"], "sampled");
    assert_eq!(json["meta"]["rate_hz"], 99);
    assert_eq!(json["meta"]["start"], "2026-10-10T12:00:00.3Z");
    assert_eq!(json["meta"]["complete"], true);
    let ledger = json["ledger"].as_array().expect("rows");
    let cpu = ledger
        .iter()
        .find(|row| row["wait_class"] == "CPU")
        .expect("time without a wait");
    for (field, expected) in [
        ("user_ns", 900),
        ("kernel_ns", 100),
        ("runnable_ns", 60),
        ("disk_ns", 0),
        ("sleep_ns", 40),
        ("other_ns", 0),
        ("total_ns", 1_100),
    ] {
        assert_eq!(cpu[field], expected * MS, "{field}");
    }
    assert_eq!(
        (&cpu["wait_event"], &cpu["samples"]),
        (&"CPU".into(), &110.into())
    );
    assert_eq!(
        (&cpu["fidelity"], &cpu["section"]),
        (&"sampled".into(), &"db_time".into())
    );
    let sections: Vec<_> = ledger.iter().filter_map(|row| row["section"].as_str()).collect();
    assert_eq!(sections.len(), 7);
    assert!(sections.contains(&"idle") && sections.contains(&"background"));
    let view = &json["database_view"];
    assert_eq!(view["cpu_ns"], 2_260 * MS);
    assert_eq!(view["wait_ns"], 3_400 * MS);
    assert_eq!(view["double_counted_ns"], 1_200 * MS);
    assert_eq!(view["by_event"][0]["wait_event"], "DataFileRead");
    assert_eq!(view["by_event"][0]["cpu_inside_ns"], 1_200 * MS);
    assert_eq!(json["sessions"][0]["pid"], 4711);
    assert_eq!(json["sessions"][0]["accounted_ns"], 4_000 * MS);
    assert_eq!(json["sessions"][2]["elapsed_ns"], serde_json::Value::Null);
    assert_eq!(json["quality"]["torn"], 9);
    assert_eq!(json["quality"]["unsampled_ns"], 100 * MS);
    assert_eq!(json["quality"]["unresolved_frames"], 3);
    assert_eq!(json["quality"]["lost"], 0);
    assert_eq!(json["quality"]["stacks_complete"], 997);
    assert_eq!(json["quality"]["stacks_truncated"], 1);
    assert_eq!(json["quality"]["stacks_broken"], 2);
    assert_eq!(json["quality"]["stacks_complete_percent"], 99.7);
    assert_eq!(json["stacks"][1]["kernel"][4], "copy_page_to_iter");
}

#[test]
fn json_rows_carry_the_dimensions_they_were_grouped_by() {
    let text = json::render(&answer(&Options {
        by: vec![Dimension::Session, Dimension::WaitClass],
        ..Options::default()
    }));
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let first = &json["ledger"][0];
    assert_eq!(first["group"]["session"], "4711");
    assert_eq!(first["group"]["wait_class"], "IO");
    assert_eq!(first["wait_class"], "IO");
    assert!(first.get("wait_event").is_none());
}
