//! Context switches, one by one.

use std::process::ExitCode;

use dbtime_report::{json, printable_lines, text};

use super::subject::Subject;
use crate::import::Detail;
use crate::options::TableFormat;
use crate::output;

/// What is asked.
#[derive(Debug, PartialEq)]
pub(super) struct Switches {
    pub(super) format: TableFormat,
}

impl Switches {
    pub(super) fn answer(&self, subject: &Subject) -> anyhow::Result<ExitCode> {
        let source = subject.open(Detail::Seconds)?;
        let filter = subject.filter(&source)?;
        let clock = source.meta().collector.clock;
        let mut found = 0u64;
        let mut read = Ok(Vec::new());
        output::to_file(&subject.output, |out| {
            let mut written = Ok(());
            read = dbtime_report::switches(&source, &filter, |line| {
                found += 1;
                if written.is_ok() {
                    let text = match self.format {
                        TableFormat::Json => json::render_switch(line),
                        TableFormat::Text if found == 1 => {
                            text::render_switch_heading(output::width()) + &text::render_switch(line, clock)
                        }
                        TableFormat::Text => text::render_switch(line, clock),
                    };
                    written = out.write_all(printable_lines(&text).as_bytes());
                }
            });
            written
        })?;
        output::say_problems(read?.iter().map(|problem| &problem.0));
        subject.answered(found > 0, "no switches in the selected part of the recording")
    }
}
