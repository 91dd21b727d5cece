//! Everything that time is grouped by to be compared, and the test of all of it together.
//!
//! The host's time is shown where it was spent, but not tested: how long a session waits for a CPU and where in the code it lost it, what
//! switching and waking others costs (much more when their CPU is idle), and which interrupts hit the session, all depend on what else
//! runs there.

use std::cmp::{Ordering, Reverse};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arcstr::ArcStr;
use dbtime_model::{State, StateGroup, Wait};

use super::answer::{Change, DiffStack, Place, Verdict};
use super::call_tree::{NodeId, each_node};
use super::noise::{Measure, Tested, test};
use super::side::{PlaceTime, Side};
use super::{Per, SMALLEST_SHARE};
use crate::code_module::module_of_path;
use crate::function::{FunctionId, Functions};
use crate::kernel_layers::subsystem;
use crate::numbered::Numbered;

/// The same code takes more or less CPU time depending on what else runs on the host, and not all code equally: in equal runs of
/// PostgreSQL alone and beside a busy neighbour the largest change of a path was 45 %, and beyond 40 % in 3 of 100 comparisons. What both
/// sides run must change by this part of itself. As the common factor is an estimate, it must do so both with the factor and without it.
const SMALLEST_OF_ITSELF: f64 = 0.4;

/// A function with less than this of both sides is neither tested nor named as new: just below the limit, as float sums are compared.
const ENOUGH: f64 = SMALLEST_SHARE * 0.999;

/// What time is grouped by for the comparison.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Item {
    Cell(Wait, State),
    Wait(Wait),
    /// A function with its callees, once per stack.
    Total(FunctionId),
    /// A function itself.
    Own(FunctionId),
    /// A node of the call tree.
    Path(NodeId),
    Module(ArcStr),
}

/// Both sides of one item.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pair {
    pub(super) values: [u128; 2],
    /// Of these, the time that is not the host's.
    pub(super) tested: [u128; 2],
    /// Depth of the function on the stacks, weighted by time.
    pub(super) depth: u128,
    pub(super) verdict: Option<Verdict>,
    /// The difference in standard errors, if it has a test of its own.
    pub(super) errors: Option<f64>,
}

/// Values of both sides of one function. There may be millions.
#[derive(Debug, Clone, Copy, Default)]
struct FunctionValues {
    /// With its callees.
    total: [u128; 2],
    own: [u128; 2],
}

/// One stack of either side. There may be millions.
pub(super) struct Atom {
    pub(super) wait: Arc<Wait>,
    pub(super) state: State,
    pub(super) path: Box<[FunctionId]>,
    pub(super) values: [u128; 2],
    /// The same by slice, until it has been tested.
    pub(super) slices: [Box<[(u8, f64)]>; 2],
    /// It is not the host's time.
    pub(super) is_tested: bool,
    /// Number of the module that it belongs to.
    module: u32,
}

pub(super) struct Changes {
    pub(super) atoms: Vec<Atom>,
    /// Cells, wait events, modules; of functions and nodes of the call tree only the large ones.
    pub(super) items: HashMap<Item, Pair>,
    /// Indexed by function; empty if functions are not compared.
    functions: Vec<FunctionValues>,
    modules: Vec<ArcStr>,
    total: [u128; 2],
    tested: [u128; 2],
}

/// Kernel functions that wake others, and may have all of that inlined into them.
const WAKING: [&str; 3] = ["sock_def_readable", "ep_poll_callback", "pollwake"];

/// False for the host's time: in the run queue, and on a CPU in the scheduler, waking others or in interrupts.
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

/// The places of both sides in order, equal ones paired.
fn side_by_side(sides: &mut [Side; 2]) -> impl Iterator<Item = [Option<PlaceTime>; 2]> + use<> {
    let [good, bad] = sides.each_mut().map(|side| std::mem::take(&mut side.places));
    let (mut good, mut bad) = (good.into_iter().peekable(), bad.into_iter().peekable());
    std::iter::from_fn(move || {
        let order = match (good.peek(), bad.peek()) {
            (None, None) => return None,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(good), Some(bad)) => good.place().cmp(&bad.place()),
        };
        let good = order.is_le().then(|| good.next()).flatten();
        let bad = order.is_ge().then(|| bad.next()).flatten();
        Some([good, bad])
    })
}

impl Changes {
    /// Takes the places of both sides.
    pub(super) fn of(sides: &mut [Side; 2], functions: &Functions, per: &Per) -> Changes {
        // If only one side has stacks, functions would differ for that reason alone.
        let has_stacks = sides.iter().all(|side| side.has_stacks);
        let mut changes = Changes {
            atoms: Vec::with_capacity(sides[0].places.len().max(sides[1].places.len())),
            items: HashMap::new(),
            functions: vec![FunctionValues::default(); if has_stacks { functions.len() } else { 0 }],
            modules: Vec::new(),
            total: [0; 2],
            tested: [0; 2],
        };
        let mut modules = Numbered::default();
        let mut once: Vec<FunctionId> = Vec::new();
        for both in side_by_side(sides) {
            let mut values = [0; 2];
            let mut slices: [Box<[(u8, f64)]>; 2] = Default::default();
            for (n, place) in both.iter().enumerate() {
                let Some(place) = place else { continue };
                let of_slices = place
                    .slices
                    .iter()
                    .map(|(slice, amount)| (*slice, amount.value(per.unit)));
                values[n] = of_slices.clone().map(|(_, value)| u128::from(value)).sum();
                slices[n] = of_slices.map(|(slice, value)| (slice, value as f64)).collect();
            }
            let Some(PlaceTime {
                wait, state, path, ..
            }) = both.into_iter().flatten().next()
            else {
                continue;
            };
            let is_tested = is_tested(state, &path, functions);
            let tested = if is_tested { values } else { [0; 2] };
            let mut module = 0;
            let mut items = vec![
                Item::Cell(Wait::clone(&wait), state),
                Item::Wait(Wait::clone(&wait)),
            ];
            if let (true, Some(leaf)) = (has_stacks, path.last()) {
                let name: ArcStr = module_of_path(&path, functions, state.is_on_cpu()).into();
                module = modules.number(ArcStr::clone(&name));
                items.push(Item::Module(name));
                add(&mut changes.functions[leaf.place()].own, values);
                once.clear();
                once.extend(&path);
                once.sort_unstable();
                once.dedup();
                for id in &once {
                    add(&mut changes.functions[id.place()].total, values);
                }
            }
            for item in items {
                changes.items.entry(item).or_default().add(values, tested);
            }
            add(&mut changes.total, values);
            add(&mut changes.tested, tested);
            changes.atoms.push(Atom {
                wait,
                state,
                path,
                values,
                slices,
                is_tested,
                module,
            });
        }
        changes.modules = modules.into_values();
        changes.keep_large_functions();
        changes
    }

    /// Keeps the data of functions that have enough of a side to be tested, to be new or to be the host's.
    fn keep_large_functions(&mut self) {
        let is_large = |values: [u128; 2]| {
            values
                .iter()
                .zip(self.total)
                .any(|(value, total)| *value > 0 && *value as f64 >= ENOUGH * total as f64)
        };
        let large: HashSet<FunctionId> = FunctionId::all()
            .zip(&self.functions)
            .filter(|(_, values)| is_large(values.total))
            .map(|(id, _)| id)
            .collect();
        for atom in &self.atoms {
            let tested = if atom.is_tested { atom.values } else { [0; 2] };
            let mut once: Vec<(FunctionId, usize)> = atom
                .path
                .iter()
                .copied()
                .zip(1..)
                .filter(|(id, _)| large.contains(id))
                .collect();
            once.sort_unstable();
            once.dedup_by_key(|(id, _)| *id);
            for (id, depth) in once {
                let pair = self.items.entry(Item::Total(id)).or_default();
                pair.add(atom.values, tested);
                pair.depth += depth as u128 * (atom.values[0] + atom.values[1]);
            }
            if let Some(leaf) = atom.path.last().filter(|leaf| large.contains(leaf)) {
                let pair = self.items.entry(Item::Own(*leaf)).or_default();
                pair.add(atom.values, tested);
            }
        }
    }

    /// Whether a stack is part of an item.
    pub(super) fn is_in(&self, atom: &Atom, item: &Item) -> bool {
        match item {
            Item::Cell(wait, state) => *atom.wait == *wait && atom.state == *state,
            Item::Wait(wait) => *atom.wait == *wait,
            Item::Total(id) => atom.path.contains(id),
            Item::Own(id) => atom.path.last() == Some(id),
            Item::Path(node) => atom.path.starts_with(node.path(&self.atoms)),
            Item::Module(name) => self.modules.get(atom.module as usize) == Some(name),
        }
    }

    /// Whether functions are compared.
    fn has_stacks(&self) -> bool {
        !self.functions.is_empty()
    }

    /// DB time per unit of the side that has more.
    pub(super) fn scale(&self, per: &Per) -> f64 {
        let [good, bad] = per.per_unit(self.total);
        good.max(bad).max(f64::MIN_POSITIVE)
    }

    pub(super) fn totals(&self) -> [u128; 2] {
        self.total
    }

    /// DB time without the host's time.
    pub(super) fn tested_totals(&self) -> [u128; 2] {
        self.tested
    }

    /// Keeps the nodes of the call tree that are large enough to be tested.
    fn keep_large_nodes(&mut self, per: &Per, smallest: f64) {
        if !self.has_stacks() {
            return;
        }
        let mut large = Vec::new();
        each_node(
            &self.atoms,
            |_| 0.0,
            |node| {
                let mut pair = Pair::default();
                pair.add(node.values, node.tested);
                if pair.is_large(per, smallest) {
                    large.push((Item::Path(node.id), pair));
                }
            },
        );
        self.items.extend(large);
    }

    /// Gives every item its verdict; false when there are too few slices to tell.
    pub(super) fn test(&mut self, per: &Per, factor: f64) -> bool {
        let smallest = SMALLEST_SHARE * self.scale(per);
        self.keep_large_nodes(per, smallest);
        // Chosen by size, not by difference: the choice does not favour what differs by chance.
        let mut chosen: Vec<Item> = self
            .items
            .iter()
            .filter(|(_, pair)| pair.is_large(per, smallest))
            .map(|(item, _)| item.clone())
            .collect();
        chosen.sort_unstable();
        let numbers = Numbers::of(&chosen, self);
        let mut measures: Vec<Measure> = chosen.iter().map(|_| per.measure(factor)).collect();
        for atom in self.atoms.iter().filter(|atom| atom.is_tested) {
            for number in numbers.of_atom(atom, self) {
                for (numerators, slices) in measures[number].numerators.iter_mut().zip(&atom.slices) {
                    for (slice, value) in slices {
                        numerators[usize::from(*slice)] += value;
                    }
                }
            }
        }
        let tested = test(&measures);
        let has_slices = tested.is_some();
        for (number, item) in chosen.iter().enumerate() {
            let Some(pair) = self.items.get_mut(item) else {
                continue;
            };
            let tested = tested.as_ref().map(|tested| &tested[number]);
            pair.verdict = Some(judge(pair.tested, tested, per, factor, smallest));
        }
        for pair in self.items.values_mut() {
            pair.judge_untested(per, smallest);
        }
        // No longer needed.
        for atom in &mut self.atoms {
            atom.slices = Default::default();
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
            Item::Module(name) => Some(Place::Module(name.to_string())),
            _ => None,
        })
    }

    /// Functions, by the difference in themselves. A function is significant if that difference is; its callees are judged on their own.
    pub(super) fn functions(&self, functions: &Functions, per: &Per) -> Vec<Change> {
        ranked(FunctionId::all().zip(&self.functions).map(|(id, values)| {
            let place = Place::Function(functions.shared(id));
            let mut pair = Pair::default();
            pair.add(values.total, [0; 2]);
            pair.verdict = self.items.get(&Item::Own(id)).and_then(|own| own.verdict);
            (id, self.change(place, &pair, Some(values.own), per))
        }))
    }

    /// Call paths where the difference ends or spreads out: no single callee carries it on.
    pub(super) fn paths(&self, functions: &Functions, per: &Per) -> Vec<Change> {
        if !self.has_stacks() {
            return Vec::new();
        }
        let smallest = SMALLEST_SHARE * self.scale(per);
        let difference = |values: [u128; 2]| {
            let [good, bad] = per.per_unit(values);
            bad - good
        };
        let mut changes = Vec::new();
        each_node(&self.atoms, difference, |node| {
            let own = difference(node.values);
            if own == 0.0 || node.is_carried_on(own) {
                return;
            }
            let mut pair = Pair::default();
            pair.add(node.values, node.tested);
            pair.verdict = self
                .items
                .get(&Item::Path(node.id))
                .and_then(|known| known.verdict);
            pair.judge_untested(per, smallest);
            let path = node.id.path(&self.atoms).iter();
            let place = Place::Path(path.map(|id| functions.shared(*id)).collect());
            let mut change = self.change(place, &pair, None, per);
            change.self_values = node.own;
            changes.push((node.id, change));
        });
        ranked(changes.into_iter())
    }

    /// Every stack.
    pub(super) fn into_stacks(self, functions: &Functions, per: &Per) -> Vec<DiffStack> {
        let scale = per.work[0] / per.work[1];
        self.atoms
            .into_iter()
            .map(|atom| DiffStack {
                wait: Wait::clone(&atom.wait),
                state: atom.state,
                functions: atom.path.iter().map(|id| functions.shared(*id)).collect(),
                values: atom.values,
                scaled: [
                    u64::try_from(atom.values[0]).unwrap_or(u64::MAX),
                    // A float beyond the range saturates.
                    (atom.values[1] as f64 * scale).round() as u64,
                ],
            })
            .collect()
    }
}

/// The verdict on a difference, the host's time excluded. `tested`: none when there were too few slices; `smallest`: what is worth a
/// verdict.
pub(super) fn judge(
    values: [u128; 2],
    tested: Option<&Tested>,
    per: &Per,
    factor: f64,
    smallest: f64,
) -> Verdict {
    let [good, bad] = per.per_unit(values);
    // The sign of a change that is large; 0 if it is not.
    let change = |good: f64| {
        let difference = bad - good;
        let is_large = difference.abs() >= smallest.max(SMALLEST_OF_ITSELF * bad.max(good));
        if is_large { difference.signum() } else { 0.0 }
    };
    let is_large = change(good) * change(factor * good) > 0.0;
    match tested {
        _ if !is_large => Verdict::Small,
        None => Verdict::NotTested,
        Some(tested) => tested.verdict,
    }
}

impl Pair {
    pub(super) fn add(&mut self, values: [u128; 2], tested: [u128; 2]) {
        add(&mut self.values, values);
        add(&mut self.tested, tested);
    }

    /// Whether it is large enough to be tested.
    pub(super) fn is_large(&self, per: &Per, smallest: f64) -> bool {
        let [good, bad] = per.per_unit(self.tested);
        good.max(bad) >= smallest
    }

    /// What differs but was not tested, or was found to be small, is the host's.
    pub(super) fn judge_untested(&mut self, per: &Per, smallest: f64) {
        let [good, bad] = per.per_unit(self.values);
        let is_small = self.verdict.is_none_or(|verdict| verdict == Verdict::Small);
        if is_small && (bad - good).abs() >= smallest {
            self.verdict = Some(Verdict::Host);
        }
    }
}

/// The items that are tested, by number.
struct Numbers<'a> {
    items: HashMap<&'a Item, usize>,
    functions: HashMap<FunctionId, usize>,
    /// By the number of the caller. A caller is never smaller than its callee, so all callers are there.
    nodes: HashMap<(Option<usize>, FunctionId), usize>,
}

impl<'a> Numbers<'a> {
    fn of(chosen: &'a [Item], changes: &Changes) -> Numbers<'a> {
        let mut numbers = Numbers {
            items: chosen.iter().zip(0..).collect(),
            functions: HashMap::new(),
            nodes: HashMap::new(),
        };
        for (item, number) in chosen.iter().zip(0..) {
            match item {
                Item::Total(id) => {
                    numbers.functions.insert(*id, number);
                }
                Item::Path(node) => {
                    if let [callers @ .., function] = node.path(&changes.atoms) {
                        let caller = numbers.nodes_of(callers).last();
                        numbers.nodes.insert((caller, *function), number);
                    }
                }
                _ => {}
            }
        }
        numbers
    }

    /// The tested nodes of a call path, root first.
    fn nodes_of(&self, path: &[FunctionId]) -> impl Iterator<Item = usize> {
        let mut caller = None;
        path.iter().map_while(move |function| {
            caller = Some(*self.nodes.get(&(caller, *function))?);
            caller
        })
    }

    /// All tested items that a stack is part of, each once.
    fn of_atom(&self, atom: &Atom, changes: &Changes) -> Vec<usize> {
        let leaf = atom.path.last().map(|leaf| Item::Own(*leaf));
        let module = changes
            .modules
            .get(atom.module as usize)
            .cloned()
            .map(Item::Module);
        let wait = || Wait::clone(&atom.wait);
        let whole = [Item::Cell(wait(), atom.state), Item::Wait(wait())];
        let mut numbers: Vec<usize> = whole
            .iter()
            .chain(&leaf)
            .chain(&module)
            .filter_map(|item| self.items.get(item).copied())
            .chain(atom.path.iter().filter_map(|id| self.functions.get(id).copied()))
            .chain(self.nodes_of(&atom.path))
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }
}

pub(super) fn add(to: &mut [u128; 2], values: [u128; 2]) {
    to[0] += values[0];
    to[1] += values[1];
}

/// The largest difference first, in a fixed order.
fn ranked<K: Ord>(changes: impl Iterator<Item = (K, Change)>) -> Vec<Change> {
    let mut changes: Vec<(K, Change)> = changes.collect();
    changes.sort_unstable_by(|(one_key, one), (other_key, other)| {
        other
            .difference
            .abs()
            .total_cmp(&one.difference.abs())
            .then_with(|| Reverse(one.values).cmp(&Reverse(other.values)))
            .then_with(|| one_key.cmp(other_key))
    });
    changes.into_iter().map(|(_, change)| change).collect()
}
