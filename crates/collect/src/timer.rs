//! A timer that one thread waits for and another one may set.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::clock::{NOTICES_STOP, monotonic_ns};

/// Fires once, at a moment of CLOCK_MONOTONIC (nanoseconds).
#[derive(Debug)]
pub(crate) struct Timer {
    fd: OwnedFd,
    due: AtomicU64,
}

impl Timer {
    /// A timer that is not set.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn new() -> io::Result<Timer> {
        // SAFETY: a plain call with integer arguments.
        let fd =
            unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Timer {
            // SAFETY: the descriptor was just created and is nobody else's.
            fd: unsafe { OwnedFd::from_raw_fd(fd) },
            due: AtomicU64::new(0),
        })
    }

    /// Sets it, whatever it was set to before. A moment in the past fires at once.
    pub(crate) fn set(&self, moment: u64) {
        self.due.store(moment, Ordering::Release);
        let none = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let time = libc::itimerspec {
            it_interval: none,
            it_value: libc::timespec {
                tv_sec: (moment / 1_000_000_000) as i64,
                // 0 would disarm the timer.
                tv_nsec: (moment % 1_000_000_000).max(1) as i64,
            },
        };
        // SAFETY: the descriptor is a timer's, `time` is valid. It fails only for times below zero, and there are none.
        unsafe {
            libc::timerfd_settime(
                self.fd.as_raw_fd(),
                libc::TFD_TIMER_ABSTIME,
                &time,
                std::ptr::null_mut(),
            )
        };
    }

    /// What it is set to.
    pub(crate) fn due(&self) -> u64 {
        self.due.load(Ordering::Acquire)
    }

    /// Waits until the moment that it was set for has come; true if the thread is to stop. Another thread may set it for the previous
    /// moment when that has fired already: then it fires once too often, and is set again.
    pub(crate) fn wait_for(&self, moment: u64, stop: &AtomicBool) -> bool {
        loop {
            if self.wait(stop) {
                return true;
            }
            if monotonic_ns() >= moment {
                return false;
            }
            self.set(moment);
        }
    }

    /// Waits until it fires; true when the thread is to stop.
    fn wait(&self, stop: &AtomicBool) -> bool {
        let longest = Timespec {
            tv_sec: NOTICES_STOP.as_secs() as i64,
            tv_nsec: i64::from(NOTICES_STOP.subsec_nanos()),
        };
        loop {
            if stop.load(Ordering::Acquire) {
                return true;
            }
            let mut wanted = [PollFd::new(&self.fd, PollFlags::IN)];
            // An error means a signal: the loop covers it.
            if poll(&mut wanted, Some(&longest)).is_ok_and(|ready| ready > 0) {
                return stop.load(Ordering::Acquire);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_fires_when_it_is_due_and_as_often_as_it_is_set() {
        let timer = Timer::new().expect("a timer");
        let go_on = AtomicBool::new(false);
        for ns in [2_000_000, 150_000_000, 0] {
            let due = monotonic_ns() + ns;
            timer.set(due);
            assert_eq!(timer.due(), due);
            assert!(!timer.wait(&go_on));
            assert!(monotonic_ns() >= due);
        }
    }

    #[test]
    fn who_waits_for_one_that_is_far_can_be_stopped_or_called() {
        let timer = Timer::new().expect("a timer");
        timer.set(monotonic_ns() + 3_600_000_000_000);
        assert!(timer.wait(&AtomicBool::new(true)));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| timer.wait(&AtomicBool::new(false)));
            timer.set(1);
            assert!(!waits.join().expect("it does not panic"));
        });
    }
}
