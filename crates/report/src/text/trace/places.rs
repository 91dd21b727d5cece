//! Waits by object and by file.

use super::mean_us;
use crate::number::exact_seconds;
use crate::text::page::{Page, Table};
use crate::trace::{Trace, WaitPlace};

pub(super) fn render(trace: &Trace, page: &mut Page) {
    table(
        "Waits by object (obj# of waits for blocks and rows; exact; look it up as dba_objects.object_id or \
         data_object_id)",
        "obj#",
        &trace.objects,
        trace.options.top,
        page,
    );
    table(
        "Waits by file (file# of the same waits; exact; numbers beyond those of dba_data_files are temporary files)",
        "file#",
        &trace.database_files,
        trace.options.top,
        page,
    );
}

fn table(heading: &str, head: &str, places: &[WaitPlace], top: usize, page: &mut Page) {
    if places.is_empty() {
        return;
    }
    page.heading(heading);
    let mut table = Table::new(&[head, "event"], &["waits", "blocks", "seconds", "mean us"]);
    for place in places.iter().take(top) {
        let number = match place.number {
            -1 => "none".to_string(),
            number => number.to_string(),
        };
        table.row(vec![
            number,
            place.event.clone(),
            place.waits.to_string(),
            place.blocks.to_string(),
            exact_seconds(place.us),
            mean_us(place.us.unsigned_abs(), place.waits.unsigned_abs()),
        ]);
    }
    page.table(&table);
    if places.len() > top {
        page.line(&format!("  {} others: --top N shows more", places.len() - top));
    }
}
