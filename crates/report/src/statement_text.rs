//! The text of a statement where there is little room for it.

/// In the place of a text: it was not to be kept (`record --text none`), or could not be read.
pub(crate) const NOT_RECORDED: &str = "[text not recorded]";

/// In one line.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<&str>>().join(" ")
}

/// In one line of so many characters at most, and a mark where there is more.
pub(crate) fn beginning(text: &str, most: usize) -> String {
    let line = one_line(text);
    match line.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// The same in a table of statements, where some have no text: of the statement with this id, 0 = what belongs to none.
pub(crate) fn cell(id: u64, text: Option<&str>, most: usize) -> String {
    match (id, text) {
        (0, _) => "[unknown: parsing, or not begun]".to_string(),
        (_, None) => NOT_RECORDED.to_string(),
        (_, Some(text)) => beginning(text, most),
    }
}
