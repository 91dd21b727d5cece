//! Divides blocked time in proportion to the samples that were followed.

use std::collections::HashMap;

use arcstr::ArcStr;
use dbtime_model::recording::{Meta, Problem};
use dbtime_model::{ActivityRow, CauseKind, CauseLink, CauseRow, SessionId, State, StateGroup, Wait};

use super::executed_last::ExecutedLast;
use super::{follows_waits, has_rows};
use crate::dimensions::Dimensions;
use crate::ledger::Section;
use crate::load::Source;
use crate::number::counted;
use crate::scan::Activity;

/// Time of a session within a second, in one statement, wait event and state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Blocked {
    /// Start of the second; none for all of them.
    pub(crate) time: Option<i64>,
    pub(crate) session: SessionId,
    pub(crate) statement: u64,
    wait_class: ArcStr,
    wait_event: ArcStr,
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

/// Whether this is time that has causes: blocked DB time.
pub(crate) fn is_blocked(activity: &Activity<'_>) -> bool {
    activity.section == Section::DbTime && activity.row.state.group() == Some(StateGroup::Blocked)
}

/// A part of blocked time.
pub(crate) struct Divided<'a> {
    pub(crate) kind: CauseKind,
    pub(crate) chain: &'a [CauseLink],
    pub(crate) ns: u128,
    /// Its share of the samples.
    pub(crate) samples: u128,
    /// Its length comes from samples: it is one of several parts, or samples of other seconds had to stand in.
    pub(crate) is_of_samples: bool,
}

/// Longest chain that is read (recorders follow 16 links). Without it a crafted file could cause recursion to any depth.
const MOST_LINKS: usize = 64;

/// Result of following samples: their number by where they led.
type Found = HashMap<(CauseKind, Vec<CauseLink>), u64>;

/// Followed samples, by second, and over all seconds.
#[derive(Default)]
pub(crate) struct Samples(HashMap<Blocked, Found>);

impl Samples {
    /// Those of a recording, and what could not be read.
    pub(crate) fn read(source: &Source) -> (Samples, Vec<Problem>) {
        Samples::read_by(source, &ExecutedLast::default())
    }

    /// The same; sessions idle in a transaction get the statement they executed last, as far as known.
    pub(crate) fn read_with_last_statements(source: &Source) -> (Samples, Vec<Problem>) {
        let (executed_last, mut problems) = ExecutedLast::read(source);
        let (samples, of_samples) = Samples::read_by(source, &executed_last);
        problems.extend(of_samples);
        (samples, problems)
    }

    fn read_by(source: &Source, executed_last: &ExecutedLast) -> (Samples, Vec<Problem>) {
        let mut samples = Samples::default();
        let mut too_long = 0;
        let mut problems = source.causes(|row| {
            too_long += usize::from(row.chain.len() > MOST_LINKS);
            samples.add(row, executed_last);
        });
        if too_long > 0 {
            let rows = counted(too_long, "row");
            problems.push(Problem(format!(
                "causes: {rows} with chains of more than {MOST_LINKS} links: these are cut there, and what lies beyond is not known"
            )));
        }
        (samples, problems)
    }

    fn add(&mut self, row: &CauseRow, executed_last: &ExecutedLast) {
        let (kind, chain) = match row.chain.get(..MOST_LINKS) {
            Some(links) if row.chain.len() > MOST_LINKS => (CauseKind::Unknown, links),
            _ => (row.kind, row.chain.as_slice()),
        };
        let mut chain = chain.to_vec();
        executed_last.complete(&mut chain, row.time);
        let of_second = Blocked::of_cause(row);
        let of_all = Blocked {
            time: None,
            ..of_second.clone()
        };
        for key in [of_second, of_all] {
            let found = self.0.entry(key).or_default();
            *found.entry((kind, chain.clone())).or_default() += row.samples;
        }
    }

    /// Whether the recorder met waits and followed them.
    pub(crate) fn are_any(&self, meta: &Meta) -> bool {
        has_rows(meta) || !self.0.is_empty()
    }

    /// Whether the recorder follows waits; it may not have met any.
    pub(crate) fn are_recorded(&self, meta: &Meta) -> bool {
        self.are_any(meta) || follows_waits(meta)
    }

    /// The ends of chains: sessions that were waited for in the end.
    pub(super) fn roots(&self) -> impl Iterator<Item = SessionId> {
        let chains = self.0.values().flat_map(|found| found.keys());
        chains.filter_map(|(_, chain)| chain.last().map(|link| link.session))
    }

    /// Passes on the parts of these nanoseconds and samples, which sum to them. If no sample of that second was followed, samples of
    /// the same wait in other seconds stand in; without any the cause is unknown.
    pub(crate) fn divide(
        &self,
        key: &Blocked,
        (ns, samples): (u128, u128),
        mut take: impl FnMut(Divided<'_>),
    ) {
        let of_all = || Blocked {
            time: None,
            ..key.clone()
        };
        let of_second = self.0.get(key);
        let found = of_second.or_else(|| self.0.get(&of_all()));
        let all: u128 = found.into_iter().flatten().map(|(_, n)| u128::from(*n)).sum();
        let Some(found) = found.filter(|_| all > 0) else {
            return take(Divided {
                kind: CauseKind::Unknown,
                chain: &[],
                ns,
                samples,
                is_of_samples: false,
            });
        };
        let is_of_samples = of_second.is_none() || found.len() > 1;
        // In a fixed order, so that the remainder of a division always goes to the same parts.
        let mut parts: Vec<_> = found.iter().collect();
        parts.sort_unstable();
        let (mut before, mut given) = (0, (0, 0));
        for ((kind, chain), followed) in parts {
            before += u128::from(*followed);
            let until = (ns * before / all, samples * before / all);
            take(Divided {
                kind: *kind,
                chain,
                ns: until.0 - given.0,
                samples: until.1 - given.1,
                is_of_samples,
            });
            given = until;
        }
    }
}

/// Blocked DB time, in nanoseconds and samples.
#[derive(Default)]
pub(crate) struct BlockedTime(HashMap<Blocked, (u128, u128)>);

impl BlockedTime {
    /// Adds the activity if it is blocked DB time.
    pub(crate) fn add(&mut self, activity: &Activity<'_>) {
        if is_blocked(activity) {
            let row = activity.row;
            let (ns, samples) = self.0.entry(Blocked::of_activity(row)).or_default();
            *ns += u128::from(row.ns);
            *samples += u128::from(row.samples);
        }
    }

    /// Passes on the parts of all of it.
    pub(crate) fn divide(
        &self,
        samples: &Samples,
        dimensions: &mut Dimensions,
        mut take: impl FnMut(&Blocked, Divided<'_>, &mut Dimensions),
    ) {
        for (key, amounts) in &self.0 {
            samples.divide(key, *amounts, |part| take(key, part, dimensions));
        }
    }
}
