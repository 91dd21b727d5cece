//! The text of a dive on its way to a file: copied as it is, the calls in it counted on the way, its size bounded.

use std::io::{self, BufRead, BufReader, BufWriter, Seek, Write};

use dbtime_model::output::{NewFile, Place};
use memchr::memmem::Finder;

use crate::CollectError;

/// Bytes read at once.
pub(super) const CHUNK: usize = 1 << 16;
/// Maximum bytes of a file: a few minutes of a busy session, more than anyone reads.
const MOST: u64 = 1 << 30;

/// The file, which gets its name when it is complete.
#[derive(Debug)]
pub(super) struct Spool {
    place: Place,
    out: BufWriter<NewFile>,
    bytes: u64,
    ends: Vec<EndOfCall>,
}

/// A piece of text that occurs once for each call that has ended.
#[derive(Debug)]
struct EndOfCall {
    finder: Finder<'static>,
    /// The end of the previous text, shorter than the piece.
    before: Vec<u8>,
    found: u64,
}

impl EndOfCall {
    fn look_at(&mut self, text: &[u8]) {
        let length = self.finder.needle().len();
        // A match across two chunks begins in the end of the first, which is too short to hold all of it.
        let mut border = std::mem::take(&mut self.before);
        border.extend(&text[..text.len().min(length - 1)]);
        self.found += self.finder.find_iter(&border).count() as u64;
        self.found += self.finder.find_iter(text).count() as u64;
        self.before = match text.len() >= length - 1 {
            true => text[text.len() - (length - 1)..].to_vec(),
            false => border.split_off(border.len().saturating_sub(length - 1)),
        };
    }
}

impl Spool {
    /// Creates the file, for its owner only. A call has ended wherever one of `ends` occurs.
    ///
    /// # Errors
    /// It cannot be created.
    pub(super) fn create(place: Place, ends: &[String]) -> Result<Spool, CollectError> {
        let file = place.new_file().map_err(|e| CollectError::io(&place.path(), e))?;
        Ok(Spool {
            place,
            out: BufWriter::with_capacity(CHUNK, file),
            bytes: 0,
            ends: ends
                .iter()
                .map(|end| EndOfCall {
                    finder: Finder::new(end).into_owned(),
                    before: Vec::new(),
                    found: 0,
                })
                .collect(),
        })
    }

    /// Adds text of ftrace.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn add(&mut self, text: &[u8]) -> Result<(), CollectError> {
        for end in &mut self.ends {
            end.look_at(text);
        }
        self.write(text)
    }

    /// Adds a line about the dive itself.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn comment(&mut self, key: &str, value: &str) -> Result<(), CollectError> {
        let value = value.lines().map(str::trim).collect::<Vec<_>>().join("; ");
        self.write(format!("# dbtime {key}: {value}\n").as_bytes())
    }

    /// Adds text as it is.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write(&mut self, text: &[u8]) -> Result<(), CollectError> {
        self.bytes += text.len() as u64;
        self.out
            .write_all(text)
            .map_err(|e| CollectError::io(&self.place.path(), e))
    }

    /// Names the file. `lines` (`KEY: VALUE`) are about the dive itself, known only at its end; they go to the top.
    ///
    /// # Errors
    /// The file cannot be written, or there is no space for a copy of it with the lines.
    pub(super) fn finish(self, lines: impl Iterator<Item = String>) -> Result<(), CollectError> {
        let place = self.place;
        let mut lines = lines.peekable();
        let write = || -> io::Result<u64> {
            let mut text = self.out.into_inner().map_err(io::IntoInnerError::into_error)?;
            if lines.peek().is_none() {
                return place.name(text);
            }
            let mut out = BufWriter::with_capacity(CHUNK, place.new_file()?);
            text.file().rewind()?;
            let mut text = BufReader::new(text.file());
            // The first line identifies the format.
            let mut first = Vec::new();
            text.read_until(b'\n', &mut first)?;
            out.write_all(&first)?;
            for line in lines {
                writeln!(out, "# dbtime {line}")?;
            }
            io::copy(&mut text, &mut out)?;
            place.name(out.into_inner().map_err(io::IntoInnerError::into_error)?)
        };
        write()
            .map(|_| ())
            .map_err(|e| CollectError::io(&place.path(), e))
    }

    /// Calls that have ended.
    pub(super) fn calls(&self) -> u64 {
        self.ends.iter().map(|end| end.found).sum()
    }

    /// Bytes so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether it is so large that the dive has to end.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_however_the_text_is_cut() {
        let text = b"x } /* f */ } /* f */\n f();\n } /* ff */ f() } /* f *";
        for size in 1..text.len() {
            let mut end = EndOfCall {
                finder: Finder::new("} /* f */").into_owned(),
                before: Vec::new(),
                found: 0,
            };
            for chunk in text.chunks(size) {
                end.look_at(chunk);
            }
            assert_eq!(end.found, 2, "cut every {size} bytes");
        }
    }
}
