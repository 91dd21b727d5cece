//! A thread that keeps sessions off a CPU.

use std::io;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Occupies this CPU for so long, in a thread of its own, which takes precedence over everything without real-time priority.
///
/// # Panics
/// In the thread, without the privileges that this needs.
pub fn take_cpu(cpu: usize, time: Duration) -> JoinHandle<()> {
    thread::spawn(move || {
        // SAFETY: all-zero bytes are an empty set.
        let mut one: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: `one` is alive; the macro's function does nothing for a CPU that the set has no room for.
        unsafe { libc::CPU_SET(cpu, &mut one) };
        // SAFETY: `one` is alive and of the length given; 0 is this thread.
        let pinned = unsafe { libc::sched_setaffinity(0, size_of_val(&one), &raw const one) };
        assert_eq!(pinned, 0, "{}", io::Error::last_os_error());
        let lowest = libc::sched_param { sched_priority: 1 };
        // SAFETY: `lowest` is alive; 0 is this thread.
        let first = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const lowest) };
        assert_eq!(first, 0, "{}", io::Error::last_os_error());
        let begin = Instant::now();
        while begin.elapsed() < time {
            std::hint::spin_loop();
        }
    })
}
