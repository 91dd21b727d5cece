//! How often statements were executed on one side, by slice of time.

use std::collections::{BTreeMap, HashMap};

use dbtime_model::recording::Meta;
use dbtime_model::{CounterRow, LatencyRow};

use super::side::Side;
use super::slices::Slices;
use crate::filter::Filter;
use crate::statement_counts::StatementCounts;

/// If more of a statement's executions may be missing, as a part of those counted, their number is taken as not known.
const MOST_MISSING: f64 = 0.05;

/// Executions as counted by the server, or commands.
#[derive(Default)]
pub(super) struct Executions {
    pub(super) counts: StatementCounts,
    by_slice: HashMap<u64, BTreeMap<usize, u128>>,
}

impl Executions {
    pub(super) fn of_commands(meta: &Meta) -> Executions {
        Executions {
            counts: StatementCounts::of_commands(meta),
            ..Executions::default()
        }
    }

    /// Those of both sides, counted alike: by the server if it did so on both.
    pub(super) fn of_both(sides: &[Side; 2]) -> [&Executions; 2] {
        let of_server = sides.each_ref().map(|side| &side.executions);
        let of_commands = sides.each_ref().map(|side| &side.commands);
        let are_known = |both: [&Executions; 2]| both.iter().all(|of| !of.counts.is_empty());
        match are_known(of_commands) && !are_known(of_server) {
            true => of_commands,
            false => of_server,
        }
    }

    pub(super) fn add_counter(&mut self, row: &CounterRow, filter: &Filter, slices: &Slices) {
        let calls = self.counts.add_counter(row, filter);
        self.add(row.statement, slices.of_time(row.time), calls);
    }

    /// For a time and a session that the filter lets through.
    pub(super) fn add_trace(&mut self, row: &CounterRow, filter: &Filter, slices: &Slices) {
        let calls = self.counts.add_trace(row, filter);
        self.add(row.statement, slices.of_time(row.time), calls);
    }

    /// For a time and a session that the filter lets through.
    pub(super) fn add_command(&mut self, row: &LatencyRow, filter: &Filter, slices: &Slices) {
        let calls = self.counts.add_command(row, filter);
        self.add(row.statement, slices.of_time(row.time), calls);
    }

    fn add(&mut self, statement: u64, slice: usize, calls: u128) {
        if calls > 0 {
            let by_slice = self.by_slice.entry(statement).or_default();
            *by_slice.entry(slice).or_default() += calls;
        }
    }

    /// Executions of a statement by slice; none if there were none, or too many may be missing.
    pub(super) fn of(&self, statement: u64, slices: usize) -> Option<Vec<f64>> {
        let calls = self.counts.of(statement)?.calls as f64;
        let may_miss = self.counts.may_miss()? as f64;
        if calls <= 0.0 || may_miss > MOST_MISSING * calls {
            return None;
        }
        let mut counted = vec![0.0; slices];
        for (slice, calls) in self.by_slice.get(&statement)? {
            counted[*slice] = *calls as f64;
        }
        Some(counted)
    }
}
