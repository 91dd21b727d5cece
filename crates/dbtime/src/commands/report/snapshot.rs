//! How much the statistics, times and waits of sessions grew.

use std::process::ExitCode;

use dbtime_report::{
    LineKind, SnapshotColumn, SnapshotOptions, json, next_steps_of_snapshot, snapshot_csv, text,
};

use super::subject::Subject;
use crate::import::Detail;
use crate::options::SnapshotFormat;
use crate::output;

/// What is asked.
#[derive(Debug, PartialEq)]
pub(super) struct Snapshot {
    /// Of the tables.
    pub(super) columns: Vec<SnapshotColumn>,
    /// How many sessions are shown.
    pub(super) top: usize,
    pub(super) format: SnapshotFormat,
}

impl Snapshot {
    pub(super) fn answer(&self, subject: &Subject) -> anyhow::Result<ExitCode> {
        let source = subject.open(Detail::Seconds)?;
        let options = SnapshotOptions {
            filter: subject.filter(&source)?,
            gather: LineKind::ALL.to_vec(),
            most: (self.format == SnapshotFormat::Text).then_some(self.top),
            ..SnapshotOptions::default()
        };
        let snapshots = dbtime_report::snapshots(&source, &options)?;
        let answer = match self.format {
            SnapshotFormat::Json => snapshots.iter().map(json::render_snapshot).collect(),
            SnapshotFormat::Csv => {
                let lines: Result<Vec<String>, _> = snapshots.iter().map(snapshot_csv::render).collect();
                snapshot_csv::head() + &lines?.concat()
            }
            SnapshotFormat::Text => {
                let shown = snapshots
                    .iter()
                    .map(|snapshot| text::render_snapshot(snapshot, &self.columns, output::width()));
                let next = snapshots.first().map(next_steps_of_snapshot).unwrap_or_default();
                shown.collect::<Vec<String>>().join("\n") + &subject.next(&next)
            }
        };
        subject.answer(
            &answer,
            snapshots.iter().any(|snapshot| !snapshot.sessions.is_empty()),
            "no session in the selected part of the recording",
        )
    }
}
