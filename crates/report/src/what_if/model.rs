//! A recording as a closed load that can be replayed with changes.
//!
//! What a client did on its own in a transaction (CPU work, waits for devices and timers) is used as recorded. Its waits for others are
//! not: the replay produces them. What samples do not tell is fitted until the replayed load waits as long as the recorded one: how many
//! strangers want a CPU, how long a lock is held, how long a flush takes.

mod denser;

use std::collections::{BTreeMap, BTreeSet};

use arcstr::ArcStr;
use dbtime_model::SessionId;

use super::network::{Network, Played, Spread, Stage, dispersion, play};
use super::recorded::{FLUSH_LOCK, Kind, Part, Recorded, is_called};
use super::spec::{Changed, WhatIf};
pub(super) use denser::Denser;
use denser::Eased;

/// Transactions of a replay.
const TRANSACTIONS: usize = 5_000;
/// Most transactions expected in the interval in which they are counted, so that a replay has enough such intervals.
const IN_A_STRETCH: f64 = 25.0;
/// Bisection steps of a search.
const HALVINGS: usize = 11;
/// Rounds of fitting one quantity after the other.
const ROUNDS: usize = 2;
/// If time in a lock or a flush is a smaller part of DB time, it is used as recorded.
const LEAST_PART: f64 = 0.05;
/// Most locks that are modelled as queues.
const MOST_LOCKS: usize = 4;
/// If the log is flushed for more than this part of the time in which others wait for a lock, it is flushed while the lock is held.
const LEAST_FLUSH: f64 = 0.02;
/// A lock with at least this part of all hold time under its name is taken to be the one that is waited for.
const ONE_LOCK: f64 = 0.8;
/// A lock that is held to read for more than this part of its hold time is not held by one session at a time.
const MOST_SHARED: f64 = 0.2;

const NS: f64 = 1e9;

/// One client; seconds per transaction.
#[derive(Debug, Clone, Default)]
struct Demand {
    session: SessionId,
    transactions: f64,
    parts: BTreeMap<Part, f64>,
    held: BTreeMap<ArcStr, BTreeMap<Part, f64>>,
}

/// What was recorded, averaged over all transactions; seconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    pub(super) throughput: f64,
    /// From the end of thinking to the end of the transaction.
    pub(super) response: f64,
    /// Of that, time waiting for the client in mid-transaction.
    pub(super) idle_in_transaction: f64,
    /// From the end of a transaction to the start of the next.
    pub(super) think: f64,
    run_queue: f64,
    flush: f64,
    /// Part of the time in which some client was flushing the log.
    pub(super) flush_busy: f64,
    waited: Vec<f64>,
}

/// A lock modelled as a queue.
#[derive(Debug, Clone)]
struct LockModel {
    name: ArcStr,
    users: BTreeSet<SessionId>,
    /// What is done while it is held, as fractions that sum to one; none: each session's own samples tell.
    meanwhile: Option<BTreeMap<Part, f64>>,
    /// The log is flushed while it is held.
    holds_flush: bool,
}

/// Fitted quantities.
#[derive(Debug, Clone, Default)]
struct Fitted {
    strangers: f64,
    /// Length of a flush, as a part of the time that a commit spends in it.
    flush: f64,
    /// Length of holds: a factor on what was recorded, or a part of a transaction.
    holds: Vec<f64>,
}

/// See the module.
pub(super) struct Model<'a> {
    recorded: &'a Recorded,
    cpus: f64,
    locks: Vec<LockModel>,
    has_flush: bool,
}

/// A load as fitted, with durations of some spread.
pub(super) struct FittedModel {
    pub(super) spread: Spread,
    fitted: Fitted,
    /// The replay without changes.
    pub(super) played: Played,
}

/// What a replay gives; times per transaction, in seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outcome {
    pub(super) throughput: f64,
    /// DB time of a transaction.
    pub(super) response: f64,
    /// Flushes of the log per second. 0 if they take no time.
    pub(super) flushes: f64,
}

impl<'a> Model<'a> {
    /// # Errors
    /// Why a lock whose hold time is to change cannot be modelled as a queue.
    pub(super) fn of(recorded: &'a Recorded, cpus: u32, changes: &[WhatIf]) -> Result<Model<'a>, String> {
        let all: f64 = recorded.db_time.0.max(1.0);
        let mut waited: BTreeMap<&str, f64> = BTreeMap::new();
        let mut flush = 0.0;
        for part in recorded.blocks.iter().flatten().flat_map(|share| &share.parts) {
            match part.0.lock() {
                Some(FLUSH_LOCK) => flush += part.1,
                Some(lock) => *waited.entry(lock).or_default() += part.1,
                None if part.0.is_flush() => flush += part.1,
                None => {}
            }
        }
        let is_wanted = |lock: &str, class: &str| {
            changes
                .iter()
                .any(|change| matches!(&change.what, Changed::Hold(name) if is_called(class, lock, name)))
        };
        let mut names: Vec<(bool, f64, &ArcStr)> = Vec::new();
        for (name, facts) in &recorded.locks {
            let time = waited.get(name.as_str()).copied().unwrap_or(0.0);
            let wanted = is_wanted(name, &facts.class);
            if name != FLUSH_LOCK && (wanted || time >= LEAST_PART * all) {
                names.push((wanted, time, name));
            }
        }
        names.sort_by(|one, other| other.0.cmp(&one.0).then(other.1.total_cmp(&one.1)));
        let mut locks = Vec::new();
        for (wanted, time, name) in names {
            match lock_model(recorded, name, time) {
                Ok(lock) if locks.len() < MOST_LOCKS => locks.push(lock),
                Ok(_) => {}
                Err(why) if wanted => return Err(why),
                Err(_) => {}
            }
        }
        let flush_changes = changes.iter().any(|change| match &change.what {
            Changed::Hold(name) => is_called("LWLock", FLUSH_LOCK, name),
            Changed::Event(name) => ["WALSync", "WALWrite"]
                .iter()
                .any(|event| is_called("IO", event, name)),
            Changed::Query(_) => false,
        });
        Ok(Model {
            recorded,
            cpus: f64::from(cpus),
            locks,
            has_flush: flush > 0.0 && (flush_changes || flush >= LEAST_PART * all),
        })
    }

    /// Names of the locks modelled as queues.
    pub(super) fn locks(&self) -> impl Iterator<Item = &str> {
        self.locks.iter().map(|lock| lock.name.as_str())
    }

    pub(super) fn has_flush(&self) -> bool {
        self.has_flush
    }

    /// The demands of the clients in these blocks, each block as often as it is listed. Transactions are read once a second, sometimes
    /// late: those missing in one second are extra in the next. So each client gets the same rate in each second as in all of them.
    fn demands(&self, blocks: &[usize]) -> Vec<Demand> {
        let clients = self.recorded.clients.iter();
        let of = |session: &SessionId| Demand {
            session: *session,
            ..Demand::default()
        };
        let mut demands: Vec<Demand> = clients.map(of).collect();
        for block in blocks {
            for (demand, share) in demands.iter_mut().zip(&self.recorded.blocks[*block]) {
                for (part, ns) in &share.parts {
                    *demand.parts.entry(part.clone()).or_default() += ns / NS;
                }
                for (lock, parts) in &share.held {
                    let held = demand.held.entry(lock.clone()).or_default();
                    for (part, ns) in parts {
                        *held.entry(part.clone()).or_default() += ns / NS;
                    }
                }
            }
        }
        let part = self.seconds(blocks) / self.recorded.lengths.iter().sum::<f64>().max(1e-9);
        for (place, demand) in demands.iter_mut().enumerate() {
            let of_client = self.recorded.blocks.iter().map(|block| block[place].transactions);
            demand.transactions = of_client.sum::<f64>() * part;
        }
        demands.retain(|demand| demand.transactions > 0.0);
        for demand in &mut demands {
            let by = demand.transactions;
            demand.parts.values_mut().for_each(|seconds| *seconds /= by);
            demand
                .held
                .values_mut()
                .flat_map(BTreeMap::values_mut)
                .for_each(|seconds| *seconds /= by);
        }
        demands
    }

    fn seconds(&self, blocks: &[usize]) -> f64 {
        blocks.iter().map(|block| self.recorded.lengths[*block]).sum()
    }

    /// The whole recording.
    pub(super) fn all_blocks(&self) -> Vec<usize> {
        (0..self.recorded.blocks.len()).collect()
    }

    /// How much the number of transactions varies between blocks, beyond their length.
    pub(super) fn dispersion(&self) -> f64 {
        let counts = self.recorded.blocks.iter().map(|block| {
            let counts = block.iter().map(|share| share.transactions);
            counts.sum::<f64>()
        });
        let rate = counts.clone().sum::<f64>() / self.recorded.lengths.iter().sum::<f64>().max(1e-9);
        let expected = self.recorded.lengths.iter().map(|length| rate * length);
        dispersion(counts.zip(expected))
    }

    /// What was recorded in these blocks.
    pub(super) fn facts(&self, blocks: &[usize]) -> Facts {
        let seconds = self.seconds(blocks);
        let demands = self.demands(blocks);
        let all: f64 = demands.iter().map(|demand| demand.transactions).sum();
        let mut facts = Facts {
            throughput: all / seconds.max(1e-9),
            waited: vec![0.0; self.locks.len()],
            ..Facts::default()
        };
        for demand in &demands {
            let weight = demand.transactions / all;
            for (part, time) in &demand.parts {
                let time = time * weight;
                match part.kind {
                    Kind::Think => facts.think += time,
                    _ => facts.response += time,
                }
                if is_idle_in_transaction(part) {
                    facts.idle_in_transaction += time;
                }
                if part.kind == Kind::RunQueue && !part.is_flush() {
                    facts.run_queue += time;
                }
                if part.is_flush() {
                    facts.flush_busy += time * facts.throughput;
                }
                if part.is_flush() || part.lock() == Some(FLUSH_LOCK) {
                    facts.flush += time;
                }
                if let Some(lock) = part.lock()
                    && let Some(place) = self.locks.iter().position(|known| known.name == lock)
                {
                    facts.waited[place] += time;
                }
            }
        }
        facts
    }

    /// The load with these demands, fitted quantities and changes, and with what is left of the CPU time then (none: all of it); and how
    /// long a transaction waits for its client in mid-transaction.
    fn network(
        &self,
        demands: &[Demand],
        facts: &Facts,
        fitted: &Fitted,
        changes: &[WhatIf],
        eased: Option<&Eased>,
    ) -> (Network, f64) {
        let all: f64 = demands.iter().map(|demand| demand.transactions).sum();
        let flushing: f64 = demands
            .iter()
            .filter(|demand| self.flushes(demand))
            .map(|demand| demand.transactions / all)
            .sum();
        let mut flush = (0.0, 0.0);
        let mut idle = 0.0;
        let mut clients = Vec::new();
        for demand in demands {
            let weight = demand.transactions / all;
            let mut think = 0.0;
            // Time as recorded, and as it would be.
            let mut own: BTreeMap<Part, (f64, f64)> = BTreeMap::new();
            for (part, time) in &demand.parts {
                let then = time * factor(part, changes);
                let is_flush = self.has_flush && part.is_flush();
                if is_flush {
                    let hold = hold_factor("LWLock", FLUSH_LOCK, changes);
                    flush.0 += time * weight;
                    flush.1 += then * hold * weight;
                    continue;
                }
                if is_idle_in_transaction(part) {
                    idle += then * weight;
                }
                match part.kind {
                    Kind::Think => think += time,
                    Kind::RunQueue => {}
                    Kind::InLine if self.is_queued_for(part) => {}
                    Kind::InLine | Kind::Blocked | Kind::Cpu => {
                        let doing = Part {
                            root: None,
                            ..part.clone()
                        };
                        let sums = own.entry(doing).or_default();
                        sums.0 += time;
                        sums.1 += then * eased.map_or(1.0, |eased| eased.left(part));
                    }
                }
            }
            let mut stages = Vec::new();
            let mut after_flush = Vec::new();
            for (place, lock) in self.locks.iter().enumerate() {
                if !lock.users.contains(&demand.session) {
                    continue;
                }
                let held = self.held(lock, fitted.holds[place], demand, facts);
                let class = &self.recorded.locks[&lock.name].class;
                let hold = hold_factor(class, &lock.name, changes);
                let (mut cpu, mut delay) = (0.0, 0.0);
                for (part, time) in held {
                    let Some(sums) = own.get_mut(&part) else {
                        continue;
                    };
                    let taken = time.min(sums.0);
                    let then = if sums.0 > 0.0 {
                        sums.1 * taken / sums.0
                    } else {
                        0.0
                    };
                    sums.0 -= taken;
                    sums.1 -= then;
                    if is_idle_in_transaction(&part) {
                        idle += then * (hold - 1.0) * weight;
                    }
                    match part.kind {
                        Kind::Cpu => cpu += then * hold,
                        _ => delay += then * hold,
                    }
                }
                stages.extend([Stage::Acquire(place), Stage::Cpu(cpu), Stage::Delay(delay)]);
                let release = Stage::Release(place);
                if lock.holds_flush && self.flushes(demand) {
                    after_flush.push(release);
                } else {
                    stages.push(release);
                }
            }
            let of = |is_cpu: bool| -> f64 {
                let parts = own.iter().filter(|(part, _)| (part.kind == Kind::Cpu) == is_cpu);
                parts.map(|(_, (_, then))| *then).sum()
            };
            let mut all_stages = vec![Stage::Delay(think), Stage::Cpu(of(true)), Stage::Delay(of(false))];
            all_stages.extend(stages);
            if self.flushes(demand) {
                all_stages.push(Stage::Flush);
            }
            all_stages.extend(after_flush);
            clients.push(all_stages);
        }
        let changed = if flush.0 > 0.0 { flush.1 / flush.0 } else { 1.0 };
        let network = Network {
            clients,
            locks: self.locks.len(),
            cpus: self.cpus,
            strangers: fitted.strangers,
            flush: fitted.flush * facts.flush / flushing.max(1e-9) * changed,
            window: self.window(facts.throughput),
        };
        (network, idle)
    }

    /// Length of the intervals in which transactions are counted, at this throughput: as in the recording, unless that is too long.
    fn window(&self, throughput: f64) -> f64 {
        let lengths = &self.recorded.lengths;
        let recorded = lengths.iter().sum::<f64>() / lengths.len().max(1) as f64;
        recorded.min(IN_A_STRETCH / throughput.max(1e-9)).max(1e-6)
    }

    fn flushes(&self, demand: &Demand) -> bool {
        let is_flush = |part: &Part| part.is_flush() || part.lock() == Some(FLUSH_LOCK);
        self.has_flush && demand.parts.keys().any(is_flush)
    }

    fn is_queued_for(&self, part: &Part) -> bool {
        let is_mine = |lock: &str| self.locks.iter().any(|known| known.name == lock);
        part.lock()
            .is_some_and(|lock| is_mine(lock) || (self.has_flush && lock == FLUSH_LOCK))
    }

    /// What a client does per transaction while it holds a lock.
    fn held(&self, lock: &LockModel, fitted: f64, demand: &Demand, facts: &Facts) -> BTreeMap<Part, f64> {
        match &lock.meanwhile {
            None => demand.held.get(&lock.name).map_or_else(BTreeMap::new, |held| {
                held.iter()
                    .map(|(part, time)| (part.clone(), time * fitted))
                    .collect()
            }),
            Some(meanwhile) => meanwhile
                .iter()
                .map(|(part, share)| (part.clone(), share * fitted * facts.response))
                .collect(),
        }
    }

    /// Fits what samples do not tell.
    pub(super) fn fit(&self, spread: Spread) -> FittedModel {
        let blocks = self.all_blocks();
        let demands = self.demands(&blocks);
        let facts = self.facts(&blocks);
        let mut fitted = Fitted {
            strangers: 0.0,
            flush: 0.6,
            holds: self
                .locks
                .iter()
                .map(|lock| if lock.meanwhile.is_some() { 0.1 } else { 1.0 })
                .collect(),
        };
        let played = |fitted: &Fitted| {
            let (network, _) = self.network(&demands, &facts, fitted, &[], None);
            play(&network, spread, TRANSACTIONS)
        };
        for _ in 0..ROUNDS {
            if self.has_flush {
                fitted.flush = search([0.0, 1.0], facts.flush, |flush| {
                    played(&Fitted {
                        flush,
                        ..fitted.clone()
                    })
                    .flush
                });
            }
            for place in 0..self.locks.len() {
                let bounds = match self.locks[place].meanwhile {
                    // As accurate as samples are.
                    None => [0.5, 1.5],
                    Some(_) => [0.0, 1.0],
                };
                let hold = search(bounds, facts.waited[place], |hold| {
                    let mut fitted = fitted.clone();
                    fitted.holds[place] = hold;
                    played(&fitted).waited[place]
                });
                fitted.holds[place] = hold;
            }
            fitted.strangers = search([0.0, 32.0 * self.cpus], facts.run_queue, |strangers| {
                played(&Fitted {
                    strangers,
                    ..fitted.clone()
                })
                .run_queue
            });
        }
        FittedModel {
            spread,
            played: played(&fitted),
            fitted,
        }
    }

    /// What a fitted load gives, with what happened in these blocks.
    pub(super) fn outcome(&self, of: &FittedModel, blocks: &[usize], changes: &[WhatIf]) -> Outcome {
        let demands = self.demands(blocks);
        let facts = self.facts(blocks);
        let (network, idle) = self.network(&demands, &facts, &of.fitted, changes, None);
        let played = play(&network, of.spread, TRANSACTIONS);
        Outcome {
            throughput: played.throughput,
            response: (played.response - idle).max(0.0),
            flushes: if network.flush > 0.0 { played.flushes } else { 0.0 },
        }
    }
}

/// # Errors
/// Why it cannot be modelled as a queue.
fn lock_model(recorded: &Recorded, name: &str, waited: f64) -> Result<LockModel, String> {
    let facts = &recorded.locks[name];
    let held: f64 = facts.addresses.values().sum();
    let longest = facts.addresses.values().copied().fold(0.0, f64::max);
    if held > 0.0 && longest < ONE_LOCK * held {
        return Err(format!(
            "{name} is the name of many locks ({} were seen), and which of them was waited for is not recorded",
            facts.addresses.len()
        ));
    }
    if facts.shared > MOST_SHARED * held {
        return Err(format!(
            "{name} was held in shared mode by several sessions at a time, which is not modelled"
        ));
    }
    let followed = facts.followed.max(1.0);
    if facts.by_others > 0.1 * followed {
        return Err(format!(
            "for {:.0} % of the time that {name} was waited for, the blocker was no client of the load: a \
             session that was not there all the time, or ended no transaction",
            100.0 * facts.by_others / followed
        ));
    }
    let meanwhile = if held > 0.0 {
        None
    } else {
        if facts.followed < 0.5 * waited || waited < 0.2 * NS {
            return Err(format!(
                "{name} was not waited for enough ({:.3} s, {:.3} s of it followed) to tell how long it is held",
                waited / NS,
                facts.followed / NS
            ));
        }
        // Waits for other locks, and flushes, are produced by the replay.
        let own = |part: &Part| part.kind != Kind::InLine && !part.is_flush();
        let all: f64 = facts
            .meanwhile
            .iter()
            .filter(|(part, _)| own(part))
            .map(|(_, ns)| ns)
            .sum();
        let parts = facts.meanwhile.iter().filter(|(part, _)| own(part));
        Some(
            parts
                .map(|(part, ns)| (part.clone(), ns / all.max(1.0)))
                .collect(),
        )
    };
    let flushing: f64 = facts
        .meanwhile
        .iter()
        .filter(|(part, _)| part.is_flush() || part.lock() == Some(FLUSH_LOCK))
        .map(|(_, ns)| ns)
        .sum();
    Ok(LockModel {
        name: name.into(),
        users: facts.users.clone(),
        meanwhile,
        holds_flush: facts.class == "Lock" && flushing > LEAST_FLUSH * followed,
    })
}

/// The client has begun a transaction and is silent.
fn is_idle_in_transaction(part: &Part) -> bool {
    part.kind == Kind::Blocked && part.class == "Client" && part.event == "ClientRead"
}

/// Time in the event, or ultimately waiting for somebody who is in it.
fn is_in_event(part: &Part, name: &str) -> bool {
    let root = part.root.as_ref();
    part.is_called(name) || root.is_some_and(|(class, event, _)| is_called(class, event, name))
}

/// How many times as long it would take.
fn factor(part: &Part, changes: &[WhatIf]) -> f64 {
    let factors = changes.iter().map(|change| {
        let is_meant = match &change.what {
            Changed::Hold(_) => false,
            Changed::Event(name) => is_in_event(part, name),
            Changed::Query(id) => {
                part.statement == *id
                    || part
                        .root
                        .as_ref()
                        .is_some_and(|(_, _, statement)| statement == id)
            }
        };
        if is_meant { change.factor } else { 1.0 }
    });
    factors.product()
}

fn hold_factor(class: &str, lock: &str, changes: &[WhatIf]) -> f64 {
    let factors = changes.iter().map(|change| match &change.what {
        Changed::Hold(name) if is_called(class, lock, name) => change.factor,
        _ => 1.0,
    });
    factors.product()
}

/// Where an increasing function reaches a value; the bound if it does not.
fn search(bounds: [f64; 2], wanted: f64, of: impl Fn(f64) -> f64) -> f64 {
    let [mut low, mut high] = bounds;
    if of(low) >= wanted {
        return low;
    }
    if of(high) <= wanted {
        return high;
    }
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if of(middle) < wanted {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}
