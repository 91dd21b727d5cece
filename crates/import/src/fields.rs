//! Fields with commas between them; in quotes where they are text, quotes in it doubled: the lines that dbtime's own scripts for
//! SQL*Plus print.

use std::borrow::Cow;

/// Longer texts are no names.
const MAX_TEXT: usize = 256;

/// The fields of a line; none when there are more than `most`, one is too long to be a name, or quotes do not end.
pub(crate) fn fields(line: &[u8], most: usize) -> Option<Vec<Cow<'_, [u8]>>> {
    let mut fields = Vec::new();
    let mut rest = line;
    loop {
        let (field, after) = match rest.strip_prefix(b"\"") {
            None => {
                let end = memchr::memchr(b',', rest).unwrap_or(rest.len());
                (Cow::Borrowed(&rest[..end]), &rest[end..])
            }
            Some(text) => {
                let end = closing_quote(text)?;
                let field = match memchr::memchr(b'"', &text[..end]) {
                    None => Cow::Borrowed(&text[..end]),
                    Some(_) => Cow::Owned(without_doubled_quotes(&text[..end])),
                };
                (field, &text[end + 1..])
            }
        };
        if field.len() > MAX_TEXT || fields.len() == most {
            return None;
        }
        fields.push(field);
        match after.split_first() {
            None => return Some(fields),
            Some((b',', more)) => rest = more,
            Some(_) => return None,
        }
    }
}

fn closing_quote(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr::memchr(b'"', text.get(at..)?)?;
        if text.get(at + 1) != Some(&b'"') {
            return Some(at);
        }
        at += 2;
    }
}

fn without_doubled_quotes(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut is_second = false;
    for byte in text {
        is_second = *byte == b'"' && !is_second;
        if *byte != b'"' || is_second {
            plain.push(*byte);
        }
    }
    plain
}
