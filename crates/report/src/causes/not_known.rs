//! Why blocked time was not followed to an end.

use std::collections::BTreeMap;

use dbtime_model::{CauseKind, SessionId};

use super::Divided;

/// Links of a chain that the recorder follows.
const LONGEST_CHAIN: usize = 16;
/// Class of the waits of background processes that have nothing to do.
const ACTIVITY: &str = "Activity";

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotKnown {
    /// Nobody was seen to end the wait, or to hold what was waited for.
    Nobody,
    /// The chain led back to the waiter.
    Circle,
    /// The chain is longer than the recorder follows.
    LongChain,
    /// The chain ended at a background process that had nothing to do when it was sampled.
    NoWork,
    /// The end of the chain was waiting, too.
    FurtherOn,
}

impl NotKnown {
    /// The words for it.
    pub fn as_str(self) -> &'static str {
        match self {
            NotKnown::Nobody => {
                "nobody was seen ending the wait: it was still going on when the recording ended, or was \
                 over before the sampler ran"
            }
            NotKnown::Circle => "each waited for the other: a deadlock, until the server broke it",
            NotKnown::LongChain => "the chain has 16 sessions or more",
            NotKnown::NoWork => "a background process had no work yet, or no more work, when it was sampled",
            NotKnown::FurtherOn => "the blocker was waiting too, and nobody was seen ending that wait",
        }
    }

    /// The reason for a part of a session's time; none when its cause is known.
    pub(super) fn of(waiter: SessionId, part: &Divided<'_>) -> Option<NotKnown> {
        if part.kind != CauseKind::Unknown {
            return None;
        }
        Some(match part.chain.last() {
            None => NotKnown::Nobody,
            Some(_) if part.chain.iter().any(|link| link.session == waiter) => NotKnown::Circle,
            Some(_) if part.chain.len() >= LONGEST_CHAIN => NotKnown::LongChain,
            Some(last) if last.wait_class == ACTIVITY => NotKnown::NoWork,
            Some(_) => NotKnown::FurtherOn,
        })
    }
}

/// Reasons and their nanoseconds, largest first.
pub(super) fn sorted(sums: BTreeMap<NotKnown, u128>) -> Vec<(NotKnown, u128)> {
    let mut sums = Vec::from_iter(sums);
    sums.sort_by_key(|(why, ns)| (std::cmp::Reverse(*ns), *why));
    sums
}
