//! Splits the totals of sessions that were too short to be sampled individually by the samples of all sessions of their
//! kind.
//!
//! A session is hit by samples in proportion to its time. So among all short sessions of a kind that ran in the same
//! second, every sample stands for the same time: their exact total divided by the number of their samples. This is the
//! usual ratio estimate; it is unbiased as long as samples do not decide whether a session gets into the pool
//! (`SampledAccount` decides by length alone). If sampled sessions kept their whole total instead, one of 50 ms would count
//! 100 times as much as one of 5 ms: it is hit ten times as often, and each time with ten times the time.
//!
//! Each session keeps its exact total. It gets the time of its own samples first, up to its total; the rest of the totals
//! is then filled, in order, with the time left over from the samples, and marked: it says what sessions of this kind did,
//! not what this one did. That keeps the rows few: at most one for each session, each distinct place, and each sample.

use std::collections::BTreeMap;

use dbtime_model::{
    ActivityRow, BackendType, Fidelity, NO_STACK, Rows, SessionId, SessionState, StackId, State, StateGroup,
    Wait, comment,
};

use super::sampled::SHORT_NS;
use super::{PATIENCE_NS, not_sampled};
use crate::held_locks::{HeldId, HeldLocks};

/// Delay from the start of a second until its totals are split: by then every session that was short in it has ended, and
/// the kernel's last events have arrived.
const SETTLED_AFTER_NS: u64 = 1_000_000_000 + SHORT_NS + 500_000_000;
const SECOND_US: i64 = 1_000_000;

/// What makes sessions alike.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kind {
    pub(crate) backend_type: BackendType,
    pub(crate) user: String,
    pub(crate) database: String,
}

/// What a session was found doing; the same for all time of a row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spent {
    pub(crate) wait: Wait,
    pub(crate) statement: u64,
    pub(crate) plan: i64,
    pub(crate) session_state: SessionState,
    pub(crate) state: State,
    pub(crate) kernel_stack: StackId,
    pub(crate) user_stack: StackId,
    pub(crate) held: HeldId,
    pub(crate) comment: u64,
}

impl Spent {
    /// The row for a second, with no time in it yet.
    pub(crate) fn row(&self, time: i64, session: SessionId) -> ActivityRow {
        ActivityRow {
            time,
            session,
            statement: self.statement,
            plan: self.plan,
            session_state: self.session_state,
            wait_class: self.wait.class.clone(),
            wait_event: self.wait.event.clone(),
            idle: self.wait.idle,
            state: self.state,
            kernel_stack: self.kernel_stack,
            user_stack: self.user_stack,
            comment: self.comment,
            ns: 0,
            count: 0,
            samples: 0,
            fidelity: Fidelity::Sampled,
            pooled: false,
        }
    }
}

/// A total of a session, and the samples that fell into it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    session: SessionId,
    /// Its own second, microseconds since the Unix epoch.
    second_us: i64,
    ns: u64,
    samples: BTreeMap<Spent, u64>,
}

/// A part of a session's total.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    session: SessionId,
    spent: Spent,
    ns: u64,
    samples: u64,
    pooled: bool,
}

/// Totals that wait for the end of their second.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    totals: BTreeMap<(i64, StateGroup, Kind), Vec<Entry>>,
    /// A total stays in its second, whether or not there is a sample of its kind.
    at_once: bool,
}

impl Pool {
    /// `at_once`: no total waits for a sample of its kind in a later second.
    pub(crate) fn new(at_once: bool) -> Pool {
        Pool {
            at_once,
            ..Pool::default()
        }
    }

    /// Takes a total of a session in this second (microseconds since the Unix epoch).
    pub(crate) fn add(
        &mut self,
        (session, kind): (SessionId, &Kind),
        second_us: i64,
        group: StateGroup,
        ns: u64,
        samples: BTreeMap<Spent, u64>,
    ) {
        let entries = self.totals.entry((second_us, group, kind.clone())).or_default();
        entries.push(Entry {
            session,
            second_us,
            ns,
            samples,
        });
    }

    /// Splits the totals of all seconds that are complete by this time (microseconds since the Unix epoch).
    pub(crate) fn settle(&mut self, now_us: i64, rows: &mut Rows, held: &HeldLocks) -> u64 {
        self.settle_before(now_us - (SETTLED_AFTER_NS / 1_000) as i64 + SECOND_US, rows, held)
    }

    /// The first second whose totals are still waiting, microseconds since the Unix epoch.
    pub(crate) fn first_us(&self) -> Option<i64> {
        self.totals.keys().next().map(|(second, ..)| *second)
    }

    /// Splits all totals: no more will come.
    pub(crate) fn finish(&mut self, rows: &mut Rows, held: &HeldLocks) -> u64 {
        self.settle_before(i64::MAX, rows, held)
    }

    /// Returns the number of samples behind the rows.
    fn settle_before(&mut self, before_us: i64, rows: &mut Rows, held: &HeldLocks) -> u64 {
        let mut samples = 0;
        while let Some(first) = self.totals.first_entry() {
            if first.key().0.saturating_add(SECOND_US) > before_us {
                break;
            }
            let ((second_us, group, kind), mut entries) = first.remove_entry();
            if entries.iter().all(|entry| entry.samples.is_empty()) {
                // They wait for samples of their kind in a later second, up to a limit.
                let patience_us = (PATIENCE_NS / 1_000) as i64;
                let next_us = match before_us {
                    _ if self.at_once => None,
                    i64::MAX => self.next_second_of(group, &kind, second_us),
                    _ => Some(second_us + SECOND_US),
                };
                let too_old = |entry: &Entry| next_us.is_none_or(|next| next - entry.second_us > patience_us);
                for entry in entries.extract_if(.., |entry| too_old(entry)) {
                    if entry.ns > 0 {
                        rows.activity.push(not_split(&entry, group));
                    }
                }
                if let (Some(next_us), false) = (next_us, entries.is_empty()) {
                    self.totals
                        .entry((next_us, group, kind))
                        .or_default()
                        .append(&mut entries);
                }
                continue;
            }
            for piece in divide(&entries) {
                samples += piece.samples;
                let of = (second_us, piece.session, &piece.spent);
                held.add_rows(of, piece.ns, piece.samples, &mut rows.held_locks);
                rows.activity.push(row(second_us, &piece));
            }
        }
        samples
    }

    fn next_second_of(&self, group: StateGroup, kind: &Kind, after_us: i64) -> Option<i64> {
        self.totals
            .keys()
            .find(|(second, of, kind_of)| *second > after_us && *of == group && kind_of == kind)
            .map(|(second, ..)| *second)
    }
}

fn row(time: i64, piece: &Piece) -> ActivityRow {
    ActivityRow {
        ns: piece.ns,
        samples: piece.samples,
        pooled: piece.pooled,
        ..piece.spent.row(time, piece.session)
    }
}

/// The row of a total whose kind got no sample.
fn not_split(entry: &Entry, group: StateGroup) -> ActivityRow {
    let piece = Piece {
        session: entry.session,
        spent: Spent {
            wait: Wait::not_sampled(),
            statement: 0,
            plan: 0,
            session_state: SessionState::None,
            state: not_sampled(group).state,
            kernel_stack: NO_STACK,
            user_stack: NO_STACK,
            held: HeldId::NONE,
            comment: not_sampled(group).comment,
        },
        ns: entry.ns,
        samples: 0,
        pooled: false,
    };
    ActivityRow {
        fidelity: Fidelity::Exact,
        ..row(entry.second_us, &piece)
    }
}

/// Divides the totals by all samples: the parts of an entry sum to its total, those of a place to the time that its
/// samples stand for. There is at least one sample.
fn divide(entries: &[Entry]) -> Vec<Piece> {
    let total: u64 = entries.iter().map(|entry| entry.ns).sum();
    let count: u64 = entries.iter().flat_map(|entry| entry.samples.values()).sum();
    // The time that each place's samples stand for, computed cumulatively so that nothing is lost to rounding.
    let mut places: BTreeMap<&Spent, Share> = BTreeMap::new();
    for (spent, &samples) in entries.iter().flat_map(|entry| &entry.samples) {
        places.entry(spent).or_default().samples += samples;
    }
    let mut counted = 0;
    for place in places.values_mut() {
        let before = part(total, counted, count);
        counted += place.samples;
        place.ns = part(total, counted, count) - before;
        place.left = place.ns;
    }

    let mut pieces = Vec::new();
    let mut left: Vec<u64> = entries.iter().map(|entry| entry.ns).collect();
    for (entry, left) in entries.iter().zip(&mut left) {
        let own: u64 = entry.samples.values().sum();
        let mut counted = 0;
        for (spent, &samples) in &entry.samples {
            let Some(place) = places.get_mut(spent) else {
                continue;
            };
            let of_total = part(entry.ns, counted + samples, own) - part(entry.ns, counted, own);
            let of_place = part(place.ns, place.taken + samples, place.samples)
                - part(place.ns, place.taken, place.samples);
            counted += samples;
            place.taken += samples;
            let ns = of_total.min(of_place);
            place.left -= ns;
            *left -= ns;
            pieces.push(Piece {
                session: entry.session,
                spent: spent.clone(),
                ns,
                samples,
                pooled: false,
            });
        }
    }
    // The same amount is left on both sides.
    let mut places = places.into_iter().filter(|(_, place)| place.left > 0);
    let mut place = places.next();
    for (entry, mut left) in entries.iter().zip(left) {
        while left > 0
            && let Some((spent, share)) = &mut place
        {
            let ns = left.min(share.left);
            left -= ns;
            share.left -= ns;
            pieces.push(Piece {
                session: entry.session,
                spent: Spent {
                    // Which requests others of its kind worked for says nothing about this session.
                    comment: spent.comment.min(comment::UNKNOWN),
                    ..(*spent).clone()
                },
                ns,
                samples: 0,
                pooled: true,
            });
            if share.left == 0 {
                place = places.next();
            }
        }
    }
    pieces
}

/// What the samples of a place stand for.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    samples: u64,
    ns: u64,
    /// Of `samples`, those whose sessions have been given their part.
    taken: u64,
    /// Of `ns`, what no session has got yet.
    left: u64,
}

/// The first `n` of `all` equal parts of a total.
fn part(total: u64, n: u64, all: u64) -> u64 {
    (u128::from(total) * u128::from(n) / u128::from(all.max(1))) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn spent(place: u64) -> Spent {
        Spent {
            wait: Wait::none(),
            statement: 0,
            plan: 0,
            session_state: SessionState::None,
            state: State::User,
            kernel_stack: NO_STACK,
            user_stack: StackId(place),
            held: HeldId::NONE,
            comment: comment::NONE,
        }
    }

    fn kind(user: &str) -> Kind {
        Kind {
            backend_type: BackendType(BackendType::CLIENT.into()),
            user: user.to_string(),
            database: String::new(),
        }
    }

    fn add(pool: &mut Pool, session: u64, user: &str, second: i64, ns: u64, samples: &[(u64, u64)]) {
        let samples = samples.iter().map(|&(place, count)| (spent(place), count));
        pool.add(
            (SessionId(session), &kind(user)),
            second * SECOND_US,
            StateGroup::OnCpu,
            ns,
            samples.collect(),
        );
    }

    fn finish(mut pool: Pool) -> Vec<ActivityRow> {
        let mut rows = Rows::default();
        pool.finish(&mut rows, &HeldLocks::default());
        rows.activity
    }

    fn sum(rows: &[ActivityRow], is: impl Fn(&ActivityRow) -> bool) -> u64 {
        rows.iter().filter(|row| is(row)).map(|row| row.ns).sum()
    }

    #[test]
    fn every_sample_stands_for_the_same_time() {
        let mut pool = Pool::default();
        add(&mut pool, 1, "a", 5, 10, &[(7, 1)]);
        add(&mut pool, 2, "a", 5, 30, &[(8, 1)]);
        add(&mut pool, 3, "a", 5, 60, &[]);
        // Another kind does not interfere.
        add(&mut pool, 4, "b", 5, 60, &[(9, 1)]);
        let rows = finish(pool);
        for (place, ns) in [(7, 50), (8, 50), (9, 60)] {
            assert_eq!(sum(&rows, |row| row.user_stack == StackId(place)), ns);
        }
        for (session, ns) in [(1, 10), (2, 30), (3, 60), (4, 60)] {
            assert_eq!(sum(&rows, |row| row.session == SessionId(session)), ns);
        }
        // What a session's own samples say about its own time is not pooled.
        assert_eq!(sum(&rows, |row| !row.pooled), 10 + 30 + 60);
        assert!(rows.iter().all(|row| !row.pooled || row.samples == 0));
    }

    #[test]
    fn totals_wait_for_a_sample_of_their_kind_and_are_not_sampled_then() {
        let mut pool = Pool::default();
        add(&mut pool, 1, "a", 5, 10, &[]);
        add(&mut pool, 2, "a", 9, 20, &[(7, 1)]);
        add(&mut pool, 3, "b", 5, 40, &[]);
        let mut rows = Rows::default();
        for now in 0..30 {
            pool.settle(now * SECOND_US, &mut rows, &HeldLocks::default());
        }
        let rows = rows.activity;
        assert_eq!(
            sum(&rows, |row| row.user_stack == StackId(7)
                && row.time == 9 * SECOND_US),
            30
        );
        assert_eq!(
            sum(&rows, |row| row.wait() == Wait::not_sampled()
                && row.time == 5 * SECOND_US),
            40
        );
        assert_eq!(rows.len(), 3);
    }

    #[test]
    fn a_second_is_not_split_before_all_of_its_short_sessions_have_ended() {
        let mut pool = Pool::default();
        add(&mut pool, 1, "a", 5, 10, &[(7, 1)]);
        let mut rows = Rows::default();
        // A session that began at the last moment of second 5 ends, if it is short, before second 7.
        pool.settle(7 * SECOND_US, &mut rows, &HeldLocks::default());
        assert!(rows.is_empty());
        pool.settle(8 * SECOND_US, &mut rows, &HeldLocks::default());
        assert_eq!(rows.activity.len(), 1);
    }

    /// Pseudorandom numbers, the same in every run (Knuth's linear congruential generator).
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % limit
        }
    }

    #[test]
    fn short_and_long_sessions_of_a_kind_get_what_they_did() {
        // Two kinds of work that look alike from outside: 5 ms at one place and 50 ms at another, equally often.
        const PERIOD: u64 = SECOND_NS / 99;
        let mut numbers = Numbers(1);
        let (mut found, mut true_short, mut all) = (0, 0, 0);
        for second in 0..400 {
            let mut pool = Pool::default();
            for session in 0..100 {
                let (place, ns) = if session % 2 == 0 {
                    (1, 5_000_000)
                } else {
                    (2, 50_000_000)
                };
                // The timer fires independently of the session.
                let first = numbers.below(PERIOD);
                let hits = if ns > first {
                    (ns - first).div_ceil(PERIOD)
                } else {
                    0
                };
                let samples: Vec<(u64, u64)> = (hits > 0).then_some((place, hits)).into_iter().collect();
                add(&mut pool, session, "a", second, ns, &samples);
                true_short += if place == 1 { ns } else { 0 };
                all += ns;
            }
            let rows = finish(pool);
            found += sum(&rows, |row| row.user_stack == StackId(1));
            assert_eq!(sum(&rows, |_| true), 50 * 55_000_000);
        }
        let (found, truth) = (found as f64 / all as f64, true_short as f64 / all as f64);
        // 400 × 50 × 0.495 samples at the place: the standard error is 1 % of the share.
        assert!((found / truth - 1.0).abs() < 0.03, "{found} instead of {truth}");
    }

    proptest! {
        #[test]
        fn totals_and_samples_are_conserved(
            entries in prop::collection::vec(
                (0u64..50, 0i64..12, 0u64..100_000_000,
                 prop::collection::vec((0u64..6, 1u64..5), 0..4)),
                1..60,
            )
        ) {
            let mut pool = Pool::default();
            let mut samples = BTreeMap::new();
            let mut totals = BTreeMap::new();
            for (session, second, ns, found) in &entries {
                let found: BTreeMap<u64, u64> = found.iter().copied().collect();
                let list: Vec<(u64, u64)> = found.into_iter().collect();
                add(&mut pool, *session, "a", *second, *ns, &list);
                *totals.entry(*session).or_insert(0) += ns;
                *samples.entry(*session).or_insert(0) += list.iter().map(|(_, count)| count).sum::<u64>();
            }
            let rows = finish(pool);
            for (session, ns) in totals {
                prop_assert_eq!(sum(&rows, |row| row.session == SessionId(session)), ns);
                let counted: u64 = rows.iter()
                    .filter(|row| row.session == SessionId(session))
                    .map(|row| row.samples)
                    .sum();
                prop_assert_eq!(counted, samples[&session]);
            }
        }

        #[test]
        fn a_place_gets_its_part_of_the_whole(
            entries in prop::collection::vec(
                (0u64..100_000_000, prop::collection::btree_map(0u64..6, 1u64..5, 0..4)), 1..40)
        ) {
            let entries: Vec<Entry> = entries.into_iter().enumerate().map(|(n, (ns, samples))| Entry {
                session: SessionId(n as u64),
                second_us: 0,
                ns,
                samples: samples.into_iter().map(|(place, count)| (spent(place), count)).collect(),
            }).collect();
            let count: u64 = entries.iter().flat_map(|entry| entry.samples.values()).sum();
            prop_assume!(count > 0);
            let total: u64 = entries.iter().map(|entry| entry.ns).sum();
            let pieces = divide(&entries);
            for place in 0..6 {
                let samples: u64 = entries.iter().filter_map(|entry| entry.samples.get(&spent(place))).sum();
                let ns: u64 = pieces.iter().filter(|p| p.spent == spent(place)).map(|p| p.ns).sum();
                let due = u128::from(total) * u128::from(samples) / u128::from(count);
                prop_assert!(u128::from(ns).abs_diff(due) <= 1);
            }
            let made = entries.iter().map(|entry| entry.samples.len() + 1).sum::<usize>() + 6;
            prop_assert!(pieces.len() <= made);
        }
    }
}
