//! The two ends of a statement's text, either of which may be a comment, as bpf/comment.bpf.h cuts them out.

/// Bytes of an end: `COMMENT_BYTES`.
const BYTES: usize = 1024;
/// Maximum number of blanks after a comment, or before it.
const MOST_BLANKS: usize = 15;

/// The beginning and the end of a text; either may be all of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ends<'a> {
    pub(crate) begin: &'a [u8],
    pub(crate) end: &'a [u8],
    /// There is nothing between the two: both are the whole text.
    pub(crate) is_whole: bool,
}

impl<'a> Ends<'a> {
    /// For a text that seems to begin or end with a comment; None for any other.
    pub(crate) fn with_comment(text: &'a [u8]) -> Option<Ends<'a>> {
        let begins = begins_with_comment(text);
        if !begins && !ends_with_comment(text) {
            return None;
        }
        if text.len() <= BYTES {
            return Some(Ends {
                begin: text,
                end: text,
                is_whole: true,
            });
        }
        Some(Ends {
            begin: if begins { &text[..BYTES] } else { &[] },
            end: &text[text.len() - BYTES..],
            is_whole: false,
        })
    }
}

/// What may stand between a comment and the end of a text.
pub(super) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r' | b';')
}

fn begins_with_comment(text: &[u8]) -> bool {
    let blanks = text.iter().take_while(|byte| is_blank(**byte)).count();
    blanks <= MOST_BLANKS && text[blanks..].starts_with(b"/*")
}

fn ends_with_comment(text: &[u8]) -> bool {
    let blanks = text.iter().rev().take_while(|byte| is_blank(**byte)).count();
    blanks <= MOST_BLANKS && text[..text.len() - blanks].ends_with(b"*/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<(usize, usize, bool)> {
        let ends = Ends::with_comment(text.as_bytes())?;
        Some((ends.begin.len(), ends.end.len(), ends.is_whole))
    }

    #[test]
    fn a_short_text_is_whole_and_one_without_a_comment_is_none() {
        for text in [
            "/*a*/ select 1",
            "select 1 /*a*/",
            " ;\n\t/*a*/",
            "select 1/*a*/ ; ",
            "*/",
        ] {
            assert_eq!(of(text), Some((text.len(), text.len(), true)), "{text}");
        }
        for text in [
            "",
            " ; ",
            "/",
            "select 1",
            "select /*a*/ 1",
            "select 1 -- a",
            "select '*/'",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn of_a_long_text_there_are_the_ends() {
        let long = "x".repeat(BYTES);
        assert_eq!(of(&long), None);
        assert_eq!(of(&format!("{long}/*a*/")), Some((0, BYTES, false)));
        assert_eq!(of(&format!("/*a*/{long}")), Some((BYTES, BYTES, false)));
        let text = format!("/*{}*/", &long[4..]);
        assert_eq!(of(&text), Some((BYTES, BYTES, true)));
    }

    #[test]
    fn so_many_blanks_are_passed_over() {
        for (blanks, passed) in [(MOST_BLANKS, true), (MOST_BLANKS + 1, false)] {
            let blanks = " ".repeat(blanks);
            assert_eq!(of(&format!("select 1 /*a*/{blanks}")).is_some(), passed);
            assert_eq!(of(&format!("{blanks}/*a*/ select 1")).is_some(), passed);
        }
    }
}
