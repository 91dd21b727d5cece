//! Whom sessions waited for, and whom those waited for in turn: shown below a wait.

use dbtime_model::CauseKind;

use super::causes::session;
use super::page::{Page, Table, percent};
use crate::causes::{ChainLink, doing, no_session};
use crate::number::{counted, seconds};
use crate::sums::percent as percent_of;

/// `all_ns`: time of the wait.
pub(super) fn render(links: &[ChainLink], all_ns: u128, top: usize, page: &mut Page) {
    let mut table = Table::new(&["waited for", "which was"], &["s", "%"]);
    rows(links, 0, all_ns, top, &mut table);
    page.table(&table);
}

fn rows(links: &[ChainLink], level: usize, all_ns: u128, top: usize, table: &mut Table) {
    for link in links.iter().take(top) {
        let (who, was) = match &link.did {
            Some(did) => (
                session(did, link.sessions),
                doing(link.end, did.session_state, &did.wait, did.state),
            ),
            None => (
                no_session(link.end.unwrap_or(CauseKind::Unknown)).to_string(),
                String::new(),
            ),
        };
        table.row(row(level, &who, was, link.ns, all_ns));
        rows(&link.further, level + 1, all_ns, top, table);
        if link.beyond_ns > 0 {
            table.row(row(
                level + 1,
                "further on",
                String::new(),
                link.beyond_ns,
                all_ns,
            ));
        }
    }
    let rest = links.get(top..).unwrap_or_default();
    if !rest.is_empty() {
        let ns = rest.iter().map(|link| link.ns).sum();
        let other = counted(rest.len(), "other");
        table.row(row(level, &other, String::new(), ns, all_ns));
    }
}

fn row(level: usize, who: &str, was: String, ns: u128, all_ns: u128) -> Vec<String> {
    let indent = match level {
        0 => String::new(),
        level => format!("{}└ ", "  ".repeat(level - 1)),
    };
    vec![
        format!("{indent}{who}"),
        was,
        seconds(ns),
        percent(percent_of(ns, all_ns)),
    ]
}
