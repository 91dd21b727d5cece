//! Plans: what each step did, and how much of it was its own. All times in microseconds.

use std::collections::{BTreeMap, HashMap};

use dbtime_model::{PlanStep, StatementRow};

/// Steps of one plan of a statement.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StatementPlan {
    /// By number, which is the order in which plans are written.
    pub steps: Vec<PlanStepTime>,
}

/// A step and its place in the plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanStepTime {
    /// What it did, including the steps below it.
    pub step: PlanStep,
    /// Steps above it.
    pub depth: usize,
    /// Elapsed time without the steps below it. May be below zero: Oracle does not time every row.
    pub own_us: i128,
}

impl StatementPlan {
    /// The steps of a plan, over all statements that had it.
    pub(super) fn of(rows: &[&StatementRow], plan: u64) -> StatementPlan {
        let mut sums: BTreeMap<u64, PlanStep> = BTreeMap::new();
        for step in rows
            .iter()
            .flat_map(|row| &row.plan_steps)
            .filter(|step| step.plan == plan)
        {
            sums.entry(step.id)
                .and_modify(|sum| sum.add(step))
                .or_insert_with(|| step.clone());
        }
        let steps: Vec<PlanStep> = sums.into_values().collect();
        let mut below_us: HashMap<u64, i128> = HashMap::new();
        for step in &steps {
            *below_us.entry(step.parent).or_default() += i128::from(step.elapsed_us);
        }
        // A parent has a smaller number than its children; anything else is not a tree.
        let mut depths: HashMap<u64, usize> = HashMap::new();
        let steps = steps
            .into_iter()
            .map(|step| {
                let depth = depths.get(&step.parent).map_or(0, |depth| depth + 1);
                depths.insert(step.id, depth);
                let below = if step.id == 0 {
                    None
                } else {
                    below_us.get(&step.id)
                };
                PlanStepTime {
                    own_us: i128::from(step.elapsed_us) - below.copied().unwrap_or(0),
                    depth,
                    step,
                }
            })
            .collect();
        StatementPlan { steps }
    }
}
