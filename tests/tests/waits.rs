//! Waits as single events against who else counts them: the server's log of lock waits, its statistics, its clients.

use std::thread;
use std::time::{Duration, Instant};

use dbtime::throwaway::Options;
use dbtime_tests::{
    Recorder, Session, assert_between, assert_close, distribution, needs_recording, pgbench, say,
};

const WAITERS: usize = 9;

/// Milliseconds that a process says in the log it waited for its lock, by pid.
fn waits_in_log(log: &str) -> Vec<(u32, f64)> {
    let of_line = |line: &str| {
        let (_, rest) = line.split_once("process ")?;
        let (pid, rest) = rest.split_once(" acquired ")?;
        let (_, ms) = rest.split_once(" after ")?;
        Some((pid.parse().ok()?, ms.split(' ').next()?.parse().ok()?))
    };
    log.lines().filter_map(of_line).collect()
}

#[test]
fn a_wait_for_a_lock_is_one_event_however_often_its_timer_goes_off() {
    needs_recording!();
    // Waiters look for deadlocks several times, say so in the log, and wait on.
    let cluster = distribution().start(
        Options::default()
            .set("deadlock_timeout", "200ms")
            .set("log_lock_waits", "on")
            .set("autovacuum", "off"),
    );
    let mut holder = Session::connect(&cluster);
    let mut waiters: Vec<Session> = (0..WAITERS).map(|_| Session::connect(&cluster)).collect();
    let pids: Vec<u32> = waiters.iter().map(Session::pid).collect();
    let recorder = Recorder::server(&cluster, &["--exact=calls"]);
    thread::sleep(Duration::from_millis(100));
    holder.run("SELECT pg_advisory_lock(1)");
    thread::scope(|scope| {
        for waiter in &mut waiters {
            scope.spawn(|| waiter.run("SELECT pg_advisory_xact_lock_shared(1)"));
        }
        thread::sleep(Duration::from_millis(1_500));
        holder.run("SELECT pg_advisory_unlock(1)");
    });
    waiters.iter().for_each(Session::wait_until_idle);
    let recorded = recorder.stop();
    let log = std::fs::read_to_string(cluster.home().join("server.log")).expect("the log of the server");
    let in_log = waits_in_log(&log);
    assert_eq!(in_log.len(), WAITERS, "{log}");
    let mut pieces = 0;
    for pid in pids {
        let session = recorded.session(pid);
        let waits = session.latencies.kind("wait").name("Lock:advisory");
        let ms: Vec<f64> = in_log
            .iter()
            .filter(|(of, _)| *of == pid)
            .map(|(_, ms)| *ms)
            .collect();
        assert_eq!(waits.count(), 1, "{pid}: {}\n{log}", session.ledger());
        // The log's clock begins when the timer is set, and ends when the process runs again.
        assert_close(
            &format!("{pid}: wait, s"),
            waits.sum_ns() as f64 / 1e9,
            ms[0] / 1e3,
            0.005,
            0.002,
        );
        pieces += session.latencies.kind("wait_call").name("Lock:advisory").count();
    }
    say(&format!("{WAITERS} waits, {pieces} system calls in them"));
    assert!(pieces > 2 * WAITERS as u64, "the timer did cut them: {pieces}");
}

#[test]
fn two_waits_for_locks_in_a_row_are_two() {
    needs_recording!();
    let cluster = distribution().start(
        Options::default()
            .set("deadlock_timeout", "100ms")
            .set("autovacuum", "off"),
    );
    let mut holder = Session::connect(&cluster);
    let mut waiter = Session::connect(&cluster);
    let pid = waiter.pid();
    let recorder = Recorder::server(&cluster, &["--exact=calls"]);
    thread::sleep(Duration::from_millis(100));
    holder.run("SELECT pg_advisory_lock(1), pg_advisory_lock(2), pg_advisory_lock(3)");
    let begin = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            waiter.run("SELECT pg_advisory_xact_lock(1), pg_advisory_xact_lock(2), pg_advisory_xact_lock(3)")
        });
        for lock in 1..=3 {
            // Two of them longer than the deadlock timer, one shorter.
            thread::sleep(Duration::from_millis(if lock == 2 { 40 } else { 250 }));
            holder.run(&format!("SELECT pg_advisory_unlock({lock})"));
        }
    });
    let longest = begin.elapsed().as_secs_f64();
    waiter.wait_until_idle();
    let recorded = recorder.stop();
    let session = recorded.session(pid);
    let waits = session.latencies.kind("wait").name("Lock:advisory");
    assert_eq!(waits.count(), 3, "{}", session.ledger());
    assert_between(
        "three waits, s",
        waits.sum_ns() as f64 / 1e9,
        0.54,
        longest,
        0.0,
        0.05,
    );
}

#[test]
fn syncs_of_the_log_are_as_many_as_the_server_counts() {
    needs_recording!();
    let cluster = distribution().start(
        Options::default()
            .set("fsync", "on")
            .set("synchronous_commit", "on")
            .set("autovacuum", "off")
            .set("wal_writer_delay", "10s"),
    );
    let mut session = Session::connect(&cluster);
    session.run("CREATE TABLE t (id int)");
    let syncs = |session: &mut Session| -> u64 {
        // The session reports its statistics now, and not some time later.
        session.run("SELECT pg_stat_force_next_flush()");
        let syncs = cluster
            .psql("SELECT wal_sync FROM pg_stat_wal")
            .expect("it works");
        syncs.parse().expect("a number")
    };
    let pid = session.pid();
    let recorder = Recorder::server(&cluster, &["--exact=calls"]);
    thread::sleep(Duration::from_millis(100));
    let before = syncs(&mut session);
    session.run("DO $$ BEGIN FOR i IN 1..200 LOOP INSERT INTO t VALUES (i); COMMIT; END LOOP; END $$");
    let after = syncs(&mut session);
    session.wait_until_idle();
    let recorded = recorder.stop();
    let session = recorded.session(pid);
    let waits = session.latencies.kind("wait").name("IO:WALSync").count();
    say(&format!("{waits} waits, {} syncs", after - before));
    assert!(after - before >= 200, "{before} … {after}");
    // Other processes may sync too, rarely.
    assert_between(
        "IO:WALSync",
        waits as f64,
        (after - before) as f64 - 3.0,
        (after - before) as f64,
        0.0,
        0.5,
    );
}

#[test]
fn transactions_and_requests_are_as_many_as_the_client_made() {
    needs_recording!();
    let cluster = distribution().start(Options::default().set("autovacuum", "off"));
    const CLIENTS: usize = 3;
    const OF_EACH: u64 = 8_000;
    let mut sessions: [Session; CLIENTS] = std::array::from_fn(|_| Session::connect(&cluster));
    let recorder = Recorder::server(&cluster, &["--exact=calls"]);
    thread::scope(|scope| {
        for session in &mut sessions {
            scope.spawn(|| {
                for _ in 0..OF_EACH {
                    session.run("SELECT 1");
                }
                session.wait_until_idle();
            });
        }
    });
    let recorded = recorder.stop();
    let clients = sessions.each_ref().map(|session| recorded.session(session.pid()));
    for client in &clients {
        assert_eq!(client.counter("transactions"), OF_EACH);
    }
    let requests: u64 = clients
        .iter()
        .map(|client| client.latencies.kind("wait").name("Client:ClientRead").count())
        .sum();
    say(&format!("{requests} waits for the client"));
    // One statement is a transaction and a request. Where the next one was there at once, nobody waited for it; a session of
    // this load sleeps for nothing else.
    let sleeps: u64 = clients
        .iter()
        .map(|client| client.latencies.kind("syscall").name("epoll_wait").count())
        .sum();
    assert_between(
        "requests",
        requests as f64,
        // Each of the three may be in one when it is taken up, and when recording ends. A session that loses its CPU in a wait
        // which finds the next command at once is seen in it, too: of 23,000 2 to 86, by what else the machine does. A wait that
        // was counted in pieces would count twice.
        sleeps as f64 - 3.0,
        sleeps as f64 * 1.05 + 3.0,
        0.0,
        0.5,
    );
    let by = |what: &str| recorded.text(&["--latency", "--kind", what, "--name", "ClientRead"]);
    assert!(by("wait").contains("Client:ClientRead"), "{}", by("wait"));
}

#[test]
fn what_clients_wait_for_is_db_time_where_the_cpus_are_saturated() {
    needs_recording!();
    let cluster = distribution().start(
        Options::default()
            .set("autovacuum", "off")
            .set("jit", "off")
            .set("max_parallel_workers_per_gather", "0"),
    );
    let script = cluster.home().join("cpu.sql");
    std::fs::write(&script, "SELECT sum(i * i) FROM generate_series(1, 40000) i;\n")
        .expect("a file of our own");
    let script = script.to_str().expect("a plain path");
    let recorder = Recorder::server(&cluster, &[]);
    // With --progress pgbench measures each latency, which it works out from the throughput otherwise.
    let output = pgbench::run(
        &cluster,
        &[
            "--no-vacuum",
            "--client=12",
            "--jobs=1",
            "--time=6",
            "--progress=100",
            "--file",
            script,
        ],
    );
    let recorded = recorder.stop();
    let transactions = pgbench::transactions(&output);
    let latency_s = transactions * pgbench::printed(&output, "latency average") / 1e3;
    let report = recorded.report(&[]);
    let db_time_s = report.db_time_ns as f64 / 1e9;
    let row = report
        .row("Client", "ClientRead (no CPU)")
        .expect("commands had to wait for a CPU");
    assert_eq!(row.total_ns, row.runnable_ns);
    let without_it_s = db_time_s - row.total_ns as f64 / 1e9;
    say(&format!(
        "latencies of all transactions {latency_s:.2} s; DB time {db_time_s:.2} s, {without_it_s:.2} s without commands that \
         waited for a CPU"
    ));
    // Beyond DB time clients see their own CPU and run queue: pgbench handles the answers for all twelve on the same CPUs (7 to 11 % seen).
    // Connecting is DB time and no transaction.
    assert_close(
        "DB time against the clients' latencies, s",
        db_time_s,
        latency_s,
        0.15,
        0.0,
    );
    assert!((db_time_s - latency_s).abs() < (without_it_s - latency_s).abs());
    let text = recorded.text(&[]);
    let first: Vec<&str> = text.lines().take(8).collect();
    assert!(
        first
            .iter()
            .any(|line| line.contains("CPUs saturated: ") && line.contains("after a command came")),
        "{text}"
    );
}
