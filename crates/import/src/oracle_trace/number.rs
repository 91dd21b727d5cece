//! Decimal numbers in bytes.

/// The number that `text` begins with, and what follows it; none when there is none or it is too large.
pub(super) fn unsigned_prefix(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    let mut length = 0;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
        length += 1;
    }
    (length > 0).then(|| (value, &text[length..]))
}

/// The number that `text` is.
pub(super) fn unsigned(text: &[u8]) -> Option<u64> {
    unsigned_prefix(text).and_then(|(value, rest)| rest.is_empty().then_some(value))
}
