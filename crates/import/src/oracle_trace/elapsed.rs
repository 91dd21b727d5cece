//! How the time of a call splits into waits, CPU and the rest.
//!
//! A trace says what ended: first the waits of a call, then the call with its elapsed time `e` and its CPU `c`.
//! Waits that ended since the call before are kept until the next call of depth 0 comes; what of them lies
//! between its begin (`tim − e`) and its end is inside the call, the rest is between calls.

/// A stretch of time that has its rows already.
#[derive(Debug, Clone, Copy)]
struct Span {
    begin: u64,
    end: u64,
    us: u64,
    /// Of `us`, CPU: a LOB call inside a later call.
    cpu: u64,
}

/// Spans kept before neighbours are merged: bounds the memory of a trace without any call of depth 0.
const MAX_SPANS: usize = 1 << 16;

/// What has ended since the last call of depth 0. Microseconds.
#[derive(Debug, Default)]
pub(super) struct Open {
    spans: Vec<Span>,
    /// Waits inside the coming call that do not say when they ended.
    untimed: u64,
}

/// A call of depth 0. Microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Split {
    /// CPU for which the waits leave room.
    pub cpu: u64,
    /// CPU for which they do not: it was burnt inside them.
    pub cpu_inside_waits: u64,
    /// Neither CPU nor wait.
    pub unaccounted: u64,
    /// Waits that are longer than the call they are in.
    pub waits_beyond: u64,
}

impl Open {
    /// A wait that ended at `tim`.
    pub(super) fn wait(&mut self, tim: u64, us: u64) {
        self.push(Span {
            begin: tim.saturating_sub(us),
            end: tim,
            us,
            cpu: 0,
        });
    }

    /// A wait that does not say when it ended.
    pub(super) fn wait_untimed(&mut self, us: u64, between_calls: bool) {
        if !between_calls {
            self.untimed = self.untimed.saturating_add(us);
        }
    }

    /// A call of depth 0 ended: everything before it is settled.
    pub(super) fn call(&mut self, tim: u64, e: u64, c: u64) -> Split {
        let split = self.split(tim, e, c, self.spans.iter());
        self.spans.clear();
        self.untimed = 0;
        split
    }

    /// A LOB call ended. It does not say its depth: a later call may turn out to have been around it.
    pub(super) fn lob_call(&mut self, tim: u64, e: u64, c: u64) -> Split {
        let begin = tim.saturating_sub(e);
        // Nothing is settled by it, so only the last spans are looked at, or many LOB calls would cost their square.
        let recent = self.spans.iter().rev().take_while(|span| span.end > begin);
        let split = self.split(tim, e, c, recent);
        self.push(Span {
            begin,
            end: tim,
            us: split.cpu + split.unaccounted,
            cpu: split.cpu,
        });
        split
    }

    fn split<'a>(&self, tim: u64, e: u64, c: u64, spans: impl Iterator<Item = &'a Span>) -> Split {
        let begin = tim.saturating_sub(e);
        let (mut inside, mut cpu_had) = (self.untimed, 0u64);
        for span in spans {
            let overlap = span.end.min(tim).saturating_sub(span.begin.max(begin));
            inside = inside.saturating_add(span.us.min(overlap));
            cpu_had = cpu_had.saturating_add(span.cpu.min(overlap));
        }
        let c = c.saturating_sub(cpu_had);
        let room = e.saturating_sub(inside);
        let cpu = c.min(room);
        Split {
            cpu,
            cpu_inside_waits: c - cpu,
            unaccounted: room - cpu,
            waits_beyond: inside.saturating_sub(e),
        }
    }

    fn push(&mut self, span: Span) {
        if self.spans.len() >= MAX_SPANS {
            let merged = self.spans.chunks(2).map(|pair| {
                let last = pair[pair.len() - 1];
                let sum = |of: fn(&Span) -> u64| pair.iter().map(of).fold(0, u64::saturating_add);
                Span {
                    begin: pair[0].begin.min(last.begin),
                    end: pair[0].end.max(last.end),
                    us: sum(|span| span.us),
                    cpu: sum(|span| span.cpu),
                }
            });
            self.spans = merged.collect();
        }
        self.spans.push(span);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(cpu: u64, cpu_inside_waits: u64, unaccounted: u64, waits_beyond: u64) -> Split {
        Split {
            cpu,
            cpu_inside_waits,
            unaccounted,
            waits_beyond,
        }
    }

    #[test]
    fn a_call_is_its_waits_its_cpu_and_the_rest() {
        let mut open = Open::default();
        open.wait(500, 6_000); // between calls
        open.wait(1_300, 200);
        assert_eq!(open.call(2_000, 1_000, 700), split(700, 0, 100, 0));
        assert_eq!(open.call(2_010, 10, 0), split(0, 0, 10, 0), "the wait is settled");
    }

    #[test]
    fn cpu_that_the_waits_leave_no_room_for_was_inside_them() {
        let mut open = Open::default();
        open.wait(1_900, 900);
        assert_eq!(open.call(2_000, 1_000, 450), split(100, 350, 0, 0));
    }

    #[test]
    fn of_a_wait_that_began_before_the_call_only_the_part_inside_counts() {
        let mut open = Open::default();
        open.wait(1_003, 6_000);
        assert_eq!(open.call(2_000, 1_000, 10), split(10, 0, 987, 0));
    }

    #[test]
    fn untimed_waits_are_inside_the_next_call_unless_their_name_says_between() {
        let mut open = Open::default();
        open.wait_untimed(30, false);
        open.wait_untimed(5_000, true);
        assert_eq!(open.call(100, 20, 5), split(0, 5, 0, 10));
    }

    #[test]
    fn a_lob_call_inside_a_call_is_not_counted_twice() {
        let mut open = Open::default();
        assert_eq!(open.lob_call(1_500, 100, 60), split(60, 0, 40, 0));
        assert_eq!(open.call(2_000, 1_000, 80), split(20, 0, 880, 0));
        assert_eq!(open.lob_call(2_500, 100, 60), split(60, 0, 40, 0));
        assert_eq!(
            open.call(3_000, 400, 80),
            split(80, 0, 320, 0),
            "it was before the call"
        );
    }

    #[test]
    fn memory_is_bounded_and_the_sum_of_the_waits_kept() {
        let mut open = Open::default();
        for n in 0..1_000_000 {
            open.wait(10 * n + 10, 10);
        }
        assert!(open.spans.len() <= MAX_SPANS);
        assert_eq!(open.call(10_000_000, 10_000_000, 7), split(0, 7, 0, 0));
    }
}
