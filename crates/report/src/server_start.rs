//! The frames that all stacks of a PostgreSQL server share: every process is forked off in `PostmasterMain`, so each begins with `_start`,
//! `main` and so on up to there. In a picture they take a third of the height and say nothing.

use std::sync::Arc;

use crate::causes::WAITED_FOR;
use crate::flame::{Folded, FoldedStack};

const LAST: &str = "PostmasterMain";
/// They are no more than these: the C library has two or three functions before `main`.
pub(crate) const MOST_FRAMES: usize = 8;

/// How many frames of a stack, root first, come before what the process does itself.
pub(crate) fn start_of_server<T: AsRef<str>>(user: &[T]) -> usize {
    let last = user
        .iter()
        .take(MOST_FRAMES)
        .position(|name| name.as_ref() == LAST);
    // The first process itself may be in that function and nothing else.
    last.map_or(0, |last| last + 1).min(user.len().saturating_sub(1))
}

impl Folded {
    /// The same time without these frames, also where it goes on in those of who was waited for.
    #[must_use]
    pub fn without_start_of_server(mut self) -> Folded {
        for stack in &mut self.stacks {
            let start = start_of_server(&stack.user);
            self.is_without_start |= start > 0;
            stack.user.drain(..start);
            stack.waited_for = waited_for_without(&stack.waited_for);
        }
        self.stacks.sort();
        // Two may be one now.
        self.stacks.dedup_by(|later, first| {
            let is_same = names(first) == names(later);
            if is_same {
                first.ns += later.ns;
                first.samples += later.samples;
            }
            is_same
        });
        self
    }
}

/// All that is drawn of a stack.
fn names(of: &FoldedStack) -> impl PartialEq + '_ {
    (&of.levels, &of.user, &of.kernel, &of.waited_for, of.second_us)
}

/// Each of whom was waited for begins with two words: that, and what it was doing.
fn waited_for_without(frames: &[(bool, Arc<str>)]) -> Vec<(bool, Arc<str>)> {
    let mut kept = Vec::with_capacity(frames.len());
    for (number, of_one) in frames.split(|(_, name)| **name == *WAITED_FOR).enumerate() {
        if number > 0 {
            kept.push((false, WAITED_FOR.into()));
        }
        let (does, stack) = of_one.split_at(of_one.len().min(1));
        let names: Vec<&str> = stack.iter().map(|(_, name)| name.as_ref()).collect();
        kept.extend_from_slice(does);
        kept.extend_from_slice(&stack[start_of_server(&names)..]);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_start_goes() {
        assert_eq!(
            start_of_server(&["_start", "main", "PostmasterMain", "ServerLoop"]),
            3
        );
        assert_eq!(start_of_server(&["main", "PostmasterMain"]), 1);
        assert_eq!(start_of_server(&["main", "PostgresSingleUserMain", "x"]), 0);
        assert_eq!(start_of_server::<&str>(&[]), 0);
        let deep = ["f"; MOST_FRAMES].into_iter().chain(["PostmasterMain", "g"]);
        assert_eq!(start_of_server(&deep.collect::<Vec<_>>()), 0);
    }

    #[test]
    fn it_goes_from_everybody_who_was_waited_for_too() {
        let frames = |names: &[&str]| -> Vec<(bool, Arc<str>)> {
            names.iter().map(|name| (false, (*name).into())).collect()
        };
        let whole = frames(&[
            WAITED_FOR,
            "client backend: on a CPU",
            "main",
            "PostmasterMain",
            "PostgresMain",
            WAITED_FOR,
            "the disk",
        ]);
        let kept = frames(&[
            WAITED_FOR,
            "client backend: on a CPU",
            "PostgresMain",
            WAITED_FOR,
            "the disk",
        ]);
        assert_eq!(waited_for_without(&whole), kept);
        assert_eq!(waited_for_without(&[]), []);
    }
}
