//! Foreign text inside XML.

use std::borrow::Cow;

use crate::printable::printable;

/// Text for an element or a quoted attribute: printable, and without anything that XML would take for markup.
pub(crate) fn xml(text: &str) -> String {
    let text: Cow<'_, str> = printable(text);
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_becomes_text() {
        assert_eq!(xml("a<b>&'\"\u{0}é"), "a&lt;b&gt;&amp;&apos;&quot;?é");
    }
}
