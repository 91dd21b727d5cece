//! How old recordings are, by a clock that nobody sets.
//!
//! The host's clock may be a year ahead and right again an hour later, and recordings are dated by that clock. So agents do their own
//! counting: a recording is as old as the time for which they have seen it in the spool, and those seen first are the oldest. Time in which
//! no agent ran, or the host slept, does not count, because nobody knows how long it was: a recording is never considered older than it is.
//!
//! In the store, recordings are dated by the host's clock only. They are kept longer there by as much as that has got ahead of what was
//! counted: see [`Ages::older_than`].

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ffi::OsStr;
use std::time::{Duration, Instant};

use dbtime_model::output::Directory;
use serde::{Deserialize, Serialize};

use super::remembered;
use super::spool::{Contents, Ended};
use crate::output::say;
use crate::time_of_day::now_us;

const FILE: &str = "ages.json";
/// A killed agent loses what it counted since the last write.
const WRITE: Duration = Duration::from_secs(600);
/// How far the clock may get ahead without counting as set: whole seconds, restarts of the agent.
const UNNOTICED_S: i64 = 60;
/// How often the clock may have been set before two of these moments are merged.
const MOST_MOMENTS: usize = 1_000;
/// A change by this much in how long the store keeps recordings is reported.
const WORTH_TELLING: Duration = Duration::from_secs(3_600);

/// See the module.
pub(super) struct Ages {
    home: Directory,
    counted: Counted,
    /// What agents before this one counted, and since when this one counts.
    before_s: u64,
    begin: Instant,
    next_write: Instant,
    /// A failure to write has been reported.
    told_of_writing: bool,
    /// What was last reported about the store.
    told_longer: Duration,
}

/// What is known, as written to disk.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Counted {
    /// Seconds that agents of this spool have run.
    seconds: u64,
    /// By recording: how much was counted when it was first seen.
    seen_at: BTreeMap<String, u64>,
    /// How far the clock was ahead of what was counted, while that matters: later values are larger.
    clock: VecDeque<Ahead>,
}

/// Since then the clock has been ahead by this much, or more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Ahead {
    since: u64,
    seconds: i64,
}

impl Ages {
    /// Continues from what earlier agents counted. If that cannot be read, all recordings are new.
    pub(super) fn read(home: Directory) -> Ages {
        let counted = remembered::read::<Counted>(&home, OsStr::new(FILE)).unwrap_or_else(|e| {
            say(format_args!(
                "{e:#}: the age of recordings is counted from now on"
            ));
            None
        });
        let counted = counted.unwrap_or_default();
        let now = Instant::now();
        Ages {
            home,
            before_s: counted.seconds,
            counted,
            begin: now,
            next_write: now,
            told_of_writing: false,
            told_longer: Duration::ZERO,
        }
    }

    /// Updates the counts, and sorts recordings, the oldest first. `window`: how old recordings get.
    pub(super) fn look(&mut self, contents: &mut Contents, window: Option<Duration>) {
        self.counted.seconds = self.before_s.saturating_add(self.begin.elapsed().as_secs());
        self.counted.look(contents);
        self.counted.look_at_clock(now_s(), window);
        if Instant::now() >= self.next_write {
            self.write();
        }
    }

    /// Its age, at least.
    pub(super) fn of(&self, ended: &Ended) -> Duration {
        self.counted.age_of(&ended.id())
    }

    /// The age by the host's clock at which a recording in the store is certainly older than `age`: none made within that time is dated
    /// earlier.
    pub(super) fn older_than(&mut self, age: Duration) -> Duration {
        let longer = self.counted.gone_ahead(now_s());
        if longer.abs_diff(self.told_longer) >= WORTH_TELLING {
            self.told_longer = longer;
            say(format_args!(
                "store: the host's clock jumped ahead by {} h that no agent counted (it was set, or no agent ran): recordings are kept \
                 that much longer",
                longer.as_secs() / 3_600
            ));
        }
        age.saturating_add(longer)
    }

    /// Stops counting.
    pub(super) fn end(mut self) {
        self.write();
    }

    fn write(&mut self) {
        self.next_write = Instant::now() + WRITE;
        match remembered::write(&self.home, OsStr::new(FILE), &self.counted) {
            Ok(()) => self.told_of_writing = false,
            Err(e) => {
                if !std::mem::replace(&mut self.told_of_writing, true) {
                    say(format_args!(
                        "{e:#}: the next agent will assume that recordings are younger than they are"
                    ));
                }
            }
        }
    }
}

impl Counted {
    fn look(&mut self, contents: &mut Contents) {
        let there: HashSet<String> = contents.ended.iter().map(Ended::id).collect();
        self.seen_at.retain(|id, _| there.contains(id));
        for id in there {
            self.seen_at.entry(id).or_insert(self.seconds);
        }
        // Those first seen at the same time stay in the order of their ends.
        contents
            .ended
            .sort_by_key(|ended| self.seen_at.get(&ended.id()).copied());
    }

    fn age_of(&self, id: &str) -> Duration {
        let seen_at = self.seen_at.get(id).copied().unwrap_or(self.seconds);
        Duration::from_secs(self.seconds.saturating_sub(seen_at))
    }

    fn ahead(&self, now_s: i64) -> i64 {
        now_s.saturating_sub(i64::try_from(self.seconds).unwrap_or(i64::MAX))
    }

    /// Notes how far the clock is ahead; values from before the window no longer matter.
    fn look_at_clock(&mut self, now_s: i64, window: Option<Duration>) {
        let ahead = self.ahead(now_s);
        // It was set back: what is needed is the minimum up to now.
        while self.clock.back().is_some_and(|last| last.seconds > ahead) {
            self.clock.pop_back();
        }
        let is_known = |last: &Ahead| ahead <= last.seconds.saturating_add(UNNOTICED_S);
        if !self.clock.back().is_some_and(is_known) {
            self.clock.push_back(Ahead {
                since: self.seconds,
                seconds: ahead,
            });
        }
        let from = window.map_or(0, |window| self.seconds.saturating_sub(window.as_secs()));
        while self.clock.get(1).is_some_and(|next| next.since <= from) {
            self.clock.pop_front();
        }
        // As if it had been set later: recordings are then kept longer than necessary.
        while self.clock.len() > MOST_MOMENTS {
            self.clock.remove(1);
        }
    }

    /// How much further ahead the clock is now than when it was least ahead.
    fn gone_ahead(&self, now_s: i64) -> Duration {
        let least = self.clock.front().map_or(i64::MAX, |first| first.seconds);
        let ahead = self.ahead(now_s).saturating_sub(least);
        match ahead > UNNOTICED_S {
            true => Duration::from_secs(ahead.unsigned_abs()),
            false => Duration::ZERO,
        }
    }
}

fn now_s() -> i64 {
    now_us() / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_S: u64 = 86_400;
    const YEAR_S: i64 = 365 * 86_400;
    /// The clock when an agent began to count.
    const BEGIN_S: i64 = 1_800_000_000;

    fn days(days: u64) -> Duration {
        Duration::from_secs(days * DAY_S)
    }

    /// Contents of a spool: names, with the second in which each ended by the clock.
    fn there(recordings: &[(&str, i64)]) -> Contents {
        let mut contents = Contents::default();
        for (name, end_s) in recordings {
            contents.ended.push(Ended::made_up(name, 1, end_s * 1_000_000));
        }
        // Like `Spool::look`.
        contents.ended.sort_by_key(|ended| ended.end_us);
        contents
    }

    fn in_order(counted: &mut Counted, recordings: &[(&str, i64)]) -> Vec<String> {
        let mut contents = there(recordings);
        counted.look(&mut contents);
        let names = contents
            .ended
            .iter()
            .map(|ended| ended.path.display().to_string());
        names.collect()
    }

    #[test]
    fn a_recording_is_as_old_as_it_was_seen_whatever_the_clock_says() {
        let mut counted = Counted::default();
        let first = ("first", BEGIN_S);
        let future = ("future", BEGIN_S + YEAR_S);
        let last = ("last", BEGIN_S + 2 * 86_400);
        in_order(&mut counted, &[first]);
        counted.seconds = DAY_S;
        in_order(&mut counted, &[first, future]);
        counted.seconds = 2 * DAY_S;
        // The oldest first, although one of them claims to be a year younger.
        assert_eq!(
            in_order(&mut counted, &[first, future, last]),
            ["first", "future", "last"]
        );
        counted.seconds = 31 * DAY_S;
        let age = |name: &str| counted.age_of(&Ended::made_up(name, 1, 0).id());
        assert_eq!(
            [age("first"), age("future"), age("last")],
            [days(31), days(30), days(29)]
        );
        // A recording that is gone is forgotten: another of the same name is new.
        in_order(&mut counted, &[last]);
        in_order(&mut counted, &[first, last]);
        assert_eq!(
            counted.age_of(&Ended::made_up("first", 1, 0).id()),
            Duration::ZERO
        );
    }

    #[test]
    fn those_that_are_first_seen_at_once_are_in_the_order_of_their_ends() {
        let mut counted = Counted::default();
        let all = [("b", 2), ("c", 3), ("a", 1)];
        assert_eq!(in_order(&mut counted, &all), ["a", "b", "c"]);
    }

    /// Hourly recordings in a store, with a clock that is set or a host that is off: nothing is removed that is too young by a correct
    /// clock, and what is older is removed once the window has passed.
    #[test]
    fn nothing_goes_from_the_store_too_early_whenever_the_clock_is_set() {
        const AGE_S: u64 = 30 * DAY_S;
        const HOUR_S: u64 = 3_600;
        // How far the clock is ahead from a counted hour on.
        let stories: [&[(u64, i64)]; 5] = [
            &[],
            // A year ahead for two hours.
            &[(40 * 24, YEAR_S), (40 * 24 + 2, 0)],
            // A year ahead for good, twice.
            &[(40 * 24, YEAR_S), (50 * 24, 2 * YEAR_S)],
            // A year ahead at first, then corrected.
            &[(0, YEAR_S), (10 * 24, 0)],
            // Back and forth.
            &[(30 * 24, -YEAR_S), (31 * 24, 40 * 86_400), (35 * 24, 5 * 86_400)],
        ];
        for story in stories {
            let mut counted = Counted::default();
            // True time and clock when each was made.
            let mut store: Vec<(u64, i64)> = Vec::new();
            let mut last_s = BEGIN_S;
            for hour in 0..120 * 24 {
                counted.seconds = hour * HOUR_S;
                let set = story.iter().rev().find(|(from, _)| *from <= hour);
                let now_s = BEGIN_S + (hour * HOUR_S) as i64 + set.map_or(0, |(_, ahead)| *ahead);
                store.push((counted.seconds, now_s));
                counted.look_at_clock(now_s, Some(Duration::from_secs(AGE_S)));
                let age_s = AGE_S as i64 + counted.gone_ahead(now_s).as_secs() as i64;
                let goes = |clock_s: i64| clock_s < now_s - age_s;
                for (truth_s, clock_s) in &store {
                    let age_s = counted.seconds - truth_s;
                    assert!(
                        !goes(*clock_s) || age_s >= AGE_S,
                        "{story:?} at hour {hour}: {age_s} s old"
                    );
                }
                store.retain(|(_, clock_s)| !goes(*clock_s));
                last_s = now_s;
            }
            // Thirty days; recordings dated in the future stay until then.
            let left = store.iter().filter(|(_, clock_s)| *clock_s <= last_s);
            let left = left.count() as u64;
            assert!((30 * 24..=30 * 24 + 1).contains(&left), "{story:?}: {left} left");
        }
    }

    #[test]
    fn the_clock_is_remembered_within_bounds_on_the_side_that_keeps() {
        let mut counted = Counted::default();
        for step in 0..2_000 {
            counted.seconds = step;
            // Two minutes further ahead each time.
            counted.look_at_clock(BEGIN_S + 120 * step as i64, Some(days(30)));
        }
        assert_eq!(counted.clock.len(), MOST_MOMENTS);
        let now_s = BEGIN_S + 120 * 1_999;
        assert_eq!(counted.gone_ahead(now_s), Duration::from_secs(119 * 1_999));
    }

    #[test]
    fn the_next_agent_goes_on_counting_and_what_is_damaged_makes_all_new() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let home = || Directory::open(folder.path()).expect("it is there");
        let recordings = [("a", BEGIN_S)];
        let mut ages = Ages::read(home());
        ages.look(&mut there(&recordings), None);
        ages.before_s = 40 * DAY_S;
        ages.look(&mut there(&recordings), None);
        ages.end();
        let mut ages = Ages::read(home());
        let mut contents = there(&recordings);
        ages.look(&mut contents, None);
        let age = ages.of(&contents.ended[0]);
        assert!(age >= days(40) && age < days(41), "{age:?}");
        std::fs::write(folder.path().join(FILE), "{").expect("it can be written");
        let mut ages = Ages::read(home());
        ages.look(&mut contents, None);
        assert!(ages.of(&contents.ended[0]) < days(1));
    }
}
