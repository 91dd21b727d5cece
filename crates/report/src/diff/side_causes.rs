//! Blocked time of one side by who was waited for: grouped by what is the same in two recordings.

use std::collections::{BTreeMap, HashMap};

use dbtime_model::{CauseKind, Wait};

use super::side::Total;
use super::slices::Slices;
use crate::causes::{Blocked, CauseGroup, Divided, Doing, Parts, root};
use crate::dimensions::Dimensions;

/// A wait event and what was waited for: any sessions that did the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct CauseKey {
    pub(super) wait: Wait,
    kind: CauseKind,
    doing: Option<Doing>,
}

impl CauseKey {
    /// The same, whatever it executed.
    pub(super) fn without_statement(mut self) -> CauseKey {
        if let Some(doing) = &mut self.doing {
            doing.statement = 0;
        }
        self
    }
}

/// Blocked time with the same cause.
pub(super) struct OfCause {
    pub(super) group: CauseGroup,
    /// By the waiters' statement; 0 = not known.
    pub(super) statements: BTreeMap<u64, Total>,
    pub(super) slices: BTreeMap<usize, Total>,
}

/// Adds up parts of blocked time.
#[derive(Default)]
pub(super) struct SideCauses(HashMap<CauseKey, Building>);

#[derive(Default)]
struct Building {
    parts: Parts,
    statements: BTreeMap<u64, Total>,
    slices: BTreeMap<usize, Total>,
}

impl SideCauses {
    pub(super) fn add(
        &mut self,
        of: &Blocked,
        part: &Divided<'_>,
        slices: &Slices,
        dimensions: &mut Dimensions,
    ) {
        if part.ns == 0 && part.samples == 0 {
            return;
        }
        let key = CauseKey {
            wait: of.wait(),
            kind: part.kind,
            doing: part.chain.last().map(|link| root(link, dimensions).doing()),
        };
        let amount = Total {
            ns: part.ns,
            samples: part.samples,
        };
        let building = self.0.entry(key).or_default();
        building.parts.add(part, dimensions);
        building.statements.entry(of.statement).or_default().add(amount);
        let slice = slices.of_time(of.time.unwrap_or(0));
        building.slices.entry(slice).or_default().add(amount);
    }

    /// The sums, in a fixed order.
    pub(super) fn finish(self) -> BTreeMap<CauseKey, OfCause> {
        let all = self.0.into_iter().filter_map(|(key, building)| {
            let parts = building.parts.finish().into_iter().map(CauseGroup::of);
            let group = parts.reduce(|mut all, part| {
                all.merge(part);
                all
            })?;
            let of = OfCause {
                group,
                statements: building.statements,
                slices: building.slices,
            };
            Some((key, of))
        });
        all.collect()
    }
}
