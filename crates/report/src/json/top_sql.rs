//! DB time by statement.

use serde::Serialize;

use dbtime_model::State;

use crate::group::known_query_id;
use crate::top_sql::StatementTime;

#[derive(Serialize)]
pub(super) struct StatementTimeJson<'a> {
    /// As PostgreSQL prints it: signed; none: no statement was known.
    query: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sql_id: Option<&'a str>,
    text: Option<&'a str>,
    databases: &'a [String],
    users: &'a [String],
    total_ns: u128,
    on_cpu_ns: u128,
    runnable_ns: u128,
    disk_ns: u128,
    sleep_ns: u128,
    main_wait: String,
    main_wait_ns: u128,
    main_state: &'static str,
    main_state_ns: u128,
    samples: u128,
    fidelity: Option<&'static str>,
}

impl<'a> From<&'a StatementTime> for StatementTimeJson<'a> {
    fn from(statement: &'a StatementTime) -> StatementTimeJson<'a> {
        let sums = &statement.sums;
        StatementTimeJson {
            query: known_query_id(statement.id),
            sql_id: statement.sql_id.as_deref(),
            text: statement.text.as_deref(),
            databases: &statement.databases,
            users: &statement.users,
            total_ns: sums.total_ns(),
            on_cpu_ns: sums.on_cpu_ns(),
            runnable_ns: sums.run_queue_ns(),
            disk_ns: sums.state_ns(State::Disk),
            sleep_ns: sums.state_ns(State::Sleep),
            main_wait: statement.main_wait.0.to_string(),
            main_wait_ns: statement.main_wait.1,
            main_state: statement.main_state.0.as_str(),
            main_state_ns: statement.main_state.1,
            samples: sums.samples,
            fidelity: sums.fidelity().map(|fidelity| fidelity.as_str()),
        }
    }
}
