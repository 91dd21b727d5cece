//! Latencies of several recordings side by side.

use super::page::{Page, Table, percent};
use super::{header, latency, quality};
use crate::comparison::{ComparedEvent, Comparison};
use crate::histogram::Histogram;
use crate::number::{counted, duration, exact_seconds};
use crate::size_label::{blocks_label, bytes_label};

/// Sizes of an event that are shown individually.
const SIZES: usize = 10;

pub(super) fn render(comparison: &Comparison, page: &mut Page) {
    for source in &comparison.sources {
        page.line(&format!("{}:", source.label));
        header::recording(&source.meta, source.period, &source.filter, page);
        quality::latencies_lost(&source.meta, page);
        quality::problems(&source.problems, page);
    }
    let worst = comparison
        .sources
        .iter()
        .map(|source| latency::quantiles(&source.meta))
        .max();
    page.paragraph(&format!("Exact: all numbers; {}.", worst.unwrap_or_default()));
    calls(comparison, page);
    if comparison.events.is_empty() {
        page.heading(&if comparison.recorded_kinds.is_empty() {
            format!("These recordings have no latencies. {}", latency::HOW_TO_RECORD)
        } else {
            format!(
                "There are no latencies in these parts of the recordings, which have some of kind {}.",
                comparison.recorded_kinds.join(", ")
            )
        });
        return;
    }
    page.heading("What differs");
    for event in &comparison.events {
        for difference in &event.differences {
            page.paragraph(&difference.sentence);
        }
    }
    events(comparison, page);
    sizes(comparison, page);
    for event in &comparison.events {
        distribution(comparison, event, page);
    }
}

fn labels(comparison: &Comparison) -> Vec<&str> {
    comparison
        .sources
        .iter()
        .map(|source| source.label.as_str())
        .collect()
}

fn calls(comparison: &Comparison, page: &mut Page) {
    if comparison.sources.iter().all(|source| source.calls.is_none()) {
        return;
    }
    page.heading("Time breakdown by the call view (seconds, exact)");
    let mut table = Table::new(&[""], &["elapsed", "CPU", "waits", "idle", "unaccounted"]);
    for source in &comparison.sources {
        let mut cells = vec![source.label.clone()];
        cells.extend(source.calls.iter().flat_map(|view| {
            [
                view.elapsed_us,
                view.cpu_us,
                view.wait_us,
                view.idle_us,
                view.unaccounted_us(),
            ]
            .map(exact_seconds)
        }));
        table.row(cells);
    }
    page.table(&table);
}

/// Count, sum, average, quantiles, longest.
const NUMBERS: [&str; 6] = ["count", "total", "mean", "p50", "p99", "max"];

fn numbers(latency: &Histogram) -> Vec<String> {
    let mut cells = vec![latency.count().to_string()];
    if let (Some(mean), Some(p50), Some(p99)) =
        (latency.mean_ns(), latency.quantile(0.5), latency.quantile(0.99))
    {
        cells.extend(
            [
                latency.sum_ns(),
                mean,
                p50.into(),
                p99.into(),
                latency.max_ns().into(),
            ]
            .map(duration),
        );
    }
    cells
}

fn events(comparison: &Comparison, page: &mut Page) {
    page.heading("Events");
    let mut table = Table::new(&["event", ""], &NUMBERS);
    let kinds: Vec<&str> = comparison
        .events
        .iter()
        .map(|event| event.kind.as_str())
        .collect();
    let one_kind = kinds.windows(2).all(|pair| pair[0] == pair[1]);
    for event in &comparison.events {
        let mut name = Some(if one_kind {
            event.name.clone()
        } else {
            format!("{} {}", event.kind, event.name)
        });
        for (label, latency) in labels(comparison).iter().zip(&event.latencies) {
            let mut cells = vec![name.take().unwrap_or_default(), (*label).to_string()];
            cells.extend(numbers(latency));
            table.row(cells);
        }
    }
    page.table(&table);
    if comparison.others > 0 {
        page.line(&format!(
            "  {}: --top N shows more",
            counted(comparison.others, "other")
        ));
    }
}

fn sizes(comparison: &Comparison, page: &mut Page) {
    let mut table = Table::new(&["event", "size", ""], &NUMBERS);
    let mut is_empty = true;
    for event in &comparison.events {
        let (top, others) = event.top_sizes(SIZES);
        let mut name = Some(event.name.clone());
        for size in top {
            let mut label = Some(match size.blocks {
                0 => bytes_label(size.bytes),
                blocks => blocks_label(blocks),
            });
            for (source, latency) in labels(comparison).iter().zip(&size.latencies) {
                is_empty = false;
                let mut cells = vec![
                    name.take().unwrap_or_default(),
                    label.take().unwrap_or_default(),
                    (*source).to_string(),
                ];
                cells.extend(numbers(latency));
                table.row(cells);
            }
        }
        if others > 0 {
            table.row(vec![String::new(), format!("{others} other sizes")]);
        }
    }
    if !is_empty {
        page.heading("By size");
        page.table(&table);
    }
}

/// The buckets of an event: each recording's share of events in them, and what that does to the mean.
fn distribution(comparison: &Comparison, event: &ComparedEvent, page: &mut Page) {
    for difference in event.differences.iter().filter(|one| !one.buckets.is_empty()) {
        let labels = difference
            .of
            .map(|index| comparison.sources[index].label.as_str());
        page.heading(&format!(
            "{}: events by latency, and what they contribute to the difference of the averages",
            event.name
        ));
        let heads = labels.map(|label| format!("% {label}"));
        let mut table = Table::new(&[], &["from us", "to us", &heads[0], &heads[1], "difference us"]);
        for bucket in &difference.buckets {
            table.row(vec![
                bucket.from_us.to_string(),
                bucket.to_us.to_string(),
                percent(Some(bucket.percent[0])),
                percent(Some(bucket.percent[1])),
                format!("{:+.1}", bucket.contribution_ns / 1e3),
            ]);
        }
        page.table(&table);
    }
}
