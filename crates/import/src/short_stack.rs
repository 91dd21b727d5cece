//! Dumps of `oradebug short_stack`: `ksedsts()+380<-ksdxfstk()+54<-…`, leaf first, one sample per line.
//!
//! What comes before `sspuser()`/`__sighandler()` is Oracle's own dumping: the signal arrived in the frame after `__sighandler()`. Lines of
//! SQL*Plus around the dumps (prompts, `Statement processed.`) are skipped.
//!
//! # Rows
//! One session per file. A dump has neither wait nor state: the wait is `not recorded`, the state `unknown`. Rows count samples, unless the
//! caller knows how far apart they are. Offsets are left out: they are those of the instruction in its function, for which a frame has no
//! field.

use std::io::Read;
use std::path::Path;

use dbtime_model::recording::{Clock, Unit};
use dbtime_model::{State, Wait};

use crate::import::unknown_line;
use crate::lines::Line;
use crate::samples::{Place, Process, Samples, Weight, sampled};
use crate::text::without_offset;
use crate::{Import, ImportError, Importer, Lines};

/// Separates two frames.
const ARROW: &[u8] = b"<-";

/// Frames before this one belong to the dump.
const SIGNAL_HANDLER: &[u8] = b"__sighandler";

/// Lines of SQL*Plus that are skipped.
const PASSED: [&[u8]; 5] = [
    b"Statement processed.",
    b"Oracle pid:",
    b"oradebug ",
    b"Process ",
    b"Connected",
];

/// The importer of this format.
#[derive(Debug)]
pub(crate) struct ShortStack;

impl Importer for ShortStack {
    fn name(&self) -> &'static str {
        "dumps of oradebug short_stack"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let mut lines = head.split(|byte| *byte == b'\n');
        lines.any(|line| {
            let line = without_prompt(line.trim_ascii());
            let mut frames = frames(line);
            frames.next().is_some_and(|frame| frame.1) && frames.next().is_some_and(|frame| frame.1)
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
        let session = samples.process(Process::oracle(path));
        let wait = samples.wait(Wait::not_recorded());
        let mut stack = Vec::new();
        while let Some(line) = lines.next_line() {
            let text = without_prompt(line.bytes.trim_ascii());
            if text.is_empty() || PASSED.iter().any(|known| text.starts_with(known)) {
                continue;
            }
            if !is_dump(text, line) {
                unknown_line(&mut file, line.number, line.bytes);
                continue;
            }
            stack.clear();
            for (symbol, _) in frames(text) {
                if symbol == SIGNAL_HANDLER {
                    stack.clear();
                } else {
                    stack.push(samples.frame(symbol, b"oracle"));
                }
            }
            let place = Place {
                session,
                second: 0,
                wait,
                state: State::Unknown,
                user: samples.stack(&stack),
                kernel: 0,
            };
            samples.add(place, Weight::samples(1, into.options()));
        }
        file.lines = lines.number();
        into.database("Oracle Database", "");
        let measure = sampled(Unit::Samples, Clock::None, into.options());
        samples.finish(measure, file, into);
        Ok(())
    }
}

/// A last line without its end may be truncated within a name, so it does not count as a dump.
fn is_dump(text: &[u8], line: Line<'_>) -> bool {
    line.ended && frames(text).all(|(symbol, has_offset)| has_offset && !symbol.is_empty())
}

/// Names of a dump, leaf first, without parentheses, and whether an offset followed.
fn frames(text: &[u8]) -> impl Iterator<Item = (&[u8], bool)> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let (frame, behind) = match memchr::memmem::find(text, ARROW) {
            Some(at) => (&text[..at], Some(&text[at + ARROW.len()..])),
            None => (text, None),
        };
        rest = behind;
        let (name, has_offset) = without_offset(frame.trim_ascii());
        match name.strip_suffix(b"()") {
            Some(symbol) => Some((symbol, has_offset || symbol == SIGNAL_HANDLER)),
            None => Some((name, false)),
        }
    })
}

/// Drops leading prompts (`SQL> `).
fn without_prompt(line: &[u8]) -> &[u8] {
    let mut line = line;
    while let Some(rest) = line.strip_prefix(b"SQL>") {
        line = rest.trim_ascii_start();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_is_names_with_offsets() {
        let found: Vec<_> = frames(b"ksedsts()+380<-sspuser()+112<-__sighandler()<-sskgpwwait()+1").collect();
        assert_eq!(
            found,
            [
                (&b"ksedsts"[..], true),
                (&b"sspuser"[..], true),
                (&b"__sighandler"[..], true),
                (&b"sskgpwwait"[..], true)
            ]
        );
        assert!(ShortStack.detect(b"SQL> oradebug short_stack\nSQL> a()+1<-b()+2\n"));
        for other in ["a<-b", "a()+1", "x<-y()+2", "if (a<-b) c()+1"] {
            assert!(!ShortStack.detect(other.as_bytes()), "{other}");
        }
    }
}
