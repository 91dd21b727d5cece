//! Numbers in columns, as the page reads them: little-endian, four bytes or one, one column after another.

use serde::Serialize;

/// Columns under construction.
#[derive(Debug, Default)]
pub(super) struct Columns {
    /// What they are, in order.
    pub(super) list: Vec<Column>,
    /// The contents of all of them.
    pub(super) bytes: Vec<u8>,
}

/// One column.
#[derive(Debug, Serialize)]
pub(super) struct Column {
    name: String,
    /// Bytes per number.
    width: u8,
    rows: usize,
}

impl Columns {
    /// Adds a column of four-byte numbers.
    pub(super) fn long(&mut self, name: &str, numbers: impl Iterator<Item = u32>) {
        let before = self.bytes.len();
        self.bytes.extend(numbers.flat_map(u32::to_le_bytes));
        self.describe(name, 4, before);
    }

    /// Adds a column of one-byte numbers.
    pub(super) fn short(&mut self, name: &str, numbers: impl Iterator<Item = u8>) {
        let before = self.bytes.len();
        self.bytes.extend(numbers);
        self.describe(name, 1, before);
    }

    fn describe(&mut self, name: &str, width: u8, before: usize) {
        self.list.push(Column {
            name: name.to_string(),
            width,
            rows: (self.bytes.len() - before) / usize::from(width),
        });
    }
}
