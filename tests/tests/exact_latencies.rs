//! Single events of the exact tier against the kernel's and the client's own count of them: how many calls, how many bytes,
//! how long.

use std::time::Duration;

use dbtime::throwaway::{Cluster, Options, page_cache};
use dbtime_model::State;
use dbtime_tests::{
    BLOCK_BYTES, Io, Recorded, Recorder, Session, SessionTime, TableOfBlocks, assert_between, assert_close,
    assert_seen, distribution, io, needs_recording, say,
};

/// The calls that the kernel counts as reads (`syscr` of /proc/PID/io).
const READ_CALLS: [&str; 5] = ["read", "pread64", "readv", "preadv", "preadv2"];
/// Blocks of the table: sixteen times the shared buffers.
const BLOCKS: u64 = 6400;

fn cluster() -> Cluster {
    distribution().start(
        Options::default()
            .set("shared_buffers", "3MB")
            .set("autovacuum", "off")
            .set("max_parallel_workers_per_gather", "0"),
    )
}

/// Nanoseconds by which the end of an interval may differ from what was reported while it was still open.
const SETTLED_LATER: f64 = 20.0;

/// The sampler, which looks once a second, may itself keep a session in the run queue; what it sees of that counts as the session's time
/// even if the kernel counts less in the end.
const QUEUE_LOOKED_AT: f64 = 100_000.0;

/// What the kernel says a session read while it was recorded: it is idle at both ends, so not one event lies outside.
fn recorded_between_idle_moments(
    cluster: &Cluster,
    level: &str,
    work: impl FnOnce(&mut Session),
) -> (Recorded, SessionTime, Io) {
    let mut session = Session::connect(cluster);
    let pid = session.pid();
    let recorder = Recorder::server(cluster, &[level]);
    // Its account begins when the sampler first sees it.
    std::thread::sleep(Duration::from_millis(100));
    session.wait_until_idle();
    let before = io(pid);
    work(&mut session);
    session.wait_until_idle();
    let after = io(pid);
    let recorded = recorder.stop();
    let time = recorded.session(pid);
    let read = Io {
        rchar: after.rchar - before.rchar,
        syscr: after.syscr - before.syscr,
        read_bytes: after.read_bytes - before.read_bytes,
    };
    (recorded, time, read)
}

/// Bytes that the kernel reads ahead at once at most, as devices are set by default, doubled.
const LARGEST_REQUEST: u64 = 1 << 20;

#[test]
fn calls_bytes_and_block_reads_are_the_kernels() {
    needs_recording!();
    let cluster = cluster();
    let table = TableOfBlocks::create(&cluster, "wide", BLOCKS);
    page_cache::evict(&table.files).expect("its own files");
    let (recorded, session, kernel) = recorded_between_idle_moments(&cluster, "--exact=calls", |session| {
        session.run("SELECT count(*) FROM wide"); // with the kernel's readahead
        session.run(&table.read_singly(1000)); // without
    });
    let latencies = &session.latencies;
    say(&format!("{kernel:?}"));
    let calls = latencies
        .kind("syscall")
        .only(|row| READ_CALLS.contains(&&*row.name));
    assert_eq!(
        calls.count(),
        kernel.syscr,
        "read calls\n{}",
        calls.by(|row| row.name.to_string())
    );
    assert_eq!(
        latencies.kind("read").bytes(),
        kernel.rchar,
        "bytes that reads returned"
    );
    // Whose they are and whether any were lost, should some be missing.
    say(&format!("{} events lost", recorded.meta.quality.lost));
    say(&recorded.text(&["--latency", "--kind", "block", "--by", "session,io_size"]));
    assert_seen(
        "bytes asked of devices",
        latencies.kind("block").name("read").bytes(),
        kernel.read_bytes,
        LARGEST_REQUEST,
    );
    assert!(
        kernel.rchar >= BLOCKS * BLOCK_BYTES && kernel.read_bytes >= BLOCKS * BLOCK_BYTES,
        "the load did read: {kernel:?}"
    );
}

/// Asserts that waits that have ended are the same as single events and as time of the session.
fn waits_add_up(level: &str) {
    let cluster = cluster();
    let table = TableOfBlocks::create(&cluster, "wide", BLOCKS);
    page_cache::evict(&table.files).expect("its own files");
    let (_recorded, session, _) = recorded_between_idle_moments(&cluster, level, |session| {
        session.run("SELECT pg_sleep(0.005) FROM generate_series(1, 50)");
        session.run(&table.read_singly(1000));
        session.run("DO $$ BEGIN FOR i IN 1..300 LOOP PERFORM pg_sleep(0.0001); END LOOP; END $$");
    });
    let asleep = [State::Sleep, State::Disk, State::Stopped];
    let in_call = [State::Kernel, State::Sleep, State::Disk, State::Stopped];
    for wait in ["Timeout:PgSleep", "IO:DataFileRead"] {
        // With calls, a wait may make several: the ledger counts these one by one, and each is an event of its own.
        let kind = if level == "--exact=calls" {
            "wait_call"
        } else {
            "wait"
        };
        let single = session.latencies.kind(kind).name(wait);
        assert_eq!(
            single.count(),
            session.latencies.kind("wait").name(wait).count(),
            "{level}: {wait}"
        );
        let ns = |states| session.ns(Some(wait), states);
        // Beyond: user code between two calls of the same wait, and the run queue when it is pushed off its CPU there.
        let (times, least, most) = match level {
            "--exact=calls" => (
                session.count(wait, &[State::Kernel]),
                ns(&in_call),
                ns(&State::ALL),
            ),
            _ => (
                session.count(wait, &asleep),
                ns(&asleep),
                ns(&asleep) + ns(&[State::Runnable]),
            ),
        };
        assert_eq!(single.count(), times, "{level}: {wait}\n{}", session.ledger());
        assert_between(
            &format!("{level}: {wait}, ns\n{}\n", session.ledger()),
            single.sum_ns() as f64,
            least as f64,
            most as f64,
            0.0,
            SETTLED_LATER * times as f64,
        );
    }
    let queued = session.ns(None, &[State::Runnable]);
    let single = session.latencies.kind("sched").sum_ns();
    say(&format!(
        "{level}: run queue {queued} ns, sum of its stays {single} ns"
    ));
    assert_close(
        &format!("{level}: run queue, ns\n{}\n", session.ledger()),
        single as f64,
        queued as f64,
        0.001,
        QUEUE_LOOKED_AT,
    );
}

#[test]
fn waits_add_up_to_the_sessions_time_where_calls_are_traced() {
    needs_recording!();
    waits_add_up("--exact=calls");
}

#[test]
fn waits_add_up_to_the_sessions_time_where_switches_are_traced() {
    needs_recording!();
    waits_add_up("--exact=switch");
}

#[test]
fn a_sleep_lasts_as_long_as_its_own_clock_says() {
    needs_recording!();
    let cluster = cluster();
    for level in ["--exact=calls", "--exact=switch"] {
        let mut measured = String::new();
        let (_recorded, session, _) = recorded_between_idle_moments(&cluster, level, |session| {
            session.run(
                "CREATE TEMP TABLE slept AS SELECT extract(epoch FROM after - before)::float8 AS seconds FROM (
                     SELECT clock_timestamp() AS before, pg_sleep(0.02), clock_timestamp() AS after
                     FROM generate_series(1, 100) OFFSET 0) s",
            );
            measured = session.ask("SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) || ' ' || sum(seconds) FROM slept");
        });
        let mut truth = measured
            .split(' ')
            .map(|number| number.parse::<f64>().expect("a number"));
        let (median, sum) = (
            truth.next().expect("two numbers"),
            truth.next().expect("two numbers"),
        );
        let sleeps = session.latencies.kind("wait").name("Timeout:PgSleep");
        say(&format!(
            "{level}: {} sleeps, p50 {:.6} s (clock {median:.6}), sum {:.6} s (clock {sum:.6}), cells {:.6} s",
            sleeps.count(),
            sleeps.quantile(0.5) / 1e9,
            sleeps.sum_ns() as f64 / 1e9,
            session.ns(Some("Timeout:PgSleep"), &State::ALL) as f64 / 1e9
        ));
        assert_eq!(sleeps.count(), 100, "{level}\n{}", session.ledger());
        assert_close(
            &format!("{level}: p50, s"),
            sleeps.quantile(0.5) / 1e9,
            median,
            0.01,
            0.0,
        );
        // Between its clock and the system call it runs, or waits for a CPU; what of that was inside of the wait is not
        // exact where only switches are traced.
        let around = session.cpu_ns() + session.ns(Some("CPU"), &[State::Runnable]);
        let around = around as f64 / 1e9;
        assert_between(
            &format!("{level}: sum, s"),
            sleeps.sum_ns() as f64 / 1e9,
            sum - around,
            sum,
            0.001,
            0.0,
        );
    }
}
