//! Which stretches of time the files tell of, where that is not all from begin to end.

use dbtime_model::recording::CoveredPeriod;

/// Stretches of time, in the order in which they were found.
#[derive(Debug, Default)]
pub(crate) struct Periods {
    all: Vec<CoveredPeriod>,
}

impl Periods {
    /// Adds one of a file.
    pub(crate) fn add(&mut self, period: CoveredPeriod) {
        self.all.push(period);
        if self.all.len() > 2 * CoveredPeriod::MOST {
            self.bound();
        }
    }

    /// Adds those of another file: where both tell of the same time, it passed once. Snapshots of one file follow one another, even
    /// where their ends, which are whole seconds, seem to say that they do not.
    pub(crate) fn append(&mut self, other: Periods) {
        for period in other.all {
            match self.all.iter_mut().find(|known| is_same_time(known, &period)) {
                Some(known) => *known = both(known, &period),
                None => self.add(period),
            }
        }
    }

    /// All, in order of time.
    pub(crate) fn finish(mut self) -> Vec<CoveredPeriod> {
        self.all.sort_by_key(|period| (period.to_us, period.from_us));
        while self.all.len() > CoveredPeriod::MOST {
            self.bound();
        }
        self.all
    }

    /// Makes pairs of neighbours one: half as many are left, and the sum of their times is what it was.
    fn bound(&mut self) {
        self.all.sort_by_key(|period| (period.to_us, period.from_us));
        let pairs = self.all.chunks(2).map(|pair| CoveredPeriod {
            from_us: pair.iter().map(|one| one.from_us).min().unwrap_or_default(),
            to_us: pair.iter().map(|one| one.to_us).max().unwrap_or_default(),
            elapsed_ns: pair
                .iter()
                .fold(0, |sum: u64, one| sum.saturating_add(one.elapsed_ns)),
        });
        self.all = pairs.collect();
    }
}

fn overlap_us(one: &CoveredPeriod, other: &CoveredPeriod) -> i64 {
    let from_us = one.from_us.max(other.from_us);
    one.to_us.min(other.to_us).saturating_sub(from_us).max(0)
}

/// More than half of the shorter one is in the other.
fn is_same_time(one: &CoveredPeriod, other: &CoveredPeriod) -> bool {
    let length_us = |period: &CoveredPeriod| period.to_us.saturating_sub(period.from_us);
    2 * i128::from(overlap_us(one, other)) > i128::from(length_us(one).min(length_us(other)).max(0))
}

fn both(one: &CoveredPeriod, other: &CoveredPeriod) -> CoveredPeriod {
    let overlap_ns = overlap_us(one, other).unsigned_abs().saturating_mul(1_000);
    let sum_ns = one.elapsed_ns.saturating_add(other.elapsed_ns);
    CoveredPeriod {
        from_us: one.from_us.min(other.from_us),
        to_us: one.to_us.max(other.to_us),
        elapsed_ns: sum_ns
            .saturating_sub(overlap_ns)
            .max(one.elapsed_ns)
            .max(other.elapsed_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn period(from_s: i64, to_s: i64) -> CoveredPeriod {
        CoveredPeriod {
            from_us: from_s * 1_000_000,
            to_us: to_s * 1_000_000,
            elapsed_ns: (to_s - from_s).unsigned_abs() * 1_000_000_000,
        }
    }

    fn of(all: &[CoveredPeriod]) -> Periods {
        let mut periods = Periods::default();
        all.iter().for_each(|one| periods.add(*one));
        periods
    }

    #[test]
    fn time_that_two_files_tell_of_passed_once() {
        let mut periods = of(&[period(0, 10), period(20, 30)]);
        periods.append(of(&[period(0, 10), period(22, 32), period(50, 60)]));
        assert_eq!(periods.finish(), [period(0, 10), period(20, 32), period(50, 60)]);
        // In one file they are snapshots of less than a second, whose ends were told in the same one.
        assert_eq!(of(&[period(0, 1), period(0, 1)]).finish().len(), 2);
    }

    #[test]
    fn of_many_the_sum_stays() {
        let mut periods = Periods::default();
        for n in 0..50_000 {
            periods.add(period(10 * n, 10 * n + 4));
        }
        let all = periods.finish();
        assert!(all.len() <= CoveredPeriod::MOST && all.len() > CoveredPeriod::MOST / 4);
        let sum: u64 = all.iter().map(|one| one.elapsed_ns).sum();
        assert_eq!(sum, 50_000 * 4_000_000_000);
        assert!(all.windows(2).all(|pair| pair[0].to_us <= pair[1].from_us));
    }
}
