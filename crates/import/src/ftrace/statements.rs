//! Statements of a session whose calls were traced: dbtime's own lines at the head of the text.

use std::collections::HashSet;

use dbtime_model::StatementRow;

use super::line::argument;
use crate::Import;

/// Statements that are described; further ones have their id only. As many as a recorder describes, and as much text.
const MOST: usize = 100_000;
const MOST_TEXT: usize = 64 << 20;

/// Which statements are described.
#[derive(Debug, Default)]
pub(super) struct Statements {
    known: HashSet<u64>,
    text_bytes: usize,
}

impl Statements {
    /// A call was made in this statement; 0 = in none.
    pub(super) fn see(&mut self, id: u64, into: &mut Import) {
        if id != 0 && self.has_room(id) {
            into.statement(StatementRow {
                id,
                ..StatementRow::default()
            });
        }
    }

    /// `query=ID text=TEXT`, or `query=ID fingerprint=1 text=TEXT`, if the id is a fingerprint of the text.
    pub(super) fn note(&mut self, statement: &[u8], into: &mut Import) -> Option<()> {
        // Texts may contain anything, so it comes last.
        let ends = memchr::memmem::find(statement, b" text=")?;
        let (head, text) = (&statement[..ends], &statement[ends + 6..]);
        let id = query(argument(head, b"query")?)?;
        let text = String::from_utf8_lossy(text);
        if self.text_bytes + text.len() <= MOST_TEXT && self.has_room(id) {
            self.text_bytes += text.len();
            into.statement(StatementRow {
                id,
                text: text.into_owned(),
                is_fingerprint: argument(head, b"fingerprint") == Some(&b"1"[..]),
                ..StatementRow::default()
            });
        }
        Some(())
    }

    fn has_room(&mut self, id: u64) -> bool {
        self.known.contains(&id) || (self.known.len() < MOST && self.known.insert(id))
    }
}

/// The id of a statement as PostgreSQL prints it: signed. None: not an id.
pub(super) fn query(text: &[u8]) -> Option<u64> {
    let id: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    Some(id.cast_unsigned()).filter(|id| *id != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_signed() {
        assert_eq!(query(b"42"), Some(42));
        assert_eq!(query(b"-1"), Some(u64::MAX));
        for wrong in [&b"0"[..], b"", b"x", b"99999999999999999999", b"\xff"] {
            assert_eq!(query(wrong), None);
        }
    }
}
