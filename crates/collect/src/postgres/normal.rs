//! The text of a statement without its literals and comments: what a recording may keep. Literals become `?`, as PostgreSQL's own
//! normaliser replaces them by parameters.
//!
//! What cannot be taken apart any further, as a text that was cut inside a literal, is left out: a literal is never shown.

use sqlparser::tokenizer::{Token, Whitespace};

use super::tokens::tokens;

/// Stands for the rest of a text that could not be taken apart.
const REST: &str = "…";

/// See the module.
pub(super) fn normalised(sql: &str) -> String {
    let (tokens, is_whole) = tokens(sql);
    let mut text = String::with_capacity(sql.len());
    for token in tokens {
        match token.token {
            // A comment may be between two words.
            Token::Whitespace(
                Whitespace::Space
                | Whitespace::Newline
                | Whitespace::Tab
                | Whitespace::SingleLineComment { .. }
                | Whitespace::MultiLineComment(_),
            ) => {
                if !text.is_empty() && !text.ends_with(' ') {
                    text.push(' ');
                }
            }
            Token::EOF => {}
            Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::DollarQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::SingleQuotedByteStringLiteral(_)
            | Token::DoubleQuotedByteStringLiteral(_)
            | Token::SingleQuotedRawStringLiteral(_)
            | Token::DoubleQuotedRawStringLiteral(_)
            | Token::TripleSingleQuotedString(_)
            | Token::TripleDoubleQuotedString(_)
            | Token::TripleSingleQuotedByteStringLiteral(_)
            | Token::TripleDoubleQuotedByteStringLiteral(_)
            | Token::TripleSingleQuotedRawStringLiteral(_)
            | Token::TripleDoubleQuotedRawStringLiteral(_)
            | Token::QuoteDelimitedStringLiteral(_)
            | Token::NationalQuoteDelimitedStringLiteral(_) => text.push('?'),
            other => text.push_str(&other.to_string()),
        }
    }
    text.truncate(text.trim_end().len());
    if !is_whole {
        text.push_str(REST);
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn no_literal_is_left() {
        for (sql, expected) in [
            (
                "SELECT abalance FROM t WHERE aid = 4711;",
                "SELECT abalance FROM t WHERE aid = ?;",
            ),
            (
                "select 'it''s', E'it\\'s', $$x$y$$, $tag$it's$tag$",
                "select ?, ?, ?, ?",
            ),
            (
                "select U&'d\\0061t', B'101', x'ff', -1.5e-3",
                "select ?, ?, ?, -?",
            ),
            (
                "select \"a'b\", $1, t1 /* secret */ from --secret\n t",
                "select \"a'b\", $1, t1 from t",
            ),
            ("  select\n\t1  ", "select ?"),
            // Cut inside a literal, a comment, a name.
            ("select a from t where b = 'secr", "select a from t where b =…"),
            ("select $$ secr", "select…"),
            ("select 1 /* secr", "select ?…"),
            // Comments that begin in the middle of what might be an operator.
            ("select a <-- don't\n 'secr'", "select a < ?"),
            ("select a -/* don't */ 'secr'", "select a…"),
            ("select a +/* don't */ 'secr'", "select a + ?"),
            ("", ""),
        ] {
            assert_eq!(normalised(sql), expected, "{sql}");
        }
    }

    proptest! {
        #[test]
        fn whatever_stands_in_a_literal_is_not_shown(secret in "[a-z' \\\\$\"-]{0,20}") {
            let quoted = format!("select 'ZQ{}' , x", secret.replace('\'', "''"));
            prop_assert!(!normalised(&quoted).contains("ZQ"), "{}", normalised(&quoted));
            let dollars = format!("select $ZQ${}$ZQ$ , x", secret);
            prop_assert!(!normalised(&dollars).contains("ZQ"), "{}", normalised(&dollars));
        }

        #[test]
        fn any_text_is_taken(sql in any::<String>()) {
            let _ = normalised(&sql);
        }
    }
}
