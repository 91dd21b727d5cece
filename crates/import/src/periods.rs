//! Periods that the files cover, if that is not all the time from start to end.

use dbtime_model::recording::CoveredPeriod;

/// Most periods of all files together; above that they are merged at once.
const MOST_OF_ALL: usize = 16 * CoveredPeriod::MOST;

/// Periods by file, in the order in which they were found.
#[derive(Debug, Default)]
pub(crate) struct Periods {
    of_files: Vec<Vec<CoveredPeriod>>,
}

impl Periods {
    /// Adds one of the file that is being read.
    pub(crate) fn add(&mut self, period: CoveredPeriod) {
        if self.of_files.is_empty() {
            self.of_files.push(Vec::new());
        }
        if let Some(of_file) = self.of_files.last_mut() {
            of_file.push(period);
            if of_file.len() > 2 * CoveredPeriod::MOST {
                *of_file = CoveredPeriod::bounded(std::mem::take(of_file));
            }
        }
    }

    /// Adds those of other files.
    pub(crate) fn append(&mut self, other: Periods) {
        self.of_files.extend(other.of_files);
        if self.of_files.iter().map(Vec::len).sum::<usize>() > MOST_OF_ALL {
            self.of_files = vec![CoveredPeriod::of_several(std::mem::take(&mut self.of_files))];
        }
    }

    /// All, in order of time.
    pub(crate) fn finish(self) -> Vec<CoveredPeriod> {
        CoveredPeriod::of_several(self.of_files)
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

    /// Files are read separately, and described together.
    fn of_all(files: &[&[CoveredPeriod]]) -> Vec<CoveredPeriod> {
        let mut all = Periods::default();
        files.iter().for_each(|file| all.append(of(file)));
        all.finish()
    }

    #[test]
    fn time_that_two_files_tell_of_passed_once() {
        let one = [period(0, 10), period(20, 30)];
        let other = [period(0, 10), period(22, 32), period(50, 60)];
        assert_eq!(
            of_all(&[&one, &other]),
            [period(0, 10), period(20, 32), period(50, 60)]
        );
        // In one file, they are snapshots of less than a second that ended in the same second.
        assert_eq!(of_all(&[&[period(0, 1), period(0, 1)]]).len(), 2);
        assert_eq!(of_all(&[&one]), one);
    }

    #[test]
    fn of_many_the_sum_stays() {
        let many: Vec<CoveredPeriod> = (0..50_000).map(|n| period(10 * n, 10 * n + 4)).collect();
        let (one, other) = many.split_at(20_000);
        for all in [of_all(&[&many]), of_all(&[one, other])] {
            assert!(all.len() <= CoveredPeriod::MOST && all.len() > CoveredPeriod::MOST / 4);
            let sum: u64 = all.iter().map(|one| one.elapsed_ns).sum();
            assert_eq!(sum, 50_000 * 4_000_000_000);
            assert!(all.windows(2).all(|pair| pair[0].to_us <= pair[1].from_us));
        }
    }
}
