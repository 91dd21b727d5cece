//! What rows refer to and what rows describe: a recording has a row for each session, stack, statement and
//! comment that another row names.

use std::collections::HashSet;

use crate::{Rows, SessionId, StackId, comment};

/// Sessions, stacks, statements and comments, by their identities.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Described {
    /// Sessions.
    pub sessions: HashSet<SessionId>,
    /// Stacks.
    pub stacks: HashSet<StackId>,
    /// Statements.
    pub statements: HashSet<u64>,
    /// Comments of statements.
    pub comments: HashSet<u64>,
}

impl Described {
    /// Removes what is in another one.
    pub fn subtract(&mut self, other: &Described) {
        self.sessions.retain(|id| !other.sessions.contains(id));
        self.stacks.retain(|id| !other.stacks.contains(id));
        self.statements.retain(|id| !other.statements.contains(id));
        self.comments.retain(|id| !other.comments.contains(id));
    }

    /// Removes what is not in another one.
    pub fn keep(&mut self, other: &Described) {
        self.sessions.retain(|id| other.sessions.contains(id));
        self.stacks.retain(|id| other.stacks.contains(id));
        self.statements.retain(|id| other.statements.contains(id));
        self.comments.retain(|id| other.comments.contains(id));
    }

    /// Adds what is in another one.
    pub fn add(&mut self, other: Described) {
        self.sessions.extend(other.sessions);
        self.stacks.extend(other.stacks);
        self.statements.extend(other.statements);
        self.comments.extend(other.comments);
    }

    /// True when there is nothing.
    pub fn is_empty(&self) -> bool {
        let is_without_texts = self.statements.is_empty() && self.comments.is_empty();
        self.sessions.is_empty() && self.stacks.is_empty() && is_without_texts
    }
}

impl Rows {
    /// What these rows refer to, except the recorder itself and ids that stand for nothing.
    pub fn refers_to(&self) -> Described {
        let links = || self.causes.iter().flat_map(|row| &row.chain);
        let mut named = Described {
            stacks: self.stacks_referred_to().collect(),
            ..Described::default()
        };
        named.sessions.extend(self.activity.iter().map(|row| row.session));
        named.sessions.extend(self.latency.iter().map(|row| row.session));
        named.sessions.extend(self.counters.iter().map(|row| row.session));
        named.sessions.extend(self.spans.iter().map(|row| row.session));
        named.sessions.extend(self.switches.iter().map(|row| row.session));
        named.sessions.extend(self.causes.iter().map(|row| row.session));
        named
            .sessions
            .extend(self.held_locks.iter().map(|row| row.session));
        named.sessions.extend(self.locks.iter().map(|row| row.session));
        named.sessions.extend(links().map(|link| link.session));
        named.sessions.remove(&SessionId::RECORDER);
        named
            .statements
            .extend(self.activity.iter().map(|row| row.statement));
        named
            .statements
            .extend(self.latency.iter().map(|row| row.statement));
        named
            .statements
            .extend(self.counters.iter().map(|row| row.statement));
        named
            .statements
            .extend(self.causes.iter().map(|row| row.statement));
        named
            .statements
            .extend(self.held_locks.iter().map(|row| row.statement));
        named
            .statements
            .extend(self.locks.iter().map(|row| row.statement));
        let of_switches = self.switches.iter();
        named
            .statements
            .extend(of_switches.flat_map(|row| [row.statement, row.wait_statement]));
        named.statements.extend(links().map(|link| link.statement));
        named.statements.remove(&0);
        let comments = self.activity.iter().map(|row| row.comment);
        named
            .comments
            .extend(comments.filter(|id| *id > comment::UNKNOWN));
        named
    }

    /// What these rows describe; statements only if they have a text.
    pub fn describes(&self) -> Described {
        Described {
            sessions: self.sessions.iter().map(|row| row.id).collect(),
            stacks: self.stacks.iter().map(|row| row.id).collect(),
            statements: self
                .statements
                .iter()
                .filter(|row| !row.text.is_empty())
                .map(|row| row.id)
                .collect(),
            comments: self.comments.iter().map(|row| row.id).collect(),
        }
    }

    /// Copies of the rows that describe any of these.
    pub fn descriptions_of(&self, wanted: &Described) -> Rows {
        Rows {
            sessions: copies(&self.sessions, |row| wanted.sessions.contains(&row.id)),
            stacks: copies(&self.stacks, |row| wanted.stacks.contains(&row.id)),
            statements: copies(&self.statements, |row| wanted.statements.contains(&row.id)),
            comments: copies(&self.comments, |row| wanted.comments.contains(&row.id)),
            ..Rows::default()
        }
    }
}

fn copies<R: Clone>(rows: &[R], which: impl Fn(&R) -> bool) -> Vec<R> {
    rows.iter().filter(|row| which(row)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CounterRow, LatencyRow, NO_STACK, StackRow, StatementRow};

    #[test]
    fn what_rows_name_and_do_not_describe_is_missing() {
        let latency = |session, statement, stack| LatencyRow {
            session: SessionId(session),
            statement,
            stack,
            ..LatencyRow::default()
        };
        let mut rows = Rows {
            latency: vec![latency(1, 7, StackId(10)), latency(0, 0, NO_STACK)],
            counters: vec![CounterRow {
                session: SessionId(2),
                statement: 8,
                ..CounterRow::default()
            }],
            ..Rows::default()
        };
        let named = rows.refers_to();
        assert_eq!(named.sessions, HashSet::from([SessionId(1), SessionId(2)]));
        assert_eq!(named.stacks, HashSet::from([StackId(10)]));
        assert_eq!(named.statements, HashSet::from([7, 8]));

        rows.stacks = [10, 11]
            .map(|id| StackRow {
                id: StackId(id),
                frames: Vec::new(),
            })
            .to_vec();
        rows.statements = vec![StatementRow {
            id: 7,
            text: "SELECT ?".to_string(),
            ..StatementRow::default()
        }];
        let mut missing = named.clone();
        missing.subtract(&rows.describes());
        assert_eq!(missing.statements, HashSet::from([8]));
        assert!(missing.stacks.is_empty() && missing.sessions.len() == 2);
        assert_eq!(rows.descriptions_of(&named).stacks.len(), 1);
    }
}
