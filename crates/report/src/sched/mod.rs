//! Context switches: how long tasks waited, were ready to run without a CPU, and ran; who ran instead, and who woke them.
//!
//! Sums and quantiles come from the latencies, which hold every switch; single switches from those that were kept in full.

mod statement;
mod switch;
mod task;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use dbtime_model::latency::kind;
use dbtime_model::recording::{Meta, Problem, Scheduling};
use dbtime_model::{CounterRow, LatencyRow, SessionId, SwitchRow, counter};
use serde::Serialize;

use crate::dimensions::Dimensions;
use crate::filter::{Filter, SECOND_US};
use crate::histogram::Histogram;
use crate::load::Source;
use crate::report::{ReportError, load};
use crate::sums::percent;
use statement::ByStatement;
pub use statement::SchedStatement;
pub use switch::SwitchLine;
pub(crate) use switch::{priority as priority_words, task as task_words};
pub use task::{SchedSums, SchedTask};

/// Everyone who ran instead or woke someone is counted; this many names are kept apart, the others are added up.
const MAX_NAMES: usize = 65_536;

/// Context switches of the recorded tasks. Exact; quantiles are accurate to 1 %.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sched {
    /// What the recording says about itself.
    pub facts: Scheduling,
    /// By task, the largest scheduling delay first.
    pub tasks: Vec<SchedTask>,
    /// All tasks.
    #[serde(serialize_with = "crate::json::sched_sums")]
    pub total: SchedSums,
    /// Scheduling delay by the wait event in which the task had left its CPU (`Class:Event`, `CPU` = in none), the largest
    /// sum first.
    #[serde(serialize_with = "crate::json::delays_by_event")]
    pub by_event: Vec<(String, Histogram)>,
    /// By what sessions executed, those that wanted a CPU the longest first; empty if no statement is known.
    pub statements: Vec<SchedStatement>,
    /// All statements that are not listed separately, because there are too many.
    #[serde(serialize_with = "crate::json::sched_times")]
    pub other_statements: SchedSums,
    /// Who had the CPU during scheduling delays, the longest first.
    #[serde(rename = "ran_instead")]
    pub instead: Vec<OtherTask>,
    /// Scheduling delay during which nobody was seen on the CPU, nanoseconds.
    pub not_seen_ns: u128,
    /// Who ended sleeps, the most first.
    pub wakers: Vec<OtherTask>,
    /// The longest scheduling delays of the switches that were kept, the longest first.
    #[serde(rename = "longest_delays")]
    pub longest: Vec<SwitchLine>,
}

/// A task that ran instead, or woke others.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OtherTask {
    /// Name and pid; `idle`, `interrupt`.
    pub name: String,
    /// Number of delays, or sleeps.
    pub count: u128,
    /// Their time, nanoseconds.
    pub ns: u128,
    /// That in percent of all delays, or all sleeps.
    pub percent: Option<f64>,
}

/// True when a recording is one of context switches.
pub(crate) fn has_switches(meta: &Meta) -> bool {
    meta.scheduling.is_some()
}

/// Orders lines by their delay.
#[derive(Debug, PartialEq, Eq)]
struct Longest {
    delay_ns: u64,
    /// Among equal ones, the first is kept.
    order: Reverse<u64>,
    row: SwitchRow,
}

impl PartialOrd for Longest {
    fn partial_cmp(&self, other: &Longest) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Longest {
    fn cmp(&self, other: &Longest) -> std::cmp::Ordering {
        (self.delay_ns, self.order).cmp(&(other.delay_ns, other.order))
    }
}

/// Adds rows up to a [`Sched`]. Its memory depends on the number of tasks, names and wait events, not of switches.
#[derive(Debug)]
pub struct SchedBuilder {
    top: usize,
    tasks: HashMap<SessionId, SchedSums>,
    by_event: HashMap<String, Histogram>,
    by_statement: ByStatement,
    instead: BTreeMap<String, (u128, u128)>,
    wakers: BTreeMap<String, (u128, u128)>,
    longest: BinaryHeap<Reverse<Longest>>,
    seen: u64,
}

impl SchedBuilder {
    /// Nothing yet. `top`: how many of the longest delays are kept.
    pub fn new(top: usize) -> SchedBuilder {
        SchedBuilder {
            top,
            tasks: HashMap::new(),
            by_event: HashMap::new(),
            by_statement: ByStatement::default(),
            instead: BTreeMap::new(),
            wakers: BTreeMap::new(),
            longest: BinaryHeap::new(),
            seen: 0,
        }
    }

    /// Adds latencies of any kind.
    pub fn add_latency(&mut self, row: &LatencyRow) {
        match &*row.kind {
            kind::INSTEAD => return add_other_task(&mut self.instead, row),
            kind::SCHED => add(self.by_event.entry(row.name.to_string()).or_default(), row),
            kind::WAKER => add_other_task(&mut self.wakers, row),
            kind::WAIT | kind::RUN => {}
            _ => return,
        }
        self.tasks.entry(row.session).or_default().add_latency(row);
        self.by_statement.add_latency(row);
    }

    /// Adds a counter of any name.
    pub fn add_counter(&mut self, row: &CounterRow) {
        let value = u128::try_from(row.value).unwrap_or(0);
        match row.name.as_str() {
            counter::SWITCHES => self.tasks.entry(row.session).or_default().switches += value,
            counter::MIGRATIONS => self.tasks.entry(row.session).or_default().migrations += value,
            _ => {}
        }
    }

    /// Adds a switch.
    pub fn add_switch(&mut self, row: &SwitchRow) {
        if let Some(priority) = row.priority {
            self.tasks.entry(row.session).or_default().add_priority(priority);
        }
        self.seen += 1;
        let delay_ns = row.delay_ns.unwrap_or(0);
        let is_long = self.longest.len() < self.top
            || self
                .longest
                .peek()
                .is_some_and(|shortest| delay_ns > shortest.0.delay_ns);
        if delay_ns == 0 || !is_long || self.top == 0 {
            return;
        }
        if self.longest.len() >= self.top {
            self.longest.pop();
        }
        self.longest.push(Reverse(Longest {
            delay_ns,
            order: Reverse(self.seen),
            row: row.clone(),
        }));
    }

    /// All that was added.
    pub fn finish(self, facts: &Scheduling, dimensions: &mut Dimensions) -> Sched {
        let mut total = SchedSums::default();
        let mut tasks: Vec<SchedTask> = Vec::with_capacity(self.tasks.len());
        for (session, sums) in self.tasks {
            total.merge(&sums);
            tasks.push(SchedTask::of(dimensions.session(session), sums));
        }
        tasks.sort_by_key(|task| {
            (
                Reverse(task.sums.delay.sum_ns()),
                Reverse(task.sums.run.sum_ns()),
                task.tid,
            )
        });
        let mut by_event: Vec<(String, Histogram)> = self.by_event.into_iter().collect();
        by_event.sort_by(|(a_name, a), (b_name, b)| (b.sum_ns(), a_name).cmp(&(a.sum_ns(), b_name)));
        let delay_ns = total.delay.sum_ns();
        let seen_ns: u128 = self.instead.values().map(|(_, ns)| ns).sum();
        let slept_ns = self.wakers.values().map(|(_, ns)| ns).sum();
        let longest = self.longest.into_sorted_vec();
        let (statements, other_statements) = self.by_statement.finish(dimensions);
        Sched {
            statements,
            other_statements,
            facts: facts.clone(),
            not_seen_ns: delay_ns.saturating_sub(seen_ns),
            tasks,
            total,
            by_event,
            instead: other_tasks(self.instead, delay_ns, |task| task.ns),
            wakers: other_tasks(self.wakers, slept_ns, |task| task.count),
            longest: longest
                .into_iter()
                .map(|Reverse(long)| SwitchLine::of(&long.row, dimensions.session(long.row.session)))
                .collect(),
        }
    }
}

fn add(histogram: &mut Histogram, row: &LatencyRow) {
    histogram.add(row.from_ns, row.to_ns, row.count, row.sum_ns, row.max_ns);
}

fn add_other_task(tasks: &mut BTreeMap<String, (u128, u128)>, row: &LatencyRow) {
    let name = match tasks.contains_key(&*row.name) || tasks.len() < MAX_NAMES {
        true => row.name.to_string(),
        false => "others".into(),
    };
    let (count, ns) = tasks.entry(name).or_default();
    *count += u128::from(row.count);
    *ns += u128::from(row.sum_ns);
}

fn other_tasks(
    of: BTreeMap<String, (u128, u128)>,
    whole_ns: u128,
    weight: impl Fn(&OtherTask) -> u128,
) -> Vec<OtherTask> {
    let mut tasks: Vec<OtherTask> = of
        .into_iter()
        .map(|(name, (count, ns))| OtherTask {
            name,
            count,
            ns,
            percent: percent(ns, whole_ns),
        })
        .collect();
    tasks.sort_by_key(|task| Reverse(weight(task)));
    tasks
}

/// True when a switch is in the period, of the sessions, and of the statements, at its end or at its beginning.
fn takes(filter: &Filter, dimensions: &mut Dimensions, row: &SwitchRow) -> bool {
    let second = row
        .time_ns
        .div_euclid(1_000 * SECOND_US)
        .saturating_mul(SECOND_US);
    filter.takes_time(second)
        && filter.takes_session(dimensions.session(row.session))
        && (filter.takes_statement(row.statement) || filter.takes_statement(row.wait_statement))
}

/// Adds the switches of a recording; returns what could not be read.
pub(crate) fn scan_switches(
    source: &Source,
    dimensions: &mut Dimensions,
    filter: &Filter,
    mut take: impl FnMut(&SwitchRow),
) -> Vec<Problem> {
    source.switches(|row| {
        if takes(filter, dimensions, row) {
            take(row);
        }
    })
}

/// Passes on the kept switches of a recording, one by one, in the order of the recording. Returns what could not be read.
///
/// # Errors
/// The filter names a session or a period that is not there, or the recording has no context switches.
pub fn switches(
    source: &Source,
    filter: &Filter,
    mut take: impl FnMut(&SwitchLine),
) -> Result<Vec<Problem>, ReportError> {
    if !has_switches(source.meta()) {
        return Err(ReportError::NoSwitches);
    }
    let mut dimensions = load(source, filter)?;
    Ok(source.switches(|row| {
        if takes(filter, &mut dimensions, row) {
            take(&SwitchLine::of(row, dimensions.session(row.session)));
        }
    }))
}
