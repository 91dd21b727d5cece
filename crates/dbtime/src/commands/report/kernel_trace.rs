//! Reports on a kernel trace: calls, and the functions that they reached.

use std::process::ExitCode;

use dbtime_report::{DiveOptions, DiveView, Source, has_kernel_trace, json, text};

use super::subject::Subject;
use crate::import::Detail;
use crate::options::TableFormat;
use crate::output;
use crate::usage::Usage;

/// What is asked. Questions that other recordings can answer too are in [`super::ledger`] and [`super::stacks`].
#[derive(Debug, PartialEq)]
pub(super) struct KernelTrace {
    pub(super) view: DiveView,
    /// How many are shown.
    pub(super) top: usize,
    /// Levels of a tree.
    pub(super) depth: Option<usize>,
    pub(super) format: TableFormat,
}

impl KernelTrace {
    pub(super) fn answer(&self, subject: &Subject) -> anyhow::Result<ExitCode> {
        let source = subject.open(Detail::Sums)?;
        if !has_kernel_trace(source.meta()) {
            return Err(Usage(format!(
                "--call and --children are for kernel traces, and {} is not one",
                subject.name()
            ))
            .into());
        }
        self.answer_of(subject, &source)
    }

    /// The answer from a source that is a kernel trace.
    pub(super) fn answer_of(&self, subject: &Subject, source: &Source) -> anyhow::Result<ExitCode> {
        subject.selection.takes_kernel_trace()?;
        let options = DiveOptions {
            filter: subject.filter(source)?,
            view: self.view.clone(),
            top: self.top,
            depth: self.depth,
        };
        let report = dbtime_report::dive(source, &options)?;
        let answer = match self.format {
            TableFormat::Json => json::render_dive(&report),
            TableFormat::Text => text::render_dive(&report, output::width()),
        };
        subject.answer(&answer, report.trace.calls > 0, "the trace has no complete call")
    }
}
