//! The summary table of strace (`-c`): calls, errors and seconds of each call.

use super::line::{Digits, digits};
use crate::text::decimal;

/// Columns in the order of the table; `errors` may be empty in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Columns(Vec<Column>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Seconds,
    Calls,
    Errors,
    Name,
    Other,
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row<'a> {
    pub name: &'a [u8],
    pub calls: u64,
    pub errors: u64,
    pub seconds: Digits,
}

/// What a line of the table is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meaning<'a> {
    Row(Row<'a>),
    /// A rule between parts.
    Rule,
    /// The sum of all rows: the last line.
    Total,
}

/// `% time     seconds  usecs/call     calls    errors syscall`; none if it is not the head of such a table.
pub(super) fn head(line: &[u8]) -> Option<Columns> {
    let line = line.trim_ascii();
    let rest = line.strip_prefix(b"% time")?;
    let columns: Vec<Column> = std::iter::once(Column::Other)
        .chain(words(rest).map(|word| match word {
            b"seconds" => Column::Seconds,
            b"calls" => Column::Calls,
            b"errors" => Column::Errors,
            b"syscall" => Column::Name,
            _ => Column::Other,
        }))
        .collect();
    let has = |column| columns.contains(&column);
    (has(Column::Seconds) && has(Column::Calls) && has(Column::Name)).then_some(Columns(columns))
}

impl Columns {
    /// Reads a line below the head.
    pub(super) fn row<'a>(&self, line: &'a [u8]) -> Option<Meaning<'a>> {
        let line = line.trim_ascii();
        if !line.is_empty() && line.iter().all(|byte| matches!(byte, b'-' | b' ')) {
            return Some(Meaning::Rule);
        }
        let cells: Vec<&[u8]> = words(line).collect();
        let without_errors: Vec<Column>;
        let columns = if cells.len() == self.0.len() {
            &self.0
        } else {
            let filled = self.0.iter().copied().filter(|column| *column != Column::Errors);
            without_errors = filled.collect();
            &without_errors
        };
        if cells.len() != columns.len() {
            return None;
        }
        let cell = |wanted| {
            let at = columns.iter().position(|column| *column == wanted)?;
            cells.get(at).copied()
        };
        let row = Row {
            name: cell(Column::Name)?,
            calls: decimal(cell(Column::Calls)?)?,
            errors: match cell(Column::Errors) {
                Some(errors) => decimal(errors)?,
                None => 0,
            },
            seconds: digits(cell(Column::Seconds)?)?,
        };
        Some(if row.name == b"total" {
            Meaning::Total
        } else {
            Meaning::Row(row)
        })
    }
}

/// Words between blanks.
pub(super) fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| matches!(byte, b' ' | b'\t'))
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_column_of_errors_may_be_empty() {
        let columns = head(b"% time     seconds  usecs/call     calls    errors syscall").expect("a head");
        let row = |text: &'static str| match columns.row(text.as_bytes()) {
            Some(Meaning::Row(row)) => (row.name, row.calls, row.errors, row.seconds.ns),
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(
            row("  0.16    0.000003           3         1         1 ioctl"),
            (&b"ioctl"[..], 1, 1, 3_000)
        );
        assert_eq!(
            row(" 85.40    0.001643           8       200           nanosleep"),
            (&b"nanosleep"[..], 200, 0, 1_643_000)
        );
        assert_eq!(columns.row(b"------ ----------- ---------"), Some(Meaning::Rule));
        assert_eq!(
            columns.row(b"100.00    0.001924           8       220         1 total"),
            Some(Meaning::Total)
        );
        assert_eq!(columns.row(b"hello"), None);
        assert_eq!(head(b"% time of day"), None);
    }
}
