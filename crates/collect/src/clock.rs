//! CLOCK_MONOTONIC (what the kernel stamps) to microseconds since the Unix epoch (what a recording holds).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A waiting thread notices within this time that it has to stop, however long its wait.
pub(crate) const NOTICES_STOP: Duration = Duration::from_millis(100);

/// The relation of the two clocks at the start of a recording. It is kept for the whole recording, so that a step of
/// the wall clock neither loses nor repeats time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    /// Wall clock minus monotonic clock, nanoseconds.
    offset_ns: i128,
}

impl Clock {
    pub(crate) fn start() -> Clock {
        // Taken between two readings of the other clock: their middle is accurate to a microsecond.
        let before = monotonic_ns();
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_nanos() as i128);
        let after = monotonic_ns();
        Clock {
            offset_ns: wall - (i128::from(before) + i128::from(after)) / 2,
        }
    }

    /// Microseconds since the Unix epoch.
    pub(crate) fn wall_us(self, monotonic_ns: u64) -> i64 {
        ((i128::from(monotonic_ns) + self.offset_ns) / 1_000) as i64
    }

    /// Nanoseconds since the Unix epoch.
    pub(crate) fn wall_ns(self, monotonic_ns: u64) -> i64 {
        (i128::from(monotonic_ns) + self.offset_ns) as i64
    }

    /// Converts microseconds since the Unix epoch to CLOCK_MONOTONIC, nanoseconds.
    pub(crate) fn monotonic_at(self, wall_us: i64) -> u64 {
        u64::try_from(i128::from(wall_us) * 1_000 - self.offset_ns).unwrap_or(0)
    }

    /// Start of the second that contains this moment, microseconds since the Unix epoch.
    pub(crate) fn second_us(self, monotonic_ns: u64) -> i64 {
        self.wall_us(monotonic_ns).div_euclid(1_000_000) * 1_000_000
    }

    /// When the next whole second of the wall clock begins.
    pub(crate) fn next_second(self, monotonic_ns: u64) -> u64 {
        const SECOND: i128 = 1_000_000_000;
        let wall = i128::from(monotonic_ns) + self.offset_ns;
        ((wall.div_euclid(SECOND) + 1) * SECOND - self.offset_ns) as u64
    }
}

/// Now, nanoseconds of CLOCK_MONOTONIC.
pub(crate) fn monotonic_ns() -> u64 {
    now_ns(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds of a tick of /proc/PID/stat.
pub(crate) const TICK_NS: u64 = 10_000_000;

/// Converts ticks of /proc/PID/stat to CLOCK_MONOTONIC, nanoseconds. The clock of ticks keeps running while the host is suspended: the
/// result is too early by the time that the host was suspended since then.
pub(crate) fn monotonic_at_tick(ticks: u64) -> u64 {
    let suspended_ns = now_ns(libc::CLOCK_BOOTTIME).saturating_sub(monotonic_ns());
    ticks.saturating_mul(TICK_NS).saturating_sub(suspended_ns)
}

fn now_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a valid timespec; both clocks exist since Linux 2.6.39.
    unsafe { libc::clock_gettime(clock, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Sleeps until a moment of CLOCK_MONOTONIC; true when the thread is to stop.
pub(crate) fn sleep_until(moment: u64, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::Acquire) {
            return true;
        }
        let now = monotonic_ns();
        if now >= moment {
            return false;
        }
        let until = moment.min(now + NOTICES_STOP.as_nanos() as u64);
        let time = libc::timespec {
            tv_sec: (until / 1_000_000_000) as i64,
            tv_nsec: (until % 1_000_000_000) as i64,
        };
        // SAFETY: `time` is a valid timespec; a signal that ends the sleep early is covered by the loop.
        unsafe {
            libc::clock_nanosleep(
                libc::CLOCK_MONOTONIC,
                libc::TIMER_ABSTIME,
                &time,
                std::ptr::null_mut(),
            )
        };
    }
}
