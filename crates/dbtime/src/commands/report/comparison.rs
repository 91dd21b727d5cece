//! Latencies of several recordings, side by side.

use std::path::PathBuf;
use std::process::ExitCode;

use dbtime_report::{ComparisonOptions, ToCompare, json, text};

use super::latency::NO_LATENCIES;
use super::subject::Subject;
use crate::import::Detail;
use crate::options::TableFormat;
use crate::output;

/// What is asked.
#[derive(Debug, PartialEq)]
pub(super) struct Comparison {
    /// None: all that were recorded.
    pub(super) kinds: Vec<String>,
    /// None: all events.
    pub(super) names: Vec<String>,
    pub(super) top: usize,
    pub(super) format: TableFormat,
}

impl Comparison {
    pub(super) fn answer(&self, subject: &Subject) -> anyhow::Result<ExitCode> {
        let paths = &subject.recordings;
        let mut recordings = Vec::with_capacity(paths.len());
        for (path, label) in paths.iter().zip(labels(paths)) {
            let source = subject.open_one(path, Detail::Sums)?;
            recordings.push(ToCompare {
                label,
                filter: subject.filter(&source)?,
                source,
            });
        }
        let options = ComparisonOptions {
            kinds: self.kinds.clone(),
            names: self.names.clone(),
            top: self.top,
        };
        let comparison = dbtime_report::compare(&recordings, &options)?;
        let answer = match self.format {
            TableFormat::Json => json::render_comparison(&comparison),
            TableFormat::Text => text::render_comparison(&comparison, output::width()),
        };
        subject.answer_in(self.format, &answer, !comparison.events.is_empty(), NO_LATENCIES)
    }
}

/// Labels of recordings: their names without folder and extension, if those are unique.
fn labels(paths: &[PathBuf]) -> Vec<String> {
    let short = |path: &PathBuf| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let stems: Vec<Option<String>> = paths.iter().map(short).collect();
    let is_unique = |stem: &String| stems.iter().flatten().filter(|other| *other == stem).count() == 1;
    paths
        .iter()
        .zip(&stems)
        .map(|(path, stem)| match stem {
            Some(stem) if is_unique(stem) => stem.clone(),
            _ => path.display().to_string(),
        })
        .collect()
}
