//! The best engine: ftrace's function_graph, every function of the kernel from entry to return.
//!
//! In a private instance (Linux 6.12 can, 6.1 cannot) nobody else's trace is touched. Settings that apply to all
//! instances are changed only for the duration of the dive, and only while nobody else traces functions: the options of
//! the tracer, and the function that it starts at, which is the entry of the call. The kernel's own trace is used only
//! while nobody else uses it.

use std::path::Path;
use std::time::Instant;

use super::tracefs::{Trace, TraceFs};
use super::{Armed, DiveOptions};
use crate::CollectError;

const TRACER: &str = "function_graph";
/// Lists of the kernel's own trace that hide functions there when somebody has set them.
const LISTS_OF_OTHERS: [&str; 4] = [
    "set_ftrace_filter",
    "set_ftrace_notrace",
    "set_ftrace_notrace_pid",
    "set_event_notrace_pid",
];
/// The same, for private instances too.
const LISTS_FOR_ALL: [&str; 2] = ["set_graph_function", "set_graph_notrace"];
/// Values that hide functions everywhere when they are not 0.
const LIMITS_FOR_ALL: [&str; 2] = ["tracing_thresh", "max_graph_depth"];
/// Enabled by the kernel itself as soon as a BPF program could print: not a sign that anybody is tracing.
const ALWAYS_ENABLED: &str = "bpf_trace:bpf_trace_printk";

/// Options that the text needs: times and tasks are shown, ends have names, sleep and interrupts count.
const OPTIONS: [(&str, &str); 17] = [
    ("funcgraph-abstime", "1"),
    ("funcgraph-cpu", "1"),
    ("funcgraph-duration", "1"),
    ("funcgraph-irqs", "1"),
    ("funcgraph-overhead", "1"),
    ("funcgraph-proc", "1"),
    ("funcgraph-tail", "1"),
    ("sleep-time", "1"),
    ("funcgraph-args", "0"),
    ("funcgraph-overrun", "0"),
    ("funcgraph-retaddr", "0"),
    ("funcgraph-retval", "0"),
    ("latency-format", "0"),
    ("stacktrace", "0"),
    // Not what the task forks.
    ("event-fork", "0"),
    ("function-fork", "0"),
    ("context-info", "1"),
];
/// Besides the functions: when the task leaves the CPU and is woken again.
const EVENTS: [&str; 2] = [
    "events/sched/sched_switch/enable",
    "events/sched/sched_wakeup/enable",
];

/// What prevents using the kernel's own trace.
pub(super) fn obstacle_in_own_trace(fs: &TraceFs) -> Option<String> {
    let value = |file: &str| fs.value(file).unwrap_or_default();
    let tracer = value("current_tracer");
    if tracer != "nop" {
        return Some(format!(
            "the kernel's top-level trace instance is in use: {} is '{tracer}'",
            fs.path("current_tracer").display()
        ));
    }
    if fs
        .entries("set_event")
        .iter()
        .any(|event| event != ALWAYS_ENABLED)
    {
        return Some(format!(
            "the kernel's top-level trace instance is in use: events are enabled ({})",
            fs.path("set_event").display()
        ));
    }
    let unread = fs.unread();
    if unread > 0 {
        return Some(format!(
            "{} holds {unread} unread events: empty it if they are not needed",
            fs.path("trace").display()
        ));
    }
    obstacle_of_settings(fs, &[&LISTS_OF_OTHERS[..], &LISTS_FOR_ALL].concat())
}

/// What prevents using a private instance.
pub(super) fn obstacle_in_instance(fs: &TraceFs) -> Option<String> {
    // Options of the tracer, and these limits, apply to every instance on most kernels.
    let own = fs.path("current_tracer");
    let others = fs
        .instances()
        .into_iter()
        .map(|instance| instance.join("current_tracer"));
    let user = others.chain([own]).find(|path| is_function_graph(path));
    if let Some(path) = user {
        return Some(format!(
            "{TRACER} is in use elsewhere and its options would change: {}",
            path.display()
        ));
    }
    obstacle_of_settings(fs, &LISTS_FOR_ALL)
}

fn is_function_graph(path: &Path) -> bool {
    std::fs::read_to_string(path).is_ok_and(|tracer| tracer.trim() == TRACER)
}

fn obstacle_of_settings(fs: &TraceFs, lists: &[&'static str]) -> Option<String> {
    let list = lists.iter().copied().find(|file| !fs.entries(file).is_empty());
    let limit = LIMITS_FOR_ALL
        .into_iter()
        .find(|file| fs.value(file).is_some_and(|value| value != "0"));
    let file = list.or(limit)?;
    Some(format!(
        "{} is set, which would hide functions",
        fs.path(file).display()
    ))
}

/// Sets everything up, in an order in which nothing unwanted is ever traced.
///
/// # Errors
/// The kernel refuses it.
pub(super) fn arm(trace: &mut Trace, options: &DiveOptions, entry: &str) -> Result<Armed, CollectError> {
    let begin = Instant::now();
    let pid = options.pid.to_string();
    if !offers_tracer(trace) {
        return Err(CollectError::Kernel(format!("this kernel has no {TRACER} there")));
    }
    trace.set_value("tracing_on", "0")?;
    trace.set_value("trace_clock", super::CLOCK)?;
    trace.set_room(super::room_kb())?;
    for (option, value) in OPTIONS {
        trace.set_if_there(&format!("options/{option}"), value)?;
    }
    trace.set_value("set_ftrace_pid", &pid)?;
    trace.set_value("set_event_pid", &pid)?;
    trace.set_value("set_graph_function", entry)?;
    let mut notes = Vec::new();
    if !options.functions.is_empty() {
        let wanted = [&[entry.to_string()], &options.functions[..]].concat();
        let unknown = trace.set_functions(&wanted)?;
        if unknown.iter().any(|name| name == entry) {
            return Err(CollectError::Kernel(format!("this kernel cannot trace {entry}")));
        }
        notes.extend(
            unknown
                .iter()
                .map(|name| format!("no traceable function matches {name}")),
        );
    }
    let before = enabled_functions(trace.fs());
    trace.set_value("current_tracer", TRACER)?;
    for event in EVENTS {
        trace.set_value(event, "1")?;
    }
    let armed = enabled_functions(trace.fs());
    Ok(Armed {
        engine: match trace.is_private() {
            true => "ftrace function_graph in a private instance".to_string(),
            false => "ftrace function_graph in the top-level instance".to_string(),
        },
        functions: armed
            .zip(before)
            .map(|(armed, before)| armed.saturating_sub(before)),
        took: begin.elapsed(),
        notes,
        // A call that calls no traced function is a leaf.
        ends: vec![format!("}} /* {entry} */"), format!(" {entry}();")],
    })
}

fn offers_tracer(trace: &Trace) -> bool {
    trace
        .text("available_tracers")
        .is_some_and(|text| text.split_whitespace().any(|name| name == TRACER))
}

/// Functions of the kernel that something is attached to.
fn enabled_functions(fs: &TraceFs) -> Option<u64> {
    Some(fs.value("enabled_functions")?.lines().count() as u64)
}
