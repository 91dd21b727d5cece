//! How times are written.

/// Seconds with three decimals, rounded half up: `12.346`.
pub(crate) fn seconds(ns: u128) -> String {
    // No overflow: a sum of 64-bit values leaves room.
    let ms = ns.saturating_add(500_000) / 1_000_000;
    format!("{}.{:03}", ms / 1_000, ms % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

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
