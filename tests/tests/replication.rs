//! What commits wait for that wait for a standby: causes that the test makes, and what the servers themselves say of them.

use std::time::{Duration, Instant};

use dbtime::throwaway::Options;
use dbtime_tests::{
    Part, Recorded, Recorder, Replicated, Session, SlowDisk, Stopped, Wire, assert_close, builds, causes,
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
    let standby = servers.standby.data_dir().to_str().expect("a plain path").to_string();
    Recorder::server(&servers.primary, &[&["--standby", standby.as_str()], tier].concat())
}

fn found(recorded: &Recorded) -> Vec<Part> {
    parts(&causes(recorded))
}

/// What the primary says of its standby while something runs, each time that it says something new: time to the write, the flush
/// and the replay of what was committed, seconds, added up.
struct Lags {
    times: usize,
    write: f64,
    flush: f64,
    replay: f64,
}

fn lags_while<T>(servers: &Replicated, run: impl FnOnce() -> T + Send) -> (Lags, T)
where
    T: Send,
{
    let mut witness = Session::connect(&servers.primary);
    std::thread::scope(|scope| {
        let runs = scope.spawn(run);
        let mut lags = Lags {
            times: 0,
            write: 0.0,
            flush: 0.0,
            replay: 0.0,
        };
        let mut last = String::new();
        while !runs.is_finished() {
            let said = witness.ask(
                "SELECT concat_ws(' ', flush_lsn, extract(epoch FROM write_lag), extract(epoch FROM flush_lag),
                   extract(epoch FROM replay_lag)) FROM pg_stat_replication",
            );
            let lag = |place: usize| said.split(' ').nth(place).and_then(|word| word.parse::<f64>().ok());
            // There is none while nothing is sent.
            if let (true, Some(write), Some(flush), Some(replay)) = (said != last, lag(1), lag(2), lag(3)) {
                lags.times += 1;
                lags.write += write;
                lags.flush += flush;
                lags.replay += replay;
            }
            last = said;
            std::thread::sleep(Duration::from_micros(500));
        }
        (lags, runs.join().expect("it does not panic"))
    })
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

#[test]
fn a_slow_network_is_named() {
    needs_recording!();
    let Some(servers) = Replicated::start(&distribution(), Options::default(), Options::default()) else {
        return;
    };
    let mut session = client(&servers);
    servers.wire.delay(Duration::from_millis(20));
    let recorders = [&[][..], &[CALLS]].map(|tier| recorder(&servers, tier));
    let (lags, commits) = lags_while(&servers, || commit(&mut session, Duration::from_secs(5)));
    // There and back.
    let truth = f64::from(commits) * 0.040;
    for recorder in recorders {
        let recorded = recorder.stop();
        let (all, of_network) = led(&found(&recorded), |part| part.kind == "network");
        say(&format!(
            "{}: {of_network:.3} of {all:.3} s on the network; {commits} commits of 40 ms are {truth:.3} s; the server: {} lags, write {:.3}, flush {:.3} s",
            recorded.meta.collector.tier, lags.times, lags.write, lags.flush
        ));
        let text = recorded.text(&["--causes"]);
        say(&text);
        let error = sampling_error(truth, all.max(truth + 0.001), RATE_HZ) + recorded.stolen;
        assert_close("on the network, s", of_network, truth, 0.02, error);
        assert!(text.contains("on the network"), "{text}");
    }
}
