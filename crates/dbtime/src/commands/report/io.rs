//! Reads: from the page cache, from the storage's, or from the device.

use std::process::ExitCode;

use dbtime_report::{IoOptions, json, next_steps_of_reads, text};

use super::subject::Subject;
use crate::import::Detail;
use crate::options::TableFormat;
use crate::output;

/// What is asked.
#[derive(Debug, PartialEq)]
pub(super) struct Io {
    pub(super) thresholds_us: [u64; 2],
    pub(super) top: usize,
    pub(super) format: TableFormat,
}

impl Io {
    pub(super) fn answer(&self, subject: &Subject) -> anyhow::Result<ExitCode> {
        let source = subject.open(Detail::Seconds)?;
        let options = IoOptions {
            filter: subject.filter(&source)?,
            top: self.top,
            thresholds_us: self.thresholds_us,
        };
        let report = dbtime_report::io(&source, &options)?;
        let answer = match self.format {
            TableFormat::Json => json::render_io(&report),
            TableFormat::Text => {
                text::render_io(&report, output::width()) + &subject.next(&next_steps_of_reads(&report))
            }
        };
        subject.answer_in(
            self.format,
            &answer,
            report.total.count() > 0,
            "no reads in the recording or its selected part",
        )
    }
}
