//! How long a snapshot was. Its last line rounds that to a tenth of a second. Growth per second was divided by the length to the
//! microsecond, so a row of large numbers narrows it down to a hundred-thousandth.

use crate::text::printed_billionths;

/// A number as Snapper prints it: rounded, so at most `half` away from `value`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rounded {
    /// What is printed.
    pub value: f64,
    /// Half of its last digit.
    half: f64,
}

/// Suffixes of times (in microseconds) and amounts.
const SUFFIXES: [(&[u8], f64); 12] = [
    (b"us", 1.0),
    (b"ms", 1e3),
    (b"ks", 1e9),
    (b"Ms", 1e12),
    (b"s", 1e6),
    (b"k", 1e3),
    (b"M", 1e6),
    (b"G", 1e9),
    (b"T", 1e12),
    (b"P", 1e15),
    (b"E", 1e18),
    (b"", 1.0),
];

impl Rounded {
    /// `491.59k`, `.02us`, `870,69ms`, `-6.55k`: two decimals, without trailing zeros.
    pub(super) fn short(text: &[u8]) -> Option<Rounded> {
        let suffix = SUFFIXES.iter().find(|(suffix, _)| text.ends_with(suffix));
        let (suffix, scale) = suffix?;
        Rounded::scaled(&text[..text.len() - suffix.len()], *scale, 0.005)
    }

    /// `87.1%`, `.0%`: as microseconds per second.
    pub(super) fn percent(text: &[u8]) -> Option<Rounded> {
        Rounded::scaled(text.strip_suffix(b"%")?, 1e4, 0.05)
    }

    fn scaled(number: &[u8], scale: f64, half: f64) -> Option<Rounded> {
        let (sign, digits) = match number.strip_prefix(b"-") {
            Some(digits) => (-1.0, digits),
            None => (1.0, number),
        };
        let value = printed_billionths(digits)? as f64 / 1e9;
        Some(Rounded {
            value: sign * value * scale,
            half: half * scale,
        })
    }
}

/// Bounds of the length of a snapshot, in seconds, derived from its rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Length {
    least: f64,
    most: f64,
}

impl Default for Length {
    fn default() -> Length {
        Length {
            least: 0.0,
            most: f64::INFINITY,
        }
    }
}

impl Length {
    /// Narrows the bounds by those of another row.
    pub(super) fn meet(&mut self, other: Length) {
        self.least = self.least.max(other.least);
        self.most = self.most.min(other.most);
    }

    /// Narrows the bounds by a row: its growth and, if it has that, its growth per second.
    pub(super) fn divides(&mut self, growth: i64, per_second: Option<Rounded>) {
        let Some(per_second) = per_second else {
            return;
        };
        let (growth, rate) = ((growth as f64).abs(), per_second.value.abs());
        if rate <= per_second.half || growth == 0.0 {
            return;
        }
        self.least = self.least.max(growth / (rate + per_second.half));
        self.most = self.most.min(growth / (rate - per_second.half));
    }

    /// Nanoseconds. The printed length, right to a tenth of a second, stays if all rows agree with it, or if they agree with no length near
    /// it: then the rows are not what Snapper printed.
    pub(super) fn finish(self, printed_ns: i64) -> i64 {
        const TO_NS: f64 = 5e7;
        let printed = printed_ns as f64;
        let least = (self.least * 1e9).max(printed - TO_NS);
        let most = (self.most * 1e9).min(printed + TO_NS);
        if least > most || (least <= printed && printed <= most) {
            return printed_ns;
        }
        ((least + most) / 2.0).round() as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_were_rounded() {
        let short = |text: &str| Rounded::short(text.as_bytes()).map(|rounded| rounded.value);
        for (text, value) in [
            ("491.59k", 491_590.0),
            (".02us", 0.02),
            ("870,69ms", 870_690.0),
            ("-6.55k", -6_550.0),
            ("17.1s", 17_100_000.0),
            ("1.2ks", 1.2e9),
            ("4.03G", 4.03e9),
            ("94.45", 94.45),
            ("0", 0.0),
        ] {
            let found = short(text).unwrap_or_else(|| panic!("{text}"));
            assert!((found - value).abs() <= value.abs() * 1e-12, "{text}: {found}");
        }
        for none in ["", "~", "k", "1.2.3", "x", "--1"] {
            assert_eq!(short(none), None, "{none}");
        }
    }

    #[test]
    fn the_length_is_what_growth_was_divided_by() {
        // Rows of Snapper 4.15, whose last line says 130.7.
        let mut length = Length::default();
        for (growth, rate) in [
            (64_245_093, "491.59k"),
            (64_243_699, "491.58k"),
            (113_788_701, "870.69ms"),
            (526_283_096_064, "4.03G"),
            (1, ".01"),
        ] {
            length.divides(growth, Rounded::short(rate.as_bytes()));
        }
        let ns = length.finish(130_700_000_000);
        let rate = |growth: f64| growth * 1e9 / ns as f64;
        assert_eq!(format!("{:.2}", rate(64_245_093.0) / 1e3), "491.59");
        assert_eq!(format!("{:.2}", rate(64_243_699.0) / 1e3), "491.58");
        assert_eq!(format!("{:.2}", rate(113_788_701.0) / 1e3), "870.69");
        assert_ne!(ns, 130_700_000_000);
        // Ten seconds stay ten seconds, and nonsense changes nothing.
        let mut length = Length::default();
        length.divides(1_000_000, Rounded::short(b"100ms"));
        assert_eq!(length.finish(10_000_000_000), 10_000_000_000);
        length.divides(1, Rounded::short(b".02"));
        assert_eq!(length.finish(10_000_000_000), 10_000_000_000);
    }
}
