//! Who held the server's internal locks.

use std::process::ExitCode;

use dbtime_report::{LatchColumn, LatchOptions, Source, json, next_steps_of_latches, text};

use super::subject::Subject;
use crate::import::Detail;
use crate::options::TableFormat;
use crate::output;

/// What is asked.
#[derive(Debug, PartialEq)]
pub(super) struct Latches {
    /// Of a single table; none: the usual tables.
    pub(super) columns: Vec<LatchColumn>,
    pub(super) top: usize,
    pub(super) format: TableFormat,
}

impl Latches {
    pub(super) fn answer(&self, subject: &Subject) -> anyhow::Result<ExitCode> {
        let source = subject.open(Detail::Seconds)?;
        self.answer_of(subject, &source)
    }

    /// The same for a recording that is already open.
    pub(super) fn answer_of(&self, subject: &Subject, source: &Source) -> anyhow::Result<ExitCode> {
        let options = LatchOptions {
            filter: subject.filter(source)?,
            top: self.top,
            columns: self.columns.clone(),
        };
        let report = dbtime_report::latches(source, &options)?;
        let answer = match self.format {
            TableFormat::Json => json::render_latches(&report),
            TableFormat::Text => {
                text::render_latches(&report, output::width())
                    + &subject.next(&next_steps_of_latches(&report))
            }
        };
        subject.answer_in(
            self.format,
            &answer,
            report.meta.database.held_locks || report.locks.recorded,
            "it has no holders of internal locks",
        )
    }
}
