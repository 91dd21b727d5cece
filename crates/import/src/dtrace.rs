//! Stack aggregations of DTrace.
//!
//! # Format
//! Frames, leaf first, `` module`function+0xoffset `` or an address, indented; perhaps a blank line between two stacks of
//! one key (`@[stack(), ustack()]`); the value on a line of its own; a blank line. One-line keys:
//! `` module`function    value ``. Headings (`CPU ID FUNCTION:NAME`) are skipped.
//!
//! # Rows
//! One session per file. DTrace does not say what was counted, which frames are the kernel's, what the database waited for, or when: rows
//! have counts, the state `unknown`, the wait `not recorded`, and all frames as user frames with their module.

use std::io::Read;
use std::path::Path;

use dbtime_model::recording::{Clock, Unit};
use dbtime_model::{State, Wait};

use crate::import::unknown_line;
use crate::lines::Line;
use crate::samples::{FrameNumber, Place, Process, Samples, Weight, sampled};
use crate::text::{decimal, without_offset};
use crate::{Import, ImportError, Importer, Lines};

/// Separates module and function.
const TICK: u8 = b'`';

/// The importer of this format.
#[derive(Debug)]
pub(crate) struct Dtrace;

impl Importer for Dtrace {
    fn name(&self) -> &'static str {
        "stack aggregations of DTrace"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let mut lines = head.split(|byte| *byte == b'\n');
        lines.any(|line| {
            let indented = line.starts_with(b"  ");
            let text = line.trim_ascii();
            let tick = memchr::memchr(TICK, text);
            // Folded stacks have ticks too, but not one frame per line.
            indented && tick.is_some_and(|at| at > 0 && at + 1 < text.len()) && !text.contains(&b';')
        })
    }

    fn import(
        &self,
        lines: &mut Lines<Box<dyn Read + '_>>,
        path: &Path,
        into: &mut Import,
    ) -> Result<(), ImportError> {
        let mut file = crate::import::file(path);
        let mut samples = Samples::new();
        let session = samples.process(Process::named(b"", 0));
        let wait = samples.wait(Wait::not_recorded());
        let mut stack: Vec<FrameNumber> = Vec::new();
        while let Some(line) = lines.next_line() {
            // The last line may be truncated: a number could have more digits.
            if !line.ended {
                continue;
            }
            let count = match read(line) {
                Meaning::Nothing => continue,
                Meaning::Unknown => {
                    unknown_line(&mut file, line.number, line.bytes);
                    continue;
                }
                Meaning::Frame(symbol, module) => {
                    stack.push(samples.frame(symbol, module));
                    continue;
                }
                Meaning::FrameAndCount(symbol, module, count) if stack.is_empty() => {
                    stack.push(samples.frame(symbol, module));
                    count
                }
                Meaning::FrameAndCount(..) => {
                    let (symbol, module) = frame(line.bytes.trim_ascii());
                    stack.push(samples.frame(symbol, module));
                    continue;
                }
                Meaning::Count(_) if stack.is_empty() => {
                    unknown_line(&mut file, line.number, line.bytes);
                    continue;
                }
                Meaning::Count(count) => count,
            };
            let place = Place {
                session,
                second: 0,
                wait,
                state: State::Unknown,
                user: samples.stack(&stack),
                kernel: 0,
            };
            samples.add(place, Weight::counts(count, into.options()));
            stack.clear();
        }
        file.lines = lines.number();
        if !stack.is_empty() {
            into.problem(format!(
                "{}:{}: the last stack is cut off and left out",
                path.display(),
                file.lines
            ));
        }
        let measure = sampled(Unit::Counts, Clock::None, into.options());
        samples.finish(measure, file, into);
        Ok(())
    }
}

/// What a line is.
#[derive(Debug, PartialEq, Eq)]
enum Meaning<'a> {
    Nothing,
    Unknown,
    /// Function and module.
    Frame(&'a [u8], &'a [u8]),
    FrameAndCount(&'a [u8], &'a [u8], u64),
    Count(u64),
}

fn read(line: Line<'_>) -> Meaning<'_> {
    let text = line.bytes.trim_ascii();
    if text.is_empty() || text.starts_with(b"CPU ") || text.starts_with(b"dtrace:") || is_probe(text) {
        return Meaning::Nothing;
    }
    if let Some(count) = decimal(text) {
        return Meaning::Count(count);
    }
    if !matches!(line.bytes.first(), Some(b' ' | b'\t')) {
        return Meaning::Unknown;
    }
    let last = memchr::memrchr2(b' ', b'\t', text);
    match last.and_then(|at| Some((at, decimal(&text[at + 1..])?))) {
        Some((at, count)) => {
            let (symbol, module) = frame(text[..at].trim_ascii());
            Meaning::FrameAndCount(symbol, module, count)
        }
        None => {
            let (symbol, module) = frame(text);
            Meaning::Frame(symbol, module)
        }
    }
}

/// `` module`function+0xoffset `` as function and module.
fn frame(text: &[u8]) -> (&[u8], &[u8]) {
    let text = without_offset(text).0;
    match memchr::memchr(TICK, text) {
        Some(tick) => (&text[tick + 1..], &text[..tick]),
        None => (text, b""),
    }
}

/// `  0  64091                        :tick-60s`
fn is_probe(text: &[u8]) -> bool {
    let mut words = text
        .split(|byte| matches!(byte, b' ' | b'\t'))
        .filter(|word| !word.is_empty());
    let mut number = || words.next().is_some_and(|word| decimal(word).is_some());
    number() && number() && words.next().is_some_and(|word| word.contains(&b':'))
}
