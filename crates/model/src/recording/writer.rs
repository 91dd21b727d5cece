//! Writes a recording, segment by segment.

use std::fs::{self, DirBuilder};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::{META_FILE, Meta, RecordingError, segment, segment_path};
use crate::{
    ActivityRow, CounterRow, LatencyRow, Rows, SessionRow, SpanRow, StackRow, StatementRow, SwitchRow, Table,
};

/// An open recording. Dropping it leaves what was committed.
#[derive(Debug)]
pub struct RecordingWriter {
    directory: PathBuf,
    meta: Meta,
}

impl RecordingWriter {
    /// Creates the directory (mode 0700) with a first `meta.json`.
    ///
    /// # Errors
    /// The path exists, or cannot be created.
    pub fn create(directory: &Path, meta: Meta) -> Result<RecordingWriter, RecordingError> {
        let io = |e| RecordingError::io(directory, e);
        match DirBuilder::new().mode(0o700).create(directory) {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                return Err(RecordingError::Exists(directory.to_path_buf()));
            }
            other => other.map_err(io)?,
        }
        for table in [
            ActivityRow::NAME,
            LatencyRow::NAME,
            CounterRow::NAME,
            SessionRow::NAME,
            StackRow::NAME,
            StatementRow::NAME,
            SpanRow::NAME,
            SwitchRow::NAME,
        ] {
            DirBuilder::new()
                .mode(0o700)
                .create(directory.join(table))
                .map_err(io)?;
        }
        let writer = RecordingWriter {
            directory: directory.to_path_buf(),
            meta,
        };
        writer.write_meta(&writer.meta)?;
        Ok(writer)
    }

    /// What `meta.json` says, or will say with the next segment.
    pub fn meta(&mut self) -> &mut Meta {
        &mut self.meta
    }

    /// Writes one segment and makes it part of the recording. Tables without rows get no file.
    ///
    /// # Errors
    /// Nothing of the segment counts when one of its files cannot be written: the caller may keep the rows
    /// and try again, the same segment is then written anew.
    pub fn write(&mut self, rows: &Rows) -> Result<(), RecordingError> {
        let mut meta = self.meta.clone();
        meta.segments.last += 1;
        // Dimensions first: a reader that sees the facts can always resolve them.
        self.write_table(&mut meta, &rows.stacks)?;
        self.write_table(&mut meta, &rows.statements)?;
        self.write_table(&mut meta, &rows.sessions)?;
        self.write_table(&mut meta, &rows.counters)?;
        self.write_table(&mut meta, &rows.latency)?;
        self.write_table(&mut meta, &rows.spans)?;
        self.write_table(&mut meta, &rows.switches)?;
        self.write_table(&mut meta, &rows.activity)?;
        self.write_meta(&meta)?;
        self.meta = meta;
        Ok(())
    }

    /// Marks the recording as complete.
    ///
    /// # Errors
    /// `meta.json` cannot be written; the recording then reads as one whose recorder was killed.
    pub fn finish(mut self) -> Result<(), RecordingError> {
        self.meta.complete = true;
        self.write_meta(&self.meta)
    }

    fn write_table<T: Table>(&self, meta: &mut Meta, rows: &[T]) -> Result<(), RecordingError> {
        let path = segment_path(&self.directory, T::NAME, meta.segments.last);
        if rows.is_empty() {
            // An earlier attempt at this segment may have left the file.
            return match fs::remove_file(&path) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(RecordingError::io(&path, e)),
                _ => Ok(()),
            };
        }
        meta.cost.bytes_written += segment::write(&path, rows)?;
        *meta.segments.rows.entry(T::NAME.to_string()).or_default() += rows.len() as u64;
        Ok(())
    }

    fn write_meta(&self, meta: &Meta) -> Result<(), RecordingError> {
        segment::atomically(&self.directory.join(META_FILE), |file| {
            serde_json::to_writer_pretty(&mut *file, meta).map_err(std::io::Error::from)?;
            file.write_all(b"\n")
        })
        .map(|_| ())
    }
}
