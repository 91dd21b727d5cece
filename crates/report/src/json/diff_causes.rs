//! Who was waited for, in two recordings.

use serde::Serialize;

use super::causes::PartJson;
use super::diff::CellJson;
use crate::diff::{CauseChange, CauseChanges, Change, Diff, Place, WaitingStatement};
use crate::group::known_query_id;

#[derive(Serialize)]
pub(super) struct CausesJson<'a> {
    /// Sides that do not say who was waited for: then nothing is compared.
    not_recorded: &'a [&'static str],
    /// Blocked DB time; null when nothing is compared.
    blocked: Option<&'a Change>,
    /// Largest growth first, then what shrank most. They sum to `blocked`.
    changes: Vec<CauseJson<'a>>,
}

#[derive(Serialize)]
struct CauseJson<'a> {
    /// The wait event, and how much.
    #[serde(flatten)]
    change: &'a Change,
    /// What it was for: of BAD, or of GOOD if BAD has none; the session is one of several that did the same.
    cause: PartJson<'a>,
    good_sessions: usize,
    bad_sessions: usize,
    /// What the waiters executed. They sum to the change.
    statements: Vec<StatementJson<'a>>,
}

#[derive(Serialize)]
struct StatementJson<'a> {
    /// As PostgreSQL prints it: signed; null: not known.
    query: Option<String>,
    text: Option<&'a str>,
    #[serde(flatten)]
    change: CellJson<'a>,
}

impl<'a> From<&'a Diff> for CausesJson<'a> {
    fn from(diff: &'a Diff) -> CausesJson<'a> {
        let (causes, not_recorded): (Option<&CauseChanges>, &[&str]) = match &diff.causes {
            Ok(causes) => (Some(causes), &[]),
            Err(silent) => (None, silent),
        };
        CausesJson {
            not_recorded,
            blocked: causes.map(|of| &of.total),
            changes: causes
                .iter()
                .flat_map(|of| of.changes.iter().map(CauseJson::from))
                .collect(),
        }
    }
}

impl<'a> From<&'a CauseChange> for CauseJson<'a> {
    fn from(of: &'a CauseChange) -> CauseJson<'a> {
        CauseJson {
            change: &of.change,
            cause: (&of.cause).into(),
            good_sessions: of.sessions[0],
            bad_sessions: of.sessions[1],
            statements: of.statements.iter().map(StatementJson::from).collect(),
        }
    }
}

impl<'a> From<&'a WaitingStatement> for StatementJson<'a> {
    fn from(of: &'a WaitingStatement) -> StatementJson<'a> {
        StatementJson {
            query: query(&of.change),
            text: of.text.as_deref(),
            change: (&of.change).into(),
        }
    }
}

fn query(change: &Change) -> Option<String> {
    match change.place {
        Place::Statement(id) => known_query_id(id),
        _ => None,
    }
}
