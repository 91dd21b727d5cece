//! How Snapper writes amounts: three digits and a suffix. The rules are those of its functions `tptformat` and `%TIME`.

use super::LineUnit;

/// `18.12us`, `.02us`, `870.69ms` for nanoseconds; `491.59k`, `-.01` for anything else; `0` for zero.
pub(crate) fn short(value: f64, unit: LineUnit) -> String {
    let suffixes: &[&str] = match unit {
        LineUnit::Nanoseconds => &["us", "ms", "s", "ks", "Ms"],
        LineUnit::Amount => &["", "k", "M", "G", "T", "P", "E"],
    };
    // Snapper counts in microseconds; anything below one keeps that unit.
    let value = match unit {
        LineUnit::Nanoseconds => value / 1e3,
        LineUnit::Amount => value,
    };
    if value == 0.0 {
        return "0".to_string();
    }
    let magnitude = value.abs().log10().floor().max(0.0) as usize / 3;
    let magnitude = magnitude.min(suffixes.len() - 1);
    // Rounded like a decimal number: 238565 is 238.57k, although 238.565 is a little less in binary.
    let hundredths = (value * 100.0 / 10f64.powi(3 * magnitude as i32)).round();
    format!("{}{}", digits(hundredths / 100.0), suffixes[magnitude])
}

/// Two decimals at most: no zero before the point, and none at the end.
fn digits(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    match text.strip_prefix("-0.").map(|rest| format!("-.{rest}")) {
        Some(negative) => negative,
        None => match text.strip_prefix("0.") {
            Some(rest) => format!(".{rest}"),
            None if text == "-0" => "0".to_string(),
            None => text.to_string(),
        },
    }
}

/// One mark for each started ten percent of the time, which is rounded to whole percents; ten at most.
pub(crate) fn graph(percent: f64, mark: char) -> String {
    let marks = (percent.round() / 10.0).ceil().clamp(0.0, 10.0) as usize;
    let text: String = std::iter::repeat_n(mark, marks).collect();
    format!("[{text:<10}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_as_snapper_writes_them() {
        let amount = |value| short(value, LineUnit::Amount);
        let time = |us: f64| short(us * 1e3, LineUnit::Nanoseconds);
        // Lines of Snapper 4.15: growth in 130.7 s.
        assert_eq!(amount(64_245_093.0 / 130.69), "491.58k");
        assert_eq!(amount(-1.0 / 130.7), "-.01");
        assert_eq!(amount(238_565.0), "238.57k");
        assert_eq!(amount(0.0), "0");
        assert_eq!(amount(2.0), "2");
        assert_eq!(amount(94.4), "94.4");
        assert_eq!(time(870_690.0), "870.69ms");
        assert_eq!(time(0.02), ".02us");
        assert_eq!(time(3.0), "3us");
        assert_eq!(time(2_500_000.0), "2.5s");
        assert_eq!(time(1e13), "10Ms");
        // Larger than the largest suffix.
        assert_eq!(amount(1e22), "10000E");
        assert_eq!(amount(0.001), "0");
    }
}
