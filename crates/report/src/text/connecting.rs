//! What connecting cost, if it matters: below the ledger, which has no place for it, or above it if it is a large part of the time.
//! Clients wait for the postmaster, which is not one of the sessions.

use super::page::Page;
use crate::connecting::{Connecting, Phase};
use crate::number::{counted, milliseconds, seconds};
use crate::report::Report;
use crate::sums::percent;

/// Mentioned from this part of the time on, in percent.
const MATTERS: f64 = 1.0;
/// Mentioned first from this part on.
const LEADS: f64 = 10.0;

/// Goes before the ledger.
pub(super) fn render_first(report: &Report, page: &mut Page) {
    if let Some(connecting) = of_share(report, |percent| percent >= LEADS) {
        page.paragraph(&text(connecting));
    }
}

/// Goes after the ledger.
pub(super) fn render_below(report: &Report, page: &mut Page) {
    if let Some(connecting) = of_share(report, |percent| (MATTERS..LEADS).contains(&percent)) {
        page.paragraph(&text(connecting));
    }
}

fn of_share(report: &Report, is_meant: impl Fn(f64) -> bool) -> Option<&Connecting> {
    let connecting = report.connecting.as_ref()?;
    connecting.percent.is_some_and(is_meant).then_some(connecting)
}

fn text(connecting: &Connecting) -> String {
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
    let unknown = percent(connecting.without_stack_ns, connecting.db_time_ns).unwrap_or(0.0);
    let least = if unknown >= MATTERS { "at least " } else { "" };
    if let (Some(share), true) = (percent(all, connecting.db_time_ns), all > 0) {
        text += &format!(
            " Of DB time, {least}{share:.1} % is the start and end of sessions (sampled): {}.",
            phases.join(", ")
        );
        if unknown >= MATTERS {
            text += &format!(" For {unknown:.1} % there is no stack to tell it by.");
        }
    }
    text
}

fn words(phase: Phase) -> &'static str {
    match phase {
        Phase::Start => "start",
        Phase::Authentication => "authentication",
        Phase::Catalogue => "catalogue and caches",
        Phase::End => "end",
    }
}
