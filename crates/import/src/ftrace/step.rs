//! What a call consists of while it is assembled.

use dbtime_model::State;

use super::paths::{Function, Path};
use super::role::Role;

/// A function that was entered.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) path: Path,
    pub(super) role: Role,
    pub(super) function: Function,
    pub(super) indent: u32,
    pub(super) start_ns: Option<i64>,
    /// Place in the steps of the call; none for functions that enclose calls.
    pub(super) step: Option<usize>,
    pub(super) inside: Inside,
    pub(super) off_ns: u64,
    /// Interrupts that came after the tracer had taken the function's end, and before it had printed it.
    pub(super) after: Inside,
    /// Interrupts that came before the tracer had printed the start of the next function below.
    pub(super) before: Inside,
    /// The same of the caller: perhaps this function was the one about to start.
    pub(super) before_it: Inside,
    /// The last stay off CPU, from which differences between the two clocks are taken.
    pub(super) last_off: Option<usize>,
}

impl Open {
    /// How long it has lasted at this moment, nanoseconds; none where moments are not known.
    pub(super) fn lasted(&self, until_ns: Option<i64>) -> Option<u64> {
        let (until, start) = until_ns.zip(self.start_ns)?;
        Some(until.saturating_sub(start).max(0) as u64)
    }
}

/// What the functions below a function took.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Inside {
    pub(super) ns: u64,
    /// Of that, interrupts and preemption.
    pub(super) foreign_ns: u64,
}

impl Inside {
    pub(super) fn add(&mut self, other: Inside) {
        self.ns = self.ns.saturating_add(other.ns);
        self.foreign_ns = self.foreign_ns.saturating_add(other.foreign_ns);
    }

    pub(super) fn subtract(&mut self, other: Inside) {
        self.ns = self.ns.saturating_sub(other.ns);
        self.foreign_ns = self.foreign_ns.saturating_sub(other.foreign_ns);
    }
}

/// A step of a call; steps are ordered by their start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) path: Path,
    pub(super) depth: u32,
    pub(super) start_ns: i64,
    pub(super) ns: u64,
    pub(super) own_ns: u64,
    pub(super) foreign_ns: u64,
    /// State of a stay off CPU; none: a function.
    pub(super) off: Option<State>,
}

/// A leaf that may turn out not to be one: the kernel also prints it so if its end came on another CPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct LastLeaf {
    pub(super) function: Function,
    pub(super) indent: u32,
    pub(super) step: usize,
    pub(super) ns: u64,
}

/// Time between two tracepoints.
#[derive(Debug)]
pub(super) struct Interval<'a> {
    pub from_ns: i64,
    pub to_ns: i64,
    /// Names of the two.
    pub label: &'a [u8],
    /// Stack at the second one, below the system call, root first.
    pub functions: &'a [Box<[u8]>],
    /// Off CPU in this state.
    pub off: Option<State>,
    pub in_interrupt: bool,
}
