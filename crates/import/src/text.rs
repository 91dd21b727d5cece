//! Small questions about bytes of a line that several formats ask.

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

/// A number with up to nine decimals, all of the text, in thousand-millionths: seconds as nanoseconds. None when it is none, or
/// too large for a moment.
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

/// The line without blanks at its beginning.
pub(crate) fn trim_start(text: &[u8]) -> &[u8] {
    let blanks = text
        .iter()
        .take_while(|byte| matches!(byte, b' ' | b'\t'))
        .count();
    &text[blanks..]
}

/// What stands before an offset in a function (`+0x1f`, `+380`), and true when there is one.
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
}
