//! What the kernel counts for every task: switches, faults, calls and bytes. Growth becomes rows of `counters`.

use arcstr::{ArcStr, literal};
use dbtime_model::counter::{self, task};
use dbtime_model::{CounterRow, SessionId};

use crate::clock::Clock;
use crate::process;
use crate::seconds::Seconds;

/// Since the task began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TaskCounts {
    /// `sum_exec_runtime`.
    pub(crate) on_cpu_ns: u64,
    /// By the kernel's ticks.
    pub(crate) user_ns: u64,
    /// By the kernel's ticks.
    pub(crate) kernel_ns: u64,
    pub(crate) voluntary_switches: u64,
    pub(crate) involuntary_switches: u64,
    pub(crate) minor_faults: u64,
    pub(crate) major_faults: u64,
    /// Where the kernel counts them (`CONFIG_TASK_XACCT`).
    pub(crate) calls: Option<Calls>,
    /// Where the kernel counts them (`CONFIG_TASK_IO_ACCOUNTING`).
    pub(crate) bytes: Option<Bytes>,
    /// Where the kernel counts it (`CONFIG_TASK_DELAY_ACCT`, `kernel.task_delayacct`).
    pub(crate) blkio_delay_ns: Option<u64>,
}

/// The first lines of /proc/PID/io.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Calls {
    pub(crate) rchar: u64,
    pub(crate) wchar: u64,
    pub(crate) syscr: u64,
    pub(crate) syscw: u64,
}

/// The last lines of /proc/PID/io.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Bytes {
    pub(crate) read: u64,
    pub(crate) write: u64,
    pub(crate) cancelled_write: u64,
}

/// The counts of a session up to a moment.
#[derive(Debug)]
pub(crate) struct Counted {
    /// CLOCK_MONOTONIC.
    at_ns: u64,
    counts: TaskCounts,
    /// User and kernel CPU as last reported.
    cpu: (u64, u64),
    /// What was not counted up to then was zero.
    is_new: bool,
}

impl Counted {
    /// For a task that begins.
    pub(crate) fn begin(start_ns: u64) -> Counted {
        Counted {
            at_ns: start_ns,
            counts: TaskCounts::default(),
            cpu: (0, 0),
            is_new: true,
        }
    }

    /// For a task that exists already: what it did before is not counted.
    pub(crate) fn meet(at_ns: u64, counts: TaskCounts) -> Counted {
        Counted {
            at_ns,
            counts,
            cpu: divided(&counts, (0, 0)),
            is_new: false,
        }
    }

    /// It has not run up to this moment (CLOCK_MONOTONIC).
    pub(crate) fn stand_still(&mut self, until_ns: u64) {
        self.at_ns = until_ns;
    }

    /// Adds rows for what has grown.
    pub(crate) fn advance(
        &mut self,
        (at_ns, counts): (u64, TaskCounts),
        clock: Clock,
        session: SessionId,
        rows: &mut Vec<CounterRow>,
    ) {
        // Most of thousands of sessions have not run.
        if counts == self.counts && !self.is_new {
            return self.stand_still(at_ns);
        }
        let cpu = divided(&counts, self.cpu);
        let seconds = Seconds::of(clock, self.at_ns, at_ns);
        for ((name, before), (_, now)) in named(&self.counts, self.cpu).zip(named(&counts, cpu)) {
            // A count that could not be read for a while may have grown all that time.
            let (Some(before), Some(now)) = (before.or(self.is_new.then_some(0)), now) else {
                continue;
            };
            for (time, [value]) in seconds.spread([now.saturating_sub(before)]) {
                if value > 0 {
                    rows.push(CounterRow {
                        time,
                        session,
                        source: literal!(counter::KERNEL),
                        name: name.clone(),
                        value: value.try_into().unwrap_or(i64::MAX),
                        ..CounterRow::default()
                    });
                }
            }
        }
        *self = Counted {
            at_ns,
            counts,
            cpu,
            is_new: false,
        };
    }
}

/// None: the kernel does not count it.
fn named(counts: &TaskCounts, (user, kernel): (u64, u64)) -> impl Iterator<Item = (ArcStr, Option<u64>)> {
    let calls = |of: fn(&Calls) -> u64| counts.calls.as_ref().map(of);
    let bytes = |of: fn(&Bytes) -> u64| counts.bytes.as_ref().map(of);
    [
        (literal!(task::UTIME_NS), Some(user)),
        (literal!(task::STIME_NS), Some(kernel)),
        (
            literal!(task::VOLUNTARY_SWITCHES),
            Some(counts.voluntary_switches),
        ),
        (
            literal!(task::INVOLUNTARY_SWITCHES),
            Some(counts.involuntary_switches),
        ),
        (literal!(task::MINOR_FAULTS), Some(counts.minor_faults)),
        (literal!(task::MAJOR_FAULTS), Some(counts.major_faults)),
        (literal!(task::RCHAR), calls(|calls| calls.rchar)),
        (literal!(task::WCHAR), calls(|calls| calls.wchar)),
        (literal!(task::SYSCR), calls(|calls| calls.syscr)),
        (literal!(task::SYSCW), calls(|calls| calls.syscw)),
        (literal!(task::READ_BYTES), bytes(|bytes| bytes.read)),
        (literal!(task::WRITE_BYTES), bytes(|bytes| bytes.write)),
        (
            literal!(task::CANCELLED_WRITE_BYTES),
            bytes(|bytes| bytes.cancelled_write),
        ),
        (literal!(task::BLKIO_DELAY_NS), counts.blkio_delay_ns),
    ]
    .into_iter()
}

/// User and kernel CPU: the exact time on a CPU, divided in the ratio of the kernel's ticks. Neither ever decreases. This is the
/// kernel's rule for /proc/PID/stat (`cputime_adjust`).
fn divided(counts: &TaskCounts, (user_before, kernel_before): (u64, u64)) -> (u64, u64) {
    let whole = counts.on_cpu_ns;
    if user_before + kernel_before >= whole {
        return (user_before, kernel_before);
    }
    let ticks = u128::from(counts.user_ns) + u128::from(counts.kernel_ns);
    let kernel = if counts.kernel_ns == 0 {
        0
    } else {
        // It fits: it is a part of the whole.
        (u128::from(whole) * u128::from(counts.kernel_ns) / ticks) as u64
    };
    let kernel = kernel.max(kernel_before);
    let user = whole.saturating_sub(kernel);
    if user < user_before {
        (user_before, whole - user_before)
    } else {
        (user, kernel)
    }
}

/// The counts in /proc. None if there is no such process.
pub(crate) fn of_process(pid: u32, on_cpu_ns: u64) -> Option<TaskCounts> {
    // Of the one task, not of the threads and former children of its process.
    let read = |name: &str| std::fs::read(process::path(pid, &format!("task/{pid}/{name}")));
    let stat = read("stat").ok()?;
    let field = |place| process::stat_field(&stat, place)?.parse::<u64>().ok();
    let ticks_ns = |ticks: u64| ticks.saturating_mul(1_000_000_000 / u64::from(ticks_per_second()));
    let status = read("status").ok()?;
    let io = read("io").unwrap_or_default();
    let io = |name| named_number(&io, name);
    let calls = || {
        Some(Calls {
            rchar: io("rchar")?,
            wchar: io("wchar")?,
            syscr: io("syscr")?,
            syscw: io("syscw")?,
        })
    };
    let bytes = || {
        Some(Bytes {
            read: io("read_bytes")?,
            write: io("write_bytes")?,
            cancelled_write: io("cancelled_write_bytes")?,
        })
    };
    let counts_delays =
        std::fs::read("/proc/sys/kernel/task_delayacct").is_ok_and(|text| text.starts_with(b"1"));
    Some(TaskCounts {
        on_cpu_ns,
        user_ns: ticks_ns(field(14)?),
        kernel_ns: ticks_ns(field(15)?),
        voluntary_switches: named_number(&status, "voluntary_ctxt_switches")?,
        involuntary_switches: named_number(&status, "nonvoluntary_ctxt_switches")?,
        minor_faults: field(10)?,
        major_faults: field(12)?,
        calls: calls(),
        bytes: bytes(),
        blkio_delay_ns: field(42).filter(|_| counts_delays).map(ticks_ns),
    })
}

/// `NAME: NUMBER` on a line of its own.
fn named_number(text: &[u8], name: &str) -> Option<u64> {
    let mut lines = text.split(|byte| *byte == b'\n');
    let value = lines.find_map(|line| line.strip_prefix(name.as_bytes())?.strip_prefix(b":"))?;
    std::str::from_utf8(value).ok()?.trim().parse().ok()
}

/// Unit of the times in /proc/PID/stat.
fn ticks_per_second() -> u32 {
    // SAFETY: asks for a number, and touches no memory of ours.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u32::try_from(ticks)
        .ok()
        .filter(|ticks| *ticks > 0)
        .unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::clock::monotonic_ns;

    proptest! {
        #[test]
        fn user_and_kernel_cpu_are_all_of_it_and_never_go_back(steps in prop::collection::vec((0u64..1 << 40, 0u64..1 << 40, 0u64..1 << 40), 1..20)) {
            let mut counts = TaskCounts::default();
            let mut before = (0, 0);
            for (on_cpu, user, kernel) in steps {
                counts.on_cpu_ns += on_cpu;
                counts.user_ns += user;
                counts.kernel_ns += kernel;
                let now = divided(&counts, before);
                prop_assert_eq!(now.0 + now.1, counts.on_cpu_ns);
                prop_assert!(now.0 >= before.0 && now.1 >= before.1);
                before = now;
            }
        }
    }

    #[test]
    fn growth_is_of_the_time_in_which_the_task_ran() {
        let clock = Clock::start();
        let met = monotonic_ns();
        let mut counted = Counted::meet(met, TaskCounts::default());
        let stood_still = met + 5_000_000_000;
        counted.stand_still(stood_still);
        let counts = TaskCounts {
            minor_faults: 1_000,
            ..TaskCounts::default()
        };
        let mut rows = Vec::new();
        counted.advance(
            (stood_still + 500_000_000, counts),
            clock,
            SessionId(1),
            &mut rows,
        );
        let faults: Vec<&CounterRow> = rows.iter().filter(|row| row.name == task::MINOR_FAULTS).collect();
        assert_eq!(faults.iter().map(|row| row.value).sum::<i64>(), 1_000);
        assert!(
            faults.iter().all(|row| row.time >= clock.second_us(stood_still)),
            "{faults:?}"
        );
    }

    #[test]
    fn what_a_process_says_of_itself_is_read() {
        let before = of_process(std::process::id(), 0).expect("this process");
        // Only the main thread is read, which is not this one, but it has all counts.
        assert!(before.minor_faults > 0);
        assert!(before.calls.is_none_or(|calls| calls.rchar > 0));
        assert_eq!(of_process(u32::MAX, 0), None);
    }

    #[test]
    fn lines_are_found_by_their_whole_name() {
        let text = b"read_bytes: 4096\nwrite_bytes: 1\ncancelled_write_bytes: 7\n";
        assert_eq!(named_number(text, "write_bytes"), Some(1));
        assert_eq!(named_number(text, "cancelled_write_bytes"), Some(7));
        assert_eq!(named_number(text, "bytes"), None);
    }
}
