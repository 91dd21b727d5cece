//! Answers for a terminal. Computes nothing: every number is taken from the answers unchanged.

mod block_io;
mod blockers;
mod calibration;
mod causes;
mod chains;
mod commands;
mod comparison;
mod connecting;
mod database_view;
mod diff;
mod diff_causes;
mod diff_executions;
mod dive;
mod dive_diff;
mod exact_latches;
mod header;
mod io;
mod latches;
pub(crate) mod latency;
mod ledger;
mod links;
mod locks;
mod next_step;
mod page;
mod quality;
mod sched;
mod sessions;
mod snapshot;
mod stack_views;
mod stacks;
mod system_calls;
mod timeline;
mod top_sql;
mod trace;
mod waited_locks;
mod waits_in_calls;
mod what_if;

use dbtime_model::State;
use dbtime_model::recording::{Clock, KernelTrace};

use crate::causes::CauseReport;
use crate::commands::CommandReport;
use crate::comparison::Comparison;
use crate::diff::{Diff, Place};
use crate::dive::{DiveDiff, DiveReport, TimerSamples};
use crate::io::IoReport;
use crate::latches::LatchReport;
use crate::latency::LatencyReport;
use crate::next_step::NextStep;
use crate::report::Report;
use crate::sched::Sched;
use crate::snapshot::{Snapshot, SnapshotColumn};
use crate::stack_views::StackReport;
use crate::timeline::Timeline;
use crate::what_if::WhatIfReport;
pub use block_io::{BlockIoOptions, render_block_io};
pub(crate) use causes::what as what_cause;
use dbtime_model::calibration::Calibration;
use diff::FirstLine;
use page::Page;
pub use sched::{render_switch, render_switch_heading};

/// The report as text, lines up to `width` columns (names that cannot be broken may be longer). No colours,
/// no escape sequences.
pub fn render(report: &Report, width: usize) -> String {
    let mut page = Page::new(width);
    header::render(report, &mut page);
    connecting::render_first(report, &mut page);
    ledger::render(report, &mut page);
    header::exactness(report, &mut page);
    connecting::render_below(report, &mut page);
    top_sql::render(report, &mut page);
    if report.database_view.has_both_sides {
        database_view::render(report, &mut page);
    }
    trace::render(report, &mut page);
    if let Some(calls) = &report.system_calls {
        system_calls::render(calls, &mut page);
    }
    if let Some(answer) = &report.waits_in_calls {
        waits_in_calls::render(answer, &mut page);
    }
    sessions::render(report, &mut page);
    if let Some(sched) = &report.sched {
        sched::render(sched, report.meta.collector.clock, &mut page);
    } else {
        stacks::render(report, &mut page);
    }
    quality::render(report, &mut page);
    page.finish()
}

/// The short text at the end of a recording: where DB time went, and what the database would have said; as [`render`].
pub fn render_summary(report: &Report, width: usize) -> String {
    let mut page = Page::new(width);
    header::render(report, &mut page);
    connecting::render_first(report, &mut page);
    ledger::render_db_time(report, &mut page);
    header::exactness(report, &mut page);
    if report.database_view.has_both_sides {
        database_view::render_explanation(report, &mut page);
    }
    page.finish()
}

/// Next steps for recordings with these names; as [`render`].
pub fn render_next_steps(steps: &[NextStep], recordings: &[&str], width: usize) -> String {
    let mut page = Page::new(width);
    next_step::render(steps, recordings, &mut page);
    page.finish()
}

/// A paragraph of text, made printable and wrapped at blanks to this many columns.
pub fn paragraph(text: &str, width: usize) -> String {
    let mut page = Page::new(width);
    page.paragraph(text);
    page.finish()
}

/// What was recorded, and which numbers are exact: the first lines of the report, one paragraph each.
pub(crate) fn first_lines(report: &Report) -> Vec<String> {
    lines(|page| {
        header::render(report, page);
        header::exactness(report, page);
    })
}

/// What a comparison says before its tables, one paragraph each.
pub(crate) fn diff_lines(diff: &Diff) -> Vec<String> {
    lines(|page| diff::head(diff, FirstLine::Whole, page))
}

/// Where a difference is, in words.
pub(crate) fn diff_place(place: &Place) -> String {
    diff::place(place)
}

/// How far to trust it: the last lines of the report, without their heading.
pub(crate) fn quality_lines(report: &Report) -> Vec<String> {
    lines(|page| quality::render(report, page)).split_off(1)
}

/// Wide enough for a paragraph in one line.
const UNBROKEN: usize = u16::MAX as usize;

/// What gets written on a page, one paragraph each.
fn lines(write: impl FnOnce(&mut Page)) -> Vec<String> {
    let mut page = Page::new(UNBROKEN);
    write(&mut page);
    let text = page.finish();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(str::to_string).collect()
}

/// What was traced of the kernel, how, and what was noted, one paragraph each.
pub(crate) fn dive_source_lines(report: &DiveReport) -> Vec<String> {
    lines(|page| dive::about(report, page))
}

/// How many calls were traced, and what of that is exact, one paragraph each.
pub(crate) fn dive_exact_lines(report: &DiveReport) -> Vec<String> {
    lines(|page| dive::exactness(report, page))
}

/// What hit the calls but is not their time, one paragraph each.
pub(crate) fn dive_foreign_lines(report: &DiveReport) -> Vec<String> {
    lines(|page| dive::foreign(report, page))
}

/// How often a timer found the calls on a CPU.
pub(crate) fn dive_samples_line(samples: &TimerSamples, trace: &KernelTrace) -> String {
    dive::samples_line(samples, trace)
}

/// The name of a state in a trace of the kernel.
pub(crate) fn dive_state(state: State) -> &'static str {
    dive::words(state)
}

/// A trace of the kernel as text; as [`render`].
pub fn render_dive(report: &DiveReport, width: usize) -> String {
    let mut page = Page::new(width);
    dive::render(report, &mut page);
    page.finish()
}

/// The answer about a trace of the kernel, without what goes with every answer; as [`render`].
pub fn render_dive_answer(report: &DiveReport, width: usize) -> String {
    let mut page = Page::new(width);
    dive::answer(report, &mut page);
    page.finish()
}

/// What is said about two traces of the kernel before the tables.
pub(crate) fn dive_diff_lines(diff: &DiveDiff) -> Vec<String> {
    dive_diff::lines(diff)
}

/// What differs between two traces of the kernel as text; as [`render`].
pub fn render_dive_diff(diff: &DiveDiff, width: usize) -> String {
    let mut page = Page::new(width);
    dive_diff::render(diff, &mut page);
    page.finish()
}

/// Context switches as text; as [`render`]. `clock`: that of the recording.
pub fn render_sched(sched: &Sched, clock: Clock, width: usize) -> String {
    let mut page = Page::new(width);
    sched::render(sched, clock, &mut page);
    page.finish()
}

/// Latencies as text; as [`render`].
pub fn render_latency(report: &LatencyReport, width: usize) -> String {
    let mut page = Page::new(width);
    latency::render(report, &mut page);
    page.finish()
}

/// The groups of latencies in one table, without their histograms; as [`render`].
pub fn render_latency_table(report: &LatencyReport, width: usize) -> String {
    let mut page = Page::new(width);
    latency::table_of_groups(report, &mut page);
    page.finish()
}

/// Latencies of several recordings side by side as text; as [`render`].
pub fn render_comparison(comparison: &Comparison, width: usize) -> String {
    let mut page = Page::new(width);
    comparison::render(comparison, &mut page);
    page.finish()
}

/// The truth about reads as text; as [`render`].
pub fn render_io(report: &IoReport, width: usize) -> String {
    let mut page = Page::new(width);
    io::render(report, &mut page);
    page.finish()
}

/// Stacks as text; as [`render`].
pub fn render_stacks(report: &StackReport, width: usize) -> String {
    let mut page = Page::new(width);
    stack_views::render(report, &mut page);
    page.finish()
}

/// Who was waited for as text; as [`render`].
pub fn render_causes(report: &CauseReport, width: usize) -> String {
    let mut page = Page::new(width);
    causes::render(report, &mut page);
    page.finish()
}

/// Who held internal locks as text; as [`render`].
pub fn render_latches(report: &LatchReport, width: usize) -> String {
    let mut page = Page::new(width);
    latches::render(report, &mut page);
    page.finish()
}

/// The predicted effect of a change as text; as [`render`].
pub fn render_what_if(report: &WhatIfReport, width: usize) -> String {
    let mut page = Page::new(width);
    what_if::render(report, &mut page);
    page.finish()
}

/// What grew in each session as text; as [`render`].
pub fn render_snapshot(snapshot: &Snapshot, columns: &[SnapshotColumn], width: usize) -> String {
    let mut page = Page::new(width);
    snapshot::render(snapshot, columns, &mut page);
    page.finish()
}

/// Who waited behind whom as text; as [`render`].
pub fn render_chains(report: &CauseReport, width: usize) -> String {
    let mut page = Page::new(width);
    chains::render(report, &mut page);
    page.finish()
}

/// Sessions and statements that others waited for as text; as [`render`].
pub fn render_blockers(report: &CauseReport, width: usize) -> String {
    let mut page = Page::new(width);
    blockers::render(report, &mut page);
    page.finish()
}

/// Commands by statement as text, and what the slow ones did differently; as [`render`].
pub fn render_commands(report: &CommandReport, width: usize) -> String {
    let mut page = Page::new(width);
    commands::render(report, &mut page);
    page.finish()
}

/// Average active sessions over time as text, a line for each bucket; as [`render`].
pub fn render_timeline(timeline: &Timeline, width: usize) -> String {
    let mut page = Page::new(width);
    timeline::render(timeline, &mut page);
    page.finish()
}

/// The cost of observation on a host as text; as [`render`].
pub fn render_calibration(calibration: &Calibration, width: usize) -> String {
    let mut page = Page::new(width);
    calibration::render(calibration, &mut page);
    page.finish()
}

/// What changed between two recordings as text; as [`render`], except that the first line is the answer, however long.
pub fn render_diff(diff: &Diff, width: usize) -> String {
    let mut page = Page::new(width);
    diff::render(diff, FirstLine::Whole, &mut page);
    page.finish()
}

/// The same for a terminal: the answer is wrapped to `width` columns, too.
pub fn render_diff_at_terminal(diff: &Diff, width: usize) -> String {
    let mut page = Page::new(width);
    diff::render(diff, FirstLine::Wrapped, &mut page);
    page.finish()
}
