//! One line of ftrace's text, taken apart: nothing is remembered from line to line.
//!
//! # function_graph
//! `[TIME |] [CPU)] [TASK-PID |] [FLAGS |] [DURATION |]  NAME() {`, or `NAME();`, `} /* NAME */`, `/* event: … */`. Options of the
//! tracer decide which columns there are; the first lines show it. The file of a live trace (`trace_pipe`) has no heading.
//!
//! Tracepoints, and all that `trace-cmd report` prints, are in `event_line.rs`.

use super::event_line::{event_line, event_with_padded_task, latency_line};
use crate::text::{billionths, decimal, trim_start};

/// Start of lines that `dbtime dive` writes into the text.
pub(super) const OWN: &[u8] = b"# dbtime ";

/// What a line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said<'a> {
    /// A function is entered.
    Entry { place: Place<'a>, name: &'a [u8] },
    /// A function that called no other one that is traced.
    Leaf {
        place: Place<'a>,
        name: &'a [u8],
        ns: Option<u64>,
    },
    /// A function returns; its name is only there with the option funcgraph-tail.
    Close {
        place: Place<'a>,
        name: &'a [u8],
        ns: Option<u64>,
    },
    /// A tracepoint.
    Event {
        place: Place<'a>,
        name: &'a [u8],
        arguments: &'a [u8],
    },
    /// From here on another task is on this CPU.
    Switch {
        cpu: Option<u32>,
        from: &'a [u8],
        to: &'a [u8],
    },
    /// Events that the kernel says it lost; none if it does not know how many.
    Lost { cpu: Option<u32>, events: Option<u64> },
    /// The stack of this task's previous event begins; it is whole if it is a kernel stack with all its functions.
    StackBegins { place: Place<'a>, is_whole: bool },
    /// A frame of it, leaf first.
    Frame(&'a [u8]),
    /// What dbtime itself wrote into the file.
    Own { key: &'a [u8], value: &'a [u8] },
    /// Nothing that counts: headings, rules, interrupt brackets.
    Nothing,
    /// Not understood.
    Unknown,
}

/// Where and when the event of a line was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place<'a> {
    /// `COMM-PID`; empty if there is no such column.
    pub task: &'a [u8],
    pub cpu: Option<u32>,
    /// Nanoseconds on the clock of the trace.
    pub at_ns: Option<i64>,
    /// Blanks before the text: two for each enclosing function.
    pub indent: u32,
    /// The event was in an interrupt, by the column of flags.
    pub in_interrupt: bool,
}

/// Reads a line of either form.
pub(super) fn said<'a>(line: &'a [u8]) -> Said<'a> {
    // A task may have any name, for example ` => 5) | f() {`: if its name has a column of its own, the column decides and not the name.
    if let Some(event) = event_with_padded_task(line) {
        return event;
    }
    let text = trim_start(line);
    let or = |said: Said<'a>, other: fn(&'a [u8]) -> Said<'a>, text: &'a [u8]| match said {
        Said::Unknown => other(text),
        said => said,
    };
    if let Some(no_event) = without_columns(text) {
        // What follows a line break in the name of a task is at the start of a line.
        return match memchr::memchr(b'[', text).map(|_| event_line(text)) {
            None | Some(Said::Unknown) => no_event,
            Some(event) => event,
        };
    }
    // The separator of columns is a bar; events in columns of their own have none before their name.
    match memchr::memchr2(b'|', b'[', line) {
        Some(at) if line[at] == b'|' => or(
            or(or(graph(line), latency_line, text), event_line, text),
            switch,
            text,
        ),
        Some(_) => or(
            or(or(event_line(text), latency_line, text), graph, line),
            switch,
            text,
        ),
        None => or(latency_line(text), switch, text),
    }
}

/// What a line says, if its beginning tells.
fn without_columns(text: &[u8]) -> Option<Said<'_>> {
    Some(match text.first() {
        None => Said::Nothing,
        Some(b'#') => heading(text),
        Some(b'-') if text.starts_with(b"-------") => Said::Nothing,
        Some(b'C') if text.starts_with(b"CPU:") || text.starts_with(b"CPU ") => lost(text),
        Some(b'[') if memchr::memmem::find(text, b"EVENTS").is_some() => lost(text),
        Some(b'=') if text.starts_with(b"=> ") => Said::Frame(frame(&text[3..])),
        Some(b'c') if text.starts_with(b"cpus=") => Said::Nothing,
        Some(b'v') if text.starts_with(b"version =") => Said::Nothing,
        _ => return None,
    })
}

/// `vfs_read`, and `vfs_read (ffffffff816ba971)` as trace-cmd has it.
fn frame(text: &[u8]) -> &[u8] {
    let text = text.trim_ascii();
    let Some(open) = text
        .strip_suffix(b")")
        .and_then(|_| memchr::memmem::rfind(text, b" ("))
    else {
        return text;
    };
    match text[open + 2..text.len() - 1].iter().all(u8::is_ascii_hexdigit) {
        true => &text[..open],
        false => text,
    }
}

/// Lines that begin with `#`.
fn heading(text: &[u8]) -> Said<'_> {
    if let Some(own) = text.strip_prefix(OWN)
        && let Some(colon) = memchr::memmem::find(own, b": ")
    {
        return Said::Own {
            key: &own[..colon],
            value: own[colon + 2..].trim_ascii(),
        };
    }
    // `##### CPU 1 buffer started ####`: what came before on this CPU was overwritten.
    match text.strip_prefix(b"##### CPU ") {
        Some(rest) => Said::Lost {
            cpu: number(rest),
            events: None,
        },
        None => Said::Nothing,
    }
}

/// `CPU:1 [LOST 13 EVENTS]`, `CPU:1 [13 EVENTS DROPPED]` of trace-cmd, `CPU 1: lost 13 events`, `CPU 0 is empty`.
fn lost(text: &[u8]) -> Said<'_> {
    let cpu = text
        .strip_prefix(b"CPU")
        .and_then(|rest| number(&rest[1.min(rest.len())..]));
    let behind = [&b"LOST "[..], b"lost "]
        .iter()
        .find_map(|word| memchr::memmem::find(text, word).map(|at| at + word.len()));
    // The number comes before or after the word, or is not known.
    let number_at = match behind {
        Some(at) => at,
        None if memchr::memmem::find(text, b"DROPPED]").is_some() => {
            memchr::memchr(b'[', text).map_or(text.len(), |open| open + 1)
        }
        None => return Said::Nothing,
    };
    Said::Lost {
        cpu,
        events: number(&text[number_at..]).map(u64::from),
    }
}

/// ` 1)     tb-143     =>    <idle>-0`
fn switch(text: &[u8]) -> Said<'_> {
    let (cpu, tasks) = match cpu_column(text) {
        Some((cpu, tasks)) => (Some(cpu), tasks),
        None => (None, text),
    };
    let between = |arrow: usize| (tasks[..arrow].trim_ascii(), &tasks[arrow + 4..]);
    let parties = padded_task(tasks, b" => ").or_else(|| memchr::memmem::find(tasks, b" => ").map(between));
    match parties {
        Some((from, to)) => Said::Switch {
            cpu,
            from,
            to: to.trim_ascii(),
        },
        None => Said::Unknown,
    }
}

/// The task in the function_graph column after the CPU, and what follows its separator: 14 characters, or more if name (cut to 7) and
/// number need them (`print_graph_proc` in kernel/trace/trace_functions_graph.c). The name may contain separators.
fn padded_task<'a>(behind: &'a [u8], separator: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    const WIDTHS: std::ops::RangeInclusive<usize> = 14..=18;
    let field = behind.strip_prefix(b" ")?;
    let end = WIDTHS.into_iter().find(|&width| {
        let from_here = field.get(width..);
        from_here.is_some_and(|text| text.starts_with(separator))
    })?;
    let task = field[..end].trim_ascii();
    pid_of(task)?;
    Some((task, &field[end + separator.len()..]))
}

/// A line of the function_graph tracer.
fn graph(line: &[u8]) -> Said<'_> {
    let mut place = Place {
        task: b"",
        cpu: None,
        at_ns: None,
        indent: 0,
        in_interrupt: false,
    };
    let mut ns = None;
    let mut rest = line;
    // At most: time, CPU and task, flags, duration.
    for _ in 0..4 {
        if let Some((cpu, behind)) = cpu_column(trim_start(rest))
            && let Some((task, behind)) = padded_task(behind, b" |")
        {
            (place.cpu, place.task, rest) = (Some(cpu), task, behind);
            if memchr::memchr(b'|', rest).is_none() {
                break;
            }
            continue;
        }
        let Some(bar) = memchr::memchr(b'|', rest) else {
            return Said::Unknown;
        };
        let column = rest[..bar].trim_ascii();
        rest = &rest[bar + 1..];
        let mut was_last = false;
        if let Some(time) = seconds(column) {
            place.at_ns = Some(time);
        } else {
            let mut column = column;
            if let Some((cpu, behind)) = cpu_column(column) {
                place.cpu = Some(cpu);
                column = trim_start(behind);
                // Without a task column, this is the duration.
                was_last = column.is_empty();
            }
            if column.is_empty() {
                was_last = true;
            } else if let Some(duration) = duration(column) {
                ns = Some(duration);
                was_last = true;
            } else if column.ends_with(b"=>") || column.ends_with(b"<==========") {
                return Said::Nothing;
            } else if has_pid(column) {
                place.task = column;
            } else if flags(column) {
                place.in_interrupt = in_interrupt(column);
            } else {
                return Said::Unknown;
            }
        }
        // What follows the duration is the text, bars in it included.
        if was_last || rest.len() < 2 || memchr::memchr(b'|', rest).is_none() {
            return text_of_graph(rest, place, ns);
        }
    }
    text_of_graph(rest, place, ns)
}

pub(super) fn text_of_graph<'a>(rest: &'a [u8], mut place: Place<'a>, ns: Option<u64>) -> Said<'a> {
    let text = trim_start(rest);
    place.indent = (rest.len() - text.len()) as u32;
    let text = text.trim_ascii_end();
    if let Some(behind) = text.strip_prefix(b"}") {
        let name = comment(trim_start(behind)).unwrap_or(b"");
        return Said::Close { place, name, ns };
    }
    if let Some(inside) = comment(text) {
        return match memchr::memchr(b':', inside) {
            Some(colon) => Said::Event {
                place,
                name: &inside[..colon],
                arguments: trim_start(&inside[colon + 1..]),
            },
            // A comment that was written into trace_marker.
            None => Said::Nothing,
        };
    }
    // Arguments of the function, and comments after it (`/* ret=0x0 */`), are skipped.
    let name = match memchr::memchr(b'(', text) {
        Some(open) if open > 0 => text[..open].trim_ascii_end(),
        _ => return Said::Unknown,
    };
    let body = match memchr::memmem::rfind(text, b" /*") {
        Some(at) if at > name.len() => text[..at].trim_ascii_end(),
        _ => text,
    };
    match body.last() {
        Some(b'{') => Said::Entry { place, name },
        Some(b';') => Said::Leaf { place, name, ns },
        // Truncated.
        _ => Said::Unknown,
    }
}

/// The text between `/*` and `*/`.
fn comment(text: &[u8]) -> Option<&[u8]> {
    let inside = text.strip_prefix(b"/*")?;
    let inside = inside.strip_suffix(b"*/").unwrap_or(inside).trim_ascii();
    Some(inside)
}

/// `20.949637`: seconds as nanoseconds. A number without a point is not a time.
pub(super) fn seconds(text: &[u8]) -> Option<i64> {
    memchr::memchr(b'.', text).and_then(|_| billionths(text))
}

/// `+ 76.655 us`: microseconds, after a mark for long ones.
pub(super) fn duration(text: &[u8]) -> Option<u64> {
    let text = text.strip_suffix(b"us")?.trim_ascii();
    let text = match text.first()? {
        b'+' | b'!' | b'#' | b'*' | b'@' | b'$' => trim_start(&text[1..]),
        _ => text,
    };
    let (whole, fraction) = match memchr::memchr(b'.', text) {
        Some(point) => (&text[..point], &text[point + 1..]),
        None => (text, &b""[..]),
    };
    let whole = decimal(whole)?.checked_mul(1_000)?;
    match fraction.len() {
        0 => Some(whole),
        digits @ 1..=3 => whole.checked_add(decimal(fraction)? * 10u64.pow(3 - digits as u32)),
        _ => None,
    }
}

/// ` 1) …`: the CPU, and what follows it.
fn cpu_column(text: &[u8]) -> Option<(u32, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let behind = text.get(digits..)?.strip_prefix(b")")?;
    Some((u32::try_from(decimal(&text[..digits])?).ok()?, behind))
}

/// Whether text ends with the number of a task, `NAME-PID`. perf prints `:-1 -1` for a task that is gone: that is not a name.
pub(super) fn has_pid(text: &[u8]) -> bool {
    const NOBODY: &[u8] = b":-1";
    if text.trim_ascii_start().starts_with(NOBODY) && text.ends_with(b" -1") {
        return false;
    }
    memchr::memrchr(b'-', text).is_some_and(|dash| dash > 0 && decimal(&text[dash + 1..]).is_some())
}

/// `d.h2.`, and `d..1.` with blanks and marks of the latency format.
pub(super) fn flags(text: &[u8]) -> bool {
    text.len() <= 12
        && text
            .iter()
            .all(|byte| b"dbDBNnpPlLHhZzsS.0123456789 X".contains(byte))
}

/// Third of the flags: in a hard or soft interrupt.
pub(super) fn in_interrupt(flags: &[u8]) -> bool {
    matches!(flags.get(2), Some(b'h' | b'H' | b's' | b'z' | b'Z'))
}

/// The digits at the beginning of a text.
pub(super) fn number(text: &[u8]) -> Option<u32> {
    let text = trim_start(text);
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    u32::try_from(decimal(&text[..digits])?).ok()
}

/// Number of a task: `COMM-PID`, where the name may have dashes.
pub(super) fn pid_of(task: &[u8]) -> Option<u32> {
    let dash = memchr::memrchr(b'-', task)?;
    u32::try_from(decimal(&task[dash + 1..])?).ok()
}

/// Name of a task.
pub(super) fn comm_of(task: &[u8]) -> &[u8] {
    memchr::memrchr(b'-', task).map_or(task, |dash| &task[..dash])
}

/// The value after `key=` in the arguments of an event.
pub(super) fn argument<'a>(arguments: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let mut from = 0;
    while let Some(at) = memchr::memmem::find(&arguments[from..], key).map(|at| from + at) {
        let behind = &arguments[at + key.len()..];
        let begins = at == 0 || arguments[at - 1] == b' ';
        if begins && behind.first() == Some(&b'=') {
            let end = memchr::memchr(b' ', behind).unwrap_or(behind.len());
            return Some(&behind[1..end]);
        }
        from = at + key.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place<'a>(task: &'a str, cpu: u32, at_us: i64, indent: u32) -> Place<'a> {
        Place {
            task: task.as_bytes(),
            cpu: Some(cpu),
            at_ns: (at_us > 0).then_some(at_us * 1_000),
            indent,
            in_interrupt: false,
        }
    }

    #[test]
    fn lines_of_the_function_graph_tracer() {
        let read = |line: &'static str| said(line.as_bytes());
        assert_eq!(
            read("   20.949637 |   1)     tb-143     |               |  __x64_sys_nanosleep() {"),
            Said::Entry {
                place: place("tb-143", 1, 20_949_637, 2),
                name: b"__x64_sys_nanosleep"
            }
        );
        assert_eq!(
            read("   20.950110 |   1)     tb-143     | + 76.655 us   |    get_timespec64();"),
            Said::Leaf {
                place: place("tb-143", 1, 20_950_110, 4),
                name: b"get_timespec64",
                ns: Some(76_655)
            }
        );
        assert_eq!(
            read(
                "   33.141807 |   1)     tb-230     | + 79.042 us   |      } /* virtblk_add_req [virtio_blk] */"
            ),
            Said::Close {
                place: place("tb-230", 1, 33_141_807, 6),
                name: b"virtblk_add_req [virtio_blk]",
                ns: Some(79_042)
            }
        );
        assert_eq!(
            read(" 0)   4.177 us    |      __hrtimer_init();"),
            Said::Leaf {
                place: place("", 0, 0, 6),
                name: b"__hrtimer_init",
                ns: Some(4_177)
            }
        );
        assert_eq!(
            read(" 0)               |  do_nanosleep() {"),
            Said::Entry {
                place: place("", 0, 0, 2),
                name: b"do_nanosleep"
            }
        );
        assert_eq!(
            read(
                "   1.000001 |  12)  kworker/u8:2-ev-77  |  d.h1. | $ 1234567 us |  vp_notify [virtio_pci](vq=0x1); /* ret=0x1 */"
            ),
            Said::Leaf {
                place: Place {
                    in_interrupt: true,
                    ..place("kworker/u8:2-ev-77", 12, 1_000_001, 2)
                },
                name: b"vp_notify [virtio_pci]",
                ns: Some(1_234_567_000)
            }
        );
        assert_eq!(
            read(
                "   1.000001 |   0)    <idle>-0    |               |  /* mm_page_alloc: order=0 gfp_flags=A|B */"
            ),
            Said::Event {
                place: place("<idle>-0", 0, 1_000_001, 2),
                name: b"mm_page_alloc",
                arguments: b"order=0 gfp_flags=A|B"
            }
        );
        assert_eq!(
            read(" 0)    <idle>-0    =>     tb-366    "),
            Said::Switch {
                cpu: Some(0),
                from: b"<idle>-0",
                to: b"tb-366"
            }
        );
        for nothing in [
            "",
            "# tracer: function_graph",
            " ------------------------------------------",
            " 1)   ==========> |",
        ] {
            assert_eq!(read(nothing), Said::Nothing, "{nothing}");
        }
        for unknown in [
            "garbage",
            "a | b",
            "   20.949637 |   1)     tb-143     | + 76.6",
            "   20.949637 |   1)     tb-143     |               |  __x64_sys_nano",
        ] {
            assert_eq!(read(unknown), Said::Unknown, "{unknown}");
        }
    }

    /// Names as long as the kernel allows: 15 characters, of which function_graph shows 7.
    #[test]
    fn a_task_may_call_itself_anything() {
        for name in [
            " => 5) | f() {",
            "=> vfs_read",
            "a | b",
            "d | x() {",
            "# dbtime lost:",
            "# tracer: nop",
            "CPU:1 [LOST 5 ",
            "cpus=2",
            "-------",
            "a-1 [000] 1.0: ",
            "a-1 [000] 1.0:",
            "x[000] 1.0: y:",
            "/* } */ |  |",
            "",
        ] {
            let line = format!("{name:>16}-17670   [001] .....  3038.061349: sys_enter: NR 17 (3, 7f, 2000)");
            let task = format!("{name}-17670");
            let Said::Event {
                place: at,
                name: event,
                arguments,
            } = said(line.as_bytes())
            else {
                panic!("{line}: {:?}", said(line.as_bytes()));
            };
            assert_eq!(at.task, trim_start(task.as_bytes()), "{line}");
            assert_eq!((at.cpu, at.at_ns), (Some(1), Some(3_038_061_349_000)), "{line}");
            assert_eq!(
                (event, arguments),
                (&b"sys_enter"[..], &b"NR 17 (3, 7f, 2000)"[..]),
                "{line}"
            );

            let cut = &name[..name.len().min(7)];
            let spaces = 14 - cut.len() - 4;
            let (before, after) = (spaces / 2, spaces - spaces / 2);
            let task = format!("{cut}-143");
            let line = format!(
                "   20.949637 |   1) {:before$}{task}{:after$} |               |  __x64_sys_nanosleep() {{",
                "", ""
            );
            let Said::Entry {
                place: at,
                name: function,
            } = said(line.as_bytes())
            else {
                panic!("{line}: {:?}", said(line.as_bytes()));
            };
            assert_eq!(at.task, task.as_bytes().trim_ascii(), "{line}");
            assert_eq!(function, b"__x64_sys_nanosleep");
            let line = format!(" 1) {:before$}{task}{:after$} =>    <idle>-0    ", "", "");
            let expected = Said::Switch {
                cpu: Some(1),
                from: task.as_bytes().trim_ascii(),
                to: b"<idle>-0",
            };
            assert_eq!(said(line.as_bytes()), expected, "{line}");
        }
        // The name was broken by a line feed: the number still follows it.
        for rest in ["=> f", "# dbtime lost:", "a-1 [000] 1.0:", "a-1 [000] 1.: "] {
            let line = format!("{rest}-17670   [001] .....  3038.061349: sys_enter: NR 17 (3, 7f, 2000)");
            match said(line.as_bytes()) {
                Said::Event { place, .. } => assert_eq!(pid_of(place.task), Some(17670), "{line}"),
                other => panic!("{line}: {other:?}"),
            }
        }
    }

    #[test]
    fn what_was_lost_is_told() {
        let lost = |cpu, events| Said::Lost { cpu, events };
        assert_eq!(said(b"##### CPU 1 buffer started ####"), lost(Some(1), None));
        assert_eq!(said(b"CPU:1 [LOST 1234 EVENTS]"), lost(Some(1), Some(1234)));
        assert_eq!(said(b"CPU:0 [LOST EVENTS]"), lost(Some(0), None));
        assert_eq!(said(b"CPU 0 is empty"), Said::Nothing);
    }

    #[test]
    fn lines_of_events_and_of_trace_cmd() {
        let at = |task: &'static str, cpu, us| place(task, cpu, us, 0);
        assert_eq!(
            said(b"              tb-17670   [001] .....  3038.061349: sys_enter: NR 17 (3, 7f3c8d200000, 2000, 0, 0, 0)"),
            Said::Event {
                place: at("tb-17670", 1, 3_038_061_349),
                name: b"sys_enter",
                arguments: b"NR 17 (3, 7f3c8d200000, 2000, 0, 0, 0)"
            }
        );
        assert_eq!(
            said(b"            bash-17665   [001] d..3.  3038.945728: <stack trace>"),
            Said::StackBegins {
                place: at("bash-17665", 1, 3_038_945_728),
                is_whole: true
            }
        );
        assert_eq!(said(b" => do_syscall_64"), Said::Frame(b"do_syscall_64"));
        assert_eq!(
            said(b"  my [3] task-9 (    9) [000]   12.000001: funcgraph_entry:   ! 104.177 us   |    __hrtimer_init();"),
            Said::Leaf {
                place: place("my [3] task-9", 0, 12_000_001, 4),
                name: b"__hrtimer_init",
                ns: Some(104_177)
            }
        );
        assert_eq!(
            said(b"  tb-9     [000]   12.000001: funcgraph_exit:    + 66.763 us   |        }"),
            Said::Close {
                place: place("tb-9", 0, 12_000_001, 8),
                name: b"",
                ns: Some(66_763)
            }
        );
    }

    #[test]
    fn arguments_are_found_by_their_whole_key() {
        let of = b"prev_comm=a prev_pid=7 next_pid=9 pid=1";
        assert_eq!(argument(of, b"pid"), Some(&b"1"[..]));
        assert_eq!(argument(of, b"next_pid"), Some(&b"9"[..]));
        assert_eq!(argument(of, b"prio"), None);
    }
}
