//! Stacks as `profile` and `offcputime` of bcc and libbpf-tools print them.
//!
//! # Format
//! Frames, leaf first, indented by four blanks, kernel before user, perhaps a line `--` between the two (`-d`); then
//! `    -                COMM (PID)`; then the value, indented by eight; then a blank line. The heading, if there is one, says what the
//! value is: `Sampling at 49 Hertz …` samples, `Tracing off-CPU time (us) …` microseconds. With `-f` the tools print folded stacks, which
//! say neither: they are read as such.
//!
//! # Rows
//! A session is a task. Samples of `profile` are on a CPU, mode not known; off-CPU time has the state `unknown`, because it includes the
//! run queue, and is measured, so `exact`. Without a heading, it is not known what the values are: rows have counts. If no line separates
//! kernel from user, the kernel's frames end with its entry point (`entry_SYSCALL_64…`, `asm_…`, `ret_from_fork…`); if there is none
//! either, all frames count as the user's.

use std::io::Read;
use std::path::Path;

use dbtime_model::recording::{Clock, ImportedFile, Unit};
use dbtime_model::{State, Wait};

use crate::import::unknown_line;
use crate::lines::Line;
use crate::samples::{FrameNumber, Place, Process, Samples, Weight, sampled};
use crate::text::{decimal, trim_start, without_offset};
use crate::{Import, ImportError, Importer, Lines, Measure};

const OFF_CPU: &[u8] = b"Tracing off-CPU time (us)";
const SAMPLING: &[u8] = b"Sampling at ";

/// Kernel frames that are only called from user code.
const ENTRIES: [&[u8]; 4] = [b"entry_SYSCALL", b"asm_", b"ret_from_fork", b"el0t_64_sync"];

/// Marks of kernel frames (`-a`).
const KERNEL_SUFFIX: &[u8] = b"_[k]";

/// The importer of this format.
#[derive(Debug)]
pub(crate) struct Bcc;

impl Importer for Bcc {
    fn name(&self) -> &'static str {
        "profile or offcputime of bcc and libbpf-tools"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let lines: Vec<&[u8]> = head.split(|byte| *byte == b'\n').collect();
        lines
            .windows(2)
            .any(|pair| task(pair[0]).is_some() && value(pair[1]).is_some())
    }

    fn import(
        &self,
        lines: &mut Lines<Box<dyn Read + '_>>,
        path: &Path,
        into: &mut Import,
    ) -> Result<(), ImportError> {
        let mut samples = Samples::new();
        let wait = samples.wait(Wait::not_recorded());
        let mut reader = Reader {
            into,
            file: crate::import::file(path),
            samples,
            wait,
            values: Values::NotKnown,
            frames: Vec::new(),
            kernel_frames: None,
            task: None,
        };
        while let Some(line) = lines.next_line() {
            reader.line(line);
        }
        reader.finish(lines.number());
        Ok(())
    }
}

/// What the values of a file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Values {
    NotKnown,
    Microseconds,
    Samples { hz: Option<u32> },
}

struct Reader<'a> {
    into: &'a mut Import,
    file: ImportedFile,
    samples: Samples,
    wait: u32,
    values: Values,
    /// Leaf first, kernel before user.
    frames: Vec<FrameNumber>,
    /// How many of them are the kernel's, once that is known.
    kernel_frames: Option<usize>,
    task: Option<u32>,
}

impl Reader<'_> {
    fn line(&mut self, line: Line<'_>) {
        let text = line.bytes.trim_ascii_end();
        if text.is_empty() || !line.ended {
            return;
        }
        if let Some(process) = task(text) {
            self.task = Some(self.samples.process(process));
        } else if let (Some(value), Some(session)) = (value(text), self.task) {
            self.task = None;
            self.sample(session, value);
        } else if text.starts_with(b"    ") {
            self.frame(text.trim_ascii());
        } else {
            self.forget();
            self.heading(text, line);
        }
    }

    fn heading(&mut self, text: &[u8], line: Line<'_>) {
        let text = text.strip_prefix(b"^C").unwrap_or(text);
        let values = if text.starts_with(OFF_CPU) {
            Values::Microseconds
        } else if let Some(rest) = text.strip_prefix(SAMPLING) {
            let number = rest.split(|byte| *byte == b' ').next().and_then(decimal);
            let hz = number.filter(|_| memchr::memmem::find(rest, b"Hertz").is_some());
            Values::Samples {
                hz: hz.and_then(|hz| u32::try_from(hz).ok()).filter(|hz| *hz > 0),
            }
        } else {
            if !text.is_empty() && !text.starts_with(b"Detaching") {
                unknown_line(&mut self.file, line.number, text);
            }
            return;
        };
        // Values of several outputs in one file cannot be added when they differ.
        if self.samples.is_empty() || self.values == values {
            self.values = values;
        } else {
            unknown_line(&mut self.file, line.number, text);
        }
    }

    fn frame(&mut self, text: &[u8]) {
        if text == b"--" {
            self.kernel_frames = Some(self.frames.len());
            return;
        }
        let (text, is_marked) = match text.strip_suffix(KERNEL_SUFFIX) {
            Some(text) => (text, true),
            None => (text, false),
        };
        let name = without_offset(text).0;
        let symbol = match name {
            b"[unknown]" => b"",
            name => name,
        };
        let number = self.samples.frame(symbol, b"");
        self.frames.push(number);
        let is_entry = ENTRIES.iter().any(|entry| name.starts_with(entry));
        if is_marked || (is_entry && self.kernel_frames.is_none()) {
            self.kernel_frames = Some(self.frames.len());
        }
    }

    fn forget(&mut self) {
        self.frames.clear();
        self.kernel_frames = None;
        self.task = None;
    }

    fn sample(&mut self, session: u32, value: u64) {
        let (kernel, user) = self.frames.split_at(self.kernel_frames.unwrap_or(0));
        let (kernel, user) = (self.samples.stack(kernel), self.samples.stack(user));
        let options = self.into.options();
        let (state, weight) = match self.values {
            Values::NotKnown => (State::Unknown, Weight::counts(value, options)),
            Values::Microseconds => {
                let ns = value.saturating_mul(1_000);
                (
                    State::Unknown,
                    Weight {
                        ns,
                        ..Weight::default()
                    },
                )
            }
            Values::Samples { hz } => {
                let mut weight = Weight::samples(value, options);
                if let Some(hz) = hz {
                    weight.ns = value.saturating_mul(1_000_000_000) / u64::from(hz);
                }
                (State::Cpu, weight)
            }
        };
        let place = Place {
            session,
            second: 0,
            wait: self.wait,
            state,
            user,
            kernel,
        };
        self.samples.add(place, weight);
        self.forget();
    }

    fn finish(mut self, lines: u64) {
        self.file.lines = lines;
        if !self.frames.is_empty() || self.task.is_some() {
            self.into.problem(format!(
                "{}:{lines}: the last stack is cut off and left out",
                self.file.path
            ));
        }
        let options = self.into.options();
        let measure = match self.values {
            Values::NotKnown => sampled(Unit::Counts, Clock::None, options),
            Values::Microseconds => Measure {
                sampled: false,
                unit: Unit::Time,
                clock: Clock::None,
            },
            Values::Samples { hz: Some(_) } => sampled(Unit::Time, Clock::None, options),
            Values::Samples { hz: None } => sampled(Unit::Samples, Clock::None, options),
        };
        if let Values::Samples { hz: Some(hz) } = self.values {
            self.into.rate(hz);
        }
        if self.values == Values::NotKnown && self.into.options().interval_ns.is_none() {
            self.into.reason(
                "the file has no heading that says what it counts: profile prints samples, offcputime microseconds \
                 (--interval 1us)",
            );
        }
        self.samples.finish(measure, self.file, self.into);
    }
}

/// `    -                COMM (PID)`
fn task(line: &[u8]) -> Option<Process> {
    let rest = line.trim_ascii_end().strip_prefix(b"    -    ")?;
    let rest = rest.strip_suffix(b")")?;
    let open = memchr::memrchr(b'(', rest)?;
    let pid = u32::try_from(decimal(&rest[open + 1..])?).ok()?;
    Some(Process::named(rest[..open].trim_ascii(), pid))
}

/// `        VALUE`
fn value(line: &[u8]) -> Option<u64> {
    if !line.starts_with(b"    ") {
        return None;
    }
    decimal(trim_start(line.trim_ascii_end()))
}
