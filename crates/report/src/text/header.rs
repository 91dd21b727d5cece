//! What was recorded, where, when and how; what is exact and what is sampled.

use dbtime_model::State;
use dbtime_model::recording::{Clock, Meta, Unit};

use super::page::Page;
use crate::filter::{Filter, SECOND_US, Whose};
use crate::group::{NONE, moment, query_id};
use crate::ledger::Section;
use crate::number::{counted, plural, seconds};
use crate::product;
use crate::report::Report;
use crate::scan::Period;
use crate::sums::{FidelityMix, percent};

pub(super) fn render(report: &Report, page: &mut Page) {
    recording(&report.meta, report.period, &report.filter, page);
    if let Some((first, others)) = report.quality.problems.split_first() {
        let others = match others.len() {
            0 => String::new(),
            others => format!(" ({others} more under Quality)"),
        };
        page.paragraph(&format!(
            "Part of it could not be read, and is missing here: {first}{others}"
        ));
    }
}

/// Which of the numbers are exact, sampled, pooled.
pub(super) fn exactness(report: &Report, page: &mut Page) {
    page.paragraph(&fidelity(report));
    let collector = &report.meta.collector;
    if report.filter.is_of_a_period() && report.meta.files.is_empty() && collector.rate_hz > 0 {
        // A session's growth is that from one report of its totals to the next, each in the first pass after a second has begun.
        page.paragraph(&format!(
            "Where the selected time begins and ends, each session's time may be off by a sample period ({} ms) or a little more.",
            1_000 / collector.rate_hz
        ));
    }
    let db_time = report.ledger.sum(Section::DbTime);
    if let Some(share) = percent(db_time.pooled_ns(), db_time.total_ns())
        && share >= 0.05
    {
        page.paragraph(&format!(
            "Pooled: {share:.1} % of DB time, from sessions too short to be sampled individually: their \
             exact totals, split by the samples of similar sessions."
        ));
    }
}

/// What was recorded, where and when, and which part of it this is.
pub(super) fn recording(meta: &Meta, period: Period, filter: &Filter, page: &mut Page) {
    let database = meta.database.clone().between(period.from_us, period.to_us);
    let has_several = !database.later_versions.is_empty();
    let database = product::with_times(&database, period.from_us);
    let mut place = Vec::new();
    if !meta.host.name.is_empty() {
        place.push(format!("on {}", meta.host.name));
    }
    if meta.host.cpus > 0 {
        place.push(counted(meta.host.cpus, "CPU"));
    }
    if !meta.host.kernel.is_empty() {
        place.push(format!("Linux {}", words(&[&meta.host.kernel, &meta.host.arch])));
    }
    let database = if database.is_empty() {
        "Unknown database".to_string()
    } else {
        database
    };
    let place = place.join(", ");
    page.paragraph(&match has_several && !place.is_empty() {
        true => format!("{database}, {place}"),
        false => words(&[&database, &place]),
    });

    let mut how = match meta.collector.clock {
        Clock::Utc => format!("From {} UTC, {}", moment(period.from_us), length(period)),
        Clock::Relative => format!(
            "From second {} of a clock whose epoch the file does not give, {} s",
            period.from_us.div_euclid(SECOND_US),
            seconds(period.elapsed_ns())
        ),
        Clock::None => "The file does not say when".to_string(),
    };
    if meta.collector.rate_hz > 0 {
        how += &format!(
            ", {} per second and session",
            counted(meta.collector.rate_hz, "sample")
        );
    }
    if filter.is_of_a_period() && meta.collector.resolution_s > 1 {
        how += &format!(
            "; rows may stand for {} s, so the period is extended to whole ones",
            meta.collector.resolution_s
        );
    }
    if !meta.complete {
        how += "; incomplete: the recorder was killed, ended with an error, or is still running; this is what it has written so \
                far";
    }
    page.paragraph(&how);
    match meta.collector.unit {
        Unit::Time => {}
        Unit::Samples => page.paragraph(
            "Amounts are samples: the file does not say how much time one stands for (set it with \
             --interval).",
        ),
        Unit::Counts => page.paragraph(
            "Amounts are what the file counts, and it does not say what that is (set the time one stands \
             for with --interval).",
        ),
    }
    if let Some(only) = chosen(filter) {
        page.paragraph(&only);
    }
}

fn words(words: &[&str]) -> String {
    let words: Vec<&str> = words.iter().copied().filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

/// The length of the recorded time, and of the whole period if that is longer.
pub(super) fn length(period: Period) -> String {
    let elapsed = seconds(period.elapsed_ns());
    // Times of snapshots are only accurate to a second.
    match period.elapsed_ns() + 1_000_000_000 < period.whole_ns() {
        true => format!("{elapsed} s within {} s", seconds(period.whole_ns())),
        false => format!("{elapsed} s"),
    }
}

/// Which rows were selected, apart from the period.
pub(super) fn chosen(filter: &Filter) -> Option<String> {
    let mut only = Vec::new();
    if !filter.sessions.is_empty() {
        let pids: Vec<String> = filter.sessions.iter().map(u32::to_string).collect();
        only.push(format!("session{} {}", plural(pids.len()), pids.join(", ")));
    }
    match filter.whose {
        Whose::All => {}
        Whose::Foreground => only.push("sessions that serve clients".to_string()),
        Whose::Background => only.push("the server's own processes".to_string()),
    }
    for (dimension, value) in &filter.facts {
        let value = if value.is_empty() { NONE } else { value };
        only.push(format!("{dimension} {value}"));
    }
    if !filter.waits.is_empty() {
        only.push(format!(
            "wait{} {}",
            plural(filter.waits.len()),
            filter.waits.join(", ")
        ));
    }
    if !filter.states.is_empty() {
        let states: Vec<&str> = filter.states.iter().map(|state| state.as_str()).collect();
        only.push(format!("state{} {}", plural(states.len()), states.join(", ")));
    }
    if !filter.statements.is_empty() {
        let ids: Vec<String> = filter.statements.iter().map(|id| query_id(*id)).collect();
        let word = if ids.len() == 1 { "query" } else { "queries" };
        only.push(format!("{word} {}", ids.join(", ")));
    }
    (!only.is_empty()).then(|| format!("Only {}", only.join("; ")))
}

/// Which numbers are exact and which are sampled.
fn fidelity(report: &Report) -> String {
    let total = report.ledger.total();
    let states = |wanted: FidelityMix| -> Vec<String> {
        State::ALL
            .into_iter()
            .filter(|state| total.state_fidelity(*state) == Some(wanted))
            .map(|state| match total.sampled_percent(state) {
                Some(percent) if wanted == FidelityMix::Mixed => {
                    format!("{} ({percent:.1} % sampled)", state.as_str())
                }
                _ => state.as_str().to_string(),
            })
            .collect()
    };
    let exact_totals = report.sessions.have_exact_totals();
    match total.fidelity() {
        None => "Nothing was recorded in this period.".to_string(),
        Some(FidelityMix::Exact) => "All times are exact.".to_string(),
        Some(_) if report.meta.collector.unit == Unit::Counts => {
            "The file does not say whether amounts are exact.".to_string()
        }
        Some(FidelityMix::Sampled) if exact_totals => {
            "Exact: the totals of each session (kernel accounting). Sampled: how they split by wait event, \
             state and stack."
                .to_string()
        }
        Some(FidelityMix::Sampled) if report.meta.collector.unit == Unit::Time => {
            "Sampled: all times.".to_string()
        }
        Some(FidelityMix::Sampled) => "Sampled: all of it.".to_string(),
        Some(FidelityMix::Mixed) => {
            let mut exact = states(FidelityMix::Exact);
            if exact_totals {
                exact.insert(0, "the totals of each session (kernel accounting)".to_string());
            }
            let parts = [
                ("Exact", exact),
                ("Sampled", states(FidelityMix::Sampled)),
                ("Partly exact", states(FidelityMix::Mixed)),
            ];
            let parts: Vec<String> = parts
                .into_iter()
                .filter(|(_, states)| !states.is_empty())
                .map(|(word, states)| format!("{word}: {}.", states.join(", ")))
                .collect();
            parts.join(" ")
        }
    }
}
