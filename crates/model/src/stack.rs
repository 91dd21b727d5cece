//! A call stack, stored once and identified by the hash of its frames.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

/// Identity of a stack: equal frames have equal ids in every recording.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StackId(pub u64);

/// No stack was taken (idle wait), the stack was torn, or there is none (no kernel stack in user mode).
pub const NO_STACK: StackId = StackId(0);

/// Module of frames that stand for PL/pgSQL functions: one per function, and above it one for its current line, if it had reached
/// one.
pub const PLPGSQL: &str = "[plpgsql]";

/// One function on a stack.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Frame {
    /// Function name; empty when it could not be resolved.
    pub symbol: String,
    /// File name of the executable or library; `[kernel]` or a kernel module's name in a kernel stack; empty when the address is in
    /// no known mapping.
    pub module: String,
    /// Build id of the module in hex; empty when it has none or for the kernel.
    pub build_id: String,
    /// Offset in the module's file: of the function's first instruction when `symbol` is known, of the
    /// sampled instruction when it is not, so that it can be resolved later. 0 for the kernel.
    pub offset: u64,
}

impl AsRef<Frame> for Frame {
    fn as_ref(&self) -> &Frame {
        self
    }
}

impl Frame {
    /// The text that stands for this frame in flame graphs and folded stacks.
    pub fn label(&self) -> String {
        match (self.symbol.is_empty(), self.module.is_empty()) {
            (false, _) => self.symbol.clone(),
            // The kernel's frames have no offset.
            (true, false) if self.offset == 0 => format!("[{}]", self.module.trim_matches(['[', ']'])),
            (true, false) => format!("[{}+{:#x}]", self.module, self.offset),
            (true, true) => "[unknown]".to_string(),
        }
    }
}

/// Id of a stack (frames root first). XXH3 over every field; never [`NO_STACK`] unless there is no frame.
pub fn stack_id<'a>(frames: impl IntoIterator<Item = &'a Frame>) -> StackId {
    let mut frames = frames.into_iter().peekable();
    if frames.peek().is_none() {
        return NO_STACK;
    }
    let mut hash = Xxh3::new();
    for frame in frames {
        for text in [&frame.symbol, &frame.module, &frame.build_id] {
            hash.update(&(text.len() as u32).to_le_bytes());
            hash.update(text.as_bytes());
        }
        hash.update(&frame.offset.to_le_bytes());
    }
    StackId(hash.digest().max(1))
}
