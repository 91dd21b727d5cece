//! Events in cells: by window of time, session, what was measured, and bucket. Their number is bounded to what a page can hold: if there
//! are too many, windows become longer and sessions are merged; finally what was measured for less time is merged.
//!
//! Events are conserved: whatever is merged keeps count, sum and the longest.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};

use super::cells::{width_s, window_of};

/// Session of events that belong to none, or are no longer distinguished by session.
pub(super) const NO_SESSION: u32 = u32::MAX;
/// Similar sessions are merged rather than leave fewer windows than the first number, and all sessions rather than fewer than the second.
const FEWEST_WINDOWS: [usize; 2] = [60, 12];

/// What the events in a cell have in common. Numbers are indices into dictionaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LatencyCell {
    /// Start of the window, in seconds since the Unix epoch.
    pub(super) window_s: i64,
    pub(super) session: u32,
    pub(super) series: u32,
    pub(super) bucket: u32,
}

/// The events of a cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Events {
    pub(super) count: u64,
    pub(super) sum_ns: u64,
    pub(super) max_ns: u64,
}

impl Events {
    fn add(&mut self, more: Events) {
        self.count = self.count.saturating_add(more.count);
        self.sum_ns = self.sum_ns.saturating_add(more.sum_ns);
        self.max_ns = self.max_ns.max(more.max_ns);
    }
}

/// How sessions are distinguished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Apart {
    Each,
    /// Those of the same kind, user, database and application are merged.
    Alike,
    None,
}

/// Cells under construction.
#[derive(Debug)]
pub(super) struct LatencyCells {
    most: usize,
    resolution_s: i64,
    level: u32,
    apart: Apart,
    /// For each series the one that it is merged into, if any.
    others: HashMap<u32, u32>,
    cells: HashMap<LatencyCell, Events>,
}

impl LatencyCells {
    /// For at most this many cells, of a recording whose rows stand for this many seconds.
    pub(super) fn new(most: usize, resolution_s: u32) -> LatencyCells {
        LatencyCells {
            most: most.max(1),
            resolution_s: i64::from(resolution_s.max(1)),
            level: 0,
            apart: Apart::Each,
            others: HashMap::new(),
            cells: HashMap::new(),
        }
    }

    /// Length of a window, seconds.
    pub(super) fn width_s(&self) -> i64 {
        width_s(self.level, self.resolution_s)
    }

    pub(super) fn apart(&self) -> Apart {
        self.apart
    }

    /// Adds events at a second; `cell.window_s` is any second of the window. `alike`: for each session the first similar one; `other_of`:
    /// the series into which one is merged if there is no room for it.
    pub(super) fn add(
        &mut self,
        cell: LatencyCell,
        events: Events,
        alike: &[u32],
        other_of: &mut dyn FnMut(u32) -> u32,
    ) {
        let cell = self.placed(cell, alike);
        self.cells.entry(cell).or_default().add(events);
        while self.cells.len() > self.most && self.shrink(alike, other_of) {}
    }

    /// Leaves at most this many series, as far as they can be merged.
    pub(super) fn limit_series(&mut self, most: usize, alike: &[u32], other_of: &mut dyn FnMut(u32) -> u32) {
        let count = |cells: &LatencyCells| {
            let series: HashSet<u32> = cells.cells.keys().map(|cell| cell.series).collect();
            series.len()
        };
        while count(self) > most && self.put_together(other_of) {
            self.place_all(alike);
        }
    }

    /// All of them, in order.
    pub(super) fn into_sorted(self) -> Vec<(LatencyCell, Events)> {
        let mut cells: Vec<(LatencyCell, Events)> = self.cells.into_iter().collect();
        cells.sort_unstable_by_key(|(cell, _)| *cell);
        cells
    }

    /// The cell that this one currently belongs to.
    fn placed(&self, cell: LatencyCell, alike: &[u32]) -> LatencyCell {
        let session = match self.apart {
            Apart::Each => cell.session,
            Apart::Alike => alike.get(cell.session as usize).copied().unwrap_or(cell.session),
            Apart::None => NO_SESSION,
        };
        LatencyCell {
            window_s: window_of(cell.window_s, self.width_s()),
            session,
            series: self.others.get(&cell.series).copied().unwrap_or(cell.series),
            ..cell
        }
    }

    /// Reduces their number; false when that is not possible.
    fn shrink(&mut self, alike: &[u32], other_of: &mut dyn FnMut(u32) -> u32) -> bool {
        let windows: BTreeSet<i64> = self.cells.keys().map(|cell| cell.window_s).collect();
        let longer_s = width_s(self.level + 1, self.resolution_s);
        let longer: BTreeSet<i64> = windows
            .iter()
            .map(|window| window_of(*window, longer_s))
            .collect();
        let fewest = match self.apart {
            Apart::Each => FEWEST_WINDOWS[0],
            Apart::Alike => FEWEST_WINDOWS[1],
            Apart::None => 1,
        };
        match self.apart {
            _ if windows.len() > 1 && longer.len() >= fewest => self.level += 1,
            Apart::Each => self.apart = Apart::Alike,
            Apart::Alike => self.apart = Apart::None,
            Apart::None => {
                if !self.put_together(other_of) {
                    return false;
                }
            }
        }
        self.place_all(alike);
        true
    }

    fn place_all(&mut self, alike: &[u32]) {
        for (cell, events) in std::mem::take(&mut self.cells) {
            self.cells
                .entry(self.placed(cell, alike))
                .or_default()
                .add(events);
        }
    }

    /// Merges the half of the series with less time; false when there is nothing left to merge.
    fn put_together(&mut self, other_of: &mut dyn FnMut(u32) -> u32) -> bool {
        let mut by_series: HashMap<u32, u128> = HashMap::new();
        for (cell, events) in &self.cells {
            *by_series.entry(cell.series).or_default() += u128::from(events.sum_ns);
        }
        let mut series: Vec<(u32, u128)> = by_series
            .into_iter()
            .filter(|(series, _)| other_of(*series) != *series)
            .collect();
        series.sort_unstable_by_key(|(series, ns)| (Reverse(*ns), *series));
        let smaller = series.split_off(series.len() / 2);
        for (series, _) in &smaller {
            self.others.insert(*series, other_of(*series));
        }
        !smaller.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_short_recording_keeps_its_seconds_rather_than_its_sessions() {
        let mut cells = LatencyCells::new(60, 1);
        let alike: Vec<u32> = (0..10).collect();
        let events = Events {
            count: 1,
            sum_ns: 1,
            max_ns: 1,
        };
        for session in 0..10 {
            for window_s in 0..13 {
                let cell = LatencyCell {
                    window_s,
                    session,
                    series: 1,
                    bucket: 5,
                };
                cells.add(cell, events, &alike, &mut |_| 0);
            }
        }
        assert_eq!((cells.width_s(), cells.apart()), (1, Apart::None));
    }

    proptest! {
        #[test]
        fn no_event_is_lost_and_there_is_room(
            rows in prop::collection::vec((0i64..3_000, 0u32..6, 1u32..40, 0u32..3, 1u64..1_000), 1..600),
            most in 4usize..200,
        ) {
            let mut cells = LatencyCells::new(most, 1);
            // The last three are similar. Series 0 is for what there is no room for.
            let alike = [0, 1, 2, 3, 3, 3];
            for (second, session, series, bucket, ns) in &rows {
                let cell = LatencyCell { window_s: *second, session: *session, series: *series, bucket: *bucket };
                let events = Events { count: 1, sum_ns: *ns, max_ns: *ns };
                cells.add(cell, events, &alike, &mut |_| 0);
            }
            let width_s = cells.width_s();
            let found = cells.into_sorted();
            prop_assert_eq!(found.iter().map(|(_, events)| events.count).sum::<u64>(), rows.len() as u64);
            prop_assert_eq!(found.iter().map(|(_, events)| events.sum_ns).sum::<u64>(), rows.iter().map(|row| row.4).sum::<u64>());
            prop_assert_eq!(found.iter().map(|(_, events)| events.max_ns).max(), rows.iter().map(|row| row.4).max());
            prop_assert!(found.iter().all(|(cell, _)| cell.window_s % width_s == 0));
            prop_assert!(found.len() <= most);
        }
    }
}
