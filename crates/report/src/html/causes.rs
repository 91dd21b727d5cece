//! Who was waited for, in cells: the parts of blocked DB time, each with the chain that was followed.

use std::collections::HashSet;

use dbtime_model::{CauseKind, CauseLink, SessionId, SessionState, State, Wait};

use super::cells::{Amount, Cell, Cells, with_room};
use super::{Packer, Table};
use crate::causes::{divided, is_recorded, why_not_recorded};
use crate::dimensions::Dimensions;
use crate::filter::{Filter, SECOND_US};
use crate::load::Source;
use crate::locks::{CLASS, WaitOfStatement};
use crate::numbered::Numbered;

/// Most cells.
const MOST_CELLS: usize = 150_000;
/// Most links in all chains together.
const MOST_LINKS: usize = 100_000;

/// Parts of blocked DB time. [`Cell::stack`] is the chain; the first one stands for those without room.
#[derive(Debug)]
pub(super) struct Causes {
    pub(super) table: Table,
    pub(super) chains: Vec<Chain>,
    pub(super) links: Vec<Link>,
    /// What to tell the user if waits were not followed.
    pub(super) why_not: Option<&'static str>,
}

/// Who was waited for, one after the other. Links are indices into [`Causes::links`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Chain {
    /// None: there was no room for it.
    pub(super) kind: Option<CauseKind>,
    pub(super) links: Vec<u32>,
}

/// A session that was waited for, and what it did. Numbers are indices into the page's dictionaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Link {
    pub(super) session: u32,
    pub(super) statement: u32,
    pub(super) wait: u32,
    pub(super) session_state: SessionState,
    pub(super) state: State,
}

/// Packs the causes of what a filter lets through; adds to `waited` who waited for locks of the lock table, and in what.
pub(super) fn pack(
    source: &Source,
    dimensions: &mut Dimensions,
    filter: &Filter,
    packer: &mut Packer,
    waited: &mut HashSet<(SessionId, WaitOfStatement)>,
) -> Causes {
    let mut chains = Numbered::default();
    chains.number(Chain {
        kind: None,
        links: Vec::new(),
    });
    let mut links = Numbered::default();
    let meta = source.meta();
    let mut cells = Cells::new(MOST_CELLS, meta.collector.resolution_s);
    let (mut blocked_ns, mut followed_ns) = (0, 0);
    divided(source, dimensions, filter, |key, part, dimensions| {
        blocked_ns += part.ns;
        if part.kind != CauseKind::Unknown || !part.chain.is_empty() {
            followed_ns += part.ns;
        }
        let wait = key.wait();
        if *wait.class == *CLASS {
            waited.insert((key.session, (wait.clone(), key.statement)));
        }
        let chain = Chain {
            kind: Some(part.kind),
            links: part
                .chain
                .iter()
                .map(|link| links.number(packed(link, dimensions, packer)))
                .collect(),
        };
        let cell = Cell {
            window_s: key.time.unwrap_or(0).div_euclid(SECOND_US),
            session: packer.session(dimensions.session(key.session)),
            statement: packer.statements.number(key.statement),
            wait: packer.wait(wait),
            stack: chains.number(chain),
            place: 0,
            state: key.state as u8,
            session_state: 0,
            flags: 0,
        };
        let amount = Amount {
            ns: u64::try_from(part.ns).unwrap_or(u64::MAX),
            samples: 0,
        };
        cells.add(cell, amount);
    });
    let width_s = cells.width_s();
    let (chains, cells) = with_room(chains.into_values(), cells.into_sorted(), MOST_LINKS, |chain| {
        // A chain without a session takes up room, too.
        chain.links.len().max(1)
    });
    Causes {
        table: Table { width_s, cells },
        chains,
        links: links.into_values(),
        // If nothing was blocked, that says it all; other tools may not know what was.
        why_not: (!is_recorded(meta, followed_ns) && (blocked_ns > 0 || !meta.files.is_empty()))
            .then(|| why_not_recorded(meta)),
    }
}

fn packed(link: &CauseLink, dimensions: &mut Dimensions, packer: &mut Packer) -> Link {
    Link {
        session: packer.session(dimensions.session(link.session)),
        statement: packer.statements.number(link.statement),
        wait: packer.wait(Wait::event(&link.wait_class, &link.wait_event, false)),
        session_state: link.session_state,
        state: link.state,
    }
}
