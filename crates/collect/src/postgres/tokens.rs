//! The tokens of a statement's text, from the crate sqlparser.

use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

/// The tokens up to where the text can be tokenized, and whether that is its end: it may have been cut inside a literal.
pub(super) fn tokens(sql: &str) -> (Vec<TokenWithSpan>, bool) {
    let mut tokens = Vec::new();
    let whole = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location_into_buf(&mut tokens);
    let wrong = tokens.iter().position(|token| has_comment(&token.token));
    tokens.truncate(wrong.unwrap_or(tokens.len()));
    (tokens, whole.is_ok() && wrong.is_none())
}

/// In the server an operator ends where a comment begins, in the crate it does not: what the crate takes for a literal after that may not
/// be one, and vice versa.
fn has_comment(token: &Token) -> bool {
    matches!(token, Token::CustomBinaryOperator(operator) if operator.contains("--") || operator.contains("/*"))
}
