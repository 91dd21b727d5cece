//! Short texts that many rows share: each is in memory once, also when rows are read.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;

use arcstr::ArcStr;
use foldhash::fast::RandomState;
use serde::de::{Deserializer, Error, Visitor};

/// Words that a thread remembers; a recording has a few hundred.
const MOST: usize = 4_096;
/// Longer texts are not remembered.
const LONGEST: usize = 256;

thread_local! {
    static KNOWN: RefCell<HashSet<ArcStr, RandomState>> = RefCell::default();
}

/// For fields of rows.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<ArcStr, D::Error> {
    from.deserialize_str(WordVisitor)
}

struct WordVisitor;

impl Visitor<'_> for WordVisitor {
    type Value = ArcStr;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<ArcStr, E> {
        Ok(word(text))
    }
}

fn word(text: &str) -> ArcStr {
    if text.is_empty() {
        return ArcStr::new();
    }
    if text.len() > LONGEST {
        return text.into();
    }
    KNOWN.with_borrow_mut(|known| {
        if let Some(word) = known.get(text) {
            return ArcStr::clone(word);
        }
        if known.len() >= MOST {
            known.clear();
        }
        let word: ArcStr = text.into();
        known.insert(ArcStr::clone(&word));
        word
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_words_are_one_and_however_many_there_are_few_are_remembered() {
        assert!(ArcStr::ptr_eq(&word("read"), &word("read")));
        for n in 0..3 * MOST {
            assert_eq!(*word(&n.to_string()), *n.to_string());
        }
        assert!(KNOWN.with_borrow(|known| known.len()) <= MOST);
        let long = "x".repeat(LONGEST + 1);
        assert_eq!(*word(&long), *long);
        assert!(!KNOWN.with_borrow(|known| known.contains(long.as_str())));
    }
}
