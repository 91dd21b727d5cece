//! Sessions whose truth is known: the ledger must say the same.

use std::time::Duration;

use dbtime::throwaway::{Cluster, Options};
use dbtime_model::State;
use dbtime_tests::{
    Recorded, Recorder, Server, Session, SessionTime, Truth, assert_between, assert_close, builds,
    distribution, needs_recording, schedstat,
};

/// A sleeping session does not tear; but it connects before and goes after, and may be sampled in either.
const AWAKE: u64 = 2;
const SECONDS: Duration = Duration::from_secs(7);
/// CPU in seconds that a process may take to end, which its rusage after its last statement does not have: some milliseconds, as a rule.
const EXIT: f64 = 0.02;
/// CPU is compared from outside, at moments up to one sampling period from the recorder's.
const PERIOD: f64 = 0.010;

/// The two promises that hold for every session: accounted = elapsed within 1 %, CPU within 2 % of its rusage.
#[track_caller]
fn assert_true_to(truth: &Truth, recorded: &Recorded) -> SessionTime {
    let session = recorded.session(truth.pid);
    let name = format!("pid {} ({})", truth.pid, session.row.title);
    let ledger = session.ledger();
    let elapsed = session.elapsed_ns as f64 / 1e9;
    assert_close(
        &format!("{name}: accounted for, s\n{ledger}\n"),
        session.accounted_ns() as f64 / 1e9,
        elapsed,
        0.01,
        0.0,
    );
    // On a busy host a process that has ended its account may wait long until it is gone.
    assert_between(
        &format!("{name}: elapsed, s\n{ledger}\n"),
        elapsed,
        truth.shortest.as_secs_f64(),
        truth.elapsed.as_secs_f64(),
        0.01,
        2.0 * PERIOD,
    );
    let cpu = session.cpu_ns() as f64 / 1e9;
    let own = truth.cpu.as_secs_f64();
    assert_between(
        &format!("{name}: CPU, s\n{ledger}\n"),
        cpu,
        own,
        own + EXIT + recorded.stolen,
        0.02,
        PERIOD,
    );
    session
}

fn burner(cluster: &Cluster, time: Duration) -> Truth {
    let mut session = Session::connect(cluster);
    session.burn(time);
    session.end()
}

/// A computing session is in the run queue because its CPU was taken away: that is time of what it computed, not of the kernel's interrupt.
fn assert_interrupted_functions_have_the_time(recorded: &Recorded) {
    let stacks = recorded.flame(&["--state", "runnable"]);
    let of = |of: &dyn Fn(&[&str]) -> bool| -> f64 {
        let frames = |stack: &str| of(&stack.split(';').collect::<Vec<_>>());
        stacks
            .iter()
            .filter(|(stack, _)| frames(stack))
            .map(|(_, ns)| ns)
            .sum()
    };
    let all = of(&|_| true);
    let is_entry = |frame: &&str| frame.contains("irqentry") || frame.contains("asm_sysvec");
    assert_eq!(of(&|frames| frames.iter().any(is_entry)), 0.0, "{stacks:#?}");
    let preempted = of(&|frames| frames.ends_with(&["[preempted]_[k]"]) && frames.contains(&"PostgresMain"));
    assert!(
        preempted > 0.9 * all,
        "{preempted} of {all} ns in the run queue are of functions that were interrupted: {stacks:#?}"
    );
}

/// Everything that needs little CPU happens in one recording, so that the suite stays short.
fn known_sessions(server: &Server) {
    let mut cluster = server.start(Options::default().set("cluster_name", "known sessions"));
    cluster
        .psql("CREATE TABLE t AS SELECT 1 AS id, 0 AS v")
        .expect("a table can be made");

    let mut resident = Session::connect(&cluster);
    let resident_pid = resident.pid();
    let recorder = Recorder::server(&cluster, &[]);
    let resident_before = schedstat(resident_pid).expect("it lives").on_cpu;

    let mut holder = Session::connect(&cluster);
    holder.run("BEGIN; UPDATE t SET v = 1");
    let cluster_ref = &cluster;
    let (sleeper, cpu, waiters, short, holder, resident_after, recorded) = std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let mut session = Session::connect(cluster_ref);
            session.run(&format!("SELECT pg_sleep({})", SECONDS.as_secs()));
            session.end()
        });
        let cpu = scope.spawn(|| burner(cluster_ref, SECONDS));
        let waiters = [(); 2].map(|()| {
            scope.spawn(|| {
                let mut session = Session::connect(cluster_ref);
                session.run("UPDATE t SET v = v + 1");
                session.end()
            })
        });
        let short = scope.spawn(|| {
            std::thread::sleep(Duration::from_secs(2));
            let mut session = Session::connect(cluster_ref);
            session.run("SELECT pg_sleep(1)");
            session.burn(Duration::from_secs(1));
            session.end()
        });
        // Lives before the recording and after it.
        let resident_thread = scope.spawn(|| {
            resident.run("SELECT pg_sleep(2)");
            resident.burn(Duration::from_secs(3));
            resident
        });
        std::thread::sleep(SECONDS);
        holder.run("COMMIT");
        let holder = holder.end();
        let ended = (
            sleeper.join().expect("no panic"),
            cpu.join().expect("no panic"),
            waiters.map(|waiter| waiter.join().expect("no panic")),
            short.join().expect("no panic"),
        );
        let _resident = resident_thread.join().expect("no panic");
        let resident_after = schedstat(resident_pid).expect("it lives").on_cpu;
        (
            ended.0,
            ended.1,
            ended.2,
            ended.3,
            holder,
            resident_after,
            recorder.stop(),
        )
    });
    // By itself: preempted sessions spend kernel time on being preempted.
    let recorder = Recorder::server(&cluster, &[]);
    let alone = burner(&cluster, Duration::from_secs(3));
    let recorded_alone = recorder.stop();
    drop(cluster.stop(dbtime::throwaway::Shutdown::Fast));

    let alone = assert_true_to(&alone, &recorded_alone);
    let user = alone.ns(Some("CPU"), &[State::User]) as f64 / alone.beside_run_queue_ns() as f64;
    assert!(
        user >= 0.95,
        "user code is {user:.3} of the time it had a CPU:\n{}",
        alone.ledger()
    );

    assert_eq!(recorded.problems, vec![], "every row can be read");
    let sleeper = assert_true_to(&sleeper, &recorded);
    for slept in [
        sleeper.ns(Some("Timeout:PgSleep"), &State::ALL),
        sleeper.ns(None, &[State::Sleep]),
    ] {
        let share = slept as f64 / sleeper.beside_run_queue_ns() as f64;
        assert!(share >= 0.99, "{share}:\n{}", sleeper.ledger());
    }
    assert!(sleeper.torn <= AWAKE, "a sleeper does not tear: {}", sleeper.torn);

    let cpu = assert_true_to(&cpu, &recorded);
    assert!(
        cpu.share_of_wait("CPU") >= 0.95,
        "no wait event:\n{}",
        cpu.ledger()
    );

    for waiter in &waiters {
        let waiter = assert_true_to(waiter, &recorded);
        let lock = ["Lock:transactionid", "Lock:tuple"].map(|wait| waiter.ns(Some(wait), &State::ALL));
        for waited in [lock.iter().sum(), waiter.ns(None, &[State::Sleep])] {
            let share = waited as f64 / waiter.beside_run_queue_ns() as f64;
            assert!(share >= 0.99, "{share}:\n{}", waiter.ledger());
        }
        assert!(
            waiter.torn <= AWAKE,
            "a lock waiter does not tear: {}",
            waiter.torn
        );
    }
    let holder = assert_true_to(&holder, &recorded);
    let read = holder.ns(Some("Client:ClientRead"), &State::ALL) as f64 / holder.beside_run_queue_ns() as f64;
    assert!(read >= 0.98, "{read}:\n{}", holder.ledger());

    let short = assert_true_to(&short, &recorded);
    assert_close(
        &format!("seconds of a short session in pg_sleep:\n{}\n", short.ledger()),
        short.ns(Some("Timeout:PgSleep"), &State::ALL) as f64 / 1e9,
        1.0,
        // It shares its blocked time with waits for a client that has no CPU, up to a tenth of a second: four standard errors of
        // its hundred samples, and some in the run queue after it was woken.
        0.15,
        0.0,
    );

    let resident = recorded.session(resident_pid);
    let recorded_for = (recorded.meta.end_us - recorded.meta.start_us) as f64 / 1e6;
    assert_close(
        "elapsed of a session that outlives the recording, s",
        resident.elapsed_ns as f64 / 1e9,
        recorded_for,
        0.01,
        2.0 * PERIOD,
    );
    assert_close(
        "CPU of a session that outlives the recording, s",
        resident.cpu_ns() as f64 / 1e9,
        (resident_after - resident_before).as_secs_f64(),
        0.02,
        PERIOD,
    );
    the_report_says_the_same(&recorded, &[sleeper, cpu, holder, short, resident]);
}

/// What a user is shown for one session is what the recording has for it.
fn the_report_says_the_same(recorded: &Recorded, sessions: &[SessionTime]) {
    let whole = recorded.report(&[]);
    for session in sessions {
        let row = whole
            .sessions
            .iter()
            .find(|row| row.pid == Some(session.row.pid))
            .expect("every session is listed");
        assert_eq!(row.accounted_ns, session.accounted_ns(), "{row:?}");
        assert_eq!(row.elapsed_ns, Some(session.elapsed_ns), "{row:?}");
        assert_eq!(
            (row.user.as_str(), row.database.as_str()),
            ("postgres", "postgres"),
            "{row:?}"
        );
        assert_eq!(row.backend_type, "client backend", "{row:?}");
    }
    let pid = sessions[0].row.pid.to_string();
    let one = recorded.report(&["--session", &pid]);
    let sleep = one.row("Timeout", "PgSleep").expect("the sleeper slept");
    assert_eq!(
        sleep.total_ns,
        sessions[0].ns(Some("Timeout:PgSleep"), &State::ALL)
    );
    assert_eq!(
        sleep.sleep_ns,
        sessions[0].ns(Some("Timeout:PgSleep"), &[State::Sleep])
    );
}

#[test]
fn the_ledger_is_true_with_frame_pointers() {
    needs_recording!();
    known_sessions(&distribution());
}

#[test]
fn the_ledger_is_true_without_frame_pointers() {
    needs_recording!();
    for server in builds(&[17]) {
        known_sessions(&server);
    }
}

#[test]
fn more_sessions_than_cpus_show_their_time_in_the_run_queue() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let sessions = std::thread::available_parallelism().expect("Linux knows").get() + 2;
    let recorder = Recorder::server(&cluster, &[]);
    let truths: Vec<Truth> = std::thread::scope(|scope| {
        let burners: Vec<_> = (0..sessions)
            .map(|_| scope.spawn(|| burner(&cluster, Duration::from_secs(5))))
            .collect();
        burners
            .into_iter()
            .map(|burner| burner.join().expect("no panic"))
            .collect()
    });
    let recorded = recorder.stop();
    let mut queued = 0.0;
    for truth in &truths {
        let session = assert_true_to(truth, &recorded);
        let runnable = session.ns(None, &[State::Runnable]) as f64 / 1e9;
        assert_close(
            &format!("run queue of pid {}, s\n{}\n", truth.pid, session.ledger()),
            runnable,
            truth.run_delay.as_secs_f64(),
            0.02,
            2.0 * PERIOD,
        );
        queued += runnable;
    }
    let least = 0.8 * 2.0 / sessions as f64 * 5.0 * sessions as f64;
    assert!(
        queued > least,
        "two sessions too many must wait at least {least:.1} s, recorded are {queued:.1} s"
    );
    assert_interrupted_functions_have_the_time(&recorded);
}
