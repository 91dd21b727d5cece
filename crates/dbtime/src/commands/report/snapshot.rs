//! How much the statistics, times and waits of sessions grew.

use std::process::ExitCode;

use dbtime_report::{LineKind, SnapshotColumn, SnapshotOptions, json, next_steps_of_snapshot, text};

use super::subject::Subject;
use crate::import::Detail;
use crate::options::TableFormat;
use crate::output;

/// What is asked.
#[derive(Debug, PartialEq)]
pub(super) struct Snapshot {
    /// Sessions that are shown.
    pub(super) top: usize,
    pub(super) format: TableFormat,
}

impl Snapshot {
    pub(super) fn answer(&self, subject: &Subject) -> anyhow::Result<ExitCode> {
        let source = subject.open(Detail::Seconds)?;
        let options = SnapshotOptions {
            filter: subject.filter(&source)?,
            gather: LineKind::ALL.to_vec(),
            ..SnapshotOptions::default()
        };
        let snapshot = dbtime_report::snapshot(&source, &options)?;
        let answer = match self.format {
            TableFormat::Json => json::render_snapshot(&snapshot),
            TableFormat::Text => {
                text::render_snapshot(&snapshot, &SnapshotColumn::USUAL, self.top, output::width())
                    + &subject.next(&next_steps_of_snapshot(&snapshot))
            }
        };
        subject.answer(
            &answer,
            !snapshot.sessions.is_empty(),
            "no session in the selected part of the recording",
        )
    }
}
