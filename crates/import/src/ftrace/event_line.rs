//! One line of an event with its columns in front: the tracepoints of tracefs, and all that `trace-cmd report` prints.
//!
//! `TASK-PID [(TGID)] [CPU] [FLAGS] TIME: EVENT: ARGUMENTS`. trace-cmd prints functions as the events `funcgraph_entry` and
//! `funcgraph_exit`, and stacks as events too. Its options change the columns: `-l` has `TASK-PID CPUFLAGS TIME:` without
//! brackets, `--ts-diff` has `(+MICROSECONDS)` before the event, `--debug` has ` [DELTA:OFFSET:SIZE]` at the end.

use super::line::{Place, Said, duration, flags, has_pid, in_interrupt, seconds, text_of_graph};
use crate::text::{decimal, trim_start};

/// A line as written by the kernel and trace-cmd: the name of the task takes 16 characters (`%16s-%-7d`; a name has 15 at most).
pub(super) fn event_with_padded_task(line: &[u8]) -> Option<Said<'_>> {
    const NAME: usize = 16;
    let number = line.get(NAME..)?.strip_prefix(b"-")?;
    let digits = number.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 || !number[digits..].starts_with(b" ") {
        return None;
    }
    let text = trim_start(line);
    let blanks = line.len() - text.len();
    let end = (NAME + 1 + digits).checked_sub(blanks)?;
    match event_behind(text, end) {
        Said::Unknown => None,
        event => Some(event),
    }
}

/// A line with its CPU in brackets. `text` begins with the task.
pub(super) fn event_line(text: &[u8]) -> Said<'_> {
    event_behind(text, 0)
}

/// The same, if the number of the task ends at `least` (0: not known).
fn event_behind(text: &[u8], least: usize) -> Said<'_> {
    let mut from = least;
    // A task may have any bytes in its name: this looks for a CPU in brackets, after a task's number and before a time.
    loop {
        let Some(open) = memchr::memchr(b'[', &text[from..]).map(|at| from + at) else {
            return Said::Unknown;
        };
        let Some(close) = memchr::memchr(b']', &text[open..]).map(|at| open + at) else {
            return Said::Unknown;
        };
        from = open + 1;
        let task = without_process(text[..open].trim_ascii_end());
        let cpu = decimal(&text[open + 1..close]).and_then(|cpu| u32::try_from(cpu).ok());
        // Three digits at least: the name of a task may have brackets too.
        let is_task = has_pid(task) || task.len() == least;
        let Some(cpu) = cpu.filter(|_| close - open > 3 && is_task) else {
            continue;
        };
        let behind = trim_start(&text[close + 1..]);
        let Some(colon) = memchr::memmem::find(behind, b": ") else {
            return Said::Unknown;
        };
        let (flags, time) = last_word(&behind[..colon]);
        let Some(at_ns) = seconds(time).filter(|_| !flags.contains(&b' ')) else {
            continue;
        };
        let place = Place {
            task,
            cpu: Some(cpu),
            at_ns: Some(at_ns),
            indent: 0,
            in_interrupt: in_interrupt(flags),
        };
        return event(place, &behind[colon + 2..]);
    }
}

/// A line in the latency format of trace-cmd (`-l`): `postgres-7      0d.h2. 47696.023344: EVENT: ARGUMENTS`.
pub(super) fn latency_line(text: &[u8]) -> Said<'_> {
    let columns = memchr::memmem::find_iter(text, b": ").find_map(|colon| {
        let (head, time) = last_word(&text[..colon]);
        let at_ns = seconds(time)?;
        let (task, cpu_and_flags) = last_word(head);
        let digits = cpu_and_flags
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let cpu = u32::try_from(decimal(&cpu_and_flags[..digits])?).ok()?;
        let behind = &cpu_and_flags[digits..];
        (has_pid(task) && behind.len() >= 4 && flags(behind)).then_some((
            Place {
                task,
                cpu: Some(cpu),
                at_ns: Some(at_ns),
                indent: 0,
                in_interrupt: in_interrupt(behind),
            },
            colon,
        ))
    });
    match columns {
        Some((place, colon)) => event(place, &text[colon + 2..]),
        None => Said::Unknown,
    }
}

/// What follows the columns: the event.
fn event<'a>(mut place: Place<'a>, said: &'a [u8]) -> Said<'a> {
    let said = without_place_in_buffer(without_difference(trim_start(said)));
    // tracefs has no name here.
    if said.starts_with(b"<stack trace>") || said.starts_with(b"<user stack trace>") {
        let is_whole = said.starts_with(b"<s");
        return Said::StackBegins { place, is_whole };
    }
    // `sys_pread64(fd: 3, …)` and `sys_pread64 -> 0x2000`: the tracepoints of single system calls.
    let (name, arguments) = match (
        memchr::memchr2(b':', b'(', said),
        memchr::memmem::find(said, b" -> "),
    ) {
        (Some(end), None) => (&said[..end], &said[end + 1..]),
        (Some(end), Some(arrow)) if end < arrow => (&said[..end], &said[end + 1..]),
        (_, Some(arrow)) => (&said[..arrow], &said[arrow..]),
        (None, None) => return Said::Unknown,
    };
    let (name, arguments) = (name.trim_ascii_end(), trim_start(arguments));
    match name {
        b"funcgraph_entry" | b"funcgraph_exit" => {
            let Some(bar) = memchr::memchr(b'|', arguments) else {
                return Said::Unknown;
            };
            let ns = duration(arguments[..bar].trim_ascii());
            place.in_interrupt = false;
            text_of_graph(without_depth(&arguments[bar + 1..]), place, ns)
        }
        // Without its plugins (`-N`) trace-cmd prints eight frames at most, with `-R` addresses only.
        b"kernel_stack" | b"user_stack" => Said::StackBegins {
            place,
            is_whole: name == b"kernel_stack" && arguments.starts_with(b"<stack trace"),
        },
        _ => Said::Event {
            place,
            name,
            arguments,
        },
    }
}

/// A text and its last word.
fn last_word(text: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memrchr(b' ', text) {
        Some(blank) => (text[..blank].trim_ascii(), &text[blank + 1..]),
        None => (b"", text),
    }
}

/// `COMM-PID (  1234)` and `COMM-PID (-----)`: drops the process of the thread.
fn without_process(task: &[u8]) -> &[u8] {
    match memchr::memrchr(b'(', task) {
        Some(open) if open > 0 && task.ends_with(b")") => task[..open].trim_ascii_end(),
        _ => task,
    }
}

/// `(+39)    sched_waking: …`: drops the time since the previous event.
fn without_difference(said: &[u8]) -> &[u8] {
    let behind = said.strip_prefix(b"(+").and_then(|behind| {
        let close = memchr::memchr(b')', behind)?;
        decimal(&behind[..close])?;
        Some(trim_start(&behind[close + 1..]))
    });
    behind.unwrap_or(said)
}

/// `… [2534:0x98:36]`: drops the position of the event in the buffer.
fn without_place_in_buffer(said: &[u8]) -> &[u8] {
    let before = said.strip_suffix(b"]").and_then(|text| {
        let open = memchr::memmem::rfind(text, b" [")?;
        let mut parts = text[open + 2..].split(|byte| *byte == b':');
        decimal(parts.next()?)?;
        parts.next()?.strip_prefix(b"0x")?;
        decimal(parts.next()?)?;
        parts.next().is_none().then_some(&said[..open])
    });
    before.unwrap_or(said)
}

/// `vfs_read() { (1)`: drops the depth that trace-cmd's option `fgraph:depth` adds to a function.
fn without_depth(text: &[u8]) -> &[u8] {
    let before = text.strip_suffix(b")").and_then(|inside| {
        let open = memchr::memmem::rfind(inside, b" (")?;
        decimal(&inside[open + 2..])?;
        Some(&text[..open])
    });
    before.unwrap_or(text)
}
