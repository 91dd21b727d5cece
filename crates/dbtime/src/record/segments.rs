//! One recording on its way to disk: rows become segments, and segments a few files.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use dbtime_model::Rows;
use dbtime_model::output::{Directory, Owner, Place};
use dbtime_model::recording::{Meta, Note, RecordingError, RecordingWriter};

use super::Outcome;
use super::sink::Told;
use crate::output::give;

/// How often segments are merged into one file per table: 24 files a day.
const COMPACTION: Duration = Duration::from_secs(3_600);
/// Rows that may wait for a full disk before the recording is given up, and stacks among them, which are larger: some 100 MB of each.
const ROWS_IN_MEMORY: usize = 500_000;
const STACKS_IN_MEMORY: usize = 8_000;

/// See the module.
pub(super) struct Segments {
    writer: RecordingWriter,
    /// Its directory, even if it is renamed.
    directory: Directory,
    /// Rows that wait to be written.
    pub(super) pending: Rows,
    /// Why the last segment could not be written.
    failed: Option<RecordingError>,
    notes: Vec<Note>,
    /// This is an import of other tools' files, until [`Meta::importing`] is cleared: it is completed or removed. Its segments are large,
    /// and are not merged.
    is_import: bool,
    activity_rows: u64,
    /// Rows of single context switches.
    switch_rows: u64,
    next_compaction: Instant,
    /// It has been reported that segments cannot be merged.
    cannot_compact: bool,
    /// Everything that can be merged has been.
    is_prepared: bool,
}

impl Segments {
    /// Creates the recording.
    ///
    /// # Errors
    /// The name is taken, or nothing can be created there.
    pub(super) fn begin(place: Place, meta: Meta) -> Result<Segments, RecordingError> {
        let is_import = meta.importing;
        let writer = RecordingWriter::create_at(place, meta)?;
        let directory = writer
            .directory()
            .map_err(|e| RecordingError::io(&writer.path(), e))?;
        Ok(Segments {
            writer,
            directory,
            pending: Rows::default(),
            failed: None,
            notes: Vec::new(),
            is_import,
            activity_rows: 0,
            switch_rows: 0,
            next_compaction: Instant::now() + COMPACTION,
            cannot_compact: false,
            is_prepared: false,
        })
    }

    /// Contents of `meta.json`.
    pub(super) fn meta(&mut self) -> &Meta {
        self.writer.meta()
    }

    /// Where it was begun.
    pub(super) fn path(&self) -> PathBuf {
        self.writer.path()
    }

    /// Where it is.
    pub(super) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Writes what is waiting. A segment that cannot be written is kept and retried with the next one, within limits; that of an import is
    /// not, as it can be started again. `meta`: the current state.
    ///
    /// # Errors
    /// Too much is waiting, or a segment of an import cannot be written.
    pub(super) fn write(&mut self, mut meta: Meta, tell: &mut dyn FnMut(Told)) -> anyhow::Result<()> {
        meta.segments = self.writer.meta().segments.clone();
        meta.cost.bytes_written = self.writer.meta().cost.bytes_written;
        meta.notes.extend(self.notes.clone());
        meta.notes.sort_by_key(|note| note.time_us);
        let now = meta.end_us;
        *self.writer.meta() = meta;
        if self.is_import {
            return Ok(self.write_segment()?);
        }
        match self.write_pending() {
            Ok(()) => {
                self.failed = None;
                self.compact(false, now, tell);
                Ok(())
            }
            Err(e) if self.pending.len() < ROWS_IN_MEMORY && self.pending.stacks.len() < STACKS_IN_MEMORY => {
                if self.failed.is_none() {
                    let text = format!("a segment could not be written, trying again: {e}");
                    tell(Told::Note(text.clone()));
                    self.notes.push(Note { time_us: now, text });
                }
                self.failed = Some(e);
                Ok(())
            }
            Err(e) => Err(e).context("too many rows are waiting to be written, recording has stopped"),
        }
    }

    /// Writes one segment; on a full disk, as many seconds as fit. The rest is kept.
    fn write_pending(&mut self) -> Result<(), RecordingError> {
        let Err(e) = self.write_segment() else {
            return Ok(());
        };
        if !e.is_full_disk() {
            return Err(e);
        }
        let mut later = Rows::default();
        while let Some(middle) = self.pending.middle() {
            let mut rest = self.pending.split_off(middle);
            rest.append(later);
            later = rest;
            while self.write_segment().is_ok() {
                self.pending = std::mem::take(&mut later);
                if self.pending.is_empty() {
                    return Ok(());
                }
            }
        }
        self.pending.append(later);
        Err(e)
    }

    fn write_segment(&mut self) -> Result<(), RecordingError> {
        self.writer.write(&self.pending)?;
        self.activity_rows += self.pending.activity.len() as u64;
        self.switch_rows += self.pending.switches.len() as u64;
        self.pending = Rows::default();
        Ok(())
    }

    /// Merges segments when it is time; at the end, all that are left. What cannot be merged stays as it is.
    fn compact(&mut self, at_end: bool, now_us: i64, tell: &mut dyn FnMut(Told)) {
        let merged = self.writer.go_on_compacting(at_end).and_then(|()| {
            if at_end || Instant::now() >= self.next_compaction || self.writer.has_much_to_merge() {
                self.next_compaction = Instant::now() + COMPACTION;
                self.writer.begin_compacting(at_end)?;
            }
            self.writer.go_on_compacting(at_end)
        });
        if let (Err(e), false) = (merged, self.cannot_compact) {
            self.cannot_compact = true;
            let text = format!("segments cannot be merged and are left as they are: {e}");
            tell(Told::Note(text.clone()));
            self.notes.push(Note {
                time_us: now_us,
                text,
            });
        }
    }

    /// True when nothing waits to be written.
    pub(super) fn is_written(&self) -> bool {
        self.pending.is_empty()
    }

    /// Continues the work to be done before [`Segments::finish`], alongside other work. True when nothing is left.
    pub(super) fn prepare_to_finish(&mut self, tell: &mut dyn FnMut(Told)) -> bool {
        if !self.writer.is_compacting() && !self.cannot_compact {
            self.next_compaction = Instant::now();
        }
        let now_us = self.writer.meta().end_us;
        self.compact(false, now_us, tell);
        self.is_prepared = self.cannot_compact || !self.writer.is_compacting();
        self.is_prepared
    }

    /// Ends the recording, and gives it to its owner; `failed`: why its end is missing. An empty one, or an import without an end, is
    /// removed.
    ///
    /// # Errors
    /// Its end is missing.
    pub(super) fn finish(
        self,
        failed: Option<anyhow::Error>,
        owner: Option<Owner>,
        tell: &mut dyn FnMut(Told),
    ) -> anyhow::Result<Outcome> {
        let directory = self.directory.try_clone()?;
        let outcome = self.end(failed, tell);
        // Also when it has ended early.
        if let Some(text) = give(&directory, owner) {
            tell(Told::Note(text));
        }
        outcome
    }

    fn end(mut self, failed: Option<anyhow::Error>, tell: &mut dyn FnMut(Told)) -> anyhow::Result<Outcome> {
        let meta = self.writer.meta().clone();
        let path = self.writer.path();
        if let Some(now) = self.writer.moved() {
            let text = format!(
                "{} was moved to {} while it was being recorded",
                path.display(),
                now.display()
            );
            tell(Told::Note(text));
        }
        let path = self.writer.moved().unwrap_or(path);
        let waits = !self.pending.is_empty();
        let failed = failed.or(self.failed.take().filter(|_| waits).map(|e| {
            let lost = self.pending.len();
            let last = meta.segments.last;
            anyhow::Error::from(e).context(match last {
                0 => format!("{}: {lost} rows are lost, nothing was recorded", path.display()),
                _ => format!(
                    "{}: {lost} rows are lost; it can be read up to segment {last}",
                    path.display()
                ),
            })
        }));
        if failed.is_none() && !self.is_prepared && !self.is_import {
            self.compact(true, meta.end_us, tell);
        }
        let has_rows = self.activity_rows > 0 || self.switch_rows > 0;
        let is_unwanted = match self.is_import {
            true => failed.is_some() || meta.importing,
            false => !has_rows && (failed.is_none() || meta.segments.last == 0),
        };
        if is_unwanted {
            // It would only block the name.
            if let Err(e) = self.writer.discard() {
                tell(Told::Note(e.to_string()));
            }
        } else if failed.is_none() {
            self.writer.finish()?;
        }
        match failed {
            Some(e) => Err(e),
            None => Ok(Outcome {
                meta,
                activity_rows: self.activity_rows,
                path,
                directory: self.directory,
            }),
        }
    }
}
