//! Lines of a child, as far as they have arrived: reading never waits for it.

use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// Most bytes of a line; a longer one is split.
const LONGEST: usize = 4_096;

/// See the module.
#[derive(Debug)]
pub(super) struct Lines<P> {
    /// None at its end.
    pipe: Option<P>,
    /// The beginning of a line that has not ended yet.
    line: Vec<u8>,
}

impl<P: Read + AsFd> Lines<P> {
    /// # Errors
    /// It cannot be made non-blocking.
    pub(super) fn of(pipe: Option<P>) -> io::Result<Lines<P>> {
        if let Some(pipe) = &pipe {
            fcntl_setfl(pipe, fcntl_getfl(pipe)? | OFlags::NONBLOCK)?;
        }
        Ok(Lines {
            pipe,
            line: Vec::new(),
        })
    }

    /// Takes the lines that have arrived, without their newlines.
    pub(super) fn take(&mut self, mut each: impl FnMut(&[u8])) {
        let Some(pipe) = &mut self.pipe else {
            return;
        };
        let mut part = [0; LONGEST];
        loop {
            let read = match pipe.read(&mut part) {
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                // There is nothing for now.
                Err(_) => break,
                Ok(0) => {
                    self.pipe = None;
                    break;
                }
                Ok(read) => read,
            };
            for &byte in &part[..read] {
                if byte == b'\n' || self.line.len() == LONGEST {
                    each(&self.line);
                    self.line.clear();
                }
                if byte != b'\n' {
                    self.line.push(byte);
                }
            }
        }
        if self.pipe.is_none() && !self.line.is_empty() {
            each(&self.line);
            self.line.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn lines_come_whole_long_ones_in_pieces() {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        let mut lines = Lines::of(Some(reader)).expect("it can be read");
        let mut taken = Vec::new();
        let mut take = |lines: &mut Lines<_>| {
            lines.take(|line| taken.push(String::from_utf8_lossy(line).into_owned()));
            std::mem::take(&mut taken)
        };
        assert!(take(&mut lines).is_empty());
        writer.write_all(b"one\n\ntw").expect("there is room");
        assert_eq!(take(&mut lines), ["one", ""]);
        writer.write_all(b"o\n").expect("there is room");
        writer.write_all(&[b'x'; LONGEST + 1]).expect("there is room");
        let taken_now = take(&mut lines);
        assert_eq!(
            taken_now.iter().map(String::len).collect::<Vec<_>>(),
            [3, LONGEST]
        );
        drop(writer);
        assert_eq!(take(&mut lines), ["x"]);
        assert!(take(&mut lines).is_empty());
    }
}
