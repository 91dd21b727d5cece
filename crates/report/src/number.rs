//! How times and other amounts are written.

use dbtime_model::recording::{Meta, Unit};

/// Seconds with three decimals, rounded half up: `12.346`.
pub(crate) fn seconds(ns: u128) -> String {
    // No overflow: a sum of 64-bit values leaves room.
    let ms = ns.saturating_add(500_000) / 1_000_000;
    format!("{}.{:03}", ms / 1_000, ms % 1_000)
}

/// Microseconds as seconds with all their digits: `12.345678`, `-0.000001`.
pub(crate) fn exact_seconds(us: i128) -> String {
    let sign = if us < 0 { "-" } else { "" };
    let us = us.unsigned_abs();
    format!("{sign}{}.{:06}", us / 1_000_000, us % 1_000_000)
}

/// How the amounts of a report are written: they are time, or what the recording counts instead. In answers they are in
/// the same fields (named `ns`), because they add up, split and compare in the same way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Amounts(Unit);

impl Amounts {
    pub(crate) fn of(meta: &Meta) -> Amounts {
        Amounts(meta.collector.unit)
    }

    /// True when they are time.
    pub(crate) fn are_times(self) -> bool {
        self.0 == Unit::Time
    }

    /// `12.346` for seconds, `12` for anything else.
    pub(crate) fn number(self, amount: u128) -> String {
        match self.0 {
            Unit::Time => seconds(amount),
            Unit::Samples | Unit::Counts => amount.to_string(),
        }
    }

    /// As shown in a table: `-` for zero, so that it differs from "less than a millisecond".
    pub(crate) fn cell(self, amount: u128) -> String {
        if amount == 0 {
            "-".to_string()
        } else {
            self.number(amount)
        }
    }

    /// `12.346 s`, `12 samples`.
    pub(crate) fn with_unit(self, amount: u128) -> String {
        let unit = match self.0 {
            Unit::Time => "s",
            Unit::Samples | Unit::Counts => self.unit(),
        };
        format!("{} {unit}", self.number(amount))
    }

    /// Their unit, for a heading.
    pub(crate) fn unit(self) -> &'static str {
        match self.0 {
            Unit::Time => "seconds",
            Unit::Samples => "samples",
            Unit::Counts => "counts",
        }
    }
}

/// Milliseconds with three decimals, rounded half up.
pub(crate) fn milliseconds(ns: u128) -> String {
    let us = ns.saturating_add(500) / 1_000;
    format!("{}.{:03}", us / 1_000, us % 1_000)
}

/// Microseconds, with one decimal below 100: `12.3`, `1234`.
pub(crate) fn microseconds(ns: u128) -> String {
    if ns < 99_950 {
        let tenths = (ns + 50) / 100;
        format!("{}.{}", tenths / 10, tenths % 10)
    } else {
        (ns.saturating_add(500) / 1_000).to_string()
    }
}

/// The plural ending for this count.
pub(crate) fn plural(count: impl TryInto<u128>) -> &'static str {
    match count.try_into() {
        Ok(1) => "",
        _ => "s",
    }
}

/// `1 event`, `2 events`.
pub(crate) fn counted(count: impl TryInto<u128> + std::fmt::Display + Copy, what: &str) -> String {
    format!("{count} {what}{}", plural(count))
}

/// Megabytes (2^20 bytes) with one decimal.
pub(crate) fn megabytes(bytes: u128) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}

/// A time in a suitable unit, three digits: `870 ns`, `12.3 us`, `1.23 ms`, `45.6 s`.
pub(crate) fn duration(ns: u128) -> String {
    let (unit, unit_ns) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => ("us", 1e3),
        1_000_000..1_000_000_000 => ("ms", 1e6),
        _ => ("s", 1e9),
    };
    let value = ns as f64 / unit_ns;
    let decimals = match value {
        ..10.0 => 2,
        ..100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

/// Step between labels of an axis: the smallest of 1, 2, 5 times a power of ten that is not below `least`.
pub(crate) fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0]
        .into_iter()
        .map(|digit| digit * power)
        .find(|step| *step >= least * (1.0 - 1e-9))
        .unwrap_or(10.0 * power)
}

/// A multiple of such a step as a label of an axis.
pub(crate) fn at_axis(value: f64) -> String {
    // Without the rounding error of summed binary fractions.
    format!("{}", (value * 1e6).round() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        assert_eq!(
            [0u64, 1, 2].map(|n| counted(n, "event")),
            ["0 events", "1 event", "2 events"]
        );
    }

    #[test]
    fn short_times_keep_their_digits() {
        let texts = [0, 49, 50, 1_000, 12_345, 99_949, 99_950, 1_234_567].map(microseconds);
        assert_eq!(texts, ["0.0", "0.0", "0.1", "1.0", "12.3", "99.9", "100", "1235"]);
        let texts = [999, 1_000, 12_345, 123_456, 1_234_567, 45_600_000_000].map(duration);
        assert_eq!(
            texts,
            ["999 ns", "1.00 us", "12.3 us", "123 us", "1.23 ms", "45.6 s"]
        );
        assert!(microseconds(u128::MAX).len() > 30 && duration(u128::MAX).ends_with(" s"));
    }

    #[test]
    fn exact_seconds_keep_their_sign_and_every_microsecond() {
        let texts = [0, 1, -1, -1_500_000, 12_345_678].map(exact_seconds);
        assert_eq!(
            texts,
            ["0.000000", "0.000001", "-0.000001", "-1.500000", "12.345678"]
        );
        assert!(exact_seconds(i128::MIN).starts_with('-'));
    }

    #[test]
    fn steps_of_an_axis_are_round() {
        let steps = [0.011, 0.2, 0.21, 1.0, 3.0, 5.5, 70.0].map(round_step);
        for (step, expected) in steps.into_iter().zip([0.02, 0.2, 0.5, 1.0, 5.0, 10.0, 100.0]) {
            assert!((step - expected).abs() < 1e-9, "{step} {expected}");
        }
    }

    #[test]
    fn seconds_are_rounded_to_milliseconds() {
        assert_eq!(seconds(0), "0.000");
        assert_eq!(seconds(499_999), "0.000");
        assert_eq!(seconds(500_000), "0.001");
        assert_eq!(seconds(12_345_678_901), "12.346");
        assert_eq!(seconds(u64::MAX.into()), "18446744073.710");
        assert_eq!(seconds(u128::MAX).split('.').count(), 2);
    }
}
