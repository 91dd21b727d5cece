//! What the ids in rows stand for: sessions, stacks, statements and their comments.
//!
//! Copies share what they know, until one of them learns more.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use dbtime_model::recording::Problem;
use dbtime_model::{
    BackendType, CommentRow, Described, Frame, Rows, Session, SessionId, SessionRow, StackId, StackRow,
    StatementRow, comment,
};

use crate::fast_map::FastMap;
use crate::known_frame::KnownFrame;
use crate::known_stacks::KnownStacks;

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
#[derive(Debug, Default, Clone)]
pub struct Dimensions {
    known: Arc<Known>,
    stacks: Arc<KnownStacks>,
    not_described: BTreeMap<SessionId, Arc<Session>>,
    /// What could not be read.
    pub problems: Vec<Problem>,
}

#[derive(Debug, Default, Clone)]
struct Known {
    sessions: FastMap<SessionId, Arc<Session>>,
    statements: HashMap<u64, StatementRow>,
    comments: HashMap<u64, CommentRow>,
}

impl Dimensions {
    /// A row that does not say so itself is of this host and data directory: only those of several servers do.
    pub fn learn_session(&mut self, mut row: SessionRow, host: &str, server: &str) {
        if row.host.is_empty() && row.server.is_empty() {
            row.host = host.to_string();
            row.server = server.to_string();
        }
        let known = Arc::make_mut(&mut self.known);
        known.sessions.insert(row.id, Arc::new(row.into()));
    }

    /// Adds a stack.
    pub fn learn_stack(&mut self, row: &StackRow) {
        Arc::make_mut(&mut self.stacks).learn(row);
    }

    /// A recorder may learn the text of a statement after it has described it.
    pub fn learn_statement(&mut self, row: &StatementRow) {
        let known = Arc::make_mut(&mut self.known);
        let statement = known.statements.entry(row.id).or_default();
        if statement.text.is_empty() || !row.text.is_empty() {
            statement.clone_from(row);
        }
    }

    pub(crate) fn learn_comment(&mut self, row: &CommentRow) {
        let known = Arc::make_mut(&mut self.known);
        known.comments.insert(row.id, row.clone());
    }

    /// The facts of a session. A recorder that was killed may have left rows of sessions that it had not
    /// described yet: their time is real, so they get the backend type `unknown` and pid 0.
    pub fn session(&mut self, id: SessionId) -> &Arc<Session> {
        if let Some(described) = self.known.sessions.get(&id) {
            return described;
        }
        self.not_described.entry(id).or_insert_with(|| {
            Arc::new(Session {
                id,
                backend_type: BackendType(BackendType::UNKNOWN.into()),
                ..Session::default()
            })
        })
    }

    /// The facts of a session, what the comment of a row says, and everything else.
    pub(crate) fn session_and_comment(
        &mut self,
        id: SessionId,
        comment: u64,
    ) -> (&Arc<Session>, Comment<'_>, &Dimensions) {
        self.session(id);
        let said = match self.known.comments.get(&comment) {
            Some(said) => Comment::Says(said),
            None if comment == comment::NONE => Comment::None,
            None => Comment::NotKnown,
        };
        let described = self.known.sessions.get(&id);
        (described.unwrap_or_else(|| &self.not_described[&id]), said, self)
    }

    /// The innermost procedural-language function in a stack: its name, and its name with the line, if it had reached one; both are
    /// empty when there is no such function. None: no stack was taken, or it is not described.
    pub(crate) fn routine(&self, stack: StackId) -> Option<[&str; 2]> {
        match self.stacks.routine_of(stack) {
            Some([name, line]) => Some([&name.symbol, &line.symbol]),
            None => self.stacks.frames_of(stack).map(|_| [""; 2]),
        }
    }

    /// Every comment.
    pub(crate) fn comments(&self) -> impl Iterator<Item = &CommentRow> {
        self.known.comments.values()
    }

    /// Forgets the stacks, of which there may be millions: for callers that have read what they need from them.
    pub(crate) fn drop_stacks(&mut self) {
        self.stacks = Arc::default();
    }

    /// Every session that is described.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = &Session> {
        self.known.sessions.values().map(Arc::as_ref)
    }

    /// Frames of a stack, root first; none when the stack is not in the recording.
    pub fn stack(&self, id: StackId) -> Option<&[KnownFrame]> {
        self.stacks.frames_of(id)
    }

    /// Every frame of all stacks, once.
    pub(crate) fn frames(&self) -> impl Iterator<Item = &Frame> {
        self.stacks.frames()
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

    /// The identifier of a statement in databases that had no better one yet; 0 = none, or not known.
    pub fn hash_value(&self, id: u64) -> u64 {
        self.statement_row(id).map_or(0, |row| row.hash_value)
    }

    /// All that is known of a statement; none when it is not in the recording.
    pub fn statement_row(&self, id: u64) -> Option<&StatementRow> {
        self.known.statements.get(&id)
    }

    /// True when a session with this pid is described.
    pub fn has_pid(&self, pid: u32) -> bool {
        self.sessions().any(|session| session.pid == pid)
    }

    /// Sessions that were asked for but are not described.
    pub fn sessions_not_described(&self) -> usize {
        self.not_described.len()
    }

    /// Number of frames of all stacks, shared ones counted in each.
    pub(crate) fn depth_of_stacks(&self) -> usize {
        self.stacks.depth()
    }

    /// How many sessions are described.
    pub fn count_sessions(&self) -> usize {
        self.known.sessions.len()
    }

    /// How many statements are described.
    pub fn count_statements(&self) -> usize {
        self.known.statements.len()
    }

    /// How many stacks are described.
    pub fn count_stacks(&self) -> usize {
        self.stacks.len()
    }

    /// True if the session is described.
    pub fn has_session(&self, id: SessionId) -> bool {
        self.known.sessions.contains_key(&id)
    }

    /// Forgets the sessions that are not wanted.
    pub fn retain_sessions(&mut self, is_wanted: impl Fn(SessionId) -> bool) {
        // Usually there are none, and what copies share need not be copied.
        if self.known.sessions.keys().all(|id| is_wanted(*id)) {
            return;
        }
        let known = Arc::make_mut(&mut self.known);
        known.sessions.retain(|id, _| is_wanted(*id));
    }

    /// Number of sessions, statements or comments, whichever is largest.
    pub(crate) fn most_entities(&self) -> usize {
        let known = &self.known;
        (known.sessions.len())
            .max(known.statements.len())
            .max(known.comments.len())
    }

    /// Forgets everything that is not in `kept`.
    pub(crate) fn retain(&mut self, kept: &Described) {
        let known = Arc::make_mut(&mut self.known);
        known.sessions.retain(|id, _| kept.sessions.contains(id));
        known.statements.retain(|id, _| kept.statements.contains(id));
        known.comments.retain(|id, _| kept.comments.contains(id));
        Arc::make_mut(&mut self.stacks).retain(|id| kept.stacks.contains(&id));
    }

    /// Rows that describe these, as far as they are known.
    pub(crate) fn descriptions_of(&self, wanted: &Described) -> Rows {
        let session = |id| {
            let known = self.known.sessions.get(id)?;
            Some(SessionRow::from(Session::clone(known)))
        };
        let stack = |id: &StackId| {
            let frames = self.stacks.frames_of(*id)?.iter();
            Some(StackRow {
                id: *id,
                frames: frames.map(|frame| Frame::clone(frame)).collect(),
            })
        };
        Rows {
            sessions: wanted.sessions.iter().filter_map(session).collect(),
            stacks: wanted.stacks.iter().filter_map(stack).collect(),
            statements: known(&self.known.statements, &wanted.statements),
            comments: known(&self.known.comments, &wanted.comments),
            ..Rows::default()
        }
    }
}

fn known<T: Clone>(rows: &HashMap<u64, T>, ids: &HashSet<u64>) -> Vec<T> {
    ids.iter().filter_map(|id| rows.get(id)).cloned().collect()
}
