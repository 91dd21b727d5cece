//! Who had the server's internal locks.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Head;
use crate::group::known_query_id;
use crate::latches::{Holding, Latch, LatchReport, SingleLatch};

#[derive(Serialize)]
pub(super) struct Document<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    /// False: the recording does not say who had internal locks.
    recorded: bool,
    /// Time of sessions that were not idle; and of that, time of which it is not known which locks they had.
    active_ns: u128,
    not_known_ns: u128,
    latches: Vec<LatchJson<'a>>,
    /// By the columns that were asked for; none: none were.
    profile: Option<Vec<ProfileJson<'a>>>,
    problems: &'a [String],
}

#[derive(Serialize)]
struct ProfileJson<'a> {
    /// By the names of the columns; none: not known.
    group: BTreeMap<&'static str, Option<&'a str>>,
    ns: u128,
    samples: u128,
}

#[derive(Serialize)]
struct LatchJson<'a> {
    name: &'a str,
    held_ns: u128,
    exclusive_ns: u128,
    shared_ns: u128,
    /// Of `held_ns`, while those who had them waited for a CPU, and were blocked.
    run_queue_ns: u128,
    blocked_ns: u128,
    waited_ns: u128,
    waiters: usize,
    /// They sum to `held_ns`.
    single: Vec<SingleJson>,
    /// They sum to `held_ns`, too.
    holders: Vec<HoldingJson<'a>>,
}

#[derive(Serialize)]
struct SingleJson {
    /// Which of those of the same name; none: the database does not number them.
    number: Option<u32>,
    /// In the server's memory; none: not known.
    address: Option<String>,
    ns: u128,
}

#[derive(Serialize)]
struct HoldingJson<'a> {
    pids: Vec<u32>,
    backend_type: &'a str,
    query: Option<String>,
    text: Option<&'a str>,
    exclusive: bool,
    wait: String,
    state: &'static str,
    /// Innermost functions outside of the kernel. Of time without a stack there are none.
    code: Vec<CodeJson<'a>>,
    ns: u128,
}

#[derive(Serialize)]
struct CodeJson<'a> {
    functions: Vec<&'a str>,
    ns: u128,
}

impl<'a> From<&'a LatchReport> for Document<'a> {
    fn from(report: &'a LatchReport) -> Document<'a> {
        let meta = &report.meta;
        Document {
            head: Head::of(&report.meta, report.period),
            recorded: meta.database.held_locks,
            active_ns: report.active_ns,
            not_known_ns: report.not_known_ns,
            latches: report.latches.iter().map(LatchJson::from).collect(),
            profile: (!report.columns.is_empty()).then(|| profile(report)),
            problems: &report.problems,
        }
    }
}

fn known(cell: &str) -> Option<&str> {
    (!cell.is_empty()).then_some(cell)
}

fn profile(report: &LatchReport) -> Vec<ProfileJson<'_>> {
    let names = || report.columns.iter().map(|column| column.as_str());
    let rows = report.profile.iter().map(|row| ProfileJson {
        group: names().zip(row.cells.iter().map(|cell| known(cell))).collect(),
        ns: row.ns,
        samples: row.samples,
    });
    rows.collect()
}

impl<'a> From<&'a Latch> for LatchJson<'a> {
    fn from(latch: &'a Latch) -> LatchJson<'a> {
        LatchJson {
            name: &latch.name,
            held_ns: latch.held_ns(),
            exclusive_ns: latch.exclusive_ns,
            shared_ns: latch.shared_ns,
            run_queue_ns: latch.queued_ns,
            blocked_ns: latch.blocked_ns,
            waited_ns: latch.waited_ns,
            waiters: latch.waiters,
            single: latch.single.iter().map(SingleJson::from).collect(),
            holders: latch.holdings.iter().map(HoldingJson::from).collect(),
        }
    }
}

impl From<&SingleLatch> for SingleJson {
    fn from(latch: &SingleLatch) -> SingleJson {
        SingleJson {
            number: latch.number,
            address: (latch.address != 0).then(|| format!("{:#x}", latch.address)),
            ns: latch.ns,
        }
    }
}

impl<'a> From<&'a Holding> for HoldingJson<'a> {
    fn from(holding: &'a Holding) -> HoldingJson<'a> {
        let code = |(functions, ns): &'a (Vec<std::sync::Arc<str>>, u128)| CodeJson {
            functions: functions.iter().map(AsRef::as_ref).collect(),
            ns: *ns,
        };
        HoldingJson {
            pids: holding.pids.iter().copied().collect(),
            backend_type: &holding.backend_type,
            query: known_query_id(holding.statement),
            text: holding.text.as_deref(),
            exclusive: holding.exclusive,
            wait: holding.wait.to_string(),
            state: holding.state.as_str(),
            code: holding.code.iter().map(code).collect(),
            ns: holding.ns,
        }
    }
}
