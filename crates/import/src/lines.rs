//! Lines of a byte stream, one at a time, without copying and never longer than [`MAX_LINE`].

use std::io::{self, Read};

/// Longest line that is handed on completely; the rest of a longer one is skipped.
pub const MAX_LINE: usize = 1 << 20;

const CHUNK: usize = 256 * 1024;

/// One line, without its end (`\n` or `\r\n`).
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    /// Counts from 1.
    pub number: u64,
    /// Its text; at most [`MAX_LINE`] bytes.
    pub bytes: &'a [u8],
    /// False for the last line of a stream that does not end with a newline: it may be truncated.
    pub ended: bool,
}

/// Reads lines.
pub struct Lines<R> {
    from: R,
    buffer: Vec<u8>,
    start: usize,
    filled: usize,
    number: u64,
    end: bool,
    failed: Option<io::Error>,
}

impl<R: Read> Lines<R> {
    /// Lines of a stream.
    pub fn new(from: R) -> Lines<R> {
        Lines {
            from,
            buffer: vec![0; CHUNK],
            start: 0,
            filled: 0,
            number: 0,
            end: false,
            failed: None,
        }
    }

    /// The first bytes of the stream, without consuming them; empty only if the stream is.
    pub fn head(&mut self) -> &[u8] {
        while !self.end && self.filled < CHUNK {
            self.fill();
        }
        &self.buffer[self.start..self.filled]
    }

    /// Lines handed on so far.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// What ended the stream before its end (a truncated or damaged compressed file, a bad disk).
    pub fn take_error(&mut self) -> Option<io::Error> {
        self.failed.take()
    }

    /// The next line; none at the end of what can be read.
    #[inline]
    pub fn next_line(&mut self) -> Option<Line<'_>> {
        let mut searched = 0;
        let (length, ended) = loop {
            let open = &self.buffer[self.start..self.filled];
            if let Some(at) = memchr::memchr(b'\n', &open[searched..]) {
                break (searched + at, true);
            }
            searched = open.len();
            if searched >= MAX_LINE {
                break (searched, false);
            }
            if self.end {
                if searched == 0 {
                    return None;
                }
                break (searched, false);
            }
            self.make_room();
            self.fill();
        };
        self.number += 1;
        let cut = !ended && length >= MAX_LINE;
        let from = self.start;
        let mut to = from + length.min(MAX_LINE);
        self.start += length + usize::from(ended);
        let ended = if cut {
            // The line is handed on in place; its rest is skipped behind it.
            self.skip_line(to)
        } else {
            ended
        };
        if ended && to > from && self.buffer[to - 1] == b'\r' {
            to -= 1;
        }
        Some(Line {
            number: self.number,
            bytes: &self.buffer[from..to],
            ended,
        })
    }

    /// Skips the rest of a line, keeping what is before `keep`. False if the stream ended first.
    fn skip_line(&mut self, keep: usize) -> bool {
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.buffer[self.start..self.filled]) {
                self.start += at + 1;
                return true;
            }
            self.start = keep;
            self.filled = keep;
            if self.end {
                return false;
            }
            if self.buffer.len() < keep + CHUNK {
                self.buffer.resize(keep + CHUNK, 0);
            }
            self.fill();
        }
    }

    fn make_room(&mut self) {
        self.buffer.copy_within(self.start..self.filled, 0);
        self.filled -= self.start;
        self.start = 0;
        if self.buffer.len() - self.filled < CHUNK / 2 {
            self.buffer.resize(self.filled + CHUNK, 0);
        }
    }

    fn fill(&mut self) {
        match self.from.read(&mut self.buffer[self.filled..]) {
            Ok(0) => self.end = true,
            Ok(n) => self.filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => {
                self.failed = Some(e);
                self.end = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &[u8]) -> Vec<(Vec<u8>, bool)> {
        let mut lines = Lines::new(text);
        let mut found = Vec::new();
        while let Some(line) = lines.next_line() {
            found.push((line.bytes.to_vec(), line.ended));
        }
        found
    }

    #[test]
    fn a_last_line_without_newline_is_marked() {
        assert_eq!(
            all(b"a\r\n\nb"),
            [
                (b"a".to_vec(), true),
                (b"".to_vec(), true),
                (b"b".to_vec(), false)
            ]
        );
        assert!(all(b"").is_empty());
    }

    #[test]
    fn a_line_longer_than_the_limit_is_cut_and_the_next_one_is_whole() {
        for excess in [0, 1, CHUNK, 3 * CHUNK + 7, MAX_LINE * 2] {
            let mut text = vec![b'x'; MAX_LINE + excess];
            text.extend_from_slice(b"\nnext\n");
            let found = all(&text);
            assert_eq!(found.len(), 2, "{excess}");
            assert!(found[0].0.len() == MAX_LINE && found[0].1, "{excess}");
            assert_eq!(found[1], (b"next".to_vec(), true), "{excess}");
        }
        let endless = all(&vec![b'x'; MAX_LINE * 2 + 5]);
        assert!(endless.len() == 1 && endless[0].0.len() == MAX_LINE && !endless[0].1);
    }

    #[test]
    fn many_lines_pass_the_ends_of_the_buffer() {
        let text: Vec<u8> = (0..200_000)
            .flat_map(|n| format!("line {n}\n").into_bytes())
            .collect();
        let found = all(&text);
        assert_eq!(found.len(), 200_000);
        assert_eq!(found[199_999].0, b"line 199999");
    }
}
