//! A queue for a thread that may be slow, bounded by the weight of its items, not by their number. A sender never waits, except in
//! `hand_over`: until everything before is done.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The sending side.
#[derive(Debug)]
pub(crate) struct Sender<T> {
    shared: Arc<Shared<T>>,
    /// Most weight that may wait, including the item being worked on.
    most: usize,
}

/// The receiving side. Dropping it drops everything that waits.
#[derive(Debug)]
pub(crate) struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// Weight of the item taken last: it is being worked on until the next one is asked for.
    in_hand: usize,
}

/// Why an item was not accepted; the caller gets it back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused<T> {
    /// Too much is waiting.
    Full(T),
    /// The receiver is gone.
    Gone(T),
}

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next<T> {
    /// An item.
    Item(T),
    /// Nothing in that time.
    Nothing,
    /// The sender is gone: nothing more will come.
    End,
}

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<T> {
    waiting: VecDeque<(T, usize)>,
    weight: usize,
    sender_is_gone: bool,
    receiver_is_gone: bool,
}

/// A queue of items that weigh at most this much in total. A heavier one passes too, alone.
pub(crate) fn queue<T>(most: usize) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared {
        state: Mutex::new(State {
            waiting: VecDeque::new(),
            weight: 0,
            sender_is_gone: false,
            receiver_is_gone: false,
        }),
        changed: Condvar::new(),
    });
    let receiver = Receiver {
        shared: Arc::clone(&shared),
        in_hand: 0,
    };
    (Sender { shared, most }, receiver)
}

impl<T> Shared<T> {
    /// Nothing that is done under the lock can panic.
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Sender<T> {
    /// Hands over an item, if there is room.
    ///
    /// # Errors
    /// There is no room, or the receiver is gone.
    pub(crate) fn offer(&self, item: T, weight: usize) -> Result<(), Refused<T>> {
        self.add(item, weight, self.most)
    }

    /// Waits until everything handed over before is done, then hands over: at most this one item exists besides what the caller holds.
    ///
    /// # Errors
    /// The receiver is gone.
    pub(crate) fn hand_over(&self, item: T, weight: usize) -> Result<(), Refused<T>> {
        let mut state = self.shared.state();
        while state.weight > 0 && !state.receiver_is_gone {
            state = self
                .shared
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        // There is no other sender that could fill the queue meanwhile.
        self.offer(item, weight)
    }

    /// Hands over an item whether there is room or not: for the last one, which is waited for.
    ///
    /// # Errors
    /// The receiver is gone.
    pub(crate) fn offer_last(self, item: T) -> Result<(), Refused<T>> {
        self.add(item, 0, usize::MAX)
    }

    fn add(&self, item: T, weight: usize, most: usize) -> Result<(), Refused<T>> {
        let mut state = self.shared.state();
        if state.receiver_is_gone {
            return Err(Refused::Gone(item));
        }
        if state.weight > 0 && state.weight.saturating_add(weight) > most {
            return Err(Refused::Full(item));
        }
        state.weight = state.weight.saturating_add(weight);
        state.waiting.push_back((item, weight));
        self.shared.changed.notify_one();
        Ok(())
    }

    /// False once the receiver is gone.
    pub(crate) fn is_taken(&self) -> bool {
        !self.shared.state().receiver_is_gone
    }
}

impl<T> Receiver<T> {
    /// Waits for the next item, for at most `longest`.
    pub(crate) fn next(&mut self, longest: Option<Duration>) -> Next<T> {
        let mut state = self.shared.state();
        state.weight = state.weight.saturating_sub(std::mem::take(&mut self.in_hand));
        // The sender may be waiting for this. One wake-up is enough: of the two sides, only one waits at a time.
        self.shared.changed.notify_one();
        loop {
            if let Some((item, weight)) = state.waiting.pop_front() {
                self.in_hand = weight;
                return Next::Item(item);
            }
            if state.sender_is_gone {
                return Next::End;
            }
            state = match longest {
                None => self
                    .shared
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(longest) => {
                    let waited = self.shared.changed.wait_timeout(state, longest);
                    let (state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
                    if waited.timed_out() && state.waiting.is_empty() && !state.sender_is_gone {
                        return Next::Nothing;
                    }
                    state
                }
            };
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.shared.state().sender_is_gone = true;
        self.shared.changed.notify_one();
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.receiver_is_gone = true;
        state.waiting.clear();
        self.shared.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn what_is_worked_on_weighs_until_the_next_is_asked_for() {
        let (sender, mut receiver) = queue(10);
        assert_eq!(sender.offer('a', 6), Ok(()));
        assert_eq!(sender.offer('b', 4), Ok(()));
        assert_eq!(sender.offer('c', 1), Err(Refused::Full('c')));
        assert_eq!(receiver.next(None), Next::Item('a'));
        assert_eq!(sender.offer('c', 1), Err(Refused::Full('c')));
        assert_eq!(receiver.next(None), Next::Item('b'));
        assert_eq!(sender.offer('c', 6), Ok(()));
        assert_eq!(receiver.next(None), Next::Item('c'));
        assert_eq!(receiver.next(Some(Duration::ZERO)), Next::Nothing);
        // An item heavier than the limit passes alone; the last one always passes.
        assert_eq!(sender.offer('d', 100), Ok(()));
        assert_eq!(sender.offer('e', 1), Err(Refused::Full('e')));
        assert_eq!(sender.offer_last('f'), Ok(()));
        assert_eq!(receiver.next(None), Next::Item('d'));
        assert_eq!(receiver.next(None), Next::Item('f'));
        assert_eq!(receiver.next(None), Next::End);
    }

    #[test]
    fn who_hands_over_learns_that_nobody_takes_it() {
        let (sender, receiver) = queue(10);
        assert!(sender.is_taken());
        drop(receiver);
        assert!(!sender.is_taken());
        assert_eq!(sender.offer((), 1), Err(Refused::Gone(())));
    }

    #[test]
    fn who_may_wait_hands_over_when_all_before_is_done() {
        let (sender, mut receiver) = queue(10);
        let handed = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&handed);
        let thread = std::thread::spawn(move || {
            (0..4_usize).find(|&item| {
                let refused = sender.hand_over(item, 1);
                counted.fetch_add(1, Ordering::SeqCst);
                refused == Err(Refused::Gone(item))
            })
        });
        for item in 0..3 {
            assert_eq!(receiver.next(None), Next::Item(item));
            std::thread::sleep(Duration::from_millis(5));
            // The next one waits while this one is being worked on.
            assert!(handed.load(Ordering::SeqCst) <= item + 1);
        }
        // The sender notices that the receiver is gone.
        drop(receiver);
        assert_eq!(thread.join().expect("it does not panic"), Some(3));
    }

    #[test]
    fn who_takes_is_woken() {
        let (sender, mut receiver) = queue(10);
        let thread = std::thread::spawn(move || {
            let mut taken = Vec::new();
            while let Next::Item(item) = receiver.next(None) {
                taken.push(item);
            }
            taken
        });
        for item in 0..5 {
            std::thread::sleep(Duration::from_millis(2));
            assert_eq!(sender.offer(item, 1), Ok(()));
        }
        drop(sender);
        assert_eq!(thread.join().expect("it takes all"), [0, 1, 2, 3, 4]);
    }
}
