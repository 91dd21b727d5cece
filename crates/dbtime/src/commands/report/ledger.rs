//! Where the time went: the ledger, and what belongs to it. For a kernel trace, a summary.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use dbtime_report::{
    CalibrationOf, Dimension, DiveView, LatchOptions, Options, Report, TraceOptions, has_kernel_trace, json,
    next_steps, text,
};

use super::kernel_trace::KernelTrace;
use super::latches::Latches;
use super::subject::Subject;
use crate::calibration;
use crate::import::Detail;
use crate::options::TableFormat;
use crate::output::{self, say};
use crate::usage::Usage;

/// What is asked.
#[derive(Debug, PartialEq)]
pub(super) struct Ledger {
    /// None: the recording's default.
    pub(super) by: Vec<Dimension>,
    /// None: the default of each list.
    pub(super) top: Option<usize>,
    pub(super) of_trace: OfTrace,
    /// Cost of observation; none: as stored on this host.
    pub(super) calibration: Option<PathBuf>,
    pub(super) format: TableFormat,
}

/// What applies to SQL traces only.
#[derive(Debug, Default, PartialEq)]
pub(super) struct OfTrace {
    pub(super) thresholds_us: Option<[u64; 2]>,
    pub(super) block_bytes: Option<u64>,
    pub(super) plans: bool,
    pub(super) each_literal: bool,
}

impl Ledger {
    pub(super) fn answer(&self, subject: &Subject) -> anyhow::Result<ExitCode> {
        let detail = match self.by.contains(&Dimension::Second) {
            true => Detail::Seconds,
            false => Detail::Sums,
        };
        let source = subject.open(detail)?;
        if self.by.is_empty() && has_kernel_trace(source.meta()) {
            return self.of_kernel_trace().answer_of(subject, &source);
        }
        let options = Options {
            filter: subject.filter(&source)?,
            by: match self.by.as_slice() {
                [] => vec![Dimension::usual(source.meta())],
                by => by.to_vec(),
            },
            stacks: self.top.unwrap_or(5),
            longest_delays: self.top.unwrap_or(10),
            trace: self.trace_options(subject.about.binds),
            calibration: cost_of_looking(self.calibration.as_deref())?,
        };
        let report = dbtime_report::report(&source, &options)?;
        self.check(&report, subject)?;
        // Files that say who held latches contain nothing else.
        let has_files = !source.meta().files.is_empty();
        if report.is_empty() && self.by.is_empty() && has_files && source.meta().database.held_locks {
            return self.of_latches().answer_of(subject, &source);
        }
        let nothing = match (report.quality.problems.is_empty(), source.part()) {
            (true, None) => "nothing was recorded",
            (true, Some(_)) => {
                "the store has nothing from that time; what an agent records gets there when its recording is rotated"
            }
            (false, _) => "nothing that was recorded could be read",
        };
        match self.format {
            TableFormat::Json => {
                output::to_file(&subject.output, |out| json::write(&report, out))?;
                output::say_problems(&report.quality.problems);
                subject.answered(!report.is_empty(), nothing)
            }
            TableFormat::Text => {
                let answer = text::render(&report, output::width()) + &subject.next(&next_steps(&report));
                subject.answer(&answer, !report.is_empty(), nothing)
            }
        }
    }

    fn of_kernel_trace(&self) -> KernelTrace {
        KernelTrace {
            view: DiveView::Summary,
            top: self.top.unwrap_or(20),
            depth: None,
            format: self.format,
        }
    }

    fn of_latches(&self) -> Latches {
        Latches {
            columns: Vec::new(),
            top: self.top.unwrap_or(LatchOptions::default().top),
            format: self.format,
        }
    }

    fn trace_options(&self, binds: bool) -> TraceOptions {
        let usual = TraceOptions::default();
        TraceOptions {
            thresholds_us: self.of_trace.thresholds_us.unwrap_or(usual.thresholds_us),
            block_bytes: self.of_trace.block_bytes.unwrap_or(usual.block_bytes),
            top: self.top.unwrap_or(usual.top),
            plans: self.of_trace.plans,
            each_literal: self.of_trace.each_literal,
            binds,
        }
    }

    /// Fails if the source turned out to know nothing of what was asked.
    fn check(&self, report: &Report, subject: &Subject) -> Result<(), Usage> {
        if report.trace.is_none() {
            let of_traces = [
                ("--thresholds", self.of_trace.thresholds_us.is_some()),
                ("--block-size", self.of_trace.block_bytes.is_some()),
                ("--plans", self.of_trace.plans),
                ("--each-literal", self.of_trace.each_literal),
                ("--binds", subject.about.binds),
            ];
            if let Some((option, _)) = of_traces.into_iter().find(|(_, is_given)| *is_given) {
                let path = subject.name();
                return Err(Usage(format!(
                    "{option} is for SQL traces, and {path} is not one"
                )));
            }
        }
        if let (Some(path), None) = (&self.calibration, &report.cost_of_looking) {
            say(format_args!(
                "note: {} does not apply here: a calibration is for recordings made with --exact=calls on the same \
                host and kernel, and for strace files",
                path.display()
            ));
        }
        Ok(())
    }
}

/// Cost of observation: from the given file, or as stored on this host.
fn cost_of_looking(named: Option<&Path>) -> anyhow::Result<Option<CalibrationOf>> {
    Ok(match named {
        Some(path) => Some(CalibrationOf {
            calibration: calibration::read(path)?,
            is_named: true,
        }),
        None => calibration::kept().map(|calibration| CalibrationOf {
            calibration,
            is_named: false,
        }),
    })
}
