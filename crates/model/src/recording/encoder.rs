//! Rows of a table as a Parquet file outside a recording: the same columns, and some that say whose they are.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, FieldRef, Schema};
use parquet::arrow::ArrowWriter;

use super::segment::{Effort, ROWS_AT_A_TIME, fields, options};
use crate::Table;

/// A file of a table that is being built in memory.
pub struct TableEncoder<T> {
    writer: ArrowWriter<Vec<u8>>,
    /// Columns of the table.
    of_table: Vec<FieldRef>,
    /// All columns.
    schema: Arc<Schema>,
    /// Values of the other columns, the same in each row.
    values: Vec<String>,
    table: std::marker::PhantomData<fn() -> T>,
}

impl<T: Table> TableEncoder<T> {
    /// Columns of the table, followed by texts that are the same in all rows: name and text.
    ///
    /// # Errors
    /// A name is that of a column of the table.
    pub fn new(same_in_all: &[(&str, &str)]) -> Result<TableEncoder<T>, String> {
        let of_table = fields::<T>()?;
        let mut all = of_table.clone();
        for (name, _) in same_in_all {
            if of_table.iter().any(|field| field.name() == name) {
                return Err(format!("the table {} has a column {name} of its own", T::NAME));
            }
            all.push(Arc::new(Field::new(*name, DataType::Utf8, false)));
        }
        let schema = Arc::new(Schema::new(all));
        let writer =
            ArrowWriter::try_new_with_options(Vec::new(), Arc::clone(&schema), options(Effort::Little));
        Ok(TableEncoder {
            writer: writer.map_err(|e| e.to_string())?,
            of_table,
            schema,
            values: same_in_all.iter().map(|(_, text)| text.to_string()).collect(),
            table: std::marker::PhantomData,
        })
    }

    /// Adds rows as a row group: what a reader can skip by its smallest and largest values.
    ///
    /// # Errors
    /// They cannot be encoded.
    pub fn write(&mut self, rows: &[T]) -> Result<(), String> {
        for some in rows.chunks(ROWS_AT_A_TIME) {
            let batch = serde_arrow::to_record_batch(&self.of_table, &some).map_err(|e| e.to_string())?;
            let mut columns = batch.columns().to_vec();
            for text in &self.values {
                let column: ArrayRef = Arc::new(StringArray::from_iter_values(std::iter::repeat_n(
                    text,
                    some.len(),
                )));
                columns.push(column);
            }
            let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(|e| e.to_string())?;
            self.writer.write(&batch).map_err(|e| e.to_string())?;
        }
        self.writer.flush().map_err(|e| e.to_string())
    }

    /// Bytes of the row groups so far.
    pub fn written(&self) -> usize {
        self.writer.bytes_written()
    }

    /// The file.
    ///
    /// # Errors
    /// It cannot be encoded.
    pub fn finish(self) -> Result<Vec<u8>, String> {
        self.writer.into_inner().map_err(|e| e.to_string())
    }
}
