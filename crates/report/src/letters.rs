//! Letters that stand for values where there are no colours. A wait class has the same one everywhere.

use dbtime_model::Wait;

/// By wait class, of several databases: all different.
const BY_CLASS: [(&str, char); 19] = [
    (Wait::NONE, 'C'),
    (Wait::NO_CPU, 'Q'),
    ("IO", 'I'),
    ("User I/O", 'U'),
    ("System I/O", 'S'),
    ("Lock", 'L'),
    ("Application", 'A'),
    ("LWLock", 'W'),
    ("Concurrency", 'N'),
    ("Commit", 'M'),
    ("Client", 'E'),
    ("Network", 'K'),
    ("IPC", 'P'),
    ("Cluster", 'R'),
    ("Timeout", 'T'),
    ("BufferPin", 'B'),
    ("Extension", 'O'),
    ("Configuration", 'G'),
    (Wait::UNKNOWN, 'X'),
];
/// For values when no letter is left.
const NONE_LEFT: char = '#';

/// Which value was given which letter.
#[derive(Debug, Default)]
pub(crate) struct Letters(Vec<(String, char)>);

impl Letters {
    /// Gives a letter to each value that has none yet: that of its class, else the first free one of its own letters, else any. Values
    /// whose first choice is free get it before the others choose.
    pub(crate) fn give<'a>(&mut self, labels: impl Iterator<Item = &'a str> + Clone) {
        for only_first in [true, false] {
            for label in labels.clone() {
                if self.find(label).is_some() {
                    continue;
                }
                let mut choice = match only_first {
                    true => wishes(label).take(1).collect::<Vec<char>>(),
                    false => wishes(label).chain('A'..='Z').chain('a'..='z').collect(),
                };
                choice.retain(|letter| self.0.iter().all(|(_, given)| given != letter));
                let letter = choice.first().copied();
                if let Some(letter) = letter.or((!only_first).then_some(NONE_LEFT)) {
                    self.0.push((label.to_string(), letter));
                }
            }
        }
    }

    fn find(&self, label: &str) -> Option<char> {
        self.0
            .iter()
            .find_map(|(other, letter)| (other == label).then_some(*letter))
    }

    /// The letter that a value was given.
    pub(crate) fn of(&self, label: &str) -> char {
        self.find(label).unwrap_or(NONE_LEFT)
    }
}

/// A value's preferred letters: that of its class, then its own.
fn wishes(label: &str) -> impl Iterator<Item = char> {
    let of_class = BY_CLASS
        .into_iter()
        .find_map(|(class, letter)| (class == label).then_some(letter));
    let own = label.chars().filter(char::is_ascii_alphabetic);
    of_class
        .into_iter()
        .chain(own.map(|letter| letter.to_ascii_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(labels: &[&str]) -> String {
        let mut letters = Letters::default();
        letters.give(labels.iter().copied());
        labels.iter().map(|label| letters.of(label)).collect()
    }

    #[test]
    fn every_value_has_a_letter_of_its_own() {
        assert_eq!(given(&["CPU", "Lock", "Client", "IO", "LWLock"]), "CLEIW");
        // In whatever order they are met.
        assert_eq!(given(&["LWLock", "Client", "CPU", "Lock"]), "WECL");
        assert_eq!(given(&["alice", "-42", "adam", "bob", "é"]), "ACDBE");
        let mut letters = Letters::default();
        for label in ["LWLock", "Lock", "LWLock"] {
            letters.give(std::iter::once(label));
        }
        assert_eq!((letters.of("LWLock"), letters.of("Lock")), ('W', 'L'));
        let many: Vec<String> = (0..60).map(|n| n.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(given(&many).ends_with("xyz########"));
    }

    #[test]
    fn classes_have_different_ones() {
        let mut all = BY_CLASS.map(|(_, letter)| letter).to_vec();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), BY_CLASS.len());
        let classes = crate::palette::BY_CLASS.map(|(class, _)| class);
        assert_eq!(BY_CLASS.map(|(class, _)| class), classes);
    }
}
