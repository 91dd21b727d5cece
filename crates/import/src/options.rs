//! What the user knows and the files do not say.

use std::num::NonZeroUsize;

use crate::EventNames;

/// How files are read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Time that one sample (or count) stands for, nanoseconds, if the file does not say.
    pub interval_ns: Option<u64>,
    /// Names of the numbers of Oracle's wait events.
    pub event_names: EventNames,
    /// The event to read of a `perf script` file with several; by default, the first.
    pub event: Option<String>,
    /// The calls to read of a kernel trace.
    pub calls: CallOptions,
    /// Files of one session are shown next to each other: waits and system calls are also kept as spans, and the time of system call
    /// traces, which is the same time once more, is left out of `activity`.
    pub keeps_spans: bool,
    /// Single seconds are not needed: an importer may sum over all of them. I/O on database files stays in its seconds.
    pub summed: bool,
    /// Values of bind variables are kept. They are application data, so only on request.
    pub binds: bool,
    /// Most threads that read; by default, as many as there are CPUs.
    pub threads: Option<NonZeroUsize>,
}

impl Options {
    /// Threads that may read.
    pub(crate) fn threads(&self) -> usize {
        let cpus = || std::thread::available_parallelism().ok();
        self.threads.or_else(cpus).map_or(1, NonZeroUsize::get)
    }
}

/// Which calls of a kernel trace are read; by default, all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallOptions {
    /// Those of this system call (`pread64`), and nothing else that tasks did.
    pub name: Option<String>,
    /// Those made in this wait event: `Class:Event`, or either of the two.
    pub wait: Option<String>,
    /// The first ones, at most this many.
    pub most: Option<u64>,
}

/// Parses a time as typed: `10ms`, `1us`, `2.5 s`, `500` (milliseconds). Returns nanoseconds.
///
/// # Errors
/// It is not a time, or not more than zero; the message says which forms are understood.
pub fn parse_interval(text: &str) -> Result<u64, String> {
    let wrong =
        || format!("'{text}' is not the time of a sample: give a number with ns, us, ms or s, as in 10ms");
    let trimmed = text.trim();
    let number = trimmed.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit_ns = match &trimmed[number.len()..] {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" | "" => 1e6,
        "s" => 1e9,
        _ => return Err(wrong()),
    };
    let number = number.trim_end();
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return Err(wrong());
    }
    let ns = (number.parse::<f64>().map_err(|_| wrong())? * unit_ns).round();
    // At most a day: longer ones are typing errors.
    if (1.0..=86_400e9).contains(&ns) {
        Ok(ns as u64)
    } else {
        Err(wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_a_number_with_a_unit_and_milliseconds_without() {
        assert_eq!(parse_interval("500"), Ok(500_000_000));
        assert_eq!(parse_interval("10ms"), Ok(10_000_000));
        assert_eq!(parse_interval(" 1 us "), Ok(1_000));
        assert_eq!(parse_interval("1ns"), Ok(1));
        assert_eq!(parse_interval("0.5s"), Ok(500_000_000));
        for wrong in [
            "", "0", "ms", "-1", "1e9", "10 m", "inf", "1.2.3", "0.1ns", "9999999s",
        ] {
            assert!(parse_interval(wrong).is_err(), "{wrong}");
        }
    }
}
