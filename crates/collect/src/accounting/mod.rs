//! Splits a session's exact times by its samples, so that every second's rows sum to the time that passed. Nothing is
//! ever dropped or invented.
//!
//! In the sampled tier the kernel gives the exact time on a CPU and in the run queue, and the rest was blocked; samples
//! say in which wait event, mode and stack. In the exact tier the BPF programs give the wait events and states too;
//! samples add the stacks.

use std::collections::BTreeMap;

use dbtime_model::{Fidelity, NO_STACK, StackId, State, StateGroup, comment};

use crate::bpf::{ExactSums, Tier};
use crate::database::Executing;
use crate::held_locks::HeldId;
use crate::seconds::middle;

mod exact;
mod pool;
mod sampled;

use exact::ExactAccount;
pub(crate) use pool::{Kind, Pool, Spent};
use sampled::SampledAccount;

/// How long a total may wait for its first sample.
const PATIENCE_NS: u64 = 10_000_000_000;

/// The wait event of a sample as it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum RawWait {
    /// The database's number; 0 = none.
    Info(u32),
    /// It could not be read.
    NotRead,
    /// No sample fell into this time.
    NotSampled,
}

/// What all samples of a row have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Cell {
    pub(crate) wait: RawWait,
    pub(crate) executing: Executing,
    pub(crate) state: State,
    pub(crate) kernel_stack: StackId,
    pub(crate) user_stack: StackId,
    /// The internal locks that the session holds.
    pub(crate) held: HeldId,
    /// See [`dbtime_model::ActivityRow::comment`].
    pub(crate) comment: u64,
}

/// A part of the session's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) cell: Cell,
    pub(crate) ns: u64,
    /// How often the interval occurred, where that was seen.
    pub(crate) count: u64,
    pub(crate) samples: u64,
    pub(crate) fidelity: Fidelity,
}

/// The kernel's totals of a session at one moment, nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) now: u64,
    pub(crate) on_cpu: u64,
    pub(crate) run_queue: u64,
}

/// Growth of the totals in one interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Growth {
    pub(crate) elapsed: u64,
    pub(crate) on_cpu: u64,
    pub(crate) run_queue: u64,
}

/// What an account reports of the time since the last totals, and of earlier time that it had held back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Advance {
    pub(crate) growth: Growth,
    /// Each with a point in time within its interval, CLOCK_MONOTONIC.
    pub(crate) shares: Vec<(u64, Share)>,
    /// Time that the session's own samples cannot split: there was too little of it.
    pub(crate) unsplit: Vec<Unsplit>,
}

/// A part of a total, to be split by the samples of many sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unsplit {
    /// A point in time within its interval, CLOCK_MONOTONIC.
    pub(crate) at: u64,
    pub(crate) group: StateGroup,
    pub(crate) ns: u64,
    /// The session's own.
    pub(crate) samples: BTreeMap<Cell, u64>,
}

/// The account of a session.
#[derive(Debug)]
pub(crate) enum Account {
    Sampled(SampledAccount),
    Exact(ExactAccount),
}

impl Account {
    /// Opens an account at a moment; what the kernel counted before does not matter. None when the tier needs sums and
    /// there are none yet.
    pub(crate) fn open(tier: Tier, totals: Totals, sums: Option<&ExactSums>) -> Option<Account> {
        match tier {
            Tier::Sampled => Some(Account::Sampled(SampledAccount::open(totals))),
            Tier::Switch | Tier::Calls => sums.map(|sums| Account::Exact(ExactAccount::open(totals, sums))),
        }
    }

    /// Opens the account of a process that has just been forked. `period_ns`: from one sample to the next.
    pub(crate) fn begin(tier: Tier, start_ns: u64, period_ns: u64) -> Option<Account> {
        let totals = Totals {
            now: start_ns,
            ..Totals::default()
        };
        match tier {
            Tier::Sampled => Some(Account::Sampled(SampledAccount::begin(totals, period_ns))),
            Tier::Switch | Tier::Calls => Account::open(tier, totals, Some(&ExactSums::default())),
        }
    }

    /// Totals up to which time is accounted for.
    pub(crate) fn last(&self) -> Totals {
        match self {
            Account::Sampled(account) => account.last(),
            Account::Exact(account) => account.last(),
        }
    }

    /// Adds samples that found the session in this cell. A dead task has no state and uses no time.
    pub(crate) fn sample(&mut self, cell: Cell, in_call: bool, count: u64) {
        match self {
            Account::Sampled(account) => account.sample(cell, count),
            Account::Exact(account) => account.sample(cell, in_call, count),
        }
    }

    /// Accounts for the time since the last totals. None if the sums could not be read this time: the next ones will
    /// cover it. `ended` closes the account: nothing stays pending.
    pub(crate) fn advance(
        &mut self,
        totals: Totals,
        sums: Option<&ExactSums>,
        ended: bool,
    ) -> Option<Advance> {
        let at = middle(self.last().now, totals.now);
        let (growth, shares) = match (self, sums) {
            (Account::Sampled(account), _) => return Some(account.advance(totals, ended)),
            (Account::Exact(account), Some(sums)) if !account.is_news(totals, sums) => return None,
            (Account::Exact(account), Some(sums)) => account.advance(totals, sums, ended),
            (Account::Exact(account), None) if ended => (Growth::default(), account.abandon()),
            (Account::Exact(_), None) => return None,
        };
        Some(Advance {
            growth,
            shares: shares.into_iter().map(|share| (at, share)).collect(),
            unsplit: Vec::new(),
        })
    }
}

/// Time that is not yet split, and the samples to split it by.
#[derive(Debug, Clone, Default)]
struct Pending {
    ns: u64,
    samples: BTreeMap<Cell, u64>,
    waited: u64,
}

impl Pending {
    fn add(&mut self, samples: &BTreeMap<Cell, u64>) {
        for (&cell, &count) in samples {
            *self.samples.entry(cell).or_default() += count;
        }
    }

    /// Splits the time, lets it wait for a sample, or books it as `unsampled`.
    fn settle(&mut self, ns: u64, elapsed: u64, last: bool, unsampled: Cell, shares: &mut Vec<Share>) {
        self.ns += ns;
        if self.ns > 0 && !self.samples.is_empty() {
            split(self.ns, &self.samples, shares);
        } else {
            self.waited += elapsed;
            if self.waited < PATIENCE_NS && !last {
                return;
            }
            if self.ns > 0 {
                shares.push(Share {
                    cell: unsampled,
                    ns: self.ns,
                    count: 0,
                    samples: 0,
                    fidelity: Fidelity::Exact,
                });
            }
            // Samples of a state for which the kernel counted no time are kept, with none.
            split(0, &self.samples, shares);
        }
        *self = Pending::default();
    }
}

/// Divides `ns` in proportion to the samples; the parts sum to `ns`.
fn split(ns: u64, samples: &BTreeMap<Cell, u64>, shares: &mut Vec<Share>) {
    let all: u128 = samples.values().map(|&n| u128::from(n)).sum();
    let mut given = 0u64;
    let mut counted = 0u128;
    for (&cell, &count) in samples {
        counted += u128::from(count);
        let until = (u128::from(ns) * counted / all) as u64;
        shares.push(Share {
            cell,
            ns: until - given,
            count: 0,
            samples: count,
            fidelity: Fidelity::Sampled,
        });
        given = until;
    }
}

fn not_sampled(group: StateGroup) -> Cell {
    let state = match group {
        StateGroup::OnCpu => State::Cpu,
        StateGroup::RunQueue => State::Runnable,
        // On disk or asleep: no sample says which.
        StateGroup::Blocked => State::Unknown,
    };
    Cell {
        wait: RawWait::NotSampled,
        executing: Executing::default(),
        state,
        kernel_stack: NO_STACK,
        user_stack: NO_STACK,
        held: HeldId::NONE,
        comment: comment::UNKNOWN,
    }
}
