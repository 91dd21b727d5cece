//! Where the rows of a report come from: a recording on disk, or rows in memory (imported, live).
//!
//! Sessions, stacks and statements are loaded whole; activity, latencies and counters are passed on batch by batch, so
//! that the memory of a report depends on what it distinguishes, not on the length of the recording.

use std::any::Any;
use std::path::Path;
use std::sync::Arc;

use dbtime_model::output::Directory;
use dbtime_model::recording::{BytesRead, Meta, Problem, Recording, RecordingError};
use dbtime_model::{
    ActivityRow, CauseRow, CommentRow, CounterRow, HeldLockRow, LatencyRow, LockRow, Rows, SessionId,
    SessionRow, SpanRow, StackId, StackRow, StatementRow, SwitchRow, Table,
};

use crate::dimensions::Dimensions;
use crate::recent::MoreTables;

/// Rows and their metadata.
#[derive(Debug)]
pub struct Source {
    backing: Backing,
    /// See [`Source::keeping`].
    kept: Option<Box<dyn Any + Send>>,
    part: Option<Part>,
}

/// The part of a store that was chosen on opening it: the source may have more, because files hold whole hours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Part {
    /// First moment, microseconds since the Unix epoch; none = from the beginning.
    pub from_us: Option<i64>,
    /// First moment after the part; none = to the end.
    pub to_us: Option<i64>,
}

/// Rows in memory, which others may share, and which of them are used.
#[derive(Debug, Clone)]
pub(crate) struct SharedRows {
    pub(crate) rows: Arc<Rows>,
    /// Whether the rows are in the chosen time: false = only the causes are used.
    pub(crate) is_in_time: bool,
    pub(crate) more: MoreTables,
}

#[derive(Debug)]
enum Backing {
    Recording(Box<Recording>),
    Memory {
        meta: Box<Meta>,
        shared: Vec<SharedRows>,
        /// What the rows refer to but do not describe themselves.
        described: Dimensions,
    },
}

impl From<Backing> for Source {
    fn from(backing: Backing) -> Source {
        Source {
            backing,
            kept: None,
            part: None,
        }
    }
}

impl From<Recording> for Source {
    fn from(recording: Recording) -> Source {
        Backing::Recording(Box::new(recording)).into()
    }
}

impl Source {
    /// Opens a recording by its directory.
    ///
    /// # Errors
    /// See [`Recording::open`].
    pub fn open(directory: &Path) -> Result<Source, RecordingError> {
        Recording::open(directory).map(Source::from)
    }

    /// Opens the recording in an open directory.
    ///
    /// # Errors
    /// See [`Recording::open`].
    pub fn inside(directory: Directory) -> Result<Source, RecordingError> {
        Recording::inside(directory).map(Source::from)
    }

    /// Rows that an importer or a collector made.
    pub fn memory(meta: Meta, rows: Rows) -> Source {
        Source::described(meta, rows, Dimensions::default())
    }

    /// The same; `described` has what the rows refer to but do not describe themselves.
    pub fn described(meta: Meta, rows: Rows, described: Dimensions) -> Source {
        let all = SharedRows {
            rows: Arc::new(rows),
            is_in_time: true,
            more: MoreTables::ALL,
        };
        Source::shared(meta, vec![all], described)
    }

    /// Like [`Source::memory`], for shared rows; `described` has what they refer to.
    pub(crate) fn shared(meta: Meta, shared: Vec<SharedRows>, described: Dimensions) -> Source {
        Backing::Memory {
            meta: Box::new(meta),
            shared,
            described,
        }
        .into()
    }

    /// The same source; what it needs while it is read (a folder that will be removed) is dropped with it.
    pub fn keeping(mut self, needed: impl Any + Send) -> Source {
        self.kept = Some(Box::new(needed));
        self
    }

    /// The same source, limited to this part.
    pub fn of_part(mut self, part: Part) -> Source {
        self.part = Some(part);
        self
    }

    /// The part that was chosen on opening; none: a filter chooses.
    pub fn part(&self) -> Option<Part> {
        self.part
    }

    /// What was read of its files so far, where that is counted.
    pub(crate) fn bytes_read(&self) -> Option<BytesRead> {
        match &self.backing {
            Backing::Recording(recording) => recording.bytes_read(),
            Backing::Memory { .. } => None,
        }
    }

    /// What the recording says about itself.
    pub fn meta(&self) -> &Meta {
        match &self.backing {
            Backing::Recording(recording) => recording.meta(),
            Backing::Memory { meta, .. } => meta,
        }
    }

    /// Passes on every row of `activity`; returns what could not be read.
    pub fn activity(&self, mut take: impl FnMut(&ActivityRow)) -> Vec<Problem> {
        self.read(|rows| &rows.activity, &mut take)
    }

    /// Passes on every row of `counters`; returns what could not be read.
    pub fn counters(&self, mut take: impl FnMut(&CounterRow)) -> Vec<Problem> {
        self.read(|rows| &rows.counters, &mut take)
    }

    /// Passes on every row of `latency`; returns what could not be read.
    pub fn latency(&self, mut take: impl FnMut(&LatencyRow)) -> Vec<Problem> {
        self.read_where(
            |of| of.is_in_time && of.more.latencies,
            |rows| &rows.latency,
            &mut take,
        )
    }

    /// Passes on every row of `spans`; returns what could not be read.
    pub fn spans(&self, mut take: impl FnMut(&SpanRow)) -> Vec<Problem> {
        self.read(|rows| &rows.spans, &mut take)
    }

    /// Passes on every row of `causes`; returns what could not be read.
    pub fn causes(&self, mut take: impl FnMut(&CauseRow)) -> Vec<Problem> {
        self.read_where(|of| of.more.causes, |rows| &rows.causes, &mut take)
    }

    /// Passes on every row of `held_locks`; returns what could not be read.
    pub fn held_locks(&self, mut take: impl FnMut(&HeldLockRow)) -> Vec<Problem> {
        self.read_where(
            |of| of.is_in_time && of.more.held_locks,
            |rows| &rows.held_locks,
            &mut take,
        )
    }

    /// Passes on every row of `locks`; returns what could not be read.
    pub fn locks(&self, mut take: impl FnMut(&LockRow)) -> Vec<Problem> {
        self.read_where(|of| of.is_in_time && of.more.locks, |rows| &rows.locks, &mut take)
    }

    /// Passes on every row of `switches`; returns what could not be read.
    pub fn switches(&self, mut take: impl FnMut(&SwitchRow)) -> Vec<Problem> {
        self.read(|rows| &rows.switches, &mut take)
    }

    fn read<T: Table>(&self, table: impl Fn(&Rows) -> &[T], take: &mut dyn FnMut(&T)) -> Vec<Problem> {
        self.read_where(|of| of.is_in_time, table, take)
    }

    /// `is_taken`: whether the table of such rows in memory is used.
    fn read_where<T: Table>(
        &self,
        is_taken: impl Fn(&SharedRows) -> bool,
        table: impl Fn(&Rows) -> &[T],
        take: &mut dyn FnMut(&T),
    ) -> Vec<Problem> {
        match &self.backing {
            Backing::Recording(recording) => {
                recording.read(|batch: Vec<T>| batch.iter().for_each(&mut *take))
            }
            Backing::Memory { shared, .. } => {
                let taken = shared.iter().filter(|of| is_taken(of));
                taken.flat_map(|of| table(&of.rows)).for_each(take);
                Vec::new()
            }
        }
    }

    /// The rows of sessions, stacks, statements and comments of these ids, and what could not be read.
    pub(crate) fn rows_of_dimensions(
        &self,
        sessions: impl Fn(SessionId) -> bool,
        stacks: impl Fn(StackId) -> bool,
        statements: impl Fn(u64) -> bool,
        comments: impl Fn(u64) -> bool,
    ) -> (Rows, Vec<Problem>) {
        let mut all = Rows::default();
        let mut problems = self.read(|rows| &rows.sessions, &mut |row: &SessionRow| {
            if sessions(row.id) {
                all.sessions.push(row.clone());
            }
        });
        problems.extend(self.read(|rows| &rows.stacks, &mut |row: &StackRow| {
            if stacks(row.id) {
                all.stacks.push(row.clone());
            }
        }));
        problems.extend(self.read(|rows| &rows.statements, &mut |row: &StatementRow| {
            if statements(row.id) {
                all.statements.push(row.clone());
            }
        }));
        problems.extend(self.read(|rows| &rows.comments, &mut |row: &CommentRow| {
            if comments(row.id) {
                all.comments.push(row.clone());
            }
        }));
        (all, problems)
    }

    /// Loads sessions, stacks, statements and their comments.
    pub fn dimensions(&self) -> Dimensions {
        let mut all = match &self.backing {
            Backing::Memory { described, .. } => described.clone(),
            Backing::Recording(_) => Dimensions::default(),
        };
        let meta = self.meta();
        let mut problems = self.read(|rows| &rows.sessions, &mut |row: &SessionRow| {
            all.learn_session(row.clone(), &meta.host.name, &meta.database.data_directory);
        });
        problems.extend(self.read(|rows| &rows.stacks, &mut |row| all.learn_stack(row)));
        problems.extend(self.read(|rows| &rows.statements, &mut |row| all.learn_statement(row)));
        problems.extend(self.read(|rows| &rows.comments, &mut |row| all.learn_comment(row)));
        all.problems = problems;
        all
    }
}
