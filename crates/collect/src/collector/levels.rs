//! How much memory sessions have now: a level, which is no growth and adds up with none.

use std::collections::{HashMap, HashSet};

use dbtime_model::counter::{self, level};
use dbtime_model::{CounterRow, SessionId};

use super::Collector;
use crate::process;

/// What /proc/PID/status calls them.
const NAMES: [(&str, &str); 2] = [("RssAnon", level::RSS_ANON_BYTES), ("VmSwap", level::SWAP_BYTES)];

impl Collector {
    /// Of which processes the sessions are that are recorded now.
    pub fn processes(&self) -> HashMap<SessionId, u32> {
        let sessions = self.sessions.iter();
        sessions
            .flat_map(|(pid, session)| session.ids().map(|id| (id, *pid)))
            .collect()
    }
}

/// Those of the sessions with these ids, as rows of this second (microseconds since the Unix epoch). Of one that has ended, or that the
/// kernel does not tell of, none.
pub fn levels(processes: &HashMap<SessionId, u32>, of: &HashSet<SessionId>, time: i64) -> Vec<CounterRow> {
    let wanted = of.iter().filter_map(|id| Some((*id, *processes.get(id)?)));
    wanted
        .flat_map(|(session, pid)| {
            let status = std::fs::read_to_string(process::path(pid, "status")).unwrap_or_default();
            let found = NAMES.map(|(name, counted)| Some((counted, bytes(&status, name)?)));
            found.into_iter().flatten().map(move |(name, bytes)| CounterRow {
                time,
                session,
                source: counter::LEVEL.to_string(),
                name: name.to_string(),
                value: bytes,
                ..CounterRow::default()
            })
        })
        .collect()
}

/// `RssAnon:      1234 kB`
fn bytes(status: &str, name: &str) -> Option<i64> {
    let value = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kilobytes: i64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_in_bytes_and_missing_ones_are_none() {
        let status = "Name:\tRssAnon: 5 kB\nVmRSS:\t  900 kB\nRssAnon:\t     312 kB\nVmSwap:\t       0 kB\n";
        assert_eq!(bytes(status, "RssAnon"), Some(312 * 1024));
        assert_eq!(bytes(status, "VmSwap"), Some(0));
        for text in ["", "VmSwap:\tmuch\n", "VmSwap:\t9223372036854775807 kB\n"] {
            assert_eq!(bytes(text, "VmSwap"), None, "{text}");
        }
    }
}
