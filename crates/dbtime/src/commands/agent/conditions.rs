//! When an exact recording is wanted: more sessions do or wait for something than should.

use std::collections::VecDeque;

use serde::Deserialize;

use super::config::{over, times, watched};
use crate::record::{Measure, Watched};

const SECOND_US: i64 = 1_000_000;
/// Most seconds that a condition may be averaged over.
pub(super) const LONGEST: u32 = 300;

/// As in the configuration file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Condition {
    /// Which sessions are counted.
    #[serde(deserialize_with = "watched")]
    pub(super) what: Measure,
    /// Met if there are more than this, on average.
    #[serde(deserialize_with = "over")]
    pub(super) above: f64,
    /// And more than this many times the usual value at this hour; none: whatever is usual.
    #[serde(default, deserialize_with = "times")]
    pub(super) times_usual: Option<f64>,
    /// Seconds in the average.
    #[serde(default = "five", rename = "for", deserialize_with = "super::config::short")]
    pub(super) seconds: u32,
}

fn five() -> u32 {
    5
}

/// The last seconds of a server.
#[derive(Debug, Default)]
pub(super) struct Recent {
    seconds: VecDeque<Watched>,
}

impl Recent {
    pub(super) fn add(&mut self, second: Watched) {
        // The clock was set back: earlier seconds are from another time.
        if self
            .seconds
            .back()
            .is_some_and(|last| last.second_us >= second.second_us)
        {
            self.seconds.clear();
        }
        self.seconds.push_back(second);
        while self.seconds.len() > LONGEST as usize {
            self.seconds.pop_front();
        }
    }

    /// The average of a measure, by its number, over the last seconds; none if one of them is missing.
    pub(super) fn average(&self, number: usize, seconds: u32) -> Option<f64> {
        let last_us = self.seconds.back()?.second_us;
        let from_us = last_us - i64::from(seconds - 1) * SECOND_US;
        let within = || self.seconds.iter().filter(|second| second.second_us >= from_us);
        if within().count() != seconds as usize {
            return None;
        }
        let values: Option<Vec<f64>> = within()
            .map(|second| second.sessions.get(number).copied())
            .collect();
        Some(values?.iter().sum::<f64>() / f64::from(seconds))
    }
}

impl Condition {
    /// Says why it is met, if it is. `usual`: the usual value at this hour, if known.
    pub(super) fn met(&self, average: f64, usual: Option<f64>) -> Option<String> {
        // Rounded as in the message: a sum of fractions of seconds is never exactly two sessions.
        if (100.0 * average).round() / 100.0 <= self.above {
            return None;
        }
        let what = format!(
            "{} {average:.2} over {} s, above {}",
            self.what, self.seconds, self.above
        );
        match (self.times_usual, usual) {
            (None, _) => Some(what),
            (Some(times), Some(usual)) if average > times * usual => Some(format!(
                "{what} and {times} times the {usual:.2} usual at this hour"
            )),
            (Some(_), _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(second: i64, value: f64) -> Watched {
        Watched {
            second_us: second * SECOND_US,
            sessions: vec![0.0, value],
        }
    }

    #[test]
    fn an_average_is_of_all_its_seconds() {
        let mut recent = Recent::default();
        for (at, value) in [(10, 1.0), (11, 2.0), (13, 3.0), (14, 4.0), (15, 8.0)] {
            recent.add(second(at, value));
        }
        assert_eq!(recent.average(1, 3), Some(5.0));
        assert_eq!(recent.average(0, 3), Some(0.0));
        assert_eq!((recent.average(1, 4), recent.average(2, 1)), (None, None));
        recent.add(second(12, 7.0));
        assert_eq!((recent.average(1, 1), recent.average(1, 2)), (Some(7.0), None));
        for at in 20..2_000 {
            recent.add(second(at, 1.0));
        }
        assert_eq!(recent.seconds.len(), LONGEST as usize);
        assert_eq!(recent.average(1, LONGEST), Some(1.0));
    }

    #[test]
    fn what_is_usual_counts_once_it_is_known() {
        let mut condition = Condition {
            what: Measure::Active,
            above: 2.0,
            times_usual: None,
            seconds: 5,
        };
        assert_eq!(condition.met(2.0, Some(0.1)), None);
        assert_eq!(
            condition.met(2.5, None).as_deref(),
            Some("active 2.50 over 5 s, above 2")
        );
        condition.times_usual = Some(3.0);
        assert_eq!(
            (condition.met(9.0, None), condition.met(9.0, Some(3.0))),
            (None, None)
        );
        assert_eq!(
            condition.met(9.5, Some(3.0)).as_deref(),
            Some("active 9.50 over 5 s, above 2 and 3 times the 3.00 usual at this hour")
        );
    }
}
