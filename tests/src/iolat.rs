//! `dbtime iolat --format json` in the background, and what it showed.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde::Deserialize;

use crate::dbtime_binary;

/// A measurement under way. Killed when dropped before its end.
#[derive(Debug)]
pub struct Iolat {
    child: Child,
    stdout: BufReader<ChildStdout>,
    first: String,
}

/// One line of its output.
#[derive(Debug, Clone, Deserialize)]
#[expect(missing_docs, reason = "as in the JSON, whose fields docs/iolat.md describes")]
pub struct BlockIo {
    pub time: String,
    pub elapsed_ns: u64,
    pub whole: bool,
    pub from: String,
    pub tables: Vec<BlockTable>,
    pub left_out: BTreeMap<String, u64>,
    pub without_begin: u64,
    pub lost: u64,
}

/// Requests of a disk, or of all.
#[derive(Debug, Clone, Deserialize)]
#[expect(missing_docs, reason = "as in the JSON, whose fields docs/iolat.md describes")]
pub struct BlockTable {
    pub disk: Option<String>,
    pub operations: Vec<BlockRequests>,
}

/// Requests of one operation.
#[derive(Debug, Clone, Default, Deserialize)]
#[expect(missing_docs, reason = "as in the JSON, whose fields docs/iolat.md describes")]
pub struct BlockRequests {
    pub operation: String,
    pub count: u64,
    pub bytes: u64,
    pub sum_ns: u64,
    pub max_ns: u64,
    pub p50_ns: Option<u64>,
    pub p99_ns: Option<u64>,
    pub buckets: Vec<BlockBucket>,
}

/// Requests whose latency lay between two bounds.
#[derive(Debug, Clone, Deserialize)]
#[expect(missing_docs, reason = "as in the JSON, whose fields docs/iolat.md describes")]
pub struct BlockBucket {
    pub from_us: u64,
    pub to_us: u64,
    pub count: u64,
    pub sum_ns: u64,
}

impl Iolat {
    /// Starts it; returns once it is really measuring, after its first interval.
    ///
    /// # Panics
    /// When it ends instead, with what it said.
    pub fn start(arguments: &[&str]) -> Iolat {
        let mut child = Command::new(dbtime_binary())
            .args(["iolat", "--format", "json", "0.2"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("the command can be run");
        let mut stdout = BufReader::new(child.stdout.take().expect("standard output is a pipe"));
        let mut first = String::new();
        stdout.read_line(&mut first).expect("a line of text");
        assert!(!first.is_empty(), "iolat ended: {:?}", child.wait());
        Iolat { child, stdout, first }
    }

    /// Ends it with Ctrl-C; returns its intervals, and the line for the whole time.
    ///
    /// # Panics
    /// When it prints anything else.
    #[track_caller]
    pub fn stop(mut self) -> (Vec<BlockIo>, BlockIo) {
        // SAFETY: kill has no memory effects; the child is not reaped yet, so the pid is no other process's.
        unsafe { libc::kill(self.child.id().cast_signed(), libc::SIGINT) };
        let mut text = std::mem::take(&mut self.first);
        self.stdout.read_to_string(&mut text).expect("text");
        let status = self.child.wait().expect("it is our child");
        assert!(matches!(status.code(), Some(0 | 3)), "{status:?}: {text}");
        let mut lines: Vec<BlockIo> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
            .collect();
        let whole = lines.pop().expect("the whole time");
        assert!(whole.whole && lines.iter().all(|line| !line.whole), "{text}");
        (lines, whole)
    }
}

impl Drop for Iolat {
    fn drop(&mut self) {
        // Both do nothing when it has ended, as it has unless a test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl BlockIo {
    /// The requests of an operation, all disks together.
    pub fn operation(&self, name: &str) -> BlockRequests {
        let mut sum = BlockRequests::default();
        for requests in self.tables.iter().flat_map(|table| &table.operations) {
            if requests.operation == name {
                assert_eq!(sum.count, 0, "one table only: {self:#?}");
                sum = requests.clone();
            }
        }
        sum
    }
}
