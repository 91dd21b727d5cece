//! Sessions that wait, and for whom: rows of locks on rows (`Lock:tuple`) and of the sessions that held them.

use dbtime_model::{ActivityRow, CauseKind, CauseLink, CauseRow, NO_STACK, SessionId, SessionState, State};

use super::row;

pub(crate) const SECOND: i64 = 1_000_000;

pub(crate) fn activity(second: i64, session: u64, wait: (&str, &str), state: State, ns: u64) -> ActivityRow {
    ActivityRow {
        time: second * SECOND,
        ns,
        ..row(session, (wait.0, wait.1, false), state, 0)
    }
}

pub(crate) fn cause(
    second: i64,
    waiter: u64,
    samples: u64,
    kind: CauseKind,
    chain: Vec<CauseLink>,
) -> CauseRow {
    CauseRow {
        time: second * SECOND,
        session: SessionId(waiter),
        statement: 0,
        wait_class: "Lock".into(),
        wait_event: "tuple".into(),
        state: State::Sleep,
        kind,
        chain,
        samples,
    }
}

pub(crate) fn link(session: u64, wait: (&str, &str), state: State, session_state: SessionState) -> CauseLink {
    CauseLink {
        session: SessionId(session),
        statement: 0,
        session_state,
        wait_class: wait.0.into(),
        wait_event: wait.1.into(),
        state,
        kernel_stack: NO_STACK,
        user_stack: NO_STACK,
    }
}

pub(crate) fn idle(session: u64) -> CauseLink {
    let read = ("Client", "ClientRead");
    link(session, read, State::Sleep, SessionState::IdleInTransaction)
}

/// A session that waits for another one itself.
pub(crate) fn waits(session: u64) -> CauseLink {
    let lock = ("Lock", "transactionid");
    link(session, lock, State::Sleep, SessionState::Active)
}

/// A session that runs.
pub(crate) fn runs(session: u64, statement: u64) -> CauseLink {
    CauseLink {
        statement,
        ..link(session, ("CPU", "CPU"), State::Cpu, SessionState::Active)
    }
}
