//! A Markdown table that is readable as text: columns are padded.

use std::fmt::Write;

/// Names of the columns and cells; the first column is text, the others are numbers.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    pub(crate) fn new(columns: &[&str]) -> Table {
        Table {
            rows: vec![columns.iter().map(|name| name.to_string()).collect()],
        }
    }

    /// Adds a row with a cell for each column.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.rows[0].len());
        self.rows.push(cells);
    }

    /// The lines of the table.
    pub(crate) fn render(&self) -> String {
        let columns = self.rows[0].len();
        let widths: Vec<usize> = (0..columns)
            .map(|column| self.rows.iter().map(|row| row[column].chars().count()).max())
            .map(Option::unwrap_or_default)
            .collect();
        let mut text = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                // Writing to a string cannot fail.
                let _ = match column {
                    0 => write!(text, "| {cell:<width$} "),
                    _ => write!(text, "| {cell:>width$} "),
                };
            }
            text.push_str("|\n");
            if number == 0 {
                for (column, &width) in widths.iter().enumerate() {
                    let dashes = "-".repeat(width + 1);
                    text.push_str(&match column {
                        0 => format!("|{dashes}-"),
                        _ => format!("|{dashes}:"),
                    });
                }
                text.push_str("|\n");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["who", "n"]);
        table.row(vec!["é".to_string(), "1,000".to_string()]);
        assert_eq!(
            table.render(),
            "| who |     n |\n\
             |-----|------:|\n\
             | é   | 1,000 |\n"
        );
    }
}
