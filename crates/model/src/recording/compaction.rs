//! Merges many small segments into one: a recording that goes on for days stays a few files.
//!
//! The writer may be killed at any moment. These are the steps; each has happened or has not:
//!
//! 1. the rows of the segments FIRST to LAST of every table are written to `LAST.merged`, which nobody reads;
//! 2. `meta.json` says that FIRST to LAST are one: from now on its readers take `LAST.merged`, and none of the single files;
//! 3. the single files below LAST are removed;
//! 4. `LAST.merged` takes the place of `LAST.parquet`.
//!
//! After each step, no row is there twice and none is missing for readers of `meta.json`. Those who read all files of a folder
//! find the single ones up to the third step, some of them during it, and all rows again after the fourth.

use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::fs::File;

use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;

use super::segment::{Batches, Effort, MOST_ROWS, MOST_TEXT, options, text_of_rows};
use super::{Merged, RecordingError, merged_name, segment_name, segments_in};
use crate::output::Directory;

/// What is being written is kept in memory up to this many bytes; then a row group of the file is complete.
const MOST_MEMORY: usize = 32 << 20;

/// First step, for one table. Returns bytes written; 0 if it has nothing in these segments. If it fails, [`undo`] it for all.
pub(super) fn merge(table: &Directory, range: Merged) -> Result<u64, RecordingError> {
    let sources: Vec<OsString> = segments_in(table)
        .into_iter()
        .filter(|&number| range.contains(number))
        .map(segment_name)
        .collect();
    let name = merged_name(range.last);
    if sources.is_empty() {
        // One that was left when an earlier attempt was killed.
        return remove(table, &name).map(|()| 0);
    }
    let fill = |file: &mut File| -> Result<(), Box<dyn Error + Send + Sync>> {
        let mut output: Option<(SchemaRef, ArrowWriter<&mut File>)> = None;
        let mut file = Some(file);
        let (mut rows, mut text) = (0i64, 0u64);
        for source in &sources {
            let mut batches = Batches::open(table, source)?;
            while let Some(batch) = batches.next()? {
                if let Some(file) = file.take() {
                    let writer =
                        ArrowWriter::try_new_with_options(file, batch.schema(), options(Effort::Much))?;
                    output = Some((batch.schema(), writer));
                }
                let Some((schema, writer)) = &mut output else {
                    continue;
                };
                if *schema != batch.schema() {
                    return Err(batches
                        .damaged("its columns differ from those of earlier segments")
                        .into());
                }
                rows += batch.num_rows() as i64;
                text += text_of_rows(&batch);
                if rows > MOST_ROWS || text > MOST_TEXT {
                    return Err("merged into one file, they would be too large to be read".into());
                }
                writer.write(&batch)?;
                if writer.memory_size() > MOST_MEMORY {
                    writer.flush()?;
                }
            }
        }
        if let Some((_, writer)) = output {
            writer.close()?;
        }
        Ok(())
    };
    table
        .replace(&name, fill)
        .map_err(|e| RecordingError::io(&table.path().join(&name), e))
}

/// Removes what the first step has left, as far as possible: nobody reads it.
pub(super) fn undo(tables: &[Directory], range: Merged) {
    for table in tables {
        let _ = remove(table, &merged_name(range.last));
    }
}

/// Third and fourth step, for one table, as far as they have not been taken.
pub(super) fn tidy(
    table: &Directory,
    range: Merged,
    may_go_on: &mut dyn FnMut() -> bool,
) -> Result<(), RecordingError> {
    let name = merged_name(range.last);
    if !table
        .contains(&name)
        .map_err(|e| RecordingError::io(table.path(), e))?
    {
        return Ok(());
    }
    for number in segments_in(table) {
        if range.contains(number) && number != range.last {
            if !may_go_on() {
                return Ok(());
            }
            remove(table, &segment_name(number))?;
        }
    }
    if !may_go_on() {
        return Ok(());
    }
    table
        .rename(&name, &segment_name(range.last))
        .map_err(|e| RecordingError::io(&table.path().join(&name), e))
}

fn remove(table: &Directory, name: &OsStr) -> Result<(), RecordingError> {
    table
        .remove_file(name)
        .map_err(|e| RecordingError::io(&table.path().join(name), e))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::*;
    use crate::recording::{Meta, Problem, Recording, RecordingWriter, SCHEMA_VERSION};
    use crate::{CounterRow, Rows, SessionId, StatementRow};

    /// Segments of counters; statements in some of them.
    const SEGMENTS: i64 = 5;

    fn write(path: &Path) -> RecordingWriter {
        let meta = Meta {
            schema: SCHEMA_VERSION.to_string(),
            ..Meta::default()
        };
        let mut writer = RecordingWriter::create(path, meta).expect("a new recording");
        for segment in 0..SEGMENTS {
            add(&mut writer, segment);
        }
        writer
    }

    fn add(writer: &mut RecordingWriter, segment: i64) {
        let counter = |value| CounterRow {
            time: segment,
            session: SessionId(1),
            value,
            ..CounterRow::default()
        };
        let statements = match segment % 2 {
            0 => vec![StatementRow {
                id: segment.cast_unsigned(),
                ..StatementRow::default()
            }],
            _ => vec![],
        };
        let rows = Rows {
            counters: vec![counter(10 * segment), counter(10 * segment + 1)],
            statements,
            ..Rows::default()
        };
        writer.write(&rows).expect("it can be written");
    }

    /// What a reader finds, in order.
    fn read(path: &Path) -> (Vec<i64>, Vec<u64>, Vec<Problem>) {
        let recording = Recording::open(path).expect("a recording");
        let (mut counters, mut statements) = (Vec::new(), Vec::new());
        let mut problems =
            recording.read::<CounterRow>(|rows| counters.extend(rows.iter().map(|row| row.value)));
        problems
            .extend(recording.read::<StatementRow>(|rows| statements.extend(rows.iter().map(|row| row.id))));
        (counters, statements, problems)
    }

    fn expected(segments: i64) -> (Vec<i64>, Vec<u64>, Vec<Problem>) {
        (
            (0..segments).flat_map(|n| [10 * n, 10 * n + 1]).collect(),
            (0..segments)
                .filter(|n| n % 2 == 0)
                .map(i64::cast_unsigned)
                .collect(),
            vec![],
        )
    }

    fn files(path: &Path) -> BTreeMap<String, Vec<String>> {
        ["counters", "statements"]
            .into_iter()
            .map(|table| {
                let entries = std::fs::read_dir(path.join(table)).expect("a folder");
                let mut names: Vec<String> = entries
                    .map(|entry| entry.expect("a file").file_name().to_string_lossy().into_owned())
                    .collect();
                names.sort();
                (table.to_string(), names)
            })
            .collect()
    }

    #[test]
    fn killed_before_any_step_no_row_is_there_twice_and_none_is_missing() {
        let home = tempfile::tempdir().expect("a folder");
        for steps in 0.. {
            let path = home.path().join(format!("{steps}.dbt"));
            let mut writer = write(&path);
            writer.begin_compacting(true).expect("there is a thread");
            let mut left = steps;
            writer
                .compact_while(true, &mut || {
                    left -= 1;
                    left >= 0
                })
                .expect("it can be merged");
            // As a killed writer leaves it.
            drop(writer);
            assert_eq!(
                read(&path),
                expected(SEGMENTS),
                "killed after {steps} steps: {:?}",
                files(&path)
            );
            if left >= 0 {
                assert!(steps > SEGMENTS, "only {steps} steps");
                for (table, names) in files(&path) {
                    assert_eq!(names, ["000005.parquet"], "{table}");
                }
                return;
            }
        }
    }

    #[test]
    fn killed_while_files_are_merged_nothing_has_changed() {
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join("a.dbt");
        drop(write(&path));
        let table = Directory::open(&path.join("counters")).expect("a folder");
        merge(&table, Merged { first: 1, last: 5 }).expect("it can be merged");
        assert!(files(&path)["counters"].contains(&"000005.merged".to_string()));
        assert_eq!(read(&path), expected(SEGMENTS));
    }

    #[test]
    fn segments_that_come_meanwhile_and_later_are_in_the_next_file() {
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join("a.dbt");
        let mut writer = write(&path);
        writer.begin_compacting(true).expect("there is a thread");
        for segment in SEGMENTS..SEGMENTS + 3 {
            add(&mut writer, segment);
            writer.go_on_compacting(false).expect("it can be merged");
            assert_eq!(read(&path), expected(segment + 1));
        }
        writer.go_on_compacting(true).expect("it can be merged");
        writer.begin_compacting(true).expect("there is a thread");
        writer.go_on_compacting(true).expect("it can be merged");
        writer.finish().expect("it can be written");
        assert_eq!(read(&path), expected(SEGMENTS + 3));
        assert_eq!(files(&path)["counters"], ["000005.parquet", "000008.parquet"]);
    }
}
