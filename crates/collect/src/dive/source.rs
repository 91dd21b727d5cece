//! The output of an engine that is set up: text, wherever it comes from.

use super::probes::Probes;
use super::spool::{CHUNK, Spool};
use super::tracefs::{Changes, Trace};
use super::tracepoints;
use crate::CollectError;

/// An engine that is set up, and the right to change settings.
#[derive(Debug)]
pub(super) enum Source {
    /// Text of ftrace itself.
    Ftrace(Trace),
    /// Text made from what BPF programs record.
    Probes(Box<Probes>, Changes),
}

impl Source {
    /// Excludes the tracepoints of the kernel's timer at this address, if there are tracepoints.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub(super) fn leave_out_timer(&mut self, address: u64) -> Result<(), CollectError> {
        match self {
            Source::Ftrace(trace) => tracepoints::leave_out_timer(trace, address),
            Source::Probes(..) => Ok(()),
        }
    }

    /// Starts tracing. Returns the lines above the text.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub(super) fn start(&mut self) -> Result<String, CollectError> {
        match self {
            Source::Ftrace(trace) => trace.start(),
            Source::Probes(..) => Ok(Probes::header()),
        }
    }

    /// Reads until there is nothing left, or until it is enough.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub(super) fn drain(
        &mut self,
        spool: &mut Spool,
        is_enough: impl Fn() -> bool,
    ) -> Result<(), CollectError> {
        match self {
            Source::Probes(probes, _) => spool.add(probes.text()?.as_bytes()),
            Source::Ftrace(trace) => {
                let mut chunk = vec![0; CHUNK];
                while !spool.is_full() && !is_enough() {
                    let read = trace
                        .read(&mut chunk)
                        .map_err(|e| CollectError::Kernel(format!("the trace cannot be read: {e}")))?;
                    if read == 0 {
                        break;
                    }
                    spool.add(&chunk[..read])?;
                }
                Ok(())
            }
        }
    }

    /// Stops tracing; what was traced can still be read. Programs keep running: they are detached at the very end.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub(super) fn pause(&mut self) -> Result<(), CollectError> {
        match self {
            Source::Ftrace(trace) => trace.pause(),
            Source::Probes(..) => Ok(()),
        }
    }

    /// Events that are missing.
    pub(super) fn lost(&self) -> u64 {
        match self {
            Source::Ftrace(trace) => trace.lost(),
            Source::Probes(probes, _) => probes.lost(),
        }
    }

    /// Restores all settings. Returns programs that are still to be detached before anybody else dives.
    ///
    /// # Errors
    /// Something could not be restored.
    pub(super) fn end(self) -> Result<Option<(Box<Probes>, Changes)>, CollectError> {
        match self {
            Source::Ftrace(trace) => trace.end().map(|_| None),
            Source::Probes(probes, changes) => Ok(Some((probes, changes))),
        }
    }
}
