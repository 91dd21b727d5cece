//! Latencies by kind and group: a histogram each.

use dbtime_model::latency::kind;
use dbtime_model::recording::Meta;

use super::page::{Page, Table, bar, percent};
use super::{header, quality};
use crate::histogram::Histogram;
use crate::latency::{KindLatencies, LatencyReport, WaitUnit, kind_words};
use crate::number::{counted, duration, microseconds, milliseconds};
use crate::sums;
use crate::trace::has_trace;

/// What to do if there are no latencies.
pub(crate) const HOW_TO_RECORD: &str = "Record them with 'dbtime record --exact'.";

/// Shown for the time of no events.
const NOTHING: &str = "-";

pub(super) fn render(report: &LatencyReport, page: &mut Page) {
    header::recording(&report.meta, report.period, &report.filter, page);
    page.paragraph(&format!("Exact: all numbers; {}.", quantiles(&report.meta)));
    quality::latencies_lost(&report.meta, page);
    if report.recorded_kinds.is_empty() {
        page.heading(&format!(
            "There are no latencies in this recording. {HOW_TO_RECORD}"
        ));
    } else if report.kinds.is_empty() {
        page.heading(&format!(
            "There are no latencies in this part of the recording, which has some of kind {}.",
            report.recorded_kinds.join(", ")
        ));
    }
    for kind in &report.kinds {
        page.heading(&format!(
            "{} (kind {}, exact): {}, {} in all. {}",
            kind_words(&kind.kind, &report.meta),
            kind.kind,
            counted(kind.total.count(), "event"),
            duration(kind.total.sum_ns()),
            explanation(&kind.kind, &report.meta),
        ));
        groups(report, kind, page);
    }
    quality::problems(&report.problems, page);
}

/// All groups of all kinds, one line each.
pub(super) fn table_of_groups(report: &LatencyReport, page: &mut Page) {
    for kind in &report.kinds {
        page.paragraph(&format!(
            "{} (exact; {}): {}, {} in all",
            kind_words(&kind.kind, &report.meta),
            quantiles(&report.meta),
            counted(kind.total.count(), "event"),
            duration(kind.total.sum_ns())
        ));
        let numbers = [
            "events", "per s", "total ms", "mean us", "p50 us", "p99 us", "max us",
        ];
        let mut table = Table::new(&[""], &numbers);
        for group in &kind.groups {
            let of = &group.histogram;
            let us = |ns: Option<u64>| ns.map_or_else(String::new, |ns| microseconds(ns.into()));
            table.row(vec![
                group.labels.join(", "),
                of.count().to_string(),
                report
                    .per_second(of.count())
                    .map_or_else(String::new, |rate| format!("{rate:.1}")),
                milliseconds(of.sum_ns()),
                of.mean_ns().map_or_else(String::new, microseconds),
                us(of.quantile(0.5)),
                us(of.quantile(0.99)),
                microseconds(of.max_ns().into()),
            ]);
        }
        page.table(&table);
        if kind.others > 0 {
            page.paragraph(&format!(
                "{} more: {}",
                kind.others,
                summary(report, &kind.others_total)
            ));
        }
    }
    quality::latencies_lost(&report.meta, page);
    quality::problems(&report.problems, page);
}

/// Accuracy of quantiles: the buckets of imported traces are wider.
pub(crate) fn quantiles(meta: &Meta) -> &'static str {
    if has_trace(meta) {
        "quantiles are accurate to 6 %"
    } else {
        "quantiles are accurate to 1 %"
    }
}

fn groups(report: &LatencyReport, kind: &KindLatencies, page: &mut Page) {
    for group in &kind.groups {
        page.heading(&group.labels.join(", "));
        page.paragraph(&summary(report, &group.histogram));
        page.table(&table(&group.histogram));
    }
    if kind.others > 0 {
        page.heading(&format!("{} other groups", kind.others));
        page.paragraph(&summary(report, &kind.others_total));
    }
}

fn summary(report: &LatencyReport, histogram: &Histogram) -> String {
    let mut text = counted(histogram.count(), "event");
    if let Some(rate) = report.per_second(histogram.count()) {
        text += &format!(" ({rate:.1}/s)");
    }
    text += &format!(", {} in all", duration(histogram.sum_ns()));
    if let Some(mean) = histogram.mean_ns() {
        text += &format!("; mean {}", duration(mean));
    }
    for (name, q) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)] {
        if let Some(ns) = histogram.quantile(q) {
            text += &format!(", {name} {}", duration(ns.into()));
        }
    }
    text + &format!(", max {}", duration(histogram.max_ns().into()))
}

fn table(histogram: &Histogram) -> Table {
    let numbers = [
        "from us", "to us", "events", "% events", "mean us", "time ms", "% time", "",
    ];
    let mut table = Table::new(&[], &numbers).with_bars();
    let buckets = histogram.power_of_two_us();
    let largest = buckets.iter().map(|bucket| bucket.count).max().unwrap_or(0);
    for bucket in &buckets {
        let mean = bucket.sum_ns.checked_div(bucket.count);
        table.row(vec![
            bucket.from_us.to_string(),
            bucket.to_us.to_string(),
            bucket.count.to_string(),
            percent(sums::percent(bucket.count, histogram.count())),
            mean.map_or_else(|| NOTHING.to_string(), microseconds),
            if bucket.count == 0 {
                NOTHING.to_string()
            } else {
                milliseconds(bucket.sum_ns)
            },
            percent(sums::percent(bucket.sum_ns, histogram.sum_ns())),
            bar(bucket.count, largest),
        ]);
    }
    table
}

/// What an event of a kind is.
pub(crate) fn explanation(of: &str, meta: &Meta) -> &'static str {
    match of {
        kind::COMMAND => {
            "From when the server process has received a command until it asks for the next one; 'report \
             --tail' shows what slow ones did."
        }
        kind::WAIT if has_trace(meta) => "One event is a wait, as the trace reports it.",
        kind::WAIT => match WaitUnit::of(meta) {
            WaitUnit::Wait => "From the first system call in the wait event until the last one has ended.",
            WaitUnit::Stay => {
                "One event is an off-CPU period in the wait event, run queue included: one wait may have \
                 several, or none if it never left its CPU. Whole waits are timed by 'record \
                 --exact=calls'."
            }
            WaitUnit::Call => "One event is a system call made in the wait: one wait may have several.",
        },
        kind::WAIT_CALL => "One event is a system call made in the wait: one wait may have several.",
        kind::ORACLE_WAIT => "From the database's start of the wait to its end, by the kernel's clock.",
        kind::ORACLE_WAIT_DB => "The same waits by the database's own clock, in whole microseconds.",
        kind::SYSCALL => "From start to end.",
        kind::SCHED => "From runnable until running, by the wait event at that time.",
        kind::READ => "Reads of files, from beginning to end, by wait event.",
        kind::READ_CPU => "CPU that these calls used in the kernel.",
        kind::READ_QUEUE => "Reads from a device: from the first request of the call until one was issued.",
        kind::READ_DEVICE => {
            "Reads from a device: from the first issue until the last request waited for was done."
        }
        kind::BLOCK => "From the issue to the device until completion.",
        kind::BLOCK_QUEUE => "From entry into the queue until the issue to the device.",
        kind::RUN => "From being switched onto a CPU until being switched off it, by the state afterwards.",
        kind::INSTEAD => {
            "One event is a delay during which another task had the CPU that this one was queued on."
        }
        kind::WAKER => "From falling asleep until woken up.",
        kind::FUNCTION => "From entry to return, without interrupts.",
        _ => "",
    }
}
