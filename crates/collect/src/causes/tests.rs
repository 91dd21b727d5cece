//! Events as the kernel sends them, and where they lead.

use super::*;
use dbtime_model::CauseKind;

const SECOND: u64 = 1_000_000_000;
/// A hundred passes a second.
const PERIOD: u64 = SECOND / 100;

fn moment(pass: u32) -> (u32, u64) {
    (pass, 1_000 * SECOND + u64::from(pass) * PERIOD)
}

fn found(session: u64, wait: (&str, &str, bool), state: State) -> Found {
    Found {
        session: SessionId(session),
        statement: session * 100,
        session_state: SessionState::Active,
        wait: Wait::event(wait.0, wait.1, wait.2),
        state,
        kernel_stack: dbtime_model::NO_STACK,
        user_stack: dbtime_model::NO_STACK,
    }
}

fn locked(session: u64) -> Found {
    found(session, ("Lock", "tuple", false), State::Sleep)
}

fn idle(session: u64) -> Found {
    found(session, ("Client", "ClientRead", true), State::Sleep)
}

/// Pids 1 to 4 are sessions 1 to 4.
fn four() -> Causes {
    let mut causes = Causes::new(100);
    for pid in 1..=4 {
        causes.know(pid, 7);
    }
    causes
}

/// Samples by waiter, kind and the sessions of the chain.
fn settled(causes: &mut Causes) -> Vec<(u64, CauseKind, Vec<u64>, u64)> {
    let mut rows = Vec::new();
    causes.settle(moment(10_000).1, true, Clock::start(), &mut rows);
    let mut sums: std::collections::BTreeMap<_, u64> = Default::default();
    for row in rows {
        let chain: Vec<u64> = row.chain.iter().map(|link| link.session.0).collect();
        *sums.entry((row.session.0, row.kind, chain)).or_default() += row.samples;
    }
    sums.into_iter()
        .map(|((session, kind, chain), samples)| (session, kind, chain, samples))
        .collect()
}

#[test]
fn a_wait_is_followed_to_what_each_one_did_in_the_same_pass() {
    let mut causes = four();
    // 1 waits for its client until pass 15, and runs from then on; 2 waits for 1, 3 for 2, in passes 10 to 19 and 12 to 19.
    causes.off_cpu(1, moment(5), idle(1), true);
    causes.off_cpu(2, moment(10), locked(2), true);
    causes.off_cpu(3, moment(12), locked(3), true);
    causes.repeat(1, 9);
    causes.repeat(2, 9);
    causes.repeat(3, 7);
    causes.on_cpu(1, moment(16).1, found(1, ("CPU", "CPU", false), State::User));
    causes.woken(2, moment(19).1 + 1, Waker::Process(1, 7));
    causes.woken(3, moment(19).1 + 2, Waker::Process(2, 7));
    let ran = |samples: &[(u64, CauseKind, Vec<u64>, u64)], of: u64| -> u64 {
        let of = samples
            .iter()
            .filter(|(session, kind, ..)| (*session, *kind) == (of, CauseKind::Session));
        of.map(|(.., samples)| samples).sum()
    };
    let samples = settled(&mut causes);
    assert!(
        samples.contains(&(2, CauseKind::Client, vec![1], 5)),
        "{samples:?}"
    );
    assert!(
        samples.contains(&(3, CauseKind::Client, vec![2, 1], 3)),
        "{samples:?}"
    );
    assert_eq!((ran(&samples, 2), ran(&samples, 3)), (5, 5), "{samples:?}");
    assert_eq!(samples.iter().map(|(.., samples)| samples).sum::<u64>(), 18);
}

#[test]
fn what_cuts_a_wait_does_not_end_it() {
    let mut causes = four();
    causes.off_cpu(1, moment(0), idle(1), true);
    causes.off_cpu(2, moment(10), locked(2), true);
    causes.repeat(2, 4);
    causes.woken(2, moment(15).1, Waker::Interrupt);
    causes.off_cpu(2, moment(16), locked(2), true);
    causes.repeat(1, 30);
    causes.woken(2, moment(20).1, Waker::Process(1, 7));
    assert_eq!(settled(&mut causes), [(2, CauseKind::Client, vec![1], 6)]);
    // It is in the run queue in between.
    let mut causes = four();
    causes.off_cpu(1, moment(0), idle(1), true);
    causes.off_cpu(2, moment(10), locked(2), true);
    causes.woken(2, moment(11).1, Waker::Interrupt);
    causes.off_cpu(
        2,
        moment(11),
        found(2, ("Lock", "tuple", false), State::Runnable),
        true,
    );
    causes.off_cpu(2, moment(13), locked(2), true);
    causes.repeat(1, 30);
    causes.woken(2, moment(20).1, Waker::Process(1, 7));
    assert_eq!(settled(&mut causes), [(2, CauseKind::Client, vec![1], 2)]);
    // Later it waits for the same once more.
    let mut causes = four();
    causes.off_cpu(1, moment(0), idle(1), true);
    causes.off_cpu(2, moment(10), locked(2), true);
    causes.woken(2, moment(11).1, Waker::Interrupt);
    causes.off_cpu(2, moment(30), locked(2), true);
    causes.repeat(1, 40);
    causes.woken(2, moment(31).1, Waker::Process(1, 7));
    assert_eq!(
        settled(&mut causes),
        [
            (2, CauseKind::Client, vec![1], 1),
            (2, CauseKind::Unknown, vec![], 1)
        ]
    );
    // Nobody was seen to end it, and a timer does not release a lock.
    let mut causes = four();
    causes.off_cpu(2, moment(10), locked(2), true);
    causes.woken(2, moment(15).1, Waker::Interrupt);
    causes.off_cpu(
        4,
        moment(10),
        found(4, ("Timeout", "PgSleep", false), State::Sleep),
        true,
    );
    causes.woken(4, moment(15).1, Waker::Interrupt);
    assert_eq!(
        settled(&mut causes),
        [
            (2, CauseKind::Unknown, vec![], 1),
            (4, CauseKind::Timer, vec![], 1)
        ]
    );
}

#[test]
fn an_end_may_be_told_before_what_it_ends() {
    let mut causes = four();
    causes.off_cpu(1, moment(0), idle(1), true);
    causes.off_cpu(2, moment(1), locked(2), true);
    // Of the sleep of pass 9, not of that of pass 1.
    causes.woken(2, moment(9).1 + 5, Waker::Process(1, 7));
    causes.off_cpu(2, moment(9), locked(2), true);
    causes.repeat(1, 20);
    assert_eq!(
        settled(&mut causes),
        [
            (2, CauseKind::Client, vec![1], 1),
            (2, CauseKind::Unknown, vec![], 1)
        ]
    );
}

#[test]
fn nothing_is_followed_to_another_process_of_the_same_pid_nor_in_circles() {
    let mut causes = four();
    causes.off_cpu(1, moment(0), idle(1), true);
    causes.off_cpu(2, moment(1), locked(2), true);
    causes.woken(2, moment(2).1, Waker::Process(1, 6));
    causes.off_cpu(3, moment(1), locked(3), true);
    causes.woken(3, moment(2).1, Waker::Process(4, 7));
    causes.off_cpu(4, moment(1), locked(4), true);
    causes.woken(4, moment(2).1, Waker::Process(3, 7));
    let kinds: Vec<_> = settled(&mut causes)
        .into_iter()
        .map(|(_, kind, chain, _)| (kind, chain))
        .collect();
    assert_eq!(
        kinds,
        [
            (CauseKind::Process, vec![]),
            (CauseKind::Unknown, vec![4, 3]),
            (CauseKind::Unknown, vec![3, 4])
        ]
    );
}

#[test]
fn however_much_happens_little_is_remembered_and_every_sample_is_in_a_row() {
    let mut causes = four();
    let (mut rows, mut samples) = (Vec::new(), 0);
    let clock = Clock::start();
    for pass in 0..3 * MOST_SEEN as u32 / 4 {
        for pid in 1..=4 {
            causes.off_cpu(pid, moment(pass), locked(pid.into()), true);
            samples += 1;
        }
        causes.on_cpu(1, moment(pass).1, locked(1));
        if pass % 100 == 0 {
            causes.settle(moment(pass).1, false, clock, &mut rows);
            assert!(causes.size <= MOST_SEEN, "{}", causes.size);
            let size: usize = causes.tracks.values().map(Track::size).sum();
            assert_eq!(causes.size, size);
        }
    }
    causes.settle(moment(u32::MAX / 2).1, true, clock, &mut rows);
    assert_eq!(rows.iter().map(|row| row.samples).sum::<u64>(), samples);
}

#[test]
fn while_a_wait_goes_on_it_is_for_those_that_have_the_lock() {
    let mut causes = four();
    // 1 waits for its client, 2 holds the lock together with it and sleeps, 3 waits for both, then for 2 alone.
    causes.off_cpu(1, moment(0), idle(1), true);
    causes.off_cpu(
        2,
        moment(0),
        found(2, ("Timeout", "PgSleep", false), State::Sleep),
        true,
    );
    causes.off_cpu(3, moment(10), locked(3), true);
    for (pid, passes) in [(1, 39), (2, 39), (3, 29)] {
        causes.repeat(pid, passes);
    }
    assert_eq!(causes.waiting_for_locks(), [3]);
    let both = [Holder::Process(1), Holder::Process(2)];
    causes.held(3, moment(19).1, &both);
    causes.held(3, moment(29).1, &both[1..]);
    causes.woken(2, moment(39).1, Waker::Interrupt);
    let samples = settled(&mut causes);
    let of_3: Vec<_> = samples
        .iter()
        .filter(|(session, ..)| *session == 3)
        .cloned()
        .collect();
    assert_eq!(
        of_3,
        [
            (3, CauseKind::Timer, vec![2], 25),
            (3, CauseKind::Client, vec![1], 5),
        ]
    );
    // What was read after the wait was over, as its end is reported only now, belongs to another one.
    let mut causes = four();
    causes.off_cpu(1, moment(0), idle(1), true);
    causes.repeat(1, 30);
    causes.off_cpu(3, moment(10), locked(3), true);
    causes.held(3, moment(19).1, &[Holder::Prepared]);
    causes.woken(3, moment(12).1, Waker::Process(1, 7));
    assert_eq!(settled(&mut causes), [(3, CauseKind::Client, vec![1], 1)]);
}

#[test]
fn who_sleeps_for_a_time_waits_for_a_timer_also_while_it_does() {
    let mut causes = four();
    // 2 waits for 1, whose sleep has no end yet when that is reported.
    causes.off_cpu(
        1,
        moment(0),
        found(1, ("Timeout", "PgSleep", false), State::Sleep),
        true,
    );
    causes.off_cpu(2, moment(10), locked(2), true);
    for (pid, passes) in [(1, 29), (2, 19)] {
        causes.repeat(pid, passes);
    }
    causes.held(2, moment(29).1, &[Holder::Process(1)]);
    assert_eq!(
        settled(&mut causes),
        [
            (1, CauseKind::Timer, vec![], 30),
            (2, CauseKind::Timer, vec![1], 20),
        ]
    );
}

#[test]
fn a_wait_that_outlasts_what_is_remembered_is_followed_while_it_goes_on() {
    let mut causes = four();
    let (mut rows, clock) = (Vec::new(), Clock::start());
    causes.off_cpu(3, moment(0), locked(3), true);
    let hours = 3 * REMEMBERED_NS / SECOND * 100;
    for pass in 1..u32::try_from(hours).expect("it is small") {
        causes.off_cpu(1, moment(pass), idle(1), false);
        causes.repeat(3, 1);
        if pass % 100 == 0 {
            causes.held(3, moment(pass).1, &[Holder::Process(1)]);
            causes.settle(moment(pass).1, false, clock, &mut rows);
        }
    }
    causes.settle(moment(u32::MAX / 2).1, true, clock, &mut rows);
    let of = |kind| -> u64 {
        let of = rows
            .iter()
            .filter(|row| row.session == SessionId(3) && row.kind == kind);
        of.map(|row| row.samples).sum()
    };
    assert_eq!(of(CauseKind::Client) + of(CauseKind::Unknown), hours);
    assert!(of(CauseKind::Client) > hours - 3, "{}", of(CauseKind::Unknown));
}

#[test]
fn who_was_pushed_off_by_the_sampler_was_on_its_cpu() {
    let mut causes = four();
    let runnable = |stack| Found {
        state: State::Runnable,
        user_stack: StackId(stack),
        ..found(1, ("CPU", "CPU", false), State::Runnable)
    };
    causes.off_cpu(2, moment(10), locked(2), true);
    // Twice in a row in a run queue; then preempted four times, in one of which it did wait, as the kernel has counted three passes.
    causes.off_cpu(1, moment(10), runnable(1), true);
    causes.repeat(1, 1);
    for pass in [13, 14, 16, 18] {
        causes.off_cpu(1, moment(pass), runnable(1), true);
    }
    causes.repeat(2, 9);
    causes.off_cpu(1, moment(20), idle(1), true);
    causes.woken(2, moment(19).1 + 1, Waker::Process(1, 7));
    causes.queued(1, 3 * PERIOD);
    let mut rows = Vec::new();
    causes.settle(moment(10_000).1, true, Clock::start(), &mut rows);
    let of = |state: State, stack: u64| -> u64 {
        let links = rows.iter().map(|row| (&row.chain[0], row.samples));
        let of = links.filter(|(link, _)| (link.state, link.user_stack) == (state, StackId(stack)));
        of.map(|(_, samples)| samples).sum()
    };
    assert_eq!((of(State::Runnable, 1), of(State::Cpu, 1)), (3, 3), "{rows:?}");
}

fn gathers(session: u64) -> Found {
    found(session, ("IPC", "ExecuteGather", false), State::Sleep)
}

#[test]
fn a_leader_waits_for_all_of_its_workers_that_work() {
    let mut causes = four();
    let reads = |session| found(session, ("IO", "DataFileRead", false), State::Disk);
    // 2 and 3 work for 1, and 4 for nobody. 2 reads, 3 runs until it has to wait for the others, and ends the wait.
    causes.works_for(2, 1);
    causes.works_for(3, 1);
    causes.off_cpu(1, moment(10), gathers(1), true);
    causes.off_cpu(2, moment(10), reads(2), true);
    causes.off_cpu(4, moment(10), idle(4), true);
    let barrier = found(3, ("IPC", "HashBuildHashInner", false), State::Sleep);
    causes.off_cpu(3, moment(20), barrier, true);
    for (pid, passes) in [(1, 19), (2, 19), (3, 9), (4, 19)] {
        causes.repeat(pid, passes);
    }
    causes.woken(1, moment(29).1 + 1, Waker::Process(3, 7));
    causes.woken(3, moment(29).1 + 1, Waker::Process(2, 7));
    let samples = settled(&mut causes);
    let of = |session| -> Vec<_> {
        let of = samples.iter().filter(|(of, ..)| *of == session);
        of.map(|(_, kind, chain, samples)| (*kind, chain.clone(), *samples))
            .collect()
    };
    assert_eq!(
        of(1),
        [
            // What it did on its CPU is not known, as nothing saw it there before.
            (CauseKind::Device, vec![2], 15),
            (CauseKind::Unknown, vec![], 5),
        ]
    );
    // The leader waits for it in turn: only 2 holds it up.
    assert_eq!(of(3), [(CauseKind::Device, vec![2], 10)]);
}

#[test]
fn a_leader_without_workers_waits_for_whoever_ends_the_wait() {
    let mut causes = four();
    causes.works_for(2, 1);
    causes.off_cpu(1, moment(10), gathers(1), true);
    causes.off_cpu(3, moment(0), idle(3), true);
    causes.repeat(1, 9);
    causes.repeat(3, 30);
    causes.end(2, moment(5).1);
    causes.woken(1, moment(19).1 + 1, Waker::Process(3, 7));
    assert_eq!(settled(&mut causes), [(1, CauseKind::Client, vec![3], 10)]);
}

#[test]
fn a_background_process_without_work_waits_for_its_like_that_hands_it_on() {
    let mut causes = four();
    let no_work = |session| found(session, ("Activity", "IoWorkerMain", true), State::Sleep);
    let asks = || found(1, ("IO", "AioIoCompletion", false), State::Sleep);
    causes.off_cpu(3, moment(1), no_work(3), true);
    causes.off_cpu(1, moment(10), asks(), true);
    causes.off_cpu(2, moment(10), no_work(2), true);
    causes.off_cpu(
        3,
        moment(10),
        found(3, ("CPU", "CPU", false), State::Runnable),
        true,
    );
    for pid in 1..=3 {
        causes.repeat(pid, 4);
    }
    causes.woken(2, moment(14).1 + 1, Waker::Process(3, 7));
    causes.woken(1, moment(14).1 + 2, Waker::Process(2, 7));
    assert_eq!(settled(&mut causes), [(1, CauseKind::Session, vec![2, 3], 5)]);
    // Nobody was seen handing it work, or one that is not of its kind.
    for giver in [None, Some(Waker::Process(1, 7)), Some(Waker::Process(4, 7))] {
        let mut causes = four();
        causes.off_cpu(1, moment(10), asks(), true);
        causes.off_cpu(2, moment(10), no_work(2), true);
        causes.woken(1, moment(10).1 + 2, Waker::Process(2, 7));
        if let Some(giver) = giver {
            causes.woken(2, moment(10).1 + 3, giver);
        }
        assert_eq!(settled(&mut causes), [(1, CauseKind::Unknown, vec![2], 1)]);
    }
}

#[test]
fn what_a_thread_of_its_own_in_the_kernel_has_read_was_for_the_device() {
    // With io_uring a read is ended by an interrupt, or by a kernel thread of the process that requested it.
    let own = Waker::Process(1, 7);
    for (wait, waker, kind) in [
        (("IO", "AioIoUringExecution"), own, CauseKind::Device),
        (("IO", "AioIoUringExecution"), Waker::Interrupt, CauseKind::Device),
        (
            ("IO", "AioIoUringExecution"),
            Waker::Process(9, 9),
            CauseKind::Process,
        ),
        (("Lock", "tuple"), own, CauseKind::Unknown),
    ] {
        let mut causes = four();
        causes.off_cpu(
            1,
            moment(10),
            found(1, (wait.0, wait.1, false), State::Sleep),
            true,
        );
        causes.repeat(1, 4);
        causes.woken(1, moment(14).1 + 1, waker);
        assert_eq!(
            settled(&mut causes),
            [(1, kind, vec![], 5)],
            "{wait:?}, {waker:?}"
        );
    }
}

fn no_work(session: u64, event: &str) -> Found {
    found(session, ("Activity", event, true), State::Sleep)
}

/// 1 commits in passes 10 to 29, until it is woken by 2, which sends WAL to a standby: 3 receives there and flushes in passes 15 to 19, 4
/// replays and reads in passes 20 to 24.
fn replicated(for_replay: Option<bool>, to: Standby, ends: bool) -> Causes {
    let mut causes = four();
    let idle = [
        (2, "WalSenderMain"),
        (3, "WalReceiverMain"),
        (4, "RecoveryWalStream"),
    ];
    for (pid, event) in idle {
        causes.off_cpu(pid, moment(5), no_work(pid.into(), event), true);
    }
    causes.repeat(2, 40);
    causes.repeat(3, 9);
    causes.repeat(4, 14);
    causes.sends_to(2, to, &[]);
    causes.off_cpu(
        1,
        moment(10),
        found(1, ("IPC", "SyncRep", false), State::Sleep),
        true,
    );
    causes.repeat(1, 19);
    let wait = StandbyWait {
        for_replay,
        position: None,
    };
    causes.waits_for_standby(1, wait);
    causes.off_cpu(
        3,
        moment(15),
        found(3, ("IO", "WALSync", false), State::Disk),
        true,
    );
    causes.repeat(3, 4);
    causes.off_cpu(
        4,
        moment(20),
        found(4, ("IO", "DataFileRead", false), State::Disk),
        true,
    );
    causes.off_cpu(3, moment(20), no_work(3, "WalReceiverMain"), true);
    causes.repeat(3, 20);
    causes.repeat(4, 4);
    causes.off_cpu(4, moment(25), no_work(4, "RecoveryWalStream"), true);
    causes.repeat(4, 20);
    if ends {
        causes.woken(1, moment(29).1 + 1, Waker::Process(2, 7));
    }
    causes
}

const STANDBY: Standby = Standby::Recorded {
    receiver: 3,
    startup: Some(4),
};

#[test]
fn a_commit_waits_for_what_its_standby_does_and_for_the_network() {
    let of = |causes: &mut Causes| -> Vec<_> {
        let of_commit = settled(causes).into_iter().filter(|(of, ..)| *of == 1);
        of_commit
            .map(|(_, kind, chain, samples)| (kind, chain, samples))
            .collect()
    };
    // Whether it has ended or goes on: only one session sends WAL.
    for ends in [true, false] {
        assert_eq!(
            of(&mut replicated(Some(false), STANDBY, ends)),
            [
                (CauseKind::Device, vec![2, 3], 5),
                (CauseKind::Network, vec![2, 3], 15)
            ]
        );
        assert_eq!(
            of(&mut replicated(Some(true), STANDBY, ends)),
            [
                (CauseKind::Device, vec![2, 3], 5),
                (CauseKind::Device, vec![2, 3, 4], 5),
                (CauseKind::Network, vec![2, 3], 10)
            ]
        );
    }
    // What the standby has to do is not known.
    assert_eq!(
        of(&mut replicated(None, STANDBY, true)),
        [
            (CauseKind::Device, vec![2, 3], 5),
            (CauseKind::Unknown, vec![2, 3], 15)
        ]
    );
    for (to, kind) in [
        (Standby::Process, CauseKind::Process),
        (Standby::OtherHost, CauseKind::OtherHost),
        (Standby::NotKnown, CauseKind::Unknown),
    ] {
        assert_eq!(of(&mut replicated(Some(false), to, true)), [(kind, vec![2], 20)]);
    }
    // Over a Unix socket it is found by who wakes the sender.
    let mut causes = replicated(Some(false), Standby::Process, true);
    causes.woken(2, moment(45).1, Waker::Process(3, 7));
    causes.sends_to(2, Standby::Process, &[(8, None), (3, Some(4))]);
    assert_eq!(
        of(&mut causes),
        [
            (CauseKind::Device, vec![2, 3], 5),
            (CauseKind::Network, vec![2, 3], 15)
        ]
    );
    // With several senders, it is not known which one it waits for until one wakes it.
    let mut causes = replicated(Some(false), STANDBY, false);
    causes.know(9, 7);
    causes.sends_to(9, Standby::OtherHost, &[]);
    assert_eq!(of(&mut causes), [(CauseKind::Unknown, vec![], 20)]);
}

/// Until the standby has replayed the WAL up to this position.
const FOR_REPLAY: StandbyWait = StandbyWait {
    for_replay: Some(true),
    position: Some(100),
};

#[test]
fn who_has_flushed_the_log_already_is_waited_for_by_its_replay_whatever_it_flushes_for_others() {
    // 1 commits in passes 10 to 19. 3 flushes all the time; 4 reads until pass 17. From pass 13 on it is known that the standby has what 1
    // wrote.
    let of = |wait: StandbyWait| -> Vec<_> {
        let mut causes = four();
        causes.off_cpu(2, moment(5), no_work(2, "WalSenderMain"), true);
        let flushes = found(3, ("IO", "WALSync", false), State::Disk);
        causes.off_cpu(3, moment(5), flushes, true);
        let reads = found(4, ("IO", "DataFileRead", false), State::Disk);
        causes.off_cpu(4, moment(5), reads, true);
        let commits = found(1, ("IPC", "SyncRep", false), State::Sleep);
        causes.off_cpu(1, moment(10), commits, true);
        causes.waits_for_standby(1, wait);
        causes.repeat(4, 12);
        causes.off_cpu(4, moment(18), no_work(4, "RecoveryWalStream"), true);
        for (pid, passes) in [(1, 9), (2, 40), (3, 40), (4, 40)] {
            causes.repeat(pid, passes);
        }
        causes.sends_to(2, STANDBY, &[]);
        assert!(causes.sends_log(2) && !causes.sends_log(3));
        for (pass, position) in [(9, 98), (11, 99), (13, 100), (15, 120)] {
            causes.standby_flushed(2, moment(pass).1, position);
        }
        causes.woken(1, moment(19).1 + 1, Waker::Process(2, 7));
        let of_commit = settled(&mut causes).into_iter().filter(|(of, ..)| *of == 1);
        of_commit
            .map(|(_, kind, chain, samples)| (kind, chain, samples))
            .collect()
    };
    // When all is replayed, 3 has to report it.
    assert_eq!(
        of(FOR_REPLAY),
        [
            (CauseKind::Device, vec![2, 3], 5),
            (CauseKind::Device, vec![2, 4], 5)
        ]
    );
    // A commit that waits for a flush, wrote later, or has no known position waits for whoever is working first.
    for wait in [
        StandbyWait {
            for_replay: Some(false),
            ..FOR_REPLAY
        },
        StandbyWait {
            position: Some(121),
            ..FOR_REPLAY
        },
        StandbyWait {
            position: None,
            ..FOR_REPLAY
        },
    ] {
        assert_eq!(of(wait), [(CauseKind::Device, vec![2, 3], 10)], "{wait:?}");
    }
}

#[test]
fn thousands_that_wait_for_one_all_wait_for_it_and_long_lines_end() {
    const MANY: u32 = 5_000;
    let mut causes = Causes::new(100);
    let begin = std::time::Instant::now();
    (1..=MANY).for_each(|pid| causes.know(pid, 7));
    causes.off_cpu(1, moment(5), idle(1), true);
    (2..=MANY).for_each(|pid| causes.off_cpu(pid, moment(10), locked(u64::from(pid)), true));
    causes.repeat(1, 40);
    for pid in 2..=MANY {
        causes.repeat(pid, 9);
        causes.held(pid, moment(12).1, &[Holder::Process(1)]);
    }
    assert_eq!(causes.waiting_for_locks().len(), MANY as usize - 1);
    let samples = settled(&mut causes);
    assert_eq!(samples.len(), MANY as usize - 1);
    assert!(
        samples.iter().all(|(_, kind, chain, samples)| {
            (*kind, chain.as_slice(), *samples) == (CauseKind::Client, &[1][..], 10)
        }),
        "{:?}",
        &samples[..4]
    );
    // Each is woken by the one before it: what is too far away is not known, but no sample is lost.
    let mut causes = Causes::new(100);
    (1..=MANY).for_each(|pid| causes.know(pid, 7));
    causes.off_cpu(1, moment(5), idle(1), true);
    causes.repeat(1, 40);
    for pid in 2..=MANY {
        causes.off_cpu(pid, moment(10), locked(u64::from(pid)), true);
        causes.repeat(pid, 9);
        causes.woken(pid, moment(19).1 + u64::from(pid), Waker::Process(pid - 1, 7));
    }
    let samples = settled(&mut causes);
    assert_eq!(
        samples.iter().map(|(.., samples)| samples).sum::<u64>(),
        u64::from(MANY - 1) * 10
    );
    let known = samples.iter().filter(|(_, kind, ..)| *kind == CauseKind::Client);
    assert_eq!(known.count(), 16);
    // This runs next to a server that is in trouble.
    assert!(begin.elapsed().as_secs() < 20, "{:?}", begin.elapsed());
}

#[test]
fn a_standby_that_is_stopped_or_paused_is_the_cause_itself() {
    let stopped = Found {
        state: State::Stopped,
        ..no_work(3, "WalReceiverMain")
    };
    let paused = found(4, ("IPC", "RecoveryPause", false), State::Sleep);
    for (place, does, kind) in [(3, stopped, CauseKind::Session), (4, paused, CauseKind::Client)] {
        let mut causes = four();
        causes.off_cpu(2, moment(5), no_work(2, "WalSenderMain"), true);
        causes.off_cpu(3, moment(5), no_work(3, "WalReceiverMain"), true);
        causes.off_cpu(4, moment(5), no_work(4, "RecoveryWalStream"), true);
        causes.off_cpu(place, moment(6), does, true);
        (2..=4).for_each(|pid| causes.repeat(pid, 40));
        causes.sends_to(2, STANDBY, &[]);
        causes.off_cpu(
            1,
            moment(10),
            found(1, ("IPC", "SyncRep", false), State::Sleep),
            true,
        );
        causes.repeat(1, 9);
        causes.waits_for_standby(1, FOR_REPLAY);
        causes.woken(1, moment(19).1 + 1, Waker::Process(2, 7));
        let chain = (2..=u64::from(place)).collect();
        let samples = settled(&mut causes);
        assert!(samples.contains(&(1, kind, chain, 10)), "{samples:?}");
    }
}
