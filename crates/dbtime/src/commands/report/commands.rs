//! Which commands of clients were slow, and what they did differently.

use std::process::ExitCode;

use dbtime_report::{CommandOptions, ReportError, json, next_steps_of_commands, text};

use super::subject::Subject;
use crate::import::Detail;
use crate::options::TableFormat;
use crate::output;
use crate::usage::Usage;

/// What is asked.
#[derive(Debug, PartialEq)]
pub(super) struct Commands {
    pub(super) top: usize,
    pub(super) format: TableFormat,
}

impl Commands {
    pub(super) fn answer(&self, subject: &Subject) -> anyhow::Result<ExitCode> {
        let source = subject.open(Detail::Seconds)?;
        let options = CommandOptions {
            filter: subject.filter(&source)?,
            top: self.top,
        };
        let report = match dbtime_report::commands(&source, &options) {
            Err(e @ ReportError::CommandsAreWhole) => return Err(Usage(e.to_string()).into()),
            other => other?,
        };
        let answer = match self.format {
            TableFormat::Json => json::render_commands(&report),
            TableFormat::Text => {
                text::render_commands(&report, output::width())
                    + &subject.next(&next_steps_of_commands(&report))
            }
        };
        subject.answer_in(
            self.format,
            &answer,
            report.all.latencies.count() > 0,
            "no commands in the selected part of the recording",
        )
    }
}
