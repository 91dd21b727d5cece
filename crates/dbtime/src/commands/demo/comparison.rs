//! Combines both runs: the rows of their ledgers by wait event.

use std::cmp::Reverse;

use dbtime_report::{Folded, Report, Section, Sums};

use super::data::ReadFrom;
use super::reads::ROWS_PER_STATEMENT;
use crate::throwaway::page_cache::Residency;

/// Rows with less than this fraction of DB time in both runs are combined into one.
const WORTH_A_ROW: f64 = 0.005;

/// What was measured while reads came from one place.
pub(super) struct Run {
    pub(super) from: ReadFrom,
    /// As pgbench counts them.
    pub(super) transactions_per_second: f64,
    /// How much of the data was in the page cache when recording began and when it had ended.
    pub(super) residency: [Residency; 2],
    pub(super) report: Report,
    /// With the levels wait event and state.
    pub(super) flame: Folded,
}

impl Run {
    pub(super) fn rows_per_second(&self) -> f64 {
        self.transactions_per_second * f64::from(ROWS_PER_STATEMENT)
    }

    /// DB time per row read, nanoseconds.
    pub(super) fn db_time_per_row_ns(&self) -> Option<f64> {
        let sessions = self.report.average_active_sessions()?;
        (self.rows_per_second() > 0.0).then(|| sessions / self.rows_per_second() * 1e9)
    }
}

/// One line of both ledgers.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) sums: [Sums; 2],
}

pub(super) struct Comparison {
    /// Page cache, device.
    pub(super) runs: [Run; 2],
    /// The largest first.
    pub(super) lines: Vec<Line>,
    /// Size of the data that was read.
    pub(super) bytes: u64,
}

impl Comparison {
    pub(super) fn of(runs: [Run; 2], bytes: u64) -> Comparison {
        let mut lines: Vec<Line> = Vec::new();
        for (number, run) in runs.iter().enumerate() {
            for row in run.report.ledger.section(Section::DbTime) {
                let name = row.labels.join(" ");
                add(&mut lines, &name, number, &row.sums);
            }
        }
        let share = |line: &Line| {
            let of_run =
                |n: usize| line.sums[n].total_ns() as f64 / runs[n].report.db_time_ns().max(1) as f64;
            of_run(0).max(of_run(1))
        };
        let (mut shown, small): (Vec<Line>, Vec<Line>) =
            lines.into_iter().partition(|line| share(line) >= WORTH_A_ROW);
        shown.sort_by_key(|line| Reverse(line.sums.iter().map(Sums::total_ns).sum::<u128>()));
        for line in small {
            for (number, sums) in line.sums.iter().enumerate() {
                add(&mut shown, "others", number, sums);
            }
        }
        Comparison {
            runs,
            lines: shown,
            bytes,
        }
    }
}

fn add(lines: &mut Vec<Line>, name: &str, run: usize, sums: &Sums) {
    let position = lines.iter().position(|line| line.name == name);
    let line = match position {
        Some(position) => &mut lines[position],
        None => {
            lines.push(Line {
                name: name.to_string(),
                sums: Default::default(),
            });
            lines.last_mut().expect("one was just added")
        }
    };
    line.sums[run].merge(sums);
}
