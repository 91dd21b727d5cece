//! Adds up what grew, session by session.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use arcstr::ArcStr;
use dbtime_model::counter::{self, snapper, statement_counts};
use dbtime_model::latency::kind;
use dbtime_model::{CounterRow, HeldLockRow, LatencyRow, LockRow, Session, SessionId, State, Wait, WaitKind};

use super::{
    LineKind, LineUnit, SessionSnapshot, SnapshotLine, SnapshotOptions, average,
    chooses_no_time_but_statements, is_whole,
};
use crate::database_view::{DatabaseViewBuilder, Who};
use crate::fast_map::FastMap;
use crate::filter::Whose;
use crate::group::query_id;
use crate::ledger::Section;
use crate::locks::LockTarget;
use crate::scan::{Activity, Period};
use crate::sums::{Sums, percent};

/// Counters that are not statistics of the session: the ledger has them.
const NOT_SHOWN: [&str; 3] = [counter::ELAPSED_NS, counter::ON_CPU_NS, counter::RUN_QUEUE_NS];

/// True for a counter that a snapshot can show.
pub fn is_for_snapshot(row: &CounterRow) -> bool {
    match row.source.as_str() {
        counter::SNAPPER => true,
        counter::DBTIME | counter::HOST => false,
        _ => !NOT_SHOWN.contains(&row.name.as_str()),
    }
}

/// See the module.
pub(super) struct Builder<'o> {
    options: &'o SnapshotOptions,
    /// Boxed, as some hundred bytes each would be copied again and again while the table grows.
    sessions: FastMap<SessionId, Box<Sessional>>,
    /// Waits that ended are counted: a wait event without any has 0.
    counts_waits: bool,
    /// All time of the sessions is selected, so what is counted for them as a whole is, too.
    is_whole: bool,
    /// Counters of single statements are selected, of the chosen ones.
    is_of_statements: bool,
    statistics_left_out: bool,
}

/// What a snapshot is made of.
pub(super) struct Built {
    /// Selected sessions whose times come from the operating system.
    pub(super) observed: HashSet<SessionId>,
    /// Those that have something to show: no more than are wanted.
    pub(super) sessions: Vec<SessionSnapshot>,
    /// See [`super::Snapshot::others`].
    pub(super) others: usize,
    /// See [`super::Snapshot::statistics_left_out`].
    pub(super) statistics_left_out: bool,
}

/// What grew of one session.
#[derive(Default)]
struct Sessional {
    session: Arc<Session>,
    /// The filter selects something of it.
    is_meant: bool,
    view: DatabaseViewBuilder,
    db_time: Sums,
    /// Time of a server process outside of idle waits.
    background: Sums,
    waits: BTreeMap<Wait, u128>,
    /// How many ended, and how long they took.
    ended_waits: HashMap<String, (u64, u64)>,
    stats: BTreeMap<ArcStr, i128>,
    /// Values at the end.
    levels: BTreeMap<ArcStr, i128>,
    /// Counters of single statements, by statement and name.
    statements: BTreeMap<(u64, String), i128>,
    latches: BTreeMap<ArcStr, u128>,
    locks: BTreeMap<String, u128>,
    /// What Snapper's file says; times in nanoseconds.
    told_elapsed_ns: u128,
    told_times: BTreeMap<String, i128>,
    told_waits: BTreeMap<String, (i128, Option<u64>)>,
    is_told: bool,
}

impl<'o> Builder<'o> {
    pub(super) fn new(options: &'o SnapshotOptions, counts_waits: bool) -> Builder<'o> {
        let filter = &options.filter;
        Builder {
            options,
            sessions: FastMap::default(),
            counts_waits,
            is_whole: filter.chooses_no_time(),
            is_of_statements: chooses_no_time_but_statements(filter),
            statistics_left_out: false,
        }
    }

    /// True when some of its time is selected.
    pub(super) fn has(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_some_and(|of| of.is_meant)
    }

    fn of(&mut self, session: &Arc<Session>) -> &mut Sessional {
        self.sessions.entry(session.id).or_insert_with(|| {
            Box::new(Sessional {
                session: Arc::clone(session),
                ..Sessional::default()
            })
        })
    }

    /// Adds selected activity.
    pub(super) fn add(&mut self, activity: &Activity<'_>) {
        let row = activity.row;
        if activity.is_resting() {
            return;
        }
        // As it was recorded: what it counts as may have another name.
        let recorded = row.wait();
        let sessional = self.of(activity.session);
        sessional.is_meant = true;
        sessional.view.add(activity);
        match activity.section {
            Section::DbTime => sessional.db_time.take(activity),
            Section::Background if !recorded.idle => sessional.background.take(activity),
            Section::Background | Section::Idle => {}
        }
        if recorded.kind() != WaitKind::None {
            *sessional.waits.entry(recorded).or_default() += u128::from(row.ns);
        }
    }

    pub(super) fn add_counter(&mut self, row: &CounterRow, session: &Arc<Session>) {
        if !is_for_snapshot(row) {
            return;
        }
        let name = row.name.as_str();
        let is_told = row.source == counter::SNAPPER;
        let is_of_server = row.source == counter::SERVER_STATISTICS;
        let of_statement = name
            .strip_prefix(statement_counts::PREFIX)
            .filter(|_| is_of_server);
        let is_chosen = self.is_of_statements && of_statement.is_some() && row.statement != 0;
        let is_meant = self.is_whole || is_chosen && self.options.filter.takes_statement(row.statement);
        if !is_meant {
            self.statistics_left_out |= row.value != 0 && self.has(row.session);
            return;
        }
        let is_of_all = self.options.filter.whose == Whose::All;
        let value = i128::from(row.value);
        let sessional = self.of(session);
        if is_told {
            sessional.is_told = true;
            sessional.is_meant = true;
            let us = 1_000 * value;
            if let Some(name) = name.strip_prefix(snapper::STATISTIC) {
                *sessional.stats.entry(name.into()).or_default() += value;
            } else if let Some(name) = name.strip_prefix(snapper::TIME_US) {
                *sessional.told_times.entry(name.to_string()).or_default() += us;
            } else if let Some(name) = name.strip_prefix(snapper::WAIT_US) {
                sessional.told_waits.entry(name.to_string()).or_default().0 += us;
            } else if let Some(name) = name.strip_prefix(snapper::WAITS) {
                let waits = sessional.told_waits.entry(name.to_string()).or_default();
                *waits.1.get_or_insert(0) += u64::try_from(row.value).unwrap_or(0);
            } else if name == counter::ELAPSED_NS {
                sessional.told_elapsed_ns += value.unsigned_abs();
            }
            return;
        }
        if row.source == counter::LEVEL {
            sessional.levels.insert(row.name.clone(), value);
            return;
        }
        // The server as a whole is not one of the sessions that can be chosen.
        if is_of_server && row.session == SessionId::RECORDER {
            sessional.is_meant = is_of_all;
        }
        match of_statement {
            Some(what) => {
                let of = (row.statement, what.to_string());
                *sessional.statements.entry(of).or_default() += value;
            }
            None => *sessional.stats.entry(row.name.clone()).or_default() += value,
        }
    }

    pub(super) fn add_latency(&mut self, row: &LatencyRow, session: &Arc<Session>) {
        if &*row.kind == kind::WAIT {
            let sessional = self.of(session);
            let (count, ns) = sessional.ended_waits.entry(row.name.to_string()).or_default();
            *count += row.count;
            *ns += row.sum_ns;
        }
    }

    pub(super) fn add_held_lock(&mut self, row: &HeldLockRow, session: &Arc<Session>) {
        if row.lock.is_empty() {
            return;
        }
        let name = match (row.mode_unknown, row.exclusive) {
            (true, _) => row.lock.clone(),
            (false, true) => format!("{}, exclusive", row.lock).into(),
            (false, false) => format!("{}, shared", row.lock).into(),
        };
        *self.of(session).latches.entry(name).or_default() += u128::from(row.ns);
    }

    /// Adds a lock of the server's lock table.
    pub(super) fn add_lock(&mut self, row: &LockRow, session: &Arc<Session>) {
        let target = LockTarget::of_session(row, session);
        let how = if row.granted { "held" } else { "awaited" };
        let name = format!("{target}, {} {how}", row.mode);
        *self.of(session).locks.entry(name).or_default() += u128::from(row.ns);
    }

    pub(super) fn finish(self, period: Period) -> Built {
        let statistics_left_out = self.statistics_left_out;
        let (options, counts_waits) = (self.options, self.counts_waits);
        let mut meant: Vec<Box<Sessional>> = self
            .sessions
            .into_values()
            .filter(|session| session.is_meant)
            .collect();
        let observed = meant.iter().filter(|session| !session.is_told);
        let observed = observed.map(|session| session.session.id).collect();
        meant.sort_by_cached_key(|sessional| {
            let session = &sessional.session;
            (
                !session.backend_type.is_foreground(),
                Reverse(sessional.active_ns()),
                session.pid,
                session.id,
            )
        });
        let mut sessions = Vec::new();
        let mut others = 0;
        for sessional in meant {
            if options.most.is_some_and(|most| sessions.len() >= most) {
                let counts =
                    !is_whole(&sessional.session) && sessional.has_lines(period, options, counts_waits);
                others += usize::from(counts);
                continue;
            }
            let snapshot = sessional.finish(period, options, counts_waits);
            if !snapshot.lines.is_empty() {
                sessions.push(snapshot);
            }
        }
        Built {
            observed,
            sessions,
            others,
            statistics_left_out,
        }
    }
}

impl Sessional {
    /// The time to sort it by, nanoseconds.
    fn active_ns(&self) -> u128 {
        match self.is_told {
            true => (self.told_times.get("DB time").copied().unwrap_or(0)).unsigned_abs(),
            false => self.db_time.total_ns() + self.background.total_ns(),
        }
    }

    /// Whether there is something to show.
    fn has_lines(self, period: Period, options: &SnapshotOptions, counts_waits: bool) -> bool {
        // Nearly all of thousands of idle sessions have a line for their wait: that takes less time than to make it.
        let has_wait = !self.is_told && self.waits.keys().any(|wait| wait.kind() == WaitKind::Event);
        has_wait && options.include.is_empty() && options.gather.contains(&LineKind::Wait)
            || !self.finish(period, options, counts_waits).lines.is_empty()
    }

    fn finish(self, period: Period, options: &SnapshotOptions, counts_waits: bool) -> SessionSnapshot {
        let wants = |line: &SnapshotLine| {
            let has = |text: &str| line.name.to_lowercase().contains(text);
            options.gather.contains(&line.kind)
                && (options.include.is_empty() || has(&options.include.to_lowercase()))
        };
        let stats = self.stats.iter().filter(|(_, growth)| **growth != 0);
        let mut lines: Vec<SnapshotLine> = stats.map(|(name, growth)| self.stat(name, *growth)).collect();
        lines.extend(self.statements.iter().map(|((id, what), growth)| {
            let of = match id {
                0 => "other statements".to_string(),
                id => query_id(*id),
            };
            SnapshotLine {
                statement: Some(*id),
                ..self.stat(&format!("{}{of}.{what}", statement_counts::PREFIX), *growth)
            }
        }));
        lines.extend(self.levels.iter().map(|(name, level)| SnapshotLine {
            is_level: true,
            average: None,
            ..self.stat(name, *level)
        }));
        let active = self.active_ns();
        // A session that did nothing in a snapshot is not in it, but was there all the same.
        let elapsed_ns = match self.told_elapsed_ns {
            ns if ns > 0 && period.covered_ns.is_none() => ns,
            _ => period.elapsed_ns(),
        };
        if self.is_told {
            lines.extend(self.told(elapsed_ns));
        }
        let is_background = !self.session.backend_type.is_foreground();
        let waits = self.waits.iter().map(|(wait, ns)| {
            let name = wait.to_string();
            if wait.kind() == WaitKind::Unknown {
                return time(LineKind::Time, name, *ns);
            }
            let ended = self.ended_waits.get(&name).copied();
            let ended = ended.or(counts_waits.then_some((0, 0)));
            SnapshotLine {
                waits: ended.map(|(count, _)| count),
                waited_ns: ended.map(|(_, ns)| ns.into()),
                ..time(LineKind::Wait, name, *ns)
            }
        });
        let mut waits: Vec<SnapshotLine> = waits.collect();
        waits.sort_by_key(|line| (line.kind, Reverse(line.growth)));
        let latches = self
            .latches
            .iter()
            .map(|(name, ns)| time(LineKind::Latch, name.to_string(), *ns));
        let locks = self
            .locks
            .iter()
            .map(|(name, ns)| time(LineKind::Lock, name.clone(), *ns));
        let mut locks: Vec<SnapshotLine> = latches.chain(locks).collect();
        locks.sort_by_key(|line| (line.kind, Reverse(line.growth)));
        let mut view = self.view.finish(Who::Dbtime);
        if self.is_told {
            // From the file alone, which says nothing about what the operating system saw.
            view.db_time_ns = active;
            view.percent_of_db_time = percent(view.cpu_and_waits_ns(), active);
            view.explanation = match view.percent_of_db_time {
                Some(percent) => {
                    format!("by what the database says, CPU and waits add up to {percent:.0} % of DB time.")
                }
                None => String::new(),
            };
        } else {
            match is_background {
                true => lines.extend(times("background", self.background.on_cpu_ns(), &self.background)),
                false => lines.extend(times("DB", view.cpu_ns, &self.db_time)),
            }
            lines.extend(waits);
            lines.extend(locks);
        }
        lines.retain(wants);
        SessionSnapshot {
            session: self.session,
            elapsed_ns,
            view,
            lines,
        }
    }

    fn stat(&self, name: &str, growth: i128) -> SnapshotLine {
        let (short_name, unit) = match name.strip_suffix("_ns") {
            Some(name) => (name, LineUnit::Nanoseconds),
            None => (name, LineUnit::Amount),
        };
        let average = match (self.is_told, self.session.id) {
            // Counters of the instance have no executions to divide by.
            (true, SessionId::RECORDER) => None,
            (true, _) => Some(average::of_oracle(name, growth, &self.stats)),
            (false, _) => average::of_task(name, growth, unit, &self.stats),
        };
        SnapshotLine {
            kind: LineKind::Stat,
            name: short_name.to_string(),
            statement: None,
            growth,
            is_level: false,
            unit,
            waits: None,
            waited_ns: None,
            average,
        }
    }

    /// Times and waits as the file has them.
    fn told(&self, elapsed_ns: u128) -> impl Iterator<Item = SnapshotLine> {
        let idle = self.waits.iter().filter(|(wait, _)| wait.idle);
        let idle_ns = idle.map(|(_, ns)| ns).sum();
        let line = |kind, name: &String, ns: i128, waits| SnapshotLine {
            kind,
            name: name.clone(),
            statement: None,
            growth: ns,
            is_level: false,
            unit: LineUnit::Nanoseconds,
            waits,
            waited_ns: waits.map(|_| ns.unsigned_abs()),
            average: None,
        };
        let times = self.told_times.iter().map(move |(name, ns)| SnapshotLine {
            average: average::of_oracle_time(name, *ns, idle_ns, elapsed_ns),
            ..line(LineKind::Time, name, *ns, None)
        });
        let waits = self
            .told_waits
            .iter()
            .map(move |(name, (ns, waits))| line(LineKind::Wait, name, *ns, *waits));
        times.chain(waits)
    }
}

/// `DB time`, what the database would count as `DB CPU`, and DB time by state, which adds up to `DB time`.
fn times(whose: &str, cpu_ns: u128, sums: &Sums) -> Vec<SnapshotLine> {
    let whole = [(sums.total_ns(), " time", None), (cpu_ns, " CPU", None)];
    let by_state = State::ALL.map(|state| (sums.state_ns(state), " time, ", Some(state)));
    // For idle sessions most of these are zero.
    let times = whole.into_iter().chain(by_state).filter(|(ns, ..)| *ns != 0);
    times
        .map(|(ns, what, state)| {
            let state = state.map_or("", State::as_str);
            time(LineKind::Time, format!("{whose}{what}{state}"), ns)
        })
        .collect()
}

fn time(kind: LineKind, name: String, ns: u128) -> SnapshotLine {
    SnapshotLine {
        kind,
        name,
        statement: None,
        growth: ns.try_into().unwrap_or(i128::MAX),
        is_level: false,
        unit: LineUnit::Nanoseconds,
        waits: None,
        waited_ns: None,
        average: None,
    }
}
