//! A finished recording, seen by its rows: what it says about each session.

use crate::assert_close;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dbtime_model::recording::{Meta, Problem, Recording};
use dbtime_model::{
    ActivityRow, CounterRow, Frame, LatencyRow, NO_STACK, SessionId, SessionRow, StackId, StackRow, State,
    Table, counter,
};
use tempfile::TempDir;

use crate::{Latencies, Report, dbtime, number};

/// A recording that a test made.
#[derive(Debug)]
pub struct Recorded {
    /// Where it is.
    pub path: PathBuf,
    /// What the recorder said.
    pub stderr: String,
    /// Its `meta.json`.
    pub meta: Meta,
    /// Its sessions.
    pub sessions: Vec<SessionRow>,
    /// Seconds of CPU that a hypervisor stole from this machine meanwhile: neither sessions nor the sampler run then, but clocks go on. 0
    /// where the recorder was not ours.
    pub stolen: f64,
    /// Rows that could not be read.
    pub problems: Vec<Problem>,
    activity: Vec<ActivityRow>,
    counters: Vec<CounterRow>,
    latency: Vec<LatencyRow>,
    stacks: BTreeMap<StackId, Vec<Frame>>,
    _home: Option<TempDir>,
}

impl Recorded {
    /// Reads a recording.
    ///
    /// # Panics
    /// When it is not one.
    #[track_caller]
    pub fn open(path: &Path, stderr: String, home: Option<TempDir>) -> Recorded {
        let mut recorded = Recorded::open_without_latencies(path, stderr, home);
        let recording = Recording::open(path).unwrap_or_else(|e| panic!("{e}"));
        recorded.latency = rows(&recording, &mut recorded.problems);
        recorded
    }

    /// Stacks of its flame graph, frames separated by `;`, and their nanoseconds.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn flame(&self, options: &[&str]) -> Vec<(String, f64)> {
        let path = self.path.to_str().expect("a plain path");
        let printed = dbtime(&[&["flame", path, "-o", "-"], options].concat()).expect_code(0);
        let of = |line: &str| {
            let (stack, ns) = line.rsplit_once(' ').expect("a stack and its time");
            (stack.to_string(), ns.parse().expect("a number"))
        };
        printed.stdout.lines().map(of).collect()
    }

    /// Reads all but the latencies.
    ///
    /// # Panics
    /// When it is not one.
    #[track_caller]
    pub fn open_without_latencies(path: &Path, stderr: String, home: Option<TempDir>) -> Recorded {
        let recording = Recording::open(path).unwrap_or_else(|e| panic!("{e}\nrecord said: {stderr}"));
        let mut problems = Vec::new();
        Recorded {
            path: path.to_path_buf(),
            stderr,
            stolen: 0.0,
            meta: recording.meta().clone(),
            sessions: rows(&recording, &mut problems),
            activity: rows(&recording, &mut problems),
            counters: rows(&recording, &mut problems),
            latency: Vec::new(),
            stacks: rows::<StackRow>(&recording, &mut problems)
                .into_iter()
                .map(|row| (row.id, row.frames))
                .collect(),
            problems,
            _home: home,
        }
    }

    /// Asserts that every row is of a second that the recording covers: one before or after would make the elapsed time a second longer.
    ///
    /// # Panics
    /// When one is not.
    #[track_caller]
    pub fn expect_rows_within(&self) {
        let (start, end) = (self.meta.start_us, self.meta.end_us);
        let row_us = i64::from(self.meta.collector.resolution_s.max(1)) * 1_000_000;
        let covered = start.div_euclid(row_us) * row_us..=end;
        for row in &self.activity {
            assert!(
                covered.contains(&row.time),
                "outside of {start} to {end}: {row:#?}"
            );
        }
    }

    /// What it says about the one session with this process id.
    ///
    /// # Panics
    /// When there is no such session, or more than one.
    #[track_caller]
    pub fn session(&self, pid: u32) -> SessionTime {
        let sessions: Vec<&SessionRow> = self
            .sessions
            .iter()
            .filter(|session| session.pid == pid)
            .collect();
        let [session] = sessions[..] else {
            panic!(
                "{} sessions with pid {pid} in the recording: {sessions:#?}",
                sessions.len()
            );
        };
        self.session_by_id(session.id)
    }

    /// The user stacks of a process (frames root first), with their states and samples.
    ///
    /// # Panics
    /// When a stack is not in the recording.
    pub fn user_stacks(&self, pid: u32) -> Vec<(&[Frame], State, u64)> {
        let session = self.session(pid);
        let with_stack = session.activity.iter().filter(|row| row.user_stack != NO_STACK);
        with_stack
            .map(|row| {
                let frames = self.stacks.get(&row.user_stack).expect("every stack has a row");
                (frames.as_slice(), row.state, row.samples)
            })
            .collect()
    }

    /// All stacks, frames root first.
    pub fn stacks(&self) -> impl Iterator<Item = &[Frame]> {
        self.stacks.values().map(Vec::as_slice)
    }

    /// What it says about every session of client backends.
    pub fn clients(&self) -> Vec<SessionTime> {
        let clients = self
            .sessions
            .iter()
            .filter(|session| session.backend_type == "client backend");
        clients.map(|session| self.session_by_id(session.id)).collect()
    }

    fn session_by_id(&self, id: SessionId) -> SessionTime {
        let mut counters = BTreeMap::new();
        for row in self.counters.iter().filter(|row| row.session == id) {
            *counters.entry(row.name.to_string()).or_insert(0) += row.value.max(0).cast_unsigned();
        }
        let sum = |name: &str| counters.get(name).copied().unwrap_or(0);
        SessionTime {
            row: self
                .sessions
                .iter()
                .find(|session| session.id == id)
                .expect("asked by id")
                .clone(),
            elapsed_ns: sum(counter::ELAPSED_NS),
            torn: sum(counter::TORN),
            activity: self
                .activity
                .iter()
                .filter(|row| row.session == id)
                .cloned()
                .collect(),
            latencies: Latencies(
                self.latency
                    .iter()
                    .filter(|row| row.session == id)
                    .cloned()
                    .collect(),
            ),
            counters,
        }
    }

    /// Sum over all client backends of the time in this wait event (`Class:Event`) and these states.
    pub fn clients_ns(&self, wait: &str, states: &[State]) -> u64 {
        self.clients()
            .iter()
            .map(|session| session.ns(Some(wait), states))
            .sum()
    }

    /// What `dbtime report --format json` says about it.
    #[track_caller]
    pub fn report(&self, arguments: &[&str]) -> Report {
        Report::of(&self.path, arguments)
    }

    /// The same as JSON, for what [`Report`] has no fields for.
    #[track_caller]
    pub fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let path = self.path.to_str().expect("a plain path");
        let outcome = dbtime(&[&["report", path, "--format", "json"], arguments].concat()).expect_code(0);
        serde_json::from_str(&outcome.stdout).expect("JSON")
    }

    /// DB time in seconds, and the text, by the id of the statement. The times of all statements sum to DB time.
    #[track_caller]
    pub fn statements(&self) -> BTreeMap<String, (f64, String)> {
        let report = self.json(&[]);
        let statements = report["statements"].as_array().expect("statements");
        let sum: f64 = statements
            .iter()
            .map(|statement| number(&statement["total_ns"]))
            .sum();
        assert_close("all statements, s", sum, number(&report["db_time_ns"]), 1e-9, 0.0);
        let known = statements.iter().filter_map(|statement| {
            let id = statement["query"].as_str()?.to_string();
            let text = statement["text"].as_str().unwrap_or_default().to_string();
            Some((id, (number(&statement["total_ns"]) / 1e9, text)))
        });
        known.collect()
    }

    /// What `dbtime report` prints about it.
    #[track_caller]
    pub fn text(&self, arguments: &[&str]) -> String {
        let path = self.path.to_str().expect("a plain path");
        let outcome = dbtime(&[&["report", path], arguments].concat()).expect_code(0);
        outcome.stdout + &outcome.stderr
    }
}

/// What a recording says about one session.
#[derive(Debug, Clone)]
pub struct SessionTime {
    /// Who it is.
    pub row: SessionRow,
    /// Time that it was recorded for.
    pub elapsed_ns: u64,
    /// Rows dropped because it ran while it was read.
    pub torn: u64,
    /// Its rows.
    pub activity: Vec<ActivityRow>,
    /// Its single events.
    pub latencies: Latencies,
    counters: BTreeMap<String, u64>,
}

/// States on a CPU.
pub(crate) const ON_CPU: [State; 3] = [State::User, State::Kernel, State::Cpu];

impl SessionTime {
    /// Asserts that its rows sum to the time that passed for it, to a part in a thousand.
    #[track_caller]
    pub fn assert_conserved(&self) {
        assert_close(
            "accounted for, s",
            self.accounted_ns() as f64 / 1e9,
            self.elapsed_ns as f64 / 1e9,
            0.001,
            0.001,
        );
    }

    /// Time in this wait event (`Class:Event`, `CPU`; `None` = any) and these states.
    pub fn ns(&self, wait: Option<&str>, states: &[State]) -> u64 {
        let rows = self.activity.iter().filter(|row| {
            wait.is_none_or(|wait| row.wait().to_string() == wait) && states.contains(&row.state)
        });
        rows.map(|row| row.ns).sum()
    }

    /// How often it was in this wait event (`Class:Event`, `CPU`) and these states.
    pub fn count(&self, wait: &str, states: &[State]) -> u64 {
        let rows = self.activity.iter();
        rows.filter(|row| row.wait().to_string() == wait && states.contains(&row.state))
            .map(|row| row.count)
            .sum()
    }

    /// Sum of a counter (`run_queue_ns`), 0 when it never grew.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }

    /// Sum of all its rows in waits that are not idle, and on a CPU: its part of DB time.
    pub fn busy_ns(&self) -> u64 {
        let rows = self.activity.iter().filter(|row| !row.idle);
        rows.map(|row| row.ns).sum()
    }

    /// Sum of all its rows.
    pub fn accounted_ns(&self) -> u64 {
        self.ns(None, &State::ALL)
    }

    /// Time on a CPU.
    pub fn cpu_ns(&self) -> u64 {
        self.ns(None, &ON_CPU)
    }

    /// Share of its rows in this wait event, 0 to 1.
    pub fn share_of_wait(&self, wait: &str) -> f64 {
        self.ns(Some(wait), &State::ALL) as f64 / self.accounted_ns().max(1) as f64
    }

    /// Sum of all its rows other than those in the run queue: how long it spends there depends on the host.
    pub fn beside_run_queue_ns(&self) -> u64 {
        self.accounted_ns() - self.ns(None, &[State::Runnable])
    }

    /// Number of samples behind its rows.
    pub fn samples(&self) -> u64 {
        self.activity.iter().map(|row| row.samples).sum()
    }

    /// Its ledger as lines of text, for messages.
    pub fn ledger(&self) -> String {
        let mut sums = BTreeMap::new();
        for row in &self.activity {
            let sum = sums.entry((row.wait().to_string(), row.state)).or_insert((0, 0));
            *sum = (sum.0 + row.ns, sum.1 + row.count);
        }
        let lines = sums.iter().map(|((wait, state), (ns, count))| {
            format!("{:>12.6} s {count:>8} × {wait} {state}", *ns as f64 / 1e9)
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

fn rows<T: Table>(recording: &Recording, problems: &mut Vec<Problem>) -> Vec<T> {
    let mut rows = Vec::new();
    problems.extend(recording.read(|batch| rows.extend(batch)));
    rows
}
