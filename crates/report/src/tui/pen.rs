//! Writing into the cells of a screen: whatever is written is printable, on one line, and stays within its bounds.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Span;

use crate::printable::printable;
use crate::statement_text::one_line;

/// Stands for what was cut off.
const CUT: &str = "…";

/// Untrusted text, made safe for the screen.
pub(super) fn plain(text: &str) -> String {
    printable(&one_line(text)).into_owned()
}

/// Width in columns.
pub(super) fn width(text: &str) -> u16 {
    u16::try_from(Span::raw(text).width()).unwrap_or(u16::MAX)
}

/// Writes a text into this many columns, with a mark if it was cut. Returns the column after it.
pub(super) fn write(buffer: &mut Buffer, (x, y): (u16, u16), text: &str, columns: u16, style: Style) -> u16 {
    let columns = columns.min(buffer.area.right().saturating_sub(x));
    if columns == 0 || y >= buffer.area.bottom() {
        return x;
    }
    let text = printable(text);
    if width(&text) <= columns {
        return buffer.set_stringn(x, y, &text, columns.into(), style).0;
    }
    let (end, _) = buffer.set_stringn(x, y, &text, usize::from(columns - 1), style);
    buffer.set_stringn(end, y, CUT, 1, style).0
}

/// The same, right-aligned.
pub(super) fn write_right(buffer: &mut Buffer, (x, y): (u16, u16), text: &str, columns: u16, style: Style) {
    let blank = columns.saturating_sub(width(&printable(text)));
    write(buffer, (x + blank, y), text, columns - blank, style);
}

/// A line of an area; none if it has fewer.
pub(super) fn line(area: Rect, number: u16) -> Option<Rect> {
    (number < area.height).then(|| Rect::new(area.x, area.y + number, area.width, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str, columns: u16) -> String {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 12, 1));
        write(&mut buffer, (1, 0), text, columns, Style::default());
        (0..12).map(|x| buffer[(x, 0)].symbol().to_string()).collect()
    }

    #[test]
    fn what_is_too_long_is_cut_where_it_is_seen() {
        assert_eq!(written("select", 6), " select     ");
        assert_eq!(written("select 1", 6), " selec…     ");
        assert_eq!(written("select 123456789", 99), " select 123…");
        assert_eq!(written("x", 0), "            ");
    }

    #[test]
    fn wide_characters_take_two_columns_and_are_not_cut_in_two() {
        assert_eq!(written("漢字漢字", 6).trim_end(), " 漢 字 …");
        assert_eq!(width("漢字"), 4);
    }

    #[test]
    fn nothing_moves_the_cursor() {
        assert_eq!(written("a\u{1b}[2J\n", 12), " a?[2J?     ");
        assert_eq!(plain("a\r\n  b\u{202e}c"), "a b?c");
    }
}
