//! Block I/O as the classic tools show it: a histogram in powers of two of microseconds, then each operation.

use super::page::Page;
use crate::block_io::{BlockIo, BlockRequests, BlockTable};
use crate::group::moment;
use crate::number::counted;

/// Widest bar.
const BAR: usize = 40;
/// Width of a line of the histogram before its bar.
const BEFORE_BAR: usize = 54;

/// Display options.
#[derive(Debug, Clone, Copy)]
pub struct BlockIoOptions {
    /// A table for each disk instead of one for all.
    pub per_disk: bool,
    /// Latencies start in the queue.
    pub with_queue: bool,
    /// This is the whole time, not an interval.
    pub is_whole: bool,
}

/// Tables for some time, with its start in the headline.
pub fn render_block_io(io: &BlockIo, options: BlockIoOptions, width: usize) -> String {
    let mut page = Page::new(width);
    let latency = if options.with_queue {
        "from the queue until done"
    } else {
        "from issue until done"
    };
    let what = if options.is_whole { "the whole time, " } else { "" };
    page.line(&format!(
        "{} UTC, {what}{:.3} s, latency {latency}",
        moment(io.begin_us),
        io.elapsed_ns as f64 / 1e9
    ));
    if io.is_empty() {
        page.line("  no requests");
    } else {
        for table in io.tables(options.per_disk) {
            render_table(io, &table, width, &mut page);
        }
    }
    render_left_out(io, &mut page);
    page.line("");
    page.finish()
}

fn render_table(io: &BlockIo, table: &BlockTable, width: usize, page: &mut Page) {
    page.line("");
    if let Some(disk) = &table.disk {
        page.line(&format!(
            "  disk {}",
            if disk.is_empty() { "not known" } else { disk }
        ));
    }
    page.line(&format!(
        "  {:>21}  {:>12}  {:>13}",
        "latency, us", "IOPS", "sum, ms"
    ));
    let buckets = table.total.latencies.power_of_two_us();
    let most = buckets.iter().map(|bucket| bucket.count).max().unwrap_or(0);
    let longest = width.saturating_sub(BEFORE_BAR + 1).clamp(1, BAR);
    for bucket in &buckets {
        page.line(&format!(
            "  {:>9} - {:>9}  {:>12.1}  {:>13.3}  |{}",
            bucket.from_us,
            bucket.to_us,
            io.per_second(bucket.count),
            bucket.sum_ns as f64 / 1e6,
            bar(bucket.count, most, longest)
        ));
    }
    page.line("");
    page.line(&format!(
        "  {:<9} {:>9} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "operation", "IOPS", "MB/s", "mean us", "p50 us", "p95 us", "p99 us", "max us"
    ));
    for (operation, requests) in &table.operations {
        render_requests(io, operation.as_str(), requests, page);
    }
    if table.operations.len() > 1 {
        render_requests(io, "all", &table.total, page);
    }
}

fn render_requests(io: &BlockIo, name: &str, requests: &BlockRequests, page: &mut Page) {
    let latencies = &requests.latencies;
    let us = |ns: Option<u64>| ns.map_or_else(|| "-".to_string(), |ns| format!("{:.1}", ns as f64 / 1e3));
    let mean = latencies
        .mean_ns()
        .map(|ns| u64::try_from(ns).unwrap_or(u64::MAX));
    let quantile = |q| us(latencies.quantile(q));
    page.line(&format!(
        "  {name:<9} {:>9.1} {:>8.2} {:>9} {:>9} {:>9} {:>9} {:>9}",
        io.per_second(latencies.count()),
        io.per_second(requests.bytes) / 1e6,
        us(mean),
        quantile(0.5),
        quantile(0.95),
        quantile(0.99),
        us((latencies.count() > 0).then(|| latencies.max_ns())),
    ));
}

fn render_left_out(io: &BlockIo, page: &mut Page) {
    for (disk, count) in &io.left_out {
        page.line(&format!(
            "  not counted: {count} requests of {disk}, which sits on another device (--device {disk} counts \
             them)"
        ));
    }
    if io.without_begin > 0 {
        page.line(&format!(
            "  not counted, on all disks: {} in flight at the start",
            counted(io.without_begin, "request")
        ));
    }
    if io.lost > 0 {
        page.line(&format!(
            "  lost, on all disks: {} could not be counted",
            counted(io.lost, "request")
        ));
    }
}

/// Even a single request is visible.
fn bar(count: u128, most: u128, longest: usize) -> String {
    if count == 0 {
        return String::new();
    }
    let share = count as f64 / most as f64;
    "*".repeat(((share * longest as f64).round() as usize).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_io::tests::row;

    const OPTIONS: BlockIoOptions = BlockIoOptions {
        per_disk: false,
        with_queue: false,
        is_whole: false,
    };

    #[test]
    fn buckets_and_operations_are_per_second() {
        let mut io = BlockIo::new(1_000_000, 2_000_000_000);
        io.add(&row("sda", "read", 100_000, 200));
        io.add(&row("sda", "write", 5_000_000, 1));
        io.add_bytes("sda", "read", 8_000_000);
        let text = render_block_io(&io, OPTIONS, 80);
        assert!(
            text.starts_with("1970-01-01 00:00:01 UTC, 2.000 s, latency from issue until done\n"),
            "{text}"
        );
        let line = |words: &str| {
            let squeezed = text
                .lines()
                .map(|l| l.split_whitespace().collect::<Vec<_>>().join(" "));
            assert!(squeezed.clone().any(|l| l.starts_with(words)), "{words}: {text}");
        };
        line("64 - 128 100.0 20.000 |*************************");
        line("128 - 256 0.0 0.000 |");
        line("4096 - 8192 0.5 5.000 |*");
        line("read 100.0 4.00 100.0 99.8 99.8 99.8 100.0");
        line("write 0.5 0.00 5000.0 5000.0 5000.0 5000.0 5000.0");
        line("all 100.5 4.00 124.4");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn a_disk_with_a_hostile_name_moves_no_cursor() {
        let mut io = BlockIo::new(0, 1);
        io.add(&row("sd\u{1b}[2J\n", "read", 1, 1));
        io.left_out.insert("lo\u{1b}op".to_string(), 3);
        let options = BlockIoOptions {
            per_disk: true,
            ..OPTIONS
        };
        let text = render_block_io(&io, options, 80);
        assert!(text.contains("disk sd?[2J?"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text:?}");
    }

    #[test]
    fn idle_time_and_what_is_not_counted_are_said() {
        let mut io = BlockIo::new(0, 0);
        io.without_begin = 2;
        io.lost = 1;
        let text = render_block_io(&io, OPTIONS, 10);
        for words in ["no requests", "2 requests in flight", "lost, on all disks: 1"] {
            assert!(text.contains(words), "{text}");
        }
    }
}
