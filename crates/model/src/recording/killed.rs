//! Tests: a recorder that rotates, whoever merges what it has left, and whoever removes that, are killed at any of their system calls.
//!
//! Why at any: see [`crate::output::killed`]. Where rows go is tested next to the code that decides it: putting recordings into a
//! store after any step of rotation and merging (`series` of the command), being killed while putting (`killed` of the store), or
//! while removing what was put (`spool` of the agent). That code reads and changes recordings by the same calls as these tests.

use std::ffi::OsStr;
use std::path::Path;

use super::{Meta, Recording, RecordingError, RecordingWriter, SCHEMA_VERSION, compact};
use crate::output::Directory;
use crate::output::killed::{Mortal, leave_unfinished};
use crate::{CounterRow, Rows, StatementRow};

/// What is known to have been written of a recording.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Known {
    /// It was begun.
    is_begun: bool,
    /// Segments that were reported as written.
    segments: i64,
    /// It was reported as complete.
    is_complete: bool,
}

const NAMES: [&str; 2] = ["1.dbt", "2.dbt"];

/// A folder on an in-memory file system, if there is one: then nobody waits for a disk.
fn folder() -> tempfile::TempDir {
    let in_memory = tempfile::tempdir_in("/dev/shm");
    in_memory.or_else(|_| tempfile::tempdir()).expect("a folder")
}

fn begin(home: &Path, name: &str, known: &mut Known) -> Result<RecordingWriter, RecordingError> {
    let meta = Meta {
        schema: SCHEMA_VERSION.to_string(),
        ..Meta::default()
    };
    let writer = RecordingWriter::create(&home.join(name), meta)?;
    known.is_begun = true;
    Ok(writer)
}

/// The next segment: a counter, and in every second one a statement.
fn write(writer: &mut RecordingWriter, known: &mut Known) -> Result<(), RecordingError> {
    let counter = CounterRow {
        value: known.segments,
        ..CounterRow::default()
    };
    let statement = (known.segments % 2 == 0).then(|| StatementRow {
        id: known.segments.cast_unsigned(),
        ..StatementRow::default()
    });
    writer.write(&Rows {
        counters: vec![counter],
        statements: Vec::from_iter(statement),
        ..Rows::default()
    })?;
    known.segments += 1;
    Ok(())
}

fn merge(writer: &mut RecordingWriter) -> Result<(), RecordingError> {
    writer.begin_compacting(true)?;
    writer.go_on_compacting(true)
}

fn finish(writer: RecordingWriter, known: &mut Known) -> Result<(), RecordingError> {
    writer.finish()?;
    known.is_complete = true;
    Ok(())
}

/// What a rotating recorder does: the next recording begins, late rows come for the previous one, and its segments are merged.
fn record(home: &Path, known: &mut [Known; 2]) -> Result<(), RecordingError> {
    let [of_first, of_second] = known;
    let mut first = begin(home, NAMES[0], of_first)?;
    write(&mut first, of_first)?;
    write(&mut first, of_first)?;
    merge(&mut first)?;
    let mut second = begin(home, NAMES[1], of_second)?;
    write(&mut second, of_second)?;
    write(&mut first, of_first)?;
    write(&mut first, of_first)?;
    merge(&mut first)?;
    write(&mut second, of_second)?;
    finish(first, of_first)?;
    merge(&mut second)?;
    finish(second, of_second)
}

fn read(recording: &Recording) -> (Vec<i64>, Vec<u64>) {
    let (mut counters, mut statements) = (Vec::new(), Vec::new());
    let mut problems = recording.read::<CounterRow>(|rows| counters.extend(rows.iter().map(|row| row.value)));
    problems.extend(recording.read::<StatementRow>(|rows| statements.extend(rows.iter().map(|row| row.id))));
    assert_eq!(problems, []);
    (counters, statements)
}

/// What was reported as written is there, each row once, and nothing else. False: there is no recording.
fn check(path: &Path, known: Known, when: &str) -> bool {
    let recording = match Recording::open(path) {
        Ok(recording) => recording,
        Err(e) => {
            assert!(!known.is_begun, "{when}: {e}");
            return false;
        }
    };
    let rows = (
        Vec::from_iter(0..known.segments),
        Vec::from_iter((0..known.segments.cast_unsigned()).step_by(2)),
    );
    assert_eq!(read(&recording), rows, "{when}");
    assert_eq!(recording.meta().complete, known.is_complete, "{when}");
    true
}

#[test]
fn a_recorder_that_is_killed_at_any_system_call_leaves_each_row_once() {
    let mut met = Vec::new();
    for changes in 0.. {
        let home = folder();
        let mut known = [Known::default(); 2];
        let mortal = Mortal::below(home.path(), changes);
        let ended = record(home.path(), &mut known);
        let is_dead = mortal.is_dead();
        drop(mortal);
        let when = format!("killed after {changes} changes, which were told as {known:?}");
        assert_eq!(ended.is_err(), is_dead, "{when}: {ended:?}");
        leave_unfinished(home.path());
        for (name, known) in NAMES.iter().zip(known) {
            let path = home.path().join(name);
            if check(&path, known, &when) {
                compact(&path).expect(&when);
                check(&path, known, &format!("{when}, then merged"));
            }
        }
        if met.last() != Some(&known) {
            met.push(known);
        }
        if !is_dead {
            // Everything that is reported, and more changes in between.
            assert_eq!(met.len(), 11, "{met:#?}");
            assert!(changes > 80, "only {changes} changes");
            return;
        }
    }
}

#[test]
fn who_merges_what_a_killed_recorder_left_may_be_killed_at_any_system_call_too() {
    // In its first segment, while it merges, in the middle of a rotation, and at its end.
    for recorded in [17, 27, 58, usize::MAX] {
        for changes in 0.. {
            let home = folder();
            let known = record_until(recorded, home.path());
            let path = home.path().join(NAMES[0]);
            let mortal = Mortal::below(home.path(), changes);
            let merged = compact(&path);
            let is_dead = mortal.is_dead();
            drop(mortal);
            let when = format!("killed after {recorded} changes, and then after {changes}");
            assert_eq!(merged.is_err(), is_dead, "{when}: {merged:?}");
            leave_unfinished(home.path());
            assert!(check(&path, known[0], &when), "{when}");
            compact(&path).expect(&when);
            check(&path, known[0], &when);
            if !is_dead {
                break;
            }
        }
    }
}

/// As the agent does it: what a killed one has left has a name under which nobody looks for a recording, and the next one continues.
#[test]
fn who_removes_a_recording_may_be_killed_at_any_system_call() {
    let removed = OsStr::new("1.dbt.removed");
    for changes in 0.. {
        let home = folder();
        let known = record_until(usize::MAX, home.path());
        let directory = Directory::open(home.path()).expect("a folder");
        let mortal = Mortal::below(home.path(), changes);
        let gone = directory
            .rename(NAMES[0].as_ref(), removed)
            .and_then(|()| directory.remove_directory(removed));
        let is_dead = mortal.is_dead();
        drop(mortal);
        let when = format!("killed after {changes} changes");
        assert_eq!(gone.is_err(), is_dead, "{when}: {gone:?}");
        let path = home.path().join(NAMES[0]);
        if changes == 0 {
            assert!(check(&path, known[0], &when));
        } else {
            assert!(!path.exists(), "{when}");
        }
        directory.remove_directory(removed).expect(&when);
        assert!(!home.path().join(removed).exists(), "{when}");
        check(&home.path().join(NAMES[1]), known[1], &when);
        if !is_dead {
            assert!(changes > 20, "only {changes} changes");
            return;
        }
    }
}

/// What a recorder that was killed after so many changes has left.
fn record_until(changes: usize, home: &Path) -> [Known; 2] {
    let mut known = [Known::default(); 2];
    let mortal = Mortal::below(home, changes);
    let ended = record(home, &mut known);
    assert_eq!(ended.is_err(), mortal.is_dead(), "{ended:?}");
    known
}
