//! Whom sessions waited for directly, and whom those waited for in turn, link by link.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use dbtime_model::{CauseKind, SessionId};

use super::divide::Divided;
use super::parts::{Doing, Root, root};
use crate::dimensions::Dimensions;

/// Sessions that were waited for and did the same, or something that is not a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainLink {
    /// What was waited for in the end, if the chain ends here; none when these sessions waited for others themselves.
    pub end: Option<CauseKind>,
    /// One of the sessions, and what all of them did; none = not a session.
    pub did: Option<Root>,
    /// How many sessions.
    pub sessions: usize,
    /// For how long they were waited for, nanoseconds.
    pub ns: u128,
    /// Whom they waited for in turn, largest first. With `beyond_ns` these sum to `ns`, unless the chain ends here.
    pub further: Vec<ChainLink>,
    /// Time that leads on to links that are not shown.
    pub beyond_ns: u128,
}

/// What the members of a link have in common.
type Key = (Option<CauseKind>, Option<Doing>);

/// Adds up parts of blocked time, link by link.
#[derive(Default)]
pub(super) struct Links(BTreeMap<Key, Node>);

#[derive(Default)]
struct Node {
    did: Option<Root>,
    sessions: BTreeSet<SessionId>,
    ns: u128,
    further: Links,
    beyond_ns: u128,
}

impl Links {
    /// Adds a part, with at most `depth` links of its chain.
    pub(super) fn add(&mut self, part: &Divided<'_>, depth: usize, dimensions: &mut Dimensions) {
        let mut level = self;
        if part.chain.is_empty() {
            level.0.entry((Some(part.kind), None)).or_default().ns += part.ns;
        }
        for (place, link) in part.chain.iter().enumerate() {
            let is_last = place + 1 == part.chain.len();
            let did = root(link, dimensions);
            let key = (is_last.then_some(part.kind), Some(did.doing()));
            let node = level.0.entry(key).or_default();
            node.ns += part.ns;
            node.sessions.insert(link.session);
            // An arbitrary one, but the same every time.
            if node.did.as_ref().is_none_or(|known| did < *known) {
                node.did = Some(did);
            }
            if !is_last && place + 1 >= depth {
                node.beyond_ns += part.ns;
                break;
            }
            level = &mut node.further;
        }
    }

    /// The link with the most time first.
    pub(super) fn finish(self) -> Vec<ChainLink> {
        let nodes = self.0.into_iter();
        let mut links: Vec<ChainLink> = nodes
            .map(|((end, _), node)| ChainLink {
                end,
                did: node.did,
                sessions: node.sessions.len(),
                ns: node.ns,
                further: node.further.finish(),
                beyond_ns: node.beyond_ns,
            })
            .collect();
        links.sort_by_key(|link| Reverse(link.ns));
        links
    }
}
