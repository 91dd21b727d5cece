//! Stacks whose names are still being read: each has a ticket in place of its id until then.

use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

use dbtime_model::{Frame, Rows, StackId, stack_id};

use super::routines::NamedRoutine;

/// Maximum number of stacks that wait at the same time, and of tickets altogether: these stay valid, since a session may sleep with a
/// stack for days. Under 40 MB.
const STACKS: usize = 10_000;
const TICKETS: usize = 200_000;
/// A stack that has waited this long gets no more names. Within that time a single answer always comes.
const LONGEST: Duration = Duration::from_secs(20);

/// Whose map says what the addresses of a stack mean, its addresses, and the procedural-language functions in it.
pub(super) type Key = (u32, Box<[u64]>);

/// What is known of a stack's frame.
pub(super) enum Placed {
    /// The frames of a function, and of those that were inlined there.
    Known(Rc<[Frame]>),
    /// Offset in the file of a module, by its number.
    File(usize, u64),
}

/// A stack of known places.
pub(super) struct Stack {
    pub(super) key: Key,
    /// Whose it is; 0: the kernel's.
    pub(super) process: u32,
    /// Root first.
    pub(super) places: Vec<Placed>,
    pub(super) routines: Vec<NamedRoutine>,
}

/// A stack that waits.
pub(super) struct Ticketed {
    pub(super) ticket: StackId,
    pub(super) stack: Stack,
    since: Instant,
}

impl Ticketed {
    /// True if it has waited too long.
    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= LONGEST
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct Waiting {
    /// Those that have waited longest come first.
    stacks: VecDeque<Ticketed>,
    /// Their tickets.
    tickets: HashMap<Key, StackId>,
    outstanding: HashSet<StackId>,
    /// The ids of all tickets that no longer wait.
    ids: HashMap<StackId, StackId>,
    issued: u64,
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.stacks.is_empty()
    }

    /// The ticket of a stack that waits already.
    pub(super) fn ticket(&self, key: &Key) -> Option<StackId> {
        self.tickets.get(key).copied()
    }

    /// Adds a stack. Returns its ticket; None: there is no room.
    pub(super) fn add(&mut self, stack: Stack, now: Instant) -> Option<StackId> {
        if self.stacks.len() >= STACKS || self.outstanding.len() + self.ids.len() >= TICKETS {
            return None;
        }
        self.issued += 1;
        // No other stack has this frame.
        let ticket = stack_id([&Frame {
            symbol: format!("[waits for names: {}]", self.issued),
            module: String::new(),
            build_id: String::new(),
            offset: 0,
        }]);
        self.tickets.insert(stack.key.clone(), ticket);
        self.outstanding.insert(ticket);
        self.stacks.push_back(Ticketed {
            ticket,
            stack,
            since: now,
        });
        Some(ticket)
    }

    /// Takes out the stack that has waited longest.
    pub(super) fn take_first(&mut self) -> Option<Ticketed> {
        let first = self.stacks.pop_front()?;
        self.tickets.remove(&first.stack.key);
        Some(first)
    }

    /// It waits on.
    pub(super) fn put_back(&mut self, first: Ticketed) {
        self.tickets.insert(first.stack.key.clone(), first.ticket);
        self.stacks.push_front(first);
    }

    /// A stack that was taken out has this id.
    pub(super) fn set_id(&mut self, ticket: StackId, id: StackId) {
        self.outstanding.remove(&ticket);
        self.ids.insert(ticket, id);
    }

    /// The id of a stack: the one that it has instead of a ticket.
    pub(super) fn id(&self, stack: StackId) -> StackId {
        self.ids.get(&stack).copied().unwrap_or(stack)
    }

    /// Replaces tickets in rows by ids. Returns the rows whose stacks still wait.
    pub(super) fn settle(&self, rows: &mut Rows) -> Rows {
        if self.issued == 0 {
            return Rows::default();
        }
        rows.replace_stacks(|stack| self.id(stack));
        if self.outstanding.is_empty() {
            return Rows::default();
        }
        rows.split_off_stacks(|stack| self.outstanding.contains(&stack))
    }
}

#[cfg(test)]
mod tests {
    use dbtime_model::{LatencyRow, NO_STACK};

    use super::*;

    fn stack(address: u64) -> Stack {
        Stack {
            key: (1, [address].into()),
            process: 1,
            places: vec![Placed::File(0, address)],
            routines: Vec::new(),
        }
    }

    fn rows(stacks: &[StackId]) -> Rows {
        let row = |&stack| LatencyRow {
            stack,
            ..LatencyRow::default()
        };
        Rows {
            latency: stacks.iter().map(row).collect(),
            ..Rows::default()
        }
    }

    #[test]
    fn rows_wait_for_the_names_of_their_stacks_and_all_others_do_not() {
        let now = Instant::now();
        let mut waiting = Waiting::default();
        let first = waiting.add(stack(1), now).unwrap();
        let second = waiting.add(stack(2), now).unwrap();
        assert_ne!(first, second);
        assert_eq!(waiting.ticket(&stack(2).key), Some(second));
        let mut found = rows(&[NO_STACK, first, second, StackId(7)]);
        let mut held = waiting.settle(&mut found);
        assert_eq!(found, rows(&[NO_STACK, StackId(7)]));
        assert_eq!(held, rows(&[first, second]));

        let taken = waiting.take_first().unwrap();
        assert_eq!((taken.ticket, &taken.stack.key), (first, &stack(1).key));
        waiting.put_back(taken);
        let taken = waiting.take_first().unwrap();
        waiting.set_id(taken.ticket, StackId(70));
        let still = waiting.settle(&mut held);
        assert_eq!(held, rows(&[StackId(70)]));
        assert_eq!(still, rows(&[second]));

        let taken = waiting.take_first().unwrap();
        waiting.set_id(taken.ticket, StackId(71));
        assert!(waiting.is_empty());
        // A session that sleeps on has the ticket for as long as it does.
        let mut found = rows(&[first, second]);
        assert!(waiting.settle(&mut found).is_empty());
        assert_eq!(found, rows(&[StackId(70), StackId(71)]));
    }

    #[test]
    fn there_is_a_limit_to_how_many_wait_and_for_how_long() {
        let begin = Instant::now();
        let mut waiting = Waiting::default();
        for address in 0..STACKS as u64 {
            assert!(waiting.add(stack(address), begin).is_some());
        }
        assert!(waiting.add(stack(u64::MAX), begin).is_none());
        let first = waiting.take_first().unwrap();
        assert!(!first.is_overdue(begin) && first.is_overdue(begin + LONGEST));
    }
}
