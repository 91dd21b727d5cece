//! Which SQL: DB time by statement.
//!
//! The sum of all statements, and of what has none, is DB time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use dbtime_model::{SessionState, State, Wait};

use crate::ledger::Section;
use crate::load::Dimensions;
use crate::scan::Activity;
use crate::sums::Sums;

/// DB time of one statement.
#[derive(Debug, Clone, PartialEq)]
pub struct StatementTime {
    /// Its id, or fingerprint; 0 = none was known at that moment.
    pub id: u64,
    /// Its name in the database, where it has one (Oracle: `sql_id`).
    pub sql_id: Option<String>,
    /// Its text; none when it was not read.
    pub text: Option<String>,
    /// Databases in which it ran.
    pub databases: Vec<String>,
    /// Users who ran it.
    pub users: Vec<String>,
    /// Its DB time.
    pub sums: Sums,
    /// The wait event with most of it ([`Wait::none`] on a CPU or in no wait event), and its part, nanoseconds.
    pub main_wait: (Wait, u128),
    /// The state with most of it, and its part, nanoseconds.
    pub main_state: (State, u128),
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
}

/// Adds rows up to [`TopSql`].
#[derive(Default)]
pub(crate) struct TopSqlBuilder {
    by_statement: HashMap<u64, Builder>,
    /// DB time of sessions of which the database says that they execute a statement.
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

    /// Where no statement is known: why.
    pub(crate) fn finish(self, dimensions: &Dimensions) -> Result<TopSql, NoStatements> {
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
                let states = State::ALL.map(|state| (state, of.sums.state_ns(state)));
                StatementTime {
                    id,
                    sql_id: dimensions.sql_id(id).map(str::to_string),
                    text: dimensions.statement(id).map(str::to_string),
                    databases: of.databases.into_iter().collect(),
                    users: of.users.into_iter().collect(),
                    main_wait: main_wait.unwrap_or((Wait::none(), 0)),
                    main_state: states
                        .into_iter()
                        .max_by_key(|(_, ns)| *ns)
                        .unwrap_or((State::Unknown, 0)),
                    sums: of.sums,
                }
            })
            .collect();
        statements.sort_unstable_by_key(|statement| (Reverse(statement.sums.total_ns()), statement.id));
        Ok(TopSql {
            db_time_ns: statements.iter().map(|statement| statement.sums.total_ns()).sum(),
            statements,
        })
    }
}
