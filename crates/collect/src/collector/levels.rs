//! How much memory sessions have now: a level, which is not a growth and must not be summed.

use std::collections::{HashMap, HashSet};

use arcstr::literal;
use dbtime_model::counter::{self, level};
use dbtime_model::{CounterRow, SessionId};

use super::Collector;
use crate::clock::{TICK_NS, monotonic_at_tick};
use crate::process;

/// What /proc/PID/status calls them.
const NAMES: [(&str, &str); 2] = [("RssAnon", level::RSS_ANON_BYTES), ("VmSwap", level::SWAP_BYTES)];

/// The process that a session is.
#[derive(Debug, Clone, Copy)]
pub struct SessionProcess {
    pid: u32,
    /// When it began, CLOCK_MONOTONIC: another process may have its pid by the time it is read.
    start_ns: u64,
}

impl SessionProcess {
    /// Its /proc/PID/status, if the process is still there.
    fn status(self) -> Option<String> {
        let status = std::fs::read_to_string(process::path(self.pid, "status")).ok()?;
        // Checked afterwards: whoever has the pid now had it when the file was read, or came later.
        let began_ns = monotonic_at_tick(process::start_ticks(self.pid)?);
        (began_ns <= self.start_ns.saturating_add(TICK_NS)).then_some(status)
    }
}

impl Collector {
    /// The processes of the wanted ones of the sessions that are recorded now and have not ended.
    pub fn processes(&self, is_wanted: impl Fn(SessionId) -> bool) -> HashMap<SessionId, SessionProcess> {
        let live = self.sessions.values().filter(|session| session.end.is_none());
        let known = live.filter_map(|session| Some((session, session.start_ns()?)));
        known
            .flat_map(|(session, start_ns)| {
                let process = SessionProcess {
                    pid: session.pid,
                    start_ns,
                };
                session.ids().map(move |id| (id, process))
            })
            .filter(|(id, _)| is_wanted(*id))
            .collect()
    }
}

/// The levels of the sessions with these ids, as rows of this second (microseconds since the Unix epoch). None for one that has ended, or
/// that the kernel does not report.
pub fn levels(
    processes: &HashMap<SessionId, SessionProcess>,
    of: &HashSet<SessionId>,
    time: i64,
) -> Vec<CounterRow> {
    let wanted = of.iter().filter_map(|id| Some((*id, *processes.get(id)?)));
    wanted
        .flat_map(|(session, process)| {
            let status = process.status().unwrap_or_default();
            let found = NAMES.map(|(name, counted)| Some((counted, bytes(&status, name)?)));
            found.into_iter().flatten().map(move |(name, bytes)| CounterRow {
                time,
                session,
                source: literal!(counter::LEVEL),
                name: name.into(),
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
    use crate::clock::monotonic_ns;

    #[test]
    fn a_process_that_began_after_the_session_is_another_one() {
        let of = SessionId(7);
        let pid = std::process::id();
        let names = |pid, start_ns| -> Vec<String> {
            let processes = HashMap::from([(of, SessionProcess { pid, start_ns })]);
            let rows = levels(&processes, &HashSet::from([of, SessionId(8)]), 0);
            assert!(rows.iter().all(|row| row.session == of && row.value >= 0));
            rows.into_iter().map(|row| row.name.to_string()).collect()
        };
        let both = [level::RSS_ANON_BYTES, level::SWAP_BYTES];
        let began_ns = monotonic_at_tick(process::start_ticks(pid).expect("it runs"));
        assert_eq!(names(pid, began_ns), both);
        assert_eq!(names(pid, monotonic_ns()), both);
        // The session had this pid before this process had it.
        assert_eq!(names(pid, began_ns - 2 * TICK_NS), [""; 0]);
        // No process has the largest possible pid.
        assert_eq!(names(u32::MAX, monotonic_ns()), [""; 0]);
    }

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
