//! `dbtime agent` on a host with two servers: what is recorded gets into the store, whatever is killed on the way and whether the store is
//! there or not.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use dbtime::throwaway::{Cluster, Options};
use dbtime_model::recording::{HostMeta, Meta, RecordingWriter, SCHEMA_VERSION};
use dbtime_model::{CounterRow, Rows};
use dbtime_tests::{
    Outcome, Session, SmallDisk, builds, children, dbtime, dbtime_binary, distribution, needs_recording,
    number,
};
use serde_json::Value;
use tempfile::TempDir;

const SOON: Duration = Duration::from_secs(60);

/// The agent beside the test. Killed when dropped.
struct Agent {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
}

impl Agent {
    fn start(config: &Path) -> Agent {
        let mut child = Command::new(dbtime_binary())
            .args(["agent", "--config"])
            .arg(config)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command can be run");
        let stderr = child.stderr.take().expect("standard error is a pipe");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Agent {
            child,
            lines,
            said: Vec::new(),
        }
    }

    /// Waits for a line that has all of these words.
    #[track_caller]
    fn wait_for(&mut self, words: &[&str]) -> String {
        let give_up = Instant::now() + SOON;
        loop {
            let left = give_up.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                panic!("no line with {words:?}: {:#?}", self.said);
            };
            self.said.push(line.clone());
            if words.iter().all(|word| line.contains(word)) {
                return line;
            }
        }
    }

    fn signal(&self, signal: libc::c_int) {
        kill(self.child.id(), signal);
    }

    /// Ends it as systemd does.
    #[track_caller]
    fn stop(&mut self) {
        self.signal(libc::SIGTERM);
        assert_eq!(
            self.child.wait().expect("it is a child").code(),
            Some(0),
            "{:#?}",
            self.said
        );
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn kill(pid: u32, signal: libc::c_int) {
    // SAFETY: kill has no memory effects; the pids are those of processes that this test has started.
    unsafe { libc::kill(pid.cast_signed(), signal) };
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let give_up = Instant::now() + SOON;
    while !holds() {
        assert!(Instant::now() < give_up, "not in {SOON:?}: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn is_running(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// Folders of recordings in the spool, whole or not.
fn recordings(spool: &Path) -> Vec<PathBuf> {
    let below = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten();
        entries.map(|entry| entry.expect("an entry").path()).collect()
    };
    below(&spool.join("recordings"))
        .iter()
        .flat_map(|server| below(server))
        .collect()
}

/// Recordings of its host in a store.
fn manifests(store: &Path) -> usize {
    fs::read_dir(store.join("recordings/host=db1")).map_or(0, Iterator::count)
}

fn config(home: &Path, text: &str) -> PathBuf {
    let path = home.join("agent.toml");
    let _ = fs::remove_file(&path);
    fs::write(&path, text).expect("it can be written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is ours");
    path
}

fn listed(store: &Path) -> Value {
    let store = store.to_str().expect("a plain path");
    let outcome = dbtime(&["store", "list", store, "--format", "json"]).expect_code(0);
    serde_json::from_str(&outcome.stdout).expect("JSON")
}

fn report_of(recording: &str) -> Value {
    let outcome: Outcome = dbtime(&["report", recording, "--format", "json"]).expect_code(0);
    serde_json::from_str(&outcome.stdout).expect("JSON")
}

/// Time in this wait event, seconds.
fn seconds_in(report: &Value, wait: &str) -> f64 {
    let rows = report["ledger"].as_array().expect("rows").iter();
    rows.filter(|row| row["group"]["wait"] == wait)
        .map(|row| number(&row["total_ns"]) / 1e9)
        .sum()
}

#[test]
fn all_that_two_servers_did_comes_into_the_store_whoever_is_killed() {
    needs_recording!();
    let mut servers = builds(&[17]);
    servers.push(distribution());
    let clusters: Vec<_> = servers
        .iter()
        .map(|server| server.start(Options::default()))
        .collect();
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let (spool, store) = (home.path().join("spool"), home.path().join("away/store"));
    let servers: Vec<&Path> = clusters.iter().map(Cluster::data_dir).collect();
    // It cannot be made yet.
    let config = config(
        home.path(),
        &format!(
            "spool = {spool:?}\nstore = {store:?}\nhost = 'db1'\nservers = {servers:?}\n[record]\nrotate = '1h'\nresolution = '1s'\n[keep]\nage = '30d'\n"
        ),
    );
    let mut sleepers: Vec<Session> = clusters.iter().map(Session::connect).collect();
    let sleep = |sleepers: &mut Vec<Session>, seconds: u32| {
        std::thread::scope(|scope| {
            for sleeper in sleepers {
                scope.spawn(move || sleeper.run(&format!("SELECT pg_sleep({seconds})")));
            }
        });
    };

    let mut agent = Agent::start(&config);
    let mut recorders = Vec::new();
    for _ in &clusters {
        let line = agent.wait_for(&["recorder started (pid "]);
        let pid = line
            .rsplit_once("(pid ")
            .and_then(|(_, pid)| pid.strip_suffix(')')?.parse().ok());
        recorders.push(pid.expect("a pid"));
    }
    for _ in &clusters {
        agent.wait_for(&["recording PostgreSQL"]);
    }
    sleep(&mut sleepers, 8);
    // A recorder that is killed is followed by another one, and what it has written is not lost.
    kill(recorders[0], libc::SIGKILL);
    agent.wait_for(&["the recorder exited (signal: 9"]);
    agent.wait_for(&["upload failed, kept in the spool"]);
    agent.wait_for(&["recorder started (pid "]);
    agent.wait_for(&["recording PostgreSQL"]);
    sleep(&mut sleepers, 4);
    // Its other children try to upload what there is.
    let is_recorder = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|&byte| byte == 0).any(|word| word == b"record")
    };
    let recorders: Vec<u32> = children(agent.child.id())
        .into_iter()
        .filter(is_recorder)
        .collect();
    assert_eq!(recorders.len(), clusters.len(), "{:#?}", agent.said);
    for pid in &recorders {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).expect("it runs");
        assert_eq!(name, "dbtime\n");
    }
    // Recorders end in good order when their agent is killed.
    agent.signal(libc::SIGKILL);
    drop(agent);
    for pid in recorders {
        wait_until("recorders end with their agent", || !is_running(pid));
    }
    assert_eq!(recordings(&spool).len(), clusters.len() + 1);

    // Another one may not have the spool at the same time; the store is there now.
    fs::create_dir(home.path().join("away")).expect("a new folder");
    let mut agent = Agent::start(&config);
    for _ in 0..=clusters.len() {
        agent.wait_for(&["store: put "]);
    }
    dbtime(&["agent", "--config", config.to_str().expect("a plain path")])
        .expect_code(1)
        .expect_stderr(&["in use by another dbtime agent"]);
    wait_until("what was put is removed from the spool", || {
        recordings(&spool).len() == clusters.len()
    });
    agent.stop();

    // What was in the spool is in the store, and what the last agent recorded is in the spool.
    let listing = listed(&store);
    let listed = listing["hosts"][0]["recordings"].as_array().expect("recordings");
    assert_eq!(listed.len(), clusters.len() + 1, "{listing:#}");
    let whole = listed.iter().filter(|one| one["complete"] == true).count();
    assert_eq!(
        (whole, listing["left_files"].as_u64()),
        (clusters.len(), Some(0)),
        "{listing:#}"
    );
    // All of it is there except some seconds that the killed recorder had not written.
    let url = format!("{}?host=db1", store.display());
    let report = report_of(&url);
    let slept = seconds_in(&report, "Timeout:PgSleep");
    let all = clusters.len() as f64 * 12.0;
    assert!(
        (all - 6.0..=all + 0.2).contains(&slept),
        "{slept} of {all} s\n{report:#}"
    );
    let left = recordings(&spool);
    assert_eq!(left.len(), clusters.len(), "{left:?}");
}

#[test]
fn a_spool_that_is_full_loses_the_oldest_and_says_so() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let spool = home.path().join("spool");
    let config = config(
        home.path(),
        &format!(
            "spool = {spool:?}\nservers = [{:?}]\n[record]\nresolution = '1s'\n[keep]\nspool = '60 kB'\n",
            cluster.data_dir()
        ),
    );
    let mut session = Session::connect(&cluster);
    let mut seen = BTreeSet::new();
    for run in 0..4 {
        let mut agent = Agent::start(&config);
        agent.wait_for(&["recording PostgreSQL"]);
        session.run("SELECT pg_sleep(2)");
        if run == 3 {
            agent.wait_for(&["removed, the spool holds"]);
        }
        agent.stop();
        seen.extend(recordings(&spool));
    }
    let left: BTreeSet<PathBuf> = recordings(&spool).into_iter().collect();
    let gone: Vec<&PathBuf> = seen.difference(&left).collect();
    assert_eq!(seen.len(), 4);
    assert!(!gone.is_empty() && !left.is_empty());
    // Names end in the time at which they began.
    assert!(
        gone.iter().all(|path| left.iter().all(|other| *path < other)),
        "{gone:?} {left:?}"
    );
}

/// Takes all the room that is left on a disk.
fn fill(path: &Path) {
    let mut file = fs::File::create(path).expect("there is room for a name");
    let error = loop {
        if let Err(e) = file.write_all(&[0; 1 << 12]) {
            break e;
        }
    };
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
}

#[test]
fn a_disk_that_is_full_for_a_while_costs_nothing_and_is_told() {
    const SLEEP_S: f64 = 6.0;
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let disk = SmallDisk::mount(4_096);
    let spool = disk.join("spool");
    let config = config(
        home.path(),
        &format!(
            "spool = {spool:?}\nservers = [{:?}]\n[record]\nresolution = '1s'\n",
            cluster.data_dir()
        ),
    );
    let mut session = Session::connect(&cluster);
    let mut agent = Agent::start(&config);
    agent.wait_for(&["recording PostgreSQL"]);
    let asleep = std::thread::spawn(move || session.run(&format!("SELECT pg_sleep({SLEEP_S})")));
    let filler = disk.join("filler");
    fill(&filler);
    agent.wait_for(&["could not be written, trying again", "space"]);
    fs::remove_file(&filler).expect("our own file");
    asleep.join().expect("it has slept");
    agent.stop();

    let left = recordings(&spool);
    assert_eq!(left.len(), 1, "{left:?}");
    let path = left[0].to_str().expect("a plain path");
    let report = report_of(path);
    let slept = seconds_in(&report, "Timeout:PgSleep");
    assert!(
        (slept - SLEEP_S).abs() < 0.6,
        "{slept} of {SLEEP_S} s\n{report:#}"
    );
    let notes = report["quality"]["notes"].to_string();
    assert!(notes.contains("could not be written"), "{notes}");
    assert_eq!(report["meta"]["complete"], true, "{report:#}");
}

/// The folder of a server in a spool that is to be.
fn server_folder(spool: &Path) -> PathBuf {
    let folder = spool.join("recordings/server");
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.expect("a new folder");
    folder
}

const HOUR_US: i64 = 3_600_000_000;

/// A recording of an hour (since the Unix epoch) that has ended: a megabyte that hardly compresses.
fn plant(folder: &Path, hour: i64) -> PathBuf {
    let path = folder.join(format!("{hour}.dbt"));
    let start_us = hour * HOUR_US;
    let meta = Meta {
        schema: SCHEMA_VERSION.to_string(),
        start_us,
        end_us: start_us + HOUR_US,
        host: HostMeta {
            name: "db1".to_string(),
            ..HostMeta::default()
        },
        ..Meta::default()
    };
    let mut noise = hour.unsigned_abs();
    let counters = (0..100_000).map(|_| {
        noise = noise
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        CounterRow {
            time: start_us,
            value: noise.cast_signed(),
            ..CounterRow::default()
        }
    });
    let rows = Rows {
        counters: counters.collect(),
        ..Rows::default()
    };
    let mut writer = RecordingWriter::create(&path, meta).expect("a new recording");
    writer.write(&rows).expect("there is room");
    writer.finish().expect("there is room");
    path
}

/// Bytes that are free on the file system of this path.
fn free(path: &Path) -> u64 {
    let output = Command::new("df")
        .args(["--block-size=1", "--output=avail"])
        .arg(path)
        .output();
    let text = String::from_utf8(output.expect("df can be run").stdout).expect("text");
    let number = text.lines().nth(1).expect("a second line").trim();
    number.parse().expect("a number")
}

/// Fills the disk as others might, until so much is free.
fn fill_up_to(filler: &Path, left: u64) {
    let folder = filler.parent().expect("it is in a folder");
    let bytes = free(folder).checked_sub(left).expect("there is more room");
    fs::write(filler, vec![0; usize::try_from(bytes).expect("it is small")]).expect("there is room");
}

/// No server is needed: recordings are there already.
#[test]
fn others_that_fill_the_disk_cost_the_oldest_recordings_only_while_the_store_is_away() {
    const FIRST_HOUR: i64 = 490_000;
    const LEAST: u64 = 6_000_000;
    needs_recording!();
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let disk = SmallDisk::mount(16_384);
    let (spool, there, away) = (
        disk.join("spool"),
        home.path().join("there"),
        home.path().join("away"),
    );
    let (folder, store) = (server_folder(&spool), there.join("store"));
    fs::create_dir(&there).expect("a new folder");
    let config = config(
        home.path(),
        &format!(
            "spool = {spool:?}\nstore = {store:?}\nhost = 'db1'\nservers = ['/nonexistent']\n[keep]\nfree = '6 MB'\n"
        ),
    );

    // The store takes it, so nothing is lost.
    let before = free(&spool);
    plant(&folder, FIRST_HOUR);
    let size = before - free(&spool);
    assert!(size > 700_000, "{size}");
    fill_up_to(&disk.join("filler"), size / 2);
    let mut agent = Agent::start(&config);
    agent.wait_for(&["MB free, keep.free is 6.0 MB", "once they are uploaded"]);
    agent.wait_for(&["store: put "]);
    wait_until("what is uploaded is removed", || recordings(&spool).is_empty());
    agent.stop();
    assert_eq!(manifests(&store), 1);

    // It does not: the oldest goes, and no more than has to. As long as the store may be away only briefly, that begins when half of what
    // is to be left to others is in use.
    fs::remove_file(disk.join("filler")).expect("our own file");
    fs::rename(&there, &away).expect("our own folder");
    let planted: Vec<PathBuf> = (1..=3).map(|hour| plant(&folder, FIRST_HOUR + hour)).collect();
    fill_up_to(&disk.join("filler"), LEAST / 2 - size / 2);
    let mut agent = Agent::start(&config);
    agent.wait_for(&["upload failed, kept in the spool"]);
    let line = agent.wait_for(&["removed, the spool's file system has", "its period is lost"]);
    assert!(
        line.starts_with(planted[0].to_str().expect("a plain path")),
        "{line}"
    );
    agent.stop();
    let mut left = recordings(&spool);
    left.sort();
    assert_eq!(left, planted[1..]);
    assert!(free(&spool) >= LEAST / 2, "{} are free", free(&spool));

    // The others come into the store, and it says what is missing.
    fs::rename(&away, &there).expect("our own folder");
    let mut agent = Agent::start(&config);
    for _ in 0..2 {
        agent.wait_for(&["store: put "]);
    }
    wait_until("what is uploaded is removed", || recordings(&spool).is_empty());
    agent.stop();
    let listing = listed(&store);
    let host = &listing["hosts"][0];
    let listed = host["recordings"].as_array().expect("recordings");
    assert_eq!(listed.len(), 3, "{listing:#}");
    let gap = serde_json::json!([{"from": listed[0]["end"], "to": listed[1]["start"]}]);
    assert_eq!(host["gaps"], gap, "{listing:#}");
}

#[test]
fn a_recording_is_as_old_as_agents_have_seen_it_whatever_the_clock_was_when_it_was_made() {
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let spool = home.path().join("spool");
    let folder = server_folder(&spool);
    let config = config(
        home.path(),
        &format!("spool = {spool:?}\nservers = ['/nonexistent']\n[keep]\nage = '1h'\nfree = '1 kB'\n"),
    );
    // Of 2001 and of 2096.
    let planted = [275_000, 1_110_000].map(|hour| plant(&folder, hour));
    let ages = spool.join("ages.json");
    let mut agent = Agent::start(&config);
    wait_until("it counts", || ages.exists());
    agent.stop();
    assert_eq!(recordings(&spool).len(), 2, "they have just been seen");

    // An agent has run for more than an hour since.
    let text = fs::read_to_string(&ages).expect("it is written");
    let mut counted: Value = serde_json::from_str(&text).expect("JSON");
    counted["seconds"] = 3_700.into();
    fs::write(&ages, counted.to_string()).expect("it is ours");
    let mut agent = Agent::start(&config);
    for path in planted {
        let line = agent.wait_for(&["removed, it is too old"]);
        assert!(line.starts_with(path.to_str().expect("a plain path")), "{line}");
    }
    agent.stop();
    assert!(recordings(&spool).is_empty());
}

/// Three sessions wait for a lock: twice there is room for ten exact seconds in a budget of 25, whoever makes them.
#[test]
fn exact_recordings_are_made_when_a_condition_is_met_and_never_beyond_the_budget() {
    const WAITERS: usize = 3;
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let (spool, store) = (home.path().join("spool"), home.path().join("store"));
    let config = config(
        home.path(),
        &format!(
            "spool = {spool:?}\nstore = {store:?}\nhost = 'db1'\nservers = [{:?}]\n[record]\nresolution = '10s'\n\
             [flight]\nlength = '10s'\nbudget = '25s'\npause = '1s'\n[[flight.when]]\nwhat = 'active'\nabove = 100\n\
             [[flight.when]]\nwhat = 'wait=lock'\nabove = 1.5\nfor = '3s'\n",
            cluster.data_dir()
        ),
    );
    let mut holder = Session::connect(&cluster);
    let mut waiters: Vec<Session> = (0..WAITERS).map(|_| Session::connect(&cluster)).collect();
    let mut agent = Agent::start(&config);
    agent.wait_for(&["recording PostgreSQL"]);
    // Sessions that are active and wait for something else.
    std::thread::scope(|scope| {
        for waiter in &mut waiters {
            scope.spawn(|| waiter.run("SELECT pg_sleep(6)"));
        }
    });
    holder.run("BEGIN; SELECT pg_advisory_lock(1)");
    let locked = Instant::now();
    std::thread::scope(|scope| {
        for waiter in &mut waiters {
            // If something fails here, nobody releases the lock.
            waiter.run("SET lock_timeout = '90s'");
            scope.spawn(|| {
                waiter.run("SELECT pg_advisory_lock(1)");
                waiter.run("SELECT pg_advisory_unlock(1)");
            });
        }
        let first = agent.wait_for(&["exact recording for"]);
        assert!(
            first.contains("wait=lock ") && first.contains(" above 1.5: exact recording for 10 s"),
            "{first}"
        );
        // It was started because of the lock, and in time.
        assert!(
            locked.elapsed() < Duration::from_secs(9),
            "{:?}",
            locked.elapsed()
        );
        assert!(first.ends_with("14 s of this hour's budget left"), "{first}");
        let second = agent.wait_for(&["exact recording for"]);
        let average = second
            .split_once("wait=lock ")
            .and_then(|(_, rest)| rest.split_once(" over 3 s"))
            .and_then(|(average, _)| average.parse::<f64>().ok());
        let is_right = average.is_some_and(|average| (average - WAITERS as f64).abs() < 0.1);
        assert!(is_right, "{second}");
        agent.wait_for(&["no exact recording: the 25 s of this hour's budget are used"]);
        wait_until("exact recordings are put at once", || manifests(&store) == 2);
        agent.stop();
        // The next agent shares that budget.
        agent = Agent::start(&config);
        agent.wait_for(&["no exact recording: the 25 s of this hour's budget are used"]);
        wait_until("what was recorded is put", || manifests(&store) == 3);
        let held = locked.elapsed();
        holder.run("COMMIT; SELECT pg_advisory_unlock(1)");
        assert!(held > Duration::from_secs(25), "{held:?}");
    });
    agent.stop();

    let listing = listed(&store);
    let listed = listing["hosts"][0]["recordings"].as_array().expect("recordings");
    let (flights, others): (Vec<&Value>, Vec<&Value>) =
        listed.iter().partition(|one| one["flight"].is_string());
    assert_eq!((flights.len(), others.len()), (2, 1), "{listing:#}");
    let report = |choice: &str| report_of(&format!("{}?{choice}", store.display()));
    let waited = |report: &Value| seconds_in(report, "Lock:advisory");
    for flight in flights {
        let id = flight["recording"].as_str().expect("an id");
        let report = report(&format!("recording={id}"));
        let seconds = number(&report["elapsed_ns"]) / 1e9;
        assert!((9.5..=10.9).contains(&seconds), "{seconds} s: {flight:#}");
        assert_eq!(report["meta"]["tier"], "exact");
        assert_eq!(report["meta"]["flight"], flight["flight"]);
        let sessions = waited(&report) / seconds;
        assert!(
            (sessions - WAITERS as f64).abs() < 0.1,
            "{sessions} sessions: {flight:#}"
        );
    }
    // Beside the sampled recording they are named, and their time counts once.
    let all = report("host=db1");
    let alone = report(&format!(
        "recording={}",
        others[0]["recording"].as_str().expect("an id")
    ));
    assert_eq!(all["ledger"], alone["ledger"]);
    assert!(waited(&all) > 20.0 * WAITERS as f64, "{}", waited(&all));
    let notes = all["quality"]["notes"].to_string();
    assert_eq!(
        notes.matches("there is an exact recording from").count(),
        2,
        "{notes}"
    );
    assert!(notes.contains("wait=lock"), "{notes}");
}

#[test]
fn what_is_wrong_with_the_file_is_said() {
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let check = |text: &str| {
        let path = config(home.path(), text);
        dbtime(&[
            "agent",
            "--check",
            "--config",
            path.to_str().expect("a plain path"),
        ])
    };
    check("spool = '/var/lib/dbtime'")
        .expect_code(0)
        .expect_stderr(&["configuration is valid"]);
    check("spool = '/var/lib/dbtime'\nstoer = 's3://x/y'")
        .expect_code(1)
        .expect_stderr(&["agent.toml", "line 2", "stoer"]);
    let path = config(home.path(), "spool = '/var/lib/dbtime'");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("it is ours");
    dbtime(&[
        "agent",
        "--check",
        "--config",
        path.to_str().expect("a plain path"),
    ])
    .expect_code(1)
    .expect_stderr(&["writable by group or others"]);
    dbtime(&["agent", "--check", "--config", "/nonexistent/agent.toml"])
        .expect_code(1)
        .expect_stderr(&["/nonexistent/agent.toml"]);
}
