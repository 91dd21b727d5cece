//! A number shared by all texts of a statement, whatever their literals (bpf/fingerprint.h): it replaces the database's own id
//! where it assigns none. The BPF programs compute it too; both are compiled from the same source.

/// Bytes of a text that count: `FINGERPRINT_BYTES`.
pub(crate) const BYTES: usize = 1023;

#[link(name = "fingerprint_in_user_space", kind = "static")]
unsafe extern "C" {
    fn dbtime_fingerprint(text: *const u8, length: u64) -> u64;
    fn dbtime_operand_follows(word: *const u8, length: u64) -> bool;
}

/// The fingerprint of a text up to its first NUL; 0 = there is none.
pub(crate) fn fingerprint(text: &[u8]) -> u64 {
    // SAFETY: it reads this many bytes, and keeps nothing.
    unsafe { dbtime_fingerprint(text.as_ptr(), text.len() as u64) }
}

/// Whether an operand begins after an unquoted word, as after `AND`: a sign there belongs to the operand.
pub(crate) fn operand_follows(word: &str) -> bool {
    // SAFETY: it reads this many bytes, and keeps nothing.
    unsafe { dbtime_operand_follows(word.as_ptr(), word.len() as u64) }
}

/// First letters of the statements that PostgreSQL plans. All others are utility statements.
const PLANNED: [&[u8; 4]; 8] = [
    b"sele", b"inse", b"upda", b"dele", b"merg", b"with", b"valu", b"tabl",
];

/// What replaces the id of a statement with this text that has none; 0 = nothing does, because the server assigns ids, it is not a
/// utility statement, and it does not wait. `is_named_by_text` of bpf/statement_text.bpf.h says why.
pub(crate) fn id_of_text(text: &[u8], gives_ids: bool, waits: bool) -> u64 {
    match text.is_empty() || gives_ids && !waits && !is_utility(text) {
        true => 0,
        false => fingerprint(text),
    }
}

/// True for the text of a utility statement, as far as its beginning tells.
pub(crate) fn is_utility(text: &[u8]) -> bool {
    let begin = text.first_chunk::<4>().map(|begin| begin.map(|byte| byte | 0x20));
    begin.is_some_and(|begin| begin[0].is_ascii_lowercase() && !PLANNED.contains(&&begin))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn assert_alike(texts: &[&str]) {
        for text in texts {
            assert_eq!(
                fingerprint(text.as_bytes()),
                fingerprint(texts[0].as_bytes()),
                "{text} | {}",
                texts[0]
            );
        }
    }

    #[test]
    fn what_differs_in_literals_space_case_and_comments_is_alike() {
        assert_alike(&[
            "UPDATE t SET a = a + 1 WHERE b = 'x'",
            "update T set a = a + -5 where b = '';",
            "UPDATE t\n\tSET a=a+1.5e-3 WHERE b='it''s' ; ",
            "/* app */ UPDATE t /* a /* b */ c */ SET a = a + $1 -- to the end\n WHERE b = $2",
            "UPDATE t SET a = a + 0xff WHERE b = $$x'y$$",
            "UPDATE t SET a = a + 1 WHERE b = $tag$ $$ $ta $tag$",
        ]);
        assert_alike(&[
            "select 1 in (1)",
            "select 2 in (1, 2,3)",
            "select 3 in (1, -2, 'x', $4)",
        ]);
        assert_alike(&[
            "select a between 1 and 5 limit 1",
            "select a BETWEEN -1 and - 5 limit /* none */ +1",
        ]);
        assert_alike(&[
            "select 1 where x=.5 and y in (.5, .25)",
            "SELECT -1 where x=0.5 and y in (1, /* two */ -.2,3);",
            "SELECT -1 where x=$1 and y in (1) ; /* end */",
            "SELECT -1 -- to\rwhere x= -- x\n - /* y */ 1 and y in (1); -- end",
        ]);
        assert_alike(&["select E'a\\'b' , x", "select E'\\\\', x", "select e'' ,x"]);
    }

    #[test]
    fn what_differs_otherwise_is_not() {
        let texts = [
            "select a from t where b = 1",
            "select a from t where b = c",
            "select a from t where b - 1",
            "select a from t where b + 1",
            "select a from t where b = 1 - 1",
            "select a from t1 where b = 1",
            "select a from \"T\" where b = 1",
            "select a from \"t\" where b = 1",
            "select a from t where b < 1",
            "select a/1 from t where b = 1",
            "select a, 1 from t where b = 1",
            "select a 1 from t where b = 1",
            "select a; select a from t where b = 1",
            "select a, b from t where b = 1",
            "select ab from t where b = 1",
            "select $1.a from t where b = 1",
            "select $1.b from t where b = 1",
            "select 0x1e+a from t where b = 1",
            "select 0x1e+b from t where b = 1",
            "select a.b from t where b = 1",
            "select a / 1 - 1 from t where b = 1",
            "select a / 1 / 1 from t where b = 1",
            "select a from t$1 where b = 1",
            "select ä from t where b = 1",
            "select ö from t where b = 1",
            "",
        ];
        let numbers: std::collections::HashSet<u64> =
            texts.iter().map(|text| fingerprint(text.as_bytes())).collect();
        assert_eq!(numbers.len(), texts.len());
        assert_eq!(fingerprint(b""), 0);
        assert_eq!(fingerprint(b" -- nothing\n /* at */ ;"), 0);
        assert_eq!(fingerprint(b"select 1\0 and more"), fingerprint(b"select 2"));
    }

    #[test]
    fn it_is_the_same_in_every_version() {
        // FNV-1a of "select?": recordings of different versions are compared by it.
        let fnv = b"select?".iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        assert_eq!(fingerprint(b"SELECT 42"), fnv);
    }

    #[test]
    fn where_a_list_is_cut_does_not_count() {
        let text = b"select a from t where b in (1, -2, 3.5, 'x', $4, /* c */ 5";
        let whole = fingerprint(text);
        let begin = text.iter().position(|byte| *byte == b'1').expect("a list");
        for end in begin + 1..text.len() {
            assert_eq!(fingerprint(&text[..end]), whole, "{end}");
        }
    }

    #[test]
    fn what_lies_behind_what_servers_keep_does_not_count() {
        let long = |end: &str| format!("select {}{end}", ",a".repeat(508));
        assert_eq!(long("").len(), BYTES);
        assert_eq!(
            fingerprint(long("b").as_bytes()),
            fingerprint(long("").as_bytes())
        );
        assert_ne!(
            fingerprint(&long("b").as_bytes()[..BYTES - 1]),
            fingerprint(long("").as_bytes())
        );
    }

    proptest! {
        #[test]
        fn whatever_stands_in_a_literal_does_not_count(a in "[a-z \\\\$\"/*;,-]{0,20}", b in "[^'\0]{0,20}", n in any::<f64>()) {
            let text = |literal: &str, number: &str| format!("select x, '{literal}' = y or z<{number}");
            prop_assert_eq!(
                fingerprint(text(&a, "1").as_bytes()),
                fingerprint(text(&b, &n.abs().to_string()).as_bytes())
            );
        }

        #[test]
        fn any_bytes_are_taken(text in prop::collection::vec(any::<u8>(), 0..2000)) {
            fingerprint(&text);
        }
    }
}
