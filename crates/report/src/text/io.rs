//! The truth about reads, section by section.

use super::page::{Page, Table, bar, percent};
use super::{header, quality};
use crate::io::{
    DatabaseFile, FileKind, Guess, Guessed, IoReport, ReadGroups, ReadParts, ReadSource, ReadSums, ReadWaits,
    Reads,
};
use crate::number::{counted, duration, megabytes, microseconds, seconds};
use crate::size_label::bytes_label;
use crate::sums::{self, FidelityMix};

pub(super) fn render(report: &IoReport, page: &mut Page) {
    header::recording(&report.meta, report.period, &report.filter, page);
    if report.total.count() == 0 {
        page.heading(report.why_empty());
        quality::problems(&report.problems, page);
        return;
    }
    page.paragraph(
        "Exact: all numbers but user CPU and the layers of the kernel; quantiles are accurate to 1 %. A read \
         came from: page cache = nothing was requested from a device and no session waited for one; \
         readahead = it sent a request, but its own data was there already; device = it sent a request and \
         slept for it; other task = it slept for data that another task, or an earlier call, had requested.",
    );
    quality::latencies_lost(&report.meta, page);
    page.heading("Where did reads come from? (by wait event; exact)");
    sources(report, page, "wait event", &report.by_event, String::clone);
    waits(&report.waits, page);
    page.heading("By kind of file (exact)");
    sources(report, page, "kind of file", &report.by_file_kind, |kind| {
        kind.as_str().to_string()
    });
    page.heading("By file (segments of a relation together; exact)");
    let mut segments = report.segments.iter();
    let mut relations = report.relations.iter();
    sources(report, page, "file", &report.by_file, |file| {
        let relation = relations.next().and_then(Option::as_deref);
        file_label(file, relation, segments.next().copied().unwrap_or(0))
    });
    page.heading("By size of the read (exact)");
    sources(report, page, "size", &report.by_size, |bytes| bytes_label(*bytes));
    device(report, page);
    guess(&report.guess, page);
    cpu(report, page);
    quality::problems(&report.problems, page);
}

/// Smaller parts of the waits are not worth a line, percent.
const SMALL: f64 = 5.0;

/// How the calls relate to the waits they are in.
fn waits(waits: &ReadWaits, page: &mut Page) {
    let Some(beside) = waits.beside_ns() else { return };
    let part = sums::percent(beside, waits.db_time_ns);
    if part.is_none_or(|part| part < SMALL) {
        return;
    }
    page.paragraph(&format!(
        "The ledger has {} s of DB time in these wait events, {} s of it in the run queue; the reads in them took {} s. The other {} s \
         ({} %) are before and after the calls: a wait event begins before its call, and lasts until the session has a CPU again and \
         leaves the wait.",
        seconds(waits.db_time_ns),
        seconds(waits.run_queue_ns),
        seconds(waits.reads_ns),
        seconds(beside),
        percent(part)
    ));
}

/// `public.orders (base/5/16384, 3 segments)`
fn file_label(file: &DatabaseFile, relation: Option<&str>, segments: usize) -> String {
    let path = match file.kind {
        FileKind::Unknown => FileKind::Unknown.as_str(),
        _ => &file.path,
    };
    match (relation, segments) {
        (None, 0 | 1) => path.to_string(),
        (None, segments) => format!("{path} ({segments} segments)"),
        (Some(relation), 0 | 1) => format!("{relation} ({path})"),
        (Some(relation), segments) => format!("{relation} ({path}, {segments} segments)"),
    }
}

/// A table of reads: a row for each group and source, and one for the group if it has several sources.
fn sources<K>(
    report: &IoReport,
    page: &mut Page,
    head: &str,
    groups: &ReadGroups<K>,
    mut label: impl FnMut(&K) -> String,
) {
    let numbers = [
        "reads", "MB", "s", "mean us", "p50 us", "p99 us", "% reads", "% time",
    ];
    let mut table = Table::new(&[head, "source"], &numbers);
    for group in &groups.top {
        rows(report, &mut table, label(&group.key), &group.reads);
    }
    if groups.others > 0 {
        rows(
            report,
            &mut table,
            counted(groups.others, "other"),
            &groups.others_reads,
        );
    }
    page.table(&table);
}

fn rows(report: &IoReport, table: &mut Table, label: String, reads: &Reads) {
    let mut row = |label: String, source: &str, sums: &ReadSums| {
        let latency = &sums.latency;
        let total = &report.total.all.latency;
        let us = |ns: Option<u64>| ns.map_or_else(String::new, |ns| microseconds(ns.into()));
        table.row(vec![
            label,
            source.to_string(),
            latency.count().to_string(),
            megabytes(sums.bytes),
            seconds(latency.sum_ns()),
            latency.mean_ns().map_or_else(String::new, microseconds),
            us(latency.quantile(0.5)),
            us(latency.quantile(0.99)),
            percent(sums::percent(latency.count(), total.count())),
            percent(sums::percent(latency.sum_ns(), total.sum_ns())),
        ]);
    };
    let mut label = Some(label);
    if reads.by_source.len() > 1 {
        row(label.take().unwrap_or_default(), "all", &reads.all);
    }
    for (source, sums) in &reads.by_source {
        row(label.take().unwrap_or_default(), source.as_str(), sums);
    }
}

fn device(report: &IoReport, page: &mut Page) {
    let device = &report.device;
    if device.total.reads == 0 {
        return;
    }
    page.heading(
        "Reads that waited for a device: where inside the call (exact; kernel CPU = of the whole call; rest = wakeup, run \
         queue and other)",
    );
    let numbers = ["reads", "", "total", "queue", "device", "kernel CPU", "rest"];
    let mut table = Table::new(&["device", "size"], &numbers);
    for (name, of_device) in &device.by_device {
        let name = if name.is_empty() { "[unknown]" } else { name };
        parts(&mut table, name, "all", of_device);
    }
    if device.by_device.len() > 1 {
        parts(&mut table, "all", "all", &device.total);
    }
    if device.by_size.len() + device.sizes_not_shown > 1 {
        for (bytes, of_size) in &device.by_size {
            parts(&mut table, "all", &bytes_label(*bytes), of_size);
        }
    }
    if device.sizes_not_shown > 0 {
        table.row(vec![
            String::new(),
            format!("{} other sizes", device.sizes_not_shown),
        ]);
    }
    page.table(&table);
    if device.total.rest_ns() < 0 {
        page.paragraph(
            "  A negative rest: the calls used CPU while a request was in flight, which counts in both.",
        );
    }
}

/// Three rows: sums, times per read, parts of the whole.
fn parts(table: &mut Table, device: &str, size: &str, parts: &ReadParts) {
    let rest = parts.rest_ns();
    let times = [
        parts.total_ns,
        parts.queue_ns,
        parts.device_ns,
        parts.cpu_ns,
        rest.unsigned_abs(),
    ];
    let mut row = |texts: [&str; 2], reads: String, unit: &str, number: &dyn Fn(u128) -> String| {
        let mut cells: Vec<String> = texts.map(str::to_string).into();
        cells.extend([reads, unit.to_string()]);
        cells.extend(times.map(number));
        if let (Some(last), true) = (cells.last_mut(), rest < 0) {
            last.insert(0, '-');
        }
        table.row(cells);
    };
    row([device, size], parts.reads.to_string(), "s", &seconds);
    row(["", ""], String::new(), "us/read", &|ns| {
        parts.per_read(ns).map_or_else(String::new, microseconds)
    });
    row(["", ""], String::new(), "%", &|ns| {
        percent(sums::percent(ns, parts.total_ns))
    });
}

fn guess(guess: &Guess, page: &mut Page) {
    let [page_cache, storage_cache] = guess.thresholds_us;
    page.heading(&format!(
        "The classic guess against the truth (reads; exact): below {page_cache} us it is called page cache, below \
         {storage_cache} us storage cache, else disk"
    ));
    let sources: Vec<ReadSource> = ReadSource::ALL
        .into_iter()
        .filter(|source| {
            Guessed::ALL
                .iter()
                .any(|guessed| guess.count(*guessed, *source) > 0)
        })
        .collect();
    let heads: Vec<&str> = sources.iter().map(|source| source.as_str()).collect();
    let mut table = Table::new(&["guess \\ truth"], &heads);
    for guessed in Guessed::ALL {
        let mut cells = vec![guessed.as_str().to_string()];
        cells.extend(sources.iter().map(|source| match guess.count(guessed, *source) {
            0 => "-".to_string(),
            count => count.to_string(),
        }));
        table.row(cells);
    }
    page.table(&table);
    let share = sums::percent(guess.wrong(), guess.known());
    page.paragraph(&format!(
        "  The guess was wrong for {} of {} reads{}: called page cache although the read waited for a device, or called \
         storage cache or disk although it did not.",
        guess.wrong(),
        guess.known(),
        share.map_or_else(String::new, |share| format!(" ({share:.2} %)")),
    ));
}

fn cpu(report: &IoReport, page: &mut Page) {
    let cpu = &report.cpu;
    if !cpu.calls.is_empty() {
        page.heading("Kernel CPU per read (exact)");
        let mut table = Table::new(
            &["size", "source"],
            &["reads", "CPU s", "us/read", "p50 us", "p99 us"],
        );
        for call in &cpu.calls {
            let us = |ns: Option<u64>| ns.map_or_else(String::new, |ns| microseconds(ns.into()));
            table.row(vec![
                bytes_label(call.bytes),
                call.source.as_str().to_string(),
                call.cpu.count().to_string(),
                seconds(call.cpu.sum_ns()),
                call.cpu.mean_ns().map_or_else(String::new, microseconds),
                us(call.cpu.quantile(0.5)),
                us(call.cpu.quantile(0.99)),
            ]);
        }
        if cpu.calls_not_shown > 0 {
            table.row(vec![counted(cpu.calls_not_shown, "other")]);
        }
        page.table(&table);
    }
    if let (Some(fidelity), Some(per_read)) = (cpu.user_fidelity, cpu.per_read(cpu.user_ns)) {
        page.heading(&format!(
            "User CPU of sessions that read ({}), whatever they did: {} s, {} per read ({})",
            cpu.sessions,
            seconds(cpu.user_ns),
            duration(per_read),
            fidelity.as_str(),
        ));
    }
    layers(report, page);
}

fn layers(report: &IoReport, page: &mut Page) {
    let cpu = &report.cpu;
    if !cpu.layers.is_empty() {
        page.heading(&format!(
            "Where in the kernel reads spent CPU ({}: {}, {} s)",
            FidelityMix::Sampled.as_str(),
            counted(cpu.samples, "sample"),
            seconds(cpu.layers_ns),
        ));
        let numbers = ["s", "%", "us/read", "samples", ""];
        let mut table = Table::new(&["layer", "most of it in"], &numbers).with_bars();
        let largest = cpu.layers.iter().map(|layer| layer.ns).max().unwrap_or(0);
        for layer in &cpu.layers {
            table.row(vec![
                layer.layer.as_str().to_string(),
                layer
                    .functions
                    .first()
                    .map_or_else(String::new, |(name, _)| name.clone()),
                seconds(layer.ns),
                percent(sums::percent(layer.ns, cpu.layers_ns)),
                cpu.per_read(layer.ns).map_or_else(String::new, microseconds),
                layer.samples.to_string(),
                bar(layer.ns, largest),
            ]);
        }
        page.table(&table);
    }
    if cpu.without_stack_ns > 0 {
        page.paragraph(&format!(
            "  Kernel CPU in waits for reads without a stack: {} s",
            seconds(cpu.without_stack_ns)
        ));
    }
}
