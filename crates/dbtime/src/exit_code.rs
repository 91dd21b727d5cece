//! What a command ends with, besides 0 for done.

use crate::import;
use crate::reading;
use crate::usage::Usage;

/// Something could not be done.
pub const FAILED: u8 = 1;
/// Something typed is wrong: as the parser of arguments has it.
pub const WRONG_USAGE: u8 = 2;
/// All went well, and there is nothing to show.
pub const NOTHING_RECORDED: u8 = 3;

/// What a command ends with that could not be done.
pub fn of(error: &anyhow::Error) -> u8 {
    if error.is::<Usage>() {
        WRONG_USAGE
    } else if import::is_empty(error) || reading::is_nothing(error) {
        NOTHING_RECORDED
    } else {
        FAILED
    }
}
