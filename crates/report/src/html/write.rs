//! The page as a file: the frame built from `web/`, and one block of data in it. Nothing recorded becomes markup: all of it is in
//! the block, compressed and in base64, and the script of the page shows it as text.

use std::io::{self, Write};

use base64::prelude::{BASE64_STANDARD, Engine};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde::Serialize;

use super::columns::Columns;
use super::document::Document;
use super::{
    DifferencePage, DiveDifferencePage, DivePage, HtmlPage, difference_document, dive_difference,
    dive_document, document,
};

/// Style, script and structure of the page; its policy says which of them may run.
const FRAME: &str = include_str!("../../../../web/dist/page.html");
/// Placeholder for the data.
const PLACE: &str = "@DATA@";

/// Writes the page of a recording.
///
/// # Errors
/// Those of `out`.
pub fn write(page: &HtmlPage, out: &mut dyn Write) -> io::Result<()> {
    let columns = document::columns(page);
    framed(&Document::new(page, &columns.list), &columns, out)
}

/// Writes the page of a comparison.
///
/// # Errors
/// Those of `out`.
pub fn write_difference(page: &DifferencePage, out: &mut dyn Write) -> io::Result<()> {
    let columns = difference_document::columns(page);
    framed(
        &difference_document::Document::new(page, &columns.list),
        &columns,
        out,
    )
}

/// Writes the page of a dive.
///
/// # Errors
/// Those of `out`.
pub fn write_dive(page: &DivePage, out: &mut dyn Write) -> io::Result<()> {
    let columns = dive_document::columns(page);
    framed(&dive_document::Document::new(page, &columns.list), &columns, out)
}

/// Writes the page of a comparison of two dives.
///
/// # Errors
/// Those of `out`.
pub fn write_dive_difference(page: &DiveDifferencePage, out: &mut dyn Write) -> io::Result<()> {
    framed(&dive_difference::Document::new(page), &Columns::default(), out)
}

fn framed(document: &impl Serialize, columns: &Columns, out: &mut dyn Write) -> io::Result<()> {
    let (before, after) = FRAME.split_once(PLACE).unwrap_or((FRAME, ""));
    out.write_all(before.as_bytes())?;
    out.write_all(BASE64_STANDARD.encode(packed(document, columns)?).as_bytes())?;
    out.write_all(after.as_bytes())
}

/// The length of the dictionaries in bytes, the dictionaries as JSON, the columns: compressed, with a checksum (zlib).
fn packed(document: &impl Serialize, columns: &Columns) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(document)?;
    let length = u32::try_from(json.len()).map_err(io::Error::other)?;
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::new(9));
    packed.write_all(&length.to_le_bytes())?;
    packed.write_all(&json)?;
    packed.write_all(&columns.bytes)?;
    packed.finish()
}
