//! Live Oracle sessions, compared with a stand-in that writes down the truth (tests/stand_in/stand_in.c).

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use dbtime_model::{State, counter};
use dbtime_tests::{
    MISSED_SWITCH, Recorded, Recorder, SessionTime, StandIn, WaitTruth, assert_between, assert_close, dbtime,
    event, needs_recording, sampling_error, say, schedstat, skip,
};

const SEQUENTIAL: &str = "User I/O:db file sequential read";
const DIRECT: &str = "User I/O:direct path read";
const ROW_LOCK: &str = "Application:enq: TX - row lock contention";
const LATCH: &str = "Other:latch free";
const QUANTUM: &str = "Scheduler:resmgr:cpu quantum";
const EVENTS: [(u32, &str); 5] = [
    (event::SEQUENTIAL_READ, SEQUENTIAL),
    (event::DIRECT_READ, DIRECT),
    (event::ROW_LOCK, ROW_LOCK),
    (event::LATCH, LATCH),
    (event::QUANTUM, QUANTUM),
];
const KINDS: &str = "cached,direct,semaphore,spin,sleep";
const ON_CPU: [State; 3] = [State::User, State::Kernel, State::Cpu];

/// Records a stand-in at work with these arguments.
#[track_caller]
fn record(stand_in: &mut StandIn, map: &Path, arguments: &[&str]) -> (Vec<WaitTruth>, Recorded) {
    let map = map.to_str().expect("a plain path");
    let recorder = Recorder::start(&[&["--oracle", map], arguments].concat());
    let truth = stand_in.work();
    (truth, recorder.stop())
}

fn sum(truth: &[WaitTruth], pid: u32, event: u32, of: impl Fn(&WaitTruth) -> u64) -> f64 {
    let rows = truth.iter().filter(|t| t.pid == pid && t.event == event);
    rows.map(of).sum::<u64>() as f64 / 1e9
}

/// Rows sum to elapsed time, and what the kernel counted on a CPU is on a CPU.
#[track_caller]
fn assert_conserved(session: &SessionTime) {
    session.assert_conserved();
    assert_close(
        "on a CPU, s",
        session.cpu_ns() as f64 / 1e9,
        session.counter("on_cpu_ns") as f64 / 1e9,
        0.001,
        0.002,
    );
}

#[track_caller]
fn assert_sampled(truth: &[WaitTruth], recorded: &Recorded, rate_hz: f64) {
    for pid in truth.iter().filter(|t| t.event == 0).map(|t| t.pid) {
        let session = recorded.session(pid);
        assert_conserved(&session);
        let worked = sum(truth, pid, 0, |t| t.ns);
        for (number, name) in EVENTS {
            let seconds = sum(truth, pid, number, |t| t.ns);
            let found = session.ns(Some(name), &State::ALL) as f64 / 1e9;
            say(&format!(
                "{pid} {name}: truth {seconds:.3} s, recorded {found:.3} s"
            ));
            assert_close(
                name,
                found,
                seconds,
                0.0,
                sampling_error(seconds, worked, rate_hz) + recorded.stolen,
            );
        }
        for statement in [0xAAAA_0001_u64, 0xAAAA_0002] {
            let of_statement = truth
                .iter()
                .filter(|t| t.pid == pid && u64::from(t.statement) == statement);
            let seconds = of_statement.map(|t| t.ns).sum::<u64>() as f64 / 1e9;
            let rows = session
                .activity
                .iter()
                .filter(|row| row.statement == statement && row.wait_class != "CPU");
            let found = rows.map(|row| row.ns).sum::<u64>() as f64 / 1e9;
            assert_close(
                "a statement's waits",
                found,
                seconds,
                0.0,
                sampling_error(seconds, worked, rate_hz) + recorded.stolen,
            );
        }
    }
}

#[test]
fn the_sampled_ledger_is_true_by_event_and_statement() {
    needs_recording!();
    let mut stand_in = StandIn::start(6.0, 2, KINDS);
    let map = stand_in.map();
    let (truth, recorded) = record(&mut stand_in, &map, &["-F", "199"]);
    assert_sampled(&truth, &recorded, 199.0);
    assert_eq!(recorded.meta.database.product, "Oracle");
    assert_eq!(recorded.meta.quality.waits_not_read, 0);
    let session = recorded.session(stand_in.pids()[1]);
    assert_eq!(
        (
            session.row.user.as_str(),
            session.row.database.as_str(),
            session.row.client.as_str()
        ),
        ("SCOTT", "STANDIN", "stand_in")
    );
    assert_eq!(session.row.title, "sid 101,1001 stand_in / worker 1, of several");
    // Before and after its work it waits for its client, which is idle.
    let idle = session.activity.iter().filter(|row| row.idle);
    assert!(idle.clone().count() > 0 && idle.clone().all(|row| row.wait_class == "Idle"));
    // A session that sleeps in the kernel has a stack that says so.
    assert!(recorded.text(&[]).contains("db file sequential read"));
}

#[test]
fn the_proc_collector_says_the_same_and_what_it_cannot_know() {
    needs_recording!();
    let mut stand_in = StandIn::start(6.0, 2, KINDS);
    let map = stand_in.map();
    let before: Vec<_> = stand_in
        .pids()
        .iter()
        .map(|&pid| schedstat(pid).expect("it lives"))
        .collect();
    let (truth, recorded) = record(&mut stand_in, &map, &["--collector", "proc", "-F", "199"]);
    assert_sampled(&truth, &recorded, 199.0);
    assert!(recorded.meta.collector.engine.starts_with("proc"));
    assert!(
        recorded
            .meta
            .collector
            .reasons
            .iter()
            .any(|r| r.contains("not at one instant"))
    );
    for (&pid, before) in stand_in.pids().iter().zip(before) {
        let after = schedstat(pid).expect("it lives");
        let session = recorded.session(pid);
        // The recording begins and ends while the session sleeps; between its ends and these looks it may be woken, and on a busy host
        // wait for a CPU.
        let beside = 0.010 + recorded.stolen;
        assert_close(
            "CPU, s",
            session.cpu_ns() as f64 / 1e9,
            (after.on_cpu - before.on_cpu).as_secs_f64(),
            0.001,
            beside,
        );
        assert_close(
            "run queue, s",
            session.ns(None, &[State::Runnable]) as f64 / 1e9,
            (after.run_delay - before.run_delay).as_secs_f64(),
            0.001,
            beside,
        );
        assert_eq!(
            session.ns(None, &[State::User, State::Kernel]),
            0,
            "the mode is not known"
        );
        assert!(
            session.activity.iter().all(|row| row.user_stack.0 == 0),
            "no user stacks"
        );
    }
}

#[test]
fn exact_at_switches_blocked_time_is_true_to_the_log() {
    needs_recording!();
    let mut stand_in = StandIn::start(5.0, 2, KINDS);
    let map = stand_in.map();
    let (truth, recorded) = record(&mut stand_in, &map, &["--exact"]);
    for pid in stand_in.pids() {
        let session = recorded.session(pid);
        assert_conserved(&session);
        for (number, name) in [(event::ROW_LOCK, ROW_LOCK), (event::QUANTUM, QUANTUM)] {
            let off_cpu = off_cpu(&truth, pid, number);
            let found = session.ns(Some(name), &[State::Sleep, State::Runnable]) as f64 / 1e9;
            let rows = session.activity.iter();
            let rows: Vec<_> = rows
                .map(|row| (row.wait().to_string(), row.state, row.ns))
                .collect();
            say(&format!(
                "{pid} {name}: truth {off_cpu:.4} s off CPU, recorded {found:.4} s of {rows:?}"
            ));
            assert_close(
                name,
                found,
                off_cpu,
                0.0,
                blocked_error(&truth, &recorded, &session, number),
            );
        }
    }
}

/// How far blocked time may be from what the session's own clocks say: its CPU clock stands still while a hypervisor has the CPU, it may be
/// kept from its CPU between its clock and its event, and a switch that BPF did not see leaves up to so much on the wrong side
/// (docs/exact.md).
fn blocked_error(truth: &[WaitTruth], recorded: &Recorded, session: &SessionTime, event: u32) -> f64 {
    let missed = session.counter(counter::MISSED) as f64 * MISSED_SWITCH;
    let seconds = off_cpu(truth, session.row.pid, event);
    let kept = sum(truth, session.row.pid, event, |t| t.kept_ns);
    (0.005 * seconds).max(0.0005) + recorded.stolen + missed + kept
}

fn off_cpu(truth: &[WaitTruth], pid: u32, event: u32) -> f64 {
    sum(truth, pid, event, |t| t.ns - t.cpu_ns)
}

/// Seconds of waits that are not in their calls: a wait is recorded from the entry of its call to the exit. What the session
/// does before and after, the kernel's entry and exit and the probes' own work there included, is not in it: 0.5 to 1 us a
/// call in a loop (docs/exact.md), and 3 to 8 us, depending on the machine, where caches are cold after a sleep.
fn outside_of_calls(calls: u64) -> f64 {
    0.0005 + calls as f64 * 10e-6
}

#[test]
fn exact_at_calls_every_wait_that_is_a_call_is_true_to_the_log() {
    needs_recording!();
    let mut stand_in = StandIn::start(5.0, 2, KINDS);
    let map = stand_in.map();
    let (truth, recorded) = record(&mut stand_in, &map, &["--exact=calls"]);
    for pid in stand_in.pids() {
        let session = recorded.session(pid);
        assert_conserved(&session);
        // Where others take its CPU between its own clock and the call, its wait is that much longer than the call.
        let queued_outside = session.ns(Some("CPU"), &[State::Runnable]) as f64 / 1e9;
        let beside = |calls| outside_of_calls(calls) + queued_outside + recorded.stolen;
        say(&format!(
            "{pid} waited {queued_outside:.4} s for a CPU outside of calls, {:.2} s were stolen",
            recorded.stolen
        ));
        for (number, name) in EVENTS {
            if number == event::LATCH {
                continue; // makes no call: see the sampled tier
            }
            let seconds = sum(&truth, pid, number, |t| t.ns);
            let cpu = sum(&truth, pid, number, |t| t.cpu_ns);
            let found = session.ns(Some(name), &State::ALL) as f64 / 1e9;
            let found_cpu = session.ns(Some(name), &ON_CPU) as f64 / 1e9;
            let calls: u64 = truth
                .iter()
                .filter(|t| t.pid == pid && t.event == number)
                .map(|t| t.count)
                .sum();
            say(&format!(
                "{pid} {name}: {calls} calls, truth {seconds:.4} s ({cpu:.4} on CPU), recorded {found:.4} ({found_cpu:.4})"
            ));
            assert_close(name, found, seconds, 0.005, beside(calls));
            // The clock of the CPU is read outside of the wait, by a call; between it and the wait the session may lose its
            // CPU, and comes back to cold caches.
            let repaired = session.counter(counter::MISSED) as f64 * MISSED_SWITCH;
            let outside = calls as f64 * 40e-6 + repaired + recorded.stolen;
            assert_close(name, found_cpu, cpu, 0.03, outside);
            let latency: u64 = session
                .latencies
                .0
                .iter()
                .filter(|l| *l.kind == *"wait" && *l.name == *name)
                .map(|l| l.count)
                .sum();
            assert_eq!(latency, calls, "{name}: every call of it is timed");
        }
        for statement in [0xAAAA_0001_u64, 0xAAAA_0002] {
            let of_statement = || {
                let of = |t: &&WaitTruth| u64::from(t.statement) == statement && t.event != event::LATCH;
                truth.iter().filter(|t| t.pid == pid).filter(of)
            };
            let seconds = of_statement().map(|t| t.ns).sum::<u64>() as f64 / 1e9;
            let calls = of_statement().map(|t| t.count).sum::<u64>();
            let rows = session.activity.iter().filter(|row| {
                row.statement == statement && row.wait_class != "CPU" && row.wait_event != "latch free"
            });
            let found = rows.map(|row| row.ns).sum::<u64>() as f64 / 1e9;
            assert_close("a statement's waits", found, seconds, 0.005, beside(calls));
        }
    }
}

/// Fields of a session's line, and the place of one of them: the module has a comma in it.
fn fields_of(line: &str, field: usize) -> (Vec<&str>, usize) {
    let fields: Vec<&str> = line.split(',').collect();
    let place = if field < 7 {
        field
    } else {
        field + fields.len() - 13
    };
    (fields, place)
}

/// A field of a session's line.
fn field(map: &str, session: usize, field: usize) -> String {
    let start = format!("session,{},", 100 + session);
    let line = map
        .lines()
        .find(|line| line.starts_with(&start))
        .expect("it is there");
    let (fields, place) = fields_of(line, field);
    fields[place].to_string()
}

/// Replaces a field of a session's line.
fn with_field(map: &str, session: usize, field: usize, value: &str) -> String {
    let lines = map.lines().map(|line| {
        if !line.starts_with(&format!("session,{},", 100 + session)) {
            return line.to_string();
        }
        let (mut fields, place) = fields_of(line, field);
        fields[place] = value;
        fields.join(",")
    });
    lines.map(|line| line + "\n").collect()
}

#[test]
fn a_bad_map_harms_only_the_sessions_it_is_wrong_about() {
    needs_recording!();
    let mut stand_in = StandIn::start(3.0, 5, "sleep");
    let pids = stand_in.pids();
    let map = stand_in.map_text();
    // Unmapped; not the session's; dead; the hash of the statement in the place of the event. No event of this number.
    let map = with_field(&map, 1, 8, "0x10000");
    let map = with_field(&map, 2, 11, "0x20000");
    let map = with_field(&map, 3, 3, "4194301");
    let map = with_field(&map, 4, 8, &field(&map, 4, 10));
    let map = map.replace("event,515,", "event,516,")
        + "ORA-03113: end-of-file on communication channel\nsession,1,x\n";
    let path = stand_in.other_map(&map);
    let (_, recorded) = record(&mut stand_in, &path, &[]);
    for told in [
        "line 3): KSUSEOPC at 0x10000",
        "line 4): KSUSENUM at 0x20000",
        "line 5): process 4194301 is gone",
        "SQL*Plus says: ORA-03113",
        "is truncated",
    ] {
        assert!(recorded.stderr.contains(told), "{told}: {}", recorded.stderr);
    }
    assert_eq!(recorded.sessions.len(), 4, "the dead one has no session");
    for bad in [pids[1], pids[2]] {
        let session = recorded.session(bad);
        assert_conserved(&session);
        let not_read = session.activity.iter().filter(|row| row.wait_event == "not read");
        assert!(not_read.map(|row| row.ns).sum::<u64>() > session.elapsed_ns * 9 / 10);
        assert!(session.counter("wait_not_read") > 10);
    }
    assert!(recorded.meta.quality.waits_not_read > 20);
    let session = recorded.session(pids[4]);
    assert_conserved(&session);
    assert!(
        session.ns(Some("[not an event number]"), &State::ALL) > 1_500_000_000,
        "{}",
        session.ledger()
    );
    assert!(session.counter("wait_unknown") > 10);
    let session = recorded.session(pids[0]);
    assert_conserved(&session);
    // Its event has no name in this MAP: shown by its number, and counted.
    let unknown = session
        .activity
        .iter()
        .filter(|row| row.wait_class == "unknown" && row.wait_event == "event#=515");
    assert!(
        unknown.map(|row| row.ns).sum::<u64>() > 1_500_000_000,
        "{session:#?}"
    );
    assert!(session.counter("wait_unknown") > 10);
}

#[test]
fn a_map_without_a_session_that_lives_is_an_error_that_says_why() {
    needs_recording!();
    let stand_in = StandIn::start(1.0, 1, "sleep");
    let dead = stand_in.other_map(&with_field(&stand_in.map_text(), 0, 3, "4194301"));
    let home = tempfile::tempdir().expect("a directory");
    let output = home.path().join("r.dbt");
    let run = |map: &str| {
        dbtime(&[
            "record",
            "--oracle",
            map,
            "-d",
            "1",
            "-o",
            output.to_str().expect("plain"),
        ])
    };
    run(dead.to_str().expect("plain")).expect_code(1).expect_stderr(&[
        "no session can be recorded",
        "process 4194301 is gone",
        "oracle-map",
    ]);
    let rubbish = stand_in.other_map("\n\nSP2-0640: Not connected\n");
    run(rubbish.to_str().expect("plain"))
        .expect_code(1)
        .expect_stderr(&["SP2-0640", "last line is missing"]);
    run("/nonexistent/map.csv")
        .expect_code(1)
        .expect_stderr(&["/nonexistent/map.csv"]);
}

#[test]
fn a_map_that_changes_brings_new_sessions_and_ends_old_ones() {
    needs_recording!();
    let stand_in = StandIn::start(1.0, 3, "sleep");
    let pids = stand_in.pids();
    let without = |session: usize| -> String {
        let map = stand_in.map_text();
        let lines = map
            .lines()
            .filter(|line| !line.starts_with(&format!("session,{},", 100 + session)));
        lines.map(|line| line.replace("end,3", "end,2") + "\n").collect()
    };
    let map = stand_in.other_map(&without(2));
    let recorder = Recorder::start(&["--oracle", map.to_str().expect("plain")]);
    std::thread::sleep(Duration::from_secs(2));
    // Half of it only: nothing changes.
    let whole = without(0);
    stand_in.other_map(&whole[..whole.len() / 2]);
    std::thread::sleep(Duration::from_millis(2500));
    stand_in.other_map(&whole);
    std::thread::sleep(Duration::from_secs(4));
    let recorded = recorder.stop();
    assert!(
        recorded.stderr.contains("is not complete yet"),
        "{}",
        recorded.stderr
    );
    assert!(
        recorded.stderr.contains("2 of its sessions are alive"),
        "{}",
        recorded.stderr
    );
    let elapsed = |pid: u32| recorded.session(pid).elapsed_ns as f64 / 1e9;
    assert_close(
        "a session that the new MAP lacks, s",
        elapsed(pids[0]),
        5.0,
        0.0,
        1.6,
    );
    assert_close("a session of both, s", elapsed(pids[1]), 8.5, 0.0, 0.7);
    assert_close("a session of the new MAP, s", elapsed(pids[2]), 3.2, 0.0, 1.2);
    for pid in pids {
        assert_conserved(&recorded.session(pid));
    }
}

#[test]
fn the_scripts_are_oracles_sql() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests/ is inside the repository");
    let python = root.join("target/venv/bin/python");
    if !python.exists() {
        return skip("no Python environment: run scripts/python-env.sh");
    }
    let script = dbtime(&["oracle-map"]).expect_code(0).stdout;
    let parse_with = |text: &str, variables: &[&str]| {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("a file of our own");
        Command::new(&python)
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("oracle_map_grammar.py"))
            .arg(file.path())
            .args(variables)
            .output()
            .expect("python runs")
    };
    let parse = |text: &str| parse_with(text, &[]);
    let output = parse(&script);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout), "4 statements\n");
    let snap = parse(&dbtime(&["oracle-snap"]).expect_code(0).stdout);
    assert!(snap.status.success(), "{}", String::from_utf8_lossy(&snap.stderr));
    assert_eq!(String::from_utf8_lossy(&snap.stdout), "2 statements\n");
    // As SYS, and as anyone else: SQL*Plus's variables make comments of the other lines.
    let latch = dbtime(&["oracle-latch"]).expect_code(0).stdout;
    let arguments = ["1=all", "2=%", "3=100000", "4=10"];
    for (is_sys, others) in [("only_sys=", "only_others=--"), ("only_sys=--", "only_others=")] {
        let variables = [&arguments[..], &[is_sys, others]].concat();
        let parsed = parse_with(&latch, &variables);
        assert!(
            parsed.status.success(),
            "{}",
            String::from_utf8_lossy(&parsed.stderr)
        );
        // The instance, the block, the sessions.
        assert_eq!(String::from_utf8_lossy(&parsed.stdout), "3 statements\n");
        for (from, to) in [
            ("END LOOP;", "LOOP;"),
            ("BULK COLLECT INTO", "BULK COLLECT"),
            ("SERVEROUTPUT ON SIZE", "SERVEROUTPUT ON SITE"),
            ("\n/\n", "\n"),
        ] {
            assert!(latch.contains(from));
            assert!(
                !parse_with(&latch.replacen(from, to, 1), &variables)
                    .status
                    .success(),
                "{to} is taken for SQL"
            );
        }
    }
    // Both are read: the tables of one and of the other.
    for (line, table) in [("only_sys", "x$ksuprlat"), ("only_others", "v$latchholder")] {
        let is_it = |text: &&str| text.starts_with(&format!("&{line}")) && text.contains(table);
        assert!(latch.lines().any(|text| is_it(&text)), "{table}");
    }
    // What is wrong is found.
    for (from, to) in [
        ("FROM v$event_name", "FORM v$event_name"),
        ("PAGESIZE", "PAGE_SIZE"),
        (" END) AS num", ") AS num"),
    ] {
        assert!(script.contains(from));
        assert!(
            !parse(&script.replace(from, to)).status.success(),
            "{to} is taken for SQL"
        );
    }
}

#[test]
fn probes_in_the_functions_lay_both_clocks_side_by_side() {
    needs_recording!();
    let mut stand_in = StandIn::start(4.0, 2, KINDS);
    let map = stand_in.map();
    let (truth, recorded) = record(&mut stand_in, &map, &["--exact", "--uprobes"]);
    assert!(
        recorded
            .stderr
            .contains("probes at kskthbwt+2, kskthewt+2, kews_update_wait_time+2"),
        "{}",
        recorded.stderr
    );
    for pid in stand_in.pids() {
        let session = recorded.session(pid);
        for (number, name) in EVENTS {
            let of_event = || truth.iter().filter(move |t| t.pid == pid && t.event == number);
            let count: u64 = of_event().map(|t| t.count).sum();
            let rows = |kind: &'static str| {
                let rows = session
                    .latencies
                    .0
                    .iter()
                    .filter(move |l| *l.kind == *kind && *l.name == *name);
                rows.fold((0, 0), |(count, ns), l| (count + l.count, ns + l.sum_ns))
            };
            let (found, ns) = rows("oracle_wait");
            assert_eq!(found, count, "{name}: every wait is timed");
            // The probes lie outside of the session's own clock, and a session that uses up its time slice usually loses its CPU inside a
            // probe.
            let seconds = of_event().map(|t| t.ns).sum::<u64>() as f64 / 1e9;
            let most = seconds * 1.05 + count as f64 * 20e-6 + 0.03;
            assert_between(name, ns as f64 / 1e9, seconds, most, 0.0, count as f64 * 1e-6);
            let (found, ns) = rows("oracle_wait_db");
            let db_us: u64 = of_event().map(|t| t.db_us).sum();
            assert_eq!(
                (found, ns),
                (count, db_us * 1000),
                "{name}: what the database says"
            );
        }
    }
    let shown = recorded.text(&[
        "--latency",
        "--kind",
        "oracle_wait,oracle_wait_db",
        "--name",
        "latch free",
    ]);
    assert!(shown.contains("latch free"), "{shown}");
}

#[test]
fn names_that_the_map_lacks_come_from_the_executables_table_if_it_agrees_with_the_map() {
    needs_recording!();
    let mut stand_in = StandIn::start(2.0, 1, "named,unnamed");
    let map = stand_in.map();
    let (truth, recorded) = record(&mut stand_in, &map, &[]);
    let session = recorded.session(stand_in.pids()[0]);
    let seconds = sum(&truth, session.row.pid, event::ONLY_IN_BINARY, |t| t.ns);
    let found = session.ns(Some("unclassified:event of the executable"), &State::ALL) as f64 / 1e9;
    assert_close(
        "seconds in it",
        found,
        seconds,
        0.0,
        sampling_error(seconds, 2.0, 99.0) + recorded.stolen,
    );
    assert!(
        session.activity.iter().any(|row| row.wait_event == "event#=700"),
        "beyond the table"
    );
    // One name differs: the table is not what it was taken for.
    let doubtful = stand_in.other_map(&stand_in.map_text().replace("\"latch free\"", "\"latch: free\""));
    let (_, recorded) = record(&mut stand_in, &doubtful, &[]);
    assert!(
        !recorded.stderr.contains("from the executable's table"),
        "{}",
        recorded.stderr
    );
}

#[test]
fn more_statements_than_there_is_room_for_stay_exact() {
    needs_recording!();
    let mut stand_in = StandIn::start(4.0, 1, "sleep,cached,statements");
    let map = stand_in.map();
    for tier in ["--exact=switch", "--exact=calls"] {
        let (truth, recorded) = record(&mut stand_in, &map, &[tier]);
        let session = recorded.session(stand_in.pids()[0]);
        say(&format!(
            "{tier}: {} ns of rows on a CPU, {} by the kernel, {:.3} s stolen by the hypervisor",
            session.cpu_ns(),
            session.counter("on_cpu_ns"),
            recorded.stolen
        ));
        assert_conserved(&session);
        let statements: std::collections::BTreeSet<u64> =
            session.activity.iter().map(|row| row.statement).collect();
        assert!(statements.len() > 150, "{tier}: {} statements", statements.len());
        let off_cpu = off_cpu(&truth, session.row.pid, event::QUANTUM);
        let found = session.ns(Some(QUANTUM), &[State::Sleep, State::Runnable]) as f64 / 1e9;
        say(&format!(
            "{tier}: truth {off_cpu:.4} s off CPU, recorded {found:.4} s"
        ));
        assert_close(
            tier,
            found,
            off_cpu,
            0.0,
            blocked_error(&truth, &recorded, &session, event::QUANTUM),
        );
        assert_eq!(session.ns(Some("[not read]"), &State::ALL), 0, "{tier}");
    }
}
