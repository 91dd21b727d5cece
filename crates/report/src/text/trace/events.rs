//! Wait events: the resource profile, histograms, sizes, and where reads may have come from.

use crate::histogram::Histogram;
use crate::io::Guessed;
use crate::number::{counted, exact_seconds, microseconds, seconds};
use crate::size_label::blocks_label;
use crate::sums;
use crate::text::page::{Page, Table, percent};
use crate::trace::{PARSETRC_LABELS, Trace, TracedEvent, parsetrc_counts};

pub(super) fn render(trace: &Trace, page: &mut Page) {
    profile(trace, page);
    histograms(trace, page);
    sizes(trace, page);
    guesses(trace, page);
}

fn profile(trace: &Trace, page: &mut Page) {
    page.heading("Resource profile (exact; 100 % = elapsed time and idle time of the call view)");
    let whole = trace.profile_us();
    let share = |us: i128| percent((whole > 0).then(|| us as f64 * 100.0 / whole as f64));
    let mut table = Table::new(&["event", ""], &["count", "seconds", "%", "mean us", "max us"]);
    let mut rows: Vec<(i128, Vec<String>)> = Vec::new();
    let mut plain = |name: &str, us: i128| {
        let cells = vec![
            name.to_string(),
            String::new(),
            String::new(),
            exact_seconds(us),
            share(us),
            String::new(),
            String::new(),
        ];
        rows.push((us, cells));
    };
    plain("CPU", trace.call_view.cpu_us);
    plain("[unaccounted]", trace.call_view.unaccounted_us());
    let (top, others) = trace.events.split_at(trace.options.top.min(trace.events.len()));
    for event in top {
        let mut cells = vec![
            event.name.clone(),
            if event.idle { "idle" } else { "" }.to_string(),
            event.latency.count().to_string(),
            exact_seconds(event.total_us()),
            share(event.total_us()),
        ];
        cells.extend(mean_and_max(&event.latency));
        rows.push((event.total_us(), cells));
    }
    rows.sort_by_key(|(us, _)| std::cmp::Reverse(*us));
    rows.into_iter().for_each(|(_, cells)| table.row(cells));
    if !others.is_empty() {
        let us: i128 = others.iter().map(TracedEvent::total_us).sum();
        let count: u128 = others.iter().map(|event| event.latency.count()).sum();
        table.row(vec![
            counted(others.len(), "other event"),
            String::new(),
            count.to_string(),
            exact_seconds(us),
            share(us),
        ]);
    }
    table.rule();
    table.row(vec![
        "sum".to_string(),
        String::new(),
        String::new(),
        exact_seconds(whole),
        share(whole),
    ]);
    page.table(&table);
}

fn mean_and_max(latency: &Histogram) -> [String; 2] {
    [
        latency.mean_ns().map_or_else(String::new, microseconds),
        (latency.max_ns() / 1_000).to_string(),
    ]
}

/// The columns of histograms: from the first to the last in which there is anything.
struct Columns(Vec<usize>);

impl Columns {
    fn of<'a>(histograms: impl IntoIterator<Item = &'a Histogram>) -> Columns {
        let mut used = [false; PARSETRC_LABELS.len()];
        for histogram in histograms {
            for (used, count) in used.iter_mut().zip(parsetrc_counts(histogram)) {
                *used |= count > 0;
            }
        }
        let first = used.iter().position(|used| *used).unwrap_or(0);
        let last = used.iter().rposition(|used| *used).unwrap_or(0);
        Columns((first..=last).collect())
    }

    fn heads<'a>(&self, before: &[&'a str]) -> Vec<&'a str> {
        before
            .iter()
            .copied()
            .chain(self.0.iter().map(|column| PARSETRC_LABELS[*column]))
            .collect()
    }

    fn cells(&self, latency: &Histogram) -> Vec<String> {
        let counts = parsetrc_counts(latency);
        let cell = |column: &usize| match counts[*column] {
            0 => "-".to_string(),
            count => count.to_string(),
        };
        self.0.iter().map(cell).collect()
    }
}

fn histograms(trace: &Trace, page: &mut Page) {
    let shown = &trace.events[..trace.options.top.min(trace.events.len())];
    if shown.is_empty() {
        return;
    }
    page.heading(
        "Latency histograms (events by latency, exact). Columns as parsetrc.pl's: 64u = below 64 us, .1m = below 128 us, \
         1m = below 1024 us, .1s = below 131072 us and so on; 0u = 0 us.",
    );
    let columns = Columns::of(shown.iter().map(|event| &event.latency));
    let mut table = Table::new(&["event"], &columns.heads(&["count"]));
    for event in shown {
        let mut cells = vec![event.name.clone(), event.latency.count().to_string()];
        cells.extend(columns.cells(&event.latency));
        table.row(cells);
    }
    page.table(&table);
    page.paragraph("Finer, with quantiles: --latency; over time: --latency --kind wait --format svg.");
}

fn sizes(trace: &Trace, page: &mut Page) {
    if trace.io_sizes.is_empty() {
        return;
    }
    page.heading("Multi-block and direct reads by size (exact)");
    let columns = Columns::of(
        trace
            .io_sizes
            .iter()
            .flat_map(|event| event.sizes.iter().map(|size| &size.latency)),
    );
    let mut table = Table::new(
        &["event", "size"],
        &columns.heads(&["count", "seconds", "mean us", "max us"]),
    );
    let mut row = |event: String, size: String, latency: &Histogram| {
        let mut cells = vec![
            event,
            size,
            latency.count().to_string(),
            seconds(latency.sum_ns()),
        ];
        cells.extend(mean_and_max(latency));
        cells.extend(columns.cells(latency));
        table.row(cells);
    };
    for event in &trace.io_sizes {
        let mut name = Some(event.event.clone());
        let (top, others, rest) = event.top(trace.options.top);
        for size in top {
            row(
                name.take().unwrap_or_default(),
                blocks_label(size.blocks),
                &size.latency,
            );
        }
        if others > 0 {
            row(String::new(), format!("{others} other sizes"), &rest);
        }
    }
    page.table(&table);
}

fn guesses(trace: &Trace, page: &mut Page) {
    if trace.guesses.is_empty() {
        return;
    }
    let [page_cache, storage_cache] = trace.options.thresholds_us;
    page.heading(&format!(
        "Where reads may have come from (guessed from their latency: page cache below {page_cache} us, \
         storage cache below {storage_cache} us, else disk; --thresholds sets others)"
    ));
    let heads = Guessed::ALL.map(|guess| guess.as_str());
    let numbers: Vec<&str> = heads.iter().flat_map(|head| [*head, "%", "% time"]).collect();
    let mut table = Table::new(&["event"], &numbers);
    for event in &trace.guesses {
        let count: u128 = event.guessed.iter().map(|(_, count, _)| count).sum();
        let sum: u128 = event.guessed.iter().map(|(_, _, sum)| sum).sum();
        let mut cells = vec![event.event.clone()];
        for (_, guessed, ns) in event.guessed {
            cells.extend([
                guessed.to_string(),
                percent(sums::percent(guessed, count)),
                percent(sums::percent(ns, sum)),
            ]);
        }
        table.row(cells);
    }
    page.table(&table);
    page.paragraph(
        "Direct path reads are asynchronous: a wait is only what was left of the read when its data was needed, so they \
         seem faster than the storage is.",
    );
}
