//! The frames that all stacks of a PostgreSQL server share: every process is forked off in `PostmasterMain`, so each begins with `_start`,
//! `main` and so on up to there. In a picture they take a third of the height and say nothing. Parallel workers are forked further inside:
//! up to version 15 in a signal handler that interrupts `select`, which is not what they do either.

use arcstr::ArcStr;

use crate::causes::WAITED_FOR;
use crate::flame::{Folded, FoldedStack};
use crate::stack_views::CallTreeNode;

const LAST: &str = "PostmasterMain";
/// The last one of a background worker: up to version 16, and since 17.
const LAST_OF_WORKERS: [&str; 2] = ["StartBackgroundWorker", "BackgroundWorkerMain"];
/// Maximum number of frames up to `PostmasterMain`: the C library has two or three functions before `main`.
const MOST_TO_LAST: usize = 8;
/// Maximum number of these frames.
pub(crate) const MOST_FRAMES: usize = 2 * MOST_TO_LAST;

/// How many frames of a stack, root first, come before what the process does itself.
pub(crate) fn start_of_server<T: AsRef<str>>(user: &[T]) -> usize {
    let mut first = user.iter().take(MOST_FRAMES).map(AsRef::as_ref);
    let Some(last) = first.by_ref().take(MOST_TO_LAST).position(|name| name == LAST) else {
        return 0;
    };
    let of_worker = first.position(|name| LAST_OF_WORKERS.contains(&name));
    let start = last + 1 + of_worker.map_or(0, |further| further + 1);
    // The first process itself may be in just that function.
    start.min(user.len() - 1)
}

/// For each node of a call tree, callers before their callees, how many of these frames come before it; none for these frames themselves.
/// They are left out if they call nothing else and have no time of their own.
pub(crate) fn starts_of_tree(nodes: &[CallTreeNode]) -> Vec<Option<usize>> {
    let mut starts = Vec::with_capacity(nodes.len());
    for root in nodes.chunk_by(|_, next| next.depth > 0) {
        // The frames that lead to it come first, each one level below the one before.
        let is_on_way = |(at, node): (usize, &CallTreeNode)| {
            node.depth == at && node.self_ns == 0 && !node.function.kernel && at < MOST_TO_LAST
        };
        let way = root
            .iter()
            .enumerate()
            .take_while(|part| is_on_way(*part))
            .count();
        let last = root[..way].iter().position(|node| node.function.name == LAST);
        let start = last.map_or(0, |last| last + 1);
        let is_alone = root.len() > start && root[start..].iter().all(|node| node.depth >= start);
        let start = if is_alone { start } else { 0 };
        starts.extend((0..root.len()).map(|at| (at >= start).then_some(start)));
    }
    starts
}

impl Folded {
    /// The same time without these frames, also in the stacks of who was waited for.
    #[must_use]
    pub fn without_start_of_server(mut self) -> Folded {
        for stack in &mut self.stacks {
            let start = start_of_server(&stack.user);
            self.is_without_start |= start > 0;
            stack.user.drain(..start);
            stack.waited_for = waited_for_without(&stack.waited_for);
        }
        self.stacks.sort();
        // Two may be equal now.
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

/// The frames of each one that was waited for begin with two words: that, and what it was doing.
fn waited_for_without(frames: &[(bool, ArcStr)]) -> Vec<(bool, ArcStr)> {
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
    use crate::function::Function;

    #[test]
    fn only_the_start_goes() {
        assert_eq!(
            start_of_server(&["_start", "main", "PostmasterMain", "ServerLoop"]),
            3
        );
        assert_eq!(start_of_server(&["main", "PostmasterMain"]), 1);
        assert_eq!(start_of_server(&["main", "PostgresSingleUserMain", "x"]), 0);
        assert_eq!(start_of_server::<&str>(&[]), 0);
        let worker = [
            "main",
            "PostmasterMain",
            "[postgres]",
            "select",
            "[libc]",
            "StartBackgroundWorker",
        ];
        assert_eq!(
            start_of_server(&[&worker[..], &["ParallelWorkerMain"]].concat()),
            6
        );
        assert_eq!(start_of_server(&worker), 5);
        let deep = ["f"; MOST_TO_LAST].into_iter().chain(["PostmasterMain", "g"]);
        assert_eq!(start_of_server(&deep.collect::<Vec<_>>()), 0);
    }

    #[test]
    fn a_tree_begins_behind_it_unless_something_else_is_called_by_it() {
        let node = |(name, depth): (&str, usize)| CallTreeNode {
            function: Function {
                name: name.to_string(),
                module: String::new(),
                kernel: false,
            },
            depth,
            total_ns: 1,
            self_ns: 0,
            total_percent: 0.0,
            self_percent: 0.0,
            samples: 0,
            hidden_ns: 0,
        };
        let tree =
            |names: &[(&str, usize)]| -> Vec<CallTreeNode> { names.iter().copied().map(node).collect() };
        let server = [
            ("main", 0),
            ("PostmasterMain", 1),
            ("ServerLoop", 2),
            ("f", 3),
            ("other", 0),
        ];
        assert_eq!(
            starts_of_tree(&tree(&server)),
            [None, None, Some(2), Some(2), Some(0)]
        );
        let two = [
            ("main", 0),
            ("PostmasterMain", 1),
            ("ServerLoop", 2),
            ("SubPostmasterMain", 1),
        ];
        assert_eq!(starts_of_tree(&tree(&two)), [Some(0); 4]);
        assert_eq!(starts_of_tree(&tree(&server[..2])), [Some(0); 2]);
        let mut busy = tree(&server);
        busy[0].self_ns = 1;
        assert_eq!(starts_of_tree(&busy), [Some(0); 5]);
    }

    #[test]
    fn it_goes_from_everybody_who_was_waited_for_too() {
        let frames = |names: &[&str]| -> Vec<(bool, ArcStr)> {
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
