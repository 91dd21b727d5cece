//! The rows in the file of a table: src/include/storage/bufpage.h, itemid.h and access/htup_details.h, alike in PostgreSQL 14 to 18.
//!
//! The server may write a page while it is read, and the owner of the files decides what is in them: nothing that reaches outside its page
//! is trusted.

use super::commit_log::{CommitLog, Fate};

const PAGE_HEADER: usize = 24;
const ITEM: usize = 4;
const TUPLE_HEADER: usize = 23;
/// `BLCKSZ` is at least 1 KB, and 32 KB at most.
const PAGE_SIZES: std::ops::RangeInclusive<usize> = 1_024..=32_768;
/// `LP_NORMAL`
const IN_USE: u32 = 1;

// t_infomask
const XMIN_COMMITTED: u16 = 0x0100;
const XMIN_INVALID: u16 = 0x0200;
const XMAX_LOCK_ONLY: u16 = 0x0080;
const XMAX_COMMITTED: u16 = 0x0400;
const XMAX_INVALID: u16 = 0x0800;
const XMAX_IS_MULTI: u16 = 0x1000;

/// A row of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tuple<'p> {
    xmin: u32,
    xmax: u32,
    infomask: u16,
    /// The columns. In catalogues those of fixed length come first, and none of these is null.
    columns: &'p [u8],
}

/// The page size of a table, which each page states; none if the first one does not.
pub(super) fn page_size(table: &[u8]) -> Option<usize> {
    // pd_pagesize_version: the size, with the version of the layout in its lowest byte.
    let size = usize::from(u16_at(table, 18)? & 0xff00);
    PAGE_SIZES.contains(&size).then_some(size)
}

/// The rows of a table.
pub(super) fn tuples(table: &[u8], page_size: usize) -> impl Iterator<Item = Tuple<'_>> {
    table.chunks_exact(page_size).flat_map(of_page)
}

fn of_page(page: &[u8]) -> impl Iterator<Item = Tuple<'_>> {
    let lower = u16_at(page, 12).map_or(0, usize::from);
    let items = match lower <= page.len() {
        true => lower.saturating_sub(PAGE_HEADER) / ITEM,
        false => 0,
    };
    (0..items).filter_map(move |number| {
        let item = u32_at(page, PAGE_HEADER + ITEM * number)?;
        let (offset, flags, length) = (item & 0x7fff, item >> 15 & 3, item >> 17);
        if flags != IN_USE {
            return None;
        }
        Tuple::of(page.get(offset as usize..(offset + length) as usize)?)
    })
}

impl<'p> Tuple<'p> {
    fn of(bytes: &'p [u8]) -> Option<Tuple<'p>> {
        let header = usize::from(*bytes.get(22)?);
        Some(Tuple {
            xmin: u32_at(bytes, 0)?,
            xmax: u32_at(bytes, 4)?,
            infomask: u16_at(bytes, 20)?,
            columns: (header >= TUPLE_HEADER).then(|| bytes.get(header..)).flatten()?,
        })
    }

    /// Whether the row is visible to everybody, as far as the files tell: the transaction that inserted it has committed, and none that
    /// deleted it has.
    pub(super) fn is_there(&self, log: &mut CommitLog) -> bool {
        let was_made = match self.infomask & (XMIN_COMMITTED | XMIN_INVALID) {
            XMIN_INVALID => false,
            // Both together: it is frozen.
            0 => log.fate(self.xmin) == Fate::Committed,
            _ => true,
        };
        let is_gone = match self.infomask {
            mask if mask & (XMAX_INVALID | XMAX_LOCK_ONLY | XMAX_IS_MULTI) != 0 => false,
            mask if mask & XMAX_COMMITTED != 0 => true,
            _ => self.xmax != 0 && log.fate(self.xmax) == Fate::Committed,
        };
        was_made && !is_gone
    }

    /// Four bytes of its columns: an id.
    pub(super) fn id(&self, at: usize) -> Option<u32> {
        u32_at(self.columns, at)
    }

    /// A column of the type `name`: 64 bytes, ended by a zero. Bytes that are not UTF-8 are replaced.
    pub(super) fn name(&self, at: usize) -> Option<String> {
        let name = self.columns.get(at..at + 64)?;
        let end = name.iter().position(|byte| *byte == 0)?;
        (end > 0).then(|| String::from_utf8_lossy(&name[..end]).into_owned())
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}
