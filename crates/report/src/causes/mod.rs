//! Who was waited for: blocked DB time, followed to its causes.
//!
//! The recorder follows each sample of a blocked session to who ended its wait, and on where that one was blocked itself. Here
//! the time of the ledger is divided by these samples: what a session spent blocked in a second, in one statement, wait event and
//! state. Every sum stays what it is in the ledger.

mod chains;
mod divide;
mod flame_frames;
mod parts;

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use dbtime_model::recording::Meta;
use dbtime_model::{CauseKind, CauseRow, SessionId, StateGroup, Table, Wait};

use crate::filter::Filter;
use crate::ledger::Section;
use crate::load::{Dimensions, Source};
use crate::report::{ReportError, load};
use crate::scan::{Period, Scan, scan};
use chains::Trees;
pub use chains::{Chain, Waiting, Who};
use divide::Samples;
pub(crate) use divide::{Blocked, Divided};
pub(crate) use flame_frames::CauseFrames;
pub use parts::{CauseGroup, CausePart, Root};
use parts::{Parts, group};

/// Which waits, and how many.
#[derive(Debug, Clone, PartialEq)]
pub struct CauseOptions {
    /// Of those who waited.
    pub filter: Filter,
    /// Waits to show, and causes of each: those with the most time.
    pub top: usize,
}

impl Default for CauseOptions {
    fn default() -> CauseOptions {
        CauseOptions {
            filter: Filter::default(),
            top: 10,
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
    /// By wait event and statement, the one with the most time first.
    pub waits: Vec<CausedWait>,
    /// Those for which others waited longest.
    pub blockers: Vec<Blocker>,
    /// Who waits behind whom.
    pub chains: Vec<Chain>,
    /// Sum over all waits, nanoseconds.
    pub blocked_ns: u128,
    /// Of that, what could be followed.
    pub followed_ns: u128,
    /// How many waits, causes and blockers to show.
    pub top: usize,
    /// What could not be read.
    pub problems: Vec<String>,
}

impl CauseReport {
    /// False where the recorder did not follow waits.
    pub fn is_recorded(&self) -> bool {
        is_recorded(&self.meta, self.followed_ns)
    }
}

/// Whether the recorder followed waits; `followed_ns` is what was found of it.
pub(crate) fn is_recorded(meta: &Meta, followed_ns: u128) -> bool {
    meta.segments.rows.contains_key(CauseRow::NAME) || followed_ns > 0
}

/// What to say where it did not.
pub(crate) fn why_not_recorded(meta: &Meta) -> &'static str {
    match meta.files.is_empty() {
        true => {
            "This recording does not say who was waited for. 'dbtime record' notes it, except with '--collector proc'; older ones did not."
        }
        false => "Files of other tools do not say who was waited for. 'dbtime record' notes it.",
    }
}

/// DB time that was blocked in a wait event of a statement.
#[derive(Debug, Clone, PartialEq)]
pub struct CausedWait {
    /// The wait event.
    pub wait: Wait,
    /// What executed; 0 = not known.
    pub statement: u64,
    /// Its text; none when it was not read.
    pub text: Option<String>,
    /// Sessions that waited.
    pub sessions: usize,
    /// Nanoseconds.
    pub ns: u128,
    /// What was waited for, the most first. They sum to `ns`.
    pub by: Vec<CausePart>,
    /// The same, whichever sessions it was that did the same.
    pub by_doing: Vec<CauseGroup>,
}

/// Where a wait ended that was for no session.
pub(crate) fn no_session(kind: CauseKind) -> &'static str {
    match kind {
        CauseKind::Device => "a device",
        CauseKind::Timer => "a timer",
        CauseKind::Client => "its own client",
        CauseKind::Process => "a process outside of the database",
        CauseKind::Prepared => "a prepared transaction, which no process has",
        CauseKind::Session | CauseKind::Unknown => "[not known]",
    }
}

/// A session for which others waited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocker {
    /// Which session it is.
    pub who: Who,
    /// Sessions that waited for it.
    pub waiters: usize,
    /// For how long, nanoseconds.
    pub ns: u128,
    /// Of that, while it was blocked itself: the cause lies further on.
    pub blocked_ns: u128,
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
        all.add(key, part, dimensions);
    });
    scanned.check(filter)?;
    let mut problems = std::mem::take(&mut dimensions.problems);
    problems.extend(scanned.problems);
    Ok(CauseReport {
        meta: source.meta().clone(),
        filter: filter.clone(),
        period: scanned.period,
        blocked_ns: all.waits.values().map(|wait| wait.ns).sum(),
        followed_ns: all.followed_ns,
        waits: all.waits(&dimensions),
        blockers: all.blockers(&mut dimensions),
        chains: all.trees.finish(&mut dimensions),
        top: options.top,
        problems: problems.into_iter().map(|problem| problem.0).collect(),
    })
}

/// Hands on the blocked DB time that a filter lets through, part by part. A part of the recording has the parts of its time: the
/// samples of all of it are looked at, whatever time is chosen.
pub(crate) fn divided(
    source: &Source,
    dimensions: &mut Dimensions,
    filter: &Filter,
    mut take: impl FnMut(&Blocked, Divided<'_>, &mut Dimensions),
) -> Scan {
    let mut blocked: HashMap<Blocked, u128> = HashMap::new();
    let mut scanned = scan(source, dimensions, filter, |activity| {
        if activity.section == Section::DbTime && activity.row.state.group() == Some(StateGroup::Blocked) {
            *blocked.entry(Blocked::of_activity(activity.row)).or_default() += u128::from(activity.row.ns);
        }
    });
    let mut samples = Samples::default();
    scanned.problems.extend(source.causes(|row| samples.add(row)));
    for (key, ns) in &blocked {
        samples.divide(key, *ns, |part| take(key, part, dimensions));
    }
    scanned
}

/// Adds parts up.
#[derive(Default)]
struct Builder {
    waits: HashMap<(Wait, u64), OfWait>,
    blockers: HashMap<SessionId, OfBlocker>,
    trees: Trees,
    followed_ns: u128,
}

#[derive(Default)]
struct OfWait {
    sessions: BTreeSet<SessionId>,
    ns: u128,
    by: Parts,
}

#[derive(Default)]
struct OfBlocker {
    waiters: BTreeSet<SessionId>,
    ns: u128,
    blocked_ns: u128,
}

impl Builder {
    fn add(&mut self, key: &Blocked, part: Divided<'_>, dimensions: &mut Dimensions) {
        self.trees.add(key, &part, dimensions);
        let wait = self.waits.entry((key.wait(), key.statement)).or_default();
        wait.sessions.insert(key.session);
        wait.ns += part.ns;
        wait.by.add(&part, dimensions);
        if part.kind != CauseKind::Unknown || !part.chain.is_empty() {
            self.followed_ns += part.ns;
        }
        for link in part.chain {
            let blocker = self.blockers.entry(link.session).or_default();
            blocker.waiters.insert(key.session);
            blocker.ns += part.ns;
            let wait = Wait::event(&link.wait_class, &link.wait_event, false);
            // In a wait for its client it is the cause: nobody in the database can do anything about it.
            if link.state.group() == Some(StateGroup::Blocked) && wait.class.as_ref() != "Client" {
                blocker.blocked_ns += part.ns;
            }
        }
    }

    fn waits(&mut self, dimensions: &Dimensions) -> Vec<CausedWait> {
        let mut waits: Vec<CausedWait> = std::mem::take(&mut self.waits)
            .into_iter()
            .map(|((wait, statement), of)| {
                let by = of.by.finish();
                let by_doing = group(&by);
                CausedWait {
                    wait,
                    statement,
                    text: dimensions.statement(statement).map(str::to_string),
                    sessions: of.sessions.len(),
                    ns: of.ns,
                    by,
                    by_doing,
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

    fn blockers(&self, dimensions: &mut Dimensions) -> Vec<Blocker> {
        let mut blockers: Vec<Blocker> = self
            .blockers
            .iter()
            .map(|(id, of)| Blocker {
                who: chains::who(*id, dimensions),
                waiters: of.waiters.len(),
                ns: of.ns,
                blocked_ns: of.blocked_ns,
            })
            .collect();
        blockers.sort_by_key(|blocker| (Reverse(blocker.ns), blocker.who.pid));
        blockers
    }
}
