//! How far to trust the report.

use dbtime_model::recording::Meta;

use super::calibration;
use super::page::Page;
use crate::group::moment;
use crate::number::{Amounts, seconds};
use crate::report::Report;

pub(super) fn render(report: &Report, page: &mut Page) {
    let quality = &report.quality;
    let amounts = Amounts::of(&report.meta);
    page.heading("Quality (of the whole recording)");
    let not_sampled = quality.unsampled_percent().map_or_else(String::new, |percent| {
        format!(" ({percent:.1} % of all time shown)")
    });
    if report.is_trace_without_states() {
        page.paragraph("  nothing was sampled: all times are those of the trace");
    } else {
        page.paragraph(&format!(
            "  samples {}, torn {}, lost {}; not sampled {}{not_sampled}",
            quality.samples,
            quality.torn,
            quality.lost,
            amounts.with_unit(quality.unsampled_ns),
        ));
    }
    if let (Some(percent), true) = (quality.pooled_percent(), quality.pooled_ns > 0) {
        page.paragraph(&format!(
            "  pooled {} ({percent:.1} % of all time shown): time of sessions too short to be sampled \
             individually, split by the samples of other sessions of the same type, user and database in \
             the same second",
            amounts.with_unit(quality.pooled_ns),
        ));
    }
    if report.meta.database.entries_checked > 0 {
        page.paragraph(&format!(
            "  what sessions execute was read from a memory location verified in {} server processes: the \
             pid, database, state and texts found there were each process's own",
            report.meta.database.entries_checked
        ));
    }
    let counts = [
        (
            quality.torn_stacks,
            "samples kept without their stacks, because the session ran while it was read",
        ),
        (
            quality.displaced,
            "passes left out, because the sampler itself had preempted the session",
        ),
        (
            quality.stood_in,
            "samples that carry another wait event of their session, because their own ended too soon",
        ),
        (
            quality.waits_not_read,
            "samples whose wait event could not be read",
        ),
        (
            quality.missed_switches,
            "context switches missed: the interval that the next one ended is longer, no time is missing",
        ),
        (
            quality.late_passes.into(),
            "sampler passes that ran more than one period late",
        ),
        (
            quality.failed_passes.into(),
            "sampler passes that the kernel refused",
        ),
        (
            quality.latencies_lost.into(),
            "latencies of single events lost, because the recorder had no room for them",
        ),
        (
            quality.unwind_without_room.into(),
            "unwinding tables, address spaces or mappings for which the recorder had no room: stacks that need them are broken",
        ),
        (
            quality.stacks_without_room.into(),
            "stacks for which the recorder had no room, because too many were new: they are shown as one stack, whose only frame says so",
        ),
        (
            quality.sessions_not_recorded.into(),
            "sessions that were not recorded, because the recorder had no room for them",
        ),
        (
            quality.sessions_not_described as u128,
            "sessions of which only the times were recorded",
        ),
    ];
    for (count, what) in counts {
        if count > 0 {
            page.paragraph(&format!("  {what}: {count}"));
        }
    }
    if quality.rows_dropped > 0 {
        page.paragraph(&format!(
            "  rows dropped, because the disk could not keep up: {}, with {} of session time",
            quality.rows_dropped,
            amounts.with_unit(quality.dropped_ns.into())
        ));
    }
    if quality.missing_ns > 0 {
        page.paragraph(&format!(
            "  session time missing, up to the end of sessions, because the kernel's final counters were \
             lost: {}",
            amounts.with_unit(quality.missing_ns.into())
        ));
    }
    let stacks = quality.stacks;
    let percents = [stacks.complete, stacks.truncated, stacks.broken].map(|count| stacks.percent(count));
    if let [Some(complete), Some(truncated), Some(broken)] = percents {
        page.paragraph(&format!(
            "  user stacks {}: {complete:.2} % complete, {truncated:.2} % truncated (they have more frames than are kept), {broken:.2} % broken (a caller was not found)",
            stacks.all(),
        ));
    }
    if quality.unresolved_frames > 0 {
        page.paragraph(&format!(
            "  {} of {} distinct frames could not be named",
            quality.unresolved_frames, quality.frames
        ));
    }
    if quality.missing_stacks_ns > 0 {
        page.paragraph(&format!(
            "  {} of DB time refers to stacks that are not in the recording",
            amounts.with_unit(quality.missing_stacks_ns)
        ));
    }
    if let (Some(percent), true) = (quality.recorder_percent_of_one_cpu, quality.recorder_cpu_ns > 0) {
        page.paragraph(&format!(
            "  the recorder used {} s of CPU, {percent:.1} % of one CPU",
            seconds(quality.recorder_cpu_ns.into())
        ));
    }
    if let Some(cost) = &report.cost_of_looking {
        calibration::cost(cost, page);
    }
    let probes: Vec<String> = quality
        .probes
        .iter()
        .filter_map(|probe| Some(format!("{} {:.0} ns", probe.name, probe.mean_ns?)))
        .collect();
    if !probes.is_empty() {
        page.paragraph(&format!(
            "  mean run time of the timer's samples, and of the probes (of those measured; the kernel's own \
             accounting included): {}",
            probes.join(", ")
        ));
    }
    let whose = match report.meta.collector.engine.starts_with("imported") {
        true => "",
        false => "on this host: ",
    };
    for reason in &quality.reasons {
        page.paragraph(&format!("  {whose}{reason}"));
    }
    problems(&quality.problems, page);
    for note in &quality.notes {
        page.paragraph(&format!("  {} UTC: {}", moment(note.time_us), note.text));
    }
}

/// What could not be read. Not wrapped: paths in these lines must be easy to find and copy.
pub(super) fn problems(problems: &[String], page: &mut Page) {
    for problem in problems {
        page.line(&format!("  not read: {problem}"));
    }
}

/// What is missing in distributions of single events.
pub(super) fn latencies_lost(meta: &Meta, page: &mut Page) {
    let lost = meta.quality.latencies_lost;
    if lost > 0 {
        page.paragraph(&format!(
            "{lost} events of the whole recording are missing here, because the recorder had no room for them."
        ));
    }
}
