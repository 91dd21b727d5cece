//! The time axis below a picture: round times of day, or, without a UTC clock, round seconds since the recording began.

use dbtime_model::recording::{Clock, Meta};

use crate::drawing::{INK, PALE_INK, Svg};
use crate::filter::SECOND_US;
use crate::group::date_and_time;
use crate::round_seconds::round_seconds;
use crate::scan::Period;

/// Minimum distance between labels.
const LABEL_GAP_PX: f64 = 72.0;

/// From moments to pixels.
pub(crate) struct TimeAxis {
    period: Period,
    left: i32,
    width: i32,
    us_px: f64,
}

impl TimeAxis {
    /// For a picture that begins `left` pixels from the left.
    pub(crate) fn new(period: Period, left: i32, width: i32) -> TimeAxis {
        let length = period.to_us as f64 - period.from_us as f64;
        TimeAxis {
            period,
            left,
            width,
            us_px: f64::from(width) / length.max(1.0),
        }
    }

    /// The position of a moment.
    pub(crate) fn x(&self, us: i64) -> f64 {
        f64::from(self.left) + (us as f64 - self.period.from_us as f64) * self.us_px
    }

    /// Draws it.
    pub(crate) fn render(&self, meta: &Meta, bottom: i32, svg: &mut Svg) {
        let right = self.left + self.width;
        svg.rule((self.left, bottom), (right, bottom), PALE_INK);
        let is_utc = meta.collector.clock == Clock::Utc;
        let origin = if is_utc { 0 } else { i128::from(meta.start_us) };
        let second = i128::from(SECOND_US);
        let step = round_seconds()
            .find(|step| *step as f64 * self.us_px * SECOND_US as f64 >= LABEL_GAP_PX)
            .unwrap_or(i64::MAX);
        let step_us = i128::from(step) * second;
        let (from, to) = (i128::from(self.period.from_us), i128::from(self.period.to_us));
        let first = (from - origin + step_us - 1).div_euclid(step_us);
        let mut day = String::new();
        for number in first.. {
            let at = origin + number * step_us;
            if at > to {
                break;
            }
            let us = i64::try_from(at).unwrap_or(i64::MAX);
            let x = self.x(us).round() as i32;
            svg.rule((x, bottom), (x, bottom + 5), PALE_INK);
            match date_and_time(us) {
                Some((date, time)) if is_utc => {
                    let minutes = time.strip_suffix(":00").filter(|_| step % 60 == 0);
                    svg.text((x, bottom + 19), "middle", INK, minutes.unwrap_or(&time));
                    if date != day {
                        svg.text((x, bottom + 35), "middle", PALE_INK, &date);
                        day = date;
                    }
                }
                None if is_utc => {}
                _ => svg.text(
                    (x, bottom + 19),
                    "middle",
                    INK,
                    &format!("{} s", number * i128::from(step)),
                ),
            }
        }
        let clock = if is_utc {
            "UTC"
        } else {
            "since the recording began"
        };
        svg.text((right, bottom + 35), "end", PALE_INK, clock);
    }
}
