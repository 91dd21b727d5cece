//! What would happen if something took longer or shorter.

use std::process::ExitCode;

use dbtime_report::{WhatIf, WhatIfOptions, json, next_steps_of_what_if, text};

use super::subject::Subject;
use crate::import::Detail;
use crate::options::TableFormat;
use crate::output;

/// What is asked.
#[derive(Debug, PartialEq)]
pub(super) struct Prediction {
    pub(super) changes: Vec<WhatIf>,
    pub(super) format: TableFormat,
}

impl Prediction {
    pub(super) fn answer(&self, subject: &Subject) -> anyhow::Result<ExitCode> {
        let source = subject.open(Detail::Seconds)?;
        let options = WhatIfOptions {
            filter: subject.filter(&source)?,
            changes: self.changes.clone(),
        };
        let report = dbtime_report::what_if(&source, &options)?;
        let answer = match self.format {
            TableFormat::Json => json::render_what_if(&report),
            TableFormat::Text => {
                text::render_what_if(&report, output::width())
                    + &subject.next(&next_steps_of_what_if(&report))
            }
        };
        subject.answer_in(
            self.format,
            &answer,
            report.answer.is_ok(),
            "no such prediction can be made from this recording",
        )
    }
}
