//! Treats statements that differ only in literals as one.
//!
//! A literal is a number, or a quoted text (`'it''s'`, `q'[it's]'`, `N'…'`), outside comments and names in double quotes. Two
//! statements differ only in literals if they are the same once each literal has become `?`, several blanks one, and letters
//! outside quotes upper case: what `cursor_sharing = force` replaces, and what FORCE_MATCHING_SIGNATURE in V$SQL is computed
//! from.

/// The text of a statement with `?` in place of literals, and one blank in place of several.
pub fn without_literals(sql: &str) -> String {
    let mut out = String::with_capacity(sql.len().min(1 << 16));
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let before = out.chars().next_back();
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '#');
        // `t1`, `:1` and `"A1"` are names.
        let in_name = before.is_some_and(|c| is_word(c) || matches!(c, ':' | '"' | '?' | '@'));
        let length = if rest.starts_with("--") || rest.starts_with("/*") {
            let length = comment(rest);
            out.push_str(&rest[..length]);
            length
        } else if first == '"' {
            let length = rest[1..].find('"').map_or(rest.len(), |at| at + 2);
            out.push_str(&rest[..length]);
            length
        } else if let Some(length) = text_literal(rest, in_name) {
            out.push('?');
            length
        } else if first.is_ascii_digit() && !in_name
            || first == '.'
                && !in_name
                && before != Some('.')
                && rest[1..].starts_with(|c: char| c.is_ascii_digit())
        {
            out.push('?');
            number(rest)
        } else if is_word(first) {
            let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            out.push_str(&rest[..length]);
            length
        } else if first.is_whitespace() {
            if before.is_some_and(|c| c != ' ') {
                out.push(' ');
            }
            first.len_utf8()
        } else {
            out.push(first);
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    out.truncate(out.trim_end().len());
    out
}

/// What statements that differ only in literals have in common.
pub fn signature(sql: &str) -> String {
    let mut quoted = false;
    without_literals(sql)
        .chars()
        .map(|c| {
            quoted ^= c == '"';
            if quoted { c } else { c.to_ascii_uppercase() }
        })
        .collect()
}

fn comment(rest: &str) -> usize {
    if rest.starts_with("--") {
        return rest.find('\n').map_or(rest.len(), |at| at + 1);
    }
    rest[2..].find("*/").map_or(rest.len(), |at| at + 4)
}

/// Length of a quoted text, including what is before the first quote.
fn text_literal(rest: &str, in_name: bool) -> Option<usize> {
    let lower = rest.as_bytes();
    let prefix = match lower {
        [b'\'', ..] => 0,
        _ if in_name => return None,
        [b'n' | b'N' | b'q' | b'Q', b'\'', ..] => 1,
        [b'n' | b'N', b'q' | b'Q', b'\'', ..] => 2,
        _ => return None,
    };
    let inside = &rest[prefix + 1..];
    if prefix > 0 && matches!(lower[prefix - 1], b'q' | b'Q') {
        let open = inside.chars().next()?;
        let close = match open {
            '[' => ']',
            '(' => ')',
            '{' => '}',
            '<' => '>',
            other => other,
        };
        let end = format!("{close}'");
        let body = &inside[open.len_utf8()..];
        return Some(match body.find(&end) {
            Some(at) => prefix + 1 + open.len_utf8() + at + end.len(),
            None => rest.len(),
        });
    }
    let mut from = 0;
    loop {
        let Some(at) = inside[from..].find('\'') else {
            return Some(rest.len());
        };
        let behind = from + at + 1;
        if !inside[behind..].starts_with('\'') {
            return Some(prefix + 1 + behind);
        }
        from = behind + 1;
    }
}

/// Length of a number: `12`, `1.5`, `.5`, `1e-3`, `2.5f`. A range (`1..9`) has two.
fn number(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let digits = |mut at: usize| {
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    let mut at = digits(0);
    if bytes.get(at) == Some(&b'.') && bytes.get(at + 1) != Some(&b'.') {
        at = digits(at + 1);
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let end = digits(at + 1 + sign);
        if end > at + 1 + sign {
            at = end;
        }
    }
    at + usize::from(matches!(bytes.get(at), Some(b'f' | b'F' | b'd' | b'D')))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn literals_are_numbers_and_texts_between_quotes() {
        for (sql, expected) in [
            ("select * from t1 where id = 42", "select * from t1 where id = ?"),
            (
                "select 'it''s' , N'x', q'[it's]' from dual",
                "select ? , ?, ? from dual",
            ),
            (
                "select a1, \"B 2\", :1, :b2 from t where x>.5",
                "select a1, \"B 2\", :1, :b2 from t where x>?",
            ),
            (
                "insert into t values (1.5e-3, -7, 2f)\n",
                "insert into t values (?, -?, ?)",
            ),
            ("for i in 1..9 loop", "for i in ?..? loop"),
            (
                "select /* 5 'a */ 1 -- 2\n from\n\tt",
                "select /* 5 'a */ ? -- 2\n from t",
            ),
            (
                "select sys.x$y#1 from c\u{e9}t\u{e9}3",
                "select sys.x$y#1 from c\u{e9}t\u{e9}3",
            ),
            ("select 'never ends", "select ?"),
            ("", ""),
        ] {
            assert_eq!(without_literals(sql), expected, "{sql}");
        }
        assert_eq!(signature("SELECT 1 FROM T"), signature("select  2\nfrom t"));
        assert_ne!(signature("select \"a\" from t"), signature("select \"A\" from t"));
        assert_ne!(signature("select a from t"), signature("select b from t"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_and_what_is_done_once_is_done(sql in "[ a-z0-9'\"./*q\\[\\]:\\n\u{e9}-]{0,60}") {
            let once = without_literals(&sql);
            prop_assert_eq!(signature(&once), signature(&signature(&once)));
        }

        #[test]
        fn numbers_and_texts_do_not_matter(number in 0u32.., text in "[a-z 0-9]{0,9}") {
            let of = |number: u32, text: &str| signature(&format!("select f({number}) from t where n = '{text}'"));
            prop_assert_eq!(of(number, &text), of(7, "x"));
        }
    }
}
