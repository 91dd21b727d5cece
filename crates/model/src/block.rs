//! What a block request does.

use std::fmt;
use std::str::FromStr;

/// Operation of a block request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlockOperation {
    /// Reads blocks.
    Read,
    /// Writes blocks.
    Write,
    /// Makes the device's cache durable.
    Flush,
    /// Tells the device that blocks are no longer needed.
    Discard,
    /// Anything else: zones, secure erase, write zeroes, driver commands.
    Other,
}

impl BlockOperation {
    /// All of them, in the order in which they are shown.
    pub const ALL: [BlockOperation; 5] = [
        BlockOperation::Read,
        BlockOperation::Write,
        BlockOperation::Flush,
        BlockOperation::Discard,
        BlockOperation::Other,
    ];

    /// Its name: what `LatencyRow::name` holds for the kinds `block` and `block_queue`.
    pub const fn as_str(self) -> &'static str {
        match self {
            BlockOperation::Read => "read",
            BlockOperation::Write => "write",
            BlockOperation::Flush => "flush",
            BlockOperation::Discard => "discard",
            BlockOperation::Other => "other",
        }
    }
}

impl fmt::Display for BlockOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for BlockOperation {
    type Err = String;

    fn from_str(text: &str) -> Result<BlockOperation, String> {
        BlockOperation::ALL
            .into_iter()
            .find(|operation| operation.as_str() == text)
            .ok_or_else(|| "must be read, write, flush, discard or other".to_string())
    }
}
