//! Latencies of single events, packed for the page.

use std::collections::{BTreeSet, HashMap};

use arcstr::ArcStr;
use dbtime_model::latency::{bounds_of, bucket_of, kind};
use dbtime_model::{LatencyRow, Session, SessionId};

use super::Packer;
use super::latency_cells::{Apart, Events, LatencyCell, LatencyCells, NO_SESSION};
use crate::dimensions::Dimensions;
use crate::filter::{Filter, SECOND_US};
use crate::histogram::middle;
use crate::latency::{in_order, scan};
use crate::load::Source;

/// Most cells.
const MOST_CELLS: usize = 150_000;
/// Most series that are distinguished by more than their kind.
const MOST_SERIES: usize = 4_000;
/// Most buckets that are kept as recorded; a recorder has fewer.
const MOST_BUCKETS: usize = 8_000;
/// Stands for what was measured for less time.
const OTHERS: &str = "[others, combined on this page]";

/// Events of a recording.
#[derive(Debug)]
pub(super) struct Latencies {
    /// Kinds that the recording has, in the order of reports.
    pub(super) kinds: Vec<String>,
    pub(super) series: Vec<Series>,
    /// Bounds in nanoseconds, the upper one exclusive.
    pub(super) buckets: Vec<(u64, u64)>,
    pub(super) width_s: i64,
    pub(super) apart: Apart,
    /// For each session the one that represents it; empty when each represents itself.
    pub(super) alike: Vec<u32>,
    pub(super) cells: Vec<(LatencyCell, Events)>,
}

/// What is measured separately.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Series {
    /// See [`kind`].
    pub(super) kind: ArcStr,
    /// Wait event, system call …; for a command its query.
    pub(super) name: ArcStr,
    pub(super) device: ArcStr,
    /// Where the data of a read came from.
    pub(super) source: ArcStr,
}

/// Packs the latencies that a filter lets through.
pub(super) fn pack(
    source: &Source,
    dimensions: &mut Dimensions,
    filter: &Filter,
    packer: &mut Packer,
) -> Latencies {
    let mut kinds = BTreeSet::new();
    let mut series = AllSeries::default();
    let mut buckets = Buckets::default();
    let mut cells = LatencyCells::new(MOST_CELLS, source.meta().collector.resolution_s);
    // The dimensions are borrowed while rows are passed on.
    let sessions: HashMap<SessionId, Session> = dimensions
        .sessions()
        .map(|session| (session.id, session.clone()))
        .collect();
    let mut not_described = Dimensions::default();
    scan(source, dimensions, filter, |row, _, is_selected| {
        if !kinds.contains(&*row.kind) {
            kinds.insert(row.kind.to_string());
        }
        if !is_selected || row.count == 0 {
            return;
        }
        if *row.kind == *kind::COMMAND {
            // For the page to have its text.
            packer.statements.number(row.statement);
        }
        let session = match (row.session, sessions.get(&row.session)) {
            (SessionId::RECORDER, _) => NO_SESSION,
            (_, Some(session)) => packer.session(session),
            (id, None) => packer.session(not_described.session(id)),
        };
        let cell = LatencyCell {
            window_s: row.time.div_euclid(SECOND_US),
            session,
            series: series.number(Series::of(row)),
            bucket: buckets.number((row.from_ns, row.to_ns)),
        };
        let events = Events {
            count: row.count,
            sum_ns: row.sum_ns,
            max_ns: row.max_ns,
        };
        cells.add(cell, events, &packer.alike, &mut |one| series.other_of(one));
    });
    cells.limit_series(MOST_SERIES, &packer.alike, &mut |one| series.other_of(one));
    let (width_s, apart) = (cells.width_s(), cells.apart());
    let mut cells = cells.into_sorted();
    Latencies {
        kinds: in_order(&kinds),
        series: series.used(&mut cells),
        buckets: buckets.list,
        width_s,
        apart,
        alike: match apart {
            Apart::Alike => packer.alike.clone(),
            Apart::Each | Apart::None => Vec::new(),
        },
        cells,
    }
}

impl Series {
    fn of(row: &LatencyRow) -> Series {
        Series {
            kind: row.kind.clone(),
            name: row.name.clone(),
            device: row.device.clone(),
            source: row.source.clone(),
        }
    }
}

/// Series by number.
#[derive(Default)]
struct AllSeries {
    list: Vec<Series>,
    places: HashMap<Series, u32>,
}

impl AllSeries {
    fn number(&mut self, series: Series) -> u32 {
        *self.places.entry(series).or_insert_with_key(|series| {
            self.list.push(series.clone());
            (self.list.len() - 1) as u32
        })
    }

    /// The series that absorbs those of the same kind without room.
    fn other_of(&mut self, one: u32) -> u32 {
        let kind = self.list[one as usize].kind.clone();
        self.number(Series {
            kind,
            name: OTHERS.into(),
            device: "".into(),
            source: "".into(),
        })
    }

    /// Those that have cells, which get their new numbers.
    fn used(self, cells: &mut [(LatencyCell, Events)]) -> Vec<Series> {
        let mut places: HashMap<u32, u32> = HashMap::new();
        let mut used = Vec::new();
        for (cell, _) in cells {
            cell.series = *places.entry(cell.series).or_insert_with(|| {
                used.push(self.list[cell.series as usize].clone());
                (used.len() - 1) as u32
            });
        }
        used
    }
}

/// Buckets by number. After very many different ones, which no recorder writes, new ones get the recorder's bounds.
#[derive(Default)]
struct Buckets {
    list: Vec<(u64, u64)>,
    places: HashMap<(u64, u64), u32>,
}

impl Buckets {
    fn number(&mut self, bounds: (u64, u64)) -> u32 {
        let is_kept = self.list.len() < MOST_BUCKETS || self.places.contains_key(&bounds);
        let bounds = if is_kept {
            bounds
        } else {
            bounds_of(bucket_of(middle(bounds)))
        };
        *self.places.entry(bounds).or_insert_with(|| {
            self.list.push(bounds);
            (self.list.len() - 1) as u32
        })
    }
}
