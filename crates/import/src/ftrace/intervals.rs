//! Tracepoints of a task to calls: where no tracer of functions is to be had, what is known of a system call is when it
//! passed which tracepoint, and at which stack.
//!
//! Time is told from tracepoint to tracepoint, with the stack of the second one, where stacks were traced. That is less than a
//! function's duration: the time belongs to all that ran in between, and names say so (`block_bio_queue → block_rq_issue`).
//! Between two tracepoints of an interrupt it is the interrupt's.

use dbtime_model::State;
use syscalls::Sysno;

use super::calls::Calls;
use super::line::{Place, pid_of};
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

/// Functions at the root of a stack that are around every system call.
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
    task: usize,
    next: Last,
    ends: bool,
}

/// Tasks in calls.
#[derive(Debug, Default)]
pub(super) struct Intervals {
    last: Table<usize, Last>,
    by_pid: Table<u32, usize>,
    waiting: Option<Waiting>,
    takes_stack: bool,
}

impl Intervals {
    /// A frame of the stack of the tracepoint before, leaf first.
    pub(super) fn frame(&mut self, name: &[u8]) {
        if let Some(waiting) = self.waiting.as_mut().filter(|_| self.takes_stack) {
            let functions = &mut waiting.next.functions;
            let is_around = is_entry(name) || (functions.is_empty() && is_tracer(name));
            if !is_around && functions.len() < DEEPEST {
                functions.push(name.into());
            }
        }
    }

    /// The stack of the tracepoint before begins.
    pub(super) fn stack_begins(&mut self) {
        self.takes_stack = true;
    }

    /// A tracepoint.
    pub(super) fn event(
        &mut self,
        place: &Place<'_>,
        name: &[u8],
        arguments: &[u8],
        calls: &mut Calls,
        into: &mut Import,
    ) {
        self.settle(calls, into);
        let Some(at_ns) = place.at_ns else { return };
        let switch = (name == b"sched_switch").then(|| switch(arguments)).flatten();
        if let Some(switch) = &switch
            && let Some(task) = self.by_pid.get(&switch.next.tid).copied()
        {
            self.back(task, at_ns, calls);
        }
        // A wakeup is noted for the task that it is about.
        calls.event(place, name, arguments);
        let task = calls.tasks.of(place, into);
        if let Some(pid) = pid_of(place.task).filter(|pid| *pid > 0) {
            self.by_pid.insert(pid, task);
        }
        let next = |name: &[u8]| Last {
            at_ns,
            name: name.into(),
            in_interrupt: place.in_interrupt,
            off: None,
            functions: Vec::new(),
        };
        if let Some(call) = begins(name, arguments) {
            if self.last.remove(&task).is_some() {
                // The end of the call before is not there.
                calls.cut(task);
            }
            let place = Place { indent: 2, ..*place };
            calls.enter(&place, call.as_bytes(), into);
            self.last.insert(task, next(b"sys_enter"));
            return;
        }
        if !self.last.contains_key(&task) {
            return;
        }
        let mut next = next(match ends(name, arguments) {
            true => b"sys_exit",
            false => name,
        });
        next.off = switch
            .filter(|switch| Some(switch.prev.tid) == pid_of(place.task))
            .map(|switch| switch.state);
        self.waiting = Some(Waiting {
            task,
            next,
            ends: ends(name, arguments),
        });
        self.takes_stack = false;
    }

    /// The tracepoint before is whole, its stack included.
    pub(super) fn settle(&mut self, calls: &mut Calls, into: &mut Import) {
        let Some(Waiting { task, mut next, ends }) = self.waiting.take() else {
            return;
        };
        next.functions.reverse();
        let Some(last) = self.last.remove(&task) else {
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
                functions: &next.functions,
                off: last.off,
                in_interrupt: last.in_interrupt && next.in_interrupt,
            },
        );
        if ends {
            calls.end(task, next.at_ns, into);
        } else {
            self.last.insert(task, next);
        }
    }

    /// The task is on a CPU again.
    fn back(&mut self, task: usize, at_ns: i64, calls: &mut Calls) {
        let Some(last) = self.last.get_mut(&task).filter(|last| last.off.is_some()) else {
            return;
        };
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

    /// Events of this CPU were lost: what is open there is cut.
    pub(super) fn lost(&mut self, calls: &mut Calls, into: &mut Import) {
        self.settle(calls, into);
        self.last.drain().for_each(|(task, _)| calls.cut(task));
    }
}

/// True for what is around every system call.
pub(super) fn is_entry(name: &[u8]) -> bool {
    ENTRY.iter().any(|beginning| name.starts_with(beginning))
}

/// True for what a tracepoint calls.
pub(super) fn is_tracer(name: &[u8]) -> bool {
    TRACER.iter().any(|beginning| name.starts_with(beginning))
}

/// The system call that begins here, as a function's name.
fn begins(name: &[u8], arguments: &[u8]) -> Option<String> {
    if name == b"sys_enter" {
        let number = arguments.strip_prefix(b"NR ")?;
        let digits = number.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = usize::try_from(decimal(&number[..digits])?).ok()?;
        return Some(match Sysno::new(number) {
            Some(call) => format!("sys_{}", call.name()),
            None => format!("sys_{number}"),
        });
    }
    if let Some(call) = name.strip_prefix(b"sys_enter_") {
        return Some(format!("sys_{}", String::from_utf8_lossy(call)));
    }
    let is_single = name.starts_with(b"sys_") && !name.starts_with(b"sys_exit");
    (is_single && !arguments.starts_with(b"->")).then(|| String::from_utf8_lossy(name).into_owned())
}

/// True when a system call ends here.
fn ends(name: &[u8], arguments: &[u8]) -> bool {
    name.starts_with(b"sys_exit") || (name.starts_with(b"sys_") && arguments.starts_with(b"->"))
}
