//! The columns of a snapshot as text.

use std::fmt;
use std::str::FromStr;

use dbtime_model::choice::no_such;

use super::{LineKind, LineUnit, SnapshotLine, graph, short};

/// A column of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotColumn {
    /// Growth; times in microseconds.
    Delta,
    /// The same per second.
    DeltaPerSecond,
    /// Growth, abbreviated.
    ShortDelta,
    /// The same per second.
    ShortDeltaPerSecond,
    /// Part of the time of the snapshot.
    PercentOfTime,
    /// The same as a bar.
    Graph,
    /// Waits.
    Waits,
    /// The same per second.
    WaitsPerSecond,
    /// Mean time of a wait, or growth per event of something else.
    Average,
}

impl SnapshotColumn {
    /// Every column.
    pub const ALL: [SnapshotColumn; 9] = [
        SnapshotColumn::Delta,
        SnapshotColumn::DeltaPerSecond,
        SnapshotColumn::ShortDelta,
        SnapshotColumn::ShortDeltaPerSecond,
        SnapshotColumn::PercentOfTime,
        SnapshotColumn::Graph,
        SnapshotColumn::Waits,
        SnapshotColumn::WaitsPerSecond,
        SnapshotColumn::Average,
    ];

    /// Those that Snapper shows.
    pub const USUAL: [SnapshotColumn; 7] = [
        SnapshotColumn::Delta,
        SnapshotColumn::ShortDeltaPerSecond,
        SnapshotColumn::PercentOfTime,
        SnapshotColumn::Graph,
        SnapshotColumn::Waits,
        SnapshotColumn::WaitsPerSecond,
        SnapshotColumn::Average,
    ];

    /// Its heading, and its name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            SnapshotColumn::Delta => "delta",
            SnapshotColumn::DeltaPerSecond => "delta/s",
            SnapshotColumn::ShortDelta => "hdelta",
            SnapshotColumn::ShortDeltaPerSecond => "hdelta/s",
            SnapshotColumn::PercentOfTime => "%time",
            SnapshotColumn::Graph => "graph",
            SnapshotColumn::Waits => "waits",
            SnapshotColumn::WaitsPerSecond => "waits/s",
            SnapshotColumn::Average => "average",
        }
    }

    /// Its text; empty if it does not apply, `~` if it is not known.
    pub(crate) fn cell(self, line: &SnapshotLine, elapsed_ns: u128) -> String {
        let whole = |value: f64| match line.unit {
            LineUnit::Nanoseconds => format!("{:.0}", value / 1e3),
            LineUnit::Amount => format!("{value:.0}"),
        };
        let is_wait = line.kind == LineKind::Wait;
        let of_waits = |text: Option<String>| match text {
            Some(text) => text,
            None if is_wait => "~".to_string(),
            None => String::new(),
        };
        let unknown = || match line.is_level {
            true => String::new(),
            false => unknown(),
        };
        let percent = line.percent_of_time(elapsed_ns);
        match self {
            SnapshotColumn::Delta => match line.unit {
                LineUnit::Nanoseconds => microseconds(line.growth),
                LineUnit::Amount => line.growth.to_string(),
            },
            SnapshotColumn::DeltaPerSecond => line.per_second(elapsed_ns).map_or_else(unknown, whole),
            SnapshotColumn::ShortDelta => short(line.growth as f64, line.unit),
            SnapshotColumn::ShortDeltaPerSecond => line
                .per_second(elapsed_ns)
                .map_or_else(unknown, |value| short(value, line.unit)),
            SnapshotColumn::PercentOfTime => percent.map_or_else(String::new, of_time),
            SnapshotColumn::Graph => percent.map_or_else(String::new, |percent| graph(percent, mark(line))),
            SnapshotColumn::Waits => of_waits(line.waits.map(|waits| waits.to_string())),
            SnapshotColumn::WaitsPerSecond => of_waits(
                line.waits_per_second(elapsed_ns)
                    .map(|waits| short(waits, LineUnit::Amount)),
            ),
            SnapshotColumn::Average => match line.average {
                Some(average) => format!(
                    "{} {}",
                    average
                        .value
                        .map_or_else(unknown, |value| short(value, average.unit)),
                    average.what
                ),
                None => of_waits(line.average_wait_ns().map(|ns| short(ns, LineUnit::Nanoseconds))),
            },
        }
    }
}

impl fmt::Display for SnapshotColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for SnapshotColumn {
    type Err = String;

    fn from_str(text: &str) -> Result<SnapshotColumn, String> {
        let mut all = SnapshotColumn::ALL.into_iter();
        all.find(|column| column.as_str().eq_ignore_ascii_case(text))
            .ok_or_else(|| no_such("column", text, &SnapshotColumn::ALL.map(SnapshotColumn::as_str)))
    }
}

fn unknown() -> String {
    "~".to_string()
}

/// Rounded half away from zero.
fn microseconds(ns: i128) -> String {
    let us = (ns.unsigned_abs() + 500) / 1_000;
    format!("{}{us}", if ns < 0 && us > 0 { "-" } else { "" })
}

/// `87.1%`, `.0%`: without a zero before the point.
fn of_time(percent: f64) -> String {
    let text = format!("{percent:.1}%");
    match text.strip_prefix('0') {
        Some(rest) => rest.to_string(),
        None => text,
    }
}

fn mark(line: &SnapshotLine) -> char {
    match line.kind {
        LineKind::Wait => 'W',
        LineKind::Time if line.name == "DB CPU" => '@',
        LineKind::Time | LineKind::Stat | LineKind::Latch | LineKind::Lock => '#',
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::Path;

    use super::*;

    /// A row as Snapper printed it.
    struct Printed {
        line: SnapshotLine,
        cells: Vec<(SnapshotColumn, String)>,
    }

    fn printed(row: &str) -> Option<Printed> {
        let cells: Vec<&str> = row.split(',').map(str::trim).collect();
        let [
            _,
            _,
            kind,
            name,
            delta,
            per_second,
            percent,
            graph,
            waits,
            waits_per_second,
            average,
        ] = cells[..]
        else {
            return None;
        };
        let kind = LineKind::ALL.into_iter().find(|one| one.as_str() == kind)?;
        let (unit, factor) = match kind {
            LineKind::Stat => (LineUnit::Amount, 1),
            LineKind::Time | LineKind::Wait | LineKind::Latch | LineKind::Lock => {
                (LineUnit::Nanoseconds, 1_000)
            }
        };
        let waits_in_it: Option<u64> = waits.parse().ok();
        let mut cells = vec![
            (SnapshotColumn::Delta, delta.to_string()),
            (SnapshotColumn::ShortDeltaPerSecond, per_second.to_string()),
            (SnapshotColumn::PercentOfTime, percent.to_string()),
            (SnapshotColumn::Graph, graph.to_string()),
        ];
        if kind == LineKind::Wait {
            let average = average.strip_suffix(" average wait")?;
            cells.push((SnapshotColumn::Waits, waits.to_string()));
            cells.push((SnapshotColumn::WaitsPerSecond, waits_per_second.to_string()));
            cells.push((SnapshotColumn::Average, average.to_string()));
        }
        Some(Printed {
            line: SnapshotLine {
                kind,
                name: name.to_string(),
                statement: None,
                growth: delta.parse::<i128>().ok()? * factor,
                is_level: false,
                unit,
                waits: waits_in_it,
                waited_ns: waits_in_it.map(|_| delta.parse().unwrap_or(0) * 1_000),
                average: None,
            },
            cells,
        })
    }

    /// The first cell that differs from what was printed, if the snapshot had this length.
    fn other(rows: &[Printed], elapsed_ns: u128) -> Option<String> {
        let mut cells = rows
            .iter()
            .flat_map(|row| row.cells.iter().map(move |cell| (row, cell)));
        cells.find_map(|(row, (column, text))| {
            let cell = column.cell(&row.line, elapsed_ns);
            (cell != *text).then(|| format!("{} {column}: {cell}, printed {text}", row.line.name))
        })
    }

    /// Six snapshots of version 4.15. Their lengths are printed with one decimal but were used with more: for each there is a length
    /// that rounds to the printed one, with which all cells are the same.
    #[test]
    fn cells_are_those_that_snapper_printed_to_the_last_digit() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../../shared/data/snapper/tanelpoder__tpt-oracle__im_inmemory_cpu_counters.txt");
        let Ok(text) = std::fs::read_to_string(&path) else {
            // There is nobody to tell when standard error is closed.
            let _ = writeln!(std::io::stderr(), "SKIPPED: {} is not there", path.display());
            return;
        };
        let (mut rows, mut snapshots, mut cells) = (Vec::new(), 0, 0);
        for line in text.lines() {
            rows.extend(printed(line));
            let Some((_, seconds)) = line.split_once(", seconds=") else {
                continue;
            };
            let about: f64 = seconds.trim().parse().expect("seconds");
            // In steps of 10 us: all cells together leave room for twice as much.
            let mut lengths = (0..=10_000).map(|n| ((about - 0.05) * 1e9) as u128 + n * 10_000);
            let found = lengths.any(|length| other(&rows, length).is_none());
            assert!(
                found,
                "snapshot of {seconds} s: {:?}",
                other(&rows, (about * 1e9) as u128)
            );
            cells += rows.iter().map(|row| row.cells.len()).sum::<usize>();
            snapshots += 1;
            rows.clear();
        }
        assert!(
            snapshots == 6 && cells > 900,
            "{snapshots} snapshots, {cells} cells"
        );
    }
}
