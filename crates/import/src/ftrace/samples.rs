//! Timer samples of the kernel stack: dbtime's own lines, next to the tracepoints of a task, at the head of the text. Their time tells
//! which call they fell into.

use std::collections::{HashSet, VecDeque};
use std::rc::Rc;

use super::intervals::{is_entry, is_tracer};
use super::line::{argument, seconds};
use super::paths::{Function, Paths};
use super::role::TRACING;
use crate::samples::Table;
use crate::text::decimal;

/// Most samples kept, of all tasks: with their stacks, about 100 MB.
const MOST: u64 = 1 << 21;
/// Most functions kept, in distinct stacks.
const MOST_FUNCTIONS: usize = 1 << 23;
/// Deeper stacks are cut at their leaf: the kernel walks 127 frames.
const DEEPEST: usize = 128;

/// A sample.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) at_ns: i64,
    pub(super) stack: Rc<Stack>,
}

/// Where the task was.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Stack {
    /// Root of paths that are not the work of the call that they hit; none = it is the call's own.
    pub(super) apart: Option<Function>,
    /// Below that, or below the call: root first.
    pub(super) functions: Vec<Function>,
}

/// All samples of a file, by task, until the task is seen.
#[derive(Debug, Default)]
pub(super) struct Samples {
    by_pid: Table<u32, VecDeque<Sample>>,
    stacks: HashSet<Rc<Stack>>,
    functions: usize,
    noted: u64,
    left_out: u64,
}

impl Samples {
    /// `pid=TID at=SECONDS stack=ROOT;…;LEAF`
    pub(super) fn note(&mut self, sample: &[u8], paths: &mut Paths) -> Option<()> {
        // Names of functions have blanks before their module: the stack comes last.
        let end = memchr::memmem::find(sample, b" stack=")?;
        let (head, stack) = (&sample[..end], &sample[end + 7..]);
        let pid = u32::try_from(decimal(argument(head, b"pid")?)?).ok()?;
        let at_ns = seconds(argument(head, b"at")?)?;
        let names = || stack.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        if names().any(<[u8]>::is_empty) {
            return None;
        }
        if self.noted >= MOST || self.functions >= MOST_FUNCTIONS {
            self.left_out += 1;
            return Some(());
        }
        let mut stack = Stack {
            apart: None,
            functions: Vec::new(),
        };
        for name in names().filter(|name| !is_entry(name)).take(DEEPEST) {
            let function = paths.function(name);
            if stack.apart.is_none()
                && let Some(apart) = apart(name, function, paths)
            {
                // What it hit is not its caller.
                stack.functions.clear();
                stack.apart = Some(paths.function(apart));
            }
            stack.functions.push(function);
        }
        let stack = Rc::new(stack);
        let stack = match self.stacks.get(&stack) {
            Some(known) => Rc::clone(known),
            None => {
                self.functions += stack.functions.len();
                self.stacks.insert(Rc::clone(&stack));
                stack
            }
        };
        self.noted += 1;
        self.by_pid
            .entry(pid)
            .or_default()
            .push_back(Sample { at_ns, stack });
        Some(())
    }

    /// Samples of a task, in time order.
    pub(super) fn of(&mut self, pid: u32) -> VecDeque<Sample> {
        let mut samples = self.by_pid.remove(&pid).unwrap_or_default();
        samples.make_contiguous().sort_by_key(|sample| sample.at_ns);
        samples
    }

    /// Number of samples, of all tasks.
    pub(super) fn noted(&self) -> u64 {
        self.noted
    }

    /// Number of samples for which there was no room.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }
}

/// The root of what begins with this function, if that is not the work of the call.
fn apart(name: &[u8], function: Function, paths: &Paths) -> Option<&'static [u8]> {
    match is_tracer(name) {
        true => Some(TRACING),
        false => paths.role(function).foreign(),
    }
}
