//! A table on a screen: which columns fit, and how wide they are.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::pages::Page;
use super::pen::{plain, width, write, write_right};

/// Between columns.
const GAP: u16 = 1;
/// Layout of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Setting {
    /// A number: right-aligned, never cut.
    Number,
    /// A short text, never cut up to this many columns.
    Short(u16),
    /// A text that takes the available room; others are left out before it becomes narrower than this.
    Text(u16),
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) title: String,
    pub(super) setting: Setting,
    /// If there is not enough room, the columns with the highest numbers are left out first; 0 stays.
    pub(super) spare: u8,
    /// Rows are sorted by it.
    pub(super) is_sorted: bool,
}

impl Column {
    pub(super) fn new(title: &str, setting: Setting, spare: u8) -> Column {
        Column {
            title: title.to_string(),
            setting,
            spare,
            is_sorted: false,
        }
    }

    fn heading(&self) -> String {
        match self.is_sorted {
            true => format!("*{}", self.title),
            false => self.title.clone(),
        }
    }
}

/// What a row is about, for when it is selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// Nothing that can be opened: a sum.
    Sum,
    /// A wait event, as it is written.
    Wait(String),
    /// A statement by its id.
    Statement(u64),
    /// A session by its process id and its number in the recording.
    Session(u32, u64),
    /// The stack with this index in the answer.
    Stack(usize),
    /// A session in a chain of waits, by process id (0: no session), in this row.
    Link(u32, usize),
    /// Events by their kind and name.
    Event(String, String),
}

/// How a row looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    Usual,
    /// Sums.
    Strong,
    /// Less important: idle sessions, the server's own processes.
    Faint,
}

/// A row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// What it is about.
    pub subject: Subject,
    pub(super) cells: Vec<String>,
    pub(super) weight: Weight,
}

impl Row {
    /// Makes untrusted text in cells safe for the screen.
    pub(super) fn new(subject: Subject, weight: Weight, cells: Vec<String>) -> Row {
        Row {
            subject,
            cells: cells.iter().map(|cell| plain(cell)).collect(),
            weight,
        }
    }
}

/// Rows and columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    pub(super) columns: Vec<Column>,
    /// In display order.
    pub rows: Vec<Row>,
    /// Shown instead of rows if there are none.
    pub(super) nothing: String,
}

impl Table {
    /// Removes this column if no row has anything in it.
    pub(super) fn without_if_empty(mut self, title: &str) -> Table {
        let is_empty = |at: usize| self.rows.iter().all(|row| row.cells[at].is_empty());
        let place = self.columns.iter().position(|column| column.title == title);
        if let Some(at) = place.filter(|at| is_empty(*at)) {
            self.columns.remove(at);
            for row in &mut self.rows {
                row.cells.remove(at);
            }
        }
        self
    }

    /// Indices and widths of the columns that fit.
    fn fit(&self, columns: u16) -> Vec<(usize, u16)> {
        let natural: Vec<u16> = (self.columns.iter().enumerate())
            .map(|(at, column)| {
                let cells = self.rows.iter().filter_map(|row| row.cells.get(at));
                let widest = cells.map(|cell| width(cell)).max().unwrap_or(0);
                let widest = widest.max(width(&column.heading()));
                match column.setting {
                    Setting::Short(most) => widest.min(most),
                    Setting::Number | Setting::Text(_) => widest,
                }
            })
            .collect();
        let least = |at: usize| match self.columns[at].setting {
            Setting::Text(least) => natural[at].min(least),
            Setting::Number | Setting::Short(_) => natural[at],
        };
        let mut taken: Vec<usize> = (0..self.columns.len()).collect();
        let needed = |taken: &[usize]| {
            let widths: u16 = taken.iter().map(|at| least(*at)).sum();
            widths + GAP * (taken.len() as u16).saturating_sub(1)
        };
        while needed(&taken) > columns
            && let Some(at) = taken
                .iter()
                .copied()
                .max_by_key(|at| (self.columns[*at].spare, *at))
            && self.columns[at].spare > 0
        {
            taken.retain(|other| *other != at);
        }
        let mut room = columns.saturating_sub(needed(&taken));
        let mut widths: Vec<(usize, u16)> = taken.iter().map(|at| (*at, least(*at))).collect();
        // Left to right: the last one, usually a statement, is cut anyway.
        for (at, width) in &mut widths {
            let more = (natural[*at] - *width).min(room);
            *width += more;
            room -= more;
        }
        widths
    }

    /// Draws the heading and as many rows as fit, including the selected one.
    pub(super) fn draw(&self, buffer: &mut Buffer, area: Rect, chosen: Option<usize>) {
        if area.height < 2 {
            return;
        }
        let widths = self.fit(area.width);
        let heading = Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
        buffer.set_style(Rect { height: 1, ..area }, heading);
        let mut x = area.x;
        for (at, width) in &widths {
            let column = &self.columns[*at];
            self.cell(buffer, (x, area.y), *at, &column.heading(), *width, heading);
            x += width + GAP;
        }
        if self.rows.is_empty() {
            let below = Rect::new(area.x, area.y + 1, area.width, area.height - 1);
            Page::of_text(&self.nothing, area.width).draw(buffer, below, 0);
            return;
        }
        let shown = usize::from(area.height - 1);
        let first = chosen.map_or(0, |chosen| (chosen + 1).saturating_sub(shown));
        for (number, row) in self.rows.iter().enumerate().skip(first).take(shown) {
            let y = area.y + 1 + (number - first) as u16;
            let mut style = match row.weight {
                Weight::Usual => Style::new(),
                Weight::Strong => Style::new().add_modifier(Modifier::BOLD),
                Weight::Faint => Style::new().add_modifier(Modifier::DIM),
            };
            if chosen == Some(number) {
                style = style.add_modifier(Modifier::REVERSED);
            }
            buffer.set_style(Rect::new(area.x, y, area.width, 1), style);
            let mut x = area.x;
            for (at, width) in &widths {
                let text = row.cells.get(*at).map_or("", String::as_str);
                self.cell(buffer, (x, y), *at, text, *width, style);
                x += width + GAP;
            }
        }
    }

    fn cell(&self, buffer: &mut Buffer, place: (u16, u16), at: usize, text: &str, width: u16, style: Style) {
        match self.columns[at].setting {
            Setting::Number => write_right(buffer, place, text, width, style),
            Setting::Short(_) | Setting::Text(_) => {
                write(buffer, place, text, width, style);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let row = |cells: [&str; 4]| {
            let cells = cells.map(str::to_string).to_vec();
            Row::new(Subject::Sum, Weight::Usual, cells)
        };
        Table {
            columns: vec![
                Column::new("wait event", Setting::Text(12), 0),
                Column::new("AAS", Setting::Number, 0),
                Column::new("user", Setting::Short(6), 2),
                Column::new("statement", Setting::Text(12), 1),
            ],
            rows: vec![
                row([
                    "IO:DataFileRead",
                    "12.50",
                    "alexander",
                    "select a, b, c from somewhere",
                ]),
                row(["CPU", "0.01", "bob", "select 1"]),
            ],
            nothing: "nothing".to_string(),
        }
    }

    fn drawn(width: u16, height: u16, chosen: Option<usize>) -> Vec<String> {
        let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
        table().draw(&mut buffer, Rect::new(0, 0, width, height), chosen);
        (0..height)
            .map(|y| {
                let line: String = (0..width).map(|x| buffer[(x, y)].symbol().to_string()).collect();
                line.trim_end().to_string()
            })
            .collect()
    }

    #[test]
    fn with_room_all_of_it_is_shown_and_numbers_stand_below_each_other() {
        assert_eq!(
            drawn(80, 3, None),
            [
                "wait event        AAS user   statement",
                "IO:DataFileRead 12.50 alexa… select a, b, c from somewhere",
                "CPU              0.01 bob    select 1",
            ]
        );
    }

    #[test]
    fn with_less_room_texts_are_cut_and_then_columns_left_out() {
        assert_eq!(
            drawn(43, 2, None)[1],
            "IO:DataFileRead 12.50 alexa… select a, b, …"
        );
        assert_eq!(drawn(33, 2, None)[1], "IO:DataFileRe… 12.50 select a, b…");
        assert_eq!(drawn(20, 2, None)[1], "IO:DataFileRe… 12.50");
    }

    #[test]
    fn the_chosen_row_is_among_those_that_are_shown() {
        assert!(drawn(80, 2, Some(1))[1].starts_with("CPU"));
        assert_eq!(drawn(80, 1, Some(1)), [""]);
    }
}
