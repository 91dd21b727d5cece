//! Reads a file ahead in a thread of its own: while lines are parsed, the next part is copied from the operating system, or decompressed.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// Bytes handed on at a time: enough for the handover to cost little, few enough for the caches of a CPU.
const CHUNK: usize = 256 * 1024;

/// Most chunks waiting to be parsed.
const WAITING: usize = 2;

/// What was read ahead.
pub(crate) struct ReadAhead {
    chunks: Receiver<io::Result<Vec<u8>>>,
    /// Returns the memory of chunks.
    used: SyncSender<Vec<u8>>,
    chunk: Vec<u8>,
    at: usize,
}

/// Where the reading thread puts it.
pub(crate) struct Sink {
    chunks: SyncSender<io::Result<Vec<u8>>>,
    used: Receiver<Vec<u8>>,
}

/// Runs both at the same time: `read` opens a file and fills the sink, `parse` consumes what was read.
pub(crate) fn read_ahead<T>(
    read: impl FnOnce(&Sink) -> io::Result<()> + Send,
    parse: impl FnOnce(ReadAhead) -> T,
) -> T {
    let (chunks_to, chunks) = sync_channel(WAITING);
    let (used_to, used) = sync_channel(WAITING);
    thread::scope(|scope| {
        scope.spawn(move || {
            let sink = Sink {
                chunks: chunks_to,
                used,
            };
            if let Err(e) = read(&sink) {
                // It is lost if parsing has ended.
                let _ = sink.chunks.send(Err(e));
            }
        });
        parse(ReadAhead {
            chunks,
            used: used_to,
            chunk: Vec::new(),
            at: 0,
        })
    })
}

impl Sink {
    /// Hands on all that is in `source`, as long as the other side receives it.
    ///
    /// # Errors
    /// It cannot be read any further; what came before is handed on.
    pub(crate) fn fill(&self, mut source: impl Read) -> io::Result<()> {
        loop {
            let mut chunk = self.used.try_recv().unwrap_or_default();
            chunk.resize(CHUNK, 0);
            let (filled, end) = fill(&mut source, &mut chunk);
            chunk.truncate(filled);
            if filled > 0 && self.chunks.send(Ok(chunk)).is_err() {
                return Ok(());
            }
            if let Some(end) = end {
                return end;
            }
        }
    }
}

/// Reads until the buffer is full or nothing more comes: returns how much, and how it ended if it did.
fn fill(source: &mut impl Read, buffer: &mut [u8]) -> (usize, Option<io::Result<()>>) {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read(&mut buffer[filled..]) {
            Ok(0) => return (filled, Some(Ok(()))),
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return (filled, Some(Err(e))),
        }
    }
    (filled, None)
}

impl Read for ReadAhead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.chunk.len() {
            let Ok(next) = self.chunks.recv() else {
                return Ok(0);
            };
            let used = std::mem::replace(&mut self.chunk, next?);
            self.at = 0;
            // The memory is reused as long as reading goes on.
            let _ = self.used.try_send(used);
        }
        let read = (&self.chunk[self.at..]).read(buffer)?;
        self.at += read;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives so many bytes at a time, and then an error.
    struct Failing {
        left: usize,
        step: usize,
    }

    impl Read for Failing {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.left == 0 {
                return Err(io::Error::other("the disk is bad"));
            }
            let n = self.step.min(self.left).min(buffer.len());
            buffer[..n].fill(b'x');
            self.left -= n;
            Ok(n)
        }
    }

    #[test]
    fn what_is_read_is_what_is_in_the_file() {
        for length in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 7 * CHUNK + 11] {
            let bytes: Vec<u8> = (0..length).map(|n| (n * 31 % 251) as u8).collect();
            let read = read_ahead(
                |sink| sink.fill(bytes.as_slice()),
                |mut ahead| {
                    let mut read = Vec::new();
                    ahead.read_to_end(&mut read).map(|_| read)
                },
            );
            assert!(read.expect("no error") == bytes, "{length}");
        }
    }

    #[test]
    fn what_comes_before_an_error_is_read_and_the_error_is_told() {
        for (left, step) in [(0, 1), (5, 2), (3 * CHUNK + 1, 1_000)] {
            let (read, error) = read_ahead(
                |sink| sink.fill(Failing { left, step }),
                |mut ahead| {
                    let mut read = Vec::new();
                    let error = ahead.read_to_end(&mut read).expect_err("the error");
                    (read.len(), error.to_string())
                },
            );
            assert_eq!((read, error.as_str()), (left, "the disk is bad"));
        }
    }

    #[test]
    fn the_thread_ends_when_nobody_reads_any_further() {
        let first = read_ahead(
            |sink| sink.fill(io::repeat(7)),
            |mut ahead| {
                let mut first = [0; 3];
                ahead.read_exact(&mut first).map(|()| first)
            },
        );
        assert_eq!(first.expect("bytes"), [7; 3]);
    }
}
