//! Which of the calls were made while the session was in the wait event that is asked for. ftrace knows nothing of it: a
//! program at the begin of each call reads it from the session's memory, on the clock of the trace.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use dbtime_model::Wait;

use super::{DiveOptions, DiveWait};
use crate::CollectError;
use crate::bpf::CallWaits;
use crate::collector::database_of;
use crate::database::WaitNames;
use crate::privilege;

/// Calls whose waits are kept: as many as fit into some 16 MB.
const MOST: usize = 1 << 20;

/// The calls of one task, with the wait of each.
pub(super) struct NotedCalls {
    program: CallWaits,
    names: Rc<dyn WaitNames>,
    wanted: String,
    /// When they began, and the number of the wait.
    calls: Vec<(u64, u32)>,
    matching: u64,
    left_out: u64,
}

impl fmt::Debug for NotedCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotedCalls")
            .field("wanted", &self.wanted)
            .finish_non_exhaustive()
    }
}

impl NotedCalls {
    /// Begins to note them.
    ///
    /// # Errors
    /// The task is no session whose wait event can be read, or the kernel refuses.
    pub(super) fn begin(options: &DiveOptions, wait: &DiveWait) -> Result<NotedCalls, CollectError> {
        privilege::check()?;
        let database = database_of(&wait.database)?;
        let member = database
            .members()
            .into_iter()
            .find(|member| member.pid == options.pid);
        let member = member.ok_or_else(|| {
            CollectError::Kernel(format!(
                "pid {}: not a session of this database, so its wait event cannot be read",
                options.pid
            ))
        })?;
        Ok(NotedCalls {
            program: CallWaits::attach(options.pid, options.call.number(), member.source)?,
            names: database.names(),
            wanted: wait.event.clone(),
            calls: Vec::new(),
            matching: 0,
            left_out: 0,
        })
    }

    /// Takes over what has come.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn step(&mut self) -> Result<(), CollectError> {
        for call in self.program.take()? {
            self.matching += u64::from(self.wait(call.wait).is_called(&self.wanted));
            if self.calls.len() < MOST {
                self.calls.push((call.time_ns, call.wait));
            } else {
                self.left_out += 1;
            }
        }
        Ok(())
    }

    /// Calls that began in the wait that is asked for.
    pub(super) fn matching(&self) -> u64 {
        self.matching
    }

    /// All calls, as lines for the file: `call: pid=TID at=SECONDS wait=CLASS:EVENT`.
    pub(super) fn lines(&self, pid: u32) -> impl Iterator<Item = String> {
        self.calls.iter().map(move |&(time_ns, wait)| {
            format!(
                "call: pid={pid} at={}.{:09} wait={}",
                time_ns / 1_000_000_000,
                time_ns % 1_000_000_000,
                self.wait(wait)
            )
        })
    }

    /// What is to be said in the end.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut by_wait: BTreeMap<u32, u64> = BTreeMap::new();
        for (_, wait) in &self.calls {
            *by_wait.entry(*wait).or_default() += 1;
        }
        let waits = by_wait
            .iter()
            .map(|(wait, count)| format!("{} {count}", self.wait(*wait)));
        let mut notes = Vec::new();
        if !by_wait.is_empty() {
            notes.push(format!(
                "calls by wait event: {}",
                waits.collect::<Vec<_>>().join(", ")
            ));
        }
        let lost = self.program.lost() + self.left_out;
        if lost > 0 {
            notes.push(format!(
                "the wait event of {lost} calls is not known: there was no room for them"
            ));
        }
        notes
    }

    fn wait(&self, number: u32) -> Wait {
        match number {
            u32::MAX => Wait::not_read(),
            number => self.names.decode(number, true),
        }
    }
}
