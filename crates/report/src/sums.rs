//! Time per state: what every analysis adds up.
//!
//! Sums are 128 bits wide: 2^63 rows of the largest `ns` fit, so no recording can make them overflow.

use dbtime_model::{Fidelity, State, StateGroup};

use crate::scan::Activity;

/// How the rows of a sum were measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FidelityMix {
    /// Every row was measured.
    Exact,
    /// Every row is an exact total that was split by samples.
    Sampled,
    /// Some of each.
    Mixed,
}

impl FidelityMix {
    /// The word used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            FidelityMix::Exact => "exact",
            FidelityMix::Sampled => "sampled",
            FidelityMix::Mixed => "mixed",
        }
    }

    /// The same in a sentence.
    pub fn words(self) -> &'static str {
        match self {
            FidelityMix::Mixed => "partly exact, partly sampled",
            mix => mix.as_str(),
        }
    }
}

/// Time per state and the samples it is based on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sums {
    ns: [u128; State::ALL.len()],
    sampled_ns: [u128; State::ALL.len()],
    pooled_ns: u128,
    /// Samples.
    pub samples: u128,
    // One bit per state: there is a row that is exact; one that is sampled; one that is an exact total without a sample.
    exact: u8,
    sampled: u8,
    not_split: u8,
}

impl Sums {
    /// Adds the time of one row. "Sampled" means an exact total split by samples, so a part of it without a sample does
    /// not make it mixed: that part is exact only on its own.
    pub(crate) fn take(&mut self, activity: &Activity<'_>) {
        let row = activity.row;
        if activity.not_sampled {
            self.ns[row.state as usize] += u128::from(row.ns);
            self.samples += u128::from(row.samples);
            self.not_split |= 1 << row.state as usize;
        } else {
            self.add(row.state, row.ns, row.samples, row.fidelity);
        }
        if row.pooled {
            self.pooled_ns += u128::from(row.ns);
        }
    }

    fn add(&mut self, state: State, ns: u64, samples: u64, fidelity: Fidelity) {
        self.ns[state as usize] += u128::from(ns);
        self.samples += u128::from(samples);
        match fidelity {
            Fidelity::Exact => self.exact |= 1 << state as usize,
            Fidelity::Sampled => {
                self.sampled |= 1 << state as usize;
                self.sampled_ns[state as usize] += u128::from(ns);
            }
        }
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &Sums) {
        for (ns, more) in self.ns.iter_mut().zip(other.ns) {
            *ns += more;
        }
        for (ns, more) in self.sampled_ns.iter_mut().zip(other.sampled_ns) {
            *ns += more;
        }
        self.pooled_ns += other.pooled_ns;
        self.samples += other.samples;
        self.exact |= other.exact;
        self.sampled |= other.sampled;
        self.not_split |= other.not_split;
    }

    /// Adds a sum of rows of one state.
    pub(crate) fn merge_state(&mut self, state: State, other: &StateSums) {
        let (at, bit) = (state as usize, |is_there| u8::from(is_there) << state as usize);
        self.ns[at] += other.ns;
        self.sampled_ns[at] += other.sampled_ns;
        self.pooled_ns += other.pooled_ns;
        self.samples += other.samples;
        self.exact |= bit(other.is_exact);
        self.sampled |= bit(other.is_sampled);
        self.not_split |= bit(other.is_not_split);
    }

    /// Nanoseconds in one state.
    pub fn state_ns(&self, state: State) -> u128 {
        self.ns[state as usize]
    }

    /// Of the time in one state, the part that was split by samples, in percent; none when there is no time.
    pub fn sampled_percent(&self, state: State) -> Option<f64> {
        percent(self.sampled_ns[state as usize], self.state_ns(state))
    }

    /// Of all nanoseconds, those of sessions too short to be sampled individually, split by the samples of others of
    /// their kind.
    pub fn pooled_ns(&self) -> u128 {
        self.pooled_ns
    }

    /// Nanoseconds in all states.
    pub fn total_ns(&self) -> u128 {
        self.ns.iter().sum()
    }

    /// Nanoseconds on a CPU: what `getrusage` counts.
    pub fn on_cpu_ns(&self) -> u128 {
        self.group_ns(Some(StateGroup::OnCpu))
    }

    /// Nanoseconds in the run queue.
    pub fn run_queue_ns(&self) -> u128 {
        self.group_ns(Some(StateGroup::RunQueue))
    }

    /// Nanoseconds blocked: disk, sleep, stopped.
    pub fn blocked_ns(&self) -> u128 {
        self.group_ns(Some(StateGroup::Blocked))
    }

    /// Nanoseconds for which the source does not say the state.
    pub fn unknown_ns(&self) -> u128 {
        self.group_ns(None)
    }

    /// Nanoseconds whose state, or whose mode on a CPU, the source does not say.
    pub fn not_told_ns(&self) -> u128 {
        self.state_ns(State::Cpu) + self.unknown_ns()
    }

    /// True when the source says more about the operating system than that there was CPU: a trace of a database does not.
    pub fn knows_states(&self) -> bool {
        self.total_ns() != self.not_told_ns()
    }

    /// Nanoseconds in the states that have no column of their own: cpu (mode unknown), stopped, unknown.
    pub fn other_ns(&self) -> u128 {
        self.state_ns(State::Cpu) + self.state_ns(State::Stopped) + self.state_ns(State::Unknown)
    }

    /// How the whole sum was measured; none when it is the sum of nothing.
    pub fn fidelity(&self) -> Option<FidelityMix> {
        self.mix(u8::MAX)
    }

    /// How the time in one state was measured; none when there is none.
    pub fn state_fidelity(&self, state: State) -> Option<FidelityMix> {
        self.mix(1 << state as usize)
    }

    fn mix(&self, states: u8) -> Option<FidelityMix> {
        let any = |mask: u8| mask & states != 0;
        mix(any(self.exact), any(self.sampled), any(self.not_split))
    }

    fn group_ns(&self, group: Option<StateGroup>) -> u128 {
        State::ALL
            .into_iter()
            .filter(|state| state.group() == group)
            .map(|state| self.state_ns(state))
            .sum()
    }
}

/// The same for rows of one state: for maps that may have millions of entries.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StateSums {
    ns: u128,
    sampled_ns: u128,
    pooled_ns: u128,
    /// Samples.
    pub(crate) samples: u128,
    is_exact: bool,
    is_sampled: bool,
    is_not_split: bool,
}

impl StateSums {
    /// Adds the time of one row.
    pub(crate) fn take(&mut self, activity: &Activity<'_>) {
        let row = activity.row;
        self.ns += u128::from(row.ns);
        self.samples += u128::from(row.samples);
        match row.fidelity {
            _ if activity.not_sampled => self.is_not_split = true,
            Fidelity::Exact => self.is_exact = true,
            Fidelity::Sampled => {
                self.is_sampled = true;
                self.sampled_ns += u128::from(row.ns);
            }
        }
        if row.pooled {
            self.pooled_ns += u128::from(row.ns);
        }
    }

    /// Nanoseconds.
    pub(crate) fn total_ns(&self) -> u128 {
        self.ns
    }

    /// See [`Sums::pooled_ns`].
    pub(crate) fn pooled_ns(&self) -> u128 {
        self.pooled_ns
    }

    /// See [`Sums::fidelity`].
    pub(crate) fn fidelity(&self) -> Option<FidelityMix> {
        mix(self.is_exact, self.is_sampled, self.is_not_split)
    }
}

fn mix(is_exact: bool, is_sampled: bool, is_not_split: bool) -> Option<FidelityMix> {
    match (is_exact, is_sampled, is_not_split) {
        (false, false, false) => None,
        (true, true, _) => Some(FidelityMix::Mixed),
        (false, true, _) => Some(FidelityMix::Sampled),
        (true, false, _) | (false, false, true) => Some(FidelityMix::Exact),
    }
}

/// Part of a whole in percent; none when the whole is zero.
pub fn percent(part: u128, whole: u128) -> Option<f64> {
    (whole > 0).then(|| part as f64 * 100.0 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_found_again_under_its_own_name() {
        for (index, state) in State::ALL.into_iter().enumerate() {
            assert_eq!(state as usize, index);
            let mut sums = Sums::default();
            sums.add(state, 7, 1, Fidelity::Exact);
            assert_eq!(sums.state_ns(state), 7);
            assert_eq!(sums.total_ns(), 7);
            assert_eq!(
                sums.on_cpu_ns() + sums.run_queue_ns() + sums.blocked_ns() + sums.unknown_ns(),
                7
            );
        }
    }

    #[test]
    fn exact_and_sampled_together_are_called_mixed() {
        let mut sums = Sums::default();
        assert_eq!(sums.fidelity(), None);
        sums.add(State::Sleep, 1, 0, Fidelity::Exact);
        assert_eq!(sums.fidelity(), Some(FidelityMix::Exact));
        let mut other = Sums::default();
        other.add(State::User, 1, 1, Fidelity::Sampled);
        sums.merge(&other);
        assert_eq!(sums.fidelity(), Some(FidelityMix::Mixed));
        assert_eq!(sums.state_fidelity(State::Sleep), Some(FidelityMix::Exact));
        assert_eq!(sums.state_fidelity(State::User), Some(FidelityMix::Sampled));
        assert_eq!(sums.state_fidelity(State::Disk), None);
    }

    #[test]
    fn the_largest_rows_do_not_overflow() {
        let mut sums = Sums::default();
        for state in State::ALL {
            sums.add(state, u64::MAX, u64::MAX, Fidelity::Sampled);
            sums.add(state, u64::MAX, u64::MAX, Fidelity::Sampled);
        }
        assert_eq!(sums.total_ns(), 16 * u128::from(u64::MAX));
        assert_eq!(sums.samples, 16 * u128::from(u64::MAX));
    }
}
