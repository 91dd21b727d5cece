//! Periods that no line covers.

use super::views::signed;
use dbtime_model::recording::TraceGap;

/// Shorter ones are not worth mentioning: writing the trace takes time too.
const SHORTEST_US: u64 = 1_000_000;

/// Gaps whose place is kept.
const KEPT: usize = 10;

/// Gaps that a call may still turn out to cover; more than these are damage.
const MAX_OPEN: usize = 4_096;

/// A gap, microseconds of the clock of the trace.
#[derive(Debug, Clone, Copy)]
struct Gap {
    from: u64,
    to: u64,
    line: u64,
}

/// Gaps of one session. Lines say what ended: only the call around them shows whether the time between two of them was part of it.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    covered_until: Option<u64>,
    open: Vec<Gap>,
    longest: Vec<Gap>,
    pub(super) count: u64,
    pub(super) us: u64,
}

impl Gaps {
    /// A line covers `us` that ended at `tim`.
    #[inline]
    pub(super) fn told(&mut self, tim: u64, us: u64, line: u64) {
        let begin = tim.saturating_sub(us);
        if let Some(until) = self.covered_until
            && begin.saturating_sub(until) >= SHORTEST_US
        {
            if self.open.len() >= MAX_OPEN {
                self.settle();
            }
            self.open.push(Gap {
                from: until,
                to: begin,
                line,
            });
        }
        self.covered_until = Some(self.covered_until.map_or(tim, |until| until.max(tim)));
    }

    /// A call of depth 0 ended: what is inside of it is not a gap, what is before it is.
    pub(super) fn call(&mut self, tim: u64, us: u64, line: u64) {
        self.told(tim, us, line);
        if self.open.is_empty() {
            return;
        }
        let begin = tim.saturating_sub(us);
        self.open.retain_mut(|gap| {
            gap.to = gap.to.min(begin);
            gap.to.saturating_sub(gap.from) >= SHORTEST_US
        });
        self.settle();
    }

    fn settle(&mut self) {
        for gap in self.open.drain(..) {
            let us = gap.to - gap.from;
            self.count += 1;
            self.us = self.us.saturating_add(us);
            self.longest.push(gap);
        }
        self.longest
            .sort_by_key(|gap| (std::cmp::Reverse(gap.to - gap.from), gap.line));
        self.longest.truncate(KEPT);
    }

    /// The trace has ended: returns the longest ones, with their start moved by `offset_us`.
    pub(super) fn finish(&mut self, session: &str, offset_us: i64) -> Vec<TraceGap> {
        self.settle();
        let told = self.longest.iter().map(|gap| TraceGap {
            line: gap.line,
            session: session.to_string(),
            from_us: offset_us.saturating_add(signed(gap.from)),
            us: gap.to - gap.from,
        });
        told.collect()
    }
}

/// The longest gaps of several sessions, the longest first.
pub(super) fn longest(mut gaps: Vec<TraceGap>) -> Vec<TraceGap> {
    gaps.sort_by_key(|gap| (std::cmp::Reverse(gap.us), gap.line));
    gaps.truncate(KEPT);
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_a_call_is_no_gap_and_what_lies_before_it_is() {
        let mut gaps = Gaps::default();
        gaps.told(1_000_000, 5, 1);
        gaps.told(4_000_000, 100_000, 2); // 2.9 s before it
        gaps.told(9_000_000, 0, 3); // 5 s before it
        gaps.call(9_500_000, 5_000_000, 4); // begins at 4.5 s
        assert_eq!((gaps.count, gaps.us), (1, 2_900_000));
        gaps.told(20_000_000, 9_600_000, 5); // 0.9 s before it
        gaps.told(22_000_000, 0, 6);
        let longest = gaps.finish("1.2", 7);
        assert_eq!((gaps.count, gaps.us), (2, 4_900_000));
        assert_eq!(
            (longest[0].line, longest[0].us, longest[0].from_us),
            (2, 2_900_000, 1_000_007)
        );
        assert_eq!((longest[1].line, longest[1].us), (6, 2_000_000));
    }
}
