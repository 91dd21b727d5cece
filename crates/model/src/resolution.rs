//! Merges rows of single seconds into rows of longer windows: for recordings that go on for days.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

use foldhash::fast::RandomState;

use crate::{ActivityRow, CauseRow, CounterRow, HeldLockRow, LatencyRow, LockRow, Rows, SessionId, Timed};

const SECOND_US: i64 = 1_000_000;
/// Rows of a second may come even later. They are no less correct then: their window has two rows instead of one.
const STRAGGLERS_US: i64 = 4 * SECOND_US;

/// Adds up rows that differ only in their second, window by window. Nothing is lost: sums stay the same.
///
/// A window begins at a multiple of its length since the Unix epoch, and its rows have the time of its beginning.
#[derive(Debug)]
pub struct Windows {
    length_us: i64,
    /// Rows of earlier seconds are passed on as they are.
    begin_us: i64,
    activity: Sums<ActivityRow>,
    counters: Sums<CounterRow>,
    latency: Sums<LatencyRow>,
    causes: Sums<CauseRow>,
    held_locks: Sums<HeldLockRow>,
    locks: Sums<LockRow>,
}

impl Windows {
    /// Windows of so many seconds (1 = rows stay as they are), for rows from `begin_us` on (microseconds since the Unix epoch): what
    /// was recorded before keeps its seconds, and is passed on at once.
    pub fn new(seconds: u32, begin_us: i64) -> Windows {
        let length_us = i64::from(seconds.max(1)) * SECOND_US;
        Windows {
            length_us,
            begin_us: begin_us
                .div_euclid(length_us)
                .saturating_add(1)
                .saturating_mul(length_us),
            activity: Sums::default(),
            counters: Sums::default(),
            latency: Sums::default(),
            causes: Sums::default(),
            held_locks: Sums::default(),
            locks: Sums::default(),
        }
    }

    /// Takes rows, and returns those of windows that are over at `now_us`.
    pub fn pass(&mut self, mut rows: Rows, now_us: i64) -> Rows {
        if self.length_us == SECOND_US {
            return rows;
        }
        let (length_us, begin_us) = (self.length_us, self.begin_us);
        rows.activity = self.activity.take(rows.activity, length_us, begin_us);
        rows.counters = self.counters.take(rows.counters, length_us, begin_us);
        rows.latency = self.latency.take(rows.latency, length_us, begin_us);
        rows.causes = self.causes.take(rows.causes, length_us, begin_us);
        rows.held_locks = self.held_locks.take(rows.held_locks, length_us, begin_us);
        rows.locks = self.locks.take(rows.locks, length_us, begin_us);
        let over = |time: i64| time + length_us + STRAGGLERS_US <= now_us;
        self.hand_on(over, &mut rows);
        rows
    }

    /// Returns what is left.
    pub fn finish(&mut self) -> Rows {
        let mut rows = Rows::default();
        self.hand_on(|_| true, &mut rows);
        rows
    }

    fn hand_on(&mut self, is_over: impl Fn(i64) -> bool, rows: &mut Rows) {
        rows.activity.append(&mut self.activity.hand_on(&is_over));
        rows.counters.append(&mut self.counters.hand_on(&is_over));
        rows.latency.append(&mut self.latency.hand_on(&is_over));
        rows.causes.append(&mut self.causes.hand_on(&is_over));
        rows.held_locks.append(&mut self.held_locks.hand_on(&is_over));
        rows.locks.append(&mut self.locks.hand_on(&is_over));
    }
}

/// Sums up rows as they come, as if they were of one moment: for when only sums are wanted, not times.
#[derive(Debug, Default)]
pub struct OneWindow {
    activity: Sums<ActivityRow>,
    counters: Sums<CounterRow>,
    latency: Sums<LatencyRow>,
    held_locks: Sums<HeldLockRow>,
    locks: Sums<LockRow>,
}

impl OneWindow {
    /// Adds rows of the tables that are summed here (`activity`, `counters`, `latency`, `held_locks`, `locks`); their times are left
    /// alone, so rows of different seconds must be given the same time first. Beyond `most` sums no further one is begun: the rows
    /// that would need one are returned.
    pub fn add(&mut self, rows: Rows, most: usize) -> Rows {
        let mut room = most.saturating_sub(self.len());
        Rows {
            activity: self.activity.add(rows.activity, &mut room),
            counters: self.counters.add(rows.counters, &mut room),
            latency: self.latency.add(rows.latency, &mut room),
            held_locks: self.held_locks.add(rows.held_locks, &mut room),
            locks: self.locks.add(rows.locks, &mut room),
            ..Rows::default()
        }
    }

    /// Sums so far.
    pub fn len(&self) -> usize {
        self.activity.len()
            + self.counters.len()
            + self.latency.len()
            + self.held_locks.len()
            + self.locks.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sessions of the sums; those with several more than once.
    pub fn sessions(&self) -> impl Iterator<Item = SessionId> {
        let activity = self.activity.sessions();
        let counters = self.counters.sessions();
        let latency = self.latency.sessions();
        let held_locks = self.held_locks.sessions();
        let locks = self.locks.sessions();
        activity
            .chain(counters)
            .chain(latency)
            .chain(held_locks)
            .chain(locks)
    }

    /// The sums.
    pub fn finish(self) -> Rows {
        Rows {
            activity: self.activity.finish(),
            counters: self.counters.finish(),
            latency: self.latency.finish(),
            held_locks: self.held_locks.finish(),
            locks: self.locks.finish(),
            ..Rows::default()
        }
    }
}

/// A row whose amounts can be added up.
trait Summable: Timed + Eq + Hash {
    /// What is added up.
    type Amounts: Copy + std::fmt::Debug;
    /// Takes the amounts out of the row: rows are added up if what is left is equal.
    fn take(&mut self) -> Self::Amounts;
    /// Puts these amounts into a row without amounts.
    fn put(&mut self, amounts: Self::Amounts);
    /// Adds other amounts to these.
    fn add(amounts: &mut Self::Amounts, other: Self::Amounts);
    /// The order in which rows of a session in a window take the least room on disk.
    fn order(&self) -> impl Ord;
}

impl Summable for ActivityRow {
    /// Nanoseconds, events, samples.
    type Amounts = [u64; 3];

    fn take(&mut self) -> [u64; 3] {
        [&mut self.ns, &mut self.count, &mut self.samples].map(std::mem::take)
    }

    fn put(&mut self, amounts: [u64; 3]) {
        [self.ns, self.count, self.samples] = amounts;
    }

    fn add(amounts: &mut [u64; 3], other: [u64; 3]) {
        add_each(amounts, other);
    }

    /// Two of three rows of a busy session rest on one sample, and those of the same second and state have the same `ns`.
    fn order(&self) -> impl Ord {
        (self.state, self.samples, self.ns)
    }
}

impl Summable for CounterRow {
    type Amounts = i64;

    fn take(&mut self) -> i64 {
        std::mem::take(&mut self.value)
    }

    fn put(&mut self, value: i64) {
        self.value = value;
    }

    fn add(value: &mut i64, other: i64) {
        *value = value.saturating_add(other);
    }

    /// As they come.
    fn order(&self) -> impl Ord {}
}

impl Summable for LatencyRow {
    /// Events, their sum, the longest and the shortest of them.
    type Amounts = [u64; 4];

    fn take(&mut self) -> [u64; 4] {
        [
            &mut self.count,
            &mut self.sum_ns,
            &mut self.max_ns,
            &mut self.min_ns,
        ]
        .map(std::mem::take)
    }

    fn put(&mut self, amounts: [u64; 4]) {
        [self.count, self.sum_ns, self.max_ns, self.min_ns] = amounts;
    }

    fn add([count, sum_ns, max_ns, min_ns]: &mut [u64; 4], other: [u64; 4]) {
        *count = count.saturating_add(other[0]);
        *sum_ns = sum_ns.saturating_add(other[1]);
        *max_ns = other[2].max(*max_ns);
        // 0 = not recorded in one of them: then the shortest of both is not known.
        *min_ns = other[3].min(*min_ns);
    }

    /// As they come.
    fn order(&self) -> impl Ord {}
}

impl Summable for CauseRow {
    type Amounts = u64;

    fn take(&mut self) -> u64 {
        std::mem::take(&mut self.samples)
    }

    fn put(&mut self, samples: u64) {
        self.samples = samples;
    }

    fn add(samples: &mut u64, other: u64) {
        *samples = samples.saturating_add(other);
    }

    /// As they come.
    fn order(&self) -> impl Ord {}
}

impl Summable for HeldLockRow {
    /// Nanoseconds, samples, how often it was acquired.
    type Amounts = [u64; 3];

    fn take(&mut self) -> [u64; 3] {
        [&mut self.ns, &mut self.samples, &mut self.gets].map(std::mem::take)
    }

    fn put(&mut self, amounts: [u64; 3]) {
        [self.ns, self.samples, self.gets] = amounts;
    }

    fn add(amounts: &mut [u64; 3], other: [u64; 3]) {
        add_each(amounts, other);
    }

    /// As they come.
    fn order(&self) -> impl Ord {}
}

impl Summable for LockRow {
    /// Nanoseconds, looks, the longest.
    type Amounts = [u64; 3];

    fn take(&mut self) -> [u64; 3] {
        [&mut self.ns, &mut self.looks, &mut self.longest_ns].map(std::mem::take)
    }

    fn put(&mut self, amounts: [u64; 3]) {
        [self.ns, self.looks, self.longest_ns] = amounts;
    }

    fn add([ns, looks, longest_ns]: &mut [u64; 3], other: [u64; 3]) {
        *ns = ns.saturating_add(other[0]);
        *looks = looks.saturating_add(other[1]);
        *longest_ns = other[2].max(*longest_ns);
    }

    /// As they come.
    fn order(&self) -> impl Ord {}
}

fn add_each(amounts: &mut [u64; 3], other: [u64; 3]) {
    for (amount, other) in amounts.iter_mut().zip(other) {
        *amount = amount.saturating_add(other);
    }
}

/// Rows of open windows, each distinct one once: thousands of rows come and go each second, and are never copied.
#[derive(Debug)]
struct Sums<R: Summable> {
    /// Rows without amounts, and where their amounts are. The hash has a random seed: names cannot be chosen to collide.
    places: HashMap<R, usize, RandomState>,
    amounts: Vec<R::Amounts>,
}

impl<R: Summable> Default for Sums<R> {
    fn default() -> Sums<R> {
        Sums {
            places: HashMap::default(),
            amounts: Vec::new(),
        }
    }
}

impl<R: Summable> Sums<R> {
    fn len(&self) -> usize {
        self.places.len()
    }

    fn sessions(&self) -> impl Iterator<Item = SessionId> {
        self.places.keys().map(Timed::session)
    }

    /// Takes the rows that belong to windows; returns the others.
    fn take(&mut self, rows: Vec<R>, length_us: i64, begin_us: i64) -> Vec<R> {
        let mut others = Vec::new();
        let mut room = usize::MAX;
        for mut row in rows {
            if row.time() < begin_us {
                others.push(row);
                continue;
            }
            row.set_time(row.time().div_euclid(length_us) * length_us);
            self.add_row(row, &mut room);
        }
        others
    }

    /// `room`: sums that may be begun. Returns the rows for which there was none.
    fn add(&mut self, rows: Vec<R>, room: &mut usize) -> Vec<R> {
        rows.into_iter()
            .filter_map(|row| self.add_row(row, room))
            .collect()
    }

    /// The same for one row.
    fn add_row(&mut self, mut row: R, room: &mut usize) -> Option<R> {
        let amounts = row.take();
        if *room == 0 && !self.places.contains_key(&row) {
            row.put(amounts);
            return Some(row);
        }
        match self.places.entry(row) {
            Entry::Occupied(known) => R::add(&mut self.amounts[*known.get()], amounts),
            Entry::Vacant(place) => {
                *room -= 1;
                place.insert(self.amounts.len());
                self.amounts.push(amounts);
            }
        }
        None
    }

    /// All rows with their amounts, in the order in which they came.
    fn finish(self) -> Vec<R> {
        let mut rows: Vec<(usize, R)> = self.places.into_iter().map(|(row, place)| (place, row)).collect();
        rows.sort_unstable_by_key(|(place, _)| *place);
        let with_amounts = rows.into_iter().zip(self.amounts).map(|((_, mut row), amounts)| {
            row.put(amounts);
            row
        });
        with_amounts.collect()
    }

    /// Session by session: similar rows are next to each other, and take less room on disk.
    fn hand_on(&mut self, is_over: &impl Fn(i64) -> bool) -> Vec<R> {
        if !self.places.keys().any(|row| is_over(row.time())) {
            return Vec::new();
        }
        let (mut over, open): (Vec<R>, Vec<R>) = std::mem::take(self)
            .finish()
            .into_iter()
            .partition(|row| is_over(row.time()));
        let mut room = usize::MAX;
        self.add(open, &mut room);
        over.sort_by(|one, other| {
            let place = |row: &R| (row.time(), row.session());
            place(one)
                .cmp(&place(other))
                .then_with(|| one.order().cmp(&other.order()))
        });
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fidelity, NO_STACK, State};

    fn row(second: i64, session: u64, ns: u64) -> ActivityRow {
        ActivityRow {
            time: second * SECOND_US,
            session: SessionId(session),
            statement: 0,
            plan: 0,
            wait_class: "CPU".into(),
            wait_event: "CPU".into(),
            idle: false,
            state: State::User,
            kernel_stack: NO_STACK,
            user_stack: NO_STACK,
            comment: 0,
            ns,
            count: 1,
            samples: 2,
            fidelity: Fidelity::Sampled,
            pooled: false,
            session_state: crate::SessionState::None,
        }
    }

    fn activity(rows: Vec<ActivityRow>) -> Rows {
        Rows {
            activity: rows,
            ..Rows::default()
        }
    }

    #[test]
    fn rows_of_a_window_become_one_and_sums_stay() {
        let mut windows = Windows::new(10, 99 * SECOND_US);
        let (mut found, mut put_in) = (Vec::new(), 0);
        for second in 90..135 {
            let rows = activity(vec![row(second, 1, 7), row(second, 2, 5), row(second, 1, 3)]);
            put_in += 15;
            found.append(&mut windows.pass(rows, (second + 1) * SECOND_US).activity);
        }
        found.append(&mut windows.finish().activity);
        assert_eq!(found.iter().map(|row| row.ns).sum::<u64>(), put_in);
        assert_eq!(found.iter().map(|row| row.samples).sum::<u64>(), 45 * 6);
        // Ten seconds as they were, then windows at 100, 110, 120, 130 of two sessions.
        let later: Vec<_> = found.iter().filter(|row| row.time >= 100 * SECOND_US).collect();
        let stand_in: Vec<_> = later
            .iter()
            .map(|row| (row.time / SECOND_US, row.session.0, row.ns))
            .collect();
        assert_eq!(
            stand_in,
            [
                (100, 1, 100),
                (100, 2, 50),
                (110, 1, 100),
                (110, 2, 50),
                (120, 1, 100),
                (120, 2, 50),
                (130, 1, 50),
                (130, 2, 25)
            ]
        );
        assert_eq!(found.len() - later.len(), 10 * 3);
    }

    #[test]
    fn a_window_is_handed_on_when_it_is_over_and_a_straggler_is_not_lost() {
        let mut windows = Windows::new(10, 0);
        assert!(
            windows
                .pass(activity(vec![row(10, 1, 1), row(19, 1, 1)]), 20 * SECOND_US)
                .is_empty()
        );
        let over = windows.pass(Rows::default(), 24 * SECOND_US).activity;
        assert_eq!((over.len(), over[0].time, over[0].ns), (1, 10 * SECOND_US, 2));
        let late = windows
            .pass(activity(vec![row(12, 1, 4)]), 25 * SECOND_US)
            .activity;
        assert_eq!((late.len(), late[0].time, late[0].ns), (1, 10 * SECOND_US, 4));
    }

    #[test]
    fn of_latencies_the_extremes_are_kept() {
        let latency = |second, min_ns, max_ns| LatencyRow {
            time: second * SECOND_US,
            count: 2,
            sum_ns: 30,
            min_ns,
            max_ns,
            ..LatencyRow::default()
        };
        let mut windows = Windows::new(10, 0);
        let rows = Rows {
            latency: vec![latency(11, 10, 20), latency(12, 5, 25)],
            ..Rows::default()
        };
        assert!(windows.pass(rows, 12 * SECOND_US).is_empty());
        let found = windows.finish().latency;
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].count, found[0].sum_ns, found[0].min_ns, found[0].max_ns),
            (4, 60, 5, 25)
        );
    }

    #[test]
    fn windows_of_a_second_change_nothing() {
        let mut windows = Windows::new(1, 0);
        let rows = activity(vec![row(10, 1, 1), row(10, 1, 1)]);
        assert_eq!(windows.pass(rows.clone(), 10 * SECOND_US), rows);
        assert!(windows.finish().is_empty());
    }
}
