//! The engines for when ftrace's own tracer is not available: BPF programs at entry and return of a limited number of
//! functions (fentry and fexit, kprobe.multi, or kprobes one by one), whose steps are written as function_graph would.

use std::fmt;
use std::fmt::Write as _;
use std::fs;
use std::time::Instant;

use super::functions::{Chosen, choose};
use super::tracefs::TraceFs;
use super::{Armed, DiveOptions};
use crate::bpf::{CallFunctions, FunctionRow, FunctionStep, KernelFunctions, Probing};
use crate::{CollectError, privilege, process};

/// A function that was entered.
struct Open {
    function: u32,
    begin_ns: u64,
}

/// The programs, and where in the call the task is.
pub(super) struct Probes {
    programs: CallFunctions,
    functions: Vec<String>,
    pid: u32,
    command: String,
    open: Vec<Open>,
    /// Returns whose entry was not seen, and entries whose return was not.
    missing: u64,
}

impl fmt::Debug for Probes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probes")
            .field("functions", &self.functions)
            .finish_non_exhaustive()
    }
}

/// Maximum number of functions: each costs every process that calls it.
const MOST: usize = 300;
/// The same where the kernel waits for all of its tasks, about 0.14 s, for each function that is detached.
const MOST_ONE_BY_ONE: usize = 100;

/// Attaches programs that the functions call themselves.
///
/// # Errors
/// The kernel refuses.
pub(super) fn arm_fentry(fs: &TraceFs, options: &DiveOptions) -> Result<(Probes, Armed), CollectError> {
    privilege::check_programs()?;
    let begin = Instant::now();
    let types = KernelFunctions::read()?;
    let has_type = |name: &str| types.get(name).is_some();
    let chosen = choose(fs, &options.call.entry_function()?, &options.functions, has_type)?;
    arm_by(
        Probing::Fentry(&types),
        MOST_ONE_BY_ONE,
        &chosen,
        Vec::new(),
        options,
        begin,
    )
}

/// Attaches probes.
///
/// # Errors
/// The kernel refuses.
pub(super) fn arm(fs: &TraceFs, options: &DiveOptions) -> Result<(Probes, Armed), CollectError> {
    privilege::check_programs()?;
    let begin = Instant::now();
    let chosen = choose(fs, &options.call.entry_function()?, &options.functions, |_| true)?;
    arm_by(Probing::KprobeMulti, MOST, &chosen, Vec::new(), options, begin).or_else(|e| {
        let note = format!("the functions are probed one by one, which costs more: {e}");
        arm_by(
            Probing::Kprobes,
            MOST_ONE_BY_ONE,
            &chosen,
            vec![note],
            options,
            begin,
        )
    })
}

/// Attaches programs to at most this many of the chosen functions.
fn arm_by(
    probing: Probing<'_>,
    most: usize,
    chosen: &Chosen,
    mut notes: Vec<String>,
    options: &DiveOptions,
    begin: Instant,
) -> Result<(Probes, Armed), CollectError> {
    let functions: Vec<String> = chosen.functions.iter().take(most).cloned().collect();
    let (programs, refused) = CallFunctions::attach(options.pid, &functions, probing)?;
    if let Some(why) = &chosen.unknown {
        notes.push(format!(
            "well-known functions are traced, as it is not known which ones the call reaches ({why})"
        ));
    }
    let left_out = chosen.functions.len() - functions.len();
    if left_out > 0 {
        notes.push(format!(
            "{left_out} more functions, further from the call or beyond the limit, are not traced"
        ));
    }
    let traced = functions.len() - refused.len();
    let command = fs::read_to_string(process::path(options.pid, "comm")).unwrap_or_default();
    let armed = Armed {
        engine: format!("{probing} on {traced} functions"),
        functions: Some(traced as u64),
        took: begin.elapsed(),
        notes,
        ends: vec![format!("}} /* {} */", functions[0])],
    };
    let probes = Probes {
        programs,
        functions,
        pid: options.pid,
        // As ftrace shows it, without characters that would end the column.
        command: command
            .trim()
            .chars()
            .map(|c| if c.is_ascii_graphic() && c != '|' { c } else { '_' })
            .take(7)
            .collect(),
        open: Vec::new(),
        missing: 0,
    };
    Ok((probes, armed))
}

impl Probes {
    /// The lines above the text.
    pub(super) fn header() -> String {
        "# tracer: function_graph\n\
         #\n\
         #     TIME        CPU  TASK/PID         DURATION                  FUNCTION CALLS\n\
         #      |          |     |    |           |   |                     |   |   |   |\n"
            .to_string()
    }

    /// What has happened since the last time, as text.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn text(&mut self) -> Result<String, CollectError> {
        let mut text = String::new();
        for row in self.programs.take()? {
            self.line(&row, &mut text);
        }
        Ok(text)
    }

    /// How many programs have to be detached.
    pub(super) fn programs(&self) -> usize {
        self.programs.count()
    }

    /// Steps that are missing.
    pub(super) fn lost(&self) -> u64 {
        self.programs.lost() + self.missing
    }

    fn line(&mut self, row: &FunctionRow, text: &mut String) {
        let (duration, what) = match row.step {
            FunctionStep::Entry(function) => {
                if function == 0 {
                    // The end of the previous call was not seen.
                    self.missing += self.open.len() as u64;
                    self.open.clear();
                }
                let depth = self.open.len();
                self.open.push(Open {
                    function,
                    begin_ns: row.time_ns,
                });
                (
                    String::new(),
                    format!("{}{}() {{", indent(depth), self.name(function)),
                )
            }
            FunctionStep::Return(function) => {
                let Some(depth) = self.open.iter().rposition(|open| open.function == function) else {
                    self.missing += 1;
                    return;
                };
                self.missing += (self.open.len() - depth - 1) as u64;
                let ns = row.time_ns.saturating_sub(self.open[depth].begin_ns);
                self.open.truncate(depth);
                (
                    duration(ns),
                    format!("{}}} /* {} */", indent(depth), self.name(function)),
                )
            }
            FunctionStep::LeftCpu { next, state } => {
                let event = format!(
                    "prev_comm={} prev_pid={} prev_prio=0 prev_state={} ==> next_comm=? next_pid={next} next_prio=0",
                    self.command,
                    self.pid,
                    letter(state)
                );
                (String::new(), format!("  /* sched_switch: {event} */"))
            }
            FunctionStep::BackOnCpu { previous } => {
                let event = format!(
                    "prev_comm=? prev_pid={previous} prev_prio=0 prev_state=R ==> next_comm={} next_pid={} next_prio=0",
                    self.command, self.pid
                );
                (String::new(), format!("  /* sched_switch: {event} */"))
            }
        };
        let (seconds, us) = (row.time_ns / 1_000_000_000, row.time_ns / 1_000 % 1_000_000);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{seconds:5}.{us:06} | {:3}) {:>7}-{:<7} | {duration:13} |{what}",
            row.cpu, self.command, self.pid
        );
    }

    fn name(&self, function: u32) -> &str {
        self.functions.get(function as usize).map_or("?", String::as_str)
    }
}

fn indent(depth: usize) -> String {
    " ".repeat(2 * (depth + 1))
}

/// As ftrace writes durations, with its marks for long ones.
fn duration(ns: u64) -> String {
    const MARKS: [(u64, char); 6] = [
        (1_000_000_000, '$'),
        (100_000_000, '@'),
        (10_000_000, '*'),
        (1_000_000, '#'),
        (100_000, '!'),
        (10_000, '+'),
    ];
    let mark = MARKS
        .iter()
        .find(|(least, _)| ns > *least)
        .map_or(' ', |(_, mark)| *mark);
    format!("{mark} {}.{:03} us", ns / 1_000, ns % 1_000)
}

/// Letter of a raw task state (`include/linux/sched.h`).
fn letter(state: u32) -> char {
    match state & 0x7f {
        0 => 'R',
        state if state & 0x1 != 0 => 'S',
        state if state & 0x2 != 0 => 'D',
        state if state & 0x4 != 0 => 'T',
        state if state & 0x8 != 0 => 't',
        _ => 'X',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_durations_are_marked() {
        let written = [4_716, 50_625, 127_122, 1_985_274, 2_000_000_000].map(duration);
        let expected = [
            "  4.716 us",
            "+ 50.625 us",
            "! 127.122 us",
            "# 1985.274 us",
            "$ 2000000.000 us",
        ];
        assert_eq!(written, expected);
    }
}
