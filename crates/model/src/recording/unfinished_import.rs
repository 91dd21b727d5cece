//! What a killed `import` has left. It says so itself, nobody holds its lock, and it contains only what an import writes: then the
//! next one may take its name.

use std::io;
use std::path::Path;

use super::writer::TABLES;
use super::{META_FILE, Recording, RecordingError, segment_files};
use crate::output::{Directory, Place};

/// Removes what a killed import has left at this place; false when there is anything else, or nothing.
///
/// # Errors
/// There is one, but it cannot be removed.
pub fn remove_unfinished_import(place: &Place) -> io::Result<bool> {
    let Ok(directory) = place.open_directory() else {
        return Ok(false);
    };
    // While this is held nobody else takes it. Without locks, it is not known whether it is being written.
    let Ok(Some(_lock)) = directory.lock() else {
        return Ok(false);
    };
    if !is_unfinished_import(&directory) {
        return Ok(false);
    }
    // Clears what was checked, whatever has the name by now; and removes the name only if it is that of an empty directory.
    directory.clear()?;
    place.remove_empty_directory()?;
    Ok(true)
}

fn is_unfinished_import(directory: &Directory) -> bool {
    let is_ours = || -> io::Result<bool> {
        if directory.owner()? != rustix::process::geteuid().as_raw() {
            return Ok(false);
        }
        for name in directory.names()? {
            let is_table = TABLES.iter().any(|table| name == **table);
            if is_table {
                let table = directory.open_directory(&name)?;
                if segment_files(&table)?.len() != table.names()?.len() {
                    return Ok(false);
                }
            } else if name != *META_FILE {
                return Ok(false);
            }
        }
        Ok(true)
    };
    let says_so = || {
        let recording = directory
            .try_clone()
            .map_err(|e| RecordingError::io(Path::new(""), e))
            .and_then(Recording::inside);
        matches!(recording, Err(RecordingError::Importing(_)))
    };
    says_so() && is_ours().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::recording::{Meta, RecordingWriter, SCHEMA_VERSION};
    use crate::{CounterRow, Rows};

    fn begin(path: &Path, importing: bool) -> RecordingWriter {
        let meta = Meta {
            schema: SCHEMA_VERSION.to_string(),
            importing,
            ..Meta::default()
        };
        let mut writer = RecordingWriter::create(path, meta).expect("a new recording");
        let rows = Rows {
            counters: vec![CounterRow::default()],
            ..Rows::default()
        };
        writer.write(&rows).expect("it can be written");
        writer
    }

    fn remove(path: &Path) -> bool {
        remove_unfinished_import(&Place::of(path).expect("a place")).expect("it can be removed")
    }

    fn files(path: &Path) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(path).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                files.extend(self::files(&path));
            }
            files.push(path);
        }
        files.sort();
        files
    }

    #[test]
    fn a_killed_import_is_said_to_be_one_and_gives_its_name() {
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join("x.dbt");
        let writer = begin(&path, true);
        let before = files(&path);
        assert!(!remove(&path), "it is being written");
        assert_eq!(files(&path), before);
        // As a killed one leaves it.
        drop(writer);
        let error = Recording::open(&path).expect_err("it is not whole").to_string();
        assert!(error.contains("import that has not ended"), "{error}");
        assert!(remove(&path));
        assert!(!path.exists());
        assert!(!remove(&path), "there is nothing");
    }

    #[test]
    fn nothing_else_is_removed() {
        let home = tempfile::tempdir().expect("a folder");
        let recording = home.path().join("recording.dbt");
        drop(begin(&recording, false));
        let with_notes = home.path().join("notes.dbt");
        drop(begin(&with_notes, true));
        std::fs::write(with_notes.join("notes.txt"), "mine").expect("room");
        let in_table = home.path().join("table.dbt");
        drop(begin(&in_table, true));
        std::fs::write(in_table.join("counters/notes.txt"), "mine").expect("room");
        let empty = home.path().join("empty.dbt");
        std::fs::create_dir(&empty).expect("room");
        let file = home.path().join("file.dbt");
        std::fs::write(&file, "mine").expect("room");
        let unfinished = home.path().join("unfinished.dbt");
        drop(begin(&unfinished, true));
        let link = home.path().join("link.dbt");
        std::os::unix::fs::symlink(&unfinished, &link).expect("room");
        let before = files(home.path());
        for path in [&recording, &with_notes, &in_table, &empty, &file, &link] {
            assert!(!remove(path), "{}", path.display());
        }
        assert_eq!(files(home.path()), before);
    }
}
