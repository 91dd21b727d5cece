//! Where the time went as a whole, by the two rules in use. All times in microseconds.

use dbtime_model::CounterRow;
use dbtime_model::counter::oracle;
use serde::Serialize;

use super::TraceFile;

/// Time by calls, as in parsetrc.pl: the elapsed time and CPU of calls that no other traced call made, and all waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(into = "crate::json::CallViewJson")]
pub struct CallView {
    /// Elapsed time of the calls.
    pub elapsed_us: i128,
    /// Their CPU.
    pub cpu_us: i128,
    /// Waits of any depth, except idle ones.
    pub wait_us: i128,
    /// Waits for the client's next message. They are between calls, so they are not part of elapsed time.
    pub idle_us: i128,
    /// Waits that are neither idle nor in any of these calls.
    pub wait_outside_us: i128,
}

impl CallView {
    /// What is left of elapsed time. May be below zero: see [`DoubleCounted`] and `wait_outside_us`.
    pub fn unaccounted_us(&self) -> i128 {
        self.elapsed_us - (self.wait_us + self.cpu_us)
    }

    pub(crate) fn add(&mut self, row: &CounterRow) {
        let sum = match row.name.as_str() {
            oracle::CALL_ELAPSED_US => &mut self.elapsed_us,
            oracle::CALL_CPU_US => &mut self.cpu_us,
            oracle::CALL_WAIT_US => &mut self.wait_us,
            oracle::CALL_IDLE_US => &mut self.idle_us,
            oracle::WAIT_OUTSIDE_CALLS_US => &mut self.wait_outside_us,
            _ => return,
        };
        *sum += i128::from(row.value);
    }

    pub(super) fn merge(&mut self, other: &CallView) {
        self.elapsed_us += other.elapsed_us;
        self.cpu_us += other.cpu_us;
        self.wait_us += other.wait_us;
        self.idle_us += other.idle_us;
        self.wait_outside_us += other.wait_outside_us;
    }
}

/// Time by the rule of TVD$XTAT: from the earliest start of a call or wait to the last moment, file by file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(into = "crate::json::IntervalViewJson")]
pub struct IntervalView {
    /// Length of the interval; 0 for a file without calls and waits.
    pub duration_us: i128,
    /// CPU of calls that no other traced call made, except CLOSE.
    pub cpu_us: i128,
    /// All waits, idle ones included.
    pub wait_us: i128,
}

impl IntervalView {
    /// What is left of the interval. May be below zero.
    pub fn unaccounted_us(&self) -> i128 {
        self.duration_us - (self.cpu_us + self.wait_us)
    }

    pub(super) fn of(files: &[TraceFile]) -> IntervalView {
        let mut view = IntervalView::default();
        for TraceFile { trace, .. } in files {
            if let (Some(begin), Some(end)) = (trace.begin_us, trace.last_tim_us) {
                view.duration_us += i128::from(end) - i128::from(begin);
            }
            view.cpu_us += i128::from(trace.cpu_us);
            view.wait_us += i128::from(trace.wait_us);
        }
        view
    }
}

/// Time known to be in two numbers at once, call by call. Nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DoubleCounted {
    /// CPU that does not fit into its call beside the waits.
    pub cpu_inside_waits_ns: i128,
    /// CPU that fits neither into its call nor into the neighbouring ones.
    pub cpu_beyond_calls_ns: i128,
    /// Waits that add up to more than their call.
    pub waits_beyond_calls_ns: i128,
}

impl DoubleCounted {
    pub(super) fn add(&mut self, row: &CounterRow) {
        match row.name.as_str() {
            oracle::CPU_INSIDE_WAITS_NS => self.cpu_inside_waits_ns += i128::from(row.value),
            oracle::CPU_BEYOND_CALLS_NS => self.cpu_beyond_calls_ns += i128::from(row.value),
            oracle::WAITS_BEYOND_CALLS_NS => self.waits_beyond_calls_ns += i128::from(row.value),
            _ => {}
        }
    }
}
