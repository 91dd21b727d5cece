//! The text of a statement without its literals and comments: what a recording may keep. Literals become `?`, where PostgreSQL's own
//! normaliser puts parameters.
//!
//! What cannot be tokenized, as a text that was cut inside a literal, is left out: a literal is never shown.

use sqlparser::tokenizer::Token;

use super::tokens::tokens;
use crate::fingerprint::operand_follows;

/// Stands for the rest of a text that could not be tokenized.
const REST: &str = "…";

/// See the module.
pub(super) fn normalised(sql: &str) -> String {
    let (tokens, is_whole) = tokens(sql);
    let mut text = String::with_capacity(sql.len());
    let mut operand_ended = false;
    // Length of the text before a sign that belongs to a literal, if one follows: `+ -5` is `+ ?`, as `+ 5` is.
    let mut before_sign = None;
    for token in tokens {
        match &token.token {
            // A comment may separate two words.
            Token::Whitespace(_) => {
                if !text.is_empty() && !text.ends_with(' ') {
                    text.push(' ');
                }
                continue;
            }
            Token::EOF => continue,
            literal if is_literal(literal) => {
                text.truncate(before_sign.take().unwrap_or(text.len()));
                text.push('?');
            }
            other => {
                let is_sign = matches!(other, Token::Plus | Token::Minus) && !operand_ended;
                before_sign = is_sign.then_some(text.len());
                text.push_str(&other.to_string());
            }
        }
        operand_ended = ends_operand(&token.token);
    }
    text.truncate(text.trim_end().len());
    if !is_whole {
        text.push_str(REST);
    }
    text
}

fn is_literal(token: &Token) -> bool {
    matches!(
        token,
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
            | Token::NationalQuoteDelimitedStringLiteral(_)
    )
}

/// Whether a sign after it is an operator.
fn ends_operand(token: &Token) -> bool {
    match token {
        Token::Word(word) => word.quote_style.is_some() || !operand_follows(&word.value),
        Token::Placeholder(_) | Token::RParen | Token::RBracket => true,
        other => is_literal(other),
    }
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
            ("select U&'d\\0061t', B'101', x'ff', -1.5e-3", "select ?, ?, ?, ?"),
            (
                "select \"a'b\", $1, t1 /* secret */ from --secret\n t",
                "select \"a'b\", $1, t1 from t",
            ),
            ("  select\n\t1  ", "select ?"),
            // A sign belongs to the literal if no operand ends before it.
            (
                "update t set a = a + -5, b = - 5",
                "update t set a = a + ?, b = ?",
            ),
            (
                "select a -5, (b)-5, c[1] - 5, $1 -5, \"and\" -5",
                "select a -?, (b)-?, c[?] - ?, $1 -?, \"and\" -?",
            ),
            (
                "select -a, -5 - -5, 1 AND -5, between +5",
                "select -a, ? - ?, ? AND ?, between ?",
            ),
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
