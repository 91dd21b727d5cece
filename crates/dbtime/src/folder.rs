//! A directory that was named although its files were meant.

use std::ffi::OsString;
use std::fs::DirEntry;
use std::path::Path;

use dbtime_model::recording::META_FILE;
use dbtime_report::shell_word;

/// Most entries of a directory that are looked at.
const MOST_ENTRIES: usize = 10_000;

/// The command that reads the files in a directory; none if it is a recording, or has no files.
pub fn command_for(directory: &Path) -> Option<String> {
    let entries = directory.read_dir().ok()?.take(MOST_ENTRIES).flatten();
    let is_file = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
    let names: Vec<OsString> = entries.filter(is_file).map(|entry| entry.file_name()).collect();
    if names.is_empty() || directory.join(META_FILE).exists() {
        return None;
    }
    let is_trace = |name: &OsString| Path::new(name).extension().is_some_and(|ending| ending == "trc");
    let pattern = match names.iter().any(is_trace) {
        true => "*.trc",
        false => "*",
    };
    // The slash is added unless it is there. The pattern is not quoted: the shell is to expand it.
    let directory = shell_word(&directory.join("").display().to_string());
    Some(format!("dbtime report {directory}{pattern}"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_are_named_by_a_pattern_unless_they_are_a_recording() {
        let folder = tempfile::TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
        let folder = folder.path();
        assert_eq!(command_for(folder), None, "it is empty");
        let of = |pattern: &str| Some(format!("dbtime report {}/{pattern}", folder.display()));
        fs::write(folder.join("notes.txt"), "").expect("room");
        assert_eq!(command_for(folder), of("*"));
        fs::write(folder.join("a.trc"), "").expect("room");
        assert_eq!(command_for(folder), of("*.trc"));
        assert_eq!(command_for(&folder.join("")), of("*.trc"));
        fs::write(folder.join(META_FILE), "{}").expect("room");
        assert_eq!(command_for(folder), None, "it is a recording");
    }
}
