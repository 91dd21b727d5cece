//! The sentence that an expert would say: where the difference is, as precisely as the numbers allow.
//!
//! Each item that changed significantly in the same direction is rated by how much of the largest difference it explains, and by
//! how much of it is difference: `main` explains everything but is the same code on both sides; a function that only one side runs
//! is all difference. Of those that explain most, the one that is most difference is named, and of equals the one nearest to the
//! leaf.

use std::collections::{HashMap, HashSet};

use dbtime_model::{State, Wait};

use super::answer::Verdict;
use super::changes::{Changes, Item, Pair};
use super::common_factor::is_at_limit;
use super::{Per, SMALLEST_SHARE};
use crate::function::{Function, FunctionId, Functions};
use crate::kernel_layers::subsystem;
use crate::number::duration;
use crate::work::WorkUnit;

/// A cause explains at least this part of the largest difference.
pub(super) const MOST: f64 = 0.7;
/// A callee with this part of the cause is named with it.
const MUCH: f64 = 0.3;
/// A wait and state with less of the cause is named with its part.
const MOST_OF_PLACE: f64 = 0.6;
/// A difference is called extra, or lost, if the whole has changed by at least this part of it.
const OF_THE_WHOLE: f64 = 0.5;
/// How many parts are named if there is no single cause.
const PARTS: usize = 3;
/// Candidates at least this good, relative to the best, are its equals.
const EQUALS: f64 = 0.85;
/// An increase is named before a decrease that is not more than twice as large.
pub(super) const GROWTH_COUNTS: f64 = 0.5;
/// Common factors from here on are mentioned.
const NOTABLE_FACTOR: f64 = 0.1;

/// Functions in which every wait of PostgreSQL and of the C library sleeps: their callers say more. And those with which every background
/// worker begins.
const WAITING: &str = "WaitEventSetWait WaitEventSetWaitBlock WaitLatch WaitLatchOrSocket ProcSleep WaitOnLock PGSemaphoreLock \
    epoll_wait epoll_pwait poll ppoll select futex futex_wait futex_abstimed_wait_common futex_abstimed_wait_common64 futex_abstimed_wait_cancelable64 do_futex_wait \
    new_sem_wait_fast new_sem_wait_slow new_sem_wait_slow64 sem_wait semop pread pread64 \
    pwrite pwrite64 fdatasync fsync read write recv send ConditionVariableSleep ConditionVariableTimedSleep start_thread clone \
    StartBackgroundWorker BackgroundWorkerMain";

/// The answer in words.
pub(super) struct Conclusion {
    /// What explains most of the difference.
    pub(super) sentence: String,
    /// What else should be known about it.
    pub(super) whole: String,
    /// The largest difference per unit of work, common factor taken off: less than 0 if BAD has less. None when nothing differs.
    pub(super) largest: Option<f64>,
}

struct Candidate<'a> {
    item: &'a Item,
    /// Difference per unit of work, as in the tables.
    amount: f64,
    /// `amount` has the common factor taken off, as the sign would be wrong otherwise.
    is_without_factor: bool,
    /// How much it explains, and how much of it is difference.
    score: f64,
    /// How precise it is.
    depth: f64,
    /// It explains most of the largest difference.
    explains: bool,
}

pub(super) fn conclude(
    changes: &Changes,
    functions: &Functions,
    per: &Per,
    factor: f64,
    tested: bool,
    newcomers: &[(String, f64)],
    names_other: bool,
) -> Conclusion {
    let [good, bad] = per.per_unit(changes.totals());
    let grown = bad - good;
    let mut whole = String::new();
    let newcomers: Vec<String> = newcomers
        .iter()
        .map(|(name, share)| format!("{name} ({share:.0} % of BAD's DB time)"))
        .collect();
    let new_in_bad = match newcomers.is_empty() {
        true => None,
        false => Some(format!("new in BAD: {}", newcomers.join(", "))),
    };
    let scale = changes.scale(per);
    let [tested_good, tested_bad] = per.per_unit(changes.tested_totals());
    let hosts = [good - tested_good, bad - tested_bad];
    if (hosts[1] - hosts[0]).abs() >= SMALLEST_SHARE * scale {
        whole += &format!(
            "Of DB time the host took {} in GOOD and {} in BAD (run queue, scheduling, waking, interrupts); that depends on what \
             else ran there, so it is not tested.",
            amount(hosts[0], per.unit),
            amount(hosts[1], per.unit)
        );
    }
    let [good, bad] = [tested_good, tested_bad];
    let own = |pair: &Pair| {
        let [good, bad] = per.per_unit(pair.tested);
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
        return nothing(changes, [good, bad], factor, per, whole, new_in_bad, names_other);
    }
    let largest = |sign: f64| {
        significant
            .iter()
            .map(|(_, pair)| own(pair) * sign)
            .fold(0.0, f64::max)
    };
    // Bad is what takes more; that it does less of other things in the same second is a consequence.
    let sign = if largest(1.0) >= GROWTH_COUNTS * largest(-1.0) {
        1.0
    } else {
        -1.0
    };
    let most = largest(sign);
    let candidates_of = |depth: &dyn Fn(&Item, &Pair) -> Option<f64>| -> Vec<Candidate<'_>> {
        significant
            .iter()
            .filter_map(|(item, pair)| {
                let own = own(pair) * sign;
                let [good, bad] = per.per_unit(pair.tested);
                let difference = (bad - good) * sign;
                let is_without_factor = difference <= 0.0;
                let explained = (own / most).min(1.0);
                let purity = (own / (factor * good).max(bad)).min(1.0);
                let depth = depth(item, pair)?;
                (own > 0.0).then_some(Candidate {
                    item,
                    amount: if is_without_factor { own } else { difference },
                    is_without_factor,
                    score: explained * purity,
                    depth,
                    explains: explained >= MOST,
                })
            })
            .collect()
    };
    // Functions before modules before wait events; a wait event before its states.
    let mut candidates = candidates_of(&|item, pair| match item {
        Item::Total(id) if says_something(functions.get(*id)) => {
            Some(1.0 + pair.depth as f64 / (pair.values[0] + pair.values[1]).max(1) as f64)
        }
        Item::Module(name)
            if !name.starts_with('[') && !matches!(&**name, "sched" | "syscall" | "irq" | "kernel") =>
        {
            Some(0.5)
        }
        Item::Wait(_) => Some(0.25),
        Item::Cell(..) => Some(0.0),
        Item::Module(_) | Item::Total(_) | Item::Own(_) | Item::Path(_) => None,
    });
    if candidates.is_empty() {
        // All of it is in functions without names: all that can be said is where they are called.
        candidates = candidates_of(&|item, _| match item {
            Item::Path(node) => Some(node.path(&changes.atoms).len() as f64),
            _ => Some(0.0),
        });
    }
    candidates.sort_by(|one, other| {
        other
            .score
            .total_cmp(&one.score)
            .then_with(|| one.item.cmp(other.item))
    });
    let best = candidates
        .iter()
        .find(|candidate| candidate.explains)
        .map_or(0.0, |best| best.score);
    let chosen = candidates
        .iter()
        .filter(|candidate| candidate.explains && candidate.score >= EQUALS * best)
        .max_by(|one, other| {
            one.depth
                .total_cmp(&other.depth)
                .then_with(|| other.item.cmp(one.item))
        });
    let view = View {
        changes,
        functions,
        per,
        factor,
        sign,
    };
    let sentence = match chosen {
        Some(chosen) => {
            let (own, all, unit) = (amount(chosen.amount, per.unit), amount(grown, per.unit), per.unit);
            let place = view.place(chosen.item);
            let sentence = match (sign > 0.0, grown * sign >= OF_THE_WHOLE * chosen.amount) {
                // The rest is elsewhere, or not tested.
                (true, true) if chosen.amount < MOST * grown => {
                    format!("Of the extra {all} per {unit} of BAD, {own} is in {place}")
                }
                (false, true) if chosen.amount < MOST * -grown => {
                    format!("Of the {all} per {unit} that BAD takes less, {own} was in {place}")
                }
                (true, true) => format!("The extra {own} per {unit} of BAD is in {place}"),
                (false, true) => format!("The lost {own} per {unit} of BAD was in {place}"),
                // Extra is only what the whole has grown by, not what replaced other things.
                (true, false) => format!(
                    "BAD has {own} more per {unit} in {place}, and less elsewhere: its DB time as a whole has not grown as much"
                ),
                (false, false) => format!(
                    "BAD has {own} less per {unit} in {place}, and more elsewhere: its DB time as a whole has not shrunk as much"
                ),
            };
            match chosen.is_without_factor {
                true => format!("{sentence} (after removing the common factor of {factor:.2})."),
                false => sentence + ".",
            }
        }
        None => {
            let parts: Vec<String> = apart(&candidates, changes)
                .iter()
                .map(|candidate| {
                    format!(
                        "{} in {}",
                        amount(candidate.amount, per.unit),
                        view.place(candidate.item)
                    )
                })
                .collect();
            let what = match (sign > 0.0, grown * sign >= OF_THE_WHOLE * most) {
                (true, true) => "the extra time of BAD",
                (false, true) => "the lost time of BAD",
                (true, false) => "what BAD has more of (it has less of other things)",
                (false, false) => "what BAD has less of (it has more of other things)",
            };
            format!(
                "No single cause explains most of {what}; the largest parts per {} are: {}.",
                per.unit,
                parts.join("; ")
            )
        }
    };
    if let Some(new) = new_in_bad {
        whole += &format!(" {}{}.", new[..1].to_ascii_uppercase(), &new[1..]);
    }
    if !tested {
        whole += " Not tested against noise: too few seconds were recorded.";
    }
    Conclusion {
        sentence,
        whole: whole.trim_start().to_string(),
        largest: Some(most * sign),
    }
}

fn nothing(
    changes: &Changes,
    [good, bad]: [f64; 2],
    factor: f64,
    per: &Per,
    mut whole: String,
    new_in_bad: Option<String>,
    names_other: bool,
) -> Conclusion {
    if (factor - 1.0).abs() >= NOTABLE_FACTOR && !is_at_limit(factor) {
        whole += &format!(
            " All code that both sides run takes {factor:.2} times as long per {} in BAD, uniformly: a \
             slower or busier host, another build, or work that was counted differently.",
            per.unit
        );
    }
    let is_equal = good == bad && changes.atoms.iter().all(|atom| atom.values[0] == atom.values[1]);
    let sentence = match new_in_bad {
        _ if is_equal && !names_other => "No difference.".to_string(),
        // A statement is compared per transaction, if those are counted; and waits of equal length may be for others.
        None if names_other => format!("Per {} nothing else differs beyond noise.", per.unit),
        None => "No difference beyond noise.".to_string(),
        Some(new) if names_other => format!("Per {} nothing else differs beyond noise, but {new}.", per.unit),
        Some(new) => format!("No difference beyond noise, but {new}."),
    };
    Conclusion {
        sentence,
        whole: whole.trim_start().to_string(),
        largest: None,
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

/// What an amount is divided by, in a sentence.
pub(crate) fn per_words(unit: WorkUnit) -> String {
    match unit {
        // Amounts are fractions of these.
        WorkUnit::Sample => "of all samples".to_string(),
        _ => format!("per {unit}"),
    }
}

/// False for functions on every stack that sleeps or enters the kernel, and for those without a name.
pub(super) fn says_something(function: &Function) -> bool {
    function.is_named()
        && !WAITING
            .split_whitespace()
            .any(|waiting| waiting == without_prefix(&function.name))
        && !(function.kernel
            && matches!(
                subsystem(&function.module, &function.name),
                Some("sched" | "syscall" | "irq") | None
            ))
}

/// The name that programmers use for a function of the C library: `__GI_fdatasync` is `fdatasync`.
fn without_prefix(name: &str) -> &str {
    let name = name.trim_start_matches('_');
    ["GI_", "libc_"]
        .into_iter()
        .find_map(|prefix| name.strip_prefix(prefix))
        .unwrap_or(name)
        .trim_start_matches('_')
}

/// The best candidates that overlap little: of a function and its caller only one, if they have half of the smaller one in common.
fn apart<'a>(candidates: &'a [Candidate<'a>], changes: &Changes) -> Vec<&'a Candidate<'a>> {
    let common = |one: &Item, other: &Item| -> u128 {
        let atoms = changes.atoms.iter();
        atoms
            .filter(|atom| changes.is_in(atom, one) && changes.is_in(atom, other))
            .map(|atom| atom.values[0] + atom.values[1])
            .sum()
    };
    let mut chosen: Vec<&Candidate<'_>> = Vec::new();
    for candidate in candidates {
        if chosen.len() == PARTS {
            break;
        }
        let all = |item: &Item| common(item, item);
        let are_apart = |one: &&Candidate<'_>| {
            let smaller = all(one.item).min(all(candidate.item));
            common(one.item, candidate.item) * 2 < smaller
        };
        if chosen.iter().all(are_apart) {
            chosen.push(candidate);
        }
    }
    chosen
}

/// What is needed to describe where something is.
struct View<'a> {
    changes: &'a Changes,
    functions: &'a Functions,
    per: &'a Per,
    factor: f64,
    sign: f64,
}

impl View<'_> {
    /// `F under G (wait event, state), 60 % of it in H`.
    fn place(&self, item: &Item) -> String {
        // What carries the difference within the item: its cells; callers and callees of a function; leaf functions of anything
        // else.
        let mut cells: HashMap<(&Wait, State), f64> = HashMap::new();
        let mut callers: HashMap<FunctionId, f64> = HashMap::new();
        let mut callees: HashMap<FunctionId, f64> = HashMap::new();
        let mut leaves: HashMap<FunctionId, f64> = HashMap::new();
        let mut whole = 0.0;
        for atom in self
            .changes
            .atoms
            .iter()
            .filter(|atom| atom.is_tested && self.changes.is_in(atom, item))
        {
            let [good, bad] = self.per.per_unit(atom.values);
            let own = (bad - self.factor * good) * self.sign;
            whole += own;
            *cells.entry((&*atom.wait, atom.state)).or_default() += own;
            let says_something = |id: &&FunctionId| says_something(self.functions.get(**id));
            if let Some(leaf) = atom.path.iter().rev().find(says_something) {
                *leaves.entry(*leaf).or_default() += own;
            }
            if let Item::Total(id) = item
                && let Some(at) = atom.path.iter().position(|function| function == id)
            {
                let is_named = |id: &&FunctionId| self.functions.get(**id).is_named();
                if let Some(caller) = atom.path[..at].iter().rev().find(is_named) {
                    *callers.entry(*caller).or_default() += own;
                }
                let below: HashSet<FunctionId> = atom.path[at + 1..].iter().copied().collect();
                for callee in below.iter().filter(says_something).filter(|callee| *callee != id) {
                    *callees.entry(*callee).or_default() += own;
                }
            }
        }
        let cell = cells
            .iter()
            .max_by(|one, other| one.1.total_cmp(other.1).then_with(|| other.0.cmp(one.0)))
            .map(|((wait, state), own)| match *own < MOST_OF_PLACE * whole {
                true => format!("{:.0} % of it {wait}, {state}", own * 100.0 / whole),
                false => format!("{wait}, {state}"),
            })
            .unwrap_or_default();
        let most_in = self
            .largest(&leaves)
            .map_or_else(String::new, |(name, _)| format!(", most in {name}"));
        match item {
            Item::Total(id) => {
                let caller = self
                    .largest(&callers)
                    .map_or_else(String::new, |(name, _)| format!(" under {name}"));
                let callee = self
                    .largest(&callees)
                    .filter(|(_, own)| *own >= MUCH * whole)
                    .map_or_else(String::new, |(name, own)| {
                        format!(", {:.0} % of it in {name}", (own * 100.0 / whole).min(100.0))
                    });
                format!("{}{caller} ({cell}){callee}", self.name(*id))
            }
            Item::Module(module) => format!("module {module} ({cell}){most_in}"),
            Item::Wait(_) | Item::Cell(..) => format!("{cell}{most_in}"),
            Item::Own(id) => format!("{} itself ({cell})", self.name(*id)),
            Item::Path(node) => {
                let path = node.path(&self.changes.atoms);
                let (leaf, path) = path
                    .split_last()
                    .map_or(("", path), |(leaf, callers)| (self.name(*leaf), callers));
                let is_named = |id: &&FunctionId| self.functions.get(**id).is_named();
                let caller = path
                    .iter()
                    .rev()
                    .find(is_named)
                    .map_or_else(String::new, |caller| format!(" under {}", self.name(*caller)));
                format!("{leaf}{caller} ({cell})")
            }
        }
    }

    fn name(&self, id: FunctionId) -> &str {
        &self.functions.get(id).name
    }

    /// The function with the most of it, if any is above zero.
    fn largest(&self, own: &HashMap<FunctionId, f64>) -> Option<(&str, f64)> {
        own.iter()
            .filter(|(_, own)| **own > 0.0)
            .map(|(id, own)| (self.name(*id), *own))
            .max_by(|one, other| one.1.total_cmp(&other.1).then_with(|| other.0.cmp(one.0)))
    }
}
