//! What /proc says about a process.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use dbtime::throwaway::Cluster;

/// The scheduler's own accounting of a task, exact.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SchedStat {
    /// Time on a CPU.
    pub on_cpu: Duration,
    /// Time in the run queue.
    pub run_delay: Duration,
}

/// `/proc/PID/schedstat`; `None` when the process is gone.
pub fn schedstat(pid: u32) -> Option<SchedStat> {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
    Some(SchedStat {
        on_cpu: Duration::from_nanos(numbers.next()?.ok()?),
        run_delay: Duration::from_nanos(numbers.next()?.ok()?),
    })
}

/// What the kernel says a process has read and written, exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Io {
    /// Bytes that read calls returned.
    pub rchar: u64,
    /// Read calls: read, pread64, readv, preadv, preadv2.
    pub syscr: u64,
    /// Bytes of the requests that it sent to block devices.
    pub read_bytes: u64,
}

/// `/proc/PID/io`.
///
/// # Panics
/// When the process is gone.
#[track_caller]
pub fn io(pid: u32) -> Io {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).expect("the process lives");
    let field = |name: &str| {
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        value.and_then(|value| value.parse().ok()).expect("a number")
    };
    Io {
        rchar: field("rchar"),
        syscr: field("syscr"),
        read_bytes: field("read_bytes"),
    }
}

/// A number in `/proc/PID/stat`, by its place in proc(5).
#[track_caller]
fn stat_field(pid: u32, place: usize) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process is there");
    // The name, the second field, is in brackets and may hold anything.
    let (_, fields) = text.rsplit_once(") ").expect("a name in brackets");
    let mut fields = fields.split_ascii_whitespace();
    fields
        .nth(place - 3)
        .and_then(|field| field.parse().ok())
        .expect("a number")
}

/// Whether a process has begun to exit.
///
/// # Panics
/// When it is gone.
#[track_caller]
pub fn is_exiting(pid: u32) -> bool {
    const PF_EXITING: u64 = 0x4;
    stat_field(pid, 9) & PF_EXITING != 0
}

/// Time since a process was forked, at most 10 ms too long: the kernel gives its start time in hundredths of a second, rounded down.
///
/// # Panics
/// When the process is gone.
#[track_caller]
pub fn age(pid: u32) -> Duration {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a live local.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut now) };
    let ticks = stat_field(pid, 22);
    let now = Duration::new(now.tv_sec.cast_unsigned(), now.tv_nsec as u32);
    now.saturating_sub(Duration::from_millis(10 * ticks))
}

/// Waits until a process has fallen asleep: what it did before is then in the kernel's accounting.
///
/// # Panics
/// When it does not, or is gone.
#[track_caller]
pub fn wait_for_state(pid: u32, state: char) {
    let give_up = Instant::now() + Duration::from_secs(10);
    while state_and_tracer(pid).expect("the process is there").0 != state {
        assert!(
            Instant::now() < give_up,
            "process {pid} is not {state} after 10 s"
        );
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// As long as this exists, the postmaster is stopped and reaps no children: a backend that has ended stays a zombie, for which the kernel
/// still says all that it ever used. No session can begin meanwhile.
#[derive(Debug)]
pub struct Unreaped(u32);

impl Unreaped {
    /// Stops the postmaster.
    ///
    /// # Panics
    /// When it does not stop.
    pub fn hold(cluster: &Cluster) -> Unreaped {
        let held = Unreaped(cluster.postmaster_pid());
        held.signal(libc::SIGSTOP);
        wait_for_state(held.0, 'T');
        held
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: kill has no memory effects; the postmaster is a child of this process that is not yet reaped.
        unsafe { libc::kill(self.0.cast_signed(), signal) };
    }
}

impl Drop for Unreaped {
    fn drop(&mut self) {
        self.signal(libc::SIGCONT);
    }
}

/// State letter and tracing process (0 = none) of a process; `None` when it is gone.
pub fn state_and_tracer(pid: u32) -> Option<(char, u32)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .map(|value| value.trim().to_string())
    };
    Some((
        field("State:")?.chars().next()?,
        field("TracerPid:")?.parse().ok()?,
    ))
}

/// Processes whose parent is `pid`.
pub fn children(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    fs::read_to_string(path)
        .unwrap_or_default()
        .split_ascii_whitespace()
        .filter_map(|child| child.parse().ok())
        .collect()
}

/// Processes whose working directory is this one or one below it: every process of a server whose data directory is there.
pub fn processes_in(directory: &Path) -> Vec<u32> {
    let processes = fs::read_dir("/proc").expect("/proc is mounted");
    processes
        .flatten()
        .filter(|process| {
            fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(directory))
        })
        .filter_map(|process| process.file_name().to_str()?.parse().ok())
        .collect()
}
