//! The report of time.

use std::collections::BTreeMap;

use dbtime_model::recording::BytesRead;
use serde::Serialize;

use super::Head;
use super::trace::TraceJson;
use crate::connecting::Connecting;
use crate::cost_of_looking::CostOfLooking;
use crate::database_view::DatabaseView;
use crate::group::Dimension;
use crate::ledger::{Ledger, LedgerRow, Rest, Section};
use crate::quality::Quality;
use crate::report::Report;
use crate::saturation::Saturation;
use crate::sched::Sched;
use crate::sessions::SessionTime;
use crate::stacks::StackTime;
use crate::statement_counts::{CountedStatement, StatementCounts};
use crate::sums::FidelityMix;
use crate::system_calls::SystemCalls;
use crate::top_sql::StatementTime;
use crate::transactions::EndedTransactions;
use crate::waits_in_calls::WaitsInCalls;

#[derive(Serialize)]
pub(super) struct Document<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    /// What was read from a store for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<ReadJson>,
    db_time_ns: u128,
    aas: Option<f64>,
    /// Of `db_time_ns`, of sessions too short to be sampled individually: divided by samples of others of their kind.
    pooled_ns: u128,
    #[serde(skip_serializing_if = "Option::is_none")]
    connecting: Option<&'a Connecting>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transactions: Option<&'a EndedTransactions>,
    /// How long sessions of clients waited for a CPU.
    saturation: Option<&'a Saturation>,
    by: Vec<&'static str>,
    /// Those of `by` that the recording has no data for.
    not_recorded: Vec<&'static str>,
    ledger: Vec<LedgerJson<'a>>,
    database_view: &'a DatabaseView,
    /// DB time by statement.
    #[serde(skip_serializing_if = "Option::is_none")]
    statements: Option<&'a [StatementTime]>,
    /// Executions of statements, if they were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    statement_counts: Option<StatementCountsJson>,
    sessions: &'a [SessionTime],
    stacks: &'a [StackTime],
    other_stacks: usize,
    other_stacks_ns: u128,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<TraceJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sched: Option<&'a Sched>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_calls: Option<&'a SystemCalls>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "beside")]
    waits_in_calls: Option<&'a WaitsInCalls>,
    /// How much of it is due to the tool that recorded it, according to a calibration of the host.
    cost_of_looking: Option<&'a CostOfLooking>,
    quality: &'a Quality,
}

/// All statements together; `statements` has what is known about each.
#[derive(Serialize)]
struct StatementCountsJson {
    source: &'static str,
    #[serde(flatten)]
    all: CountedStatement,
    /// Of these, those whose statement is not known.
    of_unknown: CountedStatement,
    /// Some are missing, or not known by statement: the number of each statement is a lower bound.
    at_least: bool,
    evictions: i64,
    resets: i64,
    /// Single events that are missing, if commands are counted.
    latencies_lost: u64,
}

impl StatementCountsJson {
    fn of(counts: &StatementCounts) -> Option<StatementCountsJson> {
        (!counts.is_empty()).then(|| StatementCountsJson {
            source: counts.by().as_str(),
            all: counts.all(),
            of_unknown: counts.of_unknown(),
            at_least: counts.are_at_least(),
            evictions: counts.evictions(),
            resets: counts.resets(),
            latencies_lost: counts.events_lost(),
        })
    }
}

#[derive(Serialize)]
struct ReadJson {
    read_bytes: u64,
    bytes: u64,
}

impl From<BytesRead> for ReadJson {
    fn from(BytesRead { read, all }: BytesRead) -> ReadJson {
        ReadJson {
            read_bytes: read,
            bytes: all,
        }
    }
}

#[derive(Serialize)]
struct LedgerJson<'a> {
    section: &'static str,
    idle: bool,
    /// The session waited for its client while its transaction was open.
    in_transaction: bool,
    group: BTreeMap<&'static str, &'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_class: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_event: Option<&'a str>,
    user_ns: u128,
    kernel_ns: u128,
    runnable_ns: u128,
    disk_ns: u128,
    sleep_ns: u128,
    /// Of `other_ns`, on a CPU, mode not known.
    cpu_ns: u128,
    other_ns: u128,
    total_ns: u128,
    /// Of `total_ns`, of sessions too short to be sampled individually: divided by samples of others of their kind.
    pooled_ns: u128,
    samples: u128,
    fidelity: Option<FidelityMix>,
}

impl<'a> From<&'a Report> for Document<'a> {
    fn from(report: &'a Report) -> Document<'a> {
        Document {
            head: Head::of(&report.meta, report.period),
            store: report.read.map(ReadJson::from),
            db_time_ns: report.db_time_ns(),
            aas: report.average_active_sessions(),
            pooled_ns: report.ledger.sum(Section::DbTime).pooled_ns(),
            connecting: report.connecting.as_ref(),
            transactions: report.transactions.as_ref(),
            saturation: report.saturation.as_ref(),
            by: report.ledger.by.iter().map(|by| by.as_str()).collect(),
            not_recorded: report
                .ledger
                .not_recorded()
                .iter()
                .map(|by| by.as_str())
                .collect(),
            ledger: report
                .ledger
                .rows
                .iter()
                .map(|row| ledger_row(&report.ledger, row))
                .collect(),
            database_view: &report.database_view,
            statements: report.top_sql.as_ref().ok().map(|top| &*top.statements),
            statement_counts: report
                .top_sql
                .as_ref()
                .ok()
                .and_then(|top| StatementCountsJson::of(&top.counts)),
            sessions: &report.sessions.0,
            stacks: &report.stacks.top,
            other_stacks: report.stacks.others,
            other_stacks_ns: report.stacks.others_ns,
            trace: report.trace.as_ref().map(TraceJson::from),
            sched: report.sched.as_ref(),
            system_calls: report.system_calls.as_ref(),
            waits_in_calls: report.waits_in_calls.as_ref(),
            cost_of_looking: report.cost_of_looking.as_ref(),
            quality: &report.quality,
        }
    }
}

fn ledger_row<'a>(ledger: &Ledger, row: &'a LedgerRow) -> LedgerJson<'a> {
    use dbtime_model::State;
    let group: BTreeMap<&'static str, &str> = ledger
        .by
        .iter()
        .map(|by| by.as_str())
        .zip(row.labels.iter().map(String::as_str))
        .collect();
    LedgerJson {
        section: row.section.as_str(),
        idle: row.rest.is_idle(),
        in_transaction: row.rest == Rest::IdleInTransaction,
        wait_class: row
            .wait
            .as_ref()
            .map(|wait| &*wait.class)
            .or_else(|| group.get(Dimension::WaitClass.as_str()).copied()),
        wait_event: row.wait.as_ref().map(|wait| &*wait.event),
        group,
        user_ns: row.sums.state_ns(State::User),
        kernel_ns: row.sums.state_ns(State::Kernel),
        runnable_ns: row.sums.state_ns(State::Runnable),
        disk_ns: row.sums.state_ns(State::Disk),
        sleep_ns: row.sums.state_ns(State::Sleep),
        cpu_ns: row.sums.state_ns(State::Cpu),
        other_ns: row.sums.other_ns(),
        total_ns: row.sums.total_ns(),
        pooled_ns: row.sums.pooled_ns(),
        samples: row.sums.samples,
        fidelity: row.sums.fidelity(),
    }
}
