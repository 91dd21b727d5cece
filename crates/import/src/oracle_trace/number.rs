//! Decimal numbers in bytes, eight digits at a time.

/// The same in each of eight bytes.
const EACH: u64 = 0x0101_0101_0101_0101;

const POWERS_OF_TEN: [u64; 9] = [
    1,
    10,
    100,
    1_000,
    10_000,
    100_000,
    1_000_000,
    10_000_000,
    100_000_000,
];

/// Digits of a number that cannot be too large.
const SURE: usize = 19;

/// Bytes examined together.
pub(super) const CHUNK: usize = 8;

/// The number that `text` begins with, and what follows it; none if there is none or it is too large.
#[inline(always)]
pub(super) fn unsigned_prefix(text: &[u8]) -> Option<(u64, &[u8])> {
    // Most numbers have less than eight digits, and something after them.
    match text.first_chunk() {
        Some(chunk) => match first_digits(*chunk) {
            (value, CHUNK) => unsigned_rest(text, value, CHUNK),
            (_, 0) => None,
            (value, digits) => Some((value, &text[digits..])),
        },
        None => unsigned_rest(text, 0, 0),
    }
}

/// The same for a number that usually has one digit.
#[inline(always)]
pub(super) fn few_digits(text: &[u8]) -> Option<(u64, &[u8])> {
    if let [first, rest @ ..] = text
        && let Some(number) = digit(first)
        && rest.first().is_some_and(|next| digit(next).is_none())
    {
        return Some((number, rest));
    }
    unsigned_prefix(text)
}

/// The number in eight bytes, if all of them are digits.
#[inline(always)]
pub(super) fn eight_digits_of(text: [u8; CHUNK]) -> Option<u64> {
    let values = u64::from_le_bytes(text) ^ (EACH * u64::from(b'0'));
    (others(values) == 0).then(|| eight_digits(values))
}

/// Continues a number of which `length` digits were read.
fn unsigned_rest(text: &[u8], mut value: u64, mut length: usize) -> Option<(u64, &[u8])> {
    // Moments, and numbers of cursors, have 13 to 16 digits.
    if length == CHUNK
        && let Some(chunk) = text[length..].first_chunk()
    {
        let (part, digits) = first_digits(*chunk);
        value = value * POWERS_OF_TEN[digits] + part;
        length += digits;
        if digits < CHUNK {
            return Some((value, &text[length..]));
        }
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

/// The number that `text` ends with, and what comes before it; none if there is none or it may be too large.
#[inline]
pub(super) fn unsigned_suffix(text: &[u8]) -> Option<(&[u8], u64)> {
    let mut value = 0u64;
    let mut rest = text;
    let mut unit = 1;
    for _ in 0..2 {
        let Some((before, chunk)) = rest.split_last_chunk() else {
            break;
        };
        let (part, digits) = last_digits(*chunk);
        value += part * unit;
        if digits < CHUNK {
            rest = &rest[..rest.len() - digits];
            return (rest.len() < text.len()).then_some((rest, value));
        }
        rest = before;
        unit *= POWERS_OF_TEN[CHUNK];
    }
    while let [before @ .., last] = rest
        && let Some(digit) = digit(last)
    {
        if text.len() - rest.len() + 1 >= SURE {
            return None;
        }
        value += digit * unit;
        unit *= 10;
        rest = before;
    }
    (rest.len() < text.len()).then_some((rest, value))
}

#[inline]
fn digit(byte: &u8) -> Option<u64> {
    Some(byte.wrapping_sub(b'0'))
        .filter(|digit| *digit <= 9)
        .map(u64::from)
}

/// A bit in each byte that is not a digit, after `0` was subtracted from all of them. Bits above the lowest such byte are not reliable.
#[inline]
fn others(values: u64) -> u64 {
    (values.wrapping_add(EACH * (0x80 - 10)) | values) & (EACH * 0x80)
}

/// The number in the first digits, and how many they are.
#[inline]
fn first_digits(text: [u8; CHUNK]) -> (u64, usize) {
    let values = u64::from_le_bytes(text) ^ (EACH * u64::from(b'0'));
    let digits = others(values).trailing_zeros() / 8;
    // Digits move to the end, with zeros before them.
    let aligned = values.checked_shl(64 - 8 * digits).unwrap_or(0);
    (eight_digits(aligned), digits as usize)
}

/// The number in the last digits, and how many they are.
#[inline]
fn last_digits(text: [u8; CHUNK]) -> (u64, usize) {
    // The last byte is the lowest one here, because of what `others` says.
    let values = u64::from_be_bytes(text) ^ (EACH * u64::from(b'0'));
    let digits = others(values).trailing_zeros() / 8;
    let kept = values & u64::MAX.checked_shr(64 - 8 * digits).unwrap_or(0);
    (eight_digits(kept.swap_bytes()), digits as usize)
}

/// The number of eight values from 0 to 9, the first one in the lowest byte. Combines pairs, then fours, then all eight.
#[inline]
fn eight_digits(values: u64) -> u64 {
    let pairs = values.wrapping_mul(10 << 8 | 1) >> 8 & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100 << 16 | 1) >> 16 & 0x0000_ffff_0000_ffff;
    fours.wrapping_mul(10_000 << 32 | 1) >> 32
}

/// The number in `text`, all of it.
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
        fn a_number_at_the_end_is_the_same_number(before in ".{0,9}[^0-9]?", text in "[0-9]{0,18}") {
            let all = format!("{before}{text}");
            let at = all.trim_end_matches(|c: char| c.is_ascii_digit()).len();
            let expected = all[at..].parse().ok().map(|value: u64| (&all.as_bytes()[..at], value));
            prop_assume!(all.len() - at < SURE);
            prop_assert_eq!(unsigned_suffix(all.as_bytes()), expected);
        }

        #[test]
        fn a_number_of_few_digits_is_the_same_number(text in "[0-9]{0,22}[^0-9]?.{0,9}") {
            prop_assert_eq!(few_digits(text.as_bytes()), unsigned_prefix(text.as_bytes()));
        }

        #[test]
        fn eight_bytes_are_a_number_when_all_are_digits(text in "[0-9]{7}[0-9:/ ]", bytes in any::<[u8; CHUNK]>()) {
            for bytes in [text.as_bytes().try_into().expect("eight bytes"), bytes] {
                let text = std::str::from_utf8(&bytes).ok().filter(|text| !text.starts_with('+'));
                prop_assert_eq!(eight_digits_of(bytes), text.and_then(|text| text.parse().ok()));
            }
        }

        #[test]
        fn digits_end_at_whatever_is_none(bytes in any::<[u8; CHUNK]>(), digits in 0..=CHUNK) {
            let mut text = bytes;
            text[..digits].fill(b'7');
            let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let number = std::str::from_utf8(&text[..count]).expect("digits").parse().unwrap_or(0);
            prop_assert_eq!(first_digits(text), (number, count));
            text.reverse();
            let number = std::str::from_utf8(&text[CHUNK - count..]).expect("digits").parse().unwrap_or(0);
            prop_assert_eq!(last_digits(text), (number, count));
        }
    }

    #[test]
    fn what_is_too_large_is_no_number() {
        assert_eq!(
            unsigned_prefix(b"18446744073709551615,"),
            Some((u64::MAX, &b","[..]))
        );
        assert_eq!(unsigned_prefix(b"18446744073709551616,"), None);
        assert_eq!(unsigned_suffix(b"=9999999999999999999"), None);
    }
}
