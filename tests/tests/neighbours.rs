//! Recorders beside each other and beside other tools; sessions that come, go, and lie about themselves; and the bounds that
//! hold whatever they do.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use dbtime::throwaway::{Options, Shutdown};
use dbtime_model::State;
use dbtime_tests::{
    Books, Diving, KernelObjects, Programs, Recorded, Recorder, Running, Session, SessionTime,
    assert_between, children, dbtime, distribution, needs_recording, pgbench, say, wait_for_state,
};
use tempfile::TempDir;

const SECOND: Duration = Duration::from_secs(1);
/// How long other tools may take to begin.
const PATIENCE: Duration = Duration::from_secs(30);
/// Memory of a recorder: its own, and one of a very busy server.
const MEMORY: u64 = 400 << 20;
/// Files that it has open.
const FILES: usize = 200;
/// Kernel memory of its maps and programs.
const MAPS: u64 = 256 << 20;

/// Another tool that looks at the host; ended as Ctrl-C does, or killed when dropped.
struct Tool(Child);

impl Tool {
    fn start(program: &str, arguments: &[&str], home: &Path) -> Tool {
        let child = Command::new(program)
            .args(arguments)
            .current_dir(home)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Tool(child.unwrap_or_else(|e| panic!("{program}: {e}; scripts/deps.sh test installs it")))
    }

    fn end(mut self) {
        assert_eq!(self.0.try_wait().expect("our child"), None, "it ended by itself");
        // SAFETY: kill has no memory effects; the child is not reaped yet.
        unsafe { libc::kill(self.0.id().cast_signed(), libc::SIGINT) };
        self.0.wait().expect("our child");
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        // Both do nothing when it has ended, as it has unless a test failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn recorders_beside_each_other_and_beside_other_tools_tell_the_truth() {
    needs_recording!();
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let programs = Programs::default();
    let calls = programs.compile("cc", "calls.c", "calls", &[]);
    let cluster = distribution().start(Options::default());
    let mut session = Session::connect(&cluster);
    let before = KernelObjects::now();
    let target = Running::start(&calls, &["nanosleep", "1000000000"]);
    wait_for_state(target.pid(), 'T');

    let tools = [
        Tool::start(
            "perf",
            &["record", "-g", "-a", "-F", "99", "-o", "perf.data"],
            home.path(),
        ),
        Tool::start(
            "bpftrace",
            &[
                "-e",
                "tracepoint:sched:sched_switch { @[args->prev_pid] = count(); }",
            ],
            home.path(),
        ),
        Tool::start("offcputime", &["60"], home.path()),
    ];
    let pid = target.pid().to_string();
    let dive = Diving::start(&[
        "-p",
        &pid,
        "--call",
        "nanosleep",
        "--engine",
        "tracepoints",
        "-d",
        "60",
    ]);
    target.go_on();
    // bpftrace, offcputime and the dive load a program each.
    let give_up = Instant::now() + PATIENCE;
    while KernelObjects::now().programs_since(&before) < 3 {
        assert!(Instant::now() < give_up, "the other tools do not begin");
        std::thread::sleep(SECOND / 10);
    }
    let recorders = [
        Recorder::server(&cluster, &[]),
        Recorder::server(&cluster, &["--exact"]),
        Recorder::server(&cluster, &["--exact=calls"]),
    ];
    session.burn(SECOND);
    let begin = Instant::now();
    session.run("SELECT pg_sleep(1)");
    let asleep = begin.elapsed().as_secs_f64();
    let truth = session.schedstat();
    for recorder in recorders {
        let recorded = recorder.stop();
        let time = recorded.session(session.pid());
        time.assert_conserved();
        let slept = time.ns(Some("Timeout:PgSleep"), &State::ALL) as f64 / 1e9;
        let tier = &recorded.meta.collector.tier;
        assert_between(&format!("asleep with {tier}"), slept, 1.0, asleep, 0.05, 0.0);
        assert!(
            time.cpu_ns() as f64 <= truth.on_cpu.as_nanos() as f64 * 1.05,
            "{tier}"
        );
        assert!(
            time.cpu_ns() > 400_000_000,
            "{tier}: {} ns on a CPU",
            time.cpu_ns()
        );
    }
    dive.signal(libc::SIGINT);
    let dived = dive.wait().expect_code(0);
    assert!(dived.stderr.contains("traced "), "{dived:#?}");
    tools.into_iter().for_each(Tool::end);
    drop(target);
    before.assert_nothing_left();
}

/// Names with which a user wants to be taken for a background process, or for somebody else.
#[test]
fn names_that_lie_in_titles_deceive_nobody() {
    needs_recording!();
    for cluster_name in ["", "15/main"] {
        let cluster = distribution().start(Options::default().set("cluster_name", cluster_name));
        let databases = ["shop", "x [local]", "</script>\u{1b}[2J\u{202e}\n"];
        let users = [
            "a: walsender",
            "walsender",
            "15/main: checkpointer",
            "autovacuum worker",
            "bob shop [local]",
            "logger",
            "\u{1b}]0;x\u{7}\r\n|",
        ];
        for database in databases {
            cluster
                .psql(&format!("CREATE DATABASE \"{database}\""))
                .expect("it can be made");
        }
        let mut sessions = Vec::new();
        for user in users {
            cluster
                .psql(&format!("CREATE ROLE \"{user}\" SUPERUSER LOGIN"))
                .expect("it can be made");
            for database in databases {
                sessions.push((user, database, Session::connect_as(&cluster, user, database)));
            }
        }
        let recorded = Recorder::server(&cluster, &["-d", "1"]).finish();
        for (user, database, session) in &sessions {
            let row = recorded.session(session.pid()).row;
            assert_eq!(row.backend_type, "client backend", "{row:?}");
            let found = (row.user.as_str(), row.database.as_str(), row.client.as_str());
            assert_eq!(found, (*user, *database, "[local]"), "{row:?}");
        }
        // Whatever they are called, nothing of it reaches a terminal.
        for by in ["session,wait", "user", "database", "client"] {
            let text = recorded.text(&["--by", by]);
            let moves = |c: char| c.is_control() && c != '\n' || ('\u{202a}'..='\u{202e}').contains(&c);
            assert!(!text.contains(moves), "--by {by}: {text:?}");
        }
    }
}

#[test]
fn a_server_that_is_killed_and_restarted_at_once_is_followed() {
    needs_recording!();
    let mut cluster = distribution().start(Options::default());
    let recorder = Recorder::server(&cluster, &[]);
    for _ in 0..3 {
        std::thread::sleep(SECOND / 2);
        // Its postmaster.pid stays, and is written anew by the next one.
        cluster.stop(Shutdown::Kill).expect("it ran");
        cluster.launch().expect("it starts again");
    }
    let mut last = Session::connect(&cluster);
    last.run("SELECT pg_sleep(2)");
    let recorded = recorder.stop();
    let slept = recorded
        .session(last.pid())
        .ns(Some("Timeout:PgSleep"), &State::ALL) as f64
        / 1e9;
    assert!(
        (1.0..2.1).contains(&slept),
        "it slept 2 s, recorded are {slept:.2} s"
    );
    let count = |word: &str| {
        recorded
            .meta
            .notes
            .iter()
            .filter(|note| note.text.contains(word))
            .count()
    };
    assert_eq!(
        (count("has stopped"), count("has restarted")),
        (3, 3),
        "{:?}",
        recorded.meta.notes
    );
}

/// The kernel's next process id is set back: sessions get the pids of those that have ended.
#[test]
fn pids_that_are_used_again_are_other_sessions() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let recorder = Recorder::server(&cluster, &[]);
    let mut sessions = 0;
    let mut reused = 0;
    let mut wanted = None;
    for _ in 0..20 {
        if let Some(pid) = wanted {
            fs::write("/proc/sys/kernel/ns_last_pid", format!("{}", pid - 1)).expect("root may");
        }
        let mut session = Session::connect(&cluster);
        reused += u32::from(wanted == Some(session.pid()));
        wanted = wanted.or(Some(session.pid()));
        session.run("SELECT pg_sleep(0.1)");
        session.end();
        sessions += 1;
    }
    let recorded = recorder.stop();
    assert!(reused >= 10, "the kernel gave the same pid {reused} times only");
    let clients = recorded.clients();
    assert_eq!(clients.len(), sessions, "each of them is a session of its own");
    for client in &clients {
        client.assert_conserved();
        assert!(client.elapsed_ns < 5_000_000_000, "{:?}", client.row);
    }
}

/// Asserts that what a recorder uses of its host, by the kernel's accounting, is within the bounds.
#[track_caller]
fn assert_bounded(recorder: &Recorder) -> Books {
    let books = Books::of(recorder.pid(), recorder.path());
    assert!(books.memory < MEMORY, "{books:?}");
    assert!(books.files < FILES, "{books:?}");
    assert!(books.maps < MAPS, "{books:?}");
    books
}

/// Asserts that less than this share of DB time is of sessions of unknown kind.
#[track_caller]
fn assert_little_is_unknown(recorded: &Recorded, share: f64) {
    let report = recorded.json(&["--by", "backend_type"]);
    let rows = report["ledger"].as_array().expect("rows");
    let unknown = rows
        .iter()
        .find(|row| row["section"] == "db_time" && row["group"]["backend_type"] == "unknown");
    let seconds = |ns: &serde_json::Value| ns.as_f64().expect("a number") / 1e9;
    let unknown = unknown.map_or(0.0, |row| seconds(&row["total_ns"]));
    let db_time = seconds(&report["db_time_ns"]);
    say(&format!(
        "{unknown:.2} of {db_time:.2} s of DB time are of unknown type"
    ));
    assert!(unknown < share * db_time, "{unknown:.2} of {db_time:.2} s");
}

#[test]
fn a_thousand_connections_that_come_and_go_stay_within_bounds() {
    needs_recording!();
    let cluster = distribution().start(Options::default().set("max_connections", "600"));
    pgbench::initialise(&cluster, 1);
    for tier in [&[][..], &["--exact=calls"]] {
        let recorder = Recorder::server(&cluster, tier);
        pgbench::run(
            &cluster,
            &[
                "--select-only",
                "--no-vacuum",
                "--connect",
                "--client=100",
                "--jobs=2",
                "--transactions=15",
            ],
        );
        assert_bounded(&recorder);
        let recorded = recorder.stop();
        let seen = recorded.sessions.len();
        assert!(seen > 1_000, "{tier:?}: {seen} of 1500 connections were seen");
        assert_little_is_unknown(&recorded, 0.05);
    }
}

/// A recorder that gets a CPU after all others. Beside far more work than there are CPUs for, it takes what the kernel has sent seconds
/// later: by then sessions have ended whose time, and end, are still to come.
const BEHIND: [&str; 3] = ["nice", "-n", "15"];

/// An argument of pgbench: a script whose every statement computes for some milliseconds.
fn computing_script() -> (TempDir, String) {
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let script = home.path().join("computes.sql");
    fs::write(
        &script,
        "SELECT count(*) FROM generate_series(1, 20000) AS n WHERE n % 7 = 3;\n",
    )
    .expect("written");
    let argument = format!("--file={}", script.display());
    (home, argument)
}

#[test]
fn a_recording_ends_where_the_last_numbers_are_from_however_late_the_recorder_is() {
    needs_recording!();
    let (_home, script) = computing_script();
    let cluster = distribution().start(Options::default());
    let data_dir = cluster.data_dir().to_str().expect("a plain path");
    let arguments = ["--no-vacuum", "--jobs=2", "--client=32", "--time=60", &script];
    let load = pgbench::Load::start(&cluster, &arguments);
    let recorder = Recorder::through(&BEHIND, &["--postgres", data_dir, "-d", "5"]);
    let recorded = recorder.finish();
    drop(load);
    let meta = &recorded.meta;
    assert!(meta.end_us - meta.start_us >= 5_000_000);
    // The last whole second and what came after it.
    let from = (meta.end_us / 1_000_000 - 1) * 1_000_000;
    let in_the_end = (meta.end_us - from) as f64 / 1e6;
    let of_session = |session: &SessionTime| -> u64 {
        let rows = session.activity.iter().filter(|row| row.time >= from);
        rows.map(|row| row.ns).sum()
    };
    let most = recorded.clients().iter().map(of_session).max();
    let most = most.expect("there are clients") as f64 / 1e9;
    let missing = meta.quality.missing_ns;
    say(&format!(
        "{most:.3} s of the last {in_the_end:.3}, and {missing} ns are missing"
    ));
    assert!((most - in_the_end).abs() < 0.1, "{most} of {in_the_end} s");
    assert_eq!(missing, 0);
}

#[test]
fn a_recorder_that_is_seconds_behind_has_all_time_of_sessions_that_have_ended() {
    const CLIENTS: usize = 64;
    const LASTS: u64 = 12;
    needs_recording!();
    let (_home, script) = computing_script();
    let cluster = distribution().start(Options::default());
    let data_dir = cluster.data_dir().to_str().expect("a plain path");
    let recorder = Recorder::through(&BEHIND, &["--postgres", data_dir, "--exact=calls"]);
    pgbench::run(
        &cluster,
        &[
            "--no-vacuum",
            "--jobs=2",
            &format!("--client={CLIENTS}"),
            &format!("--time={LASTS}"),
            &script,
        ],
    );
    let recorded = recorder.stop();
    // A session has a row for each name of its application.
    let mut of_pid: BTreeMap<u32, u64> = BTreeMap::new();
    for client in recorded.clients() {
        *of_pid.entry(client.row.pid).or_default() += client.accounted_ns();
    }
    // pgbench has one more connection, before the others.
    let long: Vec<u64> = of_pid
        .into_values()
        .filter(|ns| *ns > SECOND.as_nanos() as u64)
        .collect();
    say(&format!(
        "accounted for at least {:?} ms of {LASTS} s",
        long.iter().map(|ns| ns / 1_000_000).min()
    ));
    assert_eq!(long.len(), CLIENTS, "{long:?}");
    assert!(
        long.iter().all(|ns| *ns >= LASTS * 1_000_000_000 - 500_000_000),
        "{long:?}"
    );
}

#[test]
fn who_ended_before_any_other_had_a_name_gets_the_name_of_those_that_come_after() {
    needs_recording!();
    let cluster = distribution().start(Options::default().set("max_connections", "100"));
    pgbench::initialise(&cluster, 1);
    let recorder = Recorder::server(&cluster, &["--exact=calls"]);
    // As beside a hundred busy processes: the recorder gets no CPU while the first sessions come and go.
    recorder.signal(libc::SIGSTOP);
    let connects = |transactions| {
        let arguments = [
            "--select-only",
            "--no-vacuum",
            "--connect",
            "--client=10",
            transactions,
        ];
        pgbench::run(&cluster, &arguments);
    };
    connects("--transactions=5");
    recorder.signal(libc::SIGCONT);
    connects("--transactions=20");
    let recorded = recorder.stop();
    assert!(
        recorded.sessions.len() > 200,
        "{} of 250 connections were seen",
        recorded.sessions.len()
    );
    assert_little_is_unknown(&recorded, 0.01);
}

/// Seconds for which 400 busy sessions are recorded in each tier, in a long run: `DBTIME_LONG_RUN=600`.
fn long_run() -> Option<u64> {
    let seconds = std::env::var("DBTIME_LONG_RUN").ok()?;
    Some(seconds.parse().expect("a number of seconds"))
}

#[test]
fn beside_400_busy_sessions_a_recording_stays_within_bounds() {
    needs_recording!();
    let cluster = distribution().start(Options::default().set("max_connections", "450"));
    pgbench::initialise(&cluster, 1);
    let load = pgbench::Load::start(
        &cluster,
        &[
            "--select-only",
            "--no-vacuum",
            "--client=400",
            "--jobs=2",
            "--time=3600",
        ],
    );
    let give_up = Instant::now() + PATIENCE;
    while children(cluster.postmaster_pid()).len() < 400 {
        assert!(Instant::now() < give_up, "the sessions do not begin");
        std::thread::sleep(SECOND / 10);
    }
    let seconds = long_run().unwrap_or(4);
    let duration = seconds.to_string();
    let tiers = [&["-d", &duration][..], &["-d", &duration, "--exact=calls"]];
    // In a long run both at once: nobody has the time for one after the other.
    for tiers in tiers.chunks(if long_run().is_some() { 2 } else { 1 }) {
        let recorders: Vec<Recorder> = tiers
            .iter()
            .map(|tier| Recorder::server(&cluster, tier))
            .collect();
        let begin = Instant::now();
        // The last second may be over before it is looked at; of two recorders the first begins earlier.
        for second in 1..seconds - u64::from(tiers.len() > 1) * 30 {
            std::thread::sleep((begin + second as u32 * SECOND).saturating_duration_since(Instant::now()));
            for (recorder, tier) in recorders.iter().zip(tiers) {
                let books = assert_bounded(recorder);
                if tiers.len() > 1 && second % 60 == 0 {
                    say(&format!("{tier:?}, {second} s: {books:?}"));
                }
            }
        }
        for recorder in recorders {
            assert_400_clients(&recorder.finish_without_latencies(), seconds);
        }
    }
    drop(load);
}

/// CPU time of a recorder before it samples and after, ns: most of it is the kernel's, for verifying the programs.
const BEGIN_AND_END: u64 = 3_000_000_000;

/// All of them are there for nearly all of the time, within a CPU.
fn assert_400_clients(recorded: &Recorded, seconds: u64) {
    let (cost, quality) = (&recorded.meta.cost, &recorded.meta.quality);
    // The end included, which takes the most: all is written and merged.
    assert!(cost.max_rss_bytes < MEMORY, "{cost:?}");
    say(&format!(
        "{}: {cost:?}, {quality:?}",
        recorded.meta.collector.tier
    ));
    let clients = recorded.clients();
    assert!(clients.len() >= 400, "{} sessions", clients.len());
    for client in &clients {
        assert!(
            client.elapsed_ns > (seconds - 1) * 1_000_000_000,
            "{:?}: {} ns",
            client.row,
            client.elapsed_ns
        );
    }
    assert!(cost.cpu_ns < BEGIN_AND_END + seconds * 1_000_000_000, "{cost:?}");
}

/// Titles of two megabytes.
#[test]
fn five_thousand_processes_with_endless_titles_stay_within_bounds() {
    needs_recording!();
    const PROCESSES: usize = 5_000;
    let programs = Programs::default();
    let crowd = programs.compile("cc", "crowd.c", "crowd", &[]);
    let argument = "x".repeat(120 << 10);
    let mut arguments = vec![PROCESSES.to_string()];
    arguments.resize(16, argument);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let parent = Running::start(&crowd, &arguments);
    let give_up = Instant::now() + PATIENCE;
    while children(parent.pid()).len() < PROCESSES {
        assert!(Instant::now() < give_up, "they do not begin");
        std::thread::sleep(SECOND / 10);
    }
    let recorder = Recorder::start(&["--process", &parent.pid().to_string(), "-d", "3"]);
    std::thread::sleep(2 * SECOND);
    assert_bounded(&recorder);
    let recorded = recorder.finish();
    assert_eq!(recorded.sessions.len(), PROCESSES + 1);
    assert!(recorded.sessions.iter().all(|row| row.title.len() <= 4_096));
}

#[test]
fn who_looks_like_a_server_and_is_none_is_in_nobodys_way() {
    needs_recording!();
    // The only server: this file runs by itself.
    let cluster = distribution().start(Options::default());
    let programs = Programs::default();
    // The name, the files beside it, and an executable with a hole of 14 GB.
    let program = programs.compile("gcc", "chain.c", "postgres", &[]);
    let file = fs::OpenOptions::new()
        .write(true)
        .open(&program)
        .expect("it was made");
    file.set_len(14 << 30).expect("files may have holes");
    drop(file);
    fs::write(programs.folder().join("PG_VERSION"), "15\n").expect("there is room");
    let start = format!(
        "cd {}; echo $$ > postmaster.pid; exec ./postgres spin",
        programs.folder().display()
    );
    let look_alike = Running::start(Path::new("/bin/sh"), &["-c", &start]);
    std::thread::sleep(Duration::from_millis(300));
    let recording = programs.folder().join("test.dbt");
    let recording = recording.to_str().expect("a plain path");
    dbtime(&["record", "-d", "1", "-o", recording]).expect_code(0);
    let recorded = Recorded::open(Path::new(recording), String::new(), None);
    let data_directory = cluster.data_dir().to_str().expect("a plain path");
    assert_eq!(recorded.meta.database.data_directory, data_directory);
    drop(look_alike);
}
