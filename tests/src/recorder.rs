//! `dbtime record` in the background.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use dbtime::throwaway::Cluster;
use tempfile::TempDir;

use crate::{Outcome, Recorded, dbtime_binary, stolen};

/// How long the command may take to attach, and to finish after it was told to.
const PATIENCE: Duration = Duration::from_secs(120);

/// A recording in the making. Killed when dropped before its end.
#[derive(Debug)]
pub struct Recorder {
    child: Child,
    lines: Receiver<String>,
    stderr: Vec<String>,
    path: PathBuf,
    /// Removed with the recorder, or handed on to what it recorded.
    home: Option<TempDir>,
    /// CPU time that had been stolen from the machine when it began to sample.
    stolen: Duration,
}

impl Recorder {
    /// Records a server; returns once the recorder really samples.
    pub fn server(cluster: &Cluster, arguments: &[&str]) -> Recorder {
        let data_dir = cluster.data_dir().to_str().expect("a plain path");
        Recorder::start(&[&["--postgres", data_dir], arguments].concat())
    }

    /// Records with these arguments, to a directory of its own; returns once the recorder really samples.
    pub fn start(arguments: &[&str]) -> Recorder {
        Recorder::through(&[], arguments)
    }

    /// As [`Recorder::start`], run by another command that changes its priority, limits or environment.
    pub fn through(wrapper: &[&str], arguments: &[&str]) -> Recorder {
        let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
        let path = home.path().join("test.dbt");
        let mut recorder = Recorder::run(wrapper, &path, arguments);
        recorder.home = Some(home);
        recorder
    }

    /// Records with these arguments to `path`; returns once the recorder really samples.
    ///
    /// # Panics
    /// When the recorder ends instead, with what it said.
    pub fn start_at(path: &Path, arguments: &[&str]) -> Recorder {
        Recorder::run(&[], path, arguments)
    }

    fn run(wrapper: &[&str], path: &Path, arguments: &[&str]) -> Recorder {
        let words = wrapper.iter().map(OsString::from);
        let mut words = words.chain([dbtime_binary().into_os_string()]);
        let mut child = Command::new(words.next().expect("there is at least the command"))
            .args(words)
            .arg("record")
            .args(arguments)
            .arg("-o")
            .arg(path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command can be run");
        let lines = lines_of(child.stderr.take().expect("standard error is a pipe"));
        let mut recorder = Recorder {
            child,
            lines,
            stderr: Vec::new(),
            path: path.to_path_buf(),
            home: None,
            stolen: Duration::ZERO,
        };
        recorder.wait_for_line("recording");
        recorder.stolen = stolen();
        recorder
    }

    /// Waits for a line on standard error that begins with `start`.
    ///
    /// # Panics
    /// When it does not come.
    #[track_caller]
    pub fn wait_for_line(&mut self, start: &str) {
        let give_up = Instant::now() + PATIENCE;
        loop {
            match self
                .lines
                .recv_timeout(give_up.saturating_duration_since(Instant::now()))
            {
                Ok(line) => {
                    let found = line.starts_with(start);
                    self.stderr.push(line);
                    if found {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    panic!("no line '{start}…' from record: {:#?}", self.stderr)
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = self.child.wait();
                    panic!(
                        "record ended without a line '{start}…' ({status:?}): {:#?}",
                        self.stderr
                    )
                }
            }
        }
    }

    /// Process id of the recorder.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where it records to.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Ends the recording the way Ctrl-C does.
    #[track_caller]
    pub fn stop(self) -> Recorded {
        self.signal(libc::SIGINT);
        self.finish()
    }

    /// Waits for the recorder to end by itself; it must say that all went well.
    #[track_caller]
    pub fn finish(self) -> Recorded {
        let before = self.stolen;
        let (outcome, path, home) = self.end();
        let stolen = stolen() - before;
        let outcome = outcome.expect_code(0);
        let mut recorded = Recorded::open(&path, outcome.stderr, home);
        recorded.stolen = stolen.as_secs_f64();
        recorded.expect_rows_within();
        recorded
    }

    /// As [`Recorder::finish`], but latencies are not read: those of many sessions in a long recording would not fit into memory.
    #[track_caller]
    pub fn finish_without_latencies(self) -> Recorded {
        let (outcome, path, home) = self.end();
        let outcome = outcome.expect_code(0);
        Recorded::open_without_latencies(&path, outcome.stderr, home)
    }

    /// Waits for the recorder to end, well or not.
    pub fn outcome(self) -> Outcome {
        self.end().0
    }

    /// Kills the recorder with SIGKILL and opens what it left.
    #[track_caller]
    pub fn kill(self) -> Recorded {
        self.signal(libc::SIGKILL);
        let (outcome, path, home) = self.end();
        Recorded::open(&path, outcome.stderr, home)
    }

    /// Sends a signal to the recorder.
    pub fn signal(&self, signal: libc::c_int) {
        // SAFETY: kill has no memory effects; the child is not reaped yet, so the pid is no other process's.
        unsafe { libc::kill(self.child.id().cast_signed(), signal) };
    }

    fn end(mut self) -> (Outcome, PathBuf, Option<TempDir>) {
        let status = self.wait();
        self.stderr.extend(self.lines.iter());
        let outcome = Outcome {
            code: status.code().unwrap_or(-1),
            stdout: String::new(),
            stderr: self.stderr.join("\n"),
        };
        (outcome, self.path.clone(), self.home.take())
    }

    fn wait(&mut self) -> ExitStatus {
        let give_up = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("the recorder is our child") {
                return status;
            }
            assert!(
                Instant::now() < give_up,
                "record does not end: {:#?}",
                self.stderr
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // Both do nothing when it has ended, as it has unless a test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines_of(stderr: ChildStderr) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}
