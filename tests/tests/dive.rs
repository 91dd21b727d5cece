//! `dbtime dive`: calls of a program that makes a known number of them, and a kernel that is as it was before.
//!
//! Here the engine that works everywhere; `make test-kernels` tests those that trace functions.

use std::fs;
use std::path::PathBuf;

use dbtime::throwaway::Options;
use dbtime_tests::{
    Diving, Programs, Running, Session, dbtime, dbtime_after, dbtime_as_nobody, distribution, instances,
    needs_recording, trace_settings, wait_for_state,
};
use tempfile::TempDir;

/// A program that makes calls as soon as it may, and a place for what is traced.
struct Target {
    program: Running,
    home: TempDir,
    _compiled: Programs,
}

impl Target {
    fn new(call: &str, count: u32) -> Target {
        let compiled = Programs::default();
        let calls = compiled.compile("cc", "calls.c", "calls", &[]);
        let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
        let file = home.path().join("file");
        fs::write(&file, [0; 8192]).expect("an own file");
        let program = Running::start(
            &calls,
            &[call, &count.to_string(), file.to_str().expect("a plain path")],
        );
        wait_for_state(program.pid(), 'T');
        Target {
            program,
            home,
            _compiled: compiled,
        }
    }

    fn pid(&self) -> String {
        self.program.pid().to_string()
    }

    fn text(&self) -> PathBuf {
        self.home.path().join("text")
    }

    /// Begins to look into a call by tracepoints.
    fn dive(&self, call: &str, more: &[&str]) -> Diving {
        let (pid, text) = (self.pid(), self.text());
        let text = text.to_str().expect("a plain path");
        let usual = [
            "-p",
            &pid,
            "--call",
            call,
            "--engine",
            "tracepoints",
            "--raw",
            text,
        ];
        Diving::start(&[&usual[..], more].concat())
    }

    /// Lines of the text in which this task itself passed a tracepoint.
    fn passed(&self, what: &str) -> usize {
        let text = fs::read_to_string(self.text()).expect("the text was written");
        let task = format!("-{} ", self.program.pid());
        text.lines()
            .filter(|line| line.contains(&task) && line.contains(what))
            .count()
    }
}

#[test]
fn every_call_is_in_the_text_and_nothing_is_left_behind() {
    needs_recording!();
    const CALLS: u32 = 300;
    for (call, number, inside) in [
        // The page cache is asked for every read; the task leaves the CPU in every sleep, or is told not to need to.
        ("pread64", libc::SYS_pread64, "mm_filemap_get_pages"),
        ("nanosleep", libc::SYS_nanosleep, "hrtimer_start"),
    ] {
        let target = Target::new(call, CALLS);
        let before = trace_settings();
        let dive = target.dive(call, &["-d", "60"]);
        assert_eq!(instances().len(), 1, "a private instance is in use");
        target.program.go_on();
        let outcome = dive.wait().expect_code(0);
        // It ended with the program, not after a minute.
        let said = format!("traced {CALLS} calls");
        assert!(outcome.stderr.contains(&said), "{outcome:#?}");
        let calls = usize::try_from(CALLS).expect("a small number");
        assert_eq!(target.passed(&format!(" sys_enter: NR {number} ")), calls);
        assert_eq!(target.passed(&format!(" sys_exit: NR {number} = ")), calls);
        let text = fs::read_to_string(target.text()).expect("the text was written");
        assert!(text.starts_with("# tracer: nop\n"), "{}", &text[..80]);
        if text.contains(&format!(": {inside}: ")) || call == "nanosleep" {
            assert!(
                target.passed(&format!(" {inside}: ")) >= calls,
                "{inside} is in every {call}"
            );
        }
        assert_eq!(trace_settings(), before, "settings of the kernel after {call}");
        // And so they are in the report.
        let path = target.text();
        let report = dbtime(&["report", &path.to_string_lossy(), "--format", "json"]).expect_code(0);
        let report: serde_json::Value = serde_json::from_str(&report.stdout).expect("JSON");
        assert_eq!(report["trace"]["calls"], CALLS, "{report:#}");
        assert_eq!(report["calls"][0]["function"], format!("sys_{call}"));
        assert_eq!(report["calls"][0]["count"], CALLS);
    }
}

#[test]
fn it_ends_when_there_are_enough_calls() {
    needs_recording!();
    // More than a minute of them.
    let target = Target::new("nanosleep", 100_000);
    let dive = target.dive("nanosleep", &["-n", "5", "-d", "60"]);
    target.program.go_on();
    let outcome = dive.wait().expect_code(0);
    let number = libc::SYS_nanosleep;
    let found = target.passed(&format!(" sys_exit: NR {number} = "));
    // What was traced until it was stopped is there, too.
    assert!((5..2_000).contains(&found), "{found} calls: {outcome:#?}");
}

#[test]
fn a_dive_that_is_told_to_end_gives_everything_back() {
    needs_recording!();
    let before = trace_settings();
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        let target = Target::new("nanosleep", 1);
        let dive = target.dive("nanosleep", &["-d", "60"]);
        dive.signal(signal);
        dive.wait()
            .expect_code(3)
            .expect_stderr(&["ended no call of nanosleep", "--list"]);
        assert_eq!(
            trace_settings(),
            before,
            "settings of the kernel after signal {signal}"
        );
    }
}

#[test]
fn what_a_killed_dive_left_is_removed_by_the_next_one() {
    needs_recording!();
    let before = trace_settings();
    let target = Target::new("nanosleep", 1);
    let dive = target.dive("nanosleep", &["-d", "60"]);
    let pid = dive.pid().to_string();
    dive.signal(libc::SIGKILL);
    dive.wait().expect_code(-1);
    assert_eq!(instances().len(), 1, "nothing else could have removed it");
    dbtime(&["dive", "--restore"])
        .expect_code(0)
        .expect_stderr(&["killed", &pid, "dbtime-"]);
    assert_eq!(trace_settings(), before, "settings of the kernel");
    // Nothing is left to be told.
    let again = dbtime(&["dive", "--restore"]).expect_code(0);
    assert_eq!(again.stderr, "");
}

#[test]
fn calls_of_a_wait_event_are_told_from_others() {
    needs_recording!();
    const SLEEPS: usize = 8;
    let cluster = distribution().start(Options::default());
    let mut session = Session::connect(&cluster);
    // Catalogs are read, memory is taken: later nothing but the sleeps is left.
    session.run("SELECT pg_sleep(0.01)");
    let pid = session.pid().to_string();
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let text = home.path().join("text");
    let usual = [
        "-p",
        &pid,
        "--call",
        "epoll_wait",
        "--engine",
        "tracepoints",
        "-d",
        "60",
    ];
    let count = SLEEPS.to_string();
    let more = [
        "--wait",
        "PgSleep",
        "-n",
        &count,
        "--raw",
        text.to_str().expect("a plain path"),
    ];
    let dive = Diving::start(&[&usual[..], &more].concat());
    for _ in 0..SLEEPS {
        // It would not wait for a client that has already spoken.
        session.wait_until_idle();
        session.run("SELECT pg_sleep(0.02)");
    }
    dive.wait().expect_code(0).expect_stderr(&[
        &format!("Timeout:PgSleep {SLEEPS}"),
        &format!("traced {SLEEPS} calls"),
    ]);
    let text = fs::read_to_string(&text).expect("the text was written");
    assert!(text.starts_with("# tracer: nop\n"), "{}", &text[..80]);
    let of_wait = |wait: &str| {
        let noted = text
            .lines()
            .filter(|line| line.starts_with(&format!("# dbtime call: pid={pid} at=")));
        noted
            .filter(|line| line.ends_with(&format!(" wait={wait}")))
            .count()
    };
    // One call for each sleep; between two of them the session waited for its client.
    assert_eq!(of_wait("Timeout:PgSleep"), SLEEPS);
    assert!(of_wait("Client:ClientRead") >= SLEEPS - 1, "{text}");
    // On one clock: each begin that was noted has its event in the trace, less than a millisecond away.
    let number = libc::SYS_epoll_wait;
    let seconds = |text: &str| text.parse::<f64>().expect("seconds");
    let begins: Vec<f64> = text
        .lines()
        .filter(|line| line.contains(&format!(" sys_enter: NR {number} ")))
        .map(|line| {
            let (before, _) = line.split_once(": sys_enter").expect("found above");
            seconds(before.rsplit(' ').next().expect("a time"))
        })
        .collect();
    for line in text
        .lines()
        .filter(|line| line.ends_with(" wait=Timeout:PgSleep"))
    {
        let at = line
            .split_once(" at=")
            .and_then(|(_, rest)| rest.split(' ').next());
        let at = seconds(at.expect("a time"));
        assert!(
            begins.iter().any(|begin| (begin - at).abs() < 0.001),
            "{at} {begins:?}"
        );
    }

    // A process that is no database's has no wait event.
    let target = Target::new("nanosleep", 1);
    dbtime(&[
        "dive",
        "-p",
        &target.pid(),
        "--call",
        "nanosleep",
        "--wait",
        "PgSleep",
    ])
    .expect_code(1)
    .expect_stderr(&["not a PostgreSQL server process"]);
}

#[test]
fn two_dives_at_once_do_not_meet() {
    needs_recording!();
    let target = Target::new("nanosleep", 1);
    let dive = target.dive("nanosleep", &["-d", "60"]);
    let pid = dive.pid().to_string();
    dbtime(&["dive", "-p", &target.pid(), "--call", "nanosleep"])
        .expect_code(1)
        .expect_stderr(&["another 'dbtime dive'", &pid]);
    dbtime(&["dive", "--restore"])
        .expect_code(1)
        .expect_stderr(&[&pid]);
    assert_eq!(instances().len(), 1, "the first one goes on");
    target.program.go_on();
    let outcome = dive.wait().expect_code(0);
    assert!(outcome.stderr.contains("traced 1 calls"), "{outcome:#?}");
}

#[test]
fn an_engine_that_is_refused_is_named_with_why() {
    needs_recording!();
    let tracers = fs::read_to_string("/sys/kernel/tracing/available_tracers").expect("tracefs is mounted");
    if tracers.contains("function_graph") {
        // Then it is not refused: `make test-kernels` looks at that.
        return;
    }
    let before = trace_settings();
    let target = Target::new("nanosleep", 1);
    dbtime(&[
        "dive",
        "-p",
        &target.pid(),
        "--call",
        "nanosleep",
        "--engine",
        "function-graph",
    ])
    .expect_code(1)
    .expect_stderr(&[
        "nothing can look into",
        "private instance",
        "own trace",
        "no function_graph",
    ]);
    assert_eq!(trace_settings(), before, "settings of the kernel");
}

#[test]
fn of_many_threads_only_one_is_traced_and_that_is_said() {
    needs_recording!();
    // Whatever runs this test has a thread for the test, and one that waits for it.
    let own = std::process::id().to_string();
    dbtime(&["dive", "-p", &own, "--call", "futex", "-d", "0.1"]).expect_stderr(&["threads", &own]);
}

#[test]
fn the_calls_of_a_process_are_listed() {
    needs_recording!();
    let target = Target::new("nanosleep", 100_000);
    target.program.go_on();
    let listed = dbtime(&["dive", "-p", &target.pid(), "--list", "-d", "1"]).expect_code(0);
    assert!(listed.stdout.contains("\n  nanosleep "), "{}", listed.stdout);
    assert!(!listed.stdout.contains("pread64"), "{}", listed.stdout);
}

#[test]
fn bad_input_is_told_with_what_to_do() {
    needs_recording!();
    let target = Target::new("nanosleep", 1);
    let pid = target.pid();
    dbtime(&["dive", "-p", &pid, "--call", "pread"])
        .expect_code(1)
        .expect_stderr(&["no system call 'pread'", "pread64"]);
    // Above every pid that Linux gives (PID_MAX_LIMIT).
    dbtime(&["dive", "-p", "4194305", "--call", "pread64"])
        .expect_code(1)
        .expect_stderr(&["4194305", "no such process"]);
    dbtime(&["dive", "-p", "2", "--call", "pread64"])
        .expect_code(1)
        .expect_stderr(&["pid 2", "thread of the kernel"]);
    dbtime_as_nobody(&["dive", "-p", &pid, "--call", "pread64"])
        .expect_code(1)
        .expect_stderr(&["root", "CAP_DAC_OVERRIDE"]);
    const NO_TRACEFS: &str = "mount -t tmpfs none /sys/kernel/tracing; mount -t tmpfs none /sys/kernel/debug";
    dbtime_after(NO_TRACEFS, &["dive", "-p", &pid, "--call", "pread64"])
        .expect_code(1)
        .expect_stderr(&["/sys/kernel/tracing", "tracefs", "mount"]);
    for wrong in [
        &["dive", "--call", "pread64"][..],
        &["dive", "-p", &pid],
        &["dive", "-p", &pid, "--call", "pread64", "-n", "0"],
        &[
            "dive",
            "-p",
            &pid,
            "--call",
            "pread64",
            "--functions",
            "vfs_read:traceoff",
        ],
        &["dive", "-p", &pid, "--list", "--call", "pread64"],
    ] {
        dbtime(wrong).expect_code(2);
    }
}
