//! Who waited for whom.

use std::process::ExitCode;

use dbtime_report::{CauseOptions, Source, chains_svg, json, next_steps_of_causes, text};

use super::subject::Subject;
use crate::import::Detail;
use crate::options::{TableFormat, window_of};
use crate::output;
use crate::usage::Usage;

/// What is asked.
#[derive(Debug, PartialEq)]
pub(super) struct Waiters {
    pub(super) seen: Seen,
    pub(super) top: usize,
    /// Links of a chain; none: the default.
    pub(super) depth: Option<usize>,
}

/// How it is shown.
#[derive(Debug, PartialEq)]
pub(super) enum Seen {
    /// Waits, and what they were for.
    Causes(TableFormat),
    /// Those for whom others waited.
    Blockers(TableFormat),
    /// Trees: of the whole time, or at a moment.
    Chains { at: Option<String>, format: TableFormat },
    /// A lane of time for each root of a tree.
    Picture { at: Option<String> },
}

/// What to say when nobody waited.
const NOTHING_BLOCKED: &str = "no DB time was blocked in the selected part of the recording";

impl Waiters {
    pub(super) fn answer(&self, subject: &Subject) -> anyhow::Result<ExitCode> {
        let source = subject.open(Detail::Seconds)?;
        let options = self.options(subject, &source)?;
        let format = match self.seen {
            Seen::Causes(format) | Seen::Blockers(format) | Seen::Chains { format, .. } => format,
            Seen::Picture { .. } => return picture(subject, &source, &options),
        };
        let report = dbtime_report::causes(&source, &options)?;
        let next = || subject.next(&next_steps_of_causes(&report));
        let answer = match &self.seen {
            Seen::Causes(TableFormat::Text) => text::render_causes(&report, output::width()) + &next(),
            Seen::Blockers(TableFormat::Text) => text::render_blockers(&report, output::width()) + &next(),
            Seen::Blockers(TableFormat::Json) => json::render_blockers(&report),
            Seen::Chains {
                format: TableFormat::Text,
                ..
            } => text::render_chains(&report, output::width()) + &next(),
            Seen::Causes(TableFormat::Json) | Seen::Chains { .. } | Seen::Picture { .. } => {
                json::render_causes(&report)
            }
        };
        subject.answer_in(format, &answer, report.blocked_ns > 0, NOTHING_BLOCKED)
    }

    fn options(&self, subject: &Subject, source: &Source) -> anyhow::Result<CauseOptions> {
        let mut filter = subject.filter(source)?;
        if let Seen::Chains { at: Some(at), .. } | Seen::Picture { at: Some(at) } = &self.seen {
            let (from, to) = window_of("--at", at, source)?;
            let meta = source.meta();
            // The first and the last window are not whole.
            if meta.end_us > meta.start_us && (to <= meta.start_us || from > meta.end_us) {
                let seconds = (meta.end_us - meta.start_us) as f64 / 1e6;
                return Err(Usage(format!(
                    "--at {at}: that moment is not in the recording, which is {seconds:.3} s long"
                ))
                .into());
            }
            if meta.gaps_us(from, to) == to.abs_diff(from) {
                return Err(Usage(format!("--at {at}: nothing was recorded at that moment")).into());
            }
            (filter.from_us, filter.to_us) = (Some(from), Some(to));
        }
        Ok(CauseOptions {
            filter,
            top: self.top,
            depth: self.depth,
        })
    }
}

fn picture(subject: &Subject, source: &Source, options: &CauseOptions) -> anyhow::Result<ExitCode> {
    let chains = dbtime_report::chains_over_time(source, options)?;
    output::say_problems(&chains.problems);
    subject.answer(
        &chains_svg::render(&chains),
        chains.blocked_ns > 0,
        NOTHING_BLOCKED,
    )
}
