//! Verdicts on what has a test of its own: statements, causes. It is of the same kind as that of everything else.

use super::Per;
use super::answer::Verdict;
use super::changes::{Pair, judge};
use super::noise::{Measure, test};

/// Values of both sides by slice of time; one may stand there more than once.
pub(super) type BySlice = [Vec<(usize, f64)>; 2];

/// Gives every pair its verdict, all of them tested together. Chosen by size, not by difference, as everything that is tested.
pub(super) fn give_verdicts<'a>(
    pairs: impl Iterator<Item = (&'a mut Pair, BySlice)>,
    per: &Per,
    factor: f64,
    smallest: f64,
) {
    let mut chosen: Vec<&mut Pair> = Vec::new();
    let mut measures: Vec<Measure> = Vec::new();
    for (pair, slices) in pairs {
        pair.verdict = Some(Verdict::Small);
        if !pair.is_large(per, smallest) {
            continue;
        }
        let mut measure = per.measure(factor);
        for (numerators, slices) in measure.numerators.iter_mut().zip(slices) {
            for (slice, value) in slices {
                numerators[slice] += value;
            }
        }
        chosen.push(pair);
        measures.push(measure);
    }
    let tested = test(&measures);
    for (number, pair) in chosen.into_iter().enumerate() {
        let tested = tested.as_ref().map(|tested| &tested[number]);
        pair.verdict = Some(judge(pair.tested, tested, per, factor, smallest));
    }
}
