//! How statements and transactions ended: errors, commits, rollbacks.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use dbtime_model::CounterRow;
use dbtime_model::counter::oracle;
use serde::Serialize;

use crate::dimensions::Dimensions;
use crate::fields;

/// Transactions that ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Transactions {
    /// Committed after a change.
    pub commits: i128,
    /// Rolled back.
    pub rollbacks: i128,
    /// Ended without a change.
    pub read_only: i128,
}

/// An error of a statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StatementError {
    /// Its number: `ORA-00942` is 942.
    pub code: u64,
    /// The statement could not be parsed; otherwise it failed at run time.
    pub at_parse: bool,
    /// How often.
    pub count: i128,
    /// See [`super::TracedStatement::id`].
    #[serde(serialize_with = "fields::id_if_known")]
    pub id: u64,
    /// Its name in the database.
    pub sql_id: Option<String>,
    /// See [`super::TracedStatement::hash_value`].
    #[serde(serialize_with = "fields::known")]
    pub hash_value: u64,
    /// Its text.
    pub text: Option<String>,
}

impl StatementError {
    /// Whether it has no name: for what could not be parsed a trace only has the text.
    pub fn is_nameless(&self) -> bool {
        self.sql_id.is_none() && self.hash_value == 0 && self.text.is_some()
    }
}

/// Adds up counters to errors and transactions.
#[derive(Default)]
pub(super) struct OutcomesBuilder {
    transactions: Transactions,
    errors: BTreeMap<(bool, u64, u64), i128>,
}

impl OutcomesBuilder {
    pub(super) fn add(&mut self, row: &CounterRow) {
        let value = i128::from(row.value);
        match row.name.as_str() {
            oracle::COMMITS => self.transactions.commits += value,
            oracle::ROLLBACKS => self.transactions.rollbacks += value,
            oracle::READ_ONLY_ENDS => self.transactions.read_only += value,
            name => {
                for (at_parse, prefix) in [(true, oracle::PARSE_ERRORS), (false, oracle::ERRORS)] {
                    if let Some(code) = name.strip_prefix(prefix).and_then(|code| code.parse().ok()) {
                        *self.errors.entry((at_parse, code, row.statement)).or_default() += value;
                    }
                }
            }
        }
    }

    /// Errors, most frequent first.
    pub(super) fn finish(self, dimensions: &Dimensions) -> (Transactions, Vec<StatementError>) {
        let error = |((at_parse, code, id), count)| StatementError {
            code,
            at_parse,
            count,
            id,
            sql_id: dimensions.sql_id(id).map(str::to_string),
            hash_value: dimensions.hash_value(id),
            text: dimensions.statement(id).map(str::to_string),
        };
        let mut errors: Vec<StatementError> = self.errors.into_iter().map(error).collect();
        errors.sort_by_key(|error| Reverse(error.count));
        (self.transactions, errors)
    }
}
