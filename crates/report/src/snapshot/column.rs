//! The columns of a snapshot as text.

use std::fmt;
use std::str::FromStr;

use super::{LineKind, LineUnit, SnapshotLine, graph, short};

/// A column of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotColumn {
    /// Growth; of times in microseconds.
    Delta,
    /// The same per second.
    DeltaPerSecond,
    /// Growth, short.
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
    /// Time of a wait, or growth per event of something else.
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

    /// Its heading, and how it is asked for.
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

    /// What stands in it; empty where it does not apply, `~` where it is not known.
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
                Some((value, what)) => format!("{} {what}", short(value, line.unit)),
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
            .ok_or_else(|| {
                let names: Vec<&str> = SnapshotColumn::ALL.iter().map(|column| column.as_str()).collect();
                format!("no such column; there are {}", names.join(", "))
            })
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
        LineKind::Time | LineKind::Stat | LineKind::Latch => '#',
    }
}
