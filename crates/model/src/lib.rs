//! The vocabulary of dbtime, and nothing that touches a kernel, a database or a terminal.
//!
//! Collectors and importers make [`Rows`]; a [`recording`] keeps them; reports ask questions of them. Whatever is written to
//! disk is written by [`output`].
//! `docs/SCHEMA.md` is the contract of what is written to disk.

mod block;
pub mod calibration;
pub mod choice;
mod described;
pub mod latency;
pub mod literals;
mod lock_use;
pub mod output;
pub mod recording;
mod resolution;
mod rows;
mod session;
mod session_state;
mod split;
mod stack;
mod state;
mod turn;
mod wait;
mod word;

pub use block::BlockOperation;
pub use described::Described;
pub use lock_use::{LockUse, LockUseSums, LockUses};
pub use resolution::{OneWindow, Windows};
pub use rows::{
    ActivityRow, BindSet, BoundExecution, BoundValue, Caller, CauseKind, CauseLink, CauseRow, CommentRow,
    CounterRow, Fidelity, HeldLockRow, LatencyRow, LockRow, PlanStep, Rows, SessionRow, SpanRow, StackRow,
    StatementRow, SwitchRow, Table, Timed, Whose, comment, counter, span,
};
pub use session::{BackendType, Session, SessionId};
pub use session_state::SessionState;
pub use stack::{Frame, NO_STACK, PLPGSQL, StackId, stack_id};
pub use state::{State, StateGroup};
pub use turn::{Turn, Turns};
pub use wait::{Wait, WaitKind};
