//! The text of a statement where there is little room for it.

/// In place of a text that was not to be kept (`record --text none`), or could not be read.
pub(crate) const NOT_RECORDED: &str = "[text not recorded]";

/// The text in one line.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<&str>>().join(" ")
}

/// In one line of at most `most` characters, with a mark if there is more.
pub(crate) fn beginning(text: &str, most: usize) -> String {
    let line = one_line(text);
    match line.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// The same in a table of statements, where some have no text; id 0 = what belongs to none.
pub(crate) fn cell(id: u64, text: Option<&str>, most: usize) -> String {
    match (id, text) {
        (0, _) => "[unknown: parsing, or not begun]".to_string(),
        (_, None) => NOT_RECORDED.to_string(),
        (_, Some(text)) => beginning(text, most),
    }
}
