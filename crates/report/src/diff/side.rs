//! One side of a comparison: its time by wait event, state and stack, cut into slices of time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use dbtime_model::{StackId, State, Wait, counter};

use super::changes::is_tested;
use super::executions::Executions;
use super::side_causes::{CauseKey, OfCause, SideCauses};
use super::slices::Slices;
use crate::causes::{BlockedTime, Samples};
use crate::dimensions::Dimensions;
use crate::filter::Filter;
use crate::function::{FunctionId, Functions};
use crate::ledger::Section;
use crate::load::Source;
use crate::numbered::Numbered;
use crate::report::{ReportError, load};
use crate::scan::{Period, is_foreground, scan};
use crate::sums::FidelityMix;
use crate::sums::Sums;
use crate::transactions::Transactions;
use crate::work::{CountedWork, WorkUnit};

/// What was found on one side, in nanoseconds and in samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Total {
    pub(super) ns: u128,
    pub(super) samples: u128,
}

impl Total {
    pub(super) fn add(&mut self, other: Total) {
        self.ns += other.ns;
        self.samples += other.samples;
    }

    /// The number that is compared.
    pub(super) fn value(self, unit: WorkUnit) -> u128 {
        match unit {
            WorkUnit::Sample => self.samples,
            _ => self.ns,
        }
    }
}

/// What was found at one place, in nanoseconds and in samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Amount {
    ns: u64,
    samples: u64,
}

impl Amount {
    /// Adds another one; false if that would overflow.
    fn add(&mut self, other: Amount) -> bool {
        let sums = (
            self.ns.checked_add(other.ns),
            self.samples.checked_add(other.samples),
        );
        if let (Some(ns), Some(samples)) = sums {
            *self = Amount { ns, samples };
        }
        matches!(sums, (Some(_), Some(_)))
    }

    /// The number that is compared.
    pub(super) fn value(self, unit: WorkUnit) -> u64 {
        match unit {
            WorkUnit::Sample => self.samples,
            _ => self.ns,
        }
    }
}

/// The time of a wait event, state and call path. There may be millions.
pub(super) struct PlaceTime {
    pub(super) wait: Arc<Wait>,
    pub(super) state: State,
    /// Root first.
    pub(super) path: Box<[FunctionId]>,
    /// In order of slices; those without time are left out, and one may occur more than once.
    pub(super) slices: Box<[(u8, Amount)]>,
}

impl PlaceTime {
    pub(super) fn place(&self) -> (&Wait, State, &[FunctionId]) {
        (&self.wait, self.state, &self.path)
    }
}

/// Number of the wait event, state, user and kernel stack, statement.
type StackKey = (u32, State, StackId, StackId, u64);

/// Statement, wait event, state, and whether it is not the host's time.
pub(super) type StatementCell = (u64, Wait, State, bool);

/// One side.
pub(super) struct Side {
    pub(super) period: Period,
    slices: Slices,
    /// Snapshots of a file: all growth is in the counters.
    pub(super) is_of_snapshots: bool,
    /// Without stacks.
    pub(super) dimensions: Dimensions,
    /// Each place once, in order.
    pub(super) places: Vec<PlaceTime>,
    /// The same time by statement, by slice.
    pub(super) statements: HashMap<StatementCell, BTreeMap<usize, Total>>,
    /// The blocked part of it, by who was waited for; empty if that is not asked for.
    pub(super) causes: BTreeMap<CauseKey, OfCause>,
    /// Build ids by file.
    pub(super) builds: BTreeMap<String, BTreeSet<String>>,
    pub(super) total: Total,
    /// Samples of each slice.
    pub(super) samples: Vec<u128>,
    pub(super) fidelity: Option<FidelityMix>,
    pub(super) has_stacks: bool,
    pub(super) work: CountedWork,
    /// Of statements, as counted by the server.
    pub(super) executions: Executions,
    /// Those of clients.
    pub(super) commands: Executions,
    /// Transactions were read from the sessions' memory: those of the first moments and of short sessions are missing.
    pub(super) has_transactions_of_memory: bool,
    pub(super) problems: Vec<String>,
}

impl Side {
    /// `followed`: samples that say who was waited for; none if that is not asked for.
    pub(super) fn load(
        source: &Source,
        filter: &Filter,
        functions: &mut Functions,
        followed: Option<&Samples>,
    ) -> Result<Side, ReportError> {
        let mut dimensions = load(source, filter)?;
        let mut work = CountedWork::default();
        let mut transactions = Transactions::default();
        let mut are_executions_told = false;
        let mut is_of_snapshots = false;
        let counter_problems = source.counters(|row| {
            are_executions_told |= row.source == counter::SERVER_STATISTICS || row.source == counter::ORACLE;
            if filter.takes_time(row.time) && is_foreground(row.session, &mut dimensions, filter) {
                work.add_counter(row);
                is_of_snapshots |= row.source == counter::SNAPPER;
                transactions.add_counter(row);
            }
        });
        transactions.settle(source.meta().start_us, &mut dimensions);
        let mut waits = Numbered::default();
        // With the seconds of each, in order; one may occur more than once.
        let mut stacks: HashMap<StackKey, Vec<(i64, Amount)>> = HashMap::new();
        let mut sums = Sums::default();
        let mut blocked = BlockedTime::default();
        let scan = scan(source, &mut dimensions, filter, |activity| {
            let row = activity.row;
            if activity.section == Section::DbTime && (row.ns > 0 || row.samples > 0) {
                sums.take(activity);
                if followed.is_some() {
                    blocked.add(activity);
                }
                transactions.add_activity(row);
                let wait = waits.number(activity.wait.clone());
                let seconds = stacks
                    .entry((wait, row.state, row.user_stack, row.kernel_stack, row.statement))
                    .or_default();
                let amount = Amount {
                    ns: row.ns,
                    samples: row.samples,
                };
                let found = seconds.binary_search_by_key(&row.time, |(second, _)| *second);
                if !found.is_ok_and(|at| seconds[at].1.add(amount)) {
                    let at = found.unwrap_or_else(|at| at);
                    seconds.insert(at, (row.time, amount));
                }
            }
        });
        scan.check(filter)?;
        let slices = Slices::of(scan.period, source.meta(), filter);
        let mut problems = scan.problems;
        problems.extend(counter_problems);
        let mut executions = Executions::default();
        if are_executions_told {
            // A second pass, as slices were not known in the first. What cannot be read was reported there.
            let _ = source.counters(|row| {
                executions.add_counter(row, filter, &slices);
                if filter.takes_time(row.time) && is_foreground(row.session, &mut dimensions, filter) {
                    executions.add_trace(row, filter, &slices);
                }
            });
        }
        let mut commands = Executions::of_commands(source.meta());
        problems.extend(source.latency(|row| {
            if filter.takes_time(row.time) && is_foreground(row.session, &mut dimensions, filter) {
                work.add_latency(row);
                commands.add_command(row, filter, &slices);
            }
        }));
        if !transactions.are_known(&mut dimensions) {
            work.drop(WorkUnit::Transaction);
        }
        let mut causes = SideCauses::default();
        if let Some(followed) = followed {
            blocked.divide(followed, &mut dimensions, |of, part, dimensions| {
                causes.add(of, &part, &slices, dimensions);
            });
        }
        let mut total = Total::default();
        let mut samples = vec![0; slices.count()];
        let mut statements: HashMap<StatementCell, BTreeMap<usize, Total>> = HashMap::new();
        let mut has_stacks = false;
        let waits: Vec<Arc<Wait>> = waits.into_values().into_iter().map(Arc::new).collect();
        let mut stacks: Vec<_> = stacks.into_iter().collect();
        // In a fixed order: functions are numbered as they are first seen.
        stacks.sort_unstable_by_key(|(key, _)| *key);
        let mut places = Vec::with_capacity(stacks.len());
        for ((wait, state, user, kernel, statement), seconds) in stacks {
            let path = functions.path(user, kernel, state, &dimensions);
            has_stacks |= path.iter().any(|id| functions.get(*id).is_named());
            let of_statement = statements
                .entry((
                    statement,
                    Wait::clone(&waits[wait as usize]),
                    state,
                    is_tested(state, &path, functions),
                ))
                .or_default();
            let mut by_slice: Vec<(u8, Amount)> = Vec::new();
            for (second, amount) in seconds {
                let slice = slices.of_time(second);
                total.ns += u128::from(amount.ns);
                total.samples += u128::from(amount.samples);
                let of_slice = of_statement.entry(slice).or_default();
                of_slice.ns += u128::from(amount.ns);
                of_slice.samples += u128::from(amount.samples);
                samples[slice] += u128::from(amount.samples);
                add_to_slice(&mut by_slice, slice as u8, amount);
            }
            places.push(PlaceTime {
                wait: Arc::clone(&waits[wait as usize]),
                state,
                path: path.into(),
                slices: by_slice.into(),
            });
        }
        merge_equal(&mut places);
        let builds = builds(&dimensions);
        problems.extend(std::mem::take(&mut dimensions.problems));
        dimensions.drop_stacks();
        Ok(Side {
            period: scan.period,
            slices,
            is_of_snapshots,
            dimensions,
            places,
            statements,
            causes: causes.finish(),
            builds,
            total,
            samples,
            fidelity: sums.fidelity(),
            has_stacks,
            work,
            executions,
            commands,
            has_transactions_of_memory: transactions.are_of_memory,
            problems: problems.into_iter().map(|problem| problem.0).collect(),
        })
    }

    /// Whether the source assigns any time to statements.
    pub(super) fn knows_statements(&self) -> bool {
        self.statements.keys().any(|(id, ..)| *id != 0)
    }

    pub(super) fn slices(&self) -> &Slices {
        &self.slices
    }
}

/// Adds to the last slice if there is room, or else begins another one: slices come in order.
fn add_to_slice(slices: &mut Vec<(u8, Amount)>, slice: u8, amount: Amount) {
    let is_added = slices
        .last_mut()
        .is_some_and(|(last, sum)| *last == slice && sum.add(amount));
    if !is_added {
        slices.push((slice, amount));
    }
}

/// Sorts places and merges equal ones: different code addresses may be in the same functions.
fn merge_equal(places: &mut Vec<PlaceTime>) {
    places.sort_unstable_by(|one, other| one.place().cmp(&other.place()));
    places.dedup_by(|next, kept| {
        let is_equal = next.place() == kept.place();
        if is_equal {
            let mut both = [&*kept.slices, &*next.slices].concat();
            both.sort_unstable_by_key(|(slice, _)| *slice);
            let mut merged = Vec::new();
            for (slice, amount) in both {
                add_to_slice(&mut merged, slice, amount);
            }
            kept.slices = merged.into();
        }
        is_equal
    });
}

/// Build ids by file.
fn builds(dimensions: &Dimensions) -> BTreeMap<String, BTreeSet<String>> {
    let mut builds: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for frame in dimensions.frames().filter(|frame| !frame.build_id.is_empty()) {
        let known = builds.entry(frame.module.clone()).or_default();
        known.insert(frame.build_id.clone());
    }
    builds
}
