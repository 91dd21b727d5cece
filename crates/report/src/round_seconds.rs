//! Lengths of time that people count in: for axes of pictures and buckets of time.

/// Up to a day.
const ROUND_S: [i64; 18] = [
    1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200, 86_400,
];

/// Round numbers of seconds, the smallest first, up to more than any recording lasts.
pub(crate) fn round_seconds() -> impl Iterator<Item = i64> {
    let days = (1..14).map(|n| 10i64.saturating_pow(n).saturating_mul(86_400));
    ROUND_S.into_iter().chain(days)
}
