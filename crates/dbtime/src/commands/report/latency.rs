//! How long single events took: a histogram of each group, or a heat map.

use std::process::ExitCode;

use dbtime_report::{
    Dimension, LatencyOptions, ReportError, Source, heat_map_svg, json, next_steps_of_latencies, text,
};

use super::subject::Subject;
use crate::import::Detail;
use crate::options::TableFormat;
use crate::output;
use crate::usage::Usage;

/// What is asked.
#[derive(Debug, PartialEq)]
pub(super) struct Latency {
    /// None: all that were recorded.
    pub(super) kinds: Vec<String>,
    /// None: all events.
    pub(super) names: Vec<String>,
    pub(super) top: usize,
    pub(super) seen: Seen,
}

/// How it is shown.
#[derive(Debug, PartialEq)]
pub(super) enum Seen {
    /// Histograms.
    Tables { by: Vec<Dimension>, format: TableFormat },
    /// A picture of one kind over time.
    HeatMap,
}

/// What to say when there are no latencies to show.
pub(super) const NO_LATENCIES: &str =
    "no latencies in the recording or its selected part; 'dbtime record --exact' records them";

impl Latency {
    pub(super) fn answer(&self, subject: &Subject) -> anyhow::Result<ExitCode> {
        let source = subject.open(Detail::Seconds)?;
        match &self.seen {
            Seen::Tables { by, format } => self.tables(subject, &source, by, *format),
            Seen::HeatMap => self.heat_map(subject, &source),
        }
    }

    fn tables(
        &self,
        subject: &Subject,
        source: &Source,
        by: &[Dimension],
        format: TableFormat,
    ) -> anyhow::Result<ExitCode> {
        let report = dbtime_report::latency(source, &self.options(subject, source, by)?)?;
        let answer = match format {
            TableFormat::Json => json::render_latency(&report),
            TableFormat::Text => {
                text::render_latency(&report, output::width())
                    + &subject.next(&next_steps_of_latencies(&report))
            }
        };
        subject.answer_in(format, &answer, !report.kinds.is_empty(), NO_LATENCIES)
    }

    fn heat_map(&self, subject: &Subject, source: &Source) -> anyhow::Result<ExitCode> {
        let map = match dbtime_report::heat_map(source, &self.options(subject, source, &[])?) {
            Err(e @ ReportError::ChooseKind(_)) => return Err(Usage(e.to_string()).into()),
            other => other?,
        };
        output::say_problems(&map.problems);
        subject.answer(&heat_map_svg::render(&map), map.total.count() > 0, NO_LATENCIES)
    }

    fn options(
        &self,
        subject: &Subject,
        source: &Source,
        by: &[Dimension],
    ) -> anyhow::Result<LatencyOptions> {
        Ok(LatencyOptions {
            filter: subject.filter(source)?,
            kinds: self.kinds.clone(),
            names: self.names.clone(),
            by: by.to_vec(),
            top: self.top,
        })
    }
}
