//! How calls nest, and how the time of each call itself splits into waits, CPU and the rest.
//!
//! A trace says what ended: first the waits of a call and the calls made in it, then the call itself with its elapsed time `e` and its CPU
//! `c`, which include those of the calls made in it. So whatever ended is kept here until a call turns out to enclose it. A call holds the
//! waits as far as they are between its start (`tim − e`) and its end, and the deeper calls whose middle is: starts and ends are read from
//! the clock at slightly different moments.
//!
//! A call that no other one of the trace holds is an *outermost* call: one of depth 0, or a recursive one whose outer call is not in the
//! trace. Each call adds its own share when it ends, so the shares of a call and of all calls in it add up to what the outermost one says,
//! even if that never comes.

use super::events::EventId;
use super::record::CallKind;
use super::statements::{Callers, PlanKey};
use super::views::signed;

/// Waits, and calls, kept before neighbours are merged: bounds the memory of a trace without any call of depth 0.
const MAX_KEPT: usize = 1 << 16;

/// A wait that no call holds yet. Microseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeptWait {
    /// When it began and ended; none if the trace does not say when it ended: then it is in the next call of its cursor.
    pub when: Option<(u64, u64)>,
    /// The part of it that no call holds.
    pub us: u64,
    pub cursor: u64,
    pub line: u64,
    /// `SQL*Net message from client`.
    pub from_client: bool,
    /// An event that is between calls, by its name.
    pub between_calls: bool,
    /// The wait has no cursor: it was attributed to this one, the previous one.
    pub assumed_cursor: Option<u64>,
    /// What the application did, see [`super::session::TracedSession`].
    pub doing: u32,
    /// What it was counted as; none for merged waits.
    pub counted_as: Option<CountedAs>,
}

/// A wait as it was counted when it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CountedAs {
    pub event: EventId,
    /// The statement that its cursor stood for, and the plan by which it ran.
    pub by: PlanKey,
    pub blocks: u64,
    /// All of it, microseconds.
    pub us: u64,
    /// When it ended, microseconds since the Unix epoch.
    pub ended_us: i64,
}

impl KeptWait {
    /// A wait of the call's cursor from when it stood for another statement.
    #[inline]
    fn of_another(&self, call: &Ended) -> Option<CountedAs> {
        self.counted_as.filter(|counted| {
            call.kind != CallKind::Lob
                && self.cursor == call.cursor
                && counted.by.0 != call.statement
                && self.assumed_cursor.is_none()
                && !self.from_client
        })
    }
}

/// A call that ended, as the trace says it. Microseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    pub kind: CallKind,
    pub cursor: u64,
    pub statement: u64,
    /// None for a LOB call: it is in whatever call is around it.
    pub dep: Option<u32>,
    pub tim: u64,
    pub e: u64,
    pub c: u64,
}

/// What a call adds to sums over outermost calls: what it says, less what the calls in it have added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Added {
    /// `e` of PARSE, EXEC and FETCH.
    pub elapsed: i64,
    /// `c` of PARSE, EXEC and FETCH.
    pub cpu: i64,
    /// `c` of all calls but CLOSE.
    pub cpu_but_close: i64,
    /// Waits in PARSE, EXEC and FETCH, except those for the client's next message.
    pub waits: i64,
}

/// What is a call's own. Microseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Share {
    /// `e` less that of the calls in it.
    pub elapsed: i64,
    /// `c` less that of the calls in it.
    pub cpu: i64,
    /// What its waits and the calls in it leave of `e`: CPU or unaccounted.
    pub room: u64,
    /// Its own waits.
    pub waits: u64,
    /// By how much its waits and the calls in it exceed `e`.
    pub beyond: u64,
    /// See [`Added`].
    pub added: Added,
    /// Of its waits, those from a time in which the application did something else.
    pub waits_elsewhere: Vec<(u32, u64)>,
    /// Of its waits, those that were counted for its cursor's previous statement: a parse waits before the trace says what is parsed.
    pub waits_of_others: Vec<CountedAs>,
}

/// A call that no other one holds yet.
#[derive(Debug)]
struct KeptCall {
    begin: u64,
    end: u64,
    /// The least of what it was merged from; a LOB call is deeper than anything.
    dep: u32,
    e: u64,
    c: u64,
    total: Added,
    /// Waits in it, whatever its kind, except those for the client's next message.
    waits: i64,
    /// Calls and their elapsed time by depth and statement, of PARSE, EXEC and FETCH. Usually one.
    who: Vec<(u32, u64, Called)>,
}

/// Calls of a statement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Called {
    pub calls: u64,
    pub us: u64,
}

/// What has ended and is in no call yet.
#[derive(Debug)]
pub(super) struct Open {
    /// How far a start may be off, microseconds.
    slack: u64,
    waits: Vec<KeptWait>,
    calls: Vec<KeptCall>,
}

impl Open {
    /// `slack`: how far the start of a call may be off by the clock of the trace, microseconds.
    pub(super) fn new(slack: u64) -> Open {
        Open {
            slack,
            waits: Vec::new(),
            calls: Vec::new(),
        }
    }

    /// A wait ended.
    #[inline]
    pub(super) fn wait(&mut self, wait: KeptWait) {
        if self.waits.len() >= MAX_KEPT {
            self.merge_waits();
        }
        self.waits.push(wait);
    }

    /// A call ended: takes what is in it. `callers` is told which statements it called, `assumed` which waits turned out to be in no call
    /// of the cursor that they were attributed to.
    pub(super) fn call(
        &mut self,
        call: &Ended,
        doing: u32,
        callers: &mut Callers,
        assumed: impl FnMut(&KeptWait),
    ) -> Share {
        let begin = call.tim.saturating_sub(call.e);
        let mut share = Share::default();
        let (mut e_inside, mut c_inside) = (0u64, 0u64);
        let (mut before, mut waits) = (Added::default(), 0i64);
        // A short call cannot hold what is as far from it as it is long.
        let slack = self.slack.min(call.e / 2);
        let (first, last) = (begin.saturating_sub(slack), call.tim.saturating_add(slack));
        let from = self
            .calls
            .iter()
            .rposition(|kept| kept.end < first)
            .map_or(0, |at| at + 1);
        let holds = |kept: &KeptCall| {
            let middle = kept.begin + (kept.end - kept.begin) / 2;
            call.dep.is_none_or(|dep| kept.dep > dep) && (first..=last).contains(&middle)
        };
        for kept in self.calls.extract_if(from.., |kept| holds(kept)) {
            e_inside = e_inside.saturating_add(kept.e);
            c_inside = c_inside.saturating_add(kept.c);
            before = before.plus(kept.total);
            waits = waits.saturating_add(kept.waits);
            if let Some(dep) = call.dep.filter(|_| call.kind.is_parse_exec_fetch()) {
                // What is deeper still has no caller: the call in between is not in the trace.
                for (_, child, called) in kept.who.iter().filter(|(of, ..)| of.checked_sub(1) == Some(dep)) {
                    callers.add(*child, call.statement, *called);
                }
            }
        }
        let (inside, idle) = self.take_waits(call, begin, doing, &mut share, assumed);
        share.waits = inside;
        waits = waits.saturating_add(signed(inside - idle));
        let total = Added::of(call, before, waits);
        share.added = total.minus(before);
        share.elapsed = signed(call.e).saturating_sub(signed(e_inside));
        share.cpu = signed(call.c).saturating_sub(signed(c_inside));
        let used = share.waits.saturating_add(e_inside);
        share.room = call.e.saturating_sub(used);
        share.beyond = used.saturating_sub(call.e);
        if call.dep != Some(0) {
            self.keep(call, begin, total, waits);
        }
        share
    }

    /// How much of the waits is in a call, and how much of that is for the client's next message; the rest stays.
    fn take_waits(
        &mut self,
        call: &Ended,
        begin: u64,
        doing: u32,
        share: &mut Share,
        mut assumed: impl FnMut(&KeptWait),
    ) -> (u64, u64) {
        if let Some(taken) = self.take_whole_waits(call, begin, doing) {
            return taken;
        }
        let (mut inside, mut idle) = (0u64, 0u64);
        // Stops at the start of the call: otherwise the cost of many calls would be quadratic.
        let from = self
            .waits
            .iter()
            .rposition(|kept| kept.when.is_some_and(|(_, end)| end < begin));
        let from = from.map_or(0, |at| at + 1);
        self.waits
            .extract_if(from.., |kept| {
                let held = match &mut kept.when {
                    Some((from, to)) => {
                        let overlap = (*to)
                            .min(call.tim)
                            .saturating_sub((*from).max(begin))
                            .min(kept.us);
                        // What is left of it is before the call.
                        *to = begin.max(*from);
                        overlap
                    }
                    None if kept.between_calls => 0,
                    // A call of depth 0 holds whatever is not in a call of its own.
                    None if kept.cursor == call.cursor || call.dep == Some(0) => kept.us,
                    None => 0,
                };
                kept.us -= held;
                inside = inside.saturating_add(held);
                if kept.from_client {
                    idle = idle.saturating_add(held);
                }
                if held > 0 && kept.doing != doing {
                    share.waits_elsewhere.push((kept.doing, held));
                }
                if let Some(counted) = kept.of_another(call)
                    && held >= counted.us.div_ceil(2)
                {
                    share.waits_of_others.push(counted);
                }
                let is_gone = kept.us == 0 && kept.when.is_none_or(|(from, _)| from >= begin || held > 0);
                if is_gone && kept.assumed_cursor.is_some_and(|cursor| cursor != call.cursor) {
                    assumed(&KeptWait { us: held, ..*kept });
                }
                is_gone
            })
            .for_each(drop);
        (inside, idle)
    }

    /// The same if all of them are between start and end of the call, as is usual; otherwise none, and nothing is taken.
    fn take_whole_waits(&mut self, call: &Ended, begin: u64, doing: u32) -> Option<(u64, u64)> {
        let (mut inside, mut idle) = (0u64, 0u64);
        let mut from = self.waits.len();
        for kept in self.waits.iter().rev() {
            let (start, end) = kept.when?;
            if end < begin {
                break;
            }
            let is_whole = start >= begin && end <= call.tim && kept.us <= end.saturating_sub(start);
            if !is_whole
                || kept.doing != doing
                || kept.of_another(call).is_some()
                || kept.assumed_cursor.is_some_and(|cursor| cursor != call.cursor)
            {
                return None;
            }
            from -= 1;
            inside = inside.saturating_add(kept.us);
            if kept.from_client {
                idle = idle.saturating_add(kept.us);
            }
        }
        self.waits.truncate(from);
        Some((inside, idle))
    }

    fn keep(&mut self, call: &Ended, begin: u64, total: Added, waits: i64) {
        if self.calls.len() >= MAX_KEPT {
            self.merge_calls();
        }
        let dep = call.dep.unwrap_or(u32::MAX);
        let who = match call.dep.filter(|_| call.kind.is_parse_exec_fetch()) {
            Some(dep) => vec![(dep, call.statement, Called { calls: 1, us: call.e })],
            None => Vec::new(),
        };
        self.calls.push(KeptCall {
            begin,
            end: call.tim,
            dep,
            e: call.e,
            c: call.c,
            total,
            waits,
            who,
        });
    }

    /// Hands on the waits that no call holds, because the next call cannot hold them either. Returns the recursive calls that none
    /// holds.
    pub(super) fn leave(&mut self, mut waits: impl FnMut(&KeptWait)) -> Called {
        let (recursive, _) = self.recursive();
        self.calls.clear();
        self.waits.drain(..).for_each(|wait| waits(&wait));
        recursive
    }

    /// Recursive calls that no call holds yet, and the least depth of them.
    pub(super) fn recursive(&self) -> (Called, Option<u32>) {
        let mut all = Called::default();
        let mut least = None;
        for (dep, _, called) in self.calls.iter().flat_map(|kept| &kept.who) {
            all.add(*called);
            least = Some(least.map_or(*dep, |least: u32| least.min(*dep)));
        }
        (all, least)
    }

    /// Waits that no call holds yet, in the order of the trace.
    pub(super) fn waits(&self) -> &[KeptWait] {
        &self.waits
    }

    fn merge_waits(&mut self) {
        let merged = self.waits.chunks(2).map(|pair| {
            let (first, last) = (pair[0], pair[pair.len() - 1]);
            if pair.len() < 2 {
                return first;
            }
            KeptWait {
                when: match (first.when, last.when) {
                    (Some((from, to)), Some((other_from, other_to))) => {
                        Some((from.min(other_from), to.max(other_to)))
                    }
                    (one, other) => one.or(other),
                },
                us: first.us.saturating_add(last.us),
                from_client: first.from_client && last.from_client,
                between_calls: first.between_calls && last.between_calls,
                assumed_cursor: first.assumed_cursor.or(last.assumed_cursor),
                counted_as: None,
                ..last
            }
        });
        self.waits = merged.collect();
    }

    fn merge_calls(&mut self) {
        let mut merged: Vec<KeptCall> = Vec::with_capacity(self.calls.len() / 2 + 1);
        for (at, kept) in self.calls.drain(..).enumerate() {
            let Some(into) = merged.last_mut().filter(|_| at % 2 == 1) else {
                merged.push(kept);
                continue;
            };
            into.begin = into.begin.min(kept.begin);
            into.end = into.end.max(kept.end);
            into.dep = into.dep.min(kept.dep);
            into.e = into.e.saturating_add(kept.e);
            into.c = into.c.saturating_add(kept.c);
            into.total = into.total.plus(kept.total);
            into.waits = into.waits.saturating_add(kept.waits);
            into.who.extend(kept.who);
            into.who
                .sort_unstable_by_key(|(dep, statement, _)| (*dep, *statement));
            into.who.dedup_by(|next, kept| {
                let same = (next.0, next.1) == (kept.0, kept.1);
                if same {
                    kept.2.add(next.2);
                }
                same
            });
        }
        self.calls = merged;
    }
}

impl Added {
    /// What a call and all calls in it say, if those in it said `inside`, and the waits of all of them are `waits`.
    fn of(call: &Ended, inside: Added, waits: i64) -> Added {
        let cpu_but_close = match call.kind {
            CallKind::Close => inside.cpu_but_close,
            _ => signed(call.c),
        };
        if !call.kind.is_parse_exec_fetch() {
            return Added {
                cpu_but_close,
                ..inside
            };
        }
        Added {
            elapsed: signed(call.e),
            cpu: signed(call.c),
            cpu_but_close,
            waits,
        }
    }

    fn plus(self, other: Added) -> Added {
        Added {
            elapsed: self.elapsed.saturating_add(other.elapsed),
            cpu: self.cpu.saturating_add(other.cpu),
            cpu_but_close: self.cpu_but_close.saturating_add(other.cpu_but_close),
            waits: self.waits.saturating_add(other.waits),
        }
    }

    fn minus(self, other: Added) -> Added {
        Added {
            elapsed: self.elapsed.saturating_sub(other.elapsed),
            cpu: self.cpu.saturating_sub(other.cpu),
            cpu_but_close: self.cpu_but_close.saturating_sub(other.cpu_but_close),
            waits: self.waits.saturating_sub(other.waits),
        }
    }
}

impl Called {
    pub(super) fn add(&mut self, other: Called) {
        self.calls = self.calls.saturating_add(other.calls);
        self.us = self.us.saturating_add(other.us);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wait(tim: u64, us: u64) -> KeptWait {
        KeptWait {
            when: Some((tim.saturating_sub(us), tim)),
            us,
            cursor: 1,
            line: 1,
            from_client: false,
            between_calls: false,
            assumed_cursor: None,
            doing: 0,
            counted_as: None,
        }
    }

    fn exec(dep: u32, statement: u64, tim: u64, e: u64, c: u64) -> Ended {
        Ended {
            kind: CallKind::Exec,
            cursor: statement,
            statement,
            dep: Some(dep),
            tim,
            e,
            c,
        }
    }

    fn close(tim: u64, e: u64) -> Ended {
        Ended {
            kind: CallKind::Close,
            ..exec(0, 1, tim, e, 0)
        }
    }

    fn share_of(open: &mut Open, call: &Ended) -> Share {
        open.call(call, 0, &mut Callers::default(), |_| ())
    }

    fn left(open: &mut Open) -> Vec<u64> {
        let mut left = Vec::new();
        open.leave(|wait| left.push(wait.us));
        left
    }

    /// Own waits, room, beyond.
    fn parts(share: &Share) -> (u64, u64, u64) {
        (share.waits, share.room, share.beyond)
    }

    #[test]
    fn a_call_is_its_waits_and_the_rest() {
        let mut open = Open::new(10);
        open.wait(wait(500, 6_000)); // between calls
        open.wait(wait(1_300, 200));
        assert_eq!(
            parts(&share_of(&mut open, &exec(0, 1, 2_000, 1_000, 700))),
            (200, 800, 0)
        );
        assert_eq!(left(&mut open), [6_000]);
        assert_eq!(parts(&share_of(&mut open, &exec(0, 1, 2_010, 10, 0))), (0, 10, 0));
    }

    #[test]
    fn of_a_wait_that_began_before_the_call_only_the_part_inside_counts() {
        let mut open = Open::new(10);
        open.wait(wait(1_003, 6_000));
        assert_eq!(
            parts(&share_of(&mut open, &exec(0, 1, 2_000, 1_000, 10))),
            (3, 997, 0)
        );
        assert_eq!(left(&mut open), [5_997]);
    }

    #[test]
    fn untimed_waits_are_inside_the_next_call_of_their_cursor_unless_their_name_says_between() {
        let mut open = Open::new(10_000);
        let untimed = |cursor, us, between_calls| KeptWait {
            when: None,
            cursor,
            between_calls,
            ..wait(0, us)
        };
        open.wait(untimed(2, 30, false));
        open.wait(untimed(1, 7, false));
        open.wait(untimed(1, 5_000, true));
        assert_eq!(parts(&share_of(&mut open, &exec(1, 2, 100, 20, 5))), (30, 0, 10));
        assert_eq!(parts(&share_of(&mut open, &exec(0, 1, 200, 50, 5))), (7, 43, 0));
    }

    #[test]
    fn the_share_of_a_call_is_without_the_calls_in_it() {
        let mut open = Open::new(10);
        let mut callers = Callers::default();
        open.wait(wait(1_250, 100));
        let inner = open.call(&exec(1, 8, 1_300, 200, 90), 0, &mut callers, |_| ());
        assert_eq!(
            (inner.elapsed, inner.cpu, parts(&inner)),
            (200, 90, (100, 100, 0))
        );
        open.wait(wait(1_800, 50));
        let outer = open.call(&exec(0, 7, 2_000, 1_000, 300), 0, &mut callers, |_| ());
        assert_eq!(
            (outer.elapsed, outer.cpu, parts(&outer)),
            (800, 210, (50, 750, 0))
        );
        assert_eq!(inner.added.elapsed + outer.added.elapsed, 1_000);
        assert_eq!(inner.added.cpu + outer.added.cpu, 300);
        let mut told = Vec::new();
        callers.finish(|statement, caller| {
            told.push((statement, caller.statement, caller.calls, caller.elapsed_us))
        });
        assert_eq!(told, [(8, 7, 1, 200)]);
    }

    #[test]
    fn a_call_holds_only_what_lies_in_its_time() {
        let mut open = Open::new(10);
        let mut callers = Callers::default();
        let lost = open.call(&exec(1, 8, 1_300, 200, 90), 0, &mut callers, |_| ());
        let closed = open.call(&close(1_305, 3), 0, &mut callers, |_| ());
        assert_eq!((closed.elapsed, closed.added.elapsed), (3, 0));
        assert_eq!(
            lost.added,
            Added {
                elapsed: 200,
                cpu: 90,
                cpu_but_close: 90,
                waits: 0
            }
        );
        assert_eq!(open.leave(|_| ()), Called { calls: 1, us: 200 });
        callers.finish(|statement, _| panic!("{statement} was called by nobody who is known"));
    }

    #[test]
    fn a_lob_call_inside_a_call_is_not_counted_twice() {
        let mut open = Open::new(10);
        let lob = |tim, e, c| Ended {
            kind: CallKind::Lob,
            dep: None,
            ..exec(0, 0, tim, e, c)
        };
        assert_eq!(share_of(&mut open, &lob(1_500, 100, 60)).room, 100);
        let around = share_of(&mut open, &exec(0, 1, 2_000, 1_000, 80));
        assert_eq!((around.cpu, around.room), (20, 900));
        share_of(&mut open, &lob(2_500, 100, 60));
        let behind = share_of(&mut open, &exec(0, 1, 3_000, 400, 80));
        assert_eq!((behind.cpu, behind.room), (80, 400));
    }

    #[test]
    fn memory_is_bounded_and_sums_are_kept() {
        let mut open = Open::new(10);
        let mut callers = Callers::default();
        const CALLS: u64 = 300_000;
        let mut elapsed = 0;
        for n in 0..CALLS {
            open.wait(wait(20 * n + 10, 10));
            elapsed += open
                .call(&exec(2, n % 3 + 1, 20 * n + 20, 5, 2), 0, &mut callers, |_| ())
                .elapsed;
        }
        assert!(open.waits.len() <= MAX_KEPT && open.calls.len() <= MAX_KEPT);
        let end = 20 * CALLS;
        let outer = open.call(&exec(1, 9, end, end, 2 * CALLS + 7), 0, &mut callers, |_| ());
        assert_eq!((outer.waits, outer.cpu), (10 * CALLS, 7));
        assert_eq!(elapsed + outer.elapsed, signed(end));
        let mut calls = 0;
        callers.finish(|_, caller| calls += caller.calls);
        assert_eq!(calls, CALLS);
    }

    proptest! {
        /// Whatever calls and waits there are: what a call holds, and what it leaves, is all there was.
        #[test]
        fn shares_add_up_to_the_outermost_calls(
            lines in prop::collection::vec((any::<bool>(), 0..4u32, 0..50u64, 0..200u64, 0..200u64), 1..80)
        ) {
            let mut open = Open::new(10);
            let (mut now, mut waited, mut held, mut left) = (10_000u64, 0u64, 0u64, 0u64);
            let (mut rooms, mut beyond, mut added, mut own) = (0i64, 0i64, 0i64, 0i64);
            let mut callers = Callers::default();
            for (is_wait, dep, step, us, c) in lines {
                now += step;
                if is_wait {
                    waited += us;
                    open.wait(wait(now, us));
                    continue;
                }
                let share = open.call(&exec(dep, 1, now, us, c), 0, &mut callers, |_| ());
                held += share.waits;
                rooms += signed(share.room);
                beyond += signed(share.beyond);
                added += share.added.elapsed;
                own += share.elapsed;
                if dep == 0 {
                    open.leave(|wait| left += wait.us);
                }
            }
            open.leave(|wait| left += wait.us);
            prop_assert_eq!(held + left, waited);
            prop_assert_eq!(signed(held) + rooms - beyond, own);
            prop_assert_eq!(own, added);
        }
    }
}
