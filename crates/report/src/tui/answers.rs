//! The data for one screen: the questions of a report, about some seconds.

use std::collections::BTreeMap;

use crate::causes::{CauseOptions, CauseReport, causes};
use crate::filter::Filter;
use crate::group::Dimension;
use crate::latency::{LatencyOptions, LatencyReport, latency};
use crate::ledger::Section;
use crate::load::Source;
use crate::recent::MoreTables;
use crate::report::{Options, Report, ReportError, report};
use crate::session_work::{SessionWork, sessions_work};
use crate::timeline::{BucketWidth, TimelineOptions};

/// Stacks that are shown.
const STACKS: usize = 100;
/// Levels of waiting sessions that are shown individually.
const DEPTH: usize = 16;
/// Groups of single events per kind.
const EVENTS: usize = 50;
/// Stacks of one session.
const STACKS_OF_SESSION: usize = 3;

/// Answers from the same rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Answers {
    /// Ledger, statements, sessions, stacks, and how far to trust them.
    pub report: Report,
    /// What each session did.
    pub work: Vec<SessionWork>,
    /// DB time by wait class, nanoseconds, as the ledger has it.
    pub classes: BTreeMap<String, u128>,
    /// Who was waited for; none if not requested.
    pub causes: Option<CauseReport>,
    /// Single events; none if not requested.
    pub latency: Option<LatencyReport>,
}

impl Answers {
    /// Computes answers from the rows of a source that a filter lets through; only those that `more` asks for.
    ///
    /// # Errors
    /// The filter names what is not there.
    pub fn of(source: &Source, filter: &Filter, more: MoreTables) -> Result<Answers, ReportError> {
        let mut answers = Answers::with_stacks(source, filter, STACKS)?;
        if more.causes {
            let options = CauseOptions {
                filter: filter.clone(),
                top: usize::MAX,
                depth: Some(DEPTH),
            };
            answers.causes = Some(causes(source, &options)?);
        }
        if more.latencies {
            let options = LatencyOptions {
                filter: filter.clone(),
                top: EVENTS,
                ..LatencyOptions::default()
            };
            answers.latency = Some(latency(source, &options)?);
        }
        Ok(answers)
    }

    fn with_stacks(source: &Source, filter: &Filter, stacks: usize) -> Result<Answers, ReportError> {
        let report = report(source, &options(source, filter, stacks))?;
        let mut classes: BTreeMap<String, u128> = BTreeMap::new();
        for row in report.ledger.section(Section::DbTime) {
            if let Some(wait) = &row.wait {
                *classes.entry(wait.class_by_cpu().into_owned()).or_default() += row.sums.total_ns();
            }
        }
        Ok(Answers {
            work: sessions_work(source, filter)?,
            report,
            classes,
            causes: None,
            latency: None,
        })
    }
}

/// Computes what a session did: `filter` lets through that session only.
///
/// # Errors
/// There is no data about it.
pub fn of_session(source: &Source, filter: &Filter) -> Result<Answers, ReportError> {
    Answers::with_stacks(source, filter, STACKS_OF_SESSION)
}

/// The request for [`super::Chart::take`], in bars of this many seconds.
pub fn bars(filter: &Filter, width_s: u32) -> TimelineOptions {
    TimelineOptions {
        filter: filter.clone(),
        by: Dimension::WaitClass,
        width: BucketWidth::Seconds(width_s),
        top: usize::MAX,
        ..TimelineOptions::default()
    }
}

fn options(source: &Source, filter: &Filter, stacks: usize) -> Options {
    Options {
        filter: filter.clone(),
        by: vec![Dimension::usual(source.meta())],
        stacks,
        ..Options::default()
    }
}
