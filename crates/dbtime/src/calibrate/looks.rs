//! The ways to look at a process, each switched on for one turn.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use dbtime_model::calibration::look;

use super::child::Kept;
use super::instance::Instance;

/// How long a tool may take until it looks.
const READY: Duration = Duration::from_secs(10);

/// perf trace says nowhere when it has begun: its events are open before that, and this is how long it may still take.
const PERF_BEGINS: Duration = Duration::from_millis(150);

/// What is switched on; dropping it switches it off.
#[derive(Debug)]
pub(super) enum Looking {
    Nothing,
    Recorder(#[expect(dead_code, reason = "it ends when it is dropped")] Kept),
    /// A tool that writes a line for each call to this file.
    Lines(Kept, PathBuf),
    Instance(Instance),
}

/// All ways, in the order of the table.
pub(super) const ALL: [&str; 9] = [
    look::NOTHING,
    look::SAMPLED,
    look::SWITCH,
    look::CALLS,
    look::AGAIN,
    look::TRACEFS,
    look::GRAPH,
    look::STRACE,
    look::PERF_TRACE,
];

/// Begins to look at a process. `folder`: for what tools write.
///
/// # Errors
/// It is not possible here: why, in words.
pub(super) fn begin(name: &str, pid: u32, folder: &Path, stop: &AtomicBool) -> Result<Looking, String> {
    match name {
        look::SAMPLED => recorder(&[], pid, folder, stop),
        look::SWITCH => recorder(&["--exact"], pid, folder, stop),
        look::CALLS => recorder(&["--exact=calls"], pid, folder, stop),
        look::TRACEFS => Instance::tracepoints(pid).map(Looking::Instance),
        look::GRAPH => Instance::function_graph(pid).map(Looking::Instance),
        look::STRACE => strace(pid, folder, stop),
        look::PERF_TRACE => perf_trace(pid, folder, stop),
        _ => Ok(Looking::Nothing),
    }
}

fn recorder(options: &[&str], pid: u32, folder: &Path, stop: &AtomicBool) -> Result<Looking, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let output = folder.join("recording.dbt");
    // The turn before made one too.
    let _ = fs::remove_dir_all(&output);
    let mut command = Command::new(program);
    command
        .args(["record", "--process", &pid.to_string(), "-o"])
        .arg(output)
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let mut child = Kept::start(&mut command).map_err(|e| e.to_string())?;
    child
        .wait_for_line(READY, stop, |line| line.starts_with("recording "))
        .map_err(|said| said.trim_start_matches("dbtime: ").to_string())?;
    Ok(Looking::Recorder(child))
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

/// Said of a tool that is not there.
const NOT_INSTALLED: &str = "not installed";

/// True when a process has perf events mapped: it is about to read them.
fn has_events(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/maps")).is_ok_and(|maps| maps.contains("[perf_event]"))
}

impl Looking {
    /// Ends looking. Returns how many calls were seen, where that can be told.
    pub(super) fn end(self) -> Option<u64> {
        match self {
            Looking::Nothing | Looking::Recorder(_) => None,
            Looking::Instance(instance) => Some(instance.entries()),
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
