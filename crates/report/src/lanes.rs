//! Stacks laid out in time, session by session, for formats that are timelines.
//!
//! A recording has seconds, not exact times: within a second, the stacks of a session are laid end to end, sorted by
//! name. Their lengths are true, their order within the second is not. Since time is conserved, the stacks of a second
//! fill the time that the session spent in it; what is longer (an imported wait is in the second in which it ended)
//! pushes the next second back. Where the recording does not count time, one sample or count is drawn as one millisecond.

use std::collections::BTreeMap;

use dbtime_model::recording::Unit;

use crate::flame::{Folded, FoldedStack};
use crate::group::Dimension;

/// Nanoseconds that stand for a sample or count.
const DRAWN_NS: u128 = 1_000_000;

/// What a timeline needs beside the levels.
pub(crate) const DIMENSIONS: &[Dimension] = &[Dimension::Session, Dimension::Second];

/// A session with its stacks placed in time.
pub(crate) struct Lane<'a> {
    /// As it is shown: the pid, or `[unknown]`.
    pub(crate) session: &'a str,
    pub(crate) pid: u32,
    pub(crate) stacks: Vec<Placed<'a>>,
}

/// A stack placed in time. Nanoseconds of the recording's clock.
pub(crate) struct Placed<'a> {
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) stack: &'a FoldedStack,
}

/// Lays out all stacks; levels that are part of the layout (session, second) are not to be drawn again.
pub(crate) fn lanes(folded: &Folded) -> Vec<Lane<'_>> {
    let session = position(folded, Dimension::Session);
    let mut by_session: BTreeMap<&str, Vec<&FoldedStack>> = BTreeMap::new();
    for stack in &folded.stacks {
        let name = session
            .and_then(|at| stack.levels.get(at))
            .map_or("", String::as_str);
        by_session.entry(name).or_default().push(stack);
    }
    let scale = match folded.meta.collector.unit {
        Unit::Time => 1,
        Unit::Samples | Unit::Counts => DRAWN_NS,
    };
    by_session
        .into_iter()
        .map(|(session, mut stacks)| {
            // They are already sorted by name.
            stacks.sort_by_key(|stack| stack.second_us);
            let mut end = 0u64;
            let stacks = stacks
                .into_iter()
                .map(|stack| {
                    let second_us = u64::try_from(stack.second_us.unwrap_or(0)).unwrap_or(0);
                    let begin_ns = end.max(second_us.saturating_mul(1_000));
                    let length = u64::try_from(stack.ns.saturating_mul(scale)).unwrap_or(u64::MAX);
                    end = begin_ns.saturating_add(length);
                    Placed {
                        begin_ns,
                        end_ns: end,
                        stack,
                    }
                })
                .collect();
            Lane {
                session,
                pid: session.parse().unwrap_or(0),
                stacks,
            }
        })
        .collect()
}

/// Levels that are drawn: those that the layout does not show.
pub(crate) fn levels<'a>(folded: &'a Folded, stack: &'a FoldedStack) -> impl Iterator<Item = &'a str> {
    let drawn = folded.by.iter().zip(stack.levels.iter());
    drawn
        .filter(|(dimension, _)| !DIMENSIONS.contains(dimension))
        .map(|(_, name)| name.as_str())
}

fn position(folded: &Folded, wanted: Dimension) -> Option<usize> {
    folded.by.iter().position(|dimension| *dimension == wanted)
}
