//! What a command ends with, besides 0 for done.

/// Something could not be done.
pub const FAILED: u8 = 1;
/// Something typed is wrong: as the parser of arguments has it.
pub const WRONG_USAGE: u8 = 2;
/// All went well, and there is nothing to show.
pub const NOTHING_RECORDED: u8 = 3;
