//! What is usual: averages of the same hour on the days before.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;

use dbtime_model::output::Directory;
use serde::{Deserialize, Serialize};

use super::remembered;
use crate::output::say;
use crate::record::{Measure, Watched};

const FILE: &str = "usual.json";
const HOUR_US: i64 = 3_600_000_000;
/// Hours of a day, UTC.
const HOURS: i64 = 24;
/// How many days to look back.
const DAYS: i64 = 7;
/// The average of an hour with fewer seconds is not representative.
const ENOUGH: u32 = 1_800;

/// See the module.
#[derive(Debug)]
pub(super) struct Usual {
    /// By server, then by measure.
    servers: BTreeMap<String, BTreeMap<String, Past>>,
    /// The current hour, by the same.
    now: BTreeMap<(String, String), Hour>,
}

/// Averages of hours.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Past {
    /// Hours since the Unix epoch and the average of each, the oldest first.
    hours: VecDeque<(i64, f64)>,
}

#[derive(Debug, Default)]
struct Hour {
    /// Since the Unix epoch.
    number: i64,
    seconds: u32,
    sum: f64,
}

impl Usual {
    /// Continues from what earlier agents saw; if that cannot be read, starts again.
    pub(super) fn new(home: &Directory) -> Usual {
        let servers = remembered::read(home, OsStr::new(FILE)).unwrap_or_else(|e| {
            say(format_args!(
                "{e:#}: the usual values are unknown and will be learnt again"
            ));
            None
        });
        Usual {
            servers: servers.unwrap_or_default(),
            now: BTreeMap::new(),
        }
    }

    /// Adds a second of a server. `measures`: those of its values, each once.
    pub(super) fn add(&mut self, server: &str, measures: &[Measure], second: &Watched, home: &Directory) {
        let number = second.second_us.div_euclid(HOUR_US);
        let mut has_ended = false;
        for (measure, &value) in measures.iter().zip(&second.sessions) {
            let name = (server.to_string(), measure.to_string());
            let hour = self.now.entry(name).or_default();
            if hour.number != number {
                let ended = std::mem::replace(
                    hour,
                    Hour {
                        number,
                        ..Hour::default()
                    },
                );
                if ended.seconds >= ENOUGH {
                    let past = self
                        .servers
                        .entry(server.to_string())
                        .or_default()
                        .entry(measure.to_string())
                        .or_default();
                    let average = ended.sum / f64::from(ended.seconds);
                    past.hours.push_back((ended.number, average));
                    has_ended = true;
                }
            }
            hour.seconds += 1;
            hour.sum += value;
        }
        if has_ended {
            self.forget(number);
            if let Err(e) = remembered::write(home, OsStr::new(FILE), &self.servers) {
                say(format_args!("{e:#}: the usual values cannot be saved"));
            }
        }
    }

    /// The median of this hour's averages on the days before; none: there was none.
    pub(super) fn at(&self, server: &str, measure: &Measure, us: i64) -> Option<f64> {
        let number = us.div_euclid(HOUR_US);
        let past = self.servers.get(server)?.get(&measure.to_string())?;
        let is_same_hour = |hour: i64| {
            let before = number - hour;
            before > 0 && before % HOURS == 0 && before <= DAYS * HOURS
        };
        let mut averages: Vec<f64> = past
            .hours
            .iter()
            .filter(|(hour, _)| is_same_hour(*hour))
            .map(|(_, average)| *average)
            .collect();
        averages.sort_by(f64::total_cmp);
        let (middle, last) = (averages.len() / 2, averages.len().checked_sub(1)?);
        Some((averages[middle] + averages[last - middle]) / 2.0)
    }

    /// Forgets what is too old, and servers with nothing left.
    fn forget(&mut self, now: i64) {
        for measures in self.servers.values_mut() {
            for past in measures.values_mut() {
                // A clock that was ahead has left hours in the future.
                past.hours
                    .retain(|(hour, _)| (now - DAYS * HOURS..now).contains(hour));
            }
            measures.retain(|_, past| !past.hours.is_empty());
        }
        self.servers.retain(|_, measures| !measures.is_empty());
        self.now.retain(|_, hour| now - hour.number <= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_median_of_the_same_hour_on_the_days_before() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let home = Directory::open(folder.path()).expect("it is there");
        let mut usual = Usual::new(&home);
        let first = 480_000;
        // Day by day the average of hour 3 is 1, 2, 3 …, that of all others 100. One hour has too few seconds.
        for hour in first..first + 9 * 24 {
            let day = (hour - first) / 24;
            let is_third = (hour - first) % 24 == 3;
            let seconds = if is_third && day == 7 { 100 } else { ENOUGH };
            for second in 0..i64::from(seconds) {
                let value = if is_third { day as f64 + 1.0 } else { 100.0 };
                let watched = Watched {
                    second_us: hour * HOUR_US + second * 1_000_000,
                    sessions: vec![value, 0.5],
                };
                usual.add("a", &[Measure::Active, Measure::RunQueue], &watched, &home);
            }
        }
        // Days 2 to 8, counted from 0: 3, 4, 5, 6, 7, none (day 7 had too few seconds) and 9.
        let at = (first + 9 * 24 + 3) * HOUR_US + 1;
        for usual in [&usual, &Usual::new(&home)] {
            assert_eq!(usual.at("a", &Measure::Active, at), Some(5.5));
            assert_eq!(usual.at("a", &Measure::RunQueue, at), Some(0.5));
            assert_eq!(usual.at("a", &Measure::Active, at + HOUR_US), Some(100.0));
            assert_eq!(usual.at("b", &Measure::Active, at), None);
            assert_eq!(usual.at("a", &Measure::Active, at - 300 * 24 * HOUR_US), None);
        }
        let kept = usual.servers["a"]["active"].hours.len();
        assert!(kept <= 7 * 24, "{kept}");
    }
}
