//! Text of ftrace: the function_graph tracer with any columns, what `trace-cmd report` makes of it, and tracepoints of tasks.
//!
//! ```text
//! Lines ──line::said──▶ Said ──▶ Calls (functions) ──────────▶ Paths ──▶ activity, latency
//!                        └─────▶ Intervals (tracepoints) ─▶ Calls └─▶ spans of the calls that are kept
//! ```
//!
//! # Rows
//! A session is a task. A call path is a kernel stack; `activity` has the time spent at the path itself, on a CPU or off it, how often, and
//! how many timer samples fell there; `latency` (kind `function`) has the durations of the calls at that path; `spans` has some calls
//! completely. Time outside of calls is not included. A call whose start or end is missing, or that lost events, does not count; how many
//! these were is reported.

mod broken;
mod calls;
mod event_line;
mod intervals;
mod line;
mod paths;
mod role;
mod samples;
mod statements;
mod step;
mod tasks;

use std::io::Read;
use std::path::Path;

use dbtime_model::recording::{Clock, ImportedFile, Unit};

use self::broken::Broken;
use self::calls::{Calls, FUNCTION_GRAPH, TRACEPOINTS};
use self::intervals::Intervals;
use self::line::{OWN, Said, said};
use crate::import::unknown_line;
use crate::text::decimal;
use crate::{Import, ImportError, Importer, Lines, Measure};

/// The importer of this format.
#[derive(Debug)]
pub(crate) struct Ftrace;

impl Importer for Ftrace {
    fn name(&self) -> &'static str {
        "text of ftrace or trace-cmd"
    }

    fn detect(&self, head: &[u8]) -> bool {
        if head.starts_with(b"# tracer:") || head.starts_with(OWN) {
            return true;
        }
        // Two lines, because other formats have single ones that look like these.
        const LINES: usize = 400;
        let is_ours = |line: &&[u8]| match said(line) {
            said if is_function(&said) => true,
            Said::Event { place, .. } => line::pid_of(place.task).is_some(),
            _ => false,
        };
        let lines = head.split(|byte| *byte == b'\n').take(LINES);
        lines.filter(is_ours).take(2).count() == 2
    }

    fn import(
        &self,
        lines: &mut Lines<Box<dyn Read + '_>>,
        path: &Path,
        into: &mut Import,
    ) -> Result<(), ImportError> {
        let mut reader = Reader {
            has_functions: tells_functions(lines.head()),
            file: crate::import::file(path),
            calls: Calls::default(),
            intervals: Intervals::default(),
            into,
        };
        reader.calls.summary.tracer = match reader.has_functions {
            true => FUNCTION_GRAPH,
            false => TRACEPOINTS,
        }
        .to_string();
        let mut broken = Broken::default();
        while let Some(line) = lines.next_line() {
            // A line that may be truncated can be misread.
            if line.ended {
                broken.take(
                    line.bytes,
                    line.number,
                    &mut |bytes: &[u8], number, said: Said<'_>| {
                        reader.line(bytes, number, said);
                    },
                );
            }
        }
        broken.hand_on(&mut |bytes: &[u8], number, said: Said<'_>| reader.line(bytes, number, said));
        reader.finish(lines.number());
        Ok(())
    }
}

/// True if a trace has functions, not only tracepoints.
fn tells_functions(head: &[u8]) -> bool {
    head.starts_with(b"# tracer: function_graph")
        || head
            .split(|byte| *byte == b'\n')
            .any(|line| is_function(&said(line)))
}

fn is_function(said: &Said<'_>) -> bool {
    matches!(said, Said::Entry { .. } | Said::Leaf { .. } | Said::Close { .. })
}

struct Reader<'a> {
    has_functions: bool,
    file: ImportedFile,
    calls: Calls,
    intervals: Intervals,
    into: &'a mut Import,
}

impl Reader<'_> {
    fn line(&mut self, bytes: &[u8], number: u64, said: Said<'_>) {
        let into = &mut *self.into;
        if !self.has_functions && is_function(&said) {
            // Functions say more than tracepoints; what those have said so far stays.
            self.intervals.lost(&mut self.calls, into);
            self.has_functions = true;
            self.calls.summary.tracer = FUNCTION_GRAPH.to_string();
        }
        match said {
            Said::Entry { place, name } => {
                self.calls.enter(&place, name, into);
            }
            Said::Leaf { place, name, ns } => self.calls.leaf(&place, name, ns, into),
            Said::Close { place, name, ns } => self.calls.close(&place, name, ns, into),
            Said::Event {
                place,
                name,
                arguments,
            } => {
                let is_known = match self.has_functions {
                    true => self.calls.event(&place, name, arguments),
                    false => self
                        .intervals
                        .event(&place, name, arguments, &mut self.calls, into),
                };
                if !is_known {
                    unknown_line(&mut self.file, number, bytes);
                }
            }
            Said::Switch { cpu, from, to } => self.calls.tasks.switch(cpu, from, to, into),
            Said::Lost { cpu, events } => {
                self.intervals.lost(&mut self.calls, into);
                self.calls.lost(cpu, events);
                into.reason("events were lost: calls with missing events are left out");
            }
            Said::StackBegins { place, is_whole } => {
                if !is_whole {
                    into.reason(
                        "stacks of user code, and those that trace-cmd cuts (report -N) or prints as addresses (-R), are left out",
                    );
                }
                self.intervals
                    .stack_begins(&place, is_whole, &mut self.calls, into);
            }
            Said::Frame(name) => self.intervals.frame(name),
            Said::Own { key, value } => self.own(key, value, bytes, number),
            Said::Nothing => {}
            Said::Unknown => unknown_line(&mut self.file, number, bytes),
        }
    }

    /// What the live engines of dbtime wrote into the file.
    fn own(&mut self, key: &[u8], value: &[u8], bytes: &[u8], number: u64) {
        match key {
            b"call" if self.calls.tasks.note_call(value, self.into).is_none() => {
                unknown_line(&mut self.file, number, bytes);
            }
            b"statement" if self.calls.tasks.statements.note(value, self.into).is_none() => {
                unknown_line(&mut self.file, number, bytes);
            }
            b"sample" if self.calls.note_sample(value).is_none() => {
                unknown_line(&mut self.file, number, bytes);
            }
            b"sampling" if self.calls.note_sampling(value).is_none() => {
                unknown_line(&mut self.file, number, bytes);
            }
            b"switches" if value == b"traced" => self.calls.switches_are_traced(),
            b"target" | b"engine" | b"note" => {
                let (key, value) = (String::from_utf8_lossy(key), String::from_utf8_lossy(value));
                self.into.reason(&format!("{key}: {value}"));
            }
            b"task" => self.into.set_target(&String::from_utf8_lossy(value)),
            b"lost" => self.calls.lost(None, decimal(value)),
            _ => {}
        }
    }

    fn finish(mut self, lines: u64) {
        self.intervals.settle_all(&mut self.calls, self.into);
        self.calls.finish(self.into);
        self.file.lines = lines;
        let path = &self.file.path;
        if self.calls.too_short > 0 {
            self.into.problem(format!(
                "{path}: {} functions were shorter than what they called: events were lost without being \
                 counted",
                self.calls.too_short
            ));
        }
        if self.calls.without_end > 0 {
            self.into.problem(format!(
                "{path}: the end of {} functions is not in the trace: they are assumed to last until their caller continued",
                self.calls.without_end
            ));
        }
        if self.calls.paths.is_full() {
            self.into.problem(format!(
                "{path}: there are more call paths than can be kept separate: calls on later ones count for \
                 their callers"
            ));
        }
        self.into.set_measure(Measure {
            sampled: false,
            unit: Unit::Time,
            clock: match self.calls.has_time() {
                true => Clock::Relative,
                false => Clock::None,
            },
        });
        self.file.kernel_trace = Some(self.calls.summary);
        self.into.file(self.file);
    }
}
