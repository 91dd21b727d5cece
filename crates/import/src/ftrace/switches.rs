//! What `sched_switch` and `sched_wakeup` say, in the words of ftrace and of trace-cmd.

use dbtime_model::State;

use super::line::argument;
use crate::text::decimal;

/// A switch from one task to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Switch {
    pub from: u32,
    /// What the task is that goes.
    pub state: State,
    pub to: u32,
}

/// `prev_comm=… prev_pid=9 prev_prio=120 prev_state=S ==> next_comm=… next_pid=0 …`, or `tb:9 [120] S ==> swapper/0:0 [120]`.
pub(super) fn switched(arguments: &[u8]) -> Option<Switch> {
    let arrow = memchr::memmem::rfind(arguments, b"==>")?;
    let (before, behind) = (
        arguments[..arrow].trim_ascii(),
        arguments[arrow + 3..].trim_ascii(),
    );
    if let Some(from) = argument(before, b"prev_pid") {
        return Some(Switch {
            from: pid(from)?,
            state: state(argument(before, b"prev_state")?),
            to: pid(argument(behind, b"next_pid")?)?,
        });
    }
    let blank = memchr::memrchr(b' ', before)?;
    Some(Switch {
        from: task_with_priority(before[..blank].trim_ascii())?,
        state: state(&before[blank + 1..]),
        to: task_with_priority(behind)?,
    })
}

/// The task that is woken: `comm=… pid=9 …`, or `tb:9 [120]<CPU:001>`, `tb:9 [120] CPU:001`.
pub(super) fn woken(arguments: &[u8]) -> Option<u32> {
    if let Some(of) = argument(arguments, b"pid") {
        return pid(of);
    }
    let end = memchr::memrchr(b']', arguments)? + 1;
    task_with_priority(&arguments[..end])
}

/// `NAME:PID [PRIORITY]`
fn task_with_priority(text: &[u8]) -> Option<u32> {
    let open = memchr::memrchr(b'[', text)?;
    let task = text[..open].trim_ascii_end();
    pid(&task[memchr::memrchr(b':', task)? + 1..])
}

fn pid(text: &[u8]) -> Option<u32> {
    u32::try_from(decimal(text)?).ok()
}

/// The letters of `prev_state`: `R` and `R+` (preempted) are in the run queue.
fn state(letters: &[u8]) -> State {
    match letters.first() {
        Some(b'R') => State::Runnable,
        Some(b'D') => State::Disk,
        Some(b'T' | b't') => State::Stopped,
        Some(b'S' | b'I' | b'X' | b'Z' | b'P' | b'K') => State::Sleep,
        _ => State::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_switch_are_understood() {
        let expected = |state| Switch {
            from: 9,
            state,
            to: 0,
        };
        let ftrace = b"prev_comm=a ==> b prev_pid=9 prev_prio=120 prev_state=R+ ==> next_comm=swapper/0 next_pid=0 next_prio=120";
        assert_eq!(switched(ftrace), Some(expected(State::Runnable)));
        assert_eq!(
            switched(b"tb:9 [120] D ==> swapper/0:0 [120]"),
            Some(expected(State::Disk))
        );
        for cut in ["", "tb:9 [120]", "tb:9 [120] S ==> ", "prev_pid=9 ==> next_pid=0"] {
            assert_eq!(switched(cut.as_bytes()), None, "{cut}");
        }
        assert_eq!(woken(b"comm=t b pid=9 prio=120 target_cpu=000"), Some(9));
        assert_eq!(woken(b"a:b:9 [120]<CPU:001>"), Some(9));
    }
}
