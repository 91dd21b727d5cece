//! What a session was that ended before it could be asked: what others are that have the same numbers in their memory, and have
//! named themselves.

use std::collections::HashMap;

use dbtime_model::BackendType;

use crate::postgres::title::Title;

/// Pairs of user and database that are remembered.
const MOST: usize = 10_000;

/// What a process says of itself in numbers: the kind of process it is, and what is equal for all of the same user and database.
pub(crate) type Numbers = (u32, u64);

/// See the module. What two have said differently is not known.
#[derive(Debug, Default)]
pub(crate) struct Alike {
    types: HashMap<u32, Option<BackendType>>,
    /// User and database.
    owners: HashMap<Numbers, Option<(String, String)>>,
}

impl Alike {
    /// A session of these numbers has this title.
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
        // Whose it is may be told by nobody: names with spaces.
        if title.user.is_empty() || self.owners.len() >= MOST && !self.owners.contains_key(&numbers) {
            return;
        }
        let owner = (title.user.clone(), title.database.clone());
        let of_owner = self.owners.entry(numbers).or_insert_with(|| Some(owner.clone()));
        if of_owner.as_ref() != Some(&owner) {
            *of_owner = None;
        }
    }

    /// What the title of a session of these numbers must have told.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn title(backend_type: &str, user: &str) -> Title {
        Title {
            backend_type: BackendType(backend_type.to_string()),
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
        // Somebody else's.
        assert_eq!(alike.title((4, 8)).expect("its type is known").user, "");
        // Two that are not the same say nothing of a third.
        alike.learn((5, 7), &title("parallel worker", "bob"));
        alike.learn((5, 7), &title("logical replication worker", "bob"));
        assert_eq!(alike.title((5, 7)), None);
        alike.learn((4, 7), &title("client backend", "eve"));
        assert_eq!(alike.title((4, 7)).expect("its type is known").user, "");
        alike.learn((6, 7), &title(BackendType::UNKNOWN, ""));
        assert_eq!(alike.title((6, 7)), None);
    }
}
