//! Who was waited for over time: a lane for each root, and in each bucket how long the sessions behind it waited.
//!
//! All lanes sum to the blocked DB time. A row only knows its second: its time is spread evenly over it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use dbtime_model::recording::{Clock, Meta};
use dbtime_model::{CauseKind, SessionId, State};

use super::chains::{Who, who};
use super::divide::Divided;
use super::{CauseOptions, divided, is_recorded, why_not_recorded};
use crate::filter::Filter;
use crate::load::Source;
use crate::report::{ReportError, load};
use crate::scan::Period;
use crate::timeline::{BucketWidth, Buckets};

/// Most buckets of a picture.
const BUCKETS: usize = 240;

/// What the root did while others waited, in few words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RootActivity {
    /// It ran.
    OnCpu,
    /// It was ready to run, without a CPU.
    RunQueue,
    /// It waited for its client, its transaction open.
    IdleInTransaction,
    /// It waited for its client.
    Client,
    /// It waited for a device.
    Device,
    /// It waited for a timer.
    Timer,
    /// It waited for a process outside of the database.
    Process,
    /// It waited for a prepared transaction.
    Prepared,
    /// A signal had stopped it.
    Stopped,
    /// It waited for data in flight on the network.
    Network,
    /// It waited for another host.
    OtherHost,
    /// It is not known.
    Unknown,
}

impl RootActivity {
    /// The words of a legend.
    pub fn as_str(self) -> &'static str {
        match self {
            RootActivity::OnCpu => "on a CPU",
            RootActivity::RunQueue => "waiting for a CPU",
            RootActivity::IdleInTransaction => "idle in transaction",
            RootActivity::Client => "waiting for a client",
            RootActivity::Device => "on a device",
            RootActivity::Timer => "on a timer",
            RootActivity::Process => "on a process outside of the database",
            RootActivity::Prepared => "on a prepared transaction",
            RootActivity::Stopped => "stopped by a signal",
            RootActivity::Network => "on the network",
            RootActivity::OtherHost => "on another host or the network",
            RootActivity::Unknown => "[not known]",
        }
    }

    fn of(part: &Divided<'_>) -> RootActivity {
        let last = part.chain.last();
        match part.kind {
            CauseKind::Session if last.is_some_and(|link| link.state == State::Runnable) => {
                RootActivity::RunQueue
            }
            CauseKind::Session if last.is_some_and(|link| link.state == State::Stopped) => {
                RootActivity::Stopped
            }
            CauseKind::Session => RootActivity::OnCpu,
            CauseKind::Client if last.is_some_and(|link| link.session_state.is_idle_in_transaction()) => {
                RootActivity::IdleInTransaction
            }
            CauseKind::Client => RootActivity::Client,
            CauseKind::Device => RootActivity::Device,
            CauseKind::Timer => RootActivity::Timer,
            CauseKind::Process => RootActivity::Process,
            CauseKind::Prepared => RootActivity::Prepared,
            CauseKind::Network => RootActivity::Network,
            CauseKind::OtherHost => RootActivity::OtherHost,
            CauseKind::Unknown => RootActivity::Unknown,
        }
    }
}

/// Blocked DB time over time, by root.
#[derive(Debug, Clone, PartialEq)]
pub struct ChainTimeline {
    /// What the recording says about itself.
    pub meta: Meta,
    /// Whose waits count.
    pub filter: Filter,
    /// The time it covers.
    pub period: Period,
    /// Width of a whole bucket, seconds.
    pub width_s: i64,
    /// The period of each bucket, in order.
    pub buckets: Vec<Period>,
    /// Largest first; the one that sums up what is left out is last.
    pub lanes: Vec<ChainLane>,
    /// Sum over all lanes, nanoseconds.
    pub blocked_ns: u128,
    /// Why there is nothing to see: the recorder did not follow waits.
    pub why_not: Option<&'static str>,
    /// What could not be read.
    pub problems: Vec<String>,
}

/// A root, or the sum of all that are left out.
#[derive(Debug, Clone, PartialEq)]
pub struct ChainLane {
    /// The session, or what it is if it is none; none = all that are left out.
    pub root: Option<Result<Who, CauseKind>>,
    /// How many roots it stands for.
    pub count: usize,
    /// How long all sessions behind it waited, nanoseconds.
    pub ns: u128,
    /// The same by bucket and by what the root did.
    pub buckets: Vec<BTreeMap<RootActivity, u128>>,
}

/// Identifies a root: a session, or what it is if it is none.
type Key = Result<SessionId, CauseKind>;

/// Blocked DB time over time, for as many roots as requested.
///
/// # Errors
/// The filter names what is not in the recording, the recording has no times, or the selected part of it has no length.
pub fn chains_over_time(source: &Source, options: &CauseOptions) -> Result<ChainTimeline, ReportError> {
    let meta = source.meta();
    if meta.collector.clock == Clock::None {
        return Err(ReportError::NoMoments);
    }
    let filter = &options.filter;
    let mut dimensions = load(source, filter)?;
    let mut roots: BTreeMap<Key, BTreeMap<(i64, RootActivity), u128>> = BTreeMap::new();
    let mut followed_ns = 0;
    let scanned = divided(source, &mut dimensions, filter, |key, part, _| {
        let root = part.chain.last().map_or(Err(part.kind), |link| Ok(link.session));
        let place = (key.time.unwrap_or(meta.start_us), RootActivity::of(&part));
        *roots.entry(root).or_default().entry(place).or_default() += part.ns;
        if root != Err(CauseKind::Unknown) {
            followed_ns += part.ns;
        }
    });
    scanned.check(filter)?;
    let period = scanned.period;
    if period.elapsed_ns() == 0 {
        return Err(ReportError::NoLength);
    }
    let buckets = Buckets::new(period, BucketWidth::AtMost(BUCKETS), meta.collector.resolution_s)?;
    let mut lanes: Vec<(Key, ChainLane)> = roots
        .into_iter()
        .map(|(key, times)| {
            let lane = ChainLane {
                root: Some(key.map(|id| who(id, &mut dimensions))),
                count: 1,
                ns: times.values().sum(),
                buckets: placed(&buckets, times),
            };
            (key, lane)
        })
        .collect();
    lanes.sort_by_key(|(key, lane)| (Reverse(lane.ns), *key));
    let mut lanes: Vec<ChainLane> = lanes.into_iter().map(|(_, lane)| lane).collect();
    let rest = lanes.split_off(options.top.max(1).min(lanes.len()));
    lanes.extend(rest.into_iter().reduce(|mut all, lane| {
        all.merge(lane);
        all
    }));
    let blocked_ns = lanes.iter().map(|lane| lane.ns).sum();
    let mut problems = std::mem::take(&mut dimensions.problems);
    problems.extend(scanned.problems);
    Ok(ChainTimeline {
        meta: meta.clone(),
        filter: filter.clone(),
        period,
        width_s: buckets.width_s(),
        buckets: (0..buckets.len()).map(|bucket| buckets.bounds(bucket)).collect(),
        lanes,
        blocked_ns,
        why_not: (!is_recorded(meta, followed_ns)).then(|| why_not_recorded(meta)),
        problems: problems.into_iter().map(|problem| problem.0).collect(),
    })
}

fn placed(
    buckets: &Buckets,
    times: BTreeMap<(i64, RootActivity), u128>,
) -> Vec<BTreeMap<RootActivity, u128>> {
    let mut placed = vec![BTreeMap::new(); buckets.len()];
    for ((time_us, activity), ns) in times {
        // May exceed a second, as several waited at once: it still belongs in its second.
        let lies = buckets.lies(time_us, ns, false);
        let before = buckets.share(lies, ns, |bucket, ns| {
            *placed[bucket].entry(activity).or_default() += ns;
        });
        debug_assert_eq!(before, 0, "it lies in the period");
    }
    placed
}

impl ChainLane {
    /// Merges two lanes that are left out.
    fn merge(&mut self, other: ChainLane) {
        self.root = None;
        self.count += other.count;
        self.ns += other.ns;
        for (bucket, more) in self.buckets.iter_mut().zip(other.buckets) {
            for (activity, ns) in more {
                *bucket.entry(activity).or_default() += ns;
            }
        }
    }
}
