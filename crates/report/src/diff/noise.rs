//! The test that tells differences from noise: a bootstrap over slices of time.
//!
//! Each recording is cut into slices. A resample draws as many of them, with replacement, in blocks of neighbours (what
//! happens in one second resembles the next), and everything is compared anew. The standard error of a difference is its
//! spread over the resamples. With so many things compared at once, some differ much by chance: the limit is the largest
//! of all differences, in standard errors, that equal recordings would show in one comparison of a hundred (the maximum
//! statistic), widened as Student's t is for few slices. The seed is fixed: equal input gives equal answers.

use super::answer::Verdict;

/// Resamples of one test.
pub(super) const RESAMPLES: usize = 1_000;
/// Probability that equal recordings are found to differ, in anything at all.
pub(super) const LEVEL: f64 = 0.01;
/// Fewer slices say nothing about noise.
pub(super) const FEWEST_SLICES: usize = 4;
/// Longer recordings are cut into this many slices.
pub(super) const MOST_SLICES: usize = 60;
const SEED: u64 = 0x6462_7469_6d65;
/// The quantile of the normal distribution that belongs to [`LEVEL`], on both sides.
pub(super) const NORMAL: f64 = 2.5758;

/// A quantity that is compared: a sum over another sum, for each slice of both sides.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Measure {
    pub(super) numerators: [Vec<f64>; 2],
    pub(super) denominators: [Vec<f64>; 2],
    /// The good side is multiplied by this before it is compared.
    pub(super) factor: f64,
}

/// What the test says about one measure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tested {
    /// Bad minus good.
    pub(super) difference: f64,
    /// Its size in standard errors.
    pub(super) errors: f64,
    /// Significant; noise; or it varies as much within one side.
    pub(super) verdict: Verdict,
}

fn ratio(numerator: f64, denominator: f64) -> f64 {
    if denominator > 0.0 {
        numerator / denominator
    } else {
        0.0
    }
}

impl Measure {
    fn side(&self, side: usize, slices: impl Iterator<Item = usize>) -> f64 {
        let (mut numerator, mut denominator) = (0.0, 0.0);
        for slice in slices {
            numerator += self.numerators[side][slice];
            denominator += self.denominators[side][slice];
        }
        ratio(numerator, denominator)
    }

    fn difference(&self, slices: [&[usize]; 2]) -> f64 {
        self.side(1, slices[1].iter().copied()) - self.factor * self.side(0, slices[0].iter().copied())
    }

    /// The largest change between the halves of one side.
    fn drift(&self) -> f64 {
        let of = |side: usize| {
            let count = self.numerators[side].len();
            (self.side(side, count / 2..count) - self.side(side, 0..count / 2)).abs()
        };
        of(1).max(self.factor * of(0))
    }
}

/// Tests measures together; all have the same slices. None when there are too few slices.
pub(super) fn test(measures: &[Measure]) -> Option<Vec<Tested>> {
    let counts = measures
        .first()
        .map(|measure| [0, 1].map(|side| measure.numerators[side].len()))?;
    let resamples = Resamples::of(counts)?;
    let all = counts.map(|count| (0..count).collect::<Vec<_>>());
    let found: Vec<f64> = measures
        .iter()
        .map(|measure| measure.difference([&all[0], &all[1]]))
        .collect();
    // Deviations of the resamples, measure by measure.
    let mut deviations = vec![Vec::with_capacity(RESAMPLES); measures.len()];
    for drawn in resamples.draw() {
        for ((measure, found), deviations) in measures.iter().zip(&found).zip(&mut deviations) {
            deviations.push(measure.difference([&drawn[0], &drawn[1]]) - found);
        }
    }
    let errors: Vec<f64> = deviations
        .iter()
        .map(|deviations| {
            let square = deviations.iter().map(|d| d * d).sum::<f64>() / RESAMPLES as f64;
            square.sqrt() * resamples.widened()
        })
        .collect();
    let mut largest: Vec<f64> = (0..RESAMPLES)
        .map(|resample| {
            deviations
                .iter()
                .zip(&errors)
                .filter(|(_, error)| **error > 0.0)
                .map(|(deviations, error)| deviations[resample].abs() / error)
                .fold(0.0, f64::max)
        })
        .collect();
    largest.sort_unstable_by(f64::total_cmp);
    let at = ((1.0 - LEVEL) * RESAMPLES as f64) as usize;
    let limit = resamples.students(largest[at.min(RESAMPLES - 1)]);
    Some(
        measures
            .iter()
            .zip(found)
            .zip(errors)
            .map(|((measure, difference), error)| Tested {
                difference,
                errors: difference.abs() / error,
                verdict: match difference.abs() > limit * error {
                    true if difference.abs() > measure.drift() => Verdict::Significant,
                    true => Verdict::Varies,
                    false => Verdict::Noise,
                },
            })
            .collect(),
    )
}

/// How the slices of both sides are drawn.
pub(super) struct Resamples {
    slices: [usize; 2],
    blocks: [usize; 2],
}

impl Resamples {
    /// None when there are too few slices.
    pub(super) fn of(slices: [usize; 2]) -> Option<Resamples> {
        let are_enough = slices.iter().all(|count| *count >= FEWEST_SLICES);
        are_enough.then(|| Resamples {
            slices,
            blocks: slices.map(block_length),
        })
    }

    /// [`RESAMPLES`] of them.
    pub(super) fn draw(&self) -> impl Iterator<Item = [Vec<usize>; 2]> {
        let mut random = fastrand::Rng::with_seed(SEED);
        (0..RESAMPLES)
            .map(move |_| [0, 1].map(|side| draw(self.slices[side], self.blocks[side], &mut random)))
    }

    /// A resample of n varies less than n new observations would, by n − 1 to n.
    pub(super) fn widened(&self) -> f64 {
        let fewest = self.each().into_iter().fold(f64::INFINITY, f64::min);
        (fewest / (fewest - 1.0).max(1.0)).sqrt()
    }

    /// The quantile of Student's t that belongs to a quantile of the normal distribution.
    pub(super) fn students(&self, z: f64) -> f64 {
        let degrees = self.each().map(|blocks| blocks - 1.0).iter().sum::<f64>();
        students(z, degrees.max(1.0))
    }

    /// Blocks of each side.
    fn each(&self) -> [f64; 2] {
        [0, 1].map(|side| self.slices[side] as f64 / self.blocks[side] as f64)
    }
}

/// Neighbours that are drawn together: as usual, the cube root of the number of slices.
fn block_length(slices: usize) -> usize {
    if slices < 8 {
        1
    } else {
        (slices as f64).cbrt().round() as usize
    }
}

/// As many slices as there are, with replacement, in blocks; the neighbour of the last slice is the first.
fn draw(slices: usize, block: usize, random: &mut fastrand::Rng) -> Vec<usize> {
    let mut drawn = Vec::with_capacity(slices + block);
    while drawn.len() < slices {
        let from = random.usize(..slices);
        drawn.extend((from..from + block).map(|slice| slice % slices));
    }
    drawn.truncate(slices);
    drawn
}

/// The quantile of Student's t that belongs to a quantile of the normal distribution (Cornish and Fisher's expansion).
fn students(z: f64, degrees: f64) -> f64 {
    z + (z.powi(3) + z) / (4.0 * degrees)
        + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * degrees * degrees)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(good: Vec<f64>, bad: Vec<f64>) -> Measure {
        Measure {
            denominators: [vec![1.0; good.len()], vec![1.0; bad.len()]],
            numerators: [good, bad],
            factor: 1.0,
        }
    }

    fn noise(slices: usize, mean: f64, random: &mut fastrand::Rng) -> Vec<f64> {
        // The sum of twelve uniform numbers: approximately a normal distribution of variance 1.
        (0..slices)
            .map(|_| mean + (0..12).map(|_| random.f64()).sum::<f64>() - 6.0)
            .collect()
    }

    #[test]
    fn too_few_slices_are_not_tested() {
        assert_eq!(test(&[measure(vec![1.0; 3], vec![2.0; 30])]), None);
        assert_eq!(test(&[]), None);
    }

    #[test]
    fn equal_recordings_raise_no_more_false_alarms_than_stated() {
        let mut random = fastrand::Rng::with_seed(7);
        for slices in [6, 12, 40] {
            let alarms = (0..100)
                .filter(|_| {
                    let measures: Vec<Measure> = (0..30)
                        .map(|_| measure(noise(slices, 10.0, &mut random), noise(slices, 10.0, &mut random)))
                        .collect();
                    let tested = test(&measures).expect("enough slices");
                    tested.iter().any(|tested| tested.verdict == Verdict::Significant)
                })
                .count();
            // One is expected; six or more happen once in two thousand runs of this.
            assert!(alarms <= 5, "{alarms} of 100 with {slices} slices");
        }
    }

    #[test]
    fn a_difference_of_many_standard_errors_is_found_among_noise() {
        let mut random = fastrand::Rng::with_seed(7);
        for slices in [6, 12, 40] {
            let mut measures: Vec<Measure> = (0..30)
                .map(|_| measure(noise(slices, 10.0, &mut random), noise(slices, 10.0, &mut random)))
                .collect();
            measures.push(measure(
                noise(slices, 10.0, &mut random),
                noise(slices, 18.0, &mut random),
            ));
            let tested = test(&measures).expect("enough slices");
            let found = tested[30];
            assert!(
                found.verdict == Verdict::Significant && (found.difference - 8.0).abs() < 2.0,
                "{found:?}"
            );
            assert_eq!(tested, test(&measures).expect("the same again"));
        }
    }

    #[test]
    fn what_drifts_within_a_recording_is_no_difference_between_two() {
        let rising = |from: f64| (0..20).map(|n| from + f64::from(n)).collect::<Vec<_>>();
        for (more, verdict) in [
            (6.0, Verdict::Noise),
            (9.9, Verdict::Varies),
            (10.1, Verdict::Significant),
        ] {
            let tested = test(&[measure(rising(0.0), rising(more))]).expect("enough slices");
            assert_eq!(tested[0].verdict, verdict, "{more} more: {tested:?}");
        }
    }

    #[test]
    fn students_quantiles_are_those_of_the_tables() {
        for (degrees, table) in [(10.0, 3.169), (30.0, 2.750), (1e9, 2.576)] {
            assert!((students(2.5758, degrees) - table).abs() < 0.02, "{degrees}");
        }
    }
}
