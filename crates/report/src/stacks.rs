//! The stack profile: where in the code DB time goes, on CPU and off CPU together.

use std::cmp::Reverse;

use arcstr::ArcStr;
use dbtime_model::{NO_STACK, StackId, State, Wait};
use serde::Serialize;

use crate::dimensions::Dimensions;
use crate::fast_map::FastMap;
use crate::fields;
use crate::function::MISSING;
use crate::known_frame::KnownFrame;
use crate::ledger::Section;
use crate::numbered::Numbered;
use crate::preemption::{PREEMPTED, own_frames};
use crate::scan::Activity;
use crate::sums::{FidelityMix, StateSums, percent};

/// Time at one stack.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StackTime {
    /// What the database says.
    #[serde(flatten, serialize_with = "fields::wait")]
    pub wait: Wait,
    /// What the operating system says.
    pub state: State,
    /// User frames, root first; empty when no stack was taken.
    pub user: Vec<String>,
    /// Kernel frames, root first; empty in user mode.
    pub kernel: Vec<String>,
    /// Nanoseconds.
    pub ns: u128,
    /// Part of DB time in percent.
    pub percent: f64,
    /// Of that, pooled ([`Sums::pooled_ns`]).
    pub pooled_ns: u128,
    /// Samples.
    pub samples: u128,
    /// How the time was measured.
    pub fidelity: Option<FidelityMix>,
}

/// The stacks with the most DB time.
#[derive(Debug, Clone, PartialEq)]
pub struct StackProfile {
    /// The largest first.
    pub top: Vec<StackTime>,
    /// Distinct stacks that are not among them.
    pub others: usize,
    /// Their time in nanoseconds.
    pub others_ns: u128,
    /// Time whose stacks are not in the recording, nanoseconds.
    pub missing_ns: u128,
}

/// Adds the rows of DB time up to a [`StackProfile`].
#[derive(Default)]
pub(crate) struct StacksBuilder {
    waits: Numbered<Wait>,
    stacks: FastMap<(u32, State, StackId, StackId), StateSums>,
}

impl StacksBuilder {
    pub(crate) fn add(&mut self, activity: &Activity<'_>) {
        let Activity {
            row, wait, section, ..
        } = *activity;
        if section == Section::DbTime {
            let wait = self.waits.number(wait.clone());
            self.stacks
                .entry((wait, row.state, row.user_stack, row.kernel_stack))
                .or_default()
                .take(activity);
        }
    }

    pub(crate) fn finish(self, n: usize, dimensions: &Dimensions) -> StackProfile {
        let waits = self.waits.into_values();
        let mut stacks: Vec<_> = self.stacks.into_iter().collect();
        stacks.sort_unstable_by(|(key, sums), (other_key, other)| {
            let of = |key: &(u32, State, StackId, StackId)| (&waits[key.0 as usize], key.1, key.2, key.3);
            Reverse(sums.total_ns())
                .cmp(&Reverse(other.total_ns()))
                .then_with(|| of(key).cmp(&of(other_key)))
        });
        let db_time_ns = stacks.iter().map(|(_, sums)| sums.total_ns()).sum();
        let is_missing = |id: StackId| id != NO_STACK && dimensions.stack(id).is_none();
        let missing_ns = stacks
            .iter()
            .filter(|((_, _, user, kernel), _)| is_missing(*user) || is_missing(*kernel))
            .map(|(_, sums)| sums.total_ns())
            .sum();
        let rest = stacks.split_off(n.min(stacks.len()));
        StackProfile {
            top: stacks
                .into_iter()
                .map(|((wait, state, user, kernel), sums)| StackTime {
                    wait: waits[wait as usize].clone(),
                    state,
                    user: texts(frames(user, dimensions)),
                    kernel: texts(kernel_frames(kernel, state, dimensions)),
                    ns: sums.total_ns(),
                    percent: percent(sums.total_ns(), db_time_ns).unwrap_or(0.0),
                    pooled_ns: sums.pooled_ns(),
                    samples: sums.samples,
                    fidelity: sums.fidelity(),
                })
                .collect(),
            others: rest.len(),
            others_ns: rest.iter().map(|(_, sums)| sums.total_ns()).sum(),
            missing_ns,
        }
    }
}

/// Names of a kernel stack's frames, root first; preemption is one of them.
pub(crate) fn kernel_frames(id: StackId, state: State, dimensions: &Dimensions) -> Vec<ArcStr> {
    match dimensions.stack(id) {
        Some(stack) => {
            let (own, is_preempted) = own_frames(stack, state);
            let preempted = is_preempted.then(|| PREEMPTED.into());
            own.iter().map(KnownFrame::label).chain(preempted).collect()
        }
        None => frames(id, dimensions),
    }
}

/// Names of a stack's frames, root first.
pub(crate) fn frames(id: StackId, dimensions: &Dimensions) -> Vec<ArcStr> {
    match dimensions.stack(id) {
        Some(frames) => frames.iter().map(KnownFrame::label).collect(),
        None if id == NO_STACK => Vec::new(),
        None => vec![MISSING.into()],
    }
}

fn texts(names: Vec<ArcStr>) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}
