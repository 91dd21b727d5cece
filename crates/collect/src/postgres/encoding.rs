//! The encoding of the database that a session is in, and conversion of its texts to UTF-8.
//!
//! A server process points to the entry of its database's encoding in a table of all of them. Where that pointer is follows from the code
//! of `GetDatabaseEncoding`, which is exported and does nothing but return the number in that entry.

use encoding_rs::{
    EUC_JP, EUC_KR, Encoding, GBK, IBM866, ISO_8859_2, ISO_8859_3, ISO_8859_4, ISO_8859_5, ISO_8859_6,
    ISO_8859_7, ISO_8859_8, ISO_8859_10, ISO_8859_13, ISO_8859_14, ISO_8859_15, ISO_8859_16, KOI8_R, KOI8_U,
    WINDOWS_874, WINDOWS_1250, WINDOWS_1251, WINDOWS_1252, WINDOWS_1253, WINDOWS_1254, WINDOWS_1255,
    WINDOWS_1256, WINDOWS_1257, WINDOWS_1258,
};

use crate::executable::Executable;
use crate::memory;
use crate::small_code::{Operand, operands_of};

/// `PG_LATIN1`.
const LATIN1: u32 = 8;

/// Where the processes of a server keep the encoding of their database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DatabaseEncoding {
    /// Address of the pointer to the entry, the same in all processes.
    pointer: u64,
    /// Offset of the 32-bit number in the entry.
    number: u64,
}

impl DatabaseEncoding {
    /// For a server with this executable; none if its code does not show it.
    pub(super) fn of(executable: &Executable) -> Option<DatabaseEncoding> {
        match *operands_of(executable, "GetDatabaseEncoding")? {
            [
                Operand::Static { address, bytes: 8 },
                Operand::Field { offset, bytes: 4 },
            ] => Some(DatabaseEncoding {
                pointer: address,
                number: offset,
            }),
            _ => None,
        }
    }

    /// Number of the encoding of the database that a process is in.
    pub(super) fn number(self, pid: u32) -> Option<u32> {
        let entry = memory::read_u64(pid, self.pointer).ok()?;
        memory::read_u32(pid, entry.checked_add(self.number)?).ok()
    }
}

/// A text in the encoding with this number. If that is UTF-8, unknown or none (SQL_ASCII), the text is read as UTF-8. Invalid bytes become
/// U+FFFD; so may the end of a text that was cut inside a character.
pub(super) fn decoded(text: &[u8], encoding: Option<u32>) -> String {
    match encoding.map(|number| (number, decoder(number))) {
        Some((LATIN1, _)) => text.iter().copied().map(char::from).collect(),
        Some((_, Some(decoder))) => decoder.decode_without_bom_handling(text).0.into_owned(),
        Some((_, None)) | None => String::from_utf8_lossy(text).into_owned(),
    }
}

/// By the numbers of `pg_enc` (src/include/mb/pg_wchar.h), which are the same in every version. There is no decoder for EUC_TW,
/// EUC_JIS_2004 and MULE_INTERNAL.
fn decoder(number: u32) -> Option<&'static Encoding> {
    Some(match number {
        1 => EUC_JP,
        // EUC_CN, which is a subset.
        2 => GBK,
        3 => EUC_KR,
        9 => ISO_8859_2,
        10 => ISO_8859_3,
        11 => ISO_8859_4,
        // LATIN5, ISO 8859-9: the same except for control characters.
        12 => WINDOWS_1254,
        13 => ISO_8859_10,
        14 => ISO_8859_13,
        15 => ISO_8859_14,
        16 => ISO_8859_15,
        17 => ISO_8859_16,
        18 => WINDOWS_1256,
        19 => WINDOWS_1258,
        20 => IBM866,
        21 => WINDOWS_874,
        22 => KOI8_R,
        23 => WINDOWS_1251,
        24 => WINDOWS_1252,
        25 => ISO_8859_5,
        26 => ISO_8859_6,
        27 => ISO_8859_7,
        28 => ISO_8859_8,
        29 => WINDOWS_1250,
        30 => WINDOWS_1253,
        31 => WINDOWS_1254,
        32 => WINDOWS_1255,
        33 => WINDOWS_1257,
        34 => KOI8_U,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_is_what_it_is_in_its_encoding() {
        for (number, bytes, text) in [
            (0, "sql_ascii: é".as_bytes(), "sql_ascii: é"),
            (0, b"sql_ascii: \xe9!", "sql_ascii: \u{fffd}!"),
            (1, b"euc_jp: \xa4\xa2", "euc_jp: あ"),
            (2, b"euc_cn: \xd6\xd0", "euc_cn: 中"),
            (3, b"euc_kr: \xc7\xd1", "euc_kr: 한"),
            (6, "utf8: é".as_bytes(), "utf8: é"),
            (8, b"latin1: \xe9 \x80 \xff", "latin1: é \u{80} ÿ"),
            (9, b"latin2: \xb1", "latin2: ą"),
            (12, b"latin5: \xf0", "latin5: ğ"),
            (16, b"latin9: \xa4", "latin9: €"),
            (20, b"win866: \x80", "win866: А"),
            (22, b"koi8r: \xc1", "koi8r: а"),
            (23, b"win1251: \xe0", "win1251: а"),
            (24, b"win1252: \x80", "win1252: €"),
            (25, b"iso_8859_5: \xd0", "iso_8859_5: а"),
            (29, b"win1250: \xb9", "win1250: ą"),
            (34, b"koi8u: \xa4", "koi8u: є"),
        ] {
            assert_eq!(decoded(bytes, Some(number)), text);
        }
    }

    #[test]
    fn where_the_encoding_is_not_known_a_text_is_taken_as_utf8() {
        for encoding in [None, Some(4), Some(7), Some(35), Some(u32::MAX)] {
            assert_eq!(decoded("é".as_bytes(), encoding), "é");
            assert_eq!(decoded(b"a\xe9b", encoding), "a\u{fffd}b");
        }
    }

    #[test]
    fn a_text_may_be_cut_inside_a_character() {
        for (encoding, text) in [(1, &b"\xa4\xa2\xa4"[..]), (6, b"\xe3\x81\x82\xe3\x81")] {
            assert_eq!(decoded(text, Some(encoding)), "あ\u{fffd}");
        }
        assert_eq!(decoded(b"\xd6\xd0\xd6", Some(2)), "中\u{fffd}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(text in prop::collection::vec(any::<u8>(), 0..200), encoding in 0_u32..50) {
            decoded(&text, Some(encoding));
        }

        #[test]
        fn what_is_ascii_is_the_same_in_all(text in "[ -~]{0,100}", encoding in 0_u32..50) {
            prop_assert_eq!(decoded(text.as_bytes(), Some(encoding)), text);
        }
    }
}
