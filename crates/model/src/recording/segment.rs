//! One table of one segment: rows to a Parquet file and back.

use std::cell::Cell;
use std::error::Error;
use std::ffi::OsStr;
use std::fs::File;
use std::marker::PhantomData;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, FieldRef, Schema, TimeUnit};
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use parquet::arrow::arrow_writer::{ArrowWriter, ArrowWriterOptions};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels, parquet_to_arrow_schema};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::properties::WriterProperties;
use serde_arrow::schema::{SchemaLike, TracingOptions};

use super::RecordingError;
use super::pages::{self, Pages, Step};
use crate::Table;
use crate::output::Directory;

/// Values of a column decoded at a time: bounds a reader's memory whatever the file's size.
const READ_BATCH: usize = 16_384;
/// Rows that are encoded at a time.
pub(super) const ROWS_AT_A_TIME: usize = 16_384;
/// Encoded bytes of rows that are decoded at a time.
const BYTES_AT_A_TIME: usize = 16 << 20;
/// Bytes of text in rows that are handed on at a time.
const TEXT_AT_A_TIME: u64 = 64 << 20;
/// Bytes of text in all rows of a file. If each is a statement or a session, a reader keeps it.
pub(super) const MOST_TEXT: u64 = 512 << 20;
/// Most rows of a file: it takes half a minute to read them.
pub(super) const MOST_ROWS: i64 = 16 << 20;

/// Columns of a table as Arrow types.
pub(super) fn fields<T: Table>() -> Result<Vec<FieldRef>, String> {
    let options = TracingOptions::default()
        .enums_without_data_as_strings(true)
        .strings_as_large_utf8(false)
        .sequence_as_large_list(false)
        // One trial per enum variant, and some for every field.
        .from_type_budget(1_000);
    let mut fields = Vec::<FieldRef>::from_type::<T>(options).map_err(|e| e.to_string())?;
    for field in &mut fields {
        let data_type = if T::MOMENTS.contains(&field.name().as_str()) {
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
    /// It stays as it is: some 3 % smaller, for an hour's data at a time and in no hurry.
    Much,
}

/// How files are written.
pub(super) fn options(effort: Effort) -> ArrowWriterOptions {
    let level = match effort {
        Effort::Little => ZstdLevel::default(),
        Effort::Much => ZstdLevel::try_new(12).unwrap_or_default(),
    };
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_created_by(concat!("dbtime ", env!("CARGO_PKG_VERSION")).to_string())
        .build();
    // An Arrow schema in the file would add nothing to Parquet's own, except how the data being written was read.
    ArrowWriterOptions::new()
        .with_properties(properties)
        .with_skip_arrow_metadata(true)
}

/// Writes `rows` as the file `name` of a table, whole or not at all. Returns bytes written.
pub(super) fn write<T: Table>(table: &Directory, name: &OsStr, rows: &[T]) -> Result<u64, RecordingError> {
    let path = table.path().join(name);
    let fields = fields::<T>().map_err(|what| RecordingError::format(&path, what))?;
    let schema = Arc::new(Schema::new(fields.clone()));
    let fill = |file: &mut File| -> Result<(), Box<dyn Error + Send + Sync>> {
        let mut writer = ArrowWriter::try_new_with_options(file, schema, options(Effort::Little))?;
        for some in rows.chunks(ROWS_AT_A_TIME) {
            writer.write(&serde_arrow::to_record_batch(&fields, &some)?)?;
        }
        writer.close()?;
        Ok(())
    };
    table
        .replace(name, fill)
        .map_err(|e| RecordingError::io(&path, e))
}

/// Hands the rows of a file of a table to `take`, some at a time; stops at the first error.
pub(super) fn read<T: Table>(
    path: &Path,
    bytes: Bytes,
    columns: &Columns<T>,
    take: &mut dyn FnMut(Vec<T>),
) -> Result<(), RecordingError> {
    let mut batches = Batches::of(path, bytes, Some((T::NAME, &columns.names)))?;
    while let Some(batch) = batches.next()? {
        hand_on(&batch, take).map_err(|e| RecordingError::format(&batches.path, e))?;
    }
    Ok(())
}

/// The rows of a file, some at a time and within bounds, whoever wrote it. Damage is an error, not a panic.
pub(super) struct Batches {
    path: PathBuf,
    reader: ParquetRecordBatchReader,
    step: Arc<Step>,
    /// Bytes of text in the rows so far.
    text: u64,
}

impl Batches {
    /// All columns of a file.
    ///
    /// # Errors
    /// It cannot be read, or is no segment.
    pub(super) fn open(table: &Directory, name: &OsStr) -> Result<Batches, RecordingError> {
        let path = table.path().join(name);
        let bytes = table
            .open_file(name)
            .and_then(pages::read)
            .map_err(|e| RecordingError::io(&path, e))?;
        Batches::of(&path, bytes, None)
    }

    /// `known`: the table, and its columns that are wanted, the others cost nothing; none = all columns there are.
    ///
    /// # Errors
    /// The file is no segment of such a table.
    fn of(path: &Path, bytes: Bytes, known: Option<(&str, &[String])>) -> Result<Batches, RecordingError> {
        let step = Arc::new(Step::default());
        let reader = contained(|| reader(bytes, known, &step));
        Ok(Batches {
            reader: reader.map_err(|e| RecordingError::format(path, e))?,
            path: path.to_path_buf(),
            step,
            text: 0,
        })
    }

    /// The next rows; none after the last.
    ///
    /// # Errors
    /// They cannot be decoded, or not within the bounds.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>, RecordingError> {
        self.step.begin();
        let next = contained(|| self.reader.next().transpose().map_err(|e| e.to_string()));
        let batch = next.map_err(|e| self.damaged(e))?;
        self.text = self.text.saturating_add(batch.as_ref().map_or(0, text_of_rows));
        match self.text > MOST_TEXT {
            true => Err(self.damaged(format!("its rows have more than {} MB of text", MOST_TEXT >> 20))),
            false => Ok(batch),
        }
    }

    /// What is wrong with the file, in words.
    pub(super) fn damaged(&self, what: impl ToString) -> RecordingError {
        RecordingError::format(&self.path, what)
    }
}

/// Makes rows of a batch, in parts whose text fits into memory: a text that a thousand rows have is in the batch only once.
fn hand_on<T: Table>(batch: &RecordBatch, take: &mut dyn FnMut(Vec<T>)) -> Result<(), String> {
    if batch.num_rows() > 1 && text_of_rows(batch) > TEXT_AT_A_TIME {
        let half = batch.num_rows() / 2;
        hand_on(&batch.slice(0, half), take)?;
        return hand_on(&batch.slice(half, batch.num_rows() - half), take);
    }
    let rows = contained(|| {
        serde_arrow::from_record_batch(batch)
            .map_err(|e| format!("not a segment of the table {}: {e}", T::NAME))
    });
    take(rows?);
    Ok(())
}

/// Bytes of text in all rows of a batch.
pub(super) fn text_of_rows(batch: &RecordBatch) -> u64 {
    batch.columns().iter().map(text_in).fold(0, u64::saturating_add)
}

fn text_in(array: &ArrayRef) -> u64 {
    if let Some(texts) = array.as_string_view_opt() {
        // The lower half of a view is the length of its text.
        texts
            .views()
            .iter()
            .map(|&view| u64::from(view as u32))
            .fold(0, u64::saturating_add)
    } else if let Some(list) = array.as_list_opt::<i32>() {
        let offsets = list.offsets();
        let (begin, end) = (offsets[0] as usize, offsets[offsets.len() - 1] as usize);
        text_in(&list.values().slice(begin, end - begin))
    } else if let Some(fields) = array.as_struct_opt() {
        fields.columns().iter().map(text_in).fold(0, u64::saturating_add)
    } else {
        0
    }
}

/// The names of a table's columns.
pub(super) struct Columns<T> {
    names: Vec<String>,
    /// Holds no rows.
    table: PhantomData<fn() -> T>,
}

impl<T: Table> Columns<T> {
    pub(super) fn new() -> Result<Columns<T>, String> {
        let fields = fields::<T>()?;
        Ok(Columns {
            names: fields.iter().map(|field| field.name().clone()).collect(),
            table: PhantomData,
        })
    }
}

/// Decodes the known columns; without these, all there are.
fn reader(
    bytes: Bytes,
    known: Option<(&str, &[String])>,
    step: &Arc<Step>,
) -> Result<ParquetRecordBatchReader, String> {
    let in_words = |e: ParquetError| e.to_string();
    pages::check_footer(&bytes).map_err(in_words)?;
    let metadata = ParquetMetaDataReader::new()
        .parse_and_finish(&bytes)
        .map_err(in_words)?;
    let rows = metadata.file_metadata().num_rows();
    if !(0..=MOST_ROWS).contains(&rows) {
        return Err(format!("{rows} rows, where {MOST_ROWS} is the maximum"));
    }
    let columns = metadata.file_metadata().schema_descr();
    // An Arrow schema in the file adds nothing to Parquet's own.
    let found = parquet_to_arrow_schema(columns, None).map_err(in_words)?;
    let is_known = |field: &FieldRef| known.is_none_or(|(_, names)| names.contains(field.name()));
    if let Some((table, _)) = known
        && !found.fields().iter().any(is_known)
    {
        return Err(format!("not a segment of the table {table}"));
    }
    let schema = as_views(is_known, &found)?;
    let wanted = match known {
        Some((_, names)) => ProjectionMask::columns(columns, names.iter().map(String::as_str)),
        None => ProjectionMask::all(),
    };
    let levels = parquet_to_arrow_field_levels(columns, wanted, Some(schema.fields())).map_err(in_words)?;
    let rows = rows_at_a_time(metadata.row_groups());
    let pages = Pages {
        bytes: Arc::new(bytes),
        metadata: Arc::new(metadata),
        step: Arc::clone(step),
    };
    ParquetRecordBatchReader::try_new_with_row_groups(&levels, &pages, rows, None).map_err(in_words)
}

/// The schema of a file, with types that do not copy a text for every row that has it.
fn as_views(is_known: impl Fn(&FieldRef) -> bool, schema: &Schema) -> Result<Schema, String> {
    let fields = schema.fields().iter().map(|field| {
        if is_known(field) {
            as_view(field)
        } else {
            Ok(Arc::clone(field))
        }
    });
    Ok(Schema::new(fields.collect::<Result<Vec<FieldRef>, String>>()?))
}

fn as_view(field: &FieldRef) -> Result<FieldRef, String> {
    let data_type = match field.data_type() {
        DataType::Utf8 => DataType::Utf8View,
        DataType::List(of) => DataType::List(as_view(of)?),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(as_view).collect::<Result<_, _>>()?),
        plain if plain.is_primitive() || *plain == DataType::Boolean => plain.clone(),
        other => return Err(format!("its column {} is {other}", field.name())),
    };
    Ok(Arc::new(field.as_ref().clone().with_data_type(data_type)))
}

/// As many rows as have some ten thousand values in every column (rows of stacks have one for each frame), and some megabytes.
fn rows_at_a_time(groups: &[RowGroupMetaData]) -> usize {
    let sum = |of: &dyn Fn(&RowGroupMetaData) -> i64| groups.iter().map(of).fold(0, i64::saturating_add);
    let rows = sum(&RowGroupMetaData::num_rows).max(1);
    let values = sum(&|group| {
        let columns = group.columns().iter();
        columns.map(ColumnChunkMetaData::num_values).max().unwrap_or(0)
    });
    let bytes = sum(&RowGroupMetaData::total_byte_size);
    // A file may say anything about itself.
    let of_a_row = |sum: i64| usize::try_from(sum / rows).unwrap_or(0).max(1);
    (READ_BATCH / of_a_row(values))
        .min(BYTES_AT_A_TIME / of_a_row(bytes))
        .clamp(1, READ_BATCH)
}

thread_local! {
    /// A panic will be caught, and need not be reported.
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Decodes, and turns a panic into an error: the Parquet reader panics on some damaged pages, and damage must cost only its
/// own segment. What it worked on is not used again.
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
