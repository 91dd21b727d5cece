//! Texts in which a client has sent several statements at once. The server shows the whole text for each of them; a statement that was sent
//! alone keeps the text as it was sent.

use std::ops::Range;

use sqlparser::tokenizer::Token;

use super::encoding::decoded;
use super::tokens::tokens;
use crate::fingerprint::{fingerprint, is_utility};
use crate::statements::StatementText;

/// The text of one statement, taken from the text as the server has it, in the encoding with this number. `part`: where the statement is in
/// it, if that is known.
pub(super) fn one_of_several(
    text: &[u8],
    encoding: Option<u32>,
    part: Option<Range<usize>>,
) -> StatementText {
    let whole = decoded(text, encoding);
    if !are_several(&whole) {
        // What a utility statement executes may have an id, too, while its own text is shown.
        let until_parsed = if is_utility(text) { 0 } else { fingerprint(text) };
        return StatementText {
            text: whole,
            until_parsed,
            ..StatementText::default()
        };
    }
    let part = part.and_then(|part| text.get(part.start..part.end.min(text.len())));
    let part = part.map(<[u8]>::trim_ascii).filter(|part| !part.is_empty());
    StatementText {
        text: part.map_or(whole, |part| decoded(part, encoding)),
        is_one_of_several: part.is_none(),
        ..StatementText::default()
    }
}

/// True if a text certainly has several statements: something follows a semicolon that ends one.
fn are_several(sql: &str) -> bool {
    // Without a semicolon, or with one only at the end, it need not be tokenized.
    let is_end = |c: char| c.is_ascii_whitespace() || c == ';';
    if !sql.trim_end_matches(is_end).contains(';') {
        return false;
    }
    let (tokens, is_whole) = tokens(sql);
    let (mut statements, mut is_in_one, mut depth, mut last) = (0, false, 0, None);
    for token in &tokens {
        match &token.token {
            Token::Whitespace(_) | Token::EOF => continue,
            // Inside parentheses they separate the actions of a rule.
            Token::SemiColon if depth == 0 => {
                (is_in_one, last) = (false, None);
                continue;
            }
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            // The body of a function: its end is not searched for.
            Token::Word(word) if word.value.eq_ignore_ascii_case("atomic") && last == Some("begin") => {
                return false;
            }
            _ => {}
        }
        last = match &token.token {
            Token::Word(word) if word.value.eq_ignore_ascii_case("begin") => Some("begin"),
            _ => None,
        };
        statements += u32::from(!std::mem::replace(&mut is_in_one, true));
    }
    is_whole && statements > 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_semicolon_between_two_statements_makes_them_several() {
        for sql in [
            "select 1; select 2",
            "select 1;select 2;",
            " ; select 1 /* a; b */ ; /* c */ select 2 -- ;",
            "select f(';', (1)); select $$;$$",
            "create rule r as on insert to t do (delete from u; delete from v); select 1",
            "begin; atomic",
        ] {
            assert!(are_several(sql), "{sql}");
        }
        for sql in [
            "",
            ";;",
            "select 1",
            "select 1; ",
            "select 1 ;; /* ; */ -- select 2",
            "; select 1",
            "select ';', E'\\';', $$;$$, $a$; $$ ;$a$, \";\" as x",
            "select 1 -- a; b\n + 2",
            "select 1 /* a; /* b; */ c; */ + 2",
            "create rule r as on insert to t do (delete from u; delete from v)",
            "create function f() returns int begin atomic select 1; select 2; end",
            "create function f() returns int BEGIN /* a */ ATOMIC select 1; select 2; end; select 3",
            // Cut inside a literal: how it went on is not certain.
            "select 1; select 'a",
            "select a <-- b; c\n + 1",
        ] {
            assert!(!are_several(sql), "{sql}");
        }
    }

    fn of_one(text: &str, part: Option<Range<usize>>) -> (String, bool) {
        let found = one_of_several(text.as_bytes(), None, part);
        (found.text, found.is_one_of_several)
    }

    #[test]
    fn the_text_of_one_of_several_is_its_own_where_it_is_known_which_it_is() {
        let sql = "select 1; select 2 ; select 3";
        let own = |text: &str| (text.to_string(), false);
        assert_eq!(of_one(sql, Some(0..8)), own("select 1"));
        assert_eq!(of_one(sql, Some(9..19)), own("select 2"));
        assert_eq!(of_one(sql, Some(20..usize::MAX)), own("select 3"));
        let backwards = Range { start: 19, end: 9 };
        for part in [
            None,
            Some(8..8),
            Some(9..10),
            Some(1_000..usize::MAX),
            Some(backwards),
        ] {
            assert_eq!(of_one(sql, part), (sql.to_string(), true));
        }
        // A single statement is shown as it was sent.
        assert_eq!(
            of_one("select 1 /* a */ ;", Some(0..8)),
            own("select 1 /* a */ ;")
        );
        let latin1 = one_of_several(b"select '\xe9'; select '\xe8'", Some(8), Some(12..22));
        assert_eq!(latin1.text, "select 'è'");
    }

    proptest! {
        #[test]
        fn any_text_is_taken(text in prop::collection::vec(any::<u8>(), 0..200), begin: usize, end: usize) {
            one_of_several(&text, None, Some(begin..end));
        }

        #[test]
        fn what_stands_in_a_literal_makes_no_statement(text in "[a-z;]{0,20}") {
            let sql = format!("select '{text}', $${text}$$, \"a{text}\" /* {text} */");
            prop_assert!(!are_several(&sql));
        }
    }
}
