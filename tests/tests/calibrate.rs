//! `dbtime calibrate`: the cost of looking is measured for every way to look, or refused with a reason, and reports use it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use dbtime_model::calibration::{Calibration, look, workload};
use dbtime_tests::{can_record, children, dbtime_binary, needs_recording, say};
use serde_json::Value;
use tempfile::TempDir;

const LOOKS: [&str; 12] = [
    look::NOTHING,
    look::SAMPLED,
    look::SWITCH,
    look::CALLS,
    look::AGAIN,
    look::DIVE_TRACEPOINTS,
    look::DIVE_FENTRY,
    look::DIVE_PROBES,
    look::DIVE_GRAPH,
    look::TRACEFS,
    look::STRACE,
    look::PERF_TRACE,
];

/// Waited for what should happen at once; only a hanging host needs longer.
const PATIENCE: Duration = Duration::from_secs(30);

/// The command with a folder of its own for state.
fn dbtime(state: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(dbtime_binary());
    command.args(arguments).env("XDG_STATE_HOME", state.path());
    command
}

#[track_caller]
fn run(command: &mut Command) -> Output {
    let output = command.output().expect("it can be run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    output
}

fn state() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn instances() -> usize {
    let folder = fs::read_dir("/sys/kernel/tracing/instances")
        .into_iter()
        .flatten();
    let names = folder.flatten().map(|entry| entry.file_name());
    names
        .filter(|name| name.to_string_lossy().starts_with("dbtime-"))
        .count()
}

#[test]
fn every_way_to_look_is_measured_or_refused_with_a_reason() {
    let state = state();
    let text = run(&mut dbtime(&state, &["calibrate", "--quick"]));
    let text = String::from_utf8(text.stdout).expect("text");
    let kept = state.path().join("dbtime/calibration.json");
    let mode = fs::metadata(&kept).expect("it is kept").permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    let found: Calibration = serde_json::from_slice(&fs::read(&kept).expect("a file")).expect("JSON");
    assert_eq!(instances(), 0);
    assert!(children(std::process::id()).is_empty());

    let names: Vec<&str> = found.looks.iter().map(|look| look.name.as_str()).collect();
    assert_eq!(names, LOOKS);
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("an id");
    assert_eq!(
        (found.host.name.as_str(), found.boot_id.as_str()),
        (host.trim(), boot.trim())
    );
    assert!(found.rounds >= 2 && found.clock_ns > 0 && found.clock_resolution_ns > 0);
    // What the kernel says of a process that nobody changed; ours inherit it.
    let slack = fs::read_to_string("/proc/self/timerslack_ns").expect("a number");
    assert_eq!(found.timer_slack_ns.to_string(), slack.trim());

    let nothing = &found.looks[0];
    assert!(nothing.refused.is_none() && nothing.cells.len() >= 2);
    for of in &found.looks {
        let Some(why) = &of.refused else {
            assert_eq!(of.cells.len(), nothing.cells.len(), "{}", of.name);
            for (cell, base) in of.cells.iter().zip(&nothing.cells) {
                assert!(
                    0 < cell.min_ns && cell.min_ns <= cell.median_ns && cell.median_ns <= cell.p99_ns,
                    "{cell:?}"
                );
                let more = cell.median_ns as i64 - base.median_ns as i64;
                assert_eq!(
                    cell.extra_ns,
                    (of.name != look::NOTHING).then_some(more),
                    "{}",
                    of.name
                );
                // Nobody sleeps for less than was asked.
                let asked = if cell.workload == workload::PREAD {
                    0
                } else {
                    1_000
                };
                assert!(cell.min_ns >= asked, "{cell:?}");
            }
            assert!(text.contains(&of.name), "{} in {text}", of.name);
            continue;
        };
        assert!(why.len() > 5 && of.cells.is_empty(), "{of:?}");
        assert!(
            text.contains(&format!("{}: refused: ", of.name)),
            "{} in {text}",
            of.name
        );
    }

    for control in &found.controls {
        let median = |name| found.cell(name, &control.workload).expect("measured").median_ns as i64;
        assert_eq!(control.difference_ns, median(look::AGAIN) - median(look::NOTHING));
        let within = control.difference_ns.unsigned_abs() <= control.spread_ns;
        assert_eq!(control.is_within_spread, within);
        assert_eq!(
            control.noise_ns,
            control.spread_ns.max(control.difference_ns.unsigned_abs())
        );
    }
    // One sentence for each workload, which says how far the control is to be trusted.
    assert_eq!(
        text.matches("Control: 'nothing', measured twice, differs by")
            .count(),
        found.controls.len()
    );

    match found.cell(look::STRACE, workload::PREAD) {
        None => say("SKIPPED: strace is not compared, it was refused"),
        Some(cell) => {
            let noise = found.control(workload::PREAD).expect("measured").noise_ns;
            let extra = cell.extra_ns.expect("compared");
            // Two stops of the process, each with two switches of context, against a call that copies two pages.
            assert!(
                extra > i64::try_from(noise.max(cell.spread_ns)).expect("small"),
                "{cell:?}, noise {noise}"
            );
        }
    }
    if can_record() {
        for name in [look::SAMPLED, look::SWITCH, look::CALLS, look::DIVE_TRACEPOINTS] {
            assert!(
                found.cell(name, workload::PREAD).is_some(),
                "{name}: {:?}",
                found.looks
            );
        }
    }
}

/// Reads a file until it is killed.
struct Reader(Child);

impl Reader {
    fn start() -> Reader {
        let child = Command::new("dd")
            .args(["if=/dev/zero", "of=/dev/null", "bs=512"])
            .stderr(Stdio::null())
            .spawn();
        Reader(child.expect("dd can be run"))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn report(state: &TempDir, arguments: &[&str]) -> Value {
    let output = run(dbtime(state, &["report", "--format", "json"]).args(arguments));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn a_report_says_how_much_of_a_recording_of_this_host_is_the_recorder() {
    needs_recording!();
    let state = state();
    run(&mut dbtime(&state, &["calibrate", "--quick"]));
    let kept = state.path().join("dbtime/calibration.json");
    let calibration: Calibration = serde_json::from_slice(&fs::read(&kept).expect("a file")).expect("JSON");

    let reader = Reader::start();
    let pid = reader.0.id().to_string();
    let recording = state.path().join("calls.dbt");
    let recording = recording.to_str().expect("a plain path");
    run(dbtime(
        &state,
        &["record", "--process", &pid, "--exact=calls", "-d", "1", "-o"],
    )
    .arg(recording));
    drop(reader);

    let cost = &report(&state, &[recording])["cost_of_looking"];
    let calls = cost["calls"].as_u64().expect("calls");
    let by_name = report(&state, &[recording, "--latency", "--kind", "syscall"]);
    let counts = by_name["latency_total"].as_array().expect("kinds");
    assert_eq!(counts.len(), 1);
    assert_eq!(counts[0]["count"].as_u64(), Some(calls));
    let extra = calibration
        .cell(look::CALLS, workload::PREAD)
        .and_then(|cell| cell.extra_ns);
    let extra = extra.expect("measured").max(0).unsigned_abs();
    assert_eq!(cost["extra_ns_per_call"].as_u64(), Some(extra));
    assert_eq!(cost["total_ns"].as_u64(), Some(calls * extra));
    let text = run(&mut dbtime(&state, &["report", recording]));
    let text = String::from_utf8(text.stdout).expect("text");
    assert!(
        text.contains(&format!("the recorder traced {calls} system calls")),
        "{text}"
    );

    // A calibration of another host is not used, whether it is kept here or named.
    let mut other = calibration;
    other.host.name.push_str("-other");
    fs::write(&kept, serde_json::to_vec(&other).expect("JSON")).expect("a file");
    assert!(report(&state, &[recording])["cost_of_looking"].is_null());
    let named = kept.to_str().expect("a plain path");
    assert!(report(&state, &[recording, "--calibration", named])["cost_of_looking"].is_null());
}

#[test]
fn a_trace_of_strace_is_weighed_only_with_a_calibration_that_was_named() {
    let state = state();
    let kept = state.path().join("calibration.json");
    let kept = kept.to_str().expect("a plain path");
    run(&mut dbtime(&state, &["calibrate", "--quick", "-o", kept]));
    let trace = state.path().join("trace");
    fs::write(
        &trace,
        "1700000000.000000 read(3, \"\", 1) = 0 <0.000100>\n".repeat(7),
    )
    .expect("a file");
    let trace = trace.to_str().expect("a plain path");
    assert!(report(&state, &[trace])["cost_of_looking"].is_null());
    let cost = report(&state, &[trace, "--calibration", kept]);
    if cost["cost_of_looking"].is_null() {
        return say("SKIPPED: strace was refused");
    }
    assert_eq!(cost["cost_of_looking"]["calls"], 7);
    assert_eq!(cost["cost_of_looking"]["is_other_host_possible"], true);
    // A file that is no calibration is said to be none.
    let output = dbtime(&state, &["report", trace, "--calibration", trace])
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(trace) && said.contains("no calibration"), "{said}");
}

#[test]
fn ended_by_ctrl_c_it_leaves_nothing_behind() {
    let state = state();
    let kept = state.path().join("calibration.json");
    // Interrupted early, in the middle and late: while other ways to look are switched on.
    for after in [
        Duration::from_millis(300),
        Duration::from_millis(1_500),
        Duration::from_millis(3_500),
    ] {
        let mut command = dbtime(&state, &["calibrate", "-o"]);
        let child = command
            .arg(&kept)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.expect("it can be run");
        let pid = child.id();
        let begin = Instant::now();
        while children(pid).is_empty() || begin.elapsed() < after {
            assert!(begin.elapsed() < PATIENCE, "nothing is started");
            assert!(child.try_wait().expect("a child").is_none(), "it ended by itself");
            std::thread::sleep(Duration::from_millis(10));
        }
        let mine: BTreeMap<u32, u64> = children(pid)
            .into_iter()
            .map(|pid| (pid, start_of(pid)))
            .collect();
        // SAFETY: a plain call; the child has not been waited for.
        unsafe { libc::kill(pid as libc::pid_t, libc::SIGINT) };
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(
            output.status.code(),
            Some(1),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        for (pid, start) in mine {
            let is_there = Path::new(&format!("/proc/{pid}")).exists() && start_of(pid) == start;
            assert!(!is_there, "process {pid} is still there");
        }
        assert_eq!(instances(), 0);
        assert!(!kept.exists());
    }
}

/// When a process started, in clock ticks since boot: distinguishes it from a later one with the same pid. 0 when it is gone.
fn start_of(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    fields
        .split(' ')
        .nth(19)
        .and_then(|field| field.parse().ok())
        .unwrap_or(0)
}
