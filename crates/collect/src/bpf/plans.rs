//! Statements and their plans, for which the BPF programs use one combined number: bpf/plans.bpf.h.

use std::collections::HashMap;

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::Event;
use super::plain::{Plain, read};
use super::recorder::types::{dbt_planned, dbt_statement_mark};
use crate::database::Executing;

/// Numbers that are remembered, including those of statements without a plan.
const MOST: usize = 100_000;
/// Up to this, a number is not a statement's.
const POOLED: u64 = dbt_statement_mark::STATEMENT_POOLED.0 as u64;

/// See the module.
pub(crate) struct Plans {
    numbers: MapHandle,
    /// What they stand for. A number is in the kernel's map before it is used, and stays there.
    known: HashMap<u64, (u64, i64)>,
}

impl Plans {
    pub(super) fn new(numbers: MapHandle) -> Plans {
        Plans {
            numbers,
            known: HashMap::new(),
        }
    }

    /// The statement and plan that a number of the BPF programs stands for: most stand for a statement alone.
    pub(crate) fn of(&mut self, number: u64) -> (u64, i64) {
        if number <= POOLED {
            return (number, 0);
        }
        if self.known.len() >= MOST {
            self.known.clear();
        }
        *self
            .known
            .entry(number)
            .or_insert_with(|| look_up(&self.numbers, number))
    }

    /// Replaces the numbers in an event by both.
    pub(crate) fn tell_apart(&mut self, event: &mut Event) {
        let mut tell = |executing: &mut Executing| {
            (executing.statement, executing.plan) = self.of(executing.statement);
        };
        match event {
            Event::Sample(sample) => tell(&mut sample.executing),
            Event::Totals { sums: Some(sums), .. } => {
                for of_wait in &mut sums.waits {
                    tell(&mut of_wait.executing);
                }
            }
            _ => {}
        }
    }
}

impl Plain for dbt_planned {}

fn look_up(numbers: &MapHandle, number: u64) -> (u64, i64) {
    let both = numbers
        .lookup(&number.to_ne_bytes(), MapFlags::ANY)
        .ok()
        .flatten()
        .and_then(|bytes| read::<dbt_planned>(&bytes));
    both.map_or((number, 0), |both| (both.statement, both.plan.cast_signed()))
}
