//! I/O over time, and what is missing in the trace.

use crate::group::{moment, statement_name};
use crate::number::exact_seconds;
use crate::text::page::{Page, Table};
use crate::trace::{Throughput, Trace, TraceFacts};

/// Most rows of I/O over time.
const SPANS: u32 = 20;

/// Most gaps, and calls in flight.
const LINES: usize = 10;

pub(super) fn render(trace: &Trace, page: &mut Page) {
    throughput(&trace.throughput, page);
    if let Some(facts) = &trace.facts {
        gaps(facts, page);
        in_flight(facts, page);
    }
}

fn megabytes(bytes: f64) -> String {
    format!("{:.1}", bytes / f64::from(1 << 20))
}

fn throughput(throughput: &Throughput, page: &mut Page) {
    let spans = throughput.spans(SPANS);
    let Some(span) = spans.first() else { return };
    let width = match span.seconds {
        1 => "by second".to_string(),
        seconds => format!("per second, on average over {seconds} s each"),
    };
    page.heading(&format!(
        "I/O on data files and temporary files {width} (blocks of {} bytes: --block-size sets another size; \
         a read or write is counted in the second in which it ended)",
        throughput.block_bytes
    ));
    let block = throughput.block_bytes as f64;
    let mut table = Table::new(
        &["time (UTC)"],
        &["reads/s", "read MB/s", "writes/s", "written MB/s"],
    );
    for span in &spans {
        let io = &span.sum;
        table.row(vec![
            moment(io.time_us),
            format!("{:.1}", span.per_second(io.reads)),
            megabytes(span.per_second(io.read_blocks) * block),
            format!("{:.1}", span.per_second(io.writes)),
            megabytes(span.per_second(io.written_blocks) * block),
        ]);
    }
    page.table(&table);
    let sum = throughput.sum();
    let mut text = format!(
        "In all {} reads of {} MB, {} writes of {} MB.",
        sum.reads,
        megabytes(sum.read_blocks as f64 * block),
        sum.writes,
        megabytes(sum.written_blocks as f64 * block)
    );
    if let Some(busiest) = throughput.busiest() {
        text += &format!(
            " The busiest second was {} with {} MB read, {} MB written.",
            moment(busiest.time_us),
            megabytes(busiest.read_blocks as f64 * block),
            megabytes(busiest.written_blocks as f64 * block)
        );
    }
    page.paragraph(&text);
}

fn gaps(facts: &TraceFacts, page: &mut Page) {
    if facts.gaps == 0 {
        return;
    }
    page.heading(&format!(
        "Gaps (stretches of a second or more that no line covers): {}, {} s in all; the longest:",
        facts.gaps,
        exact_seconds(i128::try_from(facts.gaps_us).unwrap_or(i128::MAX))
    ));
    let mut table = Table::new(&["from (UTC)", "session", "file"], &["seconds", "ends at line"]);
    for gap in facts.longest_gaps.iter().take(LINES) {
        table.row(vec![
            moment(gap.gap.from_us),
            gap.gap.session.clone(),
            gap.path.clone(),
            exact_seconds(gap.gap.us.into()),
            gap.gap.line.to_string(),
        ]);
    }
    page.table(&table);
}

fn in_flight(facts: &TraceFacts, page: &mut Page) {
    if facts.in_flight.is_empty() {
        return;
    }
    page.heading(
        "Calls in flight: their end is not in the trace. Their waits, and the calls in them that had ended, \
         are counted; their own CPU and the rest of their elapsed time are not.",
    );
    let mut table = Table::new(
        &["statement", "session", "file"],
        &[
            "cursor",
            "depth",
            "waits",
            "wait seconds",
            "calls in it",
            "last line",
        ],
    );
    for one in facts.in_flight.iter().take(LINES) {
        let call = &one.call;
        table.row(vec![
            statement_name(call.statement, one.sql_id.as_deref(), one.hash_value),
            call.session.clone(),
            one.path.clone(),
            call.cursor.to_string(),
            call.depth
                .map_or_else(|| "?".to_string(), |depth| depth.to_string()),
            call.waits.to_string(),
            exact_seconds(call.wait_us.into()),
            call.calls.to_string(),
            call.line.to_string(),
        ]);
    }
    page.table(&table);
    if facts.in_flight.len() > LINES {
        page.line(&format!("  {} others", facts.in_flight.len() - LINES));
    }
}
