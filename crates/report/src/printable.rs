//! Makes foreign text (symbols, user names, statements) safe for a terminal and for XML.

use std::borrow::Cow;
use std::io::{self, Write};

use serde_json::ser::{Formatter, PrettyFormatter};
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

/// Replaces by `?` what could move a cursor, start an escape sequence or another line, reorder a line, hide in it or break an XML
/// file: control and format characters, line and paragraph separators and Unicode's non-characters.
pub fn printable(text: &str) -> Cow<'_, str> {
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

/// The same for text of several lines, whose line feeds stay. All output to a terminal passes through here last, so that nothing
/// is forgotten.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    if text.chars().any(|c| c != '\n' && is_unprintable(c)) {
        let lines: Vec<Cow<'_, str>> = text.split('\n').map(printable).collect();
        return Cow::Owned(lines.join("\n"));
    }
    Cow::Borrowed(text)
}

/// JSON with unprintable characters escaped: it means the same to a program, and does nothing to a terminal. Line feeds between
/// values stay; inside strings JSON has none.
pub(crate) fn escaped_json(json: String) -> String {
    let is_printable = |c: char| c == '\n' || !is_unprintable(c);
    if json
        .bytes()
        .all(|byte| byte == b'\n' || (b' '..0x7f).contains(&byte))
        || json.chars().all(is_printable)
    {
        return json;
    }
    let mut escaped = String::with_capacity(json.len() + 64);
    for c in json.chars() {
        if is_printable(c) {
            escaped.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                escaped.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    escaped
}

/// Writes indented JSON, escaped as by [`escaped_json`], piece by piece.
#[derive(Default)]
pub(crate) struct EscapedJson<'a>(PrettyFormatter<'a>);

impl Formatter for EscapedJson<'_> {
    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_array(out)
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array(out)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(out, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array_value(out)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object(out)
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object(out)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(out, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object_value(out)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object_value(out)
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, text: &str) -> io::Result<()> {
        match text.bytes().all(|byte| (b' '..0x7f).contains(&byte)) {
            true => out.write_all(text.as_bytes()),
            false => out.write_all(escaped_json(text.to_string()).as_bytes()),
        }
    }
}

fn is_unprintable(c: char) -> bool {
    use GeneralCategory::{Control, Format, LineSeparator, ParagraphSeparator};
    // Looking up the category searches a table, so ASCII comes first.
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    matches!(
        c.general_category(),
        Control | Format | LineSeparator | ParagraphSeparator
    )
        // Unassigned, but invisible: Default_Ignorable_Code_Point of Unicode's DerivedCoreProperties.txt.
        || matches!(c, '\u{2065}' | '\u{fff0}'..='\u{fff8}' | '\u{e0000}'..='\u{e0fff}')
        // Non-characters.
        || matches!(c, '\u{fdd0}'..='\u{fdef}')
        || u32::from(c) & 0xfffe == 0xfffe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_means_the_same_and_does_nothing_to_a_terminal() {
        let hostile = "\u{1b}[2J\u{7f}\u{9b}31m\u{202e}\u{2028}\u{1fffe}\u{feff} größe 漢字 🐘\n";
        let json = escaped_json(serde_json::to_string_pretty(&[hostile]).expect("a text"));
        assert!(json.chars().all(|c| c == '\n' || !is_unprintable(c)), "{json:?}");
        assert!(
            json.contains("\\u009b") && json.contains("\\u202e") && json.contains("🐘"),
            "{json}"
        );
        assert_eq!(
            serde_json::from_str::<[String; 1]>(&json).expect("JSON"),
            [hostile]
        );
    }

    #[test]
    fn json_that_is_written_piece_by_piece_is_the_same() {
        let hostile = "\u{1b}[2J\u{7f}\u{9b}31m\"\u{202e}\\ größe\n漢字 \u{feff}🐘";
        let value = serde_json::json!({hostile: [hostile, {}, [], {"a": 1.5, "b": [null]}], "c": ""});
        let mut written = Vec::new();
        let mut serializer = serde_json::Serializer::with_formatter(&mut written, EscapedJson::default());
        serde::Serialize::serialize(&value, &mut serializer).expect("memory takes all");
        let whole = escaped_json(serde_json::to_string_pretty(&value).expect("a value"));
        assert_eq!(String::from_utf8(written).expect("text"), whole);
    }

    /// The ranges that UAX #9, UAX #14 and chapter 23 of the Unicode standard list as controls without a visible form.
    #[test]
    fn characters_that_are_not_seen_are_replaced() {
        for (first, last) in [
            (0x00, 0x1f),
            (0x7f, 0x9f),
            (0xad, 0xad),
            (0x61c, 0x61c),
            (0x180e, 0x180e),
            (0x200b, 0x200f),
            (0x2028, 0x202e),
            (0x2060, 0x206f),
            (0xfdd0, 0xfdef),
            (0xfeff, 0xfeff),
            (0xfff0, 0xfffb),
            (0xfffe, 0xffff),
            (0x1bca0, 0x1bca3),
            (0x1d173, 0x1d17a),
            (0xe0000, 0xe007f),
            (0x10_fffe, 0x10_ffff),
        ] {
            for c in (first..=last).filter_map(char::from_u32) {
                assert_eq!(printable(&format!("a{c}b")), "a?b", "{c:?}");
                assert_eq!(
                    printable_lines(&format!("a{c}b")),
                    if c == '\n' { "a\nb" } else { "a?b" }
                );
                let json = escaped_json(format!("\"{c}\""));
                assert!(c == '\n' || json.is_ascii(), "{c:?}: {json:?}");
            }
        }
    }

    #[test]
    fn escape_sequences_and_line_breaks_are_replaced_and_other_text_is_kept() {
        assert_eq!(printable("\u{1b}[31mred\r\n\u{9b}2J"), "?[31mred???2J");
        assert_eq!(printable("a\u{202e}b\u{2028}c\u{ffff}d\u{1fffe}"), "a?b?c?d?");
        assert_eq!(printable_lines("a\u{1b}b\n\u{202e}c\r\n"), "a?b\n?c?\n");
        assert!(matches!(printable_lines("a\nb\n"), Cow::Borrowed(_)));
        let kept = "std::vec<int, a;b> größe 漢字 🐘";
        assert!(matches!(printable(kept), Cow::Borrowed(text) if text == kept));
    }
}
