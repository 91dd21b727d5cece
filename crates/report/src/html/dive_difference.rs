//! Two dives as one page: what `diff` says about them, as far as there is room.

use serde::Serialize;

use super::difference::bound;
use super::parts::FORMAT;
use crate::dive::{DiveChange, DiveDiff};
use crate::{json, text};

/// Everything on a page about two dives.
#[derive(Debug)]
pub struct DiveDifferencePage {
    diff: DiveDiff,
    /// Number of functions and call paths without room.
    left_out: usize,
}

/// What a page shows of a comparison of two dives.
pub fn dive_difference(mut diff: DiveDiff) -> DiveDifferencePage {
    let bytes = |change: &DiveChange| change.path.iter().map(String::len).sum();
    let [only_good, only_bad] = &mut diff.only;
    let left_out = [only_good, only_bad, &mut diff.functions, &mut diff.paths]
        .into_iter()
        .map(|changes| bound(changes, bytes))
        .sum();
    DiveDifferencePage { diff, left_out }
}

/// The page as JSON. It has no columns.
#[derive(Serialize)]
pub(super) struct Document<D> {
    format: u32,
    /// What the page is about.
    page: &'static str,
    /// Version of the program that wrote the page.
    dbtime: &'static str,
    /// What `dbtime diff` says before its tables.
    lines: Vec<String>,
    /// The comparison, in its JSON form.
    diff: D,
    left_out: usize,
    columns: [(); 0],
}

impl Document<()> {
    pub(super) fn new(page: &DiveDifferencePage) -> Document<impl Serialize> {
        Document {
            format: FORMAT,
            page: "dive difference",
            dbtime: env!("CARGO_PKG_VERSION"),
            lines: text::dive_diff_lines(&page.diff),
            diff: json::dive_diff_document(&page.diff),
            left_out: page.left_out,
            columns: [],
        }
    }
}
