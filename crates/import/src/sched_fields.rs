//! Fields of the scheduler's tracepoints, as the kernel prints them (`prev_comm=… prev_pid=… ==> next_comm=…`) or as libtraceevent
//! does (`postgres:7 [120] S ==> swapper/0:0 [120]`): perf script, ftrace and trace-cmd have the same.

use dbtime_model::State;

use crate::switches::state_of;
use crate::text::{decimal, trim_start};

/// A task in a switch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SwitchedTask<'a> {
    pub(crate) comm: &'a [u8],
    pub(crate) tid: u32,
    pub(crate) priority: i32,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Switch<'a> {
    pub(crate) prev: SwitchedTask<'a>,
    pub(crate) state: State,
    pub(crate) next: SwitchedTask<'a>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Woken<'a> {
    pub(crate) comm: &'a [u8],
    pub(crate) tid: u32,
    pub(crate) cpu: Option<u32>,
}

/// Fields of sched_switch.
pub(crate) fn switch(fields: &[u8]) -> Option<Switch<'_>> {
    // Names may contain an arrow: the right one has a task on either side.
    memchr::memmem::find_iter(fields, b" ==> ")
        .find_map(|arrow| switch_between(&fields[..arrow], fields[arrow + 5..].trim_ascii()))
        .or_else(|| raw_switch(fields.trim_ascii()))
}

/// `prev_comm=… prev_state=256 next_comm=…`: the fields as they are stored (`trace-cmd report -R`).
fn raw_switch(fields: &[u8]) -> Option<Switch<'_>> {
    let (prev, next) = cut(fields.strip_prefix(b"prev_comm=")?, b" next_comm=")?;
    let (prev, state) = cut(prev, b" prev_state=")?;
    Some(Switch {
        prev: named_task(prev, b" prev_pid=", b" prev_prio=")?,
        state: state_of_bits(decimal(state)?),
        next: named_task(next, b" next_pid=", b" next_prio=")?,
    })
}

/// The kernel's bits of a state (`__trace_sched_switch_state`): eight that are reported, then one that says that the task was preempted.
fn state_of_bits(bits: u64) -> State {
    match bits & 0xff {
        0 => State::Runnable,
        reported => usize::try_from(reported.trailing_zeros())
            .ok()
            .and_then(|bit| b"SDTtXZPI".get(bit..))
            .map_or(State::Unknown, state_of),
    }
}

fn switch_between<'a>(prev: &'a [u8], next: &'a [u8]) -> Option<Switch<'a>> {
    match prev.strip_prefix(b"prev_comm=") {
        Some(prev) => {
            let (prev, state) = cut(prev, b" prev_state=")?;
            Some(Switch {
                prev: named_task(prev, b" prev_pid=", b" prev_prio=")?,
                state: state_of(state),
                next: named_task(next.strip_prefix(b"next_comm=")?, b" next_pid=", b" next_prio=")?,
            })
        }
        None => {
            let (prev, state) = cut(prev, b" ")?;
            Some(Switch {
                prev: short_task(prev)?.0,
                state: state_of(state),
                next: short_task(next)?.0,
            })
        }
    }
}

/// Fields of sched_waking, sched_wakeup, sched_wakeup_new.
pub(crate) fn woken(fields: &[u8]) -> Option<Woken<'_>> {
    let number = |text: &[u8]| u32::try_from(decimal(text)?).ok();
    match fields.strip_prefix(b"comm=") {
        Some(fields) => {
            let (fields, cpu) = cut(fields.trim_ascii(), b" target_cpu=")?;
            let (fields, _) = cut(fields, b" prio=")?;
            let (comm, tid) = cut(fields, b" pid=")?;
            Some(Woken {
                comm,
                tid: number(tid)?,
                cpu: Some(number(cpu)?),
            })
        }
        None => {
            let (task, rest) = short_task(fields)?;
            let cpu = cut(rest, b"CPU:").and_then(|(_, cpu)| number(cpu.trim_ascii()));
            Some(Woken {
                comm: task.comm,
                tid: task.tid,
                cpu,
            })
        }
    }
}

/// Fields of sched_migrate_task: the task, and where it goes.
pub(crate) fn migrated(fields: &[u8]) -> Option<(u32, u32)> {
    let number = |text: &[u8]| u32::try_from(decimal(text)?).ok();
    let (fields, to) = cut(fields.trim_ascii(), b" dest_cpu=")?;
    let (fields, _) = cut(fields, b" orig_cpu=")?;
    let (fields, _) = cut(fields, b" prio=")?;
    let (_, tid) = cut(fields, b" pid=")?;
    Some((number(tid)?, number(to)?))
}

/// What comes before and after the last occurrence of a word: names may have anything in them, and come first.
fn cut<'a>(text: &'a [u8], word: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = memchr::memmem::rfind(text, word)?;
    Some((&text[..at], &text[at + word.len()..]))
}

/// `comm PID number PRIO number`
fn named_task<'a>(text: &'a [u8], pid: &[u8], prio: &[u8]) -> Option<SwitchedTask<'a>> {
    let (text, priority) = cut(text, prio)?;
    let (comm, tid) = cut(text, pid)?;
    Some(SwitchedTask {
        comm,
        tid: u32::try_from(decimal(tid)?).ok()?,
        priority: signed(priority)?,
    })
}

/// `comm:tid [prio]`, and what follows.
fn short_task(text: &[u8]) -> Option<(SwitchedTask<'_>, &[u8])> {
    let close = memchr::memchr(b']', text)?;
    let (comm_and_tid, priority) = cut(&text[..close], b" [")?;
    let (comm, tid) = cut(comm_and_tid, b":")?;
    let task = SwitchedTask {
        comm,
        tid: u32::try_from(decimal(tid)?).ok()?,
        priority: signed(priority)?,
    };
    Some((task, trim_start(&text[close + 1..])))
}

fn signed(text: &[u8]) -> Option<i32> {
    match text.strip_prefix(b"-") {
        Some(digits) => Some(-i32::try_from(decimal(digits)?).ok()?),
        None => i32::try_from(decimal(text)?).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_writing_a_switch_are_read() {
        let long = b"prev_comm=a b] ==x prev_pid=7 prev_prio=120 prev_state=R+ ==> next_comm=swapper/0 next_pid=0 next_prio=120";
        let short = b"a b] ==x:7 [120] R+ ==> swapper/0:0 [120]";
        let task = |comm, tid| SwitchedTask {
            comm,
            tid,
            priority: 120,
        };
        assert_eq!(switch(long).expect("a switch").prev, task(&b"a b] ==x"[..], 7));
        assert_eq!(switch(long).expect("a switch").next, task(&b"swapper/0"[..], 0));
        assert_eq!(switch(long).expect("a switch").state, State::Runnable);
        // A name with a bracket cannot be told from the priority in the short form.
        assert_eq!(switch(short), None);
        let short = switch(b"a:b:7 [-1] D ==> c:8 [0]").expect("a switch");
        assert_eq!(
            (short.prev.comm, short.prev.tid, short.prev.priority),
            (&b"a:b"[..], 7, -1)
        );
        assert_eq!(
            (short.state, short.next.tid, short.next.priority),
            (State::Disk, 8, 0)
        );
    }

    #[test]
    fn a_switch_of_stored_fields_has_bits_for_a_state() {
        for (bits, state) in [
            ("0", State::Runnable),
            ("1", State::Sleep),
            ("2", State::Disk),
            ("128", State::Sleep),
            ("256", State::Runnable),
        ] {
            let fields = format!(
                "prev_comm=a next_comm=b prev_pid=7 prev_prio=120 prev_state={bits} next_comm=c next_pid=8 next_prio=0"
            );
            let found = switch(fields.as_bytes()).expect("a switch");
            assert_eq!(
                (found.prev.tid, found.state, found.next.tid),
                (7, state, 8),
                "{bits}"
            );
        }
        assert_eq!(
            switch(b"prev_comm=a prev_pid=7 prev_prio=120 prev_state=x next_comm=c next_pid=8 next_prio=0"),
            None
        );
    }

    #[test]
    fn wakeups_and_moves_name_the_task_and_its_cpu() {
        let long = woken(b"comm=a pid=3 b pid=7 prio=120 target_cpu=001").expect("a wakeup");
        assert_eq!((long.comm, long.tid, long.cpu), (&b"a pid=3 b"[..], 7, Some(1)));
        let short = woken(b"a:7 [120] CPU:002").expect("a wakeup");
        assert_eq!((short.comm, short.tid, short.cpu), (&b"a"[..], 7, Some(2)));
        assert_eq!(
            migrated(b"comm=perf pid=9 prio=120 orig_cpu=0 dest_cpu=1"),
            Some((9, 1))
        );
        assert_eq!(woken(b"comm=a pid=x prio=120 target_cpu=001"), None);
    }

    #[test]
    fn a_name_with_an_arrow_is_whole() {
        let long = b"prev_comm=a ==> b prev_pid=9 prev_prio=120 prev_state=R+ ==> next_comm=swapper/0 next_pid=0 next_prio=120";
        for (fields, state) in [
            (&long[..], State::Runnable),
            (b"tb:9 [120] D ==> swapper/0:0 [120]", State::Disk),
        ] {
            let found = switch(fields).expect("a switch");
            assert_eq!((found.prev.tid, found.state, found.next.tid), (9, state, 0));
        }
        for cut in ["", "tb:9 [120]", "tb:9 [120] S ==> ", "prev_pid=9 ==> next_pid=0"] {
            assert_eq!(switch(cut.as_bytes()), None, "{cut}");
        }
        assert_eq!(
            woken(b"comm=t b pid=9 prio=120 target_cpu=000").map(|of| of.tid),
            Some(9)
        );
        assert_eq!(woken(b"a:b:9 [120]<CPU:001>").map(|of| of.tid), Some(9));
    }
}
