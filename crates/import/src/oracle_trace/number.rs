//! Decimal numbers in bytes.

/// The number that `text` begins with, and what follows it; none when there is none or it is too large.
pub(super) fn unsigned_prefix(text: &[u8]) -> Option<(u64, &[u8])> {
    /// As many digits can not be too many.
    const SURE: usize = 19;
    let digit = |byte: &u8| {
        Some(byte.wrapping_sub(b'0'))
            .filter(|digit| *digit <= 9)
            .map(u64::from)
    };
    let mut value = 0u64;
    let mut length = 0;
    for digit in text.iter().take(SURE).map_while(digit) {
        value = value * 10 + digit;
        length += 1;
    }
    for digit in text[length..].iter().map_while(digit) {
        value = value.checked_mul(10)?.checked_add(digit)?;
        length += 1;
    }
    (length > 0).then(|| (value, &text[length..]))
}

/// The number that `text` ends with, and what stands before it; none when there is none or it is too large.
pub(super) fn unsigned_suffix(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (before, number) = text.split_at(text.len() - digits);
    unsigned(number).map(|number| (number, before))
}

/// The number that `text` is.
pub(super) fn unsigned(text: &[u8]) -> Option<u64> {
    unsigned_prefix(text).and_then(|(value, rest)| rest.is_empty().then_some(value))
}
