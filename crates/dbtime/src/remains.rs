//! A dbtime that was killed leaves things behind: the next one removes them and says so.

use dbtime_collect::{mend_after_dives, mend_scratch};

use crate::output::say;

/// Removes folders left in the temporary directory.
pub fn mend_folders() {
    tell(&mend_scratch());
}

/// Removes everything that was left behind. `dive` does so while it claims the right to change anything.
pub fn mend() {
    tell(&mend_after_dives());
    mend_folders();
}

fn tell(done: &[String]) {
    for what in done {
        say(format_args!("note: {what}"));
    }
}
