//! System calls on their way to rows: what strace and perf trace have in common.
//!
//! # Rows
//! Per task and second of the call's **end** (a call of ten seconds is in one second):
//!
//! * `activity`: the time in calls, and their number, at a kernel stack of one frame: the call's name. What the process waited for in the
//!   database's terms is not recorded; its state is not known either, because a call computes and sleeps. The time from the end
//!   of a call to the start of the next is at a user stack of one frame, [`OUTSIDE`];
//! * `latency`: every call with a time, in buckets no finer than the digits of the file;
//! * `counters`: calls, those that returned an error, those without a time, signals.

use dbtime_model::counter::calls as name;
use dbtime_model::latency::{bounds_of, bucket_of, kind};
use dbtime_model::recording::{Clock, ImportedFile, Unit};
use dbtime_model::{CounterRow, LatencyRow, SessionId, SessionRow, SpanRow, State, Wait, span};

use super::line::Digits;
use crate::samples::{FrameNumber, Place, Process, Samples, Stack, Table, Weight, identity};
use crate::span::Span;
use crate::{Import, Measure};

const SECOND_NS: i64 = 1_000_000_000;

/// Longer calls are damage: this is more than thirty years.
const MAX_CALL_NS: u64 = 1_000_000_000_000_000_000;

/// Sums kept before they become rows: bounds the memory of a long trace.
const MAX_SUMS: usize = 262_144;

/// The frame of time between two calls.
pub(super) const OUTSIDE: &str = "outside of system calls, the tracer's stops included";

/// A task by its number in [`Calls`].
pub(super) type Task = usize;

/// A call by its number in [`Calls`].
pub(super) type Name = u32;

/// A call that has ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    pub name: Name,
    /// When it began, nanoseconds.
    pub start: Option<i64>,
    pub duration: Option<Digits>,
    pub is_error: bool,
}

#[derive(Debug)]
struct OneTask {
    process: u32,
    id: SessionId,
    /// When its last call ended, nanoseconds.
    end: Option<i64>,
    open: Option<(Name, Option<i64>)>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    calls: u64,
    errors: u64,
    untimed: u64,
    /// The time of calls in a summary. That of single calls is in activity and latencies.
    ns: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    count: u64,
    sum_ns: u64,
    max_ns: u64,
    min_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct LatencyKey {
    task: Task,
    second: i64,
    name: Name,
    unit_ns: u64,
    bucket: u16,
}

/// All calls of a file.
pub(super) struct Calls<'a> {
    pub(super) into: &'a mut Import,
    source: &'static str,
    path: String,
    samples: Samples,
    wait: u32,
    outside: Stack,
    names: Table<Box<[u8]>, Name>,
    /// Name and kernel stack.
    known: Vec<(String, Stack)>,
    tasks: Vec<OneTask>,
    sums: Table<(Task, i64, Name), Sums>,
    latencies: Table<LatencyKey, Bucket>,
    others: Table<(Task, i64, String), u64>,
    /// Calls without a time, for files in which none has one.
    untimed: Table<(Task, i64, Name), u64>,
    has_durations: bool,
    has_outside: bool,
    /// From the first start to the last end, nanoseconds.
    span: Span,
    /// The times of the file are too coarse to tell the time between two calls.
    pub(super) is_coarse: bool,
}

impl<'a> Calls<'a> {
    /// `source`: that of the counters.
    pub(super) fn new(source: &'static str, path: &str, into: &'a mut Import) -> Calls<'a> {
        let mut samples = Samples::new();
        let wait = samples.wait(Wait::not_recorded());
        let frame: FrameNumber = samples.frame(OUTSIDE.as_bytes(), b"");
        let outside = samples.stack(&[frame]);
        Calls {
            into,
            source,
            path: path.to_string(),
            samples,
            wait,
            outside,
            names: Table::default(),
            known: Vec::new(),
            tasks: Vec::new(),
            sums: Table::default(),
            latencies: Table::default(),
            others: Table::default(),
            untimed: Table::default(),
            has_durations: false,
            has_outside: false,
            span: Span::default(),
            is_coarse: false,
        }
    }

    /// A task that has not been seen before. `start`: when its first call began.
    pub(super) fn task(&mut self, process: Process, start: Option<i64>) -> Task {
        let row = SessionRow {
            pid: process.pid,
            started: start.unwrap_or(0).div_euclid(1_000),
            backend_type: process.backend_type.into(),
            title: process.title.clone(),
            ..SessionRow::default()
        };
        let id = self.into.session(&identity(&process, &self.path), row);
        self.tasks.push(OneTask {
            process: self.samples.process(process),
            id,
            end: None,
            open: None,
        });
        self.tasks.len() - 1
    }

    /// The number of a call.
    pub(super) fn name(&mut self, name: &[u8]) -> Name {
        if let Some(number) = self.names.get(name) {
            return *number;
        }
        let frame = self.samples.frame(name, b"[kernel]");
        let stack = self.samples.stack(&[frame]);
        // No file that fits on a disk has so many distinct ones.
        let number = Name::try_from(self.known.len()).unwrap_or(Name::MAX);
        self.known
            .push((String::from_utf8_lossy(name).into_owned(), stack));
        self.names.insert(name.into(), number);
        number
    }

    /// A call began; its end comes later.
    pub(super) fn begins(&mut self, task: Task, name: Name, start: Option<i64>) {
        self.tasks[task].open = Some((name, start));
        self.outside(task, start);
    }

    /// Takes the call that is open for a task.
    pub(super) fn take_open(&mut self, task: Task) -> Option<(Name, Option<i64>)> {
        self.tasks[task].open.take()
    }

    /// A call that has ended, and whose start was not reported.
    pub(super) fn call(&mut self, task: Task, call: Ended) {
        self.outside(task, call.start);
        self.ends(task, call);
    }

    /// A call that has ended, and whose start was reported.
    pub(super) fn ends(&mut self, task: Task, call: Ended) {
        let duration = call.duration.filter(|of| of.ns <= MAX_CALL_NS);
        let end = call
            .start
            .map(|start| start.saturating_add_unsigned(duration.map_or(0, |of| of.ns)));
        if let (Some(start), Some(end)) = (call.start, end) {
            self.span.add(start, end);
        }
        let second = end.map_or(0, |end| end.div_euclid(SECOND_NS));
        let of = &mut self.tasks[task];
        // Without a duration, it is not known when it ended.
        of.end = end.filter(|_| duration.is_some());
        let (id, process) = (of.id, of.process);
        let sums = self.sums.entry((task, second, call.name)).or_default();
        sums.calls += 1;
        sums.errors += u64::from(call.is_error);
        sums.untimed += u64::from(duration.is_none());
        match duration {
            Some(duration) => {
                self.has_durations = true;
                self.timed(task, process, second, call.name, duration);
                if let (true, Some(start)) = (self.into.options().keeps_spans, call.start) {
                    self.into.span(SpanRow {
                        session: id,
                        kind: span::kind::SYSCALL.to_string(),
                        name: self.known[call.name as usize].0.clone(),
                        stack: dbtime_model::NO_STACK,
                        call: 0,
                        depth: 0,
                        start_ns: start,
                        ns: duration.ns,
                        state: State::Unknown,
                        statement: 0,
                    });
                }
            }
            None if !self.has_durations => *self.untimed.entry((task, second, call.name)).or_default() += 1,
            None => {}
        }
        if self.sums.len() + self.latencies.len() >= MAX_SUMS {
            self.hand_on();
        }
    }

    fn timed(&mut self, task: Task, process: u32, second: i64, name: Name, duration: Digits) {
        self.activity(process, second, 0, self.known[name as usize].1, duration.ns, 1);
        let key = LatencyKey {
            task,
            second,
            name,
            unit_ns: duration.unit_ns,
            bucket: bucket_of(duration.ns / duration.unit_ns),
        };
        let bucket = self.latencies.entry(key).or_default();
        bucket.min_ns = match bucket.count {
            0 => duration.ns,
            _ => bucket.min_ns.min(duration.ns),
        };
        bucket.count += 1;
        bucket.sum_ns = bucket.sum_ns.saturating_add(duration.ns);
        bucket.max_ns = bucket.max_ns.max(duration.ns);
    }

    /// The sum of many calls, of which nothing else is known.
    pub(super) fn summed(&mut self, task: Task, name: Name, calls: u64, errors: u64, ns: u64) {
        let sums = self.sums.entry((task, 0, name)).or_default();
        sums.calls = sums.calls.saturating_add(calls);
        sums.errors = sums.errors.saturating_add(errors);
        sums.ns = sums.ns.saturating_add(ns);
        if ns > 0 {
            self.has_durations = true;
        }
        let untimed = self.untimed.entry((task, 0, name)).or_default();
        *untimed = untimed.saturating_add(calls);
    }

    /// Something else happened, once: adds one to the counter of this name.
    pub(super) fn count(&mut self, task: Task, at: Option<i64>, counter: String) {
        let second = at.map_or(0, |at| at.div_euclid(SECOND_NS));
        *self.others.entry((task, second, counter)).or_default() += 1;
    }

    /// The task has exited: what follows is not time outside of its calls.
    pub(super) fn exit(&mut self, task: Task) {
        self.tasks[task].end = None;
    }

    /// The time from the end of the previous call to this moment.
    fn outside(&mut self, task: Task, start: Option<i64>) {
        let of = &self.tasks[task];
        let (Some(start), Some(end)) = (start, of.end) else {
            return;
        };
        let ns = start.saturating_sub(end);
        if !self.is_coarse && ns > 0 && ns.unsigned_abs() <= MAX_CALL_NS {
            self.has_outside = true;
            let process = of.process;
            let second = start.div_euclid(SECOND_NS);
            self.activity(process, second, self.outside, 0, ns.unsigned_abs(), 1);
        }
    }

    fn activity(&mut self, process: u32, second: i64, user: Stack, kernel: Stack, ns: u64, count: u64) {
        if self.into.options().keeps_spans {
            return;
        }
        let place = Place {
            session: process,
            second,
            wait: self.wait,
            state: State::Unknown,
            user,
            kernel,
        };
        let samples = 0;
        self.samples.add(place, Weight { ns, count, samples });
    }

    /// Turns sums and latencies into rows.
    fn hand_on(&mut self) {
        let mut sums: Vec<_> = self.sums.drain().collect();
        sums.sort_unstable_by_key(|(key, _)| *key);
        for ((task, second, call), sums) in sums {
            for (what, value) in [
                (name::CALLS, sums.calls),
                (name::ERRORS, sums.errors),
                (name::UNTIMED, sums.untimed),
            ] {
                if value > 0 {
                    let name = format!("{what}{}", self.known[call as usize].0);
                    let row = counter(self.source, second, self.tasks[task].id, name, value);
                    self.into.counter(row);
                }
            }
        }
        let mut latencies: Vec<_> = self.latencies.drain().collect();
        latencies.sort_unstable_by_key(|(key, _)| *key);
        for (key, bucket) in latencies {
            let (from, to) = bounds_of(key.bucket);
            self.into.latency(LatencyRow {
                time: key.second.saturating_mul(SECOND_NS / 1_000),
                session: self.tasks[key.task].id,
                kind: kind::SYSCALL.into(),
                name: self.known[key.name as usize].0.as_str().into(),
                from_ns: from.saturating_mul(key.unit_ns),
                to_ns: to.saturating_mul(key.unit_ns),
                count: bucket.count,
                sum_ns: bucket.sum_ns,
                max_ns: bucket.max_ns,
                min_ns: bucket.min_ns,
                ..LatencyRow::default()
            });
        }
    }

    /// True if time outside of calls was found.
    pub(super) fn has_outside(&self) -> bool {
        self.has_outside
    }

    /// True if any call had a time.
    pub(super) fn has_durations(&self) -> bool {
        self.has_durations
    }

    /// Calls that had not ended when the file did.
    pub(super) fn unfinished(&self) -> usize {
        self.tasks.iter().filter(|task| task.open.is_some()).count()
    }

    /// Turns all into rows.
    pub(super) fn finish(mut self, clock: Clock, file: ImportedFile) {
        let summed: Vec<_> = self
            .sums
            .iter()
            .filter(|(_, sums)| sums.ns > 0)
            .map(|(key, sums)| (*key, *sums))
            .collect();
        for ((task, second, name), sums) in summed {
            let stack = self.known[name as usize].1;
            self.activity(self.tasks[task].process, second, 0, stack, sums.ns, sums.calls);
        }
        let unit = if self.has_durations {
            Unit::Time
        } else {
            Unit::Counts
        };
        if unit == Unit::Counts {
            for ((task, second, name), calls) in std::mem::take(&mut self.untimed) {
                let stack = self.known[name as usize].1;
                self.activity(self.tasks[task].process, second, 0, stack, 0, calls);
            }
        }
        self.hand_on();
        let mut others: Vec<_> = std::mem::take(&mut self.others).into_iter().collect();
        others.sort_unstable();
        for ((task, second, name), count) in others {
            let row = counter(self.source, second, self.tasks[task].id, name, count);
            self.into.counter(row);
        }
        let measure = Measure {
            sampled: false,
            unit,
            clock,
        };
        if let Some(span) = self.span.us_of_ns().filter(|_| !self.is_coarse) {
            self.into.spans(span);
        }
        self.samples.finish(measure, file, self.into);
    }
}

fn counter(source: &str, second: i64, session: SessionId, name: String, value: u64) -> CounterRow {
    CounterRow {
        time: second.saturating_mul(SECOND_NS / 1_000),
        session,
        source: source.into(),
        name: name.into(),
        value: i64::try_from(value).unwrap_or(i64::MAX),
        ..CounterRow::default()
    }
}
