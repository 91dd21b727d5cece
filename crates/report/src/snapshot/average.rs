//! Growth in relation to other growth of the same session: per call, per execution. Those for Oracle's statistics are Snapper's, in
//! its words; what it prints in hundredths of a second, or guesses, is shown `per execution`, as in its older versions.

use std::collections::BTreeMap;

use arcstr::ArcStr;
use dbtime_model::counter::task;

use super::LineUnit;

/// A number next to a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Average {
    /// None if there was nothing to divide by.
    pub value: Option<f64>,
    /// Unit of the value.
    pub unit: LineUnit,
    /// What it is, in words.
    pub what: &'static str,
}

/// Growth of a session's statistics by name.
type Stats = BTreeMap<ArcStr, i128>;

/// What the kernel counts: what is shown per call, what it is divided by, and what that is called.
const OF_TASK: [(&str, &str, &str); 2] = [
    (task::RCHAR, task::SYSCR, "per call"),
    (task::WCHAR, task::SYSCW, "per call"),
];

const ROUNDTRIPS: &str = "bytes per roundtrip";
const REQUEST: &str = "bytes per request";

/// Oracle's statistics: what is divided by what.
const DIVIDED: [(&str, &str, &str); 7] = [
    (
        "bytes sent via SQL*Net to client",
        "SQL*Net roundtrips to/from client",
        ROUNDTRIPS,
    ),
    (
        "bytes received via SQL*Net from client",
        "SQL*Net roundtrips to/from client",
        ROUNDTRIPS,
    ),
    (
        "bytes sent via SQL*Net to dblink",
        "SQL*Net roundtrips to/from dblink",
        ROUNDTRIPS,
    ),
    (
        "bytes received via SQL*Net from dblink",
        "SQL*Net roundtrips to/from dblink",
        ROUNDTRIPS,
    ),
    ("redo size", "user commits", "bytes per user commit"),
    ("execute count", "parse count (total)", "executions per parse"),
    (
        "parse count (total)",
        "parse count (hard)",
        "softparses per hardparse",
    ),
];

/// Statistics that something else is divided by.
const DIVIDING: [(&str, &str, &str); 4] = [
    ("physical read IO requests", "physical read bytes", REQUEST),
    (
        "physical read total IO requests",
        "physical read total bytes",
        REQUEST,
    ),
    ("physical write IO requests", "physical write bytes", REQUEST),
    (
        "physical write total IO requests",
        "physical write total bytes",
        REQUEST,
    ),
];

const LOGICAL_READS: &str = "session logical reads";
const PINNED: &str = "buffer is pinned count";

/// For a statistic that the kernel counts.
pub(super) fn of_task(name: &str, growth: i128, unit: LineUnit, stats: &Stats) -> Option<Average> {
    let (_, per, what) = OF_TASK.iter().find(|(of, ..)| *of == name)?;
    let events = grown(stats, per);
    (events > 0).then(|| Average {
        value: ratio(growth, events),
        unit,
        what,
    })
}

/// For a statistic of Oracle.
pub(super) fn of_oracle(name: &str, growth: i128, stats: &Stats) -> Average {
    let named = |of: &(&str, &str, &'static str)| of.0 == name;
    let (value, what) = if let Some((_, by, what)) = DIVIDED.iter().find(|of| named(of)) {
        (ratio(growth, grown(stats, by)), *what)
    } else if let Some((_, of, what)) = DIVIDING.iter().find(|of| named(of)) {
        (ratio(grown(stats, of), growth), *what)
    } else {
        match name {
            LOGICAL_READS => (
                Some((growth + grown(stats, PINNED)) as f64),
                "total buffer visits",
            ),
            PINNED => (
                ratio(100 * growth, growth + grown(stats, LOGICAL_READS)),
                "% buffer gets avoided thanks to buffer pin caching",
            ),
            "session cursor cache hits" => (
                Some((growth - grown(stats, "parse count (total)")) as f64),
                "softparses avoided thanks to cursor cache",
            ),
            _ => (ratio(growth, grown(stats, "execute count")), "per execution"),
        }
    };
    Average {
        value,
        unit: LineUnit::Amount,
        what,
    }
}

/// For all the time that Oracle counts for a session: what part of the snapshot's time is neither that nor an idle wait. None for
/// parts of it.
pub(super) fn of_oracle_time(name: &str, ns: i128, idle_ns: u128, elapsed_ns: u128) -> Option<Average> {
    if !["DB time", "background elapsed time"].contains(&name) {
        return None;
    }
    let known = ns as f64 + idle_ns as f64;
    let elapsed = elapsed_ns as f64;
    Some(Average {
        value: (elapsed_ns > 0).then(|| (elapsed - known) / elapsed * 100.0),
        unit: LineUnit::Amount,
        what: "% unaccounted time",
    })
}

fn grown(stats: &Stats, name: &str) -> i128 {
    stats.get(name).copied().unwrap_or(0)
}

fn ratio(of: i128, by: i128) -> Option<f64> {
    (by != 0).then(|| of as f64 / by as f64)
}
