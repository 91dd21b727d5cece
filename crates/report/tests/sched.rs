//! Context switches: a few hand-made turns, in which every number can be checked with pencil and paper; and any turns at all.

use dbtime_model::recording::{Clock, Meta, SCHEMA_VERSION, Scheduling};
use dbtime_model::{BackendType, Rows, SessionId, SessionRow, SessionState, State, Turn, Turns, Wait};
use dbtime_report::{
    Filter, LatencyOptions, Options, Report, SchedSums, Source, json, latency, report, switches, text,
};
use proptest::prelude::*;
use serde_json::Value;

const MS: u64 = 1_000_000;
/// A second of the clock of the recording.
const SECOND: i64 = 1_000_000_000;

fn turn(session: u64, at_ms: i64, wait_ms: u64, delay_ms: u64, run_ms: u64) -> Turn {
    Turn {
        session: SessionId(session),
        time_ns: 100 * SECOND + at_ms * MS as i64,
        cpu: 1,
        wait_ns: Some(wait_ms * MS),
        delay_ns: Some(delay_ms * MS),
        run_ns: Some(run_ms * MS),
        wait_state: if wait_ms > 0 {
            State::Sleep
        } else {
            State::Runnable
        },
        wait: Wait::event("IO", "DataFileRead", false),
        state: State::Sleep,
        waker: if wait_ms > 0 {
            "client 9".into()
        } else {
            Default::default()
        },
        migrations: 0,
        migrated: false,
        priority: Some(120),
        instead: Vec::new(),
        statement: 0,
        wait_statement: 0,
        wait_session_state: SessionState::None,
    }
}

fn session(id: u64, pid: u32, kind: &str, title: &str, process: u32) -> SessionRow {
    SessionRow {
        id: SessionId(id),
        pid,
        backend_type: kind.into(),
        title: title.into(),
        leader_pid: process,
        ..SessionRow::default()
    }
}

fn source(turns: Vec<Turn>, sessions: Vec<SessionRow>) -> Source {
    let mut sums = Turns::default();
    for turn in turns {
        sums.add(turn, true);
    }
    let mut meta = Meta {
        schema: SCHEMA_VERSION.into(),
        start_us: 100_000_000,
        end_us: 103_000_000,
        complete: true,
        scheduling: Some(Scheduling {
            switches: sums.switches_seen,
            kept: sums.switches_kept,
            without_begin: sums.without_begin,
            cpus: 2,
            has_wakers: true,
            has_occupants: true,
            has_migrations: true,
            has_states: true,
            ..Scheduling::default()
        }),
        ..Meta::default()
    };
    meta.collector.clock = Clock::Relative;
    let rows = Rows {
        sessions,
        ..sums.take()
    };
    Source::memory(meta, rows)
}

fn by_hand() -> Source {
    let mut pushed_off = turn(1, 20, 5, 3, 2);
    pushed_off.state = State::Runnable;
    pushed_off.instead = vec![("burn 7".into(), 2 * MS), ("idle".into(), MS / 2)];
    let mut again = turn(1, 30, 0, 6, 4);
    again.instead = vec![("burn 7".into(), 6 * MS)];
    again.migrations = 2;
    again.migrated = true;
    let mut first = turn(2, 10, 0, 0, 0);
    (first.wait_ns, first.delay_ns, first.run_ns) = (None, None, None);
    let mut real_time = turn(2, 1_500, 1_000, 0, 1);
    real_time.priority = Some(89);
    source(
        vec![first, pushed_off, again, real_time],
        vec![
            session(1, 11, BackendType::CLIENT, "postgres: a b", 0),
            session(2, 22, BackendType::PROCESS, "thread", 21),
        ],
    )
}

fn answer(source: &Source, options: &Options) -> Report {
    report(source, options).expect("a report")
}

#[test]
fn a_stay_off_cpu_is_of_the_statement_before_it_and_a_run_of_the_one_at_its_end() {
    // A command arrives and is executed; it waits inside, and continues; it waits, and another one follows without a switch.
    let of = |at_ms, (wait_ms, delay_ms, run_ms), before, end| Turn {
        wait_statement: before,
        statement: end,
        ..turn(1, at_ms, wait_ms, delay_ms, run_ms)
    };
    let turns = vec![
        of(20, (5, 3, 2), 0, 7),
        of(30, (4, 1, 5), 7, 7),
        of(50, (10, 2, 8), 7, 8),
    ];
    let sessions = vec![session(1, 11, BackendType::CLIENT, "postgres: a b", 0)];
    let source = source(turns, sessions);
    let sched = answer(&source, &Options::default()).sched.expect("switches");
    let ms = |ns: u128| ns / u128::from(MS);
    let times: Vec<_> = (sched.statements.iter())
        .map(|of| {
            let sums = &of.sums;
            (
                of.id,
                [
                    ms(sums.run.sum_ns()),
                    ms(sums.delay.sum_ns()),
                    ms(sums.off_cpu.sum_ns()),
                ],
            )
        })
        .collect();
    assert_eq!(times, [(7, [7, 3, 17]), (8, [8, 0, 0]), (0, [0, 3, 8])]);
    assert_eq!(sched.other_statements, SchedSums::default());
    let only = |statement| Options {
        filter: Filter {
            statements: vec![statement],
            ..Filter::default()
        },
        ..Options::default()
    };
    let of_seven = answer(&source, &only(7));
    assert_eq!(ms(of_seven.db_time_ns()), 4 + 1 + 5 + 10 + 2 + 2);
    let sched = of_seven.sched.expect("switches");
    assert_eq!((ms(sched.total.run.sum_ns()), sched.total.switches), (7, 2));
    assert_eq!(sched.longest.len(), 3);
    let of_eight = answer(&source, &only(8)).sched.expect("switches");
    assert_eq!(of_eight.longest.len(), 1);
}

#[test]
fn numbers_are_those_of_the_turns() {
    let sched = answer(&by_hand(), &Options::default()).sched.expect("switches");
    let [one, two] = sched.tasks.as_slice() else {
        panic!("{:?}", sched.tasks)
    };
    // The one with the larger delay comes first.
    assert_eq!(
        (one.name.as_str(), one.tid, one.process),
        ("client backend", 11, None)
    );
    assert_eq!(
        (two.name.as_str(), two.tid, two.process),
        ("thread", 22, Some(21))
    );
    assert_eq!(
        (one.sums.switches, one.sums.pushed_off, one.sums.migrations),
        (2, 1, 2)
    );
    assert_eq!(
        (one.sums.run.sum_ns(), one.sums.run.max_ns()),
        (u128::from(6 * MS), 4 * MS)
    );
    assert_eq!(one.sums.shortest_run_ns, Some(2 * MS));
    // Only the first began with a sleep: 5 ms, and 3 ms until it ran.
    assert_eq!(
        (one.sums.off_cpu.count(), one.sums.off_cpu.sum_ns()),
        (1, u128::from(8 * MS))
    );
    assert_eq!(
        (one.sums.delay.count(), one.sums.delay.sum_ns()),
        (2, u128::from(9 * MS))
    );
    // The first turn of the second task has no times: it is counted, but in no sum.
    assert_eq!(
        (two.sums.switches, two.sums.run.count(), two.sums.run.sum_ns()),
        (2, 1, u128::from(MS))
    );
    assert_eq!(
        (two.sums.priorities, one.sums.priorities),
        (Some((89, 120)), Some((120, 120)))
    );
    let instead: Vec<_> = sched
        .instead
        .iter()
        .map(|who| (who.name.as_str(), who.count, who.ns))
        .collect();
    assert_eq!(
        instead,
        [("burn 7", 2, u128::from(8 * MS)), ("idle", 1, u128::from(MS / 2))]
    );
    assert_eq!(sched.not_seen_ns, u128::from(MS / 2));
    assert_eq!(
        (sched.wakers.len(), sched.wakers[0].count, sched.wakers[0].ns),
        (1, 2, u128::from(1_005 * MS))
    );
    let longest: Vec<_> = sched
        .longest
        .iter()
        .map(|line| (line.tid, line.delay_ns, line.off_cpu_ns))
        .collect();
    assert_eq!(
        longest,
        [(11, Some(6 * MS), Some(6 * MS)), (11, Some(3 * MS), Some(8 * MS))]
    );
}

#[test]
fn the_ledger_and_the_latencies_have_the_same_time() {
    let source = by_hand();
    let whole = answer(&source, &Options::default());
    assert_eq!(
        whole.ledger.total().total_ns(),
        u128::from((5 + 3 + 2 + 6 + 4 + 1_000 + 1) * MS)
    );
    let sched = latency(
        &source,
        &LatencyOptions {
            kinds: vec!["sched".into()],
            ..LatencyOptions::default()
        },
    );
    assert_eq!(sched.expect("delays").kinds[0].total.sum_ns(), u128::from(9 * MS));
}

#[test]
fn a_period_and_sessions_can_be_chosen() {
    let source = by_hand();
    let filter = Filter {
        from_us: Some(101_000_000),
        ..Filter::default()
    };
    let late = answer(
        &source,
        &Options {
            filter: filter.clone(),
            ..Options::default()
        },
    );
    let sched = late.sched.expect("switches");
    assert_eq!(
        (sched.tasks.len(), sched.tasks[0].tid, sched.total.switches),
        (1, 22, 1)
    );
    let mut lines = Vec::new();
    switches(&source, &filter, |line| lines.push(line.task())).expect("switches");
    assert_eq!(lines, ["thread[22/21]"]);
    let filter = Filter {
        sessions: vec![11],
        ..Filter::default()
    };
    let sched = answer(
        &source,
        &Options {
            filter,
            ..Options::default()
        },
    )
    .sched
    .expect("switches");
    assert_eq!((sched.tasks.len(), sched.tasks[0].tid), (1, 11));
}

#[test]
fn what_is_not_known_is_shown_as_such() {
    let source = by_hand();
    let mut lines = Vec::new();
    switches(&source, &Filter::default(), |line| {
        lines.push(text::render_switch(line, Clock::Relative))
    })
    .expect("switches");
    let first: Vec<&str> = lines[0].split_whitespace().collect();
    assert_eq!(
        first[..7],
        ["100.010000", "[0001]", "thread[22/21]", "?", "?", "?", "|"]
    );
    let second: Vec<&str> = lines[1].split_whitespace().collect();
    assert_eq!(second[4..8], ["8.000", "3.000", "2.000", "|"], "{lines:?}");
    assert!(lines[3].contains("rt 10") && lines[2].contains("moved"));
}

#[test]
fn without_switches_there_is_no_such_view() {
    let none = Source::memory(Meta::default(), Rows::default());
    assert!(switches(&none, &Filter::default(), |_| ()).is_err());
    assert!(answer(&none, &Options::default()).sched.is_none());
}

#[test]
fn hostile_names_move_no_cursor() {
    const HOSTILE: &str = "\u{1b}]0;x\u{7}\r\n\u{202e}";
    let mut turn = turn(1, 20, 5, 3, 2);
    turn.waker = HOSTILE.into();
    turn.instead = vec![(HOSTILE.into(), MS)];
    turn.wait = Wait::event(HOSTILE, HOSTILE, false);
    let source = source(vec![turn], vec![session(1, 11, BackendType::PROCESS, HOSTILE, 0)]);
    let whole = answer(&source, &Options::default());
    let shown = text::render(&whole, 120);
    let mut lines = String::new();
    switches(&source, &Filter::default(), |line| {
        lines += &text::render_switch(line, Clock::Utc)
    })
    .expect("switches");
    for text in [shown, lines.clone()] {
        assert!(
            !text.chars().any(|c| c.is_control() && c != '\n') && !text.contains('\u{202e}'),
            "{text:?}"
        );
    }
    assert_eq!(lines.lines().count(), 1);
    serde_json::from_str::<Value>(&json::render(&whole)).expect("JSON");
}

proptest! {
    #[test]
    fn however_turns_follow_their_time_is_there_once(
        parts in prop::collection::vec((0..3u64, 0..5_000u64, 0..3_000u64, 0..2_000u64, 0..4usize), 1..60),
    ) {
        let mut now = [0i64; 3];
        let mut turns = Vec::new();
        for (session, wait, delay, run, who) in parts {
            let at = &mut now[session as usize];
            *at += (wait + delay + run) as i64;
            let mut turn = turn(session + 1, 0, 0, 0, 0);
            turn.time_ns = 100 * SECOND + *at * 1_000;
            (turn.wait_ns, turn.delay_ns, turn.run_ns) = (Some(wait * 1_000), Some(delay * 1_000), Some(run * 1_000));
            turn.wait_state = [State::Sleep, State::Disk, State::Stopped, State::Unknown][who];
            turn.instead = vec![("a".into(), delay * 500), ("b".into(), delay * 500)];
            turns.push(turn);
        }
        let source = source(turns, Vec::new());
        let whole = answer(&source, &Options::default());
        let elapsed: i64 = now.iter().sum();
        prop_assert_eq!(whole.ledger.total().total_ns(), elapsed as u128 * 1_000);
        let sched = whole.sched.expect("switches");
        prop_assert_eq!(sched.not_seen_ns, 0);
        prop_assert_eq!(sched.total.switches, u128::from(sched.facts.switches));
        prop_assert_eq!(sched.total.run.sum_ns() + sched.total.off_cpu.sum_ns(), elapsed as u128 * 1_000);
        let by_event: u128 = sched.by_event.iter().map(|(_, delay)| delay.sum_ns()).sum();
        prop_assert_eq!(by_event, sched.total.delay.sum_ns());
    }
}
