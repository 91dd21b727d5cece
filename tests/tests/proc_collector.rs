//! `record --collector proc` on a real PostgreSQL, and on a process that is no database's, against the kernel's own counters.

use std::time::{Duration, Instant};

use dbtime::throwaway::Options;
use dbtime_model::State;
use dbtime_tests::{
    Recorder, Session, assert_close, dbtime, distribution, needs_recording, schedstat, wait_for_state,
};

#[test]
fn sums_are_the_kernels_and_waits_are_the_servers() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let mut sleeper = Session::connect(&cluster);
    let mut burner = Session::connect(&cluster);
    // From the moment when they wait for their clients on: having answered, they may be in the run queue for a while.
    let before = [sleeper.pid(), burner.pid()].map(|pid| {
        wait_for_state(pid, 'S');
        schedstat(pid).expect("it lives")
    });
    let recorder = Recorder::server(&cluster, &["--collector", "proc", "-F", "199"]);
    let newcomer = std::thread::scope(|scope| {
        scope.spawn(|| sleeper.run("SELECT pg_sleep(4)"));
        scope.spawn(|| burner.burn(Duration::from_secs(3)));
        let mut newcomer = Session::connect(&cluster);
        newcomer.run("SELECT pg_sleep(3)");
        newcomer
    });
    let (pids, new) = ([sleeper.pid(), burner.pid()], newcomer.pid());
    // All of them wait for their clients by now, and use nothing.
    std::thread::sleep(Duration::from_millis(500));
    let recorded = recorder.stop();
    assert_eq!(recorded.problems, vec![], "every row can be read");
    for (pid, before) in pids.into_iter().zip(before) {
        let after = schedstat(pid).expect("it lives");
        let session = recorded.session(pid);
        session.assert_conserved();
        let on_cpu = (after.on_cpu - before.on_cpu).as_secs_f64();
        assert_close("CPU, s", session.cpu_ns() as f64 / 1e9, on_cpu, 0.001, 0.001);
        let queued = session.ns(None, &[State::Runnable]) as f64 / 1e9;
        assert_close(
            "run queue, s",
            queued,
            (after.run_delay - before.run_delay).as_secs_f64(),
            0.001,
            0.001,
        );
    }
    let slept = |pid: u32| recorded.session(pid).ns(Some("Timeout:PgSleep"), &[State::Sleep]) as f64 / 1e9;
    assert_close("pg_sleep(4), s", slept(pids[0]), 4.0, 0.05, 0.1);
    // Found a quarter of a second after its begin at the latest, where the machine is not busy.
    recorded.session(new).assert_conserved();
    assert!(slept(new) > 1.5, "{}", recorded.session(new).ledger());
    let burner = recorded.session(pids[1]);
    assert!(
        burner.ns(Some("CPU"), &[State::Cpu]) > burner.cpu_ns() * 9 / 10,
        "{}",
        burner.ledger()
    );
    assert!(
        recorded.meta.quality.samples > 500 && recorded.meta.quality.lost == 0,
        "{:?}",
        recorded.meta.quality
    );
    // A sleeping session has a kernel stack, by name.
    assert!(
        recorded.text(&["--top", "20"]).contains("epoll"),
        "{}",
        recorded.text(&["--top", "20"])
    );
}

#[test]
fn a_process_that_is_no_databases_is_recorded_too_and_exact_times_are_refused() {
    needs_recording!();
    let mut child = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .expect("sleep runs");
    let pid = child.id().to_string();
    let recorder = Recorder::start(&["--process", &pid, "--collector", "proc"]);
    let begin = Instant::now();
    std::thread::sleep(Duration::from_secs(2));
    child.kill().expect("it is ours");
    let lived = begin.elapsed().as_secs_f64();
    let recorded = recorder.finish();
    child.wait().expect("it is ours");
    let session = recorded.session(child.id());
    session.assert_conserved();
    assert_close(
        "seconds asleep",
        session.ns(None, &[State::Sleep]) as f64 / 1e9,
        lived,
        0.0,
        0.3,
    );
    dbtime(&[
        "record",
        "--process",
        "1",
        "--collector",
        "proc",
        "--exact",
        "-o",
        "/nonexistent/x.dbt",
    ])
    .expect_code(2)
    .expect_stderr(&["--exact needs BPF programs in the kernel"]);
}
