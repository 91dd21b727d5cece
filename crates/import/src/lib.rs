//! Turns files of other tools into rows. One source file per format; the contents of a file decide its format, never its name.
//!
//! ```text
//! file ──open, decompress──▶ Lines ──Importer──▶ Import ──rows──▶ caller
//!                                                      └─────────▶ Imported { meta, problems }
//! ```
//!
//! Files are read in parallel, each by one thread, or by up to three if there are CPUs for them; members of an archive are files of their
//! own. Rows are handed on in batches while reading goes on, so the memory of an import does not depend on the size of a file, only on its
//! number of statements and sessions.
//!
//! Nothing in a file is fatal: what is not understood is counted, its first lines are kept, and reading goes on; a truncated file gives all
//! that comes before. Only a file that cannot be opened, is empty or has no known format is an error.

mod archive;
mod bcc;
mod compression;
mod dtrace;
mod error;
mod event_names;
mod folded;
mod ftrace;
mod import;
mod inputs;
mod latch_mode;
mod latchprof;
mod lines;
mod names;
mod options;
mod oracle_latch;
mod oracle_session;
mod oracle_snap;
mod oracle_spool;
mod oracle_stacks;
mod oracle_trace;
mod parallel;
mod perf_sched_script;
mod perf_sched_timehist;
mod perf_script;
mod periods;
mod read_ahead;
mod samples;
mod sched_fields;
mod session_growth;
mod short_stack;
mod snapper;
mod span;
mod strace;
mod switches;
mod text;

use std::io::Read;
use std::path::Path;

pub use error::ImportError;
pub use event_names::{EventNames, EventNamesError};
pub use import::{Import, Imported, Measure};
pub use lines::{Line, Lines, MAX_LINE};
pub use options::{CallOptions, Options, parse_interval};
pub use oracle_trace::statement_id;
pub use parallel::{Reading, lie_beside};

/// A format.
pub trait Importer: Sync {
    /// What people call it.
    fn name(&self) -> &'static str;

    /// True if a file that begins with `head` is of this format.
    fn detect(&self, head: &[u8]) -> bool;

    /// Reads the file and adds what it says.
    ///
    /// # Errors
    /// The file is of this format, but nothing can be made of it.
    fn import(
        &self,
        lines: &mut Lines<Box<dyn Read + '_>>,
        path: &Path,
        into: &mut Import,
    ) -> Result<(), ImportError>;
}

/// All formats. Those that many texts could be taken for come last.
const IMPORTERS: [&dyn Importer; 16] = [
    &oracle_trace::OracleTrace,
    &oracle_snap::OracleSnap,
    &oracle_latch::OracleLatch,
    &latchprof::LatchProf,
    &snapper::Snapper,
    &ftrace::Ftrace,
    &oracle_stacks::OracleStacks,
    &short_stack::ShortStack,
    &strace::Strace,
    &strace::PerfTrace,
    &bcc::Bcc,
    &perf_sched_timehist::PerfSchedTimehist,
    &perf_sched_script::PerfSchedScript,
    &perf_script::PerfScript,
    &dtrace::Dtrace,
    &folded::Folded,
];
