//! Procedural-language functions in a stack: their names, and between which frames they belong.

use std::collections::HashMap;
use std::rc::Rc;

use dbtime_model::{Frame, PLPGSQL};

use crate::bpf::dbt_size;
use crate::database::RawRoutine;

/// The interpreter's file, in the directory of each server's libraries.
const INTERPRETER: &str = "/plpgsql.so";
/// Functions through which the interpreter is called for each function that it executes. They are exported: even a stripped interpreter
/// names them.
const ENTRIES: [&str; 2] = ["plpgsql_call_handler", "plpgsql_inline_handler"];
/// Any more are not reported.
const MAX_ROUTINES: usize = dbt_size::MAX_ROUTINES.0 as usize;
/// Maximum number of names remembered.
const NAMES: usize = 10_000;

/// Whether it is the file of the interpreter.
pub(crate) fn is_interpreter(file: &str) -> bool {
    file.strip_suffix(" (deleted)")
        .unwrap_or(file)
        .ends_with(INTERPRETER)
}

/// A function, with its name.
pub(super) type NamedRoutine = (RawRoutine, Rc<str>);

/// Names that were read, by process, function and its id.
#[derive(Debug, Default)]
pub(super) struct RoutineNames(HashMap<(u32, u64, u32), Rc<str>>);

impl RoutineNames {
    /// The name of a function, which `read` reads once.
    pub(super) fn name(
        &mut self,
        pid: u32,
        routine: RawRoutine,
        read: impl Fn(RawRoutine) -> Option<String>,
    ) -> Rc<str> {
        let key = (pid, routine.function, routine.id);
        if let Some(name) = self.0.get(&key) {
            return Rc::clone(name);
        }
        let Some(name) = read(routine) else {
            return match routine.id {
                0 => "[function without a name]".into(),
                id => format!("[function {id}]").into(),
            };
        };
        if self.0.len() >= NAMES {
            self.0.clear();
        }
        let name: Rc<str> = name.into();
        self.0.insert(key, Rc::clone(&name));
        name
    }

    /// The process is gone.
    pub(super) fn forget(&mut self, pid: u32) {
        self.0.retain(|(owner, _, _), _| *owner != pid);
    }
}

/// The frames of a stack, root first, with two more for each PL/pgSQL function (innermost first, with their lines): one for all of it,
/// one for the line. They follow the frame through which the interpreter was called for it. The last call may not have reached its
/// function yet, which is then not in the list; but if the list or the stack is truncated, the innermost are there.
pub(super) fn with_routines(frames: Vec<Frame>, routines: &[NamedRoutine]) -> Vec<Frame> {
    let entries = frames.iter().filter(|frame| is_entry(frame)).count();
    // Entries, from the root, whose functions a truncated list lacks; then, the functions whose entries a truncated stack lacks.
    let without = match routines.len() {
        MAX_ROUTINES => entries.saturating_sub(MAX_ROUTINES),
        _ => 0,
    };
    let mut named = routines.iter().rev().skip(routines.len().saturating_sub(entries));
    let mut seen = 0;
    let mut all = Vec::with_capacity(frames.len() + 2 * routines.len());
    for frame in frames {
        let is_entry = is_entry(&frame);
        all.push(frame);
        if !is_entry {
            continue;
        }
        seen += 1;
        if seen > without
            && let Some((routine, name)) = named.next()
        {
            all.push(frame_of(name.to_string()));
            if routine.line != 0 {
                all.push(frame_of(format!("{name} line {}", routine.line)));
            }
        }
    }
    all
}

fn is_entry(frame: &Frame) -> bool {
    ENTRIES.contains(&frame.symbol.as_str())
}

fn frame_of(symbol: String) -> Frame {
    Frame {
        symbol,
        module: PLPGSQL.to_string(),
        build_id: String::new(),
        offset: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The labels of a stack, root first, in which `E` is an entry, with these functions, the innermost first.
    fn labels(frames: &[&str], routines: &[(&str, u32)]) -> String {
        let frames = frames.iter().map(|label| Frame {
            symbol: if *label == "E" { ENTRIES[0] } else { label }.to_string(),
            module: "m".to_string(),
            build_id: String::new(),
            offset: 0,
        });
        let routine = |line| RawRoutine {
            function: 0,
            id: 0,
            line,
        };
        let routines: Vec<NamedRoutine> = routines
            .iter()
            .map(|(name, line)| (routine(*line), (*name).into()))
            .collect();
        let all = with_routines(frames.collect(), &routines);
        let labels: Vec<String> = all.iter().map(Frame::label).collect();
        labels.join(" ").replace(ENTRIES[0], "E")
    }

    #[test]
    fn the_interpreter_is_known_by_its_file() {
        assert!(is_interpreter("/usr/lib/postgresql/15/lib/plpgsql.so"));
        assert!(is_interpreter("/usr/lib/postgresql/15/lib/plpgsql.so (deleted)"));
        assert!(!is_interpreter("/usr/lib/postgresql/15/lib/not_plpgsql.so"));
        assert!(!is_interpreter("plpgsql.so.old"));
    }

    #[test]
    fn a_function_stands_above_its_entry() {
        assert_eq!(
            labels(&["main", "E", "a", "E", "b"], &[("inner()", 3), ("outer()", 7)]),
            "main E outer() outer() line 7 a E inner() inner() line 3 b"
        );
        // It has not reached a line.
        assert_eq!(labels(&["main", "E", "a"], &[("f()", 0)]), "main E f() a");
        assert_eq!(labels(&["main"], &[]), "main");
    }

    #[test]
    fn what_is_called_last_may_not_have_come_to_its_function() {
        assert_eq!(
            labels(&["main", "E", "a", "E", "compiles"], &[("outer()", 7)]),
            "main E outer() outer() line 7 a E compiles"
        );
    }

    #[test]
    fn of_a_stack_or_a_list_that_is_cut_the_innermost_are_known() {
        assert_eq!(
            labels(&["a", "E", "b"], &[("inner()", 3), ("outer()", 7)]),
            "a E inner() inner() line 3 b"
        );
        let seven: Vec<(&str, u32)> = (0..7).map(|_| ("f()", 0)).collect();
        let stack = ["E"; 8];
        assert_eq!(labels(&stack, &seven), format!("E{}", " E f()".repeat(7)));
    }
}
