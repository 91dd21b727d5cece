//! Accounts for a session's time in the exact tier: the BPF programs measure the time in every wait event and state; samples
//! only add the stacks.
//!
//! Samples still have to split CPU time by mode: outside of system calls it is user code, except for page faults and
//! interrupts. What a session did too briefly to be sampled in a second is split as all of its time outside of calls in that second: were it
//! to wait for a sample, as totals of the sampled tier do, a busy server's CPU time would be in the wrong seconds, and seconds of it in the
//! recording's last one. Where system calls are not traced, all CPU time is split by samples, as in the sampled tier.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use dbtime_model::{Fidelity, NO_STACK, State, StateGroup, comment};

use super::{Cell, Growth, Pending, RawWait, Share, Totals, not_sampled, split};
use crate::bpf::{ExactState, ExactSums};
use crate::database::Executing;
use crate::held_locks::HeldId;

/// What a session did.
type Doing = (RawWait, Executing);

/// Cell of the exact matrix.
type Key = (Doing, ExactState);

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    ns: u64,
    count: u64,
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct ExactAccount {
    last: Totals,
    /// What has been reported so far.
    reported: BTreeMap<Key, Sum>,
    /// See [`ExactSums::epoch`].
    epoch: u32,
    cpu_reported: u64,
    /// Samples since the last sums.
    samples: BTreeMap<Key, BTreeMap<Cell, u64>>,
    /// CPU time for which the kernel gives no wait event.
    cpu: Pending,
}

impl ExactAccount {
    /// Opens the account at a moment. `sums`: what the kernel counted before, which is not reported.
    pub(crate) fn open(totals: Totals, sums: &ExactSums) -> ExactAccount {
        let mut account = ExactAccount {
            last: totals,
            reported: BTreeMap::new(),
            epoch: sums.epoch,
            cpu_reported: 0,
            samples: BTreeMap::new(),
            cpu: Pending::default(),
        };
        account.growth_of(sums);
        account
    }

    /// Totals up to which time is accounted for.
    pub(crate) fn last(&self) -> Totals {
        self.last
    }

    /// Adds samples that found the session in this cell. A dead task has no state and uses no time.
    pub(crate) fn sample(&mut self, cell: Cell, in_call: bool, count: u64) {
        let state = match (cell.state.group(), cell.state) {
            (None, _) => return,
            (Some(StateGroup::OnCpu), _) if in_call => ExactState::Call,
            (Some(StateGroup::OnCpu), _) => ExactState::Outside,
            (Some(StateGroup::RunQueue), _) => ExactState::Runnable,
            (_, State::Disk) => ExactState::Disk,
            (_, State::Stopped) => ExactState::Stopped,
            (Some(StateGroup::Blocked), _) => ExactState::Sleep,
        };
        if count > 0 {
            let cells = self
                .samples
                .entry(((cell.wait, cell.executing), state))
                .or_default();
            *cells.entry(cell).or_default() += count;
        }
    }

    /// Accounts for the time since the last sums. `last` ends the account: nothing stays pending.
    pub(crate) fn advance(&mut self, totals: Totals, sums: &ExactSums, last: bool) -> (Growth, Vec<Share>) {
        let growth = Growth {
            elapsed: totals.now.saturating_sub(self.last.now),
            on_cpu: totals.on_cpu.saturating_sub(self.last.on_cpu),
            run_queue: totals.run_queue.saturating_sub(self.last.run_queue),
        };
        self.last = totals;
        let mut shares = Vec::new();
        let mut samples = std::mem::take(&mut self.samples);
        let (cpu, cells) = self.growth_of(sums);
        // Without system call tracing, the kernel's sums do not separate time in calls from time outside of them.
        if sums.cpu_ns > 0 {
            for (&(_, state), found) in &samples {
                if matches!(state, ExactState::Outside | ExactState::Call) {
                    self.cpu.add(found);
                }
            }
            samples.retain(|&(_, state), _| !matches!(state, ExactState::Outside | ExactState::Call));
            let unsampled = not_sampled(StateGroup::OnCpu);
            self.cpu.settle(cpu, growth.elapsed, last, unsampled, &mut shares);
        }
        let modes = modes_outside(&samples);
        for (key, sum) in cells {
            let found = samples.remove(&key).unwrap_or_default();
            share_out(key, sum, &found, &modes, &mut shares);
        }
        // Sampled, but too briefly to show in the sums: kept, without time.
        for (key, found) in samples {
            share_out(key, Sum::default(), &found, &modes, &mut shares);
        }
        (growth, shares)
    }

    /// Closes an account whose last sums never arrived: reports what is pending, and adds nothing.
    pub(crate) fn abandon(&mut self) -> Vec<Share> {
        let sums = ExactSums {
            cpu_ns: self.cpu_reported,
            epoch: self.epoch,
            ..ExactSums::default()
        };
        self.advance(self.last, &sums, true).1
    }

    /// False for sums that were read before the last ones accounted for: they contain nothing new.
    pub(crate) fn is_news(&self, totals: Totals, sums: &ExactSums) -> bool {
        totals.now >= self.last.now && sums.epoch >= self.epoch
    }

    /// The growth to report: CPU time with an unknown wait event, and the time of every cell. Together they are what the sums
    /// have grown by.
    ///
    /// The interval that was open at the previous read may have ended as something else, with its time in another cell. What
    /// has been reported stays where it is, and is deducted from whatever has grown most.
    fn growth_of(&mut self, sums: &ExactSums) -> (u64, Vec<(Key, Sum)>) {
        if sums.epoch > self.epoch {
            self.epoch = sums.epoch;
            self.reported.clear();
        }
        let mut now: BTreeMap<Key, Sum> = self.reported.keys().map(|&key| (key, Sum::default())).collect();
        for of_wait in &sums.waits {
            let doing = (
                of_wait.wait.map_or(RawWait::NotRead, RawWait::Info),
                of_wait.executing,
            );
            for state in ExactState::ALL {
                let sum = now.entry((doing, state)).or_default();
                sum.ns += of_wait.ns[state as usize];
                sum.count += of_wait.count[state as usize];
            }
        }
        let mut early = self.cpu_reported.saturating_sub(sums.cpu_ns);
        let mut cpu = sums.cpu_ns.saturating_sub(self.cpu_reported);
        let mut cells = Vec::new();
        for (key, sum) in now {
            let reported = self.reported.get(&key).copied().unwrap_or_default();
            early += reported.ns.saturating_sub(sum.ns);
            let growth = Sum {
                ns: sum.ns.saturating_sub(reported.ns),
                count: sum.count.saturating_sub(reported.count),
            };
            if growth.ns > 0 || growth.count > 0 {
                cells.push((key, growth));
            }
        }
        let mut grown: Vec<&mut u64> = cells.iter_mut().map(|(_, growth)| &mut growth.ns).collect();
        grown.push(&mut cpu);
        grown.sort_by_key(|ns| Reverse(**ns));
        for ns in grown {
            let kept_back = early.min(*ns);
            *ns -= kept_back;
            early -= kept_back;
        }
        self.cpu_reported += cpu;
        for (key, growth) in &cells {
            let reported = self.reported.entry(*key).or_default();
            reported.ns += growth.ns;
            reported.count += growth.count;
        }
        (cpu, cells)
    }
}

/// An exact cell: its time is known, and samples say in which stacks it was spent.
fn exact(key: Key, sum: Sum, samples: &BTreeMap<Cell, u64>, shares: &mut Vec<Share>) {
    let first = shares.len();
    if samples.is_empty() {
        shares.push(Share {
            cell: unsplit(key),
            ns: sum.ns,
            count: 0,
            samples: 0,
            fidelity: Fidelity::Exact,
        });
    } else {
        split(sum.ns, samples, shares);
    }
    for share in &mut shares[first..] {
        share.fidelity = Fidelity::Exact;
    }
    shares[first].count = sum.count;
}

/// How often a session was sampled in each mode outside of system calls, whatever it did.
fn modes_outside(samples: &BTreeMap<Key, BTreeMap<Cell, u64>>) -> BTreeMap<State, u64> {
    let mut modes = BTreeMap::new();
    for ((_, state), found) in samples {
        for (cell, count) in found {
            if *state == ExactState::Outside {
                *modes.entry(cell.state).or_default() += count;
            }
        }
    }
    modes
}

/// A cell, of whatever state. CPU time outside of system calls: the samples in it, or else those of all such time (`modes`), say in which
/// mode it was spent.
fn share_out(
    key: Key,
    sum: Sum,
    samples: &BTreeMap<Cell, u64>,
    modes: &BTreeMap<State, u64>,
    shares: &mut Vec<Share>,
) {
    if key.1 != ExactState::Outside || (samples.is_empty() && modes.is_empty()) {
        return exact(key, sum, samples, shares);
    }
    let ns = sum.ns;
    let first = shares.len();
    if samples.is_empty() {
        let in_mode = |(&state, &count): (&State, &u64)| {
            (
                Cell {
                    state,
                    ..unsplit(key)
                },
                count,
            )
        };
        split(ns, &modes.iter().map(in_mode).collect(), shares);
        for share in &mut shares[first..] {
            share.samples = 0;
        }
    } else {
        split(ns, samples, shares);
    }
    let is_user_code = shares[first..]
        .iter()
        .all(|share| share.cell.state == State::User);
    if is_user_code {
        for share in &mut shares[first..] {
            share.fidelity = Fidelity::Exact;
        }
    }
}

/// A cell without a known stack.
fn unsplit(((wait, executing), state): Key) -> Cell {
    Cell {
        wait,
        executing,
        state: state.of_time(),
        kernel_stack: NO_STACK,
        user_stack: NO_STACK,
        held: HeldId::NONE,
        comment: comment::UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bpf::WaitSums;

    fn cell(wait: u32, state: State, kernel_stack: u64) -> Cell {
        Cell {
            wait: RawWait::Info(wait),
            executing: Executing::default(),
            state,
            kernel_stack: dbtime_model::StackId(kernel_stack),
            user_stack: NO_STACK,
            held: HeldId::NONE,
            comment: comment::NONE,
        }
    }

    fn at(now: u64) -> Totals {
        Totals {
            now,
            ..Totals::default()
        }
    }

    fn sums(cells: &[(u32, ExactState, u64, u64)]) -> ExactSums {
        let mut sums = ExactSums::default();
        for &(wait, state, ns, count) in cells {
            let mut of_wait = WaitSums {
                wait: Some(wait),
                ..WaitSums::default()
            };
            of_wait.ns[state as usize] = ns;
            of_wait.count[state as usize] = count;
            sums.waits.push(of_wait);
        }
        sums
    }

    #[test]
    fn samples_divide_a_cell_among_its_stacks_and_change_no_sum() {
        let mut account = ExactAccount::open(at(0), &ExactSums::default());
        account.sample(cell(7, State::Disk, 1), false, 1);
        account.sample(cell(7, State::Disk, 2), false, 3);
        account.sample(cell(8, State::Disk, 2), false, 3);
        let (_, shares) = account.advance(
            at(1_000),
            &sums(&[(7, ExactState::Disk, 400, 5), (7, ExactState::Call, 600, 9)]),
            false,
        );
        let found = |cell: Cell| {
            let share = shares.iter().find(|s| s.cell == cell).unwrap();
            (share.ns, share.samples, share.count)
        };
        assert_eq!(found(cell(7, State::Disk, 1)), (100, 1, 5));
        assert_eq!(found(cell(7, State::Disk, 2)), (300, 3, 0));
        // Without a sample, nobody knows which request it was for.
        let unsampled = Cell {
            comment: comment::UNKNOWN,
            ..cell(7, State::Kernel, 0)
        };
        assert_eq!(found(unsampled), (600, 0, 9));
        assert_eq!(found(cell(8, State::Disk, 2)), (0, 3, 0));
    }

    #[test]
    fn time_outside_of_calls_is_user_code_unless_samples_say_otherwise() {
        let mut account = ExactAccount::open(at(0), &ExactSums::default());
        account.sample(cell(0, State::User, 0), false, 3);
        let (_, shares) = account.advance(at(100), &sums(&[(0, ExactState::Outside, 100, 0)]), false);
        assert_eq!(shares.len(), 1);
        assert_eq!((shares[0].ns, shares[0].fidelity), (100, Fidelity::Exact));
        account.sample(cell(0, State::User, 0), false, 3);
        account.sample(cell(0, State::Kernel, 4), false, 1);
        let (_, shares) = account.advance(at(200), &sums(&[(0, ExactState::Outside, 200, 0)]), false);
        let kernel = shares.iter().find(|s| s.cell.state == State::Kernel).unwrap();
        assert_eq!((kernel.ns, kernel.fidelity), (25, Fidelity::Sampled));
    }

    #[test]
    fn cpu_time_belongs_to_its_own_second_whether_it_was_sampled_or_not() {
        let mut account = ExactAccount::open(at(0), &ExactSums::default());
        let one = |n: u64| 1_000_000_000 * n;
        let grown = |n: u64| {
            sums(&[
                (1, ExactState::Outside, 80 * n, 0),
                (2, ExactState::Outside, 20 * n, 0),
            ])
        };
        // In the first second nothing is known of its mode.
        let (_, shares) = account.advance(at(one(1)), &grown(1), false);
        assert!(shares.iter().all(|share| share.cell.state == State::Cpu));
        assert_eq!(shares.iter().map(|share| share.ns).sum::<u64>(), 100);
        // In the next one, the other statement was sampled: three times of four in user code.
        account.sample(cell(1, State::User, 5), false, 3);
        account.sample(cell(1, State::Kernel, 6), false, 1);
        let (_, shares) = account.advance(at(one(2)), &grown(2), false);
        let of = |wait, state| {
            let found = shares
                .iter()
                .filter(|share| (share.cell.wait, share.cell.state) == (RawWait::Info(wait), state));
            found.fold((0, 0), |(ns, samples), share| {
                (ns + share.ns, samples + share.samples)
            })
        };
        assert_eq!(of(1, State::User), (60, 3));
        assert_eq!(of(1, State::Kernel), (20, 1));
        assert_eq!(of(2, State::User), (15, 0));
        assert_eq!(of(2, State::Kernel), (5, 0));
        assert_eq!(shares.iter().map(|share| share.ns).sum::<u64>(), 100);
        let unsampled = shares.iter().filter(|share| share.samples == 0);
        assert!(
            unsampled.clone().count() == 2
                && unsampled.clone().all(|share| share.fidelity == Fidelity::Sampled)
        );
        // Nothing is left for the end.
        let (_, shares) = account.advance(at(one(3)), &grown(2), true);
        assert_eq!(shares.iter().map(|share| share.ns).sum::<u64>(), 0);
    }

    #[test]
    fn an_interval_that_ends_otherwise_than_it_looked_is_not_counted_twice() {
        let mut account = ExactAccount::open(at(0), &ExactSums::default());
        let ns = |shares: Vec<Share>| shares.iter().map(|s| s.ns).sum::<u64>();
        let (_, open) = account.advance(at(1_000), &sums(&[(7, ExactState::Sleep, 1_000, 0)]), false);
        assert_eq!(ns(open), 1_000);
        // 10 ns of it turn out to be run queue.
        let closed = [(7, ExactState::Sleep, 990, 1), (7, ExactState::Runnable, 20, 1)];
        let (_, first) = account.advance(at(1_010), &sums(&closed), false);
        assert_eq!(ns(first), 10);
        let later = [(7, ExactState::Sleep, 1_990, 2), (7, ExactState::Runnable, 20, 1)];
        let (_, second) = account.advance(at(2_010), &sums(&later), true);
        assert_eq!(ns(second), 1_000);
    }

    /// A copy of the account has a cell for what was open, and the account itself never gets it.
    #[test]
    fn a_cell_that_is_gone_again_is_not_counted_twice() {
        let mut account = ExactAccount::open(at(0), &ExactSums::default());
        let ns = |shares: Vec<Share>| shares.iter().map(|s| s.ns).sum::<u64>();
        let (_, open) = account.advance(at(1_000), &sums(&[(0, ExactState::Outside, 1_000, 0)]), true);
        assert_eq!(ns(open), 1_000);
        let closed = sums(&[(7, ExactState::Outside, 1_500, 0), (8, ExactState::Sleep, 100, 0)]);
        let (_, first) = account.advance(at(1_600), &closed, true);
        assert_eq!(ns(first), 600);
    }

    #[test]
    fn what_was_open_when_the_account_was_opened_is_not_counted_afterwards() {
        let before = sums(&[(0, ExactState::Outside, 1_000, 0)]);
        let mut account = ExactAccount::open(at(1_000), &before);
        let closed = sums(&[(7, ExactState::Outside, 1_500, 0)]);
        let (_, shares) = account.advance(at(1_500), &closed, true);
        assert_eq!(shares.iter().map(|share| share.ns).sum::<u64>(), 500);
    }

    #[test]
    fn sums_that_began_anew_are_added_whole_and_older_ones_are_no_news() {
        let mut account = ExactAccount::open(at(0), &ExactSums::default());
        let ns = |shares: Vec<Share>| shares.iter().map(|s| s.ns).sum::<u64>();
        let full = sums(&[(7, ExactState::Sleep, 1_000, 1)]);
        assert_eq!(ns(account.advance(at(1_000), &full, false).1), 1_000);
        let anew = ExactSums {
            epoch: 1,
            ..sums(&[(7, ExactState::Sleep, 300, 1)])
        };
        assert_eq!(ns(account.advance(at(1_300), &anew, false).1), 300);
        assert!(!account.is_news(at(1_300), &full) && account.is_news(at(1_300), &anew));
        assert!(!account.is_news(at(1_299), &anew));
    }

    proptest! {
        #[test]
        fn time_and_counts_are_conserved(
            steps in prop::collection::vec(
                (prop::collection::vec((0u32..3, 0usize..6, 0u64..1_000_000), 0..8),
                 prop::collection::vec((0u32..3, prop::sample::select(State::ALL.to_vec()), any::<bool>(), 0u64..9), 0..6),
                 0u64..1_000_000),
                1..20,
            )
        ) {
            let mut account = ExactAccount::open(at(0), &ExactSums::default());
            let mut sums = sums(&[(0, ExactState::Call, 0, 0), (1, ExactState::Call, 0, 0), (2, ExactState::Call, 0, 0)]);
            let (mut ns, mut count, mut samples, mut put_in) = (0, 0, 0, 0);
            let steps_count = steps.len();
            for (n, (grow, found, cpu)) in steps.into_iter().enumerate() {
                for (wait, state, by) in grow {
                    sums.waits[wait as usize].ns[state] += by;
                    sums.waits[wait as usize].count[state] += u64::from(state != 0);
                }
                sums.cpu_ns += cpu;
                for (wait, state, in_call, times) in found {
                    account.sample(cell(wait, state, 3), in_call, times);
                    if state.group().is_some() {
                        put_in += times;
                    }
                }
                let now = 10_000_000_000 * (n as u64 + 1);
                let (_, shares) = account.advance(at(now), &sums, n + 1 == steps_count);
                ns += shares.iter().map(|s| s.ns).sum::<u64>();
                count += shares.iter().map(|s| s.count).sum::<u64>();
                samples += shares.iter().map(|s| s.samples).sum::<u64>();
            }
            let all = sums.waits.iter().flat_map(|w| w.ns).sum::<u64>() + sums.cpu_ns;
            prop_assert_eq!(ns, all);
            prop_assert_eq!(count, sums.waits.iter().flat_map(|w| w.count).sum::<u64>());
            prop_assert_eq!(samples, put_in);
        }
    }
}
