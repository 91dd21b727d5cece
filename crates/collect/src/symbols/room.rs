//! Limits new stacks. A process can make every stack a different one (deep recursion, code compiled at run time): naming them
//! takes CPU, and each is a row, for as long as a recording goes on. Both are limited here. A stack without room is counted, and
//! replaced by one of a single frame that says so.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::allowance::Allowance;

/// New stacks allowed at once, and in every second after that. A real server's first minute had 40,000.
const STACKS: f64 = 200_000.0;
const STACKS_A_SECOND: f64 = 200.0;
/// CPU time for naming new stacks, in seconds: at once, and in every second after that. Files crafted to take long, as many as are
/// read, take half of it.
const CPU_S: f64 = 20.0;
const CPU_S_A_SECOND: f64 = 0.2;
/// In this time a process may take as many stacks as it leaves, so that others find room however many it has.
const SHARE: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug)]
pub(super) struct Room {
    stacks: Allowance,
    cpu_s: Allowance,
    /// Stacks that each process has taken since then.
    taken: HashMap<u32, f64>,
    since: Instant,
    refused: u64,
}

impl Room {
    pub(super) fn new(now: Instant) -> Room {
        Room {
            stacks: Allowance::new(STACKS, STACKS_A_SECOND, now),
            cpu_s: Allowance::new(CPU_S, CPU_S_A_SECOND, now),
            taken: HashMap::new(),
            since: now,
            refused: 0,
        }
    }

    /// Whether there is room for a stack of this process that may be new; counted when there is none. `is_full`: there is no
    /// memory for it.
    pub(super) fn is_there(&mut self, process: u32, is_full: bool, now: Instant) -> bool {
        if now.saturating_duration_since(self.since) >= SHARE {
            self.since = now;
            self.taken.clear();
        }
        let taken = self.taken.get(&process).copied().unwrap_or(0.0);
        let is_there = !is_full && taken < self.stacks.left(now) && self.cpu_s.left(now) > 0.0;
        self.refused += u64::from(!is_there);
        is_there
    }

    /// There was no room for another reason.
    pub(super) fn refuse(&mut self) {
        self.refused += 1;
    }

    /// Looking at it took this much CPU time, in nanoseconds.
    pub(super) fn use_cpu(&mut self, ns: u64) {
        self.cpu_s.use_up(ns as f64 / 1e9);
    }

    /// It was new.
    pub(super) fn take(&mut self, process: u32) {
        self.stacks.use_up(1.0);
        *self.taken.entry(process).or_default() += 1.0;
    }

    /// Stacks for which there was no room.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take_all(room: &mut Room, process: u32, now: Instant) -> u64 {
        let mut taken = 0;
        while room.is_there(process, false, now) {
            room.take(process);
            taken += 1;
        }
        taken
    }

    #[test]
    fn a_process_whose_stacks_are_all_different_leaves_room_for_others_and_is_bounded() {
        let begin = Instant::now();
        let mut room = Room::new(begin);
        assert_eq!(take_all(&mut room, 1, begin), 100_000);
        assert_eq!(take_all(&mut room, 2, begin), 50_000);
        assert_eq!(room.refused(), 2);
        // For an hour, both take whatever they get.
        let mut all = 150_000;
        for second in 1..=3_600 {
            let now = begin + Duration::from_secs(second);
            all += take_all(&mut room, 1, now) + take_all(&mut room, 2, now);
        }
        let most = STACKS + STACKS_A_SECOND * 3_600.0;
        assert!((0.9 * most..=most).contains(&(all as f64)), "{all} of {most}");
        assert!(room.is_there(3, false, begin + Duration::from_secs(3_600)));
    }

    #[test]
    fn names_that_take_long_make_no_more_than_a_part_of_a_cpu_busy() {
        let begin = Instant::now();
        let mut room = Room::new(begin);
        let mut used_ms = 0;
        for second in 0..1_000 {
            let now = begin + Duration::from_secs(second);
            while room.is_there(1, false, now) {
                room.use_cpu(3_000_000_000);
                used_ms += 3_000;
            }
        }
        assert!(used_ms <= 20_000 + 200 * 1_000 + 3_000, "{used_ms} ms of CPU");
    }
}
