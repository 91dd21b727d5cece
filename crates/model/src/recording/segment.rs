//! One table of one segment: rows to a Parquet file and back.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::File;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Once};

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, FieldRef, TimeUnit};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::ChunkReader;
use serde_arrow::schema::{SchemaLike, TracingOptions};

use super::RecordingError;
use crate::Table;
use crate::output::Directory;

/// Values of a column that are decoded at a time: bounds the memory of a reader whatever the file's size.
const READ_BATCH: usize = 16_384;

/// Columns of a table as Arrow types.
fn fields<T: Table>() -> Result<Vec<FieldRef>, String> {
    let options = TracingOptions::default()
        .enums_without_data_as_strings(true)
        .strings_as_large_utf8(false)
        .sequence_as_large_list(false)
        // One trial per enum variant, and some for every field.
        .from_type_budget(1_000);
    let mut fields = Vec::<FieldRef>::from_type::<T>(options).map_err(|e| e.to_string())?;
    for field in &mut fields {
        let data_type = if Some(field.name().as_str()) == T::MOMENT {
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
        } else if let DataType::Dictionary(_, value) = field.data_type() {
            // Parquet does its own dictionary encoding; plain strings are what every reader understands.
            (**value).clone()
        } else {
            continue;
        };
        *field = Arc::new(Field::new(field.name(), data_type, field.is_nullable()));
    }
    Ok(fields)
}

/// How much time is spent on making files small.
#[derive(Debug, Clone, Copy)]
pub(super) enum Effort {
    /// Somebody waits for it, and it will be merged with others.
    Little,
    /// It stays as it is: some 3 % less, for an hour at a time and at no hurry.
    Much,
}

/// How files are written.
pub(super) fn properties(effort: Effort) -> WriterProperties {
    let level = match effort {
        Effort::Little => ZstdLevel::default(),
        Effort::Much => ZstdLevel::try_new(12).unwrap_or_default(),
    };
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_created_by(concat!("dbtime ", env!("CARGO_PKG_VERSION")).to_string())
        .build()
}

/// Writes `rows` as the file `name` of a table, whole or not at all. Returns bytes written.
pub(super) fn write<T: Table>(table: &Directory, name: &OsStr, rows: &[T]) -> Result<u64, RecordingError> {
    let path = table.path().join(name);
    let fields = fields::<T>().map_err(|what| RecordingError::format(&path, what))?;
    let batch = serde_arrow::to_record_batch(&fields, &rows).map_err(|e| RecordingError::format(&path, e))?;
    let fill = |file: &mut File| -> Result<(), ParquetError> {
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties(Effort::Little)))?;
        writer.write(&batch)?;
        writer.close().map(|_| ())
    };
    table
        .replace(name, fill)
        .map_err(|e| RecordingError::io(&path, e))
}

/// Hands the rows of a file of a table to `take`, a batch at a time; stops at the first batch that cannot be read.
pub(super) fn read<T: Table>(
    table: &Directory,
    name: &OsStr,
    take: &mut dyn FnMut(Vec<T>),
) -> Result<(), RecordingError> {
    let path = &table.path().join(name);
    let damaged = |e: String| RecordingError::format(path, e);
    let file = table.open_file(name).map_err(|e| RecordingError::io(path, e))?;
    let mut batches = Batches::open(file).map_err(damaged)?;
    while let Some(batch) = batches.next().map_err(damaged)? {
        let decode = || {
            serde_arrow::from_record_batch(&batch)
                .map_err(|e| format!("not a segment of the table {}: {e}", T::NAME))
        };
        take(contained(decode).map_err(damaged)?);
    }
    Ok(())
}

/// The rows of a file, as many at a time as have some ten thousand values in every column. What is damaged is an error, and no
/// panic.
pub(super) struct Batches(ParquetRecordBatchReader);

impl Batches {
    pub(super) fn open(file: File) -> Result<Batches, String> {
        contained(move || {
            let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|e| e.to_string())?;
            let rows = rows_at_a_time(&builder);
            let reader = builder.with_batch_size(rows).build();
            reader.map(Batches).map_err(|e| e.to_string())
        })
    }

    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>, String> {
        contained(|| self.0.next().transpose().map_err(|e| e.to_string()))
    }
}

/// Rows of stacks have a value for each frame.
fn rows_at_a_time<R: ChunkReader + 'static>(builder: &ParquetRecordBatchReaderBuilder<R>) -> usize {
    let groups = builder.metadata().row_groups();
    let rows: i64 = groups
        .iter()
        .map(RowGroupMetaData::num_rows)
        .fold(0, i64::saturating_add);
    let values = groups
        .iter()
        .filter_map(|group| group.columns().iter().map(ColumnChunkMetaData::num_values).max())
        .fold(0, i64::saturating_add);
    // A file may say anything of itself.
    let values_of_a_row = usize::try_from(values / rows.max(1)).unwrap_or(usize::MAX).max(1);
    (READ_BATCH / values_of_a_row).clamp(1, READ_BATCH)
}

thread_local! {
    /// A panic is caught, and nobody needs to hear of it.
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Decodes, and makes an error of a panic: the Parquet reader panics on some damaged pages, and damage is to cost its own
/// segment only. What it worked on is not used again.
fn contained<R>(decode: impl FnOnce() -> Result<R, String>) -> Result<R, String> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !CONTAINED.get() {
                usual(panic);
            }
        }));
    });
    CONTAINED.set(true);
    let decoded = panic::catch_unwind(AssertUnwindSafe(decode));
    CONTAINED.set(false);
    decoded.unwrap_or_else(|panic| {
        let said = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("damaged: {}", said.unwrap_or("it cannot be decoded")))
    })
}
