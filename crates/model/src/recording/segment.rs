//! One table of one segment: rows to a Parquet file and back.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, FieldRef, TimeUnit};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use serde_arrow::schema::{SchemaLike, TracingOptions};

use super::RecordingError;
use crate::Table;

/// Rows that are decoded at a time: bounds the memory of a reader whatever the file's size.
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

/// Writes `rows` as `path`: under a temporary name, synced, mode 0600, then renamed. Returns bytes written.
pub(super) fn write<T: Table>(path: &Path, rows: &[T]) -> Result<u64, RecordingError> {
    let fields = fields::<T>().map_err(|what| RecordingError::format(path, what))?;
    let batch = serde_arrow::to_record_batch(&fields, &rows).map_err(|e| RecordingError::format(path, e))?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_created_by(concat!("dbtime ", env!("CARGO_PKG_VERSION")).to_string())
        .build();
    atomically(path, |file| {
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties))?;
        writer.write(&batch)?;
        writer.close().map(|_| ())
    })
}

/// Creates `path` with what `fill` writes, or leaves nothing behind.
pub(super) fn atomically<E>(
    path: &Path,
    fill: impl FnOnce(&mut File) -> Result<(), E>,
) -> Result<u64, RecordingError>
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let temporary = path.with_extension("tmp");
    let written = (|| {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temporary)?;
        fill(&mut file).map_err(as_io_error)?;
        file.sync_all()?;
        let bytes = file.metadata()?.len();
        fs::rename(&temporary, path)?;
        if let Some(parent) = path.parent() {
            File::open(parent)?.sync_all()?;
        }
        Ok(bytes)
    })();
    written.map_err(|e| {
        // The temporary file is of no use to anyone; that it cannot be removed adds nothing to the error.
        let _ = fs::remove_file(&temporary);
        RecordingError::io(path, e)
    })
}

/// Finds the operating system's error under whatever a writing library wrapped around it, so that a full
/// disk is still recognised as one.
fn as_io_error(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> std::io::Error {
    let error = error.into();
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&*error);
    while let Some(e) = cause {
        if let Some(code) = e.downcast_ref::<std::io::Error>().and_then(|e| e.raw_os_error()) {
            return std::io::Error::from_raw_os_error(code);
        }
        cause = e.source();
    }
    std::io::Error::other(error)
}

/// Hands the rows of `path` to `take`, a batch at a time; stops at the first batch that cannot be read.
pub(super) fn read<T: Table>(path: &Path, take: &mut dyn FnMut(Vec<T>)) -> Result<(), RecordingError> {
    let file = File::open(path).map_err(|e| RecordingError::io(path, e))?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(file)
        .and_then(|builder| builder.with_batch_size(READ_BATCH).build())
        .map_err(|e| RecordingError::format(path, e))?;
    for batch in reader {
        let batch: RecordBatch = batch.map_err(|e| RecordingError::format(path, e))?;
        let rows: Vec<T> = serde_arrow::from_record_batch(&batch).map_err(|e| {
            RecordingError::format(path, format!("not a segment of the table {}: {e}", T::NAME))
        })?;
        take(rows);
    }
    Ok(())
}
