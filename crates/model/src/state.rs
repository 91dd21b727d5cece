//! What the operating system says a session is doing. At any instant it is exactly one of these.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::choice::no_such;

/// Operating-system state of a session. The columns of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// On a CPU, executing user code.
    User,
    /// On a CPU, executing kernel code (system calls, faults, and interrupts that hit the session).
    Kernel,
    /// On a CPU, but the source cannot tell user from kernel.
    Cpu,
    /// In the run queue: ready to run, waiting for a CPU.
    Runnable,
    /// Blocked uninterruptibly (`D`): block I/O in most cases, also some kernel locks.
    Disk,
    /// Blocked interruptibly (`S`): waiting for a lock, a socket, a timer.
    Sleep,
    /// Stopped by a signal, a debugger or the freezer (`T`, `t`).
    Stopped,
    /// The source does not say.
    Unknown,
}

/// The three parts into which the kernel's own accounting splits elapsed time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StateGroup {
    /// `sum_exec_runtime`.
    OnCpu,
    /// `sched_info.run_delay`.
    RunQueue,
    /// The remainder of elapsed time.
    Blocked,
}

impl State {
    /// Every state, in the order of the ledger's columns.
    pub const ALL: [State; 8] = [
        State::User,
        State::Kernel,
        State::Cpu,
        State::Runnable,
        State::Disk,
        State::Sleep,
        State::Stopped,
        State::Unknown,
    ];

    /// The name used in recordings, on the command line and in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            State::User => "user",
            State::Kernel => "kernel",
            State::Cpu => "cpu",
            State::Runnable => "runnable",
            State::Disk => "disk",
            State::Sleep => "sleep",
            State::Stopped => "stopped",
            State::Unknown => "unknown",
        }
    }

    /// True for time spent executing on a CPU: what `getrusage` counts.
    pub fn is_on_cpu(self) -> bool {
        matches!(self, State::User | State::Kernel | State::Cpu)
    }

    /// Which of the kernel's exact totals this state is a part of; none for `unknown`.
    pub fn group(self) -> Option<StateGroup> {
        match self {
            State::User | State::Kernel | State::Cpu => Some(StateGroup::OnCpu),
            State::Runnable => Some(StateGroup::RunQueue),
            State::Disk | State::Sleep | State::Stopped => Some(StateGroup::Blocked),
            State::Unknown => None,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for State {
    type Err = String;

    fn from_str(name: &str) -> Result<State, String> {
        State::ALL
            .into_iter()
            .find(|state| state.as_str().eq_ignore_ascii_case(name))
            .ok_or_else(|| no_such("state", name, &State::ALL.map(State::as_str)))
    }
}
