//! Parts of a trace that name each other, and other files that it names.

use super::record::{Mark, Record, parse};

/// Most files named by a trace that are kept.
const MAX_NAMED_FILES: usize = 10;

/// Most names of parts remembered.
pub(super) const MAX_PARTS: usize = 10_000;

/// Name of the file that a trace with this beginning says it continues.
pub(crate) fn continued_file(head: &[u8]) -> Option<String> {
    head.split(|byte| *byte == b'\n')
        .find_map(|line| match parse(line)? {
            Record::Mark(Mark::ContinuedFrom(path)) => {
                Some(part_name(&String::from_utf8_lossy(path)).to_string())
            }
            _ => None,
        })
}

/// Name of a file without its folder: what follows the last slash, of Unix or Windows.
pub(super) fn part_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// Keeps the name of another file.
pub(super) fn note_file(files: &mut Vec<String>, path: &[u8]) {
    let path = String::from_utf8_lossy(path).into_owned();
    if files.len() < MAX_NAMED_FILES && !files.contains(&path) {
        files.push(path);
    }
}
