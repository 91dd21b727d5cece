//! How long exact recordings may run within any hour. Time is written to disk before it is used: an agent that is killed and restarted has
//! no more than one that keeps running.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::time::{Duration, Instant};

use dbtime_model::output::Directory;
use serde::{Deserialize, Serialize};

use super::remembered;
use crate::output::say;
use crate::time_of_day::now_us;

const HOUR_MS: i64 = 3_600_000;
const FILE: &str = "flights.json";
/// Most entries remembered: more do not fit into an hour.
const MOST: usize = 1_000;

/// See the module.
#[derive(Debug)]
pub(super) struct Budget {
    an_hour_ms: i64,
    /// Moments are counted from here by a clock that nobody sets.
    begin: Instant,
    taken: VecDeque<Taken>,
}

/// Time that was taken, in milliseconds since the agent started; negative before that.
#[derive(Debug)]
struct Taken {
    until_ms: i64,
    length_ms: i64,
}

/// The same on the disk.
#[derive(Debug, Serialize, Deserialize)]
struct Written {
    /// Milliseconds since the Unix epoch.
    until_ms: i64,
    length_ms: i64,
}

impl Budget {
    /// What earlier agents took counts. If that cannot be read, everything counts as taken.
    pub(super) fn new(an_hour: Duration, home: &Directory) -> Budget {
        let an_hour_ms = milliseconds(an_hour);
        let mut budget = Budget {
            an_hour_ms,
            begin: Instant::now(),
            taken: VecDeque::new(),
        };
        match remembered::read::<Vec<Written>>(home, OsStr::new(FILE)) {
            Ok(written) => {
                let now_ms = now_us() / 1_000;
                // If the clock was set back since, it may be in the future: then it counts as now.
                budget
                    .taken
                    .extend(written.into_iter().flatten().map(|taken| Taken {
                        until_ms: taken.until_ms.saturating_sub(now_ms).min(0),
                        length_ms: taken.length_ms.max(0),
                    }));
            }
            Err(e) => {
                say(format_args!(
                    "{e:#}: cannot tell how much of this hour's budget was used, so no exact recordings for an hour"
                ));
                budget.taken.push_back(Taken {
                    until_ms: 0,
                    length_ms: an_hour_ms,
                });
            }
        }
        budget
    }

    /// What may be taken now.
    pub(super) fn left(&mut self) -> Duration {
        let now_ms = self.now_ms();
        self.left_at(now_ms)
    }

    fn left_at(&mut self, now_ms: i64) -> Duration {
        // Each counts in full until an hour after its end: then no hour, wherever it begins, has more than the budget.
        self.taken
            .retain(|taken| taken.until_ms.saturating_add(HOUR_MS) > now_ms);
        let lengths = self.taken.iter().map(|taken| taken.length_ms);
        let used_ms = lengths.fold(0, i64::saturating_add);
        Duration::from_millis(u64::try_from(self.an_hour_ms.saturating_sub(used_ms)).unwrap_or(0))
    }

    /// Takes this much, from now on.
    ///
    /// # Errors
    /// It cannot be written to disk, and must not be used then.
    pub(super) fn take(&mut self, length: Duration, home: &Directory) -> anyhow::Result<()> {
        let length_ms = milliseconds(length);
        let now_ms = self.now_ms();
        self.taken.push_back(Taken {
            until_ms: now_ms.saturating_add(length_ms),
            length_ms,
        });
        while self.taken.len() > MOST {
            self.taken.pop_front();
        }
        let wall_ms = now_us() / 1_000;
        let written = self.taken.iter().map(|taken| Written {
            until_ms: wall_ms.saturating_add(taken.until_ms.saturating_sub(now_ms)),
            length_ms: taken.length_ms,
        });
        let written: Vec<Written> = written.collect();
        remembered::write(home, OsStr::new(FILE), &written)
    }

    fn now_ms(&self) -> i64 {
        milliseconds(self.begin.elapsed())
    }
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AN_HOUR: Duration = Duration::from_secs(300);

    fn home() -> (tempfile::TempDir, Directory) {
        let folder = tempfile::TempDir::new().expect("a folder");
        let home = Directory::open(folder.path()).expect("it is there");
        (folder, home)
    }

    #[test]
    fn no_hour_has_more_than_its_budget() {
        let (_folder, home) = home();
        let mut budget = Budget::new(AN_HOUR, &home);
        assert_eq!(budget.left(), AN_HOUR);
        budget
            .take(Duration::from_secs(200), &home)
            .expect("it can be written");
        let second = 1_000;
        assert_eq!(budget.left_at(0), Duration::from_secs(100));
        assert_eq!(
            budget.left_at(200 * second + HOUR_MS - 5),
            Duration::from_secs(100)
        );
        assert_eq!(budget.left_at(200 * second + HOUR_MS + second), AN_HOUR);
    }

    #[test]
    fn the_next_agent_has_what_was_left() {
        let (_folder, home) = home();
        for left in [200, 100, 0] {
            let mut budget = Budget::new(AN_HOUR, &home);
            budget
                .take(Duration::from_secs(100), &home)
                .expect("it can be written");
            let after = Budget::new(AN_HOUR, &home).left();
            assert_eq!(after, Duration::from_secs(left));
        }
        // A damaged file does not count as an unused budget.
        std::fs::write(home.path().join(FILE), "[{").expect("it can be written");
        assert_eq!(Budget::new(AN_HOUR, &home).left(), Duration::ZERO);
        let huge = format!("[{{\"until_ms\":{},\"length_ms\":{}}}]", i64::MAX, i64::MAX);
        std::fs::write(home.path().join(FILE), huge).expect("it can be written");
        assert_eq!(Budget::new(AN_HOUR, &home).left(), Duration::ZERO);
    }
}
