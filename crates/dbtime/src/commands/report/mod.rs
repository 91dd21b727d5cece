//! `dbtime report`: answers a question about a recording.
//!
//! ```text
//! arguments     command line flags
//! request       the question that they make up
//! subject       what it is asked of, and where the answer goes
//! ledger        where the time went; for a kernel trace, a summary
//! stacks        the same by stacks, functions, modules
//! kernel_trace  for a kernel trace: single calls, and what its functions call
//! timeline      the same over time
//! latency       how long single events took: tables, or a heat map
//! comparison    the same for several recordings, side by side
//! io            reads: from which cache, or from the device
//! commands      which commands were slow, and what they did differently
//! waiters       who waited for whom
//! latches       who held internal locks
//! snapshot      how much the statistics of sessions grew
//! what_if       what would happen if something took longer or shorter
//! switches      context switches one by one
//! ```

mod arguments;
mod commands;
mod comparison;
mod io;
mod kernel_trace;
mod latches;
mod latency;
mod ledger;
mod request;
mod snapshot;
mod stacks;
mod subject;
mod switches;
mod timeline;
mod waiters;
mod what_if;

use std::process::ExitCode;

use crate::memory;
use crate::newest;
pub(super) use arguments::ReportArguments;
use request::Request;

/// Asks the question, and shows the answer.
///
/// # Errors
/// There is no such question; the source cannot be read, or cannot answer it; the answer cannot be written.
pub(super) fn run(mut arguments: Box<ReportArguments>) -> anyhow::Result<ExitCode> {
    memory::bound(arguments.about.max_memory);
    if arguments.recordings.is_empty() && !arguments.compare {
        arguments.recordings.push(newest::or_named(None, "report")?);
    }
    Request::of(*arguments)?.answer()
}
