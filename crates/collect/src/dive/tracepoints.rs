//! The engine that works everywhere: tracepoints of one task, with the kernel stack of each, in a private instance.
//!
//! It shows where inside the call the task was, not how long each function took: it yields the intervals from one
//! tracepoint to the next. What ran in between is up to `samples`.

use std::time::Instant;

use super::tracefs::Trace;
use super::{Armed, DiveOptions};
use crate::CollectError;

/// Events that show the inside of a call; those that this kernel has are enabled.
const EVENTS: [&str; 22] = [
    "sched/sched_switch",
    "sched/sched_waking",
    "sched/sched_wakeup",
    "sched/sched_migrate_task",
    "block",
    "filemap",
    "iomap",
    "ext4",
    "jbd2",
    "xfs",
    "btrfs",
    "nvme",
    "scsi",
    "irq",
    "timer",
    "kmem",
    "exceptions",
    "vmscan",
    "compaction",
    "sock",
    "tcp",
    "net",
];
/// Begin and end of a call.
const CALLS: [&str; 2] = ["sys_enter", "sys_exit"];
/// Events of a high-resolution timer that is in use.
const TIMER_EVENTS: [&str; 4] = [
    "hrtimer_start",
    "hrtimer_expire_entry",
    "hrtimer_expire_exit",
    "hrtimer_cancel",
];
const OPTIONS: [(&str, &str); 5] = [
    ("stacktrace", "1"),
    ("latency-format", "0"),
    ("context-info", "1"),
    ("irq-info", "1"),
    ("event-fork", "0"),
];

/// Sets everything up.
///
/// # Errors
/// The kernel refuses it.
pub(super) fn arm(trace: &mut Trace, options: &DiveOptions) -> Result<Armed, CollectError> {
    let begin = Instant::now();
    trace.set_value("tracing_on", "0")?;
    trace.set_value("trace_clock", super::CLOCK)?;
    trace.set_room(super::room_kb())?;
    for (option, value) in OPTIONS {
        trace.set_if_there(&format!("options/{option}"), value)?;
    }
    trace.set_value("set_event_pid", &options.pid.to_string())?;
    // Only this system call: readers of the text use what lies between its beginning and its end.
    let only = format!("id == {}", options.call.number());
    for event in CALLS {
        trace.set_value(&format!("events/raw_syscalls/{event}/filter"), &only)?;
        trace.set_value(&format!("events/raw_syscalls/{event}/enable"), "1")?;
    }
    for event in EVENTS {
        trace.set_if_there(&format!("events/{event}/enable"), "1")?;
    }
    Ok(Armed {
        engine: "tracepoints with stacks in a private instance".to_string(),
        functions: None,
        took: begin.elapsed(),
        notes: Vec::new(),
        ends: vec![format!(" sys_exit: NR {} = ", options.call.number())],
    })
}

/// Excludes the events of the kernel's timer at this address: it is dbtime's own, and they would stand between the
/// tracepoints of the call. To be called before tracing begins.
///
/// # Errors
/// The kernel refuses it.
pub(super) fn leave_out_timer(trace: &mut Trace, address: u64) -> Result<(), CollectError> {
    for event in TIMER_EVENTS {
        trace.set_if_there(
            &format!("events/timer/{event}/filter"),
            &format!("hrtimer != {address:#x}"),
        )?;
    }
    Ok(())
}
