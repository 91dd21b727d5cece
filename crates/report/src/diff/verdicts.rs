//! Verdicts on what has a test of its own: statements, causes. The test is of the same kind as that of everything else.

use super::answer::Verdict;
use super::changes::{Changes, Pair, judge};
use super::noise::{Measure, Tested, test};
use super::{Per, SMALLEST_SHARE};

/// Values of both sides by slice of time; a slice may occur more than once.
pub(super) type BySlice = [Vec<(usize, f64)>; 2];

/// What a pair is measured by.
#[derive(Clone, Copy)]
pub(super) struct Yardstick<'a> {
    pub(super) per: &'a Per,
    /// How much longer everything takes.
    pub(super) factor: f64,
    /// What is worth a verdict.
    pub(super) smallest: f64,
}

impl<'a> Yardstick<'a> {
    pub(super) fn new(per: &'a Per, factor: f64, changes: &Changes) -> Yardstick<'a> {
        Yardstick {
            per,
            factor,
            smallest: SMALLEST_SHARE * changes.scale(per),
        }
    }

    /// Gives a pair its verdict; `tested`: none if it cannot be tested.
    pub(super) fn judge(self, pair: &mut Pair, tested: Option<&Tested>) {
        pair.errors = tested.map(|tested| tested.errors);
        pair.verdict = Some(match pair.is_large(self.per, self.smallest) {
            true => judge(pair.tested, tested, self.per, self.factor, self.smallest),
            false => Verdict::Small,
        });
    }
}

/// Gives every pair its verdict, testing all of them together. As everywhere, pairs are chosen by size, not by difference.
pub(super) fn give_verdicts<'a>(pairs: impl Iterator<Item = (&'a mut Pair, BySlice, Yardstick<'a>)>) {
    let mut chosen: Vec<(&mut Pair, Yardstick<'_>)> = Vec::new();
    let mut measures: Vec<Measure> = Vec::new();
    for (pair, slices, by) in pairs {
        if !pair.is_large(by.per, by.smallest) {
            by.judge(pair, None);
            continue;
        }
        let mut measure = by.per.measure(by.factor);
        for (numerators, slices) in measure.numerators.iter_mut().zip(slices) {
            for (slice, value) in slices {
                numerators[slice] += value;
            }
        }
        chosen.push((pair, by));
        measures.push(measure);
    }
    let tested = test(&measures);
    for (number, (pair, by)) in chosen.into_iter().enumerate() {
        by.judge(pair, tested.as_ref().map(|tested| &tested[number]));
    }
}
