//! What sessions execute as their server says it when it is asked once a second, of a server whose own words in memory cannot be read.
//! It is joined to what sessions did by their process: all that one did until the next answer was for the statement that it had at the
//! last one. An answer is of no use for long: a server that does not answer any longer says nothing of what is executed now.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};

use dbtime_model::{SessionState, Wait};

/// So long it holds when no other one comes.
const HOLDS_NS: u64 = 3_000_000_000;
/// Answers that are kept: what the kernel tells of a second may come some seconds later.
const MOST_ANSWERS: usize = 16;

/// What a session said of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) state: SessionState,
    /// Which it executes, or executed last; 0 = none, or not known.
    pub(crate) statement: u64,
    /// What its application calls itself.
    pub(crate) application: String,
}

impl Said {
    /// The statement that is executed, and the state of the session, while it is in this wait. What the answer says of another moment
    /// does not hold when the wait belongs to the other half of a session's life: it was idle, and works; or the other way round.
    pub(crate) fn while_in(&self, wait: &Wait) -> (u64, SessionState) {
        let works = self.works();
        let has_nothing_to_do = self.state == SessionState::Idle || self.state.is_idle_in_transaction();
        match wait.idle {
            false if works => (self.statement, self.state),
            true if has_nothing_to_do => (0, self.state),
            _ => (0, SessionState::None),
        }
    }

    /// True when it executes something.
    pub(crate) fn works(&self) -> bool {
        matches!(self.state, SessionState::Active | SessionState::FastpathCall)
    }
}

/// An answer, by process. The moment is that at which it was asked for, CLOCK_MONOTONIC.
#[derive(Debug)]
struct Answer {
    asked_ns: u64,
    said: HashMap<u32, Said>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Joined(RefCell<VecDeque<Answer>>);

impl Joined {
    /// Takes an answer; they come in order.
    pub(crate) fn learn(&self, asked_ns: u64, said: HashMap<u32, Said>) {
        let mut answers = self.0.borrow_mut();
        if answers.len() >= MOST_ANSWERS {
            answers.pop_front();
        }
        answers.push_back(Answer { asked_ns, said });
    }

    /// What a process said last before a moment, if that still holds. `began_ns`: an earlier one may have had its number.
    pub(crate) fn at(&self, pid: u32, began_ns: u64, now_ns: u64) -> Option<Said> {
        let answers = self.0.borrow();
        let answer = answers.iter().rev().find(|answer| answer.asked_ns <= now_ns)?;
        let holds = answer.asked_ns >= began_ns && now_ns - answer.asked_ns <= HOLDS_NS;
        answer.said.get(&pid).filter(|_| holds).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn said(statement: u64, state: SessionState) -> Said {
        Said {
            state,
            statement,
            application: String::new(),
        }
    }

    fn answer(pid: u32, statement: u64) -> HashMap<u32, Said> {
        HashMap::from([(pid, said(statement, SessionState::Active))])
    }

    #[test]
    fn an_answer_holds_until_the_next_one_and_not_for_ever() {
        let joined = Joined::default();
        let at = |now| joined.at(7, S, now).map(|said| said.statement);
        assert_eq!(at(5 * S), None);
        joined.learn(10 * S, answer(7, 1));
        joined.learn(11 * S, answer(7, 2));
        // Before the first one nothing is known; what is told late of an earlier second is of the answer before.
        assert_eq!(at(9 * S), None);
        assert_eq!(at(10 * S), Some(1));
        assert_eq!(at(11 * S - 1), Some(1));
        assert_eq!(at(11 * S), Some(2));
        assert_eq!(at(14 * S), Some(2));
        assert_eq!(at(14 * S + 1), None);
        // It is not in the next one.
        joined.learn(12 * S, answer(8, 3));
        assert_eq!(at(13 * S), None);
        // Another process had its number.
        assert_eq!(joined.at(8, 12 * S + 1, 13 * S), None);
        assert!(joined.at(8, 12 * S, 13 * S).is_some());
    }

    #[test]
    fn few_answers_are_kept() {
        let joined = Joined::default();
        for second in 0..1_000 {
            joined.learn(second * S, answer(7, second));
        }
        assert_eq!(joined.0.borrow().len(), MOST_ANSWERS);
        assert_eq!(joined.at(7, 0, 999 * S).map(|said| said.statement), Some(999));
    }

    #[test]
    fn what_the_wait_contradicts_is_not_said() {
        let (reads, works) = (Wait::event("Client", "ClientRead", true), Wait::none());
        let active = said(7, SessionState::Active);
        assert_eq!(active.while_in(&works), (7, SessionState::Active));
        assert_eq!(active.while_in(&reads), (0, SessionState::None));
        for state in [SessionState::Idle, SessionState::IdleInTransaction] {
            let idle = said(7, state);
            assert_eq!(idle.while_in(&works), (0, SessionState::None));
            assert_eq!(idle.while_in(&reads), (0, state));
        }
        let background = said(7, SessionState::None);
        assert_eq!(background.while_in(&works), (0, SessionState::None));
    }
}
