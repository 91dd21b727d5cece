//! Who was waited for.

use serde::Serialize;

use super::Head;
use super::blockers::BlockersJson;
use super::waited_locks::{LockJson, LockShareJson};
use crate::causes::{CausePart, CauseReport, CausedWait, Chain, ChainLink, Waiting, Who};
use crate::group::known_query_id;

#[derive(Serialize)]
pub(super) struct Document<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    /// False: the recording does not say who was waited for.
    recorded: bool,
    /// DB time that was blocked: the sum of `causes`.
    blocked_ns: u128,
    followed_ns: u128,
    causes: Vec<WaitJson<'a>>,
    #[serde(flatten)]
    blockers: BlockersJson<'a>,
    /// Their `behind_ns` sum to `blocked_ns`.
    chains: Vec<ChainJson<'a>>,
    problems: &'a [String],
}

#[derive(Serialize)]
struct WaitJson<'a> {
    wait: String,
    /// As PostgreSQL prints it: signed; none: not known.
    query: Option<String>,
    text: Option<&'a str>,
    sessions: usize,
    ns: u128,
    /// For a wait for locks of the server's lock table: which ones. They sum to no more than `ns`; the rest is not known. Missing if none
    /// is known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    locks: Vec<LockShareJson<'a>>,
    /// They sum to `ns`.
    by: Vec<PartJson<'a>>,
    /// The same link by link, if a depth was requested. They sum to `ns`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    links: Vec<LinkJson<'a>>,
}

#[derive(Serialize)]
struct LinkJson<'a> {
    /// Kind of what was waited for in the end, if that is here; none: these sessions waited for others themselves.
    end: Option<&'static str>,
    /// None, like the next ones, if it is not a session.
    backend_type: Option<&'a str>,
    query: Option<String>,
    text: Option<&'a str>,
    session_state: Option<&'static str>,
    wait: Option<String>,
    state: Option<&'static str>,
    /// Sessions that did the same.
    sessions: usize,
    ns: u128,
    /// Whom they waited for in turn. With `beyond_ns` these sum to `ns`, unless the chain ends here.
    further: Vec<LinkJson<'a>>,
    /// Time that leads on to links that are not shown.
    beyond_ns: u128,
}

#[derive(Serialize)]
pub(super) struct PartJson<'a> {
    kind: &'static str,
    /// Of the session where following ended; none, like the next ones, if it ended at no session.
    pid: Option<u32>,
    backend_type: Option<&'a str>,
    user: Option<&'a str>,
    query: Option<String>,
    text: Option<&'a str>,
    session_state: Option<&'static str>,
    wait: Option<String>,
    state: Option<&'static str>,
    /// Length of the longest chain to the root.
    links: usize,
    /// Where in the code it was while running, as far as known: the ten functions with the most time.
    functions: Vec<FunctionJson<'a>>,
    ns: u128,
}

#[derive(Serialize)]
struct FunctionJson<'a> {
    name: &'a str,
    ns: u128,
}

#[derive(Serialize)]
struct ChainJson<'a> {
    kind: &'static str,
    /// None: not a session.
    session: Option<WhoJson<'a>>,
    /// What it did meanwhile. Sums to `behind_ns`.
    doing: Vec<PartJson<'a>>,
    behind_ns: u128,
    behind: Vec<WaitingJson<'a>>,
}

#[derive(Serialize)]
struct WaitingJson<'a> {
    #[serde(flatten)]
    session: WhoJson<'a>,
    /// They sum to `ns`.
    waits: Vec<OwnWaitJson>,
    /// Of the first of them.
    text: Option<&'a str>,
    /// The lock that the first of them was for; missing if not known, not for a lock, or for several.
    #[serde(skip_serializing_if = "Option::is_none")]
    lock: Option<LockJson<'a>>,
    ns: u128,
    /// Of everybody in `behind`, and of those beyond.
    behind_ns: u128,
    behind: Vec<WaitingJson<'a>>,
    /// Those too deep to be in `behind`, as requested.
    beyond_sessions: usize,
    beyond_ns: u128,
}

#[derive(Serialize)]
struct OwnWaitJson {
    wait: String,
    query: Option<String>,
    ns: u128,
}

#[derive(Serialize)]
pub(super) struct WhoJson<'a> {
    pid: u32,
    backend_type: &'a str,
    user: &'a str,
    application: &'a str,
}

impl<'a> From<&'a Chain> for ChainJson<'a> {
    fn from(of: &'a Chain) -> ChainJson<'a> {
        ChainJson {
            kind: of.kind.as_str(),
            session: of.who.as_ref().map(WhoJson::from),
            doing: of.doing.iter().map(PartJson::from).collect(),
            behind_ns: of.behind_ns,
            behind: of.behind.iter().map(WaitingJson::from).collect(),
        }
    }
}

impl<'a> From<&'a Waiting> for WaitingJson<'a> {
    fn from(of: &'a Waiting) -> WaitingJson<'a> {
        let own = |(wait, statement, ns): &(dbtime_model::Wait, u64, u128)| OwnWaitJson {
            wait: wait.to_string(),
            query: known_query_id(*statement),
            ns: *ns,
        };
        WaitingJson {
            session: (&of.who).into(),
            waits: of.waits.iter().map(own).collect(),
            text: of.text.as_deref(),
            lock: of.lock.as_ref().map(LockJson::from),
            ns: of.ns,
            behind_ns: of.behind_ns,
            behind: of.behind.iter().map(WaitingJson::from).collect(),
            beyond_sessions: of.beyond.sessions,
            beyond_ns: of.beyond.ns,
        }
    }
}

impl<'a> From<&'a Who> for WhoJson<'a> {
    fn from(of: &'a Who) -> WhoJson<'a> {
        WhoJson {
            pid: of.pid,
            backend_type: &of.backend_type,
            user: &of.user,
            application: &of.application,
        }
    }
}

impl<'a> From<&'a CauseReport> for Document<'a> {
    fn from(report: &'a CauseReport) -> Document<'a> {
        Document {
            head: Head::of(&report.meta, report.period),
            recorded: report.is_recorded(),
            blocked_ns: report.blocked_ns,
            followed_ns: report.followed_ns,
            causes: report.waits.iter().map(WaitJson::from).collect(),
            blockers: report.into(),
            chains: report.chains.iter().map(ChainJson::from).collect(),
            problems: &report.problems,
        }
    }
}

impl<'a> From<&'a CausedWait> for WaitJson<'a> {
    fn from(of: &'a CausedWait) -> WaitJson<'a> {
        WaitJson {
            wait: of.wait.to_string(),
            query: known_query_id(of.statement),
            text: of.text.as_deref(),
            sessions: of.sessions,
            ns: of.ns,
            locks: of.locks.iter().map(LockShareJson::from).collect(),
            by: of.by.iter().map(PartJson::from).collect(),
            links: of.links.iter().map(LinkJson::from).collect(),
        }
    }
}

impl<'a> From<&'a ChainLink> for LinkJson<'a> {
    fn from(of: &'a ChainLink) -> LinkJson<'a> {
        let did = of.did.as_ref();
        LinkJson {
            end: of.end.map(|kind| kind.as_str()),
            backend_type: did.map(|did| did.backend_type.as_str()),
            query: did.and_then(|did| known_query_id(did.statement)),
            text: did.and_then(|did| did.text.as_deref()),
            session_state: did.map(|did| did.session_state.as_str()),
            wait: did.map(|did| did.wait.to_string()),
            state: did.map(|did| did.state.as_str()),
            sessions: of.sessions,
            ns: of.ns,
            further: of.further.iter().map(LinkJson::from).collect(),
            beyond_ns: of.beyond_ns,
        }
    }
}

impl<'a> From<&'a CausePart> for PartJson<'a> {
    fn from(of: &'a CausePart) -> PartJson<'a> {
        let root = of.root.as_ref();
        PartJson {
            kind: of.kind.as_str(),
            pid: root.map(|root| root.pid),
            backend_type: root.map(|root| root.backend_type.as_str()),
            user: root.map(|root| root.user.as_str()),
            query: root.and_then(|root| known_query_id(root.statement)),
            text: root.and_then(|root| root.text.as_deref()),
            session_state: root.map(|root| root.session_state.as_str()),
            wait: root.map(|root| root.wait.to_string()),
            state: root.map(|root| root.state.as_str()),
            links: of.links,
            functions: of
                .functions
                .iter()
                .take(10)
                .map(|(name, ns)| FunctionJson { name, ns: *ns })
                .collect(),
            ns: of.ns,
        }
    }
}
