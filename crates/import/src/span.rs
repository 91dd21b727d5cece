//! From the start of the first thing in a file to the end of the last one.

/// Moments in any unit; none until something is added.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Span(Option<(i64, i64)>);

impl Span {
    /// Adds something that lasted from `from` to `to`.
    pub(crate) fn add(&mut self, from: i64, to: i64) {
        let (first, last) = self.0.unwrap_or((from, to));
        self.0 = Some((first.min(from), last.max(to)));
    }

    /// Its start and end.
    pub(crate) fn ends(self) -> Option<(i64, i64)> {
        self.0
    }

    /// The microseconds around it, if it is in nanoseconds.
    pub(crate) fn us_of_ns(self) -> Option<(i64, i64)> {
        let us = |ns: i64| ns.div_euclid(1_000);
        self.0
            .map(|(first, last)| (us(first), us(last).saturating_add(1)))
    }
}
