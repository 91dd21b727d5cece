//! The wait event and the statement that the session was in when it made each call. ftrace knows nothing about these: a BPF program at
//! the start of each call reads them from the session's memory, on the clock of the trace.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::Instant;

use dbtime_model::{Rows, Wait};

use super::DiveOptions;
use crate::bpf::CallWaits;
use crate::collector::database_of;
use crate::database::{Database, Texts, WaitNames, WaitSource};
use crate::statements::Statements;
use crate::{CollectError, Target, privilege};

/// Maximum number of calls whose waits are kept: as many as fit into about 24 MB.
const MOST: usize = 1 << 20;

/// A call that began.
struct NotedCall {
    time_ns: u64,
    /// Number of the wait.
    wait: u32,
    /// 0 = none, or not known.
    statement: u64,
}

/// The calls of one task.
pub(super) struct NotedCalls {
    program: CallWaits,
    pid: u32,
    database: Box<dyn Database>,
    names: Rc<dyn WaitNames>,
    /// Only calls of this wait are wanted; None: any.
    wanted: Option<String>,
    calls: Vec<NotedCall>,
    statements: Statements,
    /// What is known about these.
    rows: Rows,
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
    /// Starts recording them. None: no wait is asked for, and the task is not a session, or what it publishes cannot be read (for a
    /// session a note says why).
    ///
    /// # Errors
    /// A wait is asked for, and the task is not a session whose wait event can be read, or the kernel refuses.
    pub(super) fn begin(
        options: &DiveOptions,
        notes: &mut Vec<String>,
    ) -> Result<Option<NotedCalls>, CollectError> {
        if let Some(wait) = &options.wait {
            privilege::check()?;
            let database = database_of(&wait.database)?;
            return NotedCalls::of(database, options, Some(&wait.event)).map(Some);
        }
        let Ok(database) = database_of(&Target::Process(options.pid)) else {
            return Ok(None);
        };
        match privilege::check().and_then(|()| NotedCalls::of(database, options, None)) {
            Ok(noted) => Ok(Some(noted)),
            Err(e) => {
                // Only the first line: the others are what libbpf and the verifier said.
                let why = e.to_string().lines().next().unwrap_or_default().to_string();
                notes.push(format!("wait event and query of calls are not recorded: {why}"));
                Ok(None)
            }
        }
    }

    fn of(
        database: Box<dyn Database>,
        options: &DiveOptions,
        wanted: Option<&str>,
    ) -> Result<NotedCalls, CollectError> {
        let pid = options.pid;
        let member = database.members().into_iter().find(|member| member.pid == pid);
        let member = member.filter(|member| member.source != WaitSource::None);
        let member = member.ok_or_else(|| {
            CollectError::Kernel(format!(
                "pid {pid}: not a session of this database, so its wait event cannot be read"
            ))
        })?;
        Ok(NotedCalls {
            program: CallWaits::attach(pid, options.call.number(), member.source)?,
            pid,
            names: database.names(),
            database,
            wanted: wanted.map(str::to_string),
            calls: Vec::new(),
            statements: Statements::new(Instant::now()),
            rows: Rows::default(),
            matching: 0,
            left_out: 0,
        })
    }

    /// Fetches the calls that have arrived.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn step(&mut self) -> Result<(), CollectError> {
        let now = Instant::now();
        for call in self.program.take()? {
            let wait = self.wait(call.wait);
            let is_wanted = self.wanted.as_ref().is_none_or(|wanted| wait.is_called(wanted));
            self.matching += u64::from(is_wanted);
            if self.calls.len() >= MOST {
                self.left_out += 1;
                continue;
            }
            let statement = match wait.is_idle_in(self.names.session_state(call.executing.session_state)) {
                // It still has the id of its last statement, but executes none.
                true => 0,
                false => call.executing.statement,
            };
            let text = || {
                self.database
                    .statement_text(self.pid, statement, Texts::Normalized)
            };
            self.statements.see(statement, now, &mut self.rows, text);
            self.calls.push(NotedCall {
                time_ns: call.time_ns,
                wait: call.wait,
                statement,
            });
        }
        Ok(())
    }

    /// Number of calls that began in the wanted wait; None: any is wanted.
    pub(super) fn matching(&self) -> Option<u64> {
        self.wanted.is_some().then_some(self.matching)
    }

    /// Statements with known text, and all calls, as lines for the file: `statement: query=ID text=TEXT`, or, if the id is dbtime's
    /// fingerprint of the text, `statement: query=ID fingerprint=1 text=TEXT`; `call: pid=TID at=SECONDS query=ID wait=CLASS:EVENT`,
    /// without `query` where none is known. Ids are signed, as PostgreSQL prints them.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        let known = self.rows.statements.iter().filter(|row| !row.text.is_empty());
        let statements = known.map(|row| {
            let kind = if row.is_fingerprint { " fingerprint=1" } else { "" };
            let text = row.text.lines().map(str::trim).collect::<Vec<_>>().join(" ");
            format!("statement: query={}{kind} text={text}", row.id.cast_signed())
        });
        let calls = self.calls.iter().map(|call| {
            let query = match self.statements.parsed(call.statement) {
                0 => String::new(),
                id => format!(" query={}", id.cast_signed()),
            };
            format!(
                "call: pid={} at={}.{:09}{query} wait={}",
                self.pid,
                call.time_ns / 1_000_000_000,
                call.time_ns % 1_000_000_000,
                self.wait(call.wait)
            )
        });
        statements.chain(calls)
    }

    /// The notes for the end of a dive.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut by_wait: BTreeMap<u32, u64> = BTreeMap::new();
        for call in &self.calls {
            *by_wait.entry(call.wait).or_default() += 1;
        }
        let waits = by_wait
            .iter()
            .map(|(wait, count)| format!("{} {count}", self.wait(*wait)));
        let mut notes = Vec::new();
        if !by_wait.is_empty() {
            notes.push(format!(
                "calls by wait event, also before and after the trace: {}",
                waits.collect::<Vec<_>>().join(", ")
            ));
        }
        let lost = self.program.lost() + self.left_out;
        if lost > 0 {
            notes.push(format!(
                "the wait event and the query of {lost} calls are not known: there was no room for them"
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
