//! Recurring names, stored once and known by their numbers.

use crate::samples::Table;

/// Most names kept apart: a release of a database has some thousands of statistics, an instance some thousands of sessions.
const MAX_NAMES: usize = 100_000;

/// All names met.
#[derive(Debug, Default)]
pub(crate) struct Names {
    numbers: Table<Box<[u8]>, u32>,
    all: Vec<Box<str>>,
}

impl Names {
    /// The number of a name; none if there are too many.
    pub(crate) fn number(&mut self, name: &[u8]) -> Option<u32> {
        if let Some(number) = self.numbers.get(name) {
            return Some(*number);
        }
        if self.all.len() >= MAX_NAMES {
            return None;
        }
        let number = u32::try_from(self.all.len()).ok()?;
        self.all.push(String::from_utf8_lossy(name).into());
        self.numbers.insert(name.into(), number);
        Some(number)
    }

    /// The name of a number that was given out.
    pub(crate) fn get(&self, number: u32) -> &str {
        &self.all[number as usize]
    }
}
