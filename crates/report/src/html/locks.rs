//! Which locks of the lock table were waited for, in cells of the time that its samples stand for. The page limits them to the selected
//! blocked time, as the report does.

use std::collections::HashSet;

use dbtime_model::SessionId;
use dbtime_model::recording::Problem;

use super::cells::{Amount, Cell, Cells, with_room};
use super::{Packer, Table, cut};
use crate::dimensions::Dimensions;
use crate::filter::{Filter, SECOND_US};
use crate::load::Source;
use crate::locks::{WaitOfStatement, WaitedLocks};
use crate::numbered::Numbered;

/// Most cells.
const MOST_CELLS: usize = 100_000;
/// Most bytes of the names of locks.
const MOST_NAMES: usize = 2 << 20;
/// Most bytes of one of them.
const LONGEST_NAME: usize = 400;

/// [`Cell::stack`] is the name of the lock; the first one stands for those without room.
#[derive(Debug)]
pub(super) struct Locks {
    pub(super) table: Table,
    pub(super) names: Vec<String>,
}

/// Packs those that sessions waited for while blocked in DB time; and returns what could not be read.
pub(super) fn pack(
    source: &Source,
    dimensions: &mut Dimensions,
    filter: &Filter,
    blocked: &HashSet<(SessionId, WaitOfStatement)>,
    packer: &mut Packer,
) -> (Locks, Vec<Problem>) {
    let (looked, problems) = WaitedLocks::read(source, filter, dimensions);
    let mut names = Numbered::default();
    names.number(String::new());
    let mut cells = Cells::new(MOST_CELLS, source.meta().collector.resolution_s);
    looked.each(|of, session, lock, time, ns| {
        if !blocked.contains(&(session, of.clone())) {
            return;
        }
        let (wait, statement) = of;
        let cell = Cell {
            window_s: time.div_euclid(SECOND_US),
            session: packer.session(dimensions.session(session)),
            statement: packer.statements.number(*statement),
            wait: packer.wait(wait.clone()),
            stack: names.number(cut(&lock.to_string(), LONGEST_NAME)),
            place: 0,
            state: 0,
            session_state: 0,
            flags: 0,
        };
        let amount = Amount {
            ns: u64::try_from(ns).unwrap_or(u64::MAX),
            samples: 0,
        };
        cells.add(cell, amount);
    });
    let width_s = cells.width_s();
    let (names, cells) = with_room(names.into_values(), cells.into_sorted(), MOST_NAMES, String::len);
    let table = Table { width_s, cells };
    (Locks { table, names }, problems)
}
