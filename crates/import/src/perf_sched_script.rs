//! Output of `perf sched script`, or `perf script`, of the scheduler's tracepoints.
//!
//! # Format
//! A line `comm tid [cpu] time: sched:EVENT: fields`, with the fields as the kernel prints them (`prev_comm=… ==> next_comm=…`)
//! or as libtraceevent does (`postgres:7 [120] S ==> …`). Call chains below are skipped.
//!
//! # Rows
//! By the rules of `perf sched timehist`: a stay on a CPU lasts from the CPU's previous switch to this one; the wait, from switch-out to
//! switch-in; the scheduling delay begins at `sched_waking` or, in files without it, at `sched_wakeup`. In addition, a task that left its
//! CPU runnable is queued from then on (perf 6.1 shows a delay of 0), and what could not be seen is unknown (perf shows 0). The idle task
//! does not count as a task. The waker is the task that is running, even if an interrupt does the waking; on an idle CPU it is called
//! `interrupt`.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::path::Path;

use dbtime_model::{SessionState, State, Turn, Wait};

use crate::import::unknown_line;
use crate::lines::Line;
use crate::perf_script::{EXITING, header};
use crate::sched_fields::{Switch, Woken, migrated, switch, woken};
use crate::switches::{IDLE, Switches, called};
use crate::text::billionths;
use crate::{Import, ImportError, Importer, Lines};

/// Lines of a file examined to detect its format.
const LOOKED_AT: usize = 500;
/// Most parts of a delay, each on another CPU, that are kept apart.
const MAX_QUEUES: usize = 64;

/// The importer of this format.
#[derive(Debug)]
pub(crate) struct PerfSchedScript;

impl Importer for PerfSchedScript {
    fn name(&self) -> &'static str {
        "perf sched script"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let mut lines = head.split(|byte| *byte == b'\n').take(LOOKED_AT);
        // The first event decides: files of samples may have tracepoints among them.
        lines.find_map(header).is_some_and(|header| {
            tracepoint(header.event).is_some() && header.cpu.is_some() && !header.time.is_empty()
        })
    }

    fn import(
        &self,
        lines: &mut Lines<Box<dyn Read + '_>>,
        path: &Path,
        into: &mut Import,
    ) -> Result<(), ImportError> {
        let mut reader = Reader::new(path, into);
        while let Some(line) = lines.next_line() {
            reader.line(line);
        }
        reader.finish(lines.number());
        Ok(())
    }
}

/// Name of a tracepoint of the scheduler.
fn tracepoint(event: &[u8]) -> Option<&[u8]> {
    event
        .strip_prefix(b"sched:")
        .filter(|name| name.starts_with(b"sched_"))
}

/// What is known of a task so far.
#[derive(Debug, Default)]
struct Task {
    /// When it left its CPU, and in which state.
    left: Option<(i64, State)>,
    /// The CPU it left.
    cpu: Option<u32>,
    /// When it was woken since, and by whom.
    woken: Option<(i64, String)>,
    /// Where it was queued since then, and from when on.
    queues: Vec<(u32, i64)>,
    migrations: u64,
    /// When it came onto its CPU, and what is known of its time off CPU before.
    arrived: Option<Arrival>,
}

/// A stay off CPU that has ended.
#[derive(Debug)]
struct Arrival {
    at: i64,
    wait_ns: Option<u64>,
    delay_ns: Option<u64>,
    wait_state: State,
    waker: String,
    migrations: u64,
    migrated: bool,
    instead: BTreeMap<String, u64>,
}

/// What a CPU does.
#[derive(Debug)]
struct Running {
    since: i64,
    who: String,
}

struct Reader<'a> {
    switches: Switches<'a>,
    tasks: HashMap<u32, Task>,
    cpus: HashMap<u32, Running>,
    /// There are events of `sched_waking`: they come before those of `sched_wakeup`.
    has_waking: bool,
    in_event: bool,
}

impl<'a> Reader<'a> {
    fn new(path: &Path, into: &'a mut Import) -> Reader<'a> {
        Reader {
            switches: Switches::new(crate::import::file(path), into),
            tasks: HashMap::new(),
            cpus: HashMap::new(),
            has_waking: false,
            in_event: false,
        }
    }

    fn line(&mut self, line: Line<'_>) {
        let text = line.bytes;
        if text.trim_ascii().is_empty() || text.starts_with(b"#") {
            self.in_event = false;
            return;
        }
        if !line.ended {
            // It may be truncated.
            unknown_line(&mut self.switches.file, line.number, text);
            return;
        }
        let Some(header) = header(text) else {
            // Call chains are skipped.
            if !(self.in_event && text.starts_with(b"\t")) {
                unknown_line(&mut self.switches.file, line.number, text);
            }
            return;
        };
        self.in_event = true;
        let (Some(event), Some(cpu), Some(time)) =
            (tracepoint(header.event), header.cpu, billionths(header.time))
        else {
            unknown_line(&mut self.switches.file, line.number, text);
            return;
        };
        let is_understood = match event {
            b"sched_switch" => switch(header.rest).map(|switch| self.switch(time, cpu, &switch)),
            b"sched_waking" => woken(header.rest).map(|woken| {
                self.has_waking = true;
                self.wake(time, &woken, header.comm, header.tid);
            }),
            b"sched_wakeup" if self.has_waking => Some(()),
            b"sched_wakeup" | b"sched_wakeup_new" => {
                woken(header.rest).map(|woken| self.wake(time, &woken, header.comm, header.tid))
            }
            b"sched_migrate_task" => migrated(header.rest).map(|(tid, to)| self.migrate(time, tid, to)),
            // What timehist ignores, too.
            _ => Some(()),
        };
        if is_understood.is_none() {
            unknown_line(&mut self.switches.file, line.number, text);
        }
    }

    fn finish(mut self, lines: u64) {
        for (tid, task) in &self.tasks {
            let arrived = task.arrived.as_ref().map_or(0, |arrival| arrival.migrations);
            self.switches.moved(*tid, task.migrations.saturating_add(arrived));
        }
        self.switches.finish(lines);
    }

    fn wake(&mut self, time: i64, woken: &Woken<'_>, comm: &[u8], tid: u32) {
        if woken.tid == 0 {
            return;
        }
        let task = self.tasks.entry(woken.tid).or_default();
        // A task that has not left its CPU is not queued; one that is queued already stays so.
        if task.arrived.is_some() || task.woken.is_some() || matches!(task.left, Some((_, State::Runnable))) {
            return;
        }
        let waker = match tid {
            0 => "interrupt".to_string(),
            EXITING => "a task that exits".to_string(),
            _ => called(comm, tid),
        };
        task.woken = Some((time, waker));
        if let Some(cpu) = woken.cpu.or(task.cpu) {
            task.queues = vec![(cpu, time)];
        }
    }

    fn migrate(&mut self, time: i64, tid: u32, to: u32) {
        let task = self.tasks.entry(tid).or_default();
        task.migrations += 1;
        let is_queued = task.woken.is_some() || matches!(task.left, Some((_, State::Runnable)));
        if task.arrived.is_none() && is_queued && task.queues.len() < MAX_QUEUES {
            task.queues.push((to, time));
        }
    }

    fn switch(&mut self, time: i64, cpu: u32, switch: &Switch<'_>) {
        self.switches.seen(time, cpu);
        let since = self
            .cpus
            .get(&cpu)
            .map(|running| running.since)
            .filter(|since| *since <= time);
        if let Some(since) = since {
            let who = match switch.prev.tid {
                0 => IDLE.to_string(),
                tid => called(switch.prev.comm, tid),
            };
            self.switches.occupancy.add(cpu, since, time, who);
        }
        match switch.prev.tid {
            0 => self.switches.known.idle_switches += 1,
            _ => self.leave(time, cpu, since, switch),
        }
        let who = match switch.next.tid {
            0 => IDLE.to_string(),
            tid => called(switch.next.comm, tid),
        };
        self.cpus.insert(cpu, Running { since: time, who });
        if switch.next.tid != 0 {
            self.arrive(time, cpu, switch.next.tid);
        }
    }

    /// A task comes onto a CPU.
    fn arrive(&mut self, time: i64, cpu: u32, tid: u32) {
        let task = self.tasks.entry(tid).or_default();
        let left = task.left.filter(|(left, _)| *left <= time);
        let since = left.map_or(i64::MIN, |(left, _)| left);
        let woken = task
            .woken
            .take()
            .filter(|(woken, _)| (since..=time).contains(woken));
        let queues = std::mem::take(&mut task.queues);
        let off = left.map(|(left, _)| time.abs_diff(left));
        let (wait_ns, delay_ns, wait_state, waker) = match (left, woken) {
            (Some((_, State::Runnable)), _) => (Some(0), off, State::Runnable, String::new()),
            (Some((left, state)), Some((woken, waker))) => (
                Some(woken.abs_diff(left)),
                Some(time.abs_diff(woken)),
                state,
                waker,
            ),
            // It was woken before, or no wakeup was seen: all of it counts as wait, as in perf.
            (Some((_, state)), None) => (off, Some(0), state, String::new()),
            // New, or asleep since before the recording.
            (None, Some((woken, waker))) => (None, Some(time.abs_diff(woken)), State::Unknown, waker),
            (None, None) => (None, None, State::Unknown, String::new()),
        };
        let ends = queues.iter().skip(1).map(|(_, from)| *from).chain([time]);
        let mut instead = BTreeMap::new();
        for ((cpu, from), to) in queues.iter().zip(ends) {
            self.switches.occupancy.between(*cpu, *from, to, &mut instead);
            // A task that is still on it has no stay that has ended.
            if let Some(running) = self.cpus.get(cpu)
                && let Ok(ns) = u64::try_from(to.saturating_sub(running.since.max(*from)))
                && ns > 0
            {
                let sum: &mut u64 = instead.entry(running.who.clone()).or_default();
                *sum = sum.saturating_add(ns);
            }
        }
        let migrations = std::mem::take(&mut task.migrations);
        let moved = task.cpu.is_some_and(|left| left != cpu);
        task.arrived = Some(Arrival {
            at: time,
            wait_ns,
            delay_ns,
            wait_state,
            waker,
            migrations,
            migrated: migrations > 0 || moved,
            instead,
        });
    }

    /// A task leaves its CPU.
    fn leave(&mut self, time: i64, cpu: u32, since: Option<i64>, switch: &Switch<'_>) {
        let prev = &switch.prev;
        let session = self.switches.task(prev.tid, 0, prev.comm, time);
        let task = self.tasks.entry(prev.tid).or_default();
        let is_seen = task.arrived.as_ref().map(|arrival| arrival.at) == since;
        if !is_seen {
            task.arrived = None;
            if let Some(since) = since {
                // Another task was switched in: as in perf, it is taken to be this one.
                self.switches.known.missed += 1;
                self.arrive(since, cpu, prev.tid);
            }
        }
        let task = self.tasks.entry(prev.tid).or_default();
        let mut arrival = task.arrived.take();
        let turn = Turn {
            session,
            time_ns: time,
            cpu,
            wait_ns: arrival.as_ref().and_then(|arrival| arrival.wait_ns),
            delay_ns: arrival.as_ref().and_then(|arrival| arrival.delay_ns),
            // As in perf: a missing switch to it does not matter.
            run_ns: since.map(|since| time.abs_diff(since)),
            wait_state: arrival
                .as_ref()
                .map_or(State::Unknown, |arrival| arrival.wait_state),
            wait: Wait::not_recorded(),
            state: switch.state,
            waker: arrival
                .as_ref()
                .map(|arrival| arrival.waker.as_str().into())
                .unwrap_or_default(),
            migrations: arrival.as_ref().map_or(0, |arrival| arrival.migrations),
            migrated: arrival.as_ref().is_some_and(|arrival| arrival.migrated),
            priority: Some(prev.priority),
            instead: arrival
                .as_mut()
                .map(|arrival| std::mem::take(&mut arrival.instead))
                .unwrap_or_default()
                .into_iter()
                .map(|(who, ns)| (who.into(), ns))
                .collect(),
            statement: 0,
            wait_statement: 0,
            wait_session_state: SessionState::None,
        };
        task.left = Some((time, switch.state));
        task.cpu = Some(cpu);
        task.woken = None;
        task.queues = match switch.state {
            State::Runnable => vec![(cpu, time)],
            _ => Vec::new(),
        };
        self.switches.turn(turn);
    }
}
