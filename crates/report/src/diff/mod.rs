//! What changed between two recordings, per unit of work, and which changes exceed noise.
//!
//! Differences are conserved as times are: those of the ledger's cells, of the modules, of the functions (self) and of
//! the call paths (self) each sum to the difference of DB time.

mod answer;
mod call_tree;
mod causes;
mod changes;
mod common_factor;
mod comparability;
mod conclusion;
mod counters;
mod executions;
mod headline;
mod latencies;
mod likely;
mod named_statement;
mod newcomers;
mod noise;
mod side;
mod side_causes;
mod slices;
mod statements;
mod verdicts;

pub use answer::{
    CauseChange, CauseChanges, Change, CounterChange, Diff, DiffSide, DiffStack, LatencyChange,
    LatencyQuantity, NoiseTest, Place, StatementChange, Statements, Verdict, WaitingStatement,
};

use crate::causes::Samples;
use crate::filter::Filter;
use crate::function::Functions;
use crate::load::Source;
use crate::report::ReportError;
use crate::work::WorkUnit;
pub(crate) use causes::{grown_first, largest_first};
use changes::Changes;
pub(crate) use common_factor::is_at_limit;
pub(crate) use conclusion::{amount, per_words};
pub(crate) use headline::rate;
use noise::{FEWEST_SLICES, LEVEL, Measure, RESAMPLES};
use side::Side;

/// A difference below this part of the larger DB time per unit, the host's time excluded, is not worth a verdict.
const SMALLEST_SHARE: f64 = 0.05;

/// What is compared.
#[derive(Debug, Clone, PartialEq)]
pub struct DiffOptions {
    /// Which rows of the good and of the bad side count.
    pub filters: [Filter; 2],
    /// What times are divided by; none = the best that both sides know.
    pub per: Option<WorkUnit>,
    /// Transactions of both sides, as the user counted them.
    pub transactions: Option<[f64; 2]>,
    /// How many of each kind of change to show.
    pub top: usize,
    /// Compare in spite of objections.
    pub force: bool,
}

impl Default for DiffOptions {
    fn default() -> DiffOptions {
        DiffOptions {
            filters: Default::default(),
            per: None,
            transactions: None,
            top: 10,
            force: false,
        }
    }
}

/// Why there is no comparison.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DiffError {
    /// One of the sides cannot be read as asked.
    #[error("{0}: {1}")]
    Side(&'static str, ReportError),
    /// There is no DB time on one side.
    #[error("{0}: no DB time in the recording or the selected part of it")]
    Empty(&'static str),
    /// One of the sides does not know the unit.
    #[error("{side} does not count {unit}s{hint}")]
    Unit {
        /// Which one.
        side: &'static str,
        /// What was asked for.
        unit: WorkUnit,
        /// What can be done.
        hint: &'static str,
    },
    /// The numbers of both sides mean different things.
    #[error("{}; --force compares them anyway", .0.join("; "))]
    NotComparable(Vec<String>),
}

/// Names of the sides.
pub(crate) const SIDES: [&str; 2] = ["GOOD", "BAD"];

/// Compares two recordings.
///
/// # Errors
/// A filter names what is not there, a side is empty or does not know the unit, or the two cannot be compared.
pub fn diff(sources: [&Source; 2], options: &DiffOptions) -> Result<Diff, DiffError> {
    let mut functions = Functions::default();
    let followed = sources.map(Samples::read_with_last_statements);
    let silent: Vec<&'static str> = [0, 1]
        .into_iter()
        .filter(|side| !followed[*side].0.are_recorded(sources[*side].meta()))
        .map(|side| SIDES[side])
        .collect();
    // If nobody waited on either side there is nothing to compare.
    let are_any = [0, 1]
        .into_iter()
        .any(|side| followed[side].0.are_any(sources[side].meta()));
    let compares_causes = silent.is_empty() && are_any;
    let mut load = |side: usize| {
        let (samples, problems) = &followed[side];
        let samples = Some(samples).filter(|_| compares_causes);
        let mut loaded = Side::load(sources[side], &options.filters[side], &mut functions, samples)
            .map_err(|e| DiffError::Side(SIDES[side], e))?;
        loaded
            .problems
            .extend(problems.iter().map(|problem| problem.0.clone()));
        Ok(loaded)
    };
    let mut sides = [load(0)?, load(1)?];
    drop(followed);
    for (side, name) in sides.iter().zip(SIDES) {
        if side.places.is_empty() && !side.is_of_snapshots {
            return Err(DiffError::Empty(name));
        }
    }
    let comparability = comparability::check(sources, &sides);
    if !comparability.refusals.is_empty() && !options.force {
        return Err(DiffError::NotComparable(comparability.refusals));
    }
    let mut warnings = comparability.refusals;
    warnings.extend(comparability.warnings);
    let (unit, work) = unit_of_work(&sides, options)?;
    let per = Per::new(&sides, unit, work, options.transactions.is_some());
    let mut changes = Changes::of(&mut sides, &functions, &per);
    let error = common_factor::error(&changes, &per, &functions);
    let factor = common_factor::estimate(&changes, &per, &functions, error);
    let tested = changes.test(&per, factor);
    let newcomers = newcomers::newcomers(&changes, &functions, &per, sides[0].total.samples);
    let statements = match comparability.statements_match {
        true => statements::compare(&sides, &changes, &functions, &per, error),
        false => None,
    };
    let compares_statements = statements.is_some();
    let mut causes = match compares_causes {
        true => Ok(causes::compare(
            &mut sides,
            &changes,
            &per,
            factor,
            compares_statements,
        )),
        false => Err(silent),
    };
    let names_statement = statements.as_ref().is_some_and(|of| of.is_certain);
    let names_cause = causes
        .as_ref()
        .is_ok_and(|of| !causes::named(of, &per, factor, tested, None).is_empty());
    let conclusion = conclusion::conclude(
        &changes,
        &functions,
        &per,
        factor,
        tested,
        &newcomers,
        names_statement || names_cause,
    );
    if let Ok(of) = &mut causes {
        of.sentence = causes::named(of, &per, factor, tested, conclusion.largest);
    }
    let transactions = [0, 1].map(|side| sides[side].work.count(WorkUnit::Transaction) as f64);
    let elapsed_s = [0, 1].map(|side| sides[side].period.elapsed_ns() as f64 / 1e9);
    let latencies = latencies::compare(sources, &mut sides, options, &per);
    let (counters, counters_of_one_side) = counters::compare(sources, &mut sides, options, &per);
    let counted = counters::sentence(&counters, &sides, &per);
    let has_time = changes.totals() != [0, 0];
    let mut problems = Vec::new();
    let answer_sides = [0, 1].map(|side| {
        for problem in &sides[side].problems {
            problems.push(format!("{}: {problem}", SIDES[side]));
        }
        DiffSide {
            meta: sources[side].meta().clone(),
            period: sides[side].period,
            db_time_ns: sides[side].total.ns,
            samples: sides[side].total.samples,
            work: per.work[side],
            slices: sides[side].slices().count(),
            fidelity: sides[side].fidelity,
        }
    });
    Ok(Diff {
        sides: answer_sides,
        unit,
        unit_is_told: per.is_told,
        warnings,
        common_factor: factor,
        noise: NoiseTest {
            resamples: RESAMPLES,
            level: LEVEL,
            fewest_slices: FEWEST_SLICES,
            smallest_share: SMALLEST_SHARE,
            tested,
        },
        headline: match has_time {
            true => headline::headline(&per, changes.totals(), elapsed_s, transactions),
            false => String::new(),
        },
        conclusion: match has_time {
            true => conclusion.sentence,
            false => "Neither side has DB time: counters are compared.".to_string(),
        },
        statements,
        causes,
        new_in_bad: newcomers,
        whole: [conclusion.whole.as_str(), &counted].join(" ").trim().to_string(),
        total: changes.total(&per),
        cells: changes.cells(&per),
        waits: changes.waits(&per),
        functions: changes.functions(&functions, &per),
        paths: changes.paths(&functions, &per),
        modules: changes.modules(&per),
        latencies,
        counters,
        counters_of_one_side,
        stacks: changes.into_stacks(&functions, &per),
        top: options.top,
        problems,
    })
}

/// What the times of both sides are divided by.
pub(crate) struct Per {
    unit: WorkUnit,
    /// Units of work of each side.
    work: [f64; 2],
    /// The same by slice.
    slices: [Vec<f64>; 2],
    /// The user said how much work there was.
    is_told: bool,
}

impl Per {
    fn new(sides: &[Side; 2], unit: WorkUnit, work: [f64; 2], is_told: bool) -> Per {
        let by_slice = |n: usize| -> Vec<f64> {
            let side = &sides[n];
            let slices = side.slices();
            let mut counted = vec![0.0; slices.count()];
            match (unit, side.work.seconds(unit)) {
                (WorkUnit::Sample, _) => {
                    counted = side.samples.iter().map(|samples| *samples as f64).collect();
                }
                (
                    WorkUnit::Transaction | WorkUnit::Execution | WorkUnit::Request | WorkUnit::Call,
                    Some(seconds),
                ) if !is_told => {
                    for (second, count) in seconds {
                        counted[slices.of_time(*second)] += *count as f64;
                    }
                }
                _ => {
                    // Only known as a whole: spread evenly.
                    let elapsed = slices.elapsed();
                    let all: f64 = elapsed.iter().sum();
                    for (counted, elapsed) in counted.iter_mut().zip(elapsed) {
                        *counted = if all > 0.0 { work[n] * elapsed / all } else { 0.0 };
                    }
                }
            }
            counted
        };
        Per {
            unit,
            work,
            slices: [by_slice(0), by_slice(1)],
            is_told,
        }
    }

    /// Work whose amount in each slice is known.
    fn counted(unit: WorkUnit, slices: [Vec<f64>; 2]) -> Per {
        Per {
            unit,
            work: slices.each_ref().map(|slices| slices.iter().sum()),
            slices,
            is_told: false,
        }
    }

    /// Whether as many slices of each side have work as the test needs.
    fn can_be_tested(&self) -> bool {
        let with_work = |slices: &Vec<f64>| slices.iter().filter(|work| **work > 0.0).count();
        self.slices
            .iter()
            .all(|slices| with_work(slices) >= FEWEST_SLICES)
    }

    /// A measure divided by this work, still without values.
    fn measure(&self, factor: f64) -> Measure {
        Measure {
            numerators: [0, 1].map(|side| vec![0.0; self.slices[side].len()]),
            denominators: self.slices.clone(),
            factor,
        }
    }

    fn per_unit(&self, values: [u128; 2]) -> [f64; 2] {
        [0, 1].map(|side| {
            if self.work[side] > 0.0 {
                values[side] as f64 / self.work[side]
            } else {
                0.0
            }
        })
    }
}

/// The unit that was requested, or the best that both sides know, and how much work each side did.
fn unit_of_work(sides: &[Side; 2], options: &DiffOptions) -> Result<(WorkUnit, [f64; 2]), DiffError> {
    let amount = |unit: WorkUnit, side: usize| -> f64 {
        match unit {
            WorkUnit::Transaction if options.transactions.is_some() => {
                options.transactions.map_or(0.0, |told| told[side])
            }
            WorkUnit::Transaction | WorkUnit::Execution | WorkUnit::Request | WorkUnit::Call => {
                sides[side].work.count(unit) as f64
            }
            WorkUnit::Second if sides[side].total.ns == 0 && !sides[side].is_of_snapshots => 0.0,
            WorkUnit::Second => sides[side].period.elapsed_ns() as f64 / 1e9,
            WorkUnit::Sample => sides[side].total.samples as f64,
            WorkUnit::Run => 1.0,
        }
    };
    let amounts = |unit: WorkUnit| [amount(unit, 0), amount(unit, 1)];
    if let Some(unit) = options.per {
        let work = amounts(unit);
        return match work.iter().position(|amount| *amount <= 0.0) {
            None => Ok((unit, work)),
            Some(side) => Err(DiffError::Unit {
                side: SIDES[side],
                unit,
                hint: match unit {
                    WorkUnit::Transaction => ": say how many there were with --transactions GOOD,BAD",
                    WorkUnit::Request => ": record --exact does",
                    WorkUnit::Execution => {
                        ": only Oracle's SQL traces do; statements are compared per execution where their calls are known"
                    }
                    WorkUnit::Call => ": only traces of the kernel do",
                    _ => "",
                },
            }),
        };
    }
    // Counts read from the sessions' memory do not divide exactly into seconds: they are in the first line.
    let is_usual = |unit: &WorkUnit| {
        *unit != WorkUnit::Transaction
            || options.transactions.is_some()
            || !sides.iter().any(|side| side.has_transactions_of_memory)
    };
    let known = WorkUnit::ALL
        .into_iter()
        .filter(is_usual)
        .map(|unit| (unit, amounts(unit)))
        .find(|(_, work)| work.iter().all(|amount| *amount > 0.0));
    // A run is always one run.
    Ok(known.unwrap_or((WorkUnit::Run, [1.0, 1.0])))
}
