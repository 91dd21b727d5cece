//! Names sessions that ended before they could be inspected, by others that have the same numbers in their memory and whose names
//! were read before or soon after.

use std::collections::{HashMap, VecDeque};

use dbtime_model::{BackendType, SessionRow};

use crate::postgres::title::Title;

/// Maximum number of remembered pairs of user and database.
const MOST: usize = 10_000;
/// Maximum number of rows that wait for a session like theirs.
const MOST_WAITING: usize = 10_000;
/// How long they wait. On a server whose sessions all end before they can be inspected, no name ever comes.
const PATIENCE_NS: u64 = 2_000_000_000;

/// What a process says about itself in numbers: its kind, and a value that is the same for all processes of a user and database.
pub(crate) type Numbers = (u32, u64);

/// See the module. Where two sessions disagree, the answer is unknown.
#[derive(Debug, Default)]
pub(crate) struct Alike {
    types: HashMap<u32, Option<BackendType>>,
    /// User and database.
    owners: HashMap<Numbers, Option<(String, String)>>,
    /// Sessions that have ended, and until when they wait for a name: when many busy processes keep the recorder off the CPU, the
    /// first sessions end before any has been inspected.
    waiting: VecDeque<(u64, Numbers, SessionRow)>,
}

impl Alike {
    /// Notes that a session with these numbers has this title.
    pub(crate) fn learn(&mut self, numbers: Numbers, title: &Title) {
        if title.backend_type.0 == BackendType::UNKNOWN {
            return;
        }
        let of_type = self
            .types
            .entry(numbers.0)
            .or_insert_with(|| Some(title.backend_type.clone()));
        if of_type.as_ref() != Some(&title.backend_type) {
            *of_type = None;
        }
        // The title may not say whose it is: names with spaces.
        if title.user.is_empty() || self.owners.len() >= MOST && !self.owners.contains_key(&numbers) {
            return;
        }
        let owner = (title.user.clone(), title.database.clone());
        let of_owner = self.owners.entry(numbers).or_insert_with(|| Some(owner.clone()));
        if of_owner.as_ref() != Some(&owner) {
            *of_owner = None;
        }
    }

    /// What the title of a session with these numbers must have said.
    pub(crate) fn title(&self, numbers: Numbers) -> Option<Title> {
        let backend_type = self.types.get(&numbers.0)?.clone()?;
        let (user, database) = self.owners.get(&numbers).cloned().flatten().unwrap_or_default();
        Some(Title {
            backend_type,
            user,
            database,
            client: String::new(),
            leader_pid: 0,
        })
    }

    /// Keeps the row of a session with these numbers that has ended without a name.
    pub(crate) fn wait(&mut self, numbers: Numbers, row: SessionRow, now: u64) {
        self.waiting.push_back((now + PATIENCE_NS, numbers, row));
    }

    /// The rows that need not wait any longer, in order of arrival: those that have a name now, those that have waited long
    /// enough, and those beyond the limit.
    pub(crate) fn take_rows(&mut self, now: u64) -> Vec<SessionRow> {
        let mut taken = Vec::new();
        let too_many = self.waiting.len().saturating_sub(MOST_WAITING);
        for (place, (until, numbers, mut row)) in std::mem::take(&mut self.waiting).into_iter().enumerate() {
            match self.title(numbers) {
                Some(title) => {
                    row.backend_type = title.backend_type.0;
                    row.user = title.user;
                    row.database = title.database;
                    taken.push(row);
                }
                None if until <= now || place < too_many => taken.push(row),
                None => self.waiting.push_back((until, numbers, row)),
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn title(backend_type: &str, user: &str) -> Title {
        Title {
            backend_type: BackendType(backend_type.into()),
            user: user.to_string(),
            database: "shop".to_string(),
            client: "[local]".to_string(),
            leader_pid: 0,
        }
    }

    #[test]
    fn who_has_the_numbers_of_others_is_what_they_are_and_no_guess_is_made() {
        let mut alike = Alike::default();
        assert_eq!(alike.title((4, 7)), None);
        alike.learn((4, 7), &title("client backend", "bob"));
        let told = alike.title((4, 7)).expect("it is known");
        assert_eq!(
            (&*told.backend_type.0, &*told.user, &*told.client),
            ("client backend", "bob", "")
        );
        // Another owner's.
        assert_eq!(alike.title((4, 8)).expect("its type is known").user, "");
        // Two that differ say nothing about a third.
        alike.learn((5, 7), &title("parallel worker", "bob"));
        alike.learn((5, 7), &title("logical replication worker", "bob"));
        assert_eq!(alike.title((5, 7)), None);
        alike.learn((4, 7), &title("client backend", "eve"));
        assert_eq!(alike.title((4, 7)).expect("its type is known").user, "");
        alike.learn((6, 7), &title(BackendType::UNKNOWN, ""));
        assert_eq!(alike.title((6, 7)), None);
    }

    #[test]
    fn who_ended_before_any_was_named_is_named_with_the_next_one_or_stays_unknown() {
        let row = |pid| SessionRow {
            pid,
            ..SessionRow::default()
        };
        let mut alike = Alike::default();
        alike.wait((4, 7), row(1), 1_000);
        alike.wait((5, 7), row(2), 1_000);
        assert!(alike.take_rows(2_000).is_empty(), "they wait");
        alike.learn((4, 7), &title("client backend", "bob"));
        let named = alike.take_rows(3_000);
        let [named] = named.as_slice() else {
            panic!("one has a name: {named:?}");
        };
        assert_eq!(
            (named.pid, &*named.backend_type, &*named.user, &*named.database),
            (1, "client backend", "bob", "shop")
        );
        let rest = alike.take_rows(1_000 + PATIENCE_NS);
        assert_eq!(rest.iter().map(|row| row.pid).collect::<Vec<_>>(), [2]);
        assert_eq!(rest[0].user, "", "no guess is made");
        for pid in 0..MOST_WAITING + 3 {
            alike.wait((6, 7), row(u32::try_from(pid).expect("it is small")), 1_000);
        }
        assert_eq!(alike.take_rows(2_000).len(), 3, "what is kept has a bound");
    }
}
