//! Output of `perf sched timehist`.
//!
//! # Format
//! A heading that names the columns; then a line for each switch, `time [cpu] task[tid/pid] wait delay run`, the last three in
//! milliseconds; depending on options, a column for each CPU, the state, the next task, a call chain, and lines of wakeups (`awakened:`)
//! and moves (`migrated:`). Tables of a summary are skipped.
//!
//! # Rows
//! A session is a task. perf's wait time includes the scheduling delay, which is subtracted. perf (6.1) shows a delay of 0 for a task that
//! was preempted; if the file says so (column `state`), all of its wait is delay. perf shows 0 for what it did not see: the first run of a
//! CPU and the first wait of a task are unknown. Moments are perf's own, usually seconds since the host was booted. The idle task does not
//! count as a task.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::path::Path;

use dbtime_model::{SessionState, State, Turn, Wait};

use crate::import::unknown_line;
use crate::lines::Line;
use crate::switches::{IDLE, Switches, called, state_of};
use crate::text::{billionths, decimal, trim_start};
use crate::{Import, ImportError, Importer, Lines};

/// Lines of a file examined to detect its format.
const LOOKED_AT: usize = 200;
/// Heading of a summary: its lines are not switches, whatever they look like.
const SUMMARY: &[u8] = b"Runtime summary";

/// The importer of this format.
#[derive(Debug)]
pub(crate) struct PerfSchedTimehist;

impl Importer for PerfSchedTimehist {
    fn name(&self) -> &'static str {
        "perf sched timehist"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let mut lines = head.split(|byte| *byte == b'\n').take(LOOKED_AT);
        lines.any(|line| {
            Columns::of(line).is_some()
                || line == SUMMARY
                || matches!(event(line, 0), Some((.., What::Switch(_))))
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
        if reader.in_summary && !reader.switches.has_any() {
            return Err(ImportError::OnlySummary {
                path: path.to_path_buf(),
                wanted: "switches",
                how: "run 'perf sched timehist' without -s, or with -S for both",
            });
        }
        reader.finish(lines.number());
        Ok(())
    }
}

/// What the heading says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Columns {
    /// Width of the column that shows the CPUs.
    cpus: usize,
    has_state: bool,
}

impl Columns {
    fn of(line: &[u8]) -> Option<Columns> {
        let words: Vec<&[u8]> = line
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty())
            .collect();
        let rest = words.strip_prefix(&[&b"time"[..], b"cpu"])?;
        let (cpus, rest) = match rest {
            [b"task", ..] => (0, rest),
            [cpus, rest @ ..] => (cpus.len(), rest),
            [] => return None,
        };
        let rest = rest.strip_prefix(&[
            &b"task"[..],
            b"name",
            b"wait",
            b"time",
            b"sch",
            b"delay",
            b"run",
            b"time",
        ])?;
        Some(Columns {
            cpus,
            has_state: rest.contains(&&b"state"[..]),
        })
    }
}

/// What is known of a task so far.
#[derive(Debug, Default)]
struct Task {
    left: Option<(i64, State)>,
    cpu: Option<u32>,
    woken: Option<(i64, String)>,
    migrations: u64,
}

struct Reader<'a> {
    switches: Switches<'a>,
    columns: Columns,
    tasks: HashMap<u32, Task>,
    /// CPUs on which a switch was seen.
    cpus: HashMap<u32, i64>,
    in_summary: bool,
    without_state: bool,
}

impl<'a> Reader<'a> {
    fn new(path: &Path, into: &'a mut Import) -> Reader<'a> {
        Reader {
            switches: Switches::new(crate::import::file(path), into),
            columns: Columns::default(),
            tasks: HashMap::new(),
            cpus: HashMap::new(),
            in_summary: false,
            without_state: false,
        }
    }

    fn line(&mut self, line: Line<'_>) {
        let text = line.bytes;
        let words = text.trim_ascii();
        if words.is_empty() {
            return;
        }
        if words == SUMMARY {
            self.in_summary = true;
            return;
        }
        if let Some(columns) = Columns::of(text) {
            self.columns = columns;
            self.in_summary = false;
            return;
        }
        if self.in_summary || is_heading(words) {
            return;
        }
        match event(text, self.columns.cpus).filter(|_| line.ended) {
            Some((time, cpu, task, what)) => match what {
                What::Switch(times) => self.switch(time, cpu, &task, &times),
                What::Awakened(woken) => self.wake(time, &task, &woken),
                What::Migrated(moved) => self.tasks.entry(moved.tid).or_default().migrations += 1,
            },
            // A last line without its end may be truncated.
            None => unknown_line(&mut self.switches.file, line.number, text),
        }
    }

    fn wake(&mut self, time: i64, waker: &Name<'_>, woken: &Name<'_>) {
        let task = self.tasks.entry(woken.tid).or_default();
        if task.left.is_none_or(|(left, _)| time >= left) && task.woken.is_none() {
            let who = match waker.tid {
                0 => "interrupt".to_string(),
                tid => called(waker.comm, tid),
            };
            task.woken = Some((time, who));
        }
    }

    fn switch(&mut self, time: i64, cpu: u32, name: &Name<'_>, times: &Times) {
        self.switches.seen(time, cpu);
        let is_first = self.cpus.insert(cpu, time).is_none();
        let run_ns = (times.run > 0 || !is_first).then_some(times.run);
        let arrived = time.saturating_sub_unsigned(times.run);
        let who = if name.tid == 0 {
            IDLE.to_string()
        } else {
            called(name.comm, name.tid)
        };
        self.switches.occupancy.add(cpu, arrived, time, who);
        if name.tid == 0 {
            self.switches.known.idle_switches += 1;
            return;
        }
        let session = self.switches.task(name.tid, name.pid, name.comm, time);
        let state = match (self.columns.has_state, times.state) {
            (true, Some(letter)) => state_of(&[letter]),
            _ => {
                self.without_state = true;
                State::Unknown
            }
        };
        let task = self.tasks.entry(name.tid).or_default();
        let left = task.left.replace((time, state));
        let moved = task.cpu.replace(cpu).is_some_and(|left| left != cpu);
        // Moments in these columns may be a microsecond off.
        let woken = task
            .woken
            .take()
            .filter(|(woken, _)| *woken <= arrived.saturating_add(1_000));
        let migrations = std::mem::take(&mut task.migrations);
        let (wait_ns, delay_ns, wait_state) = match left {
            // The first turn of the task: perf shows 0 for what it does not know.
            None => {
                let wait = times.wait.checked_sub(times.delay).filter(|_| times.wait > 0);
                (
                    wait,
                    (times.delay > 0 || wait.is_some()).then_some(times.delay),
                    State::Unknown,
                )
            }
            Some((_, State::Runnable)) => (Some(0), Some(times.wait), State::Runnable),
            Some((_, state)) => (
                Some(times.wait.saturating_sub(times.delay)),
                Some(times.delay),
                state,
            ),
        };
        let mut instead = BTreeMap::new();
        let queued = arrived.saturating_sub_unsigned(delay_ns.unwrap_or(0));
        self.switches
            .occupancy
            .between(cpu, queued, arrived, &mut instead);
        let turn = Turn {
            session,
            time_ns: time,
            cpu,
            wait_ns,
            delay_ns,
            run_ns,
            wait_state,
            wait: Wait::not_recorded(),
            state,
            waker: woken.map(|(_, who)| who.into()).unwrap_or_default(),
            migrations,
            migrated: migrations > 0 || moved,
            priority: None,
            instead: instead.into_iter().map(|(who, ns)| (who.into(), ns)).collect(),
            statement: 0,
            wait_statement: 0,
            wait_session_state: SessionState::None,
        };
        self.switches.turn(turn);
    }

    fn finish(mut self, lines: u64) {
        for (tid, task) in &self.tasks {
            self.switches.moved(*tid, task.migrations);
        }
        if self.without_state {
            self.switches.known.has_states = false;
            self.switches.into.reason(
                "the file does not say in which state tasks left their CPU (perf sched timehist --state does): the \
                state of time off CPU is unknown, and it does not show the scheduling delay of preempted tasks",
            );
        }
        if !self.switches.has_any() {
            let path = self.switches.file.path.clone();
            self.switches.into.problem(format!(
                "{path}: no lines of context switches: wakeups alone have no times to add up"
            ));
        }
        self.switches.finish(lines);
    }
}

/// Lines of the heading that name no columns.
fn is_heading(words: &[u8]) -> bool {
    words.starts_with(b"[tid/pid]") || words.starts_with(b"#") || words.iter().all(|byte| matches!(byte, b'-' | b' '))
        // Messages of perf, if standard error goes to the same place.
        || words.starts_with(b"Samples do not have callchains") || words.starts_with(b"Samples of sched_switch event do not")
}

/// A task.
#[derive(Debug, PartialEq, Eq)]
struct Name<'a> {
    comm: &'a [u8],
    tid: u32,
    /// Its process; itself if there is only one number.
    pid: u32,
}

impl Name<'_> {
    fn idle() -> Name<'static> {
        Name {
            comm: b"<idle>",
            tid: 0,
            pid: 0,
        }
    }
}

/// Nanoseconds of a line, and the letter after them.
#[derive(Debug, PartialEq, Eq)]
struct Times {
    wait: u64,
    delay: u64,
    run: u64,
    state: Option<u8>,
}

#[derive(Debug, PartialEq, Eq)]
enum What<'a> {
    Switch(Times),
    Awakened(Name<'a>),
    Migrated(Name<'a>),
}

/// Reads a line: moment in nanoseconds, CPU, task, and what happened. `cpus`: width of the column that shows them.
fn event(line: &[u8], cpus: usize) -> Option<(i64, u32, Name<'_>, What<'_>)> {
    let text = trim_start(line);
    let end = memchr::memchr(b' ', text)?;
    let (time, text) = (&text[..end], trim_start(&text[end..]));
    if !time.contains(&b'.') {
        return None;
    }
    let time = billionths(time)?;
    let close = memchr::memchr(b']', text)?;
    let cpu = u32::try_from(decimal(text[..close].strip_prefix(b"[")?)?).ok()?;
    let mut text = &text[close + 1..];
    if cpus > 0 {
        text = text.get(2 + cpus..)?;
    }
    let text = trim_start(text);
    // The idle task has no number.
    for comm in [&b"<idle>"[..], b"swapper "] {
        if let Some(what) = text.strip_prefix(comm).and_then(what) {
            return Some((time, cpu, Name::idle(), what));
        }
    }
    // A name may have brackets in it: the first one that something known follows counts.
    let mut from = 0;
    loop {
        let close = from + memchr::memchr(b']', &text[from..])?;
        if let (Some(name), Some(what)) = (
            name(&text[..=close]),
            what(text[close + 1..].strip_prefix(b" ").unwrap_or_default()),
        ) {
            return Some((time, cpu, name, what));
        }
        from = close + 1;
    }
}

/// `comm[tid]`, `comm[tid/pid]`
fn name(text: &[u8]) -> Option<Name<'_>> {
    if matches!(text, b"<idle>" | b"swapper") {
        return Some(Name::idle());
    }
    let inside = text.strip_suffix(b"]")?;
    let open = memchr::memrchr(b'[', inside)?;
    let number = |text: &[u8]| u32::try_from(decimal(text)?).ok();
    let mut numbers = inside[open + 1..].splitn(2, |byte| *byte == b'/');
    let tid = number(numbers.next()?)?;
    let pid = match numbers.next() {
        Some(pid) => number(pid)?,
        None => tid,
    };
    Some(Name {
        comm: &inside[..open],
        tid,
        pid,
    })
}

fn what(text: &[u8]) -> Option<What<'_>> {
    let text = trim_start(text);
    if let Some(woken) = text.strip_prefix(b"awakened: ") {
        return Some(What::Awakened(name(woken.trim_ascii())?));
    }
    if let Some(moved) = text.strip_prefix(b"migrated: ") {
        let cpu = memchr::memmem::rfind(moved, b" cpu ")?;
        return Some(What::Migrated(name(moved[..cpu].trim_ascii())?));
    }
    let mut rest = text;
    let mut milliseconds = || {
        let text = trim_start(rest);
        let end = memchr::memchr(b' ', text).unwrap_or(text.len());
        let (number, after) = text.split_at(end);
        rest = after;
        if !number.contains(&b'.') {
            return None;
        }
        u64::try_from(billionths(number)? / 1_000).ok()
    };
    let (wait, delay, run) = (milliseconds()?, milliseconds()?, milliseconds()?);
    let rest = trim_start(rest);
    let state = match rest {
        [letter @ b'A'..=b'Z', b' ', ..]
        | [letter @ b'A'..=b'Z']
        | [letter @ b't', b' ', ..]
        | [letter @ b't'] => Some(*letter),
        _ => None,
    };
    Some(What::Switch(Times {
        wait,
        delay,
        run,
        state,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_name_the_columns() {
        let columns = |text: &str| Columns::of(text.as_bytes());
        let times = "wait time  sch delay   run time";
        assert_eq!(
            columns(&format!("   time    cpu  task name   {times}")),
            Some(Columns::default())
        );
        assert_eq!(
            columns(&format!("   time    cpu  0123  task name   {times}  state")),
            Some(Columns {
                cpus: 4,
                has_state: true
            })
        );
        assert_eq!(columns("time cpu task"), None);
    }

    #[test]
    fn names_may_have_brackets_and_blanks() {
        let line = b" 2369.643930 [0001]  a [b] c[12/7]   1.000  0.500  0.250      S";
        let (time, cpu, name, what) = event(line, 0).expect("a switch");
        assert_eq!((time, cpu), (2_369_643_930_000, 1));
        assert_eq!((name.comm, name.tid, name.pid), (&b"a [b] c"[..], 12, 7));
        let What::Switch(times) = what else {
            panic!("{what:?}")
        };
        assert_eq!(
            (times.wait, times.delay, times.run, times.state),
            (1_000_000, 500_000, 250_000, Some(b'S'))
        );
        let (.., what) = event(b" 1.5 [0]  a[1]    awakened: b c[2/3]", 0).expect("a wakeup");
        assert_eq!(
            what,
            What::Awakened(Name {
                comm: b"b c",
                tid: 2,
                pid: 3
            })
        );
        let (_, _, name, what) =
            event(b" 1.5 [0001]   m     a[18]     migrated: p[9] cpu 0 => 1", 3).expect("a move");
        assert_eq!(
            (name.tid, what),
            (
                18,
                What::Migrated(Name {
                    comm: b"p",
                    tid: 9,
                    pid: 9
                })
            )
        );
        for wrong in [
            "",
            "1.5",
            "1.5 [0]",
            "1 [0] a[1] 1.0 1.0 1.0",
            "1.5 [0] a[1] 1.0 1.0",
            "1.5 [x] a[1] 1.0 1.0 1.0",
        ] {
            assert_eq!(event(wrong.as_bytes(), 0), None, "{wrong}");
        }
    }
}
