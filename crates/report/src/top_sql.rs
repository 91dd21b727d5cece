//! Which SQL: DB time by statement.
//!
//! All statements, and time without one, add up to DB time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use dbtime_model::{SessionState, State, Wait};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::dimensions::Dimensions;
use crate::fast_map::FastMap;
use crate::fields;
use crate::ledger::Section;
use crate::scan::Activity;
use crate::statement_counts::{CountedStatement, StatementCounts};
use crate::sums::{FidelityMix, Sums};

/// DB time of one statement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StatementTime {
    /// Its id, or fingerprint; 0 = none was known at that moment.
    #[serde(rename = "query", serialize_with = "fields::query_id")]
    pub id: u64,
    /// Its name in the database, where it has one (Oracle: `sql_id`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sql_id: Option<String>,
    /// Its id is dbtime's fingerprint of the text, although the server gives other statements ids of its own.
    #[serde(rename = "fingerprint", skip_serializing_if = "std::ops::Not::not")]
    pub has_fingerprint: bool,
    /// Its text; none when it was not read.
    pub text: Option<String>,
    /// Databases in which it ran.
    #[serde(flatten, serialize_with = "databases")]
    pub databases: Vec<String>,
    /// Users who ran it.
    #[serde(flatten, serialize_with = "users")]
    pub users: Vec<String>,
    /// Its DB time.
    #[serde(flatten, serialize_with = "times")]
    pub sums: Sums,
    /// The wait event with most of it: [`Wait::none`] on a CPU or in no wait event.
    #[serde(serialize_with = "fields::text")]
    pub main_wait: Wait,
    /// Its part, nanoseconds.
    pub main_wait_ns: u128,
    /// The state with most of it.
    pub main_state: State,
    /// Its part, nanoseconds.
    pub main_state_ns: u128,
    /// Samples that it is based on.
    pub samples: u128,
    /// How the times were measured.
    pub fidelity: Option<FidelityMix>,
    /// How often it was executed, see [`TopSql::counts`]; none if that is not known, or never.
    #[serde(flatten)]
    pub counted: Option<CountedStatement>,
}

fn times<S: Serializer>(sums: &Sums, to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Times {
        total_ns: u128,
        on_cpu_ns: u128,
        runnable_ns: u128,
        disk_ns: u128,
        sleep_ns: u128,
    }
    let times = Times {
        total_ns: sums.total_ns(),
        on_cpu_ns: sums.on_cpu_ns(),
        runnable_ns: sums.run_queue_ns(),
        disk_ns: sums.state_ns(State::Disk),
        sleep_ns: sums.state_ns(State::Sleep),
    };
    times.serialize(to)
}

fn databases<S: Serializer>(names: &[String], to: S) -> Result<S::Ok, S::Error> {
    all_and_only(["databases", "database"], names, to)
}

fn users<S: Serializer>(names: &[String], to: S) -> Result<S::Ok, S::Error> {
    all_and_only(["users", "user"], names, to)
}

/// All names under the first word; under the second one the name, if there is only one.
fn all_and_only<S: Serializer>(words: [&str; 2], names: &[String], to: S) -> Result<S::Ok, S::Error> {
    let only = match names {
        [only] => Some(only),
        _ => None,
    };
    let mut fields = to.serialize_map(Some(2))?;
    fields.serialize_entry(words[0], names)?;
    fields.serialize_entry(words[1], &only)?;
    fields.end()
}

/// Why there is no [`TopSql`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoStatements {
    /// The recording does not know statements, or none was executed.
    NotRecorded,
    /// Sessions executed some, but the server gives them no ids.
    WithoutIds,
}

/// DB time by statement, the largest first.
#[derive(Debug, Clone, PartialEq)]
pub struct TopSql {
    /// Every statement, and what belongs to none.
    pub statements: Vec<StatementTime>,
    /// Sum over them, nanoseconds.
    pub db_time_ns: u128,
    /// Executions as the server counted them, else commands of clients; empty if neither is known.
    pub counts: StatementCounts,
}

/// Adds rows up to [`TopSql`].
#[derive(Default)]
pub(crate) struct TopSqlBuilder {
    by_statement: FastMap<u64, Builder>,
    /// DB time of sessions that, according to the database, execute a statement.
    active_ns: u128,
}

#[derive(Default)]
struct Builder {
    sums: Sums,
    waits: BTreeMap<Wait, u128>,
    databases: BTreeSet<String>,
    users: BTreeSet<String>,
}

impl TopSqlBuilder {
    pub(crate) fn add(&mut self, activity: &Activity<'_>) {
        if activity.section != Section::DbTime {
            return;
        }
        if activity.row.session_state == SessionState::Active {
            self.active_ns += u128::from(activity.row.ns);
        }
        let of = self.by_statement.entry(activity.row.statement).or_default();
        of.sums.take(activity);
        *of.waits.entry(activity.wait.clone()).or_default() += u128::from(activity.row.ns);
        for (names, name) in [
            (&mut of.databases, &activity.session.database),
            (&mut of.users, &activity.session.user),
        ] {
            if !name.is_empty() && !names.contains(name) {
                names.insert(name.clone());
            }
        }
    }

    /// If no statement is known: why.
    pub(crate) fn finish(
        self,
        counts: StatementCounts,
        dimensions: &Dimensions,
    ) -> Result<TopSql, NoStatements> {
        if self.by_statement.keys().all(|id| *id == 0) {
            return Err(match self.active_ns {
                0 => NoStatements::NotRecorded,
                _ => NoStatements::WithoutIds,
            });
        }
        let mut statements: Vec<StatementTime> = self
            .by_statement
            .into_iter()
            .map(|(id, of)| {
                let main_wait = of.waits.into_iter().max_by_key(|(_, ns)| *ns);
                let (main_wait, main_wait_ns) = main_wait.unwrap_or((Wait::none(), 0));
                let states = State::ALL.map(|state| (state, of.sums.state_ns(state)));
                let main_state = states.into_iter().max_by_key(|(_, ns)| *ns);
                let (main_state, main_state_ns) = main_state.unwrap_or((State::Unknown, 0));
                StatementTime {
                    id,
                    sql_id: dimensions.sql_id(id).map(str::to_string),
                    text: dimensions.statement(id).map(str::to_string),
                    databases: of.databases.into_iter().collect(),
                    users: of.users.into_iter().collect(),
                    has_fingerprint: dimensions.statement_row(id).is_some_and(|row| row.is_fingerprint),
                    main_wait,
                    main_wait_ns,
                    main_state,
                    main_state_ns,
                    samples: of.sums.samples,
                    fidelity: of.sums.fidelity(),
                    counted: counts.of(id),
                    sums: of.sums,
                }
            })
            .collect();
        statements.sort_unstable_by_key(|statement| (Reverse(statement.sums.total_ns()), statement.id));
        Ok(TopSql {
            db_time_ns: statements.iter().map(|statement| statement.sums.total_ns()).sum(),
            statements,
            counts,
        })
    }
}
