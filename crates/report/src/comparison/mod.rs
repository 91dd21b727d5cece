//! Latencies of several recordings side by side: two systems, or before and after, and which part of the distribution
//! makes the difference.

mod difference;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use dbtime_model::counter;
use dbtime_model::latency::kind;
use dbtime_model::recording::Meta;

use crate::filter::Filter;
use crate::histogram::Histogram;
use crate::latency::{LatencyOptions, Recorded, in_order, scan};
use crate::load::Source;
use crate::report::{ReportError, load};
use crate::scan::Period;
use crate::trace::{CallView, bare_name, has_trace};
pub use difference::{BucketDifference, Difference, Tail};

/// One of the recordings that are compared.
#[derive(Debug)]
pub struct ToCompare {
    /// Its name.
    pub label: String,
    /// Its rows.
    pub source: Source,
    /// Which of them count.
    pub filter: Filter,
}

/// What is compared.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparisonOptions {
    /// Kinds of latencies; empty = waits if there are any, else all.
    pub kinds: Vec<String>,
    /// Names of events, as `Class:Event` or either of the two; empty = all.
    pub names: Vec<String>,
    /// How many events to compare individually.
    pub top: usize,
}

impl Default for ComparisonOptions {
    fn default() -> ComparisonOptions {
        ComparisonOptions {
            kinds: Vec::new(),
            names: Vec::new(),
            top: 10,
        }
    }
}

/// Latencies of several recordings.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The recordings, in the order in which they were named.
    pub sources: Vec<ComparedSource>,
    /// Events with the most time in any of them, the most first.
    pub events: Vec<ComparedEvent>,
    /// Events that are not among them.
    pub others: usize,
    /// Kinds that any of the recordings has, whatever was asked for.
    pub recorded_kinds: Vec<String>,
}

/// A recording that is compared.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedSource {
    /// Its name.
    pub label: String,
    /// What it says about itself.
    pub meta: Meta,
    /// Which rows count.
    pub filter: Filter,
    /// The time it covers.
    pub period: Period,
    /// Its time by the rule of parsetrc.pl; none when it was not made from SQL traces.
    pub calls: Option<CallView>,
    /// What could not be read.
    pub problems: Vec<String>,
}

/// An event in all recordings.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedEvent {
    /// See [`kind`].
    pub kind: String,
    /// Its name; without its class when all recordings were made from SQL traces.
    pub name: String,
    /// Its latencies in each of [`Comparison::sources`].
    pub latencies: Vec<Histogram>,
    /// The same by size, the smallest first; empty when it has no sizes.
    pub sizes: Vec<ComparedSize>,
    /// The first recording against each of the others.
    pub differences: Vec<Difference>,
}

/// Events of one size in all recordings.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedSize {
    /// Blocks of the database; 0 = not known.
    pub blocks: u64,
    /// Bytes; 0 = not known.
    pub bytes: u64,
    /// Their latencies in each of [`Comparison::sources`].
    pub latencies: Vec<Histogram>,
}

impl ComparedEvent {
    /// The `n` sizes with the most time in any of the recordings, the smallest first, and how many others there are.
    pub fn top_sizes(&self, n: usize) -> (Vec<&ComparedSize>, usize) {
        let mut by_time: Vec<&ComparedSize> = self.sizes.iter().collect();
        by_time.sort_by_key(|size| Reverse(most_time(&size.latencies)));
        let others = by_time.split_off(n.min(by_time.len())).len();
        by_time.sort_by_key(|size| (size.blocks, size.bytes));
        (by_time, others)
    }
}

fn most_time(latencies: &[Histogram]) -> u128 {
    latencies.iter().map(Histogram::sum_ns).max().unwrap_or(0)
}

/// Latencies of an event, and by blocks and bytes.
struct Event {
    latencies: Vec<Histogram>,
    sizes: BTreeMap<(u64, u64), Vec<Histogram>>,
}

/// Puts latencies side by side.
///
/// # Errors
/// A filter or the options name something that is not there.
pub fn compare(recordings: &[ToCompare], options: &ComparisonOptions) -> Result<Comparison, ReportError> {
    let wanted = LatencyOptions {
        kinds: options.kinds.clone(),
        names: options.names.clone(),
        ..LatencyOptions::default()
    };
    let none = || vec![Histogram::default(); recordings.len()];
    let mut recorded = Recorded::default();
    let mut events: HashMap<String, HashMap<String, Event>> = HashMap::new();
    let mut sources = Vec::with_capacity(recordings.len());
    for (index, recording) in recordings.iter().enumerate() {
        let ToCompare {
            label,
            source,
            filter,
        } = recording;
        let mut dimensions = load(source, filter)?;
        let scan = scan(source, &mut dimensions, filter, |row, _, is_selected| {
            recorded.see(row, &wanted);
            if !is_selected || row.count == 0 || !wanted.takes(&row.kind, &row.name) {
                return;
            }
            let event = events
                .entry(row.kind.to_string())
                .or_default()
                .entry(row.name.to_string())
                .or_insert_with(|| Event {
                    latencies: none(),
                    sizes: BTreeMap::new(),
                });
            let add = |to: &mut Histogram| to.add(row.from_ns, row.to_ns, row.count, row.sum_ns, row.max_ns);
            add(&mut event.latencies[index]);
            if (row.blocks, row.bytes) != (0, 0) {
                let size = event.sizes.entry((row.blocks, row.bytes)).or_insert_with(none);
                add(&mut size[index]);
            }
        });
        let mut problems = std::mem::take(&mut dimensions.problems);
        problems.extend(scan.problems);
        let mut calls = CallView::default();
        if has_trace(source.meta()) {
            problems.extend(source.counters(|row| {
                if row.source == counter::ORACLE
                    && filter.takes_time(row.time)
                    && filter.takes_session(dimensions.session(row.session))
                {
                    calls.add(row);
                }
            }));
        }
        sources.push(ComparedSource {
            label: label.clone(),
            meta: source.meta().clone(),
            filter: filter.clone(),
            period: scan.period,
            calls: has_trace(source.meta()).then_some(calls),
            problems: problems.into_iter().map(|problem| problem.0).collect(),
        });
    }
    wanted.check(&recorded)?;
    if options.kinds.is_empty() && events.contains_key(kind::WAIT) {
        events.retain(|kind, _| kind == kind::WAIT);
    }
    let are_traces = sources.iter().all(|source| source.calls.is_some());
    let labels: Vec<&str> = sources.iter().map(|source| source.label.as_str()).collect();
    let mut events: Vec<ComparedEvent> = events
        .into_iter()
        .flat_map(|(kind, events)| {
            events
                .into_iter()
                .map(move |(name, event)| (kind.clone(), name, event))
        })
        .map(|(kind, name, event)| compared(kind, &name, event, are_traces))
        .collect();
    events.sort_by(|a, b| {
        most_time(&b.latencies)
            .cmp(&most_time(&a.latencies))
            .then_with(|| (&a.kind, &a.name).cmp(&(&b.kind, &b.name)))
    });
    let others = events.split_off(options.top.min(events.len())).len();
    for event in &mut events {
        event.differences = (1..labels.len())
            .map(|with| Difference::of(event, [0, with], [labels[0], labels[with]]))
            .collect();
    }
    Ok(Comparison {
        recorded_kinds: in_order(&recorded.kinds),
        sources,
        events,
        others,
    })
}

fn compared(kind: String, name: &str, event: Event, are_traces: bool) -> ComparedEvent {
    let name = if are_traces { bare_name(name) } else { name };
    ComparedEvent {
        kind,
        name: name.to_string(),
        latencies: event.latencies,
        sizes: event
            .sizes
            .into_iter()
            .map(|((blocks, bytes), latencies)| ComparedSize {
                blocks,
                bytes,
                latencies,
            })
            .collect(),
        differences: Vec::new(),
    }
}

/// Bounds of the buckets in which any of these has events: powers of two in microseconds.
fn bucket_bounds(latencies: &[&Histogram]) -> BTreeSet<(u64, u64)> {
    latencies
        .iter()
        .flat_map(|latency| latency.power_of_two_us())
        .filter(|bucket| bucket.count > 0)
        .map(|bucket| (bucket.from_us, bucket.to_us))
        .collect()
}
