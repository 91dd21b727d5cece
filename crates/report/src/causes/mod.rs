//! Who was waited for: blocked DB time, followed to its causes.
//!
//! The recorder follows each sample of a blocked session to the one that ended its wait, and further if that one was blocked, too.
//! Here these samples divide the time of the ledger: what a session spent blocked in a second, in one statement, wait event and state.
//! All sums of the ledger are preserved.

mod blockers;
mod by_cause;
mod chains;
mod divide;
mod executed_last;
mod flame_frames;
mod links;
mod not_known;
mod one_lock;
mod over_time;
mod parts;
mod words;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use dbtime_model::recording::Meta;
use dbtime_model::{CauseKind, CauseRow, Table, Wait};

use crate::dimensions::Dimensions;
use crate::filter::Filter;
use crate::load::Source;
use crate::locks::{LockShare, WaitedLocks};
use crate::report::{ReportError, load};
use crate::scan::{Period, Scan, scan};
use blockers::Blockers;
pub use blockers::{Blocker, BlockingStatement, Meanwhile};
pub(crate) use by_cause::{ByCause, Cause};
use chains::Trees;
pub use chains::{Beyond, Chain, Waiting, Who};
pub(crate) use divide::{Blocked, BlockedTime, Divided, Samples, is_blocked};
pub(crate) use flame_frames::{CauseFrames, WAITED_FOR};
pub use links::ChainLink;
use links::Links;
pub use not_known::NotKnown;
use one_lock::{BlockedBySecond, OneLock, in_all};
pub use over_time::{ChainLane, ChainTimeline, RootActivity, chains_over_time};
use parts::group;
pub use parts::{CauseGroup, CausePart, Root};
pub(crate) use parts::{Doing, Parts, root};
pub(crate) use words::{doing, no_session};

/// Which waits, and how many.
#[derive(Debug, Clone, PartialEq)]
pub struct CauseOptions {
    /// Filters the sessions that waited.
    pub filter: Filter,
    /// How many waits to show, and causes of each: the largest.
    pub top: usize,
    /// Links of a chain to show; the rest is summed. None = all.
    pub depth: Option<usize>,
}

impl Default for CauseOptions {
    fn default() -> CauseOptions {
        CauseOptions {
            filter: Filter::default(),
            top: 10,
            depth: None,
        }
    }
}

/// Blocked DB time and its causes.
#[derive(Debug, Clone, PartialEq)]
pub struct CauseReport {
    /// What the recording says about itself.
    pub meta: Meta,
    /// Whose waits count.
    pub filter: Filter,
    /// The time it covers.
    pub period: Period,
    /// By wait event and statement, largest first.
    pub waits: Vec<CausedWait>,
    /// Sessions that others waited for, the longest waited for first.
    pub blockers: Vec<Blocker>,
    /// Their statements, likewise.
    pub blocking_statements: Vec<BlockingStatement>,
    /// Who waits behind whom.
    pub chains: Vec<Chain>,
    /// Sum over all waits, nanoseconds.
    pub blocked_ns: u128,
    /// Of that, what could be followed.
    pub followed_ns: u128,
    /// Why time led to no known cause, and how many nanoseconds of it, largest first.
    pub not_known: Vec<(NotKnown, u128)>,
    /// How many waits, causes and blockers to show.
    pub top: usize,
    /// What could not be read.
    pub problems: Vec<String>,
}

impl CauseReport {
    /// False if the recorder did not follow waits.
    pub fn is_recorded(&self) -> bool {
        is_recorded(&self.meta, self.followed_ns)
    }
}

/// Whether the recorder followed waits; `followed_ns`: how much time could be followed.
pub(crate) fn is_recorded(meta: &Meta, followed_ns: u128) -> bool {
    has_rows(meta) || followed_ns > 0 || follows_waits(meta)
}

/// Whether there are samples that were followed.
fn has_rows(meta: &Meta) -> bool {
    meta.segments.rows.contains_key(CauseRow::NAME)
}

/// Minor version of the schema that introduced following waits.
const SINCE_MINOR: u32 = 7;
/// Prefixes of engines that do not follow waits, imported files included.
const NOT_FOLLOWING: [&str; 3] = ["proc:", "context switches", "imported"];

/// Whether the recorder follows waits: if it left no samples, nobody waited, or none was caught in time.
fn follows_waits(meta: &Meta) -> bool {
    let minor = match meta.schema.split_once('.') {
        Some(("1", minor)) => minor.parse::<u32>().ok(),
        _ => None,
    };
    let engine = meta.collector.engine.as_str();
    minor.is_some_and(|minor| minor >= SINCE_MINOR)
        && meta.files.is_empty()
        && meta.scheduling.is_none()
        && !engine.is_empty()
        && !NOT_FOLLOWING.iter().any(|other| engine.starts_with(other))
}

/// What to tell the user if it did not.
pub(crate) fn why_not_recorded(meta: &Meta) -> &'static str {
    match meta.files.is_empty() {
        true => {
            "This recording does not say who was waited for. 'dbtime record' records it, except with \
             '--collector proc'; older versions did not."
        }
        false => "Files of other tools do not say who was waited for. 'dbtime record' records it.",
    }
}

/// DB time that was blocked in a wait event of a statement.
#[derive(Debug, Clone, PartialEq)]
pub struct CausedWait {
    /// The wait event.
    pub wait: Wait,
    /// The statement; 0 = not known.
    pub statement: u64,
    /// Its text; none when it was not read.
    pub text: Option<String>,
    /// Sessions that waited.
    pub sessions: usize,
    /// Nanoseconds.
    pub ns: u128,
    /// The locks of the server's lock table that were waited for, largest first. They sum to no more than `ns`: the rest is not known.
    pub locks: Vec<LockShare>,
    /// What was waited for, largest first. Sums to `ns`.
    pub by: Vec<CausePart>,
    /// The same, with sessions that did the same merged.
    pub by_doing: Vec<CauseGroup>,
    /// The same link by link, if a depth was requested: direct blockers first. They sum to `ns`.
    pub links: Vec<ChainLink>,
}

/// Follows blocked DB time to its causes.
///
/// # Errors
/// The filter names what is not in the recording.
pub fn causes(source: &Source, options: &CauseOptions) -> Result<CauseReport, ReportError> {
    let filter = &options.filter;
    let mut dimensions = load(source, filter)?;
    let mut all = Builder::default();
    let scanned = divided(source, &mut dimensions, filter, |key, part, dimensions| {
        all.add(key, &part, options.depth, dimensions);
    });
    scanned.check(filter)?;
    let (looked, read) = WaitedLocks::read(source, filter, &mut dimensions);
    let one_lock = all.one_lock(&looked);
    let mut problems = std::mem::take(&mut dimensions.problems);
    problems.extend(scanned.problems);
    problems.extend(read);
    Ok(CauseReport {
        meta: source.meta().clone(),
        filter: filter.clone(),
        period: scanned.period,
        blocked_ns: all.waits.values().map(|wait| wait.ns).sum(),
        followed_ns: all.followed_ns,
        not_known: not_known::sorted(std::mem::take(&mut all.not_known)),
        waits: all.waits(&looked, &dimensions),
        blockers: all.blockers.sessions(&one_lock, &mut dimensions),
        blocking_statements: all.blockers.statements(&one_lock, &dimensions),
        chains: all.trees.finish(options.depth, &one_lock, &mut dimensions),
        top: options.top,
        problems: problems.into_iter().map(|problem| problem.0).collect(),
    })
}

/// Passes on the blocked DB time that a filter lets through, part by part. Time in a selected period is divided as without the
/// selection: samples of the whole recording count.
pub(crate) fn divided(
    source: &Source,
    dimensions: &mut Dimensions,
    filter: &Filter,
    mut take: impl FnMut(&Blocked, Divided<'_>, &mut Dimensions),
) -> Scan {
    let mut blocked = BlockedTime::default();
    let mut scanned = scan(source, dimensions, filter, |activity| blocked.add(activity));
    let (samples, problems) = Samples::read_with_last_statements(source);
    scanned.problems.extend(problems);
    blocked.divide(&samples, dimensions, &mut take);
    scanned
}

/// Adds up parts.
#[derive(Default)]
struct Builder {
    waits: HashMap<(Wait, u64), OfWait>,
    blockers: Blockers,
    trees: Trees,
    followed_ns: u128,
    not_known: BTreeMap<NotKnown, u128>,
}

#[derive(Default)]
struct OfWait {
    blocked: BlockedBySecond,
    ns: u128,
    by: Parts,
    links: Links,
}

impl Builder {
    fn add(&mut self, key: &Blocked, part: &Divided<'_>, depth: Option<usize>, dimensions: &mut Dimensions) {
        self.trees.add(key, part, dimensions);
        let wait = self.waits.entry((key.wait(), key.statement)).or_default();
        let second = (key.session, key.time.unwrap_or_default());
        *wait.blocked.entry(second).or_default() += part.ns;
        wait.ns += part.ns;
        wait.by.add(part, dimensions);
        if let Some(depth) = depth {
            wait.links.add(part, depth, dimensions);
        }
        if part.kind != CauseKind::Unknown || !part.chain.is_empty() {
            self.followed_ns += part.ns;
        }
        if let Some(why) = NotKnown::of(key.session, part) {
            *self.not_known.entry(why).or_default() += part.ns;
        }
        self.blockers.add(key, part, dimensions);
    }

    fn one_lock(&self, looked: &WaitedLocks) -> OneLock {
        let mut one_lock = OneLock::default();
        for (wait, of) in &self.waits {
            one_lock.add(wait, &of.blocked, looked);
        }
        one_lock
    }

    fn waits(&mut self, looked: &WaitedLocks, dimensions: &Dimensions) -> Vec<CausedWait> {
        let mut waits: Vec<CausedWait> = std::mem::take(&mut self.waits)
            .into_iter()
            .map(|(key, of)| {
                let sessions = in_all(&of.blocked);
                let locks = looked.of(&key, &sessions);
                let (wait, statement) = key;
                let by = of.by.finish();
                let by_doing = group(&by);
                CausedWait {
                    wait,
                    statement,
                    text: dimensions.statement(statement).map(str::to_string),
                    sessions: sessions.len(),
                    ns: of.ns,
                    locks,
                    by,
                    by_doing,
                    links: of.links.finish(),
                }
            })
            .collect();
        waits.sort_by(|one, other| {
            (Reverse(one.ns), &one.wait, one.statement).cmp(&(
                Reverse(other.ns),
                &other.wait,
                other.statement,
            ))
        });
        waits
    }
}
