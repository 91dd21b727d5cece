//! Who held the server's internal locks ("latches"; PostgreSQL: LWLocks), what they were doing meanwhile and where in the code, and who
//! waited for them.
//!
//! In each sample the recorder reads which locks the session holds. So the times are those of the ledger, divided by samples; nothing is
//! known about sessions for which it could not be read, or which were not sampled.
//!
//! If every use was counted for some seconds ([`LockUses`]), the counts are shown as well.
//!
//! Imported samples of Oracle's latches ([`LatchSamples`]) cover all sessions at once, and tell one hold from the next.

mod column;
mod exact;
mod holding;
mod single;
mod waiting;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use arcstr::ArcStr;
use dbtime_model::counter::{self, latch_samples};
use dbtime_model::recording::Meta;
use dbtime_model::{Fidelity, HeldLockRow, LockUses, StateGroup, Wait};
use serde::Serialize;

use crate::dimensions::Dimensions;
use crate::filter::Filter;
use crate::load::Source;
use crate::locks::{self, LockReport};
use crate::report::{ReportError, load};
use crate::scan::{Period, scan};
pub use column::LatchColumn;
pub use exact::{ExactLatch, ExactLatches, ExactPlace, ExactSession, ExactSingle, ExactStatement, UseSums};
use holding::Holdings;
pub use holding::{CodeTime, Holding};
pub use single::SingleLock;
pub use waiting::{LatchWaiting, is_for_latch};
use waiting::{SPINLOCKS, Waitings, wanted};

/// Which locks, and how many.
#[derive(Debug, Clone, PartialEq)]
pub struct LatchOptions {
    /// Filters both holders and waiters.
    pub filter: Filter,
    /// How many locks to show, and holders of each: the largest.
    pub top: usize,
    /// Further columns to divide the time in which locks were held by; empty = none.
    pub columns: Vec<LatchColumn>,
}

impl Default for LatchOptions {
    fn default() -> LatchOptions {
        LatchOptions {
            filter: Filter::default(),
            top: 10,
            columns: Vec::new(),
        }
    }
}

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub struct LatchReport {
    /// What the recording says about itself.
    pub meta: Meta,
    /// Which rows count.
    pub filter: Filter,
    /// The time it covers.
    pub period: Period,
    /// By name, held or waited for longest first. None if not recorded.
    pub latches: Vec<Latch>,
    /// How holders were sampled, if that was done for all sessions at once; none: what each session held is known.
    pub looked: Option<LatchSamples>,
    /// Time of sessions that were not idle, nanoseconds.
    pub active_ns: u128,
    /// Of that, time for which it is not known which locks they held.
    pub not_known_ns: u128,
    /// How many locks and holders to show.
    pub top: usize,
    /// The columns that were requested.
    pub columns: Vec<LatchColumn>,
    /// Time in which locks were held, by these columns, longest first. Sums to the time of all locks.
    pub profile: Vec<ProfileRow>,
    /// What was counted, if every use was.
    pub exact: Option<ExactLatches>,
    /// The other kind of locks, which transactions hold.
    pub locks: LockReport,
    /// What could not be read.
    pub problems: Vec<String>,
}

/// Time in which locks were held, for one combination of column values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileRow {
    /// The values of the columns.
    pub cells: Vec<String>,
    /// Time in which one was held, nanoseconds: concurrent holds add up.
    pub ns: u128,
    /// Samples behind it.
    pub samples: u128,
    /// How often one was taken, as far as samples tell; 0 if they do not.
    pub gets: u128,
    /// What was counted, if every use was and these columns can group it.
    pub exact: Option<UseSums>,
}

/// How often it was sampled who holds a lock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct LatchSamples {
    /// Samples, whether or not anybody held one.
    pub samples: u128,
    /// Time that they stand for, nanoseconds.
    pub ns: u128,
}

/// How a lock was held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HoldMode {
    /// Others could hold it, too, to read.
    Shared,
    /// Nobody else could hold it.
    Exclusive,
    /// The source does not say.
    NotKnown,
}

impl HoldMode {
    fn of(row: &HeldLockRow) -> HoldMode {
        match (row.mode_unknown, row.exclusive) {
            (true, _) => HoldMode::NotKnown,
            (false, true) => HoldMode::Exclusive,
            (false, false) => HoldMode::Shared,
        }
    }

    /// One word; empty if not known.
    pub fn as_str(self) -> &'static str {
        match self {
            HoldMode::Shared => "shared",
            HoldMode::Exclusive => "exclusive",
            HoldMode::NotKnown => "",
        }
    }
}

/// Whether samples do not tell one hold from the next.
fn is_not_told(gets: &u128) -> bool {
    *gets == 0
}

/// Locks of the same name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Latch {
    /// Named as the wait event of those waiting for it; all spinlocks share the name `spinlocks`.
    pub name: ArcStr,
    /// Time in which sessions held them in any mode, nanoseconds.
    pub held_ns: u128,
    /// Time in which sessions held them exclusively, nanoseconds. Concurrent holds add up, also those of one session.
    pub exclusive_ns: u128,
    /// Time in which sessions held them to read, nanoseconds. Concurrent holds of several sessions add up.
    pub shared_ns: u128,
    /// Time in which sessions held them in a mode that the source does not give, nanoseconds.
    #[serde(skip_serializing_if = "is_not_told")]
    pub mode_unknown_ns: u128,
    /// Samples behind the time in which they were held.
    pub samples: u128,
    /// How often they were taken, as far as samples tell: a hold that no sample met is missing. 0 if they do not tell.
    #[serde(skip_serializing_if = "is_not_told")]
    pub gets: u128,
    /// Of all, time in which the holders waited for a CPU, nanoseconds.
    #[serde(rename = "run_queue_ns")]
    pub queued_ns: u128,
    /// Of all, time in which the holders were blocked, nanoseconds.
    pub blocked_ns: u128,
    /// Time of sessions in the wait event of this name, nanoseconds.
    pub waited_ns: u128,
    /// Sessions that waited.
    pub waiters: usize,
    /// Single locks of this name that somebody was seen to hold, held longest first.
    pub single: Vec<SingleLatch>,
    /// Who held them and did what, longest first. They sum to [`Latch::held_ns`].
    #[serde(rename = "holders")]
    pub holdings: Vec<Holding>,
    /// Who waited for them, longest first. They sum to [`Latch::waited_ns`].
    #[serde(rename = "waited_by")]
    pub waitings: Vec<LatchWaiting>,
}

impl Latch {
    /// False for spinlocks: nothing says who holds one.
    pub fn has_known_holders(&self) -> bool {
        self.name != SPINLOCKS
    }
}

/// One lock of several of the same name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SingleLatch {
    /// Which one.
    #[serde(flatten)]
    pub lock: SingleLock,
    /// For how long somebody held it, nanoseconds.
    pub ns: u128,
}

/// What to tell the user if the recorder did not look for them.
pub(crate) fn why_not_recorded(meta: &Meta) -> &'static str {
    match meta.files.is_empty() {
        true => {
            "This recording does not say who held internal locks. 'dbtime record' records it for PostgreSQL \
             on x86-64, except with '--collector proc'; older versions did not. Where it could not find \
             them, the end of the report says why."
        }
        false => {
            "These files do not say who held internal locks. 'dbtime record' records it for PostgreSQL, the \
             script of 'dbtime oracle-latch' for Oracle."
        }
    }
}

/// Adds up who held which lock, and who waited for it.
///
/// # Errors
/// The filter names what is not in the recording.
pub fn latches(source: &Source, options: &LatchOptions) -> Result<LatchReport, ReportError> {
    latches_and_uses(source, None, options)
}

/// The same, with counted uses of the same seconds.
///
/// # Errors
/// As [`latches`].
pub fn latches_and_uses(
    source: &Source,
    uses: Option<&LockUses>,
    options: &LatchOptions,
) -> Result<LatchReport, ReportError> {
    let filter = &options.filter;
    let mut dimensions = load(source, filter)?;
    let mut all = Builder {
        columns: options.columns.clone(),
        ..Builder::default()
    };
    let no_interface = Wait::no_interface();
    let mut scanned = scan(source, &mut dimensions, filter, |activity| {
        // The server's first process has no work of its own.
        if activity.wait.idle || *activity.wait == no_interface {
            return;
        }
        let row = activity.row;
        let ns = u128::from(row.ns);
        all.active_ns += ns;
        // For time that was divided by samples, the recorder itself says what is not known.
        if activity.not_sampled || (row.samples == 0 && row.fidelity == Fidelity::Exact) {
            all.not_known_ns += ns;
        }
        if let Some(name) = wanted(activity.wait) {
            all.latches.entry(name.into()).or_default().waitings.add(activity);
        }
    });
    let mut looked = LatchSamples::default();
    let read = source.counters(|row| {
        if row.source == counter::LATCH_SAMPLES && filter.takes_time(row.time) {
            let value = u128::from(row.value.unsigned_abs());
            match row.name.as_str() {
                latch_samples::SAMPLES => looked.samples += value,
                latch_samples::NS => looked.ns += value,
                _ => {}
            }
        }
    });
    scanned.problems.extend(read);
    let read = source.held_locks(|row| {
        scanned.meet(row, filter, dimensions.session(row.session));
        all.add(row, filter, &mut dimensions);
    });
    scanned.problems.extend(read);
    let (locks, read) = locks::locks(source, filter, &mut dimensions, &mut scanned);
    scanned.problems.extend(read);
    scanned.check(filter)?;
    let mut problems = std::mem::take(&mut dimensions.problems);
    problems.extend(scanned.problems);
    let is_recorded = source.meta().database.held_locks;
    let counted = uses.map(|uses| exact::exact(uses, filter, &options.columns, &mut dimensions));
    let (exact, counted) = counted.unzip();
    let profile = match is_recorded {
        true => all.profile(counted),
        false => Vec::new(),
    };
    Ok(LatchReport {
        meta: source.meta().clone(),
        filter: filter.clone(),
        period: scanned.period,
        looked: (looked.samples > 0).then_some(looked),
        active_ns: all.active_ns,
        not_known_ns: all.not_known_ns,
        latches: match is_recorded {
            true => all.finish(&dimensions),
            false => Vec::new(),
        },
        top: options.top,
        columns: options.columns.clone(),
        profile,
        exact,
        locks,
        problems: problems.into_iter().map(|problem| problem.0).collect(),
    })
}

/// Adds up rows.
#[derive(Default)]
struct Builder {
    latches: BTreeMap<ArcStr, Sums>,
    columns: Vec<LatchColumn>,
    profile: HashMap<Vec<String>, ProfileSum>,
    /// By file: a name may only become known later.
    relations: HashMap<ArcStr, ArcStr>,
    active_ns: u128,
    not_known_ns: u128,
}

#[derive(Default)]
struct ProfileSum {
    ns: u128,
    samples: u128,
    gets: u128,
}

#[derive(Default)]
struct Sums {
    exclusive_ns: u128,
    shared_ns: u128,
    mode_unknown_ns: u128,
    samples: u128,
    gets: u128,
    queued_ns: u128,
    blocked_ns: u128,
    /// Without their relations.
    single: HashMap<SingleLock, u128>,
    waitings: Waitings,
    holdings: Holdings,
}

impl Builder {
    fn add(&mut self, row: &HeldLockRow, filter: &Filter, dimensions: &mut Dimensions) {
        let wait = Wait::event(&row.wait_class, &row.wait_event, false);
        let is_chosen = filter.takes_time(row.time)
            && filter.takes_session(dimensions.session(row.session))
            && filter.takes_statement(row.statement)
            && filter.takes(&wait, row.state);
        if !is_chosen {
            return;
        }
        let ns = u128::from(row.ns);
        if row.lock.is_empty() {
            self.not_known_ns += ns;
            return;
        }
        let latch = self.latches.entry(row.lock.clone()).or_default();
        match HoldMode::of(row) {
            HoldMode::Exclusive => latch.exclusive_ns += ns,
            HoldMode::Shared => latch.shared_ns += ns,
            HoldMode::NotKnown => latch.mode_unknown_ns += ns,
        }
        latch.samples += u128::from(row.samples);
        latch.gets += u128::from(row.gets);
        match row.state.group() {
            Some(StateGroup::RunQueue) => latch.queued_ns += ns,
            Some(StateGroup::Blocked) => latch.blocked_ns += ns,
            Some(StateGroup::OnCpu) | None => {}
        }
        let single = SingleLock {
            relation: ArcStr::new(),
            ..SingleLock::of_row(row)
        };
        *latch.single.entry(single).or_default() += ns;
        if !row.relation.is_empty() {
            self.relations
                .insert(ArcStr::clone(&row.file), ArcStr::clone(&row.relation));
        }
        latch.holdings.add(row, wait, dimensions);
        if !self.columns.is_empty() {
            let cells = self
                .columns
                .iter()
                .map(|column| column.of(row, dimensions))
                .collect();
            let sum = self.profile.entry(cells).or_default();
            sum.ns += ns;
            sum.samples += u128::from(row.samples);
            sum.gets += u128::from(row.gets);
        }
    }

    /// Longest first. `counted`: uses, by the same cells.
    fn profile(&mut self, counted: Option<HashMap<Vec<String>, UseSums>>) -> Vec<ProfileRow> {
        let mut counted = counted.unwrap_or_default();
        let rows = std::mem::take(&mut self.profile).into_iter();
        let mut rows: Vec<ProfileRow> = rows
            .map(|(cells, sum)| ProfileRow {
                exact: counted.remove(&cells),
                cells,
                ns: sum.ns,
                samples: sum.samples,
                gets: sum.gets,
            })
            .collect();
        // Those without a sample.
        rows.extend(counted.into_iter().map(|(cells, sums)| ProfileRow {
            cells,
            ns: 0,
            samples: 0,
            gets: 0,
            exact: Some(sums),
        }));
        let longest = |row: &ProfileRow| row.ns.max(row.exact.map_or(0, |sums| sums.held_ns));
        rows.sort_by(|one, other| {
            longest(other)
                .cmp(&longest(one))
                .then_with(|| one.cells.cmp(&other.cells))
        });
        rows
    }

    fn finish(self, dimensions: &Dimensions) -> Vec<Latch> {
        let relations = self.relations;
        let latches = self.latches.into_iter().map(|(name, sums)| {
            let singles = sums.single.into_iter();
            let mut single: Vec<SingleLatch> = singles
                .map(|(mut lock, ns)| {
                    lock.relation = relations.get(&lock.file).cloned().unwrap_or_default();
                    SingleLatch { lock, ns }
                })
                .collect();
            single.sort_by(|one, other| other.ns.cmp(&one.ns).then_with(|| one.lock.cmp(&other.lock)));
            Latch {
                name,
                held_ns: sums.exclusive_ns + sums.shared_ns + sums.mode_unknown_ns,
                exclusive_ns: sums.exclusive_ns,
                shared_ns: sums.shared_ns,
                mode_unknown_ns: sums.mode_unknown_ns,
                samples: sums.samples,
                gets: sums.gets,
                queued_ns: sums.queued_ns,
                blocked_ns: sums.blocked_ns,
                single,
                waited_ns: sums.waitings.ns(),
                waiters: sums.waitings.sessions(),
                holdings: sums.holdings.finish(dimensions),
                waitings: sums.waitings.finish(dimensions),
            }
        });
        let mut latches: Vec<Latch> = latches.collect();
        latches.sort_by_key(|latch| Reverse(latch.waited_ns.max(latch.held_ns)));
        latches
    }
}
