//! The own time of each statement by event.

use super::mean_us;
use crate::group::statement_name;
use crate::number::exact_seconds;
use crate::sums;
use crate::text::page::{Page, Table, percent};
use crate::trace::Trace;

/// Most events of a statement.
const EVENTS: usize = 8;

pub(super) fn render(trace: &Trace, page: &mut Page) {
    let shown = &trace.profiles[..trace.profiles.len().min(trace.options.top)];
    if shown.is_empty() {
        return;
    }
    page.heading(
        "Own time of statements by event (seconds, exact; without the statements called inside; 100 % = \
         without idle waits, which are listed separately)",
    );
    let mut table = Table::new(&["statement", "event", ""], &["count", "seconds", "%", "mean us"]);
    for profile in shown {
        let mut name = statement_name(profile.id, profile.sql_id.as_deref(), profile.hash_value);
        let whole = profile.busy_us();
        let (busy, idle): (Vec<_>, Vec<_>) = profile.events.iter().partition(|event| !event.idle);
        let others = busy.len().saturating_sub(EVENTS);
        for event in busy.iter().take(EVENTS).chain(&idle) {
            let (share, count, mean) = match (event.idle, event.is_wait) {
                (_, false) => (
                    percent(sums::percent(event.us, whole)),
                    String::new(),
                    String::new(),
                ),
                (idle, true) => (
                    if idle {
                        String::new()
                    } else {
                        percent(sums::percent(event.us, whole))
                    },
                    event.count.to_string(),
                    mean_us(event.us, event.count),
                ),
            };
            let event_name = match event.name.as_str() {
                "unaccounted" => "[unaccounted]",
                name => name,
            };
            table.row(vec![
                std::mem::take(&mut name),
                event_name.to_string(),
                if event.idle { "idle" } else { "" }.to_string(),
                count,
                exact_seconds(i128::try_from(event.us).unwrap_or(i128::MAX)),
                share,
                mean,
            ]);
        }
        if others > 0 {
            let us: u128 = busy.iter().skip(EVENTS).map(|event| event.us).sum();
            table.row(vec![
                String::new(),
                format!("{others} other events"),
                String::new(),
                String::new(),
                exact_seconds(i128::try_from(us).unwrap_or(i128::MAX)),
                percent(sums::percent(us, whole)),
                String::new(),
            ]);
        }
    }
    page.table(&table);
    if trace.profiles.len() > shown.len() {
        page.line(&format!(
            "  {} others: --top N shows more",
            trace.profiles.len() - shown.len()
        ));
    }
}
