//! Where the time went, over time.

use std::process::ExitCode;

use dbtime_report::{
    BucketWidth, Dimension, ReportError, TimelineOptions, json, next_steps_of_timeline, text, timeline_svg,
};

use super::subject::Subject;
use crate::import::Detail;
use crate::options::TableFormat;
use crate::output;
use crate::usage::Usage;

/// What is asked.
#[derive(Debug, PartialEq)]
pub(super) struct Timeline {
    /// None: the recording's default.
    pub(super) by: Option<Dimension>,
    pub(super) width: BucketWidth,
    pub(super) top: usize,
    pub(super) each_literal: bool,
    pub(super) seen: Seen,
}

/// How it is shown.
#[derive(Debug, PartialEq)]
pub(super) enum Seen {
    Table(TableFormat),
    Picture,
}

impl Timeline {
    pub(super) fn answer(&self, subject: &Subject) -> anyhow::Result<ExitCode> {
        let source = subject.open(Detail::Seconds)?;
        let options = TimelineOptions {
            filter: subject.filter(&source)?,
            by: self.by.unwrap_or_else(|| match Dimension::usual(source.meta()) {
                Dimension::Wait => TimelineOptions::default().by,
                other => other,
            }),
            width: self.width,
            top: self.top,
            each_literal: self.each_literal,
        };
        let timeline = match dbtime_report::timeline(&source, &options) {
            Err(ReportError::Buckets(e)) => return Err(Usage(e.to_string()).into()),
            other => other?,
        };
        let answer = match self.seen {
            Seen::Table(TableFormat::Json) => json::render_timeline(&timeline),
            Seen::Table(TableFormat::Text) => {
                text::render_timeline(&timeline, output::width())
                    + &subject.next(&next_steps_of_timeline(&timeline))
            }
            Seen::Picture => {
                output::say_problems(&timeline.problems);
                timeline_svg::render(&timeline)
            }
        };
        subject.answer(
            &answer,
            timeline.recorded_ns > 0,
            "nothing was recorded in the selected part",
        )
    }
}
