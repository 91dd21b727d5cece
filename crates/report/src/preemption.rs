//! Sessions that were pushed off their CPU: the kernel's frames say how the scheduler took it from them, not what they did.
//!
//! A session in the run queue whose kernel stack ends in an interrupt, on the way out of the kernel or at a preemption point
//! had not asked for anything. Its time is that of the function that was interrupted.

use std::borrow::Borrow;

use dbtime_model::{Frame, State};

/// Stands for the frames of the kernel that took the CPU away.
pub(crate) const PREEMPTED: &str = "[preempted]";

/// Prefixes of functions at which preemption begins in a stack, without leading underscores; x86-64 and arm64.
const TAKES_CPU: [&str; 16] = [
    "asm_sysvec_",
    "asm_common_interrupt",
    "sysvec_",
    "common_interrupt",
    "el0t_64_irq",
    "el0_irq",
    "el0_interrupt",
    "el1h_64_irq",
    "el1_irq",
    "el1_interrupt",
    "irqentry_exit",
    "raw_irqentry_exit",
    "exit_to_user_mode",
    "syscall_exit_to_user_mode",
    "preempt_schedule",
    "cond_resched",
];

/// Prefixes of functions by which the kernel is entered: when only these are left, the user function was interrupted.
const ENTERS_KERNEL: [&str; 6] = [
    "entry_SYSCALL",
    "do_syscall_64",
    "asm_exc_",
    "el0t_64_sync",
    "el0_svc",
    "ret_from_fork",
];

/// The frames of a kernel stack (root first) that are the session's own work, and whether the rest is preemption.
pub(crate) fn own_frames<F: Borrow<Frame>>(kernel: &[F], state: State) -> (&[F], bool) {
    let begins = |frame: &F, beginnings: &[&str]| {
        let symbol = frame.borrow().symbol.trim_start_matches('_');
        beginnings.iter().any(|beginning| symbol.starts_with(beginning))
    };
    let taken = match state {
        State::Runnable => kernel.iter().position(|frame| begins(frame, &TAKES_CPU)),
        _ => None,
    };
    match taken {
        None => (kernel, false),
        Some(at) if kernel[..at].iter().all(|frame| begins(frame, &ENTERS_KERNEL)) => (&[], true),
        Some(at) => (&kernel[..at], true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(symbols: &[&str]) -> Vec<Frame> {
        symbols
            .iter()
            .map(|symbol| Frame {
                symbol: (*symbol).into(),
                module: "[kernel]".into(),
                build_id: String::new(),
                offset: 0,
            })
            .collect()
    }

    /// Stacks of sessions in the run queue, as Linux 6.18 shows them, and how much of each is their own.
    #[test]
    fn what_took_the_cpu_away_is_no_work_of_the_session() {
        let own = |symbols: &[&str]| {
            let frames = stack(symbols);
            let (own, preempted) = own_frames(&frames, State::Runnable);
            (own.len(), preempted)
        };
        let timer = [
            "asm_sysvec_apic_timer_interrupt",
            "irqentry_exit_to_user_mode",
            "schedule",
            "__schedule",
        ];
        assert_eq!(own(&timer), (0, true));
        let call = ["entry_SYSCALL_64_after_hwframe", "do_syscall_64"];
        assert_eq!(
            own(&[&call[..], &["exit_to_user_mode_loop", "schedule", "__schedule"]].concat()),
            (0, true)
        );
        assert_eq!(
            own(&["asm_exc_page_fault", "irqentry_exit_to_user_mode", "schedule"]),
            (0, true)
        );
        let read = ["x64_sys_call", "ksys_read", "vfs_read", "filemap_read"];
        let in_read = |rest: &[&str]| own(&[&call[..], &read[..], rest].concat());
        assert_eq!(
            in_read(&["__cond_resched", "preempt_schedule_common", "__schedule"]),
            (6, true)
        );
        assert_eq!(
            in_read(&[
                "asm_sysvec_reschedule_ipi",
                "irqentry_exit",
                "preempt_schedule_irq"
            ]),
            (6, true)
        );
        // It slept and was woken: it is still where it slept.
        let asleep = [
            "x64_sys_call",
            "do_epoll_wait",
            "ep_poll",
            "schedule_hrtimeout_range",
            "schedule",
            "__schedule",
        ];
        assert_eq!(own(&[&call[..], &asleep[..]].concat()), (8, false));
        assert_eq!(own(&[]), (0, false));
    }

    #[test]
    fn an_interrupt_on_a_cpu_is_an_interrupt() {
        let frames = stack(&["asm_sysvec_apic_timer_interrupt", "handle_softirqs"]);
        assert_eq!(own_frames(&frames, State::Kernel), (&frames[..], false));
    }
}
