//! Sessions for which there is no room. They are found again and again, but each counts once.

use std::collections::HashSet;

/// Maximum number of sessions remembered. Any more may count again when they are found again.
const MOST: usize = 65_536;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct LeftOut {
    pids: HashSet<u32>,
    count: u64,
}

impl LeftOut {
    /// How many there have been.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// One has just begun: whoever had its pid before is gone.
    pub(crate) fn begun(&mut self, pid: u32) {
        self.pids.remove(&pid);
        self.found(pid);
    }

    /// One exists, perhaps for a long time.
    pub(crate) fn found(&mut self, pid: u32) {
        let is_known = self.pids.contains(&pid);
        if !is_known {
            self.count += 1;
            if self.pids.len() < MOST {
                self.pids.insert(pid);
            }
        }
    }

    /// Only these exist now.
    pub(crate) fn keep(&mut self, pids: impl IntoIterator<Item = u32>) {
        if !self.pids.is_empty() {
            let now: HashSet<u32> = pids.into_iter().collect();
            self.pids.retain(|pid| now.contains(pid));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counts_once_however_often_it_is_found() {
        let mut left_out = LeftOut::default();
        for _ in 0..10 {
            left_out.keep([1, 2, 3]);
            left_out.found(2);
            left_out.found(3);
        }
        assert_eq!(left_out.count(), 2);
    }

    #[test]
    fn a_pid_that_is_used_again_is_another_session() {
        let mut left_out = LeftOut::default();
        left_out.begun(2);
        left_out.found(2);
        assert_eq!(left_out.count(), 1);
        left_out.begun(2);
        assert_eq!(left_out.count(), 2);
        left_out.keep([1]);
        left_out.found(2);
        assert_eq!(left_out.count(), 3);
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let mut left_out = LeftOut::default();
        for pid in 0..2 * MOST as u32 {
            left_out.begun(pid);
        }
        assert_eq!((left_out.count(), left_out.pids.len()), (2 * MOST as u64, MOST));
    }
}
