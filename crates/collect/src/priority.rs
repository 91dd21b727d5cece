//! Priority of the recorder's own thread.
//!
//! Next to hundreds of busy sessions, a thread of normal priority gets one part in hundreds of a CPU: starting would take a
//! quarter of a minute. Once recording has started, its priority is normal: the recorded sessions come first.

use std::io;

/// While recording starts: half a second of CPU time.
pub(crate) const BEGINNING: i32 = -20;

/// A raised priority of the calling thread, and of threads that it starts meanwhile. Restored when dropped, by the same thread.
#[derive(Debug)]
pub(crate) struct Priority {
    before: i32,
}

impl Priority {
    /// Raises it. None if that is not allowed (it needs CAP_SYS_NICE): everything works, but later on a busy host.
    pub(crate) fn raise(nice: i32) -> Option<Priority> {
        // SAFETY: a plain call; on Linux 0 is the calling thread. Its error cannot be distinguished from a priority of -1.
        let before = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        let priority = Priority { before };
        (nice < before && set(nice).is_ok()).then_some(priority)
    }
}

impl Drop for Priority {
    fn drop(&mut self) {
        let _ = set(self.before);
    }
}

/// Drops a raised priority of the calling thread for good: in a process that was started by a raised thread.
///
/// # Errors
/// The kernel refuses.
pub(crate) fn give_up() -> io::Result<()> {
    // SAFETY: a plain call; on Linux 0 is the calling thread.
    match unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) } {
        ..0 => set(0),
        _ => Ok(()),
    }
}

fn set(nice: i32) -> io::Result<()> {
    // SAFETY: a plain call with integer arguments; 0 is the calling thread.
    match unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
