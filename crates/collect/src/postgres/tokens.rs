//! The tokens of a statement's text. The crate sqlparser tells them apart.

use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

/// Those up to where a text can be taken apart, and whether that is its end: it may have been cut inside a literal.
pub(super) fn tokens(sql: &str) -> (Vec<TokenWithSpan>, bool) {
    let mut tokens = Vec::new();
    let whole = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location_into_buf(&mut tokens);
    let wrong = tokens.iter().position(|token| has_comment(&token.token));
    tokens.truncate(wrong.unwrap_or(tokens.len()));
    (tokens, whole.is_ok() && wrong.is_none())
}

/// The server's operators end where a comment begins, the crate's do not: what it takes for a literal behind them may be none, and
/// the other way round.
fn has_comment(token: &Token) -> bool {
    matches!(token, Token::CustomBinaryOperator(operator) if operator.contains("--") || operator.contains("/*"))
}
