//! Decimal numbers in bytes.

/// Digits of a number that cannot be too large.
const SURE: usize = 19;

/// The number that `text` begins with, and what follows it; none when there is none or it is too large.
pub(super) fn unsigned_prefix(text: &[u8]) -> Option<(u64, &[u8])> {
    let digit = |byte: &u8| {
        Some(byte.wrapping_sub(b'0'))
            .filter(|digit| *digit <= 9)
            .map(u64::from)
    };
    let mut value = 0u64;
    let mut length = 0;
    // Moments have 13 to 16 digits.
    while length <= SURE - 2 * 8
        && let Some(eight) = text[length..].first_chunk().and_then(eight_digits)
    {
        value = value * 100_000_000 + eight;
        length += 8;
    }
    for digit in text[length..].iter().map_while(digit) {
        value = if length < SURE {
            value * 10 + digit
        } else {
            value.checked_mul(10)?.checked_add(digit)?
        };
        length += 1;
    }
    (length > 0).then(|| (value, &text[length..]))
}

/// The number that eight digits are; none when one of them is no digit. All eight at once: pairs, then fours, then eight.
fn eight_digits(text: &[u8; 8]) -> Option<u64> {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let text = u64::from_le_bytes(*text);
    // '0' to '9' are 0x30 to 0x39: a digit stays below 0x40 when 6 is added, what is beyond '9' does not.
    let high = EACH * 0xf0;
    if text & high != EACH * 0x30 || text.wrapping_add(EACH * 6) & high != EACH * 0x30 {
        return None;
    }
    let digits = text & (EACH * 0x0f);
    let pairs = digits.wrapping_mul(10 << 8 | 1) >> 8 & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100 << 16 | 1) >> 16 & 0x0000_ffff_0000_ffff;
    Some(fours.wrapping_mul(10_000 << 32 | 1) >> 32)
}

/// The number that `text` is.
pub(super) fn unsigned(text: &[u8]) -> Option<u64> {
    unsigned_prefix(text).and_then(|(value, rest)| rest.is_empty().then_some(value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_are_what_the_standard_library_says(text in "[0-9]{0,22}", behind in "[^0-9]?.{0,9}") {
            let all = format!("{text}{behind}");
            let digits: String = all.chars().take_while(char::is_ascii_digit).collect();
            let expected = digits.parse().ok().map(|value| (value, &all.as_bytes()[digits.len()..]));
            prop_assert_eq!(unsigned_prefix(all.as_bytes()), expected);
        }

        #[test]
        fn eight_bytes_are_a_number_only_if_all_are_digits(text in any::<[u8; 8]>(), number in 0u64..100_000_000) {
            let of_text = std::str::from_utf8(&text).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
            prop_assert_eq!(eight_digits(&text), of_text.map(|text| text.parse().expect("digits")));
            let text = format!("{number:08}");
            prop_assert_eq!(text.as_bytes().first_chunk().and_then(eight_digits), Some(number));
        }
    }
}
