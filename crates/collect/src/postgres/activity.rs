//! What pg_stat_activity shows, queried over a connection: for a server whose sessions' own entries cannot be read.

use dbtime_model::SessionState;
use postgres::{Client, SimpleQueryMessage, SimpleQueryRow};

use super::connection::described;
use super::encoding::decoded;
use super::normal::normalised;
use super::several::one_of_several;
use crate::database::Texts;
use crate::fingerprint::id_of_text;
use crate::joined::Said;
use crate::statements::StatementText;

/// Texts come as the server has them, in the encoding of each database: one that cannot be converted would fail the whole query. Rows and
/// bytes of a text are limited; a longer text is not shown.
const QUESTION: &str = "SET LOCAL client_encoding = 'SQL_ASCII';
     SELECT pid, query_id, state, application_name,
            CASE WHEN state IN ('active', 'fastpath function call') AND octet_length(query) < 4096 THEN query END,
            usesysid IS NOT NULL AND query = '<insufficient privilege>',
            wait_event IS NOT NULL
       FROM pg_stat_activity
      LIMIT 10000";

/// How it is queried.
#[derive(Debug, Clone, Copy)]
pub(super) struct Activity {
    /// The server computes query ids: only some statements have the fingerprint of their text instead.
    pub(super) gives_ids: bool,
    pub(super) texts: Texts,
}

/// A session, as the server shows it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// As the server knows it.
    pub(crate) pid: u32,
    pub(crate) said: Said,
    /// Of the statement that it executes.
    pub(crate) text: Option<StatementText>,
}

/// All sessions, and how many of them are hidden from this user.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AllShown {
    pub(super) sessions: Vec<Shown>,
    pub(super) hidden: usize,
}

impl Activity {
    /// Queries it.
    ///
    /// # Errors
    /// As reported by the server or the library.
    pub(super) fn ask(self, client: &mut Client) -> Result<AllShown, String> {
        let answer = client.simple_query(QUESTION).map_err(|e| described(&e))?;
        let mut all = AllShown::default();
        for message in &answer {
            if let SimpleQueryMessage::Row(row) = message {
                all.hidden += usize::from(column(row, 5) == Some("t"));
                all.sessions.extend(self.shown(|n| column(row, n)));
            }
        }
        Ok(all)
    }

    fn shown<'r>(self, column: impl Fn(usize) -> Option<&'r str>) -> Option<Shown> {
        let pid = column(0)?.parse().ok()?;
        let id = column(1)
            .and_then(|id| id.parse().ok())
            .map_or(0, i64::cast_unsigned);
        let state = column(2).map_or(SessionState::None, state);
        let text = column(4).unwrap_or_default().as_bytes();
        let statement = match id {
            0 => id_of_text(text, self.gives_ids, column(6) == Some("t")),
            id => id,
        };
        Some(Shown {
            pid,
            said: Said {
                state,
                statement,
                application: column(3).unwrap_or_default().to_string(),
            },
            text: self.text(text, id),
        })
    }

    /// The text as it may be recorded.
    fn text(self, text: &[u8], id: u64) -> Option<StatementText> {
        let keep: fn(&str) -> String = match self.texts {
            Texts::None => return None,
            Texts::Normalized => normalised,
            Texts::Full => str::to_string,
        };
        let found = match id {
            // A fingerprint covers all statements that were sent at once.
            0 => StatementText {
                text: decoded(text, None),
                is_fingerprint: true,
                ..StatementText::default()
            },
            _ => one_of_several(text, None, None),
        };
        (!text.is_empty()).then(|| StatementText {
            text: keep(&found.text),
            ..found
        })
    }
}

/// None also if it is not UTF-8: the text of a database with another encoding.
fn column(row: &SimpleQueryRow, number: usize) -> Option<&str> {
    row.try_get(number).ok().flatten()
}

fn state(name: &str) -> SessionState {
    let mut states = SessionState::ALL.into_iter();
    states.find(|state| state.as_str() == name).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKS: Activity = Activity {
        gives_ids: true,
        texts: Texts::Normalized,
    };

    fn shown(asks: Activity, row: [Option<&str>; 5]) -> Option<Shown> {
        asks.shown(|n| row.get(n).copied().flatten())
    }

    #[test]
    fn a_session_has_the_id_that_the_server_shows_and_its_text() {
        let row = [
            Some("4711"),
            Some("-42"),
            Some("active"),
            Some("psql"),
            Some("SELECT 7"),
        ];
        let found = shown(ASKS, row).expect("a session");
        assert_eq!((found.pid, found.said.state), (4711, SessionState::Active));
        assert_eq!(found.said.statement, (-42_i64).cast_unsigned());
        assert_eq!(found.said.application, "psql");
        let text = found.text.expect("a text");
        assert!(!text.is_fingerprint && !text.text.contains('7'), "{text:?}");
        let without = Activity {
            texts: Texts::None,
            ..ASKS
        };
        assert_eq!(shown(without, row).expect("a session").text, None);
    }

    #[test]
    fn what_has_no_id_has_the_fingerprint_of_its_text_or_nothing() {
        let row = |text| [Some("1"), None, Some("active"), Some(""), text];
        let statement = |asks, text| shown(asks, row(text)).expect("a session").said.statement;
        assert_eq!(statement(ASKS, None), 0);
        assert_eq!(statement(ASKS, Some("SELECT 7")), 0);
        assert_eq!(
            statement(ASKS, Some("VACUUM t")),
            id_of_text(b"VACUUM t", true, false),
            "a utility statement"
        );
        let waits = [row(Some("SELECT 7")).as_slice(), &[None, Some("t")]].concat();
        assert_ne!(ASKS.shown(|n| waits[n]).expect("a session").said.statement, 0);
        let without_ids = Activity {
            gives_ids: false,
            ..ASKS
        };
        let fingerprint = statement(without_ids, Some("SELECT 7"));
        assert_eq!(fingerprint, statement(without_ids, Some("SELECT 8")));
        assert_ne!(fingerprint, 0);
    }

    #[test]
    fn whatever_the_columns_hold_nothing_breaks() {
        for odd in [
            "",
            "x",
            "-1",
            "99999999999999999999",
            "\u{0}",
            "\u{fffd};;'\"$$",
            "ä",
        ] {
            for n in 0..5 {
                let mut row = [Some("1"), Some("1"), Some("active"), Some("a"), Some("SELECT 1")];
                row[n] = Some(odd);
                shown(ASKS, row);
                row[n] = None;
                assert_eq!(shown(ASKS, row).is_some(), n != 0);
            }
        }
    }
}
