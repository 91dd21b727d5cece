//! Merges the segments of a recording that is no longer being written into one.
//!
//! The steps are those of [`super::compaction`]. All segments become a new one without rows of its own and with an unused number: a file of
//! that number means nothing until `meta.json` says what it is. One in which the recorder was killed is removed first.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use super::writer::{TABLES, write_meta};
use super::{META_FILE, Merged, Meta, Recording, RecordingError, compaction, segment_files, segment_name};
use crate::output::Directory;

/// What [`compact`] has made of a recording.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Files of all tables, before and after.
    pub files: (u64, u64),
    /// Their bytes, before and after.
    pub bytes: (u64, u64),
}

/// Merges all segments of a recording whose recorder has ended or was killed: one file of each table is left. Whenever it is interrupted,
/// every row is there once.
///
/// # Errors
/// It is still being written, belongs to another user, or a segment cannot be read: nothing has changed then.
pub fn compact(path: &Path) -> Result<Compacted, RecordingError> {
    compact_while(path, &mut || true)
}

/// The same, as long as `may_go_on` says so before each step: tests see what a killed process leaves.
fn compact_while(path: &Path, may_go_on: &mut dyn FnMut() -> bool) -> Result<Compacted, RecordingError> {
    let failed = |e| RecordingError::io(path, e);
    let directory = Directory::open(path).map_err(failed)?;
    let lock = directory.lock();
    let meta = Recording::inside(directory.try_clone().map_err(failed)?)?
        .meta()
        .clone();
    let not_ours = |why: String| RecordingError::NotOurs {
        path: path.to_path_buf(),
        why,
    };
    let _lock = match lock {
        Ok(Some(lock)) => Some(lock),
        Ok(None) => {
            return Err(not_ours(
                "it is still being written: its recorder merges segments every hour and at the end"
                    .to_string(),
            ));
        }
        // Nobody writes to a recording that says it is complete.
        Err(_) if meta.complete => None,
        Err(e) => {
            return Err(not_ours(format!(
                "cannot tell whether it is still being written ({e}): copy it elsewhere and compact the copy"
            )));
        }
    };
    let owner = directory.owner().map_err(failed)?;
    if owner != rustix::process::geteuid().as_raw() {
        return Err(not_ours(format!(
            "it belongs to another user (uid {owner}), who could not read the result: run this as that user"
        )));
    }
    let tables: Vec<Directory> = TABLES
        .iter()
        .filter_map(|table| match directory.open_directory(table.as_ref()) {
            // A table that its writer did not know.
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            opened => Some(opened.map_err(|e| RecordingError::io(&path.join(table), e))),
        })
        .collect::<Result<_, _>>()?;
    let before = size(&tables)?;
    merge_all(&directory, &tables, meta, may_go_on)?;
    let after = size(&tables)?;
    Ok(Compacted {
        files: (before.0, after.0),
        bytes: (before.1, after.1),
    })
}

fn merge_all(
    directory: &Directory,
    tables: &[Directory],
    mut meta: Meta,
    may_go_on: &mut dyn FnMut() -> bool,
) -> Result<(), RecordingError> {
    // What was begun before is finished first.
    for &range in &meta.segments.merged {
        for table in tables {
            compaction::tidy(table, range, may_go_on)?;
        }
    }
    // The segment in which a recorder was killed has the number that the new one gets: its rows are not part of the recording.
    for table in tables {
        remove_what_is_no_part(table, &meta, may_go_on)?;
    }
    let is_one = match meta.segments.merged[..] {
        [] => meta.segments.last <= 1,
        [only] => only.first == 1 && only.last == meta.segments.last,
        _ => false,
    };
    if !is_one {
        let Some(next) = meta.segments.last.checked_add(1) else {
            return Err(RecordingError::format(
                &directory.path().join(META_FILE),
                format!(
                    "its last segment has the number {}, the highest possible: no recorder of dbtime has written that",
                    meta.segments.last
                ),
            ));
        };
        let range = Merged { first: 1, last: next };
        for table in tables {
            if !may_go_on() {
                return Ok(());
            }
            compaction::merge(table, range).inspect_err(|_| compaction::undo(tables, range))?;
        }
        if !may_go_on() {
            return Ok(());
        }
        meta.segments.last = range.last;
        meta.segments.merged = vec![range];
        write_meta(directory, &meta)?;
        for table in tables {
            compaction::tidy(table, range, may_go_on)?;
        }
    }
    Ok(())
}

/// Removes files that a killed recorder left, or a killed attempt at this.
fn remove_what_is_no_part(
    table: &Directory,
    meta: &Meta,
    may_go_on: &mut dyn FnMut() -> bool,
) -> Result<(), RecordingError> {
    let last = meta.segments.last;
    for name in files_of(table)? {
        let number = name
            .to_str()
            .and_then(|name| name.split('.').next()?.parse().ok());
        let is_part = number.is_some_and(|number: u64| number <= last && name == segment_name(number));
        if !is_part && may_go_on() {
            table
                .remove_file(&name)
                .map_err(|e| RecordingError::io(&table.path().join(&name), e))?;
        }
    }
    Ok(())
}

fn files_of(table: &Directory) -> Result<Vec<OsString>, RecordingError> {
    segment_files(table).map_err(|e| RecordingError::io(table.path(), e))
}

/// Files and bytes.
fn size(tables: &[Directory]) -> Result<(u64, u64), RecordingError> {
    let (mut files, mut bytes) = (0, 0);
    for table in tables {
        for name in files_of(table)? {
            let length = table.open_file(&name).and_then(|file| file.metadata());
            files += 1;
            bytes += length
                .map_err(|e| RecordingError::io(&table.path().join(&name), e))?
                .len();
        }
    }
    Ok((files, bytes))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::recording::{Problem, RecordingWriter, SCHEMA_VERSION};
    use crate::{CounterRow, Rows, SessionId, StatementRow};

    /// A recording of `segments` segments, of which the first `merged` are merged already. Every second one has a statement.
    fn write(path: &Path, segments: i64, merged: i64) -> RecordingWriter {
        let meta = Meta {
            schema: SCHEMA_VERSION.to_string(),
            ..Meta::default()
        };
        let mut writer = RecordingWriter::create(path, meta).expect("a new recording");
        for segment in 0..segments {
            let rows = Rows {
                counters: vec![CounterRow {
                    time: segment,
                    session: SessionId(1),
                    value: segment,
                    ..CounterRow::default()
                }],
                statements: Vec::from_iter((segment % 2 == 0).then(|| StatementRow {
                    id: segment.cast_unsigned(),
                    ..StatementRow::default()
                })),
                ..Rows::default()
            };
            writer.write(&rows).expect("it can be written");
            if segment + 1 == merged {
                writer.begin_compacting(true).expect("there is a thread");
                writer.go_on_compacting(true).expect("it can be merged");
            }
        }
        writer
    }

    fn assert_whole(path: &Path, segments: i64) {
        let recording = Recording::open(path).expect("a recording");
        let (mut counters, mut statements) = (Vec::new(), Vec::new());
        let mut problems: Vec<Problem> =
            recording.read::<CounterRow>(|rows| counters.extend(rows.iter().map(|row| row.value)));
        problems
            .extend(recording.read::<StatementRow>(|rows| statements.extend(rows.iter().map(|row| row.id))));
        assert_eq!(problems, []);
        assert_eq!(counters, Vec::from_iter(0..segments));
        assert_eq!(
            statements,
            Vec::from_iter((0..segments.cast_unsigned()).step_by(2))
        );
    }

    fn files(path: &Path) -> BTreeSet<String> {
        ["counters", "statements"]
            .into_iter()
            .flat_map(|table| std::fs::read_dir(path.join(table)).expect("a folder"))
            .map(|entry| entry.expect("a file").file_name().to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn one_file_of_each_table_is_left_and_a_second_time_changes_nothing() {
        let home = tempfile::tempdir().expect("a folder");
        for (segments, merged, last) in [(1, 0, "1"), (5, 0, "6"), (5, 3, "6"), (5, 5, "5"), (2, 1, "3")] {
            let path = home.path().join(format!("{segments}-{merged}.dbt"));
            write(&path, segments, merged)
                .finish()
                .expect("it can be written");
            let compacted = compact(&path).expect("it can be merged");
            assert_eq!(compacted.files.1, 2, "{compacted:?}");
            assert_eq!(
                files(&path),
                BTreeSet::from([format!("{last:0>6}.parquet")]),
                "{segments} {merged}"
            );
            assert_whole(&path, segments);
            let again = compact(&path).expect("it is merged");
            assert_eq!((again.files.0, again.bytes.0), (again.files.1, again.bytes.1));
            assert_whole(&path, segments);
        }
    }

    #[test]
    fn killed_before_any_step_every_row_is_there_once_and_the_next_attempt_ends_it() {
        let home = tempfile::tempdir().expect("a folder");
        for steps in 0.. {
            let path = home.path().join(format!("{steps}.dbt"));
            // Killed: the writer has not said that it is complete.
            drop(write(&path, 7, 3));
            let mut left = steps;
            compact_while(&path, &mut || {
                left -= 1;
                left >= 0
            })
            .expect("it can be merged");
            assert_whole(&path, 7);
            let was_whole = left >= 0;
            let second = compact(&path).expect("it can be merged");
            assert_eq!(second.files.1, 2);
            assert_whole(&path, 7);
            if was_whole {
                assert!(steps > 10, "only {steps} steps");
                return;
            }
        }
    }

    #[test]
    fn what_a_killed_recorder_left_is_removed_and_nothing_else() {
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join("a.dbt");
        drop(write(&path, 2, 0));
        for name in ["000009.parquet", "000002.merged", "notes.txt"] {
            std::fs::write(path.join("counters").join(name), "x").expect("it can be written");
        }
        compact(&path).expect("it can be merged");
        assert_eq!(
            files(&path),
            BTreeSet::from(["000003.parquet".to_string(), "notes.txt".to_string()])
        );
        assert_whole(&path, 2);
    }

    /// Its files have their names, but `meta.json` does not say so: its number is the next one.
    #[test]
    fn the_segment_in_which_a_recorder_was_killed_is_no_part_of_what_is_merged() {
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join("a.dbt");
        drop(write(&path, 2, 0));
        let table = path.join("counters");
        std::fs::copy(table.join("000002.parquet"), table.join("000003.parquet")).expect("a file");
        assert_whole(&path, 2);
        compact(&path).expect("it can be merged");
        assert_eq!(files(&path), BTreeSet::from(["000003.parquet".to_string()]));
        assert_whole(&path, 2);
    }

    #[test]
    fn a_recording_that_is_being_written_is_left_alone() {
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join("a.dbt");
        let mut writer = write(&path, 3, 0);
        let before = files(&path);
        let error = compact(&path).expect_err("it is being written").to_string();
        assert!(error.contains("still being written"), "{error}");
        assert_eq!(files(&path), before);
        // Its writer can go on.
        writer.write(&Rows::default()).expect("it can be written");
        drop(writer);
        compact(&path).expect("it can be merged");
        assert_whole(&path, 3);
    }

    #[test]
    fn a_damaged_segment_is_named_and_nothing_has_changed() {
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join("a.dbt");
        drop(write(&path, 3, 0));
        let damaged = path.join("counters/000002.parquet");
        let whole = std::fs::read(&damaged).expect("a file");
        for cut in [0, 4, whole.len() / 2, whole.len() - 1] {
            std::fs::write(&damaged, &whole[..cut]).expect("it can be written");
            let error = compact(&path).expect_err("it is damaged").to_string();
            assert!(error.contains("counters/000002.parquet"), "{error}");
        }
        std::fs::write(&damaged, &whole).expect("it can be written");
        assert_whole(&path, 3);
        assert!(compact(&path).is_ok());
    }

    /// Extreme numbers in somebody else's `meta.json`.
    #[test]
    fn after_the_last_number_there_is_none() {
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join("a.dbt");
        let mut writer = write(&path, 3, 0);
        writer.meta().segments.last = u64::MAX;
        writer.finish().expect("it can be written");
        let before = files(&path);
        let error = compact(&path).expect_err("there is no next number").to_string();
        assert!(
            error.contains("meta.json") && error.contains("18446744073709551615"),
            "{error}"
        );
        assert_eq!(files(&path), before);
        let path = home.path().join("b.dbt");
        let mut writer = write(&path, 3, 0);
        writer.meta().segments.last = u64::MAX - 1;
        writer.finish().expect("it can be written");
        compact(&path).expect("there is one more number");
        assert_whole(&path, 3);
        compact(&path).expect("it is one");
        assert_whole(&path, 3);
    }
}
