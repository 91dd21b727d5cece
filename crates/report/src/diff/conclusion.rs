//! The sentence that an expert would say: where the difference is, as precisely as the numbers allow.
//!
//! Everything significant in the same direction is asked how much of the largest difference it explains, and how much of
//! it is difference: `main` explains all and is the same code on both sides, a function that only one side runs is
//! nothing but difference. Of those that explain most, the one that is most difference is named, and of equals the one
//! nearest to the leaf.

use std::cmp::Ordering;
use std::collections::HashMap;

use dbtime_model::{State, Wait};

use super::Per;
use super::answer::Verdict;
use super::changes::{Changes, Item, Pair};
use crate::code_module::module_of_path;
use crate::function::{Function, FunctionId, Functions};
use crate::kernel_layers::subsystem;
use crate::number::duration;
use crate::work::WorkUnit;

/// A cause explains this part of the largest difference at least.
const MOST: f64 = 0.7;
/// A callee that has this part of the cause is named with it.
const MUCH: f64 = 0.4;
/// Candidates that are this part as good as the best are equals.
const EQUALS: f64 = 0.85;
/// DB time has changed as a whole from here on: its direction is that of the sentence.
const WHOLE: f64 = 0.1;
/// A common factor from here on is worth a word.
const NOTABLE_FACTOR: f64 = 0.1;

/// Functions in which every wait of PostgreSQL and of the C library sleeps: who called them says more.
const WAITING: &str = "WaitEventSetWait WaitEventSetWaitBlock WaitLatch WaitLatchOrSocket ProcSleep WaitOnLock PGSemaphoreLock \
    epoll_wait epoll_pwait poll ppoll futex do_futex_wait new_sem_wait_fast new_sem_wait_slow sem_wait semop pread pread64 \
    pwrite pwrite64 fdatasync fsync read write recv send ConditionVariableSleep ConditionVariableTimedSleep start_thread clone";

/// The answer in words.
pub(super) struct Conclusion {
    /// What explains most of the difference.
    pub(super) sentence: String,
    /// How much all of it is.
    pub(super) whole: String,
}

struct Candidate<'a> {
    item: &'a Item,
    own: f64,
    score: f64,
    depth: f64,
}

pub(super) fn conclude(
    changes: &Changes,
    functions: &Functions,
    per: &Per,
    factor: f64,
    tested: bool,
) -> Conclusion {
    let [good, bad] = per.per_unit(changes.totals());
    let scale = changes.scale(per);
    let mut whole = format!(
        "DB time per {}: {} in GOOD, {} in BAD.",
        per.unit,
        amount(good, per.unit),
        amount(bad, per.unit)
    );
    let own = |pair: &Pair| {
        let [good, bad] = per.per_unit(pair.values);
        bad - factor * good
    };
    let wanted = if tested {
        Verdict::Significant
    } else {
        Verdict::NotTested
    };
    let significant: Vec<(&Item, &Pair)> = changes
        .items
        .iter()
        .filter(|(_, pair)| pair.verdict == Some(wanted))
        .collect();
    if significant.is_empty() {
        return nothing(changes, good, bad, factor, per, whole);
    }
    let largest = |sign: f64| {
        significant
            .iter()
            .map(|(_, pair)| own(pair) * sign)
            .fold(0.0, f64::max)
    };
    // Where the whole has changed, its direction; where it is only put together differently, the larger change.
    let sign = if (bad - good).abs() >= WHOLE * scale && largest((bad - good).signum()) > 0.0 {
        (bad - good).signum()
    } else if largest(1.0) >= largest(-1.0) {
        1.0
    } else {
        -1.0
    };
    let most = largest(sign);
    let mut candidates: Vec<Candidate<'_>> = significant
        .iter()
        .filter_map(|(item, pair)| {
            let own = own(pair) * sign;
            let [good, bad] = per.per_unit(pair.values);
            let explained = (own / most).min(1.0);
            let purity = (own / (factor * good).max(bad)).min(1.0);
            let depth = match item {
                Item::Total(id) => {
                    if !says_something(functions.get(*id)) {
                        return None;
                    }
                    1.0 + pair.depth as f64 / (pair.values[0] + pair.values[1]).max(1) as f64
                }
                Item::Module(_) => 0.5,
                Item::Cell(..) => 0.0,
                Item::Own(_) | Item::Path(_) | Item::Wait(_) => return None,
            };
            (own > 0.0).then_some(Candidate {
                item,
                own,
                score: explained * purity,
                depth: if explained >= MOST { depth } else { -1.0 },
            })
        })
        .collect();
    candidates.sort_by(|one, other| {
        other
            .score
            .total_cmp(&one.score)
            .then_with(|| one.item.cmp(other.item))
    });
    let explains = |candidate: &&Candidate<'_>| candidate.depth >= 0.0;
    let best = candidates.iter().find(explains).map_or(0.0, |best| best.score);
    let chosen = candidates
        .iter()
        .filter(explains)
        .filter(|candidate| candidate.score >= EQUALS * best)
        .max_by(|one, other| {
            one.depth
                .partial_cmp(&other.depth)
                .unwrap_or(Ordering::Equal)
                .then_with(|| other.item.cmp(one.item))
        });
    let direction = if sign > 0.0 { "extra" } else { "lost" };
    let sentence = match chosen {
        Some(chosen) => {
            let place = place(chosen.item, changes, functions, per, factor, sign);
            let verb = if sign > 0.0 { "is in" } else { "was in" };
            format!(
                "The {direction} {} per {} of BAD {verb} {place}.",
                amount(chosen.own, per.unit),
                per.unit
            )
        }
        None => {
            let parts: Vec<String> = candidates
                .iter()
                .take(3)
                .map(|candidate| {
                    format!(
                        "{} in {}",
                        amount(candidate.own, per.unit),
                        place(candidate.item, changes, functions, per, factor, sign)
                    )
                })
                .collect();
            format!(
                "No single cause explains most of the {direction} time of BAD; the largest parts per {} are: {}.",
                per.unit,
                parts.join("; ")
            )
        }
    };
    if !tested {
        whole += " Not tested against noise: too few seconds were recorded.";
    }
    Conclusion { sentence, whole }
}

fn nothing(changes: &Changes, good: f64, bad: f64, factor: f64, per: &Per, mut whole: String) -> Conclusion {
    if (factor - 1.0).abs() >= NOTABLE_FACTOR {
        whole += &format!(
            " All code that both sides run takes {factor:.2} times as long per {} in BAD, in equal parts: a slower or \
             busier host, another build, or work that was counted differently.",
            per.unit
        );
    }
    let is_equal = good == bad
        && changes
            .atoms
            .iter()
            .all(|atom| atom.values[0] == atom.values[1]);
    let sentence = if is_equal {
        "No difference."
    } else {
        "No difference beyond noise."
    };
    Conclusion {
        sentence: sentence.to_string(),
        whole,
    }
}

/// An amount per unit of work.
pub(crate) fn amount(value: f64, unit: WorkUnit) -> String {
    match unit {
        WorkUnit::Sample => format!("{:.1} %", value * 100.0),
        // Rounded to the nanosecond; a float beyond the range saturates.
        _ => duration(value.abs().round() as u128),
    }
}

/// False for what stands on every stack that sleeps or enters the kernel, and for what has no name.
fn says_something(function: &Function) -> bool {
    function.is_named()
        && !WAITING
            .split_whitespace()
            .any(|waiting| waiting == function.name.trim_start_matches('_'))
        && !(function.kernel
            && matches!(
                subsystem(&function.module, &function.name),
                Some("sched" | "syscall" | "irq") | None
            ))
}

/// `F under G (wait event, state)`.
fn place(item: &Item, changes: &Changes, functions: &Functions, per: &Per, factor: f64, sign: f64) -> String {
    // What carries the difference inside of the item: its cells, its callers, for modules its functions.
    let mut cells: HashMap<(&Wait, State), f64> = HashMap::new();
    let mut callers: HashMap<FunctionId, f64> = HashMap::new();
    let mut callees: HashMap<FunctionId, f64> = HashMap::new();
    let mut whole = 0.0;
    for atom in &changes.atoms {
        let [good, bad] = per.per_unit(atom.values);
        let own = (bad - factor * good) * sign;
        let mut in_item = false;
        match item {
            Item::Total(id) => {
                if let Some(at) = atom.path.iter().position(|function| function == id) {
                    in_item = true;
                    whole += own;
                    let mut below: Vec<FunctionId> = atom.path[at + 1..].to_vec();
                    below.sort_unstable();
                    below.dedup();
                    for callee in below {
                        if callee != *id && says_something(functions.get(callee)) {
                            *callees.entry(callee).or_default() += own;
                        }
                    }
                    let caller = atom.path[..at]
                        .iter()
                        .rev()
                        .find(|caller| functions.get(**caller).is_named());
                    if let Some(caller) = caller {
                        *callers.entry(*caller).or_default() += own;
                    }
                }
            }
            Item::Module(name) => {
                in_item = module_of_path(&atom.path, functions, atom.state.is_on_cpu()) == *name;
                let leaf = atom
                    .path
                    .iter()
                    .rev()
                    .find(|id| says_something(functions.get(**id)));
                if let (true, Some(leaf)) = (in_item, leaf) {
                    *callers.entry(*leaf).or_default() += own;
                }
            }
            Item::Cell(wait, state) => {
                in_item = *wait == atom.wait && *state == atom.state;
                let leaf = atom
                    .path
                    .iter()
                    .rev()
                    .find(|id| says_something(functions.get(**id)));
                if let (true, Some(leaf)) = (in_item, leaf) {
                    *callers.entry(*leaf).or_default() += own;
                }
            }
            Item::Wait(_) | Item::Own(_) | Item::Path(_) => {}
        }
        if in_item {
            *cells.entry((&atom.wait, atom.state)).or_default() += own;
        }
    }
    let name = |id: &FunctionId| functions.get(*id).name.clone();
    let largest = |own: &HashMap<FunctionId, f64>| {
        own.iter()
            .filter(|(_, own)| **own > 0.0)
            .max_by(|one, other| {
                one.1
                    .total_cmp(other.1)
                    .then_with(|| name(other.0).cmp(&name(one.0)))
            })
            .map(|(id, own)| (name(id), *own))
    };
    let caller = largest(&callers).map(|(name, _)| name);
    let callee = largest(&callees)
        .filter(|(_, own)| *own >= MUCH * whole)
        .map_or_else(String::new, |(name, own)| {
            format!(", {:.0} % of it in {name}", (own * 100.0 / whole).min(100.0))
        });
    let cell = cells
        .iter()
        .max_by(|one, other| one.1.total_cmp(other.1).then_with(|| other.0.cmp(one.0)))
        .map(|((wait, state), _)| format!("{wait}, {state}"))
        .unwrap_or_default();
    match item {
        Item::Total(id) => match caller {
            Some(caller) => format!("{} under {caller} ({cell}){callee}", name(id)),
            None => format!("{} ({cell}){callee}", name(id)),
        },
        Item::Module(module) => match caller {
            Some(function) => format!("module {module}, most in {function} ({cell})"),
            None => format!("module {module} ({cell})"),
        },
        Item::Cell(wait, state) => match caller {
            Some(function) => format!("{wait}, {state}, most in {function}"),
            None => format!("{wait}, {state}"),
        },
        Item::Wait(wait) => wait.to_string(),
        Item::Own(id) => name(id),
        Item::Path(_) => String::new(),
    }
}
