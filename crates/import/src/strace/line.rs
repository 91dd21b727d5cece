//! One line of strace, taken apart.

use crate::text::{decimal, trim_start};

/// Process ids end here on 64-bit Linux (PID_MAX_LIMIT); larger numbers without a point are seconds.
const MAX_PID: u64 = 1 << 22;

/// A smaller number is not a time since 1970 that strace could have seen, but one since the previous call (-r).
const FIRST_EPOCH_NS: i64 = 100_000_000 * SECOND_NS;

const SECOND_NS: i64 = 1_000_000_000;

/// A time and its resolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Digits {
    pub ns: u64,
    /// Nanoseconds of one unit in the last digit: 1,000 for microseconds.
    pub unit_ns: u64,
}

/// When a call began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Time {
    /// Since 1970 (`-ttt`), nanoseconds.
    Epoch(i64),
    /// Since midnight, of whichever day and zone (`-t`, `-tt`), nanoseconds.
    Day(i64),
    /// Since the previous line (`-r`), nanoseconds.
    SinceLast(i64),
}

/// A line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// 0 = not given.
    pub pid: u32,
    pub time: Option<Time>,
    /// Nanoseconds of one unit in the last digit of `time`.
    pub unit_ns: u64,
    pub what: What<'a>,
}

/// What a line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What<'a> {
    /// A call from start to end.
    Call(Call<'a>),
    /// The start of a call; another task's line came before its end.
    Unfinished(&'a [u8]),
    /// The end of the call that is open for this task.
    Resumed(Call<'a>),
    Signal(&'a [u8]),
    /// The task has ended.
    Exit,
    /// strace's own messages, stacks (`-k`).
    Passed,
}

/// A call that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call<'a> {
    pub name: &'a [u8],
    /// It returned an error.
    pub is_error: bool,
    /// How long it took (`-T`).
    pub duration: Option<Digits>,
    /// First text in the arguments: the program of an execve.
    pub first_text: &'a [u8],
}

/// Parses a line; none if it is not one of strace.
pub(super) fn parse(text: &[u8]) -> Option<Line<'_>> {
    if is_own_word(text) {
        return Some(Line {
            pid: 0,
            time: None,
            unit_ns: 1,
            what: What::Passed,
        });
    }
    let (mut line, rest) = prefix(text);
    line.what = what(rest.trim_ascii_end())?;
    Some(line)
}

/// `strace: Process 17 attached`, `[ Process PID=17 runs in 32 bit mode. ]`, ` > /lib/libc.so.6(read+0x12) [0x1000]`
fn is_own_word(text: &[u8]) -> bool {
    let trimmed = trim_start(text);
    trimmed.starts_with(b"strace: ")
        || trimmed.starts_with(b"[ Process ")
        || trimmed.starts_with(b"Process ")
        || trimmed.starts_with(b"> ")
}

/// Process, time, instruction pointer and call number, if they are there.
fn prefix(text: &[u8]) -> (Line<'_>, &[u8]) {
    let mut line = Line {
        pid: 0,
        time: None,
        unit_ns: 1,
        what: What::Passed,
    };
    let mut rest = trim_start(text);
    loop {
        if let Some(inside) = rest.strip_prefix(b"[")
            && let Some(end) = memchr::memchr(b']', inside)
        {
            let word = &inside[..end];
            if let Some(pid) = word.strip_prefix(b"pid ") {
                line.pid = decimal(pid.trim_ascii())
                    .and_then(|pid| pid.try_into().ok())
                    .unwrap_or(0);
            } else if !word
                .iter()
                .all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b' ' | b'?'))
            {
                return (line, rest);
            }
            rest = trim_start(&inside[end + 1..]);
            continue;
        }
        if rest.starts_with(b"(+")
            && let Some(end) = memchr::memchr(b')', rest)
        {
            // What `-r` adds to another time is redundant.
            rest = trim_start(&rest[end + 1..]);
            continue;
        }
        let end = memchr::memchr2(b' ', b'\t', rest).unwrap_or(rest.len());
        let word = &rest[..end];
        match decimal(word) {
            Some(number) if number <= MAX_PID && line.pid == 0 && line.time.is_none() => {
                line.pid = u32::try_from(number).unwrap_or(0);
            }
            _ if line.time.is_some() => return (line, rest),
            _ => match time(word) {
                Some((time, unit_ns)) => (line.time, line.unit_ns) = (Some(time), unit_ns),
                None => return (line, rest),
            },
        }
        rest = trim_start(&rest[end..]);
    }
}

/// `1705456323.310986`, `17:52:03.310986`, `0.000123`
fn time(word: &[u8]) -> Option<(Time, u64)> {
    if let [h1, h2, b':', m1, m2, b':', seconds @ ..] = word {
        let hours = decimal(&[*h1, *h2]).filter(|hours| *hours < 24)?;
        let minutes = decimal(&[*m1, *m2]).filter(|minutes| *minutes < 60)?;
        let seconds = digits(seconds)?;
        let ns = (hours * 3_600 + minutes * 60) * 1_000_000_000 + seconds.ns;
        return Some((Time::Day(i64::try_from(ns).ok()?), seconds.unit_ns));
    }
    let digits = digits(word)?;
    let ns = i64::try_from(digits.ns).ok()?;
    let time = if ns < FIRST_EPOCH_NS {
        Time::SinceLast(ns)
    } else {
        Time::Epoch(ns)
    };
    Some((time, digits.unit_ns))
}

/// Seconds with any number of decimals up to nine.
pub(super) fn digits(text: &[u8]) -> Option<Digits> {
    let point = memchr::memchr(b'.', text);
    let (whole, decimals) = match point {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &b""[..]),
    };
    if decimals.len() > 9 || point.is_some() && decimals.is_empty() {
        return None;
    }
    let unit_ns = 10u64.pow(9 - decimals.len() as u32);
    let fraction = if decimals.is_empty() {
        0
    } else {
        decimal(decimals)?
    };
    let ns = decimal(whole)?
        .checked_mul(1_000_000_000)?
        .checked_add(fraction * unit_ns)?;
    Some(Digits { ns, unit_ns })
}

fn what(text: &[u8]) -> Option<What<'_>> {
    if let Some(signal) = text.strip_prefix(b"--- ") {
        let signal = signal.strip_prefix(b"stopped by ").unwrap_or(signal);
        let end = memchr::memchr(b' ', signal).unwrap_or(signal.len());
        return signal.starts_with(b"SIG").then(|| What::Signal(&signal[..end]));
    }
    if text.starts_with(b"+++ ") {
        return Some(What::Exit);
    }
    if let Some(resumed) = text.strip_prefix(b"<... ") {
        let end = memchr::memmem::find(resumed, b" resumed>")?;
        let rest = &resumed[end + b" resumed>".len()..];
        return match is_unfinished(rest) {
            // It was interrupted again, by the end of its process for instance.
            true => Some(What::Passed),
            false => ended(&resumed[..end], rest).map(What::Resumed),
        };
    }
    let name = name(text)?;
    let arguments = &text[name.len() + 1..];
    if is_unfinished(text) {
        return Some(What::Unfinished(name));
    }
    ended(name, arguments).map(What::Call)
}

fn is_unfinished(text: &[u8]) -> bool {
    text.ends_with(b"<unfinished ...>") || text.ends_with(b"<detached ...>")
}

/// The name of a call, before its parenthesis.
pub(super) fn name(text: &[u8]) -> Option<&[u8]> {
    let end = memchr::memchr(b'(', text)?;
    let name = &text[..end];
    let is_name = name
        .iter()
        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'_')
        && name.first().is_some_and(|byte| !byte.is_ascii_digit());
    (is_name && name.len() <= 64).then_some(name)
}

/// The result and the time of a call, given what follows its opening parenthesis.
fn ended<'a>(name: &'a [u8], text: &'a [u8]) -> Option<Call<'a>> {
    let (rest, duration) = duration(text);
    let result = result(rest)?;
    let first_text = memchr::memchr(b'"', text)
        .map(|at| &text[at + 1..])
        .and_then(|text| Some(&text[..memchr::memchr(b'"', text)?]))
        .unwrap_or_default();
    Some(Call {
        name,
        is_error: result.starts_with(b"-1 E") || result.starts_with(b"? E"),
        duration,
        first_text,
    })
}

/// Cuts ` <0.000123>` off the end.
fn duration(text: &[u8]) -> (&[u8], Option<Digits>) {
    let time = || {
        let inside = text.strip_suffix(b">")?;
        let at = memchr::memrchr(b'<', inside)?;
        let digits = digits(&inside[at + 1..])?;
        Some((&text[..at], Some(digits)))
    };
    time().unwrap_or((text, None))
}

/// What follows the last `) =`. Texts in the arguments may have others before it.
pub(super) fn result(text: &[u8]) -> Option<&[u8]> {
    let mut end = text.len();
    loop {
        let at = memchr::memmem::rfind(&text[..end], b"= ")?;
        let before = text[..at].trim_ascii_end();
        if before.ends_with(b")") && before.len() < at {
            return Some(&text[at + 2..]);
        }
        end = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(text: &str) -> Call<'_> {
        match parse(text.as_bytes()).expect(text).what {
            What::Call(call) | What::Resumed(call) => call,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn every_form_of_process_and_time_is_read() {
        let us = 1_000;
        for (prefix, pid, time, unit_ns) in [
            ("", 0, None, 1),
            ("5390  ", 5390, None, 1),
            ("[pid  5390] ", 5390, None, 1),
            (
                "5390  1705456323.310986 ",
                5390,
                Some(Time::Epoch(1_705_456_323_310_986 * us)),
                1_000,
            ),
            (
                "1705456323 ",
                0,
                Some(Time::Epoch(1_705_456_323 * SECOND_NS)),
                1_000_000_000,
            ),
            (
                "[pid 17] 17:52:03.000001 ",
                17,
                Some(Time::Day((17 * 3600 + 52 * 60 + 3) * SECOND_NS + us)),
                1_000,
            ),
            ("00:00:09 ", 0, Some(Time::Day(9 * SECOND_NS)), 1_000_000_000),
            ("     0.000123 ", 0, Some(Time::SinceLast(123 * us)), 1_000),
            (
                "17:52:03 (+     0.000123) [00007f12ab] ",
                0,
                Some(Time::Day((17 * 3600 + 52 * 60 + 3) * SECOND_NS)),
                1_000_000_000,
            ),
        ] {
            let text = format!("{prefix}read(3, \"\", 1) = 0");
            let line = parse(text.as_bytes()).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(
                (line.pid, line.time, line.unit_ns),
                (pid, time, unit_ns),
                "{text}"
            );
        }
    }

    #[test]
    fn results_and_times_are_those_at_the_end_of_the_line() {
        let plain = call(r#"write(1, ") = -1 EIO <0.5>", 15) = 15 <0.000021>"#);
        let us = |us: u64| {
            Some(Digits {
                ns: us * 1_000,
                unit_ns: 1_000,
            })
        };
        assert_eq!(
            (plain.name, plain.is_error, plain.duration),
            (&b"write"[..], false, us(21))
        );
        let failed = call("access(\"/etc/x\", R_OK)  = -1 ENOENT (No such file or directory) <0.000008>");
        assert_eq!((failed.is_error, failed.duration), (true, us(8)));
        assert_eq!(call("exit_group(0)   = ?").duration, None);
        assert!(
            call("nanosleep({tv_sec=1}, 0x7) = ? ERESTART_RESTARTBLOCK (Interrupted by signal)").is_error
        );
        assert_eq!(
            call("read(3, \"\", 8) = 0 <0.000000123>")
                .duration
                .expect("a time")
                .unit_ns,
            1
        );
        assert_eq!(
            call("<... futex resumed>)    = 0 <1.500000>").duration,
            us(1_500_000)
        );
        assert_eq!(
            call("execve(\"/bin/tb\", [\"tb\"], 0x7) = 0").first_text,
            b"/bin/tb"
        );
    }

    #[test]
    fn other_lines_are_told_apart() {
        let what = |text: &'static str| parse(text.as_bytes()).map(|line| line.what);
        assert_eq!(what("read(0,  <unfinished ...>"), Some(What::Unfinished(b"read")));
        assert_eq!(
            what("9 --- SIGALRM {si_signo=SIGALRM, si_code=SI_KERNEL} ---"),
            Some(What::Signal(b"SIGALRM"))
        );
        assert_eq!(what("--- stopped by SIGSTOP ---"), Some(What::Signal(b"SIGSTOP")));
        assert_eq!(what("+++ killed by SIGKILL +++"), Some(What::Exit));
        assert_eq!(what("strace: Process 17 attached"), Some(What::Passed));
        for unknown in [
            "",
            "hello",
            "read(3",
            "read(3, \"\"",
            "Read(3) = 0",
            "f() { return 1; }",
        ] {
            assert_eq!(what(unknown), None, "{unknown}");
        }
    }
}
