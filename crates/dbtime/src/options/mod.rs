//! Options that several commands share: an option, with its help text, is written once.
//!
//! ```text
//! target         what to observe: a session, a server, any process, an Oracle instance
//! precision      with what, and how exactly
//! rate           how often
//! statistics     what is counted besides times and waits
//! texts          how much of the statement texts is kept or shown
//! stop_after     for how long
//! new_recording  where to record what is shown
//! selection      which part of a recording, or of a store: period, sessions, waits, states, statements
//! files          what the files of other tools leave out
//! compared       how two recordings are compared
//! format         for people or for programs
//! latch_layout   how held locks are shown
//! above_zero     how many are shown
//! each_once      lists in which nothing is listed twice
//! time           parsing of times
//! ```

mod above_zero;
mod compared;
mod each_once;
mod files;
mod format;
mod latch_layout;
mod new_recording;
mod precision;
mod rate;
mod selection;
mod statistics;
mod stop_after;
mod target;
mod texts;
pub mod time;

pub use above_zero::above_zero;
pub use compared::ComparedOptions;
pub use each_once::each_once;
pub use files::FileOptions;
pub use format::{AnswerFormat, SnapshotFormat, StreamFormat, TableFormat};
pub use latch_layout::LatchLayout;
pub use new_recording::NewRecording;
pub use precision::{CollectorKind, ExactLevel, Precision};
pub use rate::{LiveRate, any_rate};
pub use selection::{Selection, window_of};
pub use statistics::ServerStatistics;
pub use stop_after::StopAfter;
pub use target::TargetOptions;
pub use texts::{ShownTexts, TextKind};
