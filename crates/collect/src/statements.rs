//! The statements of a recording: each is described once, with its text when a session that executes it could be asked in time.

use std::collections::HashMap;

use dbtime_model::{Rows, StatementRow};

/// Statements that are described; further ones have their id only.
const MOST: usize = 100_000;
/// Bytes of their texts.
const MOST_TEXT: usize = 64 << 20;
/// How often it is tried to get a text: a session may be in another statement by then.
const TRIES: u8 = 50;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Statements {
    /// How often each may still be asked for; 0 = not again.
    tries_left: HashMap<u64, u8>,
    text_bytes: usize,
    is_full: bool,
}

impl Statements {
    /// A session has been seen in a statement. `text` asks it for the text, and may fail.
    pub(crate) fn see(&mut self, id: u64, rows: &mut Rows, text: impl FnOnce() -> Option<String>) {
        if id == 0 {
            return;
        }
        let is_new = !self.tries_left.contains_key(&id);
        if is_new && self.tries_left.len() >= MOST {
            self.is_full = true;
            return;
        }
        let tries = self.tries_left.entry(id).or_insert(TRIES);
        if *tries == 0 {
            return;
        }
        *tries -= 1;
        let text = text().filter(|text| self.text_bytes + text.len() <= MOST_TEXT);
        if text.is_some() {
            *tries = 0;
        }
        if is_new || text.is_some() {
            let text = text.unwrap_or_default();
            self.text_bytes += text.len();
            rows.statements.push(StatementRow {
                id,
                text,
                ..StatementRow::default()
            });
        }
    }

    /// True when there were more statements than are described.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_described_at_once_and_again_with_its_text() {
        let (mut statements, mut rows) = (Statements::default(), Rows::default());
        statements.see(0, &mut rows, || panic!("it is none"));
        statements.see(7, &mut rows, || None);
        statements.see(7, &mut rows, || None);
        statements.see(7, &mut rows, || Some("select ?".to_string()));
        statements.see(7, &mut rows, || panic!("it is known"));
        let texts: Vec<(u64, &str)> = rows.statements.iter().map(|row| (row.id, &*row.text)).collect();
        assert_eq!(texts, [(7, ""), (7, "select ?")]);
    }

    #[test]
    fn who_cannot_be_asked_is_not_asked_for_ever_and_too_many_are_not_kept() {
        let (mut statements, mut rows) = (Statements::default(), Rows::default());
        let mut asked = 0;
        for _ in 0..1_000 {
            statements.see(7, &mut rows, || {
                asked += 1;
                None
            });
        }
        assert_eq!(asked, u32::from(TRIES));
        for id in 1..=MOST as u64 + 1 {
            statements.see(id, &mut rows, || None);
        }
        assert!(statements.is_full());
        assert_eq!(rows.statements.len(), MOST);
    }
}
