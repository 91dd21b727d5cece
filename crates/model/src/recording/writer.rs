//! Writes a recording, segment by segment.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{META_FILE, Merged, Meta, RecordingError, compaction, segment, segment_name};
use crate::output::{Directory, Lock, Place};
use crate::{
    ActivityRow, CauseRow, CommentRow, CounterRow, HeldLockRow, LatencyRow, LockRow, Rows, SessionRow,
    SpanRow, StackRow, StatementRow, SwitchRow, Table,
};

/// Every table. Each has a folder, written to or not.
pub const TABLES: [&str; 12] = [
    ActivityRow::NAME,
    LatencyRow::NAME,
    CounterRow::NAME,
    SessionRow::NAME,
    StackRow::NAME,
    StatementRow::NAME,
    SpanRow::NAME,
    SwitchRow::NAME,
    CauseRow::NAME,
    HeldLockRow::NAME,
    LockRow::NAME,
    CommentRow::NAME,
];

/// An open recording. Dropping it leaves what was committed.
///
/// Its directories stay open: whoever owns the directory that it is in can rename it, but not redirect the writer.
#[derive(Debug)]
pub struct RecordingWriter {
    place: Place,
    directory: Directory,
    /// Says that it is being written; none where there are no locks.
    _lock: Option<Lock>,
    tables: Vec<(&'static str, Directory)>,
    meta: Meta,
    compaction: Compaction,
    to_merge: ToMerge,
}

/// What the segments that are not merged contain.
#[derive(Debug, Default)]
struct ToMerge {
    /// Of the table that has most.
    rows: usize,
    text: usize,
}

/// A quarter of the rows (they have short texts, too) and half of the text that a reader takes of a file: the rest is for what
/// comes during the merge.
const ROWS_OF_A_FILE: usize = segment::MOST_ROWS as usize / 4;
const TEXT_OF_A_FILE: usize = segment::MOST_TEXT as usize / 2;

/// How far the merging of segments has got; see [`compaction`].
#[derive(Debug, Default)]
enum Compaction {
    #[default]
    None,
    /// A thread writes the files.
    Merging(Merged, JoinHandle<Result<u64, RecordingError>>),
    /// Since then the single files are no longer part of the recording.
    Merged(Merged, Instant),
}

/// Nice value of a merge in the background. Not the lowest priority: ending a recording waits for the merge that is under way, and
/// beside twenty busy tasks the lowest gets a thousandth of a CPU.
const LESS_IMPORTANT: i32 = 5;
/// How long those who opened the recording before segments were merged still find the single files.
const READERS_MAY_TAKE: Duration = Duration::from_secs(60);

impl RecordingWriter {
    /// Creates the directory (mode 0700) with a first `meta.json`.
    ///
    /// # Errors
    /// The path exists, or cannot be created.
    pub fn create(directory: &Path, meta: Meta) -> Result<RecordingWriter, RecordingError> {
        let place = Place::of(directory).map_err(|e| RecordingError::io(directory, e))?;
        RecordingWriter::create_at(place, meta)
    }

    /// As [`RecordingWriter::create`], in a directory that is open.
    ///
    /// # Errors
    /// The name is taken, or cannot be created: nothing is left behind.
    pub fn create_at(place: Place, meta: Meta) -> Result<RecordingWriter, RecordingError> {
        let directory = match place.create_directory() {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                return Err(RecordingError::Exists(place.path()));
            }
            other => other.map_err(|e| RecordingError::io(&place.path(), e))?,
        };
        // It is new: nobody else has one. Taken before anything says what it is: whoever finds that finds the lock, too.
        let lock = directory.lock().ok().flatten();
        // If this is killed in the next moment, it leaves something that can be read, or is recognised for what it is.
        let made = write_meta(&directory, &meta).and_then(|()| {
            TABLES
                .iter()
                .map(|&table| Ok((table, directory.create_directory(table.as_ref())?)))
                .collect::<io::Result<Vec<_>>>()
                .map_err(|e| RecordingError::io(directory.path(), e))
        });
        match made {
            Ok(tables) => Ok(RecordingWriter {
                place,
                _lock: lock,
                directory,
                tables,
                meta,
                compaction: Compaction::None,
                to_merge: ToMerge::default(),
            }),
            Err(e) => {
                // It would only block the name; the error to return is the first one.
                let _ = place.remove_directory();
                Err(e)
            }
        }
    }

    /// What `meta.json` says, or will say with the next segment.
    pub fn meta(&mut self) -> &mut Meta {
        &mut self.meta
    }

    /// Where the recording was begun: for messages.
    pub fn path(&self) -> PathBuf {
        self.place.path()
    }

    /// Another handle on its directory, whatever becomes of its name: to read it, or give it away, once it is whole.
    ///
    /// # Errors
    /// There are too many open files.
    pub fn directory(&self) -> io::Result<Directory> {
        self.directory.try_clone()
    }

    /// Where the recording is now, if it was moved since it was begun.
    pub fn moved(&self) -> Option<PathBuf> {
        self.place.moved(&self.directory)
    }

    /// Writes one segment and makes it part of the recording. Tables without rows get no file.
    ///
    /// # Errors
    /// If one of its files cannot be written, nothing of the segment counts, and none of its files is left: the caller may keep
    /// the rows and try again; the same segment is then written again.
    pub fn write(&mut self, rows: &Rows) -> Result<(), RecordingError> {
        let mut meta = self.meta.clone();
        meta.segments.last += 1;
        match self.write_segment(&mut meta, rows) {
            Ok(()) => {
                self.meta = meta;
                self.to_merge.rows += rows.most_of_a_table();
                self.to_merge.text += rows.text();
                Ok(())
            }
            Err(e) => {
                // They would take the room that the next attempt needs. What stays is not part of the recording.
                for (_, table) in &self.tables {
                    let _ = table.remove_file(&segment_name(meta.segments.last));
                }
                Err(e)
            }
        }
    }

    fn write_segment(&self, meta: &mut Meta, rows: &Rows) -> Result<(), RecordingError> {
        // Dimensions first: a reader that sees the facts can always resolve them.
        self.write_table(meta, &rows.stacks)?;
        self.write_table(meta, &rows.statements)?;
        self.write_table(meta, &rows.comments)?;
        self.write_table(meta, &rows.sessions)?;
        self.write_table(meta, &rows.counters)?;
        self.write_table(meta, &rows.latency)?;
        self.write_table(meta, &rows.spans)?;
        self.write_table(meta, &rows.switches)?;
        self.write_table(meta, &rows.causes)?;
        self.write_table(meta, &rows.held_locks)?;
        self.write_table(meta, &rows.locks)?;
        self.write_table(meta, &rows.activity)?;
        write_meta(&self.directory, meta)
    }

    /// True when segments should be merged now: more of them would not fit into one file.
    pub fn has_much_to_merge(&self) -> bool {
        self.to_merge.rows >= ROWS_OF_A_FILE || self.to_merge.text >= TEXT_OF_A_FILE
    }

    /// Begins to merge all segments that are not merged yet, in the background; [`RecordingWriter::go_on_compacting`] completes
    /// it. Nothing is begun while another merge is under way, or if there is nothing to merge. With `awaited`, somebody waits for
    /// it: it gets the caller's priority.
    ///
    /// # Errors
    /// No thread can be started for it.
    pub fn begin_compacting(&mut self, awaited: bool) -> Result<(), RecordingError> {
        let segments = &self.meta.segments;
        let range = Merged {
            first: segments.merged.last().map_or(1, |merged| merged.last + 1),
            last: segments.last,
        };
        if !matches!(self.compaction, Compaction::None) || range.first >= range.last {
            return Ok(());
        }
        let failed = |e| RecordingError::io(self.directory.path(), e);
        let tables: Vec<Directory> = self
            .tables
            .iter()
            .map(|(_, table)| table.try_clone())
            .collect::<io::Result<_>>()
            .map_err(failed)?;
        let thread = std::thread::Builder::new()
            .name("dbtime-compact".to_string())
            .spawn(move || {
                if !awaited {
                    // If that is refused, it keeps the priority of the rest.
                    let _ = rustix::process::setpriority_process(None, LESS_IMPORTANT);
                }
                let merged: Result<u64, RecordingError> =
                    tables.iter().map(|table| compaction::merge(table, range)).sum();
                merged.inspect_err(|_| compaction::undo(&tables, range))
            })
            .map_err(failed)?;
        self.compaction = Compaction::Merging(range, thread);
        self.to_merge = ToMerge::default();
        Ok(())
    }

    /// True while segments are merged, or files that were merged are kept for their readers.
    pub fn is_compacting(&self) -> bool {
        !matches!(self.compaction, Compaction::None)
    }

    /// Takes the steps of a compaction that can be taken now; with `wait`, all of them.
    ///
    /// # Errors
    /// Segments could not be merged. They are as they were, and part of the recording.
    pub fn go_on_compacting(&mut self, wait: bool) -> Result<(), RecordingError> {
        self.compact_while(wait, &mut || true)
    }

    /// The same, as long as `may_go_on` says so before each step: tests see what a killed writer leaves.
    pub(super) fn compact_while(
        &mut self,
        wait: bool,
        may_go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), RecordingError> {
        let range = match std::mem::take(&mut self.compaction) {
            Compaction::None => return Ok(()),
            Compaction::Merging(range, thread) if wait || thread.is_finished() => {
                let bytes = thread.join().unwrap_or_else(|_| {
                    Err(RecordingError::format(
                        self.directory.path(),
                        "segments could not be merged",
                    ))
                })?;
                if !may_go_on() {
                    return Ok(());
                }
                let mut meta = self.meta.clone();
                meta.segments.merged.push(range);
                meta.cost.bytes_written += bytes;
                write_meta(&self.directory, &meta)?;
                self.meta = meta;
                self.compaction = Compaction::Merged(range, Instant::now());
                range
            }
            Compaction::Merged(range, since) if wait || since.elapsed() >= READERS_MAY_TAKE => range,
            other => {
                self.compaction = other;
                return Ok(());
            }
        };
        if wait || !matches!(self.compaction, Compaction::Merged(..)) {
            self.compaction = Compaction::None;
            for (_, table) in &self.tables {
                compaction::tidy(table, range, may_go_on)?;
            }
        }
        Ok(())
    }

    /// Marks the recording as complete.
    ///
    /// # Errors
    /// `meta.json` cannot be written; the recording then reads as one whose recorder was killed.
    pub fn finish(mut self) -> Result<(), RecordingError> {
        self.meta.complete = true;
        write_meta(&self.directory, &self.meta)
    }

    /// Removes the recording: there is nothing in it that anyone wants.
    ///
    /// # Errors
    /// Something cannot be removed.
    pub fn discard(self) -> Result<(), RecordingError> {
        self.place
            .remove_directory()
            .map_err(|e| RecordingError::io(&self.place.path(), e))
    }

    fn write_table<T: Table>(&self, meta: &mut Meta, rows: &[T]) -> Result<(), RecordingError> {
        let (_, table) = self
            .tables
            .iter()
            .find(|(name, _)| *name == T::NAME)
            .expect("every table has a folder");
        if rows.is_empty() {
            // An earlier attempt at this segment may have left the file.
            return table
                .remove_file(&segment_name(meta.segments.last))
                .map_err(|e| RecordingError::io(table.path(), e));
        }
        meta.cost.bytes_written += segment::write(table, &segment_name(meta.segments.last), rows)?;
        *meta.segments.rows.entry(T::NAME.to_string()).or_default() += rows.len() as u64;
        Ok(())
    }
}

pub(super) fn write_meta(directory: &Directory, meta: &Meta) -> Result<(), RecordingError> {
    directory
        .replace(META_FILE.as_ref(), |file| {
            let mut text = serde_json::to_vec_pretty(meta).map_err(io::Error::from)?;
            text.push(b'\n');
            file.write_all(&text)
        })
        .map(|_| ())
        .map_err(|e| RecordingError::io(&directory.path().join(META_FILE), e))
}
