//! `dbtime dive`: calls of a program that makes a known number of them, and a kernel that is as it was before.
//!
//! These tests use the engine that works everywhere; `make test-kernels` tests those that trace functions.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use dbtime::throwaway::{Cluster, Options};
use dbtime_tests::{
    Diving, NO_BTF, Programs, Running, Session, StandIn, dbtime, dbtime_after, dbtime_as_nobody,
    distribution, event, instances, needs_recording, number, program_is_loaded, programs_of, trace_settings,
    wait_for_state,
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
        Target::of_size(call, count, 8192)
    }

    /// One whose reads are this long, and of cached data.
    fn of_size(call: &str, count: u32, bytes: usize) -> Target {
        Target::named(call, count, bytes, "calls")
    }

    /// One with this process name.
    fn named(call: &str, count: u32, bytes: usize, name: &str) -> Target {
        let compiled = Programs::default();
        let calls = compiled.compile("cc", "calls.c", "calls", &[]);
        let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
        let file = home.path().join("file");
        fs::write(&file, vec![0; bytes]).expect("an own file");
        let program = Running::start(
            &calls,
            &[
                call,
                &count.to_string(),
                file.to_str().expect("a plain path"),
                &bytes.to_string(),
                name,
            ],
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

    /// Starts a dive into a call by tracepoints.
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

/// What a task did by the lines of its trace, counted here: nanoseconds.
struct Told {
    /// On a CPU inside of calls.
    on_cpu_ns: i64,
    /// Stays off CPU inside of calls.
    stays: i64,
    /// Begin and end of each call.
    calls: Vec<(i64, i64)>,
    /// Moment and stack of each sample.
    samples: Vec<(i64, String)>,
}

impl Told {
    fn read(text: &str, pid: u32) -> Told {
        let ns = |seconds: &str| -> i64 {
            let (seconds, fraction) = seconds.split_once('.').expect("seconds have a point");
            let digits = format!("{fraction:0<9}");
            let parse = |digits: &str| digits.parse::<i64>().expect("digits");
            parse(seconds) * 1_000_000_000 + parse(&digits)
        };
        let mut told = Told {
            on_cpu_ns: 0,
            stays: 0,
            calls: Vec::new(),
            samples: Vec::new(),
        };
        let (mut begin, mut left) = (None, None);
        for line in text.lines() {
            if let Some(sample) = line.strip_prefix(&format!("# dbtime sample: pid={pid} at=")) {
                let (at, stack) = sample.split_once(" stack=").expect("a stack");
                told.samples.push((ns(at), stack.to_string()));
                continue;
            }
            let Some((head, said)) = line.split_once(": ").filter(|_| !line.starts_with('#')) else {
                continue;
            };
            let at = head.rsplit(' ').next().expect("a time");
            if said.starts_with("sys_enter: ") {
                begin = Some(ns(at));
            } else if said.starts_with("sys_exit: ") {
                if let Some(begin) = begin.take() {
                    told.calls.push((begin, ns(at)));
                    told.on_cpu_ns += ns(at) - begin;
                }
            } else if begin.is_some() && said.contains(&format!(" prev_pid={pid} ")) {
                left = Some(ns(at));
            } else if begin.is_some() && said.contains(&format!(" next_pid={pid} ")) {
                told.on_cpu_ns -= left.take().map_or(0, |left| ns(at) - left);
                told.stays += 1;
            }
        }
        told
    }
}

/// Reads of 16 MB from the page cache: all that they do is to copy.
#[test]
fn the_kernel_stack_inside_of_calls_is_sampled_by_their_cpu_time() {
    needs_recording!();
    const CALLS: i64 = 50;
    const PERIOD_NS: i64 = 97_000;
    let target = Target::of_size("pread64", 50, 16 << 20);
    let before = trace_settings();
    let dive = target.dive("pread64", &["-d", "60"]);
    let programs = programs_of(dive.pid());
    assert!(!programs.is_empty(), "a program samples");
    target.program.go_on();
    let outcome = dive.wait().expect_code(0);
    outcome.expect_stderr(&["sampled every 97 us", "traced 50 calls"]);
    assert_eq!(trace_settings(), before, "settings of the kernel");
    // The kernel frees a program some time after its process has ended.
    let loaded = || programs.iter().any(|id| program_is_loaded(*id));
    let deadline = Instant::now() + Duration::from_secs(60);
    while loaded() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!loaded(), "no program is left behind");

    let path = target.text();
    let text = fs::read_to_string(&path).expect("the text was written");
    assert!(text.contains(&format!("\n# dbtime sampling: period_ns={PERIOD_NS} missing=")));
    let told = Told::read(&text, target.program.pid());
    assert_eq!(told.calls.len() as i64, CALLS);
    let is_inside = |at: i64| told.calls.iter().any(|(begin, end)| (*begin..*end).contains(&at));
    let inside: Vec<&str> = told
        .samples
        .iter()
        .filter(|(at, _)| is_inside(*at))
        .map(|(_, stack)| stack.as_str())
        .collect();
    let count = inside.len() as i64;
    // The timer's own tracepoints would be as many as the samples. Other recorders of this host have timers too, slower ones.
    let timers = text
        .lines()
        .filter(|line| line.contains(" hrtimer_expire_entry: ") && line.contains("perf_swevent_hrtimer"));
    let timers = timers.count();
    assert!(timers < inside.len() / 2, "{timers} for {count} samples");
    // A piece of CPU time has one sample more than whole periods at most. There may be fewer of them: a timer that comes
    // late, as when another machine has the CPU, leaves out the periods that it missed. Half of them do not come late.
    let periods = told.on_cpu_ns / PERIOD_NS;
    assert!(
        (periods / 2..=periods + CALLS + told.stays).contains(&count),
        "{count} samples in {periods} periods of CPU time, {} stays off CPU",
        told.stays
    );
    let share = |is: &dyn Fn(&&&str) -> bool| inside.iter().filter(is).count() as f64 / inside.len() as f64;
    // The rest: what records the tracepoints at begin and end, and stacks that the kernel cannot walk.
    let of_call = share(&|stack| stack.contains("sys_pread64;"));
    assert!(
        of_call > 0.9,
        "{of_call} of the samples are below the call's entry"
    );
    // By its entry function, `__x64_sys_…` or `__arm64_sys_…`: tracepoints have `_sys_` in their names too, and what calls the
    // entry functions is `x64_sys_call`.
    let is_entry =
        |function: &str| function.starts_with("__x64_sys_") || function.starts_with("__arm64_sys_");
    let others = inside
        .iter()
        .flat_map(|stack| stack.split(';'))
        .filter(|function| is_entry(function) && !function.ends_with("_sys_pread64"));
    assert_eq!(others.count(), 0, "inside of the call there is no other one");
    let is_copy = |function: &str| function.contains("copy") || function.contains("rep_movs");
    let copies = share(&|stack| stack.rsplit(';').take(3).any(is_copy));
    // Much of the rest is done by the tracer, for each of some 800 tracepoints.
    assert!(copies > 0.2, "{copies} of the samples copy");

    // All of that is in the report, also in that of a recording, and no time differs because of it.
    let recording = target.home.path().join("name.dbt");
    dbtime(&[
        "import",
        &path.to_string_lossy(),
        "-o",
        &recording.to_string_lossy(),
    ])
    .expect_code(0);
    let without = target.home.path().join("without");
    let lines = text.lines().filter(|line| !line.starts_with("# dbtime sampl"));
    fs::write(&without, lines.collect::<Vec<_>>().join("\n") + "\n").expect("an own file");
    let report = |path: &Path| -> serde_json::Value {
        let arguments = [
            "report",
            &path.to_string_lossy(),
            "--format",
            "json",
            "--top",
            "1000",
        ];
        serde_json::from_str(&dbtime(&arguments).expect_code(0).stdout).expect("JSON")
    };
    let (of_text, of_recording, of_rest) = (report(&path), report(&recording), report(&without));
    assert_eq!(of_text["samples"], of_recording["samples"]);
    assert_eq!(of_rest["samples"], serde_json::Value::Null);
    for key in ["calls", "layers", "functions", "interrupts_ns", "preemption_ns"] {
        assert_eq!(of_text[key], of_rest[key], "{key} without samples");
    }
    let number = |value: &serde_json::Value| value.as_i64().expect("a number");
    let samples = &of_text["samples"];
    let all = ["own", "interrupts", "preemption", "tracing"].map(|key| number(&samples[key]));
    // The trace's times are whole microseconds: at both ends of a call a sample may be on either side.
    assert!(
        (all.iter().sum::<i64>() - count).abs() <= 2 * CALLS,
        "{all:?} of {count}"
    );
    assert_eq!(number(&samples["functions"][0]["total"]).max(all[0]), all[0]);
    let own = samples["functions"].as_array().expect("a list").iter();
    assert_eq!(own.map(|function| number(&function["own"])).sum::<i64>(), all[0]);
    let intervals = samples["intervals"].as_array().expect("a list").iter();
    assert_eq!(
        intervals
            .map(|interval| number(&interval["samples"]))
            .sum::<i64>(),
        all[0]
    );
    // A timer that never fired is not the same as none.
    let none = target.home.path().join("none");
    let lines = text.lines().filter(|line| !line.starts_with("# dbtime sample:"));
    fs::write(&none, lines.collect::<Vec<_>>().join("\n") + "\n").expect("an own file");
    let shown = dbtime(&["report", &none.to_string_lossy()]).expect_code(0).stdout;
    assert!(shown.contains("None: the timer fires every 97"), "{shown}");
    let shown = dbtime(&["report", &recording.to_string_lossy()])
        .expect_code(0)
        .stdout;
    assert!(
        shown.contains(&format!(" {} sample", all[0])) && shown.contains(" of the calls' own work"),
        "{shown}"
    );
}

#[test]
fn without_programs_in_the_kernel_there_are_tracepoints_all_the_same() {
    needs_recording!();
    let before = trace_settings();
    let target = Target::new("nanosleep", 100_000);
    target.program.go_on();
    let (pid, text) = (target.pid(), target.text());
    let text = text.to_str().expect("a plain path");
    let arguments = [
        "dive",
        "-p",
        &pid,
        "--call",
        "nanosleep",
        "--engine",
        "tracepoints",
        "-n",
        "5",
        "--raw",
        text,
    ];
    dbtime_after(NO_BTF, &arguments)
        .expect_code(0)
        .expect_stderr(&["no timer samples of the kernel stack: ", "wrote "]);
    assert_eq!(trace_settings(), before, "settings of the kernel");
    let shown = dbtime(&["report", text]).expect_code(0).stdout;
    assert!(!shown.contains("Timer samples"), "{shown}");
}

/// Names that look like something else in a line of the text: a frame of a stack, a column, a line of dbtime's own, a heading,
/// an event of another task.
#[test]
fn a_task_that_calls_itself_like_something_else_hides_nothing() {
    needs_recording!();
    const CALLS: u32 = 20;
    for name in [
        " => 5) | f() {",
        "# dbtime lost: ",
        "a-1 [000] 1.0: ",
        "\u{1b}[2Ja | b",
        "a\nb",
        "\n",
    ] {
        let target = Target::named("nanosleep", CALLS, 8192, name);
        let dive = target.dive("nanosleep", &["-d", "60"]);
        target.program.go_on();
        dive.wait().expect_code(0);
        let path = target.text();
        let report = dbtime(&["report", &path.to_string_lossy(), "--format", "json"]).expect_code(0);
        assert!(!report.stdout.contains('\u{1b}'), "{report:#?}");
        let report: serde_json::Value = serde_json::from_str(&report.stdout).expect("JSON");
        assert_eq!(report["trace"]["calls"], CALLS, "{name:?}: {report:#}");
        assert_eq!(report["calls"][0]["count"], CALLS, "{name:?}");
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
            .expect_stderr(&["completed no call of nanosleep", "--list"]);
        assert_eq!(
            trace_settings(),
            before,
            "settings of the kernel after signal {signal}"
        );
    }
}

#[test]
fn what_a_killed_dive_left_is_removed_by_whatever_loads_programs_next() {
    needs_recording!();
    let before = trace_settings();
    let target = Target::new("nanosleep", 1);
    let task = target.program.pid().to_string();
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let recording = home.path().join("x.dbt").to_string_lossy().into_owned();
    for command in [
        vec!["iolat", "0.1", "1"],
        vec!["sched", "--summary", "-d", "0.2", "-p", &task],
        vec!["record", "-d", "0.2", "-p", &task, "-o", &recording],
    ] {
        let dive = target.dive("nanosleep", &["-d", "60"]);
        let pid = dive.pid().to_string();
        dive.signal(libc::SIGKILL);
        dive.wait().expect_code(-1);
        assert_eq!(instances().len(), 1, "nothing else could have removed it");
        // Whether it finds anything to show is another matter.
        dbtime(&command).expect_stderr(&["killed", &pid, "dbtime-"]);
        assert_eq!(instances(), Vec::<String>::new(), "{command:?}");
        assert_eq!(trace_settings(), before, "{command:?}: settings of the kernel");
    }
    // While one runs nothing of it is touched.
    let dive = target.dive("nanosleep", &["-d", "60"]);
    let outcome = dbtime(&["iolat", "0.1", "1"]);
    assert!(!outcome.stderr.contains("killed"), "{outcome:#?}");
    assert_eq!(instances().len(), 1);
    dive.signal(libc::SIGTERM);
    dive.wait().expect_code(3);
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
    // Nothing is left to report.
    let again = dbtime(&["dive", "--restore"]).expect_code(0);
    assert_eq!(again.stderr, "");
}

/// Asserts that calls during sleeps belong to the statement that slept, in the text of a dive and in its report; those in which the session
/// waits for its client belong to none.
fn have_their_statement(cluster: &Cluster, pid: &str, text: &str, sleeps: usize) {
    let by_server = cluster
        .psql(&format!(
            "SELECT query_id FROM pg_stat_activity WHERE pid = {pid}"
        ))
        .expect("an id");
    let id = by_server.trim();
    let lines = |end: &str| text.lines().filter(|line| line.ends_with(end)).count();
    assert_eq!(lines(&format!(" query={id} wait=Timeout:PgSleep")), sleeps);
    let idle = || {
        text.lines()
            .filter(|line| line.ends_with(" wait=Client:ClientRead"))
    };
    assert!(idle().all(|line| !line.contains(" query=")), "{text}");
    assert_eq!(
        lines(&format!(": query={id} text=SELECT pg_sleep(?)")),
        1,
        "{text}"
    );
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let file = home.path().join("text");
    fs::write(&file, text).expect("room");
    let json = |arguments: &[&str]| -> serde_json::Value {
        let file = file.to_str().expect("a plain path");
        let asked = [&["report", file, "--format", "json"], arguments].concat();
        let shown = dbtime(&asked).expect_code(0);
        serde_json::from_str(&shown.stdout).expect("JSON")
    };
    let by_query = json(&["--by", "query"]);
    let ledger = by_query["ledger"].as_array().expect("rows");
    let slept: f64 = (ledger.iter())
        .filter(|row| row["group"]["query"] == id)
        .map(|row| number(&row["total_ns"]) / 1e9)
        .sum();
    // The last one may be under way when the dive ends, and a CPU late.
    let (least, most) = (0.0199 * (sleeps as f64 - 1.0), 0.04 * sleeps as f64);
    assert!((least..most).contains(&slept), "{slept} s: {by_query:#}");
    let slowest = json(&["--call", "slowest", "--query", id]);
    assert_eq!(slowest["query"], id, "{slowest:#}");
    let wrong = dbtime(&["report", file.to_str().expect("a plain path"), "--query", "4711"]);
    assert!(
        wrong.code != 0 && wrong.stderr.contains("4711") && wrong.stderr.contains(id),
        "{wrong:?}"
    );
}

#[test]
fn calls_of_a_wait_event_are_told_from_others() {
    needs_recording!();
    const SLEEPS: usize = 8;
    let cluster = distribution().start(Options::default().set("compute_query_id", "on"));
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
    have_their_statement(&cluster, &pid, &text, SLEEPS);
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

/// The stand-in for Oracle says how often it read in which event: past the page cache, and from it.
#[test]
fn calls_of_a_wait_event_of_oracle_are_those_of_the_log() {
    needs_recording!();
    let mut stand_in = StandIn::start(2.0, 1, "cached,direct,sleep");
    let map = stand_in.map();
    let pid = stand_in.pids()[0];
    let dive = Diving::start(&[
        "-p",
        &pid.to_string(),
        "--call",
        "pread64",
        "--wait",
        "direct path read",
        "--oracle",
        map.to_str().expect("a plain path"),
        "--engine",
        "tracepoints",
        "-d",
        "60",
    ]);
    let truth = stand_in.work();
    dive.signal(libc::SIGINT);
    let count = |event: u32| -> u64 {
        truth
            .iter()
            .filter(|row| row.event == event)
            .map(|row| row.count)
            .sum()
    };
    let (direct, cached) = (count(event::DIRECT_READ), count(event::SEQUENTIAL_READ));
    assert!(direct > 20 && cached > 20, "{truth:?}");
    dive.wait().expect_code(0).expect_stderr(&[
        &format!("traced {direct} calls"),
        &format!("User I/O:direct path read {direct}"),
        &format!("User I/O:db file sequential read {cached}"),
    ]);
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
        "no engine can trace",
        "private instance",
        "top-level instance",
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
        .expect_stderr(&["pid 2", "kernel thread"]);
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
