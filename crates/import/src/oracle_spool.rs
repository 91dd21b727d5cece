//! What dbtime's own scripts for SQL*Plus print: a heading with the version of the format, and lines of comma-separated fields; text is in
//! quotes, with quotes inside doubled; the last field is a point, so that a truncated line shows.

use std::borrow::Cow;

use crate::Import;
use crate::oracle_trace::wall_clock;

/// Longer texts are not names.
const MAX_TEXT: usize = 256;
/// Bytes shown of an unknown version.
const MAX_VERSION: usize = 20;

/// The heading of a format, and what was found of it.
#[derive(Debug)]
pub(crate) struct Heading {
    begin: &'static [u8],
    version: &'static [u8],
    other_version: Option<String>,
}

impl Heading {
    /// `begin`: what comes before the version; `version`: the known one.
    pub(crate) fn new(begin: &'static [u8], version: &'static [u8]) -> Heading {
        Heading {
            begin,
            version,
            other_version: None,
        }
    }

    /// True for a line with nothing else to read: the heading, an empty line, or any line of an unknown version.
    pub(crate) fn takes(&mut self, line: &[u8]) -> bool {
        if let Some(version) = line.strip_prefix(self.begin) {
            if version != self.version {
                let shown = &version[..version.len().min(MAX_VERSION)];
                self.other_version = Some(String::from_utf8_lossy(shown).into_owned());
            }
            return true;
        }
        line.is_empty() || self.other_version.is_some()
    }

    /// False for an unknown version, which is reported.
    pub(crate) fn is_known(&self, path: &str, into: &mut Import) -> bool {
        if let Some(version) = &self.other_version {
            into.problem(format!(
                "{path}: this dbtime does not support version {version} of the format: nothing is read"
            ));
        }
        self.other_version.is_none()
    }
}

/// The fields of a line without the point; none if it does not end in one, if there are more than `most` (including the point), if one is
/// too long to be a name, or if quotes are not closed.
pub(crate) fn fields(line: &[u8], most: usize) -> Option<Vec<Cow<'_, [u8]>>> {
    let mut fields = split(line, most)?;
    (fields.pop()?.as_ref() == b".").then_some(fields)
}

/// A field as text.
pub(crate) fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(field).into_owned()
}

/// `2026-01-02T03:04:05.000006Z`, in microseconds since the Unix epoch.
pub(crate) fn moment(field: &[u8]) -> Option<i64> {
    wall_clock(field).filter(|_| field.len() == 27)
}

fn split(line: &[u8], most: usize) -> Option<Vec<Cow<'_, [u8]>>> {
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
