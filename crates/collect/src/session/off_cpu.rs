//! Translates the kernel's state of a task that is off CPU.

use dbtime_model::State;

/// State of a task that is off CPU, from its raw `__state` (include/linux/sched.h). Modifier bits (killable, noload,
/// freezable …) are ignored.
pub(crate) fn off_cpu_state(raw: u32, in_iowait: bool) -> State {
    const INTERRUPTIBLE: u32 = 0x1;
    const UNINTERRUPTIBLE: u32 = 0x2;
    const STOPPED_OR_TRACED: u32 = 0x4 | 0x8;
    /// It has been woken, but its new CPU has not noticed yet (it may have to leave an idle state first). The kernel
    /// counts that as run queue only from when the task is queued; so does this.
    const WAKING: u32 = 0x200;
    const NEW: u32 = 0x800;
    /// TASK_RTLOCK_WAIT: a sleeping spinlock of a real-time kernel.
    const RTLOCK_WAIT: u32 = 0x1000;
    const FROZEN: u32 = 0x8000;
    match raw {
        0 => State::Runnable,
        _ if raw & NEW != 0 => State::Runnable,
        _ if raw & WAKING != 0 && in_iowait => State::Disk,
        _ if raw & (INTERRUPTIBLE | WAKING) != 0 => State::Sleep,
        _ if raw & (UNINTERRUPTIBLE | RTLOCK_WAIT) != 0 => State::Disk,
        _ if raw & (STOPPED_OR_TRACED | FROZEN) != 0 => State::Stopped,
        _ => State::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_states_of_the_kernel() {
        for (raw, state) in [
            (0, State::Runnable),
            (0x200, State::Sleep),    // waking
            (0x800, State::Runnable), // new
            (0x1, State::Sleep),
            (0x2, State::Disk),
            (0x102, State::Disk),    // killable
            (0x2001, State::Sleep),  // freezable
            (0x104, State::Stopped), // TASK_STOPPED
            (0x108, State::Stopped), // TASK_TRACED
            (0x80, State::Unknown),  // dead
        ] {
            assert_eq!(off_cpu_state(raw, false), state, "{raw:#x}");
        }
    }

    #[test]
    fn a_task_on_its_way_out_of_block_io_is_still_in_it() {
        assert_eq!(off_cpu_state(0x200, true), State::Disk);
        assert_eq!(off_cpu_state(0x1, true), State::Sleep);
    }
}
