//! The recorder's own use: a column per recording, and whether the goal is met.

use std::time::Duration;

use crate::cost::Cost;
use crate::document::percent;
use crate::markdown::Table;

/// Share of one core that the recorder may use when most of its sessions are idle.
const GOAL_CORE_SHARE: f64 = 0.05;

/// A column per recording.
pub(crate) fn table(costs: &[Cost]) -> Table {
    let names: Vec<String> = costs
        .iter()
        .map(|cost| format!("{} sessions, {} Hz", cost.sessions, cost.rate_hz))
        .collect();
    let mut columns = vec![""];
    columns.extend(names.iter().map(String::as_str));
    let mut table = Table::new(&columns);
    let mut row = |name: &str, value: &dyn Fn(&Cost) -> String| {
        let mut cells = vec![name.to_string()];
        cells.extend(costs.iter().map(value));
        table.row(cells);
    };
    row("CPU while recording, of one core", &|cost| {
        percent(cost.core_share())
    });
    row("the same in seconds (/proc/PID/stat)", &|cost| {
        seconds(cost.process_cpu)
    });
    row("of that, the sampler thread (schedstat)", &|cost| {
        cost.sampler_cpu.map_or("–".to_string(), seconds)
    });
    row("CPU from start to end, user (wait4)", &|cost| {
        seconds(cost.usage.user)
    });
    row("CPU from start to end, kernel (wait4)", &|cost| {
        seconds(cost.usage.system)
    });
    row("CPU as the recording says", &|cost| {
        seconds(Duration::from_nanos(cost.meta.cost.cpu_ns))
    });
    row("of that, the sampler thread", &|cost| {
        seconds(Duration::from_nanos(cost.meta.cost.sampler_cpu_ns))
    });
    row("time recorded", &|cost| format!("{:.1} s", recorded_s(cost)));
    row("ready after", &|cost| seconds(cost.ready_after));
    row("largest resident set", &|cost| {
        size(cost.usage.max_rss_bytes as f64)
    });
    row("size of the recording", &|cost| size(cost.bytes as f64));
    row("that is, per hour", &|cost| {
        size(cost.bytes as f64 / recorded_s(cost) * 3600.0)
    });
    row("activity rows per second", &|cost| {
        let rows = cost.meta.segments.rows.get("activity").copied();
        per_second(rows.unwrap_or_default(), cost)
    });
    row("rows of all tables per second", &|cost| {
        per_second(cost.meta.segments.rows.values().sum(), cost)
    });
    row("samples per second", &|cost| {
        per_second(cost.meta.quality.samples, cost)
    });
    row("samples torn (dropped)", &|cost| {
        of_samples(cost.meta.quality.torn, cost)
    });
    row("samples without stack (torn)", &|cost| {
        of_samples(cost.meta.quality.torn_stacks, cost)
    });
    row("samples lost", &|cost| cost.meta.quality.lost.to_string());
    row("passes late", &|cost| {
        let quality = &cost.meta.quality;
        share(quality.late_passes, quality.passes)
    });
    table
}

/// Whether the goal is met by the recording with many sessions.
pub(crate) fn verdict(costs: &[Cost], active: u32) -> String {
    let Some(cost) = costs.iter().find(|cost| cost.sessions > active) else {
        return String::new();
    };
    let share = cost.core_share();
    let verdict = if share < GOAL_CORE_SHARE { "met" } else { "missed" };
    format!(
        "**Goal with {} sessions, less than {} of one core: {}, {verdict}.**\n",
        cost.sessions,
        percent(GOAL_CORE_SHARE),
        percent(share)
    )
}

fn recorded_s(cost: &Cost) -> f64 {
    (cost.meta.end_us - cost.meta.start_us) as f64 / 1e6
}

fn per_second(number: u64, cost: &Cost) -> String {
    format!("{:.1}", number as f64 / recorded_s(cost))
}

fn of_samples(number: u64, cost: &Cost) -> String {
    share(number, cost.meta.quality.samples + cost.meta.quality.torn)
}

fn share(part: u64, whole: u64) -> String {
    percent(part as f64 / whole.max(1) as f64)
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

fn size(bytes: f64) -> String {
    if bytes < 1e6 {
        format!("{:.1} kB", bytes / 1e3)
    } else {
        format!("{:.1} MB", bytes / 1e6)
    }
}
