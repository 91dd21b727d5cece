//! Accounts for a session's time in the sampled tier: the kernel's three totals, each split by the samples in it.
//!
//! A total without a sample waits for one for a while (a session that uses a millisecond of CPU in a second is rarely hit
//! in that very second) and is then reported as not sampled.
//!
//! A session that lives less than a second may end with a sample or two. If these got all of its time, long sessions would
//! count too much: they are hit more often, and each time with more time. Whether a total is too short to be split by its
//! own samples is therefore decided by its length alone, never by whether a sample fell into it; short ones are passed on
//! unsplit, with their samples ([`super::Pool`]).

use std::collections::BTreeMap;

use dbtime_model::StateGroup;

use super::{Advance, Cell, Growth, Pending, RawWait, Totals, Unsplit, not_sampled};
use crate::seconds::middle;

/// A session that ends at this age may be too short for samples of its own.
pub(super) const SHORT_NS: u64 = 1_000_000_000;
/// A total is split by its own samples if at least this many are expected: the chance that it gets none is 1 in 20,000.
const ENOUGH_SAMPLES: u64 = 10;

const GROUPS: [StateGroup; 3] = [StateGroup::OnCpu, StateGroup::RunQueue, StateGroup::Blocked];

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct SampledAccount {
    last: Totals,
    /// Time that the kernel booked beyond the time that passed, to be deducted later: it updates its counters only at ticks
    /// and context switches, so that an interval may get what belongs to the one before.
    ahead_on_cpu: u64,
    ahead_run_queue: u64,
    samples: [BTreeMap<Cell, u64>; 3],
    pending: [Pending; 3],
    young: Option<Young>,
}

/// A session that may still turn out to be short.
#[derive(Debug, Clone)]
struct Young {
    begin_ns: u64,
    /// From one sample to the next.
    period_ns: u64,
    parts: Vec<Part>,
}

/// What was added between two totals.
#[derive(Debug, Clone)]
struct Part {
    at: u64,
    elapsed: u64,
    ns: [u64; 3],
    samples: [BTreeMap<Cell, u64>; 3],
}

impl SampledAccount {
    /// Opens the account at a moment; what the kernel counted before does not matter.
    pub(crate) fn open(totals: Totals) -> SampledAccount {
        SampledAccount {
            last: totals,
            ahead_on_cpu: 0,
            ahead_run_queue: 0,
            samples: Default::default(),
            pending: Default::default(),
            young: None,
        }
    }

    /// Opens the account of a session that begins at this moment. `period_ns`: from one sample to the next.
    pub(crate) fn begin(totals: Totals, period_ns: u64) -> SampledAccount {
        SampledAccount {
            young: Some(Young {
                begin_ns: totals.now,
                period_ns,
                parts: Vec::new(),
            }),
            ..SampledAccount::open(totals)
        }
    }

    /// Totals up to which time is accounted for.
    pub(crate) fn last(&self) -> Totals {
        self.last
    }

    /// Adds samples that found the session in this cell. A dead task has no state and uses no time.
    pub(crate) fn sample(&mut self, cell: Cell, count: u64) {
        if count > 0
            && let Some(group) = cell.state.group()
        {
            *self.samples[group as usize].entry(cell).or_default() += count;
        }
    }

    /// Accounts for the time since the last totals. `ended` closes the account: nothing stays pending.
    pub(crate) fn advance(&mut self, totals: Totals, ended: bool) -> Advance {
        // Counters never go back; if the source is wrong, nothing is added, instead of wrapping around.
        let growth = Growth {
            elapsed: totals.now.saturating_sub(self.last.now),
            on_cpu: totals.on_cpu.saturating_sub(self.last.on_cpu),
            run_queue: totals.run_queue.saturating_sub(self.last.run_queue),
        };
        let at = middle(self.last.now, totals.now);
        self.last = totals;

        let on_cpu = (growth.on_cpu + self.ahead_on_cpu).min(growth.elapsed);
        self.ahead_on_cpu = growth.on_cpu + self.ahead_on_cpu - on_cpu;
        let run_queue = (growth.run_queue + self.ahead_run_queue).min(growth.elapsed - on_cpu);
        self.ahead_run_queue = growth.run_queue + self.ahead_run_queue - run_queue;
        let part = Part {
            at,
            elapsed: growth.elapsed,
            ns: [on_cpu, run_queue, growth.elapsed - on_cpu - run_queue],
            samples: std::mem::take(&mut self.samples),
        };

        let mut advance = Advance {
            growth,
            ..Advance::default()
        };
        match self.young.take() {
            None => self.settle(GROUPS, vec![part], ended, &mut advance),
            Some(mut young) => {
                let is_short = totals.now.saturating_sub(young.begin_ns) < SHORT_NS;
                young.parts.push(part);
                match (is_short, ended) {
                    (true, false) => self.young = Some(young),
                    (true, true) => self.settle_short(young, &mut advance),
                    (false, _) => self.settle(GROUPS, young.parts, ended, &mut advance),
                }
            }
        }
        advance
    }

    /// Passes on the totals that are too short for samples of their own, and splits the others.
    fn settle_short(&mut self, young: Young, advance: &mut Advance) {
        for group in GROUPS {
            let ns: u64 = young.parts.iter().map(|part| part.ns[group as usize]).sum();
            if ns / ENOUGH_SAMPLES >= young.period_ns {
                self.settle([group], young.parts.clone(), true, advance);
                continue;
            }
            for part in &young.parts {
                let (ns, samples) = (part.ns[group as usize], &part.samples[group as usize]);
                if ns > 0 || !samples.is_empty() {
                    advance.unsplit.push(Unsplit {
                        at: part.at,
                        group,
                        ns,
                        samples: samples.clone(),
                    });
                }
            }
        }
    }

    /// Splits totals by their own samples. At the end, totals without a sample are passed on unsplit.
    fn settle(
        &mut self,
        groups: impl IntoIterator<Item = StateGroup>,
        mut parts: Vec<Part>,
        ended: bool,
        advance: &mut Advance,
    ) {
        for group in groups {
            let pending = &mut self.pending[group as usize];
            let count = parts.len();
            for (n, part) in parts.iter_mut().enumerate() {
                let last = ended && n + 1 == count;
                let mut shares = Vec::new();
                pending.add(&std::mem::take(&mut part.samples[group as usize]));
                pending.settle(
                    part.ns[group as usize],
                    part.elapsed,
                    last,
                    not_sampled(group),
                    &mut shares,
                );
                for share in shares {
                    if last && share.cell.wait == RawWait::NotSampled {
                        advance.unsplit.push(Unsplit {
                            at: part.at,
                            group,
                            ns: share.ns,
                            samples: BTreeMap::new(),
                        });
                    } else {
                        advance.shares.push((part.at, share));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use dbtime_model::{Fidelity, NO_STACK, State};

    use super::super::Share;
    use super::*;
    use crate::held_locks::HeldId;

    fn cell(wait: u32, state: State) -> Cell {
        Cell {
            wait: RawWait::Info(wait),
            executing: crate::database::Executing::default(),
            state,
            kernel_stack: NO_STACK,
            user_stack: NO_STACK,
            held: HeldId::NONE,
            comment: dbtime_model::comment::NONE,
        }
    }

    fn at(now: u64, on_cpu: u64, run_queue: u64) -> Totals {
        Totals {
            now,
            on_cpu,
            run_queue,
        }
    }

    /// What an account reports at a moment, as shares; what it passes on unsplit is not sampled.
    fn advance(account: &mut SampledAccount, totals: Totals, ended: bool) -> (Growth, Vec<Share>) {
        let advance = account.advance(totals, ended);
        let unsplit = advance.unsplit.into_iter().map(|unsplit| Share {
            cell: not_sampled(unsplit.group),
            ns: unsplit.ns,
            count: 0,
            samples: unsplit.samples.values().sum(),
            fidelity: Fidelity::Exact,
        });
        let shares = advance.shares.into_iter().map(|(_, share)| share);
        (advance.growth, shares.chain(unsplit).collect())
    }

    #[test]
    fn each_total_is_split_by_its_own_samples() {
        let mut account = SampledAccount::open(at(1_000, 50, 7));
        account.sample(cell(1, State::User), 1);
        account.sample(cell(2, State::Kernel), 3);
        account.sample(cell(0, State::Runnable), 5);
        account.sample(cell(3, State::Disk), 1);
        account.sample(cell(4, State::Sleep), 1);
        let (growth, shares) = advance(&mut account, at(2_000, 450, 107), false);
        assert_eq!(
            growth,
            Growth {
                elapsed: 1_000,
                on_cpu: 400,
                run_queue: 100
            }
        );
        let ns = |c: Cell| shares.iter().find(|s| s.cell == c).unwrap().ns;
        assert_eq!(ns(cell(1, State::User)), 100);
        assert_eq!(ns(cell(2, State::Kernel)), 300);
        assert_eq!(ns(cell(0, State::Runnable)), 100);
        assert_eq!(ns(cell(3, State::Disk)), 250);
        assert_eq!(ns(cell(4, State::Sleep)), 250);
    }

    #[test]
    fn a_total_waits_for_its_first_sample_and_is_then_not_sampled() {
        const SECOND: u64 = 1_000_000_000;
        let mut account = SampledAccount::open(at(0, 0, 0));
        account.sample(cell(9, State::Sleep), 99);
        let (_, shares) = advance(&mut account, at(SECOND, 5, 0), false);
        assert_eq!(shares.iter().map(|s| s.ns).sum::<u64>(), SECOND - 5);
        // A sample in the next second gets the CPU time of both.
        account.sample(cell(1, State::User), 1);
        account.sample(cell(9, State::Sleep), 98);
        let (_, shares) = advance(&mut account, at(2 * SECOND, 10, 0), false);
        assert_eq!(
            shares.iter().find(|s| s.cell == cell(1, State::User)).unwrap().ns,
            10
        );
        // No sample for ten seconds: reported as not sampled.
        let mut unsampled = 0;
        for second in 3..=12 {
            account.sample(cell(9, State::Sleep), 99);
            let (_, shares) = advance(&mut account, at(second * SECOND, 10 + second, 0), false);
            unsampled += shares
                .iter()
                .filter(|s| s.cell.wait == RawWait::NotSampled)
                .map(|s| s.ns)
                .sum::<u64>();
        }
        assert_eq!(unsampled, 12);
    }

    #[test]
    fn books_that_are_late_by_a_tick_lose_nothing() {
        let mut account = SampledAccount::open(at(0, 0, 0));
        account.sample(cell(0, State::User), 1);
        let (_, first) = advance(&mut account, at(1_000, 1_004, 0), false);
        assert_eq!(first.iter().map(|s| s.ns).sum::<u64>(), 1_000);
        account.sample(cell(0, State::User), 1);
        let (_, second) = advance(&mut account, at(2_000, 1_996, 0), true);
        // 1996 of CPU in all, 4 of it booked too early; the 4 that remain were spent blocked and not sampled.
        let cpu = |shares: &[Share]| {
            shares
                .iter()
                .filter(|s| s.cell.state == State::User)
                .map(|s| s.ns)
                .sum::<u64>()
        };
        assert_eq!(cpu(&first) + cpu(&second), 1_996);
        assert_eq!(second.iter().map(|s| s.ns).sum::<u64>(), 1_000);
    }

    #[test]
    fn what_is_too_short_for_its_own_samples_is_handed_on_whether_it_has_some_or_not() {
        const PERIOD: u64 = 10_000_000;
        for hits in 0..3 {
            let mut account = SampledAccount::begin(at(0, 0, 0), PERIOD);
            account.sample(cell(0, State::User), hits);
            account.sample(cell(1, State::Sleep), 30);
            // A new second begins during its life: what came before belongs to the previous one.
            let first = account.advance(at(400_000_000, 30_000_000, 0), false);
            assert!(first.shares.is_empty() && first.unsplit.is_empty());
            account.sample(cell(1, State::Sleep), 19);
            let last = account.advance(at(600_000_000, 40_000_000, 0), true);
            let handed: Vec<_> = last
                .unsplit
                .iter()
                .map(|u| (u.at, u.group, u.ns, u.samples.len()))
                .collect();
            let found = usize::from(hits > 0);
            assert_eq!(
                handed,
                [
                    (200_000_000, StateGroup::OnCpu, 30_000_000, found),
                    (500_000_000, StateGroup::OnCpu, 10_000_000, 0)
                ]
            );
            // It slept long enough for its own samples to say in what.
            let shares: Vec<_> = last
                .shares
                .iter()
                .map(|(at, share)| (*at, share.cell, share.ns))
                .collect();
            assert_eq!(
                shares,
                [
                    (200_000_000, cell(1, State::Sleep), 370_000_000),
                    (500_000_000, cell(1, State::Sleep), 190_000_000)
                ]
            );
        }
    }

    #[test]
    fn who_lives_on_is_split_by_its_own_samples_second_by_second() {
        let mut account = SampledAccount::begin(at(0, 0, 0), 10_000_000);
        account.sample(cell(1, State::User), 1);
        assert!(
            account
                .advance(at(900_000_000, 900_000_000, 0), false)
                .shares
                .is_empty()
        );
        account.sample(cell(2, State::User), 1);
        let grown_up = account.advance(at(1_900_000_000, 1_900_000_000, 0), false);
        let shares: Vec<_> = grown_up
            .shares
            .iter()
            .map(|(at, share)| (*at, share.cell, share.ns))
            .collect();
        assert_eq!(
            shares,
            [
                (450_000_000, cell(1, State::User), 900_000_000),
                (1_400_000_000, cell(2, State::User), 1_000_000_000)
            ]
        );
        assert!(grown_up.unsplit.is_empty());
    }

    fn any_cell() -> impl Strategy<Value = Cell> {
        (0u32..4, prop::sample::select(State::ALL.to_vec())).prop_map(|(wait, state)| cell(wait, state))
    }

    proptest! {
        #[test]
        fn time_and_samples_are_conserved(
            steps in prop::collection::vec(
                (0u64..3_000_000_000, 0u64..3_000_000_000, 0u64..3_000_000_000,
                 prop::collection::vec((any_cell(), 0u64..200), 0..6)),
                1..30,
            ),
            is_new: bool,
        ) {
            let mut account = match is_new {
                true => SampledAccount::begin(at(77, 33, 11), 10_000_000),
                false => SampledAccount::open(at(77, 33, 11)),
            };
            let mut totals = at(77, 33, 11);
            let (mut ns, mut samples, mut put_in) = (0u64, 0u64, 0u64);
            let count = steps.len();
            for (n, (elapsed, on_cpu, run_queue, found)) in steps.into_iter().enumerate() {
                for (cell, count) in found {
                    account.sample(cell, count);
                    if cell.state.group().is_some() {
                        put_in += count;
                    }
                }
                totals = at(totals.now + elapsed, totals.on_cpu + on_cpu, totals.run_queue + run_queue);
                let (growth, shares) = advance(&mut account, totals, n + 1 == count);
                prop_assert_eq!(growth, Growth { elapsed, on_cpu, run_queue });
                ns += shares.iter().map(|s| s.ns).sum::<u64>();
                samples += shares.iter().map(|s| s.samples).sum::<u64>();
            }
            prop_assert_eq!(ns, totals.now - 77);
            prop_assert_eq!(samples, put_in);
        }
    }
}
