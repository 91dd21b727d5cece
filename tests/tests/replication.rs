//! What commits wait for that wait for a standby: causes that the test makes, and what the servers themselves say of them.

use std::time::{Duration, Instant};

use dbtime::throwaway::Options;
use dbtime_tests::{
    Over, Part, Recorded, Recorder, Replicated, Session, SlowDisk, Stopped, assert_close, builds, causes,
    distribution, needs_recording, parts, sampling_error, say,
};

const CALLS: &str = "--exact=calls";
const RATE_HZ: f64 = 99.0;
/// For which a commit waits.
const SYNC_REP: &str = "IPC:SyncRep";

/// Seconds in which commits waited for the standby, by where that led: all of it, and that of which this is true.
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

/// What the primary says of its standby while something runs: how long what was committed took until it was written, flushed and
/// replayed there. Not every commit is timed, and some of these are of what was sent between two commits: the median is that of a
/// commit. Seconds.
struct Lags {
    times: usize,
    write: f64,
    flush: f64,
}

fn lags_while<T: Send>(servers: &Replicated, run: impl FnOnce() -> T + Send) -> (Lags, T) {
    let mut witness = Session::connect(&servers.primary);
    std::thread::scope(|scope| {
        let runs = scope.spawn(run);
        let (mut write, mut flush) = (Vec::new(), Vec::new());
        let mut last = String::new();
        while !runs.is_finished() {
            let said = witness.ask(
                "SELECT concat_ws(' ', flush_lsn, extract(epoch FROM write_lag), extract(epoch FROM flush_lag))
                 FROM pg_stat_replication",
            );
            let lag = |place: usize| {
                said.split(' ')
                    .nth(place)
                    .and_then(|word| word.parse::<f64>().ok())
            };
            // There is none while nothing is sent.
            if let (true, Some(of_write), Some(of_flush)) = (said != last, lag(1), lag(2)) {
                write.push(of_write);
                flush.push(of_flush);
            }
            last = said;
            std::thread::sleep(Duration::from_millis(2));
        }
        let lags = Lags {
            times: write.len(),
            write: median(write),
            flush: median(flush),
        };
        (lags, runs.join().expect("it does not panic"))
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Commits one row after the other for so long: how many.
fn commit(session: &mut Session, length: Duration) -> u32 {
    let begin = Instant::now();
    let mut commits = 0;
    while begin.elapsed() < length {
        session.run("INSERT INTO t VALUES (1)");
        commits += 1;
    }
    commits
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
fn a_slow_network_is_named() {
    needs_recording!();
    let Some(servers) = start(Options::default(), Options::default()) else {
        return;
    };
    let mut session = client(&servers);
    servers.wire.delay(Duration::from_millis(20));
    let recorders = recorders(&servers);
    let (lags, commits) = lags_while(&servers, || commit(&mut session, Duration::from_secs(5)));
    let of_commits = |seconds: f64| f64::from(commits) * seconds;
    // There and back. Who hands the packets on may be late, and the standby be behind others for a CPU: that is in the server's own
    // word, from the flush here until it heard of the write there.
    let (least, most) = (of_commits(0.040), of_commits(lags.write.max(0.040)));
    for recorder in recorders {
        let recorded = recorder.stop();
        let text = recorded.text(&["--causes"]);
        let (all, of_network) = led(&found(&recorded), |part| {
            part.kind == "network" && part.backend_type == "walreceiver"
        });
        say(&format!(
            "{}: {of_network:.3} of {all:.3} s on the network; {commits} commits: {least:.3} s of 40 ms, {most:.3} s of {:.1} ms, the server's write_lag ({} lags)",
            recorded.meta.collector.tier,
            lags.write * 1e3,
            lags.times
        ));
        let error = sampling_error(least, all.max(least), RATE_HZ) + recorded.stolen;
        assert!(of_network > least - error, "{text}");
        assert!(of_network < most + error, "{text}");
        assert!(of_network > 0.9 * all, "{text}");
        assert!(text.contains("on the network"), "{text}");
    }
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
    let (lags, commits) = lags_while(&servers, || commit(&mut session, Duration::from_secs(6)));
    // From when it had written until it had flushed.
    let truth = f64::from(commits) * (lags.flush - lags.write);
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
            "{}: {in_flush:.3} of {all:.3} s in the standby's flush, {on_device:.3} s on its device; {commits} commits are {truth:.3} s of flush_lag - write_lag ({:.1} - {:.1} ms, {} lags)",
            recorded.meta.collector.tier,
            lags.flush * 1e3,
            lags.write * 1e3,
            lags.times
        ));
        let error = sampling_error(truth, all.max(truth), RATE_HZ) + recorded.stolen;
        assert_close("in the flush, s", in_flush, truth, 0.03, error);
        // The rest of a flush is in a run queue.
        assert!(on_device > 0.9 * in_flush && on_device > 0.85 * all, "{text}");
        assert!(text.contains("IO:WALSync, on a device"), "{text}");
    }
    drop(servers);
}

#[test]
fn paused_replay_and_a_stopped_receiver_are_named() {
    needs_recording!();
    let mut versions = builds(&[14, 18]);
    versions.push(distribution());
    for version in versions {
        let on_apply = Options::default().set("synchronous_commit", "remote_apply");
        let Some(servers) = Replicated::start(&version, Over::Wire, on_apply, Options::default()) else {
            return;
        };
        let mut session = client(&servers);
        let mut admin = Session::connect(&servers.standby);
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
                "{}, {}: {of_pause:.3} s behind the pause ({in_pause:.3} s by the client), {of_stop:.3} s behind the one that is stopped ({in_stop:.3} s), of {all:.3} s",
                version.name, recorded.meta.collector.tier
            ));
            let error = 0.05 + recorded.stolen;
            assert_close("behind the pause, s", of_pause, in_pause, 0.02, error);
            assert_close("behind the one that is stopped, s", of_stop, in_stop, 0.02, error);
            assert!(
                text.contains("IPC:RecoveryPause, until a client resumes it"),
                "{text}"
            );
            assert!(text.contains("stopped by a signal"), "{text}");
        }
    }
}

#[test]
fn where_nothing_is_slow_nothing_is_invented() {
    needs_recording!();
    let Some(servers) = start(Options::default(), Options::default()) else {
        return;
    };
    let mut session = client(&servers);
    let recorder = recorder(&servers, &[]);
    let (lags, commits) = lags_while(&servers, || commit(&mut session, Duration::from_secs(5)));
    let recorded = recorder.stop();
    let found = found(&recorded);
    let (all, blocked) = led(&found, |part| {
        !["session", "network"].contains(&part.kind.as_str())
    });
    let (_, of_network) = led(&found, |part| part.kind == "network");
    say(&format!(
        "{commits} commits, {all:.3} s for the standby, {of_network:.3} s on the network, {blocked:.3} s blocked or not known; the server: lags of {:.2} and {:.2} ms ({})",
        lags.write * 1e3,
        lags.flush * 1e3,
        lags.times
    ));
    say(&recorded.text(&["--causes", "--top", "6"]));
    assert!(commits > 1_000, "{commits}");
    assert!(blocked < 0.1 * all + 0.1, "{}", recorded.text(&["--causes"]));
    recorded.session(session.pid()).assert_conserved();
}

#[test]
fn a_standby_that_is_not_recorded_is_on_another_host() {
    needs_recording!();
    let Some(servers) = start(Options::default(), Options::default()) else {
        return;
    };
    let mut session = client(&servers);
    servers.wire.delay(Duration::from_millis(20));
    let recorder = Recorder::server(&servers.primary, &[]);
    commit(&mut session, Duration::from_secs(3));
    let recorded = recorder.stop();
    let text = recorded.text(&["--causes"]);
    let (all, elsewhere) = led(&found(&recorded), |part| {
        part.kind == "other_host" && part.backend_type == "walsender"
    });
    say(&format!("{elsewhere:.3} of {all:.3} s on another host"));
    assert!(all > 2.0 && elsewhere > 0.95 * all, "{text}");
    assert!(text.contains("on another host or the network"), "{text}");
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
