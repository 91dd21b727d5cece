//! The statement with most of the difference, although it is not more than noise.
//!
//! With few slices the test is demanding: its limit is that of hundreds of things at once, and with ten seconds in which requests come
//! at random it may be twenty standard errors. By that, a statement that takes a hundred times as long is noise, and whoever looks for
//! the cause would not be told of it. So it is named, marked as not certain, if equal runs hardly ever show the like: of simulated
//! pairs of them (5 to 20 seconds, three statements, a sample of each every ten seconds to five a second, alone or five at a time) 0
//! to 5 in 100 do.

use super::Per;
use super::answer::Verdict;
use super::changes::{Changes, Pair};
use super::verdicts::Yardstick;

/// It is more than this part of the difference of DB time …
const PART: f64 = 0.5;
/// … takes this many times as long, or as short: equal runs beside a busy neighbour differed by 1.45 times, and the common factor,
/// which is an estimate, is never more than 2 …
const TIMES: f64 = 2.0;
/// … differs by this part of DB time, four times what is worth a verdict: small statements, seldom sampled, double by chance …
const SHARE: f64 = 0.2;
/// … and by this many standard errors of its own: with 2 up to 18 in 100 of the simulated pairs name one, without this bound most.
/// What could not be tested at all has none.
const ERRORS: f64 = 3.0;

/// A statement that may be the one.
pub(super) struct Candidate<'a> {
    pub(super) id: u64,
    /// All of its time.
    pub(super) all: &'a Pair,
    /// The same as it is best measured, and what it is measured by.
    pub(super) measured: &'a Pair,
    pub(super) by: Yardstick<'a>,
}

/// The likely statement. `per`: what DB time is divided by.
pub(super) fn find<'a>(
    candidates: impl Iterator<Item = Candidate<'a>>,
    changes: &Changes,
    per: &Per,
) -> Option<u64> {
    let difference = |values: [u128; 2]| {
        let [good, bad] = per.per_unit(values);
        bad - good
    };
    let whole = difference(changes.totals());
    candidates
        .filter(|of| of.id != 0 && of.is_large(whole, changes))
        .map(|of| (of.id, difference(of.all.values) / whole))
        .filter(|(_, part)| part.is_finite() && *part > PART)
        .max_by(|(_, one), (_, other)| one.total_cmp(other))
        .map(|(id, _)| id)
}

impl Candidate<'_> {
    /// Whether it changed by so much that it may be the cause of a difference of this sign.
    fn is_large(&self, whole: f64, changes: &Changes) -> bool {
        let Candidate { measured, by, .. } = self;
        let [good, bad] = by.per.per_unit(measured.tested);
        // As for everything else: with the common factor and without it.
        let is_large = |good: f64| {
            let difference = bad - good;
            difference * whole > 0.0
                && difference.abs() >= SHARE * changes.scale(by.per)
                && good.max(bad) >= TIMES * good.min(bad)
        };
        let errors = measured.errors.or(self.all.errors);
        matches!(
            measured.verdict,
            Some(Verdict::Noise | Verdict::Varies | Verdict::NotTested)
        ) && is_large(good)
            && is_large(by.factor * good)
            && errors.is_some_and(|errors| errors >= ERRORS)
    }
}
