//! Values that many keys share, each stored once: the keys of a map of millions only have its number.

use std::hash::Hash;

use crate::fast_map::FastMap;

/// Values by number, in the order in which they were first seen.
#[derive(Debug)]
pub(crate) struct Numbered<T>(FastMap<T, u32>);

impl<T> Default for Numbered<T> {
    fn default() -> Numbered<T> {
        Numbered(FastMap::default())
    }
}

impl<T: Hash + Eq> Numbered<T> {
    /// The number of a value.
    pub(crate) fn number(&mut self, value: T) -> u32 {
        // More values than numbers would not fit into memory.
        let next = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        *self.0.entry(value).or_insert(next)
    }

    /// All values, each at the index that is its number.
    pub(crate) fn into_values(self) -> Vec<T> {
        let mut values: Vec<(T, u32)> = self.0.into_iter().collect();
        values.sort_unstable_by_key(|(_, number)| *number);
        values.into_iter().map(|(value, _)| value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_have_one_number_and_their_place() {
        let mut numbered = Numbered::default();
        let numbers: Vec<u32> = ["b", "a", "b", "c", "a"]
            .map(|value| numbered.number(value))
            .to_vec();
        assert_eq!(numbers, [0, 1, 0, 2, 1]);
        assert_eq!(numbered.into_values(), ["b", "a", "c"]);
    }
}
