//! Where the time went, by stacks: counted, as a tree, by function, by module.

use std::process::ExitCode;

use dbtime_report::{
    DiveView, Sort, StackOptions, StackView, has_kernel_trace, json, next_steps_of_stacks, text,
};

use super::kernel_trace::KernelTrace;
use super::subject::Subject;
use crate::import::Detail;
use crate::options::TableFormat;
use crate::output;

/// What is asked.
#[derive(Debug, PartialEq)]
pub(super) struct Stacks {
    pub(super) view: StackView,
    /// Of functions.
    pub(super) sort: Sort,
    /// None: the default number.
    pub(super) top: Option<usize>,
    pub(super) depth: Option<usize>,
    pub(super) format: TableFormat,
}

impl Stacks {
    pub(super) fn answer(&self, subject: &Subject) -> anyhow::Result<ExitCode> {
        let source = subject.open(Detail::Sums)?;
        if has_kernel_trace(source.meta())
            && let Some(of_trace) = self.of_kernel_trace()
        {
            return of_trace.answer_of(subject, &source);
        }
        let options = StackOptions {
            filter: subject.filter(&source)?,
            view: self.view,
            sort: self.sort,
            top: self.top.unwrap_or(match self.view {
                StackView::Stacks => 20,
                StackView::Tree => 60,
                StackView::Functions | StackView::Modules => 30,
            }),
            depth: self.depth,
        };
        let report = dbtime_report::stacks(&source, &options)?;
        let answer = match self.format {
            TableFormat::Json => json::render_stacks(&report),
            TableFormat::Text => {
                text::render_stacks(&report, output::width()) + &subject.next(&next_steps_of_stacks(&report))
            }
        };
        subject.answer(
            &answer,
            report.total.total_ns() > 0,
            "no DB time in the recording or its selected part",
        )
    }

    /// Kernel traces know every call of a function, and have their own trees and functions.
    fn of_kernel_trace(&self) -> Option<KernelTrace> {
        let (view, top) = match self.view {
            StackView::Tree => (DiveView::Tree, 200),
            StackView::Functions => (DiveView::Functions, 60),
            StackView::Stacks | StackView::Modules => return None,
        };
        Some(KernelTrace {
            view,
            top: self.top.unwrap_or(top),
            depth: self.depth,
            format: self.format,
        })
    }
}
