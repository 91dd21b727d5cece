//! Parsing of times: durations, ages, resolutions, rotations.

use std::time::Duration;

use dbtime_collect::RESOLUTIONS_S;

/// A time as it is typed: `10`, `2.5`, `30s`, `500ms`, `1m`, `2h`.
pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    let units = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let (number, unit) = units
        .into_iter()
        .find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))
        .unwrap_or((text, 1.0));
    let is_number = number.starts_with(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    let seconds: f64 = number
        .parse()
        .ok()
        .filter(|_| is_number)
        .ok_or_else(|| "not a time: give seconds (10, 2.5), or 500ms, 30s, 1m, 2h".to_string())?;
    match Duration::try_from_secs_f64(seconds * unit) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err("must be more than 0".to_string()),
    }
}

/// `10`, `30s`, `1m`: whole seconds.
pub fn parse_whole_seconds(text: &str) -> Result<u32, String> {
    let length = parse_seconds(text)?;
    match u32::try_from(length.as_secs()) {
        Ok(seconds) if seconds > 0 && length.subsec_nanos() == 0 => Ok(seconds),
        _ => Err("must be whole seconds".to_string()),
    }
}

/// `10`, `10s`, `1m`: whole seconds.
pub fn parse_resolution(text: &str) -> Result<u32, String> {
    let (number, unit_s) = match text.strip_suffix('m') {
        Some(minutes) => (minutes, 60),
        None => (text.strip_suffix('s').unwrap_or(text), 1),
    };
    let seconds = number
        .parse::<u32>()
        .ok()
        .and_then(|number| number.checked_mul(unit_s));
    seconds
        .filter(|seconds| RESOLUTIONS_S.contains(seconds))
        .ok_or_else(|| {
            format!(
                "must be whole seconds or minutes, 1s to {}m, as in 10s",
                RESOLUTIONS_S.end() / 60
            )
        })
}

/// Seconds of a day.
const DAY_S: u64 = 24 * 3_600;

/// The age up to which something is kept.
pub fn parse_age(text: &str) -> Result<Duration, String> {
    let age = match text.strip_suffix('d').map(str::parse::<u32>) {
        Some(Ok(days)) => Duration::from_secs(u64::from(days) * DAY_S),
        Some(Err(_)) => return Err("not a number of days, as in 30d".to_string()),
        None => parse_seconds(text)?,
    };
    match age.as_secs() {
        3_600.. => Ok(age),
        _ => Err("must be an hour or more, as in 12h or 30d".to_string()),
    }
}

/// A recording accepts late rows for a quarter of a minute after its end, and the next one may not end before that.
const SHORTEST_ROTATION_S: u64 = 20;

/// Length of the recordings of a series: they begin at the same times each day.
pub fn parse_rotation(text: &str) -> Result<Duration, String> {
    let seconds = match text.strip_suffix('d') {
        Some(days) => days.parse().ok().and_then(|days: u64| days.checked_mul(DAY_S)),
        None => parse_seconds(text)
            .ok()
            .filter(|time| time.subsec_nanos() == 0)
            .map(|time| time.as_secs()),
    };
    seconds
        .filter(|&seconds| (SHORTEST_ROTATION_S..=DAY_S).contains(&seconds) && DAY_S.is_multiple_of(seconds))
        .map(Duration::from_secs)
        .ok_or_else(|| {
            "must be 20s to 1d, and a day must be a multiple of it, as in 10m, 1h or 1d".to_string()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resolution_is_whole_seconds() {
        for (text, seconds) in [("1", 1), ("10s", 10), ("1m", 60), ("60m", 3_600)] {
            assert_eq!(parse_resolution(text), Ok(seconds));
        }
        for wrong in ["", "0", "0.5s", "61m", "-1s", "1h", "99999999999m"] {
            assert!(parse_resolution(wrong).is_err(), "{wrong}");
        }
    }
    #[test]
    fn durations_are_positive_numbers_of_seconds() {
        assert_eq!(parse_seconds("2.5"), Ok(Duration::from_millis(2500)));
        for (text, ms) in [
            ("30s", 30_000),
            ("1m", 60_000),
            ("2h", 7_200_000),
            ("1.5m", 90_000),
            ("250ms", 250),
        ] {
            assert_eq!(parse_seconds(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for wrong in [
            "0", "-1", "x", "nan", "inf", "", "s", "m", "1d", "0m", "1 h", "infs",
        ] {
            assert!(parse_seconds(wrong).is_err(), "{wrong}");
        }
    }
}
