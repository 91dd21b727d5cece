//! The pages of a segment's file, decompressed within bounds: a page of a few bytes can claim to be gigabytes, and really be.
//!
//! Parquet's own reader takes the memory that a page says it needs. So it is told that nothing is compressed, and what it hands on
//! is decompressed here, up to the largest sizes that dbtime's segments ever have. What a page says about itself is never trusted.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parquet::arrow::arrow_reader::RowGroups;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;

/// Bytes of a file. Those that dbtime writes have some hundred thousand rows, and a thousandth of that size.
pub(super) const LARGEST_FILE: u64 = 256 << 20;
/// Bytes of a file's footer: three thousand for each million rows.
const LARGEST_FOOTER: u32 = 4 << 20;
/// Bytes of a page, decompressed. Pages are split at one megabyte, but a value cannot be.
const LARGEST_PAGE: usize = 64 << 20;
/// Bytes of all pages whose rows are decoded at a time.
const LARGEST_STEP: u64 = 256 << 20;
/// Values in these pages, over all columns. Frames of stacks are the most: four columns, and two million in a page.
const MOST_VALUES: u64 = 16 << 20;
/// What a file ends with: the length of the footer before it, and a magic word.
const END: usize = 8;

/// Reads a file, unless it is too large.
pub(super) fn read(file: File) -> io::Result<Bytes> {
    let length = file.metadata()?.len();
    if length > LARGEST_FILE {
        let most = LARGEST_FILE >> 20;
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("larger than {most} MB: not a segment of dbtime"),
        ));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes.into())
}

/// Checks that what a file says about itself can be parsed without harm.
pub(super) fn check_footer(bytes: &[u8]) -> Result<()> {
    // A file that is too short is reported by the decoder.
    if let Some(end) = bytes.last_chunk::<END>() {
        let footer = u32::from_le_bytes([end[0], end[1], end[2], end[3]]);
        if footer > LARGEST_FOOTER && footer as usize <= bytes.len() {
            let most = LARGEST_FOOTER >> 20;
            return refuse(format!("its footer is longer than {most} MB"));
        }
    }
    Ok(())
}

/// What has been decompressed since the last step began.
#[derive(Debug, Default)]
pub(super) struct Step {
    bytes: AtomicU64,
    values: AtomicU64,
}

impl Step {
    /// A step begins: what the previous one decoded is no longer needed.
    pub(super) fn begin(&self) {
        self.bytes.store(0, Ordering::Relaxed);
        self.values.store(0, Ordering::Relaxed);
    }

    fn take(&self, bytes: usize, values: u32) -> Result<()> {
        let sum = |sum: &AtomicU64, more: u64| sum.fetch_add(more, Ordering::Relaxed).saturating_add(more);
        if sum(&self.bytes, bytes as u64) > LARGEST_STEP {
            let most = LARGEST_STEP >> 20;
            return refuse(format!("its rows need more than {most} MB to be decoded"));
        }
        if sum(&self.values, values.into()) > MOST_VALUES {
            return refuse(format!("its rows have more than {MOST_VALUES} values at a time"));
        }
        Ok(())
    }
}

fn refuse<T>(what: impl Into<String>) -> Result<T> {
    Err(ParquetError::General(what.into()))
}

/// The row groups of a file.
pub(super) struct Pages {
    pub(super) bytes: Arc<Bytes>,
    pub(super) metadata: Arc<ParquetMetaData>,
    pub(super) step: Arc<Step>,
}

impl RowGroups for Pages {
    fn num_rows(&self) -> usize {
        usize::try_from(self.metadata.file_metadata().num_rows()).unwrap_or(0)
    }

    fn column_chunks(&self, column: usize) -> Result<Box<dyn PageIterator>> {
        Ok(Box::new(Chunks {
            bytes: Arc::clone(&self.bytes),
            metadata: Arc::clone(&self.metadata),
            step: Arc::clone(&self.step),
            column,
            next_group: 0,
        }))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(self.metadata.row_groups().iter())
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

/// The parts of a column, group by group.
struct Chunks {
    bytes: Arc<Bytes>,
    metadata: Arc<ParquetMetaData>,
    step: Arc<Step>,
    column: usize,
    next_group: usize,
}

impl Iterator for Chunks {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        let group = self.metadata.row_groups().get(self.next_group)?;
        self.next_group += 1;
        let rows = usize::try_from(group.num_rows()).unwrap_or(0);
        let chunk = Chunk::new(&self.bytes, group.column(self.column), rows, &self.step);
        Some(chunk.map(|chunk| Box::new(chunk) as Box<dyn PageReader>))
    }
}

impl PageIterator for Chunks {}

/// The pages of a column in one group.
struct Chunk {
    /// Hands on pages as they are in the file.
    pages: SerializedPageReader<Bytes>,
    /// None: nothing is compressed.
    decompressor: Option<zstd::bulk::Decompressor<'static>>,
    step: Arc<Step>,
}

impl Chunk {
    fn new(bytes: &Arc<Bytes>, column: &ColumnChunkMetaData, rows: usize, step: &Arc<Step>) -> Result<Chunk> {
        let decompressor = match column.compression() {
            Compression::UNCOMPRESSED => None,
            Compression::ZSTD(_) => Some(zstd::bulk::Decompressor::new()?),
            other => return refuse(format!("compressed with {other}, which dbtime does not use")),
        };
        let as_it_is = column
            .clone()
            .into_builder()
            .set_compression(Compression::UNCOMPRESSED)
            .build()?;
        Ok(Chunk {
            pages: SerializedPageReader::new(Arc::clone(bytes), &as_it_is, rows, None)?,
            decompressor,
            step: Arc::clone(step),
        })
    }

    fn decompress(&mut self, mut page: Page) -> Result<Page> {
        match page.encoding() {
            Encoding::PLAIN | Encoding::PLAIN_DICTIONARY | Encoding::RLE | Encoding::RLE_DICTIONARY => {}
            // They contain sizes of their own, which would be trusted.
            other => return refuse(format!("encoded as {other}, which dbtime does not use")),
        }
        let values = page.num_values();
        let (buffer, begin) = match &mut page {
            Page::DictionaryPage { buf, .. } | Page::DataPage { buf, .. } => (buf, 0),
            Page::DataPageV2 {
                buf,
                def_levels_byte_len,
                rep_levels_byte_len,
                is_compressed,
                ..
            } => {
                let levels = u64::from(*def_levels_byte_len) + u64::from(*rep_levels_byte_len);
                let levels = usize::try_from(levels).unwrap_or(usize::MAX);
                let begin = if *is_compressed { levels } else { buf.len() };
                (buf, begin)
            }
        };
        let Some((plain, compressed)) = buffer.split_at_checked(begin) else {
            return refuse("a page that is shorter than its contents");
        };
        if let Some(decompressor) = &mut self.decompressor
            && !compressed.is_empty()
        {
            // If it records no size, go on: decompression stops at the bound.
            let size = zstd::zstd_safe::get_frame_content_size(compressed).ok().flatten();
            if size.is_some_and(|size| size > LARGEST_PAGE as u64) {
                let (is, most) = (size.unwrap_or(0) >> 20, LARGEST_PAGE >> 20);
                return refuse(format!("a page of {is} MB, where {most} MB is the maximum"));
            }
            let text = decompressor.decompress(compressed, LARGEST_PAGE)?;
            *buffer = match plain {
                [] => text.into(),
                plain => [plain, &text].concat().into(),
            };
        }
        if buffer.len() > LARGEST_PAGE {
            let (is, most) = (buffer.len() >> 20, LARGEST_PAGE >> 20);
            return refuse(format!("a page of {is} MB, where {most} MB is the maximum"));
        }
        self.step.take(buffer.len(), values)?;
        Ok(page)
    }
}

impl Iterator for Chunk {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Chunk {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.pages.get_next_page()?;
        page.map(|page| self.decompress(page)).transpose()
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.pages.at_record_boundary()
    }
}
