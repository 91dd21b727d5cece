//! The page that a text report is written on. Everything that reaches the terminal goes through here, and is made printable.

use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Row, Width, presets};

use crate::number::seconds;
use crate::printable::printable;

/// A table of numbers needs at least this width.
const MIN_WIDTH: usize = 72;
/// Blanks between columns.
const GAP: u16 = 2;
/// Longer texts may be broken in a table, but not into pieces shorter than this; words are not broken at all if there is room.
const MIN_TEXT: u16 = 16;
/// A text that would need more lines than this in a table ends in `...`.
const MAX_LINES: usize = 4;

/// A text report under construction.
pub(super) struct Page {
    width: u16,
    text: String,
}

/// A table: text columns on the left, numbers on the right, possibly bars on the far right. Several parts share their columns.
pub(super) struct Table {
    head: Vec<String>,
    text_columns: usize,
    has_bars: bool,
    lines: Vec<Line>,
}

enum Line {
    Row(Vec<String>),
    Rule,
    Heading(String),
}

impl Table {
    pub(super) fn new(text_columns: &[&str], number_columns: &[&str]) -> Table {
        Table {
            head: text_columns
                .iter()
                .chain(number_columns)
                .map(ToString::to_string)
                .collect(),
            text_columns: text_columns.len(),
            has_bars: false,
            lines: Vec::new(),
        }
    }

    /// Marks the last column as bars, which are left-aligned.
    pub(super) fn with_bars(mut self) -> Table {
        self.has_bars = true;
        self
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.lines.push(Line::Row(cells));
    }

    /// A line across the table.
    pub(super) fn rule(&mut self) {
        self.lines.push(Line::Rule);
    }

    /// The minimum widths of columns on a page of this width: for text, the longest words if they fit.
    fn least_widths(&self, content_widths: &[u16], page: usize, gap: u16) -> Vec<u16> {
        let columns = || content_widths.iter().enumerate();
        let least = |longest: &dyn Fn(usize) -> u16| -> Vec<u16> {
            columns()
                .map(|(index, width)| match index < self.text_columns {
                    true => longest(index).max(MIN_TEXT).min(*width),
                    false => *width,
                })
                .collect()
        };
        let of_words = least(&|index| self.longest_word(index));
        let wanted: usize = of_words
            .iter()
            .map(|width| usize::from(*width) + usize::from(gap))
            .sum();
        match wanted <= page {
            true => of_words,
            false => least(&|_| MIN_TEXT),
        }
    }

    fn longest_word(&self, column: usize) -> u16 {
        let rows = self.lines.iter().filter_map(|line| match line {
            Line::Row(cells) => cells.get(column),
            _ => None,
        });
        let words = rows.flat_map(|cell| cut(cell).split_whitespace());
        let longest = words.map(|word| word.chars().count()).max();
        u16::try_from(longest.unwrap_or(0)).unwrap_or(u16::MAX)
    }

    /// An empty line and a heading for the rows that follow.
    pub(super) fn heading(&mut self, text: String) {
        self.lines.push(Line::Heading(text));
    }
}

impl Page {
    pub(super) fn new(width: usize) -> Page {
        Page {
            width: u16::try_from(width.max(MIN_WIDTH)).unwrap_or(u16::MAX),
            text: String::new(),
        }
    }

    /// Columns of a line.
    pub(super) fn width(&self) -> usize {
        self.width.into()
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    /// An empty line and a heading.
    pub(super) fn heading(&mut self, text: &str) {
        self.text.push('\n');
        self.paragraph(text);
    }

    /// One line, however long.
    pub(super) fn line(&mut self, text: &str) {
        self.text.push_str(printable(text).trim_end());
        self.text.push('\n');
    }

    /// Text, wrapped at blanks to fit the page. Leading blanks indent each line, and all but the first by two more.
    pub(super) fn paragraph(&mut self, text: &str) {
        let rest = text.trim_start_matches(' ');
        let indent = u16::try_from(text.len() - rest.len()).unwrap_or(0);
        let hanging = if indent == 0 { 0 } else { indent + 2 };
        let mut table = comfy_table::Table::new();
        table
            .load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(self.width - hanging.min(self.width / 2))
            .add_row([printable(cut(rest))]);
        if let Some(column) = table.column_mut(0) {
            column.set_padding((0, 0));
        }
        for (at, line) in table.lines().enumerate() {
            let indent = usize::from(if at == 0 { indent } else { hanging });
            self.line(&format!("{:indent$}{line}", ""));
        }
    }

    /// A table, indented by two blanks.
    pub(super) fn table(&mut self, content: &Table) {
        let indent = "  ";
        let mut table = comfy_table::Table::new();
        table
            .load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(self.width - GAP)
            .set_header(content.head.iter().map(|head| cell(head)));
        for line in std::iter::once(&Line::Rule).chain(&content.lines) {
            match line {
                Line::Row(cells) => {
                    let mut row = Row::from(cells.iter().map(|text| cell(text)).collect::<Vec<_>>());
                    row.max_height(MAX_LINES);
                    table.add_row(row)
                }
                Line::Rule | Line::Heading(_) => table.add_row([MARK]),
            };
        }
        let last = content.head.len() - 1;
        let content_widths = table.column_max_content_widths();
        // If space is tight, narrow gaps are better than broken names.
        let wanted: usize = content_widths
            .iter()
            .map(|width| usize::from(width.saturating_add(GAP)))
            .sum();
        let gap = if wanted > usize::from(self.width) { 1 } else { GAP };
        let least = content.least_widths(&content_widths, usize::from(self.width - GAP), gap);
        for column in table.column_iter_mut() {
            let index = column.index;
            column.set_padding((0, if index == last { 0 } else { gap }));
            if index >= content.text_columns {
                if index != last || !content.has_bars {
                    column.set_cell_alignment(CellAlignment::Right);
                }
                column.set_constraint(ColumnConstraint::ContentWidth);
            } else {
                let least = least.get(index).copied().unwrap_or(MIN_TEXT);
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(
                    least.saturating_add(gap),
                )));
            }
        }
        let lines: Vec<String> = table.lines().collect();
        let width = lines
            .iter()
            .map(|line| line.trim_end().chars().count())
            .max()
            .unwrap_or(0);
        let rule = format!("{indent}{}", "-".repeat(width));
        let mut marked = std::iter::once(&Line::Rule)
            .chain(&content.lines)
            .filter(|line| !matches!(line, Line::Row(_)));
        for line in &lines {
            if !line.contains(MARK) {
                self.line(&format!("{indent}{line}"));
            } else if let Some(Line::Heading(text)) = marked.next() {
                self.heading(text);
            } else {
                self.line(&rule);
            }
        }
    }
}

/// Marks a line that is not a row. It cannot occur in a cell, as it is not printable.
const MARK: &str = "\u{1}";

/// No text is shown beyond this; the table could not even count the columns of some of them.
const MAX_CHARACTERS: usize = 4_096;

fn cell(text: &str) -> Cell {
    Cell::new(printable(&cut(text).replace(['\n', '\r', '\t'], " ")))
}

/// As much of a text as anybody would read.
fn cut(text: &str) -> &str {
    let end = text.char_indices().nth(MAX_CHARACTERS);
    &text[..end.map_or(text.len(), |(end, _)| end)]
}

/// A time in a table: `-` for none, so that zero differs from "less than a millisecond".
pub(super) fn time(ns: u128) -> String {
    if ns == 0 { "-".to_string() } else { seconds(ns) }
}

/// A time that may not be known.
pub(super) fn time_if_known(ns: Option<u128>) -> String {
    ns.map_or_else(|| "?".to_string(), time)
}

/// A percentage with one decimal.
pub(super) fn percent(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{value:.1}"))
}

/// A bar for a part of the largest: any part above zero is visible.
pub(super) fn bar(part: u128, whole: u128) -> String {
    const LONGEST: f64 = 20.0;
    if part == 0 || whole == 0 {
        return String::new();
    }
    let length = (part as f64 / whole as f64 * LONGEST).round() as usize;
    if length == 0 {
        ".".to_string()
    } else {
        "#".repeat(length)
    }
}
