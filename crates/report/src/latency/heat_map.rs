//! Latency over time: how many events of one kind fell into each second and each part of a power of two.
//!
//! Long recordings get wider columns, so that they always fit a picture. If the time turns out to be longer, columns counted so far are
//! merged, so that one pass over the rows is enough.

use std::collections::{BTreeMap, BTreeSet};

use dbtime_model::recording::Meta;

use super::{LatencyOptions, Recorded, in_order, scan};
use crate::dimensions::Dimensions;
use crate::filter::{Filter, SECOND_US};
use crate::histogram::{Histogram, middle};
use crate::load::Source;
use crate::report::{ReportError, load};
use crate::scan::Period;

/// Most columns of a picture.
const MAX_COLUMNS: i128 = 240;
/// Widths of a column in seconds. Each is a multiple of the one before, so that columns can be merged.
const WIDTHS_S: [i64; 12] = [1, 5, 10, 30, 60, 300, 600, 1_800, 3_600, 10_800, 21_600, 86_400];
/// Rows per power of two at the finest resolution, in which events are counted.
const FINEST_ROWS: i32 = 8;
/// Most rows of a picture; the number of rows per power of two is reduced to stay below.
const MAX_ROWS: i32 = 96;
/// Lower powers of two of microseconds than this one (62 ns) are shown in it.
const LOWEST_POWER: i32 = -4;

/// Events of one cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeatMapCell {
    /// Events.
    pub count: u128,
    /// Sum of their latencies in nanoseconds.
    pub sum_ns: u128,
    /// The longest of them in nanoseconds.
    pub max_ns: u64,
}

impl HeatMapCell {
    fn add(&mut self, other: &HeatMapCell) {
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }
}

/// Latencies of one kind over time.
#[derive(Debug, Clone, PartialEq)]
pub struct HeatMap {
    /// What the recording says about itself.
    pub meta: Meta,
    /// The time it covers.
    pub period: Period,
    /// See [`dbtime_model::latency::kind`]; empty when the recording has no latencies.
    pub kind: String,
    /// Names of the events in it.
    pub names: BTreeSet<String>,
    /// Start of the first column, microseconds since the Unix epoch.
    pub from_us: i64,
    /// Width of a column in seconds.
    pub column_s: i64,
    /// Number of columns, including those without events.
    pub columns: usize,
    /// Lower bound of the lowest row: this power of two of microseconds.
    pub lowest_power: i32,
    /// How many powers of two of microseconds are shown.
    pub powers: usize,
    /// Rows per power of two.
    pub rows_per_power: usize,
    /// Cells with events by column and row; row 0 is the lowest.
    pub cells: BTreeMap<(usize, usize), HeatMapCell>,
    /// All events in it.
    pub total: Histogram,
    /// What could not be read.
    pub problems: Vec<String>,
}

impl HeatMap {
    /// Bounds of a row in nanoseconds; anything shorter is in the lowest row. A bucket of the recording counts as a whole at its middle.
    pub fn bounds_ns(&self, row: usize) -> (f64, f64) {
        let bound = |row: usize| {
            1e3 * (f64::from(self.lowest_power) + row as f64 / self.rows_per_power as f64).exp2()
        };
        (bound(row), bound(row + 1))
    }

    /// Events of the fullest cell.
    pub fn largest_count(&self) -> u128 {
        self.cells.values().map(|cell| cell.count).max().unwrap_or(0)
    }
}

/// Counts latencies of one kind over time. The groups of `options` do not apply.
///
/// # Errors
/// The filter or the options name something that is not in the recording, or more than one kind.
pub fn heat_map(source: &Source, options: &LatencyOptions) -> Result<HeatMap, ReportError> {
    let mut dimensions = load(source, &options.filter)?;
    let kind = choose(source, &mut dimensions, options)?;
    let only = LatencyOptions {
        kinds: vec![kind.clone()],
        ..options.clone()
    };
    let mut grid = Grid::default();
    let mut names = BTreeSet::new();
    let mut total = Histogram::default();
    let scan = scan(source, &mut dimensions, &options.filter, |row, _, is_selected| {
        if !is_selected || row.count == 0 || !only.takes(&row.kind, &row.name) {
            return;
        }
        if !names.contains(&*row.name) {
            names.insert(row.name.to_string());
        }
        total.add(row.from_ns, row.to_ns, row.count, row.sum_ns, row.max_ns);
        let cell = HeatMapCell {
            count: row.count.into(),
            sum_ns: row.sum_ns.into(),
            max_ns: row.max_ns,
        };
        grid.add(row.time, row_of(middle((row.from_ns, row.to_ns))), cell);
    });
    scan.check_statements(&options.filter)?;
    grid.cover(scan.period);
    let first = grid.columns.map_or(0, |(first, _)| first);
    let columns = grid.columns.map_or(0, |(first, last)| last - first + 1);
    let (lowest_power, powers, rows_per_power) = grid.rows();
    let finer = FINEST_ROWS / rows_per_power;
    let mut cells: BTreeMap<(usize, usize), HeatMapCell> = BTreeMap::new();
    for ((column, row), cell) in &grid.cells {
        // Neither is less than the first one.
        let column = usize::try_from(column - first).unwrap_or(0);
        let row = usize::try_from((row - lowest_power * FINEST_ROWS) / finer).unwrap_or(0);
        cells.entry((column, row)).or_default().add(cell);
    }
    let mut problems = dimensions.problems;
    problems.extend(scan.problems);
    Ok(HeatMap {
        meta: source.meta().clone(),
        period: scan.period,
        kind,
        names,
        from_us: i64::try_from(first * i128::from(grid.width_us())).unwrap_or(i64::MIN),
        column_s: grid.width_s,
        columns: usize::try_from(columns).unwrap_or(0),
        lowest_power,
        powers: powers.unsigned_abs() as usize,
        rows_per_power: rows_per_power.unsigned_abs() as usize,
        cells,
        total,
        problems: problems.into_iter().map(|problem| problem.0).collect(),
    })
}

/// The kind to draw: the one asked for, or the only one there is. Empty when there is none at all.
fn choose(
    source: &Source,
    dimensions: &mut Dimensions,
    options: &LatencyOptions,
) -> Result<String, ReportError> {
    let mut recorded = Recorded::default();
    // What cannot be read is reported by the pass that counts.
    scan(source, dimensions, &Filter::default(), |row, _, _| {
        recorded.see(row, options)
    });
    options.check(&recorded)?;
    let wanted = if options.kinds.is_empty() {
        in_order(&recorded.kinds)
    } else {
        options.kinds.clone()
    };
    match wanted.as_slice() {
        [] => Ok(String::new()),
        [kind] => Ok(kind.clone()),
        _ => Err(ReportError::ChooseKind(in_order(&recorded.kinds))),
    }
}

/// Row of a latency at the finest resolution; row 0 begins at 1 µs.
fn row_of(ns: u64) -> i32 {
    let us = ns as f64 / 1e3;
    let row = (us.log2() * f64::from(FINEST_ROWS)).floor();
    // A cast saturates: a latency of 0 is minus infinity.
    (row as i32).max(LOWEST_POWER * FINEST_ROWS)
}

/// Cells being built, by number of the column since the epoch and by row.
struct Grid {
    width_s: i64,
    columns: Option<(i128, i128)>,
    cells: BTreeMap<(i128, i32), HeatMapCell>,
}

impl Default for Grid {
    fn default() -> Grid {
        Grid {
            width_s: WIDTHS_S[0],
            columns: None,
            cells: BTreeMap::new(),
        }
    }
}

impl Grid {
    fn width_us(&self) -> i64 {
        self.width_s.saturating_mul(SECOND_US)
    }

    fn add(&mut self, time_us: i64, row: i32, cell: HeatMapCell) {
        self.reach(time_us);
        let column = i128::from(time_us.div_euclid(self.width_us()));
        self.cells.entry((column, row)).or_default().add(&cell);
    }

    /// Makes the columns span the whole period, so that its ends are shown even without events.
    fn cover(&mut self, period: Period) {
        if period.to_us > period.from_us {
            self.reach(period.from_us);
            self.reach(period.to_us - 1);
        }
    }

    fn reach(&mut self, time_us: i64) {
        loop {
            let column = i128::from(time_us.div_euclid(self.width_us()));
            let (first, last) = self.columns.unwrap_or((column, column));
            let (first, last) = (first.min(column), last.max(column));
            if last - first < MAX_COLUMNS {
                self.columns = Some((first, last));
                return;
            }
            self.widen();
        }
    }

    /// Merges columns.
    fn widen(&mut self) {
        let wider = WIDTHS_S
            .into_iter()
            .find(|width| *width > self.width_s)
            .unwrap_or(self.width_s.saturating_mul(10));
        let factor = i128::from(wider / self.width_s);
        self.width_s = wider;
        self.columns = self
            .columns
            .map(|(first, last)| (first.div_euclid(factor), last.div_euclid(factor)));
        for ((column, row), cell) in std::mem::take(&mut self.cells) {
            self.cells
                .entry((column.div_euclid(factor), row))
                .or_default()
                .add(&cell);
        }
    }

    /// Lowest power of two of microseconds, how many there are, and how many rows each has.
    fn rows(&self) -> (i32, i32, i32) {
        let rows = || self.cells.keys().map(|(_, row)| *row);
        let (Some(lowest), Some(highest)) = (rows().min(), rows().max()) else {
            return (0, 0, 1);
        };
        let (lowest, highest) = (lowest.div_euclid(FINEST_ROWS), highest.div_euclid(FINEST_ROWS));
        let powers = highest - lowest + 1;
        let mut rows_per_power = FINEST_ROWS;
        while rows_per_power > 1 && powers * rows_per_power > MAX_ROWS {
            rows_per_power /= 2;
        }
        (lowest, powers, rows_per_power)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_width_is_a_multiple_of_the_one_before() {
        assert!(WIDTHS_S.windows(2).all(|pair| pair[1] % pair[0] == 0));
    }

    #[test]
    fn rows_are_parts_of_a_power_of_two_of_microseconds() {
        assert_eq!(row_of(1_000), 0);
        assert_eq!(row_of(2_000), FINEST_ROWS);
        assert_eq!(row_of(1_999), FINEST_ROWS - 1);
        assert_eq!(row_of(999), -1);
        assert_eq!(row_of(0), LOWEST_POWER * FINEST_ROWS);
        assert_eq!(row_of(u64::MAX), 54 * FINEST_ROWS);
    }

    proptest! {
        #[test]
        fn folding_keeps_every_event_and_its_place(times in prop::collection::vec(
            prop_oneof![0i64..1_000_000_000, any::<i64>()], 1..50)) {
            let mut grid = Grid::default();
            for time in &times {
                grid.add(*time, 3, HeatMapCell { count: 1, sum_ns: 5, max_ns: 5 });
            }
            let (first, last) = grid.columns.expect("columns");
            prop_assert!(last - first < MAX_COLUMNS);
            let mut expected = BTreeMap::new();
            for time in times {
                *expected.entry(i128::from(time.div_euclid(grid.width_us()))).or_insert(0u128) += 1;
            }
            let counted: BTreeMap<i128, u128> = grid.cells.iter().map(|((column, _), cell)| (*column, cell.count)).collect();
            prop_assert_eq!(counted, expected);
        }
    }
}
