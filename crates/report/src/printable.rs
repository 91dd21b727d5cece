//! Makes foreign text (symbols, user names, statements) fit for a terminal and for XML.

use std::borrow::Cow;

/// Replaces by `?` what could move a cursor, start an escape sequence, reorder a line or break an XML file:
/// control characters, line and paragraph separators, bidirectional controls and Unicode's non-characters.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    // Nearly all names are plain ASCII, and there are millions of them.
    let is_plain = text.bytes().all(|byte| (b' '..0x7f).contains(&byte));
    if !is_plain && text.chars().any(is_unprintable) {
        Cow::Owned(
            text.chars()
                .map(|c| if is_unprintable(c) { '?' } else { c })
                .collect(),
        )
    } else {
        Cow::Borrowed(text)
    }
}

fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{fdd0}'..='\u{fdef}'
            | '\u{feff}')
        || u32::from(c) & 0xfffe == 0xfffe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_and_line_breaks_are_replaced_and_other_text_is_kept() {
        assert_eq!(printable("\u{1b}[31mred\r\n\u{9b}2J"), "?[31mred???2J");
        assert_eq!(printable("a\u{202e}b\u{2028}c\u{ffff}d\u{1fffe}"), "a?b?c?d?");
        let kept = "std::vec<int, a;b> größe 漢字 🐘";
        assert!(matches!(printable(kept), Cow::Borrowed(text) if text == kept));
    }
}
