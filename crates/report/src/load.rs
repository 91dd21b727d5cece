//! Where the rows of a report come from: a recording on disk, or rows in memory (imported, live).
//!
//! Sessions, stacks and statements are loaded whole; activity, latencies and counters are handed on batch by batch, so
//! that the memory of a report depends on what it distinguishes and not on how long the recording is.

use std::any::Any;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use dbtime_model::output::Directory;
use dbtime_model::recording::{BytesRead, Meta, Problem, Recording, RecordingError};
use dbtime_model::{
    ActivityRow, BackendType, CauseRow, CommentRow, CounterRow, Frame, HeldLockRow, LatencyRow, LockRow,
    PLPGSQL, Rows, Session, SessionId, SessionRow, SpanRow, StackId, StackRow, StatementRow, SwitchRow,
    Table, comment,
};

use crate::known_frame::{KnownFrame, KnownFrames};

/// Rows and what is said about them.
#[derive(Debug)]
pub struct Source {
    backing: Backing,
    /// See [`Source::keeping`].
    kept: Option<Box<dyn Any + Send>>,
    part: Option<Part>,
}

/// The part of a store that was chosen when it was opened: there may be more in it, because files hold whole hours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Part {
    /// First moment, microseconds since the Unix epoch; none = from the begin.
    pub from_us: Option<i64>,
    /// First moment that is not meant any more; none = to the end.
    pub to_us: Option<i64>,
}

#[derive(Debug)]
enum Backing {
    Recording(Box<Recording>),
    Memory { meta: Box<Meta>, rows: Box<Rows> },
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

    /// Opens the recording that an open directory is.
    ///
    /// # Errors
    /// See [`Recording::open`].
    pub fn inside(directory: Directory) -> Result<Source, RecordingError> {
        Recording::inside(directory).map(Source::from)
    }

    /// Rows that an importer or a collector made.
    pub fn memory(meta: Meta, rows: Rows) -> Source {
        let (meta, rows) = (Box::new(meta), Box::new(rows));
        Backing::Memory { meta, rows }.into()
    }

    /// The same source; what it needs while it is read (a folder that will be removed) is dropped with it.
    pub fn keeping(mut self, needed: impl Any + Send) -> Source {
        self.kept = Some(Box::new(needed));
        self
    }

    /// The same source, of which only this part is meant.
    pub fn of_part(mut self, part: Part) -> Source {
        self.part = Some(part);
        self
    }

    /// The part that was chosen when it was opened; none: a filter chooses.
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

    /// Hands on every row of `activity`; returns what could not be read.
    pub fn activity(&self, mut take: impl FnMut(&ActivityRow)) -> Vec<Problem> {
        self.read(|rows| &rows.activity, &mut take)
    }

    /// Hands on every row of `counters`; returns what could not be read.
    pub fn counters(&self, mut take: impl FnMut(&CounterRow)) -> Vec<Problem> {
        self.read(|rows| &rows.counters, &mut take)
    }

    /// Hands on every row of `latency`; returns what could not be read.
    pub fn latency(&self, mut take: impl FnMut(&LatencyRow)) -> Vec<Problem> {
        self.read(|rows| &rows.latency, &mut take)
    }

    /// Hands on every row of `spans`; returns what could not be read.
    pub fn spans(&self, mut take: impl FnMut(&SpanRow)) -> Vec<Problem> {
        self.read(|rows| &rows.spans, &mut take)
    }

    /// Hands on every row of `causes`; returns what could not be read.
    pub fn causes(&self, mut take: impl FnMut(&CauseRow)) -> Vec<Problem> {
        self.read(|rows| &rows.causes, &mut take)
    }

    /// Hands on every row of `held_locks`; returns what could not be read.
    pub fn held_locks(&self, mut take: impl FnMut(&HeldLockRow)) -> Vec<Problem> {
        self.read(|rows| &rows.held_locks, &mut take)
    }

    /// Hands on every row of `locks`; returns what could not be read.
    pub fn locks(&self, mut take: impl FnMut(&LockRow)) -> Vec<Problem> {
        self.read(|rows| &rows.locks, &mut take)
    }

    /// Hands on every row of `switches`; returns what could not be read.
    pub fn switches(&self, mut take: impl FnMut(&SwitchRow)) -> Vec<Problem> {
        self.read(|rows| &rows.switches, &mut take)
    }

    fn read<T: Table>(&self, table: impl Fn(&Rows) -> &[T], take: &mut dyn FnMut(&T)) -> Vec<Problem> {
        match &self.backing {
            Backing::Recording(recording) => {
                recording.read(|batch: Vec<T>| batch.iter().for_each(&mut *take))
            }
            Backing::Memory { rows, .. } => {
                table(rows).iter().for_each(take);
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
        let mut all = Dimensions::default();
        let mut problems = self.read(|rows| &rows.sessions, &mut |row: &SessionRow| {
            all.sessions.insert(row.id, row.clone().into());
        });
        problems.extend(self.read(|rows| &rows.stacks, &mut |row: &StackRow| {
            let frames: Box<[KnownFrame]> = row.frames.iter().map(|frame| all.frames.keep(frame)).collect();
            if let Some(routine) = innermost_routine(&frames) {
                all.routines.insert(row.id, routine);
            }
            all.stacks.insert(row.id, frames);
        }));
        problems.extend(self.read(|rows| &rows.statements, &mut |row: &StatementRow| {
            learn(&mut all.statements, row);
        }));
        problems.extend(self.read(|rows| &rows.comments, &mut |row: &CommentRow| {
            all.comments.insert(row.id, row.clone());
        }));
        all.problems = problems;
        all
    }
}

/// A function stands in the stack twice: once for all of it, and once for the line that it was at, if it had come to one.
fn innermost_routine(frames: &[KnownFrame]) -> Option<[KnownFrame; 2]> {
    let is_routine = |frame: &KnownFrame| frame.module == PLPGSQL;
    let at = frames.iter().rposition(is_routine)?;
    let line = &frames[at];
    let name = at
        .checked_sub(1)
        .map(|before| &frames[before])
        .filter(|frame| is_routine(frame))
        .unwrap_or(line);
    Some([name.clone(), line.clone()])
}

/// Takes a row of a statement: a recorder may learn its text after it has described it.
pub(crate) fn learn(statements: &mut HashMap<u64, StatementRow>, row: &StatementRow) {
    let known = statements.entry(row.id).or_default();
    if known.text.is_empty() || !row.text.is_empty() {
        known.clone_from(row);
    }
}

/// What is known of the comment of a statement.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Comment<'a> {
    /// There is none.
    None,
    /// It could not be read, or is not described.
    NotKnown,
    Says(&'a CommentRow),
}

/// What the ids in the rows stand for.
#[derive(Debug, Default)]
pub struct Dimensions {
    sessions: HashMap<SessionId, Session>,
    frames: KnownFrames,
    stacks: HashMap<StackId, Box<[KnownFrame]>>,
    /// Of the stacks that have any: the innermost function of a procedural language, and its line.
    routines: HashMap<StackId, [KnownFrame; 2]>,
    statements: HashMap<u64, StatementRow>,
    comments: HashMap<u64, CommentRow>,
    not_described: BTreeSet<SessionId>,
    /// What could not be read.
    pub problems: Vec<Problem>,
}

impl Dimensions {
    /// The facts of a session. A recorder that was killed may have left rows of sessions that it had not
    /// described yet: their time is real, so they get the backend type `unknown` and pid 0.
    pub fn session(&mut self, id: SessionId) -> &Session {
        self.sessions.entry(id).or_insert_with(|| {
            self.not_described.insert(id);
            Session {
                id,
                pid: 0,
                started_us: 0,
                backend_type: BackendType(BackendType::UNKNOWN.to_string()),
                user: String::new(),
                database: String::new(),
                client: String::new(),
                leader_pid: 0,
                title: String::new(),
                ..Session::default()
            }
        })
    }

    /// The same, what the comment of a row says, and all else.
    pub(crate) fn session_and_comment(
        &mut self,
        id: SessionId,
        comment: u64,
    ) -> (&Session, Comment<'_>, &Dimensions) {
        self.session(id);
        let said = match self.comments.get(&comment) {
            Some(said) => Comment::Says(said),
            None if comment == comment::NONE => Comment::None,
            None => Comment::NotKnown,
        };
        (&self.sessions[&id], said, self)
    }

    /// The innermost function of a procedural language in a stack: its name, and that with its line, where it had come to one; both are
    /// empty where there is no such function. None: no stack was taken, or it is not described.
    pub(crate) fn routine(&self, stack: StackId) -> Option<[&str; 2]> {
        match self.routines.get(&stack) {
            Some([name, line]) => Some([&name.symbol, &line.symbol]),
            None => self.stacks.contains_key(&stack).then_some([""; 2]),
        }
    }

    /// Every comment.
    pub(crate) fn comments(&self) -> impl Iterator<Item = &CommentRow> {
        self.comments.values()
    }

    /// Forgets the stacks, of which there may be millions: of who has read what he needs of them.
    pub(crate) fn drop_stacks(&mut self) {
        self.frames = KnownFrames::default();
        self.stacks = HashMap::new();
    }

    /// Every session that is described.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = &Session> {
        let is_described = |session: &&Session| !self.not_described.contains(&session.id);
        self.sessions.values().filter(is_described)
    }

    /// Frames of a stack, root first; none when the stack is not in the recording.
    pub fn stack(&self, id: StackId) -> Option<&[KnownFrame]> {
        self.stacks.get(&id).map(AsRef::as_ref)
    }

    /// Every frame of all stacks, once.
    pub(crate) fn frames(&self) -> impl Iterator<Item = &Frame> {
        self.frames.iter()
    }

    /// Text of a statement; none when it is not in the recording.
    pub fn statement(&self, id: u64) -> Option<&str> {
        self.statement_row(id)
            .map(|row| row.text.as_str())
            .filter(|text| !text.is_empty())
    }

    /// The name of a statement in the database; none when it is not known.
    pub fn sql_id(&self, id: u64) -> Option<&str> {
        self.statement_row(id)
            .map(|row| row.sql_id.as_str())
            .filter(|sql_id| !sql_id.is_empty())
    }

    /// The name of a statement in databases before they had better ones; 0 = none, or not known.
    pub fn hash_value(&self, id: u64) -> u64 {
        self.statement_row(id).map_or(0, |row| row.hash_value)
    }

    /// All that is known of a statement; none when it is not in the recording.
    pub fn statement_row(&self, id: u64) -> Option<&StatementRow> {
        self.statements.get(&id)
    }

    /// True when a session with this pid is described.
    pub fn has_pid(&self, pid: u32) -> bool {
        self.sessions
            .values()
            .any(|session| session.pid == pid && !self.not_described.contains(&session.id))
    }

    /// Sessions that were asked for but are not described.
    pub fn sessions_not_described(&self) -> usize {
        self.not_described.len()
    }
}
