//! `dbtime snap --format json` in the background, and what it showed.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use dbtime::throwaway::Cluster;
use serde_json::Value;

use crate::{dbtime_binary, number};

/// How long it may take to attach, and to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Snapshots in the making. Killed when dropped before their end.
#[derive(Debug)]
pub struct Snapping {
    child: Child,
    output: File,
}

impl Snapping {
    /// Begins; returns once the first snapshot has begun.
    ///
    /// # Panics
    /// When it ends instead.
    #[track_caller]
    pub fn start(cluster: &Cluster, arguments: &[&str]) -> Snapping {
        let output = tempfile::tempfile().expect("a temporary file");
        let mut child = Command::new(dbtime_binary())
            .arg("snap")
            .args(arguments)
            .args(["--format", "json", "--postgres"])
            .arg(cluster.data_dir())
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a file"))
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command can be run");
        let stderr = child.stderr.take().expect("standard error is a pipe");
        let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
        let attached = lines.find(|line| line.starts_with("PostgreSQL"));
        assert!(
            attached.is_some(),
            "dbtime snap {arguments:?}: {:?}",
            child.wait()
        );
        // The rest of its output is read, or it would block on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        // The first snapshot begins with the next whole second.
        std::thread::sleep(Duration::from_millis(1_300));
        Snapping { child, output }
    }

    /// Of `dbtime snap`.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends them the way Ctrl-C does.
    #[track_caller]
    pub fn stop(self) -> Vec<Value> {
        // SAFETY: kill has no memory effects; the child is not reaped yet, so the pid is no other process's.
        unsafe { libc::kill(self.child.id().cast_signed(), libc::SIGINT) };
        self.finish()
    }

    /// Waits until it has shown all of them.
    ///
    /// # Panics
    /// When it does not end, or not well.
    #[track_caller]
    pub fn finish(mut self) -> Vec<Value> {
        let give_up = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                break status;
            }
            assert!(Instant::now() < give_up, "dbtime snap does not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut text = String::new();
        self.output.rewind().expect("a file");
        self.output.read_to_string(&mut text).expect("text");
        assert!(status.success(), "dbtime snap: {status}: {text}");
        let snapshot = |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        text.lines().map(snapshot).collect()
    }
}

impl Drop for Snapping {
    fn drop(&mut self) {
        // Both do nothing when it has ended, as it has unless a test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The session of this process in a snapshot.
pub fn session(snapshot: &Value, pid: u32) -> Option<&Value> {
    let sessions = snapshot["sessions"].as_array().expect("sessions");
    sessions.iter().find(|session| session["pid"] == pid)
}

/// What grew of a session: the line of this type and name.
pub fn line<'a>(session: &'a Value, kind: &str, name: &str) -> Option<&'a Value> {
    let lines = session["lines"].as_array().expect("lines");
    lines
        .iter()
        .find(|line| line["type"] == kind && line["name"] == name)
}

/// By how much it grew; 0 where there is no such line.
#[track_caller]
pub fn growth(session: &Value, kind: &str, name: &str) -> f64 {
    line(session, kind, name).map_or(0.0, |line| number(&line["growth"]))
}
