//! Everything that time is compared by, and the test of all of it together.
//!
//! The host's time is shown where it was spent, but not tested: how long a session waits for a CPU and where in the code
//! it lost it, what switching and waking others costs (much more when their CPU is idle), and which interrupts hit the
//! session, is up to whatever else runs there.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use dbtime_model::{State, StateGroup, Wait};

use super::answer::{Change, DiffStack, Place, Verdict};
use super::noise::{Measure, Tested, test};
use super::side::{Amount, Side};
use super::{Per, SMALLEST_SHARE};
use crate::code_module::module_of_path;
use crate::function::{Function, FunctionId, Functions};
use crate::kernel_layers::subsystem;

/// Equal code takes more or less CPU time by what else runs on the host, some of it more than other: in equal runs of
/// PostgreSQL alone and beside a busy neighbour the largest change of a path was
/// 45 %, and beyond 40 % in 3 of 100 comparisons. What both sides run must change by this part of itself. And the common
/// factor is an estimate: it must do so with the factor and without it.
const SMALLEST_OF_ITSELF: f64 = 0.4;

/// A callee that has this part of its caller's difference stands for it.
const CARRIES_ALL: f64 = 0.9;

/// What time is compared by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Item {
    Cell(Wait, State),
    Wait(Wait),
    /// A function with all it called, once per stack.
    Total(FunctionId),
    /// A function itself.
    Own(FunctionId),
    /// A node of the call tree.
    Path(usize),
    Module(String),
}

/// Both sides of one item.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pair {
    pub(super) values: [u128; 2],
    /// Of these, those that are not the host's.
    pub(super) tested: [u128; 2],
    /// Depth of the function on the stacks, weighted by time.
    pub(super) depth: u128,
    pub(super) verdict: Option<Verdict>,
}

/// One stack of either side.
pub(super) struct Atom {
    pub(super) wait: Wait,
    pub(super) state: State,
    pub(super) path: Vec<FunctionId>,
    pub(super) values: [u128; 2],
    /// It is not the host's time.
    pub(super) is_tested: bool,
    /// Everything that it is part of.
    pub(super) items: Vec<Item>,
}

/// A node of the call tree of both sides.
struct Node {
    function: Option<FunctionId>,
    parent: usize,
    own: [u128; 2],
}

pub(super) struct Changes {
    pub(super) atoms: Vec<Atom>,
    pub(super) items: HashMap<Item, Pair>,
    nodes: Vec<Node>,
    total: [u128; 2],
    tested: [u128; 2],
}

/// Kernel functions that wake others, with all that may be inlined into them.
const WAKING: [&str; 3] = ["sock_def_readable", "ep_poll_callback", "pollwake"];

/// False for the host's time: in the run queue, and on a CPU in the scheduler, in waking others or in interrupts.
pub(super) fn is_tested(state: State, path: &[FunctionId], functions: &Functions) -> bool {
    let is_hosts = |id: &FunctionId| {
        let function = functions.get(*id);
        function.kernel
            && (matches!(subsystem(&function.module, &function.name), Some("sched" | "irq"))
                || WAKING.contains(&function.name.as_str())
                || function.name.starts_with("exit_to_user_mode_loop"))
    };
    match state.group() {
        Some(StateGroup::RunQueue) => false,
        Some(StateGroup::OnCpu) => !path.iter().any(is_hosts),
        _ => true,
    }
}

impl Changes {
    pub(super) fn of(sides: &[Side; 2], functions: &Functions, per: &Per) -> Changes {
        let value = |seconds: &BTreeMap<i64, Amount>| -> u128 {
            seconds.values().map(|amount| amount.value(per.unit)).sum()
        };
        let mut merged: BTreeMap<(&Wait, State, &[FunctionId]), [u128; 2]> = BTreeMap::new();
        for (n, side) in sides.iter().enumerate() {
            for ((wait, state, path), seconds) in &side.places {
                merged.entry((wait, *state, path)).or_default()[n] += value(seconds);
            }
        }
        let mut changes = Changes {
            atoms: Vec::with_capacity(merged.len()),
            items: HashMap::new(),
            nodes: vec![Node {
                function: None,
                parent: 0,
                own: [0; 2],
            }],
            total: [0; 2],
            tested: [0; 2],
        };
        let has_stacks = sides.iter().all(|side| side.has_stacks);
        let mut places: HashMap<(usize, FunctionId), usize> = HashMap::new();
        for ((wait, state, path), values) in merged {
            let is_tested = is_tested(state, path, functions);
            let tested = if is_tested { values } else { [0; 2] };
            let mut items = vec![Item::Cell(wait.clone(), state), Item::Wait(wait.clone())];
            let mut at = 0;
            // Where one side has no stacks, functions would differ for no other reason.
            let compared = if has_stacks { path } else { &[] };
            for id in compared {
                at = *places.entry((at, *id)).or_insert_with(|| {
                    changes.nodes.push(Node {
                        function: Some(*id),
                        parent: at,
                        own: [0; 2],
                    });
                    changes.nodes.len() - 1
                });
                items.push(Item::Path(at));
            }
            let mut once: Vec<(FunctionId, usize)> = compared.iter().copied().zip(1..).collect();
            once.sort_unstable();
            once.dedup_by_key(|(id, _)| *id);
            if let Some(leaf) = compared.last() {
                items.push(Item::Own(*leaf));
                items.push(Item::Module(module_of_path(path, functions, state.is_on_cpu())));
            }
            for (id, depth) in once {
                changes.items.entry(Item::Total(id)).or_default().depth +=
                    depth as u128 * (values[0] + values[1]);
                items.push(Item::Total(id));
            }
            for item in &items {
                let pair = changes.items.entry(item.clone()).or_default();
                add(&mut pair.values, values);
                add(&mut pair.tested, tested);
            }
            add(&mut changes.nodes[at].own, values);
            add(&mut changes.total, values);
            add(&mut changes.tested, tested);
            changes.atoms.push(Atom {
                wait: wait.clone(),
                state,
                path: path.to_vec(),
                values,
                is_tested,
                items,
            });
        }
        changes
    }

    /// DB time per unit of the side that has more.
    pub(super) fn scale(&self, per: &Per) -> f64 {
        let [good, bad] = per.per_unit(self.total);
        good.max(bad).max(f64::MIN_POSITIVE)
    }

    pub(super) fn totals(&self) -> [u128; 2] {
        self.total
    }

    /// DB time without the host's.
    pub(super) fn tested_totals(&self) -> [u128; 2] {
        self.tested
    }

    /// Gives every item its verdict; false when there are too few slices to tell.
    pub(super) fn test(&mut self, sides: &[Side; 2], per: &Per, factor: f64) -> bool {
        let scale = self.scale(per);
        // Chosen by size, not by difference: the choice does not favour what differs by chance.
        let mut chosen: Vec<Item> = self
            .items
            .iter()
            .filter(|(_, pair)| {
                let [good, bad] = per.per_unit(pair.tested);
                good.max(bad) >= SMALLEST_SHARE * scale
            })
            .map(|(item, _)| item.clone())
            .collect();
        chosen.sort_unstable();
        let numbers: HashMap<&Item, usize> = chosen.iter().zip(0..).collect();
        let mut measures: Vec<Measure> = chosen
            .iter()
            .map(|_| Measure {
                numerators: [0, 1].map(|side| vec![0.0; per.slices[side].len()]),
                denominators: per.slices.clone(),
                factor,
            })
            .collect();
        for atom in self.atoms.iter().filter(|atom| atom.is_tested) {
            let numbers: Vec<usize> = atom
                .items
                .iter()
                .filter_map(|item| numbers.get(item).copied())
                .collect();
            let place = (atom.wait.clone(), atom.state, atom.path.clone());
            for (n, side) in sides.iter().enumerate() {
                let slices = side.slices();
                for (second, amount) in side.places.get(&place).into_iter().flatten() {
                    let slice = slices.of_time(*second);
                    for number in &numbers {
                        measures[*number].numerators[n][slice] += amount.value(per.unit) as f64;
                    }
                }
            }
        }
        let tested = test(&measures);
        let has_slices = tested.is_some();
        let smallest = SMALLEST_SHARE * scale;
        for (number, item) in chosen.iter().enumerate() {
            let Some(pair) = self.items.get_mut(item) else {
                continue;
            };
            let tested = tested.as_ref().map(|tested| &tested[number]);
            pair.verdict = Some(judge(pair.tested, tested, per, factor, smallest));
        }
        for pair in self.items.values_mut() {
            let [good, bad] = per.per_unit(pair.values);
            let is_small = pair.verdict.is_none_or(|verdict| verdict == Verdict::Small);
            if is_small && (bad - good).abs() >= smallest {
                pair.verdict = Some(Verdict::Host);
            }
        }
        has_slices
    }

    pub(super) fn change(
        &self,
        place: Place,
        pair: &Pair,
        self_values: Option<[u128; 2]>,
        per: &Per,
    ) -> Change {
        let per_unit = per.per_unit(pair.values);
        let [good, bad] = self_values.map_or(per_unit, |values| per.per_unit(values));
        Change {
            place,
            values: pair.values,
            self_values: self_values.unwrap_or(pair.values),
            per_unit,
            difference: bad - good,
            percent: (bad - good) * 100.0 / self.scale(per),
            verdict: pair.verdict.unwrap_or(Verdict::Small),
        }
    }

    pub(super) fn total(&self, per: &Per) -> Change {
        let pair = Pair {
            values: self.total,
            ..Pair::default()
        };
        self.change(Place::All, &pair, None, per)
    }

    fn of_kind(&self, per: &Per, place: impl Fn(&Item) -> Option<Place>) -> Vec<Change> {
        ranked(
            self.items
                .iter()
                .filter_map(|(item, pair)| Some((item, self.change(place(item)?, pair, None, per)))),
        )
    }

    pub(super) fn cells(&self, per: &Per) -> Vec<Change> {
        self.of_kind(per, |item| match item {
            Item::Cell(wait, state) => Some(Place::Cell(wait.clone(), *state)),
            _ => None,
        })
    }

    pub(super) fn waits(&self, per: &Per) -> Vec<Change> {
        self.of_kind(per, |item| match item {
            Item::Wait(wait) => Some(Place::Wait(wait.clone())),
            _ => None,
        })
    }

    pub(super) fn modules(&self, per: &Per) -> Vec<Change> {
        self.of_kind(per, |item| match item {
            Item::Module(name) => Some(Place::Module(name.clone())),
            _ => None,
        })
    }

    /// Functions with the difference in themselves. A function is significant when that difference is; what it called
    /// is judged where it is.
    pub(super) fn functions(&self, functions: &Functions, per: &Per) -> Vec<Change> {
        ranked(self.items.iter().filter_map(|(item, pair)| {
            let Item::Total(id) = item else { return None };
            let own = self.items.get(&Item::Own(*id)).copied().unwrap_or_default();
            let place = Place::Function(functions.get(*id).clone());
            let mut change = self.change(place, pair, Some(own.values), per);
            change.verdict = own.verdict.unwrap_or(Verdict::Small);
            Some((item, change))
        }))
    }

    /// Call paths at which the difference ends or spreads out: no single callee carries it on.
    pub(super) fn paths(&self, functions: &Functions, per: &Per) -> Vec<Change> {
        let values = |node: usize| {
            self.items
                .get(&Item::Path(node))
                .map_or([0; 2], |pair| pair.values)
        };
        let difference = |node: usize| {
            let [good, bad] = per.per_unit(values(node));
            bad - good
        };
        let mut carried_on = vec![false; self.nodes.len()];
        for node in 1..self.nodes.len() {
            let parent = self.nodes[node].parent;
            let (own, whole) = (difference(node), difference(parent));
            if own * whole > 0.0 && own.abs() >= CARRIES_ALL * whole.abs() {
                carried_on[parent] = true;
            }
        }
        ranked(
            (1..self.nodes.len())
                .filter(|node| !carried_on[*node])
                .filter_map(|node| {
                    let (item, pair) = self.items.get_key_value(&Item::Path(node))?;
                    let path = self.path_to(node).into_iter().map(|id| functions.get(id).clone());
                    let mut change = self.change(Place::Path(path.collect()), pair, None, per);
                    change.self_values = self.nodes[node].own;
                    (change.difference != 0.0).then_some((item, change))
                }),
        )
    }

    /// The functions of a node of the call tree, root first.
    pub(super) fn path_to(&self, mut node: usize) -> Vec<FunctionId> {
        let mut path = Vec::new();
        while let Some(id) = self.nodes[node].function {
            path.push(id);
            node = self.nodes[node].parent;
        }
        path.reverse();
        path
    }

    pub(super) fn stacks(&self, functions: &Functions, per: &Per) -> Vec<DiffStack> {
        let scale = per.work[0] / per.work[1];
        self.atoms
            .iter()
            .map(|atom| {
                let functions: Vec<Function> =
                    atom.path.iter().map(|id| functions.get(*id).clone()).collect();
                DiffStack {
                    wait: atom.wait.clone(),
                    state: atom.state,
                    functions,
                    values: atom.values,
                    scaled: [
                        u64::try_from(atom.values[0]).unwrap_or(u64::MAX),
                        // A float beyond the range saturates.
                        (atom.values[1] as f64 * scale).round() as u64,
                    ],
                }
            })
            .collect()
    }
}

/// Whether a difference of time that is not the host's is one. `tested`: none when there were too few slices; `smallest`: what is
/// worth a verdict.
pub(super) fn judge(
    values: [u128; 2],
    tested: Option<&Tested>,
    per: &Per,
    factor: f64,
    smallest: f64,
) -> Verdict {
    let [good, bad] = per.per_unit(values);
    // The sign of a change that is large; 0 of others.
    let change = |good: f64| {
        let difference = bad - good;
        let is_large = difference.abs() >= smallest.max(SMALLEST_OF_ITSELF * bad.max(good));
        if is_large { difference.signum() } else { 0.0 }
    };
    let is_large = change(good) * change(factor * good) > 0.0;
    match tested {
        _ if !is_large => Verdict::Small,
        None => Verdict::NotTested,
        Some(tested) if tested.beyond_noise => Verdict::Significant,
        Some(_) => Verdict::Noise,
    }
}

/// The time of another side, too.
pub(super) fn add(to: &mut [u128; 2], values: [u128; 2]) {
    to[0] += values[0];
    to[1] += values[1];
}

/// The largest difference first, in a fixed order.
fn ranked<'a, K: Ord + Eq + Hash + 'a>(changes: impl Iterator<Item = (&'a K, Change)>) -> Vec<Change> {
    let mut changes: Vec<(&K, Change)> = changes.collect();
    changes.sort_by(|(one_key, one), (other_key, other)| {
        other
            .difference
            .abs()
            .total_cmp(&one.difference.abs())
            .then_with(|| Reverse(one.values).cmp(&Reverse(other.values)))
            .then_with(|| one_key.cmp(other_key))
    });
    changes.into_iter().map(|(_, change)| change).collect()
}
