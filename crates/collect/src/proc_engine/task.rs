//! One session as /proc shows it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use dbtime_model::{Frame, State};
use syscalls::Sysno;

use super::Reads;
use super::comment::Shown;
use crate::bpf::{Event, Listed, SampleEvent};
use crate::clock::{monotonic_at_tick, monotonic_ns};
use crate::comments::Ends;
use crate::database::{Executing, NO_NUMBER, NUMBERED, StatusRecord, WaitSource};
use crate::{fingerprint, memory, process, task_counts};

/// Files are read with one call each; a kernel stack has 64 frames of less than 100 bytes.
const BYTES: usize = 8192;

/// /proc/PID/schedstat: time on a CPU, in the run queue, and how often the task was given a CPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct SchedStat {
    on_cpu: u64,
    run_queue: u64,
    slices: u64,
}

/// What a session says about itself, as it was read.
#[derive(Debug, Clone, Copy, Default)]
struct Said {
    /// None = it could not be read.
    wait: Option<u32>,
    executing: Executing,
    /// None = it could not be read.
    shown: Option<Shown>,
}

/// See the module.
pub(super) struct Task {
    pid: u32,
    source: WaitSource,
    /// Comments of its statements are wanted.
    comments: bool,
    /// When the statement whose text was read last began, and what its samples say about its comment.
    known_comment: (u64, u64),
    /// What is to be sent before the sample.
    comment: Option<Event>,
    schedstat: File,
    stat: File,
    stack: Option<File>,
    syscall: Option<File>,
    /// As /proc/PID/stat has it: a pid alone is reused.
    start_ticks: u64,
    start_ns: u64,
    last: SchedStat,
    last_ns: u64,
    torn: u32,
    sample: Option<SampleEvent>,
    buffer: Box<[u8; BYTES]>,
}

impl Task {
    /// None if there is no such task.
    pub(super) fn open(pid: u32, source: WaitSource, reads: Reads) -> Option<Task> {
        let open = |name| File::open(process::path(pid, name)).ok();
        let of_stacks = |name| if reads.stacks { open(name) } else { None };
        let mut task = Task {
            pid,
            source,
            comments: reads.comments,
            known_comment: (0, 0),
            comment: None,
            schedstat: open("schedstat")?,
            stat: open("stat")?,
            stack: of_stacks("stack"),
            syscall: of_stacks("syscall"),
            start_ticks: 0,
            start_ns: 0,
            last: SchedStat::default(),
            last_ns: monotonic_ns(),
            torn: 0,
            sample: None,
            buffer: Box::new([0; BYTES]),
        };
        task.start_ticks = task.read_stat().ok()?.1;
        task.start_ns = monotonic_at_tick(task.start_ticks);
        task.last = task.read_schedstat().ok()?;
        Some(task)
    }

    /// Looks at the task; false when it has ended. `room`: bytes of texts that may still be read.
    pub(super) fn look(&mut self, room: &mut usize) -> bool {
        (self.sample, self.comment) = (None, None);
        let Ok(before) = self.read_schedstat() else {
            return false;
        };
        let Ok((state, start_ticks)) = self.read_stat() else {
            return false;
        };
        if start_ticks != self.start_ticks {
            return false;
        }
        (self.last, self.last_ns) = (before, monotonic_ns());
        let listed = match state {
            'R' => Listed::Ready,
            'S' | 'I' => Listed::Off(State::Sleep),
            'D' => Listed::Off(State::Disk),
            'T' | 't' => Listed::Off(State::Stopped),
            'Z' | 'X' | 'x' => return false,
            _ => Listed::Off(State::Unknown),
        };
        let said = self.read_wait();
        let kernel_names = match listed {
            Listed::Ready => Vec::new(),
            Listed::Off(_) => self.read_stack(),
        };
        let (has_changed, shown) = match listed {
            Listed::Ready => {
                let again = self.read_wait();
                let has_changed = (again.wait, again.executing) != (said.wait, said.executing);
                // It may be in another execution of the same statement.
                (has_changed, said.shown.filter(|_| again.shown == said.shown))
            }
            Listed::Off(_) => (self.read_schedstat().ok() != Some(before), said.shown),
        };
        if has_changed {
            self.torn += 1;
            return true;
        }
        self.sample = Some(SampleEvent {
            pid: self.pid,
            wait: said.wait,
            executing: said.executing,
            // Last, so that slow reads do not make the row a torn one.
            comment: self.comment_of(shown, room),
            listed: Some(listed),
            kernel_names,
            ..SampleEvent::default()
        });
        true
    }

    /// What the last look saw: the text with the comment of the sample, if it was not sent before, and the sample.
    pub(super) fn take_seen(&mut self) -> impl Iterator<Item = Event> {
        let sample = self.sample.take().map(Event::Sample);
        self.comment.take().into_iter().chain(sample)
    }

    /// The kernel's totals as of the last look.
    pub(super) fn totals(&mut self, ended: bool) -> Event {
        Event::Totals {
            pid: self.pid,
            start_ns: self.start_ns,
            time_ns: self.last_ns,
            on_cpu_ns: self.last.on_cpu,
            run_queue_ns: self.last.run_queue,
            repeats: 0,
            torn: std::mem::take(&mut self.torn),
            torn_stacks: 0,
            displaced: 0,
            stood_in: 0,
            ended,
            sums: None,
        }
    }

    /// What the kernel has counted for it. None when it has ended.
    pub(super) fn counts(&self) -> Option<Event> {
        let counts = task_counts::of_process(self.pid, self.last.on_cpu)?;
        Some(Event::Counts {
            pid: self.pid,
            time_ns: self.last_ns,
            counts,
        })
    }

    fn read_schedstat(&mut self) -> io::Result<SchedStat> {
        let text = text_of(&self.schedstat, &mut self.buffer)?;
        let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
        let mut next = || {
            numbers
                .next()
                .and_then(Result::ok)
                .ok_or(io::ErrorKind::InvalidData)
        };
        Ok(SchedStat {
            on_cpu: next()?,
            run_queue: next()?,
            slices: next()?,
        })
    }

    /// State and start of the task.
    fn read_stat(&mut self) -> io::Result<(char, u64)> {
        let length = self.stat.read_at(&mut self.buffer[..], 0)?;
        let field = |place| process::stat_field(&self.buffer[..length], place);
        let parsed = || Some((field(3)?.chars().next()?, field(22)?.parse().ok()?));
        parsed().ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn read_wait(&self) -> Said {
        let without_text = Said {
            shown: Some(Shown::default()),
            ..Said::default()
        };
        match self.source {
            WaitSource::None => Said {
                wait: Some(0),
                ..without_text
            },
            WaitSource::Pointer { event, status, .. } => {
                let wait = memory::read_u64(self.pid, event).and_then(|at| memory::read_u32(self.pid, at));
                let waits = !matches!(wait, Ok(0));
                let record = match status {
                    Some(places) => self.read_record(&places, waits),
                    None => Some(Default::default()),
                };
                let (executing, shown) = record.unzip();
                Said {
                    wait: wait.ok(),
                    executing: executing.unwrap_or_default(),
                    shown,
                }
            }
            WaitSource::Numbers {
                event,
                on_cpu,
                statement,
            } => {
                let (mut number, mut time, mut hash) = ([0; 4], [0; 4], [0; 4]);
                let mut parts: Vec<(u64, &mut [u8])> = vec![(event, &mut number), (on_cpu, &mut time)];
                if statement != 0 {
                    parts.push((statement, &mut hash));
                }
                if memory::read(self.pid, &mut parts).is_err() {
                    return without_text;
                }
                let wait = if i32::from_ne_bytes(time) > 0 {
                    0
                } else {
                    NUMBERED | u32::from_ne_bytes(number).min(NO_NUMBER)
                };
                Said {
                    wait: Some(wait),
                    executing: Executing {
                        statement: u32::from_ne_bytes(hash).into(),
                        plan: 0,
                        session_state: 0,
                    },
                    ..without_text
                }
            }
        }
    }

    /// What it executes, and which execution's text it shows. None = it could not be read.
    fn read_record(&self, places: &StatusRecord, waits: bool) -> Option<(Executing, Shown)> {
        let record = memory::read_u64(self.pid, places.pointer).ok()?;
        if record == 0 {
            return Some(Default::default());
        }
        let field = |offset: u16| record.checked_add(u64::from(offset));
        let (mut statement, mut session_state, mut since) = ([0; 8], [0; 4], [0; 8]);
        let (mut plan, mut before, mut after) = ([0; 8], [0; 4], [0; 4]);
        // The parts are read one after the other. Without a plan, nothing has to match the statement.
        let mut parts: Vec<(u64, &mut [u8])> = vec![
            (record, &mut before),
            (field(places.statement)?, &mut statement),
            (field(places.session_state)?, &mut session_state),
            (field(places.since)?, &mut since),
        ];
        if places.plan != 0 {
            parts.push((field(places.plan)?, &mut plan));
            parts.push((record, &mut after));
        }
        memory::read(self.pid, &mut parts).ok()?;
        // The session wrote its record meanwhile.
        let is_torn = before != after || u32::from_ne_bytes(before) & 1 != 0;
        let plan = if is_torn { 0 } else { i64::from_ne_bytes(plan) };
        let executing = Executing {
            statement: match u64::from_ne_bytes(statement) {
                0 if places.text != 0 => self.id_of_text(field(places.text)?, places.gives_ids, waits),
                id => id,
            },
            plan,
            session_state: u32::from_ne_bytes(session_state),
        };
        let since = match self.comments && executing.session_state != 0 {
            true => u64::from_ne_bytes(since),
            false => 0,
        };
        Some((executing, Shown { record, since }))
    }

    /// What a sample says about the comment ([`SampleEvent::comment`]) of a text that is shown.
    fn comment_of(&mut self, shown: Option<Shown>, room: &mut usize) -> Option<u64> {
        let shown = shown?;
        let WaitSource::Pointer {
            status: Some(places), ..
        } = self.source
        else {
            return Some(0);
        };
        if shown.since == 0 {
            return Some(0);
        }
        if self.known_comment.0 == shown.since {
            return Some(self.known_comment.1);
        }
        let text = shown.text(self.pid, &places, room)?;
        self.comment = Ends::with_comment(&text).map(|ends| Event::Comment {
            pid: self.pid,
            since: shown.since,
            begin: match ends.is_whole {
                true => Vec::new(),
                false => ends.begin.to_vec(),
            },
            end: ends.end.to_vec(),
            is_whole: ends.is_whole,
        });
        let comment = match self.comment {
            Some(_) => shown.since,
            None => 0,
        };
        self.known_comment = (shown.since, comment);
        Some(comment)
    }

    /// What replaces the id of a statement whose text's address is there; 0 if nothing does, or it cannot be read.
    fn id_of_text(&self, pointer: u64, gives_ids: bool, waits: bool) -> u64 {
        memory::read_u64(self.pid, pointer)
            .and_then(|at| memory::read_text(self.pid, at, fingerprint::BYTES))
            .map_or(0, |text| fingerprint::id_of_text(&text, gives_ids, waits))
    }

    /// The kernel stack, leaf first; where it is not shown, the system call alone.
    fn read_stack(&mut self) -> Vec<Frame> {
        let text = self
            .stack
            .as_ref()
            .and_then(|file| text_of(file, &mut self.buffer).ok());
        let frames: Vec<Frame> = text.unwrap_or_default().lines().filter_map(frame).collect();
        if !frames.is_empty() {
            return frames;
        }
        let text = self
            .syscall
            .as_ref()
            .and_then(|file| text_of(file, &mut self.buffer).ok());
        let number = text.and_then(|text| text.split(' ').next()?.parse().ok());
        let name = number.and_then(Sysno::new).map(|call| call.name());
        name.map(|name| kernel_frame(&format!("__x64_sys_{name}"), "[kernel]"))
            .into_iter()
            .collect()
    }
}

fn text_of<'a>(file: &File, buffer: &'a mut [u8; BYTES]) -> io::Result<&'a str> {
    let length = file.read_at(&mut buffer[..], 0)?;
    std::str::from_utf8(&buffer[..length]).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// `[<0>] do_nanosleep+0x5a/0x100 [module]`
fn frame(line: &str) -> Option<Frame> {
    let mut words = line.split_whitespace().skip(1);
    let symbol = words.next()?.split('+').next()?;
    let module = words
        .next()
        .and_then(|word| word.strip_prefix('[')?.strip_suffix(']'))
        .unwrap_or("[kernel]");
    // The end of the list, on kernels before 5.
    (!symbol.starts_with("0x")).then(|| kernel_frame(symbol, module))
}

fn kernel_frame(symbol: &str, module: &str) -> Frame {
    Frame {
        symbol: symbol.to_string(),
        module: module.to_string(),
        build_id: String::new(),
        offset: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_stack_are_names_and_modules() {
        let named = |line| frame(line).map(|f| (f.symbol, f.module));
        let is = |symbol: &str, module: &str| Some((symbol.to_string(), module.to_string()));
        assert_eq!(
            named("[<0>] do_nanosleep+0x5a/0x100"),
            is("do_nanosleep", "[kernel]")
        );
        assert_eq!(named("[<0>] xfs_read+0x5a/0x100 [xfs]"), is("xfs_read", "xfs"));
        assert_eq!(named("[<ffffffffffffffff>] 0xffffffffffffffff"), None);
        assert_eq!(named(""), None);
    }

    /// The plan in a record: its count, state, statement, plan, and when that began.
    fn plan_in(record: &[u64; 5]) -> i64 {
        let address = std::ptr::from_ref(record).addr() as u64;
        let places = StatusRecord {
            pointer: std::ptr::from_ref(&address).addr() as u64,
            statement: 16,
            plan: 24,
            session_state: 8,
            process: 4,
            kind: 0,
            whose: 0,
            text: 0,
            gives_ids: true,
            since: 32,
            comment: 0,
            most_text: 0,
            whole_text: 0,
        };
        let task = Task::open(std::process::id(), WaitSource::None, reads(false)).unwrap();
        let (executing, _) = task.read_record(&places, false).unwrap();
        assert_eq!(executing.statement, record[2]);
        executing.plan
    }

    #[test]
    fn the_plan_in_a_record_that_is_being_written_is_not_known() {
        let record = |count| [count, 2, 77, (-5_i64).cast_unsigned(), 9];
        assert_eq!(plan_in(&record(4)), -5);
        assert_eq!(plan_in(&record(5)), 0);
    }

    fn reads(comments: bool) -> Reads {
        Reads {
            stacks: true,
            task_counts: false,
            comments,
        }
    }

    #[test]
    fn a_task_that_sleeps_is_seen_whole_and_one_that_has_ended_no_longer() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(300));
        let mut task = Task::open(child.id(), WaitSource::None, reads(true)).unwrap();
        let mut room = 0;
        assert!(task.look(&mut room));
        let seen: Vec<Event> = task.take_seen().collect();
        let [Event::Sample(sample)] = &*seen else {
            panic!("{seen:?}");
        };
        assert_eq!(sample.listed, Some(Listed::Off(State::Sleep)));
        assert_eq!(sample.comment, Some(0));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!task.look(&mut room));
    }
}
