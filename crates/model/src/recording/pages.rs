//! The bytes of a segment's file, and what decoding them may cost: a page of some bytes can claim to be gigabytes, and be it.
//!
//! Parquet's reader believes what stands in front of a page. So that is read here before: whoever asks for a page that is larger,
//! or has more values, than segments of dbtime ever do gets an error in its place. Nothing has been decoded of it then.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Buf, Bytes, buf};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

/// Bytes of a file. Those that dbtime writes have some hundred thousand rows, and a thousandth of it.
const LARGEST_FILE: u64 = 256 << 20;
/// Bytes of what stands at the end of a file: three thousand for each million of rows.
const LARGEST_FOOTER: u32 = 4 << 20;
/// Bytes of a page, decompressed. Pages are cut at one megabyte, but a value cannot be.
const LARGEST_PAGE: u64 = 64 << 20;
/// Bytes of all pages of which rows are decoded at a time.
const LARGEST_STEP: u64 = 256 << 20;
/// Values in these pages, of all columns. Frames of stacks are the most: four columns, and two million in a page.
const MOST_VALUES: u64 = 16 << 20;
/// Bytes in front of a page. Statistics may stand there; dbtime writes none.
const LONGEST_HEADER: usize = 64 << 10;
/// What a file ends with: the length of what stands before it, and a word.
const END: usize = 8;

/// What has been asked for since the last step began.
#[derive(Debug, Default)]
pub(super) struct Step {
    bytes: AtomicU64,
    values: AtomicU64,
}

impl Step {
    /// A step begins: what the one before has decoded is not needed any longer.
    pub(super) fn begin(&self) {
        self.bytes.store(0, Ordering::Relaxed);
        self.values.store(0, Ordering::Relaxed);
    }

    fn take(&self, page: &Page) -> Result<()> {
        let sum = |sum: &AtomicU64, more: u64| sum.fetch_add(more, Ordering::Relaxed).saturating_add(more);
        let (bytes, values) = (sum(&self.bytes, page.bytes), sum(&self.values, page.values));
        match () {
            () if page.bytes > LARGEST_PAGE => {
                let (is, most) = (page.bytes >> 20, LARGEST_PAGE >> 20);
                refuse(format!("a page of {is} MB, where {most} MB is the most"))
            }
            () if bytes > LARGEST_STEP => {
                let most = LARGEST_STEP >> 20;
                refuse(format!("its rows need more than {most} MB to be decoded"))
            }
            () if values > MOST_VALUES => {
                refuse(format!("its rows have more than {MOST_VALUES} values at a time"))
            }
            // Other encodings have sizes of their own inside, which are believed as well.
            () if !page.is_usual => refuse("a page in an encoding that dbtime does not write"),
            () => Ok(()),
        }
    }
}

fn refuse<T>(what: impl Into<String>) -> Result<T> {
    Err(ParquetError::General(what.into()))
}

/// The bytes of a file.
#[derive(Debug)]
pub(super) struct Pages {
    bytes: Bytes,
    step: Arc<Step>,
}

impl Pages {
    /// Reads a file, and looks at its end.
    pub(super) fn read(file: File, step: Arc<Step>) -> io::Result<Pages> {
        let refused = |what: String| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        let length = file.metadata()?.len();
        if length > LARGEST_FILE {
            let most = LARGEST_FILE >> 20;
            return refused(format!("larger than {most} MB: no segment of dbtime"));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
        file.take(length).read_to_end(&mut bytes)?;
        // What is too short is named by who decodes it.
        if let Some(end) = bytes.last_chunk::<END>() {
            let footer = u32::from_le_bytes([end[0], end[1], end[2], end[3]]);
            if footer > LARGEST_FOOTER && footer as usize <= bytes.len() {
                let most = LARGEST_FOOTER >> 20;
                return refused(format!("what it says of itself is longer than {most} MB"));
            }
        }
        Ok(Pages {
            bytes: bytes.into(),
            step,
        })
    }

    /// All of them, without a bound on pages: for what stands at the end.
    pub(super) fn bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    fn part(&self, start: u64, length: usize) -> Option<Bytes> {
        let start = usize::try_from(start).ok()?;
        let end = start.checked_add(length)?;
        (end <= self.bytes.len()).then(|| self.bytes.slice(start..end))
    }
}

impl Length for Pages {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }
}

impl ChunkReader for Pages {
    type T = buf::Reader<Bytes>;

    /// Called where a page begins, and nowhere else.
    fn get_read(&self, start: u64) -> Result<Self::T> {
        let beyond = || ParquetError::EOF("a page that begins behind its end".to_string());
        let left = self.len().checked_sub(start).ok_or_else(beyond)?;
        let rest = self
            .part(start, usize::try_from(left).unwrap_or(usize::MAX))
            .ok_or_else(beyond)?;
        let header = &rest[..rest.len().min(LONGEST_HEADER)];
        match Page::of(header) {
            Some(page) => self.step.take(&page)?,
            None => return refuse("a page whose beginning cannot be read"),
        }
        Ok(rest.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.part(start, length)
            .ok_or_else(|| ParquetError::EOF("it ends before a page does".to_string()))
    }
}

/// What a page says of itself. Of what it says twice, the most.
#[derive(Debug, Default, PartialEq, Eq)]
struct Page {
    /// Bytes, decompressed.
    bytes: u64,
    /// Values; of a dictionary, its entries.
    values: u64,
    /// Its values are encoded as dbtime does it.
    is_usual: bool,
}

/// Numbers of the encodings PLAIN, PLAIN_DICTIONARY, RLE, BIT_PACKED and RLE_DICTIONARY.
const USUAL_ENCODINGS: [i64; 5] = [0, 2, 3, 4, 8];

/// Types of fields in Thrift's compact protocol.
mod field {
    pub(super) const END: u8 = 0;
    pub(super) const TRUE: u8 = 1;
    pub(super) const FALSE: u8 = 2;
    pub(super) const I32: u8 = 5;
    pub(super) const I64: u8 = 6;
    pub(super) const BINARY: u8 = 8;
    pub(super) const STRUCT: u8 = 12;
}

impl Page {
    /// Reads the struct `PageHeader` of parquet.thrift; none when it is no such struct.
    fn of(mut header: &[u8]) -> Option<Page> {
        const UNCOMPRESSED_PAGE_SIZE: i64 = 2;
        const DATA_PAGE_HEADER_V2: i64 = 8;
        let mut page = Page {
            is_usual: true,
            ..Page::default()
        };
        let header = &mut header;
        let mut id = 0;
        while let Some((number, kind)) = next_field(header, id)? {
            id = number;
            match kind {
                field::I32 => {
                    let value = integer(header)?;
                    if id == UNCOMPRESSED_PAGE_SIZE {
                        page.bytes = page.bytes.max(u64::try_from(value).ok()?);
                    }
                }
                // What is said of a page of its kind.
                field::STRUCT => {
                    let encoding = if id == DATA_PAGE_HEADER_V2 { 4 } else { 2 };
                    page.look_at_kind(header, encoding)?;
                }
                _ => skip(header, kind)?,
            }
        }
        Some(page)
    }

    /// Reads the struct that says something of one kind of pages. All begin with the number of values.
    fn look_at_kind(&mut self, header: &mut &[u8], encoding: i64) -> Option<()> {
        const NUM_VALUES: i64 = 1;
        let mut id = 0;
        while let Some((number, kind)) = next_field(header, id)? {
            id = number;
            match kind {
                field::I32 => {
                    let value = integer(header)?;
                    if id == NUM_VALUES {
                        self.values = self.values.max(u64::try_from(value).ok()?);
                    } else if id == encoding {
                        self.is_usual &= USUAL_ENCODINGS.contains(&value);
                    }
                }
                // Statistics: fields without structs.
                field::STRUCT => {
                    let mut id = 0;
                    while let Some((number, kind)) = next_field(header, id)? {
                        id = number;
                        skip(header, kind)?;
                    }
                }
                _ => skip(header, kind)?,
            }
        }
        Some(())
    }
}

/// Number and type of the next field; none inside at the end of the struct.
fn next_field(header: &mut &[u8], last: i64) -> Option<Option<(i64, u8)>> {
    let byte = take(header)?;
    let (step, kind) = (i64::from(byte >> 4), byte & 0xf);
    Some(match (kind, step) {
        (field::END, _) => None,
        (_, 0) => Some((integer(header)?, kind)),
        _ => Some((last.checked_add(step)?, kind)),
    })
}

fn skip(header: &mut &[u8], kind: u8) -> Option<()> {
    match kind {
        field::TRUE | field::FALSE => Some(()),
        field::I32 | field::I64 => integer(header).map(|_| ()),
        field::BINARY => {
            let length = usize::try_from(unsigned(header)?).ok()?;
            *header = header.get(length..)?;
            Some(())
        }
        _ => None,
    }
}

fn integer(header: &mut &[u8]) -> Option<i64> {
    let zigzag = unsigned(header)?;
    Some((zigzag >> 1).cast_signed() ^ -((zigzag & 1).cast_signed()))
}

fn unsigned(header: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(header)?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn take(header: &mut &[u8]) -> Option<u8> {
    let (&byte, rest) = header.split_first()?;
    *header = rest;
    Some(byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As parquet-format's documents have it: a data page (type 0) of 300 bytes, 200 compressed, with 5 values.
    const HEADER: &[u8] = &[
        0x15, 0, 0x15, 0xd8, 0x04, 0x15, 0x90, 0x03, 0x2c, 0x15, 10, 0x15, 0, 0x15, 6, 0x15, 6, 0, 0,
    ];

    #[test]
    fn the_beginning_of_a_page_is_read_as_thrift_writes_it() {
        let page = Page {
            bytes: 300,
            values: 5,
            is_usual: true,
        };
        assert_eq!(Page::of(HEADER), Some(page));
        for cut in 0..HEADER.len() {
            assert_eq!(Page::of(&HEADER[..cut]), None, "cut at {cut}");
        }
    }

    #[test]
    fn what_is_said_twice_counts_as_the_most() {
        // Before the end: the size again, 2^30 this time, its number written out.
        let again = [
            &HEADER[..HEADER.len() - 1],
            &[0x05, 4, 0x80, 0x80, 0x80, 0x80, 0x08, 0],
        ]
        .concat();
        assert_eq!(Page::of(&again).map(|page| page.bytes), Some(1 << 30));
    }

    #[test]
    fn an_encoding_with_sizes_of_its_own_is_not_usual() {
        // DELTA_LENGTH_BYTE_ARRAY, number 6.
        let mut header = HEADER.to_vec();
        header[12] = 12;
        assert_eq!(Page::of(&header).map(|page| page.is_usual), Some(false));
    }

    #[test]
    fn whatever_stands_there_nothing_panics() {
        let mut noise = 1u64;
        for _ in 0..100_000 {
            let mut bytes = HEADER.to_vec();
            for _ in 0..3 {
                noise = noise
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let at = (noise >> 33) as usize % bytes.len();
                bytes[at] = (noise >> 20) as u8;
            }
            Page::of(&bytes);
        }
    }
}
