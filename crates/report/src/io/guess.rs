//! The classic guess: a fast read came from the page cache, a slow one from a disk. Here it is compared with the truth.

use std::collections::BTreeMap;

use dbtime_model::LatencyRow;

use super::reads::ReadSource;
use crate::histogram::middle;

/// Below 50 us is called page cache, below 1 ms cache of the storage.
pub const USUAL_THRESHOLDS_US: [u64; 2] = [50, 1_000];

/// What people conclude from a latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Guessed {
    /// Below the first threshold.
    PageCache,
    /// Between the two.
    StorageCache,
    /// From the second threshold on.
    Disk,
}

impl Guessed {
    /// Every guess, the fastest first.
    pub const ALL: [Guessed; 3] = [Guessed::PageCache, Guessed::StorageCache, Guessed::Disk];

    /// What people conclude from a latency in nanoseconds, given [`Guess::thresholds_us`].
    pub(crate) fn of(ns: u64, thresholds_us: [u64; 2]) -> Guessed {
        let [page_cache, storage_cache] = thresholds_us.map(|us| us.saturating_mul(1_000));
        match ns {
            _ if ns < page_cache => Guessed::PageCache,
            _ if ns < storage_cache => Guessed::StorageCache,
            _ => Guessed::Disk,
        }
    }

    /// The words used in reports and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Guessed::PageCache => "page cache",
            Guessed::StorageCache => "storage cache",
            Guessed::Disk => "disk",
        }
    }
}

/// Read calls by guess and truth, exact; near a threshold latencies are resolved to 1 %.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guess {
    /// Upper bounds of the first two guesses in microseconds, exclusive.
    pub thresholds_us: [u64; 2],
    /// Calls.
    pub counts: BTreeMap<(Guessed, ReadSource), u128>,
}

impl Guess {
    pub(super) fn new(thresholds_us: [u64; 2]) -> Guess {
        Guess {
            thresholds_us,
            counts: BTreeMap::new(),
        }
    }

    pub(super) fn add(&mut self, row: &LatencyRow) {
        let guessed = Guessed::of(middle((row.from_ns, row.to_ns)), self.thresholds_us);
        *self.counts.entry((guessed, ReadSource::of(row))).or_default() += u128::from(row.count);
    }

    /// Calls of this guess and truth.
    pub fn count(&self, guessed: Guessed, source: ReadSource) -> u128 {
        self.counts.get(&(guessed, source)).copied().unwrap_or(0)
    }

    /// Calls whose source is known.
    pub fn known(&self) -> u128 {
        let known = self
            .counts
            .iter()
            .filter(|((_, source), _)| source.waited_for_device().is_some());
        known.map(|(_, count)| count).sum()
    }

    /// Calls for which the guess was wrong: guessed page cache, but the call waited for a device; or guessed storage
    /// cache or disk, but it did not.
    pub fn wrong(&self) -> u128 {
        let is_wrong = |guessed: Guessed, source: ReadSource| {
            source
                .waited_for_device()
                .is_some_and(|waited| waited == (guessed == Guessed::PageCache))
        };
        let wrong = self
            .counts
            .iter()
            .filter(|((guessed, source), _)| is_wrong(*guessed, *source));
        wrong.map(|(_, count)| count).sum()
    }
}
