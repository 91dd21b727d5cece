//! `dbtime sched` against what else is known: the kernel's accounting, who else was bound to the CPU, what a session was told to do, and
//! perf.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use dbtime::throwaway::Options;
use dbtime_model::recording::{Meta, Recording};
use dbtime_model::{Rows, SessionId, State, SwitchRow};
use dbtime_tests::{
    Outcome, Programs, Recorder, Running, Session, StandIn, assert_between, assert_close, dbtime,
    dbtime_binary, distribution, event, needs_recording, say, wait_for_state,
};
use serde_json::Value;
use tempfile::TempDir;

/// `dbtime sched` in the background, with a recording.
struct Watched {
    child: std::process::Child,
    home: TempDir,
}

impl Watched {
    /// Returns once switches are recorded: that is when the recording is made.
    fn start(arguments: &[&str]) -> Watched {
        let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
        let child = Command::new(dbtime_binary())
            .arg("sched")
            .args(arguments)
            .args(["--format", "json", "-o"])
            .arg(home.path().join("x.dbt"))
            .stdout(fs::File::create(home.path().join("out")).expect("a file of our own"))
            .stderr(fs::File::create(home.path().join("err")).expect("a file of our own"))
            .spawn()
            .expect("the command can be run");
        let mut watched = Watched { child, home };
        let give_up = Instant::now() + Duration::from_secs(30);
        while !watched.path().join("meta.json").is_file() {
            if let Some(status) = watched.child.try_wait().expect("a child of ours") {
                panic!("{status}: {}", watched.said());
            }
            assert!(Instant::now() < give_up, "{}", watched.said());
            sleep(Duration::from_millis(5));
        }
        watched
    }

    fn path(&self) -> PathBuf {
        self.home.path().join("x.dbt")
    }

    fn said(&self) -> String {
        fs::read_to_string(self.home.path().join("err")).unwrap_or_default()
    }

    /// Ends it as Ctrl-C does.
    fn stop(mut self) -> Switches {
        // SAFETY: kill has no memory effects; the child is not yet waited for.
        unsafe { libc::kill(self.child.id().cast_signed(), libc::SIGINT) };
        let status = self.child.wait().expect("a child of ours");
        assert!(status.success(), "{status}: {}", self.said());
        let recording = Recording::open(&self.path()).expect("a recording");
        let mut rows = Rows::default();
        let mut problems = recording.read(|batch| rows.switches.extend(batch));
        problems.extend(recording.read(|batch| rows.sessions.extend(batch)));
        problems.extend(recording.read(|batch| rows.activity.extend(batch)));
        assert!(problems.is_empty(), "{problems:?}");
        let printed = fs::read_to_string(self.home.path().join("out")).expect("a file of our own");
        let mut lines: Vec<Value> = printed
            .lines()
            .map(|line| serde_json::from_str(line).expect("a line of JSON"))
            .collect();
        let summary = lines.pop().expect("a summary")["sched"].clone();
        Switches {
            meta: recording.meta().clone(),
            rows,
            lines,
            summary,
            home: self.home,
        }
    }
}

/// What was recorded and shown.
struct Switches {
    meta: Meta,
    rows: Rows,
    lines: Vec<Value>,
    summary: Value,
    home: TempDir,
}

impl Switches {
    fn session(&self, pid: u32) -> SessionId {
        let row = self.rows.sessions.iter().find(|row| row.pid == pid);
        row.unwrap_or_else(|| panic!("pid {pid} is no session")).id
    }

    fn of(&self, pid: u32) -> Vec<&SwitchRow> {
        let session = self.session(pid);
        self.rows
            .switches
            .iter()
            .filter(|row| row.session == session)
            .collect()
    }

    fn report(&self, arguments: &[&str]) -> Outcome {
        let path = self.home.path().join("x.dbt");
        dbtime(&[&["report", path.to_str().expect("a plain path")], arguments].concat()).expect_code(0)
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.report(&[arguments, &["--format", "json"]].concat()).stdout).expect("JSON")
    }
}

/// Time off CPU, and on it.
fn sum(rows: &[&SwitchRow], part: impl Fn(&SwitchRow) -> Option<u64>) -> u64 {
    rows.iter().filter_map(|row| part(row)).sum()
}

/// From each switch-out to the next one all time is there, once.
#[track_caller]
fn assert_conserved(rows: &[&SwitchRow]) {
    assert!(rows.len() > 2);
    for pair in rows.windows(2) {
        let known = sum(&pair[1..], |row| row.wait_ns)
            + sum(&pair[1..], |row| row.delay_ns)
            + sum(&pair[1..], |row| row.run_ns);
        assert_eq!(pair[1].time_ns - pair[0].time_ns, known as i64, "{pair:?}");
    }
}

/// A CPU that this test may run on.
fn a_cpu() -> String {
    // SAFETY: a set of zeros is a value, and the call fills it.
    unsafe {
        let mut cpus: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(
            libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut cpus),
            0
        );
        let last = (0..libc::CPU_SETSIZE as usize)
            .rev()
            .find(|cpu| libc::CPU_ISSET(*cpu, &cpus));
        last.expect("it runs somewhere").to_string()
    }
}

fn program(programs: &Programs) -> PathBuf {
    programs.compile("cc", "switches.c", "switches", &[])
}

fn signal(pid: u32, signal: libc::c_int) {
    // SAFETY: kill has no memory effects; the process is a child of this test that is not yet waited for.
    unsafe { libc::kill(pid.cast_signed(), signal) };
}

/// `/proc/PID/schedstat`: nanoseconds on a CPU and in the run queue, and how often it came onto one.
fn books(pid: u32) -> [u64; 3] {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).expect("the process lives");
    let numbers: Vec<u64> = text
        .split_whitespace()
        .map(|number| number.parse().expect("a number"))
        .collect();
    [numbers[0], numbers[1], numbers[2]]
}

#[test]
fn between_two_stops_a_task_has_what_the_kernels_books_say() {
    needs_recording!();
    let programs = Programs::default();
    let program = program(&programs);
    let cpu = a_cpu();
    let rival = Running::start(&program, &["burn", &cpu, "0"]);
    let task = Running::start(&program, &["nap", &cpu, "0"]);
    let pid = task.pid();
    let watched = Watched::start(&["--process", &pid.to_string()]);
    let mut seen = Vec::new();
    for _ in 0..2 {
        sleep(Duration::from_millis(700));
        signal(pid, libc::SIGSTOP);
        wait_for_state(pid, 'T');
        // What it did until it stopped is accounted for once it has left its CPU.
        sleep(Duration::from_millis(50));
        seen.push(books(pid));
        signal(pid, libc::SIGCONT);
    }
    sleep(Duration::from_millis(200));
    let switches = watched.stop();
    drop(rival);
    let rows = switches.of(pid);
    assert_conserved(&rows);
    let stops: Vec<usize> = (0..rows.len())
        .filter(|at| rows[*at].state == State::Stopped)
        .collect();
    assert_eq!(stops.len(), 2, "it was stopped twice");
    let between = &rows[stops[0] + 1..=stops[1]];
    let grown = |book: usize| (seen[1][book] - seen[0][book]) as f64 / 1e9;
    let run = sum(between, |row| row.run_ns) as f64 / 1e9;
    let delay = sum(between, |row| row.delay_ns) as f64 / 1e9;
    say(&format!(
        "{} turns: run {run:.6} s, the kernel's {:.6}; delay {delay:.6} s, the kernel's {:.6}; {} times on a CPU",
        between.len(),
        grown(0),
        grown(1),
        seen[1][2] - seen[0][2]
    ));
    // The runtime is the kernel's own; a turn that was cut moves some nanoseconds into the next one.
    assert_close("run time, s", run, grown(0), 0.0001, 0.000_05);
    // The kernel reads the clock of a switch some hundred nanoseconds before its tracepoint; but for that, it counts all time off CPU that
    // began with a preemption as delay.
    assert_close(
        "scheduling delay, s",
        delay,
        grown(1),
        0.002,
        between.len() as f64 * 2e-6,
    );
    // A switch that the tracepoint did not see makes one turn of two.
    let times = (seen[1][2] - seen[0][2]) as usize;
    assert!(
        between.len() <= times && between.len() * 100 >= times * 95,
        "{} of {times}",
        between.len()
    );
    // The ledger has the same.
    let session = switches.session(pid);
    let ledger = |state: State| -> u64 {
        let rows = switches
            .rows
            .activity
            .iter()
            .filter(|row| row.session == session && row.state == state);
        rows.map(|row| row.ns).sum()
    };
    assert_eq!(ledger(State::Cpu), sum(&rows, |row| row.run_ns));
    assert_eq!(ledger(State::Runnable), sum(&rows, |row| row.delay_ns));
    assert_eq!(switches.meta.scheduling.as_ref().map(|facts| facts.lost), Some(0));
}

#[test]
fn who_is_bound_to_the_same_cpu_is_the_one_who_ran_instead() {
    needs_recording!();
    let programs = Programs::default();
    let program = program(&programs);
    let cpu = a_cpu();
    // At real-time priority they take turns, and leave to all others the 5 % that the kernel keeps for them.
    let rival = Running::start(&program, &["burn", &cpu, "rt"]);
    let task = Running::start(&program, &["nap", &cpu, "rt"]);
    sleep(Duration::from_millis(100));
    let watched = Watched::start(&["--process", &task.pid().to_string()]);
    sleep(Duration::from_millis(1500));
    let switches = watched.stop();
    let summary = &switches.summary;
    let delay = summary["total"]["delay"]["sum_ns"].as_u64().expect("a number") as f64 / 1e9;
    let wanted = format!("switches {}", rival.pid());
    let parties = summary["ran_instead"].as_array().expect("a list");
    let rivals = parties.iter().find(|party| party["name"] == wanted.as_str());
    let percent = rivals.map_or(0.0, |party| party["percent"].as_f64().expect("a number"));
    say(&format!(
        "delay {delay:.3} s, of which {percent:.1} % {wanted}: {parties:?}"
    ));
    // Each time it wakes it has to wait for the end of the other's turn.
    assert!(delay > 0.1, "{delay}");
    assert!(percent > 80.0, "{percent}");
    assert_eq!(parties[0]["name"], wanted.as_str());
    // No more can be attributed than there was to attribute.
    let all: u64 = parties
        .iter()
        .map(|party| party["ns"].as_u64().expect("a number"))
        .sum();
    assert!(all as f64 / 1e9 <= delay * 1.001, "{all}");
    assert!(switches.of(task.pid()).iter().all(|row| row.priority == Some(89)));
    assert!(switches.report(&[]).stdout.contains("rt 10"));
}

#[test]
fn priority_is_shown() {
    needs_recording!();
    let programs = Programs::default();
    let program = program(&programs);
    let task = Running::start(&program, &["nap", &a_cpu(), "-20"]);
    sleep(Duration::from_millis(50));
    let watched = Watched::start(&["--process", &task.pid().to_string()]);
    sleep(Duration::from_millis(500));
    let switches = watched.stop();
    let rows = switches.of(task.pid());
    assert!(rows.len() > 5 && rows.iter().all(|row| row.priority == Some(100)));
    assert!(switches.report(&[]).stdout.contains("nice -20"));
    assert!(switches.lines.iter().all(|line| line["priority"] == "nice -20"));
}

#[test]
fn of_two_that_wake_each_other_each_is_the_others_waker() {
    needs_recording!();
    let programs = Programs::default();
    let program = program(&programs);
    let parent = Running::start(&program, &["pair", &a_cpu(), "0"]);
    sleep(Duration::from_millis(100));
    let child = dbtime_tests::children(parent.pid())[0];
    let watched = Watched::start(&["--process", &parent.pid().to_string()]);
    sleep(Duration::from_millis(700));
    let switches = watched.stop();
    // The child sleeps in its pipe alone. Its partner also dozes, which a timer ends.
    let of_child = switches.of(child);
    let sleeps: Vec<_> = of_child
        .iter()
        .filter(|row| row.wait_state == State::Sleep)
        .collect();
    let name = format!("switches {}", parent.pid());
    let woken = sleeps.iter().filter(|row| row.waker == name).count();
    assert!(sleeps.len() > 100, "{}", sleeps.len());
    // The switch in which it began may have been missed.
    assert!(
        woken * 100 >= sleeps.len() * 98,
        "{woken} of {}: {:?}",
        sleeps.len(),
        sleeps.last()
    );
    let of_parent = switches.of(parent.pid());
    let by_child = of_parent
        .iter()
        .filter(|row| row.waker == format!("switches {child}"))
        .count();
    let by_timer = of_parent.iter().filter(|row| row.waker == "interrupt").count();
    assert!(
        by_child + by_timer > 150 && by_timer > 50,
        "{by_child} {by_timer} of {}",
        of_parent.len()
    );
    assert_conserved(&of_child);
    assert_conserved(&of_parent);
}

/// The stand-in for Oracle says how often and how long it slept in which event.
#[test]
fn sleeps_of_an_oracle_session_are_in_their_wait_events() {
    needs_recording!();
    let mut stand_in = StandIn::start(2.0, 1, "sleep,semaphore,cached");
    let map = stand_in.map();
    let watched = Watched::start(&["--oracle", map.to_str().expect("a plain path")]);
    let truth = stand_in.work();
    let switches = watched.stop();
    let rows = switches.of(stand_in.pids()[0]);
    assert_conserved(&rows);
    for (event, name) in [
        (event::QUANTUM, "resmgr:cpu quantum"),
        (event::ROW_LOCK, "enq: TX - row lock contention"),
    ] {
        let of_event = truth.iter().filter(|row| row.event == event);
        let (count, ns) = of_event.fold((0, 0), |(count, ns), row| (count + row.count, ns + row.ns));
        let turns: Vec<&SwitchRow> = rows
            .iter()
            .copied()
            .filter(|row| row.wait_event == name && row.wait_state == State::Sleep)
            .collect();
        assert_eq!(turns.len() as u64, count, "{name}");
        // The log's time includes the way into the kernel and back, and whatever preempted the session on it.
        let off = sum(&turns, |row| row.wait_ns) + sum(&turns, |row| row.delay_ns);
        assert!(off <= ns && off >= count * 4_900_000, "{name}: {off} of {ns} ns");
    }
}

#[test]
fn sleeps_of_a_session_are_in_their_wait_events() {
    needs_recording!();
    const NAPS: usize = 40;
    let cluster = distribution().start(Options::default().set("autovacuum", "off"));
    let mut session = Session::connect(&cluster);
    let data_dir = cluster.data_dir().to_str().expect("a plain path").to_string();
    let watched = Watched::start(&["--postgres", &data_dir]);
    for _ in 0..NAPS {
        session.run("SELECT pg_sleep(0.005)");
        session.wait_until_idle();
    }
    session.run("SELECT 1");
    let pid = session.pid();
    let switches = watched.stop();
    let rows = switches.of(pid);
    assert_conserved(&rows);
    let turns = |event: &str| -> Vec<&SwitchRow> {
        rows.iter()
            .copied()
            .filter(|row| row.wait_event == event && row.wait_state == State::Sleep)
            .collect()
    };
    let naps = turns("PgSleep");
    assert_eq!(naps.len(), NAPS);
    let slept = sum(&naps, |row| row.wait_ns) as f64 / 1e9;
    let off = slept + sum(&naps, |row| row.delay_ns) as f64 / 1e9;
    // No nap is shorter than was asked for, by the 50 us of slack that its timer may come early; the delay comes on top.
    assert!(off > 0.0049 * NAPS as f64, "{off}");
    // A timer ends a nap. Virtual machines may hide from BPF what interrupts an idle CPU: then nobody is seen to end it.
    let others: Vec<&str> = naps
        .iter()
        .map(|row| row.waker.as_str())
        .filter(|waker| *waker != "interrupt")
        .collect();
    assert!(others.len() * 10 <= NAPS, "{others:?}");
    // The session was asleep before each statement but perhaps the first, which it may have waited for since before the
    // recording; and once more, at most, if its answer and the next question crossed.
    let asked = turns("ClientRead");
    assert!((NAPS..=2 * NAPS).contains(&asked.len()), "{}", asked.len());
    let wakers = asked.iter().filter(|row| !row.waker.is_empty()).count();
    assert_eq!(wakers, asked.len());
    let events = switches.summary["by_event"].as_array().expect("a list");
    for event in ["Timeout:PgSleep", "Client:ClientRead"] {
        assert!(
            events.iter().any(|found| found["wait"] == event),
            "{event}: {events:?}"
        );
    }
    // The same from the recording: the summary, every line, the latencies.
    let report = switches.json(&[]);
    assert_eq!(
        report["sched"]["total"]["switches"],
        switches.summary["total"]["switches"]
    );
    assert_eq!(report["sched"]["by_event"], switches.summary["by_event"]);
    assert_eq!(report["sched"]["ran_instead"], switches.summary["ran_instead"]);
    let text = switches.report(&["--switches"]).stdout;
    assert_eq!(text.lines().count(), switches.lines.len() + 3);
    assert!(text.contains("Timeout:PgSleep") && text.contains(&format!("client backend[{pid}]")));
    let latency = switches.json(&["--latency", "--kind", "sched"]);
    assert!(
        latency["latency"]
            .as_array()
            .is_some_and(|groups| groups.len() >= 2)
    );
    let ledger = switches.report(&["--session", &pid.to_string()]).stdout;
    assert!(ledger.contains("Timeout:PgSleep"), "{ledger}");
}

/// Calls of each of two statements that burn CPU, with sleeps between them. They are long beside what the extension does not count:
/// parsing, planning, and giving memory back at the end.
fn burn_twice(session: &mut Session, rounds: usize) {
    for _ in 0..rounds {
        session.run("SELECT sum(length(md5(i::text))) FROM (SELECT generate_series(1, 400000) i) s");
        session.run("SELECT pg_sleep(0.05)");
        session.run("SELECT max(i % 100) FROM (SELECT generate_series(1, 1200000) i) s");
    }
    session.wait_until_idle();
}

#[test]
fn time_by_query_is_what_pg_stat_kcache_counts() {
    needs_recording!();
    const ROUNDS: usize = 8;
    let options = Options::default()
        .set("shared_preload_libraries", "pg_stat_statements,pg_stat_kcache")
        .set("max_parallel_workers_per_gather", "0")
        .set("jit", "off")
        .set("autovacuum", "off");
    let cluster = distribution().start(options);
    cluster
        .psql("CREATE EXTENSION pg_stat_statements; CREATE EXTENSION pg_stat_kcache")
        .expect("scripts/deps.sh test installs it");
    let mut session = Session::connect(&cluster);
    let data_dir = cluster.data_dir().to_str().expect("a plain path").to_string();
    let watched = Watched::start(&["--postgres", &data_dir]);
    cluster
        .psql("SELECT pg_stat_statements_reset(), pg_stat_kcache_reset()")
        .expect("they are there");
    // Nothing is known of the time before a task's first switch.
    session.run("SELECT 1");
    session.wait_until_idle();
    burn_twice(&mut session, ROUNDS);
    let switches = watched.stop();
    let answer = cluster
        .psql(
            "SELECT queryid, total_exec_time / 1000, exec_user_time + exec_system_time
             FROM pg_stat_statements JOIN pg_stat_kcache() USING (queryid, userid, dbid)
             WHERE calls = 8",
        )
        .expect("they are there");
    let statements = switches.summary["statements"].as_array().expect("a list");
    let of = |id: &str| {
        let found = statements.iter().find(|of| of["query"] == *id);
        found.unwrap_or_else(|| panic!("{id}: {statements:?}"))
    };
    let seconds = |value: &Value| value.as_f64().expect("a number") / 1e9;
    assert_eq!(answer.lines().count(), 3, "{answer}");
    for line in answer.lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let [id, executed, cpu] = columns[..] else {
            panic!("{line}");
        };
        let number = |text: &str| text.parse::<f64>().expect("a number");
        let statement = of(id);
        assert_ne!(statement["text"], Value::Null);
        say(&format!("{line}: {statement}"));
        if number(cpu) > 0.1 {
            // Beside its execution each has 0.8 to 2 ms: parsing, and giving back memory, which takes longer the busier the host is.
            let (cpu, besides) = (number(cpu), ROUNDS as f64 * 0.003);
            assert_between(id, seconds(&statement["run_ns"]), cpu, cpu + besides, 0.02, 0.0);
        } else {
            // It sleeps.
            let off = seconds(&statement["off_cpu"]["sum_ns"]);
            assert_close(id, off, number(executed) - number(cpu), 0.02, 0.0);
        }
    }
    let sums = statements.iter().map(|of| seconds(&of["run_ns"])).sum();
    let total = seconds(&switches.summary["total"]["run_ns"]);
    assert_close("all statements", total, sums, 1e-9, 0.0);
    // The ledger of the recording has the same, and a filter takes it alone.
    let id = statements[0]["query"].as_str().expect("one that burns CPU");
    let report = switches.json(&["--query", id]);
    assert_eq!(report["sched"]["total"]["run_ns"], statements[0]["run_ns"]);
    let text = switches.report(&[]).stdout;
    assert!(text.contains("Run time and scheduling delay by query"), "{text}");
    assert!(text.contains("generate_series"), "{text}");
}

#[test]
fn a_query_without_an_id_has_its_fingerprint() {
    needs_recording!();
    let options = Options::default()
        .set("compute_query_id", "off")
        .set("jit", "off");
    let cluster = distribution().start(options);
    let mut session = Session::connect(&cluster);
    let data_dir = cluster.data_dir().to_str().expect("a plain path").to_string();
    let sampled = Recorder::server(&cluster, &[]);
    let watched = Watched::start(&["--postgres", &data_dir]);
    burn_twice(&mut session, 4);
    let (switches, sampled) = (watched.stop(), sampled.stop());
    let statements = switches.summary["statements"].as_array().expect("a list");
    let sampled = sampled.statements();
    for begin in ["SELECT sum", "SELECT max"] {
        let is_it = |text: &str| text.starts_with(begin);
        let (id, _) = (sampled.iter().find(|(_, (_, text))| is_it(text))).expect("it was sampled");
        let found = statements.iter().find(|of| of["query"] == **id);
        let text = found.unwrap_or_else(|| panic!("{id}: {statements:?}"))["text"].as_str();
        assert!(text.is_some_and(is_it), "{text:?}");
    }
}

#[test]
fn what_cannot_be_watched_is_said() {
    needs_recording!();
    dbtime(&["sched", "--process", "4194300", "-d", "1"])
        .expect_code(1)
        .expect_stderr(&["4194300"]);
    dbtime(&["sched", "-d", "0"]).expect_code(2);
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let there = home.path().to_str().expect("a plain path");
    dbtime(&["sched", "-d", "1", "-o", there])
        .expect_code(1)
        .expect_stderr(&["exists"]);
}

#[test]
fn files_with_nothing_in_them_end_with_3_and_other_files_say_what_they_lack() {
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let write = |name: &str, text: &str| {
        let path = home.path().join(name);
        fs::write(&path, text).expect("a file of our own");
        path.to_str().expect("a plain path").to_string()
    };
    let summary = write(
        "summary",
        "\nRuntime summary\n                          comm  parent   sched-in\n",
    );
    let heading = write(
        "heading",
        "           time    cpu  task name                       wait time  sch delay   run time\n",
    );
    for (file, code, words) in [
        (&summary, 1, &["only a summary", "without -s"][..]),
        (&heading, 3, &[]),
    ] {
        dbtime(&["report", file]).expect_code(code).expect_stderr(words);
        dbtime(&["import", file, "-o", &format!("{file}.dbt")])
            .expect_code(code)
            .expect_stderr(words);
        assert!(!Path::new(&format!("{file}.dbt")).exists());
    }
    let other = write("other", "a;b 1\n");
    dbtime(&["report", &other, "--switches"])
        .expect_code(1)
        .expect_stderr(&["no context switches"]);
}

#[test]
fn a_recording_of_perf_gives_perfs_own_numbers() {
    needs_recording!();
    if Command::new("perf").arg("--version").output().is_err() {
        say("SKIPPED: perf is not installed");
        return;
    }
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let perf = |arguments: &[&str]| {
        let output = Command::new("perf")
            .args(arguments)
            .current_dir(home.path())
            .output()
            .expect("perf can be run");
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        output.stdout
    };
    perf(&["sched", "record", "-o", "x.data", "--", "sleep", "0.2"]);
    let script = home.path().join("script");
    fs::write(&script, perf(&["script", "--ns", "-i", "x.data"])).expect("a file of our own");
    let summary = String::from_utf8(perf(&["sched", "-i", "x.data", "timehist", "-s"])).expect("text");
    let imported = home.path().join("x.dbt");
    let (script, imported) = (
        script.to_str().expect("a plain path"),
        imported.to_str().expect("a plain path"),
    );
    dbtime(&["import", script, "-o", imported]).expect_code(0);
    let answer = dbtime(&["report", imported, "--format", "json"])
        .expect_code(0)
        .stdout;
    let sched = serde_json::from_str::<Value>(&answer).expect("JSON")["sched"].clone();
    let number = |label: &str| -> f64 {
        let line = summary
            .lines()
            .find(|line| line.contains(label))
            .unwrap_or_else(|| panic!("{label} in {summary}"));
        let value = line
            .split(": ")
            .nth(1)
            .and_then(|rest| rest.split_whitespace().next());
        value.and_then(|value| value.parse().ok()).expect("a number")
    };
    let switches = sched["total"]["switches"].as_u64().expect("a number")
        + sched["facts"]["idle_switches"].as_u64().expect("a number");
    assert_eq!(switches as f64, number("Total number of context switches"));
    // perf no longer knows the name and number of exiting tasks in their last switches: it makes one task of all of them.
    let exits = summary.lines().find_map(|line| {
        let line = line.trim_start().strip_prefix(":-1[-1")?;
        line.split_whitespace().nth(2)?.parse::<f64>().ok()
    });
    let tasks = sched["tasks"].as_array().map_or(0, Vec::len) as f64;
    let perfs = number("Total number of unique tasks") - if exits.is_some() { 1.0 } else { 0.0 };
    assert!(
        (perfs..=perfs + exits.unwrap_or(0.0)).contains(&tasks),
        "{tasks} {summary}"
    );
    let run_us = sched["total"]["run_ns"].as_u64().expect("a number") / 1_000;
    assert_eq!(run_us as f64 / 1e3, number("Total run time"));
}
