//! Servers, sessions and the recorder itself come and go while it records.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use dbtime::throwaway::{Options, Shutdown};
use dbtime_model::State;
use dbtime_tests::{Recorded, Recorder, Running, Session, dbtime, distribution, needs_recording, pgbench};

const SECOND: Duration = Duration::from_secs(1);

#[track_caller]
fn assert_noted(recorded: &Recorded) {
    let notes = &recorded.meta.notes;
    assert!(
        notes.iter().any(|note| note.text.contains("server")),
        "nothing noted about the server: {notes:?}"
    );
    assert!(
        recorded.text(&[]).contains(&notes[0].text),
        "the report does not show its notes"
    );
}

fn the_recording_survives_the_end_of_its_server(how: Shutdown) {
    let mut cluster = distribution().start(Options::default());
    let mut session = Session::connect(&cluster);
    let pid = session.pid();
    let recorder = Recorder::server(&cluster, &["-d", "4"]);
    let sleeper = std::thread::spawn(move || session.try_run("SELECT pg_sleep(600)"));
    std::thread::sleep(2 * SECOND);
    cluster.stop(how).expect("it ran");
    assert!(sleeper.join().expect("no panic").is_err(), "its server ended");
    let recorded = recorder.finish();
    assert_noted(&recorded);
    assert!(recorded.meta.complete, "the recorder ended in an orderly way");
    let slept = recorded.session(pid).ns(Some("Timeout:PgSleep"), &State::ALL) as f64 / 1e9;
    assert!(
        (1.8..2.5).contains(&slept),
        "it slept 2 s until its server ended, recorded are {slept:.2} s"
    );
}

#[test]
fn a_server_that_is_stopped_is_noted_and_what_was_recorded_is_kept() {
    needs_recording!();
    the_recording_survives_the_end_of_its_server(Shutdown::Fast);
}

#[test]
fn a_server_that_is_killed_is_noted_and_what_was_recorded_is_kept() {
    needs_recording!();
    the_recording_survives_the_end_of_its_server(Shutdown::Kill);
}

#[test]
fn a_restarted_server_is_followed() {
    needs_recording!();
    let mut cluster = distribution().start(Options::default());
    let first = Session::connect(&cluster);
    let first_pid = first.pid();
    let recorder = Recorder::server(&cluster, &[]);
    std::thread::sleep(SECOND / 2);
    cluster.stop(Shutdown::Fast).expect("it ran");
    cluster.launch().expect("it starts again");
    let mut second = Session::connect(&cluster);
    let second_pid = second.pid();
    second.run("SELECT pg_sleep(2)");
    let recorded = recorder.stop();
    assert_noted(&recorded);
    assert!(!notes_recovery(&recorded), "nothing has crashed");
    assert!(recorded.session(first_pid).share_of_wait("Client:ClientRead") > 0.9);
    let slept = recorded
        .session(second_pid)
        .ns(Some("Timeout:PgSleep"), &State::ALL) as f64
        / 1e9;
    assert!(
        (1.0..2.1).contains(&slept),
        "the second life's session slept 2 s, recorded are {slept:.2} s"
    );
}

fn notes_recovery(recorded: &Recorded) -> bool {
    let mut notes = recorded.meta.notes.iter();
    notes.any(|note| note.text.contains("recovers from a crash"))
}

#[test]
fn a_crash_from_which_the_server_recovers_is_noted() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    // So that there is something to replay, for about a second.
    pgbench::initialise(&cluster, 15);
    let session = Session::connect(&cluster);
    let recorder = Recorder::server(&cluster, &[]);
    std::thread::sleep(2 * SECOND);
    // SAFETY: a signal to a process of this test's server.
    let killed = unsafe { libc::kill(session.pid().cast_signed(), libc::SIGKILL) };
    assert_eq!(killed, 0);
    let begin = Instant::now();
    let has_crashed = || cluster.log_tail().contains("reinitializing");
    while !has_crashed() || cluster.psql("SELECT 1").is_err() {
        assert!(begin.elapsed() < 30 * SECOND, "{}", cluster.log_tail());
        std::thread::sleep(SECOND / 10);
    }
    std::thread::sleep(SECOND / 2);
    let recorded = recorder.stop();
    assert!(notes_recovery(&recorded), "{:?}", recorded.meta.notes);
    assert!(recorded.text(&[]).contains("recovers from a crash"));
}

#[test]
fn a_killed_recorder_leaves_a_recording_up_to_its_last_segment() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let session = Session::connect(&cluster);
    let recorder = Recorder::server(&cluster, &[]);
    let second_segment = recorder.path().join("activity/000002.parquet");
    let give_up = Instant::now() + 30 * SECOND;
    while !second_segment.exists() {
        assert!(Instant::now() < give_up, "no second segment after 30 s");
        std::thread::sleep(SECOND / 20);
    }
    dbtime(&["compact".as_ref(), recorder.path()])
        .expect_code(1)
        .expect_stderr(&["still being written"]);
    let recorded = recorder.kill();
    assert!(!recorded.meta.complete);
    assert!(recorded.meta.segments.last >= 1);
    assert_eq!(recorded.problems, vec![]);
    assert!(recorded.session(session.pid()).elapsed_ns > SECOND.as_nanos() as u64);
    assert!(!recorded.report(&[]).quality.complete);
    let text = recorded.text(&[]).to_lowercase();
    assert!(
        text.contains("incomplete") || text.contains("not complete"),
        "{text}"
    );

    // Compacted it says the same.
    dbtime(&["compact".as_ref(), recorded.path.as_path()])
        .expect_code(0)
        .expect_stderr(&["compacted"]);
    let files = fs::read_dir(recorded.path.join("activity")).expect("a folder");
    assert_eq!(files.count(), 1);
    assert_eq!(recorded.text(&[]).to_lowercase(), text);
}

#[test]
fn ctrl_c_and_terminate_finish_the_recording() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let session = Session::connect(&cluster);
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let recorder = Recorder::server(&cluster, &[]);
        std::thread::sleep(SECOND);
        let told = Instant::now();
        recorder.signal(signal);
        // A wrapper may pass it on, or the key be held down: that is no wish to lose what was recorded.
        std::thread::sleep(Duration::from_millis(20));
        recorder.signal(signal);
        let recorded = recorder.finish();
        assert!(
            told.elapsed() < 5 * SECOND,
            "it took {:?} to finish",
            told.elapsed()
        );
        assert!(recorded.meta.complete);
        let elapsed = recorded.session(session.pid()).elapsed_ns as f64 / 1e9;
        assert!((0.9..2.0).contains(&elapsed), "recorded are {elapsed} s");
    }
}

#[test]
fn a_recording_ends_by_itself_after_its_duration() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let session = Session::connect(&cluster);
    let recorded = Recorder::server(&cluster, &["-d", "2"]).finish();
    let elapsed = recorded.session(session.pid()).elapsed_ns as f64 / 1e9;
    assert!(
        (1.98..2.1).contains(&elapsed),
        "asked for 2 s, recorded are {elapsed} s"
    );
}

#[test]
fn a_recording_is_for_its_owner_only() {
    needs_recording!();
    fn assert_private(path: &Path) {
        let mode = fs::symlink_metadata(path)
            .expect("it is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o077, 0, "{}: mode {mode:o}", path.display());
        if path.is_dir() {
            for entry in fs::read_dir(path).expect("it is ours") {
                assert_private(&entry.expect("it is ours").path());
            }
        }
    }
    let cluster = distribution().start(Options::default());
    let recorded = Recorder::server(&cluster, &["-d", "1"]).finish();
    assert_private(&recorded.path);
}

/// Each connection lives for 50 ms: five periods at the default rate.
#[test]
fn short_connections_are_all_seen() {
    needs_recording!();
    const LIFE: f64 = 0.05;
    // The server says how long each sleep was: where others want the CPUs, longer than was asked for.
    let cluster = distribution().start(Options::default().set("log_min_duration_statement", "0"));
    let script = cluster.home().join("sleep.sql");
    fs::write(&script, format!("SELECT pg_sleep({LIFE});\n")).expect("a file of our own");
    let script = script.to_str().expect("a plain path");

    let recorder = Recorder::server(&cluster, &[]);
    pgbench::run(
        &cluster,
        &["-n", "-C", "-c", "2", "-j", "1", "-T", "4", "-f", script],
    );
    let recorded = recorder.stop();
    std::thread::sleep(SECOND);
    let connections: f64 = cluster
        .psql("SELECT pg_stat_force_next_flush(); SELECT sessions FROM pg_stat_database WHERE datname = 'postgres'")
        .or_else(|_| cluster.psql("SELECT sessions FROM pg_stat_database WHERE datname = 'postgres'"))
        .expect("it answers")
        .trim()
        .parse()
        .expect("a number");
    let foreground = recorded
        .sessions
        .iter()
        .filter(|session| ["client backend", "unknown"].contains(&session.backend_type.as_str()));
    let seen = foreground.count() as f64;
    assert!(
        connections > 60.0,
        "{connections} connections are too few to judge"
    );
    assert!(
        seen > 0.95 * connections && seen <= connections + 1.0,
        "{seen} of {connections} connections were seen"
    );
    let slept = recorded.clients_ns("Timeout:PgSleep", &State::ALL) as f64 / 1e9;
    let log = fs::read_to_string(cluster.home().join("server.log")).expect("the log of the server");
    let durations = log.lines().filter_map(|line| {
        let (_, line) = line.split_once("duration: ")?;
        let (ms, statement) = line.split_once(" ms")?;
        statement
            .contains("SELECT pg_sleep")
            .then(|| ms.parse::<f64>().expect("milliseconds") / 1e3)
    });
    let truth: f64 = durations.sum();
    assert!(truth > LIFE * (connections - 2.0), "{truth} s are in the log");
    // What is lost is the time before a connection is found: at most a period of its five, and one in 20 may be missed.
    assert!(
        slept > 0.75 * truth && slept < 1.1 * truth,
        "{slept:.2} s recorded, {truth:.2} s slept"
    );
}

#[test]
fn parallel_workers_are_sessions_of_their_leader() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    cluster
        .psql("CREATE TABLE t AS SELECT i FROM generate_series(1, 2000000) i")
        .expect("a table can be made");
    let mut leader = Session::connect(&cluster);
    leader.run(
        "SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
         SET min_parallel_table_scan_size = 0",
    );
    let recorder = Recorder::server(&cluster, &[]);
    // Long enough that their titles can be read, however busy the host is: roots of numerics take a microsecond and more each.
    leader.run("SELECT sum(sqrt(i::numeric)) FROM t");
    let recorded = recorder.stop();
    let workers: Vec<_> = recorded
        .sessions
        .iter()
        .filter(|session| session.backend_type == "parallel worker")
        .collect();
    assert_eq!(workers.len(), 2, "{:#?}", recorded.sessions);
    for worker in workers {
        assert_eq!(worker.leader_pid, leader.pid(), "{worker:?}");
        assert!(
            recorded.session(worker.pid).cpu_ns() > 10_000_000,
            "a worker works"
        );
    }
}

/// The kernel starts the peak memory of a program with that of the process that started it, which is not its own.
#[test]
fn a_recorder_counts_its_own_memory_whoever_started_it() {
    needs_recording!();
    let much = vec![1_u8; 600 << 20];
    let sleeping = Running::start(Path::new("/bin/sleep"), &["60"]);
    let recorder = Recorder::start(&["--process", &sleeping.pid().to_string(), "-d", "2"]);
    assert!(std::hint::black_box(&much).iter().all(|byte| *byte == 1));
    let memory = recorder.finish().meta.cost.max_rss_bytes;
    assert!((5 << 20..300 << 20).contains(&memory), "{memory} bytes");
}

#[test]
fn one_session_can_be_recorded_alone() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let mut wanted = Session::connect(&cluster);
    let _other = Session::connect(&cluster);
    let pid = wanted.pid();
    let recorder = Recorder::start(&["-p", &pid.to_string()]);
    wanted.run("SELECT pg_sleep(1)");
    let recorded = recorder.stop();
    let pids: Vec<u32> = recorded.sessions.iter().map(|session| session.pid).collect();
    assert_eq!(pids, [pid]);
    let slept = recorded.session(pid).ns(Some("Timeout:PgSleep"), &State::ALL) as f64 / 1e9;
    // Beside other tests passes are late, each by one or more hundredths of a second.
    assert!(
        (0.9..1.1).contains(&slept),
        "it slept 1 s, recorded are {slept:.3} s"
    );
}

#[test]
fn the_end_of_the_only_session_ends_its_recording() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let session = Session::connect(&cluster);
    let recorder = Recorder::start(&["-p", &session.pid().to_string(), "-d", "20"]);
    std::thread::sleep(SECOND);
    let truth = session.end();
    let ended = Instant::now();
    let recorded = recorder.finish();
    assert!(
        ended.elapsed() < 5 * SECOND,
        "nothing was left to record, but it took {:?}",
        ended.elapsed()
    );
    assert_eq!(recorded.sessions.len(), 1);
    assert!(recorded.session(truth.pid).elapsed_ns as f64 > 0.9e9);
}
