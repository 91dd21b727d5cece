//! Who had the server's internal locks.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Head;
use crate::latches::{ExactLatches, Latch, LatchReport, LatchSamples, UseSums};
use crate::locks::LockReport;

#[derive(Serialize)]
pub(super) struct Document<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    /// False: the recording does not say who had internal locks.
    recorded: bool,
    /// What samples of all holders rest on; missing where each session says what it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    looked: Option<LatchSamples>,
    /// Time of sessions that were not idle; and of that, time of which it is not known which locks they had.
    active_ns: u128,
    not_known_ns: u128,
    latches: &'a [Latch],
    /// By the columns that were asked for; none: none were.
    profile: Option<Vec<ProfileJson<'a>>>,
    /// What was counted; missing where nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    exact: Option<&'a ExactLatches>,
    /// The locks of the server's lock table; missing where it is not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    locks: Option<&'a LockReport>,
    problems: &'a [String],
    /// What of imported samples could not be read or told; missing where that is nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<&'a str>,
}

#[derive(Serialize)]
struct ProfileJson<'a> {
    /// By the names of the columns; none: not known.
    group: BTreeMap<&'static str, Option<&'a str>>,
    ns: u128,
    samples: u128,
    /// Missing where samples do not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    gets: Option<u128>,
    /// Missing where uses were not counted.
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
