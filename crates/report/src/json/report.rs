//! The report of time.

use std::collections::BTreeMap;

use dbtime_model::recording::{BytesRead, Note};
use serde::Serialize;

use super::Head;
use super::trace::TraceJson;
use crate::beside::Beside;
use crate::connecting::Connecting;
use crate::cost_of_looking::CostOfLooking;
use crate::database_view::{DatabaseView, EventView};
use crate::fields::timestamp;
use crate::filter::SECOND_US;
use crate::group::Dimension;
use crate::ledger::{Ledger, LedgerRow, Rest, Section};
use crate::quality::{Probe, Quality};
use crate::report::Report;
use crate::saturation::Saturation;
use crate::sched::Sched;
use crate::sessions::SessionTime;
use crate::stacks::StackTime;
use crate::sums::FidelityMix;
use crate::system_calls::SystemCalls;
use crate::top_sql::StatementTime;

#[derive(Serialize)]
pub(super) struct Document<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    /// What was read of a store for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<ReadJson>,
    db_time_ns: u128,
    aas: Option<f64>,
    /// Of `db_time_ns`, of sessions too short to be sampled each: split by the samples of others of their kind.
    pooled_ns: u128,
    #[serde(skip_serializing_if = "Option::is_none")]
    connecting: Option<&'a Connecting>,
    /// How long sessions of clients waited for a CPU.
    saturation: Option<SaturationJson>,
    by: Vec<&'static str>,
    /// Of `by`, what the recording knows nothing of.
    not_recorded: Vec<&'static str>,
    ledger: Vec<LedgerJson<'a>>,
    database_view: DatabaseViewJson<'a>,
    /// DB time by statement.
    #[serde(skip_serializing_if = "Option::is_none")]
    statements: Option<&'a [StatementTime]>,
    sessions: Vec<SessionJson<'a>>,
    stacks: Vec<StackJson<'a>>,
    other_stacks: usize,
    other_stacks_ns: u128,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<TraceJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sched: Option<&'a Sched>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_calls: Option<&'a SystemCalls>,
    #[serde(skip_serializing_if = "Option::is_none")]
    beside: Option<&'a Beside>,
    /// How much of it is the tool that recorded it, by a calibration of the host.
    cost_of_looking: Option<&'a CostOfLooking>,
    quality: QualityJson<'a>,
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
struct SaturationJson {
    cpus: u32,
    is_saturated: bool,
    after_command_ns: u128,
    run_queue_ns: u128,
    run_queue_sessions: Option<f64>,
    sentence: Option<String>,
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
    /// Of `total_ns`, of sessions too short to be sampled each: split by the samples of others of their kind.
    pooled_ns: u128,
    samples: u128,
    fidelity: Option<&'static str>,
}

#[derive(Serialize)]
struct DatabaseViewJson<'a> {
    db_time_ns: u128,
    cpu_ns: u128,
    wait_ns: u128,
    percent_of_db_time: Option<f64>,
    double_counted_ns: u128,
    cpu_inside_idle_waits_ns: u128,
    run_queue_inside_idle_waits_ns: u128,
    run_queue_outside_waits_ns: u128,
    blocked_outside_waits_ns: u128,
    state_unknown_outside_waits_ns: u128,
    wait_unknown_off_cpu_ns: u128,
    fidelity: Option<&'static str>,
    explanation: &'a str,
    by_event: Vec<EventJson<'a>>,
}

#[derive(Serialize)]
struct EventJson<'a> {
    wait_class: &'a str,
    wait_event: &'a str,
    wait_ns: u128,
    cpu_inside_ns: u128,
    kernel_inside_ns: u128,
    run_queue_inside_ns: u128,
    blocked_inside_ns: u128,
    state_unknown_inside_ns: u128,
    fidelity: Option<&'static str>,
}

#[derive(Serialize)]
struct SessionJson<'a> {
    /// Text, because not every reader keeps 64 bits of a number.
    id: String,
    pid: Option<u32>,
    backend_type: &'a str,
    user: &'a str,
    database: &'a str,
    client: &'a str,
    application: &'a str,
    service: &'a str,
    module: &'a str,
    action: &'a str,
    client_id: &'a str,
    sid: &'a str,
    leader_pid: Option<u32>,
    elapsed_ns: Option<u128>,
    on_cpu_ns: Option<u128>,
    run_queue_ns: Option<u128>,
    blocked_ns: Option<u128>,
    accounted_ns: u128,
    active_ns: u128,
    unsampled_ns: u128,
    samples: u128,
    torn: u128,
    torn_stacks: u128,
    displaced: u128,
    waits_not_read: u128,
    first_second: Option<String>,
    last_second: Option<String>,
}

#[derive(Serialize)]
struct StackJson<'a> {
    wait_class: &'a str,
    wait_event: &'a str,
    state: &'static str,
    user: &'a [String],
    kernel: &'a [String],
    ns: u128,
    percent: f64,
    pooled_ns: u128,
    samples: u128,
    fidelity: Option<&'static str>,
}

#[derive(Serialize)]
struct ProbeJson<'a> {
    name: &'a str,
    runs: u64,
    mean_ns: Option<f64>,
}

impl<'a> From<&'a Probe> for ProbeJson<'a> {
    fn from(probe: &'a Probe) -> ProbeJson<'a> {
        ProbeJson {
            name: &probe.name,
            runs: probe.runs,
            mean_ns: probe.mean_ns,
        }
    }
}

#[derive(Serialize)]
struct QualityJson<'a> {
    complete: bool,
    samples: u128,
    torn: u128,
    torn_stacks: u128,
    displaced: u128,
    lost: u128,
    waits_not_read: u128,
    unsampled_ns: u128,
    pooled_ns: u128,
    accounted_ns: u128,
    stacks_complete: u64,
    stacks_truncated: u64,
    stacks_broken: u64,
    stacks_complete_percent: Option<f64>,
    unwind_without_room: u64,
    stacks_without_room: u64,
    unresolved_frames: u64,
    frames: u64,
    late_passes: u64,
    failed_passes: u64,
    passes: u64,
    latencies_lost: u64,
    missed_switches: u128,
    probes: Vec<ProbeJson<'a>>,
    sessions_not_recorded: u64,
    missing_stacks_ns: u128,
    sessions_not_described: usize,
    recorder_cpu_ns: u64,
    problems: &'a [String],
    reasons: &'a [String],
    notes: &'a [Note],
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
            saturation: report.saturation.map(SaturationJson::from),
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
            database_view: (&report.database_view).into(),
            statements: report.top_sql.as_ref().ok().map(|top| &*top.statements),
            sessions: report.sessions.0.iter().map(SessionJson::from).collect(),
            stacks: report.stacks.top.iter().map(StackJson::from).collect(),
            other_stacks: report.stacks.others,
            other_stacks_ns: report.stacks.others_ns,
            trace: report.trace.as_ref().map(TraceJson::from),
            sched: report.sched.as_ref(),
            system_calls: report.system_calls.as_ref(),
            beside: report.beside.as_ref(),
            cost_of_looking: report.cost_of_looking.as_ref(),
            quality: (&report.quality).into(),
        }
    }
}

fn fidelity(mix: Option<FidelityMix>) -> Option<&'static str> {
    mix.map(FidelityMix::as_str)
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
        fidelity: fidelity(row.sums.fidelity()),
    }
}

impl From<Saturation> for SaturationJson {
    fn from(of: Saturation) -> SaturationJson {
        SaturationJson {
            cpus: of.cpus,
            is_saturated: of.is_saturated,
            after_command_ns: of.after_command_ns,
            run_queue_ns: of.run_queue_ns,
            run_queue_sessions: of.sessions,
            sentence: of.sentence(),
        }
    }
}

impl<'a> From<&'a DatabaseView> for DatabaseViewJson<'a> {
    fn from(view: &'a DatabaseView) -> DatabaseViewJson<'a> {
        DatabaseViewJson {
            db_time_ns: view.db_time_ns,
            cpu_ns: view.cpu_ns,
            wait_ns: view.wait_ns,
            percent_of_db_time: view.percent_of_db_time(),
            double_counted_ns: view.double_counted_ns,
            cpu_inside_idle_waits_ns: view.cpu_inside_idle_waits_ns,
            run_queue_inside_idle_waits_ns: view.run_queue_inside_idle_waits_ns,
            run_queue_outside_waits_ns: view.run_queue_outside_waits_ns,
            blocked_outside_waits_ns: view.blocked_outside_waits_ns,
            state_unknown_outside_waits_ns: view.state_unknown_outside_waits_ns,
            wait_unknown_off_cpu_ns: view.wait_unknown_off_cpu_ns,
            fidelity: fidelity(view.fidelity),
            explanation: &view.explanation,
            by_event: view.by_event.iter().map(EventJson::from).collect(),
        }
    }
}

impl<'a> From<&'a EventView> for EventJson<'a> {
    fn from(event: &'a EventView) -> EventJson<'a> {
        EventJson {
            wait_class: &event.wait.class,
            wait_event: &event.wait.event,
            wait_ns: event.wait_ns,
            cpu_inside_ns: event.cpu_inside_ns,
            kernel_inside_ns: event.kernel_inside_ns,
            run_queue_inside_ns: event.run_queue_inside_ns,
            blocked_inside_ns: event.blocked_inside_ns,
            state_unknown_inside_ns: event.state_unknown_inside_ns,
            fidelity: fidelity(event.fidelity),
        }
    }
}

impl<'a> From<&'a SessionTime> for SessionJson<'a> {
    fn from(session: &'a SessionTime) -> SessionJson<'a> {
        let totals = &session.totals;
        let second =
            |us: Option<i64>| us.and_then(|us| timestamp(us.div_euclid(SECOND_US).saturating_mul(SECOND_US)));
        SessionJson {
            id: session.id.0.to_string(),
            pid: session.pid,
            backend_type: &session.backend_type.0,
            user: &session.user,
            database: &session.database,
            client: &session.client,
            application: &session.application,
            service: &session.service,
            module: &session.module,
            action: &session.action,
            client_id: &session.client_id,
            sid: &session.sid,
            leader_pid: (session.leader_pid != 0).then_some(session.leader_pid),
            elapsed_ns: totals.elapsed_ns,
            on_cpu_ns: totals.on_cpu_ns,
            run_queue_ns: totals.run_queue_ns,
            blocked_ns: totals.blocked_ns(),
            accounted_ns: totals.accounted_ns,
            active_ns: totals.active_ns,
            unsampled_ns: totals.unsampled_ns,
            samples: totals.samples,
            torn: totals.torn,
            torn_stacks: totals.torn_stacks,
            displaced: totals.displaced,
            waits_not_read: totals.waits_not_read,
            first_second: second(session.first_us),
            last_second: second(session.last_us),
        }
    }
}

impl<'a> From<&'a StackTime> for StackJson<'a> {
    fn from(stack: &'a StackTime) -> StackJson<'a> {
        StackJson {
            wait_class: &stack.wait.class,
            wait_event: &stack.wait.event,
            state: stack.state.as_str(),
            user: &stack.user,
            kernel: &stack.kernel,
            ns: stack.ns,
            percent: stack.percent,
            pooled_ns: stack.pooled_ns,
            samples: stack.samples,
            fidelity: fidelity(stack.fidelity),
        }
    }
}

impl<'a> From<&'a Quality> for QualityJson<'a> {
    fn from(quality: &'a Quality) -> QualityJson<'a> {
        QualityJson {
            complete: quality.complete,
            samples: quality.samples,
            torn: quality.torn,
            torn_stacks: quality.torn_stacks,
            displaced: quality.displaced,
            lost: quality.lost,
            waits_not_read: quality.waits_not_read,
            unsampled_ns: quality.unsampled_ns,
            pooled_ns: quality.pooled_ns,
            accounted_ns: quality.accounted_ns,
            stacks_complete: quality.stacks.complete,
            stacks_truncated: quality.stacks.truncated,
            stacks_broken: quality.stacks.broken,
            stacks_complete_percent: quality.stacks.percent(quality.stacks.complete),
            unwind_without_room: quality.unwind_without_room,
            stacks_without_room: quality.stacks_without_room,
            unresolved_frames: quality.unresolved_frames,
            frames: quality.frames,
            late_passes: quality.late_passes,
            failed_passes: quality.failed_passes,
            passes: quality.passes,
            latencies_lost: quality.latencies_lost,
            missed_switches: quality.missed_switches,
            probes: quality.probes.iter().map(ProbeJson::from).collect(),
            sessions_not_recorded: quality.sessions_not_recorded,
            missing_stacks_ns: quality.missing_stacks_ns,
            sessions_not_described: quality.sessions_not_described,
            recorder_cpu_ns: quality.recorder_cpu_ns,
            problems: &quality.problems,
            reasons: &quality.reasons,
            notes: &quality.notes,
        }
    }
}
