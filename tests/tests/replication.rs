//! What commits wait for when they wait for a standby: causes that the test makes, and what the servers themselves say of them.

use std::time::{Duration, Instant};

use dbtime::throwaway::Options;
use dbtime_tests::{
    Over, Part, Recorded, Recorder, Replicated, Session, SlowDisk, Stopped, assert_between, assert_close,
    builds, causes, distribution, needs_recording, parts, sampling_error, say,
};

const CALLS: &str = "--exact=calls";
const RATE_HZ: f64 = 99.0;
/// The wait event of commits that wait for a standby.
const SYNC_REP: &str = "IPC:SyncRep";

/// Seconds in which commits waited for the standby: in all, and in parts for which this is true.
fn led(found: &[Part], is: impl Fn(&Part) -> bool) -> (f64, f64) {
    let of_standby = found.iter().filter(|part| part.wait == SYNC_REP);
    of_standby.fold((0.0, 0.0), |(all, of), part| {
        (all + part.seconds, if is(part) { of + part.seconds } else { of })
    })
}

fn recorder(servers: &Replicated, tier: &[&str]) -> Recorder {
    let standby = servers
        .standby
        .data_dir()
        .to_str()
        .expect("a plain path")
        .to_string();
    Recorder::server(
        &servers.primary,
        &[&["--standby", standby.as_str()], tier].concat(),
    )
}

fn found(recorded: &Recorded) -> Vec<Part> {
    parts(&causes(recorded))
}

fn start(of_primary: Options, of_standby: Options) -> Option<Replicated> {
    Replicated::start(&distribution(), Over::Wire, of_primary, of_standby)
}

/// Commits, one after the other, by the client's clock, and what the primary says of each when it has ended: how long it took from the
/// flush there until it heard that the standby had written it, and had flushed it (`pg_stat_replication`). Seconds, all together. It
/// does not say it of every commit, and sometimes says what was true of the one before.
struct Commits {
    commits: u32,
    /// How many of them it said something about.
    told: u32,
    /// By the client's clock: each is at most as long.
    seconds: f64,
    write: f64,
    /// From when it was written until it was flushed, of those of which it said something.
    flush_after_write: f64,
}

fn commit(session: &mut Session, witness: &mut Session, length: Duration) -> Commits {
    let begin = Instant::now();
    let mut of = Commits {
        commits: 0,
        told: 0,
        seconds: 0.0,
        write: 0.0,
        flush_after_write: 0.0,
    };
    while begin.elapsed() < length {
        let from = Instant::now();
        session.run("INSERT INTO t VALUES (1)");
        let seconds = from.elapsed().as_secs_f64();
        of.commits += 1;
        of.seconds += seconds;
        let said = witness.ask(
            "SELECT concat_ws(' ', extract(epoch FROM write_lag), extract(epoch FROM flush_lag)) FROM pg_stat_replication",
        );
        let lags: Vec<f64> = said.split(' ').filter_map(|word| word.parse().ok()).collect();
        if let [write, flush] = lags[..] {
            of.told += 1;
            of.write += write;
            of.flush_after_write += (flush - write).min(seconds);
        }
    }
    of
}

fn client(servers: &Replicated) -> Session {
    let mut session = Session::connect(&servers.primary);
    session.run("CREATE TABLE IF NOT EXISTS t (a int)");
    session.run("INSERT INTO t VALUES (0)");
    session
}

/// Both tiers, of one run.
fn recorders(servers: &Replicated) -> [Recorder; 2] {
    [&[][..], &[CALLS]].map(|tier| recorder(servers, tier))
}

#[test]
fn a_slow_network_is_named_and_where_nothing_is_slow_nothing_is_invented() {
    needs_recording!();
    let Some(servers) = start(Options::default(), Options::default()) else {
        return;
    };
    let (mut session, mut witness) = (client(&servers), Session::connect(&servers.primary));
    assert_nothing_is_invented(&servers, &mut session, &mut witness);
    servers.wire.delay(Duration::from_millis(20));
    let recorders = recorders(&servers);
    let without_standby = Recorder::server(&servers.primary, &[]);
    let commits = commit(&mut session, &mut witness, Duration::from_secs(5));
    assert_elsewhere(&without_standby.stop());
    // There and back. The thread that passes packets on may be late, and the standby may have to wait for a CPU.
    let least = f64::from(commits.commits) * 0.040;
    let most = commits.seconds;
    for recorder in recorders {
        let recorded = recorder.stop();
        let text = recorded.text(&["--causes"]);
        let (all, of_network) = led(&found(&recorded), |part| {
            part.kind == "network" && part.backend_type == "walreceiver"
        });
        say(&format!(
            "{}: {of_network:.3} of {all:.3} s on the network; {} commits of 40 ms are {least:.3} s, by the client {most:.3} s; the server's write_lag {:.3} s ({} told)",
            recorded.meta.collector.tier, commits.commits, commits.write, commits.told
        ));
        let error = sampling_error(least, all.max(least), RATE_HZ) + recorded.stolen;
        assert!(of_network > least - error, "{text}");
        assert!(of_network < most + error, "{text}");
        assert!(of_network > 0.9 * all, "{text}");
        assert!(text.contains("on the network"), "{text}");
    }
}

/// Before anything is slow.
fn assert_nothing_is_invented(servers: &Replicated, session: &mut Session, witness: &mut Session) {
    let recorder = recorder(servers, &[]);
    let commits = commit(session, witness, Duration::from_secs(5));
    let recorded = recorder.stop();
    let found = found(&recorded);
    let (all, blocked) = led(&found, |part| {
        !["session", "network"].contains(&part.kind.as_str())
    });
    let (_, of_network) = led(&found, |part| part.kind == "network");
    say(&format!(
        "{} commits, {all:.3} s for the standby, {of_network:.3} s on the network, {blocked:.3} s blocked or not known; by the client {:.3} s",
        commits.commits, commits.seconds
    ));
    assert!(commits.commits > 1_000, "{}", commits.commits);
    assert!(blocked < 0.1 * all + 0.1, "{}", recorded.text(&["--causes"]));
    recorded.session(session.pid()).assert_conserved();
}

/// A standby that is not recorded is on another host.
fn assert_elsewhere(recorded: &Recorded) {
    let text = recorded.text(&["--causes"]);
    let (all, elsewhere) = led(&found(recorded), |part| {
        part.kind == "other_host" && part.backend_type == "walsender"
    });
    say(&format!("{elsewhere:.3} of {all:.3} s on another host"));
    assert!(all > 2.0 && elsewhere > 0.95 * all, "{text}");
    assert!(text.contains("on another host or the network"), "{text}");
}

#[test]
fn a_slow_disk_of_the_standby_is_named() {
    needs_recording!();
    // A flush is two requests, each a tenth of a second after the one before.
    let Some(disk) = SlowDisk::mount(400, 10) else {
        return;
    };
    let of_standby = Options {
        parent_dir: Some(disk.path()),
        ..Options::default()
    };
    let Some(servers) = start(Options::default(), of_standby.set("fsync", "on")) else {
        return;
    };
    let mut session = client(&servers);
    disk.slow_down(servers.process("walreceiver"));
    let recorders = recorders(&servers);
    let commits = commit(
        &mut session,
        &mut Session::connect(&servers.primary),
        Duration::from_secs(6),
    );
    let (least, most) = (commits.flush_after_write, commits.seconds);
    for recorder in recorders {
        let recorded = recorder.stop();
        let text = recorded.text(&["--causes"]);
        let found = found(&recorded);
        let (all, in_flush) = led(&found, |part| {
            part.backend_type == "walreceiver" && part.root_wait == "IO:WALSync"
        });
        let (_, on_device) = led(&found, |part| {
            part.kind == "device" && part.backend_type == "walreceiver" && part.root_wait == "IO:WALSync"
        });
        say(&format!(
            "{}: {in_flush:.3} of {all:.3} s in the standby's flush, {on_device:.3} s on its device; the server's flush_lag - write_lag {least:.3} s of {} of {} commits, by the client {most:.3} s",
            recorded.meta.collector.tier, commits.told, commits.commits
        ));
        let error = sampling_error(in_flush, all, RATE_HZ) + recorded.stolen;
        assert_between("in the flush, s", in_flush, least, most, 0.0, error);
        // The rest of a flush is in a run queue.
        assert!(on_device > 0.9 * in_flush && on_device > 0.85 * all, "{text}");
        assert!(text.contains("IO:WALSync, on a device"), "{text}");
    }
    drop(servers);
}

#[test]
fn paused_replay_and_a_stopped_receiver_are_named() {
    needs_recording!();
    for version in builds(&[14, 18]) {
        let on_apply = Options::default().set("synchronous_commit", "remote_apply");
        let Some(servers) = Replicated::start(&version, Over::Wire, on_apply, Options::default()) else {
            return;
        };
        let mut session = client(&servers);
        let mut admin = Session::connect(&servers.standby);
        let mut witness = Session::connect(&servers.primary);
        let recorders = recorders(&servers);
        // It may take a moment to notice.
        let paused = |admin: &mut Session| admin.ask("SELECT pg_get_wal_replay_pause_state()") == "paused";
        admin.ask("SELECT pg_wal_replay_pause()");
        let pause = Duration::from_secs(2);
        let commits = |session: &mut Session| {
            let begin = Instant::now();
            session.run("INSERT INTO t VALUES (1)");
            begin.elapsed().as_secs_f64()
        };
        let in_pause = std::thread::scope(|scope| {
            let waits = scope.spawn(|| commits(&mut session));
            std::thread::sleep(pause);
            assert!(paused(&mut admin), "{}", version.name);
            admin.ask("SELECT pg_wal_replay_resume()");
            waits.join().expect("it does not panic")
        });
        // From its flush here until the primary heard that it was replayed. It may be that of a later record, and then is less.
        let lag =
            witness.ask("SELECT coalesce(max(extract(epoch FROM replay_lag)), 0) FROM pg_stat_replication");
        let replay_lag: f64 = lag.parse().expect("a number");
        std::thread::sleep(Duration::from_millis(100));
        let stopped = Stopped::stop(servers.process("walreceiver"));
        let in_stop = std::thread::scope(|scope| {
            let waits = scope.spawn(|| commits(&mut session));
            std::thread::sleep(pause);
            drop(stopped);
            waits.join().expect("it does not panic")
        });
        for recorder in recorders {
            let recorded = recorder.stop();
            let text = recorded.text(&["--causes"]);
            let found = found(&recorded);
            let (all, of_pause) = led(&found, |part| {
                (
                    part.kind.as_str(),
                    part.backend_type.as_str(),
                    part.root_wait.as_str(),
                ) == ("client", "startup", "IPC:RecoveryPause")
            });
            let (_, of_stop) = led(&found, |part| {
                (
                    part.kind.as_str(),
                    part.backend_type.as_str(),
                    part.state.as_str(),
                ) == ("session", "walreceiver", "stopped")
            });
            say(&format!(
                "{}, {}: {of_pause:.3} s behind the pause ({in_pause:.3} s by the client, replay_lag {replay_lag:.3} s), {of_stop:.3} s behind the one that is stopped ({in_stop:.3} s), of {all:.3} s",
                version.name, recorded.meta.collector.tier
            ));
            // What goes on before and after is short, but on a busy host it waits for a CPU.
            let (_, at_work) = led(&found, |part| part.kind == "session" && part.state != "stopped");
            let error = 0.05 + recorded.stolen;
            let near = |of: f64, truth: f64| of < truth * 1.02 + error && of > truth * 0.98 - error - at_work;
            assert!(near(of_pause, in_pause) && near(of_stop, in_stop), "{text}");
            assert!(of_pause > 0.98 * replay_lag - error - at_work, "{text}");
            assert_close(
                "all of it, s",
                of_pause + of_stop + at_work,
                in_pause + in_stop,
                0.02,
                2.0 * error,
            );
            assert!(
                text.contains("IPC:RecoveryPause, until a client resumes it"),
                "{text}"
            );
            assert!(text.contains("stopped by a signal"), "{text}");
        }
    }
}

#[test]
fn a_commit_that_the_standby_has_waits_for_its_replay_and_not_for_what_it_flushes_for_others() {
    needs_recording!();
    let Some(disk) = SlowDisk::mount(400, 10) else {
        return;
    };
    let of_standby = Options {
        parent_dir: Some(disk.path()),
        ..Options::default()
    };
    let Some(servers) = start(Options::default(), of_standby.set("fsync", "on")) else {
        return;
    };
    let mut waits = client(&servers);
    waits.run("CREATE TABLE replayed (a int)");
    waits.run("SET synchronous_commit = remote_apply");
    let [mut other, mut witness] = std::array::from_fn(|_| Session::connect(&servers.primary));
    let mut admin = Session::connect(&servers.standby);
    disk.slow_down(servers.process("walreceiver"));
    let recorders = recorders(&servers);
    admin.ask("SELECT pg_wal_replay_pause()");
    let begin = Instant::now();
    let length = Duration::from_secs(4);
    // One waits until replay goes on. Others only until what they wrote is flushed, so that the disk is busy all the time.
    let (in_pause, without_it, flushed) = std::thread::scope(|scope| {
        let paused = scope.spawn(|| {
            waits.run("INSERT INTO replayed VALUES (1)");
            begin.elapsed().as_secs_f64()
        });
        let others = scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            let from = Instant::now();
            while begin.elapsed() < length {
                other.run("INSERT INTO t VALUES (1)");
            }
            from.elapsed().as_secs_f64()
        });
        // By the primary's own word it has what the first one wrote.
        std::thread::sleep(Duration::from_millis(50));
        let position = witness.ask("SELECT pg_current_wal_insert_lsn()");
        let has =
            format!("SELECT coalesce(bool_and(flush_lsn >= '{position}'), false) FROM pg_stat_replication");
        while witness.ask(&has) != "t" {
            std::thread::sleep(Duration::from_millis(10));
        }
        let without_it = begin.elapsed().as_secs_f64();
        let flushed = others.join().expect("it does not panic");
        admin.ask("SELECT pg_wal_replay_resume()");
        (paused.join().expect("it does not panic"), without_it, flushed)
    });
    for recorder in recorders {
        let recorded = recorder.stop();
        let text = recorded.text(&["--causes"]);
        let found = found(&recorded);
        let of = |table: &str, is: &dyn Fn(&Part) -> bool| -> f64 {
            let of_table = found
                .iter()
                .filter(|part| part.wait == SYNC_REP && part.text.to_lowercase().contains(table));
            of_table.filter(|part| is(part)).map(|part| part.seconds).sum()
        };
        let behind_pause = of("into replayed", &|part| part.root_wait == "IPC:RecoveryPause");
        let behind_flush = of("into t ", &|part| {
            part.backend_type == "walreceiver" && part.root_wait == "IO:WALSync"
        });
        let of_others = of("into t ", &|_| true);
        say(&format!(
            "{}: {behind_pause:.3} s behind the pause, {in_pause:.3} s by the client, {without_it:.3} s until the standby had it; of {of_others:.3} s of others {behind_flush:.3} s behind its disk, {flushed:.3} s by the client",
            recorded.meta.collector.tier
        ));
        // How far the standby has come is looked up when the walsender is sampled anew: at each of its answers.
        let error = 0.3 + recorded.stolen;
        assert!(behind_pause < in_pause + 0.05, "{text}");
        assert!(behind_pause > 0.9 * (in_pause - without_it) - error, "{text}");
        assert!(
            behind_flush > 0.8 * of_others && of_others > 0.8 * flushed,
            "{text}"
        );
    }
    drop((waits, other, witness, admin, servers));
}

#[test]
fn a_standby_that_is_restarted_is_followed_again() {
    needs_recording!();
    let Some(mut servers) = start(Options::default(), Options::default()) else {
        return;
    };
    let mut session = client(&servers);
    let recorder = recorder(&servers, &[]);
    let before = servers.process("walreceiver");
    servers.restart_standby();
    // The recorder looks for it once a second, and then for the other end of its connection.
    std::thread::sleep(Duration::from_millis(3_500));
    let after = servers.process("walreceiver");
    assert_ne!(before, after);
    let stopped = Stopped::stop(after);
    let waited = std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let begin = Instant::now();
            session.run("INSERT INTO t VALUES (1)");
            begin.elapsed().as_secs_f64()
        });
        std::thread::sleep(Duration::from_secs(2));
        drop(stopped);
        waits.join().expect("it does not panic")
    });
    let recorded = recorder.stop();
    let (all, of_stop) = led(&found(&recorded), |part| {
        part.pid == after && (part.kind.as_str(), part.state.as_str()) == ("session", "stopped")
    });
    say(&format!(
        "{of_stop:.3} of {all:.3} s behind the one that is stopped, {waited:.3} s by the client"
    ));
    let error = 0.05 + recorded.stolen;
    assert!(
        of_stop > 0.95 * waited - error && of_stop < waited + error,
        "{}",
        recorded.text(&["--causes"])
    );
}

#[test]
fn a_standby_beside_it_is_found_over_tcp_and_over_a_socket() {
    needs_recording!();
    for over in [Over::Loopback, Over::Socket] {
        let Some(servers) = Replicated::start(&distribution(), over, Options::default(), Options::default())
        else {
            return;
        };
        let mut session = client(&servers);
        let recorders = [recorder(&servers, &[]), Recorder::server(&servers.primary, &[])];
        let stopped = Stopped::stop(servers.process("walreceiver"));
        std::thread::scope(|scope| {
            scope.spawn(|| session.run("INSERT INTO t VALUES (1)"));
            std::thread::sleep(Duration::from_secs(2));
            drop(stopped);
        });
        let [with, without] = recorders.map(Recorder::stop);
        let (all, of_receiver) = led(&found(&with), |part| {
            (part.kind.as_str(), part.backend_type.as_str()) == ("session", "walreceiver")
        });
        say(&format!(
            "{over:?}: {of_receiver:.3} of {all:.3} s for the one that is stopped"
        ));
        assert!(
            all > 1.8 && of_receiver > 0.95 * all,
            "{over:?}\n{}",
            with.text(&["--causes"])
        );
        let (all, of_process) = led(&found(&without), |part| {
            (part.kind.as_str(), part.backend_type.as_str()) == ("process", "walsender")
        });
        say(&format!(
            "{over:?}, not recorded: {of_process:.3} of {all:.3} s for another process"
        ));
        assert!(
            all > 1.8 && of_process > 0.95 * all,
            "{over:?}\n{}",
            without.text(&["--causes"])
        );
    }
}
