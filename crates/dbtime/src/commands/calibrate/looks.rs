//! The ways to observe a process, each enabled for one turn.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use dbtime_model::calibration::{look, workload};

use super::child::Kept;
use super::instance::Instance;

/// How long a tool may take until it observes.
const READY: Duration = Duration::from_secs(10);

/// Longer than any turn, seconds.
const LONGER: &str = "600";

/// perf trace does not say when it has begun: its events are open before that, and it may still take this long.
const PERF_BEGINS: Duration = Duration::from_millis(150);

/// What is enabled; dropping it disables it.
#[derive(Debug)]
pub(super) enum Looking {
    Nothing,
    Recorder(#[expect(dead_code, reason = "it ends when it is dropped")] Kept),
    /// A tool that writes a line per call to this file.
    Lines(Kept, PathBuf),
    Instance(Instance),
    Dive(Kept),
}

/// All ways, in the order of the table.
pub(super) const ALL: [&str; 12] = [
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

/// A few functions; each call makes two of them.
const FUNCTIONS: &str = "vfs_read,filemap_read,hrtimer_nanosleep,do_nanosleep";

/// Workloads observed without starting over: a dive is about one system call.
pub(super) fn at_once(name: &str) -> &'static [&'static [&'static str]] {
    match name {
        look::DIVE_TRACEPOINTS | look::DIVE_FENTRY | look::DIVE_PROBES | look::DIVE_GRAPH => {
            &[&[workload::NANOSLEEP, workload::NANOSLEEP_RR], &[workload::PREAD]]
        }
        _ => &[&workload::ALL],
    }
}

/// Begins to observe a process that is about to make the calls of a workload. `folder`: for the tools' output.
///
/// # Errors
/// It is not possible here; the error says why.
pub(super) fn begin(
    name: &str,
    workload: &str,
    pid: u32,
    folder: &Path,
    stop: &AtomicBool,
) -> Result<Looking, String> {
    let few = ["--functions", FUNCTIONS];
    match name {
        look::DIVE_TRACEPOINTS => dive("tracepoints", &[], workload, pid, folder, stop),
        look::DIVE_FENTRY => dive("fentry", &few, workload, pid, folder, stop),
        look::DIVE_PROBES => dive("probes", &few, workload, pid, folder, stop),
        look::DIVE_GRAPH => dive("function-graph", &[], workload, pid, folder, stop),
        look::SAMPLED => recorder(&[], pid, folder, stop),
        look::SWITCH => recorder(&["--exact"], pid, folder, stop),
        look::CALLS => recorder(&["--exact=calls"], pid, folder, stop),
        look::TRACEFS => Instance::tracepoints(pid).map(Looking::Instance),
        look::STRACE => strace(pid, folder, stop),
        look::PERF_TRACE => perf_trace(pid, folder, stop),
        _ => Ok(Looking::Nothing),
    }
}

fn dive(
    engine: &str,
    options: &[&str],
    workload: &str,
    pid: u32,
    folder: &Path,
    stop: &AtomicBool,
) -> Result<Looking, String> {
    let call = match workload {
        workload::PREAD => "pread64",
        _ => "nanosleep",
    };
    let child = this_program("tracing ", stop, |command| {
        command
            .args(["dive", "-p", &pid.to_string(), "--call", call, "--engine", engine])
            .args(["-d", LONGER, "--raw"])
            .arg(folder.join("dive"))
            .args(options)
    })?;
    Ok(Looking::Dive(child))
}

fn recorder(options: &[&str], pid: u32, folder: &Path, stop: &AtomicBool) -> Result<Looking, String> {
    let output = folder.join("recording.dbt");
    // The previous turn created one too.
    let _ = fs::remove_dir_all(&output);
    let child = this_program("recording ", stop, |command| {
        command
            .args(["record", "--process", &pid.to_string(), "-o"])
            .arg(output)
            .args(options)
    })?;
    Ok(Looking::Recorder(child))
}

/// Starts this program with some arguments, and waits for the line that says that it is observing.
fn this_program(
    begin: &str,
    stop: &AtomicBool,
    arguments: impl FnOnce(&mut Command) -> &mut Command,
) -> Result<Kept, String> {
    let mut command = Command::new(std::env::current_exe().map_err(|e| e.to_string())?);
    arguments(&mut command).stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = Kept::start(&mut command).map_err(|e| e.to_string())?;
    child
        .wait_for_line(READY, stop, |line| line.starts_with(begin))
        .map_err(|said| said.trim_start_matches("dbtime: ").to_string())?;
    Ok(child)
}

fn strace(pid: u32, folder: &Path, stop: &AtomicBool) -> Result<Looking, String> {
    let output = folder.join("strace");
    let mut command = Command::new("strace");
    command.args(["-T", "-p", &pid.to_string(), "-o"]).arg(&output);
    let mut child = tool(&mut command)?;
    child
        .wait_for_line(READY, stop, |line| line.ends_with(" attached"))
        .map_err(|said| said.trim_start_matches("strace: ").to_string())?;
    Ok(Looking::Lines(child, output))
}

fn perf_trace(pid: u32, folder: &Path, stop: &AtomicBool) -> Result<Looking, String> {
    let output = folder.join("perf");
    let mut command = Command::new("perf");
    command.args(["trace", "-p", &pid.to_string(), "-o"]).arg(&output);
    let mut child = tool(&mut command)?;
    child.wait_until(READY, stop, has_events)?;
    std::thread::sleep(PERF_BEGINS);
    Ok(Looking::Lines(child, output))
}

fn tool(command: &mut Command) -> Result<Kept, String> {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    Kept::start(command).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => NOT_INSTALLED.to_string(),
        _ => e.to_string(),
    })
}

/// Message for a tool that is missing.
const NOT_INSTALLED: &str = "not installed";

/// True when a process has perf events mapped: it is about to read them.
fn has_events(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/maps")).is_ok_and(|maps| maps.contains("[perf_event]"))
}

impl Looking {
    /// Stops observing. Returns how many calls were seen, if known.
    pub(super) fn end(self) -> Option<u64> {
        match self {
            Looking::Nothing | Looking::Recorder(_) => None,
            Looking::Instance(instance) => Some(instance.entries()),
            // Its last message: `traced 1050 calls in 1.2 s, …`.
            Looking::Dive(child) => {
                let said = child.end();
                let traced = said.iter().find_map(|line| line.strip_prefix("traced "));
                traced
                    .and_then(|line| line.split(' ').next()?.parse().ok())
                    .or(Some(0))
            }
            Looking::Lines(child, output) => {
                // It writes the rest when it ends.
                drop(child);
                let lines = fs::read(&output).map_or(0, |text| lines_in(&text));
                let _ = fs::remove_file(output);
                Some(lines)
            }
        }
    }
}

fn lines_in(text: &[u8]) -> u64 {
    text.iter().filter(|byte| **byte == b'\n').count() as u64
}
