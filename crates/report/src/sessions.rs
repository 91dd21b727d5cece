//! Sessions: the kernel's exact totals beside what the rows of activity account for.

use std::cmp::Reverse;
use std::collections::HashMap;

use dbtime_model::{BackendType, CounterRow, Session, SessionId, counter};
use serde::{Serialize, Serializer};

use crate::dimensions::Dimensions;
use crate::fast_map::FastMap;
use crate::fields;
use crate::filter::{Filter, SECOND_US};
use crate::ledger::Section;
use crate::scan::Activity;

/// Less than this is shown as 0.000 s.
const SHOWN_NS: u128 = 500_000;

/// One session. Times in nanoseconds; exact ones are none when the source has no such counters.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionTime {
    /// Identity in the recording.
    #[serde(serialize_with = "fields::session_id")]
    pub id: SessionId,
    /// Process id; none when the recorder could not describe the session.
    pub pid: Option<u32>,
    /// Kind of server process.
    pub backend_type: BackendType,
    /// Database user; may be empty.
    pub user: String,
    /// Database; may be empty.
    pub database: String,
    /// Where the client connected from; may be empty.
    pub client: String,
    /// What its application calls itself; may be empty.
    pub application: String,
    /// What it connected to; may be empty.
    pub service: String,
    /// Its program, as the application names it; may be empty.
    pub module: String,
    /// What the program is doing, as the application says; may be empty.
    pub action: String,
    /// On whose behalf, as the application says; may be empty.
    pub client_id: String,
    /// How the database numbers it; may be empty.
    pub sid: String,
    /// For a parallel worker: pid of the session it works for; 0 otherwise.
    #[serde(serialize_with = "fields::known")]
    pub leader_pid: u32,
    /// Its times and counts.
    #[serde(flatten)]
    pub totals: SessionTotals,
    /// First second with activity, microseconds since the Unix epoch.
    #[serde(rename = "first_second", serialize_with = "second")]
    pub first_us: Option<i64>,
    /// Last second with activity, microseconds since the Unix epoch.
    #[serde(rename = "last_second", serialize_with = "second")]
    pub last_us: Option<i64>,
}

impl SessionTime {
    /// It works for the server itself, and had no time outside of idle waits that a report would show.
    fn is_idle_background(&self) -> bool {
        !self.backend_type.is_foreground() && self.totals.active_ns < SHOWN_NS
    }
}

fn second<S: Serializer>(us: &Option<i64>, to: S) -> Result<S::Ok, S::Error> {
    let second = us.map(|us| us.div_euclid(SECOND_US).saturating_mul(SECOND_US));
    second.and_then(fields::timestamp).serialize(to)
}

/// Times and counts of one session or of several. Times in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SessionTotals {
    /// Exact: time elapsed while it was recorded.
    pub elapsed_ns: Option<u128>,
    /// Exact: on a CPU.
    pub on_cpu_ns: Option<u128>,
    /// Exact: in the run queue.
    pub run_queue_ns: Option<u128>,
    /// Exact: the rest of elapsed time, blocked or stopped.
    pub blocked_ns: Option<u128>,
    /// Sum of the rows of activity.
    pub accounted_ns: u128,
    /// Of that, outside of idle waits, and of waits for work of the server's first process; for a foreground session its part of DB
    /// time, which includes the run queue inside of idle waits.
    pub active_ns: u128,
    /// Of that, time into which no sample fell.
    pub unsampled_ns: u128,
    /// Samples.
    pub samples: u128,
    /// Samples dropped because the session ran while it was read.
    pub torn: u128,
    /// Samples kept without their stacks for the same reason.
    pub torn_stacks: u128,
    /// Passes left out because the sampler itself had pushed the session off its CPU.
    pub displaced: u128,
    /// Samples with the wait event of another wait, because their own was over before the session could be read.
    pub stood_in: u128,
    /// Samples whose wait event could not be read.
    pub waits_not_read: u128,
}

impl SessionTotals {
    fn left_ns(&self) -> Option<u128> {
        let off = self.elapsed_ns?.saturating_sub(self.on_cpu_ns?);
        Some(off.saturating_sub(self.run_queue_ns?))
    }

    fn merge(&mut self, other: &SessionTotals) {
        let add = |sum: &mut Option<u128>, more: Option<u128>| {
            if let Some(more) = more {
                *sum = Some(sum.unwrap_or(0) + more);
            }
        };
        add(&mut self.elapsed_ns, other.elapsed_ns);
        add(&mut self.on_cpu_ns, other.on_cpu_ns);
        add(&mut self.run_queue_ns, other.run_queue_ns);
        self.blocked_ns = self.left_ns();
        self.accounted_ns += other.accounted_ns;
        self.active_ns += other.active_ns;
        self.unsampled_ns += other.unsampled_ns;
        self.samples += other.samples;
        self.torn += other.torn;
        self.torn_stacks += other.torn_stacks;
        self.displaced += other.displaced;
        self.stood_in += other.stood_in;
        self.waits_not_read += other.waits_not_read;
    }
}

/// All sessions with activity or counters: foreground before background, those with the most time outside of idle
/// waits first.
#[derive(Debug, Clone, PartialEq)]
pub struct Sessions(pub Vec<SessionTime>);

impl Sessions {
    /// The first `n`, and how many others there are with the sum of their totals. Background processes that had nothing to do count as
    /// others, unless there is nothing else.
    pub fn top(&self, n: usize) -> (&[SessionTime], usize, SessionTotals) {
        let busy = self.0.partition_point(|session| !session.is_idle_background());
        let worth_a_line = if busy == 0 { self.0.len() } else { busy };
        let (top, rest) = self.0.split_at(n.min(worth_a_line));
        let mut totals = SessionTotals::default();
        for session in rest {
            totals.merge(&session.totals);
        }
        (top, rest.len(), totals)
    }

    /// True when there are exact totals from the kernel for at least one session.
    pub fn have_exact_totals(&self) -> bool {
        self.0.iter().any(|session| session.totals.elapsed_ns.is_some())
    }
}

/// Adds rows of activity and counters up to [`Sessions`].
#[derive(Default)]
pub(crate) struct SessionsBuilder(FastMap<SessionId, Totals>);

/// What is summed for one session. Counters are signed in a recording.
#[derive(Default)]
struct Totals {
    totals: SessionTotals,
    counters: HashMap<Counter, i128>,
    seconds: Option<(i64, i64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Counter {
    Elapsed,
    OnCpu,
    RunQueue,
    Torn,
    TornStack,
    Displaced,
    StoodIn,
    WaitNotRead,
}

impl Counter {
    fn of(row: &CounterRow) -> Option<Counter> {
        match (row.source.as_str(), row.name.as_str()) {
            (counter::KERNEL, counter::ELAPSED_NS) => Some(Counter::Elapsed),
            (counter::KERNEL, counter::ON_CPU_NS) => Some(Counter::OnCpu),
            (counter::KERNEL, counter::RUN_QUEUE_NS) => Some(Counter::RunQueue),
            (counter::DBTIME, counter::TORN) => Some(Counter::Torn),
            (counter::DBTIME, counter::TORN_STACK) => Some(Counter::TornStack),
            (counter::DBTIME, counter::DISPLACED) => Some(Counter::Displaced),
            (counter::DBTIME, counter::STOOD_IN) => Some(Counter::StoodIn),
            (counter::DBTIME, counter::WAIT_NOT_READ) => Some(Counter::WaitNotRead),
            _ => None,
        }
    }
}

impl SessionsBuilder {
    pub(crate) fn add(&mut self, activity: &Activity<'_>) {
        let Activity {
            row,
            wait,
            section,
            not_sampled,
            ..
        } = *activity;
        let session = self.0.entry(row.session).or_default();
        let (first, last) = session.seconds.unwrap_or((row.time, row.time));
        session.seconds = Some((first.min(row.time), last.max(row.time)));
        let ns = u128::from(row.ns);
        session.totals.accounted_ns += ns;
        session.totals.samples += u128::from(row.samples);
        if section == Section::DbTime || !(wait.idle || activity.is_resting()) {
            session.totals.active_ns += ns;
        }
        if not_sampled {
            session.totals.unsampled_ns += ns;
        }
    }

    /// Adds a counter of a session; those that belong to none, or that the filter excludes, are left out.
    pub(crate) fn add_counter(&mut self, row: &CounterRow, dimensions: &mut Dimensions, filter: &Filter) {
        let Some(counter) = Counter::of(row) else { return };
        if row.session == SessionId::RECORDER
            || !filter.takes_time(row.time)
            || !filter.takes_session(dimensions.session(row.session))
        {
            return;
        }
        let session = self.0.entry(row.session).or_default();
        *session.counters.entry(counter).or_default() += i128::from(row.value);
    }

    pub(crate) fn finish(self, dimensions: &mut Dimensions) -> Sessions {
        let mut sessions: Vec<SessionTime> = self
            .0
            .into_iter()
            .map(|(id, totals)| totals.of(dimensions.session(id)))
            .collect();
        sessions.sort_unstable_by_key(|session| {
            let totals = &session.totals;
            (
                !session.backend_type.is_foreground(),
                Reverse(totals.active_ns),
                Reverse(totals.accounted_ns),
                session.pid,
                session.id,
            )
        });
        Sessions(sessions)
    }
}

impl Totals {
    fn of(mut self, session: &Session) -> SessionTime {
        // A negative sum is neither a time nor a count.
        let sum = |counter| self.counters.get(&counter).map(|sum| sum.max(&0).unsigned_abs());
        self.totals.elapsed_ns = sum(Counter::Elapsed);
        // What did not grow has no row: if the kernel was asked at all, its other counters are zero.
        let none = self.totals.elapsed_ns.map(|_| 0);
        self.totals.on_cpu_ns = sum(Counter::OnCpu).or(none);
        self.totals.run_queue_ns = sum(Counter::RunQueue).or(none);
        self.totals.blocked_ns = self.totals.left_ns();
        self.totals.torn = sum(Counter::Torn).unwrap_or(0);
        self.totals.torn_stacks = sum(Counter::TornStack).unwrap_or(0);
        self.totals.displaced = sum(Counter::Displaced).unwrap_or(0);
        self.totals.stood_in = sum(Counter::StoodIn).unwrap_or(0);
        self.totals.waits_not_read = sum(Counter::WaitNotRead).unwrap_or(0);
        SessionTime {
            id: session.id,
            pid: (session.pid != 0).then_some(session.pid),
            backend_type: session.backend_type.clone(),
            user: session.user.clone(),
            database: session.database.clone(),
            client: session.client.clone(),
            application: session.application.clone(),
            service: session.service.clone(),
            module: session.module.clone(),
            action: session.action.clone(),
            client_id: session.client_id.clone(),
            sid: session.sid.clone(),
            leader_pid: session.leader_pid,
            totals: self.totals,
            first_us: self.seconds.map(|(first, _)| first),
            last_us: self.seconds.map(|(_, last)| last),
        }
    }
}
