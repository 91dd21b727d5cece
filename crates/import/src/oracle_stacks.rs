//! Stack samples of KStackSampler, ORA_KStackProfiler and Ptrace_Profiler (Luca Canali).
//!
//! # Format
//! One record per sample: kernel frames, leaf first (`func+0xoff/0xlen`, in older files after `[<address>] `), the end mark
//! `0xffffffffffffffff`, user frames (bare names, leaf first; Ptrace_Profiler only), `State:`, the Oracle state (`event#=158 (Oracle
//! state)`, `event=NAME (Oracle state)` after sed, `On CPU (Oracle state)`), and the count `1`. Newer kernels write no end mark: a name
//! without a length is then a user frame.
//!
//! # Rows
//! One session per file. `R` is running or runnable, which the files do not tell apart: it becomes the state `cpu`, and the recording says
//! so. A file without Oracle states has the wait `not recorded`. The files have no times and no interval: rows count samples, unless the
//! caller knows the interval (the tools' own default is 500 ms).

use std::io::Read;
use std::path::Path;

use dbtime_model::recording::{Clock, ImportedFile, Unit};
use dbtime_model::{State, Wait};

use crate::import::unknown_line;
use crate::lines::Line;
use crate::oracle_trace::events::Events;
use crate::samples::{FrameNumber, Place, Process, Samples, Weight, sampled};
use crate::text::{decimal, without_brackets, without_offset};
use crate::{Import, ImportError, Importer, Lines};

const RUNNING: &str =
    "R in these files is running or runnable: it is shown as cpu, which includes time in the run queue";

/// Name of the kernel as a module.
const KERNEL: &[u8] = b"[kernel]";

/// The importer of this format.
#[derive(Debug)]
pub(crate) struct OracleStacks;

impl Importer for OracleStacks {
    fn name(&self) -> &'static str {
        "stack samples of KStackSampler, ORA_KStackProfiler or Ptrace_Profiler"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let mut lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        lines.any(|line| state(line).is_some())
    }

    fn import(
        &self,
        lines: &mut Lines<Box<dyn Read + '_>>,
        path: &Path,
        into: &mut Import,
    ) -> Result<(), ImportError> {
        let mut samples = Samples::new();
        let session = samples.process(Process::oracle(path));
        let not_recorded = samples.wait(Wait::not_recorded());
        let mut reader = Reader {
            into,
            file: crate::import::file(path),
            events: Events::new(),
            samples,
            session,
            not_recorded,
            record: Record::default(),
            has_oracle_states: false,
            has_running: false,
        };
        while let Some(line) = lines.next_line() {
            reader.line(line);
        }
        reader.finish(lines.number());
        Ok(())
    }
}

/// What is known of the sample that is being read.
#[derive(Debug, Default)]
struct Record {
    kernel: Vec<FrameNumber>,
    user: Vec<FrameNumber>,
    is_past_kernel: bool,
    state: Option<State>,
    wait: Option<u32>,
    lines: u64,
}

struct Reader<'a> {
    into: &'a mut Import,
    file: ImportedFile,
    events: Events,
    samples: Samples,
    session: u32,
    not_recorded: u32,
    record: Record,
    has_oracle_states: bool,
    has_running: bool,
}

impl Reader<'_> {
    fn line(&mut self, line: Line<'_>) {
        let text = line.bytes.trim_ascii();
        if text.is_empty() {
            return;
        }
        self.record.lines += 1;
        // A truncated last line could seem to end a sample.
        if !line.ended {
            return;
        }
        if let Some(state) = state(text) {
            self.has_running |= state == State::Cpu;
            self.record.state = Some(state);
        } else if let Some(event) = text.strip_suffix(b"(Oracle state)") {
            self.has_oracle_states = true;
            let wait = self.oracle_state(event.trim_ascii());
            self.record.wait = Some(self.samples.wait(wait));
        } else if let Some(count) = decimal(text) {
            self.sample(count);
        } else {
            // What follows the state and is none of the above belongs to no record.
            if self.record.state.is_some() || text.len() > 4096 {
                unknown_line(&mut self.file, line.number, line.bytes);
                self.record.lines = self.record.lines.saturating_sub(1);
                return;
            }
            self.frame(text);
        }
    }

    fn oracle_state(&mut self, text: &[u8]) -> Wait {
        if text == b"On CPU" {
            return Wait::none();
        }
        if let Some(number) = text.strip_prefix(b"event#=").and_then(decimal) {
            let names = &self.into.options().event_names;
            return names.wait(number, &mut self.events);
        }
        let name = text.strip_prefix(b"event=").unwrap_or(text);
        let id = self.events.id(name);
        self.events.get(id).wait.clone()
    }

    fn frame(&mut self, text: &[u8]) {
        let (address, text) = match text.strip_prefix(b"[<") {
            Some(rest) => match memchr::memmem::find(rest, b">]") {
                Some(end) => (&rest[..end], rest[end + 2..].trim_ascii_start()),
                None => (&b""[..], text),
            },
            None => (&b""[..], text),
        };
        if text == b"0xffffffffffffffff" || (text.is_empty() && address == b"ffffffffffffffff") {
            self.record.is_past_kernel = true;
            return;
        }
        if text.is_empty() && !self.record.is_past_kernel {
            // An address whose name was lost.
            let frame = self.samples.frame(b"", KERNEL);
            self.record.kernel.push(frame);
            return;
        }
        if !self.record.is_past_kernel && text.starts_with(b"[") && text.ends_with(b"]") {
            // The module of the previous frame, on a line of its own in files that were split into columns.
            return;
        }
        match kernel_frame(text) {
            Some((symbol, module)) if !self.record.is_past_kernel => {
                let frame = self.samples.frame(symbol, module);
                self.record.kernel.push(frame);
            }
            _ => {
                self.record.is_past_kernel = true;
                let frame = self.samples.frame(without_offset(text).0, b"");
                self.record.user.push(frame);
            }
        }
    }

    fn sample(&mut self, count: u64) {
        let record = std::mem::take(&mut self.record);
        // A number on its own is not a sample.
        if record.state.is_none() && record.wait.is_none() {
            return;
        }
        let place = Place {
            session: self.session,
            second: 0,
            wait: record.wait.unwrap_or(self.not_recorded),
            state: record.state.unwrap_or(State::Unknown),
            user: self.samples.stack(&record.user),
            kernel: self.samples.stack(&record.kernel),
        };
        self.samples
            .add(place, Weight::samples(count, self.into.options()));
    }

    fn finish(mut self, lines: u64) {
        self.file.lines = lines;
        if self.has_oracle_states {
            self.into.database("Oracle Database", "");
        }
        if self.has_running {
            self.into.reason(RUNNING);
        }
        if self.record.lines > 0 {
            self.into.problem(format!(
                "{}:{lines}: the last sample is cut off and left out",
                self.file.path
            ));
        }
        let measure = sampled(Unit::Samples, Clock::None, self.into.options());
        self.samples.finish(measure, self.file, self.into);
    }
}

/// `State:<TAB>R (running)`
fn state(line: &[u8]) -> Option<State> {
    let rest = line.strip_prefix(b"State:")?.trim_ascii();
    let (letter, name) = rest.split_first()?;
    if !name.trim_ascii().starts_with(b"(") {
        return None;
    }
    Some(match letter {
        b'R' => State::Cpu,
        b'D' => State::Disk,
        // Idle kernel threads (I) sleep too.
        b'S' | b'I' => State::Sleep,
        b'T' | b't' => State::Stopped,
        _ => State::Unknown,
    })
}

/// `func+0xoff/0xlen`, `func+0xoff/0xlen [module]`: function and module.
fn kernel_frame(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (frame, module) = match (memchr::memchr(b' ', text), text.last()) {
        (Some(blank), Some(b']')) => (&text[..blank], without_brackets(text[blank..].trim_ascii())),
        _ => (text, KERNEL),
    };
    let slash = memchr::memrchr(b'/', frame)?;
    let length = frame[slash + 1..].strip_prefix(b"0x")?;
    let (symbol, has_offset) = without_offset(&frame[..slash]);
    (has_offset && !length.is_empty() && length.iter().all(u8::is_ascii_hexdigit)).then_some((symbol, module))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_frames_are_told_from_others_by_their_length() {
        assert_eq!(
            kernel_frame(b"do_io_submit+0x291/0x940"),
            Some((&b"do_io_submit"[..], KERNEL))
        );
        assert_eq!(
            kernel_frame(b"ext4_file_read+0x1/0x2 [ext4]"),
            Some((&b"ext4_file_read"[..], &b"ext4"[..]))
        );
        for user in ["io_submit", "opiodr", "f+0x10", "a/b", "x+0x1/9"] {
            assert_eq!(kernel_frame(user.as_bytes()), None, "{user}");
        }
    }

    #[test]
    fn letters_of_the_kernel_become_states() {
        assert_eq!(state(b"State:\tR (running)"), Some(State::Cpu));
        assert_eq!(state(b"State:\tD (disk sleep)"), Some(State::Disk));
        assert_eq!(state(b"State:\tS (sleeping)"), Some(State::Sleep));
        assert_eq!(state(b"State:\tt (tracing stop)"), Some(State::Stopped));
        assert_eq!(state(b"State:\tZ (zombie)"), Some(State::Unknown));
        for other in ["State:", "State: running", "state:\tR (running)"] {
            assert_eq!(state(other.as_bytes()), None, "{other}");
        }
    }
}
