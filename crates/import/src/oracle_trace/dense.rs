//! Values by key, contiguous in memory. Neighbouring lines of a trace are often about the same thing: the last key costs no look-up.

use std::hash::Hash;

use crate::samples::Table;

/// Values in the order in which their keys were met.
#[derive(Debug)]
pub(super) struct Dense<K, V> {
    all: Vec<(K, V)>,
    places: Table<K, usize>,
    /// Place of the key that was last asked for.
    last: usize,
}

impl<K, V> Default for Dense<K, V> {
    fn default() -> Dense<K, V> {
        Dense {
            all: Vec::new(),
            places: Table::default(),
            last: 0,
        }
    }
}

impl<K: Copy + Eq + Hash, V: Default> Dense<K, V> {
    /// The value of this key: the default if it has none yet.
    #[inline]
    pub(super) fn get(&mut self, key: K) -> &mut V {
        if self.all.get(self.last).is_none_or(|(last, _)| *last != key) {
            let all = &mut self.all;
            self.last = *self.places.entry(key).or_insert_with(|| {
                all.push((key, V::default()));
                all.len() - 1
            });
        }
        &mut self.all[self.last].1
    }

    /// The same, but tries the place `hint` first, and updates it.
    #[inline]
    pub(super) fn get_near(&mut self, key: K, hint: &mut usize) -> &mut V {
        if self.all.get(*hint).is_some_and(|(of, _)| *of == key) {
            self.last = *hint;
        } else {
            self.get(key);
            *hint = self.last;
        }
        &mut self.all[self.last].1
    }

    /// The value of this key, if it has one.
    pub(super) fn find(&mut self, key: K) -> Option<&mut V> {
        let place = *self.places.get(&key)?;
        Some(&mut self.all[place].1)
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.all.iter_mut().map(|(_, value)| value)
    }

    /// Takes all of them, in the order in which they were met.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (K, V)> {
        self.places.clear();
        self.last = 0;
        self.all.drain(..)
    }

    /// Takes all of them, in the order of their keys.
    pub(super) fn drain_sorted(&mut self) -> impl Iterator<Item = (K, V)>
    where
        K: Ord,
    {
        self.all.sort_unstable_by_key(|(key, _)| *key);
        self.drain()
    }
}
