//! What is asked of the rows for one screen: the questions of a report, of some seconds.

use crate::filter::Filter;
use crate::group::Dimension;
use crate::load::Source;
use crate::report::{Options, Report, ReportError, report};
use crate::session_work::{SessionsWork, sessions_work};
use crate::timeline::{BucketWidth, Timeline, TimelineOptions, timeline};

/// Stacks that are shown.
const STACKS: usize = 100;
/// Stacks of one session.
const STACKS_OF_SESSION: usize = 3;

/// Answers of the same rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Answers {
    /// Ledger, statements, sessions, stacks, and how far to trust them.
    pub report: Report,
    /// What each session did.
    pub work: SessionsWork,
    /// DB time by wait class; none when there is no time at all.
    pub classes: Option<Timeline>,
}

impl Answers {
    /// Asks the rows of a source that a filter lets through.
    ///
    /// # Errors
    /// The filter names what is not there.
    pub fn of(source: &Source, filter: &Filter) -> Result<Answers, ReportError> {
        Ok(Answers {
            report: report(source, &options(source, filter, STACKS))?,
            work: sessions_work(source, filter)?,
            classes: timeline(source, &by_class(filter, BucketWidth::AtMost(2))).ok(),
        })
    }
}

/// Asks what a session did: `filter` lets through it and no other.
///
/// # Errors
/// There is nothing of it.
pub fn of_session(source: &Source, filter: &Filter) -> Result<Answers, ReportError> {
    Ok(Answers {
        report: report(source, &options(source, filter, STACKS_OF_SESSION))?,
        work: sessions_work(source, filter)?,
        classes: None,
    })
}

/// The question for [`super::Chart::take`], in bars of so many seconds.
pub fn bars(filter: &Filter, width_s: u32) -> TimelineOptions {
    by_class(filter, BucketWidth::Seconds(width_s))
}

fn options(source: &Source, filter: &Filter, stacks: usize) -> Options {
    Options {
        filter: filter.clone(),
        by: vec![Dimension::usual(source.meta())],
        stacks,
        ..Options::default()
    }
}

fn by_class(filter: &Filter, width: BucketWidth) -> TimelineOptions {
    TimelineOptions {
        filter: filter.clone(),
        by: Dimension::WaitClass,
        width,
        top: usize::MAX,
        ..TimelineOptions::default()
    }
}
