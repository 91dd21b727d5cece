//! Roles of the functions of a trace, by name: the few that mean more than that time was spent in them.

/// What a function is to a reader of traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Any other one.
    Plain,
    /// A system call: its own work begins and ends here.
    SystemCall,
    /// Encloses system calls and belongs to none.
    Dispatcher,
    /// Gives up the CPU.
    Schedule,
    /// Gives up the CPU to wait for I/O.
    IoSchedule,
    /// Offers the CPU to other tasks.
    Yield,
    /// Gives up the CPU because another task is to run, not because the function it is called in wants to.
    Preemption,
    /// The first thing that a task does when it is back on a CPU.
    BackOnCpu,
    /// Handles an interrupt: not the work of the function it is called in.
    Interrupt,
}

/// Root of the paths of interrupts.
pub(super) const INTERRUPT: &[u8] = b"[interrupt]";
/// Root of the paths of preemption.
pub(super) const PREEMPTION: &[u8] = b"[preemption]";
/// Root of the paths of timer samples that hit the tracer while it recorded a tracepoint.
pub(super) const TRACING: &[u8] = b"[tracing]";

/// Prefixes of the functions of system calls, by architecture and kernel version. The name of the call follows.
const SYSTEM_CALLS: [&[u8]; 8] = [
    b"__x64_sys_",
    b"__ia32_sys_",
    b"__ia32_compat_sys_",
    b"__arm64_sys_",
    b"__s390x_sys_",
    b"__riscv_sys_",
    b"SyS_",
    b"sys_",
];

/// What the entry code calls before a handler is known.
const DISPATCHERS: [&[u8]; 8] = [
    b"x64_sys_call",
    b"do_syscall_64",
    b"invoke_syscall",
    b"el0_svc",
    b"do_el0_svc",
    b"el0t_64_sync_handler",
    b"__do_syscall",
    b"system_call_exception",
];

/// Entries of interrupts as the tracer shows them: the outermost ones are not traced.
const INTERRUPTS: [&[u8]; 20] = [
    b"irq_enter",
    b"irq_exit",
    b"__irq_exit",
    b"__common_interrupt",
    b"common_interrupt",
    b"sysvec_",
    b"__sysvec_",
    b"asm_sysvec_",
    b"smp_apic_",
    b"smp_reschedule_interrupt",
    b"do_IRQ",
    b"__do_softirq",
    b"handle_softirqs",
    // The same, in symbol lists of kernels up to 6.6.
    b"__softirqentry_text_start",
    b"__do_IRQ",
    b"gic_handle_irq",
    b"el1_interrupt",
    b"generic_handle_arch_irq",
    b"exc_nmi",
    b"default_do_nmi",
];

impl Role {
    /// True for what may take the task off its CPU.
    pub(super) fn may_leave_cpu(self) -> bool {
        matches!(
            self,
            Role::Schedule | Role::IoSchedule | Role::Yield | Role::Preemption
        )
    }

    /// The root of its path, if it is not the work of the function that it is called in.
    pub(super) fn foreign(self) -> Option<&'static [u8]> {
        match self {
            Role::Interrupt => Some(INTERRUPT),
            Role::Preemption => Some(PREEMPTION),
            _ => None,
        }
    }

    /// By the name of the function, without its module.
    pub(super) fn of(symbol: &[u8]) -> Role {
        let begins = |beginnings: &[&[u8]]| beginnings.iter().any(|beginning| symbol.starts_with(beginning));
        if begins(&SYSTEM_CALLS) {
            Role::SystemCall
        } else if DISPATCHERS.contains(&symbol) {
            Role::Dispatcher
        } else if symbol.starts_with(b"finish_task_switch") {
            Role::BackOnCpu
        } else if symbol.starts_with(b"preempt_schedule") {
            Role::Preemption
        } else if symbol.starts_with(b"io_schedule") {
            Role::IoSchedule
        } else if matches!(
            symbol,
            b"__cond_resched" | b"_cond_resched" | b"do_sched_yield" | b"yield"
        ) {
            Role::Yield
        } else if matches!(symbol, b"schedule" | b"__schedule") || symbol.starts_with(b"schedule_") {
            Role::Schedule
        } else if begins(&INTERRUPTS) {
            Role::Interrupt
        } else {
            Role::Plain
        }
    }
}

/// The name of a system call by its function; none for other functions.
pub(super) fn call_name(symbol: &str) -> Option<&str> {
    SYSTEM_CALLS
        .iter()
        .filter_map(|beginning| std::str::from_utf8(beginning).ok())
        .find_map(|beginning| symbol.strip_prefix(beginning))
}
