//! Splits rows in two at a second: for a disk on which not all of them fit, and where one recording ends and the next
//! begins.

use std::collections::HashSet;

use crate::{NO_STACK, Rows, StackId, Timed};

const SECOND_US: i64 = 1_000_000;

impl Rows {
    /// The second (microseconds since the Unix epoch) at which about half of the time that the rows cover is over; none if
    /// they cover one second, or none.
    pub fn middle(&self) -> Option<i64> {
        let times = || {
            let activity = self.activity.iter().map(|row| row.time);
            let latency = self.latency.iter().map(|row| row.time);
            activity
                .chain(latency)
                .chain(self.counters.iter().map(|row| row.time))
        };
        let (first, last) = (times().min()?, times().max()?);
        let seconds = last.saturating_sub(first).div_euclid(SECOND_US);
        (seconds > 0).then(|| first + (seconds + 1) / 2 * SECOND_US)
    }

    /// Takes out the rows of this second (microseconds since the Unix epoch) or later, with the stacks that no other row
    /// has. Rows of no second stay.
    pub fn split_off(&mut self, second: i64) -> Rows {
        let mut later = self.split_off_times(second);
        let used: HashSet<StackId> = self.stacks_referred_to().collect();
        later.stacks = take(&mut self.stacks, |row| !used.contains(&row.id));
        later
    }

    /// Takes out the rows of this second (microseconds since the Unix epoch) or later, and nothing else.
    pub fn split_off_times(&mut self, second: i64) -> Rows {
        Rows {
            activity: take_later(&mut self.activity, second),
            latency: take_later(&mut self.latency, second),
            counters: take_later(&mut self.counters, second),
            causes: take_later(&mut self.causes, second),
            held_locks: take_later(&mut self.held_locks, second),
            locks: take_later(&mut self.locks, second),
            ..Rows::default()
        }
    }

    /// Takes out the rows that refer to one of these stacks, and nothing else.
    pub fn split_off_stacks(&mut self, is_wanted: impl Fn(StackId) -> bool) -> Rows {
        let either = |kernel, user| is_wanted(kernel) || is_wanted(user);
        Rows {
            activity: take(&mut self.activity, |row| either(row.kernel_stack, row.user_stack)),
            latency: take(&mut self.latency, |row| is_wanted(row.stack)),
            spans: take(&mut self.spans, |row| is_wanted(row.stack)),
            held_locks: take(&mut self.held_locks, |row| {
                either(row.kernel_stack, row.user_stack)
            }),
            causes: take(&mut self.causes, |row| {
                let mut links = row.chain.iter();
                links.any(|link| either(link.kernel_stack, link.user_stack))
            }),
            ..Rows::default()
        }
    }

    /// Replaces the stacks that rows refer to.
    pub fn replace_stacks(&mut self, by: impl Fn(StackId) -> StackId) {
        let replace = |stack: &mut StackId| *stack = by(*stack);
        for row in &mut self.activity {
            replace(&mut row.kernel_stack);
            replace(&mut row.user_stack);
        }
        for row in &mut self.held_locks {
            replace(&mut row.kernel_stack);
            replace(&mut row.user_stack);
        }
        for link in self.causes.iter_mut().flat_map(|row| &mut row.chain) {
            replace(&mut link.kernel_stack);
            replace(&mut link.user_stack);
        }
        for row in &mut self.latency {
            replace(&mut row.stack);
        }
        for row in &mut self.spans {
            replace(&mut row.stack);
        }
    }

    /// Replaces the statements of rows.
    pub fn replace_statements(&mut self, by: impl Fn(u64) -> u64) {
        let activity = self.activity.iter_mut().map(|row| &mut row.statement);
        let links = self.causes.iter_mut().flat_map(|row| {
            let links = row.chain.iter_mut().map(|link| &mut link.statement);
            links.chain([&mut row.statement])
        });
        activity
            .chain(links)
            .chain(self.latency.iter_mut().map(|row| &mut row.statement))
            .chain(self.spans.iter_mut().map(|row| &mut row.statement))
            .chain(self.switches.iter_mut().map(|row| &mut row.statement))
            .chain(self.held_locks.iter_mut().map(|row| &mut row.statement))
            .chain(self.locks.iter_mut().map(|row| &mut row.statement))
            .chain(self.counters.iter_mut().map(|row| &mut row.statement))
            .for_each(|statement| *statement = by(*statement));
    }

    /// Rows of later seconds are of this one (microseconds since the Unix epoch).
    pub fn limit_times(&mut self, second: i64) {
        fn limit<R: Timed>(rows: &mut [R], second: i64) {
            rows.iter_mut()
                .for_each(|row| row.set_time(row.time().min(second)));
        }
        limit(&mut self.activity, second);
        limit(&mut self.latency, second);
        limit(&mut self.counters, second);
        limit(&mut self.causes, second);
        limit(&mut self.held_locks, second);
        limit(&mut self.locks, second);
    }

    /// The latest second of any row (microseconds since the Unix epoch); none if no row has one.
    pub fn last_second(&self) -> Option<i64> {
        fn last<R: Timed>(rows: &[R]) -> Option<i64> {
            rows.iter().map(Timed::time).max()
        }
        let of_tables = [
            last(&self.activity),
            last(&self.latency),
            last(&self.counters),
            last(&self.causes),
            last(&self.held_locks),
            last(&self.locks),
        ];
        of_tables.into_iter().flatten().max()
    }

    /// Stacks that rows refer to, each as often as it is referred to.
    pub(crate) fn stacks_referred_to(&self) -> impl Iterator<Item = StackId> {
        let activity = self
            .activity
            .iter()
            .flat_map(|row| [row.kernel_stack, row.user_stack]);
        let held_locks = self
            .held_locks
            .iter()
            .flat_map(|row| [row.kernel_stack, row.user_stack]);
        let links = self.causes.iter().flat_map(|row| &row.chain);
        activity
            .chain(self.latency.iter().map(|row| row.stack))
            .chain(self.spans.iter().map(|row| row.stack))
            .chain(held_locks)
            .chain(links.flat_map(|link| [link.kernel_stack, link.user_stack]))
            .filter(|&stack| stack != NO_STACK)
    }
}

fn take_later<R: Timed>(rows: &mut Vec<R>, second: i64) -> Vec<R> {
    take(rows, |row| row.time() >= second)
}

fn take<R>(rows: &mut Vec<R>, which: impl Fn(&R) -> bool) -> Vec<R> {
    let (taken, left) = std::mem::take(rows).into_iter().partition(which);
    *rows = left;
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ActivityRow, CauseKind, CauseLink, CauseRow, CounterRow, Fidelity, HeldLockRow, LatencyRow,
        SessionId, SessionState, SpanRow, StackRow, State,
    };

    fn rows(seconds: impl Iterator<Item = i64>) -> Rows {
        let seconds: Vec<i64> = seconds.collect();
        Rows {
            latency: seconds
                .iter()
                .map(|&second| LatencyRow {
                    time: second * SECOND_US,
                    stack: StackId(u64::try_from(second).expect("a small number")),
                    ..LatencyRow::default()
                })
                .collect(),
            counters: seconds
                .iter()
                .map(|&second| CounterRow {
                    time: second * SECOND_US,
                    ..CounterRow::default()
                })
                .collect(),
            stacks: seconds
                .iter()
                .map(|&second| StackRow {
                    id: StackId(u64::try_from(second).expect("a small number")),
                    frames: Vec::new(),
                })
                .collect(),
            ..Rows::default()
        }
    }

    #[test]
    fn every_table_with_stacks_is_split_by_them() {
        let of = |stack: u64| {
            let (kernel_stack, user_stack) = (StackId(stack), StackId(9));
            let (session, state) = (SessionId(1), State::Sleep);
            Rows {
                activity: vec![ActivityRow {
                    time: 0,
                    session,
                    statement: 0,
                    plan: 0,
                    wait_class: "".into(),
                    wait_event: "".into(),
                    idle: false,
                    state,
                    session_state: SessionState::None,
                    kernel_stack,
                    user_stack,
                    comment: 0,
                    ns: 1,
                    count: 0,
                    samples: 1,
                    fidelity: Fidelity::Sampled,
                    pooled: false,
                }],
                latency: vec![LatencyRow {
                    stack: kernel_stack,
                    ..LatencyRow::default()
                }],
                spans: vec![SpanRow {
                    session,
                    kind: String::new(),
                    name: String::new(),
                    stack: kernel_stack,
                    call: 0,
                    depth: 0,
                    start_ns: 0,
                    ns: 1,
                    state,
                    statement: 0,
                }],
                held_locks: vec![HeldLockRow {
                    time: 0,
                    session,
                    statement: 0,
                    lock: "".into(),
                    number: None,
                    address: 0,
                    file: "".into(),
                    relation: "".into(),
                    block: None,
                    exclusive: false,
                    mode_unknown: false,
                    wait_class: "".into(),
                    wait_event: "".into(),
                    state,
                    kernel_stack: user_stack,
                    user_stack: kernel_stack,
                    ns: 1,
                    samples: 1,
                    gets: 0,
                }],
                causes: vec![CauseRow {
                    time: 0,
                    session,
                    statement: 0,
                    wait_class: "".into(),
                    wait_event: "".into(),
                    state,
                    kind: CauseKind::Session,
                    chain: vec![CauseLink {
                        session,
                        statement: 0,
                        session_state: SessionState::None,
                        wait_class: "".into(),
                        wait_event: "".into(),
                        state,
                        kernel_stack,
                        user_stack,
                    }],
                    samples: 1,
                }],
                ..Rows::default()
            }
        };
        let mut rows = of(1);
        rows.append(of(2));
        assert_eq!(rows.split_off_stacks(|stack| stack == StackId(1)), of(1));
        assert_eq!(rows, of(2));
        rows.replace_stacks(|stack| if stack == StackId(2) { StackId(3) } else { stack });
        assert_eq!(rows, of(3));
        // There is no table with stacks but these.
        assert_eq!(
            rows.stacks_referred_to()
                .filter(|&stack| stack == StackId(3))
                .count(),
            rows.len()
        );
    }

    #[test]
    fn halves_are_whole_together_and_have_their_stacks() {
        let mut first = rows(10..15);
        let second = first.split_off(first.middle().expect("five seconds"));
        assert_eq!(first, rows(10..12));
        assert_eq!(second, rows(12..15));
    }

    #[test]
    fn a_second_is_not_cut() {
        assert_eq!(rows(10..11).middle(), None);
        assert_eq!(Rows::default().middle(), None);
        let mut two = rows(10..12);
        let later = two.split_off(two.middle().expect("two seconds"));
        assert_eq!((two.counters.len(), later.counters.len()), (1, 1));
        assert_eq!(later.middle(), None);
    }
}
