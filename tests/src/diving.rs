//! `dbtime dive` while it runs, and the settings of the kernel that it must leave as they are.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use crate::{Outcome, dbtime_binary};

/// Where tracefs is mounted.
const TRACEFS: &str = "/sys/kernel/tracing";

/// Settings of the kernel's own trace, and the names of all private instances.
///
/// # Panics
/// When tracefs is not mounted.
pub fn trace_settings() -> BTreeMap<PathBuf, String> {
    let tracefs = Path::new(TRACEFS);
    let options = fs::read_dir(tracefs.join("options")).expect("tracefs is mounted");
    let names = [
        "current_tracer",
        "tracing_on",
        "trace_clock",
        "buffer_size_kb",
        "tracing_thresh",
        "max_graph_depth",
        "set_event",
        "set_event_pid",
        "set_event_notrace_pid",
        "set_ftrace_pid",
        "set_ftrace_notrace_pid",
        "set_ftrace_filter",
        "set_ftrace_notrace",
        "set_graph_function",
        "set_graph_notrace",
        "events/enable",
    ];
    let files = names.map(|name| tracefs.join(name));
    let mut settings: BTreeMap<PathBuf, String> = files
        .into_iter()
        .chain(options.flatten().map(|option| option.path()))
        // Not every kernel has all of them.
        .filter_map(|path| Some((path.clone(), fs::read_to_string(path).ok()?)))
        .collect();
    settings.insert(tracefs.join("instances"), instances().join(" "));
    settings
}

/// Names of the private instances of dives.
pub fn instances() -> Vec<String> {
    let folders = fs::read_dir(Path::new(TRACEFS).join("instances")).expect("tracefs is mounted");
    let names = folders
        .flatten()
        .map(|f| f.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("dbtime-")).collect()
}

/// A running dive; killed when dropped.
#[derive(Debug)]
pub struct Diving {
    child: Child,
    stderr: BufReader<ChildStderr>,
    said: String,
}

impl Diving {
    /// Starts it with these arguments and waits until it traces.
    ///
    /// # Panics
    /// When it ends before that.
    #[track_caller]
    pub fn start(arguments: &[&str]) -> Diving {
        let mut child = Command::new(dbtime_binary())
            .arg("dive")
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command can be run");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut said = String::new();
        while !said.contains("tracing ") {
            let read = stderr.read_line(&mut said).expect("text");
            assert!(read > 0, "it ended: {said}");
        }
        Diving { child, stderr, said }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: libc::c_int) {
        // SAFETY: kill has no memory effects; the process is a child of this one that is not yet reaped.
        unsafe { libc::kill(self.child.id().cast_signed(), signal) };
    }

    /// Waits until it ends.
    ///
    /// # Panics
    /// When it writes something that is not UTF-8.
    pub fn wait(mut self) -> Outcome {
        self.stderr.read_to_string(&mut self.said).expect("text");
        let mut stdout = String::new();
        let mut out = self.child.stdout.take().expect("piped");
        out.read_to_string(&mut stdout).expect("text");
        Outcome {
            code: self.child.wait().expect("a child").code().unwrap_or(-1),
            stdout,
            stderr: std::mem::take(&mut self.said),
        }
    }
}

impl Drop for Diving {
    fn drop(&mut self) {
        // It may have ended long ago.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
