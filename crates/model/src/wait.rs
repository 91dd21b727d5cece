//! What the database says a session is waiting for.

use std::borrow::Cow;
use std::fmt;

use arcstr::{ArcStr, literal};

use crate::SessionState;

/// A wait event: class and name in the database's own words, or one of two cases of our own
/// (no wait event; not known).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wait {
    /// Wait class, for example `IO`. `CPU` when the session was in no wait event.
    pub class: ArcStr,
    /// Wait event, for example `DataFileRead`.
    pub event: ArcStr,
    /// The session waits for work: not part of DB time. Decided where the event was decoded.
    pub idle: bool,
}

/// What a wait says about the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitKind {
    /// The database says it is not waiting ("on CPU" in the words of every wait interface).
    None,
    /// The database says it waits.
    Event,
    /// Nobody looked, or the value could not be read.
    Unknown,
}

impl Wait {
    /// Class and name of "in no wait event".
    pub const NONE: &'static str = "CPU";
    /// Class of time whose wait event is not known.
    pub const UNKNOWN: &'static str = "unknown";
    /// Suffix of the name of an idle wait that the session had no CPU to leave.
    pub const NO_CPU: &'static str = " (no CPU)";

    /// A wait event in the database's words.
    pub fn event(class: impl Into<ArcStr>, event: impl Into<ArcStr>, idle: bool) -> Wait {
        Wait {
            class: class.into(),
            event: event.into(),
            idle,
        }
    }

    /// True if a session in this state waits for work in it. One that is executing a statement waits for the rows of a COPY.
    pub fn is_idle_in(&self, state: SessionState) -> bool {
        self.idle && state != SessionState::Active
    }

    /// The session was in no wait event.
    pub fn none() -> Wait {
        Wait::event(literal!(Wait::NONE), literal!(Wait::NONE), false)
    }

    /// The kernel counted this time, but no sample fell into it: its wait event is not known.
    pub fn not_sampled() -> Wait {
        Wait::event(literal!(Wait::UNKNOWN), literal!("not sampled"), false)
    }

    /// A sample was taken, but the wait event could not be read from the session's memory.
    pub fn not_read() -> Wait {
        Wait::event(literal!(Wait::UNKNOWN), literal!("not read"), false)
    }

    /// The process has no wait interface at all, for example a postmaster.
    pub fn no_interface() -> Wait {
        Wait::event(literal!(Wait::UNKNOWN), literal!("no wait interface"), false)
    }

    /// The source of an import says nothing about wait events.
    pub fn not_recorded() -> Wait {
        Wait::event(literal!(Wait::UNKNOWN), literal!("not recorded"), false)
    }

    /// The same idle wait of a session that is ready to run but has no CPU: usually work has arrived for it. The database
    /// still calls that idle; whoever sent the work waits.
    pub fn without_cpu(&self) -> Wait {
        Wait::event(&self.class, format!("{}{}", self.event, Wait::NO_CPU), self.idle)
    }

    /// The class, marked if it is that of an idle wait that a session had no CPU to leave ([`Wait::without_cpu`]): a plain
    /// `Client` would suggest that it waited for the client.
    pub fn class_by_cpu(&self) -> Cow<'_, str> {
        match self.event.ends_with(Wait::NO_CPU) {
            true => Cow::Owned(format!("{}{}", self.class, Wait::NO_CPU)),
            false => Cow::Borrowed(&self.class),
        }
    }

    /// True if `name` means this wait: the class, the event, or both as displayed, ignoring case.
    pub fn is_called(&self, name: &str) -> bool {
        name.eq_ignore_ascii_case(&self.class)
            || name.eq_ignore_ascii_case(&self.event)
            || name.eq_ignore_ascii_case(&self.to_string())
    }

    /// No wait, a wait, or not known.
    pub fn kind(&self) -> WaitKind {
        match &*self.class {
            Wait::NONE => WaitKind::None,
            Wait::UNKNOWN => WaitKind::Unknown,
            _ => WaitKind::Event,
        }
    }
}

/// `Class:Event`, the way PostgreSQL DBAs write it; one word for the cases that are no wait event.
impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            // A foreign file may call it idle.
            WaitKind::None if self.event.ends_with(Wait::NO_CPU) => {
                f.pad(&format!("{}{}", Wait::NONE, Wait::NO_CPU))
            }
            WaitKind::None => f.pad(Wait::NONE),
            WaitKind::Unknown => f.pad(&format!("[{}]", self.event)),
            WaitKind::Event => f.pad(&format!("{}:{}", self.class, self.event)),
        }
    }
}
