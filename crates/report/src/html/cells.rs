//! Time in cells: by window of time, session, statement, wait, state and stack. Their number is bounded to what a page can hold: with too
//! many seconds windows are merged; if that is not enough for stacks, similar sessions are merged, and finally small stacks are left out.
//!
//! Time is conserved: whatever is merged keeps its sum.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

/// Stands for the stacks that are left out.
pub(super) const LEFT_OUT: u32 = u32::MAX;
/// The row was an exact total that samples divided.
pub(super) const SAMPLED: u8 = 1;
/// Time of a session too short to be sampled individually.
pub(super) const POOLED: u8 = 2;

/// Each is a multiple of the ones before it, so that whole windows can be merged. Beyond a day they double.
const WIDTHS: [i64; 12] = [1, 5, 10, 20, 60, 120, 240, 720, 3_600, 7_200, 14_400, 43_200];
/// Stacks lose their sessions, and are left out, before there are fewer windows than this.
const FEWEST_WINDOWS: usize = 12;

/// What the time in a cell has in common. Numbers are indices into the page's dictionaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Cell {
    /// Start of the window, in seconds since the Unix epoch.
    pub(super) window_s: i64,
    pub(super) session: u32,
    pub(super) statement: u32,
    pub(super) wait: u32,
    pub(super) stack: u32,
    /// Section of the ledger, and whether the session had something to do.
    pub(super) place: u8,
    pub(super) state: u8,
    pub(super) session_state: u8,
    /// [`SAMPLED`], [`POOLED`].
    pub(super) flags: u8,
}

/// Contents of a cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Amount {
    /// Nanoseconds, or whatever else the recording counts.
    pub(super) ns: u64,
    /// Samples.
    pub(super) samples: u64,
}

impl Amount {
    pub(super) fn add(&mut self, more: Amount) {
        self.ns = self.ns.saturating_add(more.ns);
        self.samples = self.samples.saturating_add(more.samples);
    }
}

/// Cells under construction.
#[derive(Debug)]
pub(super) struct Cells {
    most: usize,
    resolution_s: i64,
    level: u32,
    /// For each session the first similar one.
    alike: Vec<u32>,
    are_sessions_merged: bool,
    cells: HashMap<Cell, Amount>,
}

impl Cells {
    /// For at most this many cells, of a recording whose rows stand for this many seconds.
    pub(super) fn new(most: usize, resolution_s: u32) -> Cells {
        Cells {
            most: most.max(1),
            resolution_s: i64::from(resolution_s.max(1)),
            level: 0,
            alike: Vec::new(),
            are_sessions_merged: false,
            cells: HashMap::new(),
        }
    }

    /// Length of a window, seconds.
    pub(super) fn width_s(&self) -> i64 {
        width_s(self.level, self.resolution_s)
    }

    /// The next session may be merged with this earlier one, or with none (itself).
    pub(super) fn next_session(&mut self, alike: u32) {
        self.alike.push(alike);
    }

    /// Whether similar sessions are merged.
    pub(super) fn are_sessions_merged(&self) -> bool {
        self.are_sessions_merged
    }

    /// Adds time at a second; `cell.window_s` is any second of the window.
    pub(super) fn add(&mut self, cell: Cell, amount: Amount) {
        let cell = self.placed(cell);
        self.cells.entry(cell).or_default().add(amount);
        while self.cells.len() > self.most && self.shrink() {}
    }

    /// All of them, in order.
    pub(super) fn into_sorted(self) -> Vec<(Cell, Amount)> {
        let mut cells: Vec<(Cell, Amount)> = self.cells.into_iter().collect();
        cells.sort_unstable_by_key(|(cell, _)| *cell);
        cells
    }

    /// The cell that this one currently belongs to.
    fn placed(&self, cell: Cell) -> Cell {
        let width_s = self.width_s();
        let session = match self.are_sessions_merged {
            true => self.alike.get(cell.session as usize).copied(),
            false => None,
        };
        Cell {
            window_s: window_of(cell.window_s, width_s),
            session: session.unwrap_or(cell.session),
            ..cell
        }
    }

    /// Reduces their number; false when that is not possible.
    fn shrink(&mut self) -> bool {
        let windows: BTreeSet<i64> = self.cells.keys().map(|cell| cell.window_s).collect();
        let has_stacks = self.cells.keys().any(has_stack);
        match (windows.len(), has_stacks) {
            (0..=1, false) => return false,
            (0..=FEWEST_WINDOWS, true) if self.are_sessions_merged => {
                self.leave_out_stacks();
                return true;
            }
            (0..=FEWEST_WINDOWS, true) => self.are_sessions_merged = true,
            _ => self.level += 1,
        }
        for (cell, amount) in std::mem::take(&mut self.cells) {
            self.cells.entry(self.placed(cell)).or_default().add(amount);
        }
        true
    }

    /// Of the cells with a stack, the larger half of what there is room for keeps it.
    fn leave_out_stacks(&mut self) {
        let mut with_stack: Vec<(Cell, Amount)> = self
            .cells
            .iter()
            .filter(|(cell, _)| has_stack(cell))
            .map(|(cell, amount)| (*cell, *amount))
            .collect();
        with_stack.sort_unstable_by_key(|(cell, amount)| (Reverse(amount.ns), *cell));
        for (cell, amount) in with_stack.split_off((self.most / 2).min(with_stack.len() / 2)) {
            self.cells.remove(&cell);
            let left_out = Cell {
                stack: LEFT_OUT,
                ..cell
            };
            self.cells.entry(left_out).or_default().add(amount);
        }
    }
}

/// Length of the windows of a level, seconds.
pub(super) fn width_s(level: u32, resolution_s: i64) -> i64 {
    let seconds = WIDTHS.get(level as usize).copied().unwrap_or_else(|| {
        let doubled = level.saturating_sub(WIDTHS.len() as u32).min(40);
        86_400i64.saturating_mul(1 << doubled)
    });
    seconds.saturating_mul(resolution_s)
}

/// The window that starts at or before a second.
pub(super) fn window_of(second: i64, width_s: i64) -> i64 {
    second.div_euclid(width_s).saturating_mul(width_s)
}

/// Of the values in the place of stacks, those with the most time are kept, as far as there is room, and the cells get their new indices.
/// The first one stands for all that are dropped.
pub(super) fn with_room<T: Clone>(
    values: Vec<T>,
    mut cells: Vec<(Cell, Amount)>,
    mut room: usize,
    needs: impl Fn(&T) -> usize,
) -> (Vec<T>, Vec<(Cell, Amount)>) {
    let mut ns = vec![0u128; values.len()];
    for (cell, amount) in &mut cells {
        if !has_stack(cell) {
            cell.stack = 0;
        }
        ns[cell.stack as usize] += u128::from(amount.ns);
    }
    let mut by_time: Vec<usize> = (1..values.len()).collect();
    by_time.sort_by_key(|value| Reverse(ns[*value]));
    let mut places = vec![0; values.len()];
    let mut kept = vec![values[0].clone()];
    for value in by_time {
        let needs = needs(&values[value]);
        if ns[value] > 0 && needs <= room {
            room -= needs;
            places[value] = kept.len() as u32;
            kept.push(values[value].clone());
        }
    }
    for (cell, _) in &mut cells {
        cell.stack = places[cell.stack as usize];
    }
    (kept, cells)
}

fn has_stack(cell: &Cell) -> bool {
    cell.stack != LEFT_OUT
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cell(window_s: i64, session: u32, stack: u32) -> Cell {
        Cell {
            window_s,
            session,
            statement: 0,
            wait: 0,
            stack,
            place: 0,
            state: 0,
            session_state: 0,
            flags: 0,
        }
    }

    #[test]
    fn a_width_holds_the_one_before_it() {
        for resolution_s in [1, 7, 10] {
            let mut cells = Cells::new(1, resolution_s);
            for _ in 0..30 {
                let finer = cells.width_s();
                cells.level += 1;
                assert_eq!(cells.width_s() % finer, 0, "{finer} in {}", cells.width_s());
            }
        }
    }

    #[test]
    fn what_fits_stays_as_it_is() {
        let mut cells = Cells::new(10, 1);
        for second in [7, 8, 7] {
            cells.add(cell(second, 1, 2), Amount { ns: 5, samples: 1 });
        }
        assert_eq!(cells.width_s(), 1);
        let found: Vec<(i64, u64)> = cells
            .into_sorted()
            .iter()
            .map(|(cell, amount)| (cell.window_s, amount.ns))
            .collect();
        assert_eq!(found, [(7, 10), (8, 5)]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_there_is_room(
            rows in prop::collection::vec((0i64..3_000, 0u32..3, 0u32..40, 0u64..1_000), 1..600),
            most in 4usize..60,
        ) {
            let mut cells = Cells::new(most, 1);
            // The last two are similar.
            for alike in [0, 1, 1] {
                cells.next_session(alike);
            }
            for (second, session, stack, ns) in &rows {
                cells.add(cell(*second, *session, *stack), Amount { ns: *ns, samples: 1 });
            }
            let width_s = cells.width_s();
            let found = cells.into_sorted();
            prop_assert_eq!(found.iter().map(|(_, amount)| amount.ns).sum::<u64>(), rows.iter().map(|row| row.3).sum::<u64>());
            prop_assert_eq!(found.iter().map(|(_, amount)| amount.samples).sum::<u64>(), rows.len() as u64);
            prop_assert!(found.iter().all(|(cell, _)| cell.window_s % width_s == 0));
            prop_assert!(found.len() <= most);
        }
    }
}
