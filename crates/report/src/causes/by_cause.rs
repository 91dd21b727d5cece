//! Activity rows by cause, for anything that groups time: the blocked DB time of a row is passed on in parts.
//!
//! The parts of a row add up to it, so no sum changes.

use std::collections::HashMap;

use arcstr::ArcStr;
use dbtime_model::{ActivityRow, CauseKind, CauseLink, Fidelity, SessionId, Wait};

use super::divide::{Blocked, Divided, Samples, is_blocked};
use super::words::{doing, no_session};
use crate::dimensions::Dimensions;
use crate::group::Dimension;
use crate::load::Source;
use crate::scan::Activity;

/// What part of a row led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cause {
    pub(crate) kind: CauseKind,
    /// Who was waited for in the end and what that session did, in words; empty when not known.
    pub(crate) root: String,
}

/// Divides rows, if grouping by cause was requested.
#[derive(Default)]
pub(crate) struct ByCause {
    samples: Option<Samples>,
    /// Process kinds of the sessions at the roots.
    backend_types: HashMap<SessionId, ArcStr>,
}

impl ByCause {
    /// Reads what is needed if time is grouped by cause. What cannot be read goes to the problems of `dimensions`.
    pub(crate) fn of(source: &Source, dimensions: &mut Dimensions, by: &[Dimension]) -> ByCause {
        if !by.iter().any(|dimension| dimension.is_of_causes()) {
            return ByCause::default();
        }
        let (samples, problems) = Samples::read(source);
        dimensions.problems.extend(problems);
        let backend_types = samples
            .roots()
            .map(|id| (id, dimensions.session(id).backend_type.0.clone()))
            .collect();
        ByCause {
            samples: Some(samples),
            backend_types,
        }
    }

    /// Passes on an activity: blocked time in parts, each with its cause; everything else unchanged.
    pub(crate) fn each(&self, activity: &Activity<'_>, mut take: impl FnMut(&Activity<'_>)) {
        let Some(samples) = self.samples.as_ref().filter(|_| is_blocked(activity)) else {
            return take(activity);
        };
        let row = activity.row;
        let amounts = (u128::from(row.ns), u128::from(row.samples));
        samples.divide(&Blocked::of_activity(row), amounts, |part| {
            let cause = self.cause(&part);
            // No overflow: a part is no larger than its row.
            let of_part = ActivityRow {
                ns: u64::try_from(part.ns).unwrap_or(u64::MAX),
                samples: u64::try_from(part.samples).unwrap_or(u64::MAX),
                fidelity: match part.is_of_samples {
                    true => Fidelity::Sampled,
                    false => row.fidelity,
                },
                ..row.clone()
            };
            if part.ns > 0 || part.samples > 0 {
                take(&Activity {
                    row: &of_part,
                    cause: Some(&cause),
                    ..*activity
                });
            }
        });
    }

    fn cause(&self, part: &Divided<'_>) -> Cause {
        let root = match part.chain.last() {
            Some(link) => self.words(part.kind, link),
            None if part.kind == CauseKind::Unknown => String::new(),
            None => no_session(part.kind).to_string(),
        };
        Cause {
            kind: part.kind,
            root,
        }
    }

    fn words(&self, kind: CauseKind, link: &CauseLink) -> String {
        let backend_type = self.backend_types.get(&link.session).map_or("", ArcStr::as_str);
        let wait = Wait::event(&link.wait_class, &link.wait_event, false);
        let doing = doing(Some(kind), link.session_state, &wait, link.state);
        format!("{backend_type}: {doing}")
    }
}
