//! What a dbtime that was killed has left behind is removed by the next one, which says so.

use dbtime_collect::{mend_after_dives, mend_scratch};

use crate::output::say;

/// Folders in the temporary directory.
pub fn mend_folders() {
    tell(&mend_scratch());
}

/// All that was left. `dive` does it while it takes the right to change anything.
pub fn mend() {
    tell(&mend_after_dives());
    mend_folders();
}

fn tell(done: &[String]) {
    for what in done {
        say(format_args!("note: {what}"));
    }
}
