//! Median, quartiles and the bootstrap: all the statistics in this benchmark.

/// Resamples of a bootstrap: enough for the second digit of a percentile.
const RESAMPLES: usize = 10_000;
/// Quantiles that bound an interval of 95 %.
const INTERVAL_95: (f64, f64) = (0.025, 0.975);

/// A range of values, the lower end first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Range {
    /// Lower end.
    pub(crate) low: f64,
    /// Upper end.
    pub(crate) high: f64,
}

/// The middle value; NaN when there is none.
pub(crate) fn median(values: &[f64]) -> f64 {
    quantile(&sorted(values), 0.5)
}

/// First and third quartile.
pub(crate) fn quartiles(values: &[f64]) -> Range {
    let sorted = sorted(values);
    Range {
        low: quantile(&sorted, 0.25),
        high: quantile(&sorted, 0.75),
    }
}

/// Where the median may lie: 95 % interval by the percentile bootstrap.
pub(crate) fn bootstrap_median(values: &[f64], seed: u64) -> Range {
    bootstrap(seed, |random| median(&resample(values, random)))
}

/// Where the ratio of two medians may lie: as [`bootstrap_median`], both sides resampled.
pub(crate) fn bootstrap_ratio(over: &[f64], under: &[f64], seed: u64) -> Range {
    bootstrap(seed, |random| {
        median(&resample(over, random)) / median(&resample(under, random))
    })
}

fn bootstrap(seed: u64, mut draw: impl FnMut(&mut fastrand::Rng) -> f64) -> Range {
    let mut random = fastrand::Rng::with_seed(seed);
    let drawn: Vec<f64> = (0..RESAMPLES).map(|_| draw(&mut random)).collect();
    let drawn = sorted(&drawn);
    Range {
        low: quantile(&drawn, INTERVAL_95.0),
        high: quantile(&drawn, INTERVAL_95.1),
    }
}

/// As many values as there are, each drawn from all of them.
fn resample(values: &[f64], random: &mut fastrand::Rng) -> Vec<f64> {
    values
        .iter()
        .map(|_| values[random.usize(0..values.len())])
        .collect()
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Interpolates linearly between two values (type 7 of Hyndman and Fan, the default of R and NumPy).
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let position = last as f64 * share;
    let (below, above) = (position.floor() as usize, position.ceil() as usize);
    sorted[below] + (sorted[above] - sorted[below]) * position.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: u64 = 1;

    #[test]
    fn the_median_of_an_odd_number_is_the_middle_one_whatever_the_order() {
        assert_eq!(median(&[5.0, 1.0, 3.0]), 3.0);
        assert_eq!(median(&[7.0]), 7.0);
    }

    #[test]
    fn the_median_of_an_even_number_is_between_the_two_in_the_middle() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
    }

    #[test]
    fn nothing_has_no_median() {
        assert!(median(&[]).is_nan());
        assert!(bootstrap_median(&[], SEED).low.is_nan());
    }

    #[test]
    fn quartiles_are_those_of_r_and_numpy() {
        // Positions 0.75 and 2.25 of 1 2 3 4; positions 1 and 3 of 1 2 3 4 5.
        let (low, high) = (1.75, 3.25);
        assert_eq!(quartiles(&[4.0, 3.0, 2.0, 1.0]), Range { low, high });
        let (low, high) = (2.0, 4.0);
        assert_eq!(quartiles(&[1.0, 2.0, 3.0, 4.0, 5.0]), Range { low, high });
    }

    #[test]
    fn equal_values_leave_no_doubt() {
        let (low, high) = (0.98, 0.98);
        assert_eq!(bootstrap_median(&[0.98; 12], SEED), Range { low, high });
    }

    #[test]
    fn the_interval_is_where_the_distribution_of_resampled_medians_says() {
        // Nine values 1 to 9, nine draws: the median is at most k when five or more draws are. For k = 1 that has a
        // probability of 0.0015, for k = 2 of 0.030, so 2 is the quantile 0.025; the upper end mirrors it.
        let values: Vec<f64> = (1..=9).map(f64::from).collect();
        let (low, high) = (2.0, 8.0);
        assert_eq!(bootstrap_median(&values, SEED), Range { low, high });
        // Three values: the median of three draws is the smallest with a probability of 7/27.
        let (low, high) = (1.0, 3.0);
        assert_eq!(bootstrap_median(&[3.0, 1.0, 2.0], SEED), Range { low, high });
    }

    #[test]
    fn a_ratio_is_as_uncertain_as_both_its_sides() {
        // The smallest over the largest, each with a probability of 7/27, and the other way round.
        let interval = bootstrap_ratio(&[1.0, 2.0, 4.0], &[1.0, 2.0, 4.0], SEED);
        let (low, high) = (0.25, 4.0);
        assert_eq!(interval, Range { low, high });
        let (low, high) = (0.5, 2.0);
        assert_eq!(
            bootstrap_ratio(&[1.0, 2.0, 4.0], &[2.0; 5], SEED),
            Range { low, high }
        );
    }
}
