//! Answers as JSON. Field names are stable: new ones may be added, existing ones keep their meaning.
//!
//! Field names end in their unit. What is not known is `null`.
//!
//! Answers serialise themselves. This module has what differs from that: what surrounds them, and forms of a histogram or a sum.

mod blockers;
mod causes;
mod commands;
mod comparison;
mod diff;
mod diff_causes;
mod dive_diff;
mod io;
mod latches;
mod latency;
mod report;
mod sched;
mod snapshot;
mod stack_views;
mod timeline;
mod trace;
mod units;
mod waited_locks;
mod what_if;

use std::io::Write;

use dbtime_model::calibration::Calibration;
use dbtime_model::recording::{Clock, Cost, DatabaseMeta, HostMeta, Meta, Unit};
use serde::Serialize;

pub(crate) use commands::commands;
pub(crate) use diff::place;
pub(crate) use sched::{delays_by_event, sched_sums, sched_times};
pub(crate) use stack_views::modules;
pub(crate) use trace::{CallViewJson, IntervalViewJson, whole_microseconds};

use crate::causes::CauseReport;
use crate::commands::CommandReport;
use crate::comparison::Comparison;
use crate::diff::Diff;
use crate::dive::{DiveDiff, DiveReport};
use crate::fields::timestamp;
use crate::io::IoReport;
use crate::latches::LatchReport;
use crate::latency::LatencyReport;
use crate::printable::{EscapedJson, escaped_json};
use crate::report::Report;
use crate::scan::Period;
use crate::sched::{Sched, SwitchLine};
use crate::snapshot::Snapshot;
use crate::stack_views::StackReport;
use crate::timeline::Timeline;
use crate::what_if::WhatIfReport;

/// The report as indented JSON, with a newline at the end. `ledger` has the rows of all sections, distinguished by `section`; each
/// row has the texts of its dimensions in `group`, and `wait_class` and `wait_event` if grouped by them (`CPU` and `CPU` for time
/// in no wait event). `trace` is present if it was made from SQL traces.
pub fn render(report: &Report) -> String {
    in_units(&report::Document::from(report), &report.meta)
}

/// Writes the output of [`render`] incrementally: for a long SQL trace it is too large to be held in memory.
///
/// # Errors
/// It cannot be written.
pub fn write(report: &Report, out: &mut dyn Write) -> std::io::Result<()> {
    match report.meta.collector.unit {
        Unit::Time => {
            let mut to = serde_json::Serializer::with_formatter(&mut *out, EscapedJson::default());
            report::Document::from(report).serialize(&mut to)?;
            out.write_all(b"\n")
        }
        _ => out.write_all(render(report).as_bytes()),
    }
}

/// Latencies as indented JSON, with a newline at the end. `latency` has the shown groups of all kinds, `latency_total` each kind as
/// a whole. All numbers are exact, quantiles accurate to 1 %.
pub fn render_latency(report: &LatencyReport) -> String {
    pretty(&latency::Document::from(report))
}

/// The truth about reads as indented JSON, with a newline at the end, in `io`. Exact, except for what is named `sampled`.
pub fn render_io(report: &IoReport) -> String {
    pretty(&io::Document::from(report))
}

/// What grew in each session as JSON on one line, with a newline at its end, in `sessions`.
pub fn render_snapshot(snapshot: &Snapshot) -> String {
    line(&snapshot::Document::from(snapshot))
}

/// Latencies of several recordings side by side as indented JSON, with a newline at the end, in `comparison`.
pub fn render_comparison(comparison: &Comparison) -> String {
    pretty(&comparison::Document::from(comparison))
}

/// Stacks as indented JSON, with a newline at the end: `stacks`, `tree`, `functions` or `modules`, as requested.
pub fn render_stacks(report: &StackReport) -> String {
    in_units(report, &report.meta)
}

/// Who was waited for as indented JSON, with a newline at the end, in `causes`: `by` has what each wait was for, and sums to its
/// `ns`.
pub fn render_causes(report: &CauseReport) -> String {
    pretty(&causes::Document::from(report))
}

/// Whom others waited for as indented JSON, with a newline at the end: sessions in `blockers`, `blocking_statements`.
pub fn render_blockers(report: &CauseReport) -> String {
    pretty(&blockers::Document::from(report))
}

/// Who held internal locks as indented JSON, with a newline at the end, in `latches`: its `holders` sum to its `held_ns`.
pub fn render_latches(report: &LatchReport) -> String {
    pretty(&latches::Document::from(report))
}

/// The predicted effect of a change as indented JSON, with a newline at the end: `prediction`, or why there is none.
pub fn render_what_if(report: &WhatIfReport) -> String {
    pretty(&what_if::Document::from(report))
}

/// Commands by statement as indented JSON, with a newline at the end, in `statements`: each with the ledgers of the middle half
/// (`median`) and of the slowest hundredth (`slow`), which sum to their mean latencies.
pub fn render_commands(report: &CommandReport) -> String {
    pretty(&commands::Document::from(report))
}

/// Average active sessions over time as indented JSON, with a newline at the end, in `timeline`: `buckets` in order, with their
/// numbers in the order of `values`. A bucket without a recording has no `rate`.
pub fn render_timeline(timeline: &Timeline) -> String {
    in_units(&timeline::Document::from(timeline), &timeline.meta)
}

/// A trace of the kernel as indented JSON, with a newline at the end: `functions`, `tree`, `children` or `spans`, as requested.
pub fn render_dive(report: &DiveReport) -> String {
    pretty(report)
}

/// What differs between two traces of the kernel, for embedding.
pub(crate) fn dive_diff_document(diff: &DiveDiff) -> impl Serialize {
    dive_diff::document(diff)
}

/// What differs between two traces of the kernel, as indented JSON, with a newline at the end.
pub fn render_dive_diff(diff: &DiveDiff) -> String {
    pretty(&dive_diff_document(diff))
}

/// Context switches as a line of JSON, with a newline at the end, in `sched`.
pub fn render_sched(sched: &Sched) -> String {
    line(&std::collections::BTreeMap::from([("sched", sched)]))
}

/// A single switch as a line of JSON, with a newline at the end.
pub fn render_switch(switch: &SwitchLine) -> String {
    line(switch)
}

fn line(document: &impl Serialize) -> String {
    let text = serde_json::to_string(document);
    // As in `pretty`.
    escaped_json(text.unwrap_or_else(|e| format!("{{\"error\": {:?}}}", e.to_string())) + "\n")
}

/// What changed between two recordings, for embedding.
pub(crate) fn diff_document(diff: &Diff) -> impl Serialize {
    diff::Document::from(diff)
}

/// What changed between two recordings, as indented JSON, with a newline at the end.
pub fn render_diff(diff: &Diff) -> String {
    pretty(&diff_document(diff))
}

/// The cost of observation on a host, in its file format, with a newline at the end.
pub fn render_calibration(calibration: &Calibration) -> String {
    pretty(calibration)
}

/// Names amounts after what the recording counts.
fn in_units(document: &impl Serialize, meta: &Meta) -> String {
    match meta.collector.unit {
        Unit::Time => pretty(document),
        // Only what cannot be serialised would become null, and there is no such thing.
        unit => pretty(&units::rename(
            serde_json::to_value(document).unwrap_or_default(),
            unit,
        )),
    }
}

fn pretty(document: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(document)
        // Only a map with non-string keys or a failing `Serialize` could get here: there is neither.
        .unwrap_or_else(|e| format!("{{\"error\": {:?}}}", e.to_string()));
    text.push('\n');
    escaped_json(text)
}

/// What the recording says about itself.
#[derive(Serialize)]
pub(crate) struct MetaJson<'a> {
    dbtime: &'a str,
    schema: &'a str,
    host: &'a HostMeta,
    database: &'a DatabaseMeta,
    tier: &'a str,
    rate_hz: u32,
    engine: &'a str,
    unit: Unit,
    clock: Clock,
    start: Option<String>,
    end: Option<String>,
    complete: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    flight: &'a str,
    cost: &'a Cost,
}

impl<'a> From<&'a Meta> for MetaJson<'a> {
    fn from(meta: &'a Meta) -> MetaJson<'a> {
        MetaJson {
            dbtime: &meta.dbtime,
            schema: &meta.schema,
            host: &meta.host,
            database: &meta.database,
            tier: &meta.collector.tier,
            rate_hz: meta.collector.rate_hz,
            engine: &meta.collector.engine,
            unit: meta.collector.unit,
            clock: meta.collector.clock,
            start: time_of_day(meta, meta.start_us),
            end: time_of_day(meta, meta.end_us),
            complete: meta.complete,
            flight: &meta.collector.flight,
            cost: &meta.cost,
        }
    }
}

/// The beginning of an answer about a part of a recording.
#[derive(Serialize)]
struct Head<'a> {
    meta: MetaJson<'a>,
    /// None if the recording does not know the time of day.
    from: Option<String>,
    to: Option<String>,
    elapsed_ns: u128,
}

impl<'a> Head<'a> {
    fn of(meta: &'a Meta, period: Period) -> Head<'a> {
        Head {
            meta: meta.into(),
            from: time_of_day(meta, period.from_us),
            to: time_of_day(meta, period.to_us),
            elapsed_ns: period.elapsed_ns(),
        }
    }
}

/// A moment of a recording; none if its clock does not have the time of day.
fn time_of_day(meta: &Meta, us: i64) -> Option<String> {
    match meta.collector.clock {
        Clock::Utc => timestamp(us),
        Clock::Relative | Clock::None => None,
    }
}
