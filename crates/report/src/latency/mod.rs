//! Latencies of single events: how long they took, how many there were, and where their time went.

mod heat_map;
mod key;
mod scan;

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use dbtime_model::LatencyRow;
use dbtime_model::latency::kind;
use dbtime_model::recording::Meta;

use crate::filter::Filter;
use crate::group::Dimension;
use crate::histogram::Histogram;
use crate::load::Source;
use crate::report::{ReportError, load};
use crate::scan::Period;
pub use heat_map::{HeatMap, HeatMapCell, heat_map};
use key::LatencyKey;
pub(crate) use scan::{is_event, scan};

/// The known kinds, in the order of reports; others follow by name.
const KINDS: [&str; 17] = [
    kind::COMMAND,
    kind::WAIT,
    kind::WAIT_CALL,
    kind::ORACLE_WAIT,
    kind::ORACLE_WAIT_DB,
    kind::SYSCALL,
    kind::SCHED,
    kind::READ,
    kind::READ_CPU,
    kind::READ_QUEUE,
    kind::READ_DEVICE,
    kind::BLOCK,
    kind::BLOCK_QUEUE,
    kind::WAKER,
    kind::FUNCTION,
    kind::RUN,
    kind::INSTEAD,
];

/// A kind in a few words; the kind itself if it is not known.
pub(crate) fn kind_words<'a>(kind: &'a str, meta: &Meta) -> &'a str {
    match kind {
        kind::COMMAND => "Commands, by query",
        kind::WAIT => match WaitUnit::of(meta) {
            WaitUnit::Wait => "Waits",
            WaitUnit::Stay => "Off-CPU periods in waits",
            WaitUnit::Call => "System calls made in waits",
        },
        kind::WAIT_CALL => "Waits, cut at their system calls",
        kind::ORACLE_WAIT => "Waits, timed in the database's functions",
        kind::ORACLE_WAIT_DB => "Waits, as the database timed them",
        kind::SYSCALL => "System calls",
        kind::SCHED => "Scheduling delay",
        kind::READ => "Read calls",
        kind::READ_CPU => "Kernel CPU of read calls",
        kind::READ_QUEUE => "Read calls: request in the queue",
        kind::READ_DEVICE => "Read calls: request at the device",
        kind::BLOCK => "Block requests",
        kind::BLOCK_QUEUE => "Block requests in the queue",
        kind::WAKER => "Sleeps, by who ended them",
        kind::FUNCTION => "Kernel functions",
        kind::RUN => "On-CPU periods",
        kind::INSTEAD => "Parts of scheduling delays, by who had the CPU",
        other => other,
    }
}

/// What an event of kind [`kind::WAIT`] is: depends on where a recording measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitUnit {
    /// A wait.
    Wait,
    /// An off-CPU period in a wait: switches were seen, calls were not.
    Stay,
    /// A system call made in a wait: calls were traced, by a dbtime before schema 1.4.
    Call,
}

impl WaitUnit {
    pub(crate) fn of(meta: &Meta) -> WaitUnit {
        match meta.collector.tier.as_str() {
            "exact-calls" if is_before(meta, 4) => WaitUnit::Call,
            "exact" if meta.files.is_empty() => WaitUnit::Stay,
            _ => WaitUnit::Wait,
        }
    }

    /// One of them.
    pub(crate) fn one(self) -> &'static str {
        match self {
            WaitUnit::Wait => "a wait",
            WaitUnit::Stay => "an off-CPU period in a wait",
            WaitUnit::Call => "a system call made in a wait",
        }
    }
}

/// Whether a recording was written before this minor version of the schema.
fn is_before(meta: &Meta, minor: u32) -> bool {
    let of_meta = meta
        .schema
        .split_once('.')
        .and_then(|(_, of)| of.parse::<u32>().ok());
    of_meta.is_some_and(|of| of < minor)
}

/// Whether the statement of each event is known, and not of commands only.
pub(crate) fn has_statements(meta: &Meta) -> bool {
    meta.scheduling.is_some() || !is_before(meta, 17)
}

/// What to tell the user if statements were selected in a recording in which only commands have one.
const NO_STATEMENTS: &str = "only the commands of this recording have a query: it was recorded by an older dbtime, which wrote none \
     for other events";

/// A plural noun for the events of a kind; reads and writes by the name of the event.
pub(crate) fn kind_noun(kind: &str, name: &str) -> &'static str {
    match kind {
        kind::COMMAND => "commands",
        kind::WAIT if name.to_ascii_lowercase().contains("read") => "reads",
        kind::WAIT if name.to_ascii_lowercase().contains("write") => "writes",
        kind::WAIT => "waits",
        kind::SYSCALL | kind::WAIT_CALL => "calls",
        kind::READ | kind::READ_CPU | kind::READ_QUEUE | kind::READ_DEVICE => "reads",
        kind::BLOCK | kind::BLOCK_QUEUE => "requests",
        kind::SCHED => "delays",
        kind::WAKER => "sleeps",
        kind::RUN => "runs",
        kind::INSTEAD => "parts",
        _ => "events",
    }
}

/// Which latencies, and how they are grouped.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyOptions {
    /// Period, sessions and statements. Waits and states do not apply: an event has a name and no state.
    pub filter: Filter,
    /// Kinds (see [`kind`]); empty = all that were recorded.
    pub kinds: Vec<String>,
    /// Names of events, as `Class:Event` or either of the two; empty = all.
    pub names: Vec<String>,
    /// What the events of a kind are grouped by.
    pub by: Vec<Dimension>,
    /// How many groups of each kind to show individually.
    pub top: usize,
}

impl Default for LatencyOptions {
    fn default() -> LatencyOptions {
        LatencyOptions {
            filter: Filter::default(),
            kinds: Vec::new(),
            names: Vec::new(),
            by: vec![Dimension::Name],
            top: 10,
        }
    }
}

impl LatencyOptions {
    pub(crate) fn takes(&self, kind: &str, name: &str) -> bool {
        let is_named = |wanted: &String| {
            wanted.eq_ignore_ascii_case(name)
                || name.split_once(':').is_some_and(|(class, event)| {
                    wanted.eq_ignore_ascii_case(class) || wanted.eq_ignore_ascii_case(event)
                })
        };
        self.takes_kind(kind) && (self.names.is_empty() || self.names.iter().any(is_named))
    }

    fn takes_kind(&self, kind: &str) -> bool {
        self.kinds.is_empty() || self.kinds.iter().any(|wanted| wanted == kind)
    }

    /// # Errors
    /// A requested kind or name is not in the recording.
    pub(crate) fn check(&self, recorded: &Recorded) -> Result<(), ReportError> {
        let kinds = &recorded.kinds;
        // Without any latency the user is told how to record some.
        if kinds.is_empty() {
            return Ok(());
        }
        if let Some(absent) = self.kinds.iter().find(|wanted| !kinds.contains(*wanted)) {
            return Err(ReportError::NoSuchKind {
                kind: absent.clone(),
                recorded: in_order(kinds),
            });
        }
        if !recorded.has_wanted && !self.names.is_empty() {
            return Err(ReportError::NoSuchEvent {
                names: self.names.clone(),
                recorded: recorded.names.iter().cloned().collect(),
                more: recorded.more_names,
            });
        }
        Ok(())
    }
}

/// How many names to list if a requested one does not exist.
const NAMES_TOLD: usize = 40;

/// What is in the whole recording, regardless of period and sessions.
#[derive(Default)]
pub(crate) struct Recorded {
    pub(crate) kinds: BTreeSet<String>,
    /// There are events of the requested kinds and names.
    has_wanted: bool,
    /// Names of the requested kinds, if names were requested; limited in number.
    names: BTreeSet<String>,
    /// There are more.
    more_names: bool,
}

/// Kinds in the order of reports.
pub(crate) fn in_order(kinds: &BTreeSet<String>) -> Vec<String> {
    let mut kinds: Vec<String> = kinds.iter().cloned().collect();
    kinds.sort_by_key(|kind| rank(kind));
    kinds
}

fn rank(kind: &str) -> usize {
    KINDS
        .iter()
        .position(|known| *known == kind)
        .unwrap_or(KINDS.len())
}

/// Latencies, exact, by kind and group.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyReport {
    /// What the recording says about itself.
    pub meta: Meta,
    /// Which rows count.
    pub filter: Filter,
    /// The time it covers.
    pub period: Period,
    /// What the events are grouped by.
    pub by: Vec<Dimension>,
    /// Kind by kind.
    pub kinds: Vec<KindLatencies>,
    /// The kinds that the recording has, requested or not.
    pub recorded_kinds: Vec<String>,
    /// What could not be read.
    pub problems: Vec<String>,
}

impl LatencyReport {
    /// Events per second of the period; none when it has no length, or when they are grouped by second.
    pub fn per_second(&self, count: u128) -> Option<f64> {
        if self.by.contains(&Dimension::Second) {
            return None;
        }
        let elapsed_ns = self.period.elapsed_ns();
        (elapsed_ns > 0).then(|| count as f64 * 1e9 / elapsed_ns as f64)
    }
}

/// Latencies of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct KindLatencies {
    /// See [`kind`].
    pub kind: String,
    /// All events of this kind.
    pub total: Histogram,
    /// The groups with the most time, largest first, or in order of time when grouped by second.
    pub groups: Vec<LatencyGroup>,
    /// How many groups are left out.
    pub others: usize,
    /// Their events.
    pub others_total: Histogram,
}

/// Latencies of one group.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyGroup {
    /// One text for each dimension of [`LatencyReport::by`].
    pub labels: Vec<String>,
    /// Its events.
    pub histogram: Histogram,
}

/// Groups the latencies of a recording.
///
/// # Errors
/// The filter or the options name something that is not in the recording.
pub fn latency(source: &Source, options: &LatencyOptions) -> Result<LatencyReport, ReportError> {
    let mut dimensions = load(source, &options.filter)?;
    let mut recorded = Recorded::default();
    let mut groups: HashMap<String, HashMap<LatencyKey, Histogram>> = HashMap::new();
    let scan = scan(
        source,
        &mut dimensions,
        &options.filter,
        |row, session, is_selected| {
            recorded.see(row, options);
            if is_selected && options.takes(&row.kind, &row.name) {
                groups
                    .entry(row.kind.to_string())
                    .or_default()
                    .entry(LatencyKey::of(&options.by, row, session))
                    .or_default()
                    .add(row.from_ns, row.to_ns, row.count, row.sum_ns, row.max_ns);
            }
        },
    );
    options.check(&recorded)?;
    scan.check_statements(&options.filter)?;
    let mut kinds: Vec<KindLatencies> = groups
        .into_iter()
        .map(|(kind, groups)| {
            let mut groups: Vec<(LatencyKey, Histogram)> = groups.into_iter().collect();
            groups.sort_unstable_by(|(key, histogram), (other_key, other)| {
                Reverse(histogram.sum_ns())
                    .cmp(&Reverse(other.sum_ns()))
                    .then_with(|| key.cmp(other_key))
            });
            let sum = |groups: &[(LatencyKey, Histogram)]| {
                let mut total = Histogram::default();
                groups.iter().for_each(|(_, histogram)| total.merge(histogram));
                total
            };
            let total = sum(&groups);
            let others = groups.split_off(options.top.min(groups.len()));
            groups.sort_by_key(|(key, _)| key.second());
            KindLatencies {
                kind,
                total,
                groups: groups
                    .into_iter()
                    .map(|(key, histogram)| LatencyGroup {
                        labels: key.labels(&mut dimensions),
                        histogram,
                    })
                    .collect(),
                others: others.len(),
                others_total: sum(&others),
            }
        })
        .collect();
    kinds.sort_by(|a, b| (rank(&a.kind), &a.kind).cmp(&(rank(&b.kind), &b.kind)));
    let mut problems = dimensions.problems;
    problems.extend(scan.problems);
    Ok(LatencyReport {
        meta: source.meta().clone(),
        filter: options.filter.clone(),
        period: scan.period,
        by: options.by.clone(),
        kinds,
        recorded_kinds: in_order(&recorded.kinds),
        problems: problems.into_iter().map(|problem| problem.0).collect(),
    })
}

impl Recorded {
    pub(crate) fn see(&mut self, row: &LatencyRow, options: &LatencyOptions) {
        if !self.kinds.contains(&*row.kind) {
            self.kinds.insert(row.kind.to_string());
        }
        self.has_wanted |= options.takes(&row.kind, &row.name);
        if !options.names.is_empty() && options.takes_kind(&row.kind) && !self.names.contains(&*row.name) {
            self.names.insert(row.name.to_string());
            if self.names.len() > NAMES_TOLD {
                self.names.pop_last();
                self.more_names = true;
            }
        }
    }
}
