//! What sessions execute according to their server, which is asked once a second if its own status in memory cannot be read. Answers
//! are joined to what sessions did by process: all that a process did until the next answer was for its statement in the last one.
//! Answers expire soon: a server that has stopped answering says nothing about what is executed now.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};

use dbtime_model::{SessionState, Wait};

/// How long an answer holds if no newer one comes.
const HOLDS_NS: u64 = 3_000_000_000;
/// Maximum number of answers kept: what the kernel reports about a second may arrive a few seconds later.
const MOST_ANSWERS: usize = 16;

/// What a session said about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) state: SessionState,
    /// The one that it executes, or executed last; 0 = none, or not known.
    pub(crate) statement: u64,
    /// What its application calls itself.
    pub(crate) application: String,
}

impl Said {
    /// The statement that is executed, and the state of the session, while it is in this wait. The answer is from another moment: it
    /// does not hold if the wait contradicts it, because the session was idle and now works, or the other way round.
    pub(crate) fn while_in(&self, wait: &Wait) -> (u64, SessionState) {
        let works = self.works();
        let has_nothing_to_do = self.state == SessionState::Idle || self.state.is_idle_in_transaction();
        match wait.idle {
            false if works => (self.statement, self.state),
            true if has_nothing_to_do => (0, self.state),
            _ => (0, SessionState::None),
        }
    }

    /// True if it is executing something.
    pub(crate) fn works(&self) -> bool {
        matches!(self.state, SessionState::Active | SessionState::FastpathCall)
    }
}

/// An answer, by process, and when it was asked for, CLOCK_MONOTONIC.
#[derive(Debug)]
struct Answer {
    asked_ns: u64,
    said: HashMap<u32, Said>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Joined(RefCell<VecDeque<Answer>>);

impl Joined {
    /// Stores an answer; they come in order.
    pub(crate) fn learn(&self, asked_ns: u64, said: HashMap<u32, Said>) {
        let mut answers = self.0.borrow_mut();
        if answers.len() >= MOST_ANSWERS {
            answers.pop_front();
        }
        answers.push_back(Answer { asked_ns, said });
    }

    /// What a process last said before a moment, if that still holds. `began_ns`: an earlier process may have had its pid.
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
        // Before the first answer nothing is known; what is reported late about an earlier second gets the answer of that time.
        assert_eq!(at(9 * S), None);
        assert_eq!(at(10 * S), Some(1));
        assert_eq!(at(11 * S - 1), Some(1));
        assert_eq!(at(11 * S), Some(2));
        assert_eq!(at(14 * S), Some(2));
        assert_eq!(at(14 * S + 1), None);
        // The next answer does not include it.
        joined.learn(12 * S, answer(8, 3));
        assert_eq!(at(13 * S), None);
        // Another process had this pid.
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
