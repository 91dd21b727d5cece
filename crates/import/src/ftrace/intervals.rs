//! From tracepoints of a task to calls: without a function tracer, all that is known of a system call is when it passed which tracepoint,
//! and with which stack.
//!
//! Time is measured from tracepoint to tracepoint and goes to the stack of the second one, if stacks were traced. That says less than a
//! function's duration: the time belongs to all that ran in between, as the names say (`block_bio_queue → block_rq_issue`). Between two
//! tracepoints of an interrupt, it is the interrupt's.

use dbtime_model::State;
use syscalls::Sysno;

use super::calls::Calls;
use super::line::{Place, argument, pid_of};
use super::step::Interval;
use crate::Import;
use crate::samples::Table;
use crate::sched_fields::switch;
use crate::text::decimal;

/// Functions at the leaf of a stack that are the tracer's own.
const TRACER: [&[u8]; 7] = [
    b"trace_event_",
    b"__traceiter_",
    b"ftrace_",
    b"__ftrace_",
    b"trace_buffer_",
    b"stack_trace_",
    b"__do_trace_",
];

/// Functions at the root of a stack that enclose every system call.
const ENTRY: [&[u8]; 10] = [
    b"entry_SYSCALL",
    b"do_syscall_64",
    b"x64_sys_call",
    b"__x64_sys_",
    b"el0",
    b"do_el0",
    b"invoke_syscall",
    b"__arm64_sys_",
    b"syscall_",
    b"exit_to_user_mode",
];

/// Deeper stacks are cut at their leaf.
const DEEPEST: usize = 128;

/// The last tracepoint of a call.
#[derive(Debug)]
struct Last {
    at_ns: i64,
    name: Box<[u8]>,
    in_interrupt: bool,
    /// The task went off its CPU there, in this state.
    off: Option<State>,
    functions: Vec<Box<[u8]>>,
}

/// A tracepoint whose stack may follow.
#[derive(Debug)]
struct Waiting {
    next: Last,
    ends: bool,
}

/// How the tracepoints that begin and end system calls identify a call; a trace may have both kinds of them.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Which {
    /// `sys_enter`, `sys_exit`: its number; none if the kernel has forgotten it (`NR -1`).
    Number(Option<usize>),
    /// `sys_enter_read`, `sys_exit_read`.
    Name(Box<[u8]>),
}

impl Which {
    fn is_number(&self) -> bool {
        matches!(self, Which::Number(_))
    }

    /// True if this end may be that of the call that began so.
    fn may_be(&self, ends: &Which) -> bool {
        match (self, ends) {
            // A program that replaces itself may end the call on another architecture, or with another call's number.
            (Which::Number(Some(begun)), Which::Number(Some(ends))) => {
                begun == ends || replaces_program(*begun)
            }
            (Which::Name(begun), Which::Name(ends)) => begun == ends || begun.starts_with(b"exec"),
            _ => true,
        }
    }
}

fn replaces_program(number: usize) -> bool {
    matches!(Sysno::new(number), Some(Sysno::execve | Sysno::execveat))
}

/// The call that a task is in.
#[derive(Debug)]
struct Call {
    began: Which,
    /// Its other kind of tracepoint has been seen too.
    is_told_twice: bool,
    last: Last,
}

/// Tasks in calls.
#[derive(Debug, Default)]
pub(super) struct Intervals {
    calls: Table<usize, Call>,
    by_pid: Table<u32, usize>,
    /// By task, because events of other CPUs can come between a tracepoint and its stack.
    waiting: Table<usize, Waiting>,
    /// The task whose stack is being read.
    stack_of: Option<usize>,
}

impl Intervals {
    /// A frame of the stack of an earlier tracepoint, leaf first.
    pub(super) fn frame(&mut self, name: &[u8]) {
        let waiting = self.stack_of.and_then(|task| self.waiting.get_mut(&task));
        if let Some(waiting) = waiting {
            let functions = &mut waiting.next.functions;
            let is_around = is_entry(name) || (functions.is_empty() && is_tracer(name));
            if !is_around && functions.len() < DEEPEST {
                functions.push(name.into());
            }
        }
    }

    /// The stack of this task's tracepoint begins; an incomplete one is ignored.
    pub(super) fn stack_begins(
        &mut self,
        place: &Place<'_>,
        is_whole: bool,
        calls: &mut Calls,
        into: &mut Import,
    ) {
        self.stack_of = is_whole.then(|| calls.tasks.of(place, into));
    }

    /// A tracepoint; false if it is one that matters here and cannot be read. If calls depend on it, open ones are cut.
    pub(super) fn event(
        &mut self,
        place: &Place<'_>,
        name: &[u8],
        arguments: &[u8],
        calls: &mut Calls,
        into: &mut Import,
    ) -> bool {
        self.stack_of = None;
        let Some(at_ns) = place.at_ns else { return true };
        let switch = (name == b"sched_switch").then(|| switch(arguments));
        let (begins, ends) = (begins(name, arguments), ends(name, arguments));
        if matches!(switch, Some(None)) || matches!(begins, Some(None)) || matches!(ends, Some(None)) {
            self.lost(calls, into);
            return false;
        }
        let (switch, begins, ends) = (switch.flatten(), begins.flatten(), ends.flatten());
        if let Some(switch) = &switch
            && let Some(task) = self.by_pid.get(&switch.next.tid).copied()
        {
            self.settle(task, calls, into);
            self.back(task, at_ns, calls);
        }
        // A wakeup is noted for the task that it is about.
        let is_known = calls.event(place, name, arguments);
        let task = calls.tasks.of(place, into);
        if let Some(pid) = pid_of(place.task).filter(|pid| *pid > 0) {
            self.by_pid.insert(pid, task);
        }
        self.settle(task, calls, into);
        let next = |name: &[u8]| Last {
            at_ns,
            name: name.into(),
            in_interrupt: place.in_interrupt,
            off: None,
            functions: Vec::new(),
        };
        if let Some(began) = begins {
            if let Some(call) = self.calls.get_mut(&task) {
                if !call.is_told_twice && call.began.is_number() != began.is_number() {
                    call.is_told_twice = true;
                    return is_known;
                }
                // The end of the previous call is missing.
                self.calls.remove(&task);
                calls.cut(task);
            }
            let place = Place { indent: 2, ..*place };
            calls.enter(&place, function(&began).as_bytes(), into);
            self.calls.insert(
                task,
                Call {
                    began,
                    is_told_twice: false,
                    last: next(b"sys_enter"),
                },
            );
            return is_known;
        }
        let Some(call) = self.calls.get(&task) else {
            return is_known;
        };
        if ends.as_ref().is_some_and(|ends| !call.began.may_be(ends)) {
            // Its end and the start of this one are missing: lines of a CPU were left out.
            self.calls.remove(&task);
            calls.cut(task);
            return is_known;
        }
        let mut next = next(match ends {
            Some(_) => b"sys_exit",
            None => name,
        });
        next.off = switch
            .filter(|switch| Some(switch.prev.tid) == pid_of(place.task))
            .map(|switch| switch.state);
        let ends = ends.is_some();
        self.waiting.insert(task, Waiting { next, ends });
        is_known
    }

    /// The previous tracepoint of a task is complete, including its stack.
    fn settle(&mut self, task: usize, calls: &mut Calls, into: &mut Import) {
        let Some(Waiting { mut next, ends }) = self.waiting.remove(&task) else {
            return;
        };
        next.functions.reverse();
        let Some(Call { last, .. }) = self.calls.get(&task) else {
            return;
        };
        let label = [&last.name[..], " → ".as_bytes(), &next.name[..]].concat();
        // The root of the stack is the call itself.
        calls.interval(
            task,
            &Interval {
                from_ns: last.at_ns,
                to_ns: next.at_ns,
                label: &label,
                // If the switch back is not traced, the task stays off until now, where it left.
                functions: match last.off {
                    Some(_) => &last.functions,
                    None => &next.functions,
                },
                off: last.off,
                in_interrupt: last.in_interrupt && next.in_interrupt,
            },
        );
        if ends {
            self.calls.remove(&task);
            calls.end(task, next.at_ns, into);
        } else if let Some(call) = self.calls.get_mut(&task) {
            call.last = next;
        }
    }

    /// All waiting tracepoints are complete.
    pub(super) fn settle_all(&mut self, calls: &mut Calls, into: &mut Import) {
        let tasks: Vec<usize> = self.waiting.keys().copied().collect();
        for task in tasks {
            self.settle(task, calls, into);
        }
    }

    /// The task is on a CPU again.
    fn back(&mut self, task: usize, at_ns: i64, calls: &mut Calls) {
        let Some(call) = self.calls.get_mut(&task).filter(|call| call.last.off.is_some()) else {
            return;
        };
        let last = &mut call.last;
        calls.interval(
            task,
            &Interval {
                from_ns: last.at_ns,
                to_ns: at_ns,
                label: b"",
                functions: &last.functions,
                off: last.off.take(),
                in_interrupt: false,
            },
        );
        last.at_ns = at_ns;
        last.in_interrupt = false;
    }

    /// Events were lost: what is open is cut.
    pub(super) fn lost(&mut self, calls: &mut Calls, into: &mut Import) {
        self.settle_all(calls, into);
        self.calls.drain().for_each(|(task, _)| calls.cut(task));
    }
}

/// True for functions that enclose every system call.
pub(super) fn is_entry(name: &[u8]) -> bool {
    ENTRY.iter().any(|beginning| name.starts_with(beginning))
}

/// True for functions that a tracepoint calls.
pub(super) fn is_tracer(name: &[u8]) -> bool {
    TRACER.iter().any(|beginning| name.starts_with(beginning))
}

/// The system call that begins here; none inside when it cannot be read.
fn begins(name: &[u8], arguments: &[u8]) -> Option<Option<Which>> {
    if name == b"sys_enter" {
        return Some(number(arguments).filter(|of| *of != Which::Number(None)));
    }
    if let Some(call) = name.strip_prefix(b"sys_enter_") {
        return Some(Some(Which::Name(call.into())));
    }
    let is_single = name.starts_with(b"sys_") && !name.starts_with(b"sys_exit_") && name != b"sys_exit";
    let call = name
        .strip_prefix(b"sys_")
        .filter(|_| is_single && !arguments.starts_with(b"->"));
    call.map(|call| Some(Which::Name(call.into())))
}

/// The system call that ends here; none inside when it cannot be read.
fn ends(name: &[u8], arguments: &[u8]) -> Option<Option<Which>> {
    if name == b"sys_exit" {
        return Some(number(arguments));
    }
    let call = match name.strip_prefix(b"sys_exit_") {
        Some(call) => call,
        None => name
            .strip_prefix(b"sys_")
            .filter(|_| arguments.starts_with(b"->"))?,
    };
    Some(Some(Which::Name(call.into())))
}

/// `NR 17 (…)`, `NR 17 = 8192`, and `id=17 …` as `trace-cmd report -R` has it.
fn number(arguments: &[u8]) -> Option<Which> {
    let text = match arguments.strip_prefix(b"NR ") {
        Some(behind) => behind,
        None => argument(arguments, b"id")?,
    };
    if text.starts_with(b"-") {
        return Some(Which::Number(None));
    }
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = usize::try_from(decimal(&text[..digits])?).ok()?;
    Some(Which::Number(Some(number)))
}

/// The call as a function's name.
fn function(call: &Which) -> String {
    match call {
        Which::Name(name) => format!("sys_{}", String::from_utf8_lossy(name)),
        Which::Number(number) => match number.and_then(Sysno::new) {
            Some(call) => format!("sys_{}", call.name()),
            None => format!("sys_{}", number.unwrap_or_default()),
        },
    }
}
