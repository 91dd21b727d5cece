//! `dbtime top` on a terminal of its own: what can be read there is what a report says, and the terminal is given back.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dbtime::throwaway::{Cluster, Options};
use dbtime_model::recording::{Meta, RecordingWriter, SCHEMA_VERSION};
use dbtime_model::{
    ActivityRow, Fidelity, Frame, NO_STACK, Rows, SessionId, SessionRow, SessionState, StackRow, State,
    StatementRow, stack_id,
};
use dbtime_tests::{
    Recorded, Recorder, Screen, Session, assert_close, dbtime, dbtime_binary, distribution, needs_recording,
    number, say,
};
use serde_json::Value;
use tempfile::TempDir;

const SMALL: (u16, u16) = (80, 24);
const LARGE: (u16, u16) = (200, 60);
const SOON: Duration = Duration::from_secs(20);

const LEFT: &str = "\x1b[D";
const END: &str = "\x1b[F";
const ESCAPE: &str = "\x1b";
const ENTER: &str = "\r";

/// Moves the cursor, begins an escape sequence, reorders a line, adds a line of its own.
const HOSTILE: &str = "\u{1b}[2J\u{9b}31m\u{202e}\u{ad}\r\nforged\u{2028}\u{7}\u{7f}";

const START_US: i64 = 1_750_000_000_000_000;

fn plain(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

fn row(second: i64, session: u64, wait: (&str, &str), state: State, ns: u64) -> ActivityRow {
    ActivityRow {
        time: START_US + second * 1_000_000,
        session: SessionId(session),
        statement: 42,
        plan: 0,
        wait_class: wait.0.into(),
        wait_event: wait.1.into(),
        idle: false,
        state,
        session_state: SessionState::Active,
        kernel_stack: NO_STACK,
        user_stack: NO_STACK,
        comment: 0,
        ns,
        count: 0,
        samples: 99,
        fidelity: Fidelity::Sampled,
        pooled: false,
    }
}

/// A recording of twenty seconds. In the first ten one session is on a CPU, in the last ten two wait for locks; all texts are these.
fn made(home: &TempDir, text: &str) -> std::path::PathBuf {
    let path = home.path().join("made.dbt");
    let mut meta = Meta {
        schema: SCHEMA_VERSION.to_string(),
        start_us: START_US,
        end_us: START_US + 20_000_000,
        ..Meta::default()
    };
    meta.host.cpus = 2;
    meta.host.name = format!("host{text}");
    meta.database.product = format!("PostgreSQL{text}");
    meta.database.data_directory = text.to_string();
    meta.collector.rate_hz = 99;
    meta.collector.tier = "sampled".to_string();
    let frames = vec![Frame {
        symbol: format!("function{text}"),
        module: "postgres".to_string(),
        build_id: String::new(),
        offset: 1,
    }];
    let id = stack_id(&frames);
    let mut rows = Rows {
        stacks: vec![StackRow { id, frames }],
        statements: vec![StatementRow {
            id: 42,
            text: format!("select 42 /* {text} */ from a_table"),
            ..StatementRow::default()
        }],
        ..Rows::default()
    };
    for (session, pid) in [(1, 4_711), (2, 4_712)] {
        rows.sessions.push(SessionRow {
            id: SessionId(session),
            pid,
            started: START_US,
            backend_type: "client backend".into(),
            user: format!("user{session}{text}"),
            database: format!("shop{text}"),
            application: format!("app{text}"),
            ..SessionRow::default()
        });
    }
    for second in 0..20 {
        match second {
            0..10 => {
                let mut row = row(second, 1, ("CPU", "CPU"), State::User, 1_000_000_000);
                row.user_stack = id;
                rows.activity.push(row);
            }
            _ => {
                for session in [1, 2] {
                    let event = format!("transactionid{text}");
                    rows.activity.push(row(
                        second,
                        session,
                        ("Lock", &event),
                        State::Sleep,
                        1_000_000_000,
                    ));
                }
            }
        }
    }
    let mut writer = RecordingWriter::create(&path, meta).expect("a new directory");
    writer.write(&rows).expect("there is room");
    writer.finish().expect("there is room");
    path
}

fn replay(recording: &Path, size: (u16, u16), more: &[&str]) -> Screen {
    let screen = Screen::start(&[&["top", "--replay", plain(recording)], more].concat(), size);
    screen.wait_for("the screen", SOON, |text| text.contains("AAS "));
    screen
}

/// At the end of the recording, where time stands.
fn at_end(recording: &Path, size: (u16, u16), more: &[&str]) -> Screen {
    let mut screen = replay(recording, size, more);
    screen.press(END);
    screen.wait_for("the end", SOON, |text| text.contains("PAUSED"));
    screen
}

/// Whether the chosen view has this heading: on a large screen others are beside it.
fn is_headed(text: &str, heading: &str) -> bool {
    let mut lines = text.lines().filter_map(|line| line.split('│').next());
    lines.any(|line| line.contains(heading))
}

/// The words of the line of the chosen view that begins with this one.
#[track_caller]
fn words(text: &str, first: &str) -> Vec<String> {
    let mut lines = text.lines().filter_map(|line| line.split('│').next());
    let line = lines.find(|line| line.trim_start().starts_with(first));
    let line = line.unwrap_or_else(|| panic!("no line begins with '{first}':\n{text}"));
    line.split_whitespace().map(str::to_string).collect()
}

fn rounded(value: f64, decimals: usize) -> String {
    format!("{value:.decimals$}")
}

/// The ledger, the statements and the sessions on the screen, which stands at the end of the time of this report.
#[track_caller]
fn assert_same(screen: &mut Screen, report: &Value) {
    let elapsed = number(&report["elapsed_ns"]);
    let rate = |ns: &Value| match number(ns) {
        0.0 => "-".to_string(),
        ns => rounded(ns / elapsed, 2),
    };
    screen.press("1");
    let db_time = number(&report["db_time_ns"]);
    let aas = format!("AAS {} in", rounded(number(&report["aas"]), 2));
    let text = screen.wait_for("AAS of the report", SOON, |text| {
        text.contains(&aas) && is_headed(text, "DB time")
    });
    // The wait classes sum to it.
    let legend = text.lines().find(|line| line.starts_with('█')).expect("a legend");
    if !legend.contains('…') {
        let rates: Vec<f64> = legend
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        let rounding = 0.005 * (rates.len() + 1) as f64;
        assert_close(
            "all classes",
            rates.iter().sum(),
            number(&report["aas"]),
            0.0,
            rounding,
        );
    }
    let mut found = 0;
    for row in report["ledger"].as_array().expect("rows") {
        let class = row["wait_class"].as_str().expect("a class");
        if row["section"] != "db_time" || class == "unknown" || number(&row["total_ns"]) < db_time * 0.01 {
            continue;
        }
        let name = match class {
            "CPU" => "CPU ".to_string(),
            class => format!("{class}:{}", row["wait_event"].as_str().expect("an event")),
        };
        if name.contains("(no CPU)") {
            continue;
        }
        let mut words = words(&text, &name);
        let percent = words.pop().expect("percent");
        assert_eq!(
            percent,
            rounded(number(&row["total_ns"]) / db_time * 100.0, 1),
            "{text}"
        );
        assert_eq!(words.pop(), Some(rate(&row["total_ns"])), "{name}:\n{text}");
        let states = ["user_ns", "kernel_ns", "runnable_ns", "disk_ns", "sleep_ns"];
        let expected: Vec<String> = states.iter().map(|state| rate(&row[state])).collect();
        assert_eq!(words[1..6], expected, "{name}:\n{text}");
        found += 1;
    }
    assert!(found > 0, "{report:#}");

    screen.press("2");
    let text = screen.wait_for("statements", SOON, |text| is_headed(text, "main wait"));
    let statement = &report["statements"][0];
    let line = text.lines().skip_while(|line| !line.contains("main wait")).nth(1);
    let line = line.unwrap_or_else(|| panic!("{text}"));
    let words: Vec<&str> = line.split_whitespace().collect();
    let percent = number(&statement["total_ns"]) / db_time * 100.0;
    assert_eq!(words[0], rounded(percent, 1), "{text}");
    assert_eq!(words[1], rate(&statement["total_ns"]), "{text}");

    screen.press("3");
    let text = screen.wait_for("sessions", SOON, |text| is_headed(text, "pid user"));
    for session in report["sessions"].as_array().expect("sessions") {
        let active = number(&session["active_ns"]);
        if active / elapsed < 0.05 || session["backend_type"] != "client backend" {
            continue;
        }
        let pid = session["pid"].to_string();
        let line = text
            .lines()
            .find(|line| line.trim_start().starts_with(&format!("{pid} ")));
        let line = line.unwrap_or_else(|| panic!("session {pid} is missing:\n{text}"));
        let aas = format!(" {} ", rounded(active / elapsed, 2));
        assert!(line.contains(&aas), "{aas} in '{line}'");
    }
}

fn load(cluster: &Cluster) -> Recorded {
    let mut busy = Session::connect(cluster);
    let mut sleeper = Session::connect(cluster);
    let recorder = Recorder::server(cluster, &[]);
    std::thread::scope(|scope| {
        scope.spawn(|| sleeper.run("SELECT pg_sleep(3)"));
        busy.burn(Duration::from_secs(5));
    });
    recorder.stop()
}

#[test]
fn numbers_on_the_screen_are_those_of_the_report() {
    needs_recording!();
    let cluster = distribution().start(Options::default().set("compute_query_id", "on"));
    let recorded = load(&cluster);
    for size in [SMALL, LARGE] {
        let mut screen = at_end(&recorded.path, size, &["--seconds", "300"]);
        assert_same(&mut screen, &recorded.json(&[]));
        // The same of two seconds, one second before the end.
        let mut screen = at_end(&recorded.path, size, &["--seconds", "2"]);
        screen.press(LEFT);
        let end = (recorded.meta.end_us - 1) / 1_000_000;
        let moment = |second: i64| {
            let timestamp = std::process::Command::new("date")
                .args(["-u", "-d", &format!("@{second}"), "+%FT%TZ"])
                .output()
                .expect("date runs");
            String::from_utf8(timestamp.stdout)
                .expect("a date")
                .trim()
                .to_string()
        };
        let report = recorded.json(&["--from", &moment(end - 2), "--to", &moment(end)]);
        assert_close("seconds", number(&report["elapsed_ns"]), 2e9, 0.0, 1.0);
        assert_same(&mut screen, &report);
    }
}

#[test]
fn a_session_that_sleeps_is_on_the_live_screen_within_three_seconds() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let mut session = Session::connect(&cluster);
    let pid = session.pid();
    let directory = plain(cluster.data_dir());
    let mut screen = Screen::start(&["top", "--postgres", directory], SMALL);
    screen.press("3");
    screen.wait_for("a second", SOON, |text| {
        text.contains("LIVE") && text.contains("pid user")
    });
    let is_there = move |text: &str| {
        let mut lines = text.lines();
        lines.any(|line| line.trim_start().starts_with(&pid.to_string()) && line.contains("Timeout:PgSleep"))
    };
    let sleeps = std::thread::spawn(move || {
        session.run("SELECT pg_sleep(8)");
        session
    });
    let begin = Instant::now();
    screen.wait_for("the session that sleeps", Duration::from_secs(3), is_there);
    say(&format!("seen after {:.2} s", begin.elapsed().as_secs_f64()));

    // The thread that draws gives up what is no longer needed to record, too.
    let tasks = std::fs::read_dir(format!("/proc/{}/task", screen.pid())).expect("it runs");
    let status = |task: &Path| std::fs::read_to_string(task.join("status")).unwrap_or_default();
    let mut statuses = tasks.flatten().map(|task| status(&task.path()));
    let drawing = statuses.find(|status| status.starts_with("Name:\tscreen\n"));
    let drawing = drawing.expect("a thread that draws");
    assert!(drawing.contains("NoNewPrivs:\t1"), "{drawing}");

    // One session, and back.
    screen.press(ENTER);
    let text = screen.wait_for("the session", SOON, |text| {
        text.contains(&format!("Session {pid}"))
    });
    assert!(text.contains("Timeout:PgSleep"), "{text}");
    screen.press(ESCAPE);
    screen.wait_for("all sessions", SOON, |text| text.contains("pid user"));
    // Frozen, it stays; back to the newest second it goes on.
    screen.press(" ");
    let frozen = screen.wait_for("FROZEN", SOON, |text| text.contains("FROZEN"));
    let time = |text: &str| {
        text.lines()
            .next()
            .map(|line| line[line.len() - 12..].to_string())
    };
    std::thread::sleep(Duration::from_millis(2_500));
    assert_eq!(time(&screen.text()), time(&frozen));
    screen.press(END);
    screen.wait_for("LIVE", SOON, |text| {
        text.contains("LIVE") && time(text) != time(&frozen)
    });
    drop(sleeps.join().expect("the session sleeps"));
    screen.press("q");
    assert!(screen.wait_for_end().success());
    screen.assert_given_back("q");
}

#[test]
fn a_chain_of_locks_is_among_the_causes_and_the_key_records_it() {
    needs_recording!();
    let home = TempDir::new().expect("a directory");
    let cluster = distribution().start(Options::default().set("compute_query_id", "on"));
    let mut holder = Session::connect(&cluster);
    holder.run("CREATE TABLE queue (id int PRIMARY KEY, n int)");
    holder.run("INSERT INTO queue VALUES (1, 0), (2, 0)");
    // Names of relations are read from the server's files.
    holder.run("CHECKPOINT");
    let mut first = Session::connect(&cluster);
    let mut second = Session::connect(&cluster);
    let pids = [holder.pid(), first.pid(), second.pid()];
    let arguments = ["top", "--postgres", plain(cluster.data_dir()), "--seconds", "2"];
    // Whoever has called sudo.
    let caller = [("SUDO_UID", "54321"), ("SUDO_GID", "54321")];
    let mut screen = Screen::start_in(home.path(), &arguments, LARGE, &caller);
    screen.press("5");
    screen.wait_for("the view", SOON, |text| {
        text.contains("LIVE") && is_headed(text, "blocked")
    });
    holder.run("BEGIN");
    holder.run("UPDATE queue SET n = 1 WHERE id = 1");
    first.run("BEGIN");
    first.run("UPDATE queue SET n = 2 WHERE id = 2");
    let begin = Instant::now();
    let waits = std::thread::spawn(move || {
        first.run("UPDATE queue SET n = 3 WHERE id = 1");
        let waited = begin.elapsed();
        first.run("COMMIT");
        (first, waited)
    });
    let behind = std::thread::spawn(move || {
        let begin = Instant::now();
        second.run("UPDATE queue SET n = 4 WHERE id = 2");
        (second, begin.elapsed())
    });
    // Each under the one that it waits for: how long it waited, how long those behind it waited.
    let is_there = |text: &str| {
        let rows: Vec<Vec<&str>> = text
            .lines()
            .filter_map(|line| line.split('│').next())
            .map(|line| line.split_whitespace().collect())
            .collect();
        let row = |pid: u32| rows.iter().find(|row| row.contains(&format!("{pid},").as_str()));
        let amount = |word: &str| word.parse::<f64>().unwrap_or(0.0);
        let is_about = |word: &str, expected: f64| (amount(word) - expected).abs() < 0.05;
        match pids.map(row) {
            [Some(holder), Some(first), Some(second)] => {
                is_about(holder[1], 2.0)
                    && holder[3] == "pid"
                    && is_about(first[0], 1.0)
                    && is_about(first[1], 1.0)
                    && first[3] == "└"
                    && is_about(second[0], 1.0)
                    && second[1] == "-"
                    && second.contains(&"Lock:transactionid")
            }
            _ => false,
        }
    };
    let text = screen.wait_for("the chain", SOON, is_there);
    assert!(text.contains("idle in transaction (its client)"), "{text}");
    // What it was for is known once it has been seen for half of the time.
    screen.wait_for("the locks", SOON, |text| {
        pids[1..].iter().all(|pid| {
            let mut lines = text.lines();
            lines.any(|line| line.contains(&format!("{pid},")) && line.contains(" transactionid "))
        })
    });
    // The same wait by wait.
    screen.press("s");
    screen.wait_for("wait by wait", SOON, |text| {
        let mut lines = text.lines();
        is_headed(text, "waited for")
            && lines.any(|line| line.contains("Lock:transactionid") && line.contains(" transactionid "))
    });
    // From a blocked session to its page.
    screen.press("s");
    screen.wait_for("the chain", SOON, is_there);
    screen.press(ENTER);
    screen.wait_for("the holder", SOON, |text| {
        text.contains(&format!("Session {}", pids[0]))
    });
    screen.press(ESCAPE);
    // What is seen is recorded: what was seen before, too.
    screen.press("r");
    screen.wait_for("where it is", SOON, |text| {
        text.contains("REC LIVE") && text.contains(&format!("in {}", plain(home.path())))
    });
    std::thread::sleep(Duration::from_secs(7));
    holder.run("COMMIT");
    let (_first, first_waited) = waits.join().expect("it gets its lock");
    let (_second, second_waited) = behind.join().expect("it gets its lock");
    std::thread::sleep(Duration::from_secs(3));
    screen.press("r");
    screen.wait_for("that it is over", SOON, |text| {
        text.contains("recorded ") && !text.contains("REC LIVE")
    });
    screen.press("q");
    assert!(screen.wait_for_end().success());
    screen.assert_given_back("q");
    let made: Vec<_> = std::fs::read_dir(home.path())
        .expect("a directory")
        .flatten()
        .collect();
    let [recording] = made.as_slice() else {
        panic!("{made:?}");
    };
    let metadata = recording.metadata().expect("a directory");
    assert_eq!((metadata.uid(), metadata.mode() & 0o777), (54_321, 0o700));
    let path = recording.path();
    assert!(
        screen
            .text()
            .contains(&format!("'dbtime report {}", plain(home.path()))),
        "{}",
        screen.text()
    );
    let report = dbtime(&["report", plain(&path), "--format", "json"]).expect_code(0);
    let report: Value = serde_json::from_str(&report.stdout).expect("JSON");
    let waited = (first_waited + second_waited).as_secs_f64();
    let db_time = number(&report["db_time_ns"]) / 1e9;
    say(&format!("DB time {db_time:.3} s, waited {waited:.3} s"));
    assert_close("DB time, s", db_time, waited, 0.02, 0.3);
    assert_eq!(report["meta"]["complete"], true);
    let causes = dbtime(&["report", plain(&path), "--causes"])
        .expect_code(0)
        .stdout;
    assert!(causes.contains(&format!("pid {}", pids[0])), "{causes}");
    assert!(causes.contains("of public.queue"), "{causes}");
}

#[test]
fn latencies_are_shown_where_events_are_counted_and_else_why_there_are_none() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let directory = plain(cluster.data_dir());
    let mut screen = Screen::start(&["top", "--postgres", directory], SMALL);
    screen.press("6");
    screen.wait_for("the way to latencies", SOON, |text| {
        text.contains("LIVE") && text.contains("dbtime top --exact") && text.contains("dbtime iolat")
    });
    screen.press("q");
    assert!(screen.wait_for_end().success());
    let mut session = Session::connect(&cluster);
    let ends = Arc::new(AtomicBool::new(false));
    let wanted = Arc::clone(&ends);
    let sleeps = std::thread::spawn(move || {
        while !wanted.load(Ordering::Relaxed) {
            session.run("SELECT pg_sleep(0.2)");
        }
    });
    let mut screen = Screen::start(&["top", "--postgres", directory, "--exact=calls"], SMALL);
    screen.press("6");
    // Five a second, each of 200 ms.
    let text = screen.wait_for("latencies", SOON, |text| {
        let line = text
            .lines()
            .find(|line| line.trim_start().starts_with("Timeout:PgSleep"));
        let words: Vec<f64> = line.map_or_else(Vec::new, |line| {
            line.split_whitespace()
                .filter_map(|word| word.parse().ok())
                .collect()
        });
        let is_median = |us: &f64| (199_000.0..215_000.0).contains(us);
        words.iter().any(|rate| (4.0..5.3).contains(rate))
            && words.iter().filter(|us| is_median(us)).count() >= 2
    });
    say(&text);
    screen.press("\x1b[B");
    screen.press(ENTER);
    screen.wait_for("a distribution", SOON, |text| text.contains("from us"));
    screen.press("q");
    assert!(screen.wait_for_end().success());
    ends.store(true, Ordering::Relaxed);
    sleeps.join().expect("it sleeps");
}

#[test]
fn a_recording_is_played_and_can_be_gone_through() {
    let home = TempDir::new().expect("a directory");
    let recording = made(&home, "");
    for size in [SMALL, LARGE] {
        let mut screen = replay(&recording, size, &["--seconds", "1"]);
        let second = |n: i64| format!("15:06:{:02} UTC", 40 + n);
        assert!(screen.text().contains("REPLAY"), "{}", screen.text());
        screen.wait_for("the third second", SOON, |text| text.contains(&second(3)));
        screen.press(" ");
        screen.wait_for("PAUSED", SOON, |text| text.contains("PAUSED"));
        let text = screen.text();
        assert_eq!(
            words(&text, "CPU")[1..],
            ["1.00", "-", "-", "-", "-", "1.00", "100.0"]
        );
        screen.press(END);
        let text = screen.wait_for("the end", SOON, |text| text.contains("15:07:00 UTC"));
        let lock = words(&text, "Lock:transactionid");
        assert_eq!(lock[1..], ["-", "-", "-", "-", "2.00", "2.00", "100.0"]);
        assert!(text.contains("AAS 2.00 in 1 s"), "{text}");
        // Half of eleven seconds at most is on a CPU.
        for _ in 0..9 {
            screen.press(LEFT);
        }
        screen.wait_for("one second of locks", SOON, |text| text.contains("15:06:51 UTC"));
        screen.press("+");
        let text = screen.wait_for("five seconds", SOON, |text| text.contains("AAS 1.20 in 5 s"));
        assert_eq!(words(&text, "CPU")[6..], ["0.80", "66.7"]);
        for line in screen.lines() {
            assert!(line.chars().count() <= usize::from(size.0), "{line}");
        }
    }
}

#[test]
fn rows_can_be_opened_and_filters_taken_back() {
    let home = TempDir::new().expect("a directory");
    let recording = made(&home, "");
    let mut screen = at_end(&recording, SMALL, &["--seconds", "15"]);
    // What the report calls a filter is one here, in the same words.
    screen.press("/wait=Lock user=user2\r");
    let text = screen.wait_for("the filter", SOON, |text| {
        text.contains("only wait=Lock user=user2")
    });
    assert!(text.contains("AAS 0.67 in 15 s"), "{text}");
    screen.press("3");
    let text = screen.wait_for("one session", SOON, |text| text.contains("4712 user2"));
    assert!(!text.contains("4711 user1"), "{text}");
    screen.press(ESCAPE);
    let text = screen.wait_for("all sessions", SOON, |text| text.contains("4711 user1"));
    assert!(!text.contains("only "), "{text}");
    // From a wait event to its statements, to the sessions that execute one, to one of them.
    screen.press("1");
    screen.wait_for("the ledger", SOON, |text| text.contains("DB time"));
    screen.press(ENTER);
    screen.wait_for("its statements", SOON, |text| {
        text.contains("only wait=Lock:transactionid") && text.contains("select 42")
    });
    screen.press(ENTER);
    screen.wait_for("sessions", SOON, |text| {
        text.contains("query=") && text.contains("4712 user2")
    });
    screen.press(ENTER);
    let text = screen.wait_for("a session", SOON, |text| text.contains("Session 4711"));
    assert!(
        text.contains("Lock:transactionid") && text.contains("from a_table"),
        "{text}"
    );
    // What is wrong is said, and can be mended.
    screen.press(ESCAPE);
    screen.wait_for("sessions", SOON, |text| text.contains("pid user"));
    screen.press("/");
    screen.wait_for("the line", SOON, |text| text.contains("filter: wait="));
    screen.press("\u{15}colour=red\r");
    screen.wait_for("what is wrong", SOON, |text| text.contains("NAME=VALUE"));
    screen.press("x");
    screen.wait_for("what was typed", SOON, |text| {
        text.contains("filter: colour=redx")
    });
    screen.press("\u{15}wait=IO\r");
    screen.wait_for("why there is nothing", SOON, |text| {
        text.contains("no time in wait 'IO'")
    });
    screen.press("/\u{15}\r");
    screen.wait_for("everything", SOON, |text| text.contains("AAS 1.67 in 15 s"));
    // Stacks, and the help.
    screen.press("4");
    screen.wait_for("stacks", SOON, |text| text.contains("innermost"));
    screen.press("?");
    screen.wait_for("the help", SOON, |text| {
        text.contains("ledger, SQL, sessions, stacks, causes")
    });
    screen.press(ESCAPE);
    screen.wait_for("stacks", SOON, |text| text.contains("innermost"));
}

#[test]
fn a_session_shows_what_it_does_now_beside_what_it_did() {
    let home = TempDir::new().expect("a directory");
    let mut screen = at_end(&made(&home, ""), LARGE, &["--seconds", "15"]);
    screen.press("3");
    screen.wait_for("sessions", SOON, |text| text.contains("4711 user1"));
    screen.press(ENTER);
    let text = screen.wait_for("a session", SOON, |text| text.contains("Session 4711"));
    let page: Vec<&str> = text.lines().map(str::trim_start).collect();
    let below = |heading: &str| {
        let at = page.iter().position(|line| line.starts_with(heading));
        page[at.unwrap_or_else(|| panic!("no {heading} in {text}")) + 1]
    };
    // Five seconds on a CPU, then ten in a lock.
    let now = below("In the last second");
    assert!(now.starts_with("100.0 % Lock:transactionid"), "{text}");
    let all = below("Where its time went");
    assert!(all.starts_with("66.7 % Lock:transactionid"), "{text}");
    // With one second shown there is no last one.
    screen.press("-");
    screen.press("-");
    screen.wait_for("one second", SOON, |text| {
        text.contains("Session 4711") && !text.contains("In the last second")
    });
}

#[test]
fn the_terminal_is_given_back_however_it_ends() {
    let home = TempDir::new().expect("a directory");
    let recording = made(&home, "");
    for (name, signal) in [
        ("TERM", Some(libc::SIGTERM)),
        ("INT", Some(libc::SIGINT)),
        ("HUP", Some(libc::SIGHUP)),
        ("q", None),
    ] {
        let mut screen = replay(&recording, SMALL, &[]);
        screen.assert_taken();
        match signal {
            // Impatient users do it twice.
            Some(signal) => (0..2).for_each(|_| screen.signal(signal)),
            None => screen.press("q"),
        }
        let status = screen.wait_for_end();
        assert!(status.success(), "{name}: {status}\n{}", screen.text());
        screen.assert_given_back(name);
    }
    // A killed process cannot do it itself.
    let mut screen = replay(&recording, SMALL, &[]);
    screen.assert_taken();
    screen.signal(libc::SIGKILL);
    assert!(!screen.wait_for_end().success());
    let until = Instant::now() + SOON;
    while screen.is_taken() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    screen.assert_given_back("KILL");
}

#[test]
fn a_screen_that_changes_its_size_is_drawn_anew() {
    let home = TempDir::new().expect("a directory");
    let recording = made(&home, "");
    let mut screen = at_end(&recording, SMALL, &[]);
    screen.resize(LARGE.0, LARGE.1);
    screen.wait_for("all of it", SOON, |text| text.contains("2025-06-15 15:07:00 UTC"));
    screen.resize(30, 5);
    screen.wait_for("why nothing is drawn", SOON, |text| {
        text.contains("60 x 16 at least")
    });
    screen.resize(SMALL.0, SMALL.1);
    screen.wait_for("all of it", SOON, |text| text.contains("Lock:transactionid"));
    screen.press("q");
    assert!(screen.wait_for_end().success());
}

#[test]
fn names_of_others_do_nothing_to_the_terminal() {
    let home = TempDir::new().expect("a directory");
    let recording = made(&home, HOSTILE);
    for size in [SMALL, LARGE] {
        let mut screen = at_end(&recording, size, &["--seconds", "60"]);
        for keys in [
            "1", "2", "3", ENTER, ESCAPE, "4", ENTER, ESCAPE, "5", "6", "1", ENTER,
        ] {
            screen.press(keys);
            std::thread::sleep(Duration::from_millis(400));
            let lines = screen.lines();
            assert_eq!(lines.len(), usize::from(size.1));
            assert!(
                !lines.iter().any(|line| line.starts_with("forged")),
                "{}",
                screen.text()
            );
            assert!(lines[0].starts_with("dbtime top"), "{}", screen.text());
        }
        let bytes = screen.bytes();
        for part in ["\u{9b}", "\u{202e}", "\u{2028}", "\u{ad}", "\u{7}", "\u{7f}"] {
            let found = bytes.windows(part.len()).any(|window| window == part.as_bytes());
            assert!(!found, "{part:?} was sent to the terminal");
        }
        assert!(screen.text().contains("?[2J?31m"), "{}", screen.text());
        screen.press("q");
        assert!(screen.wait_for_end().success());
        screen.assert_given_back("q");
    }
}

#[test]
fn moments_at_their_ends_overflow_nothing() {
    let home = TempDir::new().expect("a directory");
    let ends = [i64::MIN, -1, 0, i64::MAX - 1, i64::MAX];
    for (at, (start, end)) in ends
        .iter()
        .flat_map(|start| ends.map(|end| (*start, end)))
        .enumerate()
    {
        let path = home.path().join(format!("{at}.dbt"));
        let mut meta = Meta {
            schema: SCHEMA_VERSION.to_string(),
            start_us: start,
            end_us: end,
            ..Meta::default()
        };
        meta.host.cpus = u32::MAX;
        meta.collector.resolution_s = if at % 2 == 0 { 1 } else { u32::MAX };
        let mut rows = Rows::default();
        for time in ends {
            let mut row = row(0, 1, ("CPU", "CPU"), State::User, u64::MAX);
            row.time = time;
            rows.activity.push(row);
        }
        let mut writer = RecordingWriter::create(&path, meta).expect("a new directory");
        writer.write(&rows).expect("there is room");
        writer.finish().expect("there is room");
        let mut screen = Screen::start(&["top", "--replay", plain(&path)], SMALL);
        screen.wait_for("a screen", SOON, |text| text.contains("dbtime top"));
        for keys in [END, LEFT, "[", "]", "+", "\x1b[H", "2", "3", ENTER, "4", " ", "q"] {
            screen.press(keys);
            std::thread::sleep(Duration::from_millis(30));
        }
        let status = screen.wait_for_end();
        assert!(status.success(), "{start} … {end}: {status}\n{}", screen.text());
    }
}

#[test]
fn without_colours_letters_tell_waits_apart() {
    let home = TempDir::new().expect("a directory");
    let recording = made(&home, "");
    let arguments = ["top", "--replay", plain(&recording)];
    let mut screen = Screen::start_with(&arguments, SMALL, &[("NO_COLOR", "1")]);
    screen.press(END);
    let text = screen.wait_for("the end", SOON, |text| text.contains("PAUSED"));
    assert!(!screen.has_colours());
    assert!(text.contains("CCCCCCCCCCLLLLLLLLLL"), "{text}");
    assert!(text.contains("L Lock 2.00"), "{text}");
    let screen = at_end(&recording, SMALL, &[]);
    assert!(screen.has_colours());
    assert!(!screen.text().contains("CCCC"), "{}", screen.text());
}

#[test]
fn without_a_terminal_that_can_show_it_the_way_out_is_said() {
    let home = TempDir::new().expect("a directory");
    let recording = made(&home, "");
    let path = plain(&recording);
    dbtime(&["top", "--replay", path])
        .expect_code(2)
        .expect_stderr(&["terminal", "dbtime report"]);
    let mut screen = Screen::start_with(&["top", "--replay", path], LARGE, &[("TERM", "dumb")]);
    assert_eq!(screen.wait_for_end().code(), Some(2));
    assert!(screen.text().contains("TERM is dumb"), "{}", screen.text());
    screen.assert_given_back("the error");
    // No recording, and one that is a file.
    for (path, word) in [
        ("nothing.dbt", "nothing.dbt"),
        (plain(&dbtime_binary()), "dbtime import"),
    ] {
        let mut screen = Screen::start(&["top", "--replay", path], LARGE);
        assert_ne!(screen.wait_for_end().code(), Some(0));
        assert!(screen.text().contains(word), "{}", screen.text());
        screen.assert_given_back("the error");
    }
}

#[test]
fn without_its_terminal_it_ends() {
    let home = TempDir::new().expect("a directory");
    let recording = made(&home, "");
    let mut child = std::process::Command::new("script")
        .args([
            "-qec",
            &format!("{} top --replay {}", plain(&dbtime_binary()), plain(&recording)),
            "/dev/null",
        ])
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("script runs");
    std::thread::sleep(Duration::from_secs(1));
    // The terminal is gone: a hangup.
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let until = Instant::now() + SOON;
    let still_runs = || {
        let found = std::process::Command::new("pgrep")
            .args(["-f", plain(&recording)])
            .output();
        !found.expect("pgrep runs").stdout.is_empty()
    };
    while still_runs() {
        assert!(Instant::now() < until, "it is still there without a terminal");
        std::thread::sleep(Duration::from_millis(50));
    }
}
