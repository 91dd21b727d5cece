//! A snapshot of sessions.

use serde::Serialize;

use super::Head;
use crate::database_view::DatabaseView;
use crate::group::known_query_id;
use crate::latency::WaitUnit;
use crate::ledger::{Ledger, Rest};
use crate::snapshot::{LineUnit, SessionSnapshot, Snapshot, SnapshotLine};

#[derive(Serialize)]
pub(super) struct Document<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    sessions: Vec<SessionJson<'a>>,
    /// What is counted as a wait.
    wait_is: &'static str,
    /// CPU and waits of all of these sessions compared with their DB time.
    database_view: ViewJson<'a>,
    /// Time outside of idle waits, by the requested dimensions.
    active: Option<Vec<ActiveJson<'a>>>,
    /// Events lost by the recorder since it started: what they said is missing.
    lost: u64,
    /// Session statistics are left out, as they are not known by the selected waits, states, statements or comments.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    statistics_left_out: bool,
    problems: &'a [String],
}

#[derive(Serialize)]
struct SessionJson<'a> {
    pid: Option<u32>,
    sid: &'a str,
    backend_type: &'a str,
    user: &'a str,
    database: &'a str,
    application: &'a str,
    client: &'a str,
    /// What growth per second is divided by.
    elapsed_ns: u128,
    database_view: ViewJson<'a>,
    lines: Vec<LineJson<'a>>,
}

#[derive(Serialize)]
struct ViewJson<'a> {
    db_time_ns: u128,
    cpu_ns: u128,
    wait_ns: u128,
    cpu_inside_waits_ns: u128,
    percent_of_db_time: Option<f64>,
    explanation: &'a str,
}

#[derive(Serialize)]
struct LineJson<'a> {
    r#type: &'static str,
    name: &'a str,
    /// The statement, as PostgreSQL prints its id; missing if it is for none, or for several.
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<String>,
    /// In `unit`: `ns`, or what the name says.
    growth: i128,
    /// `growth` is not growth but the level at the end; missing if it is growth.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    level: bool,
    unit: Option<&'static str>,
    per_second: Option<f64>,
    percent_of_time: Option<f64>,
    waits: Option<u64>,
    waits_per_second: Option<f64>,
    average_wait_ns: Option<f64>,
    /// Growth per event of something else that was counted, and what that is.
    average: Option<f64>,
    average_of: Option<&'static str>,
}

#[derive(Serialize)]
struct ActiveJson<'a> {
    section: &'static str,
    group: &'a [String],
    ns: u128,
}

impl<'a> From<&'a Snapshot> for Document<'a> {
    fn from(snapshot: &'a Snapshot) -> Document<'a> {
        Document {
            head: Head::of(&snapshot.meta, snapshot.period),
            sessions: snapshot.sessions.iter().map(SessionJson::from).collect(),
            wait_is: WaitUnit::of(&snapshot.meta).one(),
            database_view: ViewJson::from(&snapshot.total),
            active: snapshot.active.as_ref().map(active),
            lost: snapshot.meta.quality.lost,
            statistics_left_out: snapshot.statistics_left_out,
            problems: &snapshot.problems,
        }
    }
}

fn active(ledger: &Ledger) -> Vec<ActiveJson<'_>> {
    let rows = ledger.rows.iter().filter(|row| row.rest == Rest::None);
    rows.map(|row| ActiveJson {
        section: row.section.as_str(),
        group: &row.labels,
        ns: row.sums.total_ns(),
    })
    .collect()
}

impl<'a> From<&'a SessionSnapshot> for SessionJson<'a> {
    fn from(one: &'a SessionSnapshot) -> SessionJson<'a> {
        let session = &one.session;
        SessionJson {
            pid: (session.pid != 0).then_some(session.pid),
            sid: &session.sid,
            backend_type: &session.backend_type.0,
            user: &session.user,
            database: &session.database,
            application: &session.application,
            client: &session.client,
            elapsed_ns: one.elapsed_ns,
            database_view: ViewJson::from(&one.view),
            lines: one
                .lines
                .iter()
                .map(|line| LineJson::of(line, one.elapsed_ns))
                .collect(),
        }
    }
}

impl<'a> From<&'a DatabaseView> for ViewJson<'a> {
    fn from(view: &'a DatabaseView) -> ViewJson<'a> {
        ViewJson {
            db_time_ns: view.db_time_ns,
            cpu_ns: view.cpu_ns,
            wait_ns: view.wait_ns,
            cpu_inside_waits_ns: view.double_counted_ns,
            percent_of_db_time: view.percent_of_db_time,
            explanation: &view.explanation,
        }
    }
}

impl<'a> LineJson<'a> {
    fn of(line: &'a SnapshotLine, elapsed_ns: u128) -> LineJson<'a> {
        LineJson {
            r#type: line.kind.as_str(),
            name: &line.name,
            query: line.statement.and_then(known_query_id),
            growth: line.growth,
            level: line.is_level,
            unit: (line.unit == LineUnit::Nanoseconds).then_some("ns"),
            per_second: line.per_second(elapsed_ns),
            percent_of_time: line.percent_of_time(elapsed_ns),
            waits: line.waits,
            waits_per_second: line.waits_per_second(elapsed_ns),
            average_wait_ns: line.average_wait_ns(),
            average: line.average.and_then(|average| average.value),
            average_of: line.average.map(|average| average.what),
        }
    }
}
