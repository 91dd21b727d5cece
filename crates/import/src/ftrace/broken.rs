//! Lines broken by the name of a task: the kernel writes a line break in a name as it is, in the column of tasks and after `comm=` of an
//! event. Such lines are joined again; all others are left as they are.

use super::line::{Said, pid_of, said};

/// Most bytes of a name (`TASK_COMM_LEN`, less its end).
const LONGEST_NAME: usize = 15;
/// Column of the task's name in tracepoints: padded with blanks on the left.
const NAME_COLUMN: usize = 16;
/// Most bytes before the rest of a broken name: time, CPU and the column of function_graph.
const LONGEST_BEGIN: usize = 40;
/// Keys that follow a name, each after a blank.
const BEHIND_NAMES: [&[u8]; 3] = [b" pid=", b" prev_pid=", b" next_pid="];

/// Receives lines: the line, its number, what it says.
pub(super) trait Line: for<'l> FnMut(&'l [u8], u64, Said<'l>) {}

impl<F: for<'l> FnMut(&'l [u8], u64, Said<'l>)> Line for F {}

/// Beginnings of a line that may be broken.
#[derive(Debug, Default)]
pub(super) struct Broken {
    text: Vec<u8>,
    /// Numbers of its lines, and where each begins.
    lines: Vec<(u64, usize)>,
}

impl Broken {
    /// Hands on lines, joined if they belong together, with the number of the first and what they say.
    pub(super) fn take<L: Line>(&mut self, bytes: &[u8], number: u64, line: &mut L) {
        if self.lines.is_empty() {
            let said = said(bytes);
            match is_open(bytes, &said) {
                true => self.hold(bytes, number),
                false => line(bytes, number, said),
            }
            return;
        }
        let held = self.text.len();
        self.hold(bytes, number);
        let said = said(&self.text);
        if is_whole(&self.text, &said) {
            line(&self.text, self.lines[0].0, said);
            self.forget();
        } else if !is_open(&self.text, &said) {
            // They do not belong together.
            self.text.truncate(held);
            self.lines.pop();
            self.hand_on(line);
            self.take(bytes, number, line);
        }
    }

    /// Hands on each of the lines that are left, as they were.
    pub(super) fn hand_on<L: Line>(&mut self, line: &mut L) {
        for (at, &(number, begin)) in self.lines.iter().enumerate() {
            // The line break is not part of it.
            let end = self
                .lines
                .get(at + 1)
                .map_or(self.text.len(), |(_, next)| next - 1);
            let bytes = &self.text[begin..end];
            line(bytes, number, said(bytes));
        }
        self.forget();
    }

    fn hold(&mut self, bytes: &[u8], number: u64) {
        if !self.lines.is_empty() {
            self.text.push(b'\n');
        }
        self.lines.push((number, self.text.len()));
        self.text.extend_from_slice(bytes);
    }

    fn forget(&mut self) {
        self.text.clear();
        self.lines.clear();
    }
}

/// True if a name may continue on the next line.
fn is_open(text: &[u8], said: &Said<'_>) -> bool {
    match said {
        Said::Event { arguments, .. } => {
            last_name(arguments).is_some_and(|behind| behind.len() <= LONGEST_NAME)
                && names_are_closed(arguments, true)
        }
        Said::Switch { to, .. } => pid_of(to).is_none() && to.len() <= LONGEST_NAME,
        Said::Unknown => !text.is_empty() && text.len() <= LONGEST_BEGIN,
        // The name begins with a line break.
        Said::Nothing => {
            text.len() < NAME_COLUMN && !text.is_empty() && text.iter().all(|byte| *byte == b' ')
        }
        _ => false,
    }
}

/// True if lines joined say something as one, and their breaks are in names.
fn is_whole(text: &[u8], said: &Said<'_>) -> bool {
    let is_broken = |part: &[u8]| part.contains(&b'\n');
    match said {
        Said::Event { place, arguments, .. } => {
            let column = memchr::memchr(b'\n', text).is_some_and(|at| at < NAME_COLUMN);
            (is_broken(arguments) || column)
                && (!column || text.get(NAME_COLUMN) == Some(&b'-') || place.cpu.is_some() && is_graph(text))
                && names_are_closed(arguments, false)
        }
        Said::StackBegins { .. } => text.get(NAME_COLUMN) == Some(&b'-'),
        Said::Entry { place, .. } | Said::Leaf { place, .. } | Said::Close { place, .. } => {
            is_broken(place.task) && is_graph(text)
        }
        Said::Switch { from, to, .. } => {
            (is_broken(from) || is_broken(to)) && pid_of(to).is_some() && is_graph(text)
        }
        _ => false,
    }
}

/// The text begins as function_graph does, with a CPU: ` 1) `, or with time and CPU.
fn is_graph(text: &[u8]) -> bool {
    let begin = &text[..text.len().min(LONGEST_BEGIN)];
    let first = begin.split(|byte| *byte == b'\n').next().unwrap_or(begin);
    memchr::memchr(b')', first)
        .and_then(|at| first[..at].last())
        .is_some_and(u8::is_ascii_digit)
}

/// What follows the last `comm=` of an event.
fn last_name(arguments: &[u8]) -> Option<&[u8]> {
    memchr::memmem::rfind(arguments, b"comm=").map(|at| &arguments[at + 5..])
}

/// True if each name in the arguments of an event ends within its length, except the last one if that is open.
fn names_are_closed(arguments: &[u8], but_last: bool) -> bool {
    let names: Vec<usize> = memchr::memmem::find_iter(arguments, b"comm=").collect();
    let closed = &names[..names.len() - usize::from(but_last && !names.is_empty())];
    closed.iter().all(|at| {
        let behind = &arguments[at + 5..];
        let end = BEHIND_NAMES
            .iter()
            .filter_map(|key| memchr::memmem::find(behind, key))
            .min();
        end.is_some_and(|end| end <= LONGEST_NAME)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines as they come out, with their numbers.
    fn together(text: &str) -> Vec<(u64, String)> {
        let (mut broken, mut out) = (Broken::default(), Vec::new());
        let mut line = |bytes: &[u8], number: u64, _: Said<'_>| {
            out.push((number, String::from_utf8_lossy(bytes).into_owned()));
        };
        for (number, bytes) in text.split('\n').enumerate() {
            broken.take(bytes.as_bytes(), number as u64 + 1, &mut line);
        }
        broken.hand_on(&mut line);
        out
    }

    /// As Linux 6.18 wrote it for tasks with such names.
    #[test]
    fn lines_that_a_name_breaks_are_one() {
        for name in [
            "a\nb c",
            "\nab",
            "ab\n",
            "\n",
            "a\nb\nc",
            "\n\n\n",
            "a-1 [000] 1.0:\n",
        ] {
            let lines = [
                format!(
                    "{name:>16}-25522   [001] .....  1145.130946: sys_enter: NR 230 (1, 1, 7ffdaaa48630, 0, 0, 0)"
                ),
                format!(
                    "{name:>16}-25522   [001] d..2.  1145.130952: sched_switch: prev_comm={name} prev_pid=25522 prev_prio=120 \
                     prev_state=S ==> next_comm=lto cgu.14 next_pid=25271 next_prio=130"
                ),
                format!(
                    "      lto cgu.14-25271   [001] d.h2.  1145.181040: sched_waking: comm={name} pid=25522 prio=120 target_cpu=001"
                ),
                format!(
                    "      lto cgu.14-25271   [001] d..2.  1145.181067: sched_switch: prev_comm=lto cgu.14 prev_pid=25271 \
                     prev_prio=130 prev_state=R ==> next_comm={name} next_pid=25522 next_prio=120"
                ),
                "      lto cgu.14-25271   [001] d.h2.  1145.181068: sys_exit: NR 230 = 0".to_string(),
            ];
            let found: Vec<String> = together(&lines.join("\n"))
                .into_iter()
                .map(|(_, line)| line)
                .collect();
            assert_eq!(found, lines, "{name:?}");
        }
    }

    #[test]
    fn lines_of_function_graph_too() {
        let lines = [
            " 1)   a\nb-25522   |   0.500 us    |    rcu_read();",
            " 1)   a\nb-25522   |               |  vfs_read() {",
        ];
        let found: Vec<String> = together(&lines.join("\n"))
            .into_iter()
            .map(|(_, line)| line)
            .collect();
        assert_eq!(found, lines);
    }

    #[test]
    fn lines_that_are_none_of_that_stay_as_they_are() {
        let text = "what\n           <...>-7       [000] .....  1.000001: sys_exit: NR 230 = 0\n\
                    x-7 [000] d..2. 1.5: sched_switch: prev_comm=a\n\
                    \x20          <...>-7       [000] .....  1.000002: sys_exit: NR 230 = 0\n   \n\nsomething\nelse";
        let lines: Vec<(u64, String)> = (1..).zip(text.split('\n').map(str::to_string)).collect();
        assert_eq!(together(text), lines);
    }
}
