//! Locks of the server's lock table that were waited for, in one line.

use crate::locks::LockShare;
use crate::number::{counted, seconds};

/// Locks that are named.
const MOST: usize = 3;
/// Unknown time is mentioned if it is at least one in this many parts.
const MANY: u128 = 1_000;

/// `relation public.orders in shop: 4.213 s, 2 others: 0.310 s`. None: no lock is known.
pub(super) fn line(locks: &[LockShare]) -> Option<String> {
    let named = locks.iter().take(MOST);
    let mut parts: Vec<String> = named
        .map(|share| format!("{}: {} s", share.lock, seconds(share.ns)))
        .collect();
    let rest = locks.get(MOST..).unwrap_or_default();
    if !rest.is_empty() {
        let ns = rest.iter().map(|share| share.ns).sum();
        parts.push(format!("{}: {} s", counted(rest.len(), "other"), seconds(ns)));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The same for a wait for locks that took `all_ns`, with what is not known.
pub(super) fn line_of_all(locks: &[LockShare], all_ns: u128) -> Option<String> {
    let mut line = line(locks)?;
    let known: u128 = locks.iter().map(|share| share.ns).sum();
    let not_known = all_ns.saturating_sub(known);
    if not_known * MANY >= all_ns {
        line.push_str(&format!(", [not known]: {} s", seconds(not_known)));
    }
    Some(line)
}
