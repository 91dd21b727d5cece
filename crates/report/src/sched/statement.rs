//! Context switches by statement.

use std::cmp::Reverse;
use std::collections::HashMap;

use dbtime_model::LatencyRow;
use serde::Serialize;

use super::SchedSums;
use crate::dimensions::Dimensions;
use crate::fields;

/// Maximum number of separate statements: further ones are added up.
const MOST: usize = 1_000;

/// A statement, or all others together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SchedStatement {
    /// Identity of the statement; 0 = none: the session waited for a command, or parsed it, or it is not known.
    #[serde(rename = "query", serialize_with = "fields::query_id")]
    pub id: u64,
    /// Its text, if it is known.
    pub text: Option<String>,
    /// How long sessions ran, and waited for a CPU, while they executed it. Says nothing about priorities, switches and moves.
    #[serde(flatten, serialize_with = "crate::json::sched_times")]
    pub sums: SchedSums,
}

/// Adds latencies up by statement.
#[derive(Debug, Default)]
pub(super) struct ByStatement {
    sums: HashMap<u64, SchedSums>,
    others: SchedSums,
}

impl ByStatement {
    pub(super) fn add_latency(&mut self, row: &LatencyRow) {
        let has_room = self.sums.len() < MOST || self.sums.contains_key(&row.statement);
        let sums = match has_room {
            true => self.sums.entry(row.statement).or_default(),
            false => &mut self.others,
        };
        sums.add_latency(row);
    }

    /// Those that ran or waited for a CPU the longest first, and all for which there was no room. Empty if no statement is known.
    pub(super) fn finish(self, dimensions: &Dimensions) -> (Vec<SchedStatement>, SchedSums) {
        if self.sums.keys().all(|id| *id == 0) {
            return Default::default();
        }
        let described = |(id, sums)| SchedStatement {
            id,
            text: dimensions.statement(id).map(str::to_string),
            sums,
        };
        let mut statements: Vec<SchedStatement> = self.sums.into_iter().map(described).collect();
        let wanted = |of: &SchedStatement| of.sums.run.sum_ns() + of.sums.delay.sum_ns();
        statements.sort_by_key(|of| (Reverse(wanted(of)), of.id));
        (statements, self.others)
    }
}
