//! The stand-in for an Oracle instance (`tests/stand_in/stand_in.c`): sessions that do real work and write down the truth.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

/// Numbers of its events.
pub mod event {
    /// Cached reads.
    pub const SEQUENTIAL_READ: u32 = 146;
    /// Reads that bypass the page cache.
    pub const DIRECT_READ: u32 = 198;
    /// A semaphore that nobody raises.
    pub const ROW_LOCK: u32 = 237;
    /// Spinning.
    pub const LATCH: u32 = 8;
    /// Sleeping.
    pub const QUANTUM: u32 = 515;
    /// Sleeping, in an event that only the table of the executable names.
    pub const ONLY_IN_BINARY: u32 = 600;
}

/// What a session did in one event and statement. Event 0: all of its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitTruth {
    /// Process of the session.
    pub pid: u32,
    /// Number of the event.
    pub event: u32,
    /// Hash of the statement.
    pub statement: u32,
    /// How often.
    pub count: u64,
    /// How long.
    pub ns: u64,
    /// Of that, on a CPU.
    pub cpu_ns: u64,
    /// How long as the session itself timed it, microseconds.
    pub db_us: u64,
    /// How long it was kept from its CPU between its clock and its event, where that was more than a millisecond.
    pub kept_ns: u64,
}

/// A running stand-in; ended when dropped.
#[derive(Debug)]
pub struct StandIn {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    directory: TempDir,
}

impl StandIn {
    /// Starts sessions that do these kinds of work in turn when they are told to.
    ///
    /// # Panics
    /// When it cannot be built or started.
    #[track_caller]
    pub fn start(seconds: f64, sessions: u32, kinds: &str) -> StandIn {
        // Not in memory: direct reads want a device.
        let directory =
            TempDir::with_prefix_in("dbtime-stand-in-", "/var/tmp").expect("a temporary directory");
        let mut child = Command::new(program())
            .arg(directory.path())
            .args([seconds.to_string(), sessions.to_string(), kinds.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the stand-in runs");
        let mut stand_in = StandIn {
            stdin: child.stdin.take(),
            stdout: BufReader::new(child.stdout.take().expect("a pipe")),
            child,
            directory,
        };
        stand_in.wait_for("ready");
        stand_in
    }

    /// The MAP of its sessions.
    pub fn map(&self) -> PathBuf {
        self.directory.path().join("map.csv")
    }

    /// What its MAP says.
    ///
    /// # Panics
    /// When it is gone.
    pub fn map_text(&self) -> String {
        fs::read_to_string(self.map()).expect("the stand-in has made it")
    }

    /// A file beside its own, for another MAP.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn other_map(&self, text: &str) -> PathBuf {
        let path = self.directory.path().join("other.csv");
        let new = self.directory.path().join("other.new");
        fs::write(&new, text).expect("a directory of our own");
        fs::rename(&new, &path).expect("a directory of our own");
        path
    }

    /// Its sessions' processes, in the order of the MAP.
    ///
    /// # Panics
    /// When the MAP is not as it should be.
    pub fn pids(&self) -> Vec<u32> {
        let map = self.map_text();
        let sessions = map.lines().filter(|line| line.starts_with("session,"));
        sessions
            .map(|line| {
                line.split(',')
                    .nth(3)
                    .and_then(|pid| pid.parse().ok())
                    .expect("a pid")
            })
            .collect()
    }

    /// Lets the sessions work, once, and returns the truth about it.
    ///
    /// # Panics
    /// When they do not.
    #[track_caller]
    pub fn work(&mut self) -> Vec<WaitTruth> {
        let stdin = self.stdin.as_mut().expect("open until it ends");
        stdin.write_all(b"go\n").expect("the stand-in listens");
        stdin.flush().expect("the stand-in listens");
        self.wait_for("done");
        let text = fs::read_to_string(self.directory.path().join("truth.csv"))
            .expect("it has said that it is written");
        text.lines().map(truth).collect()
    }

    #[track_caller]
    fn wait_for(&mut self, word: &str) {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a pipe");
        assert_eq!(line.trim(), word, "the stand-in did not say so");
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        // It ends, with its sessions, when its input does.
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

fn truth(line: &str) -> WaitTruth {
    let numbers: Vec<u64> = line.split(',').map(|n| n.parse().expect("a number")).collect();
    let [pid, event, statement, count, ns, cpu_ns, db_us, kept_ns] = numbers[..] else {
        panic!("eight numbers: {line}");
    };
    WaitTruth {
        pid: pid as u32,
        event: event as u32,
        statement: statement as u32,
        count,
        ns,
        cpu_ns,
        db_us,
        kept_ns,
    }
}

/// Builds it, once.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = PROGRAM.get_or_init(|| {
        let directory = TempDir::with_prefix("dbtime-stand-in-").expect("a temporary directory");
        let path = directory.path().join("stand_in");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("stand_in/stand_in.c");
        let output = Command::new("cc")
            .args([
                "-O2",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-fcf-protection=none",
                "-rdynamic",
                "-o",
            ])
            .arg(&path)
            .arg(source)
            .output()
            .expect("a C compiler: run scripts/deps.sh build");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        (directory, path)
    });
    path
}
