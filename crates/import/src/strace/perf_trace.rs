//! What `perf trace` writes: a line per call, or a summary (`-s`).
//!
//! # Format
//! `time ( duration ms): comm/tid name(arguments) = result`, times in milliseconds since the trace began; with only one task, `comm/tid` is
//! missing. The line of an interrupted call ends with `...`; its end is a line `... [continued]: name()) = result`, with the time of its
//! start. Page faults (`-F`) are `minfault` and `majfault`. A summary has a table for each task.
//!
//! # Rows
//! See [`super::calls`]. A summary has sums and no distribution, so it gives no latencies.

use std::io::Read;
use std::path::Path;

use dbtime_model::counter::{PERF_TRACE, calls as counter_name};
use dbtime_model::recording::{Clock, ImportedFile};

use super::LOOKED_AT;
use super::calls::{Calls, Ended, Task};
use super::line::{Digits, digits, name, result};
use super::summary::words;
use crate::import::unknown_line;
use crate::lines::Line;
use crate::samples::{Process, Table};
use crate::text::{decimal, file_name, trim_start};
use crate::{Import, ImportError, Importer, Lines};

/// What comes between the head of a line and a call that is continued.
const CONTINUED: &[u8] = b"... [continued]: ";

/// The importer of this format.
#[derive(Debug)]
pub(crate) struct PerfTrace;

impl Importer for PerfTrace {
    fn name(&self) -> &'static str {
        "perf trace"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let mut lines = head.split(|byte| *byte == b'\n').take(LOOKED_AT);
        lines.any(|text| parse(text).is_some() || is_summary(text))
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

/// A line, taken apart.
#[derive(Debug, PartialEq, Eq)]
struct Parsed<'a> {
    /// Nanoseconds since the trace began.
    start: Option<i64>,
    duration: Option<Digits>,
    comm: &'a [u8],
    /// 0 = not given.
    tid: u32,
    what: What<'a>,
}

#[derive(Debug, PartialEq, Eq)]
enum What<'a> {
    Call {
        name: &'a [u8],
        is_error: bool,
        is_continued: bool,
    },
    Unfinished(&'a [u8]),
    MinorFault,
    MajorFault,
}

fn parse(text: &[u8]) -> Option<Parsed<'_>> {
    let text = trim_start(text);
    let (time, rest) = text.split_at(memchr::memchr(b' ', text)?);
    let start = match time {
        b"?" => None,
        time => Some(i64::try_from(milliseconds(time)?.ns).ok()?),
    };
    let inside = trim_start(rest).strip_prefix(b"(")?;
    let (duration, rest) = inside.split_at(memchr::memchr(b')', inside)?);
    let duration = match duration.trim_ascii() {
        b"" => None,
        duration => Some(milliseconds(duration.strip_suffix(b" ms")?.trim_ascii_end())?),
    };
    let rest = rest.strip_prefix(b"):")?.trim_ascii();
    let (comm, tid, rest) = task(rest);
    let what = what(rest)?;
    Some(Parsed {
        start,
        duration,
        comm,
        tid,
        what,
    })
}

/// `comm/tid` and what follows; a program's name may have blanks and slashes.
fn task(text: &[u8]) -> (&[u8], u32, &[u8]) {
    // Arguments follow the first parenthesis, unless the name begins with one.
    for slash in memchr::memchr_iter(b'/', text) {
        let behind = &text[slash + 1..];
        let end = behind.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if end > 0
            && behind.get(end) == Some(&b' ')
            && let Some(tid) = decimal(&behind[..end]).and_then(|tid| u32::try_from(tid).ok())
            && name(text).is_none()
        {
            return (&text[..slash], tid, trim_start(&behind[end..]));
        }
    }
    (b"", 0, text)
}

fn what(text: &[u8]) -> Option<What<'_>> {
    if text.starts_with(b"minfault [") {
        return Some(What::MinorFault);
    }
    if text.starts_with(b"majfault [") {
        return Some(What::MajorFault);
    }
    let (is_continued, text) = match text.strip_prefix(CONTINUED) {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let name = name(text)?;
    if !is_continued && text.ends_with(b"...") {
        return Some(What::Unfinished(name));
    }
    let result = result(text)?;
    Some(What::Call {
        name,
        is_error: result.starts_with(b"-1 E"),
        is_continued,
    })
}

/// Milliseconds with decimals.
fn milliseconds(text: &[u8]) -> Option<Digits> {
    let seconds = digits(text)?;
    // At most six decimals: more would not be whole nanoseconds.
    (seconds.unit_ns >= 1_000 && memchr::memchr(b'.', text).is_some()).then_some(Digits {
        ns: seconds.ns / 1_000,
        unit_ns: seconds.unit_ns / 1_000,
    })
}

fn is_summary(text: &[u8]) -> bool {
    text.trim_ascii() == b"Summary of events:"
}

/// ` tb (13669), 1038 events, 99.6%`: name and task of the table that follows.
fn table_of(text: &[u8]) -> Option<(&[u8], u32)> {
    let end = memchr::memmem::rfind(text, b" events, ")?;
    let before = &text[..end];
    let comma = memchr::memrchr(b',', before)?;
    let named = before[..comma].trim_ascii().strip_suffix(b")")?;
    let open = memchr::memrchr(b'(', named)?;
    let tid = decimal(&named[open + 1..]).and_then(|tid| u32::try_from(tid).ok())?;
    Some((named[..open].trim_ascii(), tid))
}

/// A row of a summary.
#[derive(Debug, PartialEq, Eq)]
struct Row<'a> {
    name: &'a [u8],
    calls: u64,
    errors: u64,
    ns: u64,
}

/// `nanosleep 500 0 34.486 0.033 0.069 1.158 5.43%`; older releases have no errors.
fn row(text: &[u8]) -> Option<Row<'_>> {
    let cells: Vec<&[u8]> = words(text).collect();
    let (errors, total) = match cells.len() {
        8 => (decimal(cells[2])?, cells[3]),
        7 => (0, cells[2]),
        _ => return None,
    };
    cells.last().filter(|last| last.ends_with(b"%"))?;
    Some(Row {
        name: cells[0],
        calls: decimal(cells[1])?,
        errors,
        ns: milliseconds(total)?.ns,
    })
}

struct Reader<'a> {
    calls: Calls<'a>,
    file: ImportedFile,
    tasks: Table<u32, Task>,
    table: Option<Task>,
    /// Inside the summary.
    in_summary: bool,
    has_lines: bool,
    has_summary: bool,
    passed_summary: bool,
    lost: u64,
}

impl<'a> Reader<'a> {
    fn new(path: &Path, into: &'a mut Import) -> Reader<'a> {
        let file = crate::import::file(path);
        Reader {
            calls: Calls::new(PERF_TRACE, &file.path, into),
            file,
            tasks: Table::default(),
            table: None,
            in_summary: false,
            has_lines: false,
            has_summary: false,
            passed_summary: false,
            lost: 0,
        }
    }

    fn line(&mut self, line: Line<'_>) {
        let text = line.bytes;
        let trimmed = text.trim_ascii();
        // The last line may be truncated: a number could have more digits.
        if trimmed.is_empty() || !line.ended {
            return;
        }
        if is_summary(text) {
            self.in_summary = true;
            return;
        }
        if let Some(count) = trimmed
            .strip_prefix(b"LOST ")
            .and_then(|rest| decimal(rest.strip_suffix(b" events!")?))
        {
            self.lost = self.lost.saturating_add(count);
            return;
        }
        if let Some(parsed) = parse(text) {
            self.parsed(&parsed);
        } else if !(self.in_summary && self.summary(trimmed)) {
            unknown_line(&mut self.file, line.number, text);
        }
    }

    /// Reads a line of a summary; false if it is not one.
    fn summary(&mut self, text: &[u8]) -> bool {
        if let Some((comm, tid)) = table_of(text) {
            self.table = Some(self.task(comm, tid, None));
            return true;
        }
        if let Some(row) = row(text) {
            // With -S, the summary repeats the calls above.
            if self.has_lines {
                self.passed_summary = true;
                return true;
            }
            let Some(task) = self.table else { return false };
            let name = self.calls.name(row.name);
            self.calls.summed(task, name, row.calls, row.errors, row.ns);
            self.has_summary = true;
            return true;
        }
        text.starts_with(b"syscall ")
            || text.starts_with(b"(msec)")
            || text.iter().all(|byte| matches!(byte, b'-' | b' '))
    }

    fn parsed(&mut self, line: &Parsed<'_>) {
        let task = self.task(line.comm, line.tid, line.start);
        match line.what {
            What::Call {
                name,
                is_error,
                is_continued,
            } => {
                let name = self.calls.name(name);
                let open = self.calls.take_open(task);
                let call = Ended {
                    name,
                    start: line.start,
                    duration: line.duration,
                    is_error,
                };
                match open {
                    Some((open, _)) if is_continued && open == name => self.calls.ends(task, call),
                    _ => self.calls.call(task, call),
                }
            }
            What::Unfinished(name) => {
                let name = self.calls.name(name);
                self.calls.begins(task, name, line.start);
            }
            What::MinorFault => self
                .calls
                .count(task, line.start, counter_name::MINOR_FAULTS.to_string()),
            What::MajorFault => self
                .calls
                .count(task, line.start, counter_name::MAJOR_FAULTS.to_string()),
        }
        self.has_lines = true;
    }

    fn task(&mut self, comm: &[u8], tid: u32, start: Option<i64>) -> Task {
        if let Some(task) = self.tasks.get(&tid) {
            return *task;
        }
        let title = if comm.is_empty() {
            file_name(self.file.path.as_bytes())
        } else {
            comm
        };
        let task = self.calls.task(Process::named(title, tid), start);
        self.tasks.insert(tid, task);
        task
    }

    fn finish(mut self, lines: u64) {
        self.file.lines = lines;
        let path = &self.file.path;
        if self.lost > 0 {
            let lost = self.lost;
            self.calls
                .into
                .problem(format!("{path}: perf trace reports {lost} lost events"));
        }
        let unfinished = self.calls.unfinished();
        if unfinished > 0 {
            self.calls.into.problem(format!(
                "{path}: calls that were unfinished at the end of the trace, not counted: {unfinished}"
            ));
        }
        let mut reasons = Vec::new();
        if self.has_lines {
            reasons
                .push("perf trace cannot tell whether a call was on a CPU or asleep: its state is not known");
        }
        if self.calls.has_outside() {
            reasons.push("time between two calls is what the process did outside of system calls, the tracer's part included");
        }
        if self.has_summary {
            reasons.push("a summary of perf trace (-s) has sums and no distribution");
        }
        if self.passed_summary {
            reasons
                .push("the summary at the end of the file (-S) counts the same calls again and is skipped");
        }
        for reason in reasons {
            self.calls.into.reason(reason);
        }
        let clock = if self.has_lines {
            Clock::Relative
        } else {
            Clock::None
        };
        self.calls.finish(clock, self.file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Option<Digits> {
        Some(Digits {
            ns: us * 1_000,
            unit_ns: 1_000,
        })
    }

    #[test]
    fn lines_are_taken_apart() {
        let line =
            parse(b"     0.864 ( 0.005 ms): tb/13723 brk(brk: 0xa3add00)       = 0xa3ad000").expect("a line");
        assert_eq!(
            (line.start, line.duration, line.comm, line.tid),
            (Some(864_000), us(5), &b"tb"[..], 13723)
        );
        let call = |name: &'static [u8], is_error, is_continued| What::Call {
            name,
            is_error,
            is_continued,
        };
        assert_eq!(line.what, call(b"brk", false, false));
        let line = parse(b"         ? (         ): tb/1  ... [continued]: execve())    = 0").expect("a line");
        assert_eq!(
            (line.start, line.duration, line.what),
            (None, None, call(b"execve", false, true))
        );
        let line = parse(
            b" 1.5 ( 0.001 ms): kworker/0:1 x/77 openat(filename: \"/a/1 \") = -1 ENOENT (No such file)",
        );
        let line = line.expect("a line");
        assert_eq!(
            (line.comm, line.tid, line.what),
            (&b"kworker/0:1 x"[..], 77, call(b"openat", true, false))
        );
        let line = parse(b" 1.500 (         ): nanosleep(rqtp: 0x7)      ...").expect("a line");
        assert_eq!(
            (line.comm, line.tid, line.what),
            (&b""[..], 0, What::Unfinished(b"nanosleep"))
        );
        let line = parse(b" 1.500 ( 0.001 ms): read(fd: 3</a/1 b>) = 5").expect("a line");
        assert_eq!((line.comm, line.what), (&b""[..], call(b"read", false, false)));
        let line = parse(b" 0.000 ( 0.000 ms): tb/13727 minfault [f+0x40] => 0x4a8270 (?k)").expect("a line");
        assert_eq!(line.what, What::MinorFault);
        for unknown in [
            "",
            "a b",
            "1.0 (0.1 s): a/1 f() = 0",
            "1.0 ( 0.1 ms): a/1 f(",
            "x (): f() = 0",
        ] {
            assert_eq!(parse(unknown.as_bytes()), None, "{unknown}");
        }
    }

    #[test]
    fn tables_are_taken_apart() {
        assert_eq!(
            table_of(b" my (own) app (13669), 1038 events, 99.6%"),
            Some((&b"my (own) app"[..], 13669))
        );
        let expected = Row {
            name: b"recvfrom",
            calls: 3544,
            errors: 1427,
            ns: 12_085_000,
        };
        assert_eq!(
            row(b"recvfrom 3544 1427 12.085 0.001 0.003 0.031 1.42%"),
            Some(expected)
        );
        assert_eq!(
            row(b"read 18 0.085 0.003 0.005 0.010 8.89%").map(|row| row.ns),
            Some(85_000)
        );
        assert_eq!(row(b"read 18"), None);
    }
}
