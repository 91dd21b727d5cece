//! What connecting cost, where it matters: below the ledger, in which it has no place of its own.

use super::page::Page;
use crate::connecting::Phase;
use crate::number::{counted, milliseconds, seconds};
use crate::report::Report;
use crate::sums::percent;

/// Told from this part of the time on, in percent.
const MATTERS: f64 = 1.0;

pub(super) fn render(report: &Report, page: &mut Page) {
    let Some(connecting) = &report.connecting else {
        return;
    };
    if connecting.percent.is_none_or(|percent| percent < MATTERS) {
        return;
    }
    let mut text = format!(
        "{} began: connecting cost {} s of CPU in the postmaster ({} ms each",
        counted(connecting.sessions, "session"),
        seconds(connecting.postmaster_cpu_ns),
        milliseconds(connecting.postmaster_cpu_ns / u128::from(connecting.sessions)),
    );
    if let (Some(fork), true) = (
        percent(connecting.fork_ns, connecting.postmaster_cpu_ns),
        connecting.fork_ns > 0,
    ) {
        text += &format!("; {fork:.0} % of it in fork, sampled");
    }
    text += ")";
    if connecting.postmaster_run_queue_ns > 0 {
        text += &format!(
            ", which waited {} s for a CPU",
            seconds(connecting.postmaster_run_queue_ns)
        );
    }
    text += ".";
    let phases: Vec<String> = Phase::ALL
        .into_iter()
        .filter(|phase| connecting.phase_ns(*phase) > 0)
        .map(|phase| format!("{} {} s", words(phase), seconds(connecting.phase_ns(phase))))
        .collect();
    let all: u128 = connecting.phases.iter().sum();
    if let (Some(share), true) = (percent(all, connecting.db_time_ns), all > 0) {
        text += &format!(
            " Of DB time, {share:.1} % is the beginning and end of sessions (sampled): {}.",
            phases.join(", ")
        );
    }
    page.paragraph(&text);
}

fn words(phase: Phase) -> &'static str {
    match phase {
        Phase::Start => "start",
        Phase::Authentication => "authentication",
        Phase::Catalogue => "catalogue and caches",
        Phase::End => "end",
    }
}
