//! What if a lock were held for half as long, a device were faster, a statement went away: DB time and throughput of the same closed load,
//! predicted by replaying what was recorded.
//!
//! ```text
//! spec       what to change
//! recorded   what each client did with its time, in blocks of time
//! model      a replayable load made of that, fitted to how long it waited
//! network    replays it
//! denser     of a model: what a denser load may need less of
//! ```
//!
//! The load is first replayed unchanged. If that does not reproduce the recording, or the recording does not support a prediction, the
//! answer is that it cannot be said, and why. The prediction lies between those for durations that hardly vary and for random ones, by how
//! evenly the recorded transactions ended. The interval is that of a bootstrap over blocks of the recording, for both, widened by how far
//! the unchanged replay is off, and by what is known not to be in a recording, or to be in it but not to recur.

mod model;
mod network;
mod recorded;
mod spec;

use dbtime_model::recording::Meta;
use serde::Serialize;

use crate::causes;
use crate::filter::Filter;
use crate::group::query_id;
use crate::load::Source;
use crate::report::{ReportError, load};
use crate::scan::Period;
use model::{Denser, FittedModel, Model, Outcome};
use network::Spread;
use recorded::{FLUSH_LOCK, Recorded, is_called};
pub use spec::{Changed, WhatIf};

/// Resamples of a bootstrap.
const RESAMPLES: usize = 40;
/// Part of them that is cut off at either end: an interval of nine in ten.
const TAIL: f64 = 0.05;
/// Shorter recordings say too little, seconds.
const SHORTEST: f64 = 5.0;
/// Fewer samples of clients say too little.
const FEWEST_SAMPLES: u64 = 200;
/// Fewer transactions say too little.
const FEWEST_TRANSACTIONS: f64 = 30.0;
/// If a larger part of the transactions is of clients that came or went meanwhile, this is not a closed load.
const MOST_PASSING: f64 = 0.1;
/// If the throughput of the halves of the recording differs by more, they are not one load.
const MOST_DRIFT: f64 = 0.25;
/// If parallel workers have a larger part of DB time, it is not modelled.
const MOST_WORKERS: f64 = 0.05;
/// The unchanged replay may be off by this much.
const MOST_MISS: f64 = 0.1;
/// The same for the part of the time in which the log is flushed.
const MOST_FLUSH_MISS: f64 = 0.3;
/// Largest weight of random durations: the effect of a busy host on a load looks like them.
const MOST_RANDOM: f64 = 0.5;
/// This much of a client's apparent think time, seconds, may be the way to it and back and its wakeup, but no more than a part of it: all
/// of that is shorter when more is going on (measured: 0.4 ms, docs/what-if.md).
const ON_THE_WAY: f64 = 0.000_5;
const MOST_ON_THE_WAY: f64 = 0.5;
/// Flushes of the log count as more than recorded above this factor.
const MORE_FLUSHES: f64 = 1.1;
/// If the log was flushed for this part of the time, its device was busy.
const BUSY: f64 = 0.8;
/// Predictions for a busy device were too high by this much (docs/what-if.md).
const MISS_OF_BUSY: f64 = 0.2;
/// How many names are suggested.
const MOST_NAMED: usize = 8;

/// The question.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WhatIfOptions {
    /// Selects part of the time, and clients.
    pub filter: Filter,
    /// All of these at once.
    pub changes: Vec<WhatIf>,
}

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub struct WhatIfReport {
    /// What the recording says about itself.
    pub meta: Meta,
    /// Which part of it counts.
    pub filter: Filter,
    /// The time it covers.
    pub period: Period,
    /// What is changed.
    pub changes: Vec<WhatIf>,
    /// The prediction, or why it cannot be said.
    pub answer: Result<Prediction, String>,
    /// What could not be read.
    pub problems: Vec<String>,
}

/// Figures of a closed load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LoadFigures {
    /// Transactions a second.
    pub transactions_per_s: f64,
    /// DB time of a transaction, seconds.
    pub db_time_per_transaction_s: f64,
    /// Average active sessions: of these clients.
    pub aas: f64,
}

impl LoadFigures {
    fn new(throughput: f64, response: f64) -> LoadFigures {
        LoadFigures {
            transactions_per_s: throughput,
            db_time_per_transaction_s: response,
            aas: throughput * response,
        }
    }
}

/// A prediction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// Clients of the closed load.
    pub clients: usize,
    /// Seconds of the recording that count.
    pub seconds: f64,
    /// Transactions in these.
    pub transactions: f64,
    /// As recorded.
    pub now: LoadFigures,
    /// As predicted.
    pub predicted: LoadFigures,
    /// Lower ends of the intervals, each figure's own.
    pub low: LoadFigures,
    /// Upper ends.
    pub high: LoadFigures,
    /// Throughput of the unchanged replay minus what was recorded, as a part of the latter: the larger miss.
    pub miss: f64,
    /// What it is based on, as sentences.
    pub assumes: Vec<String>,
}

/// Predicts.
///
/// # Errors
/// The filter names what is not in the recording.
pub fn what_if(source: &Source, options: &WhatIfOptions) -> Result<WhatIfReport, ReportError> {
    let filter = &options.filter;
    let mut dimensions = load(source, filter)?;
    let (recorded, scanned) = Recorded::read(source, &mut dimensions, filter);
    scanned.check(filter)?;
    let meta = source.meta();
    let changes = || options.changes.iter();
    // A mistyped name is reported before any general reason, unless nothing in the recording has a name.
    let answer = changes()
        .filter(|change| has_any(change, &recorded))
        .try_for_each(|change| is_there(change, &recorded))
        .and_then(|()| cannot_say(&recorded, meta).map_or(Ok(()), Err))
        .and_then(|()| changes().try_for_each(|change| is_there(change, &recorded)))
        .and_then(|()| predict(&recorded, meta.host.cpus, &options.changes));
    let mut problems = std::mem::take(&mut dimensions.problems);
    problems.extend(scanned.problems);
    Ok(WhatIfReport {
        meta: meta.clone(),
        filter: filter.clone(),
        period: scanned.period,
        changes: options.changes.clone(),
        answer,
        problems: problems.into_iter().map(|problem| problem.0).collect(),
    })
}

/// Why the recording supports no prediction at all.
fn cannot_say(recorded: &Recorded, meta: &Meta) -> Option<String> {
    let followed: f64 = recorded.locks.values().map(|lock| lock.followed).sum();
    if !causes::is_recorded(meta, followed as u128) {
        return Some(causes::why_not_recorded(meta).to_string());
    }
    let seconds: f64 = recorded.lengths.iter().sum();
    let transactions: f64 = recorded
        .blocks
        .iter()
        .flatten()
        .map(|share| share.transactions)
        .sum();
    let (passing, all) = recorded.transactions;
    let percent = |part: f64, all: f64| 100.0 * part / all.max(1e-9);
    if all <= 0.0 {
        return Some(
            "no counted transaction ended: 'dbtime record' counts those of PostgreSQL sessions that live \
             for more than a second, on x86-64"
                .to_string(),
        );
    }
    if passing > MOST_PASSING * all {
        return Some(format!(
            "{:.0} % of the transactions belong to sessions that began or ended during the recording: that is not a closed load",
            percent(passing, all)
        ));
    }
    if seconds < SHORTEST {
        return Some(format!(
            "transactions were counted for {seconds:.0} s, but {SHORTEST:.0} s are needed"
        ));
    }
    if transactions < FEWEST_TRANSACTIONS || recorded.samples < FEWEST_SAMPLES {
        return Some(format!(
            "there are {transactions:.0} transactions and {} samples of clients; {FEWEST_TRANSACTIONS:.0} and {FEWEST_SAMPLES} are \
             needed",
            recorded.samples
        ));
    }
    if recorded.workers > MOST_WORKERS * recorded.db_time.0 {
        return Some(
            "parallel workers account for part of the DB time, and they are not modelled".to_string(),
        );
    }
    if meta.host.cpus == 0 {
        return Some("the recording does not say how many CPUs there are".to_string());
    }
    let half = recorded.blocks.len() / 2;
    let rate = |blocks: std::ops::Range<usize>| {
        let seconds: f64 = recorded.lengths[blocks.clone()].iter().sum();
        let shares = recorded.blocks[blocks].iter().flatten();
        shares.map(|share| share.transactions).sum::<f64>() / seconds.max(1e-9)
    };
    let (first, second) = (rate(0..half), rate(half..recorded.blocks.len()));
    // Transactions of a session that looked idle may be counted a second late: one half has one too few, the other one too many.
    let late = 2.0 * transactions / seconds / (seconds / 2.0);
    let drift = ((second - first).abs() - late).max(0.0) / first.max(second).max(1e-9);
    (drift > MOST_DRIFT).then(|| {
        format!(
            "the load was not constant: {first:.1} transactions a second in the first half, {second:.1} in \
             the second; select a part with --from and --to"
        )
    })
}

/// Whether the recording has anything of the kind that is to change.
fn has_any(change: &WhatIf, recorded: &Recorded) -> bool {
    match change.what {
        Changed::Hold(_) => !recorded.locks.is_empty(),
        Changed::Event(_) => !recorded.events.is_empty(),
        Changed::Query(_) => !recorded.statements.is_empty(),
    }
}

/// Whether what is to change is in the recording.
fn is_there(change: &WhatIf, recorded: &Recorded) -> Result<(), String> {
    let largest = |all: Vec<(String, f64)>| {
        let mut all = all;
        all.sort_by(|one, other| other.1.total_cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        let names: Vec<String> = all.into_iter().take(MOST_NAMED).map(|(name, _)| name).collect();
        if names.is_empty() {
            "none".to_string()
        } else {
            names.join(", ")
        }
    };
    match &change.what {
        Changed::Hold(name) => {
            let mut locks = recorded.locks.iter();
            if locks.any(|(lock, facts)| is_called(&facts.class, lock, name)) {
                return Ok(());
            }
            if name.to_ascii_lowercase().ends_with("tuple") {
                return Err(
                    "waits for a row's tuple lock are time in the queue for its holder: use \
                            hold:transactionid"
                        .to_string(),
                );
            }
            // Waited for, but by nobody whose transactions make up the load.
            let of_lock = |wait: &str| {
                let parts = wait.split_once(':');
                parts.is_some_and(|(class, event)| {
                    recorded::is_lock(class) && is_called(class, recorded::lock_of(event), name)
                })
            };
            if let Some((wait, ns)) = recorded.events.iter().find(|(wait, _)| of_lock(wait)) {
                let (clients, others) = recorded.db_time;
                return Err(format!(
                    "the waits in {wait} ({:.0} % of DB time) are of sessions with no counted transaction; only what is done for \
                     transactions can be replayed",
                    100.0 * ns / (clients + others).max(1.0)
                ));
            }
            let locks = recorded.locks.iter();
            let all = locks
                .map(|(lock, facts)| (lock.to_string(), facts.followed))
                .collect();
            Err(format!(
                "no session waited for or held {name} in this recording; it has {}",
                largest(all)
            ))
        }
        Changed::Event(name) => {
            let is_meant = |wait: &str| {
                let (class, event) = wait.split_once(':').unwrap_or((wait, wait));
                is_called(class, event, name)
            };
            let Some((wait, _)) = recorded.events.iter().find(|(wait, _)| is_meant(wait)) else {
                let all = recorded
                    .events
                    .iter()
                    .map(|(wait, ns)| (wait.clone(), *ns))
                    .collect();
                return Err(format!(
                    "no DB time in wait event {name}; this recording has {}",
                    largest(all)
                ));
            };
            match wait.split_once(':') {
                Some(("Lock" | "LWLock", lock)) => Err(format!(
                    "{wait} is time spent queueing for the lock, which lasts as long as others hold it: use \
                     hold:{}",
                    recorded::lock_of(lock)
                )),
                _ => Ok(()),
            }
        }
        Changed::Query(id) => {
            if recorded.statements.contains_key(id) {
                return Ok(());
            }
            let known = recorded.statements.iter().filter(|(id, _)| **id != 0);
            let all = known.map(|(id, ns)| (query_id(*id), *ns)).collect();
            Err(format!(
                "no DB time in query {}; this recording has {}",
                query_id(*id),
                largest(all)
            ))
        }
    }
}

fn predict(recorded: &Recorded, cpus: u32, changes: &[WhatIf]) -> Result<Prediction, String> {
    let model = Model::of(recorded, cpus, changes)?;
    let all = model.all_blocks();
    let facts = model.facts(&all);
    let now = LoadFigures::new(facts.throughput, facts.response - facts.idle_in_transaction);
    let mut misses = Vec::new();
    let mut fits = Vec::new();
    for spread in Spread::ALL {
        let fit = model.fit(spread);
        let miss = fit.played.throughput / facts.throughput - 1.0;
        let of_response = fit.played.response / facts.response.max(1e-9) - 1.0;
        let of_flush = (fit.played.flush_busy - facts.flush_busy).abs();
        let flushes = !model.has_flush() || of_flush < MOST_FLUSH_MISS * facts.flush_busy.max(0.1);
        misses.push((spread, miss, of_response, fit.played.flush_busy));
        if miss.abs() <= MOST_MISS && of_response.abs() <= 2.0 * MOST_MISS && flushes {
            fits.push((miss, fit));
        }
    }
    if fits.is_empty() {
        let of = |(spread, miss, response, busy): &(Spread, f64, f64, f64)| {
            let durations = match spread {
                Spread::Even => "nearly constant durations",
                Spread::Random => "random durations",
            };
            format!(
                "with {durations}: throughput {:+.0} %, DB time per transaction {:+.0} %, log being flushed \
                 {:.0} % of the time instead of {:.0} %",
                // Without a sign of what is rounded to nothing.
                (100.0 * miss).round() + 0.0,
                (100.0 * response).round() + 0.0,
                100.0 * busy,
                100.0 * facts.flush_busy
            )
        };
        let missed: Vec<String> = misses.iter().map(of).collect();
        return Err(format!(
            "replayed without changes, the load does not match the recording ({})",
            missed.join("; ")
        ));
    }
    let miss = fits
        .iter()
        .map(|(miss, _)| *miss)
        .max_by(|one, other| one.abs().total_cmp(&other.abs()));
    let miss = miss.unwrap_or_default();
    let random = part_of_random(&model, &fits);
    let weights: Vec<f64> = fits
        .iter()
        .map(|(_, fit)| match fit.spread {
            Spread::Random => random,
            Spread::Even => 1.0 - random,
        })
        .collect();
    let mut predicted = Vec::new();
    let mut resampled = Vec::new();
    for (_, fit) in &fits {
        predicted.push(anchored(&model, fit, &all, changes));
        let mut random = fastrand::Rng::with_seed(0x6462_7469_6d65);
        let mut of_fit = Vec::new();
        for _ in 0..RESAMPLES {
            let drawn: Vec<usize> = all.iter().map(|_| random.usize(0..all.len())).collect();
            of_fit.push(anchored(&model, fit, &drawn, changes));
        }
        resampled.push(of_fit);
    }
    let mean = |of: fn(&LoadFigures) -> f64| weighted(predicted.iter().map(of), &weights);
    let ends = |of: fn(&LoadFigures) -> f64| {
        let (mut low, mut high) = (f64::MAX, f64::MIN);
        for of_fit in &resampled {
            let mut values: Vec<f64> = of_fit.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            let out = (TAIL * values.len() as f64) as usize;
            low = low.min(values[out]);
            high = high.max(values[values.len() - 1 - out]);
        }
        let middle = mean(of);
        (
            low.min(middle) * (1.0 - miss.abs()),
            high.max(middle) * (1.0 + miss.abs()),
        )
    };
    let mut throughput = ends(|figures| figures.transactions_per_s);
    let mut response = ends(|figures| figures.db_time_per_transaction_s);
    let mut aas = ends(|figures| figures.aas);
    let mut assumes = assumptions(recorded, &model, changes);
    if fits.len() > 1 {
        assumes.push(format!(
            "Durations are weighted {:.0} % even and {:.0} % random, by how evenly the transactions ended.",
            100.0 * (1.0 - random),
            100.0 * random
        ));
    }
    let times_as_many = mean(|figures| figures.transactions_per_s) / now.transactions_per_s.max(1e-9);
    if times_as_many > 1.0 {
        let denser = fits
            .iter()
            .filter_map(|(_, fit)| model.denser(fit, changes, times_as_many));
        if let Some(of) = denser.max_by(|one, other| one.throughput.total_cmp(&other.throughput)) {
            throughput.1 *= of.throughput;
            response.0 *= of.response;
            aas.0 *= (of.throughput * of.response).min(1.0);
            assumes.push(of_denser(&of));
        }
        let on_the_way = ON_THE_WAY.min(MOST_ON_THE_WAY * facts.think);
        let cycle = recorded.clients.len() as f64 / throughput.1.max(1e-9);
        throughput.1 *= cycle / (cycle - on_the_way).max(0.5 * cycle);
        assumes.push(format!(
            "The upper end of the throughput allows for clients that get their answers and wake up {:.2} ms sooner when more is going on.",
            1e3 * on_the_way
        ));
    }
    if let Some([before, after]) = more_flushes(&model, &fits, &weights, changes) {
        let mut sentence = format!(
            "The log is flushed {after:.0} times a second instead of {before:.0}: the recording does not \
             say whether its device can sustain that."
        );
        if facts.flush_busy >= BUSY {
            throughput.0 *= 1.0 - MISS_OF_BUSY;
            response.1 /= 1.0 - MISS_OF_BUSY;
            sentence += " It was busy nearly all the time, and a device close to its write limit gets slower \
                         the more writes arrive: the lower end of the throughput allows for that.";
        }
        assumes.push(sentence);
    }
    let seconds = recorded.lengths.iter().sum();
    let figures = |throughput, response, aas| LoadFigures {
        transactions_per_s: throughput,
        db_time_per_transaction_s: response,
        aas,
    };
    Ok(Prediction {
        clients: recorded.clients.len(),
        seconds,
        transactions: facts.throughput * seconds,
        now,
        predicted: figures(
            mean(|figures| figures.transactions_per_s),
            mean(|figures| figures.db_time_per_transaction_s),
            mean(|figures| figures.aas),
        ),
        low: figures(throughput.0, response.0, aas.0),
        high: figures(throughput.1, response.1, aas.1),
        miss,
        assumes,
    })
}

/// What the interval allows for if a load becomes denser.
fn of_denser(of: &Denser) -> String {
    let ms = |seconds: f64| format!("{:.2} ms", 1e3 * seconds);
    let mut parts = Vec::new();
    if of.run_queue > 0.0 || of.cpu_of_waits > 0.0 {
        parts.push(format!(
            "{} in the run queue and {} of CPU for wakeups from waits that no longer happen",
            ms(of.run_queue),
            ms(of.cpu_of_waits)
        ));
    }
    let [cpu, least] = of.cpu;
    if least < cpu {
        parts.push(format!(
            "up to {} of its other {} of CPU, and the same share of its time in the run queue: demand for \
             CPU is {:.1} times what was recorded, so caches that were cold may be warm",
            ms(cpu - least),
            ms(cpu),
            of.density
        ));
    }
    format!(
        "The upper end of the throughput, and the lower end of the DB time, allow for what a transaction \
         may no longer need under a denser load: {}. The recording does not say how much of that will come \
         true.",
        parts.join("; ")
    )
}

/// The weight of random durations: by how much the number of transactions varies from second to second, compared with the loads replayed
/// without changes.
fn part_of_random(model: &Model<'_>, fits: &[(f64, FittedModel)]) -> f64 {
    let of = |spread| {
        let mut fits = fits.iter().map(|(_, fit)| fit);
        fits.find(|fit| fit.spread == spread)
            .map(|fit| fit.played.dispersion)
    };
    match (of(Spread::Even), of(Spread::Random)) {
        (Some(even), Some(random)) => {
            let part = (model.dispersion() - even) / (random - even).max(1e-9);
            MOST_RANDOM * part.clamp(0.0, 1.0)
        }
        (None, _) => 1.0,
        (Some(_), None) => 0.0,
    }
}

/// The mean of what the fits give. `weights`: of each fit, 1 in total.
fn weighted(values: impl Iterator<Item = f64>, weights: &[f64]) -> f64 {
    values.zip(weights).map(|(value, weight)| value * weight).sum()
}

/// Flushes of the log a second, before and after, if there are notably more.
fn more_flushes(
    model: &Model<'_>,
    fits: &[(f64, FittedModel)],
    weights: &[f64],
    changes: &[WhatIf],
) -> Option<[f64; 2]> {
    if !model.has_flush() {
        return None;
    }
    let mean = |of: &dyn Fn(&FittedModel) -> f64| weighted(fits.iter().map(|(_, fit)| of(fit)), weights);
    let all = model.all_blocks();
    let before = mean(&|fit| fit.played.flushes);
    let after = mean(&|fit| model.outcome(fit, &all, changes).flushes);
    (after > MORE_FLUSHES * before).then_some([before, after])
}

/// What was recorded in these blocks, times what the change does to the replayed load.
fn anchored(model: &Model<'_>, fit: &FittedModel, blocks: &[usize], changes: &[WhatIf]) -> LoadFigures {
    let facts = model.facts(blocks);
    let before = model.outcome(fit, blocks, &[]);
    let after = model.outcome(fit, blocks, changes);
    let ratio = |of: fn(&Outcome) -> f64| of(&after) / of(&before).max(1e-12);
    LoadFigures::new(
        facts.throughput * ratio(|outcome| outcome.throughput),
        (facts.response - facts.idle_in_transaction) * ratio(|outcome| outcome.response),
    )
}

fn assumptions(recorded: &Recorded, model: &Model<'_>, changes: &[WhatIf]) -> Vec<String> {
    let mut assumes = vec![
        "Clients wait for their answer, then think as long as before until they begin the next transaction."
            .to_string(),
        "Demand for CPU by everything else stays the same.".to_string(),
    ];
    let locks: Vec<&str> = model.locks().collect();
    if !locks.is_empty() {
        assumes.push(format!(
            "Each of these is a single lock, held by one session at a time, in order of arrival: {}.",
            locks.join(", ")
        ));
    }
    if model.has_flush() {
        assumes.push(format!(
            "A flush of the log ({FLUSH_LOCK}) serves all commits that came before it."
        ));
    }
    for change in changes {
        assumes.push(match &change.what {
            Changed::Hold(lock) => format!(
                "{change}: all that is done while {lock} is held takes {} times as long, its CPU time too; how often it is taken \
                 stays the same.",
                change.factor
            ),
            Changed::Event(event) => format!(
                "{change}: each wait in {event} takes {} times as long, with the CPU time in it, however \
                 many wait at a time.",
                change.factor
            ),
            Changed::Query(_) => format!(
                "{change}: what the statement does takes {} times as long; the client's time before and \
                 after it stays the same.",
                change.factor
            ),
        });
    }
    let (clients, others) = recorded.db_time;
    if others > 0.01 * clients {
        assumes.push(format!(
            "Other sessions, with {:.1} % of the DB time, do the same as before.",
            100.0 * others / (clients + others)
        ));
    }
    assumes
}
