//! Stacks as shared frames, and the innermost procedural-language function of each.

use std::collections::HashMap;

use dbtime_model::{Frame, PLPGSQL, StackId, StackRow};

use crate::known_frame::{KnownFrame, KnownFrames};

/// See the module.
#[derive(Debug, Default, Clone)]
pub(crate) struct KnownStacks {
    frames: KnownFrames,
    stacks: HashMap<StackId, Box<[KnownFrame]>>,
    /// The innermost procedural-language function and its line, for stacks that have one.
    routines: HashMap<StackId, [KnownFrame; 2]>,
    /// Number of frames of all stacks, shared ones counted in each.
    depth: usize,
}

impl KnownStacks {
    /// Adds the description of a stack.
    pub(crate) fn learn(&mut self, row: &StackRow) {
        let frames: Box<[KnownFrame]> = row.frames.iter().map(|frame| self.frames.keep(frame)).collect();
        if let Some(routine) = innermost_routine(&frames) {
            self.routines.insert(row.id, routine);
        }
        self.depth += frames.len();
        if let Some(old) = self.stacks.insert(row.id, frames) {
            self.depth -= old.len();
        }
    }

    /// Frames, root first; none when the stack is not described.
    pub(crate) fn frames_of(&self, id: StackId) -> Option<&[KnownFrame]> {
        self.stacks.get(&id).map(AsRef::as_ref)
    }

    /// The innermost procedural-language function in a stack, and its line.
    pub(crate) fn routine_of(&self, id: StackId) -> Option<&[KnownFrame; 2]> {
        self.routines.get(&id)
    }

    /// Every frame of all stacks, once.
    pub(crate) fn frames(&self) -> impl Iterator<Item = &Frame> {
        self.frames.iter()
    }

    /// Number of stacks.
    pub(crate) fn len(&self) -> usize {
        self.stacks.len()
    }

    /// Number of frames of all stacks, shared ones counted in each: what their memory depends on.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// Forgets all other stacks, and the frames that no remaining stack has.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(StackId) -> bool) {
        self.stacks.retain(|id, _| is_kept(*id));
        self.routines.retain(|id, _| is_kept(*id));
        self.depth = self.stacks.values().map(|frames| frames.len()).sum();
        self.frames.forget_unused();
    }
}

/// A function is in the stack twice: once as a whole, and once for the line it was at, if it had reached one.
fn innermost_routine(frames: &[KnownFrame]) -> Option<[KnownFrame; 2]> {
    let is_routine = |frame: &KnownFrame| frame.module == PLPGSQL;
    let at = frames.iter().rposition(is_routine)?;
    let line = &frames[at];
    let name = at
        .checked_sub(1)
        .map(|before| &frames[before])
        .filter(|frame| is_routine(frame))
        .unwrap_or(line);
    Some([name.clone(), line.clone()])
}
