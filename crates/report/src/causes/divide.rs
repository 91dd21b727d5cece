//! Divides blocked time by the samples that were followed.

use std::collections::HashMap;

use dbtime_model::{ActivityRow, CauseKind, CauseLink, CauseRow, SessionId, State, Wait};

/// Time of a session in a second, in one statement, wait event and state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Blocked {
    /// Start of the second; none for all of them.
    pub(crate) time: Option<i64>,
    pub(crate) session: SessionId,
    pub(crate) statement: u64,
    wait_class: String,
    wait_event: String,
    pub(crate) state: State,
}

impl Blocked {
    pub(crate) fn of_activity(row: &ActivityRow) -> Blocked {
        Blocked {
            time: Some(row.time),
            session: row.session,
            statement: row.statement,
            wait_class: row.wait_class.clone(),
            wait_event: row.wait_event.clone(),
            state: row.state,
        }
    }

    fn of_cause(row: &CauseRow) -> Blocked {
        Blocked {
            time: Some(row.time),
            session: row.session,
            statement: row.statement,
            wait_class: row.wait_class.clone(),
            wait_event: row.wait_event.clone(),
            state: row.state,
        }
    }

    pub(crate) fn wait(&self) -> Wait {
        Wait::event(&self.wait_class, &self.wait_event, false)
    }
}

/// A part of it.
pub(crate) struct Divided<'a> {
    pub(crate) kind: CauseKind,
    pub(crate) chain: &'a [CauseLink],
    pub(crate) ns: u128,
}

/// What was found by following samples: samples by where they led.
type Found = HashMap<(CauseKind, Vec<CauseLink>), u64>;

/// Samples that were followed, by second, and over all seconds.
#[derive(Default)]
pub(super) struct Samples(HashMap<Blocked, Found>);

impl Samples {
    pub(super) fn add(&mut self, row: &CauseRow) {
        let of_second = Blocked::of_cause(row);
        let of_all = Blocked {
            time: None,
            ..of_second.clone()
        };
        for key in [of_second, of_all] {
            let found = self.0.entry(key).or_default();
            *found.entry((row.kind, row.chain.clone())).or_default() += row.samples;
        }
    }

    /// Hands on the parts of so much time, which sum to it. Where no sample of that second was followed, those of the other
    /// seconds of the same wait stand for it; without any the cause is unknown.
    pub(super) fn divide(&self, key: &Blocked, ns: u128, mut take: impl FnMut(Divided<'_>)) {
        let of_all = || Blocked {
            time: None,
            ..key.clone()
        };
        let found = self.0.get(key).or_else(|| self.0.get(&of_all()));
        let all: u128 = found.into_iter().flatten().map(|(_, n)| u128::from(*n)).sum();
        let Some(found) = found.filter(|_| all > 0) else {
            return take(Divided {
                kind: CauseKind::Unknown,
                chain: &[],
                ns,
            });
        };
        // In a fixed order: what remains of a division goes to the same ones each time.
        let mut parts: Vec<_> = found.iter().collect();
        parts.sort_unstable();
        let (mut before, mut given) = (0, 0);
        for ((kind, chain), samples) in parts {
            before += u128::from(*samples);
            let until = ns * before / all;
            take(Divided {
                kind: *kind,
                chain,
                ns: until - given,
            });
            given = until;
        }
    }
}
