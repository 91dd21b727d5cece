//! What strace writes: a line per call (with `-T`, its time), or a summary (`-c`).
//!
//! # Format
//! `[pid] [time] name(arguments) = result <seconds>`. A call that is interrupted by another task's line is written in two parts, `name(…
//! <unfinished ...>` and `<... name resumed>…) = result <seconds>`, which are joined by task. The time is that of the call's start: since
//! 1970 (`-ttt`), since midnight (`-t`, `-tt`), since the previous line (`-r`), or missing.
//!
//! # Rows
//! See [`calls`]. A summary has sums and no distribution, so it gives no latencies.

mod calls;
mod line;
mod perf_trace;
mod summary;

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use dbtime_model::counter::{STRACE, calls as counter_name};
use dbtime_model::recording::{Clock, ImportedFile};

use crate::import::unknown_line;
use crate::lines::Line;
use crate::samples::{Process, Table};
use crate::text::{decimal, file_name};
use crate::{Import, ImportError, Importer, Lines};
use calls::{Calls, Ended, Task};
use line::{Time, What};
pub(crate) use perf_trace::PerfTrace;
use summary::{Columns, Meaning};

/// Lines at the beginning of a file in which its format has to show.
const LOOKED_AT: usize = 100;

/// What strace prints about a process that it begins to trace, before its number.
const ATTACHED: &[u8] = b"strace: Process ";

const DAY_NS: i64 = 86_400_000_000_000;

/// Times with coarser digits say nothing about the time between two calls.
const COARSEST_NS: u64 = 1_000_000;

/// The importer of this format.
#[derive(Debug)]
pub(crate) struct Strace;

impl Importer for Strace {
    fn name(&self) -> &'static str {
        "strace"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let mut lines = head.split(|byte| *byte == b'\n').take(LOOKED_AT);
        lines.any(|text| {
            let is_call = line::parse(text).is_some_and(|line| {
                matches!(line.what, What::Call(_) | What::Resumed(_) | What::Unfinished(_))
            });
            is_call || summary::head(text).is_some()
        })
    }

    fn import(
        &self,
        lines: &mut Lines<Box<dyn Read + '_>>,
        path: &Path,
        into: &mut Import,
    ) -> Result<(), ImportError> {
        let main = main_task(lines.head());
        let mut reader = Reader::new(path, main, into);
        while let Some(line) = lines.next_line() {
            reader.line(line);
        }
        reader.finish(lines.number());
        Ok(())
    }
}

struct Reader<'a> {
    calls: Calls<'a>,
    file: ImportedFile,
    /// Name of the file, for a process that is not named.
    own_name: Vec<u8>,
    tasks: Table<u32, Task>,
    /// Tasks that have had lines but no end yet. strace names the task of a line only while there are several.
    alive: BTreeSet<u32>,
    /// The task that was there first; 0 = not known.
    main: u32,
    /// The beginning of a line that a message of strace interrupted.
    broken: Vec<u8>,
    summary: Option<Columns>,
    has_lines: bool,
    has_summary: bool,
    passed_summary: bool,
    clock: Clock,
    /// The last time, with the days since the first line; nanoseconds.
    now: Option<i64>,
    days: i64,
}

impl<'a> Reader<'a> {
    fn new(path: &Path, main: u32, into: &'a mut Import) -> Reader<'a> {
        let file = crate::import::file(path);
        Reader {
            own_name: file_name(file.path.as_bytes()).to_vec(),
            calls: Calls::new(STRACE, &file.path, into),
            file,
            tasks: Table::default(),
            alive: BTreeSet::new(),
            main,
            broken: Vec::new(),
            summary: None,
            has_lines: false,
            has_summary: false,
            passed_summary: false,
            clock: Clock::None,
            now: None,
            days: 0,
        }
    }

    fn line(&mut self, line: Line<'_>) {
        let text = line.bytes;
        if text.trim_ascii().is_empty() {
            return;
        }
        if let Some(columns) = summary::head(text) {
            self.summary = Some(columns);
            return;
        }
        // The last line may be truncated, in the middle of a text that looks like an end.
        if !line.ended {
            return;
        }
        if self.summary(text) {
            return;
        }
        // On a terminal, a message of strace interrupts the call that created a process; the rest of the call is on the next line.
        if text.ends_with(b" attached")
            && let Some(at) = memchr::memmem::find(text, ATTACHED)
            && at > 0
        {
            self.broken = text[..at].to_vec();
            return;
        }
        let joined: Vec<u8>;
        let text = if !self.broken.is_empty() && text.starts_with(b", ") {
            joined = [&std::mem::take(&mut self.broken), text].concat();
            &joined
        } else {
            text
        };
        match line::parse(text) {
            Some(parsed) => self.parsed(&parsed),
            None => unknown_line(&mut self.file, line.number, text),
        }
    }

    /// Reads a line of a summary; false if it is not one.
    fn summary(&mut self, text: &[u8]) -> bool {
        let Some(columns) = &self.summary else {
            return false;
        };
        match columns.row(text) {
            Some(Meaning::Rule) => {}
            Some(Meaning::Total) => self.summary = None,
            // With -C, the summary repeats the calls above.
            Some(Meaning::Row(_)) if self.has_lines => self.passed_summary = true,
            Some(Meaning::Row(row)) => {
                let (name, ns) = (self.calls.name(row.name), row.seconds.ns);
                let task = self.task(0, None, b"");
                self.calls.summed(task, name, row.calls, row.errors, ns);
                self.has_summary = true;
            }
            None => {
                self.summary = None;
                return false;
            }
        }
        true
    }

    fn parsed(&mut self, line: &line::Line<'_>) {
        if line.what == What::Passed {
            return;
        }
        let time = self.time(line);
        let only = self.alive.first().copied().filter(|_| self.alive.len() == 1);
        let pid = match line.pid {
            0 => only.unwrap_or(self.main),
            pid => pid,
        };
        self.alive.insert(pid);
        match line.what {
            What::Call(call) => {
                let name = self.calls.name(call.name);
                let program = match call.name {
                    b"execve" => file_name(call.first_text),
                    _ => b"",
                };
                let task = self.task(pid, time, program);
                self.calls.call(task, ended(name, time, &call));
            }
            What::Unfinished(name) => {
                let name = self.calls.name(name);
                let task = self.task(pid, time, b"");
                self.calls.begins(task, name, time);
            }
            What::Resumed(call) => {
                let name = self.calls.name(call.name);
                let task = self.task(pid, time, b"");
                // It may have started before the file.
                let start = match self.calls.take_open(task) {
                    Some((open, start)) if open == name => start,
                    _ => None,
                };
                self.calls.ends(task, ended(name, start, &call));
            }
            What::Signal(signal) => {
                let task = self.task(pid, time, b"");
                let signal = String::from_utf8_lossy(signal);
                self.calls
                    .count(task, time, format!("{}{signal}", counter_name::SIGNALS));
            }
            What::Exit => {
                self.alive.remove(&pid);
                if let Some(task) = self.tasks.get(&pid) {
                    self.calls.take_open(*task);
                    self.calls.exit(*task);
                }
            }
            What::Passed => {}
        }
        self.has_lines = true;
    }

    fn task(&mut self, pid: u32, start: Option<i64>, program: &[u8]) -> Task {
        if let Some(task) = self.tasks.get(&pid) {
            return *task;
        }
        let title = match (pid, program) {
            (0, b"") => &self.own_name,
            _ => program,
        };
        let task = self.calls.task(Process::named(title, pid), start);
        self.tasks.insert(pid, task);
        task
    }

    /// When the call of a line began, nanoseconds of the clock of the file.
    fn time(&mut self, line: &line::Line<'_>) -> Option<i64> {
        let (clock, now) = match line.time? {
            Time::Epoch(ns) => (Clock::Utc, ns),
            Time::Day(ns) => {
                let last = self.now.unwrap_or(ns);
                // Midnight, not one of the small steps back between lines of several CPUs.
                if last.saturating_sub(self.days.saturating_add(ns)) > DAY_NS / 2 {
                    self.days = self.days.saturating_add(DAY_NS);
                }
                (Clock::Relative, self.days.saturating_add(ns))
            }
            Time::SinceLast(ns) => (Clock::Relative, self.now.unwrap_or(0).saturating_add(ns)),
        };
        self.clock = clock;
        self.now = Some(now);
        self.calls.is_coarse |= line.unit_ns > COARSEST_NS;
        Some(now)
    }

    fn finish(mut self, lines: u64) {
        self.file.lines = lines;
        let reasons = self.reasons();
        for reason in reasons {
            self.calls.into.reason(reason);
        }
        let unfinished = self.calls.unfinished();
        if unfinished > 0 {
            let path = &self.file.path;
            self.calls.into.problem(format!(
                "{path}: calls that were unfinished at the end of the trace, not counted: {unfinished}"
            ));
        }
        self.calls.finish(self.clock, self.file);
    }

    /// What a reader of the numbers should know.
    fn reasons(&self) -> Vec<&'static str> {
        let mut reasons = Vec::new();
        let keeps_spans = self.calls.into.options().keeps_spans;
        if keeps_spans {
            reasons.push(
                "the strace file covers the same time as the SQL trace: it is shown next to it, not added to it",
            );
        }
        if self.has_lines {
            reasons.push(
                "strace stops the process at the start and end of every call: all times are those under strace, \
                longer than without it",
            );
            if !self.calls.has_durations() {
                reasons.push("strace ran without -T: calls are counted, but how long they took is not known");
            } else if keeps_spans {
            } else if self.calls.has_outside() {
                reasons.push(
                    "time between two calls is what the process did outside of system calls and strace's own stops, which \
                     cannot be told apart",
                );
            } else {
                reasons.push(
                    "strace ran without precise timestamps (-ttt): time between calls is not known, amounts \
                     are those inside of calls",
                );
            }
            reasons.push("strace cannot tell whether a call was on a CPU or asleep: its state is not known");
        }
        if self.has_summary {
            reasons.push(
                "a summary of strace (-c) has sums and no distribution; its seconds are the CPU time of the calls in the \
                 kernel, or with -w the time from start to end: it does not say which",
            );
        }
        if self.passed_summary {
            reasons
                .push("the summary at the end of the file (-C) counts the same calls again and is skipped");
        }
        reasons
    }
}

/// The first task, whose number is missing in lines while it is alone: the first number without a line that says that strace attached to
/// it.
fn main_task(head: &[u8]) -> u32 {
    let mut attached = BTreeSet::new();
    for text in head.split(|byte| *byte == b'\n') {
        if let Some(pid) = memchr::memmem::find(text, ATTACHED)
            .and_then(|at| decimal(text[at + ATTACHED.len()..].strip_suffix(b" attached")?))
        {
            attached.insert(pid);
        } else if let Some(line) = line::parse(text)
            && line.pid != 0
            && !attached.contains(&line.pid.into())
        {
            return line.pid;
        }
    }
    0
}

fn ended(name: calls::Name, start: Option<i64>, call: &line::Call<'_>) -> Ended {
    Ended {
        name,
        start,
        duration: call.duration,
        is_error: call.is_error,
    }
}
