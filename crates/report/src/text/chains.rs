//! Who waited behind whom, as trees.

use super::causes::{begin, of_statement, what, with_statement};
use super::page::{Page, Table, percent, time};
use super::quality;
use crate::causes::{CauseReport, Chain, Waiting, no_session};
use crate::number::{counted, seconds};
use crate::sums::percent as percent_of;

pub(super) fn render(report: &CauseReport, page: &mut Page) {
    if !begin(report, page) {
        return;
    }
    page.paragraph(&format!(
        "Blocked DB time: {} s. Each session is listed under the one it waited for; 'behind it' is how long \
         all those below it waited. What is at the left margin was waited for in the end: the times behind \
         it sum to the total.",
        seconds(report.blocked_ns),
    ));
    for chain in report.chains.iter().take(report.top) {
        render_chain(chain, report, page);
    }
    let rest = report.chains.get(report.top..).unwrap_or_default();
    if !rest.is_empty() {
        let ns = rest.iter().map(|chain| chain.behind_ns).sum();
        page.heading(&format!(
            "{}: {} s.",
            counted(rest.len(), "other tree"),
            seconds(ns)
        ));
    }
    quality::problems(&report.problems, page);
}

fn render_chain(chain: &Chain, report: &CauseReport, page: &mut Page) {
    let name = match &chain.who {
        Some(who) => who.to_string(),
        None => no_session(chain.kind).to_string(),
    };
    page.heading(&format!(
        "{name}: {} s, {} % of blocked time",
        seconds(chain.behind_ns),
        percent(percent_of(chain.behind_ns, report.blocked_ns)),
    ));
    let mut table = Table::new(&["session", "was"], &["waited s", "behind it s"]);
    if chain.who.is_some() {
        for (place, part) in chain.doing.iter().take(report.top).enumerate() {
            // The name only goes on the first line: all of them are the same root.
            let name = if place == 0 { name.as_str() } else { "" };
            let did = match &part.root {
                Some(root) => with_statement(what(part), root),
                None => what(part),
            };
            table.row(vec![name.to_string(), did, String::new(), seconds(part.ns)]);
        }
    }
    rows(
        &chain.behind,
        usize::from(chain.who.is_some()),
        report.top,
        &mut table,
    );
    page.table(&table);
}

/// Direct waiters of the same session, and below each of them those behind it.
fn rows(behind: &[Waiting], level: usize, top: usize, table: &mut Table) {
    let indent = match level {
        0 => String::new(),
        level => format!("{}└ ", "  ".repeat(level - 1)),
    };
    for one in behind.iter().take(top) {
        let was = match one.waits.first() {
            Some((wait, statement, _)) => {
                let waited = match &one.lock {
                    Some(lock) => format!("{wait} ({lock})"),
                    None => wait.to_string(),
                };
                of_statement(waited, *statement, one.text.as_deref())
            }
            None => "seen only where others waited for it".to_string(),
        };
        table.row(vec![
            format!("{indent}{}", one.who),
            was,
            seconds(one.ns),
            time(one.behind_ns),
        ]);
        rows(&one.behind, level + 1, top, table);
        if one.beyond.sessions > 0 {
            table.row(vec![
                format!(
                    "{}└ {} behind it",
                    "  ".repeat(level),
                    counted(one.beyond.sessions, "session")
                ),
                String::new(),
                time(one.beyond.ns),
                String::new(),
            ]);
        }
    }
    let rest = behind.get(top..).unwrap_or_default();
    if !rest.is_empty() {
        table.row(vec![
            format!("{indent}{}", counted(rest.len(), "other session")),
            String::new(),
            seconds(rest.iter().map(|one| one.ns).sum()),
            time(rest.iter().map(|one| one.behind_ns).sum()),
        ]);
    }
}
