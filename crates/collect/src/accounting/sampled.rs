//! The account of a session in the sampled tier: the kernel's three totals, each split by the samples that fell into it.
//!
//! A total without a sample waits for one for a while (a session that uses a millisecond of CPU in a second is rarely hit
//! in that very second) and is then reported as not sampled.

use dbtime_model::StateGroup;

use super::{Cell, Growth, Pending, Share, Totals, not_sampled};

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct SampledAccount {
    last: Totals,
    /// What the kernel booked beyond the time that passed, to be taken off later: its books are brought up to date at
    /// ticks and switches only, so that one interval may get what belongs to the one before.
    ahead_on_cpu: u64,
    ahead_run_queue: u64,
    pending: [Pending; 3],
}

impl SampledAccount {
    /// Opens the account at a moment; what the kernel counted before does not matter.
    pub(crate) fn open(totals: Totals) -> SampledAccount {
        SampledAccount {
            last: totals,
            ahead_on_cpu: 0,
            ahead_run_queue: 0,
            pending: Default::default(),
        }
    }

    /// Totals up to which time is accounted for.
    pub(crate) fn last(&self) -> Totals {
        self.last
    }

    /// Adds samples that found the session in this cell. A dead task is in no state and takes no time.
    pub(crate) fn sample(&mut self, cell: Cell, count: u64) {
        if count > 0
            && let Some(group) = cell.state.group()
        {
            *self.pending[group as usize].samples.entry(cell).or_default() += count;
        }
    }

    /// Accounts for the time since the last totals. `last` ends the account: nothing stays pending.
    pub(crate) fn advance(&mut self, totals: Totals, last: bool) -> (Growth, Vec<Share>) {
        // Counters never go back; should the source err, nothing is added rather than wrapped.
        let growth = Growth {
            elapsed: totals.now.saturating_sub(self.last.now),
            on_cpu: totals.on_cpu.saturating_sub(self.last.on_cpu),
            run_queue: totals.run_queue.saturating_sub(self.last.run_queue),
        };
        self.last = totals;

        let on_cpu = (growth.on_cpu + self.ahead_on_cpu).min(growth.elapsed);
        self.ahead_on_cpu = growth.on_cpu + self.ahead_on_cpu - on_cpu;
        let run_queue = (growth.run_queue + self.ahead_run_queue).min(growth.elapsed - on_cpu);
        self.ahead_run_queue = growth.run_queue + self.ahead_run_queue - run_queue;
        let blocked = growth.elapsed - on_cpu - run_queue;

        let mut shares = Vec::new();
        for (group, ns) in [
            (StateGroup::OnCpu, on_cpu),
            (StateGroup::RunQueue, run_queue),
            (StateGroup::Blocked, blocked),
        ] {
            self.pending[group as usize].settle(ns, growth.elapsed, last, not_sampled(group), &mut shares);
        }
        (growth, shares)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use dbtime_model::{NO_STACK, State};

    use super::super::RawWait;
    use super::*;

    fn cell(wait: u32, state: State) -> Cell {
        Cell {
            wait: RawWait::Info(wait),
            statement: 0,
            state,
            kernel_stack: NO_STACK,
            user_stack: NO_STACK,
        }
    }

    fn at(now: u64, on_cpu: u64, run_queue: u64) -> Totals {
        Totals {
            now,
            on_cpu,
            run_queue,
        }
    }

    #[test]
    fn each_total_is_split_by_its_own_samples() {
        let mut account = SampledAccount::open(at(1_000, 50, 7));
        account.sample(cell(1, State::User), 1);
        account.sample(cell(2, State::Kernel), 3);
        account.sample(cell(0, State::Runnable), 5);
        account.sample(cell(3, State::Disk), 1);
        account.sample(cell(4, State::Sleep), 1);
        let (growth, shares) = account.advance(at(2_000, 450, 107), false);
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
        let (_, shares) = account.advance(at(SECOND, 5, 0), false);
        assert_eq!(shares.iter().map(|s| s.ns).sum::<u64>(), SECOND - 5);
        // A sample in the next second takes the CPU of both.
        account.sample(cell(1, State::User), 1);
        account.sample(cell(9, State::Sleep), 98);
        let (_, shares) = account.advance(at(2 * SECOND, 10, 0), false);
        assert_eq!(
            shares.iter().find(|s| s.cell == cell(1, State::User)).unwrap().ns,
            10
        );
        // None for ten seconds: shown as what it is.
        let mut unsampled = 0;
        for second in 3..=12 {
            account.sample(cell(9, State::Sleep), 99);
            let (_, shares) = account.advance(at(second * SECOND, 10 + second, 0), false);
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
        let (_, first) = account.advance(at(1_000, 1_004, 0), false);
        assert_eq!(first.iter().map(|s| s.ns).sum::<u64>(), 1_000);
        account.sample(cell(0, State::User), 1);
        let (_, second) = account.advance(at(2_000, 1_996, 0), true);
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
            )
        ) {
            let mut account = SampledAccount::open(at(77, 33, 11));
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
                let (growth, shares) = account.advance(totals, n + 1 == count);
                prop_assert_eq!(growth, Growth { elapsed, on_cpu, run_queue });
                ns += shares.iter().map(|s| s.ns).sum::<u64>();
                samples += shares.iter().map(|s| s.samples).sum::<u64>();
            }
            prop_assert_eq!(ns, totals.now - 77);
            prop_assert_eq!(samples, put_in);
        }
    }
}
