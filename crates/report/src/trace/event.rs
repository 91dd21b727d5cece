//! Wait events of a trace: how many, how long, of what size, and where their data may have come from.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use dbtime_model::LatencyRow;
use serde::Serialize;

use crate::histogram::Histogram;
use crate::io::Guessed;

/// Oracle's class of the events in which a session waits for work.
const IDLE_CLASS: &str = "Idle";

/// Reads of several blocks or bypassing the buffer cache: their latency depends on how much they read.
const MULTIBLOCK_READS: [&str; 6] = [
    "db file scattered read",
    "direct path read",
    "direct path read temp",
    "db file parallel read",
    "cell multiblock physical read",
    "cell list of blocks physical read",
];

/// Reads of one block.
const SINGLE_BLOCK_READS: [&str; 2] = ["db file sequential read", "cell single block physical read"];

/// Columns of parsetrc.pl: 0 µs; below 64 µs; below 128 µs and so on in powers of two; from 131,072 µs on.
pub const PARSETRC_LABELS: [&str; 14] = [
    "0u", "64u", ".1m", ".2m", ".5m", "1m", "2m", "4m", "8m", "16m", "33m", "65m", ".1s", ".1s+",
];

/// Whether an event is broken down by size.
fn is_multiblock_read(event: &str) -> bool {
    MULTIBLOCK_READS.contains(&event)
}

/// The name of an event without its class.
pub(crate) fn bare_name(name: &str) -> &str {
    name.split_once(':').map_or(name, |(_, event)| event)
}

/// Events by column of [`PARSETRC_LABELS`].
pub fn parsetrc_counts(latency: &Histogram) -> [u128; PARSETRC_LABELS.len()] {
    let mut counts = [0; PARSETRC_LABELS.len()];
    for bucket in latency.power_of_two_us() {
        let column = match bucket.from_us {
            0 => 0,
            // 32 to 63 µs and everything below; each power of two above has its own column.
            us => (us.ilog2().saturating_sub(4).max(1) as usize).min(PARSETRC_LABELS.len() - 1),
        };
        counts[column] += bucket.count;
    }
    counts
}

/// A wait event.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TracedEvent {
    /// Its name.
    pub name: String,
    /// Its class as named by Oracle; empty when it has none.
    pub class: String,
    /// Whether the session waited for work.
    pub idle: bool,
    /// Latencies of all its waits.
    #[serde(flatten, serialize_with = "crate::json::whole_microseconds")]
    pub latency: Histogram,
}

impl TracedEvent {
    /// Sum in microseconds.
    pub fn total_us(&self) -> i128 {
        total_us(&self.latency)
    }
}

fn total_us(latency: &Histogram) -> i128 {
    i128::try_from(latency.sum_ns() / 1_000).unwrap_or(i128::MAX)
}

/// Reads of an event by size.
#[derive(Debug, Clone, PartialEq)]
pub struct IoSizes {
    /// Name of the event.
    pub event: String,
    /// Smallest first.
    pub sizes: Vec<IoSize>,
}

/// Reads of one size.
#[derive(Debug, Clone, PartialEq)]
pub struct IoSize {
    /// Blocks; 0 = the trace does not say.
    pub blocks: u64,
    /// Latencies of all of them.
    pub latency: Histogram,
}

impl IoSizes {
    /// The `n` sizes with the most time, smallest first; how many others there are, and their sum.
    pub fn top(&self, n: usize) -> (Vec<&IoSize>, usize, Histogram) {
        let mut by_time: Vec<&IoSize> = self.sizes.iter().collect();
        by_time.sort_by_key(|size| Reverse(size.latency.sum_ns()));
        let rest = by_time.split_off(n.min(by_time.len()));
        by_time.sort_by_key(|size| size.blocks);
        let mut others = Histogram::default();
        rest.iter().for_each(|size| others.merge(&size.latency));
        (by_time, rest.len(), others)
    }
}

/// Where the reads of an event seem to come from, judged by latency.
#[derive(Debug, Clone, PartialEq)]
pub struct EventGuess {
    /// Name of the event.
    pub event: String,
    /// For each of [`Guessed::ALL`]: number of events, and their sum in nanoseconds.
    pub guessed: [(Guessed, u128, u128); Guessed::ALL.len()],
}

/// Guesses for all events that are reads. A recorded bucket counts as a whole at its middle.
pub(super) fn guesses(events: &[TracedEvent], thresholds_us: [u64; 2]) -> Vec<EventGuess> {
    let is_read = |event: &&TracedEvent| {
        is_multiblock_read(&event.name) || SINGLE_BLOCK_READS.contains(&event.name.as_str())
    };
    let guess = |event: &TracedEvent| {
        let mut guessed = Guessed::ALL.map(|guess| (guess, 0, 0));
        for (middle_ns, count, sum_ns) in event.latency.recorded() {
            let (_, counted, sum) = &mut guessed[Guessed::of(middle_ns, thresholds_us) as usize];
            *counted += count;
            *sum += sum_ns;
        }
        EventGuess {
            event: event.name.clone(),
            guessed,
        }
    };
    events.iter().filter(is_read).map(guess).collect()
}

/// Adds up waits to events.
#[derive(Default)]
pub(super) struct EventsBuilder {
    events: HashMap<String, Histogram>,
    sizes: HashMap<String, BTreeMap<u64, Histogram>>,
}

impl EventsBuilder {
    pub(super) fn add(&mut self, row: &LatencyRow) {
        let add = |to: &mut Histogram| to.add(row.from_ns, row.to_ns, row.count, row.sum_ns, row.max_ns);
        match self.events.get_mut(&*row.name) {
            Some(histogram) => add(histogram),
            None => add(self.events.entry(row.name.to_string()).or_default()),
        }
        let name = bare_name(&row.name);
        if is_multiblock_read(name) {
            let sizes = match self.sizes.get_mut(name) {
                Some(sizes) => sizes,
                None => self.sizes.entry(name.to_string()).or_default(),
            };
            add(sizes.entry(row.blocks).or_default());
        }
    }

    pub(super) fn finish(mut self) -> (Vec<TracedEvent>, Vec<IoSizes>) {
        let mut events: Vec<TracedEvent> = self
            .events
            .into_iter()
            .filter(|(_, latency)| latency.count() > 0)
            .map(|(name, latency)| {
                let (class, event) = name.split_once(':').unwrap_or(("", &name));
                TracedEvent {
                    class: class.to_string(),
                    name: event.to_string(),
                    idle: class == IDLE_CLASS,
                    latency,
                }
            })
            .collect();
        events.sort_by(|a, b| {
            let order =
                |event: &TracedEvent| (Reverse(event.latency.sum_ns()), Reverse(event.latency.count()));
            order(a)
                .cmp(&order(b))
                .then_with(|| (&a.name, &a.class).cmp(&(&b.name, &b.class)))
        });
        let sizes = events
            .iter()
            .filter_map(|event| self.sizes.remove_entry(&event.name))
            .map(|(event, sizes)| IoSizes {
                event,
                sizes: sizes
                    .into_iter()
                    .filter(|(_, latency)| latency.count() > 0)
                    .map(|(blocks, latency)| IoSize { blocks, latency })
                    .collect(),
            })
            .collect();
        (events, sizes)
    }
}
