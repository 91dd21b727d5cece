//! Segments that were made to do harm: a few kilobytes that decode to gigabytes, invalid numbers, columns of other types. Each
//! costs only itself: it is reported, and the other segments are read.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, DictionaryArray, Float64Array, Int32Array, Int64Array,
    ListArray, RecordBatch, StringArray, StructArray, UInt64Array, new_null_array,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field};
use dbtime_model::recording::{Meta, Recording, RecordingWriter, SCHEMA_VERSION, compact};
use dbtime_model::{
    ActivityRow, CounterRow, Frame, Rows, SessionId, StackRow, StatementRow, Table, stack_id,
};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};

/// Segments of three tables, of one good row each.
const SEGMENTS: u64 = 3;
/// Which of them is replaced.
const VICTIM: &str = "000002.parquet";

fn recording(home: &Path) -> PathBuf {
    let path = home.join("r.dbt");
    let meta = Meta {
        schema: SCHEMA_VERSION.to_string(),
        ..Meta::default()
    };
    let mut writer = RecordingWriter::create(&path, meta).unwrap();
    for n in 1..=SEGMENTS {
        let frames = vec![Frame {
            symbol: format!("f{n}"),
            module: "m".into(),
            build_id: String::new(),
            offset: 1,
        }];
        writer
            .write(&Rows {
                counters: vec![CounterRow {
                    session: SessionId(n),
                    value: 1,
                    ..CounterRow::default()
                }],
                statements: vec![StatementRow {
                    id: n,
                    text: "select".into(),
                    ..StatementRow::default()
                }],
                stacks: vec![StackRow {
                    id: stack_id(&frames),
                    frames,
                }],
                ..Rows::default()
            })
            .unwrap();
    }
    writer.finish().unwrap();
    path
}

fn properties() -> WriterPropertiesBuilder {
    WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default()))
}

/// The segment of a table, with some columns replaced; their number of rows applies.
fn replace(
    recording: &Path,
    table: &str,
    columns: &[(&str, ArrayRef)],
    properties: WriterPropertiesBuilder,
) -> PathBuf {
    let path = recording.join(table).join(VICTIM);
    let like = recording.join(table).join("000001.parquet");
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(like).unwrap());
    let good = reader.unwrap().build().unwrap().next().unwrap().unwrap();
    let rows = columns[0].1.len();
    let schema = good.schema();
    let arrays = schema.fields().iter().zip(good.columns()).map(|(field, array)| {
        let replaced = columns.iter().find(|(name, _)| name == field.name());
        let array = match replaced {
            Some((_, array)) => Arc::clone(array),
            // The good row, again and again.
            None => repeated(array, rows),
        };
        (field.name().clone(), array)
    });
    write(&path, &RecordBatch::try_from_iter(arrays).unwrap(), properties);
    path
}

fn write(path: &Path, batch: &RecordBatch, properties: WriterPropertiesBuilder) {
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties.build())).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

fn repeated(array: &ArrayRef, rows: usize) -> ArrayRef {
    if let Some(texts) = array.as_any().downcast_ref::<StringArray>() {
        return texts_of(texts.value(0), rows);
    }
    if let Some(numbers) = array.as_any().downcast_ref::<UInt64Array>() {
        return Arc::new(UInt64Array::from_value(numbers.value(0), rows));
    }
    if let Some(flags) = array.as_any().downcast_ref::<BooleanArray>() {
        return Arc::new(BooleanArray::from(vec![flags.value(0); rows]));
    }
    new_null_array(array.data_type(), rows)
}

/// The same text `times` times, stored once.
fn texts_of(text: &str, times: usize) -> ArrayRef {
    let keys = Int32Array::from_value(0, times);
    Arc::new(DictionaryArray::<Int32Type>::new(
        keys,
        Arc::new(StringArray::from(vec![text])),
    ))
}

/// How much of a table can be read, and what is said about the rest.
fn read<T: Table>(path: &Path) -> (usize, String) {
    let recording = Recording::open(path).unwrap();
    let mut rows = 0;
    let problems = recording.read::<T>(|batch| rows += batch.len());
    (rows, problems.into_iter().map(|p| p.0 + "\n").collect())
}

/// The victim is reported with this reason, the others are read. What was read of it before that was noticed is there.
#[track_caller]
fn costs_itself<T: Table>(path: &Path, reason: &str) -> usize {
    let (rows, problems) = read::<T>(path);
    let named = format!("{}/{VICTIM}", T::NAME);
    assert!(
        problems.contains(&named) && problems.contains(reason),
        "{problems}"
    );
    assert!(rows as u64 >= SEGMENTS - 1, "{rows} rows");
    rows - (SEGMENTS as usize - 1)
}

fn small(file: &Path) {
    let bytes = fs::metadata(file).unwrap().len();
    assert!(bytes < 1 << 20, "{bytes}");
}

#[test]
fn a_page_that_is_large_when_it_is_decompressed() {
    let home = tempfile::tempdir().unwrap();
    let path = recording(home.path());
    let text: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(100 << 20)]));
    for builder in [properties(), properties().set_dictionary_enabled(false)] {
        small(&replace(
            &path,
            "statements",
            &[("text", Arc::clone(&text))],
            builder,
        ));
        assert_eq!(
            costs_itself::<StatementRow>(&path, "a page of 100 MB, where 64 MB"),
            0
        );
    }
}

#[test]
fn pages_that_are_many_of_one_row() {
    let home = tempfile::tempdir().unwrap();
    let path = recording(home.path());
    // A page each: nine of 40 MB are one step, and more than is decoded at a time.
    let text: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(40 << 20); 9]));
    let builder = properties().set_dictionary_enabled(false);
    small(&replace(&path, "statements", &[("text", text)], builder));
    // Told beforehand that its rows are large, the reader takes them one by one: 360 MB are a lot, but not too much.
    let (rows, problems) = read::<StatementRow>(&path);
    assert!(rows == 9 + 2 && !problems.contains(VICTIM), "{problems}");

    let text: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(40 << 20); 14]));
    let builder = properties().set_dictionary_enabled(false);
    small(&replace(&path, "statements", &[("text", text)], builder));
    assert_eq!(
        costs_itself::<StatementRow>(&path, "more than 512 MB of text"),
        12
    );
}

#[test]
fn a_text_that_a_great_many_rows_have() {
    let home = tempfile::tempdir().unwrap();
    let path = recording(home.path());
    let texts = texts_of(&"x".repeat(60_000), 200_000);
    small(&replace(&path, "statements", &[("text", texts)], properties()));
    // 12 GB.
    let rows = costs_itself::<StatementRow>(&path, "more than 512 MB of text");
    assert!(rows < 10_000, "{rows}");
}

/// A stack of so many frames, all alike.
fn stack(frames: usize, symbol: &str) -> ArrayRef {
    let text = |text: &str| texts_of(text, frames);
    let columns = [
        ("symbol", text(symbol)),
        ("module", text("m")),
        ("build_id", text("")),
        ("offset", Arc::new(UInt64Array::from_value(1, frames)) as ArrayRef),
    ];
    let columns = columns.into_iter().map(|(name, array)| {
        (
            Arc::new(Field::new(name, array.data_type().clone(), false)),
            array,
        )
    });
    let frames: ArrayRef = Arc::new(StructArray::from(columns.collect::<Vec<_>>()));
    let field = Arc::new(Field::new("element", frames.data_type().clone(), false));
    let offsets = OffsetBuffer::from_lengths([frames.len()]);
    Arc::new(ListArray::new(field, offsets, frames, None))
}

#[test]
fn a_stack_of_a_hundred_thousand_frames_is_read_and_one_of_millions_is_not() {
    let home = tempfile::tempdir().unwrap();
    let path = recording(home.path());
    small(&replace(
        &path,
        "stacks",
        &[("frames", stack(100_000, "f"))],
        properties(),
    ));
    let recording = Recording::open(&path).unwrap();
    let mut longest = 0;
    let problems = recording.read::<StackRow>(|rows| {
        longest = rows.iter().map(|row| row.frames.len()).fold(longest, usize::max);
    });
    assert_eq!((longest, problems), (100_000, vec![]));

    small(&replace(
        &path,
        "stacks",
        &[("frames", stack(6_000_000, "f"))],
        properties(),
    ));
    assert_eq!(costs_itself::<StackRow>(&path, "values at a time"), 0);
    // Fewer, with a name that would add up to two gigabytes.
    small(&replace(
        &path,
        "stacks",
        &[("frames", stack(100_000, &"x".repeat(20_000)))],
        properties(),
    ));
    assert_eq!(costs_itself::<StackRow>(&path, "more than 512 MB of text"), 0);
}

#[test]
fn more_rows_than_any_segment_has() {
    let home = tempfile::tempdir().unwrap();
    let path = recording(home.path());
    let ids: ArrayRef = Arc::new(UInt64Array::from_value(7, 17 << 20));
    let victim = path.join("counters").join(VICTIM);
    write(
        &victim,
        &RecordBatch::try_from_iter([("session", ids)]).unwrap(),
        properties(),
    );
    small(&victim);
    assert_eq!(costs_itself::<CounterRow>(&path, "rows, where"), 0);
}

#[test]
fn encodings_with_sizes_of_their_own() {
    let home = tempfile::tempdir().unwrap();
    let path = recording(home.path());
    let text: ArrayRef = Arc::new(StringArray::from(vec!["select"]));
    for encoding in [Encoding::DELTA_BYTE_ARRAY, Encoding::DELTA_LENGTH_BYTE_ARRAY] {
        let builder = properties()
            .set_dictionary_enabled(false)
            .set_column_encoding("text".into(), encoding);
        replace(&path, "statements", &[("text", Arc::clone(&text))], builder);
        assert_eq!(
            costs_itself::<StatementRow>(&path, "which dbtime does not use"),
            0
        );
    }
}

#[test]
fn numbers_that_are_none_and_columns_of_other_types() {
    let home = tempfile::tempdir().unwrap();
    let path = recording(home.path());
    let wrong: [(&str, ArrayRef); 7] = [
        ("id", Arc::new(Float64Array::from(vec![f64::NAN]))),
        ("id", Arc::new(Float64Array::from(vec![-1e300]))),
        ("id", Arc::new(Int64Array::from(vec![-1]))),
        ("id", Arc::new(StringArray::from(vec!["99999999999999999999999"]))),
        ("id", new_null_array(&DataType::UInt64, 1)),
        ("text", Arc::new(BinaryArray::from(vec![&[0xff, 0xfe][..]]))),
        ("text", Arc::new(UInt64Array::from(vec![7]))),
    ];
    for (column, array) in wrong {
        let what = format!("{column} as {array:?}");
        replace(&path, "statements", &[(column, array)], properties());
        let (rows, problems) = read::<StatementRow>(&path);
        assert!(rows == 2 && problems.contains(VICTIM), "{what}: {problems}");
    }
    // None of its columns is one of this table.
    fs::copy(
        path.join("counters").join(VICTIM),
        path.join("statements").join(VICTIM),
    )
    .unwrap();
    assert_eq!(
        costs_itself::<StatementRow>(&path, "not a segment of the table statements"),
        0
    );
    assert_eq!(read::<ActivityRow>(&path), (0, String::new()));
}

/// Names and bytes of all files of a recording.
fn files(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(self::files(&path)),
            false => files.push((path.clone(), fs::read(&path).unwrap())),
        }
    }
    files.sort();
    files
}

/// Only what may be read of a segment is merged with others.
#[test]
fn segments_are_merged_within_the_bounds_within_which_they_are_read() {
    let home = tempfile::tempdir().unwrap();
    let path = recording(home.path());
    let victim = path.join("statements").join(VICTIM);
    let good = fs::read(&victim).unwrap();
    let bombs: [(ArrayRef, &str); 2] = [
        (
            Arc::new(StringArray::from(vec!["x".repeat(100 << 20)])),
            "a page of 100 MB, where 64 MB",
        ),
        (texts_of(&"x".repeat(60_000), 200_000), "more than 512 MB of text"),
    ];
    for (bomb, reason) in bombs {
        small(&replace(&path, "statements", &[("text", bomb)], properties()));
        let before = files(&path);
        let error = compact(&path).unwrap_err().to_string();
        assert!(error.contains(VICTIM) && error.contains(reason), "{error}");
        assert!(files(&path) == before, "something has changed: {error}");
    }
    // Each may be read, but not a file of all of them: that would be useless.
    let large: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(40 << 20); 7]));
    let builder = || properties().set_dictionary_enabled(false);
    small(&replace(&path, "statements", &[("text", large)], builder()));
    // A merged file has one schema; the replaced columns differ in what may be null.
    let others = ["000001.parquet", "000003.parquet"].map(|name| path.join("statements").join(name));
    for other in &others {
        fs::copy(&victim, other).unwrap();
    }
    let error = compact(&path).unwrap_err().to_string();
    assert!(error.contains("too large to be read"), "{error}");
    assert_eq!(read::<StatementRow>(&path).0, 7 + 7 + 7);

    fs::write(&victim, &good).unwrap();
    for other in &others {
        fs::write(other, &good).unwrap();
    }
    compact(&path).unwrap();
    assert_eq!(read::<StatementRow>(&path), (3, String::new()));
    assert_eq!(read::<CounterRow>(&path), (3, String::new()));
    assert_eq!(read::<StackRow>(&path), (3, String::new()));
}

/// Stacks with long names, as many as fit into memory: what the writer merges can be read.
#[test]
fn what_would_be_too_much_for_one_file_is_merged_before_it_is() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("r.dbt");
    let meta = Meta {
        schema: SCHEMA_VERSION.to_string(),
        ..Meta::default()
    };
    let mut writer = RecordingWriter::create(&path, meta).unwrap();
    let mut merged = 0;
    for n in 0..14 {
        writer
            .write(&Rows {
                statements: vec![StatementRow {
                    id: n,
                    text: "x".repeat(50 << 20),
                    ..StatementRow::default()
                }],
                ..Rows::default()
            })
            .unwrap();
        if writer.has_much_to_merge() {
            merged += 1;
            writer.begin_compacting(true).unwrap();
            writer.go_on_compacting(true).unwrap();
        }
    }
    writer.begin_compacting(true).unwrap();
    writer.go_on_compacting(true).unwrap();
    writer.finish().unwrap();
    assert_eq!(merged, 2, "700 MB of text, of which a file has 256 to 512");
    assert_eq!(read::<StatementRow>(&path), (14, String::new()));
    assert_eq!(fs::read_dir(path.join("statements")).unwrap().count(), 3);
}
