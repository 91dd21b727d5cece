//! Rows on their way into files: grouped by hour, and only so many at a time that memory stays bounded.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use dbtime_model::Table;
use dbtime_model::recording::TableEncoder;
use jiff::civil::Date;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::StoreError;
use crate::layout::{Hour, StateName};
use crate::manifest::StoredFile;
use crate::objects::Objects;
use crate::shape::{Dimension, Fact};

/// Microseconds per hour.
const HOUR_US: i64 = 3_600_000_000;
/// Rows per row group, for tables with short rows.
const GROUP_ROWS: usize = 128 << 10;
/// Most rows waiting to be encoded, over all hours.
const MOST_WAITING: usize = 2 * GROUP_ROWS;
/// Rows per file: an eighth of what a reader accepts, because it also limits their text.
const FILE_ROWS: u64 = 2 << 20;
/// Bytes after which a file is finished.
const FILE_BYTES: usize = 64 << 20;
/// Most bytes in unfinished files.
const MOST_ENCODED: usize = 3 * FILE_BYTES;
/// Most hours with unfinished files.
const MOST_HOURS: usize = 64;
/// Rows per row group, for dimensions.
const DIMENSION_ROWS: usize = 16 << 10;
/// Bytes of text per row group, for any table.
const GROUP_TEXT: usize = 32 << 20;
/// Most bytes of text waiting to be encoded, over all hours.
const MOST_TEXT_WAITING: usize = 2 * GROUP_TEXT;
/// Bytes of text per file: a quarter of what a reader accepts.
const FILE_TEXT: usize = 128 << 20;

/// Where the files of a recording are put.
pub(crate) struct Target<'a> {
    pub(crate) objects: &'a dyn Objects,
    pub(crate) name: StateName,
    /// Files put so far.
    pub(crate) files: Vec<StoredFile>,
}

impl Target<'_> {
    fn encoder<T: Table>(&self) -> Result<TableEncoder<T>, StoreError> {
        let recording = self.name.recording();
        let whose = [("host", self.name.host.name()), ("recording", recording.as_str())];
        TableEncoder::new(&whose).map_err(|e| self.failed(e))
    }

    fn failed(&self, why: String) -> StoreError {
        StoreError::NotPut {
            recording: self.name.recording(),
            why,
        }
    }

    fn put<T: Table>(&mut self, encoder: TableEncoder<T>, about: StoredFile) -> Result<(), StoreError> {
        let bytes: Bytes = encoder.finish().map_err(|e| self.failed(e))?.into();
        let file = StoredFile {
            table: T::NAME,
            bytes: bytes.len() as u64,
            xxh3: xxh3_64(&bytes),
            ..about
        };
        let path = self.name.file(file.table, file.date, file.hour, file.part);
        self.objects
            .put(&path, bytes)
            .map_err(|e| StoreError::io(self.objects.where_is(&path), e))?;
        self.files.push(file);
        Ok(())
    }
}

/// Unfinished files of a table, by hour.
pub(crate) struct Sheaves<'a, 'b, T> {
    target: &'a mut Target<'b>,
    /// Keyed by hours since the Unix epoch.
    open: BTreeMap<i64, Sheaf<T>>,
    /// Rows not encoded yet.
    waiting: usize,
    /// Bytes of their texts.
    waiting_text: usize,
    /// Number of files so far, by hour.
    files: HashMap<i64, u32>,
}

/// Rows of an hour that go into the same file.
struct Sheaf<T> {
    waiting: Vec<T>,
    /// Bytes of their texts.
    waiting_text: usize,
    encoder: Option<TableEncoder<T>>,
    /// Rows already encoded.
    rows: u64,
    /// Bytes of their texts.
    text: usize,
    moments_us: (i64, i64),
}

impl<T: Fact> Sheaf<T> {
    /// Writes the waiting rows as a row group.
    fn encode(&mut self, target: &Target<'_>) -> Result<(), StoreError> {
        let mut rows = std::mem::take(&mut self.waiting);
        self.text += std::mem::take(&mut self.waiting_text);
        if rows.is_empty() {
            return Ok(());
        }
        T::order(&mut rows);
        let encoder = match &mut self.encoder {
            Some(encoder) => encoder,
            none => none.insert(target.encoder()?),
        };
        encoder.write(&rows).map_err(|e| target.failed(e))?;
        self.rows += rows.len() as u64;
        Ok(())
    }

    fn encoded(&self) -> usize {
        self.encoder.as_ref().map_or(0, |encoder| encoder.written())
    }
}

impl<'a, 'b, T: Fact> Sheaves<'a, 'b, T> {
    pub(crate) fn new(target: &'a mut Target<'b>) -> Sheaves<'a, 'b, T> {
        Sheaves {
            target,
            open: BTreeMap::new(),
            waiting: 0,
            waiting_text: 0,
            files: HashMap::new(),
        }
    }

    pub(crate) fn add(&mut self, row: T) -> Result<(), StoreError> {
        let moment = row.moment_us();
        let hour = moment.div_euclid(HOUR_US);
        if !self.open.contains_key(&hour) && self.open.len() >= MOST_HOURS {
            self.close_largest()?;
        }
        let sheaf = self.open.entry(hour).or_insert_with(|| Sheaf {
            waiting: Vec::new(),
            waiting_text: 0,
            encoder: None,
            rows: 0,
            text: 0,
            moments_us: (moment, moment),
        });
        sheaf.moments_us = (sheaf.moments_us.0.min(moment), sheaf.moments_us.1.max(moment));
        let text = row.text();
        sheaf.waiting.push(row);
        sheaf.waiting_text += text;
        self.waiting += 1;
        self.waiting_text += text;
        if sheaf.waiting.len() >= GROUP_ROWS || sheaf.waiting_text >= GROUP_TEXT {
            self.encode(hour)?;
        } else if self.waiting >= MOST_WAITING || self.waiting_text >= MOST_TEXT_WAITING {
            let fullest = self
                .open
                .iter()
                .max_by_key(|(_, sheaf)| (sheaf.waiting_text, sheaf.waiting.len()));
            if let Some((&hour, _)) = fullest {
                self.encode(hour)?;
            }
        }
        Ok(())
    }

    /// Writes the waiting rows as a row group, and finishes the file if it is large enough.
    fn encode(&mut self, hour: i64) -> Result<(), StoreError> {
        let Some(sheaf) = self.open.get_mut(&hour) else {
            return Ok(());
        };
        self.waiting -= sheaf.waiting.len();
        self.waiting_text -= sheaf.waiting_text;
        sheaf.encode(self.target)?;
        if sheaf.rows >= FILE_ROWS || sheaf.text >= FILE_TEXT || sheaf.encoded() >= FILE_BYTES {
            return self.close(hour);
        }
        if self.open.values().map(Sheaf::encoded).sum::<usize>() >= MOST_ENCODED {
            return self.close_largest();
        }
        Ok(())
    }

    fn close_largest(&mut self) -> Result<(), StoreError> {
        let largest = self
            .open
            .iter()
            .max_by_key(|(_, sheaf)| (sheaf.encoded(), sheaf.waiting.len()))
            .map(|(&hour, _)| hour);
        largest.map_or(Ok(()), |hour| self.close(hour))
    }

    /// Finishes a file.
    fn close(&mut self, hour: i64) -> Result<(), StoreError> {
        let Some(mut sheaf) = self.open.remove(&hour) else {
            return Ok(());
        };
        self.waiting -= sheaf.waiting.len();
        self.waiting_text -= sheaf.waiting_text;
        sheaf.encode(self.target)?;
        // Every sheaf has at least one row, so there is an encoder.
        let Some(encoder) = sheaf.encoder.take() else {
            return Ok(());
        };
        let part = self.files.entry(hour).or_default();
        *part += 1;
        let at = Hour::of(hour.saturating_mul(HOUR_US)).map_err(|e| self.target.failed(e))?;
        let about = about(at.date, Some(at.hour), *part, sheaf.rows, Some(sheaf.moments_us));
        self.target.put(encoder, about)
    }

    /// Finishes all files.
    pub(crate) fn finish(mut self) -> Result<(), StoreError> {
        while let Some((&hour, _)) = self.open.first_key_value() {
            self.close(hour)?;
        }
        Ok(())
    }
}

fn about(date: Date, hour: Option<i8>, part: u32, rows: u64, moments_us: Option<(i64, i64)>) -> StoredFile {
    StoredFile {
        table: "",
        date,
        hour,
        part,
        rows,
        bytes: 0,
        xxh3: 0,
        moments_us,
    }
}

/// Files of rows that say what ids stand for, under the day on which the recording began.
pub(crate) struct DimensionFiles<'a, 'b, T> {
    target: &'a mut Target<'b>,
    date: Date,
    waiting: Vec<T>,
    waiting_text: usize,
    encoder: Option<TableEncoder<T>>,
    rows: u64,
    text: usize,
    files: u32,
}

impl<'a, 'b, T: Dimension> DimensionFiles<'a, 'b, T> {
    pub(crate) fn new(target: &'a mut Target<'b>, date: Date) -> DimensionFiles<'a, 'b, T> {
        DimensionFiles {
            target,
            date,
            waiting: Vec::new(),
            waiting_text: 0,
            encoder: None,
            rows: 0,
            text: 0,
            files: 0,
        }
    }

    pub(crate) fn add(&mut self, row: T) -> Result<(), StoreError> {
        self.waiting_text += row.text();
        self.waiting.push(row);
        if self.waiting.len() < DIMENSION_ROWS && self.waiting_text < GROUP_TEXT {
            return Ok(());
        }
        self.encode()?;
        let bytes = self.encoder.as_ref().map_or(0, TableEncoder::written);
        if self.text >= FILE_TEXT || self.rows >= FILE_ROWS || bytes >= FILE_BYTES {
            self.close()?;
        }
        Ok(())
    }

    fn encode(&mut self) -> Result<(), StoreError> {
        let rows = std::mem::take(&mut self.waiting);
        self.text += std::mem::take(&mut self.waiting_text);
        self.rows += rows.len() as u64;
        if rows.is_empty() {
            return Ok(());
        }
        let encoder = match &mut self.encoder {
            Some(encoder) => encoder,
            none => none.insert(self.target.encoder()?),
        };
        encoder.write(&rows).map_err(|e| self.target.failed(e))
    }

    fn close(&mut self) -> Result<(), StoreError> {
        let Some(encoder) = self.encoder.take() else {
            return Ok(());
        };
        self.files += 1;
        self.text = 0;
        let rows = std::mem::take(&mut self.rows);
        self.target
            .put(encoder, about(self.date, None, self.files, rows, None))
    }

    /// Finishes the last file.
    pub(crate) fn finish(mut self) -> Result<(), StoreError> {
        self.encode()?;
        self.close()
    }
}

/// Rows of a dimension, each id once, sorted by id.
pub(crate) struct Once<T>(pub(crate) BTreeMap<u64, T>);

impl<T: Dimension> Once<T> {
    pub(crate) fn add(&mut self, row: T) {
        match self.0.get_mut(&row.id()) {
            Some(known) => known.learn(row),
            None => {
                self.0.insert(row.id(), row);
            }
        }
    }
}
