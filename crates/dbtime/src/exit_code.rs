//! The exit codes of commands, besides 0 for success.

use crate::import;
use crate::reading;
use crate::usage::Usage;

/// Something could not be done.
pub const FAILED: u8 = 1;
/// Wrong usage; the argument parser uses the same code.
pub const WRONG_USAGE: u8 = 2;
/// Nothing failed, but there is nothing to show.
pub const NOTHING_RECORDED: u8 = 3;

/// The exit code of a command that failed.
pub fn of(error: &anyhow::Error) -> u8 {
    if error.is::<Usage>() {
        WRONG_USAGE
    } else if import::is_empty(error) || reading::is_nothing(error) {
        NOTHING_RECORDED
    } else {
        FAILED
    }
}
