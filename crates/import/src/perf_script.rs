//! Output of `perf script`: samples of `perf record`, with or without call chains.
//!
//! # Format
//! A line `comm pid[/tid] [cpu] time: period event:`, of which cpu and period may be missing; frames, leaf first,
//! `address symbol+offset (file)`; a blank line. The name may have blanks in it.
//!
//! # Rows
//! A session is a task. Samples of `cpu-clock` and `task-clock` have their period in nanoseconds: they are sampled time. A period of other
//! events (cycles …) is not a time: rows then count samples. Of a file with several events, one is read. Every sample was taken on a CPU:
//! its state is `kernel` or `user`, by its leaf. The wait is `not recorded`. Moments are perf's own, usually seconds since the host was
//! booted. Addresses are left out: they are those of the instruction in the process, for which a frame has no field.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use dbtime_model::recording::{Clock, ImportedFile, Unit};
use dbtime_model::{State, Wait};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::import::unknown_line;
use crate::lines::Line;
use crate::samples::{FrameNumber, Place, Process, Samples, Table, Weight, sampled};
use crate::span::Span;
use crate::text::{billionths, decimal, file_name, trim_start, without_brackets, without_offset};
use crate::{Import, ImportError, Importer, Lines};

/// Lines of frames remembered by hash before all are forgotten: offsets of leaves differ.
const MAX_KNOWN: usize = 1 << 20;

/// Lines of a file examined to detect its format.
const LOOKED_AT: usize = 500;

/// The importer of this format.
#[derive(Debug)]
pub(crate) struct PerfScript;

impl Importer for PerfScript {
    fn name(&self) -> &'static str {
        "perf script"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let mut after_header = false;
        for line in head.split(|byte| *byte == b'\n').take(LOOKED_AT) {
            let has_frame = header(line).is_some_and(|header| address(header.rest).is_some())
                || (after_header && line.starts_with_blank() && address(trim_start(line)).is_some());
            if has_frame {
                return true;
            }
            after_header = header(line).is_some();
        }
        false
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

trait StartsWithBlank {
    fn starts_with_blank(&self) -> bool;
}

impl StartsWithBlank for [u8] {
    fn starts_with_blank(&self) -> bool {
        matches!(self.first(), Some(b' ' | b'\t'))
    }
}

/// A frame and whether it is the kernel's.
#[derive(Debug, Clone, Copy)]
struct KnownFrame {
    number: FrameNumber,
    is_kernel: bool,
}

/// A sample that is being read.
#[derive(Debug, Clone, Copy)]
struct Open {
    session: u32,
    second: i64,
    /// When it was taken, microseconds, if known.
    us: Option<i64>,
    period: Option<u64>,
}

struct Reader<'a> {
    into: &'a mut Import,
    file: ImportedFile,
    samples: Samples,
    wait: u32,
    known: Table<u64, KnownFrame>,
    sessions: Table<u64, u32>,
    stack: Vec<FrameNumber>,
    kernel_frames: usize,
    is_past_kernel: bool,
    open: Option<Open>,
    /// Inside a sample, wanted or not.
    in_sample: bool,
    event: Option<Vec<u8>>,
    other_events: BTreeMap<Vec<u8>, u64>,
    /// The period of the event is time.
    is_time: bool,
    has_times: bool,
    /// From the start of what the first sample stands for to the last sample, microseconds.
    span_us: Span,
    has_chains: bool,
    is_cut: bool,
}

impl<'a> Reader<'a> {
    fn new(path: &Path, into: &'a mut Import) -> Reader<'a> {
        let mut samples = Samples::new();
        let wait = samples.wait(Wait::not_recorded());
        Reader {
            into,
            file: crate::import::file(path),
            samples,
            wait,
            known: Table::default(),
            sessions: Table::default(),
            stack: Vec::new(),
            kernel_frames: 0,
            is_past_kernel: false,
            open: None,
            in_sample: false,
            event: None,
            other_events: BTreeMap::new(),
            is_time: false,
            has_times: false,
            span_us: Span::default(),
            has_chains: false,
            is_cut: false,
        }
    }

    fn line(&mut self, line: Line<'_>) {
        let text = line.bytes;
        if text.is_empty() {
            self.sample();
            return;
        }
        if !line.ended {
            // The last line may be truncated: neither its frame nor its sample can be trusted.
            self.is_cut = true;
            self.open = None;
            return;
        }
        if self.in_sample && text.starts_with_blank() {
            let text = trim_start(text);
            let hash = frame_hash(text);
            if let Some(frame) = self.known.get(&hash) {
                let frame = *frame;
                self.push(frame);
                return;
            }
            if text.is_empty() {
                self.sample();
                return;
            }
            if header(line.bytes).is_none() {
                self.has_chains = true;
                let frame = self.frame(text);
                if self.known.len() >= MAX_KNOWN {
                    self.known.clear();
                }
                self.known.insert(hash, frame);
                self.push(frame);
                return;
            }
        }
        self.sample();
        match header(text) {
            Some(header) => self.header(&header, line),
            None if text.starts_with(b"#") || text.trim_ascii().is_empty() => {}
            None => unknown_line(&mut self.file, line.number, text),
        }
    }

    fn header(&mut self, header: &Header<'_>, line: Line<'_>) {
        self.in_sample = true;
        let event = match &self.event {
            Some(event) => event,
            None => {
                let wanted = self.into.options().event.as_ref();
                let event = wanted.map_or(header.event, |event| event.as_bytes()).to_vec();
                let name = event.split(|byte| *byte == b':').next().unwrap_or_default();
                self.is_time = matches!(name, b"cpu-clock" | b"task-clock") && header.period.is_some();
                self.event.insert(event)
            }
        };
        if header.event != event.as_slice() {
            *self.other_events.entry(header.event.to_vec()).or_default() += 1;
            return;
        }
        if self.is_time && header.period.is_none() {
            unknown_line(&mut self.file, line.number, line.bytes);
            return;
        }
        self.has_times |= header.second.is_some();
        let task = xxh3_64(header.comm) ^ (u64::from(header.pid) << 32 | u64::from(header.tid));
        let session = match self.sessions.get(&task) {
            Some(session) => *session,
            None => {
                let mut process = Process::named(header.comm, header.tid);
                if header.tid == EXITING {
                    process.pid = 0;
                } else if header.pid != header.tid {
                    process.leader_pid = header.pid;
                }
                let session = self.samples.process(process);
                self.sessions.insert(task, session);
                session
            }
        };
        self.open = Some(Open {
            session,
            second: header.second.unwrap_or(0),
            us: billionths(header.time).map(|ns| ns / 1_000),
            period: header.period,
        });
        // Without call chains, the frame is on the line of its sample.
        if address(header.rest).is_some() {
            let frame = self.frame(header.rest);
            self.push(frame);
        }
    }

    fn push(&mut self, frame: KnownFrame) {
        self.is_past_kernel |= !frame.is_kernel;
        if !self.is_past_kernel {
            self.kernel_frames += 1;
        }
        self.stack.push(frame.number);
    }

    /// A frame as in the file: `address symbol+offset (file)`.
    fn frame(&mut self, text: &[u8]) -> KnownFrame {
        let (address, rest) = address(text).unwrap_or((b"", text));
        let (symbol, file) = symbol_and_file(rest);
        let module = Module::of(file, address);
        let symbol = match without_offset(symbol).0 {
            b"[unknown]" => b"",
            symbol => symbol,
        };
        KnownFrame {
            number: self.samples.frame(symbol, module.name),
            is_kernel: module.is_kernel,
        }
    }

    /// The sample ends here.
    fn sample(&mut self) {
        if let Some(open) = self.open.take() {
            let state = match (self.kernel_frames, self.stack.len()) {
                (0, 0) => State::Cpu,
                (0, _) => State::User,
                _ => State::Kernel,
            };
            let (kernel, user) = self.stack.split_at(self.kernel_frames);
            let weight = match open.period {
                Some(period) if self.is_time => Weight {
                    ns: period,
                    count: 0,
                    samples: 1,
                },
                _ => Weight::samples(1, self.into.options()),
            };
            if let Some(us) = open.us {
                // A sample stands for the time before it.
                let begin = us.saturating_sub_unsigned(weight.ns / 1_000);
                self.span_us.add(begin, us);
            }
            let place = Place {
                session: open.session,
                second: open.second,
                wait: self.wait,
                state,
                user: self.samples.stack(user),
                kernel: self.samples.stack(kernel),
            };
            self.samples.add(place, weight);
        }
        self.in_sample = false;
        self.stack.clear();
        self.kernel_frames = 0;
        self.is_past_kernel = false;
    }

    fn finish(mut self, lines: u64) {
        // A blank line ends a sample with a call chain: without it frames may be missing.
        if self.open.is_some() && self.has_chains {
            self.is_cut = true;
            self.open = None;
        }
        self.sample();
        self.file.lines = lines;
        let path = self.file.path.clone();
        let event = String::from_utf8_lossy(self.event.as_deref().unwrap_or_default()).into_owned();
        if self.is_cut {
            let problem = format!("{path}:{lines}: the last sample is cut off and left out");
            self.into.problem(problem);
        }
        if !self.other_events.is_empty() {
            let others: Vec<String> = self
                .other_events
                .iter()
                .take(20)
                .map(|(name, samples)| format!("{samples} of {}", String::from_utf8_lossy(name)))
                .collect();
            self.into.problem(format!(
                "{path}: samples of {event} only; left out: {}; --event selects another",
                others.join(", ")
            ));
        }
        let clock = if self.has_times {
            Clock::Relative
        } else {
            Clock::None
        };
        let unit = if self.is_time { Unit::Time } else { Unit::Samples };
        if unit == Unit::Samples && !event.is_empty() {
            self.into.reason(&format!("samples of the event {event}"));
        }
        if let Some(span_us) = self.span_us.ends() {
            self.into.spans(span_us);
        }
        let measure = sampled(unit, clock, self.into.options());
        self.samples.finish(measure, self.file, self.into);
    }
}

/// The first line of a sample.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Header<'a> {
    pub(crate) comm: &'a [u8],
    /// Process; the task itself if there is only one number.
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    /// None if not given, as is the next.
    pub(crate) cpu: Option<u32>,
    second: Option<i64>,
    /// Seconds with their fraction, as in the file; empty if missing.
    pub(crate) time: &'a [u8],
    period: Option<u64>,
    pub(crate) event: &'a [u8],
    pub(crate) rest: &'a [u8],
}

/// Reads the first line of a sample; none if it is something else.
pub(crate) fn header(line: &[u8]) -> Option<Header<'_>> {
    let mut at = line.len() - trim_start(line).len();
    let begin = at;
    // The name may have blanks and numbers in it: the first number that is followed by a time or a CPU counts.
    loop {
        let (token, end) = token(line, at)?;
        let (next, next_end) = token_or_empty(line, end);
        if at > begin
            && let Some((pid, tid)) = ids(token)
            && let Some(moment) = moment(line, next, next_end)
        {
            let (period, event, rest) = event(line, moment.end)?;
            return Some(Header {
                comm: line[begin..at].trim_ascii(),
                pid,
                tid,
                cpu: moment.cpu,
                second: moment.second,
                time: moment.time,
                period,
                event,
                rest,
            });
        }
        at = end + (line[end..].len() - trim_start(&line[end..]).len());
    }
}

/// The word at this place, and where it ends.
fn token(line: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let rest = line.get(at..)?;
    let begin = at + (rest.len() - trim_start(rest).len());
    let rest = &line[begin..];
    let length = memchr::memchr2(b' ', b'\t', rest).unwrap_or(rest.len());
    (length > 0).then_some((&rest[..length], begin + length))
}

fn token_or_empty(line: &[u8], at: usize) -> (&[u8], usize) {
    token(line, at).unwrap_or((b"", at))
}

/// The number of a task that has begun to exit: perf prints -1.
pub(crate) const EXITING: u32 = u32::MAX;

/// `pid` or `pid/tid`
fn ids(token: &[u8]) -> Option<(u32, u32)> {
    let number = |text: &[u8]| match text {
        b"-1" => Some(EXITING),
        _ => u32::try_from(decimal(text)?).ok(),
    };
    match memchr::memchr(b'/', token) {
        None => {
            let tid = number(token)?;
            Some((tid, tid))
        }
        Some(slash) => Some((number(&token[..slash])?, number(&token[slash + 1..])?)),
    }
}

/// CPU and time of a first line.
struct Moment<'a> {
    cpu: Option<u32>,
    second: Option<i64>,
    time: &'a [u8],
    end: usize,
}

/// `[cpu] seconds.fraction:`, each of which may be missing but not both; and where it ends.
fn moment<'a>(line: &'a [u8], next: &'a [u8], end: usize) -> Option<Moment<'a>> {
    let cpu = next
        .strip_prefix(b"[")
        .and_then(|rest| rest.strip_suffix(b"]"))
        .and_then(decimal);
    let (time, time_end) = if cpu.is_some() {
        token_or_empty(line, end)
    } else {
        (next, end)
    };
    let time = time.strip_suffix(b":").unwrap_or_default();
    let second = time
        .split(|byte| *byte == b'.')
        .next()
        .and_then(decimal)
        .and_then(|second| i64::try_from(second).ok())
        .filter(|_| time.contains(&b'.'));
    (second.is_some() || cpu.is_some()).then(|| Moment {
        cpu: cpu.and_then(|cpu| u32::try_from(cpu).ok()),
        second,
        time: if second.is_some() { time } else { b"" },
        end: if second.is_some() { time_end } else { end },
    })
}

/// `period event: rest`
fn event(line: &[u8], at: usize) -> Option<(Option<u64>, &[u8], &[u8])> {
    let (first, end) = token(line, at)?;
    let (period, name, end) = match decimal(first) {
        Some(period) => {
            let (name, end) = token(line, end)?;
            (Some(period), name, end)
        }
        None => (None, first, end),
    };
    let name = name.strip_suffix(b":")?;
    (!name.is_empty()).then(|| (period, name, trim_start(&line[end..])))
}

/// What identifies a frame: all but the address, because processes have the same code at different addresses; only the half of the address
/// space that it is in matters.
fn frame_hash(text: &[u8]) -> u64 {
    match address(text) {
        Some((address, rest)) => xxh3_64_with_seed(rest, u64::from(is_upper(address))),
        None => xxh3_64_with_seed(text, 2),
    }
}

/// Addresses of the upper half are the kernel's on every 64-bit machine.
fn is_upper(address: &[u8]) -> bool {
    address.len() == 16 && address[0] >= b'8'
}

/// An address in hex and what follows it.
fn address(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let rest = text.get(digits..)?.strip_prefix(b" ")?;
    ((1..=16).contains(&digits) && !rest.is_empty()).then(|| (&text[..digits], rest))
}

/// `symbol (file)`: both; the symbol may have parentheses of its own.
fn symbol_and_file(text: &[u8]) -> (&[u8], &[u8]) {
    let text = text.trim_ascii();
    let Some(inside) = text.strip_suffix(b")") else {
        return (text, b"");
    };
    let inside = inside.strip_suffix(b" (deleted)").unwrap_or(inside);
    match memchr::memmem::rfind(inside, b" (") {
        Some(at) => (inside[..at].trim_ascii(), &inside[at + 2..]),
        None => match inside.strip_prefix(b"(") {
            Some(file) => (b"", file),
            None => (text, b""),
        },
    }
}

/// Where a frame's code comes from.
struct Module<'a> {
    name: &'a [u8],
    is_kernel: bool,
}

impl<'a> Module<'a> {
    fn of(file: &'a [u8], address: &[u8]) -> Module<'a> {
        let name = file_name(file);
        let module = |name, is_kernel| Module { name, is_kernel };
        let is_upper = is_upper(address);
        match file {
            b"[unknown]" | b"inlined" | b"" => module(b"", is_upper),
            b"[vdso]" | b"[vsyscall]" | b"[heap]" | b"[stack]" => module(file, false),
            _ if file.starts_with(b"[kernel.") || file.starts_with(b"[guest.kernel.") => {
                module(b"[kernel]", true)
            }
            _ if file.starts_with(b"[anon") => module(file, false),
            _ if file.starts_with(b"[") => module(without_brackets(file), true),
            _ if name.starts_with(b"vmlinux") => module(b"[kernel]", true),
            _ => match memchr::memmem::rfind(name, b".ko") {
                Some(at) if [&b".ko"[..], b".ko.xz", b".ko.zst", b".ko.gz"].contains(&&name[at..]) => {
                    module(&name[..at], true)
                }
                _ => module(name, false),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).expect("text")
    }

    #[test]
    fn all_forms_of_the_first_line_are_read() {
        let check = |line: &'static str, comm, ids, second, period, event| {
            let header = header(line.as_bytes()).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(
                (
                    text(header.comm),
                    (header.pid, header.tid),
                    header.second,
                    header.period,
                    text(header.event)
                ),
                (comm, ids, second, period, event),
                "{line}"
            );
        };
        check(
            "dd 29776 666709.771979:   10101010 cpu-clock: ",
            "dd",
            (29776, 29776),
            Some(666_709),
            Some(10_101_010),
            "cpu-clock",
        );
        check(
            "iperf 27409/28744 [000] 441995.133575: cpu-clock: ",
            "iperf",
            (27409, 28744),
            Some(441_995),
            None,
            "cpu-clock",
        );
        check(
            "V8 WorkerThread 1 25607 4794564.109216: cycles:u:",
            "V8 WorkerThread 1",
            (25607, 25607),
            Some(4_794_564),
            None,
            "cycles:u",
        );
        check(
            "   kworker/0:1 7 [001]  1 cycles: ",
            "kworker/0:1",
            (7, 7),
            None,
            Some(1),
            "cycles",
        );
        for other in [
            "",
            "dd",
            "dd 1",
            "dd 1 2.3",
            "dd 1 2.3:",
            "dd 1 2.3: 4",
            "\t          414b3b fsnotify (/lib/modules/vmlinux)",
            "# captured on: 1 2 3.4:",
        ] {
            assert_eq!(header(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn a_frame_is_a_symbol_and_a_file() {
        let check = |line: &'static str, symbol, file| {
            let (_, rest) = address(line.as_bytes()).unwrap_or_else(|| panic!("{line}"));
            let (found, found_file) = symbol_and_file(rest);
            assert_eq!((text(without_offset(found).0), text(found_file)), (symbol, file));
        };
        check("414b3b fsnotify (/x/vmlinux)", "fsnotify", "/x/vmlinux");
        check(
            "1 A::f(int, char (*)(int))+0x1 (/x/y)",
            "A::f(int, char (*)(int))",
            "/x/y",
        );
        check("1 f+0x1 (/x/y (deleted))", "f", "/x/y");
        check("0 [unknown] ([unknown])", "[unknown]", "[unknown]");
        check("27304 main_impl+0x84 (inlined)", "main_impl", "inlined");
        check("1 f", "f", "");
    }
}
