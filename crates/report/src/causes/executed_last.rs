//! The statements that sessions idle in a transaction executed last: their samples have no statement, but samples of the lock table in
//! which they held locks do. Only such locks can block others while nothing is executed.

use std::collections::HashMap;

use dbtime_model::recording::Problem;
use dbtime_model::{CauseLink, SessionId};

use crate::load::Source;

/// Statements of idle sessions by second, each with the nanoseconds for which it was seen.
#[derive(Default)]
pub(super) struct ExecutedLast(HashMap<(SessionId, i64), HashMap<u64, u64>>);

impl ExecutedLast {
    /// Those of a recording, empty without a lock table; and what could not be read.
    pub(super) fn read(source: &Source) -> (ExecutedLast, Vec<Problem>) {
        let mut all = ExecutedLast::default();
        if !source.meta().database.locks {
            return (all, Vec::new());
        }
        let problems = source.locks(|row| {
            if row.granted && row.statement != 0 && row.session_state.is_idle_in_transaction() {
                let statements = all.0.entry((row.session, row.time)).or_default();
                let ns = statements.entry(row.statement).or_default();
                *ns = ns.saturating_add(row.ns);
            }
        });
        (all, problems)
    }

    /// Fills in the missing statements of a chain in this second.
    pub(super) fn complete(&self, chain: &mut [CauseLink], time: i64) {
        for link in chain {
            if link.statement == 0 && link.session_state.is_idle_in_transaction() {
                link.statement = self.of(link.session, time);
            }
        }
    }

    /// The statement with the most time in this second; 0 = none was seen.
    fn of(&self, session: SessionId, time: i64) -> u64 {
        let statements = self.0.get(&(session, time)).into_iter().flatten();
        let most = statements.max_by_key(|(statement, ns)| (**ns, **statement));
        most.map_or(0, |(statement, _)| *statement)
    }
}
