//! What each session did most in a short time: its wait, its state, its statement.
//!
//! For a session that worked, what it did while it worked; for one that did not, what it waited for.

use std::cmp::Reverse;
use std::sync::Arc;

use dbtime_model::{Session, SessionId, SessionState, State, Wait};

use crate::fast_map::FastMap;
use crate::filter::Filter;
use crate::ledger::Section;
use crate::load::Source;
use crate::report::{ReportError, load};
use crate::scan::{Activity, scan};
use crate::sums::Sums;

/// What one session did. Times in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionWork {
    /// Who it is; its pid is 0 when the recorder has not described it.
    pub session: Arc<Session>,
    /// Outside of idle waits; for a client's session, its part of DB time.
    pub active: Sums,
    /// All of its time.
    pub total_ns: u128,
    /// The wait event with most of the time, and its part.
    pub main_wait: (Wait, u128),
    /// The state with most of it, and its part.
    pub main_state: (State, u128),
    /// What the database said about the session as a whole for most of the time.
    pub session_state: SessionState,
    /// The statement with most of the time; 0 = none was known.
    pub statement: u64,
    /// Its text; none when it was not read.
    pub text: Option<String>,
}

/// Sums of one session.
#[derive(Default)]
struct Builder {
    active: Sums,
    total_ns: u128,
    /// The flag: whether it was idle.
    parts: FastMap<(bool, Wait, State, SessionState, u64), u128>,
}

impl Builder {
    fn add(&mut self, activity: &Activity<'_>) {
        let row = activity.row;
        let is_idle = activity.section != Section::DbTime && activity.wait.idle;
        if !is_idle {
            self.active.take(activity);
        }
        self.total_ns += u128::from(row.ns);
        let key = (
            is_idle,
            activity.wait.clone(),
            row.state,
            row.session_state,
            row.statement,
        );
        *self.parts.entry(key).or_default() += u128::from(row.ns);
    }

    fn finish(self, session: Arc<Session>) -> SessionWork {
        let worked = self.active.total_ns() > 0;
        let of_interest = || self.parts.iter().filter(|((idle, ..), _)| *idle != worked);
        let main_wait = most(of_interest().map(|((_, wait, ..), ns)| (wait.clone(), *ns)));
        let in_it = of_interest()
            .filter(|((_, wait, ..), _)| main_wait.as_ref().is_some_and(|(main, _)| wait == main));
        let main_state = most(in_it.map(|((_, _, state, ..), ns)| (*state, *ns)));
        let statement = most(of_interest().map(|((.., statement), ns)| (*statement, *ns)));
        let session_state = most(of_interest().map(|((_, _, _, state, _), ns)| (*state, *ns)));
        SessionWork {
            session,
            total_ns: self.total_ns,
            main_wait: main_wait.unwrap_or((Wait::none(), 0)),
            main_state: main_state.unwrap_or((State::Unknown, 0)),
            session_state: session_state.map_or_else(SessionState::default, |(state, _)| state),
            statement: statement.map_or(0, |(statement, _)| statement),
            text: None,
            active: self.active,
        }
    }
}

/// What has most of the time, and how much.
fn most<K: Ord>(parts: impl Iterator<Item = (K, u128)>) -> Option<(K, u128)> {
    let mut sums: Vec<(K, u128)> = parts.collect();
    sums.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    sums.dedup_by(|(key, ns), (kept, sum)| {
        let is_same = key == kept;
        if is_same {
            *sum += *ns;
        }
        is_same
    });
    // Ties always go to the same one.
    sums.into_iter().rev().max_by_key(|(_, ns)| *ns)
}

/// Every session that has time, and what it did most: those of clients before those of the server, the busiest first, idle ones by
/// pid.
///
/// # Errors
/// The filter names something that is not in the recording.
pub fn sessions_work(source: &Source, filter: &Filter) -> Result<Vec<SessionWork>, ReportError> {
    let mut dimensions = load(source, filter)?;
    let mut sessions: FastMap<SessionId, Builder> = FastMap::default();
    let scan = scan(source, &mut dimensions, filter, |activity| {
        sessions.entry(activity.row.session).or_default().add(activity);
    });
    scan.check(filter)?;
    let mut sessions: Vec<SessionWork> = sessions
        .into_iter()
        .map(|(id, builder)| {
            let mut work = builder.finish(dimensions.session(id).clone());
            work.text = dimensions.statement(work.statement).map(str::to_string);
            work
        })
        .collect();
    sessions.sort_by_key(|work| {
        (
            !work.session.backend_type.is_foreground(),
            Reverse(work.active.total_ns()),
            work.session.pid,
            work.session.id,
        )
    });
    Ok(sessions)
}

#[cfg(test)]
mod tests {
    use dbtime_model::recording::Meta;
    use dbtime_model::{ActivityRow, Fidelity, NO_STACK, Rows, SessionRow, StatementRow};

    use super::*;

    fn row(
        session: u64,
        (class, event, idle): (&str, &str, bool),
        state: State,
        ns: u64,
        statement: u64,
    ) -> ActivityRow {
        ActivityRow {
            time: 0,
            session: SessionId(session),
            statement,
            plan: 0,
            wait_class: class.into(),
            wait_event: event.into(),
            idle,
            state,
            session_state: SessionState::Active,
            kernel_stack: NO_STACK,
            user_stack: NO_STACK,
            comment: 0,
            ns,
            count: 0,
            samples: 1,
            fidelity: Fidelity::Sampled,
            pooled: false,
        }
    }

    #[test]
    fn who_worked_is_told_by_the_work_and_who_did_not_by_what_it_waited_for() {
        let session = |id: u64| SessionRow {
            id: SessionId(id),
            pid: id as u32,
            backend_type: "client backend".into(),
            ..SessionRow::default()
        };
        let idle = ("Client", "ClientRead", true);
        let rows = Rows {
            activity: vec![
                row(1, idle, State::Sleep, 900, 0),
                row(1, ("IO", "DataFileRead", false), State::Disk, 35, 7),
                row(1, ("IO", "DataFileRead", false), State::Kernel, 25, 7),
                row(1, ("CPU", "CPU", false), State::User, 40, 8),
                row(2, idle, State::Sleep, 1_000, 0),
            ],
            sessions: vec![session(1), session(2)],
            statements: vec![StatementRow {
                id: 7,
                text: "select 7".to_string(),
                ..StatementRow::default()
            }],
            ..Rows::default()
        };
        let source = Source::memory(Meta::default(), rows);
        let found = sessions_work(&source, &Filter::default()).expect("an answer");
        let [busy, resting] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(busy.session.pid, 1);
        assert_eq!((busy.active.total_ns(), busy.total_ns), (100, 1_000));
        assert_eq!(
            (busy.main_wait.0.to_string().as_str(), busy.main_wait.1),
            ("IO:DataFileRead", 60)
        );
        // The state during that wait, though it spent more time in another one.
        assert_eq!(busy.main_state, (State::Disk, 35));
        assert_eq!((busy.statement, busy.text.as_deref()), (7, Some("select 7")));
        assert_eq!(resting.session.pid, 2);
        assert_eq!(resting.active.total_ns(), 0);
        assert_eq!(resting.main_wait.0.to_string(), "Client:ClientRead");
    }
}
