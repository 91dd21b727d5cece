//! Sessions and statements that others waited for.

use serde::Serialize;

use super::Head;
use super::causes::WhoJson;
use super::waited_locks::LockShareJson;
use crate::causes::{Blocker, BlockingStatement, CauseReport, Meanwhile};
use crate::group::known_query_id;

#[derive(Serialize)]
pub(super) struct Document<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    /// False: the recording does not say who was waited for.
    recorded: bool,
    /// DB time that was blocked.
    blocked_ns: u128,
    followed_ns: u128,
    #[serde(flatten)]
    blockers: BlockersJson<'a>,
    problems: &'a [String],
}

#[derive(Serialize)]
pub(super) struct BlockersJson<'a> {
    /// Their `root_ns`, plus `without_session`, sum to the blocked time. So do those of the statements.
    blockers: Vec<BlockerJson<'a>>,
    blocking_statements: Vec<StatementJson<'a>>,
    /// Blocked time that led to no session.
    without_session: Vec<WithoutSessionJson>,
}

#[derive(Serialize)]
struct BlockerJson<'a> {
    #[serde(flatten)]
    session: WhoJson<'a>,
    waiters: usize,
    ns: u128,
    /// Of that, while it was blocked itself.
    blocked_ns: u128,
    /// Of that, while it was the root of the chain.
    root_ns: u128,
    /// The locks of the server's lock table that its direct waiters wanted, as far as known; missing if none is. They sum to no more than
    /// `ns`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    locks: Vec<LockShareJson<'a>>,
    /// Sums to `ns`.
    doing: Vec<MeanwhileJson<'a>>,
}

#[derive(Serialize)]
struct StatementJson<'a> {
    /// As PostgreSQL prints it: signed; none: not known, or none executed.
    query: Option<String>,
    text: Option<&'a str>,
    sessions: usize,
    waiters: usize,
    /// A wait for several sessions that executed it counts once.
    ns: u128,
    /// Of that, while one of them was the root of the chain.
    root_ns: u128,
    /// As for a session.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    locks: Vec<LockShareJson<'a>>,
    /// Sums to `ns`.
    doing: Vec<MeanwhileJson<'a>>,
}

#[derive(Serialize)]
struct MeanwhileJson<'a> {
    /// Kind of what was waited for in the end; none: this session was itself waiting for another one.
    end: Option<&'static str>,
    backend_type: &'a str,
    query: Option<String>,
    text: Option<&'a str>,
    session_state: &'static str,
    wait: String,
    state: &'static str,
    ns: u128,
}

#[derive(Serialize)]
struct WithoutSessionJson {
    kind: &'static str,
    ns: u128,
}

impl<'a> From<&'a CauseReport> for Document<'a> {
    fn from(report: &'a CauseReport) -> Document<'a> {
        Document {
            head: Head::of(&report.meta, report.period),
            recorded: report.is_recorded(),
            blocked_ns: report.blocked_ns,
            followed_ns: report.followed_ns,
            blockers: report.into(),
            problems: &report.problems,
        }
    }
}

impl<'a> From<&'a CauseReport> for BlockersJson<'a> {
    fn from(report: &'a CauseReport) -> BlockersJson<'a> {
        let without_session = report.chains.iter().filter(|chain| chain.who.is_none());
        BlockersJson {
            blockers: report.blockers.iter().map(BlockerJson::from).collect(),
            blocking_statements: report
                .blocking_statements
                .iter()
                .map(StatementJson::from)
                .collect(),
            without_session: without_session
                .map(|chain| WithoutSessionJson {
                    kind: chain.kind.as_str(),
                    ns: chain.behind_ns,
                })
                .collect(),
        }
    }
}

impl<'a> From<&'a Blocker> for BlockerJson<'a> {
    fn from(of: &'a Blocker) -> BlockerJson<'a> {
        BlockerJson {
            session: (&of.who).into(),
            waiters: of.waiters,
            ns: of.ns,
            blocked_ns: of.blocked_ns,
            root_ns: of.root_ns,
            locks: of.locks.iter().map(LockShareJson::from).collect(),
            doing: of.doing.iter().map(MeanwhileJson::from).collect(),
        }
    }
}

impl<'a> From<&'a BlockingStatement> for StatementJson<'a> {
    fn from(of: &'a BlockingStatement) -> StatementJson<'a> {
        StatementJson {
            query: known_query_id(of.statement),
            text: of.text.as_deref(),
            sessions: of.sessions,
            waiters: of.waiters,
            ns: of.ns,
            root_ns: of.root_ns,
            locks: of.locks.iter().map(LockShareJson::from).collect(),
            doing: of.doing.iter().map(MeanwhileJson::from).collect(),
        }
    }
}

impl<'a> From<&'a Meanwhile> for MeanwhileJson<'a> {
    fn from(of: &'a Meanwhile) -> MeanwhileJson<'a> {
        MeanwhileJson {
            end: of.end.map(|kind| kind.as_str()),
            backend_type: &of.did.backend_type,
            query: known_query_id(of.did.statement),
            text: of.did.text.as_deref(),
            session_state: of.did.session_state.as_str(),
            wait: of.did.wait.to_string(),
            state: of.did.state.as_str(),
            ns: of.ns,
        }
    }
}
