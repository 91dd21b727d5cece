//! Who held the server's internal locks.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Head;
use crate::latches::{ExactLatches, Latch, LatchReport, LatchSamples, UseSums};
use crate::locks::LockReport;

#[derive(Serialize)]
pub(super) struct Document<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    /// False: the recording does not say who held internal locks.
    recorded: bool,
    /// How all holders were sampled; missing if each session says what it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    looked: Option<LatchSamples>,
    /// Time of sessions that were not idle; and of that, time for which it is not known which locks they held.
    active_ns: u128,
    not_known_ns: u128,
    latches: &'a [Latch],
    /// By the requested columns; none: none requested.
    profile: Option<Vec<ProfileJson<'a>>>,
    /// What was counted; missing if nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    exact: Option<&'a ExactLatches>,
    /// The locks of the server's lock table; missing if it is not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    locks: Option<&'a LockReport>,
    problems: &'a [String],
    /// What could not be read from imported samples, or is not known; missing if there is nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<&'a str>,
}

#[derive(Serialize)]
struct ProfileJson<'a> {
    /// By column name; none: not known.
    group: BTreeMap<&'static str, Option<&'a str>>,
    ns: u128,
    samples: u128,
    /// Missing if samples do not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    gets: Option<u128>,
    /// Missing if uses were not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    exact: Option<UseSums>,
}

impl<'a> From<&'a LatchReport> for Document<'a> {
    fn from(report: &'a LatchReport) -> Document<'a> {
        let meta = &report.meta;
        Document {
            head: Head::of(&report.meta, report.period),
            recorded: meta.database.held_locks,
            looked: report.looked,
            active_ns: report.active_ns,
            not_known_ns: report.not_known_ns,
            latches: &report.latches,
            profile: (!report.columns.is_empty()).then(|| profile(report)),
            exact: report.exact.as_ref(),
            locks: report.locks.recorded.then_some(&report.locks),
            problems: &report.problems,
            notes: match report.looked {
                Some(_) => meta.notes.iter().map(|note| note.text.as_str()).collect(),
                None => Vec::new(),
            },
        }
    }
}

fn known(cell: &str) -> Option<&str> {
    (!cell.is_empty()).then_some(cell)
}

fn profile(report: &LatchReport) -> Vec<ProfileJson<'_>> {
    let names = || report.columns.iter().map(|column| column.as_str());
    let rows = report.profile.iter().map(|row| ProfileJson {
        group: names().zip(row.cells.iter().map(|cell| known(cell))).collect(),
        ns: row.ns,
        samples: row.samples,
        gets: (row.gets > 0).then_some(row.gets),
        exact: row.exact,
    });
    rows.collect()
}
