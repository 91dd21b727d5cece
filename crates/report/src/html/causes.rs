//! Whom blocked sessions waited for, in cells: the parts of blocked DB time, each with the chain that it was followed along.

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

/// Cells, at most.
const MOST_CELLS: usize = 150_000;
/// Links of all chains, at most.
const MOST_LINKS: usize = 100_000;

/// Parts of blocked DB time. In [`Cell::stack`] stands the chain; the first one is of what found no place.
#[derive(Debug)]
pub(super) struct Causes {
    pub(super) table: Table,
    pub(super) chains: Vec<Chain>,
    pub(super) links: Vec<Link>,
    /// Nobody followed the waits: what to say of that.
    pub(super) why_not: Option<&'static str>,
}

/// Who was waited for, one after the other. Links are places in [`Causes::links`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Chain {
    /// None: it found no place.
    pub(super) kind: Option<CauseKind>,
    pub(super) links: Vec<u32>,
}

/// One who was waited for, and what it did. Numbers are places in the page's dictionaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Link {
    pub(super) session: u32,
    pub(super) statement: u32,
    pub(super) wait: u32,
    pub(super) session_state: SessionState,
    pub(super) state: State,
}

/// Packs the causes of what a filter lets through; `waited` is given who of them waited for locks of the lock table, and in what.
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
        // What ends at no session takes a place, too.
        chain.links.len().max(1)
    });
    Causes {
        table: Table { width_s, cells },
        chains,
        links: links.into_values(),
        // Where nothing was blocked, that is all there is to say; other tools may not tell what was.
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
