//! Small helpers for the bytes of a line, used by several formats.

use std::borrow::Cow;

/// A whole number in decimal digits, all of the text.
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 20 {
        return None;
    }
    text.iter().try_fold(0u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(digit.into())
    })
}

/// A number with up to nine decimals, all of the text, in billionths: seconds as nanoseconds. None if it is not one, or too large for a
/// moment.
pub(crate) fn billionths(text: &[u8]) -> Option<i64> {
    let point = memchr::memchr(b'.', text).unwrap_or(text.len());
    let whole = i64::try_from(decimal(&text[..point])?).ok()?;
    let fraction = text.get(point + 1..).unwrap_or_default();
    if fraction.len() > 9 || (fraction.is_empty() && point < text.len()) {
        return None;
    }
    let digits = if fraction.is_empty() {
        0
    } else {
        decimal(fraction)?
    };
    let scale = 10i64.pow(9 - fraction.len() as u32);
    let fraction = i64::try_from(digits).ok()?.checked_mul(scale)?;
    whole.checked_mul(1_000_000_000)?.checked_add(fraction)
}

/// The same as SQL*Plus prints it: `130.7`; `.7`; `130,7` in sessions with another decimal point.
pub(crate) fn printed_billionths(text: &[u8]) -> Option<i64> {
    if text.is_empty() || text.len() > 30 {
        return None;
    }
    let mut number: Vec<u8> = text
        .iter()
        .map(|byte| if *byte == b',' { b'.' } else { *byte })
        .collect();
    if number[0] == b'.' {
        number.insert(0, b'0');
    }
    billionths(&number)
}

/// The line without terminal escapes for colours (`ESC [ … letter`), as `script` and some wrappers of SQL*Plus keep them.
pub(crate) fn without_escapes(text: &[u8]) -> Cow<'_, [u8]> {
    const ESCAPE: u8 = 0x1b;
    if memchr::memchr(ESCAPE, text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr(ESCAPE, rest) {
        plain.extend_from_slice(&rest[..at]);
        let sequence = &rest[at + 1..];
        let end = match sequence.first() {
            Some(b'[') => sequence
                .iter()
                .skip(1)
                .position(u8::is_ascii_alphabetic)
                .map(|letter| letter + 2),
            _ => Some(sequence.len().min(1)),
        };
        rest = &sequence[end.unwrap_or(sequence.len())..];
    }
    plain.extend_from_slice(rest);
    Cow::Owned(plain)
}

/// The line without blanks at its beginning.
pub(crate) fn trim_start(text: &[u8]) -> &[u8] {
    let blanks = text
        .iter()
        .take_while(|byte| matches!(byte, b' ' | b'\t'))
        .count();
    &text[blanks..]
}

/// The text before an offset in a function (`+0x1f`, `+380`), and whether there is one.
pub(crate) fn without_offset(text: &[u8]) -> (&[u8], bool) {
    let Some(plus) = memchr::memrchr(b'+', text) else {
        return (text, false);
    };
    let offset = &text[plus + 1..];
    let is_offset = match offset.strip_prefix(b"0x") {
        Some(digits) => !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit),
        None => !offset.is_empty() && offset.iter().all(u8::is_ascii_digit),
    };
    if is_offset && plus > 0 {
        (&text[..plus], true)
    } else {
        (text, false)
    }
}

/// A name without the brackets around it, as kernel modules have them: `[ext4]`.
pub(crate) fn without_brackets(name: &[u8]) -> &[u8] {
    let inside = name.strip_prefix(b"[").and_then(|name| name.strip_suffix(b"]"));
    inside.unwrap_or(name)
}

/// The last part of a path.
pub(crate) fn file_name(path: &[u8]) -> &[u8] {
    memchr::memrchr(b'/', path).map_or(path, |slash| &path[slash + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_digits_and_nothing_else() {
        assert_eq!(decimal(b"0"), Some(0));
        assert_eq!(decimal(b"18446744073709551615"), Some(u64::MAX));
        for wrong in ["", "18446744073709551616", "1 ", "-1", "+1", "1.0", "0x1"] {
            assert_eq!(decimal(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn decimals_are_kept_to_the_last_digit() {
        assert_eq!(billionths(b"2369.643919"), Some(2_369_643_919_000));
        assert_eq!(billionths(b"0.000000001"), Some(1));
        assert_eq!(billionths(b"7"), Some(7_000_000_000));
        for wrong in [
            "",
            ".",
            "1.",
            ".5",
            "1.2.3",
            "-1.5",
            "1.0000000001",
            "9223372036.9",
            "1e3",
        ] {
            assert_eq!(billionths(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn only_numbers_behind_a_plus_are_offsets() {
        assert_eq!(without_offset(b"f+0x1f"), (&b"f"[..], true));
        assert_eq!(without_offset(b"ksedsts()+380"), (&b"ksedsts()"[..], true));
        for plain in ["f", "operator+", "operator+0xg", "+0x10", "a+b"] {
            assert_eq!(without_offset(plain.as_bytes()), (plain.as_bytes(), false));
        }
    }

    #[test]
    fn printed_numbers_have_a_point_or_a_comma() {
        assert_eq!(printed_billionths(b"130.7"), Some(130_700_000_000));
        assert_eq!(printed_billionths(b"130,7"), Some(130_700_000_000));
        assert_eq!(printed_billionths(b".7"), Some(700_000_000));
        for wrong in ["", ".", "-1", "1.2.3", "x"] {
            assert_eq!(printed_billionths(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn colours_are_taken_out_and_nothing_else() {
        for (text, plain) in [
            (&b"a\x1b[1;31mb\x1b[0mc"[..], &b"abc"[..]),
            (b"\x1b[2Ka\x1b", b"a"),
            (b"\x1b[1;", b""),
            (b"\x1b", b""),
            (b"plain [0m", b"plain [0m"),
        ] {
            assert_eq!(without_escapes(text).as_ref(), plain);
        }
    }
}
