//! The process that is observed: makes calls when told to, times each of them, and reports how long they took.
//!
//! It is this program itself (`dbtime calibrate --workload FILE`), because every tracer can be pointed at a separate
//! process. A line on standard input (`workload calls`) starts a turn, a line of JSON on standard output ends it.

use std::fs::File;
use std::io::{self, BufRead, Write};
use std::os::fd::AsRawFd;
use std::path::Path;

use anyhow::Context;
use dbtime_model::calibration::workload;
use serde::{Deserialize, Serialize};

/// Bytes that are read at a time: a block of most databases.
pub(super) const READ_BYTES: usize = 8_192;

/// Calls made before those that count, to warm caches and branch predictors.
const WARM_UP: u32 = 50;

/// Priority of real-time sleepers.
const PRIORITY: i32 = 99;

/// How long the calls of a turn took, nanoseconds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Turn {
    pub min_ns: u64,
    pub median_ns: u64,
    pub p99_ns: u64,
    pub mean_ns: u64,
}

/// What the process says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Said {
    /// Before the first turn: cost and resolution of the clock, and timer slack, nanoseconds.
    Ready {
        clock_ns: u64,
        resolution_ns: u64,
        slack_ns: u64,
    },
    Turn(Turn),
    Refused(String),
}

/// Takes turns until standard input ends.
///
/// # Errors
/// The file cannot be read, standard input or output fails.
pub(super) fn serve(file: &Path) -> anyhow::Result<()> {
    let file = File::open(file).with_context(|| file.display().to_string())?;
    // SAFETY: plain calls with integer arguments. The first lets strace attach where Yama asks for consent.
    let slack = unsafe {
        libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY);
        libc::prctl(libc::PR_GET_TIMERSLACK)
    };
    say(&Said::Ready {
        clock_ns: clock_cost(),
        resolution_ns: clock_resolution(),
        slack_ns: u64::try_from(slack).unwrap_or(0),
    })?;
    for line in io::stdin().lock().lines() {
        let line = line?;
        let Some((what, calls)) = line.rsplit_once(' ') else {
            continue;
        };
        let calls = calls.parse().unwrap_or(0);
        say(&turn(what, calls, &file))?;
    }
    Ok(())
}

fn say(said: &Said) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(said)?)?;
    out.flush()?;
    Ok(())
}

fn turn(what: &str, calls: u32, file: &File) -> Said {
    match what {
        workload::NANOSLEEP => Said::Turn(timed(calls, sleep)),
        workload::NANOSLEEP_RR => {
            if let Err(e) = scheduler(libc::SCHED_RR, PRIORITY) {
                return Said::Refused(format!("SCHED_RR, priority {PRIORITY}: {e}"));
            }
            let turn = timed(calls, sleep);
            match scheduler(libc::SCHED_OTHER, 0) {
                Ok(()) => Said::Turn(turn),
                Err(e) => Said::Refused(format!("back to SCHED_OTHER: {e}")),
            }
        }
        workload::PREAD => {
            let mut buffer = vec![0; READ_BYTES];
            Said::Turn(timed(calls, || {
                // SAFETY: the buffer has the length given; the descriptor is open.
                unsafe { libc::pread(file.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
            }))
        }
        other => Said::Refused(format!("no workload '{other}'")),
    }
}

fn sleep() {
    let microsecond = libc::timespec {
        tv_sec: 0,
        tv_nsec: 1_000,
    };
    // The raw system call: the C library would make a different one.
    // SAFETY: the pointer is to a live value; the remainder is not asked for.
    unsafe {
        libc::syscall(
            libc::SYS_nanosleep,
            &raw const microsecond,
            std::ptr::null::<libc::timespec>(),
        )
    };
}

fn scheduler(policy: i32, priority: i32) -> io::Result<()> {
    let parameters = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: the pointer is to a live value; 0 is this process.
    match unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Times every call.
fn timed(calls: u32, mut call: impl FnMut()) -> Turn {
    for _ in 0..WARM_UP {
        call();
    }
    let mut times: Vec<u64> = (0..calls.max(1))
        .map(|_| {
            let begin = now();
            call();
            now().saturating_sub(begin)
        })
        .collect();
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    Turn {
        min_ns: times[0],
        median_ns: at(50),
        p99_ns: at(99),
        mean_ns: times.iter().sum::<u64>() / times.len() as u64,
    }
}

fn now() -> u64 {
    nanoseconds(|time| {
        // SAFETY: the pointer is to a live value that the call fills.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, time) };
    })
}

fn clock_resolution() -> u64 {
    nanoseconds(|time| {
        // SAFETY: the pointer is to a live value that the call fills.
        unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC, time) };
    })
}

fn nanoseconds(fill: impl FnOnce(*mut libc::timespec)) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    fill(&raw mut time);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Cost of reading the clock, nanoseconds, averaged over many readings.
fn clock_cost() -> u64 {
    const READINGS: u64 = 100_000;
    let begin = now();
    for _ in 0..READINGS {
        std::hint::black_box(now());
    }
    now().saturating_sub(begin) / READINGS
}
